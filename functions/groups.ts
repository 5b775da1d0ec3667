import { limitBody, onlyMethods } from '../lib/api/app.ts'
import {
  asGroup,
  asRule,
  groupChanges,
  groupPath,
  groupsQuery,
  movedPartners,
  newGroup,
  rulesChange,
  rulesPreview,
} from '../lib/api/groups.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { programChanges } from '../lib/api/program.ts'
import { createOnce } from '../lib/idempotency.ts'
import { changeRules, defaultTermsNow, previewRules } from '../lib/programs/commission-rules.ts'
import { changeProgramOfKey, readProgramOfKey } from '../lib/programs/programs.ts'
import { changeGroup, listGroups, createGroup, movePartners, readGroup, removeGroup } from '../lib/programs/groups.ts'

const app = createProgramApi()
const [all, one, members] = ['/api/v1/groups', '/api/v1/groups/:group_id', '/api/v1/groups/:group_id/partners'] as const
const program = '/api/v1/program'
const [rules, previews] = ['/api/v1/rules', '/api/v1/rules/preview'] as const
const named = accept('param', groupPath, known)

app.get(all, withKey('read'), accept('query', groupsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const groups = await listGroups(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(groups, query.limit, asGroup, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newGroup, known), withIdempotency, async (c) => {
  const { name, rules: newRules = [] } = c.req.valid('json')
  const group = await createOnce(() => createGroup(c.get('db'), c.get('programId'), { name, rules: newRules }))
  return c.json({ success: true, group: asGroup(group) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), named, async (c) => {
  const group = await readGroup(c.get('db'), c.get('programId'), c.req.valid('param').group_id)
  return c.json({ success: true, group: asGroup(group) })
})

app.patch(one, limitBody, withKey('manage'), named, accept('json', groupChanges, known), async (c) => {
  const id = c.req.valid('param').group_id
  const group = await changeGroup(c.get('db'), c.get('programId'), id, c.req.valid('json'))
  return c.json({ success: true, group: asGroup(group) })
})

app.delete(one, withKey('manage'), named, async (c) => {
  const id = c.req.valid('param').group_id
  await removeGroup(c.get('db'), c.get('programId'), id)
  return c.json({ success: true, deleted_id: id })
})
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH', 'DELETE'))

app.post(members, limitBody, withKey('manage'), named, accept('json', movedPartners, known), async (c) => {
  const { partner_ids: ids } = c.req.valid('json')
  const partners = await movePartners(c.get('db'), c.get('programId'), ids, c.req.valid('param').group_id)
  return c.json({ success: true, partners })
})
app.all(members, onlyMethods('POST'))

app.get(rules, withKey('read'), async (c) => {
  const everybodys = await defaultTermsNow(c.get('db'), c.get('programId'))
  return c.json({ success: true, rules: everybodys.map(asRule) })
})

app.patch(rules, limitBody, withKey('manage'), accept('json', rulesChange, known), async (c) => {
  const everybodys = await changeRules(c.get('db'), c.get('programId'), c.req.valid('json').rules)
  return c.json({ success: true, rules: everybodys.map(asRule) })
})
app.all(rules, onlyMethods('GET', 'HEAD', 'PATCH'))

app.post(previews, limitBody, withKey('manage'), accept('json', rulesPreview, known), async (c) => {
  const { group_id: groupId, partner_id: partnerId, rules: change, month } = c.req.valid('json')
  const holder = groupId !== undefined ? { groupId } : partnerId !== undefined ? { partnerId } : 'everybody'
  const preview = await previewRules(c.get('db'), c.get('programId'), holder, change, month)
  return c.json({ success: true, preview })
})
app.all(previews, onlyMethods('POST'))

app.get(program, withKey('read'), async (c) => {
  return c.json({ success: true, program: await readProgramOfKey(c.get('db'), c.get('programId')) })
})

app.patch(program, limitBody, withKey('manage'), accept('json', programChanges, known), async (c) => {
  const changed = await changeProgramOfKey(c.get('db'), c.get('programId'), c.req.valid('json'))
  return c.json({ success: true, program: changed })
})
app.all(program, onlyMethods('GET', 'HEAD', 'PATCH'))

export default app
