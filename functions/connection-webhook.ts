import { bodyLimit } from 'hono/body-limit'
import { createApp, maxEventBytes, onlyMethods } from '../lib/api/app.ts'
import { type CountEnv, countSoon } from '../lib/tracking/count-soon.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import type { SecretsEnv } from '../lib/processors/connections.ts'
import { receiveDelivery } from '../lib/processors/receive-delivery.ts'

const paths = ['/:processor/:connection', '/api/v1/webhooks/:processor/:connection']
const app = createApp<DatabaseEnv & RelayEnv & CountEnv & SecretsEnv>()

const limitDelivery = bodyLimit({
  maxSize: maxEventBytes,
  onError: () => {
    throw new ApiError('payload_too_large', 'The event may be at most 1 MiB.')
  },
})

/**
 * POST /api/v1/webhooks/<processor>/<connection>, signed by the processor: one event of the connection's account. 200 `{success, outcome,
 * reason}`: the outcome is recorded, duplicate, ignored or parked, and each is final. 404 `not_found` if there is no such connection, 400
 * `invalid_signature`. 503 `unavailable` if the database did not respond. In that case nothing is recorded, and the processor delivers
 * the event again.
 */
app.on('POST', paths, limitDelivery, async (c) => {
  const processor = c.req.param('processor') ?? ''
  const delivery = { body: await c.req.text(), header: (name: string) => c.req.header(name), now: Date.now() }
  const applied = await receiveDelivery(
    openDatabase(c.env),
    c.env,
    processor,
    c.req.param('connection') ?? '',
    delivery,
  )
  const { outcome, reason, outbox, event_id, event_type } = applied
  const about = { event_id, type: event_type, outcome, reason }
  console.log(JSON.stringify({ function: 'connection-webhook', processor, ...about }))
  c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  countSoon(c.env, (work) => c.executionCtx.waitUntil(work))
  return c.json({ success: true, outcome, reason })
})
for (const path of paths) app.all(path, onlyMethods('POST'))

export default app
