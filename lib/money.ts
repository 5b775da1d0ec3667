/** The largest amount the service takes, in minor units. */
export const maxAmountCents = 99_999_999_999

const currencies = new Set(Intl.supportedValuesOf('currency').map((code) => code.toLowerCase()))

/** True for a lower-case ISO 4217 code. */
export function isCurrency(code: string): boolean {
  return currencies.has(code)
}

/** How many decimals the currency's major unit has: 2 for usd, 0 for jpy, 3 for kwd (ISO 4217, as Intl knows it). */
export function currencyExponent(currency: string): number {
  return new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits ?? 2
}

/** An amount in minor units as a decimal number of the major unit: 1050 cents of usd are 10.5. */
export function majorUnits(amountCents: number, currency: string): number {
  return Number(`${amountCents}e-${currencyExponent(currency)}`)
}
