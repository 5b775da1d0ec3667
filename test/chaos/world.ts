import { AsyncLocalStorage } from 'node:async_hooks'
import type { Pool } from 'pg'
import type { Database } from '../../lib/database.ts'
import { localAws } from '../../lib/local/environment.ts'
import type { Fault, NeonEndpoint } from '../../lib/local/neon.ts'
import type { Service } from './bundle.ts'
import type { Random } from './random.ts'

export const webhookSecret = 'whsec_chaos'
/** Encrypts the secrets of connections, in this process and in workerd. */
export const emailHashKey = 'chaos'

/** The addresses of the world's parts, and the fault rate. */
export interface WorldOptions {
  service: Service
  databaseUrl: string
  /** Connections without faults, for checks. They stay open after the world is closed, so the next world can reuse their plans. */
  pool: Pool
  neonEndpoint: string
  /** Controls the faults at that endpoint. */
  neonControl: NeonEndpoint['control']
  queueEndpoint: string
  queueUrl: string
  stripeApiUrl: string
  /** The origin of the functions in workerd. If it is undefined, they run in this process. */
  baseUrl?: string
  /** The probability of a fault for each database request. */
  faultRate: number
  /**
   * Drops a request before it runs instead of ending its backend. In both cases nothing is committed, but a new backend has to plan
   * everything again.
   */
  keepsBackends?: boolean
}

/** A call in progress. Its faults depend on its own random numbers, so a seed repeats them. */
interface Call {
  random: Random
  /** The number of answers that did not reach the caller. */
  lost: number
  /** The number of answers that did not reach the function. */
  unsure: number
  die?: () => void
  /** The call that a running function belongs to. */
  caller?: Call
}

export interface World {
  service: Service
  pool: Pool
  /** This connection has no faults, so that checks can use it. */
  db: Database
  /** The number of function calls so far, and of faults. */
  counts: { calls: number; faults: number }
  /** One JSON text per log line of the functions. */
  logs: string[]
  /** Forbidden answers of functions. */
  violations: string[]
  env: Record<string, unknown>
  /** Runs `work` with faults from `random`. The result includes how many answers did not reach the caller and the function. */
  during<Result>(random: Random, work: () => Promise<Result>): Promise<{ result: Result; lost: number; unsure: number }>
  /** Calls a function of `lib/` until its outcome is known. Returns its answer, or the code of its refusal. */
  settle(work: () => Promise<object | number | void>): Promise<object>
  /** Waits for the work after answers. */
  idle(): Promise<void>
  close(): Promise<void>
}

interface App {
  fetch(request: Request, env: object, context: never): Response | Promise<Response>
}

const calls = new AsyncLocalStorage<Call>()

/** The edge returns this if the function has been killed. */
class Killed extends TypeError {}

const never = new Promise<never>(() => {})

/**
 * Starts the service in this process. `fetch` reaches it at http://svc.test like HTTP, and its database requests go through the Neon
 * endpoint. A database request can be dropped before or after it runs, be answered with 503, be delayed, or lose its backend. The function
 * can be killed at any of its requests and after its answer.
 */
