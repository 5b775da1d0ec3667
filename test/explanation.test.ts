import { describe, expect, test } from 'vitest'
import { generateApiKey } from '../lib/access/api-keys.ts'
import { customer, type Shop } from '../lib/local/stripe-events.ts'
import { approveCommissions, rejectCommission } from '../lib/money/commissions.ts'
import { explainSale } from '../lib/money/explanation.ts'
import { recordSale } from '../lib/money/sales.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { connectProcessor, disconnectProcessor } from '../lib/processors/stripe/connect.ts'
import { attributeKnownCustomers } from '../lib/processors/known-customers.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { recordClick } from '../lib/tracking/clicks.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { eraseCustomer } from '../lib/tracking/erase-customer.ts'
import { recordBrowserLead, recordServerLead } from '../lib/tracking/leads.ts'
import { wrongExplanations } from './support/explanations.ts'
import { noClick, noLead, noSale } from './support/ledger.ts'
import { bill, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql, db, neon } = endpoint
const { env, send, report } = await openWebhook(endpoint)

async function keyOf({ programId }: TestShop): Promise<string> {
  const { keyHash, hint } = await generateApiKey()
  await sql.query(`insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)`, [
    programId,
    keyHash,
    hint,
  ])
  return keyHash
}

const settle = async (shop: TestShop, customer_key: string) =>
  recordServerLead(db, await keyOf(shop), { ...noLead, customer_key, click_id: shop.clickId }, null)

const sell = async (shop: TestShop, of: { customer_key: string; click_id?: string | null; amount_cents?: number }) =>
  recordSale(
    db,
    await keyOf(shop),
    {
      ...noSale,
      transaction_id: 'order-1',
      click_id: null,
      amount_cents: 4925,
      currency: 'usd',
      ...of,
    },
    null,
    crypto.randomUUID(),
  )

const stepsIn = ({ steps }: Awaited<ReturnType<typeof explainSale>>) =>
  steps.map(({ step, found }) => `${step}: ${found}`).join(', ')
const explain = ({ programId }: TestShop, transaction_id = 'order-1') =>
  explainSale(db, { programId, transaction_id, test: false, withCustomer: true })
/** The explanation for a click from 31 days ago. */
const expiredClick = {
  age_seconds: 31 * 86_400,
  window_days: 30,
  within_window: false,
  text: 'The latest click was 31 days before and the window was 30 days. It was too old to count.',
  event: null,
}
const age = (shop: TestShop, days: number) =>
  sql.query(
    `update customers set last_click_at = now() - make_interval(days => $2), created_at = now() - make_interval(days => $2)
    where program_id = $1`,
    [shop.programId, days],
  )

