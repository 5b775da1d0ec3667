import { type RawBuilder, sql } from 'kysely'
import type { Access } from '../access/program-access.ts'
import type { Database } from '../database.ts'
import { currencyExponent, majorUnits } from '../money.ts'

/** One calendar day (UTC) of a range. Money is in the currency's major unit. */
export interface DayPerformance {
  date: string
  /** The same as `date`. */
  period: string
  clicks: number
  leads: number
  conversions: number
  revenue: number
  partners: number
  /** Always 0; paid sales stand in `metrics.totalSales`. */
  sales: 0
  /** What is left after reversals of the commissions made that day. */
  commission: number
}

export interface Trend {
  /** Change against the previous period in percent, without its sign, rounded to one decimal. */
  trend: number
  trendDirection: 'up' | 'down' | 'stable'
}

export interface Performance {
  data: DayPerformance[]
  metrics: {
    totalClicks: number
    totalLeads: number
    totalConversions: number
    totalRevenue: number
    /** Conversions per hundred clicks, rounded to two decimals. */
    conversionRate: number
    averageOrderValue: number
    totalPartners: number
    /** Paid sales in any currency. */
    totalSales: number
    totalPartnersCommission: number
    clicksTrend: Trend
    leadsTrend: Trend
    conversionsTrend: Trend
    revenueTrend: Trend
    partnersTrend: Trend
    salesTrend: Trend
    commissionTrend: Trend
    /** By currency, what the figures above leave out because it is not in the program's own. */
    otherCurrencies: Record<string, { totalRevenue: number; totalSales: number; totalPartnersCommission: number }>
  }
  meta: {
    period: string
    dateFrom: string
    dateTo: string
    previousPeriod: { dateFrom: string; dateTo: string }
  }
}

const hourMs = 60 * 60 * 1000
const dayMs = 24 * hourMs
const periodDays = { '7d': 7, '30d': 30, '90d': 90 }

/** Unix milliseconds. Both bounds belong to it. */
interface Range {
  from: number
  to: number
}

type Program = Pick<NonNullable<Access['program']>, 'id' | 'currency' | 'createdAt'>

interface PerformanceQuery {
  period?: keyof typeof periodDays | 'all' | undefined
  dateFrom?: Date | undefined
  dateTo?: Date | undefined
}

/** `performanceStatement` and its answer, in a request of their own. */
export async function readPerformance(
  db: Database,
  program: Program,
  query: PerformanceQuery,
  now = Date.now(),
): Promise<Performance> {
  return asPerformance(await db.query(performanceStatement(program.id, query, now)), program, query, now)
}

/**
 * A program's figures for each day of a range, their totals, and how the totals changed against the range of the same length
 * right before it, from the rows of `performanceStatement` for the same query and `now`. Days are UTC. The range is `dateFrom` to
 * `dateTo` where both are given; else `period`: that many days with today, or `all` since the program was made.
 */
