import { sql } from 'kysely'
import * as z from 'zod/mini'
import type { CheckResult } from '../audit/run-checks.ts'
import { type ClickHouse, slowMilliseconds } from '../click-house.ts'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { sinkStatement } from './click-sink.ts'

const check = 'clicks in ClickHouse match Postgres'

/** The newest hour is not compared, because clicks of slow requests still arrive. */
const settledMs = 60 * 60 * 1000
/** The remainder of an id by this number keeps the sum of ids below 2^53. */
const modulus = 1_000_003

const counted = z.object({ program: z.int(), subject: z.string(), rows: z.int(), sum: z.int() })
type Counted = z.infer<typeof counted>

const inClickHouse = `
SELECT program_id AS program, concat('clicks of ', formatDateTime(fromUnixTimestamp64Micro(at_us, 'UTC'), '%Y-%m')) AS subject,
  count() AS rows, sum(id % {modulus:UInt32}) AS sum
FROM svc_clicks FINAL WHERE at_us < {until:Int64} GROUP BY program, subject
UNION ALL
SELECT program_id, concat(metric, ' by ', name), count(), sum(sums[-1]) FROM svc_counts FINAL
WHERE toInt64(toUInt16(day)) * 86400000000 < {until:Int64} - 86400000000 GROUP BY program_id, metric, name`

/**
 * Counts the clicks and their totals in both databases. A difference is a finding of the audit. Compares the time up to the latest batch
 * and up to an hour ago, so call `sendClicks` first. Compares nothing before the copy is complete.
 */
export async function compareClicks(db: Database, clickHouse: ClickHouse, now = Date.now()): Promise<CheckResult> {
  const started = performance.now()
  const [sink] = await db.query(sinkStatement())
  const findings = sink?.is_complete
    ? await differences(db, clickHouse, Math.min(sink.up_to.getTime(), now - settledMs))
    : []
  return { check, total: findings.length, findings, duration_ms: Math.round(performance.now() - started) }
}

const keyOf = ({ program, subject }: Counted) => `${program} ${subject}`
const textOf = (row: Counted | undefined) => `${row?.rows ?? 0} rows, sum ${row?.sum ?? 0}`

async function differences(db: Database, clickHouse: ClickHouse, until: number) {
  const [clicks, totals] = await db.batch([clicksStatement(until), totalsStatement(until)])
  const rows = await clickHouse.read(inClickHouse, { modulus, until: until * 1000 }, slowMilliseconds)
  const found = new Map(
    z
      .array(counted)
      .parse(rows)
      .map((row) => [keyOf(row), row]),
  )
  const expected = new Map([...clicks, ...totals].map((row) => [keyOf(row), row]))
  const differing = [...new Set([...expected.keys(), ...found.keys()])].toSorted().flatMap((key) => {
    const row = expected.get(key) ?? found.get(key)
    const [here, there] = [textOf(expected.get(key)), textOf(found.get(key))]
    return row && here !== there
      ? [{ program_id: String(row.program), subject: row.subject, found: there, expected: here }]
      : []
  })
  const ofProgram = Map.groupBy(differing, ({ program_id: id }) => id)
  return differing.map((row) => ({ ...row, of_program: ofProgram.get(row.program_id)?.length ?? 0 }))
}

const clicksStatement = (until: number) =>
  kysely
    .selectFrom('affiliate_click_events as e')
    .select([
      'e.program_id as program',
      sql<string>`to_char(e.click_timestamp at time zone 'UTC', '"clicks of "YYYY-MM')`.as('subject'),
      (of) => of.fn.countAll<number>().as('rows'),
      sql<number>`sum(e.id % ${sql.lit(modulus)})::bigint`.as('sum'),
    ])
    .where((of) => of.not('e.is_test'))
    .where('e.click_timestamp', '<', new Date(until))
    .groupBy(['program', 'subject'])

const totalsStatement = (until: number) =>
  kysely
    .selectFrom('grouped_quarters as q')
    .select([
      'q.program_id as program',
      sql<string>`concat(q.metric, ' by ', q.grouping_name)`.as('subject'),
      (of) => of.fn.countAll<number>().as('rows'),
      sql<number>`sum(q.sums[cardinality(q.sums)])::bigint`.as('sum'),
    ])
    .where('q.metric', 'in', ['clicks', 'bot_clicks'])
    .where('q.currency', '=', '')
    .where(sql<boolean>`day_start(q.day) < ${new Date(until)}::timestamptz - interval '1 day'`)
    .groupBy(['program', 'subject'])
