// oxlint-disable unicorn/consistent-function-scoping -- a helper stands beside the tests that use it
import { describe, expect, test } from 'vitest'
import { audit } from '../lib/commands/audit.ts'
import { apiKeyHash, generateApiKey } from '../lib/access/api-keys.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import {
  charge,
  checkoutSession,
  dispute,
  type Generation,
  invoice,
  invoicePayment,
  refund,
  type Shop,
  stripeEvent,
} from '../lib/local/stripe-events.ts'
import { stripeFixtures } from '../lib/local/stripe-fixture.ts'
import { forgetDeliveries, listDeliveries, replayDelivery } from '../lib/stripe/webhook-events.ts'
import { openStripe } from '../lib/stripe/client.ts'
import { handledEventTypes } from '../lib/stripe/read-event.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, signatureOf } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql, neon } = endpoint
const { env, post, send, stripe } = await openWebhook(endpoint)

async function rows(text: string, shop: Shop) {
  return (await sql.query(text, [shop.programId])).rows
}

/** The sales of a shop, each with its commission and whom it was attributed to. */
async function salesOf(shop: Shop) {
  return await rows(
    `select s.transaction_id, s.amount_cents::int as amount, s.commission_base_cents::int as base, s.refunded_cents::int as refunded,
      s.currency, s.sale_type, s.is_recurring, s.subscription_id, s.is_test, s.customer_key, s.partner_id::int, u.customer_key as known_as,
      s.processor_payment_intent_id as payment_intent, s.processor_charge_id as charge, s.processor_invoice_id as invoice,
      s.processor_session_id as session, s.processor_customer_id as customer,
      c.amount_cents::int as commission, c.reversed_cents::int as reversed, c.status
    from sales s left join customers u on u.program_id = s.program_id and u.id = s.customer_id
      left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where s.program_id = $1 order by s.id`,
    shop,
  )
}

const paidBy = { payment_intent: 'pi_1', charge: 'ch_1' }
const oneTime = (shop: Shop, more: Partial<Parameters<typeof checkoutSession>[1]> = {}) =>
  checkoutSession(shop, { id: 'cs_1', total: 10_000, payment_intent: 'pi_1', ...more })
const firstPayment = (shop: Shop, more: Partial<Parameters<typeof checkoutSession>[1]> = {}) =>
  checkoutSession(shop, {
    id: 'cs_1',
    mode: 'subscription',
    total: 10_000,
    invoice: 'in_1',
    subscription: 'sub_1',
    ...more,
  })
const bill = (shop: Shop, more: Partial<Parameters<typeof invoice>[1]> = {}) =>
  invoice(shop, { id: 'in_1', subscription: 'sub_1', amount_paid: 10_000, ...paidBy, ...more })

describe('a delivery is verified', () => {
  const text = (shop: Shop) => JSON.stringify(stripeEvent(shop, 'evt_1', 'ping', {}))
  const seconds = (offset: number) => Math.floor(Date.now() / 1000) + offset
  test.for<[string, number, (body: string) => Promise<string> | string]>([
    ['signed with the new secret', 200, (body) => signatureOf(body)],
    ['signed with the secret that is being replaced', 200, (body) => signatureOf(body, 'whsec_old')],
    ['signed almost five minutes ago', 200, (body) => signatureOf(body, 'whsec_new', seconds(-290))],
    ['signed almost five minutes ahead', 200, (body) => signatureOf(body, 'whsec_new', seconds(290))],
    ['signed more than five minutes ago', 400, (body) => signatureOf(body, 'whsec_new', seconds(-310))],
    ['signed more than five minutes ahead', 400, (body) => signatureOf(body, 'whsec_new', seconds(310))],
    ['signed with another secret', 400, (body) => signatureOf(body, 'whsec_else')],
    ['signed for another body', 400, (body) => signatureOf(`${body} `)],
    ['with a header that is none', 400, () => 'nonsense'],
    ['without a header', 400, () => ''],
  ])('%s: %i', async ([, status, sign]) => {
    const shop = await createShop(sql)
    const body = text(shop)
    const answer = await post(body, await sign(body))
    expect(answer.status).toBe(status)
    if (status === 400) expect(answer).toMatchObject({ body: { error: { code: 'invalid_signature' } }, requests: 0 })
  })

  test('what is signed but no event: 400', async () => {
    expect(await post('{"hello":1}')).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
    expect(await post('hello')).toMatchObject({ status: 400, body: { error: { code: 'invalid_json' } } })
  })

  test('another method: 405', async () => {
    const { default: app } = await import('../functions/processor-webhook.ts')
    expect((await app.request('/', {}, env)).status).toBe(405)
  })
})

