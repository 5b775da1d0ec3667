import { address, type Addresses, type Headers, pathOf } from './addresses.ts'

export interface ProxyOptions extends Addresses {
  /**
   * The program's proxy key (`svc_proxy_…`, from `.svc/.env`), by which the service believes whose visitors these are. Without it all
   * count as one, and their places stay unknown.
   */
  key?: string | undefined
  /** Domain of the cookie. Default: the page's registrable domain, guessed from its name. */
  cookieDomain?: string | undefined
}

/** The headers that are passed on; an absent one is left out. */
const pick = (headers: Headers, names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, headers.get(name) ?? '']).filter(([, value]) => value))

/** Bytes as a key or a message. */
const bytes = (text: string) => new TextEncoder().encode(text)

/**
 * What is said of a visitor, signed: program, time, address and place, as a query string. The place comes from the edge that this server
 * runs on (Cloudflare, Vercel) and is empty elsewhere: a visitor can send these headers too. Of the addresses the last counts,
 * which the nearest proxy of this server's own has put there.
 */
async function describeVisitor({ headers, cf }: Request & { cf?: Record<string, string> }, key = ''): Promise<string> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- Node's, which not every server has
  const { process } = globalThis as { process?: { env?: Record<string, string> } }
  const place = (name: string) => cf?.[name] ?? ''
  const fromVercel = (name: string) =>
    decodeURIComponent((process?.env?.['VERCEL'] && headers.get(`x-vercel-ip-${name}`)) || '')
  const text = String(
    new URLSearchParams({
      program: key.split('_')[2] ?? '',
      time: String(Math.floor(Date.now() / 1000)),
      address: (cf ? headers.get('cf-connecting-ip') : headers.get('x-forwarded-for')?.split(',').at(-1)?.trim()) ?? '',
      country: place('country') || fromVercel('country'),
      region: place('region') || fromVercel('country-region'),
      city: place('city') || fromVercel('city'),
    }),
  )
  if (!key) return text
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const signer = await crypto.subtle.importKey('raw', bytes(key), hmac, false, ['sign'])
  const signature = new Uint8Array(await crypto.subtle.sign(hmac, signer, bytes(text)))
  return `${text}&signature=${[...signature].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

/**
 * A handler that serves the scripts, the click and the browser lead under the page's own domain, at any prefix: `/svc/js/svc-tracker.js`,
 * `/svc/js/svc-payment-links.js`, `/svc/api/v1/track/click` and `/svc/api/v1/track/lead`. It passes on the visitor's address, place and user agent but no cookie,
 * and sets the click id by `Set-Cookie`, which browsers keep for as long as it says.
 */
export function createTrackerProxy(options: ProxyOptions = {}) {
  return async (request: Request): Promise<Response> => {
    try {
      const { method, headers: sent } = request
      const { pathname } = new URL(request.url)
      const route = (['script', 'paymentLinks', 'click', 'lead'] as const).find((name) =>
        pathname.endsWith(pathOf(name)),
      )
      if (!route) return new Response(null, { status: 404 })

      const headers = pick(sent, ['content-type', 'user-agent', 'if-none-match'])
      if (route !== 'script') headers['svc-visitor'] = await describeVisitor(request, options.key)
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
