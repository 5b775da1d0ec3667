import { seeded, type Random } from '../chaos/random.ts'
import type { AccountSettings } from './account.ts'
import { currencies, currencyOf } from './currencies.ts'

/**
 * The kinds of history, which can be enabled separately. A history has one purchase of a given kind, and other purchases of any enabled
 * kind.
 */
export const ways = {
  session: 'checkouts with an immediate payment, with included or added tax, and with a discount',
  later: 'checkouts with a payment that arrives days later or fails',
  free: 'sessions that save a card, are free or start a trial',
  test_mode: 'purchases in test mode',
  invoiced: 'checkouts that create an invoice after the payment',
  subscription: 'subscriptions: first payment, renewals, and a change with prorations',
  bare_invoice: "subscriptions with metadata only on the session, and with a first invoice below the session's amount",
  balance: 'invoices that the customer’s balance reduces or increases',
  covered: 'subscriptions whose first payment is fully covered by the customer’s balance',
  several: 'invoices paid by several payments',
  overpaid: 'overpaid invoices',
  outside: 'invoices that are fully or partly paid outside Stripe',
  manual: 'manual invoices with their own metadata',
  customer:
    'payments with the metadata of their customer, which arrives before or after them and is then changed or deleted',
  credited: 'credit notes: before payment, refunded, paid outside Stripe, or added to the customer’s balance',
  intent: 'payments with the Payment Element, with metadata on the intent',
  captured: 'authorized payments that are later fully or partly captured',
  link: 'checkouts from a payment link, with the click id in client_reference_id',
  refund: 'partial, repeated, pending and successful refunds',
  failing_refund: 'refunds that fail, are canceled or wait for the buyer',
  dispute: 'full and partial disputes, won or lost, and inquiries',
  dispute_after_refund: 'lost disputes after a partial refund, with the refunded part returned',
  settlement: 'disputes whose balance transactions are in a different currency than the charge',
  bank_currency: 'disputes in a different currency than the charge',
  odd_units: 'ISK, UGX and MGA, and currencies with three decimals or none',
  fractions: "invoices in ISK and UGX with a total that can't be charged exactly",
  large: 'the largest amounts, including rupiah and ariary',
  duration: 'programs with a limited number of months, and later renewals',
  window: 'renewals after the click’s window, sometimes before the attributing event',
  api_sale: 'payments that the integrator also reports by the sale call, with any of their ids',
  api_attribution: 'payments without a buyer until the sale call identifies one',
  before_click: 'buyers who bought before a partner referred them, with only their key',
  late_lead: 'payments with a customer key that a server lead binds to a click at any time',
  api_refund: 'refunds that the integrator also reports by the refund call, with its own id or without one',
  rest_refund:
    'refunds of the whole rest outside Stripe, which the integrator reports by the refund call without an amount',
  approved: 'commissions that are credited while events arrive',
  coded: 'checkouts with a partner’s promotion code, of buyers with or without a click',
  ruled: 'rules of a partner and a group with fixed amounts and caps, which change while payments arrive',
  held: 'buyers with a bot’s click, whose held commissions are released, rejected or undecided',
  adjusted: 'manual commissions and deductions',
  joining: 'a partner who joined through the program’s page',
  products: 'rules of products, and invoices with lines of several products, with and without a rule',
  zone: 'databases in other time zones, and renewals around the end of the last paid month',
  paid: 'payout runs with a returned payment, their payment files, and the exports of everything',
} as const

export type Way = keyof typeof ways

export const allWays = Object.keys(ways).filter((way): way is Way => way in ways)

/** Later events of a payment. Shares are hundredths of the remaining charge. */
export type After =
  | {
      kind: 'refund'
      share: number
      begins: 'requires_action' | 'pending' | 'succeeded'
      ends: 'succeeded' | 'failed' | 'canceled' | null
      /** The integrator also reports the refund. */
      by_api: boolean
      /** Another refund of the same amount follows, and only Stripe reports it. */
      again: boolean
    }
  | { kind: 'dispute'; share: number; ends: 'won' | 'lost' | null; returns_refunded: boolean; bank_currency: boolean }
  | { kind: 'inquiry' }
  | { kind: 'credit'; share: number; how: 'refund' | 'outside' | 'balance' }
  /** A refund of the whole remaining amount outside Stripe. Only the integrator reports it, without an amount. */
  | { kind: 'rest' }

