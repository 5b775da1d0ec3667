import { requireAction } from '../lib/access.ts'
import { createApp, onlyMethods } from '../lib/app.ts'
import { openDatabase } from '../lib/database.ts'
import { readEvents } from '../lib/events.ts'
import { checked, findReader, privateHeaders, type ReadEnv } from '../lib/program-reads.ts'
import { eventsQuery, programPath } from '../lib/read-requests.ts'

const path = '/api/tracking/events/:programId'
const app = createApp<ReadEnv>()

/**
 * GET /api/tracking/events/:programId. Query: `eventsQuery`. The session comes as `Authorization: Bearer <token>` or as the
 * dashboard's cookie. 200 `EventPage`; 401 no session, 400, 404 no such program, 403 without the action `tracking:list`.
 */
app.get(path, findReader, checked('param', programPath), checked('query', eventsQuery), async (c) => {
  const program = requireAction(c.get('access'), 'tracking:list')
  return c.json(await readEvents(openDatabase(c.env), program.id, c.req.valid('query')), 200, privateHeaders)
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
