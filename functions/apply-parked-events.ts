import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { openStripe, type StripeEnv } from '../lib/stripe/client.ts'
import { applyParkedEvents } from '../lib/stripe/parked-events.ts'

const limit = 500

/**
 * Scheduled: applies webhook events that waited for their account to be connected again, or for what Stripe converted. What they
 * write into the outbox is sent by `relay-outbox`.
 */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & StripeEnv): Promise<void> {
    const { applied, failed } = await applyParkedEvents(openDatabase(env), openStripe(env), { limit })
    if (applied + failed > 0) console.log(JSON.stringify({ function: 'apply-parked-events', applied, failed }))
  },
}
