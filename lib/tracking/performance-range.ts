/** A day in milliseconds. All UTC days have the same length. */
export const dayMs = 24 * 60 * 60 * 1000

const periodDays = { '7d': 7, '30d': 30, '90d': 90 }

export interface PerformanceQuery {
  period?: keyof typeof periodDays | 'all' | undefined
  dateFrom?: Date | undefined
  dateTo?: Date | undefined
}

/** Unix milliseconds, both inclusive. */
export interface Range {
  from: number
  to: number
}

/** Returns the start of the UTC day of `time`. */
export function startOfDay(time: number): number {
  return Math.floor(time / dayMs) * dayMs
}

/**
 * Returns the range of a query: `dateFrom` to `dateTo` if both are present, or else the last `period` days including today. Returns
 * undefined for `all`, which begins with the program.
 */
export function fixedRange({ period = '7d', dateFrom, dateTo }: PerformanceQuery, now: number): Range | undefined {
  if (dateFrom && dateTo) return { from: dateFrom.getTime(), to: dateTo.getTime() }
  return period === 'all' ? undefined : { from: startOfDay(now) - (periodDays[period] - 1) * dayMs, to: now }
}

/** Returns the range of the same length before this one. */
export function rangeBefore({ from, to }: Range): Range {
  return { from: from - (to - from) - 1, to: from - 1 }
}
