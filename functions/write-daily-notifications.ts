import { attempt, type Failures, throwFailures, workOnPrograms } from '../lib/batches.ts'
import { call, type DatabaseEnv, openDatabase } from '../lib/database.ts'
import type { AddressEnv } from '../lib/notifications/public-address.ts'
import { listProgramIds } from '../lib/programs/programs.ts'
import { checkHosts } from '../lib/programs/hosts.ts'

/**
 * Scheduled: notifies partners of their earnings of the previous day (UTC), and advertisers of due payouts once a
 * week. Also checks the DNS records of programs' own domains, and notifies programs whose domain it disables. The relay sends these
 * notifications.
 */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & AddressEnv): Promise<void> {
    const db = openDatabase(env)
    const failures: Failures = new Map()
    const moment = new Date()
    const write = (programId: number | null) =>
      db.query(call('write_daily_notifications', { moment, of_program_id: programId }))
    const writeAll = () => workOnPrograms(failures, () => listProgramIds(db), write)
    const written = (await attempt(failures, 'notifications', writeAll, [])).flat()
    const disabled_hosts = await attempt(failures, 'hosts', () => checkHosts(db, env), 0)
    if (written.length + disabled_hosts > 0)
      console.log(
        JSON.stringify({ function: 'write-daily-notifications', notifications: written.length, disabled_hosts }),
      )
    throwFailures('write-daily-notifications', failures)
  },
}
