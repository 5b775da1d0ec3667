import type { Context } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import { isOnlyPartner, type Viewer } from '../lib/access/viewer.ts'
import { asApiError, createApp, limitBody, limitBodyTo, maxImportBytes } from '../lib/api/app.ts'
import { clientAddress, enforceRateLimit } from '../lib/api/rate-limits.ts'
import { turnstileOrigin } from '../lib/access/turnstile.ts'
import { isUsedForm } from '../lib/access/used-forms.ts'
import { openDatabase, violatedConstraint } from '../lib/database.ts'
import { ApiError, errorCodes, errorResponse } from '../lib/errors.ts'
import { brandStyle } from '../lib/brand-colors.ts'
import { findLogo, isLogoFile } from '../lib/programs/brand.ts'
import { maxLogoBytes } from '../lib/programs/logo-image.ts'
import { pages as account } from './dashboard/account/account.tsx'
import { pages as auditLog } from './dashboard/account/audit-log.tsx'
import { pages as deletion } from './dashboard/account/deletion.tsx'
import { pages as erasure } from './dashboard/account/erasure.tsx'
import { pages as invitations } from './dashboard/account/invitations.tsx'
import { pages as mail, unsubscribePath } from './dashboard/account/mail.tsx'
import { pages as members } from './dashboard/account/members.tsx'
import { pages as openedPrograms } from './dashboard/account/opened-programs.tsx'
import { pages as password } from './dashboard/account/password.tsx'
import { pages as sessions } from './dashboard/account/session-list.tsx'
import { pages as signIn } from './dashboard/account/sign-in.tsx'
import { pages as signUp } from './dashboard/account/sign-up.tsx'
import { pages as start } from './dashboard/account/start.ts'
import { pages as twoFactor } from './dashboard/account/two-factor.tsx'
import { pages as verification } from './dashboard/account/verification.tsx'
import { pages as partnerAdjustments } from './dashboard/partner/adjustments.tsx'
import { isOwnHost, limitHost } from './dashboard/join/host.ts'
import { pages as join } from './dashboard/join/join.tsx'
import { pages as partnerApplications } from './dashboard/partner/applications.tsx'
import { pages as partnerCommissions } from './dashboard/partner/commissions.tsx'
import { pages as earnings } from './dashboard/partner/earnings.tsx'
import { pages as partnerInvitations } from './dashboard/partner/invitations.tsx'
import { pages as campaigns } from './dashboard/partner/campaigns.tsx'
import { pages as links } from './dashboard/partner/links.tsx'
import { pages as partnerNotifications } from './dashboard/partner/notifications.tsx'
import { pages as partnerKeys } from './dashboard/partner/api-keys.tsx'
import { pages as postbacks } from './dashboard/partner/postbacks.tsx'
import { pages as partnerSale } from './dashboard/partner/sale.tsx'
import { pages as partnerDocuments } from './dashboard/partner/documents.tsx'
import { pages as partnerPayouts } from './dashboard/partner/payouts.tsx'
import { cameFrom, safePath } from './dashboard/components/address.ts'
import { Card } from './dashboard/components/blocks.tsx'
import { assets } from './dashboard/components/assets.ts'
import { redirectWith } from './dashboard/components/flash.tsx'
import { refuseAtField } from './dashboard/components/form.ts'
import { AccountPage, PartnerPage, PlainPage, ProgramPage, renderPage } from './dashboard/components/layout.tsx'
import { actOnce, leadToFirstAnswer } from './dashboard/components/once.ts'
import {
  createPages,
  type DashboardEnv,
  loadViewer,
  type PageContext,
  showToPartner,
} from './dashboard/components/page.ts'
import { english, type PageTexts } from './dashboard/components/text.tsx'
import { pages as adjustments } from './dashboard/program/adjustments.tsx'
import { pages as applications } from './dashboard/program/applications.tsx'
import { pages as bulkJobs } from './dashboard/program/bulk-jobs.tsx'
import { pages as books } from './dashboard/program/books.tsx'
import { pages as setUpChecks } from './dashboard/program/set-up-checks.tsx'
import { pages as codes } from './dashboard/program/codes.tsx'
import { pages as commissions } from './dashboard/program/commissions.tsx'
import { pages as brand } from './dashboard/program/brand.tsx'
import { pages as documents } from './dashboard/program/documents.tsx'
import { pages as customer } from './dashboard/program/customer.tsx'
import { pages as embeddedPortal } from './dashboard/program/embedded-portal.tsx'
import { pages as events } from './dashboard/program/events.tsx'
import { pages as groups } from './dashboard/program/groups.tsx'
import { pages as imports } from './dashboard/program/imports.tsx'
import { pages as sideBySide } from './dashboard/program/side-by-side.tsx'
import { pages as joinPage } from './dashboard/program/join-page.tsx'
import { pages as newProgram } from './dashboard/program/new-program.tsx'
import { pages as notifications } from './dashboard/program/notifications.tsx'
import { pages as overview } from './dashboard/program/overview.tsx'
import { pages as partner } from './dashboard/program/partner.tsx'
import { pages as partners } from './dashboard/program/partners.tsx'
import { pages as payoutProviders } from './dashboard/program/payout-providers.tsx'
import { pages as payoutRunProvider } from './dashboard/program/payout-run-provider.tsx'
import { pages as payoutRun } from './dashboard/program/payout-run.tsx'
import { pages as payoutRuns } from './dashboard/program/payout-runs.tsx'
import { pages as reviews } from './dashboard/program/reviews.tsx'
import { pages as sale } from './dashboard/program/sale.tsx'
import { pages as savedViews } from './dashboard/program/saved-views.ts'
import { pages as search } from './dashboard/program/search.tsx'
import { pages as settings } from './dashboard/program/settings.tsx'
import { pages as connections } from './dashboard/program/connections.tsx'
import { pages as ownAccount } from './dashboard/program/own-account.tsx'
import { callbackPages, pages as stripeConnection } from './dashboard/program/stripe-connection.tsx'
import { pages as testData } from './dashboard/program/test-data.tsx'
import { pages as wizard } from './dashboard/program/wizard.tsx'
import { pages as webhookDeliveries } from './dashboard/program/webhook-deliveries.tsx'
import { pages as webhookEvents } from './dashboard/program/webhook-events.tsx'
import { pages as webhooks } from './dashboard/program/webhooks.tsx'
import { pages as payouts } from './dashboard/program/payouts.tsx'
import { pages as payoutsDue } from './dashboard/program/payouts-due.tsx'

