import type { Webhook } from '@lemonsqueezy/lemonsqueezy.js'
import { EventName } from '@paddle/paddle-node-sdk'
import type { models } from '@polar-sh/sdk/2026-04'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import trackLead from '../functions/track-lead.ts'
import trackRefund from '../functions/track-refund.ts'
import trackSale from '../functions/track-sale.ts'
import { generateApiKey } from '../lib/access/api-keys.ts'
import type { Story } from '../lib/local/processor-events.ts'
import { processorFixtures } from '../lib/local/processor-fixture.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { attributeKnownCustomers, countExcludedPayments } from '../lib/processors/known-customers.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { applyImport, createImport, importFiles } from '../lib/moving/imports.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { changeSecret, disconnectConnection, isProcessor, listConnections } from '../lib/processors/connections.ts'
import { type ProcessorName, processors } from '../lib/processors/processors.ts'
import { deleteOldWebhookEvents, listWebhookEvents, replayWebhookEvent } from '../lib/processors/webhook-events.ts'
import { addressOf, type ConnectedShop, openConnections, storyOf } from './support/connections.ts'
import { startEndpoint } from './support/stack.ts'
import { testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, post, connect, connectAgain, send, report, salesOf } = openConnections(endpoint)
const stripe = openStripe({ STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: 'http://127.0.0.1:9' })
const names = Object.keys(processors).filter(isProcessor)
const recorded = { status: 200, body: { outcome: 'recorded' } }

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000)

/** Facts about a processor, for tests that run for all processors. */
interface Traits {
  sale: string
  /** A later subscription payment, which doesn't identify a buyer. */
  renewal: string
  /** The start of a subscription. */
  start: string
  /** The event with the fee, if the processor reports it. */
  fee: string | null
  signsTime: boolean
}

const traits: Record<ProcessorName, Traits> = {
  paddle: {
    sale: 'transaction.completed',
    renewal: 'transaction.completed:renewal-without-data',
    start: 'subscription.created',
    fee: 'transaction.completed',
    signsTime: true,
  },
  lemonsqueezy: {
    sale: 'order_created',
    renewal: 'subscription_payment_success:without-data',
    start: 'subscription_created',
    fee: null,
    signsTime: false,
  },
  polar: {
    sale: 'order.paid',
    renewal: 'order.paid:renewal-without-data',
    start: 'subscription.created',
    fee: 'order.updated',
    signsTime: true,
  },
}
const earned = { amount: 12_000, base: 10_000, commission: 2000, reversed: 0, refunded: 0 }

