import type { CommissionRule } from '../../lib/programs/commission-terms.ts'
import type { ReviewRule } from '../../lib/review-rules.ts'
import {
  commissionOf as commissionBy,
  monthsAfter,
  reversedOf,
  ruleFor,
  sharesOf,
  termsOf,
} from '../support/commission-oracle.ts'
import { daysInAll, earlierClicks, type Holder, linesOf, type Plan, type Step, type Terms } from './plan.ts'

/** A payment of a payout run to one partner in one currency. */
export interface Payment {
  partner: number
  currency: string
  cents: number
}

/** The effect of a rule change on a month, before reversals. `partner` is null for all partners. */
export interface Previewed {
  partner: number | null
  currency: string
  earnedSoFar: number
  now: number
  would: number
}

/** An attributed sale with the fields that rules use. */
interface Sold {
  customer: number
  partner: number
  day: number
  base: number
  currency: string
  products: string[]
  type: string
  /** The commission before reversals. */
  cents: number
}

interface Earned {
  customer: number
  partner: number
  currency: string
  cents: number
  /** The last day of the hold period. */
  due: number
  isCredited: boolean
  isRejected: boolean
  /** Whether a check has run, and the flags that it found. */
  isLookedAt: boolean
  found: ReviewRule[]
  isHeld: boolean
  isReleased: boolean
  /** The paid amount of a sale, and the amount of each remaining refund and dispute. */
  amount: number
  asked: Map<string, number>
}

interface Customer {
  /** Null until a click or a code attributes the buyer. */
  partner: number | null
  byLink: boolean
  /** The partner of the code in the buyer's first purchase. */
  code: number | null
  /** The day of the buyer's first purchase. Days before the month are negative. */
  firstBought: number | null
  /** The day on which the buyer signed up. */
  lead: number | null
  /** The commissions from the buyer's sales by currency, before reversals. */
  earnedSoFar: Map<string, number>
}

const signedUp = ({ lead, firstBought }: Customer) => lead ?? firstBought

/** Buyers with a code use it in their first purchase. */
const codeOfFirst = (customer: Customer, buyer: Plan['buyers'][number]) =>
  buyer.by === 'code' && customer.partner === null ? buyer.partner : null

/**
 * A model of a month in plain words and numbers. It is based on the documentation, not on the service's code. It computes each run's
 * payments to each partner, and the effect of rule changes on a calendar month. `today` is the day of the run, because months have
 * different lengths.
 */
