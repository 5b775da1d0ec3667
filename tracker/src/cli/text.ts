import { styleText } from 'node:util'

/** Formats an amount in the currency's major unit, with its code. */
export function money(cents: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency, currencyDisplay: 'code' })
  return format.format(cents / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2))
}

/** Formats the day of a time. */
export const day = (time: string | null) => time && time.slice(0, 10)

const tones = {
  active: 'green',
  approved: 'green',
  paid: 'green',
  delivered: 'green',
  pending: 'yellow',
  waiting: 'yellow',
  unverified: 'dim',
  rejected: 'red',
  requested: 'yellow',
  inactive: 'dim',
  ended: 'dim',
  canceled: 'dim',
  to_fetch: 'dim',
  reversed: 'red',
  refunded: 'red',
  refused: 'red',
  failed: 'red',
} as const satisfies Record<string, Parameters<typeof styleText>[0]>
const isTone = (text: string): text is keyof typeof tones => Object.hasOwn(tones, text)

export const style = (tone: Parameters<typeof styleText>[0], text: string) =>
  styleText(tone, text, { stream: process.stdout })
export const green = (text: string) => style('green', text)
export const red = (text: string) => style('red', text)
/** Removes control characters from other people's text, so that the text can't move the cursor or color the terminal. */
export const plain = (value: string | number | null) => String(value ?? '').replaceAll(/\p{Cc}|\p{Cf}/gu, '')

/** Formats rows as a table with columns that fit their cells. Colors states if the terminal supports colors. */
export function table(titles: string[], rows: string[][]): string {
  const widths = titles.map((title, index) => Math.max(title.length, ...rows.map((row) => row[index]?.length ?? 0)))
  const line = (cells: string[], tone: (cell: string) => string) =>
    cells
      .map((cell, index) => tone(cell) + ' '.repeat((widths[index] ?? 0) - cell.length))
      .join('  ')
      .trimEnd()
  return [
    line(titles, (title) => style('dim', title)),
    ...rows.map((row) => line(row, (cell) => (isTone(cell) ? style(tones[cell], cell) : cell))),
  ].join('\n')
}

/** The fields of an item. `inLines` skips fields without a value. */
export type Fields = [name: string, value: string | number | null][]

/** Formats one item with a line for each field that has a value. */
export function inLines(fields: Fields): string {
  const present = fields.filter(([, value]) => value !== null && value !== '')
  const width = Math.max(...present.map(([name]) => name.length))
  return present.map(([name, value]) => `${style('dim', plain(name).padEnd(width))}  ${plain(value)}`).join('\n')
}
