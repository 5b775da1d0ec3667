import { address, type Addresses, type Headers as HeadersLike } from './addresses.ts'
import { clickIdOf, cookieOf, keptOf } from './cookies.ts'

export interface ProxyOptions extends Addresses {
  /**
   * The program's proxy key (`svc_proxy_…`, from `.svc/.env`), by which the service believes whose visitors these are. Without it all
   * count as one, and their places stay unknown.
   */
  key?: string | undefined
  /** Domain of the cookies. Default: the page's registrable domain, guessed from its name. */
  cookieDomain?: string | undefined
  /** The name of the tag (`data-svc-name`) where the site has several programs: each has a proxy of its own, at a path of its own. */
  name?: string | undefined
}

const secondsOfDay = 86400
/** Browsers keep no cookie longer. */
const longestDays = 400

/** The headers that are passed on; an absent one is left out. */
const pick = (headers: HeadersLike, names: string[]): Record<string, string> =>
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

const scriptOf = ({ url }: Request) => (new URL(url).search === '?links' ? 'paymentLinks' : 'script')

/**
 * A handler that serves script, click and browser lead at one address of the page's own domain, which it does not look at: GET is the script
 * (with `?links` the one for payment links), a POST is known by what it holds. So the address can be any, and `svc init` makes one up that no block list knows. It passes on
 * the visitor's address, place and user agent but no cookie.
 *
 * The click id is set by `Set-Cookie`, which browsers keep for as long as it says, and again in a copy that no script can read. From the copy
 * the script's answer brings it back where a browser dropped it, as Safari does after seven days with what it takes for a tracker's.
 */
export function createTrackerProxy(options: ProxyOptions = {}) {
  const cookieName = cookieOf(options.name)
  const keptName = keptOf(options.name)
  return async (request: Request): Promise<Response> => {
    try {
      const { method, headers: sent } = request
      const call = method === 'POST' ? await request.json().catch(() => null) : undefined
      const route =
        call === undefined ? scriptOf(request) : call?.affiliate_url ? 'click' : call?.customer_key ? 'lead' : null
      if (!route) return new Response(null, { status: 404 })

      const cookies = sent.get('cookie') ?? ''
      const kept = clickIdOf(cookies, keptName)
      if (route === 'click') call.existing_click_id ??= kept

      const headers = pick(sent, ['content-type', 'user-agent', 'if-none-match'])
      if (call) headers['svc-visitor'] = await describeVisitor(request, options.key)
      const response = await fetch(address(options, route), {
        method,
        headers,
        body: call ? JSON.stringify(call) : null,
        signal: AbortSignal.timeout(10_000),
      })
      const { status } = response
      const answer = new Headers(pick(response.headers, ['content-type', 'cache-control', 'etag', 'retry-after']))

      // A browser names the page's origin, whatever name this server goes by behind its proxies; with the script, its page.
      const origin = sent.get('origin') ?? sent.get('referer')
      const { hostname, protocol } = new URL(origin?.startsWith('http') ? origin : request.url)
      const domain = options.cookieDomain ?? hostname.match(/[^.]+\.((com?|org|net|gov|edu|ac)\.)?[a-z][^.]+$/)?.[0]
      const setCookie = (cookie: string, seconds: number, rest = '') =>
        answer.append(
          'set-cookie',
          `${cookie}; Path=/; Max-Age=${seconds}; SameSite=Lax${rest}` +
            (domain ? `; Domain=${domain}` : '') +
            (protocol === 'https:' ? '; Secure' : ''),
        )
      const now = Math.floor(Date.now() / 1000)

      if (route === 'click' && status === 200) {
        const click = await response.json()
        const seconds = Math.min(click.cookie_window_days, longestDays) * secondsOfDay
        setCookie(`${cookieName}=${click.click_id}`, seconds)
        setCookie(`${keptName}=${click.click_id}.${now + seconds}`, longestDays * secondsOfDay, '; HttpOnly')
        return Response.json({ ...click, cookie_set: true }, { headers: answer })
      }
      if (call) return new Response(response.body, { status, headers: answer })

      // Kept by the visitor's browser alone, and while its cookies stay as they are, so that one it dropped is missed with the next page.
      answer.set('cache-control', answer.get('cache-control')?.replace('public', 'private') ?? 'no-cache')
      answer.set('vary', 'cookie')
      const secondsLeft = Number(cookies.split(`${kept}.`)[1]?.match(/^\d+/)) - now
      if (kept && secondsLeft > 0 && !clickIdOf(cookies, cookieName)) {
        setCookie(`${cookieName}=${kept}`, secondsLeft)
        // This answer is for this visitor alone.
        answer.set('cache-control', 'no-store')
      }
      // What follows `#` stays in the browser, so the script's calls come to its own address.
      const script = (await response.text()).replace('/api/v1/track/', '#')
      return new Response(status === 304 || method === 'HEAD' ? null : script, { status, headers: answer })
    } catch {
      return new Response(null, { status: 503 })
    }
  }
}