/**
 * The dashboard, rendered on the server: pages for advertisers under `/programs/:programId` and for partners under `/partner`. A
 * form post gets a redirect, or 403 if it comes from another origin. Only assets are cached.
 */
const app = createApp<DashboardEnv>()

app.get('/assets/:file', async (c) => {
  const file = c.req.param('file')
  const asset = Object.values(assets).find(({ path }) => path === c.req.path)
  if (asset) return c.body(asset.content, 200, fileHeaders(asset.type))
  const [, color, isPreview] = /^brand-([0-9a-f]{6})(-preview)?\.css$/.exec(file) ?? []
  if (color !== undefined) {
    const style = brandStyle(`#${color}`, isPreview && '.preview')
    return c.body(style, 200, fileHeaders('text/css; charset=utf-8'))
  }
  if (!isLogoFile(file)) return c.notFound()
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  const logo = await findLogo(openDatabase(c.env), file)
  if (!logo) return c.notFound()
  // Somebody uploaded this file, so browsers must not treat it as anything but an image, even if a person opens its address.
  c.header('Content-Security-Policy', "default-src 'none'; sandbox")
  return c.body(logo.bytes, 200, fileHeaders(`image/${logo.type}`))
})

const fileHeaders = (type: string) => ({
  'Content-Type': type,
  'Cache-Control': 'public, max-age=31536000, immutable',
  'X-Content-Type-Options': 'nosniff',
})

const pages = createPages()

// The script sends forms in the background. If a form leads back to the same page, the script doesn't reload it.
pages.use(async (c, next) => {
  await next()
  const location = c.res.headers.get('location')
  if (c.req.header('x-visit') === undefined || c.res.status !== 303 || location === null) return
  const headers = new Headers(c.res.headers)
  headers.delete('location')
  headers.set('x-location', location)
  c.res = undefined
  c.res = new Response(null, { status: 204, headers })
})

