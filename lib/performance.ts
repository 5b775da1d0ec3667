import { type RawBuilder, sql } from 'kysely'
import type * as z from 'zod/mini'
import type { Access } from './access.ts'
import type { Database } from './database.ts'
import { currencyExponent, majorUnits } from './money.ts'
import type { performanceQuery } from './read-requests.ts'

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
type PerformanceQuery = z.output<typeof performanceQuery>

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

/**
 * What a range is read from: the totals of `days`; those of some hours of `cutDays`, the first and last of them numbered from 1 to
 * 24; the clicks of these days and hours, all from `hours`, that no total has yet; and for `parts` the rows themselves, added to their
 * day or taken off it.
 */
interface Cover {
  range: Span
  hours: Span
  days: Span
  cutDays: { day: RawBuilder<unknown>; first: number; last: number }[]
  parts: (Span & { sign: 1 | -1 })[]
}

/**
 * The figures of a query's range and of the one before it, for `asPerformance`. It costs a row a day and currency, and at each end of a
 * range the rows of half an hour at most, and what was clicked since clicks were last counted.
 */
export function performanceStatement(programId: number, query: PerformanceQuery, now: number) {
  const current = fixedRange(query, now)
  const covers = current ? [cover(current, now), cover(rangeBefore(current), now)] : coversSinceCreation(programId, now)
  const [currentRows, previousRows] = covers.map((each) => rangeRows(programId, each))
  const sums = sql`sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions, sum(partners) as partners,
  sum(sales) as sales, sum(revenue_cents) as revenue_cents, sum(commission_cents) as commission_cents`
  return sql<PerformanceRow>`select day::text, currency, ${sums}
from (${currentRows}) current_rows group by day, currency
union all
select null, currency, ${sums}
from (${previousRows}) previous_rows group by currency
order by day, currency`
}

/**
 * Whole days are read as such, and of a day that the range cuts its whole hours. An hour that the range cuts is read from whichever
 * side of the cut has fewer rows to come, so half an hour at most.
 */
function cover(range: Range, now: number): Cover {
  const end = range.to + 1
  const last = startOf(hourMs, range.to)
  // After the hour of now hardly anything can have come, so that the rest of its day makes it a whole one.
  const hours = {
    from: startOf(hourMs, range.from),
    to: last + hourMs > now ? startOf(dayMs, last) + dayMs : last + hourMs,
  }
  const ends = [{ from: hours.from, to: hours.from === last ? hours.to : hours.from + hourMs }]
  if (hours.from !== last) ends.push({ from: last, to: hours.to })
  const parts: Cover['parts'] = []
  for (const [index, hour] of ends.entries()) {
    const inside = { from: Math.max(hour.from, range.from), to: Math.min(hour.to, end) }
    const outside = [
      { from: hour.from, to: inside.from },
      { from: inside.to, to: hour.to },
    ].filter(({ from, to }) => from < to)
    const past = ({ from, to }: Range) => Math.max(0, Math.min(to, now) - from)
    if (outside.reduce((sum, part) => sum + past(part), 0) <= past(inside)) {
      parts.push(...outside.map(({ from, to }) => ({ from: moment(from), to: moment(to), sign: -1 as const })))
    } else {
      parts.push({ from: moment(inside.from), to: moment(inside.to), sign: 1 })
      if (index === 0) hours.from = hour.to
      else hours.to = hour.from
    }
  }
  const days = { from: startOf(dayMs, hours.from + dayMs - 1), to: startOf(dayMs, hours.to) }
  const cut =
    days.from > days.to
      ? [hours]
      : [
          { from: hours.from, to: days.from },
          { from: days.to, to: hours.to },
        ]
  return {
    range: { from: moment(range.from), to: moment(end) },
    hours: { from: moment(hours.from), to: moment(hours.to) },
    days: { from: utcDay(moment(days.from)), to: utcDay(moment(days.to)) },
    cutDays: cut
      .filter(({ from, to }) => from < to)
      .map(({ from, to }) => ({ day: utcDay(moment(from)), first: hourOfDay(from), last: hourOfDay(to - 1) })),
    parts,
  }
}

/** The number of the UTC hour, 1 to 24. */
function hourOfDay(time: number): number {
  return new Date(time).getUTCHours() + 1
}

