import { call, type Database } from '../database.ts'
import { asPerformance, type Performance, type PerformanceProgram } from './performance-answer.ts'
import { fixedRange, type PerformanceQuery, rangeBefore } from './performance-range.ts'

/** Sends `performanceStatement` in its own request, and returns its result. */
export async function readPerformance(
  db: Database,
  program: PerformanceProgram,
  query: PerformanceQuery,
  now = Date.now(),
): Promise<Performance> {
  return asPerformance(await db.query(performanceStatement(program.id, query, now)), program, query, now)
}

/**
 * Reads the figures of a query's range and of the previous period, for `asPerformance`
 * (migrations/functions/reads/performance.sql).
 */
export function performanceStatement(programId: number, query: PerformanceQuery, now: number) {
  const range = fixedRange(query, now)
  return call('read_performance', {
    of_program_id: programId,
    previous_from: range ? new Date(rangeBefore(range).from) : null,
    current_from: range ? new Date(range.from) : null,
    until: range ? new Date(range.to + 1) : null,
    at: new Date(now),
  })
}