pages.use(async (c, next) => {
  c.setRenderer((page) => renderPage(c, page))
  await next()
})
pages.use(async (c, next) => {
  await next()
  c.header('Cache-Control', 'no-store')
})
// Runs after the page, because the page sets `isChallenged`.
pages.use(async (c, next) => {
  await next()
  const isChallenged = c.get('isChallenged') === true
  const challenge = isChallenged ? [turnstileOrigin] : []
  await secureHeaders({
    // On a program's own host, its subdomains belong to the program.
    strictTransportSecurity: isOwnHost(c) || 'max-age=15552000',
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'"],
      scriptSrc: ["'self'", ...challenge],
      frameSrc: isChallenged ? challenge : ["'none'"],
      connectSrc: ["'self'"],
      fontSrc: ["'self'"],
      imgSrc: ["'self'"],
      // Browsers also apply this directive to the redirect after a form post, so it lists the sign-in providers.
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
// Checks the origin for every content type, because browsers also send JSON and empty posts to other sites. Mail clients unsubscribe with a
// signed token and without a page.
pages.use(async (c, next) => {
  const isRead = c.req.method === 'GET' || c.req.method === 'HEAD'
  const { origin } = new URL(isOwnHost(c) ? c.env.BASE_URL : c.req.url)
  const isOwn = c.req.header('sec-fetch-site') === 'same-origin' || c.req.header('origin') === origin
  if (!isRead && !isOwn && c.req.path !== unsubscribePath)
    throw new ApiError('forbidden', 'This came from a page of another site. Go back to the dashboard and try again.')
  await next()
})
// Postgres cannot store NUL in text, and ids and cursors in addresses go to Postgres.
pages.use(async (c, next) => {
  if (c.req.url.includes('%00')) throw new ApiError('invalid_request', 'The address contains an invalid character.')
  await next()
})
pages.use(async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  c.set('db', openDatabase(c.env))
  await next()
})
pages.use(limitHost)
pages.use(async (c, next) => {
  c.set('showPage', async (address, cookie) => {
    const sent = c.req.raw.headers
    const headers = new Headers({ cookie: [sent.get('cookie'), cookie].filter(Boolean).join('; ') })
    for (const name of ['cf-connecting-ip', 'accept-language']) {
      const value = sent.get(name)
      if (value !== null) headers.set(name, value)
    }
    const page = await app.request(new URL(address, c.req.url), { headers }, c.env, c.executionCtx)
    // The script sets this address, so that reloading the page does not send the form again.
    const named = address.replaceAll('&', '&amp;').replaceAll('"', '%22')
    const text = (await page.text()).replace('<body>', () => `<body data-address="${named}">`)
    return new Response(text, { headers: page.headers })
  })
  await next()
})
pages.use(loadViewer)
/** The pages for partners, and the pages on which they sign in first. */
const partnerPages = /^\/(partner|partner-invitation|join|application)([/?]|$)/
const signInPages = /^\/(sign-in|sign-up|two-factor|forgot-password|reset-password|verify-email)$/
/** The pages for members, which are in English. All others, such as the account, are in the language of people who are only partners. */
const memberPages = /^\/(programs|workspaces|invitation)(\/|$)/
/** The page that the reader opens. Pages on which people sign in lead to the next one. */
function openedPage(c: Context): string {
  let url = new URL(c.req.url)
  // The service's own pages nest two of them. Reading all of a long chain would take quadratic time.
  for (let left = 3; left > 0 && signInPages.test(url.pathname); left--)
    url = new URL(safePath(url.searchParams.get('next') ?? undefined), url)
  return url.pathname
}
function chooseTexts(c: PageContext): void {
  const isShared = !memberPages.test(c.req.path)
  if (partnerPages.test(openedPage(c)) || (isShared && isOnlyPartner(c.get('viewer')))) showToPartner(c)
  else c.set('texts', english)
}
pages.use(async (c, next) => {
  chooseTexts(c)
  await next()
})
const limitImport = limitBodyTo(maxImportBytes)
/** The fields around the file need some bytes too. */
const limitLogo = limitBodyTo(2 * maxLogoBytes)
// Only members of the program send the files of an import, and its logo.
pages.use((c, next) => {
  const [, programId] = /^\/programs\/(\d+)\/imports(\/\d+\/parts)?$/.exec(c.req.path) ?? []
  const isImport = c.get('viewer')?.programs.some(({ id }) => String(id) === programId)
  const [, brandedId] = /^\/programs\/(\d+)\/settings\/logo$/.exec(c.req.path) ?? []
  if (c.get('viewer')?.programs.some(({ id }) => String(id) === brandedId)) return limitLogo(c, next)
  return (isImport ? limitImport : limitBody)(c, next)
})
pages.use(actOnce)

const allPages = [
  // These routes come before `start`, because they serve `/` on a program's own host.
  join,
  start,
  account,
  auditLog,
  deletion,
  erasure,
  invitations,
  mail,
  members,
  openedPrograms,
  password,
  sessions,
  signIn,
  signUp,
  twoFactor,
  verification,
  partnerAdjustments,
  partnerApplications,
  partnerCommissions,
  earnings,
  links,
  campaigns,
  partnerInvitations,
  partnerNotifications,
  partnerSale,
  partnerKeys,
  postbacks,
  partnerPayouts,
  partnerDocuments,
  adjustments,
  applications,
  books,
  brand,
  bulkJobs,
  setUpChecks,
  codes,
  commissions,
  customer,
  documents,
  embeddedPortal,
  events,
  groups,
  imports,
  sideBySide,
  joinPage,
  newProgram,
  notifications,
  overview,
  partners,
  partner,
  payoutsDue,
  payoutProviders,
  payoutRuns,
  payoutRun,
  payoutRunProvider,
  reviews,
  sale,
  savedViews,
  search,
  settings,
  connections,
  ownAccount,
  stripeConnection,
  callbackPages,
  testData,
  // Comes before `webhooks`, whose `:id` would match `deliveries`.
  webhookDeliveries,
  webhooks,
  webhookEvents,
  payouts,
  wizard,
]
for (const group of allPages) pages.route('/', group)

app.route('/', pages)

app.notFound((c) => {
  if (c.req.path.startsWith('/api/')) {
    return errorResponse(new ApiError('not_found', `There is nothing at ${c.req.path}.`))
  }
  return renderError(c, "This page doesn't exist.", 404)
})
app.onError((error, c) => {
  if (isUsedForm(error)) return leadToFirstAnswer(c, openDatabase(c.env))
  // The account that sent the form was erased in the meantime.
  if (violatedConstraint(error) === 'used_forms_user_id_fkey') return c.redirect('/sign-in', 303)
  const refusal = asApiError(error, c)
  if (c.req.path.startsWith('/api/')) return errorResponse(refusal)
  return renderRefusal(c, refusal)
})

/** Redirects a refused form to its page, which shows the error. Shows every other error on its own page. */
async function renderRefusal(c: Context, refusal: ApiError): Promise<Response> {
  const { status } = errorCodes[refusal.code]
  if (c.req.method === 'POST' && (status === 400 || status === 409)) {
    const atField = await refuseAtField(c, refusal)
    if (atField) return atField
    const from = cameFrom(c)
    if (from) return redirectWith(c, from, refusal.message, 'bad')
  }
  return await renderError(c, refusal.message, status)
}

/** A signed-in person keeps the navigation of the program, the partner account or the personal account in the address. */
function renderError(c: Context, message: string, status: (typeof errorCodes)[keyof typeof errorCodes]['status']) {
  c.status(status)
  // Requests from other sites and above the rate limit are refused before.
  if (!c.get('texts')) chooseTexts(c)
  const { t, fixed }: PageTexts = c.get('texts')
  const title = t('That did not work')
  const heading = status === 404 ? t('Not found') : title
  const requestId: string = c.get('requestId')
  const text = <p>{fixed(message.replace(requestId, '{id}'), { id: requestId })}</p>
  const viewer: Viewer | undefined = c.get('viewer')
  if (!viewer) {
    return renderPage(
      c,
      <PlainPage title={title} heading={heading}>
        {text}
        <p>
          <a href="/">{t('Go to the start page')}</a>
        </p>
      </PlainPage>,
    )
  }
  const [, part, id] = c.req.path.split('/')
  const program = part === 'programs' ? viewer.programs.find((one) => String(one.id) === id) : undefined
  const page = { title, heading, children: <Card>{text}</Card> }
  if (program) return renderPage(c, <ProgramPage {...page} of={{ viewer, program }} />)
  return renderPage(c, part === 'partner' && viewer.partner ? <PartnerPage {...page} /> : <AccountPage {...page} />)
}

export default app