describe('the explanation of an API sale shows how its customer was found', () => {
  test.for<[string, (shop: TestShop) => Promise<unknown>, string, 'partner' | null]>([
    [
      'by a known customer key',
      async (shop) => (await settle(shop, 'ann'), await sell(shop, { customer_key: 'ann' })),
      'customer_key: found',
      'partner',
    ],
    [
      'by a click id',
      async (shop) => sell(shop, { customer_key: 'ann', click_id: shop.clickId }),
      'customer_key: unknown, click_id: found',
      'partner',
    ],
    [
      'by a click id whose customer has another key',
      async (shop) => (await settle(shop, 'ann'), await sell(shop, { customer_key: 'bob', click_id: shop.clickId })),
      'customer_key: unknown, click_id: second_customer',
      'partner',
    ],
    [
      'by a click id after its window',
      async (shop) => (await age(shop, 31), await sell(shop, { customer_key: 'ann', click_id: shop.clickId })),
      'customer_key: unknown, click_id: expired',
      null,
    ],
    [
      'by an unknown click id',
      async (shop) => sell(shop, { customer_key: 'ann', click_id: 'cust_1_1' }),
      'customer_key: unknown, click_id: unknown',
      null,
    ],
    [
      'without a click id',
      async (shop) => sell(shop, { customer_key: 'ann' }),
      'customer_key: unknown, click_id: not_given',
      null,
    ],
    [
      'by the key of a lead, long after the window',
      async (shop) => (await settle(shop, 'ann'), await age(shop, 400), await sell(shop, { customer_key: 'ann' })),
      'customer_key: found',
      'partner',
    ],
    [
      'by a provisional lead and its click',
      async (shop) => {
        await recordBrowserLead(db, { ...noLead, customer_key: 'ann', click_id: shop.clickId }, null)
        await sell(shop, { customer_key: 'ann', click_id: shop.clickId })
      },
      'customer_key: unknown, click_id: found',
      'partner',
    ],
    [
      'by a key that only a browser reported, with an unknown click',
      async (shop) => {
        await sql.query(`update programs set lead_auth_policy = 'browser_allowed' where id = $1`, [shop.programId])
        await recordBrowserLead(db, { ...noLead, customer_key: 'ann', click_id: shop.clickId }, null)
        await sell(shop, { customer_key: 'ann', click_id: 'cust_1_1' })
      },
      'customer_key: unverified, click_id: unknown, unverified_customer_key: found',
      'partner',
    ],
    [
      'by a repeat with a click, after the first call found no customer',
      async (shop) => {
        await sell(shop, { customer_key: 'ann' })
        await expect(sell(shop, { customer_key: 'ann', click_id: shop.clickId })).rejects.toThrow('already recorded')
      },
      'customer_key: unknown, click_id: found',
      'partner',
    ],
  ])('%s', async ([, stage, steps, partner]) => {
    const shop = await createShop(sql)
    await stage(shop)
    const explained = await explain(shop)
    expect(stepsIn(explained)).toBe(steps)
    expect(explained.partner?.id ?? null).toBe(partner && shop.partnerId)
    expect(explained.attributed).toBe(partner !== null)
    expect(explained.commission?.text ?? null).toBe(partner && '20% of $49.25 is $9.85.')
    const isExpired = steps.includes('click_id: expired')
    if (partner === null) expect(explained.click !== null).toBe(isExpired)
    if (isExpired) expect(explained.click).toMatchObject(expiredClick)
  })
})

test.for<[string, (shop: TestShop) => Promise<unknown>, string]>([
  [
    'an expired click',
    async (shop) => (await age(shop, 31), await sell(shop, { customer_key: 'ann', click_id: shop.clickId })),
    'Click id: Its latest click was older than the attribution window.',
  ],
  [
    'unknown values',
    async (shop) => sell(shop, { customer_key: 'ann', click_id: 'cust_1_1' }),
    'It contained a customer key and a click id, but no customer of the program has any of them.',
  ],
  [
    'one unknown value',
    async (shop) => sell(shop, { customer_key: 'ann' }),
    'It contained a customer key, but no customer of the program has it.',
  ],
])('the summary of an unattributed sale mentions %s', async ([, stage, why]) => {
  const shop = await createShop(sql)
  await stage(shop)
  expect((await explain(shop)).summary).toBe(
    `No partner: nothing identified a customer whom a partner referred. ${why}`,
  )
})

test('the explanation finds a dispute by its payment, even without a sale', async () => {
  const shop = await createShop(sql)
  await report(shop, 'dp_1', 5000)
  const explained = await explain(shop, 'pi_1')
  expect(explained.deliveries).toMatchObject([{ event_type: 'charge.dispute.funds_withdrawn', outcome: 'parked' }])
  expect(explained.summary).toBe('This payment is not a sale of the program. No sale of this payment is known yet.')
})