describe('an event that changes nothing is answered 200 and kept with its reason', () => {
  const otherProgram = (shop: Shop) => ({ ...shop, programId: 999_999_999 })
  test.for<[string, string, (shop: TestShop) => Record<string, unknown>, RegExp, ((shop: TestShop) => Shop)?]>([
    ['of a type that is not used', 'customer.created', () => ({ id: 'cus_1' }), /not used/],
    [
      'of the platform itself',
      'checkout.session.completed',
      oneTime,
      /connected account/,
      (shop) => ({ ...shop, account: '' }),
    ],
    [
      'of an account of no program',
      'checkout.session.completed',
      oneTime,
      /not connected/,
      (shop) => ({ ...shop, account: 'acct_else' }),
    ],
    [
      'whose metadata names a program of another account',
      'checkout.session.completed',
      (shop) => oneTime(otherProgram(shop)),
      /Program 999999999.*not connected/,
    ],
    [
      'whose metadata names no program',
      'checkout.session.completed',
      (shop) => oneTime(shop, { metadata: {} }),
      /names no program/,
    ],
    [
      'whose metadata names a program by nonsense',
      'checkout.session.completed',
      (shop) => oneTime(shop, { metadata: { program_id: '1e3' } }),
      /names no program/,
    ],
    [
      'of a session that only saves a card',
      'checkout.session.completed',
      (shop) => oneTime(shop, { mode: 'setup' }),
      /payment method/,
    ],
    ['of a payment that failed in the end', 'checkout.session.async_payment_failed', oneTime, /failed/],
    [
      'of an invoice of a trial',
      'invoice.payment_succeeded',
      (shop) => bill(shop, { amount_paid: 0 }),
      /Nothing was paid/,
    ],
    ['of an invoice without our metadata', 'invoice.paid', (shop) => bill(shop, { metadata: {} }), /names no program/],
    [
      'of an inquiry',
      'charge.dispute.funds_withdrawn',
      (shop) => dispute(shop, { id: 'dp_1', amount: 1, charge: 'ch_1', status: 'warning_needs_response' }),
      /inquiry/,
    ],
    [
      'of a dispute that moves no money',
      'charge.dispute.created',
      (shop) => dispute(shop, { id: 'dp_1', amount: 1, charge: 'ch_1' }),
      /not used/,
    ],
    [
      'of a refund that waits for the buyer',
      'refund.created',
      (shop) => refund(shop, { id: 're_1', amount: 1, status: 'requires_action' }),
      /requires_action/,
    ],
    [
      'of a refund of an account of no program',
      'refund.created',
      (shop) => refund(shop, { id: 're_1', amount: 1, ...paidBy }),
      /No program is connected/,
      (shop) => ({ ...shop, account: 'acct_else' }),
    ],
    [
      'in a form that nobody knows',
      'refund.created',
      () => ({ id: 're_1', amount: 'much' }),
      /could not be read: amount/,
    ],
  ])('%s', async ([, type, object, reason, sender]) => {
    const shop = await createShop(sql)
    const answer = await send(sender?.(shop) ?? shop, type, object(shop))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'ignored', reason: expect.stringMatching(reason) } })
    expect(answer.requests).toBeLessThanOrEqual(1)
    expect(await salesOf(shop)).toEqual([])
    expect(await rows('select customer_key, customer_status from customers where program_id = $1', shop)).toEqual([
      { customer_key: null, customer_status: 'click' },
    ])
  })
})

describe.each<Generation>(['old', 'new'])('a sale, in payloads of the %s generation', (generation) => {
  const attributed = { known_as: 'user-1', customer_key: 'user-1', customer: 'cus_ann' }
  test.for<[string, string, (shop: TestShop) => Record<string, unknown>, Record<string, unknown>]>([
    [
      'one payment',
      'checkout.session.completed',
      oneTime,
      {
        ...attributed,
        transaction_id: 'pi_1',
        amount: 10_000,
        base: 10_000,
        commission: 2000,
        status: 'pending',
        sale_type: 'payment',
        is_recurring: false,
        session: 'cs_1',
        payment_intent: 'pi_1',
      },
    ],
    [
      'one payment that made an invoice',
      'checkout.session.completed',
      (shop) => oneTime(shop, { invoice: 'in_9' }),
      { transaction_id: 'in_9', payment_intent: 'pi_1', invoice: 'in_9', sale_type: 'payment' },
    ],
    [
      'a payment of which nothing but the session is known',
      'checkout.session.completed',
      (shop) => oneTime(shop, { payment_intent: null }),
      { transaction_id: 'cs_1', amount: 10_000 },
    ],
    [
      'tax and a discount: the commission is of what was paid without tax',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 10_710, tax: 1710, discount: 1000 }),
      { amount: 10_710, base: 9000, commission: 1800 },
    ],
    [
      'yen have no decimals',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 5000, currency: 'jpy' }),
      { amount: 5000, currency: 'jpy', commission: 1000 },
    ],
    [
      'dinars have three',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 12_340, currency: 'kwd' }),
      { amount: 12_340, currency: 'kwd' },
    ],
    [
      'Icelandic crowns are sent with two decimals and have none',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 5_000_00, currency: 'isk' }),
      { amount: 5000, currency: 'isk', commission: 1000 },
    ],
    [
      'so are Ugandan shillings',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 7_000_00, currency: 'ugx' }),
      { amount: 7000, currency: 'ugx' },
    ],
    [
      'ariary are sent without decimals and have two',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 5000, currency: 'mga' }),
      { amount: 500_000, currency: 'mga' },
    ],
    [
      "a subscription's first payment, by its session",
      'checkout.session.completed',
      (shop) => firstPayment(shop),
      {
        ...attributed,
        transaction_id: 'in_1',
        sale_type: 'subscription',
        is_recurring: false,
        subscription_id: 'sub_1',
        session: 'cs_1',
        invoice: 'in_1',
      },
    ],
    [
      "a subscription's first payment, by its invoice",
      'invoice.payment_succeeded',
      (shop) => bill(shop, { billing_reason: 'subscription_create' }),
      {
        ...attributed,
        transaction_id: 'in_1',
        sale_type: 'subscription',
        is_recurring: false,
        subscription_id: 'sub_1',
      },
    ],
    [
      'a renewal',
      'invoice.payment_succeeded',
      (shop) => bill(shop),
      {
        ...attributed,
        transaction_id: 'in_1',
        sale_type: 'subscription',
        is_recurring: true,
        subscription_id: 'sub_1',
      },
    ],
    [
      'a renewal, by the other event',
      'invoice.paid',
      (shop) => bill(shop),
      { ...attributed, transaction_id: 'in_1', is_recurring: true },
    ],
    [
      'a change of plan',
      'invoice.payment_succeeded',
      (shop) => bill(shop, { billing_reason: 'subscription_update' }),
      { is_recurring: false, sale_type: 'subscription' },
    ],
    [
      'an invoice with tax, paid in full',
      'invoice.payment_succeeded',
      (shop) => bill(shop, { amount_paid: 11_900, tax: 1900 }),
      { amount: 11_900, base: 10_000, commission: 2000 },
    ],
    [
      "an invoice paid in part from the customer's credit",
      'invoice.payment_succeeded',
      (shop) => bill(shop, { amount_paid: 5000, total: 11_900, tax: 1900 }),
      { amount: 5000, base: 5000 },
    ],
    [
      "an invoice that has the metadata in the subscription's line only",
      'invoice.payment_succeeded',
      (shop) => bill(shop, { only_in_line: true }),
      { ...attributed, commission: 2000 },
    ],
  ])('%s', async ([, type, object, expected]) => {
    const shop = await createShop(sql, { generation })
    const answer = await send(shop, type, object(shop))
    expect(answer).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
    expect(answer.requests).toBeLessThanOrEqual(2)
    expect(await salesOf(shop)).toMatchObject([expected])
  })

  test('the first payment is recorded once, whichever event is first, and has what both know', async () => {
    const both = (shop: Shop) => [
      () => send(shop, 'checkout.session.completed', firstPayment(shop)),
      () => send(shop, 'invoice.payment_succeeded', bill(shop, { billing_reason: 'subscription_create' })),
    ]
    for (const order of [0, 1]) {
      const shop = await createShop(sql, { generation })
      const [first, second] = order === 0 ? both(shop) : both(shop).toReversed()
      expect(await first?.()).toMatchObject({ body: { outcome: 'recorded' } })
      expect(await second?.()).toMatchObject({
        body: { outcome: 'duplicate', reason: expect.stringContaining('in_1') },
      })
      expect(await salesOf(shop)).toMatchObject([
        {
          transaction_id: 'in_1',
          session: 'cs_1',
          subscription_id: 'sub_1',
          commission: 2000,
          ...(generation === 'old' && paidBy),
        },
      ])
    }
  })

  test('where only the later event knows whose it is, the sale is attributed then, and what was refunded of it before is told', async () => {
    const shop = await createShop(sql, { generation })
    const nobody = bill(shop, {
      metadata: { program_id: String(shop.programId) },
      billing_reason: 'subscription_create',
    })
    await send({ ...shop, email: null }, 'invoice.payment_succeeded', { ...nobody, customer_email: null })
    expect(await salesOf(shop)).toMatchObject([{ partner_id: null, commission: null }])
    if (generation === 'new')
      await send(
        shop,
        'invoice_payment.paid',
        invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
      )
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 2500, ...paidBy }))
    await send(shop, 'checkout.session.completed', firstPayment(shop))
    expect(await salesOf(shop)).toMatchObject([
      {
        partner_id: shop.partnerId,
        known_as: 'user-1',
        commission: 2000,
        refunded: 2500,
        reversed: 500,
        status: 'refunded',
      },
    ])
    expect(
      await rows(`select kind, payload->>'amount_cents' as cents from outbox where program_id = $1`, shop),
    ).toEqual([{ kind: 'commission_refunded', cents: '500' }])
  })

  test('a sale that was sent to the sale endpoint under the same id is completed, not doubled', async () => {
    const shop = await createShop(sql, { generation })
    await sql.query(
      `insert into sales (program_id, transaction_id, amount_cents, commission_base_cents, currency) values ($1, 'in_1', 10000, 10000, 'usd')`,
      [shop.programId],
    )
    expect(await send(shop, 'invoice.payment_succeeded', bill(shop))).toMatchObject({ body: { outcome: 'duplicate' } })
    expect(await salesOf(shop)).toMatchObject([
      { transaction_id: 'in_1', known_as: 'user-1', subscription_id: 'sub_1', commission: 2000 },
    ])
  })
})