export interface PurchasePlan {
  kind:
    | 'session'
    | 'later'
    | 'never'
    | 'card'
    | 'nothing'
    | 'trial'
    | 'invoiced'
    | 'subscription'
    | 'manual'
    | 'intent'
    | 'captured'
    | 'link'
  /** Buyers 0 and 1 were each referred by a partner. Nobody referred buyer 2. */
  buyer: 0 | 1 | 2
  test_mode: boolean
  /** The amount before discount and tax, in Stripe's unit. */
  amount: number
  discount: number
  tax_bp: number
  inclusive: boolean
  /** Tax amounts that Stripe can't charge separately. */
  fractions: boolean
  /** The customer's credit before the first invoice. A debt is negative. */
  credit: number
  /** The customer's credit before the first renewal. */
  later_credit: number
  /** The session's status if the balance covers everything. */
  fully_covered: 'paid' | 'no_payment_required'
  paying: 'card' | 'several' | 'overpaying' | 'outside' | 'card_and_outside'
  on_session_alone: boolean
  /** Only the customer has the metadata, set before or after the purchase. */
  on_customer: 'before' | 'after' | null
  /** The intent of a checkout also has the metadata. */
  intent_metadata: boolean
  renewals: number
  days_between: number
  update: boolean
  credited_before: boolean
  /** The captured part of the authorization, in hundredths. */
  captured: number
  captured_by_session: boolean
  /** The id that the integrator uses in the sale call, or null without a call. */
  api_sale: number | null
  /** The metadata doesn't identify a buyer, but the sale call does. */
  api_attribution: boolean
  /** A purchase before the click. The buyer clicks and buys again later. */
  before_click: boolean
  /** The metadata has no click id. A server lead connects the key to the click. */
  late_lead: boolean
  /** The partner of the purchase's promotion code. */
  code: 0 | 1 | null
  /** A person's decision before the next purchase if a bot clicked for this buyer. Otherwise null. */
  held: 'waiting' | 'released' | 'rejected' | null
  /** Refunds and disputes of the first payment and of the renewals. */
  after: After[]
  /** The products on the purchase's invoices, each with its share of the amount. */
  products: { product: string; share: number }[] | null
  /** Renewals happen this many seconds after the end of each month. */
  after_month: number | null
}

/** Terms of a partner or a group, which replace the program's. */
export interface RulePlan {
  bp: number
  /** The fixed amount in the currency's minor unit. */
  fixed: number
  /** The limit for all commissions from one customer. */
  cap: number | null
}

export interface Plan extends Pick<AccountSettings, 'generation' | 'oldest' | 'refundEvents'> {
  seed: number
  way: Way
  currency: string
  settlement: boolean
  commission_bp: number
  hold_days: 0 | 30
  duration_months: number | null
  window_days: number
  /** Whether the code or the click wins if they disagree. */
  priority: 'code' | 'click'
  /** Whether the second partner joins through the program's page. */
  joins: boolean
  /** Manual adjustments after the first part, in the currency's minor unit. A deduction is negative. */
  adjustments: { partner: 0 | 1; amount: number }[]
  /** The rules of the first partner and of the second partner's group, in the first part and after it. */
  rules: { before: (RulePlan | null)[]; after: (RulePlan | null)[] } | null
  /** The rules of the first partner and of the second partner's group, for the id of a product or a price. */
  productRules: { product_id: string; rule: RulePlan }[][] | null
  /** The time zone of the database's sessions. */
  zone: string
  /** Whether everything is paid and exported at the end. */
  isPaid: boolean
  /** The number of purchases in the first part, which is reported completely before the rest happens. */
  first: number
  purchases: PurchasePlan[]
}

const plainCurrencies = ['usd', 'eur', 'gbp', 'jpy', 'krw', 'chf', 'huf']
const oddCurrencies = ['isk', 'ugx', 'mga', 'kwd', 'bhd', 'tnd', 'clp', 'xof', 'idr']

