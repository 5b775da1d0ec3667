import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { createApp, limitBody, onlyMethods, publicCors } from '../lib/api/app.ts'
import { accept, ignoredFields } from '../lib/api/input.ts'
import {
  countAddress,
  countVisitor,
  enforceRateLimit,
  type RateLimit,
  visitorAddress,
  type VisitorEnv,
  visitorNetwork,
} from '../lib/api/rate-limits.ts'
import { clickRequest, type ClickRequest } from '../lib/api/track-click.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { ApiError } from '../lib/errors.ts'
import { keptAddress, textBudget } from '../lib/tracking/bounded-text.ts'
import { campaignOf } from '../lib/tracking/campaign.ts'
import {
  type Click,
  clickIdOrNull,
  newClickIdPrefix,
  recordClick,
  recordTestClick,
  unknownPartnerCode,
} from '../lib/tracking/clicks.ts'
import { type CountEnv, countSoon } from '../lib/tracking/count-soon.ts'
import { programOfTestCode, testClickId, testCode, testDays } from '../lib/tracking/test-links.ts'
import type { ProxiedVisitor } from '../lib/tracking/proxied-visitor.ts'
import { visitorDevice, visitorHash, visitorLocation } from '../lib/tracking/visitor.ts'

interface Env extends DatabaseEnv, CountEnv, VisitorEnv {
  RATE_LIMIT?: RateLimit
}
const app = createApp<Env>()

app.use(publicCors)

/**
 * Refuses with 200 if the caller requests that. The tracker does so, because a browser shows any other status as an error in the visitor's
 * console.
 */
const answerQuietly = createMiddleware<{ Bindings: Env }, string, { out: { json: ClickRequest } }>(async (c, next) => {
  await next()
  const { body, headers, status } = c.res
  if (c.req.valid('json').quiet && (status === 400 || status === 410)) c.res = new Response(body, { headers })
})

const checkCaller = (c: Context<{ Bindings: Env }>) => countVisitor(c, c.env.RATE_LIMIT)

/**
 * POST /api/v1/track/click, public: the referral link in `affiliate_url` is the credential. Body: `clickRequest`. 200 `{success, click_id,
 * partner_code, cookie_window_days}`; a test click returns `{success, message, data: {eventId, programId, test_mode}}`. A click on a test
 * link returns all of these fields. lib/errors.ts lists the refusals with 400 and 410. Refused clicks record nothing.
 */
for (const path of ['/', '/api/v1/track/click']) {
  app.post(
    path,
    limitBody,
    countAddress,
    accept('json', clickRequest, checkCaller, { textFromBrowsers: true }),
    answerQuietly,
    async (c) => {
      const body = c.req.valid('json')
      const parameters = URL.parse(body.affiliate_url)?.searchParams
      const aff = parameters && affOf(parameters)
      await countVisitor(c, c.env.RATE_LIMIT, String(aff).toLowerCase())
      if (!parameters || aff === undefined) {
        throw new ApiError('invalid_url', 'affiliate_url cannot be parsed as a URL. Send the full address of the page.')
      }
      const db = openDatabase(c.env)
      const visitor = c.get('visitor')
      const { test_mode: saysTest, program_id: named } = body.additional_data ?? {}
      const tested = programOfTestCode(aff ?? '')
      // A proxy may send clicks only for its own program.
      const programId = visitor?.programId ?? named ?? tested
      if ((named && named !== programId) || (tested && tested !== programId)) throw unknownPartnerCode()
      const isTest = saysTest || tested !== undefined
      // A test event that contains its program's id doesn't need a link.
      const code = isTest && programId ? '' : partnerCodeOf(aff)
      const click = await asClick(body, { code, parameters }, c.req.raw, visitor)
      // A click with a lot of text counts as several clicks, so that no address can fill the disk.
      for (let bytes = encoder.encode(JSON.stringify(click)).length; bytes > bytesOfOneCount; bytes -= bytesOfOneCount)
        await enforceRateLimit(c.env.ADDRESS_RATE_LIMIT, visitorAddress(c))
      if (isTest) {
        const { event_id, program_id } = await recordTestClick(
          db,
          click,
          programId ?? null,
          visitorHash(c.env.PROXY_SECRET, visitorNetwork(c)),
        )
        return c.json({
          success: true,
          message: 'The test click was recorded. It does not count.',
          data: { eventId: event_id, programId: program_id, test_mode: true },
          ...(tested && {
            click_id: testClickId(newClickIdPrefix(db.now()), tested),
            partner_code: testCode(tested),
            cookie_window_days: testDays,
          }),
          ...ignoredFields(body),
        })
      }
      // If the proxy does not know the address, all its visitors look like one visitor.
      if (visitor?.address !== '') click.visitor = visitorHash(c.env.PROXY_SECRET, visitorAddress(c))
      const recorded = await recordClick(db, click, clickIdOrNull(body.existing_click_id))
      countSoon(c.env, (work) => c.executionCtx.waitUntil(work))
      return c.json({ success: true, ...recorded, ...ignoredFields(body) })
    },
  )
  app.all(path, onlyMethods('POST', 'OPTIONS'))
}

/** Clicks from ordinary pages are smaller. */
const bytesOfOneCount = 1536
const encoder = new TextEncoder()

/** A code has up to 64 characters, but a mail tool can append garbage. */
const longestAff = 200

/**
 * Returns the first `aff` parameter of the referral URL, without the characters that chat, mail or campaign tools add around or after it:
 * `ann/`, `ann%26utm_source=x`, `ann)`.
 */
function affOf(parameters: URLSearchParams): string | null {
  const aff = parameters.get('aff')?.slice(0, longestAff)
  if (!aff) return null
  const [code = ''] = aff.split(/[?&#;/]/, 1)
  // This runs in linear time, because the two character classes don't overlap.
  return /[\w.@-]+(?:[^\w.@-]+[\w.@-]+)*/.exec(code)?.[0] ?? aff
}

async function asClick(
  body: ClickRequest,
  link: { code: string; parameters: URLSearchParams },
  request: Request,
  visitor: ProxiedVisitor | undefined,
): Promise<Click> {
  // A header can exceed its limit, and cutting it can split a character.
  const userAgent = body.user_agent || request.headers.get('user-agent')?.slice(0, 2048).toWellFormed() || null
  const cut = textBudget()
  return {
    // The most important texts come first, because all texts share one size limit.
    session_id: cut(body.session_id),
    affiliate_url: cut(keptAddress(body.affiliate_url)) ?? '',
    page_url: cut(keptAddress(body.page_url)),
    referrer_url: cut(keptAddress(body.referrer_url)),
    user_agent: cut(userAgent),
    campaign: campaignOf(link.parameters, cut),
    language: cut(body.language),
    timezone: cut(body.timezone),
    page_title: cut(body.page_title),
    partner_code: link.code,
    screen_resolution: body.screen_resolution ?? null,
    viewport_size: body.viewport_size ?? null,
    ...visitorLocation(request, visitor),
    ...(await visitorDevice(userAgent)),
    additional_data: visitor
      ? { ...body.additional_data, program_id: visitor.programId }
      : (body.additional_data ?? null),
  }
}

/** Values that can't be codes don't match any link, so they aren't looked up. */
function partnerCodeOf(aff: string | null): string {
  if (!aff) {
    throw new ApiError(
      'missing_partner_code',
      'affiliate_url has no `aff` parameter. Send the address of the landing page.',
    )
  }
  if (!/^[\w.@-]{1,64}$/.test(aff)) throw unknownPartnerCode()
  return aff
}

export default app
