import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { countedAddress, countedNetwork } from '../access/counted-address.ts'
import { isValidProxyKey, type ProxyEnv } from '../access/proxy-keys.ts'
import type { DatabaseEnv } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type ProxiedVisitor, readProxiedVisitor, visitorHeader } from '../tracking/proxied-visitor.ts'

/** Cloudflare's rate-limit binding. */
export interface RateLimit {
  limit(options: { key: string }): Promise<{ success: boolean }>
}

/** The calls per minute to the program API for each key, and for each address with new keys. */
export const callsPerMinute = 600

/**
 * A lead that a browser settles counts as this number of leads for its address. It also writes a commission, notifications, webhooks and
 * totals, and `npm run bench -- abuse` measures their bytes.
 */
export const countsOfSettledLead = 10

/**
 * The calls per minute that each of a function's limiters allows. `id` is the limiter's unique number at Cloudflare. `npm run rate-limits`
 * writes this table into wrangler.toml, and all deployments read it from there.
 */
export const rateLimits: Record<string, Record<string, { id: number; perMinute: number }>> = {
  'track-click': {
    // Limits by address and program, by address, and by the program of a proxy.
    RATE_LIMIT: { id: 1001, perMinute: 480 },
    ADDRESS_RATE_LIMIT: { id: 1009, perMinute: 480 },
    PROXY_RATE_LIMIT: { id: 1011, perMinute: 60_000 },
  },
  'track-lead': {
    // This limiter counts calls by key. The other limiters count calls from browsers, as in track-click.
    RATE_LIMIT: { id: 1002, perMinute: 60_000 },
    UNKNOWN_KEY_RATE_LIMIT: { id: 1038, perMinute: 600 },
    BROWSER_RATE_LIMIT: { id: 1003, perMinute: 300 },
    ADDRESS_RATE_LIMIT: { id: 1010, perMinute: 300 },
    PROXY_RATE_LIMIT: { id: 1012, perMinute: 15_000 },
  },
  'track-sale': {
    RATE_LIMIT: { id: 1004, perMinute: 60_000 },
    // Counts calls by address until one with the key has succeeded.
    UNKNOWN_KEY_RATE_LIMIT: { id: 1039, perMinute: 600 },
  },
  'track-refund': {
    RATE_LIMIT: { id: 1005, perMinute: 60_000 },
    UNKNOWN_KEY_RATE_LIMIT: { id: 1040, perMinute: 600 },
  },
  'cli-status': { RATE_LIMIT: { id: 1006, perMinute: 600 } },
  'tracking-performance': { RATE_LIMIT: { id: 1007, perMinute: 600 } },
  documents: { RATE_LIMIT: { id: 1052, perMinute: 60 } },
  'tracking-events': { RATE_LIMIT: { id: 1008, perMinute: 600 } },
  'api-reference': { RATE_LIMIT: { id: 1041, perMinute: 300 } },
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
  imports: { RATE_LIMIT: { id: 1050, perMinute: callsPerMinute } },
  'shadow-mode': { RATE_LIMIT: { id: 1053, perMinute: callsPerMinute } },
  payouts: { RATE_LIMIT: { id: 1019, perMinute: callsPerMinute } },
  'payout-runs': { RATE_LIMIT: { id: 1020, perMinute: callsPerMinute } },
  'partner-data': { RATE_LIMIT: { id: 1055, perMinute: callsPerMinute } },
  'webhook-endpoints': { RATE_LIMIT: { id: 1031, perMinute: callsPerMinute } },
  // Counts calls for tokens by key, and the portal's own requests by address.
  embed: { RATE_LIMIT: { id: 1054, perMinute: callsPerMinute } },
  mcp: { RATE_LIMIT: { id: 1051, perMinute: callsPerMinute } },
}

/** The value of RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). */
export const limitText = `"default";q=${callsPerMinute};w=60`

/** Refuses the call with 429 if the limit of `limiter` for `key` is used up. Does nothing without a `key`. */
export async function enforceRateLimit(limiter: RateLimit | undefined, key: string | undefined): Promise<void> {
  if (!limiter || key === undefined || (await limiter.limit({ key })).success) return
  throw rateLimited()
}

export function rateLimited(): ApiError {
  return new ApiError('rate_limited', 'Too many requests. Wait a minute, then send this one again.', {
    headers: { 'Retry-After': '60', RateLimit: '"default";r=0;t=60' },
  })
}

/** Returns the key under which a request's address is counted, or undefined if it is not counted. */
export function clientAddress(c: Context): string | undefined {
  return countedAddress(c.req.raw.headers.get('cf-connecting-ip'))
}

/** The limiters of callers without a key. */
export interface VisitorEnv extends ProxyEnv, DatabaseEnv {
  ADDRESS_RATE_LIMIT?: RateLimit
  PROXY_RATE_LIMIT?: RateLimit
}

export interface Visited {
  Bindings: VisitorEnv
  Variables: { visitor: ProxiedVisitor | undefined }
}

/**
 * Returns the key under which a visitor's address is counted. Behind a proxy, it is the signed address within the proxy's program, because
 * the owner of a proxy key can sign any address.
 */
export function visitorAddress(c: Context): string | undefined {
  const visitor: ProxiedVisitor | undefined = c.get('visitor')
  if (!visitor) return clientAddress(c)
  const address = countedAddress(visitor.address || 'unknown')
  return address && `program ${visitor.programId} ${address}`
}

/** Returns the key under which the network of a visitor's address is counted. */
export function visitorNetwork(c: Context): string | undefined {
  const visitor: ProxiedVisitor | undefined = c.get('visitor')
  return countedNetwork(visitor ? visitor.address : c.req.raw.headers.get('cf-connecting-ip'))
}

/**
 * Counts a call without a key for the visitor's address in a program. Many people can share one address, so an address that floods one
 * program is not blocked in others. Callers choose the program freely, so `countCaller` also counts the address by itself. If the body is
 * refused, the program is unknown, and the call counts only for the address.
 */
export async function countVisitor(c: Context, limiter: RateLimit | undefined, program?: string): Promise<void> {
  const address = visitorAddress(c)
  await enforceRateLimit(limiter, address && program !== undefined ? `${address} ${program}` : address)
}

/**
 * Counts every call for its address, and reads the visitor from a proxy's header. All calls through a program's proxies also share a count,
 * and so do all signed calls from one address. So callers can't evade the limits with made-up addresses and programs.
 */
export async function countCaller(c: Context, env: VisitorEnv): Promise<void> {
  const signed = await readProxiedVisitor(c.req.raw.headers.get(visitorHeader), env)
  const visitor = signed && (await isValidProxyKey(env, signed)) ? signed : undefined
  c.set('visitor', visitor)
  if (visitor) {
    await enforceRateLimit(env.PROXY_RATE_LIMIT, `program ${visitor.programId}`)
    await enforceRateLimit(env.PROXY_RATE_LIMIT, clientAddress(c))
  }
  await enforceRateLimit(env.ADDRESS_RATE_LIMIT, visitorAddress(c))
}

/** Counts callers of a function that never accepts a key. */
export const countAddress = createMiddleware<Visited>(async (c, next) => {
  await countCaller(c, c.env)
  await next()
})
