import { describe, expect, test } from 'vitest'
import { dispute, invoicePayment, refund, type Shop, stripeEvent } from '../lib/local/stripe-events.ts'
import { bill, firstPayment, oneTime, paidBy } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, signatureOf, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql, neon } = endpoint
const { env, post, send, rows, salesOf } = await openWebhook(endpoint)

const text = (shop: Shop) => JSON.stringify(stripeEvent(shop, 'evt_1', 'ping', {}))

const seconds = (offset: number) => Math.floor(Date.now() / 1000) + offset

describe('a webhook event is verified', () => {
  test.for<[string, number, (body: string) => Promise<string> | string]>([
    ['signed with the new secret', 200, (body) => signatureOf(body)],
    ['signed with the secret that is being replaced', 200, (body) => signatureOf(body, 'whsec_old')],
    ['signed almost five minutes ago', 200, (body) => signatureOf(body, 'whsec_new', seconds(-290))],
    ['signed almost five minutes ahead', 200, (body) => signatureOf(body, 'whsec_new', seconds(290))],
    ['signed more than five minutes ago', 400, (body) => signatureOf(body, 'whsec_new', seconds(-310))],
    ['signed more than five minutes ahead', 400, (body) => signatureOf(body, 'whsec_new', seconds(310))],
    ['signed with another secret', 400, (body) => signatureOf(body, 'whsec_else')],
    ['signed for another body', 400, (body) => signatureOf(`${body} `)],
    ['with an invalid header', 400, () => 'nonsense'],
    ['without a header', 400, () => ''],
  ])('%s: %i', async ([, status, sign]) => {
    const shop = await createShop(sql)
    const body = text(shop)
    const answer = await post(body, await sign(body))
    expect(answer.status).toBe(status)
    if (status === 400) expect(answer).toMatchObject({ body: { error: { code: 'invalid_signature' } }, requests: 0 })
  })

  test('a signed body without an event gets 400', async () => {
    expect(await post('{"hello":1}')).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
    expect(await post('hello')).toMatchObject({ status: 400, body: { error: { code: 'invalid_json' } } })
  })

  test('another method gets 405', async () => {
    const { default: app } = await import('../functions/processor-webhook.ts')
    expect((await app.request('/', {}, env)).status).toBe(405)
  })
})

const otherProgram = (shop: Shop) => ({ ...shop, programId: 999_999_999 })

describe('an event that changes nothing is answered with 200 and stored with its reason', () => {
  const completed = 'checkout.session.completed'
  const taken = { id: 'dp_1', amount: 1, charge: 'ch_1' }
  test.for<
    [what: string, type: string, object: (shop: TestShop) => Record<string, unknown>, reason: RegExp, account?: string]
  >([
    ['of an unused type', 'balance.available', () => ({}), /not used/],
    ['of the platform itself', completed, oneTime, /not connected to this account/, ''],
    ['of an account without a program', completed, oneTime, /not connected/, 'acct_else'],
    [
      "whose metadata contains the id of another account's program",
      completed,
      (shop) => oneTime(otherProgram(shop)),
      /program 999999999.*not connected/,
    ],
    [
      "whose metadata doesn't contain a program",
      completed,
      (shop) => oneTime(shop, { metadata: {} }),
      /contains no program/,
    ],
    [
      'whose metadata contains an invalid program id',
      completed,
      (shop) => oneTime(shop, { metadata: { program_id: '1e3' } }),
      /contains no program/,
    ],
    ['of a session that only saves a card', completed, (shop) => oneTime(shop, { mode: 'setup' }), /payment method/],
    ['of a payment that finally failed', 'checkout.session.async_payment_failed', oneTime, /failed/],
    [
      'of an invoice of a trial',
      'invoice.payment_succeeded',
      (shop) => bill(shop, { amount_paid: 0 }),
      /Nothing was paid/,
    ],
    [
      'of an invoice without our metadata',
      'invoice.paid',
      (shop) => bill(shop, { metadata: {} }),
      /contains no program/,
    ],
    [
      'of an inquiry',
      'charge.dispute.funds_withdrawn',
      (shop) => dispute(shop, { ...taken, status: 'warning_needs_response' }),
      /inquiry/,
    ],
    ["of a dispute that doesn't move money", 'charge.dispute.created', (shop) => dispute(shop, taken), /not used/],
    [
      'of a refund that waits for the buyer',
      'refund.created',
      (shop) => refund(shop, { id: 're_1', amount: 1, status: 'requires_action' }),
      /requires_action/,
    ],
    [
      'of a refund for an account without a program',
      'refund.created',
      (shop) => refund(shop, { id: 're_1', amount: 1, ...paidBy }),
      /No program is connected/,
      'acct_else',
    ],
    ['in an unknown form', 'refund.created', () => ({ id: 're_1', amount: 'much' }), /could not be read: amount/],
  ])('%s', async ([, type, object, reason, account]) => {
    const shop = await createShop(sql)
    const answer = await send({ ...shop, account: account ?? shop.account }, type, object(shop))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'ignored', reason: expect.stringMatching(reason) } })
    expect(answer.requests).toBeLessThanOrEqual(1)
    expect(await salesOf(shop)).toEqual([])
    expect(await rows('select customer_key, customer_status from customers where program_id = $1', shop)).toEqual([
      { customer_key: null, customer_status: 'click' },
    ])
  })
})