describe.each(names)('%s', (processor) => {
  test('a sale is recorded once, in two database requests, with the amount without tax as the base', async () => {
    const shop = await connect(processor)
    expect(await report(shop, traits[processor].sale)).toMatchObject({ ...recorded, requests: 2 })
    expect(await report(shop, traits[processor].sale)).toMatchObject({
      status: 200,
      body: { outcome: expect.any(String) },
    })
    expect(await salesOf(shop)).toMatchObject([{ ...earned, partner_id: shop.partnerId, is_test: false }])
  })

  test('a program can exclude the reported fee from the base', async () => {
    const shop = await connect(processor)
    await sql.query(`update programs set commission_base = 'net_of_fees' where id = $1`, [shop.programId])
    await report(shop, traits[processor].sale)
    const { fee } = traits[processor]
    if (fee !== null) await report(shop, fee)
    const base = fee === null ? 10_000 : 9400
    const [sale] = await salesOf(shop)
    expect(sale).toMatchObject({ amount: 12_000, base, commission: base / 5 })
    const request = {
      programId: shop.programId,
      transaction_id: String(sale?.['transaction_id']),
      test: false,
      withCustomer: false,
    }
    expect((await explainSale(db, request)).commission?.text).toContain(
      fee === null ? '120.00 minus $20.00 of tax is' : "120.00 minus $20.00 of tax and $6.00 of the processor's fee is",
    )
  })

  test("a free order settles the lead but doesn't create a sale", async () => {
    const shop = await connect(processor)
    expect(await report(shop, `${traits[processor].sale}:free`)).toMatchObject(recorded)
    expect(await salesOf(shop)).toEqual([])
  })

  test('each fixture is read, and repeating it changes nothing', async () => {
    const shop = await connect(processor)
    const events = Object.values(processorFixtures[processor].events).map((event) => event(storyOf(shop)))
    for (const event of events) {
      const { status, body } = await send(shop, event)
      expect([status, body.reason ?? ''], JSON.stringify(event)).toEqual([
        200,
        expect.not.stringMatching(/could not be read|are not used|contains no program/),
      ])
    }
    const sales = await salesOf(shop)
    for (const event of events) await send(shop, event)
    expect(await salesOf(shop)).toEqual(sales)
  })

  test('refuses wrong keys, changed bodies, old timestamps and missing signatures', async () => {
    const shop = await connect(processor)
    const body = JSON.stringify(processorFixtures[processor].events[traits[processor].sale]?.(storyOf(shop)))
    const { headersOf } = processorFixtures[processor]
    const signed = headersOf(body, shop.secret, new Date())
    const minute = 60_000
    const refused: [string, Record<string, string>][] = [
      [body, headersOf(body, 'another', new Date())],
      [`${body} `, signed],
      [body, {}],
      [body, Object.fromEntries(Object.keys(signed).map((name) => [name, 'x'.repeat(5000)]))],
      ...(!traits[processor].signsTime
        ? []
        : [-6, 6].map((minutes): [string, Record<string, string>] => [
            body,
            headersOf(body, shop.secret, new Date(Date.now() + minutes * minute)),
          ])),
    ]
    for (const [text, headers] of refused) {
      expect(await post(addressOf(shop), text, headers)).toMatchObject({
        status: 400,
        body: { error: { code: 'invalid_signature' } },
      })
    }
    expect(await salesOf(shop)).toEqual([])
    expect(await listConnections(db, shop.programId)).toMatchObject([{ refused_at: expect.any(Date) }])
    expect(await post(addressOf(shop), body, signed)).toMatchObject(recorded)
    expect(await listConnections(db, shop.programId)).toMatchObject([{ refused_at: null, refusal: null }])
  })

  test('amounts are in the smallest unit of currencies with no and with three decimals', async () => {
    const shop = await connect(processor)
    for (const currency of ['jpy', 'krw', 'kwd'])
      await report(shop, traits[processor].sale, { order: currency, currency })
    expect(await salesOf(shop)).toMatchObject([earned, earned, earned])
  })

  test('keeps programs apart: a connection accepts neither signatures nor refunds from another program', async () => {
    const [shop, other] = [await connect(processor), await connect(processor)]
    const otherSecret = shop.secret.replace('whsec_', 'whsec_bm90')
    await changeSecret(db, env, other.programId, other.accountId, otherSecret)
    const story = storyOf(shop)
    const event = processorFixtures[processor].events[traits[processor].sale]?.(story) ?? {}
    expect(await send({ ...shop, accountId: other.accountId }, event)).toMatchObject({ status: 400 })
    await send(shop, event)
    // The other program can't refer to this program, to its click or to its payment.
    expect(await send({ ...other, secret: otherSecret }, event)).toMatchObject({ body: { outcome: 'ignored' } })
    expect(await salesOf(other)).toEqual([])
    const another = names.find((name) => name !== processor) ?? 'paddle'
    expect(await post(addressOf({ ...shop, processor: another }), '{}', {})).toMatchObject({ status: 404 })
    expect(await post(`/api/v1/webhooks/${processor}/conn_${'x'.repeat(43)}`, '{}', {})).toMatchObject({ status: 404 })
    expect(await post(`/api/v1/webhooks/stripes/${shop.accountId}`, '{}', {})).toMatchObject({ status: 404 })
  })

  test('a sandbox connection creates test sales', async () => {
    const shop = await connect(processor, {}, false)
    await report(shop, traits[processor].sale)
    expect(await salesOf(shop)).toMatchObject([{ is_test: true, commission: null }])
  })

  test('events of a disconnected connection wait and apply when it is connected again', async () => {
    const shop = await connect(processor)
    await disconnectConnection(db, shop.programId, shop.accountId)
    expect(await report(shop, traits[processor].sale)).toMatchObject({ body: { outcome: 'parked' } })
    expect(await salesOf(shop)).toEqual([])
    expect(await listConnections(db, shop.programId)).toMatchObject([{ waiting: 1 }])
    await changeSecret(db, env, shop.programId, shop.accountId, shop.secret)
    await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
    expect(await salesOf(shop)).toMatchObject([earned])
    // A renewal waits too, although it contains no buyer data.
    await report(shop, traits[processor].start)
    await disconnectConnection(db, shop.programId, shop.accountId)
    expect(await report(shop, traits[processor].renewal, { now: inSeconds(9) })).toMatchObject({
      body: { outcome: 'parked' },
    })
    await changeSecret(db, env, shop.programId, shop.accountId, shop.secret)
    await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
    expect(await salesOf(shop)).toMatchObject([earned, { ...earned, is_recurring: true, partner_id: shop.partnerId }])
  })

  test('the renewal of an imported customer is attributed by the customer id, without buyer data or a setting', async () => {
    const shop = await connect(processor)
    const story = storyOf(shop, { now: inSeconds(9) })
    const renewal = processorFixtures[processor].events[traits[processor].renewal]?.(story) ?? {}
    const [, customerId = ''] = /"customer_id":"?([\w-]+)/.exec(JSON.stringify(renewal)) ?? []
    const files = [
      { name: 'partners.csv', text: 'name,email,link\nAda,ada@example.com,ada' },
      {
        name: 'customers.csv',
        text: `${processors[processor].title} Customer ID,Partner\n${customerId},ada@example.com`,
      },
    ].map(({ name, text }) => ({ name, content: new TextEncoder().encode(text) }))
    const importId = await createImport(db, env, shop.programId, 'csv')
    await importFiles(db, env, shop.programId, importId, { source: 'csv', files, mappings: {}, seconds: 9 })
    await applyImport(db, env, shop.programId, importId, 9)
    expect(await send(shop, renewal)).toMatchObject(recorded)
    const [ada] = (
      await sql.query(`select id::int from partners where program_id = $1 and email = 'ada@example.com'`, [
        shop.programId,
      ])
    ).rows
    expect(await salesOf(shop)).toMatchObject([{ ...earned, is_recurring: true, partner_id: ada.id }])
  })

  test("an unreadable delivery is kept encrypted and can be replayed, and strangers don't cause notifications", async () => {
    const shop = await connect(processor)
    const event = processorFixtures[processor].events[traits[processor].sale]?.(storyOf(shop)) ?? {}
    const broken = JSON.stringify(event).replaceAll(/"(currency|currency_code)":"[A-Za-z]+"/g, '"$1":17')
    const { headersOf } = processorFixtures[processor]
    const answer = await post(addressOf(shop), broken, headersOf(broken, shop.secret, new Date()))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'ignored', reason: /could not be read/ } })
    const { rows } = await sql.query(`select event_id, payload from processor_events where account_id = $1`, [
      shop.accountId,
    ])
    expect(rows).toMatchObject([{ payload: expect.any(Buffer) }])
    expect(rows[0].payload.toString()).not.toContain('example.com')
    expect(await listWebhookEvents(db, shop.programId, { limit: 10, before: undefined, livemode: true })).toMatchObject(
      [{ event_id: rows[0].event_id, outcome: 'ignored' }],
    )
    expect(await replayWebhookEvent(db, stripe, 'key', shop.programId, rows[0].event_id)).toMatchObject({
      outcome: 'ignored',
    })
  })

  test('no body causes an internal error', async () => {
    const shop = await connect(processor)
    const { events, headersOf } = processorFixtures[processor]
    const whole = Object.values(events).map((event) => JSON.stringify(event(storyOf(shop))))
    const bodies = [
      '',
      '[]',
      'null',
      '{}',
      '7',
      '"x"',
      '{"data":null}',
      '{"type":"order.paid","data":{}}',
      ...whole.flatMap((text) => [
        text.replaceAll(/:"[^"]*"/g, ':null'),
        text.replaceAll(/:\d+/g, ':-1'),
        text.replaceAll(/:"\d+"/g, ':"99999999999999999"'),
        text.replaceAll(/:\{/g, ':[{').replaceAll('}', '}]').replace(/^\{/, '[{'),
        text.replaceAll(/"(\w+_at)":"[^"]*"/g, '"$1":"never"'),
      ]),
    ]
    for (const body of bodies) {
      const { status } = await post(addressOf(shop), body, headersOf(body, shop.secret, new Date()))
      expect(status, body).toBeLessThan(500)
    }
  })
})