export function asPerformance(
  rows: PerformanceRow[],
  program: Program,
  query: PerformanceQuery,
  now: number,
): Performance {
  const createdAt = program.createdAt.getTime()
  const current = fixedRange(query, now) ?? { from: createdAt, to: Math.max(createdAt, now) }
  const previous = rangeBefore(current)
  const period = query.period ?? (query.dateFrom && query.dateTo ? 'all' : '7d')

  const days = new Map<string, Figures>()
  for (let day = startOf(dayMs, current.from); day <= current.to; day += dayMs) {
    days.set(new Date(day).toISOString().slice(0, 10), noFigures())
  }
  const total = noFigures()
  const before = noFigures()
  const others = new Map<string, Figures>()
  for (const row of rows) {
    const ofProgram = row.currency === null || row.currency === program.currency
    if (row.day === null) {
      add(before, row, ofProgram)
      continue
    }
    add(total, row, ofProgram)
    add(days.get(row.day) ?? noFigures(), row, ofProgram)
    if (row.currency === null || ofProgram) continue
    const other = others.get(row.currency) ?? noFigures()
    add(other, row, true)
    others.set(row.currency, other)
  }
  const money = (cents: number) => majorUnits(cents, program.currency)
  return {
    data: [...days].map(([date, day]) => ({
      date,
      period: date,
      clicks: day.clicks,
      leads: day.leads,
      conversions: day.conversions,
      revenue: money(day.revenue_cents),
      partners: day.partners,
      sales: 0,
      commission: money(day.commission_cents),
    })),
    metrics: {
      totalClicks: total.clicks,
      totalLeads: total.leads,
      totalConversions: total.conversions,
      totalRevenue: money(total.revenue_cents),
      conversionRate: ratio(total.conversions * 100, total.clicks, 2),
      averageOrderValue: averageOf(total.revenue_cents, total.conversions, program.currency),
      totalPartners: total.partners,
      totalSales: total.sales,
      totalPartnersCommission: money(total.commission_cents),
      clicksTrend: trendOf(total.clicks, before.clicks),
      leadsTrend: trendOf(total.leads, before.leads),
      conversionsTrend: trendOf(total.conversions, before.conversions),
      revenueTrend: trendOf(total.revenue_cents, before.revenue_cents),
      partnersTrend: trendOf(total.partners, before.partners),
      salesTrend: trendOf(total.sales, before.sales),
      commissionTrend: trendOf(total.commission_cents, before.commission_cents),
      otherCurrencies: Object.fromEntries(
        [...others].map(([currency, other]) => [
          currency,
          {
            totalRevenue: majorUnits(other.revenue_cents, currency),
            totalSales: other.sales,
            totalPartnersCommission: majorUnits(other.commission_cents, currency),
          },
        ]),
      ),
    },
    meta: {
      period,
      dateFrom: new Date(current.from).toISOString(),
      dateTo: new Date(current.to).toISOString(),
      previousPeriod: {
        dateFrom: new Date(previous.from).toISOString(),
        dateTo: new Date(previous.to).toISOString(),
      },
    },
  }
}

/** The beginning of the UTC hour (`unit` is `hourMs`) or day (`dayMs`) that `time` is in. */
function startOf(unit: number, time: number): number {
  return Math.floor(time / unit) * unit
}

/** The range of a query; undefined for `all`, which begins when the program was made. */
function fixedRange({ period = '7d', dateFrom, dateTo }: PerformanceQuery, now: number): Range | undefined {
  if (dateFrom && dateTo) return { from: dateFrom.getTime(), to: dateTo.getTime() }
  return period === 'all' ? undefined : { from: startOf(dayMs, now) - (periodDays[period] - 1) * dayMs, to: now }
}

/** The range of the same length that ends where this one begins. */
function rangeBefore({ from, to }: Range): Range {
  return { from: from - (to - from) - 1, to: from - 1 }
}

const counts = ['clicks', 'leads', 'conversions', 'partners', 'sales', 'revenue_cents', 'commission_cents'] as const
type Figures = Record<(typeof counts)[number], number>

function noFigures(): Figures {
  return { clicks: 0, leads: 0, conversions: 0, partners: 0, sales: 0, revenue_cents: 0, commission_cents: 0 }
}

/** Adds a row's figures, its money only where that is in the currency of the sum. */
function add(sum: Figures, row: PerformanceRow, withMoney: boolean): void {
  for (const count of counts) {
    if (withMoney || !count.endsWith('_cents')) sum[count] += Number(row[count])
  }
}

/** `part / whole`, rounded half up to `decimals`; 0 where there is no whole. */
function ratio(part: number, whole: number, decimals: number): number {
  const scale = 10 ** decimals
  return whole === 0 ? 0 : Math.round((part * scale) / whole) / scale
}

/** The average in the major unit, to two decimals or to as many as the currency has. */
function averageOf(amountCents: number, count: number, currency: string): number {
  const exponent = currencyExponent(currency)
  const decimals = Math.max(2, exponent)
  return ratio(amountCents * 10 ** (decimals - exponent), count * 10 ** decimals, decimals)
}

