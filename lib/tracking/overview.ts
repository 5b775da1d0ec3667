import { call } from '../database.ts'
import type { DatabaseFunctions, GroupingName } from '../schema.ts'
import { campaignNames } from './campaign.ts'
import { ratio } from './performance-answer.ts'
import { dayMs, fixedRange, type PerformanceQuery, startOfDay } from './performance-range.ts'

/** The breakdowns and filters of the overview. */
export const breakdowns = [
  'partner',
  'link',
  'code',
  'referrer',
  'country',
  'device',
  'page',
  ...campaignNames,
] as const satisfies GroupingName[]
export type BreakdownName = (typeof breakdowns)[number]

/** Breakdowns whose values are ids with names. */
const namedById = ['partner', 'link', 'code'] as const satisfies BreakdownName[]
type NamedById = (typeof namedById)[number]
export const isNamedById = (name: BreakdownName): name is NamedById => namedById.some((one) => one === name)

/** The metrics of the overview's chart. A conversion rate is conversions per hundred clicks. */
export const chartMetrics = ['clicks', 'leads', 'sales', 'revenue', 'commission', 'conversion'] as const
export type ChartMetric = (typeof chartMetrics)[number]

/** The chart's intervals, with the maximum number of days for each. A chart with more than a hundred points is unreadable. */
const chartIntervals = { hour: 4, day: 100, week: 700, month: Infinity } as const
export type ChartInterval = keyof typeof chartIntervals

export interface OverviewQuery extends PerformanceQuery {
  /** The default is revenue if there was any, or else clicks. */
  metric?: ChartMetric | undefined
  interval?: ChartInterval | undefined
  /** The currency of the money, in lower case. Sales are counted in all currencies. */
  currency: string
  /** Filters: the only values to count. Null counts events without a value. */
  filters: Filters
}
/** Ids of partners, links and codes are text. */
export type Filters = { [Name in BreakdownName]?: string | null }

/** The figures of a period. Money is in minor units. */
export interface Figures {
  clicks: number
  leads: number
  conversions: number
  sales: number
  revenue_cents: number
  commission_cents: number
  refunded_cents: number
}

interface Point {
  /** The interval's first day in the range, or its hour. */
  start: Date
  /** Whether the interval has not ended yet. */
  isOpen: boolean
  /** A count, minor units, or a percentage. */
  value: number
  /**
   * The same figure for the previous period, up to the same point if the interval is open. Undefined without a previous
   * period.
   */
  before: number | undefined
}

/** One value of a breakdown. Null stands for events without a value, and an empty text for values without separate totals. */
export interface BreakdownRow {
  value: string | null
  /** The partner's name, the link's code or the partner's code. */
  label: string | null
  /** The figure of the metric: a count, minor units, or the conversions of a conversion rate. */
  amount: number
  /** Only for a conversion rate. */
  clicks: number
}

export interface Overview {
  metric: ChartMetric
  interval: ChartInterval
  /** The intervals that suit the range. */
  intervals: ChartInterval[]
  /** The number of days in the range, and whether the previous period is compared. */
  days: number
  isCompared: boolean
  /** Whether the previous period began before the program, so it isn't compared. */
  lacksBaseline: boolean
  /**
   * If filters match too many events, this is the time from which events were read. It applies to the breakdowns and, with two filters, to
   * all figures.
   */
  readFrom: Date | undefined
  /** The start of the kept clicks, if earlier clicks are missing from the breakdowns or from all figures. */
  clicksSince: Date | undefined
  points: Point[]
  /** All figures of each point. */
  figures: Figures[]
  /** The totals of the range, and of the previous period up to the same point. */
  total: Figures
  before: Figures
  /** The names of the partner, link and code in the filters. */
  labels: { [Name in NamedById]?: string }
  /** The first values and the number of values. */
  breakdowns: Record<BreakdownName, { count: number; rows: BreakdownRow[] }>
}

const rowsOfBreakdown = 8

/** The whole UTC days of a query, as Unix milliseconds. `until` is the end of the last day, or of today if the last day is later. */
function daysOf(query: PerformanceQuery, createdAt: Date, now: number) {
  const { from, to } = fixedRange(query, now) ?? { from: createdAt.getTime(), to: now }
  const today = startOfDay(now)
  const first = Math.min(Math.max(startOfDay(from), 0), today)
  const until = Math.min(Math.max(startOfDay(to), first), today) + dayMs
  const isAll = query.period === 'all' && !(query.dateFrom && query.dateTo)
  return { from: first, until, days: Math.round((until - first) / dayMs), isCompared: !isAll }
}

