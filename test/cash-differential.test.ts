import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { build } from 'esbuild'
import { SvcClient } from '@affiliate-tracking/svc-tracker'
import { saleFromInvoice, type PaidInvoice } from '@affiliate-tracking/svc-tracker/stripe'
import { afterAll, describe, expect, test } from 'vitest'
import trackRefund from '../functions/track-refund.ts'
import trackSale from '../functions/track-sale.ts'
import { generateApiKey } from '../lib/access/api-keys.ts'
import type { Generation, StripeEvent } from '../lib/local/stripe-events.ts'
import { priceOf, StripeAccount } from './cash/account.ts'
import { currencies, minorUnits } from './cash/currencies.ts'
import type { Buyer, Charge, Payment } from './cash/objects.ts'
import { commissionOf } from './support/commission-oracle.ts'
import { asRequest } from './support/shop.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const webhook = await openWebhook(endpoint)

/** Serves the tracking functions over HTTP for the client library. */
const server = createServer((incoming, outgoing) => {
  void asRequest(incoming).then(async (request) => {
    const app = request.url.endsWith('/sale') ? trackSale : trackRefund
    const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
    const env = { ...endpoint.env, RELAY: { fetch: () => Promise.resolve(new Response()) } }
    const response = await app.fetch(request, env, context)
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

async function keyOf({ programId }: TestShop): Promise<string> {
  const { key, keyHash, hint } = await generateApiKey()
  await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)`, [
    programId,
    keyHash,
    hint,
  ])
  return key
}

/** Loads `lib/sales.ts` from the instructions of `svc init` with any key. Stripe's own library talks to the fake Stripe. */
async function buildInstructions(): Promise<string> {
  const instructions = readFileSync(new URL('../tracker/templates/AGENTS.md', import.meta.url), 'utf8')
  const [, code = ''] = /^```ts file=lib\/sales\.ts\n([^]*?)^```$/m.exec(instructions) ?? []
  const { hostname, port } = new URL(webhook.stripe.url)
  const stripe = `new Stripe('sk_test_1', { host: '${hostname}', port: ${port}, protocol: 'http' })`
  const { outputFiles } = await build({
    stdin: {
      contents: code
        .replace("import type Stripe from 'stripe'", `import Stripe from 'stripe'\nexport const stripe = ${stripe}`)
        .replaceAll('{{api_base_url}}', baseUrl)
        .replaceAll('{{currency}}', 'usd'),
      resolveDir: import.meta.dirname,
      loader: 'ts',
    },
    bundle: true,
    write: false,
    format: 'esm',
    external: ['stripe'],
    define: { "process.env['SVC_API_KEY']": '"svc_live_placeholder"' },
  })
  return outputFiles[0]?.text ?? ''
}
const instructions = await buildInstructions()

/** The folder is below node_modules, so that the code of the instructions finds Stripe's library. */
mkdirSync('node_modules/.cache', { recursive: true })
const folder = mkdtempSync(path.resolve('node_modules/.cache/instructions-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function trackPaymentWith(apiKey: string): Promise<(event: StripeEvent) => Promise<boolean>> {
  const file = path.join(folder, `${apiKey}.mjs`)
  writeFileSync(file, instructions.replace('svc_live_placeholder', apiKey))
  const { trackPayment, stripe } = await import(/* @vite-ignore */ pathToFileURL(file).href)
  return (event) => trackPayment(stripe, event)
}

function accountOf(shop: TestShop, generation: Generation, tag: string): { account: StripeAccount; buyer: Buyer } {
  const account = new StripeAccount({
    generation,
    oldest: false,
    refundEvents: 'both',
    id: shop.account,
    tag,
    start: shop.now,
    settlement: null,
  })
  const buyer = {
    customer: `cus_${tag}`,
    email: 'buyer@example.com',
    metadata: {
      program_id: String(shop.programId),
      svc_customer_key: `user-${tag}`,
      svc_click_id: shop.clickId ?? '',
    },
    clickId: shop.clickId,
    livemode: true,
  }
  return { account, buyer }
}

const chargeOf = ({ charges }: Payment): Charge => {
  const [charge] = charges
  if (!charge) throw new Error('It was not charged.')
  return charge
}

const vat = priceOf(9990, { taxBp: 1900 })
const vatInside = priceOf(9999, { taxBp: 1900, inclusive: true, discount: 1111 })

/** The events of a shop's account, and the expected amounts of its sales: paid, paid without tax, and refunded. */
type Scenario = [
  what: string,
  play: (account: StripeAccount, buyer: Buyer) => void,
  sales: [amount: number, base: number, refunded: number][],
]
const scenarios: Scenario[] = [
  [
    'added tax, and included tax after a discount',
    (account, buyer) => {
      account.checkout(buyer, 'eur', vat, 'on top')
      account.checkout(buyer, 'eur', vatInside, 'inside', { invoiced: true })
    },
    [
      [11_888, 9990, 0],
      [8888, 7469, 0],
    ],
  ],
  [
    'a payment that arrives days later, and one that never arrives',
    (account, buyer) => {
      account.checkout(buyer, 'eur', vat, 'later', { paid: 'later' })
      account.checkout(buyer, 'eur', vat, 'never', { paid: 'never' })
    },
    [[11_888, 9990, 0]],
  ],
  [
    'a subscription, its upgrade with proration, and a renewal that the balance partly pays',
    (account, buyer) => {
      const { subscription } = account.subscribe(buyer, 'eur', vat, 'first')
      account.bill(subscription, 'eur', priceOf(777, { taxBp: 1900 }), 'upgrade', { reason: 'subscription_update' })
      account.giveCredit(buyer, 3333)
      account.bill(subscription, 'eur', vat, 'renewal')
    },
    [
      [11_888, 9990, 0],
      [925, 777, 0],
      [8555, 7189, 0],
    ],
  ],
  [
    "a first payment that the balance partly pays, so that the session's amount is too high",
    (account, buyer) => {
      account.giveCredit(buyer, 3333)
      account.subscribe(buyer, 'eur', vat, 'first')
    },
    [[8555, 7189, 0]],
  ],
  [
    'a trial that converts',
    (account, buyer) => {
      const { subscription } = account.subscribe(buyer, 'eur', vat, 'trial', { trial: true })
      account.wait(14 * 86_400)
      account.bill(subscription, 'eur', vat, 'converted')
    },
    [[11_888, 9990, 0]],
  ],
  [
    'partial refunds of a session, with a pending one and a failed one',
    (account, buyer) => {
      const charge = chargeOf(account.checkout(buyer, 'eur', vat, 'bought'))
      account.refund(charge, 3333)
      account.refund(charge, 3333)
      account.settleRefund(account.refund(charge, 1000, 'pending'), 'succeeded')
      account.settleRefund(account.refund(charge, 2000, 'requires_action'), 'canceled')
      account.settleRefund(account.refund(charge, 4222, 'pending'), 'failed')
    },
    [[11_888, 9990, 7666]],
  ],
  [
    'full and partial refunds of invoices',
    (account, buyer) => {
      const { subscription, payment } = account.subscribe(buyer, 'eur', vat, 'first')
      const renewal = account.bill(subscription, 'eur', vat, 'renewal')
      account.refund(chargeOf(payment), 11_888)
      account.refund(chargeOf(renewal.payment), 5000)
    },
    [
      [11_888, 9990, 11_888],
      [11_888, 9990, 5000],
    ],
  ],
  [
    'a lost dispute after a refund',
    (account, buyer) => {
      const charge = chargeOf(account.checkout(buyer, 'eur', vat, 'bought'))
      account.refund(charge, 1888)
      account.closeDispute(account.dispute(charge, 10_000), 'lost', 0)
    },
    [[11_888, 9990, 11_888]],
  ],
  [
    'an invoice with its own metadata that is paid and partly refunded outside Stripe',
    (account, buyer) => {
      const sent = account.sendInvoice(buyer, 'eur', vat, 'sent', { paying: { by: 'outside' } })
      account.credit(sent.invoice, sent.payment, 1888, 'outside')
    },
    [[11_888, 9990, 1888]],
  ],
  [
    'krónur, which Stripe sends with two decimals',
    (account, buyer) => {
      const price = priceOf(1_000_000, { taxBp: 2400, step: 100 })
      const charge = chargeOf(account.checkout(buyer, 'isk', price, 'once'))
      account.subscribe(buyer, 'isk', price, 'first')
      account.refund(charge, 340_000)
    },
    [
      [12_400, 10_000, 3400],
      [12_400, 10_000, 0],
    ],
  ],
  [
    'yen and ariary, which Stripe sends without decimals',
    (account, buyer) => {
      account.refund(chargeOf(account.checkout(buyer, 'jpy', priceOf(1000, { taxBp: 1000 }), 'yen')), 550)
      account.checkout(buyer, 'mga', priceOf(1000, { taxBp: 2000 }), 'ariary')
    },
    [
      [1100, 1000, 550],
      [120_000, 100_000, 0],
    ],
  ],
]

const scenariosOf = scenarios.flatMap((scenario, at) =>
  (['old', 'new'] as const).map((generation) => [...scenario, generation, `${at}${generation}`] as const),
)

describe('the connected account and the calls from the instructions record the same rows', () => {
  test.for(scenariosOf)('%s (%#)', async ([, play, sales, generation, tag]) => {
    const [byWebhook, byCalls] = [await createShop(sql), await createShop(sql)]
    for (const shop of [byWebhook, byCalls]) {
      const { account, buyer } = accountOf(shop, generation, tag)
      play(account, buyer)
      for (const [intent, invoice] of account.invoiceOfIntent) webhook.stripe.invoices.set(intent, invoice)
      const take =
        shop === byWebhook
          ? async (event: StripeEvent) => (await webhook.post(JSON.stringify(event))).status === 200
          : await trackPaymentWith(await keyOf(shop))
      for (const event of account.events) {
        expect(await take(event)).toBe(true)
        expect(await take(event)).toBe(true)
      }
    }
    const [reported, sent] = await Promise.all(
      [byWebhook, byCalls].map(async (shop) =>
        // These fields differ, because calls don't report Stripe's other ids and each shop has its own partner.
        (await webhook.salesOf(shop)).map((sale): Record<string, unknown> => ({
          ...sale,
          payment_intent: null,
          charge: null,
          invoice: null,
          session: null,
          customer: null,
          partner_id: null,
          isPartners: sale['partner_id'] === shop.partnerId,
        })),
      ),
    )
    expect(reported?.map((sale) => [sale['amount'], sale['base'], sale['refunded']])).toEqual(sales)
    expect(sent).toEqual(reported)
    expect(reported?.every((sale) => sale['isPartners'] && Number(sale['commission']) > 0)).toBe(true)
  })
})

test(
  'a renewal in every currency, with the largest and smallest amounts, is the same by webhook and by client',
  { timeout: 120_000 },
  async () => {
    const [byWebhook, byClient] = [await createShop(sql), await createShop(sql)]
    const client = new SvcClient({ apiKey: await keyOf(byClient), baseUrl })
    const { account, buyer } = accountOf(byWebhook, 'new', 'renewed')
    const subscription = { id: 'sub_1', buyer, metadata: buyer.metadata }

    const terms = { bp: 2000, fixed: 0, cap: null }
    const expected = new Map<string, string>()
    const renewals: { event: StripeEvent; invoice: PaidInvoice & { id: string } }[] = []
    for (const { code, largest, step } of currencies) {
      for (const amount of [largest, step]) {
        account.bill(subscription, code, priceOf(amount), code)
        const event = account.events.at(-1)
        if (event?.type !== 'invoice.paid') throw new Error('The last event reports that the invoice is paid.')
        const invoice = event.data.object as unknown as PaidInvoice & { id: string }
        renewals.push({ event, invoice })
        const cents = minorUnits(BigInt(amount), code)
        const is = `${cents} ${code} recurring, commission ${commissionOf(cents, terms, 0n)}`
        expected.set(invoice.id, is)
      }
    }
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (let next = renewals.pop(); next; next = renewals.pop()) {
          await webhook.post(JSON.stringify(next.event))
          const renewal = saleFromInvoice(next.invoice)
          if (!renewal) throw new Error('This invoice is a renewal.')
          await client.trackSale({ ...renewal, programId: byClient.programId, clickId: byClient.clickId })
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
