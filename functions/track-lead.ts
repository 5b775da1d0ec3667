import type { Context, ExecutionContext } from 'hono'
import { createMiddleware } from 'hono/factory'
import { checkKeyOfRefused } from '../lib/access/api-keys.ts'
import { type KeyedEnv, readApiKey } from '../lib/api/api-key.ts'
import { createApp, limitBody, onlyMethods, publicCors } from '../lib/api/app.ts'
import { accept, ignoredFields } from '../lib/api/input.ts'
import {
  countCaller,
  countVisitor,
  countsOfSettledLead,
  type RateLimit,
  type VisitorEnv,
  type Visited,
  visitorAddress,
  visitorNetwork,
} from '../lib/api/rate-limits.ts'
import { leadRequest, type LeadRequest } from '../lib/api/track-lead.ts'
import { openDatabase } from '../lib/database.ts'
import { type RelayEnv, sendSoon } from '../lib/notifications/outbox.ts'
import { keptAddress, textBudget } from '../lib/tracking/bounded-text.ts'
import { clickIdOrNull, programOfClickId } from '../lib/tracking/clicks.ts'
import { type CountEnv, countSoon } from '../lib/tracking/count-soon.ts'
import { emailHash, emailHashes } from '../lib/tracking/customers.ts'
import { isTestEvent, programOfTestClick, testClickIdOrNull } from '../lib/tracking/test-links.ts'
import { visitorHash } from '../lib/tracking/visitor.ts'
import {
  type Lead,
  type RecordedLead,
  recordBrowserLead,
  recordServerLead,
  recordTestLead,
} from '../lib/tracking/leads.ts'

interface Types {
  Bindings: KeyedEnv & VisitorEnv & CountEnv & RelayEnv & { BROWSER_RATE_LIMIT?: RateLimit; EMAIL_HASH_KEY: string }
  Variables: Visited['Variables'] & { keyHash: string }
}
const app = createApp<Types['Bindings']>()

app.use(publicCors)

const isFromBrowser = (c: Context) => c.req.header('authorization') === undefined

const readCaller = createMiddleware<Types>(async (c, next) => {
  if (!isFromBrowser(c)) return await readApiKey(c, c.env.RATE_LIMIT, next)
  await countCaller(c, c.env)
  return await next()
})

async function checkCaller(c: Context<Types>, reason: unknown): Promise<void> {
  if (isFromBrowser(c)) await countVisitor(c, c.env.BROWSER_RATE_LIMIT)
  else await checkKeyOfRefused(openDatabase(c.env), c.get('keyHash'), { call: 'lead', reason })
}

/**
 * POST /api/v1/track/lead. Body: `leadRequest`. With an Authorization header it is a server lead, which settles.
 * Without one it is a browser lead: it needs a click id and is provisional unless the program allows browsers. 200
 * `{success, lead_id, click_id, customer_status, provisional?, duplicate?, test_mode?}`; 400 `no_attribution`,
 * `already_settled`.
 */
for (const path of ['/', '/api/v1/track/lead']) {
  app.post(
    path,
    limitBody,
    readCaller,
    accept('json', leadRequest, checkCaller, { textFromBrowsers: true }),
    async (c) => {
      const body = c.req.valid('json')
      const db = openDatabase(c.env)
      countSoon(c.env, (work) => c.executionCtx.waitUntil(work))
      if (isFromBrowser(c)) {
        await countVisitor(c, c.env.BROWSER_RATE_LIMIT, String(programOfClickId(body.click_id || body.clickId || '')))
        const lead = await asLead(body, c.env.EMAIL_HASH_KEY)
        // A proxy may send leads only for its own program.
        const named = body.program_id ?? body.additional_data?.program_id ?? programOfTestClick(lead.click_id ?? '')
        const programId = c.get('visitor')?.programId ?? named ?? null
        const network = visitorHash(c.env.PROXY_SECRET, visitorNetwork(c))
        const recorded = await recordBrowserLead(db, lead, programId, network)
        if (isSettled(recorded)) await countSettledLead(c.env.ADDRESS_RATE_LIMIT, visitorAddress(c))
        return c.json({ ...answerOf(c, recorded), ...ignoredFields(body) })
      }
      const lead = await asLead(body, c.env.EMAIL_HASH_KEY)
      const programId = body.additional_data?.program_id ?? null
      const record = lead.is_test ? recordTestLead : recordServerLead
      return c.json({ ...answerOf(c, await record(db, c.get('keyHash'), lead, programId)), ...ignoredFields(body) })
    },
  )
  app.all(path, onlyMethods('POST', 'OPTIONS'))
}

const isSettled = ({ provisional, duplicate, test_mode: isTest }: RecordedLead) => !provisional && !duplicate && !isTest

/** Counts a settled lead several times against its address's limit. It is already recorded, so this only limits later calls. */
async function countSettledLead(limiter: RateLimit | undefined, address: string | undefined): Promise<void> {
  if (!limiter || address === undefined) return
  for (let count = 1; count < countsOfSettledLead; count++) await limiter.limit({ key: address })
}

/** Responds, and then sends the messages that the lead wrote. */
function answerOf(c: { env: RelayEnv; executionCtx: ExecutionContext }, { outbox = [], ...lead }: RecordedLead) {
  if (outbox.length > 0) c.executionCtx.waitUntil(sendSoon(c.env, outbox))
  return { success: true, ...lead }
}

async function asLead(body: LeadRequest, emailHashKey: string): Promise<Lead> {
  const clickId = body.click_id || body.clickId
  return {
    customer_key: body.customer_key,
    click_id: clickIdOrNull(clickId) ?? testClickIdOrNull(clickId),
    ...(await emailHashes((address) => emailHash(emailHashKey, address), body.email)),
    session_id: body.session_id ?? null,
    page_url: textBudget()(keptAddress(body.page_url)),
    is_test: isTestEvent(body, clickId),
    additional_data: body.additional_data ?? null,
  }
}

export default app
