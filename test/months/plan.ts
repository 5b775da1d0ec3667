import type { CommissionRule } from '../../lib/programs/commission-terms.ts'
import { type ReviewRule, reviewRules } from '../../lib/review-rules.ts'
import { type Random, seeded } from '../chaos/random.ts'

/** The number of partners and groups in a month. */
export const partnersInAll = 4
const groupsInAll = 2
const customersInAll = 9
/** The number of visitors who click on the program's page before the month, if the page has the tag. */
export const earlierClicks = 20
export const daysInAll = 30
/**
 * Customers who have the same e-mail address as their partner in every month. A review releases one commission and rejects the other.
 */
const [releasedBuyer, rejectedBuyer] = [1, 2]

/** The program's terms, starting on a given day. They apply to sales without a rule. */
export interface Terms {
  commission_bp: number
  commission_duration_months: number | null
  hold_days: number
  lead_commission_cents: number
}

/** The owner of rules: everybody, or the position of a group or a partner. */
export type Holder = 'everybody' | { group: number } | { partner: number }

/** A buyer who comes through a partner's link, only through the code of their first sale, or without a partner. */
export interface Buyer {
  by: 'link' | 'code' | 'nobody'
  partner: number
  /** The first purchase before the month, with the number of days before the month, or null. */
  boughtBefore: { days: number; amount: number } | null
  /**
   * The suspicious sign of a buyer who came through a link. The click comes from a bot or an ad or has no page, the buyer's e-mail
   * address is the partner's, or many buyers share an address.
   */
  sign: 'bot' | 'ad' | 'no page' | 'own e-mail' | 'farm' | null
}

/** A step in a day. Sales, leads and customers are identified by their position. */
export type Step =
  | {
      do: 'sale'
      customer: number
      amount: number
      tax: number
      currency: string
      type: string
      /** A sale with products is reported as the processor would report it. */
      products: string[] | null
      /** The partner of the code that the buyer entered. */
      code: number | null
    }
  | { do: 'lead'; customer: number }
  | { do: 'refund'; sale: number; amount: number; id: number }
  | { do: 'dispute'; sale: number; amount: number }
  | { do: 'win'; sale: number }
  | { do: 'rules'; holder: Holder; rules: CommissionRule[] }
  | { do: 'move'; partner: number; group: number | null }
  | { do: 'terms'; terms: Terms }
  | { do: 'approve'; sale: number }
  | { do: 'reject'; sale: number }
  /** A person decides on a customer's held commissions. */
  | { do: 'decide'; customer: number; decision: 'released' | 'rejected' }
  /** A manual adjustment with a note: a commission, or a deduction if negative. */
  | { do: 'adjust'; partner: number; currency: string; cents: number }
  | { do: 'run' }

/** A month of a program: the people at its start and the steps of each day. */
export interface Plan {
  seed: number
  terms: Terms
  /** Whether the link or the code wins if they disagree. */
  priority: 'code' | 'click'
  groups: (number | null)[]
  reviewRules: ReviewRule[]
  /** Whether the program's page has the tag, which adds the page to clicks. */
  hasTag: boolean
  buyers: Buyer[]
  days: Step[][]
  /** Rule changes that the plan previews for the past months at the end of the month. */
  previews: { holder: Holder; rules: CommissionRule[] }[]
}

const amounts = (random: Random) => (random.chance(0.4) ? random.integer(1, 400) : random.integer(400, 60_000))

function drawTerms(random: Random): Terms {
  return {
    commission_bp: random.pick([0, 777, 1375, 2000, 3333]) ?? 0,
    commission_duration_months: random.pick([null, null, 1, 2, 3]) ?? null,
    hold_days: random.pick([0, 3, 7, 14]) ?? 0,
    lead_commission_cents: random.pick([0, 150]) ?? 0,
  }
}

const subjects = [{}, {}, { sale_type: 'upgrade' }, { product_id: 'prod_a' }, { product_id: 'price_b' }] as const

/** The rules of one owner, with at most one for each subject. */
function drawRules(random: Random, holder: Holder): CommissionRule[] {
  const rules: CommissionRule[] = []
  for (const subject of subjects.slice(1)) {
    const isForAll = Object.keys(subject).length === 0
    if ((isForAll && holder === 'everybody') || random.chance(isForAll ? 0.3 : 0.65)) continue
    rules.push({
      ...subject,
      commission_bp: random.pick([0, 1, 335, 2500, 5555, 10_000]) ?? 0,
      commission_fixed_cents: random.pick([0, 0, 99, 1500]) ?? 0,
      lifetime_cap_cents: random.pick([null, null, 0, 2500, 9000]) ?? null,
      commission_duration_months: random.pick([null, null, 1, 2]) ?? null,
      lead_commission_cents: isForAll ? (random.pick([null, 0, 75, 320]) ?? null) : null,
    })
  }
  return rules
}

