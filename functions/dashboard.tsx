import type { Context } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import { asApiError, createApp, limitBody } from '../lib/api/app.ts'
import { clientAddress, enforceRateLimit } from '../lib/api/rate-limits.ts'
import { turnstileOrigin } from '../lib/access/turnstile.ts'
import { isUsedForm } from '../lib/access/used-forms.ts'
import { openDatabase, violatedConstraint } from '../lib/database.ts'
import { ApiError, errorCodes, errorResponse } from '../lib/errors.ts'
import { accountPages } from './dashboard/account/account.tsx'
import { auditLogPages } from './dashboard/account/audit-log.tsx'
import { deletionPages } from './dashboard/account/deletion.tsx'
import { invitationPages } from './dashboard/account/invitations.tsx'
import { mailPages, unsubscribePath } from './dashboard/account/mail.tsx'
import { memberPages } from './dashboard/account/members.tsx'
import { openedProgramPages } from './dashboard/account/opened-programs.tsx'
import { passwordPages } from './dashboard/account/password.tsx'
import { sessionPages } from './dashboard/account/session-list.tsx'
import { signInPages } from './dashboard/account/sign-in.tsx'
import { signUpPages } from './dashboard/account/sign-up.tsx'
import { startPages } from './dashboard/account/start.ts'
import { twoFactorPages } from './dashboard/account/two-factor.tsx'
import { verificationPages } from './dashboard/account/verification.tsx'
import { partnerAdjustmentPages } from './dashboard/partner/adjustments.tsx'
import { joinPages } from './dashboard/join/join.tsx'
import { partnerApplicationPages } from './dashboard/partner/applications.tsx'
import { partnerCommissionPages } from './dashboard/partner/commissions.tsx'
import { earningsPages } from './dashboard/partner/earnings.tsx'
import { partnerInvitationPages } from './dashboard/partner/invitations.tsx'
import { partnerCampaignPages } from './dashboard/partner/campaigns.tsx'
import { linkPages } from './dashboard/partner/links.tsx'
import { partnerNotificationPages } from './dashboard/partner/notifications.tsx'
import { partnerSalePages } from './dashboard/partner/sale.tsx'
import { partnerPayoutPages } from './dashboard/partner/payouts.tsx'
import { cameFrom } from './dashboard/components/address.ts'
import { assets } from './dashboard/components/assets.ts'
import { Card } from './dashboard/components/blocks.tsx'
import { redirectWith } from './dashboard/components/flash.tsx'
import { renderPlain } from './dashboard/components/layout.tsx'
import { actOnce, leadToFirstAnswer } from './dashboard/components/once.ts'
import { createPages, type DashboardEnv, loadViewer } from './dashboard/components/page.ts'
import { adjustmentPages } from './dashboard/program/adjustments.tsx'
import { applicationPages } from './dashboard/program/applications.tsx'
import { checkPages } from './dashboard/program/set-up-checks.tsx'
import { codePages } from './dashboard/program/codes.tsx'
import { commissionPages } from './dashboard/program/commissions.tsx'
import { customerPages } from './dashboard/program/customer.tsx'
import { eventPages } from './dashboard/program/events.tsx'
import { groupPages } from './dashboard/program/groups.tsx'
import { joinPageSettings } from './dashboard/program/join-page.tsx'
import { newProgramPages } from './dashboard/program/new-program.tsx'
import { notificationPages } from './dashboard/program/notifications.tsx'
import { overviewPages } from './dashboard/program/overview.tsx'
import { partnerPage } from './dashboard/program/partner.tsx'
import { partnerPages } from './dashboard/program/partners.tsx'
import { payoutRunPage } from './dashboard/program/payout-run.tsx'
import { payoutRunPages } from './dashboard/program/payout-runs.tsx'
import { reviewPages } from './dashboard/program/reviews.tsx'
import { salePages } from './dashboard/program/sale.tsx'
import { sentNotificationPages } from './dashboard/program/sent-notifications.tsx'
import { settingsPages } from './dashboard/program/settings.tsx'
import { ownAccountPages } from './dashboard/program/own-account.tsx'
import { stripeConnectionPages } from './dashboard/program/stripe-connection.tsx'
import { testDataPages } from './dashboard/program/test-data.tsx'
import { webhookDeliveryPages } from './dashboard/program/webhook-deliveries.tsx'
import { webhookEventPages } from './dashboard/program/webhook-events.tsx'
import { webhookPages } from './dashboard/program/webhooks.tsx'
import { payoutPages } from './dashboard/program/payouts.tsx'

/**
 * The server renders its pages: for advertisers under `/programs/:programId`, for partners under `/partner`. A form post gets a redirect,
 * or 403 if it comes from another origin. Only assets are cached.
 */
const app = createApp<DashboardEnv>()

app.get('/assets/:file', (c) => {
  const asset = Object.values(assets).find(({ path }) => path === c.req.path)
  if (!asset) return c.notFound()
  return c.body(asset.text, 200, {
    'Content-Type': asset.type,
    'Cache-Control': 'public, max-age=31536000, immutable',
    'X-Content-Type-Options': 'nosniff',
  })
})

const pages = createPages()