type LemonEvent = Webhook['data']['attributes']['events'][number]

const lemonEvents: Record<LemonEvent, true> = {
  order_created: true,
  order_refunded: true,
  subscription_created: true,
  subscription_updated: true,
  subscription_cancelled: true,
  subscription_resumed: true,
  subscription_expired: true,
  subscription_paused: true,
  subscription_unpaused: true,
  subscription_payment_success: true,
  subscription_payment_failed: true,
  subscription_payment_recovered: true,
  subscription_payment_refunded: true,
  license_key_created: true,
  license_key_updated: true,
}

const polarEvents: Record<models.WebhookEventType, true> = {
  'checkout.created': true,
  'checkout.updated': true,
  'checkout.expired': true,
  'customer.created': true,
  'customer.updated': true,
  'customer.deleted': true,
  'customer.state_changed': true,
  'customer_seat.assigned': true,
  'customer_seat.claimed': true,
  'customer_seat.revoked': true,
  'member.created': true,
  'member.updated': true,
  'member.deleted': true,
  'order.created': true,
  'order.updated': true,
  'order.paid': true,
  'order.refunded': true,
  'subscription.created': true,
  'subscription.updated': true,
  'subscription.active': true,
  'subscription.canceled': true,
  'subscription.uncanceled': true,
  'subscription.cycled': true,
  'subscription.revoked': true,
  'subscription.past_due': true,
  'subscription.paused': true,
  'subscription.resumed': true,
  'subscription.migrated': true,
  'refund.created': true,
  'refund.updated': true,
  'product.created': true,
  'product.updated': true,
  'discount.created': true,
  'discount.updated': true,
  'discount.deleted': true,
  'benefit.created': true,
  'benefit.updated': true,
  'benefit_grant.created': true,
  'benefit_grant.cycled': true,
  'benefit_grant.updated': true,
  'benefit_grant.revoked': true,
  'organization.updated': true,
}

/**
 * All event types in the vendors' SDKs. If an SDK declares the event types only as a TypeScript type, the compiler checks that the list is
 * complete.
 */
const documented: Record<ProcessorName, string[]> = {
  paddle: Object.values(EventName),
  lemonsqueezy: Object.keys(lemonEvents),
  polar: Object.keys(polarEvents),
}

const otherForms = [null, [], {}, 'x\u0000', -1, 1e300, true]

/** Returns variants of an event. In each of them, one value down to this depth is replaced by a value of another type. */
function* distorted(value: unknown, depth: number, at = 0): Generator {
  yield otherForms[at % otherForms.length]
  if (depth === 0 || typeof value !== 'object' || value === null) return
  for (const [place, [key, inner]] of Object.entries(value).entries()) {
    for (const other of distorted(inner, depth - 1, at + place)) {
      yield Array.isArray(value) ? [other] : { ...value, [key]: other }
    }
  }
}

test.each(names)(
  '%s: each documented event is answered with each kind of object, intact and distorted',
  async (processor) => {
    const shop = await connect(processor)
    const { events } = processorFixtures[processor]
    const named = (event: object, type: string) => {
      const { meta } = Object(event)
      const id = `evt_${crypto.randomUUID()}`
      return processor === 'lemonsqueezy'
        ? { ...event, meta: { ...meta, event_name: type } }
        : { ...event, ...(processor === 'paddle' ? { event_id: id, event_type: type } : { type }) }
    }
    const statuses = new Set<number>()
    const receive = async (body: object) => statuses.add((await send(shop, body)).status)
    for (const type of documented[processor]) {
      for (const name of ['', ':subscription', ':chargeback'].map((feature) => `${traits[processor].sale}${feature}`)) {
        const event = events[name]
        if (event) await receive(named(event(storyOf(shop)), type))
      }
      const own = events[type]
      if (own) for (const body of distorted(own(storyOf(shop)), 4)) await receive(Object(body))
    }
    expect(statuses).toEqual(new Set([200, 400]))
  },
)

/** Turns a fixture's event into another event, with other fields in its object. */
function changed(shop: ConnectedShop, name: string, data: object, more: Partial<Story> = {}): object {
  const event = Object(processorFixtures[shop.processor].events[name]?.(storyOf(shop, more)))
  return { ...event, data: { ...event.data, ...data } }
}

/** Returns all permutations of a text's characters. */
const permutations = (text: string): string[] =>
  text === '' ? [''] : text.split('').flatMap((one) => permutations(text.replace(one, '')).map((rest) => one + rest))