const drawHolder = (random: Random): Holder =>
  random.pick<Holder>([
    'everybody',
    { group: random.integer(0, groupsInAll - 1) },
    { group: random.integer(0, groupsInAll - 1) },
    { partner: random.integer(0, partnersInAll - 1) },
  ]) ?? 'everybody'

const drawGroup = (random: Random) => random.pick([null, 0, 1]) ?? null

function drawBuyer(random: Random, place: number): Buyer {
  const by = place === 0 ? 'nobody' : random.chance(0.7) ? 'link' : 'code'
  const sign = random.chance(0.6)
    ? random.pick(['bot', 'ad', 'no page', 'own e-mail', 'own e-mail'] as const)
    : undefined
  return {
    by,
    partner: random.integer(0, partnersInAll - 1),
    boughtBefore: random.chance(0.4) ? { days: random.integer(5, 80), amount: amounts(random) } : null,
    sign: by === 'link' ? (sign ?? null) : null,
  }
}

/** The number of one partner's buyers with the same address: none, just enough to be held, or one fewer. */
function drawFarm(random: Random): Buyer[] {
  const partner = random.integer(0, partnersInAll - 1)
  const length = random.pick([0, 0, 4, 5, 6]) ?? 0
  return Array.from({ length }, () => ({ by: 'link', partner, boughtBefore: null, sign: 'farm' }))
}

/** The smallest and the largest number of days in one, two and three months. */
const lengthsOfMonths = [
  [28, 31],
  [59, 62],
  [89, 92],
] as const

/**
 * Returns whether this number of days is a whole number of months only in a part of the year. Time passes by moving the past back
 * instead of changing the clock. So a purchase could be within its months on one day and not on the next.
 */
const isNearMonths = (days: number) => lengthsOfMonths.some(([least, most]) => days >= least && days < most)

