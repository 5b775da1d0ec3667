import { type KeyedEnv, readKeyedJson } from '../lib/access/api-keys.ts'
import { createApp, limitBody, onlyMethods, publicCors, type RateLimit, readPublicJson } from '../lib/api/app.ts'
import { clickIdOrNull, programOfClickId } from '../lib/tracking/clicks.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import { openDatabase } from '../lib/database.ts'
import { type Lead, recordBrowserLead, recordServerLead, recordTestLead } from '../lib/tracking/leads.ts'
import { leadRequest, type LeadRequest } from '../lib/api/track-lead.ts'

const paths = ['/', '/api/v1/track/lead']
const app = createApp<
  KeyedEnv & { BROWSER_RATE_LIMIT?: RateLimit; ADDRESS_RATE_LIMIT?: RateLimit; EMAIL_HASH_KEY: string }
>()

app.use(publicCors)

/**
 * POST /api/v1/track/lead. Body: `leadRequest`. With an Authorization header it is a server lead, which settles; without one a
 * browser lead, which needs a click id and is provisional unless the program allows browsers.
 * 200 `{success, lead_id, click_id, customer_status, provisional?, duplicate?, test_mode?}`; 400 `no_attribution`, `already_settled`.
 */
app.on('POST', paths, limitBody, async (c) => {
  if (c.req.header('authorization') === undefined) {
    const limits = { perProgram: c.env.BROWSER_RATE_LIMIT, perAddress: c.env.ADDRESS_RATE_LIMIT }
    const body = await readPublicJson(c, leadRequest, limits, ({ click_id, clickId }) =>
      String(programOfClickId(click_id || clickId || '')),
    )
    const lead = await asLead(body, c.env.EMAIL_HASH_KEY)
    const programId = body.program_id ?? body.additional_data?.program_id ?? null
    return c.json({ success: true, ...(await recordBrowserLead(openDatabase(c.env), lead, programId)) })
  }
  const { db, keyHash, body } = await readKeyedJson(c, leadRequest)
  const lead = await asLead(body, c.env.EMAIL_HASH_KEY)
  const programId = body.additional_data?.program_id ?? null
  const record = lead.is_test ? recordTestLead : recordServerLead
  return c.json({ success: true, ...(await record(db, keyHash, lead, programId)) })
})
for (const path of paths) app.all(path, onlyMethods('POST', 'OPTIONS'))

async function asLead(body: LeadRequest, emailHashKey: string): Promise<Lead> {
  return {
    customer_key: body.customer_key,
    click_id: clickIdOrNull(body.click_id || body.clickId),
    email_hash: body.email ? await emailHash(emailHashKey, body.email) : null,
    session_id: body.session_id ?? null,
    page_url: body.page_url ?? null,
    is_test: body.additional_data?.test_mode ?? false,
    additional_data: body.additional_data ?? null,
  }
}

export default app
