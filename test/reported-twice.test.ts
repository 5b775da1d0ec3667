import { expect, test } from 'vitest'
import trackRefund from '../functions/track-refund.ts'
import trackSale from '../functions/track-sale.ts'
import { generateApiKey } from '../lib/access/api-keys.ts'
import { approveCommissions } from '../lib/money/commissions.ts'
import { paymentIntent } from '../lib/local/stripe-events.ts'
import { bill, oneTime } from './support/payments.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

// If both the payment processor and the integrator report a payment, it counts once, no matter which report comes first.

const endpoint = await startEndpoint()
const { sql } = endpoint
const { env, send, report, salesOf } = await openWebhook(endpoint)

interface Answer {
  status: number
  body: Record<string, unknown> & { error?: Record<string, unknown> }
}

/** A program connected to Stripe, with a key. */
async function openShop() {
  const shop = await createShop(sql)
  const { key, keyHash, hint } = await generateApiKey()
  await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)`, [
    shop.programId,
    keyHash,
    hint,
  ])
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
  const post = async (app: { request: typeof trackRefund.request }, fields: object): Promise<Answer> => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await app.request('/', { method: 'POST', headers, body: JSON.stringify(fields) }, env, context)
    return { status: response.status, body: await response.json() }
  }
  return {
    shop,
    sale: (fields: object) => post(trackSale, fields),
    refund: async (fields: object) => (await post(trackRefund, { transaction_id: 'pi_1', ...fields })).body,
  }
}

async function openSold() {
  const opened = await openShop()
  await send(opened.shop, 'checkout.session.completed', oneTime(opened.shop))
  return opened
}

type Opened = Awaited<ReturnType<typeof openShop>>

/** Returns every order of the steps. */
function ordersOf<Item>(steps: Item[]): Item[][] {
  if (steps.length < 2) return [steps]
  return steps.flatMap((step, at) => ordersOf(steps.filter((_, other) => other !== at)).map((rest) => [step, ...rest]))
}

type Step = (opened: Opened) => Promise<unknown>
const reported =
  (...args: [id: string, amount: number, status?: 'failed' | 'won']): Step =>
  ({ shop }) =>
    report(shop, ...args)
const called =
  (fields: object): Step =>
  ({ refund }) =>
    refund(fields)

test.for<[what: string, steps: Step[], refunded: number]>([
  ['one refund', [reported('re_1', 3000), called({ refund_amount_cents: 3000 })], 3000],
  ['one full refund', [reported('re_1', 10_000), called({})], 10_000],
  [
    'one of two refunds of the same amount',
    [reported('re_1', 3000), reported('re_2', 3000), called({ refund_amount_cents: 3000 })],
    6000,
  ],
  [
    'a failed refund',
    [reported('re_1', 3000), reported('re_1', 3000, 'failed'), called({ refund_amount_cents: 3000 })],
    0,
  ],
  [
    'a failed refund and another of the same amount',
    [reported('re_1', 3000, 'failed'), reported('re_2', 3000), called({ refund_amount_cents: 3000 })],
    3000,
  ],
  ['two refunds of different amounts', [reported('re_1', 3000), called({ refund_amount_cents: 2000 })], 5000],
  [
    'a refund with the caller’s own id',
    [reported('re_1', 3000), called({ refund_amount_cents: 3000, refund_id: 'r' })],
    3000,
  ],
  ['a chargeback', [reported('dp_1', 4000), called({ refund_amount_cents: 4000, reason: 'chargeback' })], 4000],
  ['a dispute and a refund of the same amount', [reported('dp_1', 4000), called({ refund_amount_cents: 4000 })], 8000],
])('%s, by webhook and by call in any order', async ([, steps, refunded]) => {
  for (const order of ordersOf(steps)) {
    const opened = await openSold()
    for (const step of order) await step(opened)
    expect(await salesOf(opened.shop)).toMatchObject([{ refunded, reversed: refunded / 5 }])
  }
})

test('the second report of a refund is skipped, and so is the repeated call', async () => {
  const { shop, refund } = await openSold()
  await report(shop, 're_1', 3000)
  for (let call = 0; call < 2; call++) {
    expect(await refund({ refund_amount_cents: 3000 })).toEqual({
      success: true,
      status: 'skipped',
      reason: 'refund_already_applied',
      commission_id: expect.any(Number),
    })
  }
  expect(await refund({ refund_amount_cents: 3000, refund_id: 're_1' })).toMatchObject({ status: 'skipped' })
  expect(await refund({ refund_amount_cents: 2000 })).toMatchObject({ status: 'refunded', deduction_cents: 400 })
})

test("a call's refund of the whole remaining amount is undone if the processor’s refund fails", async () => {
  const { shop, refund } = await openSold()
  await report(shop, 're_1', 4000)
  expect(await refund({})).toMatchObject({ status: 'reversed', deduction_cents: 1200 })
  await report(shop, 're_2', 6000)
  await report(shop, 're_2', 6000, 'failed')
  expect(await salesOf(shop)).toMatchObject([{ refunded: 4000, reversed: 800 }])
})

const atOnce = (count: number, call: (index: number) => Promise<unknown>) =>
  Promise.all(Array.from({ length: count }, (_, index) => call(index)))

test('ten calls and ten events of one refund at once deduct it once, and ten failures restore it once', async () => {
  for (let round = 0; round < 3; round++) {
    const { shop, refund } = await openSold()
    await atOnce(20, (index) => (index % 2 === 0 ? report(shop, 're_1', 3000) : refund({ refund_amount_cents: 3000 })))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    await atOnce(10, () => report(shop, 're_1', 3000, 'failed'))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 0 }])
  }
})

test('ten calls and two refunds of one amount at once deduct it twice', async () => {
  for (let round = 0; round < 3; round++) {
    const { shop, refund } = await openSold()
    await atOnce(14, (index) =>
      index % 3 === 0 ? report(shop, `re_${index % 2}`, 3000) : refund({ refund_amount_cents: 3000 }),
    )
    expect(await salesOf(shop)).toMatchObject([{ refunded: 6000, reversed: 1200 }])
  }
})

/** Stripe's events with metadata that doesn't identify anybody. */
const nobody = { customerKey: null, clickId: null }

test('an unattributed sale gets its customer when the call identifies them, with the processor’s amount and date', async () => {
  const { shop, sale } = await openShop()
  const session = oneTime({ ...shop, ...nobody, email: 'bob@example.com' }, { tax: 1900 })
  await send(shop, 'checkout.session.completed', session)
  await report(shop, 're_1', 5000)
  expect(await salesOf(shop)).toMatchObject([{ partner_id: null, commission: null, refunded: 5000 }])
  const fields = { transaction_id: 'pi_1', customer_key: 'user-1', amount_cents: 10_000, click_id: shop.clickId }
  const answer = await sale(fields)
  const again = await sale({ ...fields, customer_key: 'user-2', click_id: undefined })
  expect(answer).toMatchObject({
    status: 409,
    body: { error: { code: 'duplicate_transaction', attributed: true, commission_id: expect.any(Number) } },
  })
  expect(again.body.error).toMatchObject({
    attributed: true,
    commission_id: answer.body.error?.['commission_id'],
    sale_id: answer.body.error?.['sale_id'],
  })
  expect(await salesOf(shop)).toMatchObject([
    { partner_id: shop.partnerId, known_as: 'user-1', base: 8100, commission: 1620, refunded: 5000, reversed: 810 },
  ])
})

test('a sale keeps its customer and its key', async () => {
  const { shop, sale } = await openSold()
  const other = await sale({ transaction_id: 'pi_1', customer_key: 'user-2', amount_cents: 10_000 })
  expect(other.body.error).toMatchObject({ attributed: true, same_payload: false })
  const unknown = { transaction_id: 'order-1', customer_key: 'user-3', amount_cents: 10_000 }
  await sale(unknown)
  expect((await sale({ ...unknown, customer_key: 'user-1' })).body.error).toMatchObject({
    attributed: false,
    commission_id: null,
  })
  expect(await salesOf(shop)).toMatchObject([{ known_as: 'user-1' }, { known_as: null, commission: null }])
})

test('ten concurrent calls that identify a sale’s customer create one commission', async () => {
  for (let round = 0; round < 3; round++) {
    const { shop, sale } = await openShop()
    await send(shop, 'checkout.session.completed', oneTime({ ...shop, ...nobody, email: 'bob@example.com' }))
    const fields = { transaction_id: 'pi_1', customer_key: 'user-1', amount_cents: 10_000, click_id: shop.clickId }
    const answers = await Promise.all(Array.from({ length: 10 }, () => sale(fields)))
    expect(new Set(answers.map(({ status, body }) => `${status} ${String(body.error?.['commission_id'])}`)).size).toBe(
      1,
    )
    expect(await salesOf(shop)).toMatchObject([{ commission: 2000, known_as: 'user-1' }])
  }
})

const ids = ['in_1', 'pi_1', 'ch_1', 'cs_1']

test.for(ids)(
  '%s identifies the payment that Stripe reported: a sale gets 409, and a refund refunds that sale',
  async (id) => {
    const { shop, sale, refund } = await openShop()
    await send(shop, 'checkout.session.completed', oneTime(shop, { invoice: 'in_1' }))
    await report(shop, 're_1', 1000)
    const { status, body } = await sale({ transaction_id: id, customer_key: 'user-1', amount_cents: 10_000 })
    expect({ status, ...body.error }).toMatchObject({ status: 409, attributed: true })
    expect(await refund({ transaction_id: id, refund_amount_cents: 2000 })).toMatchObject({ deduction_cents: 400 })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, commission: 2000 }])
  },
)

test.for(ids)('%s also identifies a payment in test mode', async (id) => {
  const { shop, refund } = await openShop()
  const inTestMode = { ...shop, livemode: false }
  await send(inTestMode, 'checkout.session.completed', oneTime(inTestMode, { invoice: 'in_1' }))
  await report(inTestMode, 're_1', 1000)
  expect(await refund({ transaction_id: id, refund_amount_cents: 2000 })).toMatchObject({ success: true })
  expect(await salesOf(shop)).toMatchObject([{ is_test: true, refunded: 3000 }])
})

test.for(ids)('if the call reports a sale first under %s, the payment is that sale', async (id) => {
  const { shop, sale } = await openShop()
  await report(shop, 're_1', 1000)
  const fields = { transaction_id: id, customer_key: 'user-1', amount_cents: 10_000, click_id: shop.clickId }
  expect(await sale(fields)).toMatchObject({ status: 200 })
  await send(shop, 'checkout.session.completed', oneTime(shop, { invoice: 'in_1' }))
  await send(shop, 'invoice.paid', bill(shop))
  const sales = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
  expect(sales).toMatchObject([{ transaction_id: id, refunded: 1000, reversed: 200, commission: 2000 }])
})

test('a repeated sale call is recognized, whatever the processor corrected and whichever sale the call joined', async () => {
  for (const id of ['in_1', 'ch_1']) {
    const { shop, sale } = await openShop()
    const fields = { transaction_id: id, customer_key: 'user-1', amount_cents: 12_000, click_id: shop.clickId }
    await sale(fields)
    await send(shop, 'checkout.session.completed', oneTime(shop, { invoice: 'in_1' }))
    await send(shop, 'invoice.paid', bill(shop))
    await report(shop, 're_1', 1000)
    expect((await salesOf(shop)).filter(({ amount }) => amount !== 0)).toMatchObject([{ amount: 10_000 }])
    expect(await sale(fields)).toMatchObject({ status: 409, body: { error: { same_payload: true, attributed: true } } })
    expect((await sale({ ...fields, amount_cents: 10_000 })).body.error).toMatchObject({ same_payload: false })
  }
})

test('two concurrent payments with the same two customers in opposite order never deadlock', async () => {
  const deadlocks = async () =>
    (
      await sql.query<{ deadlocks: string }>(
        'select deadlocks from pg_stat_database where datname = current_database()',
      )
    ).rows[0]
  const before = await deadlocks()
  for (let round = 0; round < 5; round++) {
    const { shop, sale } = await openShop()
    const [first, second] = ['user-1', 'user-2']
    for (const [id, key] of [
      ['pi_1', first],
      ['ch_1', second],
      ['pi_2', second],
      ['ch_2', first],
    ])
      await sale({ transaction_id: id, customer_key: key, amount_cents: 10_000, click_id: shop.clickId })
    await atOnce(8, (index) => {
      const number = (index % 2) + 1
      return send(
        shop,
        'payment_intent.succeeded',
        paymentIntent(shop, { id: `pi_${number}`, charge: `ch_${number}`, amount: 10_000 }),
      )
    })
    expect((await salesOf(shop)).filter(({ amount }) => amount !== 0)).toHaveLength(2)
  }
  await sql.query('select pg_stat_force_next_flush()')
  expect(await deadlocks()).toEqual(before)
})

test('sales with unrelated ids become one sale when an event links the ids', async () => {
  for (const steps of ordersOf(['call', 'session', 'refund', 'intent'] as const)) {
    const { shop, sale, refund } = await openShop()
    const nobodys = { ...shop, customerKey: null, clickId: null, email: 'bob@example.com' }
    for (const step of steps) {
      if (step === 'session') await send(shop, 'checkout.session.completed', oneTime(nobodys, { tax: 1900 }))
      if (step === 'refund') await report(shop, 're_1', 1000)
      if (step === 'intent') {
        await send(
          shop,
          'payment_intent.succeeded',
          paymentIntent(shop, { id: 'pi_1', charge: 'ch_1', amount: 10_000, metadata: {} }),
        )
      }
      if (step === 'call') {
        const fields = { transaction_id: 'ch_1', customer_key: 'user-1', amount_cents: 10_000, click_id: shop.clickId }
        await sale(fields)
        await refund({ transaction_id: 'ch_1', refund_amount_cents: 2000 })
      }
    }
    const sales = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
    expect(sales, steps.join(', ')).toMatchObject([
      { amount: 10_000, base: 8100, partner_id: shop.partnerId, commission: 1620, refunded: 3000, reversed: 486 },
    ])
    expect(await refund({ transaction_id: 'ch_1', refund_amount_cents: 2000 })).toMatchObject({ status: 'skipped' })
  }
})

test('a call and concurrent events of its payment create one sale, whichever id the call has', async () => {
  for (const id of ids) {
    const { shop, sale } = await openShop()
    const fields = { transaction_id: id, customer_key: 'user-1', amount_cents: 10_000, click_id: shop.clickId }
    await atOnce(12, (index) => {
      if (index === 10) return report(shop, 're_1', 1000)
      if (index % 3 === 0) return send(shop, 'checkout.session.completed', oneTime(shop, { invoice: 'in_1' }))
      return index % 3 === 1 ? send(shop, 'invoice.paid', bill(shop)) : sale(fields)
    })
    const sales = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
    expect(sales).toMatchObject([{ amount: 10_000, commission: 2000 }])
  }
})

const apiSale: Step = ({ sale }) => sale({ transaction_id: 'pi_1', customer_key: 'user-1', amount_cents: 10_000 })
const dearer: Step = ({ shop }) => send(shop, 'checkout.session.completed', oneTime(shop, { total: 12_000 }))
const rest: Step = ({ refund }) => refund({})

test.each<[string, Step[], number]>([
  ['a correction', [apiSale, rest, dearer], 12_000],
  ['an earlier correction', [apiSale, dearer, rest], 12_000],
  ['an earlier partial refund', [apiSale, ({ refund }) => refund({ refund_amount_cents: 4000 }), rest, dearer], 12_000],
  ['the same refund from Stripe', [apiSale, rest, dearer, reported('re_1', 12_000)], 12_000],
  [
    'the same refund from Stripe, but failed',
    [apiSale, rest, dearer, reported('re_1', 12_000), reported('re_1', 12_000, 'failed')],
    0,
  ],
  ['the same refund from Stripe before the correction', [apiSale, rest, reported('re_1', 10_000), dearer], 10_000],
])("a refund of the whole rest, with %s, refunds the sale's full value", async (_, steps, refunded) => {
  const opened = await openShop()
  await sql.query(`update customers set customer_key = 'user-1' where program_id = $1`, [opened.shop.programId])
  for (const step of steps) await step(opened)
  expect(await salesOf(opened.shop)).toMatchObject([
    { amount: 12_000, refunded, commission: 2400, reversed: refunded / 5 },
  ])
})

test('a repeated full refund with concurrent corrections of its sale reverses the commission once', async () => {
  for (const [round, isCredited] of [true, false, true].entries()) {
    const { shop, sale, refund } = await openShop()
    await sql.query(`update customers set customer_key = 'user-1' where program_id = $1`, [shop.programId])
    await sale({ transaction_id: 'pi_1', customer_key: 'user-1', amount_cents: 10_000 })
    if (isCredited) {
      const { rows } = await sql.query<{ id: string }>('select id from commissions where program_id = $1', [
        shop.programId,
      ])
      await approveCommissions(endpoint.db, shop.programId, [Number(rows[0]?.id)])
    }
    await atOnce(16, (index) => {
      if (index === 15 && round === 2) return report(shop, 're_1', 4000)
      if (index % 3 === 0) return refund({})
      if (index % 3 === 1)
        return send(shop, 'checkout.session.completed', oneTime(shop, { total: 12_000, invoice: 'in_1' }))
      return send(shop, 'invoice.paid', bill(shop, { amount_paid: 15_000 }))
    })
    const sales = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
    expect(sales).toMatchObject([{ amount: 15_000, refunded: 15_000, commission: 3000, reversed: 3000 }])
    const { rows: refunds } = await sql.query(
      `select sum(applied_cents)::int as taken, (
        select coalesce(sum(balance_cents), 0)::int from balances where program_id = $1
      ) as balance from refunds where program_id = $1`,
      [shop.programId],
    )
    expect(refunds).toEqual([{ taken: 15_000, balance: 0 }])
  }
})

testStoredState(sql)
