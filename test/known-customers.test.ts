import { expect, test } from 'vitest'
import type { Shop } from '../lib/local/stripe-events.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { attributeKnownCustomers, countExcludedPayments } from '../lib/processors/known-customers.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { bill, firstPayment, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, stripe, salesOf, rows } = await openWebhook(endpoint)
const client = openStripe(env)

const turnOn = (shop: Shop) => attributeKnownCustomers(db, shop.programId)
const applyAll = ({ account: accountId }: Shop) => applyParkedEvents(db, client, { limit: 100, accountId })
const excluded = (shop: Shop) => countExcludedPayments(db, shop.programId)

/** A subscription's session with metadata, and later payments of the same customer or subscription without metadata. */
const known = (shop: Shop) => send(shop, 'checkout.session.completed', firstPayment(shop))
const unnamed = (id: string, more: Partial<Parameters<typeof bill>[1]> = {}) => ({
  id,
  payment_intent: `pi_${id}`,
  charge: `ch_${id}`,
  metadata: {},
  ...more,
})
const renewal = (shop: Shop, id = 'in_2', more: Partial<Parameters<typeof bill>[1]> = {}) =>
  send(shop, 'invoice.paid', bill(shop, unnamed(id, more)))

async function shopWith(isOn: boolean): Promise<TestShop> {
  const shop = await createShop(sql)
  if (isOn) await turnOn(shop)
  return shop
}

/** All sales except the session's sale, with their partner and commission. */
async function othersOf(shop: TestShop) {
  const sales = await salesOf(shop)
  return sales
    .filter(({ session }) => session !== 'cs_1')
    .map(({ transaction_id: id, partner_id: partner, commission }) => ({ id, partner, commission }))
}
const earned = (shop: TestShop, id = 'in_2') => [{ id, partner: shop.partnerId, commission: 2000 }]

test.each<[what: string, report: (shop: TestShop) => Promise<{ body: { outcome?: string } }>]>([
  ['a renewal of a known subscription with an unknown customer', (shop) => renewal({ ...shop, customer: 'cus_new' })],
  ['a payment of a known customer for a new subscription', (shop) => renewal(shop, 'in_2', { subscription: 'sub_2' })],
  [
    'a session of a known customer',
    (shop) =>
      send(
        shop,
        'checkout.session.completed',
        oneTime(shop, { id: 'cs_2', payment_intent: 'pi_2', invoice: 'in_2', metadata: {} }),
      ),
  ],
])(
  '%s without metadata counts if the program allows it, and is counted as excluded otherwise',
  async (_what, report) => {
    const on = await shopWith(true)
    await known(on)
    expect((await report(on)).body.outcome).toBe('recorded')
    expect(await othersOf(on)).toEqual(earned(on))
    expect(await excluded(on)).toBe(0)

    const off = await shopWith(false)
    await known(off)
    expect((await report(off)).body.outcome).toBe('ignored')
    expect(await othersOf(off)).toEqual([])
    expect(await excluded(off)).toBe(1)
    await turnOn(off)
    await applyAll(off)
    await applyAll(off)
    expect(await othersOf(off)).toEqual(earned(off))
    expect(await excluded(off)).toBe(0)
  },
)

test.each<[what: string, report: (shop: TestShop) => Promise<unknown>]>([
  ['of an unknown customer', (shop) => renewal({ ...shop, customer: 'cus_new' }, 'in_2', { subscription: 'sub_2' })],
  ['from before the customer was known', (shop) => renewal({ ...shop, now: shop.now - 60 })],
  ['of test mode', (shop) => renewal({ ...shop, livemode: false })],
  [
    "whose metadata contains another program's id",
    (shop) => renewal(shop, 'in_2', { metadata: { program_id: '999999' } }),
  ],
  ['with an amount of 0', (shop) => renewal(shop, 'in_2', { amount_paid: 0, total: 10_000 })],
])('a payment %s stays unattributed', async (_what, report) => {
  for (const isOn of [false, true]) {
    const shop = await shopWith(isOn)
    await known(shop)
    await report(shop)
    await applyAll(shop)
    expect(await othersOf(shop)).toEqual([])
    expect(await excluded(shop)).toBe(0)
  }
})

