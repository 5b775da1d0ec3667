import type { Context, Next } from 'hono'
import { createMiddleware } from 'hono/factory'
import { apiKeyHash, checkKeyOfRefused, type Refusal } from '../access/api-keys.ts'
import { type DatabaseEnv, openDatabase } from '../database.ts'
import { clientAddress, enforceRateLimit, type RateLimit } from './rate-limits.ts'

/** The variables of a function that takes the program API key. */
export type KeyedEnv = DatabaseEnv & { RATE_LIMIT?: RateLimit }

interface Keyed {
  Bindings: KeyedEnv
  Variables: { keyHash: string }
}

/** Hashes of the keys that a call of this isolate succeeded with. */
const knownKeys = new Set<string>()

/**
 * Puts the hash of the request's API key into `keyHash`. The call is counted for that key, and for its address too until a call
 * with the key has succeeded here, since keys can be invented. A header that holds no key counts for its address alone. Whether
 * the key is known and active is for the call's one statement to say.
 */
export async function readApiKey(c: Context, limiter: RateLimit | undefined, next: Next): Promise<void> {
  const keyHash = await apiKeyHash(c.req.header('authorization')).catch(async (error: unknown) => {
    await enforceRateLimit(limiter, clientAddress(c))
    throw error
  })
  if (!knownKeys.has(keyHash)) await enforceRateLimit(limiter, clientAddress(c))
  await enforceRateLimit(limiter, keyHash)
  c.set('keyHash', keyHash)
  await next()
  if (c.res.ok) knownKeys.add(keyHash)
}

/** The same for a function that nobody calls without a key. */
export const readKey = createMiddleware<Keyed>((c, next) => readApiKey(c, c.env.RATE_LIMIT, next))

/** Refuses a key that is unknown or retired. For a request whose input is refused: the call's own statement is not sent then. */
export function checkKey(call: Refusal['call']) {
  return async (c: Context<Keyed>, reason: unknown): Promise<void> => {
    await checkKeyOfRefused(openDatabase(c.env), c.get('keyHash'), { call, reason })
  }
}
