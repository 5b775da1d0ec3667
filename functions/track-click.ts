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
import { type Click, recordClick, recordTestClick } from '../lib/clicks.ts'
import { ApiError } from '../lib/errors.ts'
import { clickRequest } from '../lib/requests.ts'
import { visitorDevice, visitorLocation } from '../lib/visitor.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'

const paths = ['/', '/api/v1/track/click']
const app = createApp<DatabaseEnv & { RATE_LIMIT?: RateLimit }>()

app.use(publicCors)
app.use(async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  await next()
})

/**
 * POST /api/v1/track/click, public: the referral link in `affiliate_url` is the credential. Body: `clickRequest`.
 * 200 `{success, click_id, partner_code, cookie_window_days}`; a test click answers `{success, message, data: {eventId, programId,
 * test_mode}}`. 400 and 410 as lib/errors.ts says; nothing is recorded then.
 */
app.on('POST', paths, limitBody, async (c) => {
  const body = await readJson(c, clickRequest)
  const userAgent = body.user_agent ?? c.req.header('user-agent')?.slice(0, 2048) ?? null
  const click: Click = {
    affiliate_url: body.affiliate_url,
    partner_code: '',
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
  if (body.additional_data?.test_mode) {
    click.partner_code = URL.parse(body.affiliate_url)?.searchParams.get('aff') ?? ''
    const { event_id, program_id } = await recordTestClick(db, click, body.additional_data.program_id ?? null)
    return c.json({
      success: true,
      message: 'The test click was recorded. It counts for nothing.',
      data: { eventId: event_id, programId: program_id, test_mode: true },
    })
  }
  click.partner_code = partnerCode(body.affiliate_url)
  return c.json({ success: true, ...(await recordClick(db, click, body.existing_click_id ?? null)) })
})
for (const path of paths) app.all(path, onlyMethods('POST', 'OPTIONS'))

/** The `aff` value of a referral URL. A code that cannot be one matches no link. */
function partnerCode(affiliateUrl: string): string {
  const url = URL.parse(affiliateUrl)
  if (!url)
    throw new ApiError('invalid_url', 'affiliate_url cannot be parsed as a URL. Send the full address of the page.')
  const code = url.searchParams.get('aff')
  if (!code)
    throw new ApiError(
      'missing_partner_code',
      'affiliate_url has no `aff` parameter. Send the address that the visitor came to.',
    )
  return code
}

export default app
