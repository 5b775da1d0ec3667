import * as z from 'zod/mini'
import { dateParameter, dateRange, notBackwards, notTooLong } from './date-range.ts'
import { figures } from './figures.ts'
import type { Operation } from './operation.ts'
import { programParameter } from './program-path.ts'
import { count, day, time } from '../response-fields.ts'

/** Query of GET /api/tracking/performance/:programId. */
export const performanceQuery = z
  .object({ period: z.optional(z.enum(['7d', '30d', '90d', 'all'], 'must be 7d, 30d, 90d or all')), ...dateRange })
  .check(notBackwards, notTooLong)

const trend = () => z.object({ trend: z.number(), trendDirection: z.enum(['up', 'down', 'stable']) })

const performanceResponse = () =>
  z.object({
    data: z.array(
      z.object({
        date: day(),
        period: day(),
        clicks: count(),
        leads: count(),
        conversions: count(),
        revenue: z.number(),
        partners: count(),
        sales: z.literal(0),
        commission: z.number(),
      }),
    ),
    metrics: z.object({
      totalClicks: count(),
      totalLeads: count(),
      totalConversions: count(),
      totalRevenue: z.number(),
      totalRefunds: z.number(),
      conversionRate: z.number(),
      averageOrderValue: z.number(),
      totalPartners: count(),
      totalSales: count(),
      totalPartnersCommission: z.number(),
      clicksTrend: trend(),
      leadsTrend: trend(),
      conversionsTrend: trend(),
      revenueTrend: trend(),
      partnersTrend: trend(),
      salesTrend: trend(),
      commissionTrend: trend(),
      otherCurrencies: z.record(
        z.string(),
        z.object({
          totalRevenue: z.number(),
          totalRefunds: z.number(),
          totalSales: count(),
          totalPartnersCommission: z.number(),
        }),
      ),
    }),
    meta: z.object({
      period: z.string(),
      dateFrom: time(),
      dateTo: time(),
      previousPeriod: z.object({ dateFrom: time(), dateTo: time() }),
    }),
  })

export const trackingPerformance = (): Operation => ({
  id: 'performance',
  method: 'get',
  path: '/api/tracking/performance/{programId}',
  summary: 'Read daily performance',
  description:
    'Returns an entry for each day (UTC) of the range, the totals, and their change compared with the previous period of the same length. Amounts are in the major unit of the program’s currency. `metrics.otherCurrencies` has the amounts in other currencies. Revenue is before refunds; `totalRefunds` is the part of the range’s `totalRevenue` that was refunded or charged back so far. For active members of the program’s workspace.',
  auth: 'session',
  parameters: [
    programParameter(),
    {
      in: 'query',
      schema: performanceQuery,
      fields: {
        period: { description: 'Default `7d`. Ignored if both dates are given.', example: '7d' },
        dateFrom: { description: 'ISO 8601 date or time, used together with `dateTo`.', ...dateParameter },
        dateTo: { description: 'ISO 8601 date or time, used together with `dateFrom`.', ...dateParameter },
      },
    },
  ],
  success: {
    schemas: [performanceResponse()],
    description: 'The days and the totals. Each total is the sum of its days.',
    fields: figures,
  },
  errors: ['unauthorized', 'forbidden'],
  examples: [
    {
      name: 'week',
      summary: 'The last seven days',
      status: 200,
      response: {
        data: [
          {
            date: '2026-01-01',
            period: '2026-01-01',
            clicks: 120,
            leads: 12,
            conversions: 3,
            revenue: 147,
            partners: 1,
            sales: 0,
            commission: 29.4,
          },
        ],
        metrics: {
          totalClicks: 120,
          totalLeads: 12,
          totalConversions: 3,
          totalRevenue: 147,
          totalRefunds: 49,
          conversionRate: 2.5,
          averageOrderValue: 49,
          totalPartners: 1,
          totalSales: 3,
          totalPartnersCommission: 29.4,
          clicksTrend: { trend: 20, trendDirection: 'up' },
          leadsTrend: { trend: 0, trendDirection: 'stable' },
          conversionsTrend: { trend: 50, trendDirection: 'up' },
          revenueTrend: { trend: 50, trendDirection: 'up' },
          partnersTrend: { trend: 100, trendDirection: 'up' },
          salesTrend: { trend: 50, trendDirection: 'up' },
          commissionTrend: { trend: 50, trendDirection: 'up' },
          otherCurrencies: { eur: { totalRevenue: 10, totalRefunds: 0, totalSales: 1, totalPartnersCommission: 2 } },
        },
        meta: {
          period: '7d',
          dateFrom: '2025-12-26T00:00:00.000Z',
          dateTo: '2026-01-01T12:00:00.000Z',
          previousPeriod: { dateFrom: '2025-12-19T11:59:59.999Z', dateTo: '2025-12-25T23:59:59.999Z' },
        },
      },
    },
  ],
})
