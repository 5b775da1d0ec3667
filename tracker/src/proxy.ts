import { address, type Addresses, type Headers as HeadersLike, type Route } from './addresses.ts'
import { clickIdOf, cookieOf, keptOf } from './cookies.ts'

export interface ProxyOptions extends Addresses {
  /**
   * The program's proxy key (`svc_proxy_…`, from `.svc/.env`). It signs the visitor's address and place. Without the key, all visitors
   * count as one, and their places are unknown.
   */
  key?: string | undefined
  /** Domain of the cookies. Default: the page's registrable domain, guessed from its name. */
  cookieDomain?: string | undefined
  /**
   * `true` if visitors reach this server only through a proxy that adds their address to `X-Forwarded-For`, such as nginx or a load
   * balancer. The last address in the header counts. Without a proxy, visitors could invent the header, so it is ignored by default
   * and all visitors count as one. This isn't needed on Cloudflare and Vercel.
   */
  isBehindProxy?: boolean | undefined
  /** The name of the tag (`data-svc-name`) if the site has several programs. Each program has its own proxy at its own path. */
  name?: string | undefined
}

const secondsOfDay = 86400
/** The longest duration that browsers allow for a cookie. */
const longestDays = 400

/** Returns the named headers that have a value. */
const pick = (headers: HeadersLike, names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, headers.get(name) ?? '']).filter(([, value]) => value))

const bytes = (text: string) => new TextEncoder().encode(text)

/**
 * Describes a visitor as a signed query string: program, time, address and place. The place comes from the edge that this server runs on
 * (Cloudflare, Vercel). It is empty elsewhere, because a visitor could send these headers too.
 */
async function describeVisitor(
  { headers, cf }: Request & { cf?: Record<string, string> },
  { key = '', isBehindProxy }: ProxyOptions,
): Promise<string> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- Node's; other runtimes may lack it
  const { process } = globalThis as { process?: { env?: Record<string, string> } }
  const place = (name: string) => cf?.[name] ?? ''
  const isOnVercel = Boolean(process?.env?.['VERCEL'])
  const fromVercel = (name: string) => decodeURIComponent((isOnVercel && headers.get(`x-vercel-ip-${name}`)) || '')
  const text = String(
    new URLSearchParams({
      program: key.split('_')[2] ?? '',
      time: String(Math.floor(Date.now() / 1000)),
      address:
        (cf
          ? headers.get('cf-connecting-ip')
          : (isBehindProxy ?? isOnVercel) && headers.get('x-forwarded-for')?.split(',').at(-1)?.trim()) || '',
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

const scripts: Record<string, Route> = { '?links': 'paymentLinks', '?consent': 'consent' }
const scriptOf = ({ url }: Request) => scripts[new URL(url).search] ?? 'script'

/**
 * Creates a handler that serves the script and forwards clicks and browser leads, all at one address on the page's own domain. GET
 * returns the script, or with `?links` the one for payment links, or with `?consent` the one that can revoke consent. The fields of a
 * POST distinguish a click, a lead and a revoked consent, which deletes the cookies. So any address works, and `svc init` generates one
 * that isn't on any block list. The handler forwards the visitor's address, place and user agent, but no cookies.
 *
 * `Set-Cookie` sets the click id, because browsers keep such a cookie for its whole duration. A second cookie, which scripts can't read,
 * contains a copy. If a browser drops the first cookie, as Safari does after seven days for suspected trackers, the response with the
 * script restores it from the copy.
 */
export function createTrackerProxy(options: ProxyOptions = {}) {
  // Throws immediately if the service's address is not configured.
  address(options, 'script')
  const cookieName = cookieOf(options.name)
  const keptName = keptOf(options.name)
  return async (request: Request): Promise<Response> => {
    try {
      const { method, headers: sent } = request
      const call = method === 'POST' ? await request.json().catch(() => null) : undefined
      const route =
        call === undefined ? scriptOf(request) : call?.affiliate_url ? 'click' : call?.customer_key ? 'lead' : null
      if (!route && !call?.revoked) return new Response(null, { status: 404 })

      const cookies = sent.get('cookie') ?? ''
      const kept = clickIdOf(cookies, keptName)
      if (route === 'click') call.existing_click_id ??= kept

      const answer = new Headers()
      // The browser sends the page's origin or, for the script, the page's address. Behind proxies, this server's own name may differ.
      const origin = sent.get('origin') ?? sent.get('referer')
      const { hostname, protocol } = new URL(origin?.startsWith('http') ? origin : request.url)
      const domain =
        options.cookieDomain ?? hostname.match(/(?<![^.])[^.]+\.((com?|org|net|gov|edu|ac)\.)?[a-z][^.]+$/)?.[0]
      const setCookie = (cookie: string, seconds: number, rest = '') =>
        answer.append(
          'set-cookie',
          `${cookie}; Path=/; Max-Age=${seconds}; SameSite=Lax${rest}` +
            (domain ? `; Domain=${domain}` : '') +
            (protocol === 'https:' ? '; Secure' : ''),
        )
      if (!route) {
        for (const cookie of [cookieName, keptName]) setCookie(`${cookie}=`, 0)
        return new Response(null, { status: 204, headers: answer })
      }

      const headers = pick(sent, ['content-type', 'user-agent', 'if-none-match'])
      if (call) headers['svc-visitor'] = await describeVisitor(request, options)
      const response = await fetch(address(options, route), {
        method,
        headers,
        body: call ? JSON.stringify(call) : null,
        signal: AbortSignal.timeout(10_000),
      })
      const { status } = response
      const passed = pick(response.headers, ['content-type', 'cache-control', 'etag', 'retry-after'])
      for (const [name, value] of Object.entries(passed)) answer.set(name, value)
      const now = Math.floor(Date.now() / 1000)

      if (route === 'click' && status === 200) {
        const click = await response.json()
        // A refused click has no id.
        if (!click.click_id) return Response.json(click, { headers: answer })
        const seconds = Math.min(click.cookie_window_days, longestDays) * secondsOfDay
        setCookie(`${cookieName}=${click.click_id}`, seconds)
        setCookie(`${keptName}=${click.click_id}.${now + seconds}`, seconds, '; HttpOnly')
        return Response.json({ ...click, cookie_set: true }, { headers: answer })
      }
      if (call) return new Response(response.body, { status, headers: answer })

      // Only the visitor's browser may cache the script, and only while its cookies stay the same. So a dropped cookie is restored on the
      // next page.
      answer.set('cache-control', answer.get('cache-control')?.replace('public', 'private') ?? 'no-cache')
      answer.set('vary', 'cookie')
      const secondsLeft = Number(cookies.split(`${kept}.`)[1]?.match(/^\d+/)) - now
      if (kept && secondsLeft > 0 && !clickIdOf(cookies, cookieName)) {
        setCookie(`${cookieName}=${kept}`, secondsLeft)
        answer.set('cache-control', 'no-store')
      }
      // Browsers don't send the part after `#`, so the script calls its own address.
      const script = (await response.text()).replace('/api/v1/track/', '#')
      return new Response(status === 304 || method === 'HEAD' ? null : script, { status, headers: answer })
    } catch {
      return new Response(null, { status: 503 })
    }
  }
}