export function openWorld(options: WorldOptions): World {
  const { service, databaseUrl, pool, neonEndpoint, neonControl, faultRate } = options
  const env = {
    DATABASE_URL: databaseUrl,
    NEON_ENDPOINT: neonEndpoint,
    EMAIL_HASH_KEY: emailHashKey,
    STRIPE_SECRET_KEY: 'sk_test_chaos',
    STRIPE_WEBHOOK_SECRET: webhookSecret,
    STRIPE_API_URL: options.stripeApiUrl,
    AWS_REGION: localAws.region,
    AWS_ACCESS_KEY_ID: localAws.accessKeyId,
    AWS_SECRET_ACCESS_KEY: localAws.secretAccessKey,
    AWS_ENDPOINT_URL: options.queueEndpoint,
    QUEUE_URL: options.queueUrl,
    WEBHOOK_QUEUE_URL: options.queueUrl.replace(/[^/]*$/, 'webhooks'),
    WEBHOOK_SECRET: 'chaos',
    WEBHOOK_LOOPBACK: 'on',
    DNS_OVER_HTTPS_URL: 'http://127.0.0.1:9/dns-query',
  }
  const relay = { fetch: (url: string, init: RequestInit) => service.soon.fetch(new Request(url, init), env) }
  const bindings = { ...env, RELAY: relay }
  const background = new Set<Promise<unknown>>()
  const realFetch = globalThis.fetch
  const apps: Record<string, App> = {
    '/api/v1/track/click': service.trackClick,
    '/api/v1/track/lead': service.trackLead,
    '/api/v1/track/sale': service.trackSale,
    '/api/v1/track/refund': service.trackRefund,
    '/api/v1/webhooks/stripe': service.processorWebhook,
  }
  const appAt = (path: string) =>
    apps[path] ?? (path.startsWith('/api/v1/webhooks/') ? service.connectionWebhook : undefined)

  /** Runs a function that can be killed at each of its database requests. */
  async function mortal<Result>(work: () => Promise<Result>): Promise<Result> {
    world.counts.calls += 1
    const outer = calls.getStore()
    if (!outer) return await work()
    const death = Promise.withResolvers<never>()
    death.promise.catch(() => {})
    const die = () => death.reject(new Killed('The function was killed.'))
    try {
      return await Promise.race([calls.run({ ...outer, die, caller: outer }, work), death.promise])
    } catch (error) {
      if (error instanceof Killed || service.isTransient(error)) outer.lost += 1
      throw error
    }
  }

  async function callFunction(url: URL, init: RequestInit): Promise<Response> {
    const call = calls.getStore()
    const response = await mortal(async () => {
      if (options.baseUrl) return await realFetch(options.baseUrl + url.pathname, init)
      const context = {
        waitUntil(promise: Promise<unknown>) {
          const done = promise.finally(() => background.delete(done))
          background.add(done)
          done.catch((error: unknown) => world.violations.push(`after the answer of ${url.pathname}: ${String(error)}`))
        },
        passThroughOnException() {},
      }
      const answer = await appAt(url.pathname)?.fetch(new Request(url, init), bindings, context as never)
      if (!answer) throw new Error(`No function answers ${url.pathname}.`)
      return answer
    })
    if (response.status >= 500) {
      if (call) call.lost += 1
      if (response.status !== 503)
        world.violations.push(`${url.pathname} answered ${response.status}: ${await response.clone().text()}`)
    }
    if (call?.random.chance(faultRate / 4)) {
      call.lost += 1
      world.counts.faults += 1
      throw new TypeError('The answer was lost.')
    }
    return response
  }

  async function queryDatabase(url: string, init: RequestInit): Promise<Response> {
    const call = calls.getStore()
    if (!call || !call.random.chance(faultRate)) return await realFetch(url, init)
    world.counts.faults += 1
    const action = call.random.pick([
      'drop-before',
      'drop-after',
      'unavailable',
      'delay',
      'kill-backend',
      'die-before',
      'die-after',
    ] as const)
    if (action === 'die-before' || action === 'die-after') {
      if (action === 'die-after') await realFetch(url, init).catch(() => {})
      call.die?.()
      return await never
    }
    if (action !== 'delay') (call.caller ?? call).unsure += 1
    const kept = action === 'kill-backend' && options.keepsBackends ? 'drop-before' : action
    const fault: Fault = { action: kept ?? 'delay', delay_ms: call.random.integer(1, 25) }
    return await realFetch(url, {
      ...init,
      headers: { ...(init.headers as Record<string, string>), ...neonControl, 'Inject-Fault': JSON.stringify(fault) },
    })
  }

  globalThis.fetch = async (input, init = {}) => {
    const url = input instanceof Request ? input.url : String(input)
    if (url.startsWith('http://svc.test/')) return await callFunction(new URL(url), init)
    if (url === neonEndpoint) return await queryDatabase(url, init)
    return await realFetch(input, init)
  }

  /** Whether an attempt only failed because of a fault. A scheduled function throws the errors of its steps together. */
  const isPassing = (error: unknown): boolean =>
    error instanceof Killed ||
    service.isTransient(error) ||
    (error instanceof AggregateError && error.errors.every(isPassing))
  const world: World = {
    service,
    pool,
    db: new service.Database(env),
    counts: { calls: 0, faults: 0 },
    logs: [],
    violations: [],
    env: bindings,
    async during(random, work) {
      const call: Call = { random, lost: 0, unsure: 0 }
      const result = await calls.run(call, work)
      return { result, lost: call.lost, unsure: call.unsure }
    },
    async settle(work) {
      for (let attempt_count = 0; ; attempt_count++) {
        try {
          const answer = await mortal(work)
          return typeof answer === 'object' ? answer : answer === undefined ? { ok: true } : { value: answer }
        } catch (error) {
          if (error instanceof service.ApiError) return { error: error.code }
          if (attempt_count > 60 || !isPassing(error)) throw error
          await new Promise((resolve) => setTimeout(resolve, Math.min(10 * attempt_count, 300)))
        }
      }
    },
    async idle() {
      while (background.size > 0) await Promise.allSettled(background)
    },
    async close() {
      await world.idle()
      globalThis.fetch = realFetch
    },
  }
  Object.assign(globalThis, { svcLog: (line: string) => void world.logs.push(line) })
  return world
}

/** Repeats a read, because Postgres may be down for a moment. */
export async function patiently<Result>(look: () => Promise<Result>): Promise<Result> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await look()
    } catch (error) {
      if (attempt >= 600) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
