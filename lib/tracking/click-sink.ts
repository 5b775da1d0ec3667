import { type InferResult, sql } from 'kysely'
import * as z from 'zod/mini'
import { type ClickHouse, ClickHouseError, unknownTable } from '../click-house.ts'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/**
 * The tables in ClickHouse. Reads use FINAL, so only the row with the highest version of each key counts. `svc_counts` has the rows of
 * `grouped_quarters` with clicks. `svc_progress` has one row: the latest batch.
 */
const tables = [
  `CREATE TABLE IF NOT EXISTS svc_clicks (program_id UInt64, at_us Int64, id UInt64, version UInt64, link_id Nullable(UInt64), is_bot Bool,
    origin Map(LowCardinality(String), String), event String CODEC(ZSTD(3)))
  ENGINE = ReplacingMergeTree(version) PARTITION BY toYYYYMM(fromUnixTimestamp64Micro(at_us, 'UTC')) ORDER BY (program_id, at_us, id)`,
  `CREATE TABLE IF NOT EXISTS svc_counts (program_id UInt64, name LowCardinality(String), metric LowCardinality(String), day Date, value String,
    quarters Array(UInt8), sums Array(Int64), version UInt64)
  ENGINE = ReplacingMergeTree(version) PARTITION BY toYear(day) ORDER BY (program_id, name, day, metric, value)`,
  `CREATE TABLE IF NOT EXISTS svc_progress (is_only UInt8 DEFAULT 1, batch UInt64, up_to_us Int64, is_complete Bool)
  ENGINE = ReplacingMergeTree(batch) ORDER BY is_only`,
]

const progressRow = z.object({ batch: z.int(), up_to_us: z.int(), is_complete: z.boolean() })

/** The latest batch in ClickHouse. It has every click before `up_to_us`. */
export type Progress = z.infer<typeof progressRow>

/** Reads the progress in ClickHouse. Undefined if it has no batch yet. */
export async function readProgress(clickHouse: ClickHouse): Promise<Progress | undefined> {
  const query = 'SELECT batch, up_to_us, is_complete FROM svc_progress FINAL'
  const [row] = await clickHouse.read(query, {}).catch((error: unknown) => {
    if (error instanceof ClickHouseError && error.code === unknownTable) return []
    throw error
  })
  return row === undefined ? undefined : progressRow.parse(row)
}

/** The sink's state in Postgres, and whether changes are waiting. No row without a sink. Read it after the figures of a page. */
export const sinkStatement = () =>
  kysely
    .selectFrom('click_sink as k')
    .select([
      'k.taken',
      'k.sent',
      'k.is_complete',
      'k.up_to',
      sql<boolean>`exists (select from unsent_clicks) or exists (select from unsent_counts)`.as('is_waiting'),
    ])

export type SinkState = InferResult<ReturnType<typeof sinkStatement>>[number]

/** Returns whether no batch arrived in ClickHouse, and no new copy began, between the read of `progress` and the later read of `sink`. */
export const isUnchanged = ({ batch }: Progress, sink: SinkState) =>
  sink.is_complete && sink.sent <= batch && batch <= sink.taken

/**
 * Returns the time up to which figures from ClickHouse are complete, or undefined if they are exact. `progress` was read before them, and
 * `sink` after them.
 */
export function clicksUntil(progress: Progress, sink: SinkState | undefined): Date | undefined {
  const isExact = sink !== undefined && isUnchanged(progress, sink) && !sink.is_waiting
  return isExact ? undefined : new Date(progress.up_to_us / 1000)
}

const erasedClicks = z.array(z.tuple([z.int(), z.int(), z.int()]))
/** A query of ClickHouse can have 256 KiB, and a key has up to 50 bytes. */
const keysOfQuery = 2000

/**
 * Sends up to `limit` changed clicks and as many changed totals to ClickHouse. Returns their number, and whether more are waiting. The first
 * call creates the tables and begins to copy what exists. A batch that fails stays in Postgres, and a repeated batch changes nothing.
 * @throws if ClickHouse doesn't accept the batch.
 */
export async function sendClicks(
  db: Database,
  clickHouse: ClickHouse,
  limit: number,
): Promise<{ sent: number; more: boolean }> {
  const progress = await readProgress(clickHouse)
  const [state] = await db.query(sinkStatement())
  if (progress !== undefined && progress.batch > (state?.taken ?? 0)) {
    throw new Error('ClickHouse has later clicks than the database. Run `npm run clickhouse -- --copy`.')
  }
  if (!state || (progress === undefined && state.sent > 0)) await startSink(db, clickHouse)
  else if (progress === undefined) await createTables(clickHouse)
  const [part] = await db.query(call('take_click_batch', { max_rows: limit }))
  if (!part) throw new Error('The database has no batch for ClickHouse.')
  const { batch, clicks, counts, erased, drop_before, click_ids, count_ids, up_to, is_complete } = part
  if (batch === null || !up_to) throw new Error('The database has no batch for ClickHouse.')
  const sent = (click_ids?.length ?? 0) + (count_ids?.length ?? 0)
  const isNew = sent > 0 || drop_before !== null || is_complete !== progress?.is_complete
  if (!isNew) return { sent, more: false }
  if (clicks) await clickHouse.insert('svc_clicks', clicks)
  if (counts) await clickHouse.insert('svc_counts', counts)
  // FINAL hides the earlier versions, but erased details must also leave the disk.
  if (erased) {
    const keys = erasedClicks.parse(JSON.parse(erased)).map((key) => `(${key.join()})`)
    for (let at = 0; at < keys.length; at += keysOfQuery) {
      const some = keys.slice(at, at + keysOfQuery)
      await deleteClicks(clickHouse, `(program_id, at_us, id) IN (${some.join()}) AND version < ${batch}`)
    }
  }
  if (drop_before) await deleteClicks(clickHouse, `at_us < ${drop_before.getTime() * 1000}`)
  const row = { batch, up_to_us: up_to.getTime() * 1000, is_complete: is_complete ?? false }
  await clickHouse.insert('svc_progress', JSON.stringify(row))
  await db.query(
    call('confirm_click_batch', { batch, click_ids, count_ids, up_to, is_complete, dropped_before: drop_before }),
  )
  return { sent, more: part.more ?? false }
}

const deleteClicks = (clickHouse: ClickHouse, where: string) =>
  clickHouse.run(`ALTER TABLE svc_clicks DELETE WHERE ${where} SETTINGS mutations_sync = 1`)

/** Empties ClickHouse and begins to copy everything again. Reads use Postgres until the copy is complete. */
export async function startSink(db: Database, clickHouse: ClickHouse): Promise<void> {
  await createTables(clickHouse)
  for (const table of ['svc_progress', 'svc_clicks', 'svc_counts']) await clickHouse.run(`TRUNCATE TABLE ${table}`)
  await db.query(call('start_click_sink', {}))
}

async function createTables(clickHouse: ClickHouse): Promise<void> {
  for (const table of tables) await clickHouse.run(table)
}
