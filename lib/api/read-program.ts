import type { Context } from 'hono'

import type * as z from 'zod/mini'
import { type Access, findAccess, requireAction } from '../access/program-access.ts'
import type { Action } from '../access/roles.ts'
import type { SessionEnv } from '../access/sessions.ts'
import { type AppTypes, clientAddress, enforceRateLimit, type RateLimit, refuseInput } from './app.ts'
import { type DatabaseEnv, openDatabase, type Statement } from '../database.ts'
import { programPath } from './program-path.ts'

export interface ReadEnv extends DatabaseEnv, SessionEnv {
  RATE_LIMIT?: RateLimit
}

/**
 * A dashboard read: the path's program, the query as `schema` takes it, and the rows of each of `statementsOf` them. Who asks and what
 * they ask for are read in one database request, and what was read is let go where it is refused, in this order: without a
 * session `unauthorized`; a path or query at fault `invalid_request`, naming each field; no such program `not_found`; without
 * `action` on it `forbidden`.
 */
export async function readProgram<Schema extends z.ZodMiniType, Row>(
  c: Context<AppTypes<ReadEnv>>,
  action: Action,
  schema: Schema,
  statementsOf: (programId: number, query: z.output<Schema>) => Statement<Row>[],
): Promise<{ program: NonNullable<Access['program']>; query: z.output<Schema>; results: Row[][] }> {
  await enforceRateLimit(c.env.RATE_LIMIT, clientAddress(c))
  const path = programPath.safeParse(c.req.param())
  const query = schema.safeParse(
    Object.fromEntries(
      Object.entries(c.req.queries()).map(([name, values]) => [name, values.length > 1 ? values : values[0]]),
    ),
  )
  const statements = path.success && query.success ? statementsOf(path.data.programId, query.data) : []
  const db = openDatabase(c.env)
  const { access, results } = await findAccess(db, c.env, c.req.raw.headers, path.data?.programId, statements)
  if (!path.success) refuseInput(path.error.issues)
  if (!query.success) refuseInput(query.error.issues)
  return { program: requireAction(access, action), query: query.data, results }
}

/** What a read answers is somebody's own: no cache keeps it. */
export const privateHeaders = { 'Cache-Control': 'private, no-store' }
