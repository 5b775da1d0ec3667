import { describe, expect, test } from 'vitest'
import { apiKeyHash, generateApiKey } from '../lib/access/api-keys.ts'
import { charge, dispute, type Generation, invoicePayment, refund, type Shop } from '../lib/local/stripe-events.ts'
import { rejectCommission } from '../lib/money/commissions.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { bill, oneTime, paidBy } from './support/payments.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState, reported, type Report } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, sold, report, stripe, rows, salesOf } = await openWebhook(endpoint)

async function byEndpoint(shop: Shop, refundId: string) {
  const { key, hint } = await generateApiKey()
  const keyHash = await apiKeyHash(`Bearer ${key}`)
  await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)`, [
    shop.programId,
    keyHash,
    hint,
  ])
  const applied = { amount_cents: 3000, refund_id: refundId, reason: 'refund', reason_text: null } as const
  return (await refundSale(db, keyHash, 'pi_1', applied, crypto.randomUUID())).applied
}

describe.each<Generation>(['old', 'new'])('refunds, in payloads of the %s generation', (generation) => {
  test.for<[what: string, events: Report[], refunded: number]>([
    ['a partial refund', [reported('re_1', 3000)], 3000],
    ['a full refund', [reported('re_1', 10_000)], 10_000],
    ['two partial refunds', [reported('re_1', 3000), reported('re_2', 2000)], 5000],
    ['two refunds of the same amount', [reported('re_1', 3000), reported('re_2', 3000)], 6000],
    ['a refund reported as pending, then as paid', [reported('re_1', 3000, 'pending'), reported('re_1', 3000)], 3000],
    ['a failed refund', [reported('re_1', 3000, 'pending'), reported('re_1', 3000, 'failed')], 0],
    ['a canceled refund', [reported('re_1', 3000), reported('re_1', 3000, 'canceled')], 0],
    ['a refund whose failure arrives first', [reported('re_1', 3000, 'failed'), reported('re_1', 3000, 'pending')], 0],
    [
      'a failed refund beside a successful one',
      [reported('re_1', 3000), reported('re_2', 1000), reported('re_1', 3000, 'failed')],
      1000,
    ],
    ['refunds of more than the payment', [reported('re_1', 8000), reported('re_2', 8000)], 10_000],
  ])('%s', async ([, events, refunded]) => {
    const shop = await sold({ generation })
    for (const event of events) await report(shop, ...event)
    const status = { 0: 'pending', 10_000: 'reversed' }[refunded] ?? 'refunded'
    expect(await salesOf(shop)).toMatchObject([{ refunded, reversed: refunded / 5, status }])
  })

  test.each([
    ['NUL', 'paid\0'],
    ['a lone surrogate', 'paid\ud83d'],
    ['5,000 characters', 'x'.repeat(5000)],
  ])('a status with %s moves nothing, and the log stores none of it', async (_, status) => {
    const shop = await sold({ generation })
    const answer = await send(shop, 'refund.updated', { ...refund(shop, { id: 're_1', amount: 3000 }), status })
    expect(answer).toMatchObject({
      status: 200,
      body: { outcome: 'ignored', reason: expect.stringMatching(/^.{0,300}$/) },
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0 }])
  })

  test('a refund of a renewal is applied, even if the payment no longer refers to an invoice', async () => {
    const shop = await createShop(sql, { generation })
    await send(shop, 'invoice.payment_succeeded', bill(shop))
    if (generation === 'new') {
      await send(
        shop,
        'invoice_payment.paid',
        invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
      )
    }
    const answer = await report(shop, 're_1', 5000)
    expect(answer).toMatchObject({ body: { outcome: 'recorded' }, requests: 1 })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 1000, payment_intent: 'pi_1' }])
  })

  test('an event before its sale is parked, and applied in the transaction that records the sale', async () => {
    const shop = await createShop(sql, { generation })
    expect(await report(shop, 're_1', 3000)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await report(shop, 're_2', 1000, 'failed')).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await report(shop, 're_2', 1000, 'pending')).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await report(shop, 'dp_1', 2000)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await send(shop, 'checkout.session.completed', oneTime(shop))).toMatchObject({
      body: { outcome: 'recorded' },
      requests: 1,
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 1000, status: 'refunded' }])
    expect(
      await rows(
        'select distinct outcome from processor_events where account_id = (select processor_account_id from programs where id = $1)',
        shop,
      ),
    ).toEqual([{ outcome: 'recorded' }])
  })

  test('`charge.refunded` applies the refunds of the charge, never their running total', async () => {
    const shop = await sold({ generation })
    stripe.refunds.set('ch_1', [
      refund(shop, { id: 're_1', amount: 1000 }),
      refund(shop, { id: 're_2', amount: 2000, status: 'failed' }),
      refund(shop, { id: 're_3', amount: 4000, status: 'pending' }),
    ])
    const total = charge(shop, { id: 'ch_1', amount: 10_000, refunded: 7000, payment_intent: 'pi_1' })
    await report(shop, 're_1', 1000)
    expect(await send(shop, 'charge.refunded', total)).toMatchObject({
      status: 200,
      body: { outcome: 'recorded' },
      requests: 1,
    })
    expect(await send(shop, 'charge.refunded', total)).toMatchObject({
      body: { outcome: 'duplicate', reason: 'Another event already reported it.' },
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 1000 }])
    stripe.refunds.delete('ch_1')
  })

  test.each([
    ['is too large', { amount: 10_000_000_000_000, currency: 'idr' }, 'its amount is larger'],
    ['has its currency in capitals', { amount: 10, currency: 'USD' }, 'sends this currency'],
  ])("a refund that %s doesn't affect the charge's other refunds", async (_, broken, reason) => {
    const shop = await sold({ generation })
    stripe.refunds.set('ch_1', [
      { ...refund(shop, { id: 're_1', amount: 10 }), ...broken },
      refund(shop, { id: 're_2', amount: 2000 }),
    ])
    const total = charge(shop, { id: 'ch_1', amount: 10_000, refunded: 2010, payment_intent: 'pi_1' })
    const answer = await send(shop, 'charge.refunded', total)
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
    expect(answer.body.reason).toContain('Refund re_1 was ignored')
    expect(answer.body.reason).toContain(reason)
    expect(await salesOf(shop)).toMatchObject([{ refunded: 2000, reversed: 400 }])
    stripe.refunds.set('ch_1', [{ ...refund(shop, { id: 're_3', amount: 10 }), ...broken }])
    expect(await send(shop, 'charge.refunded', total)).toMatchObject({ status: 200, body: { outcome: 'ignored' } })
    stripe.refunds.delete('ch_1')
  })

  test('a refund from the webhook and from the endpoint with the same id counts once', async () => {
    const first = await sold({ generation })
    await report(first, 're_1', 3000)
    expect(await byEndpoint(first, 're_1')).toMatchObject({ status: 'skipped', reason: 'refund_already_applied' })
    const second = await sold({ generation })
    expect(await byEndpoint(second, 're_1')).toMatchObject({ status: 'refunded' })
    await report(second, 're_1', 3000)
    for (const shop of [first, second]) expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    await report(second, 're_1', 3000, 'failed')
    expect(await salesOf(second)).toMatchObject([{ refunded: 0, reversed: 0 }])
    const third = await sold({ generation })
    await report(third, 're_1', 3000, 'failed')
    expect(await byEndpoint(third, 're_1')).toMatchObject({ status: 'skipped' })
    expect(await salesOf(third)).toMatchObject([{ refunded: 0, reversed: 0 }])
  })

  test("a refund from the endpoint with its own id matches Stripe's refund with the same amount", async () => {
    const known = { status: 'skipped', reason: 'refund_already_applied' }
    const taken = { status: 'refunded' }
    const shop = await sold({ generation })
    const refunded = async () => (await salesOf(shop))[0]?.['refunded']
    expect(await byEndpoint(shop, 'shop-1')).toMatchObject(taken)
    await report(shop, 're_1', 3000)
    expect(await refunded()).toBe(3000)
    await report(shop, 're_2', 3000)
    expect(await byEndpoint(shop, 'shop-2')).toMatchObject(known)
    expect(await refunded()).toBe(6000)
    expect(await byEndpoint(shop, 'shop-3')).toMatchObject(taken)
    for (const id of ['shop-1', 'shop-2', 'shop-3']) expect(await byEndpoint(shop, id)).toMatchObject(known)
    expect(await refunded()).toBe(9000)
    await report(shop, 're_1', 3000, 'failed')
    await report(shop, 're_2', 3000, 'failed')
    expect(await refunded()).toBe(3000)
    await report(shop, 're_3', 3000, 'failed')
    expect(await byEndpoint(shop, 'shop-3')).toMatchObject(known)
    expect(await refunded()).toBe(0)
  })

  test("a refund call with Stripe's id matches Stripe's refund, even if another refund of that amount arrives first", async () => {
    const shop = await sold({ generation })
    await byEndpoint(shop, 're_1')
    await report(shop, 're_2', 3000)
    await report(shop, 're_1', 3000)
    await report(shop, 're_2', 3000, 'failed')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
  })

  test('a rejected commission stays rejected', async () => {
    const shop = await sold({ generation })
    await report(shop, 're_1', 3000)
    const [commission] = await rows('select id::int from commissions where program_id = $1', shop)
    await rejectCommission(db, shop.programId, Number(commission?.['id']), 'fraud')
    await report(shop, 're_1', 3000, 'failed')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 2000, status: 'reversed' }])
  })
})

const aRefund = (shop: Shop) =>
  send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 5000, payment_intent: 'pi_7', charge: 'ch_7' }))

describe("Stripe's API", () => {
  test('returns the invoice of a payment without an event, and the service stores it', async () => {
    const shop = await createShop(sql)
    await send(shop, 'invoice.payment_succeeded', bill(shop))
    stripe.invoices.set('pi_7', 'in_1')
    stripe.calls.length = 0
    expect(await aRefund(shop)).toMatchObject({ body: { outcome: 'recorded' }, requests: 2 })
    expect(stripe.calls).toEqual([
      `GET /v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_7&limit=1 ${shop.account}`,
    ])
    expect(
      await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 1, payment_intent: 'pi_7' })),
    ).toMatchObject({ requests: 1 })
    expect(stripe.calls).toHaveLength(1)
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5001, payment_intent: 'pi_7' }])
    stripe.invoices.clear()
  })

  test.for<[string, number]>([
    ['answers 500', 500],
    ['answers 429', 429],
    ['breaks the connection', 0],
  ])(
    'if it %s three times, the event is answered with 503 and nothing is recorded; a new delivery is applied',
    async ([, status]) => {
      const shop = await createShop(sql)
      await send(shop, 'invoice.payment_succeeded', bill(shop))
      stripe.invoices.set('pi_7', 'in_1')
      stripe.fail(status, status === 429 ? 1 : 3)
      expect(await aRefund(shop)).toMatchObject({ status: 503, body: { error: { code: 'unavailable' } } })
      expect(
        await rows(`select event_id from processor_events where program_id = $1 and event_type like 'refund%'`, shop),
      ).toEqual([])
      expect(
        await rows(
          'select 1 from processor_reversals where account_id = (select processor_account_id from programs where id = $1)',
          shop,
        ),
      ).toEqual([])
      expect(await aRefund(shop)).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
      expect(await salesOf(shop)).toMatchObject([{ refunded: 5000 }])
      stripe.invoices.clear()
    },
  )

  test.for([
    ['a failed request is retried at once', 500],
    ['the refund of an unknown payment is parked', 404],
  ] as const)('%s', async ([, status]) => {
    const shop = await createShop(sql)
    stripe.fail(status, 1)
    expect(await aRefund(shop)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
  })
})

const inEuros = (shop: Shop, more: object = {}) => ({
  ...refund(shop, { id: 're_1', amount: 4500, currency: 'eur', charge: 'ch_1', payment_intent: 'pi_1' }),
  ...more,
})
const disputedInEuros = (shop: Shop) => dispute(shop, { id: 'dp_1', amount: 4500, currency: 'eur', ...paidBy })

describe('a refund or dispute in a different currency than its sale', () => {
  const transaction = { id: 'txn_1', amount: -5000, currency: 'usd', exchange_rate: 1.1111 }
  const half = { refunded: 5000, reversed: 1000, status: 'refunded' }
  /** A charge of 100.00 dollars that became 90.00 euros in the account. */
  const chargedIn = {
    object: 'charge',
    amount: 10_000,
    currency: 'usd',
    balance_transaction: { amount: 9000, currency: 'eur' },
  }

  test.for<
    [what: string, asked: Record<string, object>, object: (shop: Shop) => Record<string, unknown>, asks: number]
  >([
    ['whose balance transaction is expanded', {}, (shop) => inEuros(shop, { balance_transaction: transaction }), 0],
    [
      'whose balance transaction is fetched from Stripe',
      { re_1: { amount: 4500, currency: 'eur', balance_transaction: transaction } },
      inEuros,
      1,
    ],
    [
      'whose charge was converted',
      { re_1: { amount: 4500, currency: 'eur', balance_transaction: 'txn_1', charge: { ...chargedIn } } },
      inEuros,
      1,
    ],
    ['from a dispute', { ch_1: chargedIn }, disputedInEuros, 1],
  ])("is reversed in proportion by Stripe's own conversion: one %s", async ([, asked, object, asks]) => {
    for (const [id, known] of Object.entries(asked)) stripe.objects.set(id, { id, ...known })
    for (const order of ['sale first', 'sale last']) {
      const shop = await createShop(sql)
      const paid = () => send(shop, 'checkout.session.completed', oneTime(shop))
      const reversed = object(shop)
      const type = reversed['object'] === 'dispute' ? 'charge.dispute.funds_withdrawn' : 'refund.created'
      if (order === 'sale first') await paid()
      stripe.calls.length = 0
      expect(await send(shop, type, reversed)).toMatchObject({
        body: { outcome: order === 'sale first' ? 'recorded' : 'parked' },
      })
      if (order === 'sale first') expect(stripe.calls).toHaveLength(asks)
      else await paid()
      await applyParkedEvents(db, openStripe(env), { limit: 100 })
      expect(await salesOf(shop), order).toMatchObject([half])
      expect(await send(shop, type, reversed)).toMatchObject({ body: { outcome: 'duplicate' } })
      const back = type === 'refund.created' ? 'refund.failed' : 'charge.dispute.funds_reinstated'
      await send(shop, back, { ...reversed, status: type === 'refund.created' ? 'failed' : 'won' })
      expect(await salesOf(shop), order).toMatchObject([{ refunded: 0, reversed: 0 }])
      expect(await rows(`select from outbox where kind = 'refund_not_converted' and program_id = $1`, shop)).toEqual([])
    }
    stripe.objects.clear()
  })

  test.each(['sale first', 'sale last'])('raises one notification if Stripe converted nothing: %s', async (order) => {
    const shop = await createShop(sql)
    const paid = () => send(shop, 'checkout.session.completed', oneTime(shop))
    if (order === 'sale first') await paid()
    await send(shop, 'refund.created', inEuros(shop))
    if (order === 'sale last') await paid()
    await applyParkedEvents(db, openStripe(env), { limit: 100 })
    await send(shop, 'refund.updated', inEuros(shop))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0 }])
    expect(
      await rows(`select payload from outbox where kind = 'refund_not_converted' and program_id = $1`, shop),
    ).toEqual([{ payload: { transaction_id: 'pi_1', amount_cents: 4500, currency: 'eur', reason: 'refund' } }])
  })
})

testStoredState(sql)
