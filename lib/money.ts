/** The largest amount the service takes, in minor units. */
export const maxAmountCents = 9_999_999_999_999

/** Intl no longer knows the old dobra, in which Stripe still charges. */
const currencies = new Set([...Intl.supportedValuesOf('currency').map((code) => code.toLowerCase()), 'std'])

/** True for a lower-case ISO 4217 code. */
export function isCurrency(code: string): boolean {
  return currencies.has(code)
}

/** Codes whose minor unit is not a hundredth. Intl cannot be asked: it knows the decimals people write (none for huf), not ISO 4217's. */
const exponents = new Map(
  [
    { exponent: 0, codes: 'bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf' },
    { exponent: 3, codes: 'bhd iqd jod kwd lyd omr tnd' },
    { exponent: 4, codes: 'clf uyw' },
  ].flatMap(({ exponent, codes }) => codes.split(' ').map((code) => [code, exponent] as const)),
)

/** How many decimals the currency's major unit has by ISO 4217: 2 for usd, 0 for jpy, 3 for kwd. */
export function currencyExponent(currency: string): number {
  return exponents.get(currency) ?? 2
}

/** An amount in minor units as a decimal number of the major unit: 1050 cents of usd are 10.5. */
export function majorUnits(amountCents: number, currency: string): number {
  return Number(`${amountCents}e-${currencyExponent(currency)}`)
}

/** An amount in minor units as people write it: `$10.50`, `¥1,050`, `KWD 1.050`. */
export function formatMoney(amountCents: number, currency: string): string {
  // oxlint-disable-next-line no-unsafe-type-assertion -- a number with an exponent is one to Intl, not to TypeScript
  const decimal = `${amountCents}e-${currencyExponent(currency)}` as `${number}`
  return new Intl.NumberFormat('en-US', { style: 'currency', currency }).format(decimal)
}
