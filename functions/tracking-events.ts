import { createApp, onlyMethods } from '../lib/api/app.ts'
import { asEventPage, eventPageStatements } from '../lib/tracking/events.ts'
import { privateHeaders, readProgram, type ReadEnv } from '../lib/api/read-program.ts'
import { eventsQuery } from '../lib/api/tracking-events.ts'

const path = '/api/tracking/events/:programId'
const app = createApp<ReadEnv>()

/**
 * GET /api/tracking/events/:programId. Query: `eventsQuery`. The session comes as `Authorization: Bearer <token>` or as the
 * dashboard's cookie. 200 `EventPage`; 401 no session, 400, 404 no such program, 403 without the action `tracking:list`.
 */
app.get(path, async (c) => {
  const { query, results } = await readProgram(c, 'tracking:list', eventsQuery, eventPageStatements)
  return c.json(asEventPage(results, query), 200, privateHeaders)
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
