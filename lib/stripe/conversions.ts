import * as z from 'zod/mini'
import { shareOf, stripeAmount } from '../../tracker/src/stripe-amounts.ts'
import { maxAmountCents } from '../money.ts'
import type { Reversal } from './facts.ts'
import { amount, currency } from './payload.ts'

interface Money {
  amount_cents: number
  currency: string
}

/** One sum of money in the two currencies between which Stripe converted it. */
export type Conversion = [Money, Money]

/** A charge or a refund with its balance transaction, where that is expanded. */
const converted = z.looseObject({ amount, currency, balance_transaction: z.looseObject({ amount: z.int(), currency }) })
const withCharge = z.looseObject({ charge: z.unknown() })

/**
 * What Stripe converted for a charge or a refund, and for the refund's charge: a balance transaction is in the currency of the account,
 * its amount is what the `exchange_rate` made of the other. Nothing where it is not expanded, or is in the same currency.
 */
export function conversionsOf(object: unknown): Conversion[] {
  const charge = withCharge.safeParse(object)
  const ofCharge = charge.data?.charge ? conversionsOf(charge.data.charge) : []
  const { data } = converted.safeParse(object)
  if (!data || data.amount === 0 || data.balance_transaction.amount === 0) return ofCharge
  const { balance_transaction: transaction } = data
  const [from, to]: Conversion = [
    { amount_cents: stripeAmount(data.amount, data.currency), currency: data.currency },
    { amount_cents: stripeAmount(Math.abs(transaction.amount), transaction.currency), currency: transaction.currency },
  ]
  return from.currency === to.currency ? ofCharge : [[from, to], ...ofCharge]
}

/** The same reversal in each currency that these conversions lead to, its own first. An amount that is too large to be kept is left out. */
export function inEachCurrency(reversal: Reversal, conversions: Conversion[]): Reversal[] {
  const told = [reversal]
  for (const { amount_cents: cents, currency: unit } of told) {
    for (const [from, to] of conversions.flatMap(([a, b]) => [[a, b] as const, [b, a] as const])) {
      if (from.currency !== unit || told.some((known) => known.currency === to.currency)) continue
      const amount_cents = shareOf(cents, to.amount_cents, from.amount_cents)
      if (amount_cents <= maxAmountCents) told.push({ ...reversal, amount_cents, currency: to.currency })
    }
  }
  return told
}
