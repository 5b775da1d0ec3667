import { createApp, limitBody, onlyMethods, publicCors, type RateLimit, readPublicJson } from '../lib/api/app.ts'
import { type Click, clickIdOrNull, recordClick, recordTestClick, unknownPartnerCode } from '../lib/tracking/clicks.ts'
import { ApiError } from '../lib/errors.ts'
import { clickRequest } from '../lib/api/track-click.ts'
import { visitorDevice, visitorLocation } from '../lib/tracking/visitor.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'

const paths = ['/', '/api/v1/track/click']
const app = createApp<DatabaseEnv & { RATE_LIMIT?: RateLimit; ADDRESS_RATE_LIMIT?: RateLimit }>()

app.use(publicCors)

/**
 * POST /api/v1/track/click, public: the referral link in `affiliate_url` is the credential. Body: `clickRequest`.
 * 200 `{success, click_id, partner_code, cookie_window_days}`; a test click answers `{success, message, data: {eventId, programId,
 * test_mode}}`. 400 and 410 as lib/errors.ts says; nothing is recorded then.
 */
app.on('POST', paths, limitBody, async (c) => {
  const limits = { perProgram: c.env.RATE_LIMIT, perAddress: c.env.ADDRESS_RATE_LIMIT }
  const body = await readPublicJson(c, clickRequest, limits, (click) => String(affOf(click)))
  const aff = affOf(body)
  if (aff === undefined) {
    throw new ApiError('invalid_url', 'affiliate_url cannot be parsed as a URL. Send the full address of the page.')
  }
  const isTest = body.additional_data?.test_mode ?? false
  const testProgramId = isTest ? (body.additional_data?.program_id ?? null) : null
  // A header can be longer than what is kept, and the cut can fall inside a character.
  const userAgent = body.user_agent || c.req.header('user-agent')?.slice(0, 2048).toWellFormed() || null
  const click: Click = {
    affiliate_url: body.affiliate_url,
    partner_code: testProgramId === null ? partnerCode(aff) : '',
    page_url: body.page_url ?? null,
    page_title: body.page_title ?? null,
    referrer_url: body.referrer_url ?? null,
    session_id: body.session_id ?? null,
    user_agent: userAgent,
    screen_resolution: body.screen_resolution ?? null,
    viewport_size: body.viewport_size ?? null,
    language: body.language ?? null,
    timezone: body.timezone ?? null,
    ...visitorLocation(c.req.raw),
    ...visitorDevice(userAgent),
    additional_data: body.additional_data ?? null,
  }
  const db = openDatabase(c.env)
  if (isTest) {
    const { event_id, program_id } = await recordTestClick(db, click, testProgramId)
    return c.json({
      success: true,
      message: 'The test click was recorded. It counts for nothing.',
      data: { eventId: event_id, programId: program_id, test_mode: true },
    })
  }
  return c.json({ success: true, ...(await recordClick(db, click, clickIdOrNull(body.existing_click_id))) })
})
for (const path of paths) app.all(path, onlyMethods('POST', 'OPTIONS'))

/** The `aff` parameter of the referral URL's query, the first where there are several; undefined where it is no URL. */
function affOf({ affiliate_url }: { affiliate_url: string }): string | null | undefined {
  return URL.parse(affiliate_url)?.searchParams.get('aff')
}

/** A value that cannot be a code matches no link, so it is not looked up. */
function partnerCode(aff: string | null): string {
  if (!aff) {
    throw new ApiError(
      'missing_partner_code',
      'affiliate_url has no `aff` parameter. Send the address that the visitor came to.',
    )
  }
  if (!/^[\w.@-]{1,64}$/.test(aff)) throw unknownPartnerCode()
  return aff
}

export default app
