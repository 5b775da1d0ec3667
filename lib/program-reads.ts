import { zValidator } from '@hono/zod-validator'
import type { MiddlewareHandler } from 'hono'
import type * as z from 'zod/mini'
import { type Access, findAccess, type SessionEnv } from './access.ts'
import { clientAddress, enforceRateLimit, type RateLimit, refuseInput } from './app.ts'
import { type DatabaseEnv, openDatabase } from './database.ts'
import { programPath } from './read-requests.ts'

export interface ReadEnv extends DatabaseEnv, SessionEnv {
  RATE_LIMIT?: RateLimit
}

/**
 * First step of a dashboard read: finds who asks and what they hold on the path's program, so that nobody without a session
 * learns more than 401. The path and the query are checked after it, and whether the program exists and may be read last.
 */
export const findReader: MiddlewareHandler<{ Bindings: ReadEnv; Variables: { access: Access } }> = async (c, next) => {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  const programId = programPath.safeParse(c.req.param()).data?.programId
  c.set('access', await findAccess(openDatabase(c.env), c.env, c.req.raw.headers, programId))
  await next()
}

/** Refuses with `invalid_request`, naming each field, where the path or the query is not as `schema` takes it. */
export function checked<Target extends 'param' | 'query', Schema extends z.ZodMiniType>(
  target: Target,
  schema: Schema,
) {
  return zValidator(target, schema, (result) => {
    if (!result.success) refuseInput(result.error.issues)
  })
}

/** What a read answers is somebody's own: no cache keeps it. */
export const privateHeaders = { 'Cache-Control': 'private, no-store' }
