import type { Context, MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { cors } from 'hono/cors'
import { routePath } from 'hono/route'
import { Hono } from 'hono/tiny'
import { ApiError, errorResponse, isTransient } from '../errors.ts'

export const maxBodyBytes = 64 * 1024
/** The size limit for an event from a processor, such as an invoice with its lines. */
export const maxEventBytes = 1024 * 1024
/** The size limit for the files of an import. 100,000 rows are about 10 MiB. */
export const maxImportBytes = 16 * 1024 * 1024

/** The types of a function's app. `Bindings` are the bindings of its entry in wrangler.toml. */
interface AppTypes<Bindings extends object> {
  Bindings: Bindings & {
    /** Overrides `loggedPart`, between 0 and 1. The local stack sets it to 1. */
    LOGGED_PART?: string
    /** The id of the deployed version. */
    VERSION?: string
  }
  /** Describes an unexpected error for the log. */
  Variables: { requestId: string; failure?: Record<string, unknown> }
}

/** The share of successful requests that is logged. Failed ones are always logged. */
export const loggedPart = 0.01

/**
 * Creates a function's app with a request id, error envelopes and at most one log line per request. Successful requests are sampled,
 * because each line costs money. `Bindings` is the type of the variables and bindings in the function's entry in wrangler.toml.
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
    const route = routePath(c)
    const part = Number(c.env.LOGGED_PART ?? loggedPart)
    const isRefusal = status >= 400 && status < 500
    const isLogged = isRefusal ? countRefusal(route, status) || part === 1 : status >= 500 || Math.random() < part
    if (!isLogged) return
    const failure = c.get('failure')
    const line = JSON.stringify({
      request_id: requestId,
      version: c.env.VERSION,
      method: c.req.method,
      route,
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

/** The number of refusals per minute, route and status that get their own log line. The limit keeps attacks from filling the log. */
const sampledRefusals = 5

/** The refusals of the current minute. */
const refusals = new Map<string, { route: string; status: number; refusals: number }>()
let refusalMinute = 0

/**
 * Counts a refusal and returns whether it gets its own line. The first refusal in a new minute logs the counts of the previous minute, with
 * one line for each route and status that had more refusals than log lines.
 */
function countRefusal(route: string, status: number): boolean {
  const minute = Math.floor(Date.now() / 60_000)
  if (minute !== refusalMinute) {
    for (const counted of refusals.values()) {
      if (counted.refusals > sampledRefusals) console.log(JSON.stringify(counted))
    }
    refusals.clear()
    refusalMinute = minute
  }
  const key = `${status} ${route}`
  const counted = refusals.get(key) ?? { route, status, refusals: 0 }
  counted.refusals += 1
  refusals.set(key, counted)
  return counted.refusals <= sampledRefusals
}

/** Turns a thrown error into a response. The response to an unexpected error contains only the request's id, not the cause. */
export function asApiError(error: unknown, c: Context): ApiError {
  if (error instanceof ApiError) return error
  const requestId = String(c.get('requestId'))
  c.set('failure', describe(error))
  if (isTransient(error)) {
    return new ApiError(
      'unavailable',
      `The database did not respond. Send the same request again. Request ${requestId}.`,
      {
        headers: { 'Retry-After': '1' },
      },
    )
  }
  return new ApiError('internal_error', `Something went wrong on our side. Send support this request id: ${requestId}.`)
}

/** Describes an error for the log: its name, code and constraint. The message can quote a row, so it isn't logged. */
function describe(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { name: typeof error }
  const { name, stack } = error
  const frames = stack?.split('\n').filter((line) => line.trimStart().startsWith('at '))
  const { code, constraint, table } = error as Error & { code?: unknown; constraint?: unknown; table?: unknown }
  return { name, code, constraint, table, frames }
}

/** Returns 405 for every method that a path does not accept. Register it after the path's own handlers. */
export function onlyMethods(...methods: string[]) {
  return (c: Context): Response => {
    throw new ApiError('method_not_allowed', `${c.req.path} accepts ${methods.join(', ')}, not ${c.req.method}.`, {
      headers: { Allow: methods.join(', ') },
    })
  }
}

/** Refuses bodies above this size. Checks Content-Length if there is one, and otherwise counts the bytes of the stream. */
export function limitBodyTo(maxBytes: number): MiddlewareHandler {
  const refuseBody = () => {
    const size = maxBytes < 2 ** 20 ? `${maxBytes / 2 ** 10} KiB` : `${maxBytes / 2 ** 20} MiB`
    throw new ApiError('payload_too_large', `The body can have at most ${size}. Send a smaller one.`)
  }
  const countBody = bodyLimit({ maxSize: maxBytes, onError: refuseBody })
  return async (c, next) => {
    const { headers } = c.req.raw
    const declaredBytes = headers.get('content-length')
    // The body isn't read here, because that would create a stream that most requests don't need.
    if (declaredBytes === null || headers.has('transfer-encoding')) return await countBody(c, next)
    if (Number(declaredBytes) > maxBytes) refuseBody()
    return await next()
  }
}

/** Refuses a body over 64 KiB. */
export const limitBody = limitBodyTo(maxBodyBytes)

const exposeHeaders = ['Retry-After', 'X-Request-Id']
const preflight = cors({ allowMethods: ['POST'], allowHeaders: ['Content-Type'], exposeHeaders, maxAge: 86400 })

/** Handles preflights and lets any origin read the response, without cookies. For routes that a visitor's browser calls. */
export const publicCors: MiddlewareHandler = async (c, next) => {
  if (c.req.method === 'OPTIONS') return await preflight(c, next)
  // The headers are set on the finished response. If they were set earlier, Hono would create a response and then copy it.
  await next()
  c.res.headers.set('Access-Control-Allow-Origin', '*')
  c.res.headers.set('Access-Control-Expose-Headers', exposeHeaders.join(','))
}
