import type pg from 'pg'
import { Stripe } from 'stripe'
import { generateApiKey } from '../../lib/access/api-keys.ts'
import type { LocalStripe } from '../../lib/local/stripe.ts'
import type { Service } from '../chaos/bundle.ts'
import { seeded } from '../chaos/random.ts'
import { createShops, type TestShop } from '../support/shops.ts'
import { addAccount, addOwner, findJoined, join } from '../support/joined-partner.ts'
import { type Amount, checkBooks } from './books.ts'
import { buyersOf, type Call, type History, playPlan, promotionOf } from './history.ts'
import { type Expected, expectedOf } from './oracle.ts'
import { type Payment, refundObject } from './objects.ts'
import type { Plan, PurchasePlan, RulePlan } from './plan.ts'

const day = 86_400
const webhookSecret = 'whsec_cash'

/** The service in this process on a real database, with a fake Stripe. */
export interface Desk {
  service: Service
  sql: pg.Client
  db: InstanceType<Service['Database']>
  stripe: LocalStripe
  env: Record<string, unknown>
  /** The number of concurrent deliveries. With 1, the same plan and order always end in the same state. */
  atOnce: number
}

export function openDesk(
  service: Service,
  sql: pg.Client,
  stripe: LocalStripe,
  database: { DATABASE_URL: string; NEON_ENDPOINT: string },
  atOnce = 8,
): Desk {
  // Receives the log of the built service (test/chaos/bundle.ts).
  Object.assign(globalThis, { svcLog: () => {} })
  const env = {
    ...database,
    EMAIL_HASH_KEY: 'cash',
    STRIPE_WEBHOOK_SECRET: webhookSecret,
    STRIPE_SECRET_KEY: 'sk_test_cash',
    STRIPE_API_URL: stripe.url,
    RELAY: { fetch: () => Promise.resolve(new Response()) },
  }
  return { service, sql, db: new service.Database(database), stripe, env, atOnce }
}

/** The result of a history, and its errors. */
export interface Outcome {
  /** The final state of each payment and partner, described in the same way for every order. */
  end: string[]
  wrong: string[]
}

interface App {
  request(path: string, init: RequestInit, env: object, context: never): Response | Promise<Response>
}

/**
 * Plays a plan in a new program and delivers it in a random order, several deliveries at a time. Every event and call
 * is sent at least once, and a quarter of them twice. Finally, checks the result.
 */
