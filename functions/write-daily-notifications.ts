import { call, type DatabaseEnv, openDatabase } from '../lib/database.ts'

/** Scheduled: tells partners what they earned the day before (UTC), and advertisers once a week that payouts are due. The relay sends what this writes. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const told = await openDatabase(env).query(call('write_daily_notifications', { moment: new Date() }))
    if (told.length > 0) console.log(JSON.stringify({ function: 'write-daily-notifications', told: told.length }))
  },
}
