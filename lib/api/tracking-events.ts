import * as z from 'zod/mini'
import { dateParameter, dateRange, notBackwards } from './date-range.ts'
import { exampleClickId, type Operation } from './operation.ts'
import { programParameter } from './program-path.ts'
import { cents, clickId, count, currency, id, text, time } from '../response-fields.ts'

function positiveInteger(maximum: number) {
  const message = `must be an integer from 1 to ${maximum}`
  return z.pipe(
    z.string().check(z.regex(/^\d+$/, message)),
    z.pipe(z.transform(Number), z.int(message).check(z.gte(1, message), z.lte(maximum, message))),
  )
}

/** Query of GET /api/tracking/events/:programId. */
export const eventsQuery = z
  .object({
    page: z.optional(positiveInteger(1_000_000_000)),
    pageSize: z.optional(positiveInteger(100)),
    eventType: z.optional(z.enum(['click', 'lead', 'conversion'], 'must be click, lead or conversion')),
    ...dateRange,
  })
  .check(notBackwards)

const event = () => ({ id: id(), timestamp: time(), click_id: clickId(), createdAt: time() })
const visit = () => ({ session_id: text(), page_url: text(), converted: z.boolean() })

/** The fields of an event, in both event lists. */
export const trackingEvent = () =>
  z.union([
    z.object({
      ...event(),
      event_type: z.literal('click'),
      ...visit(),
      referrer_url: text(),
      geo_country: text(),
      geo_region: text(),
      geo_city: text(),
      device_type: text(),
      device_os: text(),
      browser_name: text(),
    }),
    z.object({ ...event(), event_type: z.literal('lead'), ...visit(), customer_key: z.optional(text()) }),
    z.object({
      ...event(),
      event_type: z.literal('conversion'),
      transaction_id: z.string(),
      amount_cents: cents(),
      refunded_cents: cents(),
      currency: currency(),
      sale_type: z.string(),
      payment_status: z.string(),
      processor_event_id: text(),
      is_recurring: z.boolean(),
    }),
  ])

const eventsResponse = () =>
  z.object({
    data: z.array(trackingEvent()),
    meta: z.object({
      pagination: z.object({ page: id(), pageSize: id(), pageCount: count(), total: count() }),
      clicksSince: z.optional(time()),
    }),
  })

export const exampleEvent = {
  id: 1,
  event_type: 'conversion',
  timestamp: '2026-01-01T12:05:00.000Z',
  click_id: exampleClickId,
  createdAt: '2026-01-01T12:05:00.000Z',
  transaction_id: 'order-1001',
  amount_cents: 4900,
  refunded_cents: 0,
  currency: 'usd',
  sale_type: 'payment',
  payment_status: 'paid',
  processor_event_id: null,
  is_recurring: false,
}

export const trackingEvents = (): Operation => ({
  id: 'events',
  method: 'get',
  path: '/api/tracking/events/{programId}',
  summary: 'List events',
  description:
    'Lists clicks, leads and conversions together, newest first. It reads the newest 3 × `pageSize` events of each type. To get older events, use a smaller range of dates. For a conversion, `refunded_cents` is the part of its `amount_cents` that has been refunded or charged back so far. Old clicks are deleted month by month; `meta.clicksSince`, if present, is the date of the oldest kept clicks. For members with the action `tracking:list`.',
  auth: 'session',
  parameters: [
    programParameter(),
    {
      in: 'query',
      schema: eventsQuery,
      fields: {
        page: { description: 'The page number, starting at 1. Default 1.', example: 1 },
        pageSize: { description: 'Events per page. Default 10.', example: 10 },
        eventType: { description: 'Only events of this type.' },
        dateFrom: { description: 'The earliest date or time (ISO 8601), inclusive.', ...dateParameter },
        dateTo: { description: 'The latest date or time (ISO 8601), inclusive.', ...dateParameter },
      },
    },
  ],
  success: { schemas: [eventsResponse()], description: 'A page of events.' },
  errors: ['unauthorized', 'forbidden'],
  examples: [
    {
      name: 'page',
      summary: 'The newest events',
      status: 200,
      response: {
        data: [exampleEvent],
        meta: { pagination: { page: 1, pageSize: 10, pageCount: 1, total: 1 } },
      },
    },
  ],
})
