import * as z from 'zod/mini'

// What the endpoints answer, for the API's description. Tests hold real answers to these.

const success = z.literal(true)
const clickId = z.string().check(z.regex(/^cust_\d+_\d+$/))
const id = z.int().check(z.positive())
const cents = z.int().check(z.nonnegative())
const currency = z.string().check(z.regex(/^[a-z]{3}$/))
const time = z.iso.datetime()
const text = z.nullable(z.string())

export const clickResponse = z.object({
  success,
  click_id: clickId,
  partner_code: z.string(),
  cookie_window_days: z.number(),
})

export const testClickResponse = z.object({
  success,
  message: z.string(),
  data: z.object({ eventId: id, programId: id, test_mode: z.literal(true) }),
})

export const leadResponse = z.object({
  success,
  lead_id: id,
  click_id: z.nullable(clickId),
  customer_status: z.enum(['click', 'lead', 'conversion']),
  provisional: z.optional(z.literal(true)),
  duplicate: z.optional(z.literal(true)),
  test_mode: z.optional(z.literal(true)),
})

export const saleResponse = z.object({
  success,
  sale_id: id,
  transaction_id: z.string(),
  attributed: z.boolean(),
  commission_id: z.nullable(id),
  commission_cents: cents,
  currency,
  test_mode: z.optional(z.literal(true)),
})

export const refundResponse = z.union([
  z.object({
    success,
    status: z.enum(['reversed', 'refunded']),
    deductionAmount: z.number(),
    deduction_cents: cents,
    currency,
    commission_id: id,
  }),
  z.object({
    success,
    status: z.literal('skipped'),
    reason: z.enum(['already_reversed', 'refund_already_applied']),
    commission_id: id,
  }),
  z.object({ success, status: z.literal('no_commission'), message: z.string() }),
])

const lastSeen = z.object({ live: z.nullable(time), test: z.nullable(time) })

export const statusResponse = z.object({
  success,
  program: z.object({
    id,
    name: z.string(),
    domain: z.string(),
    currency,
    commission_percent: z.number(),
    cookie_window_days: z.number(),
    lead_auth_policy: z.enum(['server_verified', 'browser_allowed']),
  }),
  api_base_url: z.string(),
  processor: z.object({ connected: z.boolean(), account_id: text }),
  activity: z.object({ last_click: lastSeen, last_lead: lastSeen, last_sale: lastSeen, last_webhook: lastSeen }),
  checks: z.array(z.object({ name: z.string(), ok: z.boolean(), message: z.string() })),
})

const day = z.iso.date()
const count = z.int().check(z.nonnegative())
const trend = z.object({ trend: z.number(), trendDirection: z.enum(['up', 'down', 'stable']) })

export const performanceResponse = z.object({
  data: z.array(
    z.object({
      date: day,
      period: day,
      clicks: count,
      leads: count,
      conversions: count,
      revenue: z.number(),
      partners: count,
      sales: z.literal(0),
      commission: z.number(),
    }),
  ),
  metrics: z.object({
    totalClicks: count,
    totalLeads: count,
    totalConversions: count,
    totalRevenue: z.number(),
    conversionRate: z.number(),
    averageOrderValue: z.number(),
    totalPartners: count,
    totalSales: count,
    totalPartnersCommission: z.number(),
    clicksTrend: trend,
    leadsTrend: trend,
    conversionsTrend: trend,
    revenueTrend: trend,
    partnersTrend: trend,
    salesTrend: trend,
    commissionTrend: trend,
    otherCurrencies: z.record(
      z.string(),
      z.object({ totalRevenue: z.number(), totalSales: count, totalPartnersCommission: z.number() }),
    ),
  }),
  meta: z.object({
    period: z.string(),
    dateFrom: time,
    dateTo: time,
    previousPeriod: z.object({ dateFrom: time, dateTo: time }),
  }),
})

const event = { id, timestamp: time, click_id: clickId, createdAt: time }
const page = { session_id: text, page_url: text, converted: z.boolean() }

export const eventsResponse = z.object({
  data: z.array(
    z.union([
      z.object({
        ...event,
        event_type: z.literal('click'),
        ...page,
        referrer_url: text,
        geo_country: text,
        geo_region: text,
        geo_city: text,
        device_type: text,
        device_os: text,
        browser_name: text,
      }),
      z.object({ ...event, event_type: z.literal('lead'), ...page, customer_key: z.optional(text) }),
      z.object({
        ...event,
        event_type: z.literal('conversion'),
        amount_cents: cents,
        currency,
        sale_type: z.string(),
        payment_status: z.string(),
        processor_event_id: text,
        is_recurring: z.boolean(),
      }),
    ]),
  ),
  meta: z.object({
    pagination: z.object({ page: id, pageSize: id, pageCount: count, total: count }),
  }),
})

export const webhookResponse = z.object({
  success,
  outcome: z.enum(['recorded', 'duplicate', 'ignored', 'parked']),
  reason: text,
})

const error = z.object({
  code: z.string(),
  message: z.string(),
  details: z.optional(z.array(z.object({ field: z.string(), message: z.string() }))),
  sale_id: z.optional(id),
  same_payload: z.optional(z.boolean()),
})

/** The platform envelope. */
export const errorEnvelope = z.object({ success: z.literal(false), error })

/** The typed envelope, RFC 9457: a retired API key and rate limiting. */
export const problemEnvelope = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  success: z.literal(false),
  error,
})
