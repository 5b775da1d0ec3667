import { describe, expect, test } from 'vitest'
import { invoicePayment, refund, type Shop } from '../lib/local/stripe-events.ts'
import { ApiError } from '../lib/errors.ts'
import { recordSale } from '../lib/money/sales.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { recordBrowserLead, recordServerLead } from '../lib/tracking/leads.ts'
import { noLead, noSale } from './support/ledger.ts'
import { bill, firstPayment, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const { send, salesOf, report } = await openWebhook(endpoint)
const { db } = endpoint

/** A customer of the second partner who can be identified only by this value. */
const another = async (
  shop: TestShop,
  found: { key?: string; email?: string; processorCustomer?: string; lastClick?: string; byBrowser?: boolean },
) => {
  const { rows: created } = await sql.query<{ id: string; click_id: string }>(
    `with customer as (
      insert into customers (program_id, click_id, customer_key, email_hash, link_id, partner_id, last_click_at, customer_status, signup_date, lead_event_id,
        key_unverified_since, email_unverified_since)
      values ($1::bigint, $2 || $1::bigint, $3, decode($4::text, 'hex'), $5, $6, now() - $7::interval,
        case when $4::text is null then 'click' else 'lead' end, case when $4::text is not null then now() end,
        case when $4::text is not null then nextval('affiliate_lead_events_id_seq') end,
        case when $8 and $3::text is not null then now() end, case when $8 and $4::text is not null then now() end)
      returning *
    ),
    lead as (
      insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id)
      select program_id, signup_date, lead_event_id, id from customer where signup_date is not null returning program_id
    ),
    counted as (insert into daily_totals (program_id, day, slot, leads) select program_id, utc_day(now()), counter_slot(now()), 1 from lead),
    grouped as (
      insert into uncounted_figures (program_id, customer_id, partner_id, clicked_at, at, leads, conversions)
      select program_id, id, partner_id, last_click_at, now(), 1, 0 from customer where signup_date is not null
    )
    select id, click_id from customer`,
    [
      shop.programId,
      `cust_${Date.now()}_${String(Math.floor(Math.random() * 2 ** 50)).padStart(20, '0')}`,
      found.key ?? null,
      found.email === undefined ? null : await emailHash('key', found.email),
      shop.otherLinkId,
      shop.otherPartnerId,
      found.lastClick ?? '0 days',
      found.byBrowser ?? false,
    ],
  )
  if (found.processorCustomer !== undefined) {
    await sql.query(
      'insert into processor_customers (program_id, processor_customer_id, customer_id) values ($1, $2, $3)',
      [shop.programId, found.processorCustomer, created[0]?.id],
    )
  }
  return created[0]?.click_id ?? ''
}

/** A lead from the shop's server for the customer who clicked in the shop. */
const settleFirst = async (shop: TestShop, email: string) => {
  await sql.query(
    `select settle_lead($1, 'settled', $2, 'stem', now() - interval '1 day', 7, decode($3, 'hex'), null, null, null, null)`,
    [shop.programId, shop.clickId, await emailHash('key', email)],
  )
}

const keyless = { clickId: null, email: null, customer: null, customerKey: null }

/** Other facts about the customer who clicked in the shop. */
interface Known {
  key?: string
  processorCustomer?: string
  /** The address of a lead from the shop's server, or of an unconfirmed lead. */
  lead?: string
  email?: string
}
const learn = async (shop: TestShop, { key, processorCustomer, lead, email }: Known) => {
  if (lead) await settleFirst(shop, lead)
  if (processorCustomer)
    await sql.query(
      `insert into processor_customers (program_id, processor_customer_id, customer_id) select program_id, $2, id from customers where click_id = $1`,
      [shop.clickId, processorCustomer],
    )
  await sql.query(
    `update customers set customer_key = coalesce($2, customer_key), email_hash = coalesce(decode($3, 'hex'), email_hash) where click_id = $1`,
    [shop.clickId, key, email && (await emailHash('key', email))],
  )
}

const bob = { email: 'bob@example.com' }
const bobByBrowser = { ...bob, byBrowser: true }
/** The buyer's `clickId` can belong to the first customer, the second, or another program. */
interface Case {
  first?: Known
  second?: Parameters<typeof another>[1]
  buyer: Partial<Pick<Shop, 'clickId' | 'email' | 'customer' | 'customerKey'>>
  secondsAgo?: number
}

describe('the partner', () => {
  test.for<[string, 'first' | 'second' | null, Case]>([
    ['by the click id only', 'first', { buyer: { clickId: 'first' } }],
    ['by the e-mail address of the lead only', 'second', { second: bob, buyer: { email: ' Bob@Example.com' } }],
    [
      "by the processor's customer id only",
      'second',
      { second: { processorCustomer: 'cus_bob' }, buyer: { customer: 'cus_bob' } },
    ],
    ['by the customer key only', 'second', { second: { key: 'bob' }, buyer: { customerKey: 'bob' } }],
    ['by nothing', null, { buyer: { customerKey: 'nobody', email: 'nobody@example.com', customer: 'cus_nobody' } }],
    ['by the click id before the e-mail address', 'first', { second: bob, buyer: { clickId: 'first', ...bob } }],
    [
      "by the click id before the processor's customer id",
      'first',
      { second: { processorCustomer: 'cus_bob' }, buyer: { clickId: 'first', customer: 'cus_bob' } },
    ],
    [
      'by the click id before the customer key',
      'first',
      { second: { key: 'bob' }, buyer: { clickId: 'first', customerKey: 'bob' } },
    ],
    [
      "by the e-mail address before the processor's customer id and the customer key",
      'second',
      {
        first: { key: 'ann', processorCustomer: 'cus_bob' },
        second: bob,
        buyer: { ...bob, customer: 'cus_bob', customerKey: 'ann' },
      },
    ],
    [
      'by an e-mail address that only a browser reported, if nothing else is known',
      'second',
      { second: bobByBrowser, buyer: { ...bob, customerKey: 'bob' } },
    ],
    [
      'by the customer key before an e-mail address that only a browser reported',
      'first',
      { first: { key: 'bob' }, second: bobByBrowser, buyer: { ...bob, customerKey: 'bob' } },
    ],
    [
      "by the lead's e-mail address before the same address from a browser",
      'first',
      { first: { lead: bob.email }, second: bobByBrowser, buyer: bob },
    ],
    [
      'by the click id, which takes over a key that only a browser reported',
      'first',
      { second: { key: 'bob', ...bobByBrowser }, buyer: { clickId: 'first', ...bob, customerKey: 'bob' } },
    ],
    [
      "by the processor's customer id before the key",
      'second',
      {
        first: { key: 'ann' },
        second: { processorCustomer: 'cus_bob' },
        buyer: { customer: 'cus_bob', customerKey: 'ann' },
      },
    ],
    ['not by an e-mail address without a lead', null, { first: bob, buyer: bob }],
    ['not by a click outside the window', null, { second: { lastClick: '31 days' }, buyer: { clickId: 'second' } }],
    [
      'by a click that was valid when the session began',
      'second',
      { second: { lastClick: '31 days' }, buyer: { clickId: 'second' }, secondsAgo: 2 * 86_400 },
    ],
    ['not by the click of another program', null, { buyer: { clickId: 'another program' } }],
    ["not by values that can't be stored", null, { buyer: { clickId: 'a\0b', customerKey: '\uD800' } }],
  ])('%s', async ([, partner, { first, second, buyer: named, secondsAgo = 0 }]) => {
    const shop = await createShop(sql)
    const clicks: Record<string, string | null> = {
      first: shop.clickId,
      second: second ? await another(shop, second) : null,
      'another program': (await createShop(sql)).clickId,
    }
    if (first) await learn(shop, first)
    const clickId = clicks[named.clickId ?? ''] ?? named.clickId ?? null
    const buyer = { ...shop, ...keyless, ...named, clickId, now: shop.now - secondsAgo }
    const answer = await send(buyer, 'checkout.session.completed', oneTime(buyer))
    expect(answer).toMatchObject({
      status: 200,
      body: { outcome: 'recorded', reason: partner === null ? expect.stringContaining('No partner') : null },
    })
    const expected = { first: shop.partnerId, second: shop.otherPartnerId }
    expect(await salesOf(shop)).toMatchObject([
      { partner_id: partner && expected[partner], commission: partner && 2000 },
    ])
  })

  test("keeps a customer's browser-only data as unverified, and flags the first commission", async () => {
    const shop = await createShop(sql)
    await another(shop, { email: 'bob@example.com', byBrowser: true })
    const buyer = { ...shop, ...keyless, email: 'bob@example.com', customerKey: 'bob' }
    for (const id of ['pi_1', 'pi_2'])
      await send(buyer, 'checkout.session.completed', oneTime(buyer, { id: `cs_${id}`, payment_intent: id }))
    const { rows } = await sql.query(
      `select m.review_reason, c.customer_key, c.key_unverified_since is not null as unverified
       from commissions m join customers c on c.program_id = m.program_id and c.id = m.customer_id where m.program_id = $1 order by m.id`,
      [shop.programId],
    )
    const bobUnverified = { customer_key: 'bob', unverified: true }
    expect(rows).toEqual([
      { review_reason: 'unverified_customer', ...bobUnverified },
      { review_reason: null, ...bobUnverified },
    ])
    // The server's lead contains a click id, so this click gets the key.
    const other = { ...shop, ...keyless, clickId: shop.clickId, customerKey: 'bob' }
    await send(other, 'checkout.session.completed', oneTime(other, { id: 'cs_3', payment_intent: 'pi_3' }))
    const after = await sql.query('select click_id from customers where program_id = $1 and customer_key = $2', [
      shop.programId,
      'bob',
    ])
    expect(after.rows).toEqual([{ click_id: shop.clickId }])
  })

  test('stays the same on renewals long after the attribution window', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', firstPayment(shop))
    await sql.query(`update customers set last_click_at = now() - interval '400 days' where program_id = $1`, [
      shop.programId,
    ])
    const renewal = { ...shop, email: null, customer: null, customerKey: null }
    await send(renewal, 'invoice.payment_succeeded', bill(renewal, { id: 'in_2' }))
    expect(await salesOf(shop)).toMatchObject([
      { partner_id: shop.partnerId },
      { partner_id: shop.partnerId, known_as: 'user-1' },
    ])
  })

  test('of a second person on the same computer is the same partner, with a separate customer', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop))
    const second = { ...shop, customerKey: 'user-2', email: 'bob@example.com', customer: 'cus_bob' }
    for (const [id, payment] of [
      ['cs_2', 'pi_2'],
      ['cs_3', 'pi_3'],
    ] as const) {
      await send(second, 'checkout.session.completed', oneTime(second, { id, payment_intent: payment }))
    }
    expect(await salesOf(shop)).toMatchObject([
      { known_as: 'user-1', partner_id: shop.partnerId },
      { known_as: 'user-2', partner_id: shop.partnerId },
      { known_as: 'user-2', partner_id: shop.partnerId },
    ])
  })

  test('of a pending payment is determined when the session is completed, not when the payment arrives', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop, { payment_status: 'unpaid' }))
    expect(await salesOf(shop)).toEqual([])
    await sql.query(
      `update customers set last_click_at = now() - interval '31 days', customer_key = null where program_id = $1`,
      [shop.programId],
    )
    const later = { ...shop, customerKey: null, customer: null, email: null }
    expect(await send(later, 'checkout.session.async_payment_succeeded', oneTime(later))).toMatchObject({
      body: { outcome: 'recorded' },
      requests: 1,
    })
    expect(await salesOf(shop)).toMatchObject([
      { partner_id: shop.partnerId, transaction_id: 'pi_1', commission: 2000 },
    ])
  })
})

