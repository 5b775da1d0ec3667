import { findAccess, requireAction } from '../lib/access/program-access.ts'
import { createApp, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { programPath } from '../lib/api/program-path.ts'
import { checkSession, countReader, privateHeaders, type ReadEnv } from '../lib/api/session.ts'
import { performanceQuery } from '../lib/api/tracking-performance.ts'
import { openDatabase } from '../lib/database.ts'
import { performanceStatement } from '../lib/tracking/performance.ts'
import { asPerformance } from '../lib/tracking/performance-answer.ts'

const path = '/api/tracking/performance/:programId'
const app = createApp<ReadEnv>()

/**
 * GET /api/tracking/performance/:programId. Query: `performanceQuery`. Ignores a single date. Session:
 * `Authorization: Bearer <token>` or the dashboard's cookie. 200 `Performance`; 401 without a session; 400; 404
 * unknown program; 403 if the user is not an active member of its workspace.
 */
app.get(
  path,
  countReader,
  accept('param', programPath, checkSession),
  accept('query', performanceQuery, checkSession),
  async (c) => {
    const now = Date.now()
    const { programId } = c.req.valid('param')
    const query = c.req.valid('query')
    const statements = [performanceStatement(programId, query, now)]
    const { access, results } = await findAccess(openDatabase(c.env), c.env, c.req.raw.headers, programId, statements)
    const program = requireAction(access, 'performance:read')
    return c.json(asPerformance(results.flat(), program, query, now), 200, privateHeaders)
  },
)
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
