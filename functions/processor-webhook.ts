import { bodyLimit } from 'hono/body-limit'
import { createApp, maxEventBytes, onlyMethods } from '../lib/api/app.ts'
import { type CountEnv, countSoon } from '../lib/tracking/count-soon.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import { applyEvent } from '../lib/processors/apply-event.ts'
import { askStripe } from '../lib/processors/stripe/ask.ts'
import { openStripe, type StripeEnv } from '../lib/processors/stripe/client.ts'
import { seal } from '../lib/processors/seal.ts'
import { readEvent, verifyWebhookEvent } from '../lib/processors/stripe/read-event.ts'

const paths = ['/', '/api/v1/webhooks/stripe']
const app = createApp<
  DatabaseEnv & RelayEnv & CountEnv & StripeEnv & { EMAIL_HASH_KEY: string; STRIPE_WEBHOOK_SECRET: string }
>()

const limitEvent = bodyLimit({
  maxSize: maxEventBytes,
  onError: () => {
    throw new ApiError('payload_too_large', 'The event may be at most 1 MiB.')
  },
})

/**
 * POST /api/v1/webhooks/stripe, signed by Stripe: one event of a connected account. 200 `{success, outcome, reason}`: the outcome is
 * recorded, duplicate, ignored or parked, and each is final. 400 `invalid_signature`. 503 `unavailable` if the database or Stripe's API did
 * not respond. In that case nothing is recorded, and Stripe delivers the event again.
 */
app.on('POST', paths, limitEvent, async (c) => {
  const body = await c.req.text()
  const verified = await verifyWebhookEvent(body, c.req.header('stripe-signature'), c.env.STRIPE_WEBHOOK_SECRET)
  const event = await readEvent(verified, (email) => emailHash(c.env.EMAIL_HASH_KEY, email))
  if (event.livemode && 'unread' in event.fact)
    event.payload = await seal(c.env.EMAIL_HASH_KEY, 'unread webhook payload', event.event_id, body)
  const { outcome, reason, outbox } = await applyEvent(openDatabase(c.env), askStripe(openStripe(c.env)), event)
  console.log(
    JSON.stringify({
      function: 'processor-webhook',
      event_id: event.event_id,
      type: event.event_type,
      outcome,
      reason,
    }),
  )
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  countSoon(c.env, (work) => c.executionCtx.waitUntil(work))
  return c.json({ success: true, outcome, reason })
})
for (const path of paths) app.all(path, onlyMethods('POST'))

export default app
