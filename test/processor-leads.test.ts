import { describe, expect, test } from 'vitest'
import type { Shop } from '../lib/local/stripe-events.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { bill, firstPayment, oneTime } from './support/payments.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { sql } = endpoint
const { send, rows, salesOf } = await openWebhook(endpoint)

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

describe('a provisional lead', () => {
  test.for<[string, string, (shop: Shop) => Record<string, unknown>, string]>([
    ['a payment', 'checkout.session.completed', oneTime, 'conversion'],
    ['a delayed payment', 'checkout.session.async_payment_succeeded', oneTime, 'conversion'],
    [
      'a free checkout',
      'checkout.session.completed',
      (shop) => oneTime(shop, { total: 0, payment_status: 'no_payment_required' }),
      'lead',
    ],
    [
      'the start of a trial',
      'checkout.session.completed',
      (shop) => firstPayment(shop, { total: 0, invoice: null, payment_status: 'no_payment_required' }),
      'lead',
    ],
    ['a full discount', 'checkout.session.completed', (shop) => oneTime(shop, { total: 0, discount: 10_000 }), 'lead'],
  ])('is settled, counted, paid and linked to the customer key by %s', async ([, type, object, status]) => {
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
    ['a pending payment', 'checkout.session.completed', (shop) => oneTime(shop, { payment_status: 'unpaid' })],
    ['an invoice', 'invoice.payment_succeeded', (shop) => bill(shop)],
  ])('is not settled by %s', async ([, type, object]) => {
    const shop = await provisional({ leadCommissionCents: 150 })
    expect(await send(shop, type, object(shop))).toMatchObject({ body: { outcome: 'recorded' } })
    expect(await leadOf(shop)).toMatchObject({ settled: false, paid: null, events: 0 })
  })

  test('is not created by a click alone', async () => {
    const shop = await createShop(sql, { leadCommissionCents: 150 })
    await send(shop, 'checkout.session.completed', oneTime(shop))
    expect(await leadOf(shop)).toMatchObject({ settled: false, paid: null, customer_status: 'conversion' })
  })
})

testStoredState(sql)
