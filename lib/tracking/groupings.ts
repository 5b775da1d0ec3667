import type { ClickHouse } from '../click-house.ts'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { DatabaseFunctions, GroupedMetric, GroupingName } from '../schema.ts'
import { campaignNames } from './campaign.ts'
import { fromClickHouse, readClickCells } from './click-reads.ts'
import { clicksUntil, sinkStatement } from './click-sink.ts'
import { ratio } from './performance-answer.ts'
import { dayMs } from './performance-range.ts'

/** The groupings of performance. Addresses are grouped by referring host, or by page without its query. */
export const groupings = [
  'partner',
  'link',
  'code',
  'country',
  'device',
  'browser',
  'referrer',
  'page',
  ...campaignNames,
] as const satisfies GroupingName[]

/** The figures of a group, each with the totals from which it is computed. */
const totalsOf = {
  clicks: ['clicks'],
  bot_clicks: ['bot_clicks'],
  leads: ['leads'],
  conversions: ['conversions'],
  sales: ['sales'],
  revenue_cents: ['revenue'],
  refunded_cents: ['refunded'],
  commission_cents: ['commission'],
  conversion_rate: ['conversions', 'clicks'],
  average_order_cents: ['revenue', 'conversions'],
} as const satisfies Record<string, GroupedMetric[]>
export type Metric = keyof typeof totalsOf
export const metrics = [
  'clicks',
  'bot_clicks',
  'leads',
  'conversions',
  'sales',
  'revenue_cents',
  'refunded_cents',
  'commission_cents',
  'conversion_rate',
  'average_order_cents',
] as const satisfies Metric[]

export const intervals = ['hour', 'day', 'week', 'month'] as const

export interface GroupsQuery {
  /** Undefined if the query only requests the total. */
  groupBy: (typeof groupings)[number] | undefined
  /** Days in `timeZone` (YYYY-MM-DD), both inclusive. */
  from: string
  to: string
  /** A name in the IANA list. */
  timeZone: string
  interval: (typeof intervals)[number] | undefined
  metrics: readonly Metric[]
  /** One of `metrics`. */
  sort: Metric
  order: 'asc' | 'desc'
  limit: number
  /** In lower case. Undefined for the program's own currency. */
  currency: string | undefined
}

type Figures = { [Name in Metric]?: number }
/** Figures of an hour, day, week or month that begins at `start` in the query's time zone. */
type Interval = { start: string } & Figures

/** One value of a grouping. */
export type Group = {
  /** For example a partner's or link's id as text, or a two-letter country. Null for events without a value. */
  value: string | null
  /** A partner's name or a link's code. */
  label?: string
  /** Marks the group of all values beyond each day's first 200. */
  is_rest?: true
  intervals?: Interval[]
} & Figures

export interface Groups {
  /** The currency of the money. */
  currency: string
  /** Set if later clicks may be missing. */
  clicksUntil?: Date
  total: Figures & { intervals?: Interval[] }
  groups: Group[]
}

type Row = DatabaseFunctions['read_groups']['row']

/**
 * Reads a program's performance by the values of a grouping: the first values by `sort`, and the total of the program. Both have intervals
 * if the query requests them. Counts clicks, leads and sales up to about a minute ago. With `clickHouse`, the clicks come from
 * there. They are complete up to `clicksUntil`, or as exact as the others if it is undefined.
 */
export async function readGroups(
  db: Database,
  programId: number,
  query: GroupsQuery,
  clickHouse?: ClickHouse,
): Promise<Groups> {
  const cells = await fromClickHouse(clickHouse, (server) => clickCells(db, programId, query, server))
  const currency = kysely.selectFrom('programs').select('currency').where('id', '=', programId)
  const groups = groupsStatement(programId, query, cells?.result)
  const [rows, programs, [sink]] = await db.batch([groups, currency, sinkStatement()])
  const own = programs[0]?.currency
  if (own === undefined) throw new Error('This program does not exist.')
  const until = cells?.result && clicksUntil(cells.progress, sink)
  return { currency: query.currency ?? own, ...asGroups(rows, query), ...(until && { clicksUntil: until }) }
}

/** The totals of a query's metrics. */
const totalsIn = ({ metrics: names }: GroupsQuery) => [
  ...new Set(names.flatMap((metric): readonly GroupedMetric[] => totalsOf[metric])),
]