describe('Paddle', () => {
  test('a renewal without custom data is attributed to the buyer of its subscription', async () => {
    const shop = await connect('paddle')
    await report(shop, 'transaction.completed:subscription')
    await report(shop, 'transaction.completed:renewal-without-data', { now: inSeconds(1) })
    expect(await salesOf(shop)).toMatchObject([
      { ...earned, is_recurring: false },
      { ...earned, is_recurring: true, partner_id: shop.partnerId },
    ])
  })

  test('a renewal that arrives before the first payment is attributed when that payment arrives', async () => {
    const shop = await connect('paddle')
    const now = new Date()
    await report(shop, 'transaction.completed:renewal-without-data', { now: new Date(now.getTime() + 1000) })
    await report(shop, 'subscription.created', { now })
    await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
    expect(await salesOf(shop)).toMatchObject([{ ...earned, is_recurring: true }])
  })

  test('a lead attributes the start of a subscription that waits for its buyer', async () => {
    const shop = await connect('paddle')
    const call = await callerOf(shop)
    const later = { clickId: null, customerKey: 'later', now: inSeconds(1) }
    await send(shop, changed(shop, 'subscription.created', { customer_id: 'ctm_later' }, later))
    await report(shop, 'transaction.completed:subscription')
    const startOf = async () => {
      const { rows } = await sql.query(
        `select outcome, waits_for from processor_events where account_id = $1 and event_type = 'subscription.created'`,
        [shop.accountId],
      )
      return rows
    }
    expect(await startOf()).toEqual([{ outcome: 'parked', waits_for: 'buyer' }])
    expect(await call(trackLead, { customer_key: 'later', click_id: shop.clickId })).toBe(200)
    expect(await startOf()).toEqual([{ outcome: 'recorded', waits_for: null }])
  })

  test('a refund counts once it is approved, and is undone if it is reversed', async () => {
    const shop = await connect('paddle')
    await report(shop, 'transaction.completed')
    await report(shop, 'adjustment.created')
    expect(await salesOf(shop)).toMatchObject([earned])
    await report(shop, 'adjustment.updated')
    await report(shop, 'adjustment.updated')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 500 }])
    await report(shop, 'adjustment.updated:reversed')
    expect(await salesOf(shop)).toMatchObject([earned])
  })

  test('a refund before its sale is applied with the sale, and a rejected refund or a credit changes nothing', async () => {
    const shop = await connect('paddle')
    expect(await report(shop, 'adjustment.updated')).toMatchObject({ body: { outcome: 'parked' } })
    await report(shop, 'transaction.completed')
    await report(shop, 'adjustment.created:credit')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 500 }])
    await report(shop, 'adjustment.updated:rejected', { order: '2' })
    await report(shop, 'transaction.completed', { order: '2' })
    expect(await salesOf(shop)).toMatchObject([{}, earned])
  })

  test('the credit of an invoice lowers its payment once, even if only the payment has the lower amount', async () => {
    const shop = await connect('paddle')
    const paid = { amount: 9000, base: 7500, commission: 1500, refunded: 0, reversed: 0 }
    const credit = { id: 'adj_credit', credit_applied_to_balance: false }
    await send(shop, changed(shop, 'adjustment.created:credit', credit))
    await report(shop, 'transaction.completed:credited-invoice')
    const failed = { amount: '12000', status: 'error' }
    const payments = [failed, ...['4000', '5000'].map((amount) => ({ amount, status: 'captured' }))]
    await send(shop, changed(shop, 'transaction.completed', { payments }, { order: '2' }))
    await report(shop, 'adjustment.created:credit', { order: '2' })
    expect(await salesOf(shop)).toMatchObject([paid, paid])
  })

  test("a refund of the tax alone doesn't reverse commission, and refunds of the rest reverse all of it", async () => {
    const shop = await connect('paddle')
    const call = await callerOf(shop)
    const refund = (order: string, id: string, amount: number, tax: number, status = 'approved') => {
      const totals = { subtotal: String(amount - tax), tax: String(tax), total: String(amount) }
      const items = [{ type: tax === amount ? 'tax' : 'partial', totals }]
      return changed(shop, 'adjustment.updated', { id: `${id}_${order}`, status, totals, items }, { order })
    }
    for (const order of ['0123', '3210', '1302']) {
      const events = [
        changed(shop, 'transaction.completed', {}, { order }),
        refund(order, 'tax', 1400, 1400),
        refund(order, 'item', 3600, 600),
        refund(order, 'rest', 7000, 0),
      ]
      for (const place of order) await send(shop, events[Number(place)] ?? {})
      expect((await salesOf(shop)).at(-1), order).toMatchObject({ refunded: 12_000, reversed: 2000 })
      await send(shop, refund(order, 'rest', 7000, 0, 'reversed'))
      expect((await salesOf(shop)).at(-1), order).toMatchObject({ refunded: 5000, reversed: 600 })
      await send(shop, refund(order, 'item', 3600, 600, 'reversed'))
      expect((await salesOf(shop)).at(-1), order).toMatchObject({ refunded: 1400, reversed: 0 })
    }
    const { rows } = await sql.query(
      `select from outbox o join refunds r on r.program_id = o.program_id and o.cause = 'refund:' || r.id
      where o.program_id = $1 and r.processor_reversal_id like 'tax%'`,
      [shop.programId],
    )
    expect(rows).toEqual([])
    // The refund call doesn't say that it also refunds tax.
    await report(shop, 'transaction.completed', { order: 'api' })
    await call(trackRefund, { transaction_id: 'txn_api', refund_amount_cents: 2000 })
    expect((await salesOf(shop)).at(-1)).toMatchObject({ refunded: 2000, reversed: 333 })
    await send(shop, refund('api', 'tax', 2000, 2000))
    expect((await salesOf(shop)).at(-1)).toMatchObject({ refunded: 2000, reversed: 0 })
  })

  const steps = ['transaction.completed', 'adjustment.created:chargeback', 'adjustment.created:chargeback_reverse']
  test.each([
    [0, 1, 2],
    [0, 2, 1],
    [1, 2, 0],
    [2, 1, 0],
    [2, 0, 1],
    [1, 0, 2],
  ])('a chargeback and its reversal leave the commission unchanged, in the order %i %i %i', async (...order) => {
    const shop = await connect('paddle')
    for (const step of [...order, ...order]) await report(shop, steps[step] ?? '')
    expect(await salesOf(shop)).toMatchObject([earned])
    // Another chargeback of the same payment counts too.
    await send(shop, changed(shop, 'adjustment.created:chargeback', { id: 'adj_again' }))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 12_000, reversed: 2000 }])
  })

  test('of two identical chargebacks, one reversal event and one reversed status restore one, and two of each restore both, in any order on two connections', async () => {
    const shop = await connect('paddle')
    const twin = await connectAgain(shop, true)
    const [chargeback, reverse] = ['adjustment.created:chargeback', 'adjustment.created:chargeback_reverse']
    // The other connection gets the events in the opposite order, so half of the orders cover all cases.
    const orders = permutations('0123').filter((order) => order < order.split('').toReversed().join(''))
    for (const [at, order] of orders.entries()) {
      const story = { order: `${at}` }
      const moved = (name: string, data: object) => changed(shop, name, data, { ...story, amount: 4000, tax: 667 })
      const events = [
        moved(chargeback, { id: `adj_first_${at}` }),
        moved(chargeback, { id: `adj_second_${at}` }),
        moved(chargeback, { id: `adj_first_${at}`, status: 'reversed' }),
        moved(reverse, { id: `adj_reverse_${at}` }),
      ]
      if (at % 2 === 0) await report(shop, 'transaction.completed', story)
      for (const place of [0, 1, 2, 3]) {
        await send(shop, events[Number(order[place])] ?? {})
        await send(twin, events[Number(order[3 - place])] ?? {})
      }
      if (at % 2 === 1) await report(shop, 'transaction.completed', story)
      expect((await salesOf(shop)).at(-1), order).toMatchObject({ ...earned, refunded: 4000, reversed: 666 })
      await send(shop, moved(reverse, { id: `adj_reverse_again_${at}` }))
      await send(shop, moved(chargeback, { id: `adj_second_${at}`, status: 'reversed' }))
      expect((await salesOf(shop)).at(-1), order).toMatchObject(earned)
      await send(shop, moved(chargeback, { id: `adj_third_${at}` }))
      expect((await salesOf(shop)).at(-1), order).toMatchObject({ refunded: 4000 })
    }
  })

  test("custom data that was removed from a customer doesn't attribute payments, whatever the order of the updates", async () => {
    const named = { data: {}, now: inSeconds(1) }
    const removed = { data: { custom_data: null }, now: inSeconds(2) }
    for (const updates of [
      [named, removed],
      [removed, named],
    ]) {
      const shop = await connect('paddle')
      for (const { data, now } of updates) await send(shop, changed(shop, 'customer.updated', data, { now }))
      await send(shop, changed(shop, 'transaction.completed', { custom_data: null }, { now: inSeconds(3) }))
      expect(await salesOf(shop)).toEqual([])
      await send(shop, changed(shop, 'customer.updated', {}, { now: inSeconds(4) }))
      await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
      expect(await salesOf(shop)).toMatchObject([earned])
    }
  })

  test("a renewal is attributed if its customer's custom data arrives after it and after a sale from the API", async () => {
    const shop = await connect('paddle')
    const call = await callerOf(shop)
    const first = changed(shop, 'transaction.completed:subscription', { custom_data: null })
    const transaction_id = String(Object(first).data.id)
    await send(shop, first)
    await call(trackLead, { customer_key: 'buyer', click_id: shop.clickId })
    expect(
      await call(trackSale, { transaction_id, customer_key: 'buyer', amount_cents: 12_000, currency: 'usd' }),
    ).toBe(200)
    await report(shop, 'transaction.completed:renewal-without-data', { now: inSeconds(1) })
    await send(shop, changed(shop, 'customer.updated', {}, { now: inSeconds(2) }))
    await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
    expect(await salesOf(shop)).toMatchObject([earned, { ...earned, is_recurring: true, partner_id: shop.partnerId }])
  })

  test('negative amounts of prorated items and credits are read', async () => {
    const shop = await connect('paddle')
    const { data } = Object(changed(shop, 'transaction.completed', {}))
    const credit = { price_id: 'pri_2', totals: { subtotal: '-500', discount: '0', tax: '-100', total: '-600' } }
    const details = { ...data.details, line_items: [...data.details.line_items, credit] }
    expect(await send(shop, changed(shop, 'transaction.completed', { details }))).toMatchObject(recorded)
    expect(await salesOf(shop)).toMatchObject([earned])
    const totals = { subtotal: '-500', discount: '0', tax: '-100', total: '-600', credit: '0', grand_total: '-600' }
    const downgrade = { id: 'txn_down', details: { totals, line_items: [credit] } }
    expect(await send(shop, changed(shop, 'transaction.completed', downgrade))).toMatchObject(recorded)
    expect(await salesOf(shop)).toMatchObject([earned])
  })

  test('a chargeback warning and simulated events have no effect on a live sale', async () => {
    const shop = await connect('paddle')
    await report(shop, 'transaction.completed')
    expect(await report(shop, 'adjustment.created:chargeback_warning')).toMatchObject({ body: { outcome: 'ignored' } })
    const simulated = { ...changed(shop, 'adjustment.updated', {}), event_id: 'ntfsimevt_1' }
    expect(await send(shop, simulated)).toMatchObject({ body: { outcome: 'parked' } })
    await send(shop, { ...changed(shop, 'transaction.completed', { id: 'txn_2' }), event_id: 'ntfsimevt_2' })
    expect(await salesOf(shop)).toMatchObject([earned, { is_test: true, commission: null }])
  })
})