/** Draws a seed's history from these ways. The same seed and ways always result in the same history. */
export function drawPlan(seed: number, on: readonly Way[]): Plan {
  const random = seeded(seed, 11)
  const way = pick(random, on)
  const may = (other: Way, probability: number) => on.includes(other) && (way === other || random.chance(probability))
  const needsNew = way === 'several' || way === 'overpaid'
  const generation = needsNew || random.chance(0.5) ? 'new' : 'old'
  const currency = drawCurrency(random, way)
  const duration = may('duration', 0.1)
  const plan: Plan = {
    seed,
    way,
    generation,
    oldest: generation === 'old' && random.chance(0.3),
    refundEvents: pick(random, generation === 'new' ? ['refund', 'both'] : ['charge', 'refund', 'both']),
    currency,
    settlement: may('settlement', 0),
    commission_bp: pick(random, [2000, 2000, 1375, 333, 1, 10_000]),
    hold_days: may('approved', 0.3) ? 0 : 30,
    duration_months: duration ? pick(random, [1, 2, 3]) : null,
    window_days: way === 'window' ? 7 : 400,
    priority: 'code',
    joins: may('joining', 0.1),
    adjustments: may('adjusted', 0.1) ? drawAdjustments(random) : [],
    rules: null,
    productRules: null,
    zone: on.includes('zone') ? pick(random, zones) : 'UTC',
    isPaid: on.includes('paid'),
    first: 0,
    purchases: [],
  }
  plan.purchases.push(drawPurchase(random, plan, way, may))
  for (const first of plan.purchases.filter((purchase) => purchase.before_click))
    plan.purchases.push({ ...drawPurchase(random, plan, 'session', may), buyer: first.buyer, test_mode: false })
  while (plan.purchases.length < 3 && random.chance(0.5)) plan.purchases.push(drawPurchase(random, plan, null, may))
  if (on.includes('coded')) plan.priority = pick(random, ['code', 'click'])
  if (may('ruled', 0.1)) {
    const drawRules = () => [0, 1].map(() => (random.chance(0.3) ? null : drawRule(random)))
    plan.rules = { before: drawRules(), after: drawRules() }
    if (way === 'ruled') plan.purchases.push(drawPurchase(random, plan, null, may))
  }
  if (may('products', 0.15)) plan.productRules = [0, 1].map(() => drawProductRules(random))
  if (way === 'paid') plan.hold_days = 0
  if (way === 'zone') plan.duration_months = 3
  // A credited commission keeps its partner, even if the code of the first purchase arrives later.
  if (plan.purchases.some(({ code }) => code !== null)) plan.hold_days = 30
  plan.first = plan.rules ? random.integer(0, plan.purchases.length) : plan.purchases.length
  return plan
}

function drawAdjustments(random: Random): Plan['adjustments'] {
  return Array.from({ length: random.integer(1, 3) }, () => ({
    partner: pick(random, [0, 1] as const),
    amount: random.integer(1, 5000) * pick(random, [1, -1]),
  }))
}

const drawRule = (random: Random): RulePlan => ({
  bp: pick(random, [0, 335, 2500, 10_000]),
  fixed: pick(random, [0, 0, 1, 1500]),
  cap: pick(random, [null, null, 0, 900, 5000]),
})

const zones = ['UTC', 'Europe/Berlin', 'America/Los_Angeles', 'Asia/Kolkata', 'Pacific/Auckland']

/** A rule is for a product or a price. Product c never has a rule. The old product of a changed subscription may have one. */
const drawProductRules = (random: Random) =>
  ['prod_a', 'price_b', 'prod_old']
    .filter(() => random.chance(0.7))
    .map((product_id) => ({ product_id, rule: drawRule(random) }))

const drawProducts = (random: Random) =>
  ['a', 'b', 'c'].filter(() => random.chance(0.7)).map((product) => ({ product, share: random.integer(1, 1000) }))

function drawCurrency(random: Random, way: Way): string {
  if (way === 'odd_units') return pick(random, oddCurrencies)
  if (way === 'fractions') return pick(random, ['isk', 'ugx'])
  if (way === 'large') return pick(random, ['idr', 'mga', 'kwd', pick(random, currencies).code])
  return pick(random, plainCurrencies)
}

