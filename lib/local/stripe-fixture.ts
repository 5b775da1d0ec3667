import { parseArgs } from 'node:util'
import { type ExpressionBuilder, sql } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import color from 'picocolors'
import { Stripe } from 'stripe'
import { runCommand } from '../commands/command.ts'
import { type Database, openDatabase } from '../database.ts'
import { kysely } from '../kysely.ts'
import { reviewAndCredit } from '../money/reviews.ts'
import { OperatorError } from '../commands/operator-error.ts'
import type { DB } from '../schema.ts'
import { readRunningStack } from '../commands/running-stack.ts'
import { newClickIdPrefix } from '../tracking/clicks.ts'
import { testClickId } from '../tracking/test-links.ts'
import {
  capturedCharge,
  charge,
  checkoutSession,
  creditNote,
  customer,
  dispute,
  type Generation,
  invoice,
  invoicePayment,
  paymentIntent,
  refund,
  type Shop,
  stripeEvent,
} from './stripe-events.ts'

interface Fixture {
  type: string
  object: Record<string, unknown>
  /** The objects with which the Stripe emulator answers the service's questions about the event. */
  known?: { invoices?: Record<string, string>; refunds?: Record<string, object[]> }
}

const total = 4900

/**
 * An event of each kind that the service handles. Its name is the type and, after a colon, its variant. `order` is part of every id,
 * so events with the same order belong to the same payment.
 */
export const stripeFixtures: Readonly<Record<string, (shop: Shop, order: string) => Fixture>> = {
  'checkout.session.completed': (shop, order) => session(shop, order, {}),
  'checkout.session.completed:subscription': (shop, order) =>
    session(shop, order, {
      mode: 'subscription',
      invoice: `in_${order}`,
      payment_intent: null,
      subscription: `sub_${order}`,
    }),
  'checkout.session.completed:unpaid': (shop, order) => session(shop, order, { payment_status: 'unpaid' }),
  'checkout.session.completed:free': (shop, order) =>
    session(shop, order, { payment_status: 'no_payment_required', total: 0, payment_intent: null }),
  'checkout.session.async_payment_succeeded': (shop, order) => ({
    ...session(shop, order, {}),
    type: 'checkout.session.async_payment_succeeded',
  }),
  'checkout.session.async_payment_failed': (shop, order) => ({
    ...session(shop, order, { payment_status: 'unpaid' }),
    type: 'checkout.session.async_payment_failed',
  }),
  'invoice.payment_succeeded': (shop, order) => paidInvoice(shop, order, 'subscription_cycle'),
  'invoice.payment_succeeded:first': (shop, order) => paidInvoice(shop, order, 'subscription_create'),
  'invoice.paid': (shop, order) => ({ ...paidInvoice(shop, order, 'subscription_cycle'), type: 'invoice.paid' }),
  'payment_intent.succeeded': (shop, order) => ({
    type: 'payment_intent.succeeded',
    object: paymentIntent(shop, { id: `pi_${order}`, charge: `ch_${order}`, amount: total }),
  }),
  'charge.captured': (shop, order) => ({
    type: 'charge.captured',
    object: capturedCharge(shop, { id: `ch_${order}`, payment_intent: `pi_${order}`, amount: total, captured: 4000 }),
  }),
  'invoice_payment.paid': (shop, order) => ({
    type: 'invoice_payment.paid',
    object: invoicePayment(shop, { invoice: `in_${order}`, payment_intent: `pi_${order}`, amount: total }),
  }),
  'refund.created': (shop, order) => refunded(shop, order, 'refund.created', 'pending'),
  'refund.updated': (shop, order) => refunded(shop, order, 'refund.updated', 'succeeded'),
  'refund.failed': (shop, order) => refunded(shop, order, 'refund.failed', 'failed'),
  'charge.refund.updated': (shop, order) => refunded(shop, order, 'charge.refund.updated', 'succeeded'),
  'charge.refunded': (shop, order) => ({
    type: 'charge.refunded',
    object: charge(shop, { id: `ch_${order}`, amount: total, refunded: 1000, payment_intent: `pi_${order}` }),
    known: { refunds: { [`ch_${order}`]: [refunded(shop, order, 'refund.updated', 'succeeded').object] } },
  }),
  'charge.dispute.funds_withdrawn': (shop, order) => disputed(shop, order, 'funds_withdrawn', 'needs_response'),
  'charge.dispute.funds_reinstated': (shop, order) => disputed(shop, order, 'funds_reinstated', 'won'),
  'charge.dispute.closed': (shop, order) => disputed(shop, order, 'closed', 'lost'),
  'credit_note.created': (shop, order) => ({
    type: 'credit_note.created',
    object: creditNote(shop, { id: `cn_${order}`, invoice: `in_${order}`, amount: 1000, outside: 1000 }),
  }),
  'customer.created': (shop) => ({ type: 'customer.created', object: customer(shop) }),
  'customer.updated': (shop) => ({ type: 'customer.updated', object: customer(shop) }),
  'customer.deleted': (shop) => ({ type: 'customer.deleted', object: customer(shop) }),
  'account.application.deauthorized': () => ({
    type: 'account.application.deauthorized',
    object: { id: 'ca_local', object: 'application', name: 'Affiliate tracking' },
  }),
  'product.created': (_shop, order) => ({ type: 'product.created', object: product(order) }),
  'product.updated': (_shop, order) => ({ type: 'product.updated', object: product(order) }),
}

