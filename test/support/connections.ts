import { afterAll, vi } from 'vitest'
import connectionWebhook from '../../functions/connection-webhook.ts'
import { processorFixtures } from '../../lib/local/processor-fixture.ts'
import type { Story } from '../../lib/local/processor-events.ts'
import { changeSecret, createConnection } from '../../lib/processors/connections.ts'
import type { ProcessorName } from '../../lib/processors/processors.ts'
import { createShop, type TestShop } from './shops.ts'
import type { TestEndpoint } from './stack.ts'

export interface ConnectedShop extends TestShop {
  processor: ProcessorName
  accountId: string
  secret: string
}

export interface ConnectionAnswer {
  status: number
  body: { outcome?: string; reason?: string | null; error?: { code: string } }
  /** The number of database requests. */
  requests: number
}

export const addressOf = ({ processor, accountId }: ConnectedShop) => `/api/v1/webhooks/${processor}/${accountId}`

/** The data of a shop's first payment: 120.00 with 20.00 of tax. */
export const storyOf = (shop: ConnectedShop, more: Partial<Story> = {}): Story => ({
  order: '1',
  programId: shop.programId,
  clickId: shop.clickId,
  customerKey: shop.customerKey,
  email: shop.email,
  amount: 12_000,
  tax: 2000,
  fee: 600,
  refunded: 3000,
  currency: 'usd',
  now: new Date(),
  isTest: false,
  ...more,
})

/** The webhook function for connections in this process, on a test's database. */
export function openConnections(endpoint: TestEndpoint) {
  const { db, sql, neon } = endpoint
  const silenced = (['log', 'error'] as const).map((method) => vi.spyOn(console, method).mockReturnValue())
  afterAll(() => {
    for (const spy of silenced) spy.mockRestore()
  })
  const env = { EMAIL_HASH_KEY: 'key', RELAY: { fetch: () => Promise.resolve(new Response()) }, ...endpoint.env }
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }

  const post = async (path: string, body: string, headers: Record<string, string>): Promise<ConnectionAnswer> => {
    const before = neon.requests
    const response = await connectionWebhook.request(path, { method: 'POST', body, headers }, env, context)
    return { status: response.status, body: await response.json(), requests: neon.requests - before }
  }
  const secretOf = async (shop: TestShop, processor: ProcessorName, accountId: string): Promise<ConnectedShop> => {
    // A secret in this format works for every signature scheme.
    const secret = `whsec_${Buffer.from(`secret of ${shop.programId}`).toString('base64')}`
    await changeSecret(db, env, shop.programId, accountId, secret)
    return { ...shop, processor, accountId, secret }
  }
  const connect = async (
    processor: ProcessorName,
    settings: Parameters<typeof createShop>[1] = {},
    livemode = true,
  ) => {
    const shop = await createShop(sql, settings)
    return await secretOf(shop, processor, await createConnection(db, shop.programId, { processor, livemode }))
  }
  /** Adds another connection of the same processor to a shop. */
  const connectAgain = async (shop: ConnectedShop, livemode: boolean) =>
    await secretOf(
      shop,
      shop.processor,
      await createConnection(db, shop.programId, { processor: shop.processor, livemode }),
    )
  /** Signs a body and posts it to the shop's connection. */
  const send = async (shop: ConnectedShop, body: object, signedAt = new Date()) => {
    const text = JSON.stringify(body)
    return await post(addressOf(shop), text, processorFixtures[shop.processor].headersOf(text, shop.secret, signedAt))
  }
  /** Sends a fixture's event. */
  const report = async (shop: ConnectedShop, name: string, more: Partial<Story> = {}) => {
    const event = processorFixtures[shop.processor].events[name]
    if (!event) throw new Error(`${shop.processor} has no event ${name}`)
    return await send(shop, event(storyOf(shop, more)))
  }
  const salesOf = async ({ programId }: TestShop): Promise<Record<string, unknown>[]> => {
    const { rows } = await sql.query<Record<string, unknown>>(
      `select s.transaction_id, s.amount_cents::int as amount, s.commission_base_cents::int as base, s.refunded_cents::int as refunded,
        s.is_recurring, s.is_test, s.partner_id::int, c.amount_cents::int as commission, c.reversed_cents::int as reversed
      from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
      where s.program_id = $1 order by s.id`,
      [programId],
    )
    return rows
  }
  return { env, post, connect, connectAgain, send, report, salesOf }
}