export async function runPlan(given: Desk, plan: Plan, order: number): Promise<Outcome> {
  const desk = inZone(given, plan.zone)
  const { shop, start, history, key, partners, changeRules } = await open(desk, plan)
  const wrong: string[] = []
  const random = seeded(plan.seed, order)
  const deliveries: (() => Promise<boolean>)[] = [
    ...history.account.events.map((event) => async () => {
      const text = JSON.stringify(event)
      const signature = await Stripe.webhooks.generateTestHeaderStringAsync({ payload: text, secret: webhookSecret })
      const { status, body } = await send(desk, desk.service.processorWebhook, text, { 'stripe-signature': signature })
      const { id } = event.data.object as { id: string }
      if (status === 200) return true
      if (status !== 503) wrong.push(`${event.type} ${id} was answered ${status} ${JSON.stringify(body)}`)
      return status !== 503
    }),
    ...history.calls.map((call) => async () => await makeCall(desk, call, key, wrong)),
  ]
  const approvals = plan.hold_days === 0 ? 4 : 0
  for (let i = 0; i < approvals; i++)
    deliveries.push(async () => {
      await desk.service.approveCommissionsFunction.scheduled(null, desk.env as never)
      return true
    })
  const { firstPart } = history
  const isFirst = (_: unknown, at: number) => {
    const call = at - history.account.events.length
    return call < 0 ? at < firstPart.events : call < firstPart.calls || call >= history.calls.length
  }
  const parts = [deliveries.filter(isFirst), deliveries.filter((one, at) => !isFirst(one, at))]
  for (const [part, own] of parts.entries()) {
    if (part === 1 && plan.rules) await changeRules(plan.rules.after)
    // The second part repeats everything from the first.
    const repeated = part === 0 ? own : deliveries
    const queue = [...own, ...repeated.filter(() => random.chance(0.25))]
      .map((deliver) => ({ deliver, place: random.next() }))
      .toSorted((a, b) => a.place - b.place)
      .map(({ deliver }) => deliver)
    // Deliveries that must be repeated, or whose sale is unknown, come after all others.
    for (let round = 0, next = queue; next.length > 0 && round < 4; round++) {
      const again: typeof deliveries = []
      let taken = 0
      const work = async () => {
        for (let deliver = next[taken++]; deliver; deliver = next[taken++]) if (!(await deliver())) again.push(deliver)
      }
      await Promise.all(Array.from({ length: desk.atOnce }, work))
      if (again.length === next.length && round > 0) wrong.push(`${again.length} deliveries are never accepted`)
      next = again
    }
    await desk.service.applyParkedEventsFunction.scheduled(null, desk.env as never)
    if (plan.hold_days === 0 || plan.purchases.some(({ held }) => held !== null))
      await desk.service.approveCommissionsFunction.scheduled(null, desk.env as never)
    await decide(desk, history, shop.programId)
    if (part === 0) await adjust(desk, plan, shop.programId, partners)
    if (own.length === deliveries.length) break
  }
  if (plan.hold_days === 0) await desk.service.approveCommissionsFunction.scheduled(null, desk.env as never)
  const expected = expectedOf(history.account, {
    commissionBp: plan.commission_bp,
    durationMonths: plan.duration_months,
    partnerOf: (payment) => {
      const partner = history.partnerOf(payment)
      return partner === null ? null : (partners[partner] ?? null)
    },
    partsOf: (payment) => {
      const partner = history.partnerOf(payment)
      return partner === null ? [{ rule: null, weight: 1 }] : history.partsOf(payment, partner)
    },
    isRejected: (payment) => history.purchaseOf(payment).held === 'rejected',
  })
  const found = await look(desk, shop.programId)
  const isCredited = (payment: Payment) => plan.hold_days === 0 && history.purchaseOf(payment).held !== 'waiting'
  const adjustments = plan.adjustments.map(({ partner, amount }) => ({
    partner: partners[partner] ?? 0,
    currency: plan.currency,
    cents: BigInt(amount),
  }))
  if (plan.isPaid)
    wrong.push(
      ...(await checkBooks(desk, {
        programId: shop.programId,
        isReturned: plan.seed % 2 === 0,
        credits: expected.flatMap(({ payment, partner, net }) =>
          partner === null
            ? []
            : [{ partner, currency: payment.currency, cents: net, payment, isCredited: isCredited(payment) }],
        ),
        adjustments,
      })),
    )
  wrong.push(...compare(expected, found, isCredited, adjustments))
  const name = (text: string) =>
    text
      .replaceAll(history.account.settings.tag, '~')
      .replaceAll(String(start), 'start')
      .replaceAll(`partner ${partners[0]}`, 'partner A')
      .replaceAll(`partner ${partners[1]}`, 'partner B')
  return { end: endOf(expected, found).map(name).toSorted(), wrong: wrong.map(name) }
}

/** Returns the start of the latest hundred days in which the clocks of the time zones changed. */
function beforeClockChange(now: number): number {
  const year = new Date(now * 1000).getUTCFullYear()
  const starts = [year - 1, year].flatMap((one) => [Date.UTC(one, 0, 15) / 1000, Date.UTC(one, 7, 15) / 1000])
  return Math.max(...starts.filter((start) => start < now - 100 * day))
}

