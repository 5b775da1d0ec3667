import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import trackLead from '../functions/track-lead.ts'
import trackSale from '../functions/track-sale.ts'
import { generateApiKey } from '../lib/access/api-keys.ts'
import type { Generation, StripeEvent } from '../lib/local/stripe-events.ts'
import { type PaidInvoice, renewalFromInvoice, SvcClient } from '../tracker/src/server.ts'
import { priceOf, StripeAccount } from './cash/account.ts'
import { currencies, minorUnits } from './cash/currencies.ts'
import { asRequest } from './support/shop.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const webhook = await openWebhook(endpoint)

/** The tracking functions over HTTP, for the client library. */
const server = createServer((incoming, outgoing) => {
  void asRequest(incoming).then(async (request) => {
    const app = request.url.endsWith('/lead') ? trackLead : trackSale
    const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
    const response = await app.fetch(request, { ...endpoint.env, EMAIL_HASH_KEY: 'key' }, context)
    outgoing.writeHead(response.status, { 'content-type': 'application/json' })
    return outgoing.end(await response.text())
  })
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
afterAll(() => {
  server.close()
  server.closeAllConnections()
})
const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

test.each<Generation>(['old', 'new'])(
  'a renewal in every currency, at the largest and the smallest amount, is the same by webhook and by client (%s payloads)',
  { timeout: 120_000 },
  async (generation) => {
    const [byWebhook, byClient] = [await createShop(sql), await createShop(sql)]
    const { key, keyHash, hint } = await generateApiKey()
    await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)`, [
      byClient.programId,
      keyHash,
      hint,
    ])
    const client = new SvcClient({ apiKey: key, baseUrl })
    await client.trackLead({ customerExternalId: 'user-1', clickId: byClient.clickId })
    const account = new StripeAccount({
      generation,
      oldest: false,
      refundEvents: 'both',
      id: byWebhook.account,
      tag: generation,
      start: byWebhook.now,
      settlement: null,
    })
    const buyer = {
      customer: 'cus_1',
      email: 'buyer@example.com',
      metadata: {
        program_id: String(byWebhook.programId),
        svc_customer_key: 'user-1',
        svc_click_id: byWebhook.clickId ?? '',
      },
      clickId: byWebhook.clickId,
      livemode: true,
    }
    const subscription = { id: 'sub_1', buyer, metadata: buyer.metadata }

    const expected = new Map<string, string>()
    const renewals: { event: StripeEvent; invoice: PaidInvoice & { id: string } }[] = []
    for (const { code, largest, step } of currencies) {
      for (const amount of [largest, step]) {
        account.bill(subscription, code, priceOf(amount), code)
        const event = account.events.at(-1)
        if (event?.type !== 'invoice.paid') throw new Error('The last event tells that the invoice is paid.')
        const invoice = event.data.object as unknown as PaidInvoice & { id: string }
        renewals.push({ event, invoice })
        const cents = minorUnits(BigInt(amount), code)
        // Commissions are 20 %, half up.
        const is = `${cents} ${code} recurring, commission ${(cents * 2000n + 5000n) / 10_000n}`
        expected.set(invoice.id, is)
      }
    }
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let next = renewals.pop(); next; next = renewals.pop()) {
          await webhook.post(JSON.stringify(next.event))
          const renewal = renewalFromInvoice(next.invoice)
          if (!renewal) throw new Error('This invoice is a renewal.')
          await client.trackSale(renewal)
        }
      }),
    )

    const recorded = async (programId: number) => {
      const { rows } = await sql.query<{ id: string; is: string }>(
        `select s.transaction_id as id, format('%s %s%s, commission %s', s.amount_cents, s.currency,
          case when s.is_recurring then ' recurring' end, coalesce(c.amount_cents, 0)) as is
        from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
        where s.program_id = $1 order by s.id`,
        [programId],
      )
      return new Map(rows.map(({ id, is }) => [id, is]))
    }
    expect(await recorded(byWebhook.programId)).toEqual(expected)
    expect(await recorded(byClient.programId)).toEqual(expected)
  },
)