test.each([true, false])(
  "payments before their customer's session are applied or excluded after it (setting: %s)",
  async (isOn) => {
    const shop = await shopWith(isOn)
    expect((await renewal(shop)).body.outcome).toBe('ignored')
    expect(await excluded(shop)).toBe(0)
    await known(shop)
    await applyAll(shop)
    expect(await othersOf(shop)).toEqual(isOn ? earned(shop) : [])
    expect(await excluded(shop)).toBe(isOn ? 0 : 1)
  },
)

test('metadata takes precedence: for an hour the session of a first invoice may identify the buyer', async () => {
  const shop = await shopWith(true)
  await known(shop)
  const first = { billing_reason: 'subscription_create', subscription: 'sub_2' }
  expect((await renewal(shop, 'in_2', first)).body.outcome).toBe('parked')
  expect((await renewal(shop, 'in_3', { ...first, subscription: 'sub_3' })).body.outcome).toBe('parked')
  expect(await applyAll(shop)).toMatchObject({ applied: 0 })

  const other = await sql.query<{ click_id: string }>(
    `insert into customers (program_id, click_id, link_id, partner_id, last_click_at)
    values ($1, $2, $3, $4, now()) returning click_id`,
    [shop.programId, `cust_1_9${shop.programId}`, shop.otherLinkId, shop.otherPartnerId],
  )
  const buyer = { ...shop, clickId: other.rows[0]?.click_id ?? '', customerKey: 'user-2' }
  await send(
    buyer,
    'checkout.session.completed',
    firstPayment(buyer, { id: 'cs_2', invoice: 'in_2', subscription: 'sub_2' }),
  )
  await sql.query(
    `update processor_events set event_created_at = now() - interval '61 minutes' where account_id = $1 and waits_for = 'session'`,
    [shop.account],
  )
  await applyAll(shop)
  expect(await othersOf(shop)).toEqual([
    { id: 'in_2', partner: shop.otherPartnerId, commission: 2000 },
    { id: 'in_3', partner: shop.partnerId, commission: 2000 },
  ])
})

test('each payment is recorded once if the setting is enabled during a replay and a concurrent event', async () => {
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      const shop = await shopWith(false)
      await known(shop)
      const ids = Array.from({ length: 6 }, (_, n) => `in_${n + 2}`)
      for (const id of ids.slice(0, 3)) await renewal(shop, id)
      await Promise.all([
        turnOn(shop).then(() => applyAll(shop)),
        turnOn(shop).then(() => applyAll(shop)),
        ...ids.flatMap((id) => [renewal(shop, id), renewal(shop, id)]),
        send(shop, 'invoice.payment_succeeded', bill(shop, unnamed('in_7'))),
      ])
      await applyAll(shop)
      const sales = await othersOf(shop)
      expect(sales.toSorted((a, b) => String(a.id).localeCompare(String(b.id)))).toEqual(
        ids.flatMap((id) => earned(shop, id)),
      )
      expect(await excluded(shop)).toBe(0)
      expect(
        await rows(
          `select 1 from processor_events where waits_for is not null and account_id = (select processor_account_id from programs where id = $1)`,
          shop,
        ),
      ).toEqual([])
    }),
  )
})

test('the session that identifies a customer and a concurrent renewal attribute the renewal', async () => {
  await Promise.all(
    Array.from({ length: 10 }, async () => {
      const shop = await shopWith(true)
      await Promise.all([known(shop), renewal(shop)])
      await applyAll(shop)
      expect(await othersOf(shop)).toEqual(earned(shop))
    }),
  )
})

test('an invoice and its payment intent count as one excluded payment', async () => {
  const shop = await shopWith(false)
  await known(shop)
  stripe.invoices.set('pi_in_2', 'in_2')
  await send(shop, 'payment_intent.succeeded', {
    id: 'pi_in_2',
    object: 'payment_intent',
    created: shop.now,
    amount: 10_000,
    amount_received: 10_000,
    currency: 'usd',
    customer: shop.customer,
    metadata: {},
  })
  await renewal(shop)
  expect(await excluded(shop)).toBe(1)
  await turnOn(shop)
  await applyAll(shop)
  expect(await othersOf(shop)).toMatchObject([{ commission: 2000 }])
})

testStoredState(sql)
