/**
 * An amount as Stripe writes it, in the currency's minor unit by ISO 4217. They differ for three: ISK and UGX have no decimals any
 * more but are still written with two (rounded half up here), and MGA has two but is written without.
 *
 * @see https://docs.stripe.com/currencies#special-cases
 */
export function stripeAmount(amount: number, currency: string): number {
  if (/^(isk|ugx)$/i.test(currency)) return Math.round(amount / 100)
  return /^mga$/i.test(currency) ? amount * 100 : amount
}
