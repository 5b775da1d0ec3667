import { describe, expect, test } from 'vitest'
import { customer, paymentIntent, type Shop, shopMetadata, stripeEvent } from '../lib/local/stripe-events.ts'
import { clearTestData } from '../lib/programs/test-data.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { connectProcessor, disconnectProcessor } from '../lib/processors/stripe/connect.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { deleteOldWebhookEvents } from '../lib/processors/webhook-events.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { bill, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, post, salesOf, rows } = await openWebhook(endpoint)
const client = openStripe(env)

const at = <Of extends Shop>(shop: Of, seconds: number): Of => ({ ...shop, now: shop.now + seconds })
const applyParked = (shop: Shop) => applyParkedEvents(db, client, { limit: 100, accountId: shop.account })
let updates = 0

/** Reports the shop's customer with this metadata. `before` contains the earlier metadata. */
async function report(shop: Shop, what: 'created' | 'updated' | 'deleted', metadata = shopMetadata(shop), before = {}) {
  const event = stripeEvent(shop, `evt_cus_${++updates}`, `customer.${what}`, customer(shop, metadata))
  const data = what === 'updated' ? { ...event.data, previous_attributes: { metadata: before } } : event.data
  return await post(JSON.stringify({ ...event, data }))
}

/** A manual invoice without metadata. */
const manual = (shop: Shop, id = 'in_1', more: object = {}) => ({
  ...bill(shop, { id, metadata: {}, billing_reason: 'manual', payment_intent: `pi_${id}`, charge: `ch_${id}` }),
  parent: null,
  subscription: null,
  collection_method: 'send_invoice',
  lines: { data: [] },
  ...more,
})
const pay = (shop: Shop, id?: string, more?: object) => send(shop, 'invoice.paid', manual(shop, id, more))

async function endOf(shop: TestShop) {
  const sales = await salesOf(shop)
  return sales.map(({ transaction_id: id, partner_id: partner, commission, is_test }) => ({
    id,
    partner,
    commission,
    is_test,
  }))
}
const earned = (shop: TestShop, id = 'in_1') => ({ id, partner: shop.partnerId, commission: 2000, is_test: false })

describe("a payment without metadata uses its customer's metadata", () => {
  test.each<[string, (shop: TestShop) => Promise<unknown>]>([
    [
      'reported before it',
      async (shop) => {
        await report(shop, 'created')
        await pay(shop)
      },
    ],
    [
      'reported after it',
      async (shop) => {
        await pay(shop)
        await report(shop, 'updated')
      },
    ],
    [
      'reported at the same moment',
      (shop) => Promise.all([report(shop, 'updated'), pay(shop), report(shop, 'created', {})]),
    ],
    [
      "reported before an invoice that only contains the program's id",
      async (shop) => {
        await report(shop, 'created')
        await pay(shop, 'in_1', { metadata: { program_id: String(shop.programId) } })
      },
    ],
    [
      "reported after an invoice that only contains the program's id",
      async (shop) => {
        await pay(shop, 'in_1', { metadata: { program_id: String(shop.programId) } })
        await report(shop, 'created')
      },
    ],
    [
      'and ignores its earlier values',
      async (shop) => {
        await report(at(shop, 20), 'updated')
        await report(at(shop, 10), 'updated', { program_id: '999999' }, {})
        await report(shop, 'created', {})
        await pay(at(shop, 30))
      },
    ],
    [
      'even if the customer was deleted in the meantime',
      async (shop) => {
        await report(at(shop, 60), 'deleted')
        await report(at(shop, 1), 'updated')
        await pay(at(shop, 30))
      },
    ],
    [
      'reported while the account was disconnected',
      async (shop) => {
        await disconnectProcessor(db, env, shop.programId)
        await pay(shop)
        await report(shop, 'updated')
        await applyParked(shop)
        expect(await salesOf(shop)).toEqual([])
        await connectProcessor(db, shop.programId, shop.account)
      },
    ],
  ])('%s', async (_, reported) => {
    const shop = await createShop(sql)
    await reported(shop)
    await applyParked(shop)
    expect(await endOf(shop)).toEqual([earned(shop)])
  })

  test('a payment intent waits an hour for a session with more data', async () => {
    const shop = await createShop(sql)
    await report(shop, 'created')
    const unnamed = {
      ...paymentIntent(shop, { id: 'pi_1', charge: 'ch_1', amount: 10_000 }),
      metadata: {},
      invoice: null,
    }
    expect(await send(shop, 'payment_intent.succeeded', unnamed)).toMatchObject({ body: { outcome: 'parked' } })
    await send(shop, 'checkout.session.completed', oneTime(shop))
    expect(await endOf(shop)).toEqual([earned(shop, 'pi_1')])
    const alone = { ...unnamed, id: 'pi_2', latest_charge: 'ch_2' }
    await send(at(shop, -4000), 'payment_intent.succeeded', { ...alone, created: shop.now })
    expect(await endOf(shop)).toEqual([earned(shop, 'pi_1'), earned(shop, 'pi_2')])
  })
})

/** This would be too many for Postgres' stack if each attribution ran inside the previous one. */
const many = 500

/** Adds copies of the program's only row in a table, with these fields in each copy. */
async function copyRow(shop: Shop, table: 'sales' | 'processor_events', fields: string) {
  await sql.query(
    `insert into ${table} overriding system value
    select copy.* from ${table} one cross join generate_series(1, ${many - 1}) n
    cross join lateral (select (jsonb_populate_record(one, ${fields})).*) copy where one.program_id = $1`,
    [shop.programId],
  )
}