describe('the partner', () => {
  const keyless = { clickId: null, email: null, customer: null, customerKey: null }
  /** A customer of the second partner who can be found by this alone. */
  const another = async (
    shop: TestShop,
    found: { key?: string; email?: string; processorCustomer?: string; lastClick?: string },
  ) => {
    const { rows: made } = await sql.query<{ id: string; click_id: string }>(
      `with customer as (
        insert into customers (program_id, click_id, customer_key, email_hash, link_id, partner_id, last_click_at, customer_status, signup_date, lead_event_id)
        values ($1::bigint, $2 || $1::bigint, $3, decode($4::text, 'hex'), $5, $6, now() - $7::interval,
          case when $4::text is null then 'click' else 'lead' end, case when $4::text is not null then now() end,
          case when $4::text is not null then nextval('affiliate_lead_events_id_seq') end)
        returning *
      ),
      lead as (
        insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id)
        select program_id, signup_date, lead_event_id, id from customer where signup_date is not null returning program_id
      ),
      counted as (insert into daily_totals (program_id, day, slot, leads) select program_id, utc_day(now()), counter_slot(now()), 1 from lead)
      select id, click_id from customer`,
      [
        shop.programId,
        `cust_${Date.now()}_${String(Math.floor(Math.random() * 2 ** 50)).padStart(20, '0')}`,
        found.key ?? null,
        found.email === undefined ? null : await emailHash('key', found.email),
        shop.otherLinkId,
        shop.otherPartnerId,
        found.lastClick ?? '0 days',
      ],
    )
    if (found.processorCustomer !== undefined) {
      await sql.query(
        'insert into processor_customers (program_id, processor_customer_id, customer_id) values ($1, $2, $3)',
        [shop.programId, found.processorCustomer, made[0]?.id],
      )
    }
    return made[0]?.click_id ?? ''
  }
  test.for<[string, (shop: TestShop) => Promise<Shop>, 'first' | 'second' | null]>([
    ['by the click id alone', async (shop) => ({ ...shop, ...keyless, clickId: shop.clickId }), 'first'],
    [
      'by the e-mail address of the lead alone',
      async (shop) => (
        await another(shop, { email: 'bob@example.com' }),
        { ...shop, ...keyless, email: ' Bob@Example.com' }
      ),
      'second',
    ],
    [
      "by the processor's customer id alone",
      async (shop) => (
        await another(shop, { processorCustomer: 'cus_bob' }),
        { ...shop, ...keyless, customer: 'cus_bob' }
      ),
      'second',
    ],
    [
      'by the customer key alone',
      async (shop) => (await another(shop, { key: 'bob' }), { ...shop, ...keyless, customerKey: 'bob' }),
      'second',
    ],
    [
      'by nothing',
      async (shop) => ({
        ...shop,
        ...keyless,
        customerKey: 'nobody',
        email: 'nobody@example.com',
        customer: 'cus_nobody',
      }),
      null,
    ],
    [
      'by the click id before the e-mail address',
      async (shop) => (
        await another(shop, { email: 'bob@example.com' }),
        { ...shop, ...keyless, clickId: shop.clickId, email: 'bob@example.com' }
      ),
      'first',
    ],
    [
      "by the click id before the processor's customer id",
      async (shop) => (
        await another(shop, { processorCustomer: 'cus_bob' }),
        { ...shop, ...keyless, clickId: shop.clickId, customer: 'cus_bob' }
      ),
      'first',
    ],
    [
      'by the click id before the customer key',
      async (shop) => (
        await another(shop, { key: 'bob' }),
        { ...shop, ...keyless, clickId: shop.clickId, customerKey: 'bob' }
      ),
      'first',
    ],
    [
      "by the e-mail address before the processor's customer id and the key",
      async (shop) => {
        await another(shop, { email: 'bob@example.com' })
        await sql.query(
          `insert into processor_customers (program_id, processor_customer_id, customer_id) select program_id, 'cus_bob', id from customers where click_id = $1`,
          [shop.clickId],
        )
        await sql.query(`update customers set customer_key = 'ann' where click_id = $1`, [shop.clickId])
        return { ...shop, ...keyless, email: 'bob@example.com', customer: 'cus_bob', customerKey: 'ann' }
      },
      'second',
    ],
    [
      "by the processor's customer id before the key",
      async (shop) => {
        await another(shop, { processorCustomer: 'cus_bob' })
        await sql.query(`update customers set customer_key = 'ann' where click_id = $1`, [shop.clickId])
        return { ...shop, ...keyless, customer: 'cus_bob', customerKey: 'ann' }
      },
      'second',
    ],
    [
      "not by an e-mail address that is no lead's",
      async (shop) => (
        await sql.query(`update customers set email_hash = decode($2, 'hex') where click_id = $1`, [
          shop.clickId,
          await emailHash('key', 'ann@example.com'),
        ]),
        { ...shop, ...keyless, email: 'ann@example.com' }
      ),
      null,
    ],
    [
      'not by a click outside the window',
      async (shop) => ({ ...shop, ...keyless, clickId: await another(shop, { lastClick: '31 days' }) }),
      null,
    ],
    [
      'by a click that was valid when the session began',
      async (shop) => ({
        ...shop,
        ...keyless,
        clickId: await another(shop, { lastClick: '31 days' }),
        now: shop.now - 2 * 86_400,
      }),
      'second',
    ],
    [
      'not by the click of another program',
      async (shop) => ({ ...shop, ...keyless, clickId: (await createShop(sql)).clickId }),
      null,
    ],
    [
      'not by values that no text can be',
      async (shop) => ({ ...shop, ...keyless, clickId: 'a\0b', customerKey: '\uD800' }),
      null,
    ],
  ])('%s', async ([, arrange, partner]) => {
    const shop = await createShop(sql)
    const buyer = await arrange(shop)
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

  test('stays the same for renewals long after the window of the click', async () => {
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

  test('of a second person on the same computer is the same, as a customer of their own', async () => {
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

  test('of a payment under way is settled when the session is completed, whatever happens to the click until it arrives', async () => {
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

test('a purchase and a click on another link at the same moment leave sale and customer with one partner', async () => {
  const shop = await createShop(sql)
  const buyer = { ...shop, customerKey: null, email: null }
  await sql.query('begin')
  await sql.query(`update customers set partner_id = $2, link_id = $3 where program_id = $1`, [
    shop.programId,
    shop.otherPartnerId,
    shop.otherLinkId,
  ])
  const sent = send(buyer, 'checkout.session.completed', oneTime(buyer))
  await expect
    .poll(async () => (await sql.query(`select from pg_locks where not granted`)).rowCount, { timeout: 5000 })
    .toBeGreaterThan(0)
  await sql.query('commit')
  expect(await sent).toMatchObject({ body: { outcome: 'recorded' } })
  expect(await salesOf(shop)).toMatchObject([{ partner_id: shop.otherPartnerId }])
})

describe('a provisional lead', () => {
  async function provisional(settings: { leadCommissionCents?: number } = {}) {
    const shop = await createShop(sql, settings)
    await sql.query(
      `with lead as (
        update customers set provisional_lead_at = now(), provisional_lead_event_id = nextval('affiliate_lead_events_id_seq')
        where program_id = $1 returning *
      )
      insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, provisional)
      select program_id, provisional_lead_at, provisional_lead_event_id, id, true from lead`,
      [shop.programId],
    )
    return shop
  }
  const leadOf = async (shop: Shop) =>
    (
      await rows(
        `select c.customer_key, c.customer_status, c.signup_date is not null as settled, encode(c.email_hash, 'hex') as email_hash,
          (select sum(leads)::int from daily_totals d where d.program_id = c.program_id) as counted,
          (select sum(amount_cents)::int from commissions m where m.program_id = c.program_id and m.kind = 'lead') as paid,
          (select count(*)::int from affiliate_lead_events e where e.program_id = c.program_id and not e.provisional and e.customer_key = 'user-1') as events
        from customers c where program_id = $1`,
        shop,
      )
    )[0]
  test.for<[string, string, (shop: Shop) => Record<string, unknown>, string]>([
    ['a payment', 'checkout.session.completed', oneTime, 'conversion'],
    ['a payment that arrived later', 'checkout.session.async_payment_succeeded', oneTime, 'conversion'],
    [
      'a checkout that costs nothing',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 0, payment_status: 'no_payment_required' }),
      'lead',
    ],
    [
      'the beginning of a trial',
      'checkout.session.completed',
      (shop) => firstPayment(shop, { total: 0, invoice: null, payment_status: 'no_payment_required' }),
      'lead',
    ],
    [
      'a coupon for everything',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 0, discount: 10_000 }),
      'lead',
    ],
  ])('is settled, counted, paid and tied to the customer key by %s', async ([, type, object, status]) => {
    const shop = await provisional({ leadCommissionCents: 150 })
    await send(shop, type, object(shop))
    await send(shop, type, object(shop))
    expect(await leadOf(shop)).toEqual({
      customer_key: 'user-1',
      customer_status: status,
      settled: true,
      email_hash: await emailHash('key', 'ann@example.com'),
      counted: 1,
      paid: 150,
      events: 1,
    })
    expect(await salesOf(shop)).toHaveLength(status === 'conversion' ? 1 : 0)
  })

  test.for<[string, string, (shop: Shop) => Record<string, unknown>]>([
    [
      'a payment that is under way',
      'checkout.session.completed',
      (shop) => oneTime(shop, { payment_status: 'unpaid' }),
    ],
    ['an invoice', 'invoice.payment_succeeded', (shop) => bill(shop)],
  ])('is not settled by %s', async ([, type, object]) => {
    const shop = await provisional({ leadCommissionCents: 150 })
    expect(await send(shop, type, object(shop))).toMatchObject({ body: { outcome: 'recorded' } })
    expect(await leadOf(shop)).toMatchObject({ settled: false, paid: null, events: 0 })
  })

  test('is not made of a mere click', async () => {
    const shop = await createShop(sql, { leadCommissionCents: 150 })
    await send(shop, 'checkout.session.completed', oneTime(shop))
    expect(await leadOf(shop)).toMatchObject({ settled: false, paid: null, customer_status: 'conversion' })
  })
})

test('an event of test mode makes a test sale, which earns nothing and binds nobody', async () => {
  const shop = await createShop(sql)
  const testMode = { ...shop, livemode: false }
  expect(await send(testMode, 'checkout.session.completed', oneTime(testMode))).toMatchObject({
    body: { outcome: 'recorded' },
  })
  await send(testMode, 'refund.created', refund(testMode, { id: 're_1', amount: 400, ...paidBy }))
  await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 300, ...paidBy }))
  expect(await salesOf(shop)).toMatchObject([{ is_test: true, commission: null, refunded: 400 }])
  expect(await rows('select customer_key, customer_status from customers where program_id = $1', shop)).toEqual([
    { customer_key: null, customer_status: 'click' },
  ])
  await send(shop, 'checkout.session.completed', oneTime(shop))
  expect(await salesOf(shop)).toMatchObject([{ is_test: true }, { is_test: false, refunded: 300, reversed: 60 }])
})

test.each([
  ['three days', 3 * 86_400],
  ['an hour', 3600],
  ['a minute', 60],
])('a sale of %s before that is told later moves the first purchase to its own hour', async (_what, seconds) => {
  const shop = await createShop(sql)
  const earlier = { ...shop, now: shop.now - seconds }
  await send(shop, 'invoice.payment_succeeded', bill(shop, { id: 'in_2' }))
  await send(earlier, 'checkout.session.completed', firstPayment(earlier))
  const at = new Date(earlier.now * 1000)
  expect(
    await rows(
      `select day::text, slot / 64 - 1 as hour, sum(conversions)::int as conversions from daily_totals where program_id = $1
      group by 1, 2 having sum(conversions) <> 0`,
      shop,
    ),
  ).toEqual([{ day: at.toISOString().slice(0, 10), hour: at.getUTCHours(), conversions: 1 }])
  expect(
    await rows('select extract(epoch from first_purchase_date)::int as at from customers where program_id = $1', shop),
  ).toEqual([{ at: earlier.now }])
})

describe.each<Generation>(['old', 'new'])('refunds and disputes, in payloads of the %s generation', (generation) => {
  async function sold() {
    const shop = await createShop(sql, { generation })
    await send(shop, 'checkout.session.completed', oneTime(shop))
    return shop
  }
  const take = (shop: Shop, id: string, amount: number, status = 'succeeded') =>
    send(
      shop,
      status === 'failed' ? 'refund.failed' : status === 'pending' ? 'refund.created' : 'refund.updated',
      refund(shop, { id, amount, status, ...paidBy }),
    )
  const withdraw = (shop: Shop, amount: number) =>
    send(shop, 'charge.dispute.funds_withdrawn', dispute(shop, { id: 'dp_1', amount, ...paidBy }))
  const reinstate = (shop: Shop, amount: number) =>
    send(shop, 'charge.dispute.funds_reinstated', dispute(shop, { id: 'dp_1', amount, status: 'won', ...paidBy }))

  test.for<
    [
      string,
      (shop: Shop) => Promise<unknown>[] | Promise<unknown>,
      { refunded: number; reversed: number; status: string },
    ]
  >([
    ['one in part', (shop) => take(shop, 're_1', 3000), { refunded: 3000, reversed: 600, status: 'refunded' }],
    ['one in full', (shop) => take(shop, 're_1', 10_000), { refunded: 10_000, reversed: 2000, status: 'reversed' }],
    [
      'two in part',
      async (shop) => [await take(shop, 're_1', 3000), await take(shop, 're_2', 2000)],
      { refunded: 5000, reversed: 1000, status: 'refunded' },
    ],
    [
      'the same amount twice',
      async (shop) => [await take(shop, 're_1', 3000), await take(shop, 're_2', 3000)],
      { refunded: 6000, reversed: 1200, status: 'refunded' },
    ],
    [
      'one told as pending, then as paid',
      async (shop) => [await take(shop, 're_1', 3000, 'pending'), await take(shop, 're_1', 3000)],
      { refunded: 3000, reversed: 600, status: 'refunded' },
    ],
    [
      'one that failed',
      async (shop) => [await take(shop, 're_1', 3000, 'pending'), await take(shop, 're_1', 3000, 'failed')],
      { refunded: 0, reversed: 0, status: 'pending' },
    ],
    [
      'one that was canceled',
      async (shop) => [await take(shop, 're_1', 3000), await take(shop, 're_1', 3000, 'canceled')],
      { refunded: 0, reversed: 0, status: 'pending' },
    ],
    [
      'one whose failure is told first',
      async (shop) => [await take(shop, 're_1', 3000, 'failed'), await take(shop, 're_1', 3000, 'pending')],
      { refunded: 0, reversed: 0, status: 'pending' },
    ],
    [
      'one that failed beside one that did not',
      async (shop) => [
        await take(shop, 're_1', 3000),
        await take(shop, 're_2', 1000),
        await take(shop, 're_1', 3000, 'failed'),
      ],
      { refunded: 1000, reversed: 200, status: 'refunded' },
    ],
    [
      'more than was paid',
      async (shop) => [await take(shop, 're_1', 8000), await take(shop, 're_2', 8000)],
      { refunded: 10_000, reversed: 2000, status: 'reversed' },
    ],
    ['a dispute', (shop) => withdraw(shop, 10_000), { refunded: 10_000, reversed: 2000, status: 'reversed' }],
    ['a dispute of a part', (shop) => withdraw(shop, 2500), { refunded: 2500, reversed: 500, status: 'refunded' }],
    [
      'a dispute that was won',
      async (shop) => [await withdraw(shop, 10_000), await reinstate(shop, 10_000)],
      { refunded: 0, reversed: 0, status: 'pending' },
    ],
    [
      'a dispute whose end is told first',
      async (shop) => [await reinstate(shop, 10_000), await withdraw(shop, 10_000)],
      { refunded: 0, reversed: 0, status: 'pending' },
    ],
    [
      'a refund, and a dispute of everything',
      async (shop) => [await take(shop, 're_1', 3000), await withdraw(shop, 10_000)],
      { refunded: 10_000, reversed: 2000, status: 'reversed' },
    ],
    [
      'a refund, and a dispute that was won',
      async (shop) => [await take(shop, 're_1', 3000), await withdraw(shop, 10_000), await reinstate(shop, 10_000)],
      { refunded: 3000, reversed: 600, status: 'refunded' },
    ],
    [
      'a dispute that was won, and a refund told in between',
      async (shop) => [await withdraw(shop, 10_000), await take(shop, 're_1', 3000), await reinstate(shop, 10_000)],
      { refunded: 3000, reversed: 600, status: 'refunded' },
    ],
    [
      'a dispute that found no room for all of it, and a refund that failed',
      async (shop) => [
        await take(shop, 're_1', 6000),
        await withdraw(shop, 8000),
        await take(shop, 're_1', 6000, 'failed'),
      ],
      { refunded: 8000, reversed: 1600, status: 'refunded' },
    ],
    [
      'and then the dispute was won',
      async (shop) => [
        await take(shop, 're_1', 6000),
        await withdraw(shop, 8000),
        await take(shop, 're_1', 6000, 'failed'),
        await reinstate(shop, 8000),
      ],
      { refunded: 0, reversed: 0, status: 'pending' },
    ],
  ])('%s', async ([, happen, expected]) => {
    const shop = await sold()
    await happen(shop)
    expect(await salesOf(shop)).toMatchObject([expected])
  })

  test('a refund of a renewal, whose payment names no invoice any more, is applied', async () => {
    const shop = await createShop(sql, { generation })
    await send(shop, 'invoice.payment_succeeded', bill(shop))
    if (generation === 'new') {
      await send(
        shop,
        'invoice_payment.paid',
        invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
      )
    }
    const answer = await take(shop, 're_1', 5000)
    expect(answer).toMatchObject({ body: { outcome: 'recorded' }, requests: 1 })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 1000, payment_intent: 'pi_1' }])
  })

  test('what is told before its sale is parked, and applied in the transaction that records the sale', async () => {
    const shop = await createShop(sql, { generation })
    expect(await take(shop, 're_1', 3000)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await take(shop, 're_2', 1000, 'failed')).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await take(shop, 're_2', 1000, 'pending')).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await withdraw(shop, 2000)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
    expect(await send(shop, 'checkout.session.completed', oneTime(shop))).toMatchObject({
      body: { outcome: 'recorded' },
      requests: 1,
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 1000, status: 'refunded' }])
    expect(
      await rows(
        'select distinct outcome from processor_events where account_id = (select processor_account_id from programs where id = $1)',
        shop,
      ),
    ).toEqual([{ outcome: 'recorded' }])
  })

  test('`charge.refunded` applies the refunds of the charge, never their running total', async () => {
    const shop = await sold()
    stripe.refunds.set('ch_1', [
      refund(shop, { id: 're_1', amount: 1000 }),
      refund(shop, { id: 're_2', amount: 2000, status: 'failed' }),
      refund(shop, { id: 're_3', amount: 4000, status: 'pending' }),
    ])
    const total = charge(shop, { id: 'ch_1', amount: 10_000, refunded: 7000, payment_intent: 'pi_1' })
    await take(shop, 're_1', 1000)
    expect(await send(shop, 'charge.refunded', total)).toMatchObject({
      status: 200,
      body: { outcome: 'recorded' },
      requests: 1,
    })
    expect(await send(shop, 'charge.refunded', total)).toMatchObject({
      body: { outcome: 'duplicate', reason: 'Another event told it already.' },
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5000, reversed: 1000 }])
    stripe.refunds.delete('ch_1')
  })

  test('a refund told by the webhook and by the endpoint with the same id counts once', async () => {
    const { key, hint } = await generateApiKey()
    const keyHash = await apiKeyHash(`Bearer ${key}`)
    const byEndpoint = async (shop: Shop, refundId: string) => {
      await sql.query(
        `insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3) on conflict (key_hash) do update set program_id = $1`,
        [shop.programId, keyHash, hint],
      )
      const told = { amount_cents: 3000, refund_id: refundId, reason: 'refund', reason_text: null } as const
      return (await refundSale(db, keyHash, 'pi_1', told, crypto.randomUUID())).applied
    }
    const first = await sold()
    await take(first, 're_1', 3000)
    expect(await byEndpoint(first, 're_1')).toMatchObject({ status: 'skipped', reason: 'refund_already_applied' })
    const second = await sold()
    expect(await byEndpoint(second, 're_1')).toMatchObject({ status: 'refunded' })
    await take(second, 're_1', 3000)
    for (const shop of [first, second]) expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    await take(second, 're_1', 3000, 'failed')
    expect(await salesOf(second)).toMatchObject([{ refunded: 0, reversed: 0 }])
    const third = await sold()
    await take(third, 're_1', 3000, 'failed')
    expect(await byEndpoint(third, 're_1')).toMatchObject({ status: 'skipped' })
    expect(await salesOf(third)).toMatchObject([{ refunded: 0, reversed: 0 }])
  })

  test('a dispute that is won is put back into the balance, and the advertiser is asked to look', async () => {
    const shop = await sold()
    await sql.query('update commissions set hold_until = now() where program_id = $1', [shop.programId])
    const { approveDueCommissions } = await import('../lib/money/commissions.ts')
    await approveDueCommissions(db, 100)
    await withdraw(shop, 10_000)
    expect(await rows('select balance_cents::int as balance from balances where program_id = $1', shop)).toEqual([
      { balance: 0 },
    ])
    await reinstate(shop, 10_000)
    expect(await rows('select balance_cents::int as balance from balances where program_id = $1', shop)).toEqual([
      { balance: 2000 },
    ])
    expect(
      await rows(
        `select kind, audience, payload->>'amount_cents' as cents, payload->>'reason' as reason from outbox where program_id = $1 order by id`,
        shop,
      ),
    ).toMatchObject([
      { kind: 'commission_reversed', audience: 'partner', cents: '2000', reason: 'chargeback' },
      { kind: 'dispute_reinstated', audience: 'advertiser', cents: '2000' },
    ])
  })

  test('a commission that the advertiser rejected stays rejected', async () => {
    const shop = await sold()
    await take(shop, 're_1', 3000)
    const { rejectCommission } = await import('../lib/money/commissions.ts')
    const [commission] = await rows('select id::int from commissions where program_id = $1', shop)
    await rejectCommission(db, shop.programId, Number(commission?.['id']), 'fraud')
    await take(shop, 're_1', 3000, 'failed')
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 2000, status: 'reversed' }])
  })

  test('a dispute in another currency than the sale is left to people', async () => {
    const shop = await sold()
    const inEuros = dispute(shop, { id: 'dp_1', amount: 9000, currency: 'eur', ...paidBy })
    expect(await send(shop, 'charge.dispute.funds_withdrawn', inEuros)).toMatchObject({
      body: { outcome: 'ignored', reason: expect.stringMatching(/eur.*usd.*by hand/) },
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0 }])
  })
})

