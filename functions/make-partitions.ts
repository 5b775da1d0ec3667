import { call, type DatabaseEnv, openDatabase } from '../lib/database.ts'

const monthsAhead = 3

/** Scheduled: creates the monthly partitions of the event tables in advance. Writes also work without these partitions. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const rows = await openDatabase(env).query(call('make_event_partitions', { months_ahead: monthsAhead }))
    const created = rows.map((row) => row.make_event_partitions)
    if (created.length > 0) console.log(JSON.stringify({ function: 'make-partitions', created }))
  },
}
