import type { MiddlewareHandler } from 'hono'
import { createMiddleware } from 'hono/factory'
import * as z from 'zod/mini'
import { checkApiKey, type KeyScope } from '../access/api-keys.ts'
import { type Database, openDatabase } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type KeyedEnv, readApiKey } from './api-key.ts'
import { createApp } from './app.ts'
import { accept } from './input.ts'
import { limitText } from './rate-limits.ts'

interface Keyed {
  Bindings: KeyedEnv
  /** `db` puts what is done by it down to the key. */
  Variables: {
    keyHash: string
    key: { keyId: number; programId: number; domain: string }
    programId: number
    db: Database
  }
}

/** The app of a resource of the program API. Its answers say how many calls a minute a key has, and no cache keeps them. */
export function createProgramApi<Bindings extends object = object>() {
  const app = createApp<KeyedEnv & Bindings>()
  app.use(async (c, next) => {
    await next()
    c.res.headers.set('RateLimit-Policy', limitText)
    c.res.headers.set('Cache-Control', 'no-store')
  })
  return app
}

/** Lets a call through whose API key is active and has `scope`, as its program's. It is one request to the database. */
export const withKey = (scope: KeyScope) =>
  createMiddleware<Keyed>(async (c, next) => {
    await readApiKey(c, c.env.RATE_LIMIT, async () => {
      const key = await checkApiKey(openDatabase(c.env), c.get('keyHash'), scope)
      c.set('key', key)
      c.set('programId', key.programId)
      c.set('db', openDatabase(c.env).actingByKey(key))
      await next()
    })
  })

const idempotencyKey = /^[\x21-\x7e]{1,255}$/

/**
 * Has what a call makes made once for each `Idempotency-Key` within a day, and without that header once for this request, so that a try
 * whose answer was lost can be repeated: `makeOnce` does. Comes after the input was accepted.
 */
export const withIdempotency = createMiddleware<Keyed & { Variables: { requestId: string } }>(async (c, next) => {
  const sent = c.req.header('idempotency-key')
  if (sent !== undefined && !idempotencyKey.test(sent)) {
    throw new ApiError('invalid_request', 'Idempotency-Key takes 1 to 255 letters, digits and signs, and no spaces.', {
      details: [{ field: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters without spaces' }],
    })
  }
  const asked = new TextEncoder().encode(`${c.req.method} ${c.req.path}\n${await c.req.text()}`)
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', asked))
  const token = sent ?? `request ${c.get('requestId')}`
  c.set('db', openDatabase(c.env).actingByKey(c.get('key'), { token, hash }))
  await next()
})

/** The key was read before the input is, so a refused input needs no other word. */
export const known = () => Promise.resolve()

const emptyObject = accept('json', z.strictObject({}), known)

/** Takes a call that has no fields: without a body, or with `{}`. What else is sent is refused, since nothing would come of it. */
export const withoutFields: MiddlewareHandler = async (c, next) => {
  const sent = await c.req.text().catch(() => undefined)
  return sent === '' ? await next() : await emptyObject(c, next)
}
