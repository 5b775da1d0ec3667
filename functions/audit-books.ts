import { auditNightly } from '../lib/audit/stored-audit.ts'
import { type Failures, throwFailures } from '../lib/batches.ts'
import { type ClickHouseEnv, openClickHouse } from '../lib/click-house.ts'
import { Database, type DatabaseEnv } from '../lib/database.ts'
import { compareClicks } from '../lib/tracking/click-comparison.ts'

/** Each check reads whole tables, which takes time. */
const checkWithinMilliseconds = 5 * 60 * 1000

/** Scheduled: compares every sum in the database with its rows, and stores the result for the page "Books". */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & ClickHouseEnv): Promise<void> {
    const db = new Database(env, checkWithinMilliseconds)
    const clickHouse = openClickHouse(env)
    const failures: Failures = new Map()
    const results = await auditNightly(db, failures, clickHouse && (() => compareClicks(db, clickHouse)))
    if (!results) return
    const broken = results.filter(({ total }) => total > 0).map(({ check }) => check)
    console.log(JSON.stringify({ function: 'audit-books', rules: results.length, broken }))
    throwFailures('audit-books', failures)
  },
}
