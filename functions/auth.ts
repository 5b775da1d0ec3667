import type { Context } from 'hono'
import { type AuthEnv, openAuth } from '../lib/access/sign-in.ts'
import { createApp, limitBody, onlyMethods } from '../lib/api/app.ts'
import { clientAddress, enforceRateLimit, type RateLimit } from '../lib/api/rate-limits.ts'
import { ApiError, type ErrorCode } from '../lib/errors.ts'

interface Env extends AuthEnv {
  RATE_LIMIT?: RateLimit
}

const app = createApp<Env>()

/**
 * `/api/auth/*` serves only these endpoints of better-auth. Refusals use the platform envelope. A request from another origin gets 403.
 * - `POST sign-up/email` `{name, email, password}`: the same response for known and unknown addresses. Only the mail differs. 503 if the
 *   mail could not be sent, although the account was created.
 * - `POST sign-in/email` `{email, password}`: `{token, user}` and the session cookie. `Authorization: Bearer` takes
 * `token`. An account with two-factor codes gets `{twoFactorRedirect: true}` and a cookie.
 * - `POST two-factor/verify-totp` and `POST two-factor/verify-backup-code` `{code}`, with that cookie: the same response as sign-in.
 * - `POST sign-out`, `GET get-session`, `POST change-password` `{currentPassword, newPassword, revokeOtherSessions}`,
 * `POST request-password-reset` `{email}`, `POST reset-password` `{token, newPassword}`.
 * - `POST sign-in/social` `{provider, callbackURL}` with its callback, for OAuth.
 */
const routes = [
  ['POST', 'sign-up/email'],
  ['POST', 'sign-in/email'],
  ['POST', 'sign-out'],
  ['GET', 'get-session'],
  ['POST', 'change-password'],
  ['POST', 'request-password-reset'],
  ['POST', 'reset-password'],
  ['POST', 'two-factor/verify-totp'],
  ['POST', 'two-factor/verify-backup-code'],
  ['POST', 'sign-in/social'],
  ['GET', 'callback/:provider'],
] as const

for (const [method, route] of routes) {
  app.on(method, `/api/auth/${route}`, limitBody, answer)
  app.all(`/api/auth/${route}`, onlyMethods(method))
}

async function answer(c: Context<{ Bindings: Env }>): Promise<Response> {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  const response = await openAuth(c).handler(fromProgram(c.req.raw))
  if (response.status >= 400) throw await refusal(response)
  const headers = new Headers(response.headers)
  headers.set('Cache-Control', 'no-store')
  if (c.req.path.startsWith('/api/auth/callback/')) return await leadOn(c.env.BASE_URL, response, headers)
  const signedToken = headers.get('set-auth-token')
  if (signedToken === null) return new Response(response.body, { status: response.status, headers })
  // better-auth puts the token into the body without its signature. Nobody can sign in with that token.
  const body: object = await response.json()
  return Response.json({ ...body, token: signedToken }, { headers })
}

/**
 * Redirects from a provider to the requested page. If better-auth asks for a two-factor code, the page for the code
 * comes first.
 */
async function leadOn(baseUrl: string, response: Response, headers: Headers): Promise<Response> {
  headers.delete('set-auth-token')
  const wanted = headers.get('location') ?? '/'
  if ((await response.text()).includes('"twoFactorRedirect":true'))
    headers.set('Location', `${baseUrl}/two-factor?next=${encodeURIComponent(wanted)}`)
  return new Response(null, { status: 303, headers })
}

/**
 * Node's fetch sends `Sec-Fetch-Mode` without `Sec-Fetch-Site`. better-auth mistakes such a request for a browser without an origin and
 * refuses it. Browsers always send both headers, so the function removes `Sec-Fetch-Mode` if it is alone.
 */
function fromProgram(request: Request): Request {
  if (request.headers.has('sec-fetch-site') || !request.headers.has('sec-fetch-mode')) return request
  const headers = new Headers(request.headers)
  headers.delete('sec-fetch-mode')
  return new Request(request, { headers })
}

const codes: Record<number, ErrorCode> = {
  400: 'invalid_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
  415: 'unsupported_media_type',
  429: 'rate_limited',
  503: 'unavailable',
}

/** Converts better-auth's refusal to the service's own envelope. */
async function refusal(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null)
  const message =
    typeof body === 'object' && body !== null && 'message' in body && typeof body.message === 'string'
      ? body.message
      : 'The request was refused.'
  const code = codes[response.status] ?? 'internal_error'
  return new ApiError(code, message, { headers: code === 'rate_limited' ? { 'Retry-After': '900' } : {} })
}

export default app
