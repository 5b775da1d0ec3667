import { CompiledQuery, type InferResult, sql } from 'kysely'
import { attempt, type Failures } from '../batches.ts'
import type { Database, Statement } from '../database.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { checks } from './checks.ts'
import { foreignKeys } from './foreign-keys.ts'
import { type Check, type CheckResult, planSettings, runChecks } from './run-checks.ts'

export type LatestAudit = InferResult<ReturnType<typeof auditStatement>>[number]

/**
 * Audits the whole database and stores the result. Each check reads its own snapshot. Does nothing if the latest audit began within the
 * last 20 hours. `compare` checks another database. If it fails, the result has only the other checks. If a check fails, adds its error to
 * `failures`, and the result has only the other checks. Returns the results, or null.
 */
export async function auditNightly(
  db: Database,
  failures: Failures,
  compare?: () => Promise<CheckResult>,
): Promise<CheckResult[] | null> {
  const [recent] = await db.query(
    kysely
      .selectFrom('audits')
      .select('started_at')
      .where('started_at', '>', sql<Date>`now() - interval '20 hours'`),
  )
  if (recent) return null
  const startedAt = new Date()
  const keys = await db.query<Check>(raw(foreignKeys))
  const ask = async <Row>({ text, values }: { text: string; values: unknown[] }) =>
    (await db.batch([raw(planSettings), raw<Row>(text, values)]))[1]
  const results: CheckResult[] = []
  for (const check of [...checks, ...keys])
    results.push(...(await attempt(failures, check.name, () => runChecks([check], ask), [])))
  const compared = await compare?.().catch(logFailure)
  if (compared) results.push(compared)
  await db.batch(storeStatements(startedAt, results))
  return results
}

function logFailure(error: unknown): undefined {
  const { name, message } = error instanceof Error ? error : { name: typeof error, message: '' }
  console.error(JSON.stringify({ function: 'audit-books', error: 'comparison', name, message }))
}

const raw = <Row>(text: string, values: unknown[] = []): Statement<Row> => ({
  compile: () => CompiledQuery.raw(text, values),
})

/** Returns the statements that store the results of an audit of the whole database in place of the previous one, in one transaction. */
export function storeStatements(startedAt: Date, results: CheckResult[]): Statement<unknown>[] {
  const audit = {
    started_at: startedAt,
    duration_ms: results.reduce((sum, { duration_ms: ms }) => sum + ms, 0),
    rules: results.length,
  }
  const found = results.flatMap(({ check: rule, findings }) => findings.map((finding) => ({ rule, ...finding })))
  return [
    // This statement comes first. Its lock makes a concurrent audit wait and then delete these findings.
    kysely
      .insertInto('audits')
      .values(audit)
      .onConflict((conflict) => conflict.column('is_latest').doUpdateSet(audit)),
    kysely.deleteFrom('audit_findings'),
    kysely
      .insertInto('audit_findings')
      .columns(['program_id', 'rule', 'broken', 'subject', 'found', 'expected'])
      .expression(
        sql`select program_id, rule, of_program, subject, found, expected from jsonb_to_recordset(${JSON.stringify(found)}::jsonb)
          as f (program_id bigint, rule text, of_program integer, subject text, found text, expected text)`,
      ),
  ]
}

/** The time, duration and number of rules of the latest audit, or undefined if none has run. */
export const auditStatement = () => kysely.selectFrom('audits').select(['started_at', 'duration_ms', 'rules'])

export const findingTotals = (programId: number) => totalsOf(findingsStatement(programId, { limit: 0 }))

/** Lists the findings of the latest audit in one program. */
export function findingsStatement(programId: number, part: Part) {
  const query = kysely
    .selectFrom('audit_findings as f')
    .select(['f.id', 'f.rule', 'f.broken', 'f.subject', 'f.found', 'f.expected'])
    .where('f.program_id', '=', programId)
  return partOf(query, sql.ref<number>('f.id'), part)
}
