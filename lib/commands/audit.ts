import { parseArgs } from 'node:util'
import type { ClientBase } from 'pg'
import color from 'picocolors'
import { checks } from '../audit/checks.ts'
import { foreignKeys } from '../audit/foreign-keys.ts'
import { type AuditQuery, type Check, type CheckResult, planSettings, runChecks } from '../audit/run-checks.ts'
import { storeStatements } from '../audit/stored-audit.ts'
import { runCommand } from './command.ts'
import { withClient } from './migrate.ts'
import { commandDatabase } from './running-stack.ts'

export { checks }

/** A program's audit often runs repeatedly on one connection, so each check keeps its prepared plan. */
const genericPlans = 'set local plan_cache_mode = force_generic_plan'

/**
 * Checks a whole database or one program on one snapshot, so it can run while the service is running. It checks foreign keys only for the
 * whole database. `client` is a plain Postgres connection without an open transaction.
 */
export async function audit(client: ClientBase, programId?: number): Promise<CheckResult[]> {
  await client.query('begin isolation level repeatable read read only')
  try {
    await client.query(planSettings)
    if (programId !== undefined) await client.query(genericPlans)
    const keys = programId === undefined ? (await client.query<Check>(foreignKeys)).rows : []
    const ask = async <Row extends object>(query: AuditQuery) => (await client.query<Row>(query)).rows
    return await runChecks([...checks, ...keys], ask, programId)
  } finally {
    // If the connection broke, that error is reported instead of this one.
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

/** The maximum number of findings that the command prints for each rule. */
const findingsShown = 20

async function store(client: ClientBase, startedAt: Date, results: CheckResult[]): Promise<void> {
  await client.query('begin')
  for (const statement of storeStatements(startedAt, results)) {
    const { sql, parameters } = statement.compile()
    await client.query(sql, [...parameters])
  }
  await client.query('commit')
}

async function main(databaseUrl: string): Promise<void> {
  const results = await withClient(databaseUrl, 'svc-audit', async (client) => {
    const startedAt = new Date()
    const audited = await audit(client)
    await store(client, startedAt, audited)
    return audited
  })
  for (const { check, total, findings, duration_ms } of results) {
    const mark = total === 0 ? color.green('✓') : color.red('✗')
    console.log(`${mark} ${check} ${color.dim(`${total === 0 ? '' : `${total} off, `}${duration_ms} ms`)}`)
    if (total > 0) console.table(findings.slice(0, findingsShown), ['program_id', 'subject', 'found', 'expected'])
  }
  const failed = results.filter(({ total }) => total > 0).length
  console.log(failed === 0 ? color.green('Everything agrees.') : color.red(`${failed} checks failed.`))
  if (failed > 0) process.exitCode = 1
}

const usage = `npm run audit    compares every sum with its rows, in the database of DATABASE_URL or of the running local stack. Stores
                 the result for the page "Books", and exits with 1 if a sum is wrong`

if (import.meta.main) {
  await runCommand(usage, () => {
    parseArgs({})
    return main(commandDatabase().DATABASE_URL)
  })
}
