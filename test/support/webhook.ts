import type pg from 'pg'
import { Stripe } from 'stripe'
import { afterAll, expect, test, vi } from 'vitest'
import webhook from '../../functions/processor-webhook.ts'
import { audit } from '../../lib/commands/audit.ts'
import { type LocalStripe, startLocalStripe } from '../../lib/local/stripe.ts'
import { dispute, refund, type Shop, stripeEvent } from '../../lib/local/stripe-events.ts'
import { oneTime, paidBy } from './payments.ts'
import { createShop, type TestShop } from './shops.ts'
import type { TestEndpoint } from './stack.ts'

/**
 * Stripe's report of a refund (`re_…`) or a dispute (`dp_…`) of the payment in {@link paidBy}. By default it is a
 * successful refund or a new dispute.
 */
export type Report = [id: string, amount: number, status?: 'pending' | 'failed' | 'canceled' | 'won']

export const reported = (...event: Report) => event

export interface Answer {
  status: number
  body: { outcome?: string; reason?: string | null; error?: { code: string } }
  /** The number of database requests. */
  requests: number
}

export interface TestWebhook {
  stripe: LocalStripe
  env: typeof environment
  /** Signs the text of an event and posts it to the function. */
  post: (text: string, header?: string) => Promise<Answer>
  /** Wraps an object in an event of this type and posts it. Each event has a new id unless `id` is given. */
  send: (shop: Shop, type: string, object: Record<string, unknown>, id?: string) => Promise<Answer>
  /** A shop with one sale of 100.00 dollars and a commission of 20.00. */
  sold: (settings?: Parameters<typeof createShop>[1]) => Promise<TestShop>
  report: (shop: Shop, ...event: Report) => Promise<Answer>
  /** Returns the rows of a query about a shop. `$1` is its program. */
  rows: (query: string, shop: Shop) => Promise<Record<string, unknown>[]>
  /** Returns the sales of a shop, each with its commission and its attribution. */
  salesOf: (shop: Shop) => Promise<Record<string, unknown>[]>
}

const environment = {
  EMAIL_HASH_KEY: 'key',
  STRIPE_WEBHOOK_SECRET: 'whsec_old,whsec_new',
  STRIPE_SECRET_KEY: 'sk_test',
  RELAY: { fetch: () => Promise.resolve(new Response()) },
}

/** Stripe's signature header for this text. */
export async function signatureOf(text: string, secret = 'whsec_new', timestamp = Math.floor(Date.now() / 1000)) {
  return await Stripe.webhooks.generateTestHeaderStringAsync({ payload: text, secret, timestamp })
}

/** The webhook function in this process, on a test's database, with a fake Stripe. */
export async function openWebhook(endpoint: TestEndpoint): Promise<TestWebhook> {
  const silenced = (['log', 'error'] as const).map((method) => vi.spyOn(console, method).mockReturnValue())
  const stripe = await startLocalStripe()
  afterAll(async () => {
    for (const spy of silenced) spy.mockRestore()
    await stripe.close()
  })
  const env = { ...environment, ...endpoint.env, STRIPE_API_URL: stripe.url }
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
  let sent = 0
  const post = async (text: string, header?: string): Promise<Answer> => {
    const before = endpoint.neon.requests
    const headers = { 'stripe-signature': header ?? (await signatureOf(text)) }
    const response = await webhook.request('/', { method: 'POST', body: text, headers }, env, context)
    const body: Answer['body'] = await response.json()
    return { status: response.status, body, requests: endpoint.neon.requests - before }
  }
  const send: TestWebhook['send'] = (shop, type, object, id = `evt_${++sent}`) =>
    post(JSON.stringify(stripeEvent(shop, id, type, object)))
  const rows: TestWebhook['rows'] = async (query, shop) => (await endpoint.sql.query(query, [shop.programId])).rows
  return {
    stripe,
    env,
    post,
    send,
    rows,
    async sold(settings) {
      const shop = await createShop(endpoint.sql, settings)
      await send(shop, 'checkout.session.completed', oneTime(shop))
      return shop
    },
    report(shop, id, amount, status) {
      if (id.startsWith('dp_')) {
        return status === 'won'
          ? send(shop, 'charge.dispute.funds_reinstated', dispute(shop, { id, amount, status, ...paidBy }))
          : send(shop, 'charge.dispute.funds_withdrawn', dispute(shop, { id, amount, ...paidBy }))
      }
      const type = { pending: 'refund.created', failed: 'refund.failed' }[String(status)] ?? 'refund.updated'
      return send(shop, type, refund(shop, { id, amount, status: status ?? 'succeeded', ...paidBy }))
    },
    salesOf: (shop) =>
      rows(
        `select s.transaction_id, s.amount_cents::int as amount, s.commission_base_cents::int as base, s.refunded_cents::int as refunded,
          s.currency, s.sale_type, s.is_recurring, s.subscription_id, s.is_test, s.customer_key, s.partner_id::int, u.customer_key as known_as,
          s.processor_payment_intent_id as payment_intent, s.processor_charge_id as charge, s.processor_invoice_id as invoice,
          s.processor_session_id as session, s.processor_customer_id as customer,
          c.amount_cents::int as commission, c.reversed_cents::int as reversed, c.status
        from sales s left join customers u on u.program_id = s.program_id and u.id = s.customer_id
          left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
        where s.program_id = $1 order by s.id`,
        shop,
      ),
  }
}

/** Checks the final state of a test file that sends events. Call this last. */
export function testStoredState(sql: pg.Client): void {
  test('no e-mail address is stored anywhere, and the audit finds nothing', async () => {
    const { rows: tables } = await sql.query<{ name: string }>(
      `select format('%I', table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
    )
    for (const { name } of tables) {
      const found = await sql.query(`select 1 from ${name} t where t::text ~* '(ann|bob)@example'`)
      expect(found.rowCount, name).toBe(0)
    }
    // These tests insert customers without clicks.
    const found = (await audit(sql)).filter(({ check, total }) => total > 0 && check !== 'a customer came by a click')
    expect(found).toEqual([])
  })
}
