import type { Context, Next } from 'hono'
import { createMiddleware } from 'hono/factory'
import { apiKeyHash, checkKeyOfRefused, type KeyOwner, type Refusal } from '../access/api-keys.ts'
import { type DatabaseEnv, openDatabase } from '../database.ts'
import { clientAddress, enforceRateLimit, type RateLimit } from './rate-limits.ts'

/** The variables of a function that accepts the program API key. */
export type KeyedEnv = DatabaseEnv & { RATE_LIMIT?: RateLimit; UNKNOWN_KEY_RATE_LIMIT?: RateLimit }

interface Keyed {
  Bindings: KeyedEnv
  Variables: { keyHash: string }
}

/** Hashes of keys that have worked in this isolate. */
const knownKeys = new Set<string>()

/**
 * Puts the hash of the request's API key into `keyHash` and counts the call for that key. Until a call with the key has succeeded in this
 * isolate, the call also counts for its address, because anybody can invent keys. A malformed header counts only for the address. The
 * call's own statement checks whether the key is known and active.
 */
export async function readApiKey(
  c: Context,
  limiter: RateLimit | undefined,
  next: Next,
  owner: KeyOwner = 'program',
): Promise<void> {
  const { UNKNOWN_KEY_RATE_LIMIT: byAddress = limiter }: KeyedEnv = c.env
  const keyHash = await apiKeyHash(c.req.header('authorization'), owner).catch(async (error: unknown) => {
    await enforceRateLimit(byAddress, clientAddress(c))
    throw error
  })
  if (!knownKeys.has(keyHash)) await enforceRateLimit(byAddress, clientAddress(c))
  await enforceRateLimit(limiter, keyHash)
  c.set('keyHash', keyHash)
  await next()
  if (c.res.ok) knownKeys.add(keyHash)
}

/** Reads the key in a function that accepts only calls with a key. */
export const readKey = createMiddleware<Keyed>((c, next) => readApiKey(c, c.env.RATE_LIMIT, next))

/** Refuses an unknown or revoked key. This is for requests with invalid input, because they never reach the call's own statement. */
export function checkKey(call: Refusal['call']) {
  return async (c: Context<Keyed>, reason: unknown): Promise<void> => {
    await checkKeyOfRefused(openDatabase(c.env), c.get('keyHash'), { call, reason })
  }
}
