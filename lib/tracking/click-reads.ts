import { type Selectable, sql } from 'kysely'
import * as z from 'zod/mini'
import type { ClickHouse } from '../click-house.ts'
import type { Database, Statement } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { DB, GroupedMetric, GroupingName } from '../schema.ts'
import { isUnchanged, type Progress, readProgress, type SinkState, sinkStatement } from './click-sink.ts'

/**
 * Reads from ClickHouse if it is configured, complete and reachable, with the progress before the read. Otherwise returns undefined, and
 * the caller reads Postgres.
 */
export async function fromClickHouse<Result>(
  clickHouse: ClickHouse | undefined,
  read: (clickHouse: ClickHouse) => Promise<Result>,
): Promise<{ progress: Progress; result: Result } | undefined> {
  if (!clickHouse) return undefined
  try {
    const progress = await readProgress(clickHouse)
    return progress?.is_complete ? { progress, result: await read(clickHouse) } : undefined
  } catch (error) {
    const { name, message } = error instanceof Error ? error : { name: typeof error, message: '' }
    console.warn(JSON.stringify({ error: 'clickhouse_read', name, message }))
    return undefined
  }
}

/** Counted clicks to read: of some groupings, by consecutive intervals. */
export interface ClickTotals {
  names: readonly GroupingName[]
  metrics: readonly GroupedMetric[]
  /** Only this value. */
  value?: string | undefined
  /** Adds up the values of a grouping. The cells then have an empty value. */
  isSummed?: boolean
  /** The starts of the intervals and the end of the last one. */
  starts: readonly Date[]
  until: Date
}

const cell = z.object({ at: z.int(), name: z.string(), value: z.string(), metric: z.string(), amount: z.int() })

/**
 * A day in one interval counts with its sum. Other days count by their quarters of an hour. `n` is the interval's number, or 0 before the
 * first one.
 */
const cellsQuery = (total: ClickTotals) => `
WITH {starts:Array(Int64)} AS starts, {until:Int64} AS until
SELECT starts[n] AS at, toString(name) AS name, ${total.isSummed ? "''" : 'value'} AS value, toString(metric) AS metric, sum(part.2) AS amount
FROM (
  SELECT name, metric, value, toInt64(toUInt16(day)) * 86400 AS begins,
    arrayJoin(if(arrayExists(s -> s > begins AND s < begins + 86400, arrayPushBack(starts, until)),
      arrayMap((quarter, sum, before) -> (begins + quarter * 900, sum - before), quarters, sums, arrayPopBack(arrayPushFront(sums, 0))),
      [(begins, sums[-1])])) AS part,
    arrayLastIndex(s -> s <= part.1, starts) AS n
  FROM svc_counts FINAL
  WHERE program_id = {program:UInt64} AND has({names:Array(String)}, name) AND has({metrics:Array(String)}, metric)
    AND day BETWEEN toDate(intDiv(starts[1], 86400)) AND toDate(intDiv(until, 86400))
    ${total.value === undefined ? '' : 'AND value = {value:String}'}
)
WHERE n > 0 AND part.1 < until
GROUP BY at, name, value, metric HAVING amount <> 0 ORDER BY at, name, value, metric`

const seconds = (time: Date) => Math.floor(time.getTime() / 1000)

/** Reads counted clicks as the JSON of `amounts_of_values` in migrations/functions/reads/groupings.sql. */
export async function readClickCells(clickHouse: ClickHouse, programId: number, totals: ClickTotals[]) {
  const parts = totals.map(async (total) => {
    const { names, metrics, value, starts, until } = total
    const rows = await clickHouse.read(cellsQuery(total), {
      program: programId,
      names,
      metrics,
      starts: starts.map(seconds),
      until: seconds(until),
      ...(value !== undefined && { value }),
    })
    return z.array(cell).parse(rows)
  })
  return JSON.stringify((await Promise.all(parts)).flat())
}