test.for([
  ['last_click', 'otherPartnerId', 'The latest click was 1 minute before and the window was 1 day.'],
  [
    'first_click',
    'partnerId',
    /^The latest click was less than a minute before .* That click came through (.+), and the customer stayed with (?!\1)(.+): the first click decides in this program\.$/,
  ],
] as const)(
  'the explanation of a customer with two links shows the decisive link: %s',
  async ([model, partner, text]) => {
    const shop = await createShop(sql)
    await sql.query('update programs set attribution_model = $2 where id = $1', [shop.programId, model])
    const { rows } = await sql.query<{ code: string }>('select code from referral_links where id = $1', [
      shop.otherLinkId,
    ])
    const visit = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: rows[0]?.code ?? '' }
    await recordClick(db, visit, shop.clickId)
    if (model === 'last_click') {
      await sql.query('update programs set cookie_window_days = 1 where id = $1', [shop.programId])
      await sql.query(
        `update customers set last_click_at = last_click_at - interval '61 seconds' where program_id = $1`,
        [shop.programId],
      )
    }
    await sell(shop, { customer_key: 'ann', click_id: shop.clickId })
    const explained = await explain(shop)
    expect(explained.partner?.id).toBe(shop[partner])
    expect(explained.click).toMatchObject({ attribution_model: model, text: expect.stringMatching(text) })
    // The partner doesn't see whose link the other click used.
    const asked = { programId: shop.programId, transaction_id: 'order-1', test: false, withCustomer: false }
    const toPartner = (await explainSale(db, asked)).click?.text
    if (model === 'first_click')
      expect(toPartner).toContain('That click came through another link, and the customer stayed')
    else expect(toPartner).toBe(text)
  },
)

const keyless = { clickId: null, email: null, customer: null, customerKey: null }
const bare = (shop: TestShop): Shop => ({ ...shop, clickId: null, customerKey: null, programId: 0 })
const pay = (shop: Shop, more = {}) => send(shop, 'checkout.session.completed', oneTime(shop, more))
const own = 'metadata: found, customer_metadata: not_tried, program: named'

