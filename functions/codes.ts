import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { asCode, codePath, codesQuery, newCode } from '../lib/api/codes.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { createOnce } from '../lib/idempotency.ts'
import { listCodes, readCode } from '../lib/programs/codes.ts'
import type { StripeEnv } from '../lib/processors/stripe/client.ts'
import { createPartnerCode, revokePartnerCode } from '../lib/programs/promotion-codes.ts'

const app = createProgramApi<StripeEnv>()
const [all, one] = ['/api/v1/codes', '/api/v1/codes/:code_id'] as const
const named = accept('param', codePath, known)

app.get(all, withKey('read'), accept('query', codesQuery, known), async (c) => {
  const { partner_id: partnerId, status, ...query } = c.req.valid('query')
  const isRevoked = status && status === 'revoked'
  const codes = await listCodes(c.get('db'), c.get('programId'), { ...pageOf(query), partnerId, isRevoked })
  return c.json(listed(codes, query.limit, asCode, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newCode, known), withIdempotency, async (c) => {
  const code = await createOnce(() => createPartnerCode(c.get('db'), c.env, c.get('programId'), c.req.valid('json')))
  return c.json({ success: true, code: asCode(code) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), named, async (c) => {
  const code = await readCode(c.get('db'), c.get('programId'), c.req.valid('param').code_id)
  return c.json({ success: true, code: asCode(code) })
})

app.delete(one, withKey('manage'), named, async (c) => {
  const code = await revokePartnerCode(c.get('db'), c.env, c.get('programId'), c.req.valid('param').code_id)
  return c.json({ success: true, code: asCode(code) })
})
app.all(one, onlyMethods('GET', 'HEAD', 'DELETE'))

export default app