function trendOf(current: number, previous: number): Trend {
  const trendDirection = current > previous ? 'up' : current < previous ? 'down' : 'stable'
  const change = Math.abs(current - previous)
  return { trend: previous === 0 ? (change === 0 ? 0 : 100) : ratio(change * 100, previous, 1), trendDirection }
}

/** A day's figures of the current range, or (`day` null) the sum over the previous one. Money rows have a currency. */
export interface PerformanceRow extends Record<(typeof counts)[number], string> {
  day: string | null
  currency: string | null
}

/** From a moment, or a day, up to another one that does not belong to it. */
interface Span {
  from: RawBuilder<unknown>
  to: RawBuilder<unknown>
}

/** Which totals a range is read from: those of `days`, and those of some hours of `cutDays`, numbered from 1 to 24. */
interface Totals {
  /** All these days and hours from begin to end. */
  hours: Span
  days: Span
  cutDays: { day: RawBuilder<unknown>; first: number; last: number }[]
}

/**
 * Rows between a bound of a range and the hour that it is rounded to. They are added to the figures of a range or taken off them, or
 * are none of its own (0).
 */
interface Part extends Span {
  current: number
  previous: number
}

/**
 * The figures of a query's range and of the one before it, for `asPerformance`. It costs a row a day and currency, at each bound of a
 * range the rows of half an hour at most, and what was clicked since clicks were last counted.
 */
export function performanceStatement(programId: number, query: PerformanceQuery, now: number) {
  const fixed = fixedRange(query, now)
  const { ranges, parts } = fixed ? beforeAndWithin(fixed, now) : sinceCreation(programId, now)
  const selects = ranges.flatMap(({ range, totals, isCurrent }) => rangeRows(programId, range, totals, isCurrent))
  return sql<PerformanceRow>`${parts.length > 0 ? partRows(programId, parts) : sql``}
select day::text, currency, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions, sum(partners) as partners,
  sum(sales) as sales, sum(revenue_cents) as revenue_cents, sum(commission_cents) as commission_cents
from (${sql.join([...selects, ...(parts.length > 0 ? partFigures : [])], sql` union all `)}) figures
group by day, currency
order by day, currency`
}

/**
 * The range and the one right before it. Their bounds are rounded to hours, so that totals make up the figures but for the rows between
 * a bound and its hour; where the two ranges meet, these are read once for both.
 */
function beforeAndWithin(range: Range, now: number) {
  const before = rangeBefore(range)
  const begin = roundToHour(before.from, now)
  const middle = roundToHour(range.from, now)
  const end = roundToHour(range.to + 1, now)
  return {
    ranges: [
      { isCurrent: true, range: spanOf(range), totals: totalsBetween(middle.hour, end.hour) },
      { isCurrent: false, range: spanOf(before), totals: totalsBetween(begin.hour, middle.hour) },
    ],
    parts: [
      ...partOf(begin, { current: 0, previous: 1 }),
      ...partOf(middle, { current: 1, previous: -1 }),
      ...partOf(end, { current: -1, previous: 0 }),
    ],
  }
}

interface RoundedTime {
  time: number
  hour: number
}

/**
 * The beginning or the end of the hour that `time` is in, from where fewer rows lie between it and `time`, so that these are half an
 * hour's at most. After now hardly anything can have come, so that the rest of the day counts to the hour of now.
 */
function roundToHour(time: number, now: number): RoundedTime {
  const hourOfNow = startOf(hourMs, now)
  const tomorrow = startOf(dayMs, now) + dayMs
  const isOfNow = time >= hourOfNow && time < tomorrow
  const begin = isOfNow ? hourOfNow : startOf(hourMs, time)
  const end = isOfNow ? tomorrow : begin + hourMs
  const past = (from: number, to: number) => Math.max(0, Math.min(to, now) - from)
  return { time, hour: past(begin, time) <= past(time, end) ? begin : end }
}