describe('the explanation of a Stripe payment shows how its buyer was found', () => {
  test.for<[string, (shop: TestShop) => Promise<unknown>, string, boolean]>([
    [
      'by its click id',
      async (shop) => pay({ ...shop, ...keyless, clickId: shop.clickId }),
      `${own}, session: unknown, click_id: found`,
      true,
    ],
    [
      'by the e-mail address of a lead',
      async (shop) => {
        await sql.query(
          `select settle_lead($1, 'ann', $2, 'stem', now() - interval '1 day', 7, decode($3, 'hex'), null, null, null, null)`,
          [shop.programId, shop.clickId, await emailHash('key', 'bob@example.com')],
        )
        await pay({ ...shop, ...keyless, email: 'bob@example.com', customerKey: 'else' })
      },
      `${own}, session: unknown, click_id: not_given, email: found`,
      true,
    ],
    [
      'by its customer key, after an expired click',
      async (shop) => {
        await settle(shop, 'ann')
        await sql.query(
          `insert into customers (program_id, click_id, link_id, partner_id, last_click_at, created_at)
          select program_id, 'cust_1_7', link_id, partner_id, now() - interval '31 days', now() - interval '31 days'
          from customers where program_id = $1`,
          [shop.programId],
        )
        await pay({
          ...shop,
          ...keyless,
          clickId: 'cust_1_7',
          customerKey: 'ann',
          email: 'x@example.com',
          customer: 'cus_x',
        })
      },
      `${own}, session: unknown, click_id: expired, email: unknown, processor_customer: unknown, customer_key: found`,
      true,
    ],
    [
      'by an expired click only',
      async (shop) => {
        await age(shop, 400)
        await pay({ ...shop, ...keyless, clickId: shop.clickId })
      },
      `${own}, session: unknown, click_id: expired, email: not_given, processor_customer: not_given, customer_key: not_given, unverified_email: not_given, unverified_customer_key: not_given`,
      false,
    ],
    [
      'by nothing',
      async (shop) => pay({ ...shop, ...keyless, customerKey: 'nobody' }),
      `${own}, session: unknown, click_id: not_given, email: not_given, processor_customer: not_given, customer_key: unknown, unverified_email: not_given, unverified_customer_key: unknown`,
      false,
    ],
    [
      'by a click after the purchase',
      async (shop) => {
        await settle(shop, 'ann')
        await pay({ ...shop, ...keyless, customerKey: 'ann', now: shop.now - 86_400 })
      },
      `${own}, session: unknown, click_id: not_given, email: not_given, processor_customer: not_given, customer_key: clicked_later, unverified_email: not_given, unverified_customer_key: clicked_later`,
      false,
    ],
    [
      'by a lead after the purchase',
      async (shop) => {
        await pay({ ...shop, ...keyless, customerKey: 'ann' })
        await settle(shop, 'ann')
      },
      `${own}, session: unknown, click_id: not_given, email: not_given, processor_customer: not_given, customer_key: found`,
      true,
    ],
    [
      'by the metadata of its Stripe customer',
      async (shop) => {
        await send(shop, 'customer.created', customer(shop))
        await send(shop, 'checkout.session.completed', { ...oneTime(shop), metadata: {} })
      },
      'metadata: nothing, customer_metadata: found, program: named, session: unknown, click_id: found',
      true,
    ],
    [
      'by the valid click at the end of a session that is paid later',
      async (shop) => {
        await pay({ ...shop, ...keyless, clickId: shop.clickId }, { payment_status: 'unpaid' })
        await age(shop, 31)
        await send(shop, 'checkout.session.async_payment_succeeded', oneTime({ ...shop, ...keyless }))
      },
      'metadata: found, customer_metadata: not_given, program: named, session: found',
      true,
    ],
    [
      'parked while its account is disconnected',
      async (shop) => {
        await disconnectProcessor(db, env, shop.programId)
        await pay({ ...shop, ...keyless, clickId: shop.clickId })
        await connectProcessor(db, shop.programId, shop.account)
        await applyParkedEvents(db, openStripe(env), { limit: 100, accountId: shop.account })
      },
      `${own}, session: unknown, click_id: found`,
      true,
    ],
    [
      'by the Stripe customer of an earlier payment',
      async (shop) => {
        await pay({ ...shop, ...keyless, clickId: shop.clickId, customer: 'cus_known' })
        await pay({ ...shop, ...keyless, customer: 'cus_known' }, { id: 'cs_2', payment_intent: 'pi_2' })
      },
      'metadata: found, customer_metadata: nothing, program: named, session: unknown, click_id: not_given, email: not_given, processor_customer: found',
      true,
    ],
    [
      'by an e-mail address that only a browser reported',
      async (shop) => {
        await sql.query(`update programs set lead_auth_policy = 'browser_allowed' where id = $1`, [shop.programId])
        const email_hash = await emailHash('key', 'bob@example.com')
        await recordBrowserLead(db, { ...noLead, email_hash, customer_key: 'ann', click_id: shop.clickId }, null)
        await pay({ ...shop, ...keyless, email: 'bob@example.com', customerKey: 'bob' })
      },
      `${own}, session: unknown, click_id: not_given, email: unverified, processor_customer: not_given, customer_key: unknown, unverified_email: found`,
      true,
    ],
    [
      'without metadata, by its known customer if the program allows that',
      async (shop) => {
        await attributeKnownCustomers(db, shop.programId)
        await pay(shop)
        const renewal = bill(bare(shop), { id: 'in_2', payment_intent: 'pi_2', charge: 'ch_2' })
        await send(shop, 'invoice.payment_succeeded', { ...renewal, parent: null, metadata: {} })
      },
      'metadata: nothing, customer_metadata: nothing, program: none, known_buyer: found',
      true,
    ],
  ])('%s', async ([, stage, steps, attributed]) => {
    const shop = await createShop(sql)
    await stage(shop)
    const { rows } = await sql.query<{ transaction_id: string }>(
      'select transaction_id from sales where program_id = $1 order by id desc limit 1',
      [shop.programId],
    )
    const explained = await explain(shop, rows[0]?.transaction_id)
    expect(stepsIn(explained)).toBe(steps)
    expect(explained.attributed).toBe(attributed)
    if (!attributed) expect(explained.click !== null).toBe(steps.includes('click_id: expired'))
    expect(explained.deliveries.length).toBeGreaterThan(0)
  })
})