/** Draws a month. The same seed always results in the same month. */
export function drawPlan(seed: number): Plan {
  const random = seeded(seed)
  const plan: Plan = {
    seed,
    terms: drawTerms(random),
    priority: random.pick(['code', 'click'] as const) ?? 'code',
    groups: Array.from({ length: partnersInAll }, () => drawGroup(random)),
    reviewRules: reviewRules.filter((rule) => rule === 'self_referral' || random.chance(0.8)),
    hasTag: random.chance(0.3),
    buyers: [...Array.from({ length: customersInAll }, (_, place) => drawBuyer(random, place)), ...drawFarm(random)],
    days: [],
    previews: [],
  }
  for (const place of [releasedBuyer, rejectedBuyer]) {
    const partner = random.integer(0, partnersInAll - 1)
    plan.buyers[place] = { by: 'link', partner, boughtBefore: null, sign: 'own e-mail' }
  }
  const drawCustomer = () => random.integer(1, plan.buyers.length - 1)
  const signed = plan.buyers.flatMap(({ sign }, place) => (sign === null ? [] : [place]))
  const sales: { amount: number; refunds: number; isDisputed: boolean }[] = []
  for (const { boughtBefore } of plan.buyers) {
    if (boughtBefore) sales.push({ amount: boughtBefore.amount, refunds: 0, isDisputed: false })
  }
  /** The day of each customer's first purchase. */
  const bought = new Map(
    plan.buyers.flatMap(({ boughtBefore }, place) => (boughtBefore ? [[place, -boughtBefore.days] as const] : [])),
  )
  const someSale = () => {
    const sale = random.integer(Math.max(0, sales.length - 12), Math.max(0, sales.length - 1))
    return { sale, of: sales[sale] }
  }
  const drawSale = (day: number, customer: number): Step | undefined => {
    const amount = amounts(random)
    const firstDay = bought.get(customer)
    if (isNearMonths(day - (firstDay ?? day))) return undefined
    // Buyers with a code must use it in their first purchase, but the processor's payments here don't contain codes.
    const isKnown = plan.buyers[customer]?.by !== 'code' || firstDay !== undefined
    if (firstDay === undefined) bought.set(customer, day)
    const products =
      isKnown && random.chance(0.35)
        ? random.pick([['prod_a'], ['price_b', 'prod_a'], ['prod_z'], ['prod_z', 'prod_a', 'price_b']])
        : undefined
    sales.push({ amount, refunds: 0, isDisputed: false })
    return {
      do: 'sale',
      customer,
      amount,
      tax: random.chance(0.3) ? Math.floor(amount / 6) : 0,
      currency: random.chance(0.85) ? 'usd' : 'eur',
      type: random.chance(0.7) ? 'payment' : 'upgrade',
      products: products ?? null,
      code: random.chance(0.25) ? random.integer(0, partnersInAll - 1) : null,
    }
  }
  const drawAdjustment = (sign: number): Step => {
    const currency = random.chance(0.85) ? 'usd' : 'eur'
    return {
      do: 'adjust',
      partner: random.integer(0, partnersInAll - 1),
      currency,
      cents: random.integer(1, 3000) * sign,
    }
  }
  const drawMove = (): Step => ({ do: 'move', partner: random.integer(0, partnersInAll - 1), group: drawGroup(random) })
  const drawStep = (day: number, dice: number): Step | undefined => {
    if (dice < 44) return drawSale(day, random.chance(0.1) ? 0 : drawCustomer())
    if (dice < 49) return { do: 'lead', customer: drawCustomer() }
    if (dice < 57) {
      const customer = random.pick(signed) ?? drawCustomer()
      return { do: 'decide', customer, decision: random.chance(0.6) ? 'released' : 'rejected' }
    }
    if (dice < 63) return { do: 'rules', ...ofHolder(drawHolder(random)) }
    if (dice < 66) return drawMove()
    if (dice < 68) return { do: 'terms', terms: drawTerms(random) }
    if (dice < 71) return drawAdjustment(random.chance(0.5) ? 1 : -1)
    const { sale, of } = someSale()
    if (!of) return undefined
    if (dice < 80) {
      const isRepeated = of.refunds > 0 && random.chance(0.2)
      if (!isRepeated) of.refunds++
      return {
        do: 'refund',
        sale,
        amount: random.chance(0.35) ? of.amount : random.integer(1, of.amount),
        id: of.refunds,
      }
    }
    if (dice < 86) {
      if (of.isDisputed) return { do: 'win', sale }
      of.isDisputed = true
      return { do: 'dispute', sale, amount: random.chance(0.6) ? of.amount : random.integer(1, of.amount) }
    }
    if (dice < 93) return { do: 'approve', sale }
    if (dice < 97) return { do: 'reject', sale }
    return { do: 'run' }
  }
  const ofHolder = (holder: Holder) => ({ holder, rules: drawRules(random, holder) })
  const farmDay = random.integer(0, 9)
  const heldDay = random.integer(1, 12)
  /** The fixed parts that every month has. */
  const always: { day: number; draw: (day: number) => (Step | undefined)[] }[] = [
    // Rules exist from the start and change during the month.
    { day: 0, draw: () => [0, 1, 2, 3].map(() => ({ do: 'rules', ...ofHolder(drawHolder(random)) })) },
    {
      day: farmDay,
      draw: () => plan.buyers.flatMap(({ sign }, customer) => (sign === 'farm' ? [{ do: 'lead', customer }] : [])),
    },
    {
      day: heldDay,
      draw: (day) =>
        [releasedBuyer, rejectedBuyer].flatMap((customer) => [{ do: 'lead', customer }, drawSale(day, customer)]),
    },
    {
      day: heldDay + 1,
      draw: () => [
        { do: 'decide', customer: releasedBuyer, decision: 'released' },
        { do: 'decide', customer: rejectedBuyer, decision: 'rejected' },
      ],
    },
    ...[
      () => ({ do: 'rules', ...ofHolder(drawHolder(random)) }) as const,
      drawMove,
      () => drawAdjustment(1),
      () => drawAdjustment(-1),
      // Every month has a refund, a dispute and a run.
      (day: number) => drawStep(day, 79),
      (day: number) => drawStep(day, 85),
      (day: number) => drawStep(day, 99),
    ].map((draw) => ({ day: random.integer(heldDay + 1, daysInAll - 2), draw: (day: number) => [draw(day)] })),
  ]
  for (let day = 0; day < daysInAll; day++) {
    const first = always.filter((one) => one.day === day).flatMap(({ draw }) => draw(day))
    const steps = Array.from({ length: random.integer(0, 4) }, () => drawStep(day, random.integer(0, 99)))
    plan.days.push([...first, ...steps].filter((step) => step !== undefined))
  }
  plan.days.at(-1)?.push({ do: 'run' })
  plan.previews = [0, 1, 2].map(() => ofHolder(drawHolder(random)))
  return plan
}

/** The lines of an invoice with these products. Each is larger than all later ones together. */
export const linesOf = (products: string[]) =>
  products.length === 0
    ? [{ product_ids: [], weight: 1 }]
    : products.map((product, at) => ({ product_ids: [product], weight: 3 ** (products.length - at) }))
