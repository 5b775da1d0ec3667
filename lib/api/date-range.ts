import * as z from 'zod/mini'

/**
 * An ISO 8601 date or date and time, in UTC unless it has an offset. A date as an upper bound means the last
 * millisecond of that day, so the range includes the day.
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

export const dateRange = { dateFrom: isoBound('T00:00:00.000Z'), dateTo: isoBound('T23:59:59.999Z') }

interface DateRange {
  dateFrom?: Date | undefined
  dateTo?: Date | undefined
}

export const notBackwards = z.refine<DateRange>(({ dateFrom, dateTo }) => !dateFrom || !dateTo || dateFrom <= dateTo, {
  path: ['dateTo'],
  error: 'must not be before dateFrom',
})

/** The longest range that a performance query may have. */
export const maxRangeDays = 1100

export const notTooLong = z.refine<DateRange>(
  ({ dateFrom, dateTo }) =>
    !dateFrom || !dateTo || dateTo.getTime() - dateFrom.getTime() < maxRangeDays * 24 * 60 * 60 * 1000,
  { path: ['dateTo'], error: `must be at most ${maxRangeDays} days after dateFrom` },
)

/** The schema of a bound in the reference. In a query, a bound is text. */
export const dateParameter = { values: { type: 'string', format: 'date-time' } }

/** The range of a list in the program API. */
export const fromTo = { from: dateRange.dateFrom, to: dateRange.dateTo }

/** The start of an incremental read. */
export const updatedSince = { updated_since: dateRange.dateFrom }

export const toNotBeforeFrom = z.refine<{ from?: Date | undefined; to?: Date | undefined }>(
  ({ from, to }) => !from || !to || from <= to,
  { path: ['to'], error: 'must not be before from' },
)

/** Describes the range for the reference. `of` describes the items and their time. */
export const fromToFields = (of: string) => ({
  from: { description: `Only ${of} from this date or time on (ISO 8601).`, ...dateParameter },
  to: { description: `Only ${of} up to this date or time, inclusive.`, ...dateParameter },
})

export const updatedSinceField = (of: string) => ({
  updated_since: {
    description: `Only ${of} created or changed since this time. Send a time one minute before your previous read, because a change can become visible a few seconds after its time.`,
    ...dateParameter,
  },
})
