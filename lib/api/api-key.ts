import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { apiKeyHash, checkApiKey } from '../access/api-keys.ts'
import { type DatabaseEnv, openDatabase } from '../database.ts'
import { clientAddress, enforceRateLimit, type RateLimit } from './rate-limits.ts'

/** The variables of a function that takes the program API key. */
export type KeyedEnv = DatabaseEnv & { RATE_LIMIT?: RateLimit }

interface Keyed {
  Bindings: KeyedEnv
  Variables: { keyHash: string }
}

/**
 * The hash of a request's API key, counted for that key. A header that holds no key counts for the address it came from. Whether
 * the key is known and active is for the call's one statement to say.
 */
export async function readApiKey(c: Context, limiter: RateLimit | undefined): Promise<string> {
  const keyHash = await apiKeyHash(c.req.header('authorization')).catch(async (error: unknown) => {
    await enforceRateLimit(limiter, clientAddress(c))
    throw error
  })
  await enforceRateLimit(limiter, keyHash)
  return keyHash
}

/** Puts the hash of the request's API key into `keyHash`. */
export const readKey = createMiddleware<Keyed>(async (c, next) => {
  c.set('keyHash', await readApiKey(c, c.env.RATE_LIMIT))
  await next()
})

/** Refuses a key that is unknown or retired. For a request whose input is refused: the call's own statement is not sent then. */
export async function checkKey(c: Context<Keyed>): Promise<void> {
  await checkApiKey(openDatabase(c.env), c.get('keyHash'))
}
