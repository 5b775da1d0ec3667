/** How long a day is in milliseconds; UTC has no other days. */
export const dayMs = 24 * 60 * 60 * 1000

const periodDays = { '7d': 7, '30d': 30, '90d': 90 }

export interface PerformanceQuery {
  period?: keyof typeof periodDays | 'all' | undefined
  dateFrom?: Date | undefined
  dateTo?: Date | undefined
}

/** Unix milliseconds. Both bounds belong to it. */
export interface Range {
  from: number
  to: number
}

/** The beginning of the UTC day that `time` is in. */
export function startOfDay(time: number): number {
  return Math.floor(time / dayMs) * dayMs
}

/**
 * The range of a query: `dateFrom` to `dateTo` where both are given; else `period`, that many days with today. Undefined for
 * `all`, which begins when the program was made.
 */
export function fixedRange({ period = '7d', dateFrom, dateTo }: PerformanceQuery, now: number): Range | undefined {
  if (dateFrom && dateTo) return { from: dateFrom.getTime(), to: dateTo.getTime() }
  return period === 'all' ? undefined : { from: startOfDay(now) - (periodDays[period] - 1) * dayMs, to: now }
}

/** The range of the same length that ends where this one begins. */
export function rangeBefore({ from, to }: Range): Range {
  return { from: from - (to - from) - 1, to: from - 1 }
}