describe('Lemon Squeezy', () => {
  test('an order and its initial invoice are one sale, and their refund totals one refund, in any order', async () => {
    const all = [
      'order_created',
      'subscription_created',
      'subscription_payment_success:initial',
      'order_refunded',
      'subscription_payment_refunded:initial',
    ]
    for (const order of [all, all.toReversed(), [...all.slice(2), ...all.slice(0, 2)]]) {
      const shop = await connect('lemonsqueezy')
      for (const name of order) await report(shop, name)
      expect(await salesOf(shop), order.join()).toMatchObject([{ ...earned, refunded: 3000, reversed: 500 }])
    }
  })

  test('an increase counts only once, even if the earlier report is older than the log', async () => {
    const shop = await connect('lemonsqueezy')
    await report(shop, 'order_created')
    await report(shop, 'order_refunded', { refunded: 3000, now: inSeconds(1) })
    await sql.query(
      `with old as (update processor_events set received_at = now() - interval '91 days' where account_id = $1)
      update processor_reversals set created_at = now() - interval '91 days' where account_id = $1`,
      [shop.accountId],
    )
    await deleteOldWebhookEvents(db, 100)
    await report(shop, 'order_refunded', { refunded: 5000, now: inSeconds(2) })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 833 }])
  })

  test('each increase of the refunded total is one refund', async () => {
    const shop = await connect('lemonsqueezy')
    await report(shop, 'order_created')
    await report(shop, 'order_refunded', { refunded: 5000, now: inSeconds(2) })
    await report(shop, 'order_refunded', { refunded: 3000, now: inSeconds(1) })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 833 }])
    await report(shop, 'order_refunded', { refunded: 12_000, now: inSeconds(3) })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 12_000, reversed: 2000 }])
    const { rows } = await sql.query(
      `select requested_cents::int as by from refunds where program_id = $1 and returned_at is null order by id`,
      [shop.programId],
    )
    // The late total splits the first increase.
    expect(rows).toEqual([{ by: 3000 }, { by: 2000 }, { by: 7000 }])
  })

  test('a refund through the API matches one of the increases, even if the totals arrive in the wrong order', async () => {
    const shop = await connect('lemonsqueezy')
    const call = await callerOf(shop)
    await report(shop, 'order_created')
    await report(shop, 'order_refunded', { refunded: 9000, now: inSeconds(2) })
    const [sale] = await salesOf(shop)
    const refund = { transaction_id: sale?.['transaction_id'], refund_amount_cents: 3000 }
    expect(await call(trackRefund, refund)).toBe(200)
    await report(shop, 'order_refunded', { refunded: 3000, now: inSeconds(1) })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 9000, reversed: 1500 }])
  })

  test("a trial doesn't create a sale, but the first payment after it does", async () => {
    const shop = await connect('lemonsqueezy')
    const free = { amount: 0, tax: 0 }
    await report(shop, 'order_created:free')
    await report(shop, 'subscription_created')
    await report(shop, 'subscription_payment_success:initial', free)
    expect(await salesOf(shop)).toEqual([])
    await report(shop, 'subscription_payment_success:without-data', { now: inSeconds(1) })
    expect(await salesOf(shop)).toMatchObject([{ ...earned, partner_id: shop.partnerId }])
  })

  test('the invoice of an upgrade is a sale, and the negative invoice of a downgrade is not', async () => {
    const shop = await connect('lemonsqueezy')
    for (const name of ['order_created', 'subscription_created']) await report(shop, name)
    const invoice = (name: string, order: string, attributes: object) => {
      const { meta, data } = Object(changed(shop, name, {}, { order }))
      const { subscription_id } = Object(changed(shop, 'subscription_payment_success', {})).data.attributes
      const changes = { subscription_id, billing_reason: 'updated', ...attributes }
      return { meta, data: { ...data, attributes: { ...data.attributes, ...changes } } }
    }
    expect(await send(shop, invoice('subscription_payment_success:without-data', 'up', {}))).toMatchObject(recorded)
    const credit = { subtotal: -1000, tax: -200, total: -1200 }
    const { body } = await send(shop, invoice('subscription_payment_success:without-data', 'down', credit))
    expect(body.reason).not.toMatch(/could not be read/)
    const { rows } = await sql.query(`select kind from outbox where program_id = $1 and kind = 'payment_ignored'`, [
      shop.programId,
    ])
    expect(rows).toEqual([])
    expect(await salesOf(shop)).toMatchObject([earned, { ...earned, is_recurring: false, partner_id: shop.partnerId }])
  })

  test('two refunds within one second are both applied, even before their order', async () => {
    const shop = await connect('lemonsqueezy')
    const now = new Date()
    await report(shop, 'order_refunded', { refunded: 9000, now })
    await report(shop, 'order_refunded', { refunded: 3000, now })
    await report(shop, 'order_created')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 9000, reversed: 1500 }])
  })

  test.each([
    { refunded: true, refunded_amount: 0 },
    { refunded: true, refunded_amount: null },
    { status: 'fraudulent' },
  ])(
    'an order that was fraudulent, or was fully refunded without an amount, loses its commission: %o',
    async (attributes) => {
      const shop = await connect('lemonsqueezy')
      await report(shop, 'order_created')
      const { meta, data } = Object(changed(shop, 'order_refunded', {}))
      await send(shop, { meta, data: { ...data, attributes: { ...data.attributes, ...attributes } } })
      expect(await salesOf(shop)).toMatchObject([{ refunded: 12_000, reversed: 2000 }])
    },
  )

  test('a renewal without custom data is attributed to the buyer of its subscription, and has separate refunds', async () => {
    const shop = await connect('lemonsqueezy')
    for (const name of ['order_created', 'subscription_created']) await report(shop, name)
    await report(shop, 'subscription_payment_success:without-data', { now: inSeconds(1) })
    await report(shop, 'subscription_payment_refunded', { now: inSeconds(2) })
    expect(await salesOf(shop)).toMatchObject([
      earned,
      { ...earned, is_recurring: true, refunded: 3000, reversed: 500 },
    ])
  })

  test('a renewal is attributed if it arrives between the order and the start of the subscription', async () => {
    const shop = await connect('lemonsqueezy')
    await report(shop, 'order_created')
    await report(shop, 'subscription_payment_success:without-data', { now: inSeconds(1) })
    await report(shop, 'subscription_payment_refunded', { now: inSeconds(2) })
    await report(shop, 'subscription_created')
    await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
    expect(await salesOf(shop)).toMatchObject([earned, { ...earned, refunded: 3000, reversed: 500 }])
  })

  test("a test-mode payload creates a test sale, and its refunds don't touch a live sale with the same id", async () => {
    const shop = await connect('lemonsqueezy')
    for (const isTest of [true, false]) await report(shop, 'order_created', { isTest })
    await report(shop, 'order_refunded', { isTest: true, refunded: 6000 })
    expect(await salesOf(shop)).toMatchObject([{ is_test: true, commission: null, refunded: 6000 }, earned])
    await report(shop, 'order_refunded', { refunded: 6000 })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 6000 }, { refunded: 6000, reversed: 1000 }])
  })
})

