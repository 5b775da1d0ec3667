import { browserScripts } from '../lib/api/browser-scripts.ts'
import { ApiError, errorResponse } from '../lib/errors.ts'

/** The scripts by their path, plain and compressed with brotli at the best quality. */
const scripts = new Map(
  Array.from(browserScripts, ([path, { script, etag, brotliBase64 }]) => [
    path,
    { script, etag, compressed: Uint8Array.from(atob(brotliBase64), (character) => character.charCodeAt(0)) },
  ]),
)

const commonHeaders = {
  // Fresh for a day. After that, the browser uses the old script while it requests a newer one.
  'Cache-Control': 'public, max-age=86400, stale-while-revalidate=604800',
  'Access-Control-Allow-Origin': '*',
  Vary: 'Accept-Encoding',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'X-Content-Type-Options': 'nosniff',
}

/**
 * GET /js/svc-tracker.js, public: the browser tracker from the package `tracker/`. GET /js/svc-tracker-consent.js: the same with
 * `svc.revokeConsent()`. GET /js/svc-payment-links.js: the script that adds click ids to checkouts. GET /js/svc-embed.js: the element of
 * the embedded portal, for pages without a bundler. Returns 304 if `If-None-Match` names the same script. Doesn't query the database, so it
 * works even if the database is down. On Cloudflare, static files answer these paths without calling this function (see
 * lib/commands/deploy/static-files.ts).
 */
export default {
  fetch(request: Request): Response {
    const response = answer(request)
    response.headers.set('X-Request-Id', crypto.randomUUID())
    return response
  },
}

function answer(request: Request & { cf?: { clientAcceptEncoding?: string } }): Response {
  const { method, cf } = request
  const { pathname } = new URL(request.url)
  const found = scripts.get(pathname === '/' ? '/js/svc-tracker.js' : pathname)
  if (!found) return errorResponse(new ApiError('not_found', `There is nothing at ${pathname}.`))
  if (method !== 'GET' && method !== 'HEAD') {
    return errorResponse(
      new ApiError('method_not_allowed', `${pathname} only accepts GET and HEAD, not ${method}.`, {
        headers: { Allow: 'GET, HEAD' },
      }),
    )
  }
  const { script, etag, compressed } = found
  const headers = { ETag: etag, ...commonHeaders }
  const known = request.headers.get('if-none-match')?.split(',')
  if (known?.some((tag) => ['*', etag].includes(tag.trim()))) return new Response(null, { status: 304, headers })
  const init = { headers: { ...headers, 'Content-Type': 'text/javascript; charset=utf-8' } }
  // Cloudflare replaces the visitor's header with its own and keeps the original in `cf`.
  const accepted = cf?.clientAcceptEncoding ?? request.headers.get('accept-encoding') ?? ''
  if (!/\bbr\b/.test(accepted)) return new Response(method === 'HEAD' ? null : script, init)
  const brotli = { encodeBody: 'manual', headers: { ...init.headers, 'Content-Encoding': 'br' } }
  return new Response(method === 'HEAD' ? null : compressed, brotli)
}
