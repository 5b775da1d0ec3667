import { call, type DatabaseEnv, openDatabase } from '../lib/database.ts'

/**
 * Scheduled: notifies partners of their earnings of the previous day (UTC), and advertisers of due payouts once a
 * week. The relay sends these notifications.
 */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const written = await openDatabase(env).query(call('write_daily_notifications', { moment: new Date() }))
    if (written.length > 0)
      console.log(JSON.stringify({ function: 'write-daily-notifications', notifications: written.length }))
  },
}