/** Returns the desk with connections in this time zone, as if the database used it. */
function inZone(desk: Desk, zone: string): Desk {
  if (zone === 'UTC') return desk
  const url = new URL(String(desk.env['DATABASE_URL']))
  url.searchParams.set('options', `-c TimeZone=${zone}`)
  const database = { DATABASE_URL: url.href, NEON_ENDPOINT: String(desk.env['NEON_ENDPOINT']) }
  return { ...desk, db: new desk.service.Database(database), env: { ...desk.env, ...database, POSTGRES: undefined } }
}

/** Decides on held commissions according to the plan of each purchase. */
async function decide(desk: Desk, { plan, account, purchaseOf }: History, programId: number): Promise<void> {
  const { db } = desk
  for (const decision of ['released', 'rejected'] as const) {
    const payments = account.payments.filter((payment) => purchaseOf(payment).held === decision)
    if (payments.length === 0 || !plan.purchases.some(({ held }) => held === decision)) continue
    const { rows } = await desk.sql.query<{ id: string }>(
      `select c.id from commissions c join sales s on s.program_id = c.program_id and s.id = c.sale_id
      where c.program_id = $1 and s.transaction_id = any ($2)`,
      [programId, payments.flatMap(({ ids }) => ids)],
    )
    const ids = rows.map(({ id }) => Number(id))
    if (ids.length > 0) await desk.service.decideReviews(db, programId, ids, decision, 'Asked the buyer')
  }
}

/** Sends each manual adjustment twice. */
async function adjust(desk: Desk, plan: Plan, programId: number, partners: number[]): Promise<void> {
  const { db } = desk
  for (const { partner, amount } of plan.adjustments) {
    const adjustment = {
      partnerId: partners[partner] ?? 0,
      amountCents: amount,
      currency: plan.currency,
      note: 'By hand',
    }
    const requestId = crypto.randomUUID()
    for (const _ of ['once', 'again']) await desk.service.createAdjustment(db, programId, adjustment, requestId, [])
  }
}