/** The kinds of purchase that can test a way. Without an entry, every kind can test it. */
const kindsOf: Partial<Record<Way, PurchasePlan['kind'][]>> = {
  later: ['later', 'later', 'never'],
  free: ['card', 'nothing', 'trial'],
  invoiced: ['invoiced'],
  subscription: ['subscription'],
  bare_invoice: ['subscription'],
  balance: ['subscription'],
  covered: ['subscription'],
  several: ['subscription'],
  overpaid: ['subscription'],
  outside: ['subscription'],
  manual: ['manual'],
  customer: ['manual', 'manual', 'intent', 'session', 'later', 'subscription', 'captured'],
  credited: ['subscription'],
  intent: ['intent'],
  captured: ['captured'],
  link: ['link'],
  fractions: ['subscription'],
  before_click: ['session', 'intent', 'later'],
  rest_refund: ['subscription', 'subscription', 'manual', 'session', 'captured'],
  duration: ['subscription'],
  window: ['subscription'],
  coded: ['session', 'subscription', 'later'],
  products: ['subscription', 'manual', 'invoiced'],
  zone: ['subscription'],
}

type May = (way: Way, probability: number) => boolean

function drawPurchase(random: Random, plan: Plan, way: Way | null, may: May): PurchasePlan {
  const fixed = way === null ? undefined : kindsOf[way]
  const others: PurchasePlan['kind'][] = ['session']
  for (const other of ['later', 'free', 'invoiced', 'subscription', 'manual', 'intent', 'captured', 'link'] as const)
    if (may(other, 0.7)) others.push(...(kindsOf[other] ?? []))
  const kind = pick(random, fixed ?? others)
  const isOf = (other: Way, probability = 0.15) => way === other || (way === null && may(other, probability))
  const { step, largest } = currencyOf(plan.currency)
  const upTo = isOf('large', 0.1) ? largest : Math.min(largest, 200_000 * step)
  const whole = (amount: number) => Math.floor(amount / step) * step
  const amount = isOf('large', 0) ? largest : Math.max(100 * step, whole(upTo * random.next()))
  const code = way === 'coded' ? pick(random, [0, 1] as const) : null
  const isReduced = random.chance(0.3) && way !== 'large'
  const discount = isReduced ? whole(amount * random.next() * 0.8) : code !== null ? step : 0
  const isInvoiced = kind === 'subscription' || kind === 'manual'
  const isNew = plan.generation === 'new'
  // Usually, a refund of the rest follows a payment with a corrected amount.
  const isRest = way === 'rest_refund'
  const partial = isOf('balance') || isOf('bare_invoice', 0) || (isRest && random.chance(0.5))
  const isCovered = isInvoiced && isOf('covered', 0.1)
  const buyer = way !== null && way !== 'coded' ? pick(random, [0, 0, 1] as const) : pick(random, [0, 1, 2] as const)
  const inclusive = random.chance(0.4) || upTo === largest
  // For a lead, the click's window must still be open today.
  const isOpenToday = plan.window_days === 400
  const afters = drawAfters(random, kind, way, may)
  const paying = !isInvoiced
    ? 'card'
    : isOf('several') && isNew
      ? 'several'
      : (isOf('overpaid') || (isRest && random.chance(0.5))) && isNew
        ? 'overpaying'
        : isOf('outside')
          ? pick(random, isNew ? (['outside', 'card_and_outside'] as const) : (['outside'] as const))
          : 'card'
  return {
    kind,
    buyer,
    test_mode: isOf('test_mode', 0.1),
    amount,
    discount,
    tax_bp: random.chance(0.7) ? pick(random, [1900, 700, 2500, 825]) : 0,
    inclusive,
    fractions: isInvoiced && isOf('fractions', 0),
    credit: isCovered ? 3 * amount : partial && isInvoiced ? creditOf(random, amount - discount, step) : 0,
    later_credit: isOf('balance') && kind === 'subscription' ? creditOf(random, amount - discount, step) : 0,
    fully_covered: pick(random, ['paid', 'paid', 'no_payment_required']),
    paying,
    on_session_alone: kind === 'subscription' && isOf('bare_invoice', 0),
    on_customer: way === 'customer' ? pick(random, ['before', 'after']) : null,
    // If an intent contains the click id and arrives first, the sale stays with the click's partner, no matter which code the session
    // contains.
    intent_metadata: random.chance(0.3) && code === null,
    renewals:
      kind === 'subscription' && !isOf('bare_invoice', 0)
        ? way === 'zone'
          ? 3
          : random.integer(way === null ? 0 : 1, 3)
        : 0,
    days_between: way === 'duration' || way === 'window' ? 35 : 7,
    // The lines for a change don't contain the subscription's metadata, and in the oldest payloads, it isn't anywhere else.
    update: kind === 'subscription' && !plan.oldest && !isOf('bare_invoice', 0) && random.chance(0.3),
    credited_before: isInvoiced && isOf('credited', 0.1) && random.chance(0.5),
    captured: random.chance(0.5) ? 100 : random.integer(20, 99),
    captured_by_session: random.chance(0.5),
    api_sale: isOf('api_sale', isOpenToday ? 0.15 : 0) || (isRest && random.chance(0.5)) ? random.integer(0, 3) : null,
    api_attribution: isOf('api_attribution', 0) && buyer !== 2,
    before_click: way === 'before_click',
    late_lead:
      (isOf('late_lead', isOpenToday ? 0.1 : 0) || (way === 'customer' && random.chance(0.2))) &&
      kind !== 'link' &&
      buyer !== 2,
    code,
    held: isOf('held', 0.1) && buyer !== 2 ? pick(random, ['waiting', 'released', 'rejected']) : null,
    after: afters,
    products: isOf('products', 0.3) ? drawProducts(random) : null,
    after_month: way === 'zone' ? pick(random, [-1800, 1800]) : null,
  }
}

