import { widenSpaces } from './languages.ts'

/** The largest amount that the service accepts, in minor units. */
export const maxAmountCents = 9_999_999_999_999

/** Stripe still charges in the old dobra, but Intl doesn't know it anymore. */
const currencies = new Set([...Intl.supportedValuesOf('currency').map((code) => code.toLowerCase()), 'std'])

/** Returns true for a lower-case ISO 4217 code. */
export function isCurrency(code: string): boolean {
  return currencies.has(code)
}

/**
 * Codes with a minor unit other than a hundredth. Intl can't replace this table: it has the decimals in common use (none for huf), not the
 * ISO 4217 decimals.
 */
const exponents = new Map(
  [
    { exponent: 0, codes: 'bif clp djf gnf isk jpy kmf krw pyg rwf ugx uyi vnd vuv xaf xof xpf' },
    { exponent: 3, codes: 'bhd iqd jod kwd lyd omr tnd' },
    { exponent: 4, codes: 'clf uyw' },
  ].flatMap(({ exponent, codes }) => codes.split(' ').map((code) => [code, exponent] as const)),
)

/** Returns the number of decimals of a currency's major unit by ISO 4217: 2 for usd, 0 for jpy, 3 for kwd. */
export function currencyExponent(currency: string): number {
  return exponents.get(currency) ?? 2
}

/** Converts an amount from minor units to a decimal number in the major unit: 1050 cents of usd are 10.5. */
export function majorUnits(amountCents: number, currency: string): number {
  return Number(`${amountCents}e-${currencyExponent(currency)}`)
}

/** Writes an amount in minor units with its currency's decimals: 1050 cents of usd are `10.50`. */
export const decimalAmount = (amountCents: number, currency: string): string =>
  majorUnits(amountCents, currency).toFixed(currencyExponent(currency))

/** Formats an amount in minor units as people write it: `$10.50`, `¥1,050`, `KWD 1.050`. The default is American English. */
export function formatMoney(amountCents: number, currency: string, locale = 'en-US'): string {
  // oxlint-disable-next-line no-unsafe-type-assertion -- a number with an exponent is one to Intl, not to TypeScript
  const decimal = `${amountCents}e-${currencyExponent(currency)}` as `${number}`
  return writeAmount(decimal, currency, locale)
}

/** The lengths of a written amount: with all decimals, without decimals that are zero, and rounded for an axis. */
const amountLengths = {
  full: {},
  short: { trailingZeroDisplay: 'stripIfInteger' },
  compact: { notation: 'compact' },
} as const satisfies Record<string, Intl.NumberFormatOptions>

/** Formats by locale, currency and length. Creating one takes 40 times as long as using it, and a page can write hundreds of amounts. */
const amountFormats = new Map<string, Intl.NumberFormat>()

/** Formats an amount in major units as people write it. */
export function writeAmount(
  amount: number | `${number}`,
  currency: string,
  locale: string,
  length: keyof typeof amountLengths = 'full',
): string {
  const key = `${locale} ${currency} ${length}`
  let format = amountFormats.get(key)
  if (!format) {
    format = new Intl.NumberFormat(locale, { style: 'currency', currency, ...amountLengths[length] })
    amountFormats.set(key, format)
  }
  return widenSpaces(format.format(amount))
}
