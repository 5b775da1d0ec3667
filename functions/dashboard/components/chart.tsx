import { languages } from '../../../lib/languages.ts'
import { type PageTexts, useTexts } from './text.tsx'

/** One point: its time, its value, and the value of the previous period if there is one. */
interface ChartPoint {
  start: Date
  value: number
  before?: number | undefined
  /** Whether the point's interval is still running. */
  isOpen?: boolean
}
export type Interval = 'hour' | 'day' | 'week' | 'month'

interface ChartProps {
  title: string
  points: ChartPoint[]
  interval: Interval
  /** Formats a value for display. */
  format: (value: number) => string
  /** A shorter format for the axis. */
  formatShort?: (value: number) => string
  /** The name of the previous period's value. */
  beforeName?: string
}

const height = 100
const dayMs = 86_400_000

function formatsOf({ language, day }: PageTexts) {
  const { locale } = languages[language]
  const inUtc = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat(locale, { timeZone: 'UTC', ...options })
  return {
    date: day,
    hourOfDay: inUtc({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
    day: inUtc({ month: 'short', day: 'numeric' }),
    month: inUtc({ month: 'short', year: 'numeric' }),
  }
}
type Formats = ReturnType<typeof formatsOf>

/** Rounds `value` up to 1, 2, 4 or 5 times a power of ten, so that axes end at round numbers. */
function niceCeiling(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 4, 5, 10].find((step) => step * power >= value) ?? 10) * power
}

/** Formats a time as the name of its interval. */
function nameOf(start: Date, interval: Interval, formats: Formats): string {
  if (interval === 'hour') return `${formats.date(start)}, ${formats.hourOfDay.format(start)}`
  if (interval === 'month') return formats.month.format(start)
  return interval === 'week' ? `Week of ${formats.date(start)}` : formats.date(start)
}

const everyMonths = (count: number) => (start: Date) => start.getUTCDate() <= 7 && start.getUTCMonth() % count === 0
const everyDays = (count: number) => (start: Date) =>
  start.getUTCHours() === 0 && (start.getTime() / dayMs) % count === 0
const everyHours = (count: number) => (start: Date) => start.getUTCHours() % count === 0
// 5 January 1970 was a Monday.
const everyWeeks = (count: number) => (start: Date) => (start.getTime() / dayMs - 4) % (7 * count) === 0
const firstOfMonth = (count: number) => (start: Date) => start.getUTCDate() === 1 && everyMonths(count)(start)

/** The possible spacings of an axis's labels, closest first. */
const steps: Record<Interval, ((start: Date) => boolean)[]> = {
  hour: [everyHours(1), everyHours(2), everyHours(3), everyHours(6), everyHours(12), everyDays(1)],
  day: [everyDays(1), everyDays(2), everyDays(3), everyWeeks(1), everyWeeks(2), firstOfMonth(1)],
  week: [everyWeeks(1), everyWeeks(2), everyWeeks(4), everyMonths(1), everyMonths(2), everyMonths(3), everyMonths(6)],
  month: [1, 2, 3, 6, 12, 24, 60].map(everyMonths),
}
const mostLabels = 8

/** Chooses the points that get a label: the closest spacing with up to eight labels. */
function labelled(points: ChartPoint[], interval: Interval, formats: Formats): { index: number; text: string }[] {
  const fits = steps[interval]
    .map((isAt) => points.flatMap(({ start }, index) => (isAt(start) ? [{ index, start }] : [])))
    .find(({ length }) => length <= mostLabels)
  const shown = fits && fits.length > 0 ? fits : points.slice(0, 1).map(({ start }) => ({ index: 0, start }))
  return shown.map(({ index, start }) => {
    const isHour = interval === 'hour' && start.getUTCHours() > 0
    const format = isHour ? formats.hourOfDay : interval === 'month' ? formats.month : formats.day
    return { index, text: format.format(start) }
  })
}