test('a sale is found by its payment and its event, even after the program disconnected Stripe', async () => {
  const shop = await createShop(sql)
  const event = `evt_left${shop.programId}`
  await send(shop, 'checkout.session.completed', oneTime({ ...shop, ...keyless, clickId: shop.clickId }), event)
  const found = async () => (await Promise.all(['pi_1', event].map((id) => explain(shop, id)))).map(({ sale }) => sale)
  const connected = await found()
  expect(connected).toEqual([connected[0], connected[0]])
  expect((await explain(shop, event)).attributed).toBe(true)
  await disconnectProcessor(db, env, shop.programId)
  expect(await found()).toEqual(connected)
  expect((await explain(shop, event)).attributed).toBe(true)
})

describe('the explanation of a payment without a sale contains the reason', () => {
  test('for an event of an unknown customer without metadata, by the ids of the payment and the event', async () => {
    const shop = await createShop(sql)
    const session = { ...oneTime(shop), metadata: {}, customer: 'cus_stranger' }
    await send(shop, 'checkout.session.completed', session, `evt_why${shop.programId}`)
    for (const id of ['pi_1', `evt_why${shop.programId}`]) {
      const explained = await explain(shop, id)
      expect(explained).toMatchObject({ attributed: false, partner: null, commission: null, history: [] })
      expect(explained.summary).toBe('This payment is not a sale of the program. Its metadata contains no program.')
      expect(stepsIn(explained)).toBe(
        'metadata: nothing, customer_metadata: nothing, program: none, known_buyer: unknown',
      )
    }
    await expect(explain(await createShop(sql), `evt_why${shop.programId}`)).rejects.toThrow('There is no sale')
  })

  test('for an event of a known customer that the setting excluded', async () => {
    const shop = await createShop(sql)
    await pay(shop)
    const renewal = bill(bare(shop), { id: 'in_2', payment_intent: 'pi_2', charge: 'ch_2' })
    await send(shop, 'invoice.payment_succeeded', { ...renewal, parent: null, metadata: {} })
    expect(stepsIn(await explain(shop, 'in_2'))).toMatch(/, known_buyer: found, setting: off$/)
  })
})

test('the explanation shows the original decision, even after the settings changed', async () => {
  const shop = await createShop(sql)
  // As in reality, the click id is created before the customer's row.
  await sql.query(`update customers set last_click_at = created_at - interval '14 ms' where program_id = $1`, [
    shop.programId,
  ])
  await sell(shop, { customer_key: 'ann', click_id: shop.clickId })
  const before = await explain(shop)
  await sql.query(
    `update programs set commission_bp = 100, cookie_window_days = 1, hold_days = 1, commission_duration_months = 1 where id = $1`,
    [shop.programId],
  )
  await sql.query(`update customers set last_click_at = now() + interval '5 days' where program_id = $1`, [
    shop.programId,
  ])
  expect(await explain(shop)).toEqual(before)
  expect(before.rule).toMatchObject({ commission_bp: 2000, duration_months: null, hold_days: 30 })
  expect(before.click).toMatchObject({ window_days: 30, within_window: true, attribution_model: 'last_click' })
  expect(before.click?.first_at).toBe(before.click?.latest_at)
})

