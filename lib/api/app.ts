import type { Context, MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { cors } from 'hono/cors'
import { Hono } from 'hono/tiny'
import type * as z from 'zod/mini'
import { ApiError, type ErrorDetail, errorResponse, isTransient } from '../errors.ts'

/** Cloudflare's rate-limit binding. */
export interface RateLimit {
  limit(options: { key: string }): Promise<{ success: boolean }>
}

const maxBodyBytes = 64 * 1024
const maxBodyDepth = 8
const maxDetails = 20

/** The types of a function's app, by the variables and bindings of its entry in wrangler.toml. */
export interface AppTypes<Bindings extends object> {
  Bindings: Bindings
  Variables: { requestId: string }
}

/**
 * A function's app: request id, one log line a request, and the error envelopes, the same for all. `Bindings` names the variables
 * and bindings that the function's own entry in wrangler.toml gives it.
 */
// oxlint-disable-next-line no-unnecessary-type-parameters -- the caller says what its entry in wrangler.toml gives it
export function createApp<Bindings extends object>() {
  const app = new Hono<AppTypes<Bindings>>()
  app.use(async (c, next) => {
    const started = Date.now()
    const requestId = crypto.randomUUID()
    c.set('requestId', requestId)
    await next()
    c.res.headers.set('X-Request-Id', requestId)
    console.log(
      JSON.stringify({
        request_id: requestId,
        method: c.req.method,
        path: c.req.path,
        status: c.res.status,
        duration_ms: Date.now() - started,
      }),
    )
  })
  app.notFound((c) => errorResponse(new ApiError('not_found', `There is nothing at ${c.req.path}.`)))
  app.onError((error, c) => errorResponse(asApiError(error, c.get('requestId'))))
  return app
}

/** Turns whatever was thrown into an answer that tells the caller nothing of the cause but the request's id. */
export function asApiError(error: unknown, requestId: string): ApiError {
  if (error instanceof ApiError) return error
  console.error(JSON.stringify({ request_id: requestId, error: describe(error) }))
  if (isTransient(error)) {
    return new ApiError(
      'unavailable',
      `The database did not answer. Send the same request again. Request ${requestId}.`,
      {
        headers: { 'Retry-After': '1' },
      },
    )
  }
  return new ApiError('internal_error', `Something went wrong on our side. Tell support this request id: ${requestId}.`)
}

/** What goes to the log: the name, code and constraint of an error, never its message, which can quote a row. */
function describe(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { name: typeof error }
  const { name, stack } = error
  const frames = stack?.split('\n').filter((line) => line.trimStart().startsWith('at '))
  const { code, constraint, table } = error as Error & { code?: unknown; constraint?: unknown; table?: unknown }
  return { name, code, constraint, table, frames }
}

/** Answers 405 for every method that `path` does not take. Registered after the path's own handlers. */
export function onlyMethods(...methods: string[]) {
  return (c: Context): Response => {
    throw new ApiError('method_not_allowed', `${c.req.path} takes ${methods.join(', ')}, not ${c.req.method}.`, {
      headers: { Allow: methods.join(', ') },
    })
  }
}

/** Refuses a body over 64 KiB, counted while it streams in. */
export const limitBody = bodyLimit({
  maxSize: maxBodyBytes,
  onError: () => {
    throw new ApiError('payload_too_large', `The body may be ${maxBodyBytes} bytes at most. Send less.`)
  },
})

/**
 * The request's JSON body as `schema` takes it. Refuses what is not declared as JSON, what is not JSON, and what the schema does
 * not accept, naming each field.
 */
export async function readJson<Schema extends z.ZodMiniType>(c: Context, schema: Schema): Promise<z.output<Schema>> {
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('content-type') ?? '')) {
    throw new ApiError('unsupported_media_type', 'Send the body with the header Content-Type: application/json.')
  }
  let value: unknown
  try {
    value = JSON.parse(await c.req.text())
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new ApiError('invalid_json', 'The body is not valid JSON. Send one JSON object.')
  }
  const parsed = schema.safeParse(value)
  const others = unstorable(value)
  if (!parsed.success || others.length > 0) refuseInput(parsed.error?.issues ?? [], others)
  return parsed.data
}

