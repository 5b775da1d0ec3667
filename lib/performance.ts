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

const dayMs = 24 * 60 * 60 * 1000
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
  for (let day = startOfDay(current.from); day <= current.to; day += dayMs) {
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

function startOfDay(time: number): number {
  return Math.floor(time / dayMs) * dayMs
}

/** The range of a query; undefined for `all`, which begins when the program was made. */
function fixedRange({ period = '7d', dateFrom, dateTo }: PerformanceQuery, now: number): Range | undefined {
  if (dateFrom && dateTo) return { from: dateFrom.getTime(), to: dateTo.getTime() }
  return period === 'all' ? undefined : { from: startOfDay(now) - (periodDays[period] - 1) * dayMs, to: now }
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

/** What a range is read from: the totals of `days`, and for `parts` the rows themselves, added to their day or taken off it. */
interface Cover {
  range: Span
  days: Span
  parts: (Span & { sign: 1 | -1 })[]
}

/**
 * The figures of a query's range and of the one before it, for `asPerformance`. It costs a row a day and currency, and the rows of
 * at most two half days a range.
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

/** A day that the range cuts is read from whichever side of the cut has fewer rows to come, so half a day at most. */
function cover(range: Range, now: number): Cover {
  const end = range.to + 1
  const days = { from: startOfDay(range.from), to: startOfDay(range.to) + dayMs }
  const parts: Cover['parts'] = []
  for (const day of new Set([days.from, days.to - dayMs])) {
    const inside = { from: Math.max(day, range.from), to: Math.min(day + dayMs, end) }
    const outside = [
      { from: day, to: inside.from },
      { from: inside.to, to: day + dayMs },
    ].filter(({ from, to }) => from < to)
    const past = ({ from, to }: Range) => Math.max(0, Math.min(to, now) - from)
    if (outside.reduce((sum, part) => sum + past(part), 0) <= past(inside)) {
      parts.push(...outside.map(({ from, to }) => ({ from: moment(from), to: moment(to), sign: -1 as const })))
    } else {
      parts.push({ from: moment(inside.from), to: moment(inside.to), sign: 1 })
      if (day === days.from) days.from += dayMs
      else days.to -= dayMs
    }
  }
  return {
    range: { from: moment(range.from), to: moment(end) },
    days: { from: utcDay(moment(days.from)), to: utcDay(moment(days.to)) },
    parts,
  }
}

/**
 * The range since a program was made and the one before it. Only the database knows when that was, so it computes the bounds. Hardly
 * anything can have come earlier, so that is always counted by its rows.
 */
function coversSinceCreation(programId: number, now: number): [Cover, Cover] {
  const created = sql`(select date_trunc('milliseconds', created_at) from programs where id = ${programId})`
  const last = sql`greatest(${created}, ${moment(now)})`
  const end = sql`${last} + interval '1 millisecond'`
  const nextDay = sql`date_trunc('day', ${last}, 'UTC') + interval '24 hours'`
  const before = { from: sql`${created} - (${end} - ${created})`, to: created }
  return [
    {
      range: { from: created, to: end },
      days: { from: utcDay(created), to: sql`${utcDay(last)} + 1` },
      parts: [
        { from: sql`date_trunc('day', ${created}, 'UTC')`, to: created, sign: -1 },
        { from: end, to: nextDay, sign: -1 },
      ],
    },
    { range: before, days: { from: sql`null`, to: sql`null` }, parts: [{ ...before, sign: 1 }] },
  ]
}

function rangeRows(programId: number, { range, days, parts }: Cover): RawBuilder<unknown> {
  const within = sql`day >= ${days.from} and day < ${days.to}`
  const selects = [
    sql`select day, null::text as currency, clicks, leads, conversions, 0 as partners, 0 as sales, 0 as revenue_cents,
  0 as commission_cents
from daily_totals where program_id = ${programId} and ${within}`,
    sql`select day, currency, 0, 0, 0, 0, sales, revenue_cents, commission_cents
from daily_money where program_id = ${programId} and ${within}`,
    sql`select utc_day(created_at), null, 0, 0, 0, count(*), 0, 0, 0
from partner_programs where program_id = ${programId} and ${during(sql`created_at`, range)}
group by 1`,
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

function moment(time: number) {
  return sql`${new Date(time)}::timestamptz`
}

function utcDay(time: RawBuilder<unknown>) {
  return sql`utc_day(${time})`
}

function during(column: RawBuilder<unknown>, { from, to }: Span) {
  return sql`${column} >= ${from} and ${column} < ${to}`
}
