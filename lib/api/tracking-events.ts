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

/** An event as both lists of events answer it. */
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

/** How the reference describes it. It is a function so that a bundle that does not call it leaves it out. */
export const trackingEvents = (): Operation => ({
  id: 'events',
  method: 'get',
  path: '/api/tracking/events/{programId}',
  summary: 'List events',
  description:
    'Clicks, leads and conversions in one list, newest first. Of each type the newest 3 × `pageSize` are read; narrow the dates to reach older ones. A conversion’s `refunded_cents` is how much of its `amount_cents` was refunded or charged back until now. Clicks are dropped month by month when they are old; `meta.clicksSince`, where it is there, says from when on they are kept. For members with the action `tracking:list`.',
  auth: 'session',
  parameters: [
    programParameter(),
    {
      in: 'query',
      schema: eventsQuery,
      fields: {
        page: { description: 'From 1 on. Default 1.', example: 1 },
        pageSize: { description: 'Events on a page. Default 10.', example: 10 },
        eventType: { description: 'Only events of this type.' },
        dateFrom: { description: 'ISO 8601 date or time: the earliest, itself included.', ...dateParameter },
        dateTo: { description: 'ISO 8601 date or time: the latest, itself included.', ...dateParameter },
      },
    },
  ],
  success: { schemas: [eventsResponse()], description: 'A page of events.' },
  errors: ['unauthorized', 'forbidden', 'not_found'],
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
