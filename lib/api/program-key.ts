import type { Context, MiddlewareHandler } from 'hono'
import { createMiddleware } from 'hono/factory'
import * as z from 'zod/mini'
import { checkApiKey, type KeyScope } from '../access/api-keys.ts'
import { checkPartnerKey } from '../access/partner-keys.ts'
import { type Database, openDatabase } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type KeyedEnv, readApiKey } from './api-key.ts'
import { createApp, maxBodyBytes } from './app.ts'
import { accept } from './input.ts'
import { limitText } from './rate-limits.ts'

interface Keyed {
  Bindings: KeyedEnv
  /** The audit log records the key as the actor of everything that is done with `db`. */
  Variables: {
    keyHash: string
    key: { keyId: number; programId: number; domain: string; scopes: readonly string[] }
    programId: number
    db: Database
  }
}

/** Creates the app of a program API resource. Its responses state the key's rate limit and are never cached. */
export function createProgramApi<Bindings extends object = object>() {
  const app = createApp<KeyedEnv & Bindings>()
  app.use(async (c, next) => {
    await next()
    c.res.headers.set('RateLimit-Policy', limitText)
    c.res.headers.set('Cache-Control', 'no-store')
  })
  return app
}

/** Each change also writes an entry of the audit log, which takes about a kilobyte with its indexes. */
const bytesOfEntry = 1024

/** The bytes that a call counts as, at most as many as an ordinary body has. The files of imports have their own limits. */
async function writtenBytes({ req }: Context, scope: KeyScope, isRecorded: boolean): Promise<number> {
  if (scope !== 'manage') return isRecorded ? bytesOfEntry : 0
  return bytesOfEntry + new TextEncoder().encode((await req.text()).slice(0, maxBodyBytes)).length
}

/**
 * Accepts calls with an active API key that has `scope`. Sends one request to the database. `isRecorded` tells that the audit log records
 * the calls even if they only read.
 */
export const withKey = (scope: KeyScope, isRecorded = false) =>
  createMiddleware<Keyed>(async (c, next) => {
    await readApiKey(c, c.env.RATE_LIMIT, async () => {
      const key = await checkApiKey(
        openDatabase(c.env),
        c.get('keyHash'),
        scope,
        await writtenBytes(c, scope, isRecorded),
      )
      c.set('key', key)
      c.set('programId', key.programId)
      c.set('db', openDatabase(c.env).actingByKey(key))
      await next()
    })
  })

interface KeyedByPartner {
  Bindings: KeyedEnv
  Variables: { keyHash: string; partner: { programId: number; partnerId: number; currency: string }; db: Database }
}

/** Accepts calls with a valid API key of a partner. Sends one request to the database. */
export const withPartnerKey = createMiddleware<KeyedByPartner>(async (c, next) => {
  const checkThenRun = async () => {
    const db = openDatabase(c.env)
    c.set('partner', await checkPartnerKey(db, c.get('keyHash')))
    c.set('db', db)
    await next()
  }
  await readApiKey(c, c.env.RATE_LIMIT, checkThenRun, 'partner')
})

const idempotencyKey = /^[\x21-\x7e]{1,255}$/

/**
 * Runs a creation only once a day for each `Idempotency-Key`. Without the header, it runs once per request, so that `createOnce`
 * can repeat an attempt if its response was lost. Register it after the input's validation.
 */
export const withIdempotency = createMiddleware<Keyed & { Variables: { requestId: string } }>(async (c, next) => {
  const sent = c.req.header('idempotency-key')
  if (sent !== undefined && !idempotencyKey.test(sent)) {
    throw new ApiError(
      'invalid_request',
      'Idempotency-Key must be 1 to 255 letters, digits and symbols without spaces.',
      {
        details: [{ field: 'Idempotency-Key', message: 'must be 1 to 255 printable ASCII characters without spaces' }],
      },
    )
  }
  const content = new TextEncoder().encode(`${c.req.method} ${c.req.path}\n${await c.req.text()}`)
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', content))
  const token = sent ?? `request ${c.get('requestId')}`
  c.set('db', openDatabase(c.env).actingByKey(c.get('key'), { token, hash }))
  await next()
})

/** Invalid input needs no further check of the key, because the key has already been checked. */
export const known = () => Promise.resolve()

const emptyObject = accept('json', z.strictObject({}), known)

/** Accepts a call without fields: no body, or `{}`. Refuses anything else, because fields would have no effect. */
export const withoutFields: MiddlewareHandler = async (c, next) => {
  const sent = await c.req.text().catch(() => undefined)
  return sent === '' ? await next() : await emptyObject(c, next)
}
