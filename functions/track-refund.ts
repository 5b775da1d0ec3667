import { type KeyedEnv, readKeyedJson } from '../lib/access/api-keys.ts'
import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { refundRequest } from '../lib/api/track-refund.ts'

const paths = ['/', '/api/v1/track/refund']
const app = createApp<KeyedEnv & RelayEnv>()

/**
 * POST /api/v1/track/refund, program API key. Body: `refundRequest`; without an amount, or with 0, all that is left is refunded.
 * 200 `{success, status: reversed | refunded, deductionAmount, deduction_cents, currency, commission_id}`, or `{success, status:
 * skipped, reason, commission_id}`, or `{success, status: no_commission, message}`; 404 `not_found`.
 */
app.on('POST', paths, limitBody, async (c) => {
  const { db, keyHash, body } = await readKeyedJson(c, refundRequest)
  const amountCents = body.refund_amount_cents || null
  const refund = {
    amount_cents: amountCents,
    refund_id: amountCents === null ? null : (body.refund_id ?? null),
    reason: body.reason ?? 'refund',
    reason_text: body.refund_reason?.trim() || null,
  }
  const { applied, outbox } = await refundSale(db, keyHash, body.transaction_id, refund, c.get('requestId'))
  // The rows are in the outbox already: what is not sent here, the relay sends.
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return c.json({ success: true, ...applied })
})
for (const path of paths) app.all(path, onlyMethods('POST'))

export default app