/** A small line chart without numbers, next to its figure. */
export function Sparkline({ values }: { values: number[] }) {
  const highest = Math.max(...values, 0)
  if (highest === 0 || values.length < 2) return null
  const line = values.map((value, index) => `${index === 0 ? 'M' : 'L'}${index} ${sparkY(value, highest)}`).join('')
  const last = values.length - 1
  return (
    <svg class="sparkline" viewBox={`0 0 ${last} ${sparkHeight}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="fill" d={`${line}L${last} ${sparkHeight}L0 ${sparkHeight}Z`} />
      <path class="line" d={line} />
    </svg>
  )
}

/** In German, nouns are capitalized inside a sentence too. */
const nounIn = ({ language }: PageTexts, title: string) => (language === 'de' ? title : title.toLowerCase())

const sparkHeight = 20
const sparkY = (value: number, highest: number) =>
  Number((sparkHeight - (Math.max(value, 0) / highest) * (sparkHeight - 2) - 1).toFixed(1))

/**
 * A line chart drawn on the server, with a second line for the previous period. Each point shows its value on hover, on touch, and with the
 * arrow keys. A point is a radio button, so it doesn't need a script. A table repeats the numbers.
 */
export function Chart({ title, points, interval, format, formatShort = format, beforeName }: ChartProps) {
  const texts = useTexts()
  const { t, fixed } = texts
  const formats = formatsOf(texts)
  // Partners only see charts by day.
  const byInterval = fixed(`{title} by ${interval}`, { title })
  const highest = Math.max(...points.map(({ value, before = 0 }) => Math.max(value, before)), 0)
  // At least 4, so the middle of a scale of counts is a whole number.
  const top = niceCeiling(Math.max(highest, 4))
  const best = points.reduce<ChartPoint | undefined>(
    (found, point) => (found && found.value >= point.value ? found : point),
    undefined,
  )
  const isEmpty = highest === 0
  const count = Math.max(points.length, 1)
  const y = (value: number) => Number((height - (Math.max(value, 0) / top) * height).toFixed(1))
  const lineOf = (values: [index: number, value: number][]) =>
    values.map(([index, value], at) => `${at === 0 ? 'M' : 'L'}${index + 0.5} ${y(value)}`).join('')
  const values = points.map(({ value }, index): [number, number] => [index, value])
  const settled = points.at(-1)?.isOpen && points.length > 1 ? values.slice(0, -1) : values
  const before = points.flatMap(({ before: value }, index): [number, number][] =>
    value === undefined ? [] : [[index, value]],
  )
  const isCompared = beforeName !== undefined && before.length > 0
  const textOf = (point: ChartPoint) => format(point.value) + (point.isOpen ? ` ${t('so far')}` : '')
  return (
    <figure class="chart stack tight">
      <div class="plot">
        <div class="scale" aria-hidden="true">
          {(isEmpty ? [] : [top, top / 2]).map((value) => (
            <span>{formatShort(value)}</span>
          ))}
          <span>{formatShort(0)}</span>
        </div>
        <div class="area">
          <svg
            viewBox={`0 0 ${count} ${height}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={
              best && best.value > 0
                ? `${byInterval}, ${t('at most {value} at {time}', { value: format(best.value), time: nameOf(best.start, interval, formats) })}`
                : t('{label}: {value}', { label: byInterval, value: t('none') })
            }
          >
            {[0, height / 2, height].map((at) => (
              <line class="grid" x1="0" x2={count} y1={at} y2={at} />
            ))}
            {!isEmpty && (
              <>
                <path class="fill" d={`${lineOf(values)}L${count - 0.5} ${height}L0.5 ${height}Z`} />
                {isCompared && <path class="before" d={lineOf(before)} />}
                <path class="line" d={points.length === 1 ? `M0 ${y(values[0]?.[1] ?? 0)}H1` : lineOf(settled)} />
                {settled.length < values.length && <path class="line open" d={lineOf(values.slice(-2))} />}
              </>
            )}
          </svg>
          <div class="points" role="radiogroup" aria-label={t('{title}. Use the arrow keys to move.', { title })}>
            {points.map((point, index) => (
              <label class={index * 2 < points.length ? undefined : 'late'}>
                <input type="radio" name={`point-${title}`} />
                <span>
                  <b>{textOf(point)}</b>
                  {nameOf(point.start, interval, formats)}
                  {isCompared && point.before !== undefined && (
                    <i>
                      {format(point.before)} {beforeName}
                    </i>
                  )}
                </span>
              </label>
            ))}
          </div>
          {isEmpty && <p class="nothing muted">{t('No {title} in this period', { title: nounIn(texts, title) })}</p>}
        </div>
        <svg class="axis" aria-hidden="true">
          {labelled(points, interval, formats).map(({ index, text }, at) => (
            <text
              class={at % 2 === 1 ? 'odd' : undefined}
              x={`${Number((((index + 0.5) / count) * 100).toFixed(2))}%`}
              y="1em"
            >
              {text}
            </text>
          ))}
        </svg>
      </div>
      {isCompared && (
        <figcaption class="legend small muted">
          <span class="now">{title}</span> <span class="then">{beforeName}</span>
        </figcaption>
      )}
      <details class="more small">
        <summary>{t('Show as a table')}</summary>
        <div class="scroll-y" tabindex={0} role="region" aria-label={byInterval}>
          <table>
            <thead>
              <tr>
                <th scope="col">
                  {interval === 'hour' ? 'Hour (UTC)' : fixed((interval[0]?.toUpperCase() ?? '') + interval.slice(1))}
                </th>
                <th scope="col" class="right">
                  {title}
                </th>
                {isCompared && (
                  <th scope="col" class="right">
                    {beforeName}
                  </th>
                )}
              </tr>
            </thead>
            <tbody>
              {points.toReversed().map((point) => (
                <tr>
                  <td>{nameOf(point.start, interval, formats)}</td>
                  <td class="right">{textOf(point)}</td>
                  {isCompared && <td class="right">{point.before === undefined ? '' : format(point.before)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  )
}
