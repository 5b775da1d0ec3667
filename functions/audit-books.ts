import { auditNightly } from '../lib/audit/stored-audit.ts'
import { Database, type DatabaseEnv } from '../lib/database.ts'

/** Each check reads whole tables, which takes time. */
const checkWithinMilliseconds = 5 * 60 * 1000

/** Scheduled: compares every sum in the database with its rows, and stores the result for the page "Books". */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const results = await auditNightly(new Database(env, checkWithinMilliseconds))
    if (!results) return
    const broken = results.filter(({ total }) => total > 0).map(({ check }) => check)
    console.log(JSON.stringify({ function: 'audit-books', rules: results.length, broken }))
  },
}
