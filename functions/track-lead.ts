import { afterKeyCheck, apiKeyHash } from '../lib/api-keys.ts'
import {
  clientAddress,
  createApp,
  enforceRateLimit,
  limitBody,
  onlyMethods,
  publicCors,
  type RateLimit,
  readJson,
} from '../lib/app.ts'
import { emailHash } from '../lib/customers.ts'
import { ApiError } from '../lib/errors.ts'
import { recordBrowserLead, recordServerLead, recordTestLead } from '../lib/leads.ts'
import { leadRequest } from '../lib/requests.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'

const paths = ['/', '/api/v1/track/lead']
const app = createApp<
  DatabaseEnv & { RATE_LIMIT?: RateLimit; BROWSER_RATE_LIMIT?: RateLimit; EMAIL_HASH_KEY: string }
>()

app.use(publicCors)

/**
 * POST /api/v1/track/lead. Body: `leadRequest`. With an Authorization header it is a server lead, which settles; without one a
 * browser lead, which needs a click id and is provisional unless the program allows browsers.
 * 200 `{success, lead_id, click_id, customer_status, provisional?, duplicate?}`; 400 `no_attribution`, `already_settled`.
 */
app.on('POST', paths, limitBody, async (c) => {
  const authorization = c.req.header('authorization')
  if (authorization === undefined) await enforceRateLimit(c.env.BROWSER_RATE_LIMIT, clientAddress(c))
  else await enforceRateLimit(c.env.RATE_LIMIT, authorization)

  const db = openDatabase(c.env)
  const keyHash = authorization === undefined ? undefined : await apiKeyHash(authorization)
  const reading = readJson(c, leadRequest)
  const body = keyHash === undefined ? await reading : await afterKeyCheck(db, keyHash, reading)
  const data = body.additional_data ?? null
  const programId = data?.program_id ?? null
  const lead = {
    customer_key: body.customer_key,
    click_id: (body.click_id ?? body.clickId) || null,
    email_hash: body.email ? await emailHash(c.env.EMAIL_HASH_KEY, body.email) : null,
    session_id: body.session_id ?? null,
    page_url: body.page_url ?? null,
    additional_data: data,
  }
  if (keyHash === undefined) {
    const { click_id: clickId } = lead
    if (clickId === null) {
      throw new ApiError(
        'no_attribution',
        'A lead from the browser needs a click id; nothing was recorded. This is expected for visitors who did not come through a partner link.',
      )
    }
    return c.json({
      success: true,
      ...(await recordBrowserLead(db, { ...lead, click_id: clickId }, body.program_id ?? programId)),
    })
  }
  if (data?.test_mode) {
    const { lead_id } = await recordTestLead(db, keyHash, lead, programId)
    return c.json({ success: true, lead_id, click_id: lead.click_id, customer_status: 'lead', test_mode: true })
  }
  return c.json({ success: true, ...(await recordServerLead(db, keyHash, lead, programId)) })
})
for (const path of paths) app.all(path, onlyMethods('POST', 'OPTIONS'))

export default app
