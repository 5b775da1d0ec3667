import { onlyMethods } from '../lib/api/app.ts'
import { eventCursorOf, eventListQuery } from '../lib/api/events.ts'
import { accept } from '../lib/api/input.ts'
import { listed } from '../lib/api/lists.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { type ClickHouseEnv, openClickHouse } from '../lib/click-house.ts'
import { listEvents } from '../lib/tracking/events.ts'

const app = createProgramApi<ClickHouseEnv>()
const path = '/api/v1/events'

app.get(path, withKey('read'), accept('query', eventListQuery, known), async (c) => {
  const { limit, cursor: after, event_type: eventType, from, to } = c.req.valid('query')
  const filter = { eventType, dateFrom: from, dateTo: to, after }
  const events = await listEvents(c.get('db'), c.get('programId'), filter, limit + 1, openClickHouse(c.env))
  return c.json(
    listed(
      events,
      limit,
      ({ event }) => event,
      ({ position }) => eventCursorOf(position),
    ),
  )
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