describe("Stripe's API", () => {
  const aRefund = (shop: Shop) =>
    send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 5000, payment_intent: 'pi_7', charge: 'ch_7' }))
  test('is asked for the invoice of a payment that no event told of, and what it says is kept', async () => {
    const shop = await createShop(sql)
    await send(shop, 'invoice.payment_succeeded', bill(shop))
    stripe.invoices.set('pi_7', 'in_1')
    stripe.calls.length = 0
    expect(await aRefund(shop)).toMatchObject({ body: { outcome: 'recorded' }, requests: 2 })
    expect(stripe.calls).toEqual([
      `GET /v1/invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_7&limit=1 ${shop.account}`,
    ])
    expect(
      await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 1, payment_intent: 'pi_7' })),
    ).toMatchObject({ requests: 1 })
    expect(stripe.calls).toHaveLength(1)
    expect(await salesOf(shop)).toMatchObject([{ refunded: 5001, payment_intent: 'pi_7' }])
    stripe.invoices.clear()
  })

  test.for<[string, number]>([
    ['answers 500', 500],
    ['says that there are too many calls', 429],
    ['breaks the connection', 0],
  ])(
    'where it %s three times, the event is answered 503 with nothing recorded; delivered again it is applied',
    async ([, status]) => {
      const shop = await createShop(sql)
      await send(shop, 'invoice.payment_succeeded', bill(shop))
      stripe.invoices.set('pi_7', 'in_1')
      stripe.fail(status, status === 429 ? 1 : 3)
      expect(await aRefund(shop)).toMatchObject({ status: 503, body: { error: { code: 'unavailable' } } })
      expect(
        await rows(`select event_id from processor_events where program_id = $1 and event_type like 'refund%'`, shop),
      ).toEqual([])
      expect(
        await rows(
          'select 1 from processor_reversals where account_id = (select processor_account_id from programs where id = $1)',
          shop,
        ),
      ).toEqual([])
      expect(await aRefund(shop)).toMatchObject({ status: 200, body: { outcome: 'recorded' } })
      expect(await salesOf(shop)).toMatchObject([{ refunded: 5000 }])
      stripe.invoices.clear()
    },
  )

  test('where it fails once, it is asked again at once', async () => {
    const shop = await createShop(sql)
    stripe.fail(500, 1)
    expect(await aRefund(shop)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
  })

  test('where it knows no such payment, the refund is parked', async () => {
    const shop = await createShop(sql)
    stripe.fail(404, 1)
    expect(await aRefund(shop)).toMatchObject({ status: 200, body: { outcome: 'parked' } })
  })
})