function product(order: string): Record<string, unknown> {
  return { id: `prod_${order}`, object: 'product', active: true, name: 'Course', metadata: {} }
}

function session(shop: Shop, order: string, more: Partial<Parameters<typeof checkoutSession>[1]>): Fixture {
  const object = checkoutSession(shop, { id: `cs_${order}`, total, payment_intent: `pi_${order}`, ...more })
  return { type: 'checkout.session.completed', object }
}

function paidInvoice(shop: Shop, order: string, reason: string): Fixture {
  const object = invoice(shop, {
    id: `in_${order}`,
    subscription: `sub_${order}`,
    billing_reason: reason,
    amount_paid: total,
    payment_intent: `pi_${order}`,
    charge: `ch_${order}`,
  })
  return { type: 'invoice.payment_succeeded', object, known: { invoices: { [`pi_${order}`]: `in_${order}` } } }
}

function refunded(shop: Shop, order: string, type: string, status: string): Fixture {
  const paidBy = { payment_intent: `pi_${order}`, charge: `ch_${order}` }
  return { type, object: refund(shop, { id: `re_${order}`, amount: 1000, status, ...paidBy }) }
}

function disputed(shop: Shop, order: string, event: string, status: string): Fixture {
  const paidBy = { payment_intent: `pi_${order}`, charge: `ch_${order}` }
  return {
    type: `charge.dispute.${event}`,
    object: dispute(shop, { id: `dp_${order}`, amount: total, status, ...paidBy }),
  }
}

/**
 * Moves the hold periods of a program's commissions forward by this many days, and credits the due commissions like the scheduled
 * function. Returns the number of credited commissions.
 */
export async function passHolds(db: Database, emailHashKey: string, programId: number, days: number): Promise<number> {
  await db.query(
    kysely
      .updateTable('commissions')
      .set({ hold_until: (eb) => sql<Date>`${eb.ref('hold_until')} - make_interval(days => ${days})` })
      .where('program_id', '=', programId)
      .where('credited_at', 'is', null)
      .where('rejected_at', 'is', null),
  )
  let credited = 0
  for (;;) {
    const batch = await reviewAndCredit(db, emailHashKey, 500)
    credited += batch.credited
    if (!batch.more) return credited
  }
}

const daysOfMonth = 30

/**
 * Returns the renewal invoices of a program's subscriptions within this many days, one for every thirty days. Each has the amount, the
 * customer and the mode of the subscription's latest sale, at `shop.now`.
 */