/**
 * The rows between a bound and its hour. After it they count as given: 1 in the range that begins there, since its totals begin later, -1
 * in the one that ends there. Before it they count the other way.
 */
function partOf({ time, hour }: RoundedTime, { current, previous }: { current: number; previous: number }): Part[] {
  if (hour === time) return []
  return hour > time
    ? [{ from: moment(time), to: moment(hour), current, previous }]
    : [{ from: moment(hour), to: moment(time), current: -current, previous: -previous }]
}

function spanOf({ from, to }: Range): Span {
  return { from: moment(from), to: moment(to + 1) }
}

/** The totals of the hours from `from` up to `to`, both the beginning of one. */
function totalsBetween(from: number, to: number): Totals {
  const days = { from: startOf(dayMs, from + dayMs - 1), to: startOf(dayMs, to) }
  const cut =
    days.from > days.to
      ? [{ from, to }]
      : [
          { from, to: days.from },
          { from: days.to, to },
        ]
  return {
    hours: { from: moment(from), to: moment(to) },
    days: { from: utcDay(moment(days.from)), to: utcDay(moment(days.to)) },
    cutDays: cut
      .filter((part) => part.from < part.to)
      .map((part) => ({ day: utcDay(moment(part.from)), first: hourOfDay(part.from), last: hourOfDay(part.to - 1) })),
  }
}

/** The number of the UTC hour, 1 to 24. */
function hourOfDay(time: number): number {
  return new Date(time).getUTCHours() + 1
}

/** The range since a program was made, which is the database's to say: its day is read whole, because nothing came before. */
function sinceCreation(programId: number, now: number) {
  const created = sql`(select created_at from programs where id = ${programId})`
  const tomorrow = startOf(dayMs, now) + dayMs
  return {
    ranges: [
      {
        isCurrent: true,
        range: { from: created, to: sql`greatest(${created}, ${moment(now)}) + interval '1 millisecond'` },
        totals: {
          hours: { from: sql`date_trunc('day', ${created}, 'UTC')`, to: moment(tomorrow) },
          days: { from: utcDay(created), to: utcDay(moment(tomorrow)) },
          cutDays: [],
        },
      },
    ],
    parts: partOf({ time: now + 1, hour: tomorrow }, { current: -1, previous: 0 }),
  }
}

/** The figures of a range as its totals have them. Every SELECT has the columns of the first one. */
function rangeRows(
  programId: number,
  range: Span,
  { hours, days, cutDays }: Totals,
  isCurrent: boolean,
): RawBuilder<unknown>[] {
  const dayOf = (day: RawBuilder<unknown>) => (isCurrent ? day : sql`null::date`)
  const within = sql`day >= ${days.from} and day < ${days.to}`
  const ofCutDays = sql`program_id = ${programId} and t.day = cut.day and (slot = 0 or slot between 64 * first and 64 * last + 63)`
  const cut = sql`(values ${sql.join(
    cutDays.map(({ day, first, last }) => sql`(${day}, ${first}::integer, ${last}::integer)`),
  )}) as cut (day, first, last)`
  return [
    sql`select ${dayOf(sql`day`)} as day, null::text as currency, clicks, leads, conversions, 0 as partners, 0 as sales, 0 as revenue_cents,
  0 as commission_cents
from daily_totals where program_id = ${programId} and ${within}`,
    sql`select ${dayOf(sql`day`)}, currency, 0, 0, 0, 0, sales, revenue_cents, commission_cents
from daily_money where program_id = ${programId} and ${within}`,
    sql`select ${dayOf(utcDay(sql`clicked_at`))}, null, count(*), 0, 0, 0, 0, 0, 0
from uncounted_clicks where program_id = ${programId} and ${during(sql`clicked_at`, hours)}
group by 1`,
    sql`select ${dayOf(utcDay(sql`created_at`))}, null, 0, 0, 0, count(*), 0, 0, 0
from partner_programs where program_id = ${programId} and ${during(sql`created_at`, range)}
group by 1`,
    ...(cutDays.length === 0
      ? []
      : [
          sql`select ${dayOf(sql`t.day`)}, null, hour.clicks, hour.leads, hour.conversions, 0, 0, 0, 0
from ${cut} join daily_totals t on ${ofCutDays}
cross join unnest(${byHour('clicks')}, ${byHour('leads')}, ${byHour('conversions')}) as hour (clicks, leads, conversions)`,
          sql`select ${dayOf(sql`t.day`)}, t.currency, 0, 0, 0, 0, hour.sales, hour.revenue_cents, hour.commission_cents
from ${cut} join daily_money t on ${ofCutDays}
cross join unnest(${byHour('sales')}, ${byHour('revenue_cents')}, ${byHour('commission_cents')})
  as hour (sales, revenue_cents, commission_cents)`,
        ]),
  ]
}

