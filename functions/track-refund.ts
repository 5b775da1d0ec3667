import { checkKey, type KeyedEnv, readKey } from '../lib/api/api-key.ts'
import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept, ignoredFields } from '../lib/api/input.ts'
import { refundRequest } from '../lib/api/track-refund.ts'
import { openDatabase } from '../lib/database.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import { type CountEnv, countSoon } from '../lib/tracking/count-soon.ts'

const app = createApp<KeyedEnv & RelayEnv & CountEnv>()

/**
 * POST /api/v1/track/refund, program API key. Body: `refundRequest`. Without an amount, or with 0, it refunds the rest of the sale. 200
 * `{success, status: reversed | refunded, deductionAmount, deduction_cents, currency, commission_id}`, `{success, status: skipped, reason,
 * commission_id}` or `{success, status: no_commission, message}`; 404 `not_found`.
 */
for (const path of ['/', '/api/v1/track/refund']) {
  app.post(path, limitBody, readKey, accept('json', refundRequest, checkKey('refund')), async (c) => {
    const body = c.req.valid('json')
    const amountCents = body.refund_amount_cents || null
    const refund = {
      amount_cents: amountCents,
      refund_id: amountCents === null ? null : (body.refund_id ?? null),
      reason: body.reason ?? 'refund',
      reason_text: body.refund_reason?.trim() || null,
    }
    const { applied, outbox } = await refundSale(
      openDatabase(c.env),
      c.get('keyHash'),
      body.transaction_id,
      refund,
      c.get('requestId'),
    )
    // The messages are already in the outbox. If this call can't send them, the relay does.
    c.executionCtx.waitUntil(sendSoon(c.env, outbox))
    countSoon(c.env, (work) => c.executionCtx.waitUntil(work))
    return c.json({ success: true, ...applied, ...ignoredFields(body) })
  })
  app.all(path, onlyMethods('POST'))
}

export default app