export async function renewalsIn(
  db: Database,
  shop: Shop,
  days: number,
): Promise<{ subscription: string; shop: Shop; fixture: Fixture }[]> {
  const subscriptions = await db.query(
    kysely
      .selectFrom('sales as s')
      .leftJoin('customers as c', (join) =>
        join.onRef('c.program_id', '=', 's.program_id').onRef('c.id', '=', 's.customer_id'),
      )
      .distinctOn('s.subscription_id')
      .select((eb) => [
        eb.ref('s.subscription_id').$notNull().as('subscription'),
        's.amount_cents',
        's.currency',
        's.customer_key',
        's.processor_customer_id',
        'c.click_id',
      ])
      .where('s.program_id', '=', shop.programId)
      .where('s.is_test', '=', !shop.livemode)
      .where('s.subscription_id', 'is not', null)
      .where('s.processor_event_id', 'is not', null)
      .where('s.amount_cents', '>', 0)
      .orderBy('s.subscription_id')
      .orderBy('s.id', 'desc'),
  )
  return subscriptions.flatMap((sale) =>
    Array.from({ length: Math.floor(days / daysOfMonth) }, () => {
      const of: Shop = {
        ...shop,
        clickId: sale.click_id,
        customerKey: sale.customer_key,
        customer: sale.processor_customer_id,
        email: null,
      }
      const id = crypto.randomUUID().replaceAll('-', '')
      const object = invoice(of, {
        id: `in_${id}`,
        subscription: sale.subscription,
        amount_paid: sale.amount_cents,
        currency: sale.currency,
        payment_intent: `pi_${id}`,
        charge: `ch_${id}`,
      })
      return {
        subscription: sale.subscription,
        shop: of,
        fixture: {
          type: 'invoice.payment_succeeded',
          object,
          known: { invoices: { [`pi_${id}`]: `in_${id}` } },
        },
      }
    }),
  )
}

/** The number of days in a text such as `31d`. */
function daysOf(text: string): number {
  const [, days] = /^([1-9]\d{0,3})d$/.exec(text) ?? []
  if (days === undefined) throw new OperatorError('Set --advance to a number of days, such as 31d.')
  return Number(days)
}

/** Returns the program with this id, or the newest one with a connected account, and the click id and customer key of its latest visitor. */
export async function findProgram(db: Database, id: string | undefined) {
  let query = kysely
    .selectFrom('programs as p')
    .select((eb) => [
      'p.id',
      eb.ref('p.processor_account_id').$notNull().as('account'),
      jsonObjectFrom(latestVisitor(eb)).as('visitor'),
    ])
    .where('p.processor_account_id', 'is not', null)
    .orderBy('p.id', 'desc')
    .limit(1)
  if (id !== undefined) query = query.where('p.id', '=', Number(id))
  const [program] = await db.query(query)
  // Test clicks don't store a click id, but a new click id for the test link works too.
  if (program?.visitor && !program.visitor.click_id && !program.visitor.customer_key)
    program.visitor.click_id = testClickId(newClickIdPrefix(Date.now()), program.id)
  return program
}

/** The latest customer, test lead or test click. A test lead has only a customer key. A test click has neither a key nor a click id. */
function latestVisitor(eb: ExpressionBuilder<DB & { p: DB['programs'] }, 'p'>) {
  const tested = eb
    .selectFrom('affiliate_lead_events as e')
    .select([sql<string | null>`null`.as('click_id'), 'e.customer_key', sql<Date | null>`e.lead_timestamp`.as('at')])
    .whereRef('e.program_id', '=', 'p.id')
    .where('e.is_test', '=', true)
  const clicked = eb
    .selectFrom('affiliate_click_events as e')
    .select([
      sql<string | null>`null`.as('click_id'),
      sql<string | null>`null`.as('customer_key'),
      sql<Date | null>`e.click_timestamp`.as('at'),
    ])
    .whereRef('e.program_id', '=', 'p.id')
    .where('e.is_test', '=', true)
  return eb
    .selectFrom(
      eb
        .selectFrom('customers as c')
        .select([sql<string | null>`c.click_id`.as('click_id'), 'c.customer_key', 'c.last_click_at as at'])
        .whereRef('c.program_id', '=', 'p.id')
        .unionAll(tested)
        .unionAll(clicked)
        .as('v'),
    )
    .select(['v.click_id', 'v.customer_key'])
    .orderBy('v.at', (order) => order.desc().nullsLast())
    .limit(1)
}

/** Connects a program to an account in the Stripe emulator, unless it is already connected. */
export async function connectProgram(db: Database, programId: number): Promise<string> {
  const [connected] = await db.query(
    kysely
      .updateTable('programs')
      .set({
        processor_account_id: (eb) => eb.fn.coalesce('processor_account_id', eb.val(`acct_local${programId}`)),
      })
      .where('id', '=', programId)
      .returning('processor_account_id'),
  )
  if (!connected?.processor_account_id) throw new OperatorError(`There is no program ${programId}.`)
  return connected.processor_account_id
}

