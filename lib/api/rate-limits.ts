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

/** How many calls of the program API a key, and an address with keys not seen yet, has in a minute; wrangler.toml says the same. */
export const callsPerMinute = 600
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
