import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { receiveProviderWebhook } from '../lib/money/provider-batches.ts'
import type { SecretsEnv } from '../lib/processors/connections.ts'

const path = '/api/v1/webhooks/payouts/:connection'
const app = createApp<DatabaseEnv & SecretsEnv>()

/**
 * POST /api/v1/webhooks/payouts/<connection>, signed by a payout provider: the state of a payment changed. The service requests the
 * current states itself. 200 `{success}`; 404 `not_found` if there is no such connection; 400 `invalid_signature`.
 */
app.post(path, limitBody, async (c) => {
  const webhook = { body: await c.req.text(), header: (name: string) => c.req.header(name), now: Date.now() }
  await receiveProviderWebhook(openDatabase(c.env), c.env, c.req.param('connection'), webhook)
  return c.json({ success: true })
})
app.all(path, onlyMethods('POST'))

export default app
