import { createOnce } from '../lib/idempotency.ts'
import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { asLink, linkChanges, linkPath, linksQuery, newLink, requireOwnPage } from '../lib/api/links.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { addLink, listLinks, readLink, updateLink } from '../lib/programs/links.ts'

const app = createProgramApi()
const [all, one] = ['/api/v1/links', '/api/v1/links/:link_id'] as const

app.get(all, withKey('read'), accept('query', linksQuery, known), async (c) => {
  const query = c.req.valid('query')
  const links = await listLinks(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(links, query.limit, asLink, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newLink, known), withIdempotency, async (c) => {
  const { code = null, page_url = null, partner_id: partnerId, ...fields } = c.req.valid('json')
  requireOwnPage(page_url, c.get('key').domain)
  const settings = { ...fields, code, pageUrl: page_url, partnerId, programId: c.get('programId') }
  const link = await createOnce(() => addLink(c.get('db'), settings))
  return c.json({ success: true, link: asLink(link) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), accept('param', linkPath, known), async (c) => {
  const link = await readLink(c.get('db'), c.get('programId'), c.req.valid('param').link_id)
  return c.json({ success: true, link: asLink(link) })
})

app.patch(
  one,
  limitBody,
  withKey('manage'),
  accept('param', linkPath, known),
  accept('json', linkChanges, known),
  async (c) => {
    const { status, ...changes } = c.req.valid('json')
    requireOwnPage(changes.page_url, c.get('key').domain)
    const is_active = status && status === 'active'
    const id = c.req.valid('param').link_id
    const link = await updateLink(c.get('db'), c.get('programId'), id, { ...changes, is_active })
    return c.json({ success: true, link: asLink(link) })
  },
)
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH'))

export default app