describe('an event', () => {
  test('sent a hundred times at once has one effect', async () => {
    const shop = await createShop(sql)
    const sale = stripeEvent(shop, 'evt_hundred', 'checkout.session.completed', oneTime(shop))
    const refunded = stripeEvent(
      shop,
      'evt_refund',
      'refund.created',
      refund(shop, { id: 're_1', amount: 3000, ...paidBy }),
    )
    for (const event of [sale, refunded]) {
      const answers = await Promise.all(Array.from({ length: 100 }, () => post(JSON.stringify(event))))
      expect(answers.filter(({ status, body }) => status !== 200 || body.outcome !== 'recorded')).toEqual([])
    }
    expect(await salesOf(shop)).toMatchObject([{ commission: 2000, refunded: 3000, reversed: 600 }])
    expect(await rows('select deliveries from processor_events where program_id = $1', shop)).toEqual([
      { deliveries: 100 },
      { deliveries: 100 },
    ])
    expect(await rows('select kind from outbox where program_id = $1', shop)).toHaveLength(1)
  })

  test('and the refund of its payment, sent at the same moment, do not miss each other', async () => {
    for (let round = 0; round < 10; round++) {
      const shop = await createShop(sql)
      await Promise.all([
        send(shop, 'checkout.session.completed', firstPayment(shop)),
        send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy })),
        send(
          shop,
          'invoice_payment.paid',
          invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
        ),
      ])
      expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    }
  })

  const events: [string, (shop: Shop) => Record<string, unknown>][] = [
    ['refund.created', (shop) => refund(shop, { id: 're_1', amount: 3000, ...paidBy })],
    ['checkout.session.completed', (shop) => firstPayment(shop)],
    [
      'invoice_payment.paid',
      (shop) => invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 10_000 }),
    ],
    ['charge.dispute.funds_withdrawn', (shop) => dispute(shop, { id: 'dp_1', amount: 10_000, ...paidBy })],
    ['charge.dispute.funds_reinstated', (shop) => dispute(shop, { id: 'dp_1', amount: 10_000, ...paidBy })],
  ]
  test.for(
    (['drop-before', 'drop-after', 'unavailable', 'kill-backend'] as const).flatMap((action) =>
      [1, 2, 3].map((times) => [action, times] as const),
    ),
  )(
    'whose database requests meet %s %i times is applied once when Stripe delivers it again',
    async ([action, times]) => {
      const shop = await createShop(sql)
      for (const [index, [type, object]] of events.entries()) {
        neon.inject({ action, times })
        for (let delivery = 0; ; delivery++) {
          const answer = await send(shop, type, object(shop), `evt_${index}`)
          if (answer.status === 200) break
          expect(answer).toMatchObject({ status: 503, body: { error: { code: 'unavailable' } } })
          expect(delivery).toBeLessThan(3)
        }
        neon.clearFaults()
      }
      expect(await salesOf(shop)).toMatchObject([
        { transaction_id: 'in_1', refunded: 3000, reversed: 600, commission: 2000 },
      ])
      expect(
        await rows(
          'select outcome from processor_events where account_id = (select processor_account_id from programs where id = $1)',
          shop,
        ),
      ).toEqual(events.map(() => ({ outcome: 'recorded' })))
    },
  )
})