/** Creates a program for a plan, with a click of every buyer whom a partner referred. */
async function open(desk: Desk, plan: Plan) {
  const { sql, db, service, stripe } = desk
  const shop = await onlyShop(sql)
  // Buyers have their own clicks, so the shop's visitor is removed.
  await sql.query('delete from customers where program_id = $1', [shop.programId])
  const months = plan.duration_months !== null || plan.window_days < 400
  const start = plan.way === 'zone' ? beforeClockChange(shop.now) : shop.now - (months ? 150 : 40) * day
  const { rows } = await sql.query<{ code: string }>(
    'select code from referral_links where program_id = $1 order by partner_id',
    [shop.programId],
  )
  const partners = [shop.partnerId, shop.otherPartnerId]
  const codes = rows.map(({ code }) => code)
  const groupId =
    plan.rules || plan.productRules
      ? (await service.createGroup(db, shop.programId, { name: 'Gold', rules: [] })).id
      : null
  if (plan.joins) {
    const account = await addAccount(sql, 'Joined')
    await addOwner(sql, shop.programId)
    await join(service, db, shop.programId, { account, name: 'Joined', groupId })
    const joined = await findJoined(sql, shop.programId, account)
    partners[1] = joined.partnerId
    codes[1] = joined.code
  } else if (groupId !== null) {
    await service.movePartners(db, shop.programId, [shop.otherPartnerId], groupId)
  }
  const changeRules = async (rules: (RulePlan | null)[]) => {
    if (groupId === null) return
    const rulesOf = (partner: 0 | 1) => [
      ...asRules(rules[partner] ?? null, plan),
      ...(plan.productRules?.[partner] ?? []).flatMap(({ product_id, rule }) =>
        asRules(rule, plan).map((one) => ({ ...one, product_id })),
      ),
    ]
    await service.saveRules(db, shop.programId, { partnerId: shop.partnerId }, rulesOf(0))
    await service.saveRules(db, shop.programId, { groupId }, rulesOf(1))
  }
  await changeRules(plan.rules?.before ?? [])
  const clickIds: (string | null)[] = []
  for (const { partner, purchases } of buyersOf(plan)) {
    const code = partner === null ? undefined : codes[partner]
    if (code === undefined) clickIds.push(null)
    else {
      clickIds.push(await click(desk, code, agentOf(purchases)))
    }
  }
  const { key, keyHash, hint } = await generateApiKey()
  await sql.query(
    `with settings as (
      update programs set commission_bp = $2, hold_days = $3, commission_duration_months = $4, cookie_window_days = $5, currency = $6, attribution_priority = $9
      where id = $1
    ),
    known as (insert into api_keys (program_id, key_hash, hint) values ($1, decode($7, 'hex'), $8)) select`,
    [
      shop.programId,
      plan.commission_bp,
      plan.hold_days,
      plan.duration_months,
      plan.window_days,
      plan.currency,
      keyHash,
      hint,
      plan.priority,
    ],
  )
  const tag = `${shop.account.replace(/\W|acct/g, '')}x`
  const history = playPlan(plan, { account: shop.account, tag, programId: shop.programId, clickIds, start })
  // Every buyer clicks some days before their first payment, and therefore before the checkout of a payment that
  // took three days.
  const firstOf = (clickId: string | null) =>
    Math.min(...history.account.payments.filter(({ buyer }) => buyer.clickId === clickId).map(({ at }) => at))
  await sql.query(
    `with moved as (
      update customers c set last_click_at = to_timestamp(click.at - 4 * 86400)
      from unnest($2::text[], $3::float[]) click (id, at) where c.program_id = $1 and c.click_id = click.id
      returning c.id, c.last_click_at
    ), clicked as (
      update affiliate_click_events e set click_timestamp = m.last_click_at
      from moved m where e.program_id = $1 and e.customer_id = m.id and e.device_type = 'bot'
      returning e.program_id, e.id, e.click_timestamp
    )
    update uncounted_clicks u set clicked_at = e.click_timestamp from clicked e where u.program_id = e.program_id and u.event_id = e.id`,
    [shop.programId, clickIds, clickIds.map((id) => Math.min(firstOf(id), Date.now() / 1000))],
  )
  if (plan.purchases.some(({ code }) => code !== null)) {
    for (const partner of [0, 1] as const) {
      const promotion = promotionOf(tag, partner)
      const code = { partner_id: partners[partner] ?? 0, code: `CODE-${partner}`, promotion_code_id: promotion }
      await service.createCode(db, shop.programId, { ...code, account_id: shop.account })
    }
    await sql.query('update partner_codes set created_at = to_timestamp($2) where program_id = $1', [
      shop.programId,
      start - day,
    ])
  }
  for (const [id, session] of history.account.askedSessions) stripe.objects.set(id, session)
  for (const [intent, invoice] of history.account.invoiceOfIntent) stripe.invoices.set(intent, invoice)
  for (const [charge, refunds] of history.account.refundsOfCharge) stripe.refunds.set(charge, refunds.map(refundObject))
  await recordLeads(desk, history.leads, key)
  return { shop, start, history, key, partners, changeRules }
}

/** Clicks a partner's link. Returns the click id. */
export async function click(desk: Desk, code: string, agent: string): Promise<string> {
  const link = JSON.stringify({ affiliate_url: `https://shop.example.com/?aff=${code}` })
  const { status, body } = await send(desk, desk.service.trackClick, link, { 'user-agent': agent })
  if (status !== 200 || body.click_id === undefined)
    throw new Error(`A click got the answer ${status}: ${JSON.stringify(body)}`)
  return body.click_id
}

export async function recordLeads(desk: Desk, leads: History['leads'], key: string): Promise<void> {
  for (const lead of leads) {
    const { status } = await send(desk, desk.service.trackLead, JSON.stringify(lead), {
      authorization: `Bearer ${key}`,
    })
    if (status !== 200) throw new Error(`A lead got the answer ${status}.`)
  }
}

