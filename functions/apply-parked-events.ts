import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { continueBackfill, listRunningBackfills } from '../lib/processors/stripe/backfill.ts'
import { disableRevoked } from '../lib/programs/promotion-codes.ts'
import { openStripe, type StripeEnv } from '../lib/processors/stripe/client.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'

const limit = 500
/** The number of seconds that each run spends on each account's past payments. */
const backfillSeconds = 60

/**
 * Scheduled: applies parked webhook events if their account, conversion or buyer is now known. Then it deactivates the promotion codes of
 * former partners and continues to read the past payments of accounts. `relay-outbox` sends the resulting messages.
 */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & StripeEnv & { EMAIL_HASH_KEY: string }): Promise<void> {
    const db = openDatabase(env)
    const stripe = openStripe(env)
    const { applied, failed } = await applyParkedEvents(db, stripe, { limit })
    if (applied + failed > 0) console.log(JSON.stringify({ function: 'apply-parked-events', applied, failed }))
    const disabled = await disableRevoked(db, env, { limit })
    if (disabled > 0) console.log(JSON.stringify({ function: 'apply-parked-events', disabled }))
    for (const programId of await listRunningBackfills(db)) {
      await continueBackfill(db, stripe, env.EMAIL_HASH_KEY, { programId, seconds: backfillSeconds })
    }
  },
}
