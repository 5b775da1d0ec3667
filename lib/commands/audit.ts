import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { ClientBase } from 'pg'
import color from 'picocolors'
import { commandDatabase } from './running-stack.ts'
import { foreignKeys } from './audit/foreign-keys.ts'
import { runCommand } from './command.ts'
import { withClient } from './migrate.ts'

/** A row that breaks a check. The check's query writes `found` and `expected`. */
export interface Finding {
  program_id: string
  subject: string
  found: string | null
  expected: string | null
}

export interface CheckResult {
  check: string
  /** All broken rows. `findings` holds the first twenty. */
  total: number
  findings: Finding[]
  duration_ms: number
}

const findingsShown = 20

interface Check {
  /** The rule that must hold. */
  name: string
  /**
   * Finds the rows that break the rule: program_id, subject, found, expected. $1 is one program, or null for all.
   * Joins run in the written order and read each table once. So each join names all columns that identify its rows, and a
   * condition uses a join instead of `exists`.
   */
  query: string
}

const folder = new URL('audit/', import.meta.url)

/** The SQL files of the folder `audit`. The first line of each states its rule. */
export const checks: Check[] = readdirSync(folder)
  .filter((file) => file.endsWith('.sql'))
  .map((file) => {
    const query = readFileSync(new URL(file, folder), 'utf8')
    return { name: query.slice('-- '.length, query.indexOf('\n')), query }
  })

/**
 * Forces hash joins in the written order, so that a check reads each side once. The planner has no good statistics for tables that were
 * just filled and would run nested loops for minutes. Gathering statistics would take as long as the audit, and it would write to the
 * database.
 */
const plans = 'set local enable_nestloop = off; set local enable_mergejoin = off; set local join_collapse_limit = 1'

/** A program's audit often repeats on one connection, so each check keeps its prepared plan. */
const plansOfPrograms = `${plans}; set local plan_cache_mode = force_generic_plan`

/**
 * Checks a whole database or one program on one snapshot, so it can run while the service is running. It checks foreign keys only for the
 * whole database. `client` is a plain Postgres connection without an open transaction.
 */
export async function audit(client: ClientBase, programId?: number): Promise<CheckResult[]> {
  await client.query('begin isolation level repeatable read read only')
  try {
    await client.query(programId === undefined ? plans : plansOfPrograms)
    const keys = programId === undefined ? (await client.query<Check>(foreignKeys)).rows : []
    const results: CheckResult[] = []
    for (const [index, { name: check, query }] of [...checks, ...keys].entries()) {
      const started = performance.now()
      const { rows } = await client.query<Finding & { total: number }>({
        ...(programId !== undefined && { name: `audit ${index}` }),
        text: `select *, (count(*) over ())::integer as total from (${query}) off limit ${findingsShown}`,
        values: [programId ?? null],
      })
      const findings = rows.map(({ program_id, subject, found, expected }) => ({
        program_id,
        subject,
        found,
        expected,
      }))
      results.push({
        check,
        total: rows[0]?.total ?? 0,
        findings,
        duration_ms: Math.round(performance.now() - started),
      })
    }
    return results
  } finally {
    // If the connection broke, report that error and not this one.
    await client.query('rollback').catch(() => {})
  }
}

/** Returns a line for each finding of an audit. */
export async function findDifferences(client: ClientBase, programId?: number): Promise<string[]> {
  const results = await audit(client, programId)
  return results.flatMap(({ check, findings }) =>
    findings.map((f) => `${check}: program ${f.program_id}, ${f.subject}: found ${f.found}, expected ${f.expected}`),
  )
}

async function main(databaseUrl: string): Promise<void> {
  const results = await withClient(databaseUrl, 'svc-audit', (client) => audit(client))
  for (const { check, total, findings, duration_ms } of results) {
    const mark = total === 0 ? color.green('✓') : color.red('✗')
    console.log(`${mark} ${check} ${color.dim(`${total === 0 ? '' : `${total} off, `}${duration_ms} ms`)}`)
    if (total > 0) console.table(findings)
  }
  const failed = results.filter(({ total }) => total > 0).length
  console.log(failed === 0 ? color.green('Everything agrees.') : color.red(`${failed} checks failed.`))
  if (failed > 0) process.exitCode = 1
}

const usage = `npm run audit    compares every sum with its rows, in the database of DATABASE_URL or of the running local stack. Changes
                 nothing, and exits with 1 if a sum is wrong`

if (import.meta.main) {
  await runCommand(usage, () => {
    parseArgs({})
    return main(commandDatabase().DATABASE_URL)
  })
}