/** Credit from a cent to almost a full price, or a debt of half a price. */
function creditOf(random: Random, price: number, step: number): number {
  const share = pick(random, [0, 0.25, 0.6, 0.95, -0.5])
  return share === 0 ? step : Math.floor((price * share) / step) * step
}

function drawAfters(random: Random, kind: PurchasePlan['kind'], way: Way | null, may: May): After[] {
  if (['card', 'nothing', 'never', 'trial'].includes(kind)) return []
  // A refund of a corrected amount belongs to both kinds.
  const isOpen =
    way === null || ['balance', 'coded', 'ruled', 'held', 'adjusted', 'joining', 'products', 'paid'].includes(way)
  const isOf = (other: Way, probability = 0.2) => way === other || (isOpen && may(other, probability))
  const refund = (byApi = false, share = random.integer(5, 70)): Extract<After, { kind: 'refund' }> => ({
    kind: 'refund',
    share: random.chance(0.15) ? 100 : share,
    begins: random.chance(0.3) ? 'pending' : 'succeeded',
    ends: random.chance(0.2) ? 'succeeded' : null,
    by_api: byApi,
    again: byApi && random.chance(0.3),
  })
  const dispute: Extract<After, { kind: 'dispute' }> = {
    kind: 'dispute',
    share: random.chance(0.7) ? 100 : random.integer(10, 90),
    ends: pick(random, ['won', 'lost', null]),
    returns_refunded: false,
    bank_currency: isOf('bank_currency', 0),
  }
  const found: After[] = []
  if (isOf('refund', 0.3)) found.push(...Array.from({ length: random.integer(1, 3) }, () => refund()))
  if (isOf('failing_refund')) {
    found.push({
      kind: 'refund',
      share: random.integer(5, 100),
      begins: pick(random, ['pending', 'succeeded', 'requires_action']),
      ends: pick(random, ['failed', 'canceled']),
      by_api: false,
      again: false,
    })
    if (random.chance(0.5)) found.push(refund())
  }
  if (isOf('api_refund')) {
    found.push({ ...refund(true), ends: pick(random, [null, 'failed']) })
    if (random.chance(0.3)) found.push({ ...refund(true), ends: null })
  }
  if (way === 'rest_refund') {
    if (random.chance(0.4)) found.push({ ...refund(), share: random.integer(5, 70) })
    found.push({ kind: 'rest' })
  }
  if (isOf('credited', 0.1)) {
    const how = pick(random, ['refund', 'outside', 'balance'] as const)
    found.push({ kind: 'credit', share: random.integer(5, 60), how })
  }
  if (isOf('dispute_after_refund') || (isOf('settlement', 0) && random.chance(0.5))) {
    found.push({
      ...refund(false, random.integer(5, 60)),
      share: random.integer(5, 60),
      begins: 'succeeded',
      ends: null,
    })
    found.push({ ...dispute, share: 100, ends: 'lost', returns_refunded: true })
  } else if (isOf('dispute') || isOf('settlement', 0) || isOf('bank_currency', 0)) {
    found.push(dispute)
    if (random.chance(0.2)) found.push({ kind: 'inquiry' })
  }
  return found
}

function pick<Item>(random: Random, items: readonly Item[]): Item {
  const item = random.pick(items)
  if (item === undefined) throw new Error('There is nothing to pick from.')
  return item
}
