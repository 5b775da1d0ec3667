import { adjustmentsQuery, asAdjustment, asNewAdjustment, newAdjustment } from '../lib/api/adjustments.ts'
import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withIdempotency, withKey } from '../lib/api/program-key.ts'
import { createOnce } from '../lib/idempotency.ts'
import { listAdjustments, createAdjustment } from '../lib/money/adjustments.ts'
import { type RelayEnv, type RelayMessage, sendSoon } from '../lib/notifications/outbox.ts'

const app = createProgramApi<RelayEnv>()
const all = '/api/v1/adjustments'

app.get(all, withKey('read'), accept('query', adjustmentsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const adjustments = await listAdjustments(c.get('db'), { programId: c.get('programId') }, pageOf(query))
  return c.json(listed(adjustments, query.limit, asAdjustment, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), accept('json', newAdjustment, known), withIdempotency, async (c) => {
  const [programId, requestId] = [c.get('programId'), c.get('requestId')]
  const adjustmentRequest = asNewAdjustment(c.req.valid('json'))
  const outbox: RelayMessage[] = []
  const adjustment = await createOnce(() =>
    createAdjustment(c.get('db'), programId, adjustmentRequest, requestId, outbox),
  )
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return c.json({ success: true, adjustment: asAdjustment(adjustment) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

export default app
