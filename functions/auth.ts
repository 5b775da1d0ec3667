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
 * `/api/auth/*`: these of better-auth's endpoints; its others are not reachable. `POST sign-up/email` `{name, email, password}` answers alike whether the
 * address has an account, which its mail says; 503 where that mail could not be sent, the account being there. `POST sign-in/email` `{email, password}` answers `{token, user}` and sets the session
 * cookie; `token` is what `Authorization: Bearer` takes. Where the account has two-factor codes it answers `{twoFactorRedirect: true}` and a cookie, with which `POST
 * two-factor/verify-totp` and `POST two-factor/verify-backup-code` `{code}` answer what sign-in does. `POST sign-out`, `GET get-session`, `POST change-password` `{currentPassword, newPassword, revokeOtherSessions}`, `POST
 * request-password-reset` `{email}`, `POST reset-password` `{token, newPassword}`, and for OAuth `POST sign-in/social`
 * `{provider, callbackURL}` with its callback. Refusals are in the platform envelope. A request of another origin is 403.
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
  // better-auth's body holds the token without its signature, which signs nobody in.
  const body: object = await response.json()
  return Response.json({ ...body, token: signedToken }, { headers })
}

/** Back from a provider: to where the person wanted to go, by the page for the code where better-auth's body says that one is needed. */
async function leadOn(baseUrl: string, response: Response, headers: Headers): Promise<Response> {
  headers.delete('set-auth-token')
  const wanted = headers.get('location') ?? '/'
  if ((await response.text()).includes('"twoFactorRedirect":true'))
    headers.set('Location', `${baseUrl}/two-factor?next=${encodeURIComponent(wanted)}`)
  return new Response(null, { status: 303, headers })
}

/**
 * Node's fetch sends `Sec-Fetch-Mode` and nothing else of that family, which better-auth takes for a browser without an
 * origin and refuses. Browsers always send `Sec-Fetch-Site` with it, so the header alone is dropped.
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
  415: 'unsupported_media_type',
  429: 'rate_limited',
  503: 'unavailable',
}

/** better-auth's refusal in the service's own envelope. */
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
