import { describe, expect, test } from 'vitest'
import { createSandbox } from '../lib/local/sandbox.ts'
import {
  capturedCharge,
  checkoutSession,
  creditNote,
  type Generation,
  invoicePayment,
  paymentIntent,
  refund,
  type Shop,
  shopMetadata,
} from '../lib/local/stripe-events.ts'
import { connectProcessor, disconnectProcessor } from '../lib/processors/stripe/connect.ts'
import { ownAccount } from '../lib/processors/stripe/client.ts'
import { readInvoice } from '../lib/processors/stripe/read-invoice.ts'
import { bill, oneTime, paidBy } from './support/payments.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, stripe, send, post, salesOf } = await openWebhook(endpoint)

test.each([
  ['captures first', false],
  ['whole intent first', true],
])('an intent overrides its own partial capture, even in an unpaid session: %s', async (_, isIntentFirst) => {
  for (const hasSession of [false, true]) {
    const shop = await createShop(sql)
    const ids = { payment_intent: 'pi_1' }
    if (hasSession) await send(shop, 'checkout.session.completed', oneTime(shop, { ...ids, payment_status: 'unpaid' }))
    const captured = capturedCharge(shop, { id: 'ch_1', ...ids, amount: 10_000, captured: 3000 })
    const reports = [
      ['charge.captured', captured],
      ['payment_intent.succeeded', paymentIntent(shop, { id: 'pi_1', charge: 'ch_1', amount: 10_000 })],
    ] as const
    for (const [type, object] of isIntentFirst ? reports.toReversed() : reports) await send(shop, type, object)
    expect(await salesOf(shop)).toMatchObject([{ amount: 10_000, commission: 2000 }])
  }
})

test('a credited invoice line contains no product', async () => {
  const fact = await readInvoice(
    {
      id: 'in_1',
      created: 1_700_000_000,
      amount_paid: 5000,
      total: 5000,
      currency: 'usd',
      lines: {
        data: [
          { amount: 6000, pricing: { price_details: { price: 'price_a', product: 'prod_a' } } },
          { amount: -1000, pricing: { price_details: { price: 'price_b', product: 'prod_b' } } },
        ],
      },
    },
    new Date().toISOString(),
    (email) => Promise.resolve(email),
  )
  expect(fact).toMatchObject({ sale: { lines: [{ product_ids: ['price_a', 'prod_a'] }] } })
})

describe('a payment link', () => {
  const noMetadata = { metadata: {}, payment_intent: 'pi_1' }
  test.each([
    ['the click id', 'its click', true],
    ['an invalid click id', 'order-17', false],
    ['the click id of another account', 'another', false],
  ])('with %s in client_reference_id', async (_, reference, attributed) => {
    const [shop, other] = [await createShop(sql), await createShop(sql)]
    const id = { 'its click': shop.clickId, another: other.clickId }[reference] ?? reference
    const session = { ...oneTime(shop, noMetadata), client_reference_id: id }
    const answer = await send(shop, 'checkout.session.completed', session)
    expect(answer.body.outcome).toBe(attributed ? 'recorded' : 'ignored')
    expect(await salesOf(shop)).toMatchObject(
      attributed ? [{ amount: 10_000, commission: 2000, partner_id: shop.partnerId, customer: 'cus_ann' }] : [],
    )
    expect(await salesOf(other)).toEqual([])
  })

  test('the click id in the metadata takes precedence', async () => {
    const [shop, other] = [await createShop(sql), await createShop(sql)]
    const session = { ...checkoutSession(shop, { id: 'cs_1', total: 5000 }), client_reference_id: other.clickId }
    await send(shop, 'checkout.session.completed', session)
    expect(await salesOf(shop)).toMatchObject([{ partner_id: shop.partnerId }])
  })
})

