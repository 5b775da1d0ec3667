import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { countedAddress } from '../access/counted-address.ts'
import { ApiError } from '../errors.ts'

/** Cloudflare's rate-limit binding. */
export interface RateLimit {
  limit(options: { key: string }): Promise<{ success: boolean }>
}

/** Refuses with 429 once `limiter` says so. `key` names who is counted; a caller without one is not. */
export async function enforceRateLimit(limiter: RateLimit | undefined, key: string | undefined): Promise<void> {
  if (!limiter || key === undefined || (await limiter.limit({ key })).success) return
  throw new ApiError('rate_limited', 'Too many requests. Wait a minute, then send this one again.', {
    headers: { 'Retry-After': '60', RateLimit: '"default";r=0;t=60' },
  })
}

/** What a request's address is counted as; undefined where it is not counted. */
export function clientAddress(c: Context): string | undefined {
  return countedAddress(c.req.raw.headers)
}

/**
 * Counts a call without a key for the visitor's address in a program: one address can stand for many people, so a program that it
 * floods takes nothing from the others. What names the program is the caller's to choose, so `countAddress` counts the address
 * by itself too. A body that is refused names none and counts for the address alone.
 */
export async function countVisitor(c: Context, limiter: RateLimit | undefined, program?: string): Promise<void> {
  const address = clientAddress(c)
  await enforceRateLimit(limiter, address && program !== undefined ? `${address} ${program}` : address)
}

/** Counts every call for the address that it comes from. */
export const countAddress = createMiddleware<{ Bindings: { ADDRESS_RATE_LIMIT?: RateLimit } }>(async (c, next) => {
  await enforceRateLimit(c.env.ADDRESS_RATE_LIMIT, clientAddress(c))
  await next()
})