const asRules = (rule: RulePlan | null, plan: Plan) =>
  rule === null
    ? []
    : [
        {
          commission_bp: rule.bp,
          commission_fixed_cents: rule.fixed,
          lifetime_cap_cents: rule.cap,
          commission_duration_months: plan.duration_months,
        },
      ]

/** The user agent of the click that precedes these purchases. */
const agentOf = (purchases: PurchasePlan[]) =>
  purchases.some(({ held }) => held !== null) ? 'Googlebot/2.1 (+http://www.google.com/bot.html)' : 'Mozilla/5.0'

export async function onlyShop(sql: pg.Client): Promise<TestShop> {
  const [shop] = await createShops(sql, 1)
  if (!shop) throw new Error('The shop is missing.')
  return shop
}

interface Answer {
  status: number
  body: { outcome?: string; reason?: string | null; click_id?: string; status?: string; error?: { code: string } }
}

export async function send(
  desk: Desk,
  app: App,
  body: string,
  headers: Record<string, string> = {},
  path = '/',
): Promise<Answer> {
  const init = { method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } }
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
  const response = await app.request(path, init, desk.env, context as never)
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}

/**
 * Makes the integrator's call. Returns false if the call must be repeated, because there was no answer or because the sale of a
 * refund is unknown.
 */
export async function makeCall(desk: Desk, { kind, ...body }: Call, key: string, wrong: string[]): Promise<boolean> {
  const { trackSale, trackLead, trackRefund } = desk.service
  const app = { sale: trackSale, lead: trackLead, refund: trackRefund }[kind]
  const answer = await send(desk, app, JSON.stringify(body), { authorization: `Bearer ${key}` })
  if (answer.status === 503 || (kind === 'refund' && answer.status === 404)) return false
  if (answer.status !== 200 && answer.status !== 409)
    wrong.push(`a ${kind} call was answered ${answer.status} ${answer.body.error?.code}`)
  return true
}

interface FoundSale {
  transaction_id: string
  partner_id: string | number | null
  amount_cents: bigint
  base_cents: bigint
  refunded_cents: bigint
  currency: string
  commission_partner_id: string | number | null
  /** The remaining commission. If it is credited, the amount is from the balance. */
  net_cents: bigint
}

interface Found {
  sales: FoundSale[]
  /** Balances in minor units. Each key is a partner and a currency. */
  balances: Map<string, bigint>
}

export async function look({ sql }: Desk, programId: number): Promise<Found> {
  const { rows } = await sql.query<Record<string, string | number | null>>(
    `select s.transaction_id, s.partner_id, s.amount_cents, s.commission_base_cents as base_cents, s.refunded_cents, s.currency,
      c.partner_id as commission_partner_id,
      case when c.credited_at is null then coalesce(c.amount_cents - c.reversed_cents, 0) else (
        select coalesce(sum(e.amount_cents), 0) from balance_entries e where e.program_id = c.program_id and e.commission_id = c.id
      ) end as net_cents
    from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where s.program_id = $1 and not s.is_test order by s.id`,
    [programId],
  )
  const balances = await sql.query<Record<string, string | number>>(
    'select partner_id, currency, balance_cents from balances where program_id = $1',
    [programId],
  )
  return {
    sales: rows.map((row) => ({
      transaction_id: String(row['transaction_id']),
      partner_id: row['partner_id'] ?? null,
      amount_cents: BigInt(row['amount_cents'] ?? 0),
      base_cents: BigInt(row['base_cents'] ?? 0),
      refunded_cents: BigInt(row['refunded_cents'] ?? 0),
      currency: String(row['currency']),
      commission_partner_id: row['commission_partner_id'] ?? null,
      net_cents: BigInt(row['net_cents'] ?? 0),
    })),
    balances: new Map(
      balances.rows.map((row) => [
        `partner ${row['partner_id']} ${row['currency']}`,
        BigInt(row['balance_cents'] ?? 0),
      ]),
    ),
  }
}

