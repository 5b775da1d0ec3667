import ipaddr from 'ipaddr.js'
import * as z from 'zod/mini'

export interface LoopbackEnv {
  /** `on` allows webhooks to this machine. Only a local stack sets it. */
  WEBHOOK_LOOPBACK?: string
  /** Calls an address that a stranger chose, in a process that has a route to public addresses only. */
  OUTSIDE?: { fetch(url: string, request: OutsideRequest): Promise<Response> }
}

export interface OutsideRequest {
  method: string
  headers: Record<string, string>
  body?: string
  redirect: 'manual'
  signal: AbortSignal
}

export interface AddressEnv extends LoopbackEnv {
  /** Resolves DNS names over HTTPS and returns JSON, like https://cloudflare-dns.com/dns-query. */
  DNS_OVER_HTTPS_URL: string
}

const privateNames = /(^|\.)(localhost|local|internal|intranet|lan|home\.arpa|test|invalid|onion)$/

/**
 * Returns the reason why webhooks can't be sent to an address, or undefined if they can. The address must use https and a public
 * host, and must not contain a password. `refusalOfName` resolves the name when a webhook is sent. A local stack can allow plain
 * http for its own machine.
 */
export function refusalOfAddress(address: string, env: LoopbackEnv): string | undefined {
  const url = URL.parse(address)
  if (!url) return 'must be an address such as https://example.com/webhooks'
  if (isLoopbackAllowed(url, env)) return undefined
  if (url.protocol !== 'https:') return 'must begin with https://'
  if (url.username || url.password) return 'must not contain a password'
  const host = hostOf(url)
  if (isAddress(host)) return isPublicAddress(host) ? undefined : 'must be a public address'
  // An empty part, as in `localhost..`, would hide the actual ending.
  return !/^[^.]+(\.[^.]+)+$/.test(host) || privateNames.test(host) ? 'must have a public host' : undefined
}

function isLoopbackAllowed({ protocol, hostname }: URL, env: LoopbackEnv): boolean {
  return (
    env.WEBHOOK_LOOPBACK === 'on' && /^https?:$/.test(protocol) && /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname)
  )
}

const hostOf = ({ hostname }: URL) => hostname.replace(/\.$/, '')
const isAddress = (host: string) => host.startsWith('[') || /^\d+(\.\d+){3}$/.test(host)

const dnsAnswer = z.object({
  Answer: z.optional(z.array(z.object({ type: z.number(), data: z.string() }))),
})
const recordTypes = { A: 1, TXT: 16, AAAA: 28 } as const

/** Results of name lookups, for a minute. */
const known = new Map<string, { until: number; refusal: string | undefined }>()
const keepMilliseconds = 60_000
const maxKnown = 5000

/**
 * Returns the reason to refuse an address because its name doesn't resolve to public addresses only, or undefined. On Cloudflare's edge,
 * this is a second line of defense: a Worker can only reach the public Internet, even if a name changes a moment later. `OUTSIDE` does the
 * same elsewhere. Throws if the name service does not respond.
 */
export async function refusalOfName(
  address: string,
  env: AddressEnv,
  signal: AbortSignal,
): Promise<string | undefined> {
  const url = new URL(address)
  const host = hostOf(url)
  if (isLoopbackAllowed(url, env) || isAddress(host)) return undefined
  const found = known.get(host)
  if (found && found.until > Date.now()) return found.refusal
  const addresses = (await Promise.all([resolve(host, 'A', env, signal), resolve(host, 'AAAA', env, signal)])).flat()
  const hidden = addresses.find((record) => !isPublicAddress(record))
  const refusal =
    hidden !== undefined
      ? `${host} resolves to ${hidden}, which is not a public address.`
      : addresses.length === 0
        ? `${host} resolves to no address.`
        : undefined
  if (known.size >= maxKnown) known.clear()
  known.set(host, { until: Date.now() + keepMilliseconds, refusal })
  return refusal
}

/** Asks the name service for the records of a name. Throws if the name service doesn't respond. */
export async function resolve(
  host: string,
  type: keyof typeof recordTypes,
  env: AddressEnv,
  signal: AbortSignal,
): Promise<string[]> {
  const question = `${env.DNS_OVER_HTTPS_URL}?name=${encodeURIComponent(host)}&type=${type}`
  const response = await fetch(question, { headers: { accept: 'application/dns-json' }, signal })
  if (!response.ok) throw new Error(`The DNS server answered ${response.status}.`)
  const { Answer: records = [] } = dnsAnswer.parse(await response.json())
  return records.filter((record) => record.type === recordTypes[type]).map(({ data }) => data)
}

/** The only IPv6 network with allocated public addresses. */
const allocated6 = ipaddr.IPv6.parseCIDR('2000::/3')

/** Checks that an IPv4 or IPv6 address (in brackets or not) belongs to the public Internet. */
export function isPublicAddress(address: string): boolean {
  const text = address.replace(/^\[|\]$/g, '')
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text).range() === 'unicast'
  if (!ipaddr.IPv6.isValid(text)) return false
  const address6 = ipaddr.IPv6.parse(text)
  return address6.match(allocated6) && address6.range() === 'unicast'
}