/** Reads the counted clicks of a query, or returns undefined if it needs none. Postgres knows the starts of days in time zones. */
async function clickCells(db: Database, programId: number, query: GroupsQuery, clickHouse: ClickHouse) {
  const { groupBy, from, to, timeZone: zone, interval } = query
  const clicked = totalsIn(query).filter((name) => name === 'clicks' || name === 'bot_clicks')
  if (clicked.length === 0) return undefined
  const whole = (first: string, last: string, every: string | null) =>
    call('intervals_of_days', { first_day: first, last_day: last, every, zone })
  const next = new Date(Date.parse(to) + dayMs).toISOString().slice(0, 10)
  const [cuts, [first], [end]] = await db.batch([
    whole(from, to, interval ?? null),
    whole(from, from, null),
    whole(next, next, null),
  ])
  const begins = first?.at
  if (!begins || !end?.at) throw new Error('The database has no start of these days.')
  const starts = cuts.flatMap(({ at }) => (at && at > begins ? [at] : []))
  const names = groupBy ? ([groupBy, 'all'] as const) : (['all'] as const)
  return await readClickCells(clickHouse, programId, [
    { names, metrics: clicked, starts: [begins, ...starts.toSorted((a, b) => Number(a) - Number(b))], until: end.at },
  ])
}

export function groupsStatement(programId: number, query: GroupsQuery, cells: string | null = null) {
  return call('read_groups', {
    of_program_id: programId,
    by_name: query.groupBy ?? 'all',
    metrics: totalsIn(query),
    sort_metrics: [...totalsOf[query.sort]],
    is_ascending: query.order === 'asc',
    max_groups: query.limit,
    of_currency: query.currency ?? null,
    first_day: query.from,
    last_day: query.to,
    every: query.interval ?? null,
    zone: query.timeZone,
    click_cells: cells,
  })
}

function asGroups(rows: Row[], query: GroupsQuery): Omit<Groups, 'currency' | 'clicksUntil'> {
  const places = Map.groupBy(rows, ({ place }) => place ?? 0)
  const whole = places.get(0) ?? []
  places.delete(0)
  const groups = [...places.values()].map((ofGroup): Group => {
    const [first] = ofGroup
    return {
      value: first?.value || null,
      ...(first?.label != null && { label: first.label }),
      ...(first?.value === '' && { is_rest: true as const }),
      ...figuresOf(ofGroup, query, whole),
    }
  })
  return { total: figuresOf(whole, query, whole), groups }
}

/** Builds the figures of some rows. With an interval, also returns one entry for each interval of the total, even if it has no rows. */
function figuresOf(rows: Row[], query: GroupsQuery, whole: Row[]) {
  if (!query.interval) return sumOf(rows, query.metrics)
  const byStart = Map.groupBy(rows, ({ starts }) => starts?.getTime())
  const cut = whole.map((row) => ({
    start: startOf(row, query.interval === 'hour'),
    ...sumOf(byStart.get(row.starts?.getTime()) ?? [], query.metrics),
  }))
  return { ...sumOf(rows, query.metrics), intervals: cut }
}

const digits = (value: number) => String(Math.floor(Math.abs(value))).padStart(2, '0')

/** Formats an interval's first day, or the time of an hour as ISO 8601 in the time zone. */
function startOf({ starts, starts_local: local }: Row, isHour: boolean): string {
  if (!starts || !local) return ''
  if (!isHour) return local.slice(0, 10)
  const minutes = Math.round((Date.parse(`${local}Z`) - starts.getTime()) / 60_000)
  return `${local}${minutes < 0 ? '-' : '+'}${digits(minutes / 60)}:${digits(minutes % 60)}`
}

function sumOf(rows: Row[], names: readonly Metric[]): Figures {
  const sum = (name: Exclude<Metric, 'conversion_rate' | 'average_order_cents'>) =>
    rows.reduce((total, row) => total + (row[name] ?? 0), 0)
  const figure = (name: Metric): number => {
    if (name === 'conversion_rate') return ratio(sum('conversions') * 100, sum('clicks'), 2)
    if (name === 'average_order_cents') return ratio(sum('revenue_cents'), sum('conversions'), 0)
    return sum(name)
  }
  return Object.fromEntries(names.map((name) => [name, figure(name)]))
}
