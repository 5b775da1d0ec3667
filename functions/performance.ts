import { onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { asGrouped, asGroupsQuery, groupedQuery } from '../lib/api/performance.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { readGroups } from '../lib/tracking/groupings.ts'

const app = createProgramApi()
const path = '/api/v1/performance'

app.get(path, withKey('read'), accept('query', groupedQuery, known), async (c) => {
  const query = c.req.valid('query')
  const groupsQuery = asGroupsQuery(query)
  return c.json(asGrouped(query, groupsQuery, await readGroups(c.get('db'), c.get('programId'), groupsQuery)))
})
app.all(path, onlyMethods('GET', 'HEAD'))

export default app