describe('an invoice', () => {
  test.each([
    ['written by hand', 'manual', { sale_type: 'payment', is_recurring: false }],
    ['for usage, with its own metadata', 'subscription_threshold', { is_recurring: false }],
    ['for a renewal, with its own metadata', 'subscription_cycle', { is_recurring: true }],
  ])('%s is a sale', async (_, billing_reason, expected) => {
    const shop = await createShop(sql)
    const paid = bill(shop, { metadata: {}, billing_reason, amount_paid: 12_000, tax: 2000 })
    const own = { program_id: String(shop.programId), svc_click_id: shop.clickId }
    const parent = billing_reason === 'manual' ? { parent: null } : {}
    await send(shop, 'invoice.paid', { ...paid, ...parent, metadata: own })
    expect(await salesOf(shop)).toMatchObject([{ amount: 12_000, base: 10_000, commission: 2000, ...expected }])
  })

  test('of a converted trial is a sale to the lead that its session settled', async () => {
    const shop = await createShop(sql)
    const trial = { payment_status: 'no_payment_required', total: 0, payment_intent: null } as const
    const started = oneTime(shop, { ...trial, mode: 'subscription', invoice: 'in_0', subscription: 'sub_1' })
    expect(await send(shop, 'checkout.session.completed', started)).toMatchObject({ body: { outcome: 'recorded' } })
    expect(await salesOf(shop)).toEqual([])
    await send(shop, 'invoice.paid', bill(shop, { billing_reason: 'subscription_cycle' }))
    expect(await salesOf(shop)).toMatchObject([{ commission: 2000, is_recurring: true, subscription_id: 'sub_1' }])
  })

  test.each([
    ['money outside Stripe', 2500, 2500],
    ["money to the customer's balance or as a refund", 0, 0],
  ])('with a credit note that returns %s', async (_, outside, refunded) => {
    const shop = await createShop(sql)
    const note = creditNote(shop, { id: 'cn_1', invoice: 'in_1', amount: 2500, outside })
    // Both orders must have the same result.
    for (const first of ['note', 'invoice']) {
      const again = { ...note, id: `cn_${first}`, invoice: `in_${first}` }
      if (first === 'note') await send(shop, 'credit_note.created', again)
      await send(shop, 'invoice.paid', bill(shop, { id: `in_${first}`, payment_intent: `pi_${first}` }))
      if (first === 'invoice') await send(shop, 'credit_note.created', again)
      await send(shop, 'credit_note.created', again)
    }
    expect(await salesOf(shop)).toMatchObject([
      { refunded, reversed: refunded / 5 },
      { refunded, reversed: refunded / 5 },
    ])
  })
})

describe("the deployment's own account", () => {
  test('receives events without an account id, and its API calls contain none', async () => {
    const shop = { ...(await createShop(sql)), account: ownAccount }
    await connectProcessor(db, shop.programId, ownAccount)
    const answer = await send(shop, 'checkout.session.completed', oneTime(shop))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
    stripe.calls.length = 0
    await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 1, payment_intent: 'pi_else' }))
    expect(stripe.calls).toEqual([
      'GET /v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_else&limit=1',
    ])
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 5000, ...paidBy }))
    expect(await salesOf(shop)).toMatchObject([{ commission: 2000, refunded: 5000, reversed: 1000 }])

    // Events with an account id are never treated as events of the deployment's own account, because Stripe sends those without an account
    // id.
    const named = JSON.stringify({
      id: 'evt_1',
      type: 'account.application.deauthorized',
      livemode: true,
      created: 1,
      data: { object: {} },
    })
    expect(await post(named)).toMatchObject({ body: { outcome: 'ignored' } })
    await disconnectProcessor(db, { ...env, STRIPE_CLIENT_ID: 'ca_1' }, shop.programId)
    expect(stripe.calls.some((call) => call.includes('deauthorize'))).toBe(false)
    expect(
      await send(shop, 'checkout.session.completed', { ...oneTime(shop), id: 'cs_2', payment_intent: 'pi_2' }),
    ).toMatchObject({
      body: { outcome: 'parked' },
    })
  })

  test('is allowed in a sandbox', async () => {
    const { programId, connectedAccountId } = await createSandbox(
      db,
      { ...endpoint.env, AUTH_SECRET: 'secret' },
      {},
      true,
    )
    const shop = { ...(await createShop(sql)), programId, account: connectedAccountId, clickId: null }
    expect(
      await send(shop, 'checkout.session.completed', oneTime(shop, { id: 'cs_3', payment_intent: 'pi_3' })),
    ).toMatchObject({
      body: { outcome: 'recorded', reason: 'No partner referred this customer.' },
    })
  })
})

