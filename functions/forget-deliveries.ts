import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { forgetDeliveries } from '../lib/stripe/webhook-events.ts'

/** Scheduled: deletes the processor's deliveries, and what was parked for them, after 90 days. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const forgotten = await forgetDeliveries(openDatabase(env))
    if (forgotten > 0) console.log(JSON.stringify({ function: 'forget-deliveries', forgotten }))
  },
}
