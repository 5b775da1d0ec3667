import { createOnce } from '../lib/idempotency.ts'
import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import { asPayoutRun, asWholePayoutRun, nobodyDue, payoutRunPath, payoutRunsQuery } from '../lib/api/payout-runs.ts'
import { createProgramApi, known, withIdempotency, withKey, withoutFields } from '../lib/api/program-key.ts'
import { ApiError } from '../lib/errors.ts'
import { listPayoutRuns, openPayoutRun, readPayoutRun } from '../lib/money/payout-runs.ts'
import { type RelayEnv, type RelayMessage, sendSoon } from '../lib/notifications/outbox.ts'

const app = createProgramApi<RelayEnv>()
const [all, one] = ['/api/v1/payout-runs', '/api/v1/payout-runs/:payout_run_id'] as const

app.get(all, withKey('read'), accept('query', payoutRunsQuery, known), async (c) => {
  const query = c.req.valid('query')
  const runs = await listPayoutRuns(c.get('db'), c.get('programId'), pageOf(query))
  return c.json(listed(runs, query.limit, asPayoutRun, idCursorOf))
})

app.post(all, limitBody, withKey('manage'), withoutFields, withIdempotency, async (c) => {
  const requestId = c.get('requestId')
  const outbox: RelayMessage[] = []
  const run = await createOnce(() => openPayoutRun(c.get('db'), c.get('programId'), requestId, outbox))
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  if (!run) throw new ApiError('conflict', nobodyDue)
  return c.json({ success: true, payout_run: asPayoutRun(run) }, 201)
})
app.all(all, onlyMethods('GET', 'HEAD', 'POST'))

app.get(one, withKey('read'), accept('param', payoutRunPath, known), async (c) => {
  const run = await readPayoutRun(c.get('db'), c.get('programId'), c.req.valid('param').payout_run_id)
  return c.json({ success: true, payout_run: asWholePayoutRun(run) })
})
app.all(one, onlyMethods('GET', 'HEAD'))

export default app
