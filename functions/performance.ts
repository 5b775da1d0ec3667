import { onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { asGrouped, asGroupsQuery, groupedQuery } from '../lib/api/performance.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { type ClickHouseEnv, openClickHouse } from '../lib/click-house.ts'
import { readGroups } from '../lib/tracking/groupings.ts'

const app = createProgramApi<ClickHouseEnv>()
const path = '/api/v1/performance'

app.get(path, withKey('read'), accept('query', groupedQuery, known), async (c) => {
  const query = c.req.valid('query')
  const groupsQuery = asGroupsQuery(query)
  const groups = await readGroups(c.get('db'), c.get('programId'), groupsQuery, openClickHouse(c.env))
  return c.json(asGrouped(query, groupsQuery, groups))
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
