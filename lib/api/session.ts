import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import { findAccess } from '../access/program-access.ts'
import type { SessionEnv } from '../access/sessions.ts'
import { type DatabaseEnv, openDatabase } from '../database.ts'
import { clientAddress, enforceRateLimit, type RateLimit } from './rate-limits.ts'

/** The variables of a function that serves signed-in people. */
export interface ReadEnv extends DatabaseEnv, SessionEnv {
  RATE_LIMIT?: RateLimit
}

/** Counts a read for the address that it comes from. */
export const countReader = createMiddleware<{ Bindings: ReadEnv }>(async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  await next()
})

/** Refuses callers without a session. This is for requests with invalid input, so that strangers can't find out which input is valid. */
export async function checkSession(c: Context<{ Bindings: ReadEnv }>): Promise<void> {
  await findAccess(openDatabase(c.env), c.env, c.req.raw.headers, undefined)
}

/** Responses to reads are private, so caches must not store them. */
export const privateHeaders = { 'Cache-Control': 'private, no-store' }