describe('Polar', () => {
  test('prices that include tax have the same base', async () => {
    const shop = await connect('polar')
    await send(shop, changed(shop, 'order.paid', { subtotal_amount: 12_000, net_amount: 12_000 }))
    expect(await salesOf(shop)).toMatchObject([earned])
  })

  test('a refund that prevents a dispute is a chargeback', async () => {
    const shop = await connect('polar')
    await report(shop, 'order.paid')
    await report(shop, 'refund.created:dispute')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 12_000, reversed: 2000 }])
    const { rows } = await sql.query(`select reason from refunds where program_id = $1`, [shop.programId])
    expect(rows).toEqual([{ reason: 'chargeback' }])
  })

  test('a refund counts once it succeeds, and is undone if it fails', async () => {
    const shop = await connect('polar')
    await report(shop, 'order.paid')
    await report(shop, 'refund.created')
    expect(await salesOf(shop)).toMatchObject([earned])
    await report(shop, 'refund.updated')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 500 }])
    await report(shop, 'refund.updated:failed')
    expect(await salesOf(shop)).toMatchObject([earned])
    for (const status of ['a\u0000b', '\ud800', 'x'.repeat(5000)])
      expect((await send(shop, changed(shop, 'refund.updated', { status }))).status).toBe(200)
  })

  test('the reference in a checkout link identifies the buyer', async () => {
    const shop = await connect('polar')
    await report(shop, 'order.paid:checkout-link')
    expect(await salesOf(shop)).toMatchObject([{ ...earned, partner_id: shop.partnerId }])
  })

  test('a renewal without metadata is attributed to the buyer of its subscription', async () => {
    const shop = await connect('polar')
    await report(shop, 'order.paid:subscription')
    await report(shop, 'order.paid:renewal-without-data', { now: inSeconds(1) })
    expect(await salesOf(shop)).toMatchObject([earned, { ...earned, is_recurring: true }])
  })

  test('the fee is excluded in any order with the payment and its refund, if the program excludes fees', async () => {
    const shop = await connect('polar')
    expect(await report(shop, 'order.updated')).toMatchObject({ body: { outcome: 'ignored' } })
    await report(shop, 'order.paid')
    expect(await report(shop, 'order.updated')).toMatchObject({ body: { outcome: 'ignored' } })
    expect(await salesOf(shop)).toMatchObject([earned])
    await sql.query(`update programs set commission_base = 'net_of_fees' where id = $1`, [shop.programId])
    // A sale keeps the base that applied when it was recorded.
    expect(await report(shop, 'order.updated')).toMatchObject({ body: { outcome: 'ignored' } })
    for (const order of permutations('012')) {
      for (const step of order.repeat(2).split(''))
        await report(shop, ['order.paid', 'order.updated', 'refund.updated'][Number(step)] ?? '', { order })
      const sale = { base: 9400, commission: 1880, refunded: 3000, reversed: 470 }
      expect((await salesOf(shop)).at(-1), order).toMatchObject(sale)
    }
    await report(shop, 'order.paid', { order: 'eur' })
    await send(shop, changed(shop, 'order.updated', { platform_fee_currency: 'eur' }, { order: 'eur' }))
    await report(shop, 'order.paid', { order: 'all' })
    await report(shop, 'order.updated', { order: 'all', fee: 11_000 })
    // The fee also waits if only the API has reported the sale.
    const { id } = Object(changed(shop, 'order.updated', {}, { order: 'api' })).data
    const sale = { transaction_id: id, customer_key: shop.customerKey, amount_cents: 12_000 }
    await report(shop, 'order.updated', { order: 'api' })
    expect(await (await callerOf(shop))(trackSale, sale)).toBe(200)
    await report(shop, 'order.paid', { order: 'api' })
    const [first, ...others] = await salesOf(shop)
    expect([first, ...others.slice(-3)]).toMatchObject([earned, earned, { base: 0, commission: 0 }, { base: 9400 }])
  })

  test('an upgrade that its credit covers completely is not a sale', async () => {
    const shop = await connect('polar')
    const items = [
      { label: 'Remaining time', amount: -2000, tax_amount: -400, proration: true, product_price_id: 'price_1' },
      { label: 'New plan', amount: 12_000, tax_amount: 2400, proration: true, product_price_id: 'price_2' },
    ]
    expect(
      await send(shop, changed(shop, 'order.paid', { billing_reason: 'subscription_update', items })),
    ).toMatchObject(recorded)
    const credit = { id: 'credit', items, net_amount: -1000, tax_amount: -200, total_amount: -1200, due_amount: 0 }
    expect(await send(shop, { ...changed(shop, 'order.paid', credit) })).toMatchObject({ status: 200 })
    expect(await salesOf(shop)).toMatchObject([earned])
  })

  test('the key is the whole secret with its prefix, or the decoded part after it', async () => {
    const delivery = { body: '{}', now: Date.now() }
    const headers = processorFixtures.polar.headersOf('{}', 'whsec_c2VjcmV0', new Date())
    const header = (name: string) => headers[name]
    expect(await processors.polar.isSigned({ ...delivery, header }, 'whsec_c2VjcmV0')).toBe(true)
    expect(await processors.polar.isSigned({ ...delivery, header }, 'c2VjcmV0')).toBe(false)
    const usual = new StandardWebhook('whsec_c2VjcmV0').sign('msg_1', new Date(), '{}')
    const usualHeaders: Record<string, string> = {
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
      'webhook-signature': usual,
    }
    const asUsual = { ...delivery, header: (name: string) => usualHeaders[name] }
    expect(await processors.polar.isSigned(asUsual, 'whsec_c2VjcmV0')).toBe(true)
    expect(await processors.polar.isSigned(asUsual, 'whsec_c2VjcmV1')).toBe(false)
  })
})

