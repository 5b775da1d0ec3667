import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { apiKeyHash } from '../lib/access/api-keys.ts'
import { createApiKey } from '../lib/access/program-keys.ts'
import { charge, customer, dispute, invoicePayment, paymentIntent, refund } from '../lib/local/stripe-events.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { recordSale } from '../lib/money/sales.ts'
import { recordServerLead } from '../lib/tracking/leads.ts'
import { noLead, noSale } from './support/ledger.ts'
import { bill, firstPayment, oneTime, paidBy } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { send, salesOf } = await openWebhook(endpoint)

const rounds = Number(process.env['ROUNDS'] ?? 6)

/** Postgres reports a deadlock with the session's next statistics, or when the session ends. */
async function deadlocks(): Promise<number> {
  await sql.query(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  )
  const { rows } = await sql.query<{ deadlocks: string }>(
    'select deadlocks from pg_stat_database where datname = current_database()',
  )
  return Number(rows[0]?.deadlocks)
}

/** Sends everything at once, and returns the number of answers with a status other than 200. */
async function atOnce(calls: (() => Promise<{ status: number } | void>)[]) {
  const answers = await Promise.all(calls.map((call) => call()))
  return answers.filter((answer) => answer && answer.status !== 200).length
}

test('six concurrent events of one subscription checkout become one sale without a deadlock', async () => {
  for (let round = 0; round < rounds; round++) {
    const shop = await createShop(sql, { generation: round % 2 === 0 ? 'new' : 'old' })
    const first = bill(shop, { billing_reason: 'subscription_create' })
    const refused = await atOnce([
      () => send(shop, 'checkout.session.completed', firstPayment(shop)),
      () => send(shop, 'invoice.paid', first),
      () => send(shop, 'invoice.payment_succeeded', first),
      () => send(shop, 'payment_intent.succeeded', paymentIntent(shop, { id: 'pi_1', charge: 'ch_1', amount: 10_000 })),
      () =>
        send(
          shop,
          'invoice_payment.paid',
          invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
        ),
      () => send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 1000, ...paidBy })),
    ])
    expect(refused).toBe(0)
    const sales = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
    expect(sales).toMatchObject([{ amount: 10_000, commission: 2000, refunded: 1000 }])
  }
  expect(await deadlocks()).toBe(0)
})

/** Two payments of one buyer, through a session and a renewal, each with its related events. */
async function eventsOfBuyer(shop: TestShop, number: number) {
  const of = { payment_intent: `pi_${number}`, charge: `ch_${number}` }
  const keyHash = await apiKeyHash(`Bearer ${await createApiKey(db, shop.programId, 'sales')}`)
  const session = number % 2 === 0
  const id = session ? `pi_${number}` : `in_${number}`
  return [
    () =>
      session
        ? send(shop, 'checkout.session.completed', oneTime(shop, { id: `cs_${number}`, payment_intent: id }))
        : send(shop, 'invoice.paid', bill(shop, { id, ...of })),
    () => send(shop, 'customer.updated', customer(shop)),
    () =>
      session
        ? send(shop, 'payment_intent.succeeded', paymentIntent(shop, { id, charge: of.charge, amount: 10_000 }))
        : send(
            shop,
            'invoice_payment.paid',
            invoicePayment(shop, { invoice: id, payment_intent: of.payment_intent, amount: 10_000 }),
          ),
    () => send(shop, 'refund.created', refund(shop, { id: `re_${number}`, amount: 1000, ...of })),
    () => send(shop, 'charge.dispute.funds_withdrawn', dispute(shop, { id: `dp_${number}`, amount: 500, ...of })),
    () =>
      send(
        shop,
        'charge.captured',
        charge(shop, { id: of.charge, amount: 10_000, refunded: 0, payment_intent: of.payment_intent }),
      ),
    async () => {
      const lead = { ...noLead, customer_key: 'user-1', click_id: shop.clickId }
      await recordServerLead(db, keyHash, lead, null)
    },
    async () => {
      const sale = {
        ...noSale,
        transaction_id: id,
        customer_key: 'user-1',
        click_id: shop.clickId,
        amount_cents: 10_000,
        currency: 'usd',
      }
      await recordSale(db, keyHash, { ...sale, coupon: null }, null, randomUUID()).catch((error: unknown) =>
        expect(error).toMatchObject({ code: 'duplicate_transaction' }),
      )
      const back = { amount_cents: 1000, refund_id: `shop-${number}`, reason: 'refund', reason_text: null } as const
      await refundSale(db, keyHash, id, back, randomUUID())
    },
  ]
}

test('concurrent events and calls of one buyer are all accepted without a deadlock', async () => {
  for (let round = 0; round < rounds; round++) {
    const shop = await createShop(sql, { generation: round % 2 === 0 ? 'new' : 'old' })
    const calls = await Promise.all([1, 2, 3, 4].map((number) => eventsOfBuyer(shop, number)))
    expect(await atOnce(calls.flat())).toBe(0)
    const sales = (await salesOf(shop)).filter(({ amount }) => amount !== 0)
    expect(sales.map(({ refunded }) => refunded)).toEqual([1500, 1500, 1500, 1500])
    expect(new Set(sales.map(({ partner_id: partner }) => partner))).toEqual(new Set([shop.partnerId]))
  }
  expect(await deadlocks()).toBe(0)
})

testStoredState(sql)
