import { limitBody, onlyMethods } from '../lib/api/app.ts'
import { accept } from '../lib/api/input.ts'
import { idCursorOf, listed, pageOf } from '../lib/api/lists.ts'
import {
  asDecision,
  asPayout,
  asPayoutLine,
  payoutDecision,
  payoutLinesQuery,
  payoutPath,
  payoutsQuery,
} from '../lib/api/payouts.ts'
import { createProgramApi, known, withKey } from '../lib/api/program-key.ts'
import { listPayouts, payPayout, readPayout, refusePayout, returnPayout } from '../lib/money/payouts.ts'
import { listPayoutLines } from '../lib/money/payout-lines.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'

const app = createProgramApi<RelayEnv>()
const [all, one, lines] = ['/api/v1/payouts', '/api/v1/payouts/:payout_id', '/api/v1/payouts/:payout_id/lines'] as const

app.get(all, withKey('read'), accept('query', payoutsQuery, known), async (c) => {
  const { payout_run_id: payoutRunId, ...query } = c.req.valid('query')
  const list = { ...pageOf(query), payoutRunId }
  const payouts = await listPayouts(c.get('db'), { programId: c.get('programId') }, list)
  return c.json(listed(payouts, query.limit, asPayout, idCursorOf))
})
app.all(all, onlyMethods('GET', 'HEAD'))

app.get(one, withKey('read'), accept('param', payoutPath, known), async (c) => {
  const payout = await readPayout(c.get('db'), c.get('programId'), c.req.valid('param').payout_id)
  return c.json({ success: true, payout: asPayout(payout) })
})

app.patch(
  one,
  limitBody,
  withKey('manage'),
  accept('param', payoutPath, known),
  accept('json', payoutDecision, known),
  async (c) => {
    const [db, programId, id] = [c.get('db'), c.get('programId'), c.req.valid('param').payout_id]
    const decision = asDecision(c.req.valid('json'))
    const { payout, outbox } = decision.transfer
      ? await payPayout(db, programId, id, decision.amount_cents, decision.transfer)
      : decision.status === 'refused'
        ? await refusePayout(db, programId, id, decision.reason)
        : await returnPayout(db, programId, id, decision.status, decision.reason)
    c.executionCtx.waitUntil(sendSoon(c.env, outbox))
    return c.json({ success: true, payout: asPayout(payout) })
  },
)
app.all(one, onlyMethods('GET', 'HEAD', 'PATCH'))

app.get(
  lines,
  withKey('read'),
  accept('param', payoutPath, known),
  accept('query', payoutLinesQuery, known),
  async (c) => {
    const [db, programId, payoutId] = [c.get('db'), c.get('programId'), c.req.valid('param').payout_id]
    const query = c.req.valid('query')
    const found = await listPayoutLines(db, { programId }, { ...pageOf(query), payoutId })
    return c.json(listed(found, query.limit, asPayoutLine, idCursorOf))
  },
)
app.all(lines, onlyMethods('GET', 'HEAD'))

export default app
