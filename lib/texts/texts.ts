import { formatMoney } from '../money.ts'
import { type Language, languages, widenSpaces } from '../languages.ts'

/** A message, or its singular and plural. `count` chooses between them. */
type Forms = string | { one: string; other: string }

/**
 * Messages by their English text. `{name}` is a value, and `<name>…</name>` is an element of the page. `en` has the English forms of a
 * message with a count.
 */
export type Messages = Record<string, Record<Exclude<Language, 'en'>, Forms> & { en?: Forms }>

/** The names of the values in a message. */
export type ValueNames<Key extends string> = Key extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ValueNames<Rest>
  : never

/** The values of a message. Messages without values don't take a second parameter. */
type Values<Key extends string> = [ValueNames<Key>] extends [never]
  ? []
  : [values: Record<ValueNames<Key>, string | number>]

/** The texts and formats of one language, with the messages of one table. */
export interface Texts<Table extends Messages = Messages> {
  language: Language
  /** Translates a message. Numbers are formatted for the language. */
  t: <Key extends keyof Table & string>(key: Key, ...values: Values<Key>) => string
  /**
   * Translates a fixed English text that is not typed as a key: a label that partners and programs share, or an error. A text without a
   * translation stays English.
   */
  fixed: (text: string, values?: Record<string, string | number>) => string
  number: (value: number) => string
  /** Formats basis points: 1250 are `12.5%`. */
  percent: (basisPoints: number) => string
  /** Formats an amount in minor units. */
  money: (cents: number, currency: string) => string
  /** Formats a day, a time and a month in UTC. */
  day: (at: Date | string) => string
  time: (at: Date | string) => string
  month: (at: Date) => string
  /** Joins names: `a, b and c`. */
  list: (names: string[]) => string
}

const inserted = /\{(\w+)\}/g

/** Creates the texts of a language from a table of messages. */
export function createTexts<Table extends Messages>(table: Table, language: Language): Texts<Table> {
  const { locale } = languages[language]
  const dates = (options: Intl.DateTimeFormatOptions) => {
    let format: Intl.DateTimeFormat | undefined
    return (at: Date | string) =>
      (format ??= new Intl.DateTimeFormat(locale, { ...options, timeZone: 'UTC' })).format(new Date(at))
  }
  const numbers = new Intl.NumberFormat(locale)
  const number = (value: number) => widenSpaces(numbers.format(value))
  const plurals = new Intl.PluralRules(locale)
  const write = (key: string, values: Record<string, string | number> = {}) => {
    const forms: Forms = (Object.hasOwn(table, key) ? table[key]?.[language] : undefined) ?? key
    const count = values['count']
    const isOne = typeof count === 'number' && plurals.select(count) === 'one'
    const text = typeof forms === 'string' ? forms : isOne ? forms.one : forms.other
    return text.replaceAll(inserted, (whole, name: string) => {
      const value = Object.hasOwn(values, name) ? values[name] : undefined
      return typeof value === 'number' ? number(value) : (value ?? whole)
    })
  }
  return {
    language,
    t: (key, ...[values]) => write(key, values),
    fixed: write,
    number,
    percent: (basisPoints) =>
      widenSpaces(
        new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 2 }).format(basisPoints / 10_000),
      ),
    money: (cents, currency) => formatMoney(cents, currency, locale),
    day: dates({ dateStyle: 'medium' }),
    time: dates({ dateStyle: 'medium', timeStyle: 'short' }),
    month: dates({ month: 'long', year: 'numeric' }),
    list: (names) => new Intl.ListFormat(locale).format(names),
  }
}
