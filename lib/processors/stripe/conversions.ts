import * as z from 'zod/mini'
import { shareOf, stripeAmount } from '../../../tracker/src/stripe-amounts.ts'
import { maxAmountCents } from '../../money.ts'
import type { Reversal } from '../facts.ts'
import { amount, currency } from '../payload.ts'

interface Money {
  amount_cents: number
  currency: string
}

/** One amount in both currencies of a conversion by Stripe. */
export type Conversion = [Money, Money]

/** A charge or a refund with its expanded balance transaction. */
const converted = z.looseObject({ amount, currency, balance_transaction: z.looseObject({ amount: z.int(), currency }) })
const withCharge = z.looseObject({ charge: z.unknown() })

/**
 * Returns Stripe's conversions for a charge or a refund, and for the refund's charge. A balance transaction is in the account's currency,
 * and its amount results from the `exchange_rate`. Returns nothing if the balance transaction isn't expanded or has the same currency.
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

/**
 * Returns the reversal in its own currency, and then in each currency to which these conversions lead. Skips amounts that are too large to
 * store.
 */
export function inEachCurrency(reversal: Reversal, conversions: Conversion[]): Reversal[] {
  const all = [reversal]
  for (const { amount_cents: cents, currency: unit } of all) {
    for (const [from, to] of conversions.flatMap(([a, b]) => [[a, b] as const, [b, a] as const])) {
      if (from.currency !== unit || all.some((known) => known.currency === to.currency)) continue
      const amount_cents = shareOf(cents, to.amount_cents, from.amount_cents)
      if (amount_cents <= maxAmountCents) all.push({ ...reversal, amount_cents, currency: to.currency })
    }
  }
  return all
}
