import { majorUnits, writeAmount } from '../../../lib/money.ts'
import { useTexts } from './text.tsx'

const defaultLocale = 'en-US'
const dateFormat = new Intl.DateTimeFormat(defaultLocale, { dateStyle: 'medium', timeZone: 'UTC' })
const timeFormat = new Intl.DateTimeFormat(defaultLocale, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' })
const numberFormat = new Intl.NumberFormat(defaultLocale)

export function formatNumber(value: number): string {
  return numberFormat.format(value)
}

/** Formats a count with the singular or the plural. */
export function counted(count: number, one: string, many: string): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`
}

/** Formats an amount in major units. */
export const formatAmount = (amount: number, currency: string) => writeAmount(amount, currency, defaultLocale)

/** Formats an amount in minor units for an axis: `$0.50`, `$1,200`, `$12K`. */
export function formatAxis(cents: number, currency: string, locale = defaultLocale): string {
  const amount = majorUnits(cents, currency)
  return writeAmount(amount, currency, locale, Math.abs(amount) < 10_000 ? 'short' : 'compact')
}

export function formatDate(date: Date | string): string {
  return dateFormat.format(new Date(date))
}

/** Formats a time inside a sentence, with its time zone. */
export function formatTime(at: Date): string {
  return `${timeFormat.format(at)} UTC`
}

/**
 * Isolates a name inside a sentence, so a right-to-left name does not reorder the words and amounts beside it. Names in their own element
 * do not need this.
 */
export function isolated(name: string): string {
  return `\u2068${name}\u2069`
}

/**
 * Shows a time: in UTC on the pages of programs, because all figures use UTC days, and in the reader's time zone on the pages for partners.
 * Before that zone is known, the time says that it is in UTC, and the script converts it.
 */
export function Time({ at }: { at: Date | string }) {
  const moment = new Date(at)
  const { zone, localTime } = useTexts()
  return (
    <time
      class="number"
      datetime={moment.toISOString()}
      title={moment.toISOString()}
      data-local={zone === undefined ? undefined : true}
    >
      {localTime(moment)}
      {zone === null && ' UTC'}
    </time>
  )
}

export function Day({ at }: { at: Date | string }) {
  return (
    <time class="number" datetime={new Date(at).toISOString()}>
      {useTexts().day(at)}
    </time>
  )
}
