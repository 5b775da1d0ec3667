import type { Access } from '../access/program-access.ts'
import { currencyExponent, majorUnits } from '../money.ts'
import type { DatabaseFunctions } from '../schema.ts'
import { dayMs, fixedRange, type PerformanceQuery, rangeBefore, startOfDay } from './performance-range.ts'

/** One UTC day of a range. Money is in the currency's major unit. */
interface DayPerformance {
  date: string
  /** The same as `date`. */
  period: string
  clicks: number
  leads: number
  conversions: number
  revenue: number
  partners: number
  /** Always 0. `metrics.totalSales` has the paid sales. */
  sales: 0
  /** The commissions created on that day, minus their reversals. */
  commission: number
}

export interface Trend {
  /** The change from the previous period in percent, without its sign, rounded to one decimal. */
  trend: number
  trendDirection: 'up' | 'down' | 'stable'
}

export interface Performance {
  data: DayPerformance[]
  metrics: {
    totalClicks: number
    totalLeads: number
    totalConversions: number
    /** Before refunds. */
    totalRevenue: number
    /** The part of `totalRevenue` that was refunded or charged back so far. */
    totalRefunds: number
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
    /** The money that the figures above exclude because it isn't in the program's currency, by currency. */
    otherCurrencies: Record<
      string,
      { totalRevenue: number; totalRefunds: number; totalSales: number; totalPartnersCommission: number }
    >
  }
  meta: {
    period: string
    dateFrom: string
    dateTo: string
    previousPeriod: { dateFrom: string; dateTo: string }
  }
}

export type PerformanceProgram = Pick<NonNullable<Access['program']>, 'id' | 'currency' | 'createdAt'>

/** Figures for a day in the current range, or for the previous range if `day` is null. Money rows have a currency. */
type PerformanceRow = DatabaseFunctions['read_performance']['row']

/**
 * Builds a program's figures for each UTC day of a range, their totals, and the change of the totals from the previous period. `rows` comes
 * from `performanceStatement` for the same query and `now`.
 */
export function asPerformance(
  rows: PerformanceRow[],
  program: PerformanceProgram,
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
      totalRefunds: money(total.refunded_cents),
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
            totalRefunds: majorUnits(other.refunded_cents, currency),
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

const counts = [
  'clicks',
  'leads',
  'conversions',
  'partners',
  'sales',
  'revenue_cents',
  'commission_cents',
  'refunded_cents',
] as const satisfies (keyof PerformanceRow)[]
type Figures = Record<(typeof counts)[number], number>

function noFigures(): Figures {
  return {
    clicks: 0,
    leads: 0,
    conversions: 0,
    partners: 0,
    sales: 0,
    revenue_cents: 0,
    commission_cents: 0,
    refunded_cents: 0,
  }
}

/** Adds a row's figures, including its money if `withMoney`. */
function add(sum: Figures, row: PerformanceRow, withMoney: boolean): void {
  for (const count of counts) {
    if (withMoney || !count.endsWith('_cents')) sum[count] += row[count] ?? 0
  }
}

/** The totals of the previous period. They show whether a figure started at zero. Money is in minor units of a currency. */
export function totalsBefore(rows: PerformanceRow[], currency: string): Figures {
  const before = noFigures()
  for (const row of rows) {
    if (row.day === null) add(before, row, row.currency === null || row.currency === currency)
  }
  return before
}

/** Returns `part / whole`, rounded half up to `decimals`, or 0 if `whole` is 0. */
export function ratio(part: number, whole: number, decimals: number): number {
  const scale = 10 ** decimals
  return whole === 0 ? 0 : Math.round((part * scale) / whole) / scale
}

/** Returns the average in the major unit, with two decimals or the currency's number of decimals. */
export function averageOf(amountCents: number, count: number, currency: string): number {
  const exponent = currencyExponent(currency)
  const decimals = Math.max(2, exponent)
  return ratio(amountCents * 10 ** (decimals - exponent), count * 10 ** decimals, decimals)
}

/** Returns the change in a figure. A change from zero is a hundred percent. */
export function trendOf(current: number, previous: number): Trend {
  const trendDirection = current > previous ? 'up' : current < previous ? 'down' : 'stable'
  const change = Math.abs(current - previous)
  return { trend: previous === 0 ? (change === 0 ? 0 : 100) : ratio(change * 100, previous, 1), trendDirection }
}