/** Returns the requested interval, or the finest readable interval for this many days. */
function intervalOf({ interval }: OverviewQuery, days: number): ChartInterval {
  if (interval && days <= chartIntervals[interval]) return interval
  return intervalNames.find((name) => days <= (name === 'hour' ? 2 : chartIntervals[name])) ?? 'month'
}

const quarterMs = 15 * 60 * 1000

/**
 * Returns the counted clicks of an overview, for ClickHouse. Undefined with two filters, because Postgres then reads single clicks. The
 * previous period ends with the quarter of an hour of `now`, as in `read_series`.
 */
export function overviewClicks(program: { createdAt: Date }, query: OverviewQuery, now: number) {
  const { from, until, days, isCompared } = daysOf(query, program.createdAt, now)
  const [filter, ...more] = breakdowns.filter((name) => query.filters[name] !== undefined)
  if (more.length > 0) return undefined
  const shift = days * dayMs
  const starts = startsOf(intervalOf(query, days), from, until).map((start) => Math.max(start, from))
  const before = starts.map((start) => start - shift)
  const beforeUntil = Math.min(from, (Math.floor((now - shift) / quarterMs) + 1) * quarterMs)
  const all = isCompared ? [...before.filter((start) => start < beforeUntil), beforeUntil, ...starts] : starts
  const series = { metrics: ['clicks'], starts: [...new Set(all)].map(asDate), until: asDate(until) } as const
  if (filter) {
    const value = query.filters[filter] ?? undefined
    return value === undefined
      ? [{ ...series, names: [filter, 'all'] as const, isSummed: true }]
      : [{ ...series, names: [filter], value }]
  }
  return [
    { ...series, names: ['all'] as const },
    { ...series, names: breakdowns, starts: [asDate(from)] },
  ]
}

const asDate = (ms: number) => new Date(ms)

/** Builds the statements for `asOverview` with the same query and `now`. `clickCells` are the counted clicks from ClickHouse. */
export function overviewStatements(
  program: { id: number; createdAt: Date },
  query: OverviewQuery,
  now: number,
  clickCells: string | null = null,
) {
  const { from, until, days, isCompared } = daysOf(query, program.createdAt, now)
  const filters = JSON.stringify(query.filters)
  return [
    call('read_series', {
      of_program_id: program.id,
      filters,
      starts: startsOf(intervalOf(query, days), from, until).map((start) => new Date(Math.max(start, from))),
      until: new Date(until),
      days_before: isCompared ? days : 0,
      of_currency: query.currency,
      moment: new Date(now),
      click_cells: clickCells,
    }),
    call('read_breakdowns', {
      of_program_id: program.id,
      filters,
      from_time: new Date(from),
      until: new Date(until),
      asked_metric: query.metric ?? null,
      of_currency: query.currency,
      max_values: rowsOfBreakdown,
      click_cells: clickCells,
    }),
  ] as const
}

type SeriesRow = DatabaseFunctions['read_series']['row']
type GroupRow = DatabaseFunctions['read_breakdowns']['row']

