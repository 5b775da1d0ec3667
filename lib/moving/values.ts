import { currencyExponent, isCurrency, maxAmountCents } from '../money.ts'
import { isName } from '../names.ts'

/** The order of the day and the month in dates such as 03/04/2026. */
export type DateOrder = 'day first' | 'month first'

const slashed = /^(\d{1,2})[/.-](\d{1,2})[/.-](\d{4}|\d{2})(?:[ ,T]+(\d{1,2}):(\d{2}).*)?$/
const named = /^(?:(\d{1,2})[ -](\p{L}{3,9})|(\p{L}{3,9}) (\d{1,2}),?)[ ,-]+(\d{4})/u
const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

/** Returns the order of a date, or undefined if the date fits both orders. */
export function orderOf(text: string): DateOrder | undefined {
  const [, first, second] = slashed.exec(text.slice(0, 40)) ?? []
  if (Number(first) > 12) return 'day first'
  if (Number(second) > 12) return 'month first'
  return undefined
}

/**
 * Converts a date to ISO 8601. Accepts an ISO date or time, a Unix time in seconds or milliseconds, a date in numbers
 * in this order, and English month names. Returns undefined for anything else. Times without a zone are UTC.
 */
export function readDate(text: string, order: DateOrder): string | undefined {
  const trimmed = text.trim().slice(0, 40)
  if (/^\d{10}(\d{3})?$/.test(trimmed)) return iso(Number(trimmed) * (trimmed.length === 10 ? 1000 : 1))
  const [written, itsFullYear = '', itsMonth, itsDay] = /^(\d{4})-(\d{2})-(\d{2})/.exec(trimmed) ?? []
  if (written !== undefined) {
    // Date.parse turns February 30 into March 2.
    if (!date(itsFullYear, Number(itsMonth), Number(itsDay), 0, 0)) return undefined
    const time = trimmed
      .replace(/^(\S+) (?=\d)/, '$1T')
      .replace(/ UTC$/, 'Z')
      .replace(/ (?=[+-]\d{2}:?\d{2}$)/, '')
    const hasZone = !time.includes('T') || /(Z|[+-]\d{2}:?\d{2})$/.test(time.slice(11))
    return iso(Date.parse(hasZone ? time : `${time}Z`))
  }
  const [, first, second, year = '', hour = '0', minute = '0'] = slashed.exec(trimmed) ?? []
  if (first !== undefined && second !== undefined) {
    const [day, month] = order === 'day first' ? [first, second] : [second, first]
    return date(year.length === 2 ? `20${year}` : year, Number(month), Number(day), Number(hour), Number(minute))
  }
  const [, day, month, otherMonth, otherDay, itsYear = ''] = named.exec(trimmed) ?? []
  const number = months.indexOf((month ?? otherMonth ?? '').slice(0, 3).toLowerCase()) + 1
  return number > 0 ? date(itsYear, number, Number(day ?? otherDay), 0, 0) : undefined
}

function date(year: string, month: number, day: number, hour: number, minute: number): string | undefined {
  const time = new Date(Date.UTC(Number(year), month - 1, day, hour, minute))
  return time.getUTCMonth() === month - 1 && time.getUTCDate() === day ? iso(time.getTime()) : undefined
}

function iso(time: number): string | undefined {
  const earliest = Date.UTC(1990, 0)
  return Number.isFinite(time) && time > earliest && time < Date.UTC(2100, 0) ? new Date(time).toISOString() : undefined
}

/** The text before and after the digits of an amount, such as a sign or a code of a currency. */
const besideDigits = String.raw`(?:\p{L}\.?|\p{Sc})*`
const amount = new RegExp(
  `^(?<sign>[-−(]?)${besideDigits}(?<laterSign>[-−]?)(?<digits>[\\d.,]*\\d[.,]?)(?<lastSign>-?)${besideDigits}\\)?$`,
  'u',
)

/**
 * Converts an amount from the currency's major unit to minor units. Accepts a decimal point or comma, and any
 * separator between thousands. Returns undefined if the text isn't an amount.
 */