describe('account.application.deauthorized', () => {
  const deauthorize = (shop: Shop) =>
    send(shop, 'account.application.deauthorized', { id: 'ca_1', object: 'application', name: 'Service' })
  const connected = async (shop: Shop) =>
    (await rows('select processor_account_id as account from programs where id = $1', shop))[0]?.['account'] !== null
  test.for<[string, Partial<Shop>, string, boolean]>([
    ['disconnects the programs of the account', {}, 'null', false],
    ['that an older connection ended does not end a newer one', {}, "now() + interval '1 minute'", true],
    ['of test mode does not end a live connection', { livemode: false }, 'null', true],
  ])('%s', async ([, sender, connectedAt, stays]) => {
    const shop = await createShop(sql)
    await sql.query(`update programs set processor_connected_at = ${connectedAt} where id = $1`, [shop.programId])
    expect(await deauthorize({ ...shop, ...sender })).toMatchObject({
      status: 200,
      body: { outcome: stays ? 'ignored' : 'recorded' },
    })
    expect(await connected(shop)).toBe(stays)
  })
})

describe('the delivery log', () => {
  const client = openStripe(env)
  test('says what became of each event, newest first, page by page', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    await send(shop, 'invoice.paid', bill(shop, { metadata: {} }), 'evt_b')
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    const all = await listDeliveries(db, shop.programId, { limit: 10, before: undefined })
    expect(all).toMatchObject([
      {
        event_id: 'evt_b',
        event_type: 'invoice.paid',
        outcome: 'ignored',
        reason: 'Its metadata names no program.',
        deliveries: 1,
      },
      {
        event_id: 'evt_a',
        event_type: 'checkout.session.completed',
        outcome: 'recorded',
        reason: null,
        deliveries: 2,
        livemode: true,
      },
    ])
    expect(await listDeliveries(db, shop.programId, { limit: 10, before: 'evt_b' })).toEqual(all.slice(1))
    expect(await listDeliveries(db, (await createShop(sql)).programId, { limit: 10, before: undefined })).toEqual([])
  })

  test('replays an event that could not be recorded before', async () => {
    const shop = await createShop(sql)
    await sql.query('update programs set processor_account_id = null where id = $1', [shop.programId])
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_early')
    await sql.query('update programs set processor_account_id = $2 where id = $1', [shop.programId, shop.account])
    expect(await replayDelivery(db, client, shop.programId, 'evt_early')).toMatchObject({ outcome: 'recorded' })
    expect(await salesOf(shop)).toMatchObject([{ known_as: 'user-1', commission: 2000 }])
  })

  test('replays everything without changing anything', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy }), 'evt_b')
    await send(
      shop,
      'charge.dispute.funds_withdrawn',
      dispute(shop, { id: 'dp_1', amount: 10_000, ...paidBy }),
      'evt_c',
    )
    const before = await salesOf(shop)
    for (const id of ['evt_c', 'evt_a', 'evt_b', 'evt_a']) {
      expect(await replayDelivery(db, client, shop.programId, id)).toMatchObject({ outcome: 'recorded', outbox: [] })
    }
    expect(await salesOf(shop)).toEqual(before)
  })

  test('replays no event of another program', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_mine')
    const other = await createShop(sql)
    await expect(replayDelivery(db, client, other.programId, 'evt_mine')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('forgets after 90 days, and what was parked with it; what became part of a sale stays', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop))
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy }))
    await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 100, payment_intent: 'pi_8' }))
    await sql.query(`update processor_events set received_at = now() - interval '89 days'`)
    expect(await forgetDeliveries(db)).toBe(0)
    await sql.query(`update processor_events set received_at = now() - interval '91 days' where account_id = $1`, [
      shop.account,
    ])
    await sql.query(`update processor_reversals set created_at = now() - interval '91 days' where account_id = $1`, [
      shop.account,
    ])
    expect(await forgetDeliveries(db)).toBe(5)
    expect(await listDeliveries(db, shop.programId, { limit: 10, before: undefined })).toEqual([])
    // What was told once is not counted again, however old it is.
    await send(shop, 'checkout.session.completed', oneTime(shop))
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy }))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    expect(
      await send(shop, 'refund.failed', refund(shop, { id: 're_1', amount: 3000, status: 'failed', ...paidBy })),
    ).toMatchObject({ body: { outcome: 'recorded' } })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 0 }])
  })
})