/** Throws `invalid_request` with what a schema found, and with `others` before it. */
export function refuseInput(
  issues: readonly { path: readonly PropertyKey[]; message: string }[],
  others: ErrorDetail[] = [],
): never {
  const named = issues.map(({ path, message }) => ({ field: path.join('.'), message }))
  const details = [...others, ...named].slice(0, maxDetails)
  const fields = details.map(({ field, message }) => `${field || 'the body'} ${message}`).join('; ')
  throw new ApiError('invalid_request', `The request was not accepted: ${fields}.`, { details })
}

/** Refuses with 429 once `limiter` says so. `key` names who is counted; a caller without one is not. */
export async function enforceRateLimit(limiter: RateLimit | undefined, key: string | undefined): Promise<void> {
  if (!limiter || key === undefined || (await limiter.limit({ key })).success) return
  throw new ApiError('rate_limited', 'Too many requests. Wait a minute, then send this one again.', {
    headers: { 'Retry-After': '60', RateLimit: '"default";r=0;t=60' },
  })
}

/**
 * The visitor's address as Cloudflare's edge saw it; used to count requests, never stored. Undefined for calls of the local
 * stack from its own machine, which stands for all visitors there.
 */
export function clientAddress(c: Context): string | undefined {
  const address = c.req.header('cf-connecting-ip')
  return address === '127.0.0.1' || address === '::1' ? undefined : address
}

/** The limits of a call without a key: of one visitor's address in a program, and of the address in all. */
interface PublicRateLimits {
  perProgram: RateLimit | undefined
  perAddress: RateLimit | undefined
}

/**
 * The JSON body of a request without a key, counted for the visitor's address and the program that `scope` finds in the body: one
 * address can stand for many people, so a program that it floods takes nothing from the others. What `scope` finds is the
 * caller's to choose, so the address is counted by itself too. A body that is refused counts for the address alone, and the rate
 * limit is answered before the refusal.
 */
export async function readPublicJson<Schema extends z.ZodMiniType>(
  c: Context,
  schema: Schema,
  { perProgram, perAddress }: PublicRateLimits,
  scope: (body: z.output<Schema>) => string,
): Promise<z.output<Schema>> {
  const address = clientAddress(c)
  await enforceRateLimit(perAddress, address)
  const body = await readJson(c, schema).catch(async (error: unknown) => {
    await enforceRateLimit(perProgram, address)
    throw error
  })
  await enforceRateLimit(perProgram, address && `${address} ${scope(body)}`)
  return body
}

const exposeHeaders = ['Retry-After', 'X-Request-Id']
const preflight = cors({ allowMethods: ['POST'], allowHeaders: ['Content-Type'], exposeHeaders, maxAge: 86400 })

/** Answers a preflight and lets any origin read the answer; no cookie goes along. For what a visitor's browser calls. */
export const publicCors: MiddlewareHandler = async (c, next) => {
  if (c.req.method === 'OPTIONS') return await preflight(c, next)
  // On the answer and not before it: for headers set before, Hono makes an answer that it then copies.
  await next()
  c.res.headers.set('Access-Control-Allow-Origin', '*')
  c.res.headers.set('Access-Control-Expose-Headers', exposeHeaders.join(','))
}

const loneSurrogateOrNul = /\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/

/**
 * Details for what no schema field sees, anywhere in the value: text that Postgres cannot hold (NUL, lone surrogates; in keys too),
 * numbers that JSON's reader has already rounded, and nesting deeper than eight levels.
 */
export function unstorable(value: unknown, field = '', depth = 0): ErrorDetail[] {
  if (typeof value === 'string') {
    return loneSurrogateOrNul.test(value) ? [{ field, message: 'must be text without NUL and lone surrogates' }] : []
  }
  if (typeof value === 'number') {
    return Math.abs(value) > Number.MAX_SAFE_INTEGER
      ? [{ field, message: 'must be a number between -(2^53 - 1) and 2^53 - 1; send larger ones as text' }]
      : []
  }
  if (typeof value !== 'object' || value === null) return []
  if (depth >= maxBodyDepth) return [{ field, message: `must not be nested deeper than ${maxBodyDepth} levels` }]
  return Object.entries(value).flatMap(([key, inner]) => {
    const path = field === '' ? key : `${field}.${key}`
    return loneSurrogateOrNul.test(key)
      ? [{ field, message: 'must have names without NUL and lone surrogates' }]
      : unstorable(inner, path, depth + 1)
  })
}
