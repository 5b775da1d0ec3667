import type { ClickHouse } from '../click-house.ts'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { fromClickHouse, readClickCells } from '../tracking/click-reads.ts'
import { clicksUntil, sinkStatement } from '../tracking/click-sink.ts'
import { clicksKept } from '../tracking/events.ts'
import { asOverview, overviewClicks, type OverviewQuery, overviewStatements } from '../tracking/overview.ts'
import { asPerformance, totalsBefore } from '../tracking/performance-answer.ts'
import { performanceStatement } from '../tracking/performance.ts'
import { needsStatement } from './needs-attention.ts'

interface OverviewProgram {
  id: number
  currency: string
  createdAt: Date
}

/**
 * Reads the data of a program's overview in one request. `isBegun` is false until the first click on a partner's link. With `clickHouse`, the
 * counted clicks come from there. They are complete up to `clicksUntil`, or exact if it is undefined.
 */
export async function readOverview(
  db: Database,
  program: OverviewProgram,
  query: OverviewQuery,
  now = Date.now(),
  clickHouse?: ClickHouse,
) {
  const inCurrency = { ...program, currency: query.currency }
  const totals = overviewClicks(program, query, now)
  const cells = totals && (await fromClickHouse(clickHouse, (server) => readClickCells(server, program.id, totals)))
  const [series, groups] = overviewStatements(program, query, now, cells?.result)
  const [performance, points, breakdowns, [needs], [click], [kept], [sink]] = await db.batch([
    performanceStatement(program.id, query, now),
    series,
    groups,
    needsStatement(program.id),
    firstClick(program.id),
    clicksKept(),
    sinkStatement(),
  ])
  return {
    clicksUntil: cells && clicksUntil(cells.progress, sink),
    isBegun: click !== undefined,
    needs,
    performance: asPerformance(performance, inCurrency, query, now),
    partnersBefore: totalsBefore(performance, query.currency).partners,
    overview: asOverview({ series: points, groups: breakdowns, clicksKept: kept?.clicks_since }, program, query, now),
  }
}

function firstClick(programId: number) {
  return kysely
    .selectFrom('affiliate_click_events')
    .select('id')
    .where('program_id', '=', programId)
    .where((eb) => eb.not('is_test'))
    .limit(1)
}
