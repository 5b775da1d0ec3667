import type { Context } from 'hono'
import { csrf } from 'hono/csrf'
import { HTTPException } from 'hono/http-exception'
import { secureHeaders } from 'hono/secure-headers'
import { asApiError, createApp, limitBody } from '../lib/api/app.ts'
import { clientAddress, enforceRateLimit } from '../lib/api/rate-limits.ts'
import { openDatabase } from '../lib/database.ts'
import { ApiError, errorCodes, errorResponse } from '../lib/errors.ts'
import { accountPages } from './dashboard/account/account.tsx'
import { assets } from './dashboard/parts/assets.ts'
import { commissionPages } from './dashboard/program/commissions.tsx'
import { deliveryPages } from './dashboard/program/deliveries.tsx'
import { eventPages } from './dashboard/program/events.tsx'
import { renderPlain } from './dashboard/parts/layout.tsx'
import { noticePages } from './dashboard/program/notices.tsx'
import { overviewPages } from './dashboard/program/overview.tsx'
import { partnerListPages } from './dashboard/program/partners.tsx'
import { memberPages } from './dashboard/account/members.tsx'
import { createPages, type DashboardEnv, flash, loadViewer, safePath } from './dashboard/parts/page.ts'
import { partnerPages } from './dashboard/partner/partner.tsx'
import { Card } from './dashboard/parts/parts.tsx'
import { programPages } from './dashboard/program/programs.tsx'
import { settingsPages } from './dashboard/program/settings.tsx'
import { signInPages } from './dashboard/account/sign-in.tsx'
import { withdrawalPages } from './dashboard/program/withdrawals.tsx'

/**
 * The dashboard: pages rendered on the server, for advertisers under `/programs/:programId`, for partners under `/partner`. Forms
 * post and are answered with a redirect; a post from another origin is 403. Nothing but the assets is cached anywhere.
 */
const app = createApp<DashboardEnv>()

app.get('/healthz', (c) => c.json({ ok: true }))

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
pages.use((c, next) =>
  secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'"],
      scriptSrc: ["'self'"],
      connectSrc: ["'self'"],
      imgSrc: ["'self'"],
      // Browsers hold the redirect after a form post to this too, so the providers one can sign in with stand here.
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
  })(c, next),
)
// It throws an exception of Hono's own, which the rest of the service does not use.
pages.use((c, next) =>
  csrf({ origin: new URL(c.env.BASE_URL).origin })(c, next).catch((error: unknown) => {
    if (!(error instanceof HTTPException)) throw error
    throw new ApiError('forbidden', 'This came from a page of another site. Go back to the dashboard and try again.')
  }),
)
pages.use(limitBody)
// Ids and cursors in addresses go to Postgres, which holds no NUL in text.
pages.use(async (c, next) => {
  if (c.req.url.includes('%00'))
    throw new ApiError('invalid_request', 'The address has a character that it cannot have.')
  await next()
})
pages.use(async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  c.set('db', openDatabase(c.env))
  await next()
})
pages.use(loadViewer)

pages.route('/', signInPages)
pages.route('/', programPages)
pages.route('/', overviewPages)
pages.route('/', eventPages)
pages.route('/', partnerListPages)
pages.route('/', commissionPages)
pages.route('/', withdrawalPages)
pages.route('/', noticePages)
pages.route('/', deliveryPages)
pages.route('/', settingsPages)
pages.route('/', memberPages)
pages.route('/', accountPages)
pages.route('/', partnerPages)

app.route('/', pages)

app.notFound((c) => {
  if (c.req.path.startsWith('/api/')) {
    return errorResponse(new ApiError('not_found', `There is nothing at ${c.req.path}.`))
  }
  return renderError(c, 'There is nothing at this address.', 404)
})
app.onError((error, c) => {
  const refusal = asApiError(error, c.get('requestId'))
  if (c.req.path.startsWith('/api/')) return errorResponse(refusal)
  return renderRefusal(c, refusal)
})

/** A refused form leads back to its page, which shows what was wrong; everything else is a page of its own. */
function renderRefusal(c: Context, refusal: ApiError) {
  const { status } = errorCodes[refusal.code]
  const from = c.req.header('referer')
  if (c.req.method === 'POST' && (status === 400 || status === 409) && from && URL.canParse(from)) {
    const { pathname, search } = new URL(from)
    flash(c, 'bad', refusal.message)
    return c.redirect(safePath(pathname + search), 303)
  }
  return renderError(c, refusal.message, status)
}

function renderError(c: Context, message: string, status: (typeof errorCodes)[keyof typeof errorCodes]['status']) {
  c.status(status)
  return renderPlain(c, {
    title: 'That did not work',
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
