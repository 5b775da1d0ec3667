import { commissionOf, halfUp, monthsAfter, reversedOf } from '../support/commission-oracle.ts'
import type { StripeAccount } from './account.ts'
import { minorUnits } from './currencies.ts'
import type { Payment } from './objects.ts'
import type { RulePlan } from './plan.ts'

/** What a program pays its partners by. */
export interface Terms {
  /** Basis points of what arrived without tax. */
  commissionBp: number
  /** Null: for ever. */
  durationMonths: number | null
  /** The partner whom a payment is owed to, or null where nobody brought its buyer. */
  partnerOf: (payment: Payment) => number | null
  /** The rule that is for a payment, in place of the rate above. */
  ruleOf: (payment: Payment) => RulePlan | null
  /** Whether a person rejected its commission. */
  isRejected: (payment: Payment) => boolean
}

/** What must stand of one payment in the end, in the currency's minor unit. */
export interface Expected {
  payment: Payment
  partner: number | null
  /** All that arrived, tax included. */
  amount: bigint
  /** Of that, what is no tax. */
  base: bigint
  /** What went back by refunds and disputes and did not return, at most `amount`. */
  reversed: bigint
  /** The commission that is left. */
  net: bigint
}

/**
 * What the cash says that each live payment must have come to. Money is summed from the account's ledger; of the payment's objects only
 * the tax is taken (`total` and `untaxed`), which no ledger knows. Everything is in whole numbers of the currency's minor unit:
 *
 *     amount     = what arrived: charges, and what was paid outside of Stripe
 *     reversed   = min(amount, what refunds and disputes took − what failed refunds and disputes gave back)
 *     base       = amount × untaxed / total, half up
 *     commission = base × rate, half up, and by a rule what is fixed beside it, up to what its cap leaves of what the buyer brought before
 *     net        = commission − floor(commission × reversed / amount)
 *
 * and `net` must be met to the last unit, whatever the order, the repeats and the payloads' generation. It has just these three
 * roundings however often a payment is corrected or refunded, since each is of the totals and none of the steps. So it is rate × net
 * cash without tax but for less than (rate + 1) / 2 below and (rate + 1) / 2 + 1 above, rate being 1 at most, which is checked here: a
 * mistake in these formulas would otherwise be one in the oracle and in the service. Where nothing arrived, everything is 0. Where a
 * program pays for some months only, commission is 0 for what arrives more than that after the first payment, by its date, of the buyer whom
 * a partner brought. A rejected commission leaves nothing.
 */
export function expectedOf(account: StripeAccount, terms: Terms): Expected[] {
  const live = account.payments.filter(({ buyer }) => buyer.livemode)
  const cash = new Map(live.map((payment) => [payment, cashOf(account, payment)]))
  const firstOf = new Map<string, number>()
  for (const payment of live) {
    const { customer } = payment.buyer
    const first = firstOf.get(customer)
    if (cash.get(payment)?.arrived && terms.partnerOf(payment) !== null && (first === undefined || payment.at < first))
      firstOf.set(customer, payment.at)
  }
  /** What each buyer brought so far, before anything was reversed. */
  const brought = new Map<string, bigint>()
  const found = new Map<Payment, Expected>()
  for (const payment of live.toSorted((a, b) => a.at - b.at)) found.set(payment, expect(payment))
  return live.flatMap((payment) => found.get(payment) ?? [])

  function expect(payment: Payment): Expected {
    const { arrived = 0n, left = 0n } = cash.get(payment) ?? {}
    const partner = terms.partnerOf(payment)
    const isPaidFor = partner !== null && !isOver(terms.durationMonths, firstOf.get(payment.buyer.customer), payment.at)
    const gone = arrived - left > arrived ? arrived : arrived - left
    if (arrived === 0n) return { payment, partner, amount: 0n, base: 0n, reversed: 0n, net: 0n }
    // Where nothing was sold, a debt of before was paid, and counts as it is.
    const total = BigInt(payment.price.total || 1)
    const untaxed = payment.price.total === 0 ? 1n : BigInt(payment.price.untaxed)
    const base = halfUp(arrived * untaxed, total)
    const rule = terms.ruleOf(payment)
    const before = brought.get(payment.buyer.customer) ?? 0n
    const byTerms = rule ?? { bp: terms.commissionBp, fixed: 0, cap: null }
    const commission = isPaidFor ? commissionOf(base, byTerms, before) : 0n
    brought.set(payment.buyer.customer, before + commission)
    if (terms.isRejected(payment)) return { payment, partner, amount: arrived, base, reversed: gone, net: 0n }
    const net = commission - reversedOf(commission, gone, arrived)
    if (isPaidFor && rule === null)
      requireNearCash(net, BigInt(terms.commissionBp) * (arrived - gone) * untaxed, 10_000n * total, terms)
    return { payment, partner, amount: arrived, base, reversed: gone, net }
  }
}

/** The sum of a payment's ledger in minor units: all that arrived, and what of it is left. */
function cashOf(account: StripeAccount, payment: Payment): { arrived: bigint; left: bigint } {
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

/** Whether `at` is more than so many months after `first`, both in Unix seconds. */
const isOver = (months: number | null, first: number | undefined, at: number): boolean =>
  months !== null && first !== undefined && at * 1000 > monthsAfter(new Date(first * 1000), months).getTime()

/** Holds `net` to the exact fraction `dividend / divisor` of the cash, within what three roundings can come to. */
function requireNearCash(net: bigint, dividend: bigint, divisor: bigint, { commissionBp }: Terms): void {
  const off = 20_000n * (net * divisor - dividend)
  const below = BigInt(commissionBp + 10_000) * divisor
  if (off < -below || off >= below + 20_000n * divisor) throw new Error(`${net} is not ${dividend} / ${divisor}.`)
}