export function asOverview(
  { series, groups, clicksKept }: { series: SeriesRow[]; groups: GroupRow[]; clicksKept: Date | undefined },
  program: { createdAt: Date },
  query: OverviewQuery,
  now: number,
): Overview {
  const { from, until, days, isCompared: isAsked } = daysOf(query, program.createdAt, now)
  const read = Date.parse(groups.find(({ breakdown }) => breakdown === 'read_from')?.value ?? '')
  const readFrom = read > from ? read : undefined
  const seriesFrom = series.find((row) => row.n === null)?.read_from?.getTime()
  const lacksBaseline = isAsked && from - days * dayMs < startOfDay(program.createdAt.getTime())
  const isCompared = isAsked && !lacksBaseline && (seriesFrom === undefined || seriesFrom < from)
  const isFiltered = Object.keys(query.filters).length > 0
  const lacksClicks = isFiltered && clicksKept && from < clicksKept.getTime() && program.createdAt < clicksKept
  const interval = intervalOf(query, days)
  const known: string | null | undefined = groups[0]?.of_metric
  const metric =
    query.metric ??
    chartMetrics.find((name) => name === known) ??
    (series.some((row) => row.metric === 'revenue' && (row.amount ?? 0) > 0) ? 'revenue' : 'clicks')
  const current = new Map<number, Figures>()
  const previous = new Map<number, Figures>()
  const total = noFigures()
  const before = noFigures()
  for (const { n, is_before, metric: name, amount } of series) {
    const figure = figureOf.get(name ?? '')
    if (n === null || !figure) continue
    const side = is_before ? previous : current
    const figures = side.get(n) ?? noFigures()
    side.set(n, figures)
    figures[figure] += amount ?? 0
    const sum = is_before ? before : total
    sum[figure] += amount ?? 0
  }
  const begins = Math.max(from, seriesFrom ?? from)
  const shown = startsOf(interval, from, until).flatMap((start, index, starts) => {
    const ends = starts[index + 1] ?? until
    if (ends <= begins || start > now) return []
    const figures = current.get(index + 1) ?? noFigures()
    const point: Point = {
      start: new Date(Math.max(start, from)),
      isOpen: ends > now,
      value: valueOf(metric, figures),
      before: isCompared ? valueOf(metric, previous.get(index + 1)) : undefined,
    }
    return [{ point, figures }]
  })
  const rowsOf = (name: BreakdownName) => {
    const rows = groups.filter(({ breakdown }) => breakdown === name)
    return {
      count: rows[0]?.values ?? 0,
      rows: rows.map(({ value, label, amount, clicks }) => ({
        value,
        label,
        amount: amount ?? 0,
        clicks: clicks ?? 0,
      })),
    }
  }
  return {
    metric,
    interval,
    intervals: intervalNames.filter((name) => days <= chartIntervals[name]),
    days,
    isCompared,
    lacksBaseline,
    readFrom: readFrom === undefined ? undefined : new Date(readFrom),
    clicksSince: lacksClicks ? clicksKept : undefined,
    points: shown.map(({ point }) => point),
    figures: shown.map(({ figures }) => figures),
    total,
    before,
    labels: Object.fromEntries(
      groups.flatMap(({ breakdown, value, label }) =>
        breakdown === 'label' && value && label ? [[value, label]] : [],
      ),
    ),
    breakdowns: {
      partner: rowsOf('partner'),
      link: rowsOf('link'),
      code: rowsOf('code'),
      referrer: rowsOf('referrer'),
      country: rowsOf('country'),
      device: rowsOf('device'),
      page: rowsOf('page'),
      utm_source: rowsOf('utm_source'),
      utm_medium: rowsOf('utm_medium'),
      utm_campaign: rowsOf('utm_campaign'),
      utm_term: rowsOf('utm_term'),
      utm_content: rowsOf('utm_content'),
      sub1: rowsOf('sub1'),
      sub2: rowsOf('sub2'),
      sub3: rowsOf('sub3'),
    },
  }
}

const intervalNames = ['hour', 'day', 'week', 'month'] as const satisfies ChartInterval[]

/** Returns the starts of a range's intervals (UTC, weeks on Mondays). The first can be earlier than the range. */
function startsOf(interval: ChartInterval, from: number, until: number): number[] {
  const starts: number[] = []
  if (interval === 'month') {
    const first = new Date(from)
    for (let month = first.getUTCMonth(); ; month++) {
      const start = Date.UTC(first.getUTCFullYear(), month, 1)
      if (start >= until) return starts
      starts.push(start)
    }
  }
  // 1 January 1970 was a Thursday.
  const first = interval === 'week' ? from - ((from / dayMs + 3) % 7) * dayMs : from
  const step = interval === 'hour' ? dayMs / 24 : interval === 'day' ? dayMs : 7 * dayMs
  for (let start = first; start < until; start += step) starts.push(start)
  return starts
}

function valueOf(metric: ChartMetric, figures = noFigures()): number {
  if (metric === 'revenue') return figures.revenue_cents
  if (metric === 'commission') return figures.commission_cents
  if (metric === 'conversion') return ratio(figures.conversions * 100, figures.clicks, 2)
  return figures[metric]
}

const noFigures = (): Figures => ({
  clicks: 0,
  leads: 0,
  conversions: 0,
  sales: 0,
  revenue_cents: 0,
  commission_cents: 0,
  refunded_cents: 0,
})

const figureOf = new Map<string, keyof Figures>([
  ['clicks', 'clicks'],
  ['leads', 'leads'],
  ['conversions', 'conversions'],
  ['sales', 'sales'],
  ['revenue', 'revenue_cents'],
  ['commission', 'commission_cents'],
  ['refunded', 'refunded_cents'],
])
