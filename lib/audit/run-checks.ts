/** A rule across several rows. */
export interface Check {
  name: string
  /**
   * Finds the rows that break the rule: program_id, subject, found, expected. $1 is one program, or null for all. Joins run in the written
   * order and read each table once. So each join lists all columns that identify its rows, and conditions use a join instead of `exists`.
   */
  query: string
}

/** A row that breaks a rule. The check's query writes `found` and `expected`. */
export interface Finding {
  program_id: string
  subject: string
  found: string | null
  expected: string | null
}

/** `Database` returns ids as numbers, and a plain connection returns them as text. */
interface FoundRow extends Omit<Finding, 'program_id'> {
  program_id: string | number
  total: number
  of_program: number
}

export interface CheckResult {
  check: string
  /** The number of broken rows. `findings` contains the first twenty of each program. */
  total: number
  findings: (Finding & { of_program: number })[]
  duration_ms: number
}

/** A query for a plain Postgres connection. If it has a name, the connection keeps its plan. */
export interface AuditQuery {
  name?: string
  text: string
  values: unknown[]
}

const findingsShown = 20

/**
 * Forces hash joins in the written order, so that a check reads each side once. Tables that were just filled have no good statistics, and
 * the planner would run nested loops for minutes. Gathering statistics would take as long as the audit. The settings apply to the
 * transaction.
 */
export const planSettings = `select set_config('enable_nestloop', 'off', true), set_config('enable_mergejoin', 'off', true),
  set_config('join_collapse_limit', '1', true)`

/** Runs checks on the whole database or on one program. `ask` runs a query with `planSettings` and returns its rows. */
export async function runChecks(
  checks: Check[],
  ask: <Row extends object>(query: AuditQuery) => Promise<Row[]>,
  programId?: number,
): Promise<CheckResult[]> {
  const results: CheckResult[] = []
  for (const [index, { name: check, query }] of checks.entries()) {
    const started = performance.now()
    const rows = await ask<FoundRow>({
      ...(programId !== undefined && { name: `audit ${index}` }),
      text: `select * from (
        select *, (count(*) over ())::integer as total, (count(*) over (partition by program_id))::integer as of_program,
          row_number() over (partition by program_id) as place
        from (${query}) off
      ) found where place <= ${findingsShown}`,
      values: [programId ?? null],
    })
    results.push({
      check,
      total: rows[0]?.total ?? 0,
      findings: rows.map(({ program_id: id, subject, found, expected, of_program }) => ({
        program_id: String(id),
        subject,
        found,
        expected,
        of_program,
      })),
      duration_ms: Math.round(performance.now() - started),
    })
  }
  return results
}