const usage = `Usage: npm run stripe:fixture -- <name> [--order <text>] [--program <id>] [--click-id <id>] [--customer-key <key>]
  [--email <address>] [--generation old|new] [--test-mode]
       npm run stripe:fixture -- --connect <program id>
       npm run stripe:fixture -- --advance <days>d [--program <id>] [--generation old|new] [--test-mode]

Signs an event as Stripe would and sends it to the running stack. Events with the same --order are of the same payment. Without
--program it is the newest program with a connected account, without --click-id its latest visitor, also one of the test link, with
their customer key.

--connect 1 connects program 1 to an account that exists on this machine only. Do this once.

--advance 31d lets the days pass for the program: holds that end in them end now, and its subscriptions renew, once for each
thirty days. With --test-mode its test subscriptions renew, and no hold ends: test sales have no commission.

Names:
${Object.keys(stripeFixtures)
  .map((name) => `  ${name}`)
  .join('\n')}`

async function sendFixture(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      order: { type: 'string', default: '1' },
      program: { type: 'string' },
      'click-id': { type: 'string' },
      'customer-key': { type: 'string' },
      email: { type: 'string', default: 'buyer@example.com' },
      generation: { type: 'string', default: 'new' },
      'test-mode': { type: 'boolean', default: false },
      advance: { type: 'string' },
      connect: { type: 'string' },
    },
  })
  if (values.connect !== undefined) {
    const account = await connectProgram(openDatabase(readRunningStack().environment), Number(values.connect))
    console.log(`Program ${values.connect} is connected to ${account}.`)
    return
  }
  const name = positionals[0] ?? ''
  const fixture = stripeFixtures[name]
  const days = values.advance === undefined ? undefined : daysOf(values.advance)
  if ((fixture === undefined) === (days === undefined)) throw new OperatorError(usage)
  const state = readRunningStack()
  const { environment } = state
  const program = await findProgram(openDatabase(environment), values.program)
  if (!program) {
    throw new OperatorError(
      'No program with a connected account. Connect yours with `npm run -s stripe:fixture -- --connect <program id>`.',
    )
  }
  const shop: Shop = {
    generation: (values.generation === 'old' ? 'old' : 'new') satisfies Generation,
    account: program.account,
    programId: program.id,
    clickId: values['click-id'] ?? program.visitor?.click_id ?? null,
    customerKey: values['customer-key'] ?? program.visitor?.customer_key ?? `buyer-${values.order}`,
    email: values.email,
    customer: `cus_${values.order}`,
    livemode: !values['test-mode'],
    now: Math.floor(Date.now() / 1000),
  }
  if (fixture) {
    const { body, answer } = await send(shop, fixture(shop, values.order), state)
    console.log(color.dim(body))
    console.log(answer)
    return
  }
  if (days === undefined) return
  const { hostname } = new URL(environment.DATABASE_URL)
  if (!['127.0.0.1', 'localhost', '[::1]'].includes(hostname)) {
    throw new OperatorError('--advance only works with a database on this machine, and this stack uses another one.')
  }
  const db = openDatabase(environment)
  if (shop.livemode) {
    const credited = await passHolds(db, environment.EMAIL_HASH_KEY, program.id, days)
    console.log(`Commissions credited: ${credited}`)
  }
  const renewals = await renewalsIn(db, shop, days)
  console.log(`Renewals: ${renewals.length}`)
  for (const renewal of renewals) {
    const { answer } = await send(renewal.shop, renewal.fixture, state)
    console.log(`${renewal.subscription}: ${answer}`)
  }
}

/**
 * Signs an event and sends it to the running stack. Returns the request and the response. If the event was refused, the process exits with
 * 1.
 */
async function send(
  shop: Shop,
  { type, object, known }: Fixture,
  { baseUrl, environment }: ReturnType<typeof readRunningStack>,
): Promise<{ body: string; answer: string }> {
  if (known && environment.STRIPE_API_URL) {
    await fetch(`${environment.STRIPE_API_URL}/control`, { method: 'POST', body: JSON.stringify(known) })
  }
  const body = JSON.stringify(stripeEvent(shop, `evt_${crypto.randomUUID()}`, type, object), null, 2)
  const [secret = ''] = environment.STRIPE_WEBHOOK_SECRET.split(',')
  const signature = await Stripe.webhooks.generateTestHeaderStringAsync({ payload: body, secret })
  const response = await fetch(`${baseUrl}/api/v1/webhooks/stripe`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'stripe-signature': signature },
    body,
  })
  if (!response.ok) process.exitCode = 1
  return { body, answer: `${response.status} ${await response.text()}` }
}

if (import.meta.main) await runCommand(usage, sendFixture)
