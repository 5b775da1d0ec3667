import { readdirSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { ClientBase } from 'pg'
import color from 'picocolors'
import { commandDatabase } from './running-stack.ts'
import { foreignKeys } from './audit/foreign-keys.ts'
import { runCommand } from './command.ts'
import { withClient } from './migrate.ts'

/** One thing that is not as it should be. `found` and `expected` are as the check's query wrote them. */
export interface Finding {
  program_id: string
  subject: string
  found: string | null
  expected: string | null
}

export interface CheckResult {
  check: string
  /** How many things are off; `findings` holds the first twenty. */
  total: number
  findings: Finding[]
  duration_ms: number
}

const findingsShown = 20

interface Check {
  /** What must be true. */
  name: string
  /**
   * What contradicts it: program_id, subject, found, expected. $1 is the program that the audit is of, or null for all of them. It
   * reads whole tables once, not a row at a time: its joins run in the order in which they are written, so each names all the columns by
   * which it finds its rows, and what `exists` in a larger condition is a join, too.
   */
  query: string
}

const folder = new URL('audit/', import.meta.url)

/** The SQL files of the folder `audit`. The first line of each is what must be true. */
export const checks: Check[] = readdirSync(folder)
  .filter((file) => file.endsWith('.sql'))
  .map((file) => {
    const query = readFileSync(new URL(file, folder), 'utf8')
    return { name: query.slice('-- '.length, query.indexOf('\n')), query }
  })

/**
 * Every join is a hash join by all of its columns, in the order written, so that its work is that of reading both sides once. Postgres would choose by
 * statistics, which say nothing of tables that were just filled and little of those that were read while they were small: then it loops over
 * two large tables, merges them by the program alone or joins them by it first, and a check takes minutes. Gathering statistics first would
 * take as long as the audit does, and write.
 */
const plans = 'set local enable_nestloop = off; set local enable_mergejoin = off; set local join_collapse_limit = 1'

/** Those who audit a program by itself do so again on the same connection: each check is prepared there, and its plan kept. */
const plansOfPrograms = `${plans}; set local plan_cache_mode = force_generic_plan`

/**
 * Checks that everything the data says agrees, in a whole database or in one program, on one snapshot, so that it can run beside
 * the service. Foreign keys are read again only where the whole database is checked. `client` is a plain Postgres connection
 * without an open transaction.
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
    // Where the connection broke, why it did is what is told.
    await client.query('rollback').catch(() => {})
  }
}

/** What an audit found, one line for each finding; none where everything agrees. */
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

const usage = `npm run audit    compares every sum with the rows it is made of, in the database of DATABASE_URL or of the running local
                 stack; reads only, and ends with 1 where one is off`

if (import.meta.main) {
  await runCommand(usage, () => {
    parseArgs({})
    return main(commandDatabase().DATABASE_URL)
  })
}