test(`${many} waiting purchases of one buyer are all attributed once the buyer is known`, async () => {
  const shop = await createShop(sql)
  await pay(shop, 'in_0', { metadata: { program_id: String(shop.programId) } })
  await copyRow(
    shop,
    'sales',
    `jsonb_build_object('id', nextval('sales_id_seq'), 'transaction_id', 'in_' || n, 'processor_invoice_id', 'in_' || n,
      'processor_payment_intent_id', 'pi_in_' || n, 'processor_charge_id', 'ch_in_' || n, 'processor_event_id', one.processor_event_id || n)`,
  )
  await copyRow(
    shop,
    'processor_events',
    `jsonb_build_object('event_id', one.event_id || n, 'fact', replace(one.fact::text, 'in_0', 'in_' || n)::jsonb)`,
  )
  await report(shop, 'created')
  const attributed = await rows(
    'select count(*)::int, sum(amount_cents)::int as commission from commissions where program_id = $1',
    shop,
  )
  expect(attributed).toEqual([{ count: many, commission: many * 2000 }])
})

describe("a customer's metadata", () => {
  const nobodys = { commission: null, partner: null }
  test.each<[string, (shop: TestShop) => Promise<unknown>, object[]]>([
    [
      "gives way to the payment's metadata",
      async (shop) => {
        await report(shop, 'created')
        const other = await createShop(sql)
        const key = { program_id: String(shop.programId), svc_customer_key: `nobody-${other.programId}` }
        await pay(shop, 'in_1', { metadata: key, customer_email: null })
      },
      [nobodys],
    ],
    [
      'no longer counts after its removal',
      async (shop) => {
        await report(at(shop, 10), 'updated', {}, shopMetadata(shop))
        await report(shop, 'created')
        await pay(at(shop, 20))
      },
      [],
    ],
    [
      'counts only in its own mode',
      async (shop) => {
        await report({ ...shop, livemode: false }, 'created')
        await pay(shop)
      },
      [],
    ],
    [
      'counts only in its own account',
      async (shop) => {
        await report({ ...shop, account: (await createShop(sql)).account }, 'created')
        await pay(shop)
      },
      [],
    ],
    [
      "doesn't attribute a purchase from before the click",
      async (shop) => {
        await report(shop, 'created')
        await pay(at(shop, -86_400), 'in_1', { customer_email: null })
      },
      [nobodys],
    ],
  ])('%s', async (_, reported, sales) => {
    const shop = await createShop(sql)
    await reported(shop)
    await applyParked(shop)
    expect(await endOf(shop)).toMatchObject(sales)
  })

  test('in test mode creates test sales in either order, and is deleted with them', async () => {
    const shop = { ...(await createShop(sql)), livemode: false }
    await pay(shop, 'in_1')
    await report(shop, 'created')
    await applyParked(shop)
    await pay(shop, 'in_2')
    expect(await endOf(shop)).toMatchObject([
      { id: 'in_1', partner: shop.partnerId, commission: null, is_test: true },
      { id: 'in_2', partner: shop.partnerId, commission: null, is_test: true },
    ])
    await clearTestData(db, shop.programId)
    expect(await rows('select from processor_customer_metadata where program_id = $1', shop)).toEqual([])
    expect(await salesOf(shop)).toEqual([])
  })

  test('without visitor data is not stored', async () => {
    const shop = await createShop(sql)
    expect(await report(shop, 'updated', { tier: 'gold' })).toMatchObject({
      body: { outcome: 'ignored', reason: "The customer's metadata contains no visitor." },
    })
    await report({ ...shop, account: 'acct_nobodys' }, 'created')
    const remaining = await sql.query('select from processor_customer_metadata where account_id = any ($1)', [
      [shop.account, 'acct_nobodys'],
    ])
    expect(remaining.rowCount).toBe(0)
  })

  test('is deleted with its customer: 90 days after their deletion, and when they are erased', async () => {
    const [gone, erased, stays] = [await createShop(sql), await createShop(sql), await createShop(sql)]
    for (const shop of [gone, erased, stays]) {
      await report(shop, 'created')
      await pay(shop)
    }
    await report(at(gone, 10), 'deleted')
    await sql.query(
      `update processor_customer_metadata set reported_at = reported_at - interval '91 days' where account_id = any ($1)`,
      [[gone.account, stays.account]],
    )
    await deleteOldWebhookEvents(db, 10)
    await eraseCustomer(db, erased.programId, { customer_key: 'user-1' })
    const left = await sql.query('select account_id from processor_customer_metadata where account_id = any ($1)', [
      [gone, erased, stays].map(({ account }) => account),
    ])
    expect(left.rows).toEqual([{ account_id: stays.account }])
    const facts = await rows(
      `select from processor_events where program_id = $1 and (fact - 'erased_as')::text ~ 'user-1|cus_ann|cust_'`,
      erased,
    )
    expect(facts).toEqual([])
  })

  test.each(['customer_key', 'click_id'] as const)('is erased by its %s, even without a purchase', async (field) => {
    const [shop, other] = [await createShop(sql), await createShop(sql)]
    const named = field === 'click_id' ? 'cust_1_gone' : 'gone'
    for (const reporter of [shop, other]) await report(reporter, 'created', { [`svc_${field}`]: named })
    const knownBy = field === 'click_id' ? { click_id: named } : { customer_key: named }
    expect(await eraseCustomer(db, shop.programId, knownBy)).toBe(0)
    const left = await sql.query(`select account_id from processor_customer_metadata where ${field} = $1`, [named])
    expect(left.rows).toEqual([{ account_id: other.account }])
    await expect(eraseCustomer(db, shop.programId, knownBy)).rejects.toMatchObject({ code: 'not_found' })
  })
})

testStoredState(sql)
