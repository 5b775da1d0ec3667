import { describe, expect, test } from 'vitest'
import { type Generation, invoicePayment, refund, type Shop } from '../lib/local/stripe-events.ts'
import { bill, firstPayment, oneTime, paidBy } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const { send, rows, salesOf } = await openWebhook(endpoint)

const both = (shop: Shop) => [
  () => send(shop, 'checkout.session.completed', firstPayment(shop)),
  () => send(shop, 'invoice.payment_succeeded', bill(shop, { billing_reason: 'subscription_create' })),
]

type SaleCase = [string, string, (shop: TestShop) => Record<string, unknown>, Record<string, unknown>]

const currencies: [what: string, currency: string, sent: number, amount: number][] = [
  ['yen have no decimals', 'jpy', 5000, 5000],
  ['dinars have three decimals', 'kwd', 12_340, 12_340],
  ['Icelandic krónur have no decimals but are sent with two', 'isk', 5_000_00, 5000],
  ['Ugandan shillings have no decimals but are sent with two', 'ugx', 7_000_00, 7000],
  ['ariary have two decimals but are sent with none', 'mga', 5000, 500_000],
]

describe.each<Generation>(['old', 'new'])('a sale, in payloads of the %s generation', (generation) => {
  const attributed = { known_as: 'user-1', customer_key: 'user-1', customer: 'cus_ann' }
  test.for<SaleCase>([
    [
      'one payment',
      'checkout.session.completed',
      oneTime,
      {
        ...attributed,
        transaction_id: 'pi_1',
        amount: 10_000,
        base: 10_000,
        commission: 2000,
        status: 'pending',
        sale_type: 'payment',
        is_recurring: false,
        session: 'cs_1',
        payment_intent: 'pi_1',
      },
    ],
    [
      'one payment with its invoice',
      'checkout.session.completed',
      (shop) => oneTime(shop, { invoice: 'in_9' }),
      { transaction_id: 'in_9', payment_intent: 'pi_1', invoice: 'in_9', sale_type: 'payment' },
    ],
    [
      'a payment with nothing but its session',
      'checkout.session.completed',
      (shop) => oneTime(shop, { payment_intent: null }),
      { transaction_id: 'cs_1', amount: 10_000 },
    ],
    [
      "tax and a discount: the commission's base is the payment without tax",
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 10_710, tax: 1710, discount: 1000 }),
      { amount: 10_710, base: 9000, commission: 1800 },
    ],
    ...currencies.map(([what, currency, sent, amount]): SaleCase => [
      what,
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: sent, currency }),
      { amount, currency, commission: amount / 5 },
    ]),
    [
      "a subscription's first payment, by its session",
      'checkout.session.completed',
      (shop) => firstPayment(shop),
      {
        ...attributed,
        transaction_id: 'in_1',
        sale_type: 'subscription',
        is_recurring: false,
        subscription_id: 'sub_1',
        session: 'cs_1',
        invoice: 'in_1',
      },
    ],
    [
      "a subscription's first payment, by its invoice",
      'invoice.payment_succeeded',
      (shop) => bill(shop, { billing_reason: 'subscription_create' }),
      {
        ...attributed,
        transaction_id: 'in_1',
        sale_type: 'subscription',
        is_recurring: false,
        subscription_id: 'sub_1',
      },
    ],
    [
      'a renewal',
      'invoice.payment_succeeded',
      (shop) => bill(shop),
      {
        ...attributed,
        transaction_id: 'in_1',
        sale_type: 'subscription',
        is_recurring: true,
        subscription_id: 'sub_1',
      },
    ],
    [
      'a renewal, by the other event',
      'invoice.paid',
      (shop) => bill(shop),
      { ...attributed, transaction_id: 'in_1', is_recurring: true },
    ],
    [
      'a change of plan',
      'invoice.payment_succeeded',
      (shop) => bill(shop, { billing_reason: 'subscription_update' }),
      { is_recurring: false, sale_type: 'subscription' },
    ],
    [
      'an invoice with tax, paid in full',
      'invoice.payment_succeeded',
      (shop) => bill(shop, { amount_paid: 11_900, tax: 1900 }),
      { amount: 11_900, base: 10_000, commission: 2000 },
    ],
    [
      "an invoice paid in part from the customer's credit",
      'invoice.payment_succeeded',
      (shop) => bill(shop, { amount_paid: 5000, total: 11_900, tax: 1900 }),
      { amount: 5000, base: 4202 },
    ],
    [
      "an invoice with metadata only in the subscription's line",
      'invoice.payment_succeeded',
      (shop) => bill(shop, { only_in_line: true }),
      { ...attributed, commission: 2000 },
    ],
  ])('%s', async ([, type, object, expected]) => {
    const shop = await createShop(sql, { generation })
    const answer = await send(shop, type, object(shop))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
    expect(answer.requests).toBeLessThanOrEqual(2)
    expect(await salesOf(shop)).toMatchObject([expected])
  })

  test('the first payment is recorded once, with the data of both events, in either order', async () => {
    for (const order of [0, 1]) {
      const shop = await createShop(sql, { generation })
      const [first, second] = order === 0 ? both(shop) : both(shop).toReversed()
      expect(await first?.()).toMatchObject({ body: { outcome: 'recorded' } })
      expect(await second?.()).toMatchObject({
        body: { outcome: 'duplicate', reason: expect.stringContaining('in_1') },
      })
      expect(await salesOf(shop)).toMatchObject([
        {
          transaction_id: 'in_1',
          session: 'cs_1',
          subscription_id: 'sub_1',
          commission: 2000,
          ...(generation === 'old' && paidBy),
        },
      ])
    }
  })

  test('if only the later event identifies the customer, it attributes the sale, and the earlier refund is reported', async () => {
    const shop = await createShop(sql, { generation })
    const nobody = bill(shop, {
      metadata: { program_id: String(shop.programId) },
      billing_reason: 'subscription_create',
    })
    await send({ ...shop, email: null }, 'invoice.payment_succeeded', { ...nobody, customer_email: null })
    expect(await salesOf(shop)).toMatchObject([{ partner_id: null, commission: null }])
    if (generation === 'new')
      await send(
        shop,
        'invoice_payment.paid',
        invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
      )
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 2500, ...paidBy }))
    await send(shop, 'checkout.session.completed', firstPayment(shop))
    expect(await salesOf(shop)).toMatchObject([
      {
        partner_id: shop.partnerId,
        known_as: 'user-1',
        commission: 2000,
        refunded: 2500,
        reversed: 500,
        status: 'refunded',
      },
    ])
    expect(
      await rows(`select kind, payload->>'amount_cents' as cents from outbox where program_id = $1`, shop),
    ).toEqual([{ kind: 'commission_refunded', cents: '500' }])
  })

  test('a sale that was sent to the sale endpoint with the same id is completed, not duplicated', async () => {
    const shop = await createShop(sql, { generation })
    await sql.query(
      `insert into sales (program_id, transaction_id, amount_cents, commission_base_cents, currency) values ($1, 'in_1', 10000, 10000, 'usd')`,
      [shop.programId],
    )
    expect(await send(shop, 'invoice.payment_succeeded', bill(shop))).toMatchObject({ body: { outcome: 'duplicate' } })
    expect(await salesOf(shop)).toMatchObject([
      { transaction_id: 'in_1', known_as: 'user-1', subscription_id: 'sub_1', commission: 2000 },
    ])
  })
})

