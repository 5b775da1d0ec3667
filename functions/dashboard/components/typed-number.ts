import { currencyExponent, isCurrency } from '../../../lib/money.ts'

/** Parses a typed decimal number as an integer in its smallest unit. Returns NaN for anything else and for too many decimals. */
export function decimalToInteger(text: string, decimals: number): number {
  const match = /^(\d{1,12})(?:[.,](\d*))?$/.exec(text.trim())
  const [, whole = '', fraction = ''] = match ?? []
  return match && fraction.length <= decimals ? Number(whole + fraction.padEnd(decimals, '0')) : Number.NaN
}

/** Returns the error message for a typed amount that is not a positive number. `ofMinus` is the message for a negative amount. */
export function amountProblem(
  amount: string,
  currency: string,
  ofMinus = 'Enter an amount above zero, without a minus sign.',
): string {
  if (/^\s*[-\u2212\u2013]/.test(amount)) return ofMinus
  const code = currency.toUpperCase()
  const decimals = /^\d+[.,](\d+)$/.exec(amount.trim())?.[1]?.length ?? 0
  const allowed = currencyExponent(currency)
  if (decimals > allowed) {
    return allowed === 0
      ? `Amounts in ${code} have no decimals.`
      : `Amounts in ${code} have at most ${allowed} decimals.`
  }
  return /^[0.,\s]*$/.test(amount) ? 'Enter an amount above zero.' : 'Enter an amount in digits.'
}

/** Converts a typed amount in a currency's major unit to its minor unit. Returns NaN for anything else. */
export function smallestUnits(text: string, currency: string): number {
  return isCurrency(currency) ? decimalToInteger(text, currencyExponent(currency)) : Number.NaN
}
