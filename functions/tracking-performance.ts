import { createApp, onlyMethods } from '../lib/api/app.ts'
import { asPerformance, performanceStatement } from '../lib/tracking/performance.ts'
import { privateHeaders, readProgram, type ReadEnv } from '../lib/api/read-program.ts'
import { performanceQuery } from '../lib/api/tracking-performance.ts'

const path = '/api/tracking/performance/:programId'
const app = createApp<ReadEnv>()

/**
 * GET /api/tracking/performance/:programId. Query: `performanceQuery`; a date without the other is ignored. The session comes as
 * `Authorization: Bearer <token>` or as the dashboard's cookie. 200 `Performance`; 401 no session, 400, 404 no such program, 403
 * not an active member of its workspace.
 */
app.get(path, async (c) => {
  const now = Date.now()
  const { program, query, results } = await readProgram(c, 'performance:read', performanceQuery, (programId, asked) => [
    performanceStatement(programId, asked, now),
  ])
  return c.json(asPerformance(results.flat(), program, query, now), 200, privateHeaders)
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