test('a test-mode event creates a test sale, which earns nothing and binds no customer', async () => {
  const shop = await createShop(sql)
  const testMode = { ...shop, livemode: false }
  expect(await send(testMode, 'checkout.session.completed', oneTime(testMode))).toMatchObject({
    body: { outcome: 'recorded' },
  })
  await send(testMode, 'refund.created', refund(testMode, { id: 're_1', amount: 400, ...paidBy }))
  await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 300, ...paidBy }))
  expect(await salesOf(shop)).toMatchObject([{ is_test: true, commission: null, refunded: 400 }])
  expect(await rows('select customer_key, customer_status from customers where program_id = $1', shop)).toEqual([
    { customer_key: null, customer_status: 'click' },
  ])
  await send(shop, 'checkout.session.completed', oneTime(shop))
  expect(await salesOf(shop)).toMatchObject([{ is_test: true }, { is_test: false, refunded: 300, reversed: 60 }])
})

test.each([
  ['three days', 3 * 86_400],
  ['an hour', 3600],
  ['a minute', 60],
])('a sale from %s earlier that arrives later moves the first purchase to its own hour', async (_what, seconds) => {
  const shop = await createShop(sql)
  const earlier = { ...shop, now: shop.now - seconds }
  await send(shop, 'invoice.payment_succeeded', bill(shop, { id: 'in_2' }))
  await send(earlier, 'checkout.session.completed', firstPayment(earlier))
  const at = new Date(earlier.now * 1000)
  expect(
    await rows(
      `select day::text, slot / 64 - 1 as hour, sum(conversions)::int as conversions from daily_totals where program_id = $1
      group by 1, 2 having sum(conversions) <> 0`,
      shop,
    ),
  ).toEqual([{ day: at.toISOString().slice(0, 10), hour: at.getUTCHours(), conversions: 1 }])
  expect(
    await rows('select extract(epoch from first_purchase_date)::int as at from customers where program_id = $1', shop),
  ).toEqual([{ at: earlier.now }])
})

testStoredState(sql)