/**
 * Table `found`: what the rows of all parts come to. Clicks are counted part by part, because Postgres then plans for the months of
 * that part alone; of the rest there is one table each, and a join spares the planning.
 */
function partRows(programId: number, parts: Part[]): RawBuilder<unknown> {
  const within = (column: string) =>
    sql`program_id = ${programId} and ${sql.raw(column)} >= part.from_time and ${sql.raw(column)} < part.to_time`
  const clicks = parts.map(
    (
      part,
    ) => sql`select ${part.current}::integer, ${part.previous}::integer, ${utcDay(part.from)}, null::text, count(*), 0, 0, 0, 0, 0
from affiliate_click_events where program_id = ${programId} and not is_test and ${during(sql`click_timestamp`, part)}`,
  )
  const values = parts.map(
    ({ from, to, current, previous }) => sql`(${from}, ${to}, ${current}::integer, ${previous}::integer)`,
  )
  return sql`with part (from_time, to_time, current, previous) as (values ${sql.join(values)}),
found (current, previous, day, currency, clicks, leads, conversions, sales, revenue_cents, commission_cents) as (
  ${sql.join(clicks, sql` union all `)}
  union all
  select current, previous, ${partDay}, null, 0, each.leads, 0, 0, 0, 0
  from part cross join lateral (select count(*) as leads from customers where ${within('signup_date')}) each
  union all
  select current, previous, ${partDay}, null, 0, 0, each.conversions, 0, 0, 0
  from part cross join lateral (select count(*) as conversions from customers where ${within('first_purchase_date')}) each
  union all
  select current, previous, ${partDay}, currency, 0, 0, 0, each.sales, revenue_cents, 0
  from part cross join lateral (
    select currency, count(*) as sales, sum(amount_cents) as revenue_cents from sales
    where ${within('sale_date')} and not is_test and customer_id is not null and payment_status = 'paid' group by currency
  ) each
  union all
  select current, previous, ${partDay}, currency, 0, 0, 0, 0, 0, commission_cents
  from part cross join lateral (
    select currency, sum(amount_cents - reversed_cents) as commission_cents from commissions where ${within('created_at')} group by currency
  ) each
)`
}

const partDay = utcDay(sql`from_time`)

/** What `found` adds to the current range and to the one before it. */
const partFigures = (['current', 'previous'] as const).map(
  (range) => sql`select ${sql.raw(range === 'current' ? 'day' : 'null::date')}, currency, ${sql.join(
    counts.map((figure) => (figure === 'partners' ? sql`0` : sql.raw(`${range} * ${figure}`))),
  )}
from found where ${sql.raw(range)} <> 0`,
)

/** A figure's values for hours `first` to `last`: the day's row in slot 0 has them as an array, another slot counts in one hour. */
function byHour(figure: string) {
  return sql.raw(`case slot when 0 then ${figure}_by_hour[first:last] else array[${figure}] end`)
}

function moment(time: number) {
  return sql`${new Date(time)}::timestamptz`
}

function utcDay(time: RawBuilder<unknown>) {
  return sql`utc_day(${time})`
}

function during(column: RawBuilder<unknown>, { from, to }: Span) {
  return sql`${column} >= ${from} and ${column} < ${to}`
}