/**
 * The range since a program was made and the one before it. When that was is the database's to say; nothing came before it, so that
 * its day is read whole and the range before has no rows.
 */
function coversSinceCreation(programId: number, now: number): [Cover, Cover] {
  const created = sql`(select created_at from programs where id = ${programId})`
  const end = now + 1
  const tomorrow = startOf(dayMs, now) + dayMs
  const nothing = { from: sql`null`, to: sql`null` }
  return [
    {
      hours: { from: sql`date_trunc('day', ${created}, 'UTC')`, to: moment(tomorrow) },
      range: { from: created, to: sql`greatest(${created}, ${moment(now)}) + interval '1 millisecond'` },
      days: { from: utcDay(created), to: utcDay(moment(tomorrow)) },
      cutDays: [],
      parts: [{ from: moment(end), to: moment(tomorrow), sign: -1 }],
    },
    { range: nothing, hours: nothing, days: nothing, cutDays: [], parts: [] },
  ]
}

function rangeRows(programId: number, { range, hours, days, cutDays, parts }: Cover): RawBuilder<unknown> {
  const within = sql`day >= ${days.from} and day < ${days.to}`
  const ofCutDays = sql`program_id = ${programId} and t.day = cut.day and (slot = 0 or slot between 64 * first and 64 * last + 63)`
  const cut = sql`(values ${sql.join(
    cutDays.map(({ day, first, last }) => sql`(${day}, ${first}::integer, ${last}::integer)`),
  )}) as cut (day, first, last)`
  const selects = [
    sql`select day, null::text as currency, clicks, leads, conversions, 0 as partners, 0 as sales, 0 as revenue_cents,
  0 as commission_cents
from daily_totals where program_id = ${programId} and ${within}`,
    sql`select utc_day(clicked_at), null, count(*), 0, 0, 0, 0, 0, 0
from uncounted_clicks where program_id = ${programId} and ${during(sql`clicked_at`, hours)}
group by 1`,
    sql`select day, currency, 0, 0, 0, 0, sales, revenue_cents, commission_cents
from daily_money where program_id = ${programId} and ${within}`,
    sql`select utc_day(created_at), null, 0, 0, 0, count(*), 0, 0, 0
from partner_programs where program_id = ${programId} and ${during(sql`created_at`, range)}
group by 1`,
    ...(cutDays.length === 0
      ? []
      : [
          sql`select t.day, null, hour.clicks, hour.leads, hour.conversions, 0, 0, 0, 0
from ${cut} join daily_totals t on ${ofCutDays}
cross join unnest(${byHour('clicks')}, ${byHour('leads')}, ${byHour('conversions')}) as hour (clicks, leads, conversions)`,
          sql`select t.day, t.currency, 0, 0, 0, 0, hour.sales, hour.revenue_cents, hour.commission_cents
from ${cut} join daily_money t on ${ofCutDays}
cross join unnest(${byHour('sales')}, ${byHour('revenue_cents')}, ${byHour('commission_cents')})
  as hour (sales, revenue_cents, commission_cents)`,
        ]),
    ...parts.flatMap((part) => {
      const { sign } = part
      const day = utcDay(part.from)
      return [
        sql`select ${day}, null, ${sign} * count(*), 0, 0, 0, 0, 0, 0
from affiliate_click_events where program_id = ${programId} and not is_test and ${during(sql`click_timestamp`, part)}`,
        sql`select ${day}, null, 0, ${sign} * count(*), 0, 0, 0, 0, 0
from customers where program_id = ${programId} and ${during(sql`signup_date`, part)}`,
        sql`select ${day}, null, 0, 0, ${sign} * count(*), 0, 0, 0, 0
from customers where program_id = ${programId} and ${during(sql`first_purchase_date`, part)}`,
        sql`select ${day}, currency, 0, 0, 0, 0, ${sign} * count(*), ${sign} * sum(amount_cents), 0
from sales where program_id = ${programId} and not is_test and customer_id is not null and payment_status = 'paid'
  and ${during(sql`sale_date`, part)}
group by currency`,
        sql`select ${day}, currency, 0, 0, 0, 0, 0, 0, ${sign} * sum(amount_cents - reversed_cents)
from commissions where program_id = ${programId} and ${during(sql`created_at`, part)}
group by currency`,
      ]
    }),
  ]
  return sql.join(selects, sql` union all `)
}

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
