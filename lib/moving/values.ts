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
  if (/^\d{4}-\d{2}-\d{2}/.test(trimmed)) {
    const time = trimmed.replace(/^(\S+) (?=\d)/, '$1T').replace(/ UTC$/, 'Z')
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

/**
 * Converts an amount from the currency's major unit to minor units. Accepts a decimal point or comma, and any
 * separator between thousands. Returns undefined if the text isn't an amount.
 */
export function readAmount(text: string, currency: string): number | undefined {
  const compact = text.slice(0, 60).replaceAll(/[\s'’\u00A0]|\p{Sc}|\p{L}/gu, '')
  const [, sign = '', digits = ''] = /^(-?|\(?)([\d.,]+)\)?$/.exec(compact) ?? []
  const exponent = currencyExponent(currency)
  const last = Math.max(digits.lastIndexOf('.'), digits.lastIndexOf(','))
  const decimals = last < 0 ? '' : digits.slice(last + 1)
  const mark = digits[last]
  // A single separator before three digits separates thousands, unless the currency has three decimals.
  const isGrouped =
    last >= 0 &&
    decimals.length === 3 &&
    exponent !== 3 &&
    /^\d{1,3}([.,]\d{3})+$/.test(digits) &&
    !digits.replaceAll(mark ?? '', '').match(/[.,]/)
  const whole = (last < 0 || isGrouped ? digits : digits.slice(0, last)).replaceAll(/[.,]/g, '')
  const fraction = isGrouped ? '' : decimals
  if (!/^\d+$/.test(whole + fraction)) return undefined
  const cents = Math.round(Number(`${whole || '0'}.${fraction || '0'}`) * 10 ** exponent)
  return cents <= maxAmountCents ? (sign === '' ? cents : -cents) : undefined
}

/** Reads an amount that is already in minor units. */
export function readCents(text: string): number | undefined {
  const cents = Number(text)
  return /^-?\d{1,13}$/.test(text) && Math.abs(cents) <= maxAmountCents ? cents : undefined
}

/** Reads a currency's code or sign. */
export function readCurrency(text: string): string | undefined {
  const signs: Record<string, string> = { $: 'usd', '€': 'eur', '£': 'gbp', '¥': 'jpy' }
  const code = signs[text] ?? text.toLowerCase()
  return /^[a-z]{3}$/.test(code) && isCurrency(code) ? code : undefined
}

/** Reads a percentage as basis points: `20`, `20%`, `12,5 %`. */
export function readPercent(text: string): number | undefined {
  const number = Number(text.replaceAll(/[\s%]/g, '').replace(',', '.'))
  return text !== '' && number >= 0 && number <= 100 ? Math.round(number * 100) : undefined
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
