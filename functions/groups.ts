import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { asGroup, groupChanges, groupPath, groupsQuery, newGroup } from '../lib/api/groups.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { makeOnce } from '../lib/idempotency.ts'
import { changeGroup, listGroups, makeGroup, readGroup } from '../lib/programs/groups.ts'

const app = createProgramApi()
const [all, one] = ['/api/v1/groups', '/api/v1/groups/:group_id'] as const
const named = accept('param', groupPath, known)

/** GET /api/v1/groups, scope `read`: 200 `{success, data, next_cursor}`, the newest first. */
app.get(all, withKey('read'), accept('query', groupsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const groups = await listGroups(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(groups, query.limit, asGroup, idCursorOf))
})

/** POST /api/v1/groups, scope `manage`, with an Idempotency-Key: 200 `{success, group}`; 409 where the name is taken. */
app.post(all, limitBody, withKey('manage'), accept('json', newGroup, known), withIdempotency, async (c) => {
  const { name, rules = [] } = c.req.valid('json')
  const group = await makeOnce(() => makeGroup(c.get('db'), c.get('programId'), { name, rules }))
  return c.json({ success: true, group: asGroup(group) })
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

/** GET /api/v1/groups/{group_id}, scope `read`: 200 `{success, group}`; 404. */
app.get(one, withKey('read'), named, async (c) => {
  const group = await readGroup(c.get('db'), c.get('programId'), c.req.valid('param').group_id)
  return c.json({ success: true, group: asGroup(group) })
})

/** PATCH /api/v1/groups/{group_id}, scope `manage`: 200 `{success, group}`; 404, 409. */
app.patch(one, limitBody, withKey('manage'), named, accept('json', groupChanges, known), async (c) => {
  const id = c.req.valid('param').group_id
  const group = await changeGroup(c.get('db'), c.get('programId'), id, c.req.valid('json'))
  return c.json({ success: true, group: asGroup(group) })
})
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH'))

export default app
