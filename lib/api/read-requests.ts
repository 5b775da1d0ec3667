import * as z from 'zod/mini'

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

/** How long a range of the performance read may be. */
export const maxRangeDays = 1100

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
