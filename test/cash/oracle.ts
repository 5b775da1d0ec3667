import { commissionOf, halfUp, monthsAfter, reversedOf, sharesOf } from '../support/commission-oracle.ts'
import type { Entry } from './account.ts'
import { minorUnits } from './currencies.ts'
import type { Payment } from './objects.ts'
import type { RulePlan } from './plan.ts'

/** An account at a processor: its payments, and each movement of their money. */
export interface Account {
  payments: Payment[]
  ledger: Entry[]
}

/** A program's terms for its partners. */
export interface Terms {
  /** Basis points of the received amount without tax. */
  commissionBp: number
  /** Null means forever. */
  durationMonths: number | null
  /** The partner who earns from a payment, or null if it is unattributed. */
  partnerOf: (payment: Payment) => number | null
  /** The rules for the parts of a payment. They replace the rate above. */
  partsOf: (payment: Payment) => { rule: RulePlan | null; weight: number }[]
  /** Whether a person rejected the payment's commission. */
  isRejected: (payment: Payment) => boolean
}

/** The expected state of one payment, in the currency's minor unit. */
export interface Expected {
  payment: Payment
  partner: number | null
  /** The whole received amount, with tax. */
  amount: bigint
  /** The part of that amount without tax. */
  base: bigint
  /** The money that refunds and disputes took back for good, at most `amount`. */
  reversed: bigint
  /** The remaining commission. */
  net: bigint
}

/**
 * The expected result of each live payment, according to the cash. The money comes from the account's ledger. Only the tax (`total` and
 * `untaxed`) comes from the payment's objects, because no ledger contains it. All amounts are whole numbers of the currency's minor unit:
 *
 *     amount     = received money: charges, and payments outside Stripe
 *     reversed   = min(amount, money taken by refunds and disputes − money returned by failed refunds and disputes)
 *     base       = amount × untaxed / total, half up, minus the processor's fee if the program excludes it
 *     commission = base × rate, half up, plus a rule's fixed amount, at most the cap minus the buyer's earlier commissions;
 *                  the sum of its parts if its products have several rules
 *     net        = commission − floor(commission × reversed / amount)
 *
 * Some processors report the tax of refunds and disputes. In that case, their part of `untaxed` decides the reversal, until the whole
 * amount is reversed.
 *
 * The service must arrive at exactly `net`, no matter in which order and how often the payloads arrive, and which API version they have.
 * Corrections and refunds don't add to these three roundings, because each one rounds a total instead of a step. For rates up to 1, `net`
 * differs from rate × net cash without tax by a bound. It is less than (rate + 1) / 2 below, and less than (rate + 1) / 2 + 1 above. This
 * file checks the bound. Without this check, the oracle and the service could share a mistake in these formulas.
 *
 * If no money arrived, everything is 0. Some programs pay only for a number of months. After that, commissions are 0. The months count
 * from the first payment of a partner's buyer. A rejected commission is 0.
 */
export function expectedOf(account: Account, terms: Terms): Expected[] {
  const live = account.payments.filter(({ buyer }) => buyer.livemode)
  const cash = new Map(live.map((payment) => [payment, cashOf(account, payment)]))
  const firstOf = new Map<string, number>()
  for (const payment of live) {
    const { customer } = payment.buyer
    const first = firstOf.get(customer)
    if (cash.get(payment)?.arrived && terms.partnerOf(payment) !== null && (first === undefined || payment.at < first))
      firstOf.set(customer, payment.at)
  }
  /** Each buyer's commissions so far, before reversals. */
  const earnedSoFar = new Map<string, bigint>()
  const found = new Map<Payment, Expected>()
  for (const payment of live.toSorted((a, b) => a.at - b.at)) found.set(payment, expect(payment))
  return live.flatMap((payment) => found.get(payment) ?? [])

  function expect(payment: Payment): Expected {
    const { arrived = 0n, left = 0n } = cash.get(payment) ?? {}
    const partner = terms.partnerOf(payment)
    const isPaidFor = partner !== null && !isOver(terms.durationMonths, firstOf.get(payment.buyer.customer), payment.at)
    const gone = arrived - left > arrived ? arrived : arrived - left
    if (arrived === 0n) return { payment, partner, amount: 0n, base: 0n, reversed: 0n, net: 0n }
    // A payment without a sale settled an earlier debt and counts unchanged.
    const total = BigInt(payment.price.total || 1)
    const untaxed = payment.price.total === 0 ? 1n : BigInt(payment.price.untaxed)
    const fee = BigInt(payment.fee ?? 0)
    const withFee = halfUp(arrived * untaxed, total)
    const base = fee > withFee ? 0n : withFee - fee
    const parts = sharesOf(base, terms.partsOf(payment))
    const before = earnedSoFar.get(payment.buyer.customer) ?? 0n
    let commission = 0n
    for (const { rule, cents } of isPaidFor ? parts : []) {
      const byTerms = rule ?? { bp: terms.commissionBp, fixed: 0, cap: null }
      commission += commissionOf(cents, byTerms, before + commission)
    }
    earnedSoFar.set(payment.buyer.customer, before + commission)
    if (terms.isRejected(payment)) return { payment, partner, amount: arrived, base, reversed: gone, net: 0n }
    const whole = arrived * untaxed
    const goneUntaxed = payment.goneUntaxed === undefined ? gone * untaxed : BigInt(payment.goneUntaxed) * total
    const taken = gone === arrived || goneUntaxed > whole ? whole : goneUntaxed
    const net = commission - reversedOf(commission, taken, whole || 1n)
    if (isPaidFor && fee === 0n && parts.every(({ rule }) => rule === null))
      requireNearCash(net, BigInt(terms.commissionBp) * (whole - taken), 10_000n * total, terms)
    return { payment, partner, amount: arrived, base, reversed: gone, net }
  }
}

/** The sum of a payment's ledger in minor units: the received amount, and the part that is left. */
function cashOf(account: Account, payment: Payment): { arrived: bigint; left: bigint } {
  let arrived = 0n
  let left = 0n
  for (const entry of account.ledger.filter((moved) => moved.payment === payment)) {
    const isOutside = 'outside' in entry
    const moved = isOutside ? BigInt(entry.outside) : inCharge(entry.transaction)
    const amount = minorUnits(moved, payment.currency)
    left += amount
    if (isOutside ? amount > 0n : entry.transaction.type === 'charge') arrived += amount
  }
  return { arrived, left }
}

/** A balance transaction's amount in the currency of the charge. */
function inCharge({ amount, exchange_rate: rate }: { amount: number; exchange_rate: number | null }): bigint {
  const divisor = BigInt(rate ?? 1)
  if (BigInt(amount) % divisor !== 0n) throw new Error(`${amount} does not come from a whole amount at ${rate}.`)
  return BigInt(amount) / divisor
}

/** Returns whether `at` is more than this many months after `first`. Both are Unix seconds. */
const isOver = (months: number | null, first: number | undefined, at: number): boolean =>
  months !== null && first !== undefined && at * 1000 > monthsAfter(new Date(first * 1000), months).getTime()

/** Checks that `net` is as close to the exact fraction `dividend / divisor` of the cash as three roundings allow. */
function requireNearCash(net: bigint, dividend: bigint, divisor: bigint, { commissionBp }: Terms): void {
  const off = 20_000n * (net * divisor - dividend)
  const below = BigInt(commissionBp + 10_000) * divisor
  if (off < -below || off >= below + 20_000n * divisor) throw new Error(`${net} is not ${dividend} / ${divisor}.`)
}
