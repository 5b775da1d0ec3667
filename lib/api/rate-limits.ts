import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { countedAddress } from '../access/counted-address.ts'
import type { ProxyEnv } from '../access/proxy-keys.ts'
import { ApiError } from '../errors.ts'
import { type ProxiedVisitor, readProxiedVisitor, visitorHeader } from '../tracking/proxied-visitor.ts'

/** Cloudflare's rate-limit binding. */
export interface RateLimit {
  limit(options: { key: string }): Promise<{ success: boolean }>
}

/** Calls a minute of the program API for each key, and for each address with keys that were not seen before. */
export const callsPerMinute = 600

/**
 * Calls a minute that each limiter of a function lets through. `id` is the limiter's number at Cloudflare, which no two share.
 * `npm run rate-limits` writes this table into wrangler.toml, from which the service reads it on the edge, on one box and locally.
 */
export const rateLimits: Record<string, Record<string, { id: number; perMinute: number }>> = {
  'track-click': {
    // An address in one program, an address in all programs, and everything that one program's proxies bring.
    RATE_LIMIT: { id: 1001, perMinute: 1200 },
    ADDRESS_RATE_LIMIT: { id: 1009, perMinute: 12_000 },
    PROXY_RATE_LIMIT: { id: 1011, perMinute: 60_000 },
  },
  'track-lead': {
    // A key; the others count calls from browsers, as those of track-click.
    RATE_LIMIT: { id: 1002, perMinute: 60_000 },
    BROWSER_RATE_LIMIT: { id: 1003, perMinute: 300 },
    ADDRESS_RATE_LIMIT: { id: 1010, perMinute: 3000 },
    PROXY_RATE_LIMIT: { id: 1012, perMinute: 15_000 },
  },
  'track-sale': { RATE_LIMIT: { id: 1004, perMinute: 60_000 } },
  'track-refund': { RATE_LIMIT: { id: 1005, perMinute: 60_000 } },
  'cli-status': { RATE_LIMIT: { id: 1006, perMinute: 600 } },
  'tracking-performance': { RATE_LIMIT: { id: 1007, perMinute: 600 } },
  'tracking-events': { RATE_LIMIT: { id: 1008, perMinute: 600 } },
  auth: { RATE_LIMIT: { id: 1101, perMinute: 120 } },
  dashboard: { RATE_LIMIT: { id: 1102, perMinute: 600 } },
  partners: { RATE_LIMIT: { id: 1013, perMinute: callsPerMinute } },
  groups: { RATE_LIMIT: { id: 1032, perMinute: callsPerMinute } },
  applications: { RATE_LIMIT: { id: 1033, perMinute: callsPerMinute } },
  codes: { RATE_LIMIT: { id: 1034, perMinute: callsPerMinute } },
  performance: { RATE_LIMIT: { id: 1030, perMinute: callsPerMinute } },
  links: { RATE_LIMIT: { id: 1014, perMinute: callsPerMinute } },
  customers: { RATE_LIMIT: { id: 1015, perMinute: callsPerMinute } },
  sales: { RATE_LIMIT: { id: 1016, perMinute: callsPerMinute } },
  events: { RATE_LIMIT: { id: 1017, perMinute: callsPerMinute } },
  commissions: { RATE_LIMIT: { id: 1018, perMinute: callsPerMinute } },
  adjustments: { RATE_LIMIT: { id: 1036, perMinute: callsPerMinute } },
  reviews: { RATE_LIMIT: { id: 1037, perMinute: callsPerMinute } },
  payouts: { RATE_LIMIT: { id: 1019, perMinute: callsPerMinute } },
  'payout-runs': { RATE_LIMIT: { id: 1020, perMinute: callsPerMinute } },
  'webhook-endpoints': { RATE_LIMIT: { id: 1031, perMinute: callsPerMinute } },
}

/** The same as RateLimit-Policy says it (draft-ietf-httpapi-ratelimit-headers). */
export const limitText = `"default";q=${callsPerMinute};w=60`

/** Refuses with 429 once `limiter` says so. `key` names who is counted; a caller without one is not. */
export async function enforceRateLimit(limiter: RateLimit | undefined, key: string | undefined): Promise<void> {
  if (!limiter || key === undefined || (await limiter.limit({ key })).success) return
  throw new ApiError('rate_limited', 'Too many requests. Wait a minute, then send this one again.', {
    headers: { 'Retry-After': '60', RateLimit: '"default";r=0;t=60' },
  })
}

/** What a request's address is counted as; undefined where it is not counted. */
export function clientAddress(c: Context): string | undefined {
  return countedAddress(c.req.raw.headers.get('cf-connecting-ip'))
}

/** What counts callers without a key. */
export interface VisitorEnv extends ProxyEnv {
  ADDRESS_RATE_LIMIT?: RateLimit
  PROXY_RATE_LIMIT?: RateLimit
}

export interface Visited {
  Bindings: VisitorEnv
  Variables: { visitor: ProxiedVisitor | undefined }
}

/**
 * What a visitor is counted as: their address, and behind a proxy the address that it signed, in its own program, since whoever has a
 * proxy key can sign what they like.
 */
export function visitorAddress(c: Context): string | undefined {
  const visitor: ProxiedVisitor | undefined = c.get('visitor')
  if (!visitor) return clientAddress(c)
  const address = countedAddress(visitor.address || 'unknown')
  return address && `program ${visitor.programId} ${address}`
}

/**
 * Counts a call without a key for the visitor's address in a program: one address can stand for many people, so a program that it
 * floods takes nothing from the others. What names the program is the caller's to choose, so `countCaller` counts the address
 * by itself too. A body that is refused names none and counts for the address alone.
 */
export async function countVisitor(c: Context, limiter: RateLimit | undefined, program?: string): Promise<void> {
  const address = visitorAddress(c)
  await enforceRateLimit(limiter, address && program !== undefined ? `${address} ${program}` : address)
}

/**
 * Counts every call for the address that it comes from, and reads which visitor a proxy brings. All that one program's proxies bring counts
 * together too, and so does all that comes signed from one address: made-up addresses and programs take nobody past that.
 */
export async function countCaller(c: Context, env: VisitorEnv): Promise<void> {
  const visitor = await readProxiedVisitor(c.req.raw.headers.get(visitorHeader), env)
  c.set('visitor', visitor)
  if (visitor) {
    await enforceRateLimit(env.PROXY_RATE_LIMIT, `program ${visitor.programId}`)
    await enforceRateLimit(env.PROXY_RATE_LIMIT, clientAddress(c))
  }
  await enforceRateLimit(env.ADDRESS_RATE_LIMIT, visitorAddress(c))
}

/** The same for a function that nobody calls with a key. */
export const countAddress = createMiddleware<Visited>(async (c, next) => {
  await countCaller(c, c.env)
  await next()
})
