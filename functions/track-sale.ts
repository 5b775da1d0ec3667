import { checkKey, type KeyedEnv, readKey } from '../lib/api/api-key.ts'
import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept, ignoredFields } from '../lib/api/input.ts'
import { saleRequest, taxOf } from '../lib/api/track-sale.ts'
import { openDatabase } from '../lib/database.ts'
import { recordSale } from '../lib/money/sales.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import { clickIdOrNull } from '../lib/tracking/clicks.ts'
import { type CountEnv, countSoon } from '../lib/tracking/count-soon.ts'
import { isTestEvent } from '../lib/tracking/test-links.ts'

const paths = ['/', '/api/v1/track/sale']
const app = createApp<KeyedEnv & CountEnv & RelayEnv>()

/**
 * POST /api/v1/track/sale, program API key. Body: `saleRequest`. 200 `{success, sale_id, transaction_id, attributed,
 * commission_id, commission_cents, currency, warning?}`; 409 `duplicate_transaction` with `same_payload` and the
 * stored sale's `sale_id`, `attributed` and `commission_id`.
 */
for (const path of paths) {
  app.post(path, limitBody, readKey, accept('json', saleRequest, checkKey('sale')), async (c) => {
    const body = c.req.valid('json')
    const isRecurring = body.is_recurring ?? body.isRecurring ?? false
    const sale = {
      transaction_id: body.transaction_id,
      customer_key: body.customer_key,
      click_id: clickIdOrNull(body.click_id || body.clickId),
      coupon: body.coupon?.trim() || null,
      amount_cents: body.amount_cents,
      tax_cents: taxOf(body),
      currency: body.currency ?? null,
      sale_type: body.sale_type ?? body.saleType ?? (isRecurring ? 'subscription' : 'payment'),
      is_recurring: isRecurring,
      subscription_id: body.subscription_id ?? body.subscriptionId ?? null,
      is_test: isTestEvent(body, body.click_id || body.clickId),
      additional_data: body.additional_data ?? null,
      correct_currency: body.correct_currency ?? false,
    }
    const programId = body.additional_data?.program_id ?? null
    const { outbox, ...recorded } = await recordSale(
      openDatabase(c.env),
      c.get('keyHash'),
      sale,
      programId,
      c.get('requestId'),
    )
    if (outbox.length > 0) c.executionCtx.waitUntil(sendSoon(c.env, outbox))
    countSoon(c.env, (work) => c.executionCtx.waitUntil(work))
    return c.json({ success: true, ...recorded, ...ignoredFields(body) })
  })
  app.all(path, onlyMethods('POST'))
}

export default app