/** The events of one payment of 120.00 with 20.00 of tax, each with the metadata. */
const reporters = {
  charge: (shop: Shop): [type: string, object: Record<string, unknown>] => [
    'charge.captured',
    capturedCharge(shop, { id: 'ch_1', payment_intent: 'pi_1', amount: 15_000, captured: 12_000 }),
  ],
  intent: (shop: Shop): [type: string, object: Record<string, unknown>] => [
    'payment_intent.succeeded',
    paymentIntent(shop, { id: 'pi_1', charge: 'ch_1', amount: 12_000, tax: 2000 }),
  ],
  session: (shop: Shop): [type: string, object: Record<string, unknown>] => [
    'checkout.session.completed',
    oneTime(shop, { total: 12_000, tax: 2000, invoice: 'in_1' }),
  ],
  invoice: (shop: Shop): [type: string, object: Record<string, unknown>] => [
    'invoice.paid',
    { ...bill(shop, { amount_paid: 12_000, tax: 2000, billing_reason: 'manual' }), metadata: shopMetadata(shop) },
  ],
  // The event that links an invoice to its intent since 2025-03-31, and a refund of half of it.
  link: (shop: Shop): [type: string, object: Record<string, unknown>] => [
    'invoice_payment.paid',
    invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 12_000 }),
  ],
  refund: (shop: Shop): [type: string, object: Record<string, unknown>] => [
    'refund.created',
    refund(shop, { id: 're_1', amount: 6000, ...paidBy }),
  ],
}
type Reporter = keyof typeof reporters

function* ordersOf(names: Reporter[]): Generator<Reporter[]> {
  if (names.length === 0) yield []
  for (const first of names) for (const rest of ordersOf(names.filter((name) => name !== first))) yield [first, ...rest]
}
const best = ['invoice', 'session', 'intent', 'charge'] as const
const pairs = best.flatMap((one, at) => best.slice(at + 1).map((other): Reporter[] => [one, other]))

describe.each<Generation>(['old', 'new'])(
  'one payment is one sale, whichever event comes first (%s generation)',
  (generation) => {
    test.each([...pairs, [...best]])(
      '%s and %s',
      async (...names) => {
        const orders = [...ordersOf([...names.filter((name) => name !== undefined), 'link', 'refund'] as Reporter[])]
        // Each API generation runs half of the 24 orders of a pair, and some of the 720 orders of all events.
        const [every, first] = orders.length < 100 ? [2, generation === 'old' ? 0 : 1] : [29, 0]
        for (const order of orders.filter((_, at) => at % every === first)) {
          const shop = await createShop(sql, { generation })
          for (const name of order) expect(await send(shop, ...reporters[name](shop))).toMatchObject({ status: 200 })
          const counted = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
          const base = names.some((name) => name !== 'charge') ? 10_000 : 12_000
          expect(counted, order.join(', ')).toMatchObject([
            { amount: 12_000, base, refunded: 6000, commission: base / 5, reversed: base / 10 },
          ])
        }
      },
      120_000,
    )

    test('all events at once', async () => {
      for (let round = 0; round < 10; round++) {
        const shop = await createShop(sql, { generation })
        const reported = Object.values(reporters).map((reporter) => reporter(shop))
        const answers = await Promise.all([...reported, ...reported].map((event) => send(shop, ...event)))
        expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
        const counted = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
        expect(counted).toMatchObject([
          { amount: 12_000, base: 10_000, refunded: 6000, commission: 2000, reversed: 1000 },
        ])
      }
    }, 60_000)
  },
)

testStoredState(sql)