/** Returns the sales of a payment. If two sales turn out to be the same payment, one of them is kept with the amount 0. */
function salesOf({ payment }: Expected, { sales }: Found): FoundSale[] {
  const reported = sales.filter(({ transaction_id: id }) => payment.ids.includes(id))
  const worth = reported.filter(({ amount_cents: amount }) => amount > 0n)
  return worth.length > 0 ? worth : reported.slice(0, 1)
}

/**
 * Lists the differences from the cash. `isCredited` returns whether a payment's commission is in the balance,
 * and `adjustments` lists the other amounts in balances.
 */
export function compare(
  expected: Expected[],
  found: Found,
  isCredited: (payment: Payment) => boolean,
  adjustments: Amount[] = [],
): string[] {
  const wrong: string[] = []
  for (const one of expected) {
    const { payment, partner, amount, base, reversed, net } = one
    const [sale, ...more] = salesOf(one, found)
    const say = (what: string, is: unknown, must: unknown) => {
      if (String(is) !== String(must)) wrong.push(`${payment.label}: ${what} ${String(is)}, expected ${String(must)}`)
    }
    if (more.length > 0) wrong.push(`${payment.label}: ${more.length + 1} sales, expected one`)
    // A payment of 0 has either no sale or a sale of 0. An unattributed payment may be missing.
    if (!sale && (amount === 0n || partner === null)) continue
    if (!sale) {
      wrong.push(`${payment.label}: no sale, expected one of ${amount} with ${net} of commission left`)
      continue
    }
    say('sale of', sale.amount_cents, amount)
    say('currency', sale.currency, payment.currency)
    say('base', sale.base_cents, base)
    say('refunded', sale.refunded_cents, reversed)
    say('commission left', sale.net_cents, net)
    if (amount > 0n) say('partner', sale.partner_id, partner)
    if (sale.commission_partner_id !== null) say('partner of the commission', sale.commission_partner_id, partner)
  }
  const ids = new Set(expected.flatMap(({ payment }) => payment.ids))
  for (const sale of found.sales) {
    if (sale.amount_cents === 0n && sale.net_cents !== 0n)
      wrong.push(`a sale ${sale.transaction_id} of nothing with ${sale.net_cents} of commission left`)
    if (!ids.has(sale.transaction_id))
      wrong.push(`a sale ${sale.transaction_id} of ${sale.amount_cents}, of which no payment is known`)
  }
  const owed = new Map<string, bigint>()
  for (const { payment, partner, net } of expected) {
    const name = `partner ${partner} ${payment.currency}`
    if (partner !== null && isCredited(payment)) owed.set(name, (owed.get(name) ?? 0n) + net)
  }
  for (const { partner, currency, cents } of adjustments) {
    const name = `partner ${partner} ${currency}`
    owed.set(name, (owed.get(name) ?? 0n) + cents)
  }
  for (const name of new Set([...owed.keys(), ...found.balances.keys()])) {
    const is = found.balances.get(name) ?? 0n
    const must = owed.get(name) ?? 0n
    if (is !== must) wrong.push(`${name}: balance ${is}, expected ${must}`)
  }
  return wrong
}

/** The stored rows, without names and without the payment id, which depends on the order of arrival. */
export function endOf(expected: Expected[], found: Found): string[] {
  const ofPayments = expected.flatMap((one) =>
    salesOf(one, found)
      .filter(({ amount_cents: amount }) => amount > 0n)
      .map(
        (sale) =>
          `${one.payment.label}: partner ${sale.partner_id}, ${sale.amount_cents} ${sale.currency}, base ${sale.base_cents}, ` +
          `refunded ${sale.refunded_cents}, commission left ${sale.net_cents}`,
      ),
  )
  const balances = [...found.balances].filter(([, cents]) => cents !== 0n).map(([name, cents]) => `${name}: ${cents}`)
  return [...ofPayments, ...balances]
}
