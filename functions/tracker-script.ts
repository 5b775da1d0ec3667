import { ApiError, errorResponse } from '../lib/errors.ts'
import { etag, script } from '../tracker/dist/script.js'

const paths = ['/', '/js/svc-tracker.js']

const headers = {
  ETag: etag,
  // Fresh for a day; after that the old one is still served while the browser asks whether there is a newer one.
  'Cache-Control': 'public, max-age=86400, stale-while-revalidate=604800',
  'Access-Control-Allow-Origin': '*',
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'X-Content-Type-Options': 'nosniff',
}

/**
 * GET /js/svc-tracker.js, public: the browser tracker, as the package `tracker/` built it. 304 where `If-None-Match` names the
 * same script. It reads nothing but the request, so it answers wherever the edge is, whatever the database does.
 */
export default {
  fetch(request: Request): Response {
    const { method } = request
    const { pathname } = new URL(request.url)
    const response = answer(method, pathname, request.headers.get('if-none-match'))
    response.headers.set('X-Request-Id', crypto.randomUUID())
    return response
  },
}

function answer(method: string, pathname: string, ifNoneMatch: string | null): Response {
  if (!paths.includes(pathname)) return errorResponse(new ApiError('not_found', `There is nothing at ${pathname}.`))
  if (method !== 'GET' && method !== 'HEAD') {
    return errorResponse(
      new ApiError('method_not_allowed', `${pathname} takes GET and HEAD, not ${method}.`, {
        headers: { Allow: 'GET, HEAD' },
      }),
    )
  }
  // A cache on the way may have weakened the tag (W/) when it compressed the script.
  const known = ifNoneMatch?.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  if (known?.includes(etag) || known?.includes('*')) return new Response(null, { status: 304, headers })
  return new Response(method === 'HEAD' ? null : script, {
    headers: { ...headers, 'Content-Type': 'text/javascript; charset=utf-8' },
  })
}
