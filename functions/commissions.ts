import { onlyMethods, limitBody } from '../lib/api/app.ts'
import {
  asCommission,
  commissionDecision,
  commissionDecisions,
  commissionPath,
  commissionsQuery,
} from '../lib/api/commissions.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { listCommissions } from '../lib/money/commission-list.ts'
import { approveCommission, decideCommissions, rejectCommission } from '../lib/money/commissions.ts'
import { type RelayEnv, type RelayMessage, sendSoon } from '../lib/notifications/outbox.ts'

const app = createProgramApi<RelayEnv & { EMAIL_HASH_KEY: string }>()
const [all, one] = ['/api/v1/commissions', '/api/v1/commissions/:commission_id'] as const

app.get(all, withKey('read'), accept('query', commissionsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const commissions = await listCommissions(c.get('db'), { programId: c.get('programId') }, pageOf(query))
  return c.json(listed(commissions, query.limit, asCommission, idCursorOf))
})

app.patch(all, limitBody, withKey('manage'), accept('json', commissionDecisions, known), async (c) => {
  const { ids: named, reason } = c.req.valid('json')
  const [db, programId, ids] = [c.get('db'), c.get('programId'), [...new Set(named)]]
  const outbox: RelayMessage[] = []
  const decided = await decideCommissions(db, programId, ids, reason, outbox, c.env.EMAIL_HASH_KEY)
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  const unknown_ids = ids.filter((requestedId) => !decided.commissions.some(({ id }) => id === requestedId))
  return c.json({ success: true, changed: decided.changed, data: decided.commissions.map(asCommission), unknown_ids })
})
app.all(all, onlyMethods('GET', 'HEAD', 'PATCH'))

app.patch(
  one,
  limitBody,
  withKey('manage'),
  accept('param', commissionPath, known),
  accept('json', commissionDecision, known),
  async (c) => {
    const [db, programId, id] = [c.get('db'), c.get('programId'), c.req.valid('param').commission_id]
    const { reason } = c.req.valid('json')
    const { commission, outbox } =
      reason === undefined
        ? await approveCommission(db, programId, id, c.env.EMAIL_HASH_KEY)
        : await rejectCommission(db, programId, id, reason)
    c.executionCtx.waitUntil(sendSoon(c.env, outbox))
    return c.json({ success: true, commission: asCommission(commission) })
  },
)
app.all(one, onlyMethods('PATCH'))

export default app
