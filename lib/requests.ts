import * as z from 'zod/mini'
import { isCurrency, maxAmountCents } from './money.ts'

/** Text of at most `length` characters, or null, or nothing. */
function text(length: number) {
  return z.nullish(z.string().check(z.maxLength(length)))
}

const url = () => text(8192)
const id = () => z.nullish(z.int().check(z.positive()))
const key = () => z.string().check(z.minLength(1), z.maxLength(255))

/** Free data of the integrator. `test_mode: true` makes the event a test event; `program_id` names its program. */
const additionalData = z.nullish(z.looseObject({ test_mode: z.nullish(z.boolean()), program_id: id() }))

/** Body of POST /api/v1/track/click. */
export const clickRequest = z.object({
  affiliate_url: z.string().check(z.minLength(1), z.maxLength(8192)),
  page_url: url(),
  page_title: text(1024),
  referrer_url: url(),
  session_id: text(255),
  user_agent: text(2048),
  screen_resolution: z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>'))),
  viewport_size: z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>'))),
  language: text(64),
  timezone: text(64),
  existing_click_id: text(255),
  additional_data: additionalData,
})

/** Body of POST /api/v1/track/lead. */
export const leadRequest = z.object({
  customer_key: key(),
  click_id: text(255),
  /** The same under the client library's name. */
  clickId: text(255),
  email: text(320),
  session_id: text(255),
  page_url: url(),
  /** On a browser lead: the program that the page believes the click is of. */
  program_id: id(),
  additional_data: additionalData,
})

export type LeadRequest = z.output<typeof leadRequest>

/** Body of POST /api/v1/track/sale. */
export const saleRequest = z.object({
  transaction_id: key(),
  customer_key: key(),
  amount_cents: z.int().check(z.positive(), z.maximum(maxAmountCents)),
  currency: z.nullish(z.string().check(z.toLowerCase(), z.refine(isCurrency, 'must be an ISO 4217 currency code'))),
  click_id: text(255),
  clickId: text(255),
  is_recurring: z.nullish(z.boolean()),
  isRecurring: z.nullish(z.boolean()),
  sale_type: z.nullish(z.string().check(z.minLength(1), z.maxLength(64))),
  saleType: z.nullish(z.string().check(z.minLength(1), z.maxLength(64))),
  subscription_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  subscriptionId: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  additional_data: additionalData,
})

/** Body of POST /api/v1/track/refund. */
export const refundRequest = z.object({
  transaction_id: key(),
  refund_amount_cents: z.nullish(z.int().check(z.nonnegative(), z.maximum(maxAmountCents))),
  refund_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  refund_reason: text(1000),
  reason: z.nullish(z.enum(['refund', 'chargeback'])),
})

/** Path of the dashboard's reads. No program has an id above the largest integer that a number holds exactly. */
export const programPath = z.object({
  programId: z.pipe(
    z.string().check(z.regex(/^0*[1-9]\d*$/, 'must be a positive integer')),
    z.transform((digits: string) => Math.min(Number(digits), Number.MAX_SAFE_INTEGER)),
  ),
})

/**
 * An ISO 8601 date, or a date with a time; UTC where no offset is given. A date alone as an upper bound stands for its last
 * millisecond, so that the day belongs to the range.
 */
function isoBound(timeOfDay: 'T00:00:00.000Z' | 'T23:59:59.999Z') {
  const minutes = z.iso.datetime({ offset: true, precision: -1 })
  return z.optional(
    z.pipe(
      z.union(
        [z.iso.date(), z.iso.datetime({ offset: true, local: true }), minutes],
        'must be an ISO 8601 date or time, for example 2026-01-31 or 2026-01-31T12:00:00Z (send a + as %2B)',
      ),
      z.transform((bound: string) => {
        if (!bound.includes('T')) return new Date(bound + timeOfDay)
        return new Date(/(Z|[+-]\d{2}:\d{2})$/.test(bound) ? bound : `${bound}Z`)
      }),
    ),
  )
}

const dateRange = { dateFrom: isoBound('T00:00:00.000Z'), dateTo: isoBound('T23:59:59.999Z') }

interface DateRange {
  dateFrom?: Date | undefined
  dateTo?: Date | undefined
}

const notBackwards = z.refine<DateRange>(({ dateFrom, dateTo }) => !dateFrom || !dateTo || dateFrom <= dateTo, {
  path: ['dateTo'],
  error: 'must not be before dateFrom',
})

const maxRangeDays = 1100

const notTooLong = z.refine<DateRange>(
  ({ dateFrom, dateTo }) =>
    !dateFrom || !dateTo || dateTo.getTime() - dateFrom.getTime() < maxRangeDays * 24 * 60 * 60 * 1000,
  { path: ['dateTo'], error: `must be at most ${maxRangeDays} days after dateFrom` },
)

function positiveInteger(maximum: number) {
  const message = `must be an integer from 1 to ${maximum}`
  return z.pipe(
    z.string().check(z.regex(/^\d+$/, message)),
    z.pipe(z.transform(Number), z.int(message).check(z.gte(1, message), z.lte(maximum, message))),
  )
}

/** Query of GET /api/tracking/performance/:programId. */
export const performanceQuery = z
  .object({ period: z.optional(z.enum(['7d', '30d', '90d', 'all'], 'must be 7d, 30d, 90d or all')), ...dateRange })
  .check(notBackwards, notTooLong)

/** Query of GET /api/tracking/events/:programId. */
export const eventsQuery = z
  .object({
    page: z.optional(positiveInteger(1_000_000_000)),
    pageSize: z.optional(positiveInteger(100)),
    eventType: z.optional(z.enum(['click', 'lead', 'conversion'], 'must be click, lead or conversion')),
    ...dateRange,
  })
  .check(notBackwards)
