import { findAccess, requireAction } from '../lib/access/program-access.ts'
import { createApp, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { programPath } from '../lib/api/program-path.ts'
import { checkSession, countReader, privateHeaders, type ReadEnv } from '../lib/api/session.ts'
import { eventsQuery } from '../lib/api/tracking-events.ts'
import { type ClickHouseEnv, openClickHouse } from '../lib/click-house.ts'
import { openDatabase } from '../lib/database.ts'
import { asEventPage, eventPageStatements, readEventPage } from '../lib/tracking/events.ts'

const path = '/api/tracking/events/:programId'
const app = createApp<ReadEnv & ClickHouseEnv>()

/**
 * GET /api/tracking/events/:programId. Query: `eventsQuery`. Session: `Authorization: Bearer <token>` or the
 * dashboard's cookie. 200 `EventPage`; 401 without a session; 400; 404 unknown program; 403 without the action
 * `tracking:list`.
 */
app.get(
  path,
  countReader,
  accept('param', programPath, checkSession),
  accept('query', eventsQuery, checkSession),
  async (c) => {
    const { programId } = c.req.valid('param')
    const query = c.req.valid('query')
    const db = openDatabase(c.env)
    const clickHouse = openClickHouse(c.env)
    const statements = clickHouse ? [] : eventPageStatements(programId, query)
    const { access, results } = await findAccess(db, c.env, c.req.raw.headers, programId, statements)
    requireAction(access, 'tracking:list')
    const page = clickHouse ? await readEventPage(db, programId, query, clickHouse) : asEventPage(results, query)
    return c.json(page, 200, privateHeaders)
  },
)
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
