import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Shop } from '../lib/local/stripe-events.ts'
import { shopMetadata } from '../lib/local/stripe-events.ts'
import { handledEventTypes } from '../lib/processors/stripe/read-event.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const { post, stripe, salesOf } = await openWebhook(endpoint)

type StripeObject = Record<string, unknown> & { id: string }

/**
 * Objects from Stripe's own fixtures for each API version (github.com/stripe/openapi, `openapi/fixtures3.json`, MIT license, copyright
 * Stripe, Inc.), published while that version was the newest.
 */
const fixtures = new Map<string, Map<string, StripeObject>>()
for (const line of readFileSync(new URL('stripe-fixtures.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')) {
  const { version, resource, object } = JSON.parse(line)
  const ofVersion = fixtures.get(version) ?? new Map<string, StripeObject>()
  fixtures.set(version, ofVersion.set(resource, object))
}
const versions = [...fixtures.keys()]

/** Every event type of Stripe's library that an endpoint can receive. */
const allTypes = [
  ...(/type EnabledEvent = (.*);/
    .exec(
      readFileSync(new URL('../node_modules/stripe/esm/resources/WebhookEndpoints.d.ts', import.meta.url), 'utf8'),
    )?.[1]
    ?.matchAll(/'([a-z_.]+)'/g) ?? []),
].map(([, type = '']) => type)

function resourceOf(type: string): string {
  if (type.startsWith('charge.dispute.')) return 'dispute'
  if (type.startsWith('charge.refund.')) return 'refund'
  return type.slice(0, type.lastIndexOf('.'))
}

let sent = 0
const event = (
  type: string,
  object: object,
  more: { account?: string | null; livemode?: boolean; api_version: string },
) =>
  JSON.stringify({
    id: `evt_${++sent}`,
    object: 'event',
    created: Math.floor(Date.now() / 1000),
    data: { object },
    livemode: true,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
    type,
    ...more,
  })

describe('every type of event', () => {
  test('is known', () => {
    expect(allTypes.length).toBeGreaterThan(200)
    expect(handledEventTypes.filter((type) => !allTypes.includes(type))).toEqual([])
  })

  test('does not include the properties that every object has', async () => {
    const shop = await createShop(sql)
    for (const type of ['__proto__', 'constructor', 'toString']) {
      const answer = await post(event(type, { id: 'obj_1' }, { account: shop.account, api_version: '2024-06-20' }))
      expect(answer).toMatchObject({ status: 200, body: { outcome: 'ignored' } })
    }
  })

  test.for(versions)(
    'as Stripe writes it in %s is answered with 200, with and without an account, in live and test mode',
    async (version) => {
      const shop = await createShop(sql)
      const answers = new Map<string, number>()
      const oldest = version === versions[0]
      for (const type of allTypes) {
        // The service doesn't check unused fields, so one version is enough.
        if (!handledEventTypes.includes(type) && !oldest) continue
        // Before 2025-03-31, invoices had no separate payments.
        if (type === 'invoice_payment.paid' && !fixtures.get(version)?.has('invoice_payment')) continue
        const object = fixtures.get(version)?.get(resourceOf(type)) ?? { id: 'obj_1', object: resourceOf(type) }
        for (const account of [shop.account, null]) {
          for (const livemode of [true, false]) {
            const { status, body } = await post(event(type, object, { account, livemode, api_version: version }))
            const what =
              status === 200 ? `200 ${/could not be read/.test(body.reason ?? '') ? 'not read' : ''}` : String(status)
            answers.set(what.trim(), (answers.get(what.trim()) ?? 0) + 1)
            if (what.trim() !== '200') expect.soft(`${type}: ${status} ${body.reason}`).toBe('read')
          }
        }
      }
      expect([...answers.keys()]).toEqual(['200'])
    },
  )
})

const sold = { amount: 10_000, currency: 'usd', commission: 2000 }

const details = (shop: Shop) => ({ metadata: shopMetadata(shop), subscription: 'sub_1' })

describe.for(versions)('as Stripe documents API version %s,', (version) => {
  /** Returns the object of this version with the fields of this payment. */
  const like = (resource: string, more: object): StripeObject => {
    const object = fixtures.get(version)?.get(resource)
    if (!object) throw new Error(`There is no ${resource} in ${version}.`)
    return { ...object, livemode: true, ...more }
  }
  const send = async (shop: Shop, type: string, object: object) =>
    await post(event(type, object, { account: shop.account, api_version: version }))
  const isNew = version >= '2025-03-31'

  const intent = (shop: Shop) =>
    like('payment_intent', {
      id: 'pi_1',
      amount: 10_000,
      amount_received: 10_000,
      status: 'succeeded',
      latest_charge: 'ch_1',
      metadata: shopMetadata(shop),
    })
  const captured = (shop: Shop) =>
    like('charge', {
      id: 'ch_1',
      payment_intent: 'pi_1',
      amount: 12_000,
      amount_captured: 10_000,
      captured: true,
      metadata: shopMetadata(shop),
    })
  const session = (shop: Shop) =>
    like('checkout.session', {
      id: 'cs_1',
      amount_total: 10_000,
      currency: 'usd',
      payment_status: 'paid',
      status: 'complete',
      total_details: { amount_discount: 0, amount_shipping: 0, amount_tax: 0 },
      payment_intent: 'pi_1',
      metadata: shopMetadata(shop),
    })
  const link = (shop: Shop) => ({ ...session(shop), metadata: {}, client_reference_id: shop.clickId })
  const invoice = (shop: Shop) =>
    like('invoice', {
      id: 'in_1',
      amount_due: 10_000,
      amount_paid: 10_000,
      total: 10_000,
      total_excluding_tax: 10_000,
      metadata: shopMetadata(shop),
    })
  const renewal = (shop: Shop) => ({
    ...invoice(shop),
    metadata: {},
    billing_reason: 'subscription_cycle',
    ...(isNew
      ? { parent: { quote_details: null, subscription_details: details(shop), type: 'subscription_details' } }
      : { subscription: 'sub_1', subscription_details: details(shop) }),
  })
  const paid: [type: string, object: (shop: Shop) => object, expected: object][] = [
    ['payment_intent.succeeded', intent, { payment_intent: 'pi_1', charge: 'ch_1' }],
    ['charge.captured', captured, { payment_intent: 'pi_1', charge: 'ch_1' }],
    ['checkout.session.completed', session, { session: 'cs_1', payment_intent: 'pi_1' }],
    ['checkout.session.async_payment_succeeded', session, { session: 'cs_1' }],
    ['checkout.session.completed', link, { session: 'cs_1' }],
    ['invoice.paid', invoice, { invoice: 'in_1', is_recurring: false }],
    ['invoice.payment_succeeded', renewal, { subscription_id: 'sub_1', is_recurring: true }],
  ]
  test.for(paid.filter(([type]) => handledEventTypes.includes(type)))(
    '%s is a sale',
    async ([type, object, expected]) => {
      const shop = await createShop(sql)
      expect(await send(shop, type, object(shop))).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
      expect(await salesOf(shop)).toMatchObject([{ ...sold, ...expected }])
    },
  )

  const refund = (status: string) =>
    like('refund', { id: 're_1', amount: 2500, currency: 'usd', status, charge: 'ch_1', payment_intent: 'pi_1' })
  const dispute = (status: string) =>
    like('dispute', {
      id: 'dp_1',
      amount: 10_000,
      currency: 'usd',
      status,
      charge: 'ch_1',
      payment_intent: 'pi_1',
      balance_transactions: [],
    })
  const reversed: [type: string, object: object, refunded: number][] = [
    ['refund.created', refund('pending'), 2500],
    ['refund.updated', refund('succeeded'), 2500],
    ['charge.refund.updated', refund('succeeded'), 2500],
    ['refund.failed', refund('failed'), 0],
    ['charge.refunded', { ...like('charge', { id: 'ch_1', payment_intent: 'pi_1' }) }, 2500],
    ['charge.dispute.funds_withdrawn', dispute('needs_response'), 10_000],
    ['charge.dispute.funds_reinstated', dispute('won'), 0],
    // Without balance transactions, closing a dispute doesn't move money.
    ['charge.dispute.closed', dispute('lost'), 0],
  ]
  test.for(reversed)('%s reverses its amount', async ([type, object, refunded]) => {
    const shop = await createShop(sql)
    stripe.refunds.set('ch_1', [refund('succeeded')])
    await send(shop, 'checkout.session.completed', session(shop))
    expect(await send(shop, type, object)).toMatchObject({ status: 200 })
    expect(await salesOf(shop)).toMatchObject([{ refunded, reversed: refunded / 5 }])
  })

  test('credit_note.created reverses the amount returned outside Stripe', async () => {
    const shop = await createShop(sql)
    await send(shop, 'invoice.paid', invoice(shop))
    const note = { id: 'cn_1', invoice: 'in_1', currency: 'usd', amount: 2500, out_of_band_amount: 2500 }
    await send(shop, 'credit_note.created', like('credit_note', note))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 2500, reversed: 500 }])
  })

  test.for(isNew ? ['invoice_payment.paid'] : [])('%s links the invoice to its payment', async (type) => {
    const shop = await createShop(sql)
    await send(shop, 'invoice.paid', invoice(shop))
    await send(shop, 'refund.created', refund('succeeded'))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0 }])
    const payment = { type: 'payment_intent', payment_intent: 'pi_1' }
    await send(shop, type, like('invoice_payment', { invoice: 'in_1', payment }))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 2500 }])
  })
})

testStoredState(sql)
