import { address, type Addresses, type Headers, pathOf } from './addresses.ts'

export interface ProxyOptions extends Addresses {
  /** Domain of the cookie. Default: the page's registrable domain, guessed from its name. */
  cookieDomain?: string | undefined
}

/** The headers that are passed on; an absent one is left out. */
const pick = (headers: Headers, names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, headers.get(name) ?? '']).filter(([, value]) => value))

/**
 * A handler that serves the script, the click and the browser lead under the page's own domain, at any prefix: `/svc/js/svc-tracker.js`,
 * `/svc/api/v1/track/click` and `/svc/api/v1/track/lead`. It passes on the visitor's address, place and user agent but no cookie,
 * and sets the click id by `Set-Cookie`, which browsers keep for as long as it says.
 */
export function createTrackerProxy(options: ProxyOptions = {}) {
  return async (request: Request): Promise<Response> => {
    try {
      const { method, headers: sent, cf }: Request & { cf?: Record<string, string> } = request
      const { pathname } = new URL(request.url)
      const route = (['script', 'click', 'lead'] as const).find((name) => pathname.endsWith(pathOf(name)))
      if (!route) return new Response(null, { status: 404 })

      const headers = pick(sent, ['content-type', 'user-agent', 'if-none-match', 'x-forwarded-for'])
      // Empty where this server's edge (Vercel, Cloudflare) does not know it, so that the service does not take this server's place.
      for (const name of ['country', 'country-region', 'city'])
        headers[`svc-visitor-${name}`] =
          sent.get(`x-vercel-ip-${name}`) ?? encodeURIComponent(cf?.[name.slice(name.indexOf('-') + 1)] ?? '')
      const response = await fetch(address(options, route), {
        method,
        headers,
        body: method === 'POST' ? await request.arrayBuffer() : null,
        signal: AbortSignal.timeout(10_000),
      })
      const { status } = response
      const answer = pick(response.headers, ['content-type', 'cache-control', 'etag', 'retry-after'])
      if (route !== 'click' || status !== 200) return new Response(response.body, { status, headers: answer })

      const click = await response.json()
      // A browser names the page's origin, whatever name this server goes by behind its proxies.
      const origin = sent.get('origin')
      const { hostname, protocol } = new URL(origin?.startsWith('http') ? origin : request.url)
      const domain = options.cookieDomain ?? hostname.match(/[^.]+\.((com?|org|net|gov|edu|ac)\.)?[a-z][^.]+$/)?.[0]
      answer['set-cookie'] =
        `svc_click_id=${click.click_id}; Path=/; Max-Age=${click.cookie_window_days * 86400}; SameSite=Lax` +
        (domain ? `; Domain=${domain}` : '') +
        (protocol === 'https:' ? '; Secure' : '')
      return Response.json({ ...click, cookie_set: true }, { headers: answer })
    } catch {
      return new Response(null, { status: 503 })
    }
  }
}