describe('an event', () => {
  test('that is sent a hundred times at once has one effect', async () => {
    const shop = await createShop(sql)
    const sale = stripeEvent(shop, 'evt_hundred', 'checkout.session.completed', oneTime(shop))
    const refunded = stripeEvent(
      shop,
      'evt_refund',
      'refund.created',
      refund(shop, { id: 're_1', amount: 3000, ...paidBy }),
    )
    for (const event of [sale, refunded]) {
      const answers = await Promise.all(Array.from({ length: 100 }, () => post(JSON.stringify(event))))
      expect(answers.filter(({ status, body }) => status !== 200 || body.outcome !== 'recorded')).toEqual([])
    }
    expect(await salesOf(shop)).toMatchObject([{ commission: 2000, refunded: 3000, reversed: 600 }])
    expect(await rows('select deliveries from processor_events where program_id = $1', shop)).toEqual([
      { deliveries: 100 },
      { deliveries: 100 },
    ])
    expect(await rows('select kind from outbox where program_id = $1', shop)).toHaveLength(1)
  })

  test('and the concurrent refund of its payment both count', async () => {
    for (let round = 0; round < 10; round++) {
      const shop = await createShop(sql)
      await Promise.all([
        send(shop, 'checkout.session.completed', firstPayment(shop)),
        send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy })),
        send(
          shop,
          'invoice_payment.paid',
          invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
        ),
      ])
      expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    }
  })

  const events: [string, (shop: Shop) => Record<string, unknown>][] = [
    ['refund.created', (shop) => refund(shop, { id: 're_1', amount: 3000, ...paidBy })],
    ['checkout.session.completed', (shop) => firstPayment(shop)],
    [
      'invoice_payment.paid',
      (shop) => invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
    ],
    ['charge.dispute.funds_withdrawn', (shop) => dispute(shop, { id: 'dp_1', amount: 10_000, ...paidBy })],
    ['charge.dispute.funds_reinstated', (shop) => dispute(shop, { id: 'dp_1', amount: 10_000, ...paidBy })],
  ]
  test.for(
    (['drop-before', 'drop-after', 'unavailable', 'kill-backend'] as const).flatMap((action) =>
      [1, 2, 3].map((times) => [action, times] as const),
    ),
  )(
    'whose database requests meet %s %i times is applied once when Stripe delivers it again',
    async ([action, times]) => {
      const shop = await createShop(sql)
      for (const [index, [type, object]] of events.entries()) {
        neon.inject({ action, times })
        for (let attempts = 0; ; attempts++) {
          const answer = await send(shop, type, object(shop), `evt_${index}`)
          if (answer.status === 200) break
          expect(answer).toMatchObject({ status: 503, body: { error: { code: 'unavailable' } } })
          expect(attempts).toBeLessThan(3)
        }
        neon.clearFaults()
      }
      expect(await salesOf(shop)).toMatchObject([
        { transaction_id: 'in_1', refunded: 3000, reversed: 600, commission: 2000 },
      ])
      expect(
        await rows(
          'select outcome from processor_events where account_id = (select processor_account_id from programs where id = $1)',
          shop,
        ),
      ).toEqual(events.map(() => ({ outcome: 'recorded' })))
    },
  )
})

testStoredState(sql)

const badIds: [what: string, text: string][] = [
  ['empty', ''],
  ['of 5,000 characters', 'x'.repeat(5000)],
  ['with NUL', 'id_\0'],
  ['with half of a surrogate pair', 'id_\ud800'],
]
const places: [what: string, type: string, object: (id: string, shop: TestShop) => Record<string, unknown>][] = [
  ['session', 'checkout.session.completed', (id, shop) => ({ ...oneTime(shop), id })],
  ['payment intent', 'checkout.session.completed', (id, shop) => ({ ...oneTime(shop), payment_intent: id })],
  ['customer', 'checkout.session.completed', (id, shop) => ({ ...oneTime(shop), customer: id })],
  ['invoice', 'invoice.paid', (id, shop) => bill(shop, { id })],
  ['refund', 'refund.created', (id, shop) => ({ ...refund(shop, { id: 're_1', amount: 100 }), id })],
  [
    'dispute',
    'charge.dispute.funds_withdrawn',
    (id, shop) => ({ ...dispute(shop, { id: 'dp_1', amount: 100, charge: 'ch_1' }), id }),
  ],
]

describe.each(badIds)('an id that is %s', (_what, id) => {
  test.each(places)('of a %s causes no internal error, and nothing is recorded', async (_place, type, objectOf) => {
    const shop = await createShop(sql)
    const answer = await send(shop, type, objectOf(id, shop))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'ignored' } })
    expect(await salesOf(shop)).toEqual([])
  })
})

test('an amount above the limit is ignored with a reason, even if its unit is a hundred times smaller', async () => {
  const shop = await createShop(sql)
  for (const [currency, amount] of [
    ['mga', 99_999_999_999_9],
    ['usd', 10_000_000_000_000],
  ] as const) {
    const object = {
      ...oneTime(shop),
      id: `cs_${currency}`,
      payment_intent: `pi_${currency}`,
      currency,
      amount_total: amount,
    }
    const answer = await send(shop, 'checkout.session.completed', object)
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'ignored' } })
  }
  expect(await salesOf(shop)).toEqual([])
})