describe('npm run stripe:fixture', () => {
  const kinds = Object.keys(stripeFixtures)
  test('has an event of each kind that is handled', () => {
    const shop = { ...({} as Shop), generation: 'new' as const }
    const types = new Set(kinds.map((name) => stripeFixtures[name]?.(shop, '1').type))
    expect(types).toEqual(new Set(handledEventTypes))
  })

  test.for(kinds.flatMap((name) => (['old', 'new'] as const).map((generation) => [name, generation] as const)))(
    '%s is understood, in the %s generation',
    async ([name, generation]) => {
      const shop = await createShop(sql, { generation })
      const fixture = stripeFixtures[name]?.(shop, '1')
      const answer = await send(shop, fixture?.type ?? '', fixture?.object ?? {})
      expect(answer.status).toBe(200)
      expect(answer.body.reason ?? '').not.toMatch(/could not be read|not used|metadata/)
    },
  )
})

test('no e-mail address is kept anywhere, and everything agrees', async () => {
  const { rows: tables } = await sql.query<{ name: string }>(
    `select format('%I', table_name) as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
  )
  for (const { name } of tables) {
    const found = await sql.query(`select 1 from ${name} t where t::text ~* '(ann|bob)@example'`)
    expect(found.rowCount, name).toBe(0)
  }
  // The customers of these tests were put in without their clicks.
  const found = (await audit(sql)).filter(({ check, total }) => total > 0 && check !== 'a customer came by a click')
  expect(found).toEqual([])
})