describe('later events', () => {
  test('refunds, disputes, reinstatements, approvals and rejections are listed with their entries', async () => {
    const shop = await createShop(sql)
    await pay(shop)
    const { rows } = await sql.query<{ id: string }>('select id from commissions where program_id = $1', [
      shop.programId,
    ])
    const id = Number(rows[0]?.id)
    await report(shop, 're_1', 1000)
    await approveCommissions(db, shop.programId, [id])
    await report(shop, 'dp_1', 5000)
    await report(shop, 'dp_1', 5000, 'won')
    await rejectCommission(db, shop.programId, id, 'Bought by the partner.')
    const { history, commission, deliveries } = await explain(shop, 'pi_1')
    expect(deliveries.map(({ event_type: type }) => type)).toEqual([
      'checkout.session.completed',
      'refund.updated',
      'charge.dispute.funds_withdrawn',
      'charge.dispute.funds_reinstated',
    ])
    for (const { event_id: eventId } of deliveries) expect((await explain(shop, eventId)).transaction_id).toBe('pi_1')
    expect(history.flatMap(({ kind, text }) => (/^(chargeback|returned)$/.test(kind) ? [text] : []))).toEqual([
      'Chargeback of $50.00: the buyer disputed the payment.',
      'The chargeback of $50.00 was returned: the disputed money came back.',
    ])
    expect(history.map(({ kind, change_cents: change, entry }) => [kind, change, entry?.amount_cents ?? null])).toEqual(
      [
        ['recorded', 0, null],
        ['commission', 2000, null],
        ['refund', -200, null],
        ['approved', 0, 1800],
        ['chargeback', -1000, -1000],
        ['returned', 1000, 1000],
        ['rejected', -1800, -1800],
      ],
    )
    expect(commission).toMatchObject({ amount_cents: 2000, left_cents: 0, status: 'reversed' })
  })

  test('a correction shows the values before and after', async () => {
    const shop = await createShop(sql)
    await sell(shop, { customer_key: 'user-1', click_id: shop.clickId })
    await sql.query(`update sales set transaction_id = 'pi_1' where program_id = $1`, [shop.programId])
    await pay(shop, { total: 8000 })
    const { history, sale, commission } = await explain(shop, 'cs_1')
    expect(history.find(({ kind }) => kind === 'correction')).toMatchObject({
      change_cents: 1600 - 985,
      text: 'Corrected from $9.85 to $16.00: $80.00 without tax counts, according to the session.',
    })
    expect([sale?.source, commission?.text]).toEqual(['session', '20% of $80.00 is $16.00.'])
  })
})

test('the explanation shows rounding, but no erased customer', async () => {
  const shop = await createShop(sql)
  await sell(shop, { customer_key: 'secret-ann', click_id: shop.clickId, amount_cents: 1234 })
  const before = neon.requests
  const explained = await explain(shop)
  expect(neon.requests - before).toBe(1)
  expect(explained.commission).toMatchObject({
    exact: '246.8',
    text: '20% of $12.34 is $2.47, rounded half up from 246.8 minor units.',
  })
  expect(explained.customer).toEqual({ click_id: shop.clickId, customer_key: 'secret-ann' })
  await eraseCustomer(db, shop.programId, { customer_key: 'secret-ann' })
  expect(JSON.stringify(await explain(shop))).not.toMatch(new RegExp(`secret-ann|${shop.clickId}`))
})

test('only the partner of a sale can read its explanation, and it hides the customer', async () => {
  const shop = await createShop(sql)
  await sell(shop, { customer_key: 'secret-ann', click_id: shop.clickId })
  await sql.query(`insert into users (id, name, email) values ($1, 'Jane', $1 || '@example.com')`, [
    `u${shop.programId}`,
  ])
  await sql.query('update partners set user_id = $1 where id = $2', [`u${shop.programId}`, shop.partnerId])
  const asked = { programId: shop.programId, transaction_id: 'order-1', test: false, withCustomer: false }
  const theirs = await explainSale(db, { ...asked, partnerUserId: `u${shop.programId}` })
  expect(theirs).toMatchObject({ customer: null, deliveries: [], partner: { id: shop.partnerId } })
  expect(JSON.stringify(theirs)).not.toMatch(new RegExp(`secret-ann|${shop.clickId}`))
  await expect(explainSale(db, { ...asked, partnerUserId: 'u-else' })).rejects.toThrow('You have no such sale')
})

test('every explanation agrees with the commission and the balance', async () => {
  expect(await wrongExplanations(db, sql)).toEqual([])
})
