import * as z from 'zod/mini'

export interface LoopbackEnv {
  /** Set on a local stack alone, where webhooks may go to this machine: `on`. */
  WEBHOOK_LOOPBACK?: string
  /** The way out to addresses that strangers choose, where the process has one that leads to public ones alone. */
  OUTSIDE?: { fetch(url: string, request: OutsideRequest): Promise<Response> }
}

export interface OutsideRequest {
  method: string
  headers: Record<string, string>
  body: string
  redirect: 'manual'
  signal: AbortSignal
}

export interface AddressEnv extends LoopbackEnv {
  /** Answers DNS questions over HTTPS in JSON, as https://cloudflare-dns.com/dns-query does. */
  DNS_OVER_HTTPS_URL: string
}

const privateNames = /(^|\.)(localhost|local|internal|intranet|lan|home\.arpa|test|invalid|onion)$/

/**
 * Why webhooks do not go to an address, or undefined where they may: https to a public host, without a password. What a name leads to is
 * asked when a webhook is sent (`refusalOfName`). A local stack may say that plain http to this machine's own addresses is fine.
 */
export function refusalOfAddress(address: string, env: LoopbackEnv): string | undefined {
  const url = URL.parse(address)
  if (!url) return 'must be an address, as https://example.com/webhooks'
  if (isLoopbackAllowed(url, env)) return undefined
  if (url.protocol !== 'https:') return 'must begin with https://'
  if (url.username || url.password) return 'must not hold a password'
  const host = hostOf(url)
  if (isAddress(host)) return isPublicAddress(host) ? undefined : 'must be a public address'
  // An empty part, as in `localhost..`, would hide what the name ends with.
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
const recordTypes = { A: 1, AAAA: 28 } as const

/** What names led to, for a minute. */
const known = new Map<string, { until: number; refusal: string | undefined }>()
const keepMilliseconds = 60_000
const maxKnown = 5000

/**
 * Why nothing is sent to where an address leads at this moment, or undefined where each of its records is public. On Cloudflare's edge this
 * comes before what holds anyway: there a Worker reaches the public Internet alone, whatever a name becomes a moment later, and `OUTSIDE` elsewhere. Throws
 * where the name service gives no answer.
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
      ? `${host} leads to ${hidden}, which is not a public address.`
      : addresses.length === 0
        ? `${host} leads to no address.`
        : undefined
  if (known.size >= maxKnown) known.clear()
  known.set(host, { until: Date.now() + keepMilliseconds, refusal })
  return refusal
}

async function resolve(host: string, type: 'A' | 'AAAA', env: AddressEnv, signal: AbortSignal): Promise<string[]> {
  const question = `${env.DNS_OVER_HTTPS_URL}?name=${encodeURIComponent(host)}&type=${type}`
  const response = await fetch(question, { headers: { accept: 'application/dns-json' }, signal })
  if (!response.ok) throw new Error(`The name service answered ${response.status}.`)
  const { Answer: records = [] } = dnsAnswer.parse(await response.json())
  return records.filter((record) => record.type === recordTypes[type]).map(({ data }) => data)
}

/** Ranges of IPv4 that are not of the public Internet (IANA's special-purpose registry), as number of bits and first address. */
const hidden4: [bits: number, first: string][] = [
  [8, '0.0.0.0'],
  [8, '10.0.0.0'],
  [10, '100.64.0.0'],
  [8, '127.0.0.0'],
  [16, '169.254.0.0'],
  [12, '172.16.0.0'],
  [24, '192.0.0.0'],
  [24, '192.0.2.0'],
  [24, '192.88.99.0'],
  [16, '192.168.0.0'],
  [15, '198.18.0.0'],
  [24, '198.51.100.0'],
  [24, '203.0.113.0'],
  [3, '224.0.0.0'],
]

/** Whether an IPv4 or IPv6 address (in brackets or not) is one of the public Internet. */
export function isPublicAddress(address: string): boolean {
  const text = address.replace(/^\[|\]$/g, '')
  if (!text.includes(':')) {
    const number = number4(text)
    return (
      number !== undefined &&
      !hidden4.some(([bits, first]) => prefix(number, bits) === prefix(number4(first) ?? 0, bits))
    )
  }
  const groups = groups6(text)
  if (!groups) return false
  const [first = 0, second = 0] = groups
  // Only 2000::/3 is given out; of it 2001::/23 is special, 2001:db8::/32 and 3fff::/20 are for documents, and 2002::/16 holds an IPv4 address.
  if (first >> 13 !== 1) return false
  if (first === 0x2001 && (second < 0x200 || second === 0xdb8)) return false
  if (first === 0x3fff && second < 0x1000) return false
  return first !== 0x2002
}

function number4(text: string): number | undefined {
  const parts = text.split('.').map(Number)
  if (parts.length !== 4 || parts.some((part) => !Number.isInteger(part) || part < 0 || part > 255)) return undefined
  return parts.reduce((sum, part) => sum * 256 + part, 0)
}

const prefix = (number: number, bits: number) => Math.floor(number / 2 ** (32 - bits))

const numbers = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)))

/** The eight groups of an IPv6 address as a URL or a DNS record writes it. */
function groups6(text: string): number[] | undefined {
  const host = URL.parse(`http://[${text}]`)?.hostname.slice(1, -1)
  if (host === undefined) return undefined
  const [head = '', tail] = host.split('::')
  const [before, after] = [numbers(head), numbers(tail ?? '')]
  return [...before, ...Array.from({ length: 8 - before.length - after.length }, () => 0), ...after]
}
