import { createOnce } from '../lib/idempotency.ts'
import { accept } from '../lib/api/input.ts'
import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { asPartner, newPartner, partnerChanges, partnerPath, partnersQuery } from '../lib/api/partners.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { addPartner, listPartners, readPartner, updatePartner } from '../lib/programs/partners.ts'

const app = createProgramApi()
const [all, one] = ['/api/v1/partners', '/api/v1/partners/:partner_id'] as const

app.get(all, withKey('read'), accept('query', partnersQuery, known), async (c) => {
  const query = c.req.valid('query')
  const partners = await listPartners(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(partners, query.limit, asPartner, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newPartner, known), withIdempotency, async (c) => {
  const { code = null, ...fields } = c.req.valid('json')
  const settings = { ...fields, code, programId: c.get('programId') }
  const partner = await createOnce(async () => (await addPartner(c.get('db'), settings)).partner)
  return c.json({ success: true, partner: asPartner(partner) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), accept('param', partnerPath, known), async (c) => {
  const partner = await readPartner(c.get('db'), c.get('programId'), c.req.valid('param').partner_id)
  return c.json({ success: true, partner: asPartner(partner) })
})

app.patch(
  one,
  limitBody,
  withKey('manage'),
  accept('param', partnerPath, known),
  accept('json', partnerChanges, known),
  async (c) => {
    const { status, ...changes } = c.req.valid('json')
    const is_active = status && status === 'active'
    const id = c.req.valid('param').partner_id
    const partner = await updatePartner(c.get('db'), c.get('programId'), id, { ...changes, is_active })
    return c.json({ success: true, partner: asPartner(partner) })
  },
)
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH'))

export default app
