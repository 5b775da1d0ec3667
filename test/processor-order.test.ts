import { afterAll, describe, expect, test } from 'vitest'
import { audit } from '../lib/commands/audit.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { startLocalStripe } from '../lib/local/stripe.ts'
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
import { applyEvent } from '../lib/stripe/apply-event.ts'
import { openStripe } from '../lib/stripe/client.ts'
import { readEvent } from '../lib/stripe/read-event.ts'
import { saveRules } from '../lib/programs/commission-rules.ts'
import { createShops } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()
const local = await startLocalStripe()
afterAll(() => local.close())
const stripe = openStripe({ STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: local.url })

const email = 'ann@example.com'
const hashes = new Map([[email, await emailHash('key', email)]])

const price = { id: 'price_team', product: 'prod_team' }

const paidBy = (payment: 1 | 2) => ({ payment_intent: `pi_${payment}`, charge: `ch_${payment}` })

/** Only the session names the buyer of the first payment, and only the invoice names the product. */
function history(shop: Shop) {
  const event = (id: string, type: string, object: Record<string, unknown>, at = 0) =>
    stripeEvent({ ...shop, now: shop.now + at }, id, type, object)
  const first = invoice(shop, {
    id: 'in_1',
    subscription: 'sub_1',
    billing_reason: 'subscription_create',
    amount_paid: 12000,
    tax: 2000,
    metadata: { program_id: String(shop.programId) },
    price,
    ...paidBy(1),
  })
  const failed = { id: 're_3', amount: 1000, ...paidBy(2) }
  const disputed = { id: 'dp_1', amount: 9900, ...paidBy(2) }
  const session = {
    id: 'cs_1',
    mode: 'subscription',
    total: 12000,
    tax: 2000,
    invoice: 'in_1',
    subscription: 'sub_1',
  } as const
  const renewal = { ...shop, now: shop.now + 90 }
  return [
    event('evt_1', 'checkout.session.completed', checkoutSession(shop, session)),
    event('evt_2', 'invoice.payment_succeeded', first),
    event('evt_3', 'invoice.paid', first),
    event(
      'evt_4',
      'invoice.payment_succeeded',
      invoice(renewal, { id: 'in_2', subscription: 'sub_1', amount_paid: 9900, price, ...paidBy(2) }),
      90,
    ),
    event('evt_5', 'refund.created', refund(shop, { id: 're_1', amount: 3333, ...paidBy(2) })),
    event('evt_6', 'refund.created', refund(shop, { id: 're_2', amount: 2001, ...paidBy(1) })),
    event('evt_7', 'refund.updated', refund(shop, { ...failed, status: 'pending' })),
    event('evt_8', 'refund.failed', refund(shop, { ...failed, status: 'failed' })),
    event('evt_9', 'charge.dispute.funds_withdrawn', dispute(shop, disputed)),
    event('evt_10', 'charge.dispute.funds_reinstated', dispute(shop, { ...disputed, status: 'won' })),
    ...(shop.generation === 'new'
      ? [
          event(
            'evt_11',
            'invoice_payment.paid',
            invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 12000 }),
          ),
          event(
            'evt_12',
            'invoice_payment.paid',
            invoicePayment(shop, { invoice: 'in_2', payment_intent: 'pi_2', amount: 9900 }),
          ),
        ]
      : [
          event(
            'evt_11',
            'charge.refunded',
            charge(shop, { id: 'ch_2', amount: 9900, refunded: 3333, payment_intent: 'pi_2', invoice: 'in_2' }),
          ),
          event(
            'evt_12',
            'charge.refunded',
            charge(shop, { id: 'ch_1', amount: 12000, refunded: 2001, payment_intent: 'pi_1', invoice: 'in_1' }),
          ),
        ]),
  ]
}

/** The facts that do not depend on the time of their report. */
async function finalState(shop: Shop) {
  const rows = async (text: string) => (await sql.query(text, [shop.programId])).rows
  return {
    sales:
      await rows(`select transaction_id, s.amount_cents, commission_base_cents, refunded_cents, is_recurring, sale_type, subscription_id,
        processor_payment_intent_id, processor_customer_id, s.customer_id is not null as attributed, product_ids, commission_bp, commission_fixed_cents, commission_cap_cents, extract(epoch from sale_date)::bigint - ${shop.now} as at,
        c.amount_cents as commission_cents, c.reversed_cents, c.reversal, c.status
      from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id where s.program_id = $1 order by transaction_id`),
    customers:
      await rows(`select customer_key, customer_status, extract(epoch from first_purchase_date)::bigint - ${shop.now} as at
      from customers where program_id = $1 order by id`),
    balances: await rows('select balance_cents from balances where program_id = $1'),
    days: await rows(`select sum(sales) as sales, sum(revenue_cents) as revenue_cents, sum(commission_cents) as commission_cents,
      (select sum(conversions) from daily_totals where program_id = $1) as conversions from daily_money where program_id = $1`),
    unsettled:
      await rows(`select event_id, outcome from processor_events e join programs p on p.processor_account_id = e.account_id
      where p.id = $1 and outcome not in ('recorded', 'duplicate')`),
  }
}

/** A generator of numbers from 0 to 1, the same for the same seed. */
function seededRandom(seed: number) {
  let state = seed
  return () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32
    return state / 2 ** 32
  }
}

async function play(shop: Shop, seed: number) {
  const random = seededRandom(seed)
  const events = history(shop)
  const order = [...events, ...events.filter(() => random() < 0.25)]
    .map((event) => ({ event, place: random() }))
    .toSorted((a, b) => a.place - b.place)
  for (const { event } of order) {
    if (random() < 0.03) await approveDueCommissions(db, 20)
    await applyEvent(db, stripe, await readEvent(event, async (address) => hashes.get(address) ?? ''))
  }
}

describe.each<Generation>(['old', 'new'])(
  'a history of twelve events in payloads of the %s generation',
  (generation) => {
    test('ends the same in 60 random orders with random repeats', async () => {
      const shops = await createShops(sql, 61, { generation, holdDays: 0 })
      // A renewal may bring 700 more cents than the first payment, which the cap decides.
      for (const { programId } of shops) {
        await saveRules(db, programId, 'everybody', [
          { product_id: 'prod_team', commission_bp: 2500, commission_fixed_cents: 300, lifetime_cap_cents: 3500 },
          { sale_type: 'subscription', commission_bp: 1000 },
        ])
      }
      local.refunds.set('ch_1', [refund(shops[0] as Shop, { id: 're_2', amount: 2001 })])
      local.refunds.set('ch_2', [
        refund(shops[0] as Shop, { id: 're_1', amount: 3333 }),
        refund(shops[0] as Shop, { id: 're_3', amount: 1000, status: 'failed' }),
      ])
      const queue = shops.map((shop, seed) => ({ shop, seed }))
      const [inOrder] = queue.splice(0, 1)
      if (!inOrder) return
      for (const event of history(inOrder.shop)) {
        await applyEvent(db, stripe, await readEvent(event, async (address) => hashes.get(address) ?? ''))
      }
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          for (let next = queue.pop(); next; next = queue.pop()) await play(next.shop, next.seed)
        }),
      )
      while ((await approveDueCommissions(db, 1000)).more);
      const expected = await finalState(inOrder.shop)
      expect(expected.sales).toMatchObject([{ commission_cents: '2800' }, { commission_cents: '700' }])
      for (const [seed, shop] of shops.entries()) {
        expect(await finalState(shop), `the order of seed ${seed}`).toEqual(expected)
      }
      expect((await audit(sql)).filter(({ total }) => total > 0)).toEqual([])
    }, 120_000)
  },
)
