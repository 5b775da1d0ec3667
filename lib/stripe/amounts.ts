import { currencyExponent } from '../money.ts'

/**
 * Where Stripe's smallest unit is not ISO 4217's minor unit: ISK and UGX have no decimals any more but are still sent with
 * two, and MGA is sent without.
 *
 * @see https://docs.stripe.com/currencies#special-cases
 */
const stripeExponents: Readonly<Record<string, number>> = { isk: 2, ugx: 2, mga: 0 }

/** An amount in Stripe's unit as one in the currency's minor unit; rounded half up where that is coarser. */
export function minorUnits(amount: number, currency: string): number {
  const stripeExponent = stripeExponents[currency]
  if (stripeExponent === undefined) return amount
  return Math.round(Number(`${amount}e${currencyExponent(currency) - stripeExponent}`))
}
