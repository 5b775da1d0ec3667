import { currencyExponent, isCurrency } from '../../../lib/money.ts'
import type { PageTexts } from './text.tsx'

/** Removes the spaces around a typed number, and those before groups of three digits, such as in `1 234,50`. */
const digitsOf = (text: string) => text.trim().replaceAll(/(?<=\d)\s(?=\d{3}(?!\d))/g, '')

/**
 * Parses a typed decimal number as an integer in its smallest unit. Returns NaN for anything else and for too many decimals. Points and
 * commas only separate decimals.
 */
export function decimalToInteger(text: string, decimals: number): number {
  const match = /^(\d{1,12})(?:[.,](\d*))?$/.exec(digitsOf(text))
  const [, whole = '', fraction = ''] = match ?? []
  return match && fraction.length <= decimals ? Number(whole + fraction.padEnd(decimals, '0')) : Number.NaN
}

/** Returns the error message for a typed amount that is not a positive number. `ofMinus` is the message for a negative amount. */
export function amountProblem(
  amount: string,
  currency: string,
  { t, fixed }: PageTexts,
  ofMinus = 'Enter an amount above zero, without a minus sign.',
): string {
  if (/^\s*[-\u2212\u2013]/.test(amount)) return fixed(ofMinus)
  const code = currency.toUpperCase()
  const decimals = /^\d+[.,](\d+)$/.exec(digitsOf(amount))?.[1]?.length ?? 0
  const allowed = currencyExponent(currency)
  if (decimals > allowed) {
    return allowed === 0
      ? t('Amounts in {currency} have no decimals.', { currency: code })
      : t('Amounts in {currency} have at most {allowed} decimals.', { currency: code, allowed })
  }
  return /^[0.,\s]*$/.test(amount) ? t('Enter an amount above zero.') : t('Enter an amount in digits.')
}

/** Converts a typed amount in a currency's major unit to its minor unit. Returns NaN for anything else. */
export function smallestUnits(text: string, currency: string): number {
  return isCurrency(currency) ? decimalToInteger(text, currencyExponent(currency)) : Number.NaN
}