/** Calls the API with a key of the shop's program. */
async function callerOf({ programId }: ConnectedShop) {
  const { key, keyHash, hint } = await generateApiKey()
  await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)`, [
    programId,
    keyHash,
    hint,
  ])
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
  return async (app: { request: typeof trackRefund.request }, fields: object) => {
    const response = await app.request('/', { method: 'POST', headers, body: JSON.stringify(fields) }, env, context)
    return response.status
  }
}

test.each([true, false])(
  "a sale and a refund through the API join the processor's payment, API first %s",
  async (isFirst) => {
    const shop = await connect('lemonsqueezy')
    const call = await callerOf(shop)
    const order = processorFixtures.lemonsqueezy.events['order_created']?.(storyOf(shop)) ?? {}
    const { data } = Object(order)
    const sale = {
      customer_key: shop.customerKey,
      click_id: shop.clickId,
      transaction_id: data.id,
      amount_cents: 12_000,
    }
    if (isFirst) expect(await call(trackSale, sale)).toBe(200)
    // The order's refund waits for its sale, or is applied to the API's sale.
    await report(shop, 'order_refunded')
    await send(shop, order)
    if (!isFirst) expect(await call(trackSale, sale)).toBe(409)
    expect(await call(trackRefund, { transaction_id: data.id, refund_amount_cents: 3000 })).toBe(200)
    expect(await salesOf(shop)).toMatchObject([{ ...earned, refunded: 3000, reversed: 500 }])
  },
)

test.each(names)('%s: a lead attributes earlier payments while the connection is disconnected', async (processor) => {
  const shop = await connect(processor)
  const call = await callerOf(shop)
  const late = { clickId: null, customerKey: 'late', now: new Date() }
  await report(shop, traits[processor].sale, late)
  await report(shop, traits[processor].start, late)
  expect(await salesOf(shop)).toMatchObject([{ amount: 12_000, partner_id: null, commission: null }])
  await disconnectConnection(db, shop.programId, shop.accountId)
  // A repeated payment still waits for its buyer.
  await report(shop, traits[processor].sale, late)
  expect(await call(trackLead, { customer_key: 'late', click_id: shop.clickId })).toBe(200)
  expect(await salesOf(shop)).toMatchObject([{ ...earned, partner_id: shop.partnerId }])
  await changeSecret(db, env, shop.programId, shop.accountId, shop.secret)
  // The lead also identified the buyer of the subscription, so a renewal is attributed to them.
  await report(shop, traits[processor].renewal, { now: inSeconds(1) })
  expect(await salesOf(shop)).toMatchObject([earned, { ...earned, is_recurring: true, partner_id: shop.partnerId }])
})

/** Amounts, ids, texts and times at the limits of the database. */
const extremes: Record<ProcessorName, (story: Story) => object[]> = {
  paddle: (story) => {
    const of = (name: string, data: object) => withData(processorFixtures.paddle.events[name]?.(story) ?? {}, data)
    return [
      of('transaction.completed', { details: { totals: { total: '99999999999999', tax: '0' } } }),
      of('transaction.completed', { id: 't'.repeat(255), currency_code: 'ZZZ' }),
      of('adjustment.updated', { id: 'a'.repeat(255), transaction_id: 't'.repeat(255), currency_code: 'KWD' }),
      of('adjustment.updated', { id: 'b', transaction_id: 't'.repeat(255), reason: 'x'.repeat(900_000) }),
      ...['+275760-09-13T00:00:00Z', '-000001-01-01T00:00:00Z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59Z'].map(
        (created_at) => of('transaction.completed', { id: `txn_${created_at}`, created_at }),
      ),
    ]
  },
  lemonsqueezy: (story) => {
    const of = (name: string, attributes: object) => {
      const event = Object(processorFixtures.lemonsqueezy.events[name]?.(story))
      return { ...event, data: { ...event.data, attributes: { ...event.data.attributes, ...attributes } } }
    }
    return [
      of('order_created', { total: 99_999_999_999_999 }),
      of('order_created', { total: Number.MAX_SAFE_INTEGER, tax: Number.MAX_SAFE_INTEGER }),
      of('order_refunded', { refunded_amount: 99_999_999_999_999 }),
      of('subscription_payment_refunded', { currency: 'KWD', subscription_id: 's'.repeat(255) }),
      of('order_created', { updated_at: '+275760-09-13T00:00:00Z' }),
    ]
  },
  polar: (story) => {
    const of = (name: string, data: object) => withData(processorFixtures.polar.events[name]?.(story) ?? {}, data)
    return [
      of('order.paid', { total_amount: 99_999_999_999_999 }),
      of('order.paid', { total_amount: 1, net_amount: -99_999_999_999_999, applied_balance_amount: 5 }),
      of('refund.updated', { amount: 9_999_999_999_999, tax_amount: 9_999_999_999_999 }),
      of('refund.updated', { id: 'r'.repeat(255), currency: 'kwd', reason: '\ud800' }),
    ]
  },
}

const withData = (event: object, data: object) => ({ ...event, data: { ...Object(event).data, ...data } })

test.each(names)("%s: extreme amounts, ids, texts and times don't cause an internal error", async (processor) => {
  const shop = await connect(processor)
  await report(shop, traits[processor].sale)
  const recordedSales = await salesOf(shop)
  for (const event of extremes[processor](storyOf(shop))) {
    const { status, body } = await send(shop, event)
    expect(status, JSON.stringify([body, event]).slice(0, 500)).toBeLessThan(500)
  }
  const [sale, ...others] = await salesOf(shop)
  expect([sale]).toEqual(recordedSales)
  // Custom data of almost a megabyte, and texts that the database can't store.
  const lots = Object.fromEntries(Array.from({ length: 25_000 }, (_, at) => [`field_${at}`, '\ud800\u0000']))
  const odd = { order: 'odd', customerKey: '\udc00' }
  const event = JSON.stringify(processorFixtures[processor].events[traits[processor].sale]?.(storyOf(shop, odd)))
  const body = event.replace('"svc_click_id"', `${JSON.stringify(lots).slice(1, -1)},"svc_click_id"`)
  const { headersOf } = processorFixtures[processor]
  expect(await post(addressOf(shop), body, headersOf(body, shop.secret, new Date()))).toMatchObject(recorded)
  expect(await salesOf(shop)).toMatchObject([earned, ...others, earned])
  const tooLarge = `${body}${' '.repeat(1024 * 1024)}`
  expect(await post(addressOf(shop), tooLarge, headersOf(tooLarge, shop.secret, new Date()))).toMatchObject({
    status: 413,
  })
})

test('connections of one program keep live and test money apart, and share neither payments nor customers', async () => {
  const shop = await connect('paddle')
  const [second, sandbox] = [await connectAgain(shop, true), await connectAgain(shop, false)]
  for (const one of [shop, sandbox]) await report(one, 'transaction.completed:subscription')
  await report(second, 'transaction.completed:subscription', { order: '2', amount: 6000, tax: 0 })
  expect(await salesOf(shop)).toMatchObject([
    { ...earned, transaction_id: 'txn_1', is_test: false },
    { transaction_id: 'txn_1', is_test: true, commission: null },
    { transaction_id: 'txn_2', amount: 6000, commission: 1200 },
  ])
  // Each refund changes only the sale of its own mode and payment.
  await report(sandbox, 'adjustment.updated', { refunded: 12_000 })
  await report(second, 'adjustment.updated', { order: '2', refunded: 6000 })
  expect(await salesOf(shop)).toMatchObject([earned, { refunded: 12_000 }, { refunded: 6000, reversed: 1200 }])
  // One account with two connections reports a payment and its refund twice. Each of them counts once.
  for (const one of [shop, second]) {
    await report(one, 'transaction.completed:subscription')
    await report(one, 'adjustment.updated')
  }
  expect(await salesOf(shop)).toMatchObject([{ ...earned, refunded: 3000, reversed: 500 }, {}, {}])
})

test('a payment of a known customer without custom data counts once the program allows it', async () => {
  const shop = await connect('paddle')
  await report(shop, 'transaction.completed')
  const second = { id: 'txn_2', custom_data: null }
  expect(await send(shop, changed(shop, 'transaction.completed', second, { now: inSeconds(1) }))).toMatchObject({
    body: { outcome: 'ignored' },
  })
  expect(await countExcludedPayments(db, shop.programId)).toBe(1)
  expect(await attributeKnownCustomers(db, shop.programId)).toContain(shop.accountId)
  await applyParkedEvents(db, stripe, { limit: 10, accountId: shop.accountId })
  expect(await salesOf(shop)).toMatchObject([earned, { ...earned, partner_id: shop.partnerId }])
  expect(await countExcludedPayments(db, shop.programId)).toBe(0)
})

test('secrets are encrypted', async () => {
  const shop = await connect('paddle')
  const { rows } = await sql.query(`select secret from processor_connections where account_id = $1`, [shop.accountId])
  expect(rows[0].secret.toString('latin1')).not.toContain(shop.secret)
})

testStoredState(sql)