export function booksOf(
  plan: Plan,
  today: Date,
): { runs: Payment[][]; preview: (holder: Holder, rules: CommissionRule[], month: string) => Previewed[] } {
  let terms: Terms = plan.terms
  let day = 0
  const groups = [...plan.groups]
  const rules = new Map<string, CommissionRule[]>()
  const sales: (Earned | null)[] = []
  const leads: Earned[] = []
  const sold: Sold[] = []
  const adjusted = new Map<string, number>()
  const paid = new Map<string, number>()
  const runs: Payment[][] = []
  const clicks = plan.hasTag ? { all: earlierClicks, withPage: earlierClicks } : { all: 0, withPage: 0 }
  const customers = plan.buyers.map((): Customer => ({
    partner: null,
    byLink: false,
    code: null,
    firstBought: null,
    lead: null,
    earnedSoFar: new Map(),
  }))

  const rulesFor = (partner: number): CommissionRule[][] =>
    [`partner ${partner}`, `group ${groups[partner] ?? 'none'}`, 'everybody'].map((holder) => rules.get(holder) ?? [])

  const dayBefore = (days: number) => {
    const start = new Date(today.getTime() - days * 86_400_000)
    start.setUTCHours(0, 0, 0, 0)
    return start
  }

  /** Returns whether a sale today is more than this many months after a first purchase this many days ago. */
  const isLate = (days: number, months: number | null | undefined): boolean =>
    !!months && dayBefore(0) >= monthsAfter(dayBefore(days), months)

  /** The commission of a sale under the current terms, after the customer's earlier commissions. */
  function commissionOf(sale: Omit<Sold, 'cents'>, earnedSoFar: number): number {
    const { base, partner, products, type } = sale
    const isOwn = sale.currency === 'usd'
    const first = customers[sale.customer]?.firstBought ?? sale.day
    const lines = linesOf(products).map(({ product_ids: ids, weight }) => ({
      rule: ruleFor(rulesFor(partner), ids, type, isOwn),
      weight,
    }))
    let earned = 0
    for (const { rule, cents } of sharesOf(BigInt(base), lines)) {
      const months = rule ? rule.commission_duration_months : terms.commission_duration_months
      if (isLate(sale.day - first, months)) continue
      earned += Number(commissionBy(cents, termsOf(rule, terms.commission_bp, isOwn), BigInt(earnedSoFar + earned)))
    }
    return earned
  }

  function leadCommissionOf(partner: number): number {
    const own = rulesFor(partner)
      .flat()
      .find((rule) => !rule.product_id && !rule.sale_type && (rule.lead_commission_cents ?? null) !== null)
    return own?.lead_commission_cents ?? terms.lead_commission_cents
  }

  /** Returns the commissions of these days' sales and leads under the current terms, per partner and currency. */
  function byTermsOfNow(isIn: (on: number) => boolean): Map<string, number> {
    const sums = new Map<string, number>()
    const add = (partner: number, currency: string, cents: number) => {
      const whose = `${partner} ${currency}`
      sums.set(whose, (sums.get(whose) ?? 0) + cents)
    }
    const earnedSoFar = new Map<string, number>()
    for (const sale of sold) {
      const whose = `${sale.customer} ${sale.currency}`
      const before = earnedSoFar.get(whose) ?? 0
      const cents = isIn(sale.day) ? commissionOf(sale, before) : sale.cents
      earnedSoFar.set(whose, before + cents)
      if (isIn(sale.day)) add(sale.partner, sale.currency, cents)
    }
    for (const { lead, partner } of customers)
      if (lead !== null && partner !== null && isIn(lead)) add(partner, 'usd', leadCommissionOf(partner))
    return sums
  }

  const dateOf = (on: number) => new Date(today.getTime() - (daysInAll - 1 - on) * 86_400_000).toISOString()

  function preview(holder: Holder, given: CommissionRule[], month: string): Previewed[] {
    const isIn = (on: number) => dateOf(on).startsWith(month)
    const was = new Map<string, number>()
    const bring = (whose: string, cents: number) => was.set(whose, (was.get(whose) ?? 0) + cents)
    for (const { partner, currency, cents, day: on } of sold) if (isIn(on)) bring(`${partner} ${currency}`, cents)
    for (const { customer, partner, currency, cents } of leads)
      if (isIn(customers[customer]?.lead ?? -Infinity)) bring(`${partner} ${currency}`, cents)
    const now = byTermsOfNow(isIn)
    const before = rules.get(nameOf(holder)) ?? []
    rules.set(nameOf(holder), given)
    const would = byTermsOfNow(isIn)
    rules.set(nameOf(holder), before)
    const rows = [...now].map(([whose, cents]): Previewed => {
      const [partner, currency = ''] = whose.split(' ')
      return {
        partner: Number(partner),
        currency,
        earnedSoFar: was.get(whose) ?? 0,
        now: cents,
        would: would.get(whose) ?? 0,
      }
    })
    const totals = [...new Set(rows.map(({ currency }) => currency))].map((currency) => {
      const sum = (amount: (row: Previewed) => number) =>
        rows.filter((row) => row.currency === currency).reduce((all, row) => all + amount(row), 0)
      return {
        partner: null,
        currency,
        earnedSoFar: sum((row) => row.earnedSoFar),
        now: sum((row) => row.now),
        would: sum((row) => row.would),
      }
    })
    return [...totals, ...rows.filter((row) => row.now !== row.would)]
  }

  /** The partner of a sale, and the code if it determined the partner. */
  function attribute(customer: Customer, named: number | null): { partner: number; code: number | null } | null {
    if (customer.partner === null) return null
    const code = named ?? customer.code
    if (code === null) return { partner: customer.partner, code: null }
    if (code === customer.partner) return { partner: code, code }
    return customer.byLink && plan.priority === 'click'
      ? { partner: customer.partner, code: null }
      : { partner: code, code }
  }

  /** Records the only click of a buyer who came through a link. */
  function click(customer: Customer, buyer: Plan['buyers'][number]): void {
    if (customer.partner !== null) return
    Object.assign(customer, { partner: buyer.partner, byLink: true })
    clicks.all++
    if (plan.hasTag && buyer.sign !== 'no page') clicks.withPage++
  }

  /** Whether five customers of the partner signed up from one address on the same day as this one. */
  const isOneOfMany = (earned: Earned): boolean => {
    const own = customers[earned.customer]
    const atOnce = customers.filter(
      (customer, place) =>
        plan.buyers[place]?.sign === 'farm' &&
        customer.partner === earned.partner &&
        signedUp(customer) !== null &&
        own &&
        signedUp(customer) === signedUp(own),
    )
    return atOnce.length >= 5
  }

  /** The suspicious signs that the program's rules find in a commission at the moment. */
  function wrongWith(earned: Earned): ReviewRule[] {
    const [customer, buyer] = [customers[earned.customer], plan.buyers[earned.customer]]
    const isOwnAddress = buyer?.sign === 'own e-mail' && customer?.lead !== null && earned.partner === buyer.partner
    const isTagged = clicks.all >= 20 && clicks.withPage / clicks.all >= 0.8
    const signs: Record<ReviewRule, boolean> = {
      self_referral: isOwnAddress,
      one_address: buyer?.sign === 'farm' && isOneOfMany(earned),
      no_page_view: buyer?.sign === 'no page' && isTagged,
      bot: buyer?.sign === 'bot',
      paid_ads: buyer?.sign === 'ad',
    }
    const released = everything()
      .filter(({ customer: whose, isReleased }) => whose === earned.customer && isReleased)
      .flatMap(({ found }) => found)
    return plan.reviewRules.filter((rule) => signs[rule] && !released.includes(rule))
  }

  const everything = () => [...sales, ...leads].filter((earned) => earned !== null)
  const isOpen = (earned: Earned) => !earned.isCredited && left(earned) > 0

  /** Holds a commission with suspicious signs, unless somebody has already decided on it. */
  function look(earned: Earned): void {
    if (earned.isHeld) return
    earned.isLookedAt = true
    if (earned.isReleased) return
    earned.found = wrongWith(earned)
    earned.isHeld = earned.found.length > 0
  }

  function credit(earned: Earned): void {
    look(earned)
    if (!earned.isHeld) earned.isCredited = true
  }

  /** Does the scheduled work, at the end of each day and before a payout run. */
  function settle(): void {
    for (const earned of everything()) if (isOpen(earned) && !earned.isLookedAt) look(earned)
    for (const earned of everything()) if (isOpen(earned) && earned.due <= day) credit(earned)
  }

  function sell(sale: Extract<Step, { do: 'sale' }>): void {
    const [customer, buyer] = [customers[sale.customer], plan.buyers[sale.customer]]
    if (!customer || !buyer) throw new Error('a sale without a buyer')
    // A buyer without a partner has no code, and the processor's payments don't have codes in this model either.
    const named = buyer.by === 'nobody' || sale.products ? null : (sale.code ?? codeOfFirst(customer, buyer))
    if (buyer.by === 'link') click(customer, buyer)
    if (customer.partner === null && buyer.by === 'code' && named !== null) customer.partner = named
    const whose = attribute(customer, named)
    if (!whose) {
      sales.push(null)
      return
    }
    const { currency, type } = sale
    const entered = {
      customer: sale.customer,
      partner: whose.partner,
      day,
      base: sale.amount - sale.tax,
      currency,
      type,
    }
    const asSold = { ...entered, products: sale.products ?? [] }
    const cents = commissionOf(asSold, customer.earnedSoFar.get(currency) ?? 0)
    sold.push({ ...asSold, cents })
    if (customer.firstBought === null) {
      customer.firstBought = day
      customer.code ??= whose.code
    }
    customer.earnedSoFar.set(sale.currency, (customer.earnedSoFar.get(sale.currency) ?? 0) + cents)
    sales.push({ ...fresh(sale.customer, whose.partner, sale.currency, cents), amount: sale.amount })
  }

  const fresh = (customer: number, partner: number, currency: string, cents: number): Earned => ({
    customer,
    partner,
    currency,
    cents,
    due: day + terms.hold_days,
    isCredited: false,
    isRejected: false,
    isLookedAt: false,
    found: [],
    isHeld: false,
    isReleased: false,
    amount: 1,
    asked: new Map(),
  })

  const refunded = ({ amount, asked }: Earned) =>
    Math.min(
      [...asked.values()].reduce((sum, one) => sum + one, 0),
      amount,
    )

  const left = (earned: Earned) =>
    earned.isRejected
      ? 0
      : earned.cents - Number(reversedOf(BigInt(earned.cents), BigInt(refunded(earned)), BigInt(earned.amount)))

  function run(): void {
    settle()
    const owed = new Map(adjusted)
    for (const earned of everything()) {
      if (!earned.isCredited) continue
      const whose = `${earned.partner} ${earned.currency}`
      owed.set(whose, (owed.get(whose) ?? 0) + left(earned))
    }
    const payments = [...owed].flatMap(([whose, cents]) => {
      const due = cents - (paid.get(whose) ?? 0)
      if (due <= 0) return []
      paid.set(whose, cents)
      const [partner, currency = ''] = whose.split(' ')
      return [{ partner: Number(partner), currency, cents: due }]
    })
    runs.push(payments.toSorted((a, b) => a.partner - b.partner || (a.currency < b.currency ? -1 : 1)))
  }

  const acts: { [Do in Step['do']]: (step: Extract<Step, { do: Do }>) => void } = {
    sale: sell,
    lead({ customer: place }) {
      const [customer, buyer] = [customers[place], plan.buyers[place]]
      if (!customer || buyer?.by !== 'link' || customer.lead !== null) return
      click(customer, buyer)
      customer.lead = day
      leads.push(fresh(place, buyer.partner, 'usd', leadCommissionOf(buyer.partner)))
    },
    refund({ sale, amount, id }) {
      const earned = sales[sale]
      // A refund counts only if there is something left to refund.
      if (earned && refunded(earned) < earned.amount && !earned.asked.has(`refund ${id}`))
        earned.asked.set(`refund ${id}`, amount)
    },
    dispute: ({ sale, amount }) => void sales[sale]?.asked.set('dispute', amount),
    win: ({ sale }) => void sales[sale]?.asked.delete('dispute'),
    rules: ({ holder, rules: given }) => void rules.set(nameOf(holder), given),
    move: ({ partner, group }) => void (groups[partner] = group),
    terms: ({ terms: given }) => void (terms = given),
    approve({ sale }) {
      const earned = sales[sale]
      if (earned && isOpen(earned)) credit(earned)
    },
    reject({ sale }) {
      const earned = sales[sale]
      if (earned && left(earned) > 0) Object.assign(earned, { isRejected: true, isHeld: false })
    },
    decide({ customer, decision }) {
      for (const earned of everything()) {
        if (earned.customer !== customer || !earned.isHeld || left(earned) === 0) continue
        earned.isHeld = false
        if (decision === 'released') earned.isReleased = true
        else earned.isRejected = true
      }
    },
    adjust({ partner, currency, cents }) {
      const whose = `${partner} ${currency}`
      adjusted.set(whose, (adjusted.get(whose) ?? 0) + cents)
    },
    run,
  }

  for (const [customer, { boughtBefore }] of plan.buyers.entries()) {
    if (!boughtBefore) continue
    day = -boughtBefore.days
    const { amount } = boughtBefore
    sell({ do: 'sale', customer, amount, tax: 0, currency: 'usd', type: 'payment', products: null, code: null })
  }
  for (const [at, steps] of plan.days.entries()) {
    day = at
    for (const step of steps) act(step)
    settle()
  }
  return { runs, preview }

  function act<Do extends Step['do']>(step: Extract<Step, { do: Do }>): void {
    acts[step.do](step)
  }
}

export const nameOf = (holder: Holder): string =>
  holder === 'everybody' ? holder : 'group' in holder ? `group ${holder.group}` : `partner ${holder.partner}`