/** The clicks of a page of events. */
export interface ClickChoice {
  programId: number
  /** Ids of links. Undefined for all. */
  links?: number[] | undefined
  country?: string | undefined
  /** `to` is exclusive. */
  from?: Date | undefined
  to?: Date | undefined
  /** The page begins beyond this place: later clicks first if it `rises`. */
  place: { rises: boolean; at_us: number | undefined; id: number }
  limit: number
}

type ClickEvent = Selectable<DB['click_events']>
const eventRow = z.object({ event: z.string() })

/** Reads the clicks of a page as a JSON array of rows, for `mergedClicks`. */
export async function readClickRows(clickHouse: ClickHouse, choice: ClickChoice): Promise<string> {
  const { programId, links, country, from, to, place, limit } = choice
  const conditions = [
    'program_id = {program:UInt64}',
    links && 'has({links:Array(UInt64)}, link_id)',
    country !== undefined && "origin['country'] = {country:String}",
    from && 'at_us >= {from:Int64}',
    to && 'at_us < {to:Int64}',
    place.at_us !== undefined && `(at_us, id) ${place.rises ? '>' : '<'} ({edge:Int64}, {edge_id:UInt64})`,
  ]
  const direction = place.rises ? 'ASC' : 'DESC'
  const rows = await clickHouse.read(
    `SELECT event FROM svc_clicks FINAL WHERE ${conditions.filter(Boolean).join(' AND ')}
ORDER BY at_us ${direction}, id ${direction} LIMIT {limit:UInt32}`,
    {
      program: programId,
      limit,
      ...(links && { links }),
      ...(country !== undefined && { country }),
      ...(from && { from: from.getTime() * 1000 }),
      ...(to && { to: to.getTime() * 1000 }),
      ...(place.at_us !== undefined && { edge: place.at_us, edge_id: place.id }),
    },
  )
  return `[${z
    .array(eventRow)
    .parse(rows)
    .map(({ event }) => event)
    .join(',')}]`
}

/** Selects a page of clicks from rows of ClickHouse and the clicks that it may not have yet. */
export function mergedClicks({ programId, links, country, from, to, place, limit }: ClickChoice, rows: string) {
  const direction = place.rises ? 'asc' : 'desc'
  const edge = place.at_us === undefined ? null : String(place.at_us)
  return kysely
    .selectFrom(sql<ClickEvent>`merged_clicks(${programId}, ${rows}::jsonb)`.as('e'))
    .selectAll('e')
    .where(
      sql<boolean>`is_listed_click(e.link_id, e.geo_country, e.click_timestamp, e.id, ${links ?? null}::bigint[], ${country ?? null}, ${from ?? null}, ${to ?? null},
        timestamptz 'epoch' + ${edge}::bigint * interval '1 microsecond', ${String(place.id)}, ${place.rises})`,
    )
    .orderBy('e.click_timestamp', direction)
    .orderBy('e.id', direction)
    .limit(limit)
}

/**
 * Runs statements with a page of clicks from ClickHouse, or without one if it isn't available or if `choice` is undefined. If a batch arrived
 * between the two reads, reads everything from Postgres, so that no click is missing.
 */
export async function withClickRows<Row>(
  db: Database,
  clickHouse: ClickHouse | undefined,
  choice: ClickChoice | undefined,
  statementsOf: (rows: string | undefined) => Statement<Row>[],
): Promise<Row[][]> {
  const found = choice && (await fromClickHouse(clickHouse, (server) => readClickRows(server, choice)))
  if (found) {
    const results = await db.batch<Statement<Row | SinkState>[]>([...statementsOf(found.result), sinkStatement()])
    // oxlint-disable-next-line no-unsafe-type-assertion -- the last statement reads the state
    const [sink] = results.pop() as SinkState[]
    // oxlint-disable-next-line no-unsafe-type-assertion -- the other statements read rows
    if (sink && isUnchanged(found.progress, sink)) return results as Row[][]
  }
  return await db.batch(statementsOf(undefined))
}
