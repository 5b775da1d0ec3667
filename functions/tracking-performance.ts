import { requireAction } from '../lib/access.ts'
import { createApp, onlyMethods } from '../lib/app.ts'
import { openDatabase } from '../lib/database.ts'
import { readPerformance } from '../lib/performance.ts'
import { checked, findReader, privateHeaders, type ReadEnv } from '../lib/program-reads.ts'
import { performanceQuery, programPath } from '../lib/read-requests.ts'

const path = '/api/tracking/performance/:programId'
const app = createApp<ReadEnv>()

/**
 * GET /api/tracking/performance/:programId. Query: `performanceQuery`; a date without the other is ignored. The session comes as
 * `Authorization: Bearer <token>` or as the dashboard's cookie. 200 `Performance`; 401 no session, 400, 404 no such program, 403
 * not an active member of its workspace.
 */
app.get(path, findReader, checked('param', programPath), checked('query', performanceQuery), async (c) => {
  const program = requireAction(c.get('access'), 'performance:read')
  return c.json(await readPerformance(openDatabase(c.env), program, c.req.valid('query')), 200, privateHeaders)
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