/** A shop with an attribution window of a week, whose visitor clicked 41 days ago. Day 1 of `at` is a day after the click. */
const windowed = async () => {
  const shop = await createShop(sql)
  await sql.query(
    `with settings as (update programs set cookie_window_days = 7 where id = $1)
    update customers set last_click_at = now() - interval '41 days' where program_id = $1`,
    [shop.programId],
  )
  return { shop, at: (days: number) => ({ ...shop, now: shop.now - (40 - days) * 86_400 }) }
}
const renewal = (of: TestShop, id: string, more = {}) =>
  send(of, 'invoice.paid', bill(of, { id, payment_intent: `pi_${id}`, charge: `ch_${id}`, ...more }))
const partnersOf = async (shop: TestShop) =>
  Object.fromEntries((await salesOf(shop)).map((sale) => [sale['transaction_id'], sale['commission']]))

/** The integrator's calls that give the key `ann` to the shop's click. */
const leadOf = async (shop: TestShop) =>
  await recordServerLead(db, await keyHashOf(shop), { ...noLead, customer_key: 'ann', click_id: shop.clickId }, null)
const browserLeadOf = (shop: TestShop) =>
  recordBrowserLead(db, { ...noLead, customer_key: 'ann', click_id: shop.clickId }, null)
const saleOf = async (shop: TestShop) => {
  const sale = {
    ...noSale,
    transaction_id: 'order-1',
    customer_key: 'ann',
    click_id: shop.clickId,
    amount_cents: 500,
    currency: 'usd',
  }
  await recordSale(db, await keyHashOf(shop), sale, null, crypto.randomUUID()).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.code !== 'duplicate_transaction') throw error
  })
}
/** The hash of a program's key, which is created on first use. */
const keyHashOf = async ({ programId }: TestShop) => {
  const hash = String(programId).padStart(64, '0')
  if (!withKey.has(programId)) {
    withKey.add(programId)
    await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), 'hint')`, [
      programId,
      hash,
    ])
  }
  return hash
}
const withKey = new Set<number>()

describe('a purchase that arrives before its buyer is known', () => {
  test('is attributed when its buyer is known, with its refunds but without failed ones', async () => {
    const { shop, at } = await windowed()
    expect(await renewal(at(35), 'in_2')).toMatchObject({ body: { reason: 'No partner referred this customer.' } })
    const paid = { invoice: 'in_2', payment_intent: 'pi_in_2', amount: 10_000 }
    await send(at(35), 'invoice_payment.paid', invoicePayment(at(35), paid))
    const failing = { id: 're_0', amount: 1000, payment_intent: 'pi_in_2' }
    await send(at(36), 'refund.created', refund(at(36), failing))
    await send(at(36), 'refund.updated', refund(at(36), { ...failing, status: 'failed' }))
    await send(at(36), 'refund.created', refund(at(36), { id: 're_1', amount: 5000, payment_intent: 'pi_in_2' }))
    expect(await partnersOf(shop)).toEqual({ in_2: null })
    expect(await send(at(0), 'checkout.session.completed', firstPayment(at(0)))).toMatchObject({ requests: 1 })
    expect(await salesOf(shop)).toMatchObject([
      { transaction_id: 'in_2', partner_id: shop.partnerId, commission: 2000, refunded: 5000, reversed: 1000 },
      { transaction_id: 'in_1', partner_id: shop.partnerId, commission: 2000, refunded: 0, reversed: 0 },
    ])
    const log = await sql.query(
      'select reason, awaits from processor_events where program_id = $1 and reason is not null',
      [shop.programId],
    )
    expect(log.rows).toEqual([{ reason: 'buyer_known', awaits: null }])
  })

  test('is attributed through a purchase that was attributed later', async () => {
    const { shop, at } = await windowed()
    const third = { ...at(38), customerKey: null, clickId: null, email: null }
    await renewal(third, 'in_3', { metadata: { program_id: String(shop.programId) } })
    await renewal({ ...at(35), email: null }, 'in_2')
    await send({ ...at(0), customer: null }, 'checkout.session.completed', firstPayment({ ...at(0), customer: null }))
    expect(await partnersOf(shop)).toEqual({ in_1: 2000, in_2: 2000, in_3: 2000 })
  })

  test.for<[what: string, call: (shop: TestShop) => Promise<unknown>]>([
    ['a server lead', (shop) => leadOf(shop)],
    ['a sale call', (shop) => saleOf(shop)],
    ['a browser lead in a program that allows browser leads', (shop) => browserLeadOf(shop)],
  ])('is attributed by %s in one request, in either order', async ([, call]) => {
    const steps = [
      (shop: TestShop) => call(shop),
      (shop: TestShop) =>
        send(shop, 'checkout.session.completed', oneTime({ ...shop, ...keyless, customerKey: 'ann' })),
      (shop: TestShop) => report(shop, 're_1', 5000),
    ]
    for (const order of [steps, steps.toReversed(), [...steps.slice(1), ...steps.slice(0, 1)]]) {
      const shop = await createShop(sql)
      await sql.query(`update programs set lead_auth_policy = 'browser_allowed' where id = $1`, [shop.programId])
      await keyHashOf(shop)
      for (const step of order) {
        const before = endpoint.neon.requests
        await step(shop)
        if (step === steps[0]) expect(endpoint.neon.requests - before).toBe(1)
      }
      expect((await salesOf(shop)).filter(({ transaction_id: id }) => id === 'pi_1')).toMatchObject([
        { partner_id: shop.partnerId, known_as: 'ann', commission: 2000, refunded: 5000, reversed: 1000 },
      ])
    }
  })

  test('is attributed once if a lead, the sale call and its events arrive at once', async () => {
    for (let round = 0; round < 4; round++) {
      const shop = await createShop(sql)
      const buyer = { ...shop, ...keyless, customerKey: 'ann' }
      await keyHashOf(shop)
      await Promise.all(
        Array.from({ length: 4 }, () => [
          send(buyer, 'checkout.session.completed', oneTime(buyer)),
          leadOf(shop),
          send(buyer, 'checkout.session.completed', oneTime(buyer, { id: 'cs_2', payment_intent: 'pi_2' })),
          round % 2 === 0 ? saleOf(shop) : leadOf(shop),
        ]).flat(),
      )
      expect(await partnersOf(shop)).toMatchObject({ pi_1: 2000, pi_2: 2000 })
    }
  })

  test('stays unattributed if it is older than the click, whether it arrives before or after the key', async () => {
    const { shop, at } = await windowed()
    const early = { ...at(-10), clickId: null, email: null, customer: null }
    const purchase = (id: string) =>
      send(early, 'checkout.session.completed', oneTime(early, { id: `cs_${id}`, payment_intent: id }))
    await purchase('pi_0')
    await send(at(0), 'checkout.session.completed', firstPayment(at(0)))
    await purchase('pi_1')
    expect(await partnersOf(shop)).toEqual({ pi_0: null, in_1: 2000, pi_1: null })
  })

  test('stays unattributed if no partner had referred the buyer by its date', async () => {
    const { shop, at } = await windowed()
    await renewal({ ...at(-10), clickId: null }, 'in_0', {
      metadata: { program_id: String(shop.programId), svc_customer_key: 'user-1' },
    })
    await send(at(0), 'checkout.session.completed', firstPayment(at(0)))
    expect(await partnersOf(shop)).toEqual({ in_0: null, in_1: 2000 })
  })

  test('is attributed once if everything arrives many times at once', async () => {
    const { shop, at } = await windowed()
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => [
        renewal(at(35), 'in_2'),
        renewal(at(38), 'in_3'),
        send(at(0), 'checkout.session.completed', firstPayment(at(0))),
        send(at(0), 'invoice.paid', bill(at(0))),
      ]).flat(),
    )
    for (const { status } of answers) expect(status).toBe(200)
    expect(await partnersOf(shop)).toEqual({ in_1: 2000, in_2: 2000, in_3: 2000 })
  })
})

test('a purchase and a concurrent click on another link give the sale and the customer the same partner', async () => {
  const shop = await createShop(sql)
  const buyer = { ...shop, customerKey: null, email: null }
  await sql.query('begin')
  await sql.query(`update customers set partner_id = $2, link_id = $3 where program_id = $1`, [
    shop.programId,
    shop.otherPartnerId,
    shop.otherLinkId,
  ])
  const sent = send(buyer, 'checkout.session.completed', oneTime(buyer))
  await expect.poll(async () => (await sql.query(`select from pg_locks where not granted`)).rowCount).toBeGreaterThan(0)
  await sql.query('commit')
  expect(await sent).toMatchObject({ body: { outcome: 'recorded' } })
  expect(await salesOf(shop)).toMatchObject([{ partner_id: shop.otherPartnerId }])
})

testStoredState(sql)