export function readAmount(text: string, currency: string): number | undefined {
  const compact = text.slice(0, 60).replaceAll(/[\s'’\u00A0]/g, '')
  const { sign = '', laterSign = '', digits = '', lastSign = '' } = amount.exec(compact)?.groups ?? {}
  const exponent = currencyExponent(currency)
  const last = Math.max(digits.lastIndexOf('.'), digits.lastIndexOf(','))
  const decimals = last < 0 ? '' : digits.slice(last + 1)
  const mark = digits[last]
  // A single separator before three digits separates thousands, unless the currency has three decimals. Thousands never start with 0.
  const isGrouped =
    last >= 0 &&
    decimals.length === 3 &&
    exponent !== 3 &&
    /^[1-9]\d{0,2}([.,]\d{3})+$/.test(digits) &&
    !digits.replaceAll(mark ?? '', '').match(/[.,]/)
  const before = last < 0 || isGrouped ? digits : digits.slice(0, last)
  // The same mark can't separate both thousands and decimals.
  if (!isGrouped && last >= 0 && before.includes(mark ?? '') && !/[.,]/.test(before.replaceAll(mark ?? '', ''))) {
    return undefined
  }
  const whole = before.replaceAll(/[.,]/g, '')
  const fraction = isGrouped ? '' : decimals
  if (!/^\d+$/.test(whole + fraction)) return undefined
  const cents = Math.round(Number(`${whole || '0'}.${fraction || '0'}`) * 10 ** exponent)
  return cents <= maxAmountCents ? (sign + laterSign + lastSign === '' ? cents : -cents) : undefined
}

/** Converts a decimal number of an API, such as `12.345`, to minor units. Returns undefined if the text isn't a number. */
export function readDecimal(text: string, currency: string): number | undefined {
  const cents = /^-?\d+(\.\d+)?$/.test(text) ? Math.round(Number(`${text}e${currencyExponent(currency)}`)) : Number.NaN
  return Math.abs(cents) <= maxAmountCents ? cents : undefined
}

/** Reads an amount that is already in minor units. */
export function readCents(text: string): number | undefined {
  const cents = Number(text)
  return /^-?\d{1,13}$/.test(text) && Math.abs(cents) <= maxAmountCents ? cents : undefined
}

/** The currencies of each sign, such as `$` or `€`. The first one is the most common. */
const currenciesOfSigns = new Map<string, string[]>()

function currenciesOf(sign: string): readonly string[] {
  if (currenciesOfSigns.size === 0) {
    for (const currency of ['usd', 'eur', 'gbp', 'jpy', ...Intl.supportedValuesOf('currency')]) {
      for (const currencyDisplay of ['narrowSymbol', 'symbol'] as const) {
        const format = new Intl.NumberFormat('en', { style: 'currency', currency, currencyDisplay })
        const shown =
          format
            .formatToParts(0)
            .find(({ type }) => type === 'currency')
            ?.value.toLowerCase() ?? ''
        const known = currenciesOfSigns.get(shown) ?? []
        currenciesOfSigns.set(shown, [...new Set([...known, currency.toLowerCase()])])
      }
    }
    currenciesOfSigns.set('us$', ['usd'])
  }
  return currenciesOfSigns.get(sign) ?? []
}

/** Reads a currency's code or sign. Returns undefined for a sign such as `kr` that belongs to several similarly common currencies. */
export function readCurrency(text: string): string | undefined {
  const code = text.toLowerCase()
  if (/^[a-z]{3}$/.test(code) && isCurrency(code)) return code
  const possible = currenciesOf(code)
  return possible.length === 1 || /^[$€£¥]$/.test(code) ? possible[0] : undefined
}

/**
 * Finds the currency of an amount: in its column, or else beside the amount. If there is none, it is the program's currency. Returns
 * undefined if it is unknown, or if the column contradicts the amount.
 */
export function currencyOfAmount(column: string, amountText: string, programCurrency: string): string | undefined {
  const expected = column === '' ? programCurrency : readCurrency(column)
  const beside = amountText
    .slice(0, 60)
    .replaceAll(/[^\p{L}\p{Sc}]/gu, '')
    .toLowerCase()
  const code = readCurrency(beside)
  const possible = [code, ...currenciesOf(beside)].filter((one) => one !== undefined)
  if (possible.length === 0) return /\p{Sc}/u.test(beside) ? undefined : expected
  if (expected !== undefined && possible.includes(expected)) return expected
  return column === '' ? code : undefined
}

/** Reads a percentage as basis points: `20`, `20%`, `12,5 %`, `20 percent`. */
export function readPercent(text: string): number | undefined {
  const number = Number(text.replaceAll(/\s|%|percent$/gi, '').replace(',', '.'))
  return text !== '' && number >= 0 && number <= 100 ? Math.round(number * 100) : undefined
}

/**
 * Reads a number of months, such as `12` or `12 months`. Returns 0 for terms without a limit, and undefined if the text isn't a number of
 * months.
 */
export function readMonths(text: string): number | undefined {
  if (/^(|forever|lifetime|life time|unlimited|none|null|no limit|∞|-)$/i.test(text)) return 0
  const [, number] = /^(\d{1,4})(?:[.,]0+)? ?(?:m|mo|mos|months?|monate?)?$/i.exec(text) ?? []
  return number === undefined ? undefined : Number(number)
}

/** This excludes invisible characters, and characters that a formula in a spreadsheet needs. */
const mailAddress = /^[^\s\p{C}@<>",;=|!()]+@[^\s\p{C}@<>",;.=|!()]+(\.[^\s\p{C}@<>",;.=|!()]+)+$/u

/** Reads an e-mail address in lower case. Returns undefined if the text can't be one. */
export function readEmail(text: string): string | undefined {
  const email = text
    .trim()
    .replace(/^mailto:/i, '')
    .toLowerCase()
  return email.length <= 254 && mailAddress.test(email) ? email : undefined
}

/** Cleans a name: removes control characters and cuts it to 80 characters. Returns undefined if nothing is left. */
export function readName(text: string): string | undefined {
  const name = Array.from(
    text
      .slice(0, 500)
      .replaceAll(/[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu, ' ')
      .trim(),
  )
    .slice(0, 80)
    .join('')
    .trim()
  return isName(name) ? name : undefined
}

/** Finds the code in a link: the value of one of the parameters, or else the last part of the path, or else the text itself. */
export function codeOfLink(text: string, params: readonly string[]): string {
  const link = text.trim()
  if (!/^(https?:\/\/|www\.)|[/?]/i.test(link)) return link
  const address = /^https?:\/\//i.test(link) ? link : `https://${link}`
  if (!URL.canParse(address)) return link
  const { searchParams, pathname } = new URL(address)
  const param = [...params, 'aff'].find((name) => searchParams.get(name))
  const last = pathname.split('/').filter(Boolean).at(-1) ?? ''
  return param === undefined
    ? decodeURIComponent(/%(?![0-9a-f]{2})/i.test(last) ? '' : last)
    : (searchParams.get(param) ?? '')
}
