import { attempt, type Failures, throwFailures } from '../lib/batches.ts'
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
    const failures: Failures = new Map()
    const none = { applied: 0, failed: 0 }
    const events = () => applyParkedEvents(db, stripe, { limit })
    const { applied, failed } = await attempt(failures, 'events', events, none)
    if (applied + failed > 0) console.log(JSON.stringify({ function: 'apply-parked-events', applied, failed }))
    const disabled = await attempt(failures, 'codes', () => disableRevoked(db, env, { limit }), 0)
    if (disabled > 0) console.log(JSON.stringify({ function: 'apply-parked-events', disabled }))
    for (const programId of await listRunningBackfills(db)) {
      const of = { programId, seconds: backfillSeconds }
      await attempt(failures, `program ${programId}`, () => continueBackfill(db, stripe, env.EMAIL_HASH_KEY, of), [])
    }
    throwFailures('apply-parked-events', failures)
  },
}