pages.use(async (c, next) => {
  await next()
  c.header('Cache-Control', 'no-store')
})
// Runs after the page, because the page sets `loads`.
pages.use(async (c, next) => {
  await next()
  const { image, isChallenged } = c.get('loads') ?? {}
  const challenge = isChallenged ? [turnstileOrigin] : []
  await secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'"],
      scriptSrc: ["'self'", ...challenge],
      frameSrc: isChallenged ? challenge : ["'none'"],
      connectSrc: ["'self'"],
      imgSrc: ["'self'", ...(image === undefined ? [] : [new URL(image).origin])],
      // Browsers also apply this to the redirect after a form post, so it lists the sign-in providers.
      formAction: [
        "'self'",
        ...(c.env.GITHUB_CLIENT_ID ? ['https://github.com'] : []),
        ...(c.env.GOOGLE_CLIENT_ID ? ['https://accounts.google.com'] : []),
        ...(c.env.STRIPE_CLIENT_ID ? ['https://connect.stripe.com'] : []),
      ],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
    xFrameOptions: 'DENY',
    referrerPolicy: 'same-origin',
  })(c, () => Promise.resolve())
})
// Checks the origin of any content type, because browsers also send JSON and empty posts to other sites. Mail clients unsubscribe without a page, by
// a signed token.
pages.use(async (c, next) => {
  const isRead = c.req.method === 'GET' || c.req.method === 'HEAD'
  const isOwn =
    c.req.header('sec-fetch-site') === 'same-origin' || c.req.header('origin') === new URL(c.env.BASE_URL).origin
  if (!isRead && !isOwn && c.req.path !== unsubscribePath)
    throw new ApiError('forbidden', 'This came from a page of another site. Go back to the dashboard and try again.')
  await next()
})
pages.use(limitBody)
// Postgres stores no NUL in text, and ids and cursors in addresses go to Postgres.
pages.use(async (c, next) => {
  if (c.req.url.includes('%00')) throw new ApiError('invalid_request', 'The address contains an invalid character.')
  await next()
})
pages.use(async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  c.set('db', openDatabase(c.env))
  await next()
})
pages.use(async (c, next) => {
  c.set('showPage', async (address, cookie) => {
    const sent = c.req.raw.headers
    const headers = new Headers({ cookie: [sent.get('cookie'), cookie].filter(Boolean).join('; ') })
    const from = sent.get('cf-connecting-ip')
    if (from !== null) headers.set('cf-connecting-ip', from)
    const page = await app.request(new URL(address, c.req.url), { headers }, c.env, c.executionCtx)
    // Reloading this page does not send the form again.
    const named = address.replaceAll('&', '&amp;').replaceAll('"', '%22')
    const text = (await page.text()).replace('<body>', () => `<body data-address="${named}">`)
    return new Response(text, { headers: page.headers })
  })
  await next()
})
pages.use(loadViewer)
pages.use(actOnce)

const groups = [
  startPages,
  accountPages,
  auditLogPages,
  deletionPages,
  invitationPages,
  mailPages,
  memberPages,
  openedProgramPages,
  passwordPages,
  sessionPages,
  signInPages,
  signUpPages,
  twoFactorPages,
  verificationPages,
  partnerAdjustmentPages,
  joinPages,
  partnerApplicationPages,
  partnerCommissionPages,
  earningsPages,
  linkPages,
  partnerCampaignPages,
  partnerInvitationPages,
  partnerNotificationPages,
  partnerSalePages,
  partnerPayoutPages,
  adjustmentPages,
  applicationPages,
  checkPages,
  codePages,
  commissionPages,
  customerPages,
  eventPages,
  groupPages,
  joinPageSettings,
  newProgramPages,
  notificationPages,
  overviewPages,
  partnerPages,
  partnerPage,
  payoutRunPages,
  payoutRunPage,
  reviewPages,
  salePages,
  sentNotificationPages,
  settingsPages,
  ownAccountPages,
  stripeConnectionPages,
  testDataPages,
  // Comes before `webhookPages`, whose `:id` would match `deliveries`.
  webhookDeliveryPages,
  webhookPages,
  webhookEventPages,
  payoutPages,
]
for (const group of groups) pages.route('/', group)

app.route('/', pages)

app.notFound((c) => {
  if (c.req.path.startsWith('/api/')) {
    return errorResponse(new ApiError('not_found', `There is nothing at ${c.req.path}.`))
  }
  return renderError(c, 'There is nothing at this address.', 404)
})
app.onError((error, c) => {
  if (isUsedForm(error)) return leadToFirstAnswer(c, openDatabase(c.env))
  // The account that sent the form was erased in the meantime.
  if (violatedConstraint(error) === 'used_forms_user_id_fkey') return c.redirect('/sign-in', 303)
  const refusal = asApiError(error, c)
  if (c.req.path.startsWith('/api/')) return errorResponse(refusal)
  return renderRefusal(c, refusal)
})

/** Leads a refused form back to its page, which shows the error. Shows every other error on a page of its own. */
function renderRefusal(c: Context, refusal: ApiError) {
  const { status } = errorCodes[refusal.code]
  const from = cameFrom(c)
  if (c.req.method === 'POST' && (status === 400 || status === 409) && from) {
    return redirectWith(c, from, refusal.message, 'bad')
  }
  return renderError(c, refusal.message, status)
}

function renderError(c: Context, message: string, status: (typeof errorCodes)[keyof typeof errorCodes]['status']) {
  return renderPlain(c, {
    title: 'That did not work',
    status,
    children: (
      <Card>
        <h1>{status === 404 ? 'Not found' : 'That did not work'}</h1>
        <p>{message}</p>
        <p>
          <a href="/">Go to the start page</a>
        </p>
      </Card>
    ),
  })
}

export default app
