import type { Context, MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { cors } from 'hono/cors'
import { Hono } from 'hono/tiny'
import { ApiError, errorResponse, isTransient } from '../errors.ts'

const maxBodyBytes = 64 * 1024

/** The types of a function's app, by the variables and bindings of its entry in wrangler.toml. */
interface AppTypes<Bindings extends object> {
  Bindings: Bindings & {
    /** Between 0 and 1, in place of the usual part; 1 on the local stack. */
    LOGGED_PART?: string
  }
  /** `failure` is what the log tells of an unexpected error. */
  Variables: { requestId: string; failure?: Record<string, unknown> }
}

/** The part of the requests answered as they should be that is logged. All others are. */
export const loggedPart = 0.01

/**
 * A function's app: request id, at most one log line a request (what was answered below 400 is sampled, since each line is paid for), and the error envelopes, the same for all. `Bindings` names the variables
 * and bindings that the function's own entry in wrangler.toml gives it.
 */
export function createApp<Bindings extends object>() {
  const app = new Hono<AppTypes<Bindings>>()
  app.use(async (c, next) => {
    const started = Date.now()
    const requestId = crypto.randomUUID()
    c.set('requestId', requestId)
    await next()
    c.res.headers.set('X-Request-Id', requestId)
    const { status } = c.res
    if (status < 400 && Math.random() >= Number(c.env.LOGGED_PART ?? loggedPart)) return
    const failure = c.get('failure')
    const line = JSON.stringify({
      request_id: requestId,
      method: c.req.method,
      path: c.req.path,
      status,
      duration_ms: Date.now() - started,
      ...(failure && { error: failure }),
    })
    if (failure) console.error(line)
    else console.log(line)
  })
  app.notFound((c) => errorResponse(new ApiError('not_found', `There is nothing at ${c.req.path}.`)))
  app.onError((error, c) => errorResponse(asApiError(error, c)))
  return app
}

/** Turns whatever was thrown into an answer that tells the caller nothing of the cause but the request's id. */
export function asApiError(error: unknown, c: Context): ApiError {
  if (error instanceof ApiError) return error
  const requestId = String(c.get('requestId'))
  c.set('failure', describe(error))
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

function refuseBody(): never {
  throw new ApiError('payload_too_large', `The body may be ${maxBodyBytes} bytes at most. Send less.`)
}

const countBody = bodyLimit({ maxSize: maxBodyBytes, onError: refuseBody })

/** Refuses a body over 64 KiB, by the length that it says it has, else counted while it streams in. */
export const limitBody: MiddlewareHandler = async (c, next) => {
  const { headers } = c.req.raw
  const said = headers.get('content-length')
  // To ask for the body makes a stream of it, which most requests do without.
  if (said === null || headers.has('transfer-encoding')) return await countBody(c, next)
  if (Number(said) > maxBodyBytes) refuseBody()
  return await next()
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
