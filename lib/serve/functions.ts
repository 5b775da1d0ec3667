import * as z from 'zod/mini'
import { secretsOf } from '../commands/deploy/plan.ts'
import { Database, type Postgres } from '../database.ts'
import { readVerifiedHosts } from '../programs/hosts.ts'
import { type FunctionEntry, readFunctions } from '../commands/wrangler-file.ts'
import { type OwnChannels, openChannels } from './channels.ts'
import type { ProcessMetrics } from './metrics.ts'
import { fetchOutside } from './outside.ts'
import type { RateLimits } from './rate-limits.ts'
import type { Telemetry } from './telemetry.ts'
import type { VisitorBudget } from './visitor-budget.ts'

/** Background work after a response. */
export interface Context {
  waitUntil(work: Promise<unknown>): void
  passThroughOnException(): void
}

type Fetch = (request: Request, env: object, context: Context) => Response | Promise<Response>

/** The exports of a function's file that are used. */
export interface FunctionModule {
  default: { fetch?: Fetch; scheduled?: (event: { cron?: string }, env: object, context: object) => Promise<void> }
  soon?: { fetch?: Fetch }
  lane?: { fetch?: Fetch }
  handler?: (
    event: { Records: { messageId: string; body: string }[] },
    context: undefined,
    env: object,
  ) => Promise<{ batchItemFailures: { itemIdentifier: string }[] }>
}

/** Loads a function by its path in wrangler.toml. */
export type ReadFunction = (main: string) => Promise<FunctionModule>

/** Caddy asks about a host for each connection without a certificate, and nothing limits these connections. */
const hostsMilliseconds = 2000

const entrypoints = z.enum(['default', 'soon', 'lane'])

interface Loaded {
  entry: FunctionEntry
  module: FunctionModule
  env: object
}

export interface Service {
  answer(request: Request, context: Context): Promise<Response>
  /** True if a program has verified this host for its join page. */
  isProgramHost(host: string): Promise<boolean>
  /** Runs a function's scheduled handler. */
  scheduled(name: string, cron?: string): Promise<void>
  functions: FunctionEntry[]
  channels: OwnChannels
}

/**
 * Loads all functions in wrangler.toml into this process, each with the variables and bindings of its entry. Service bindings are direct
 * calls, and the process's channels replace the queues.
 */
export async function loadFunctions(options: {
  /** Default: all of wrangler.toml. */
  functions?: FunctionEntry[]
  read: ReadFunction
  /** Values for the names in `vars` and `secrets.required`. */
  environment: Record<string, string>
  /** Values for every function. */
  common?: Record<string, string>
  postgres: Postgres
  rateLimits: RateLimits
  budget: VisitorBudget
  metrics?: ProcessMetrics
  telemetry?: Telemetry | undefined
}): Promise<Service> {
  const {
    functions = readFunctions(),
    read,
    environment,
    common,
    postgres,
    rateLimits,
    budget,
    metrics,
    telemetry,
  } = options
  const loaded = new Map<string, Loaded>()
  const find = (name: string): Loaded => {
    const found = loaded.get(name)
    if (!found) throw new Error(`wrangler.toml has no function ${name}.`)
    return found
  }
  const channels = openChannels(async (event) => {
    const { module, env } = find('deliver-notifications')
    if (!module.handler) throw new Error('deliver-notifications exports no handler.')
    return await module.handler(event, undefined, env)
  })

  /** Returns a function's export as a binding, or as in `context.exports`. */
  const entrypointOf = (name: string, exported = 'default') => ({
    fetch: async (input: string | Request, init?: { method?: string; body?: string }) => {
      const { module, env } = find(name)
      const answer = module[entrypoints.parse(exported)]?.fetch
      if (!answer) throw new Error(`${name} has no entry point ${exported}.`)
      return await answer(new Request(input, init), env, scheduledContext(name))
    },
  })
  const scheduledContext = (name: string) => ({
    waitUntil: (work: Promise<unknown>) => void work.catch(() => {}),
    passThroughOnException: () => {},
    exports: { lane: entrypointOf(name, 'lane') },
  })

  for (const entry of functions) {
    // The leader counts continuously, so calls don't need to request a count.
    const { COUNT: _, ...services } = entry.services
    const env = {
      ...valuesFor(entry, environment),
      ...common,
      POSTGRES: postgres,
      CHANNELS: channels,
      OUTSIDE: { fetch: fetchOutside },
      PROCESS_METRICS: metrics,
      VISITOR_BUDGET: budget,
      ...Object.fromEntries(
        Object.entries(services).map(([binding, { name, entrypoint }]) => [binding, entrypointOf(name, entrypoint)]),
      ),
      ...Object.fromEntries(
        entry.rateLimits.map(({ name, namespace_id, simple }) => [name, rateLimits.limiter(namespace_id, simple)]),
      ),
    }
    loaded.set(entry.name, { entry, module: await read(entry.main), env })
  }

  // The most specific route wins, as on Cloudflare.
  const routes = [...loaded.values()]
    .flatMap((found) => found.entry.paths.map((path) => ({ ...found, path, prefix: path.replace(/\*$/, '') })))
    .toSorted((a, b) => b.prefix.length - a.prefix.length)

  const ownOrigin = environment['BASE_URL'] && new URL(environment['BASE_URL']).origin

  /** A program's own host serves only pages. The `dashboard` function decides which pages. */
  function routeOf(url: string) {
    if (ownOrigin && new URL(url).origin !== ownOrigin) return routes.find(({ path }) => path === '/*')
    const address = url.slice(url.indexOf('/', 'https://'.length))
    return routes.find(({ path, prefix }) => (path === prefix ? address === path : address.startsWith(prefix)))
  }

  let programHosts: { until: number; hosts: Promise<Set<string>> } | undefined

  return {
    functions: [...loaded.values()].map(({ entry }) => entry),
    channels,
    async isProgramHost(host) {
      const db = new Database({ DATABASE_URL: environment['DATABASE_URL'] ?? '', POSTGRES: postgres })
      if (programHosts === undefined || Date.now() > programHosts.until)
        programHosts = { until: Date.now() + hostsMilliseconds, hosts: readVerifiedHosts(db) }
      return (await programHosts.hosts).has(host)
    },
    async answer(request, context) {
      const route = routeOf(request.url)
      if (!route?.module.default.fetch) return new Response(null, { status: 404 })
      const started = performance.now()
      let status = 500
      try {
        const { fetch } = route.module.default
        const answer = async () => await fetch(request, route.env, context)
        const response = await (telemetry ? telemetry.request(route.entry.name, request, answer) : answer())
        status = response.status
        return response
      } finally {
        metrics?.countRequest(route.entry.name, status, (performance.now() - started) / 1000)
      }
    },
    async scheduled(name, cron) {
      const { module, env } = find(name)
      let isOk = false
      try {
        const run = async () =>
          await module.default.scheduled?.(cron === undefined ? {} : { cron }, env, scheduledContext(name))
        await (telemetry ? telemetry.run(name, run) : run())
        isOk = true
      } finally {
        metrics?.countRun(name, isOk)
      }
    },
  }
}

/** The variables and secrets of the function's entry. Missing ones, such as the queues, are empty. */
function valuesFor(entry: FunctionEntry, environment: Record<string, string>): Record<string, string> {
  const names = new Set([
    ...Object.keys(entry.vars),
    ...secretsOf(entry),
    'LOGGED_PART',
    'VERSION',
    'WEBHOOK_LOOPBACK',
    'STRIPE_API_URL',
  ])
  const values = Array.from(names, (name): [string, string | undefined] => [
    name,
    environment[name] ?? entry.vars[name],
  ])
  return Object.fromEntries(values.filter((pair): pair is [string, string] => pair[1] !== undefined))
}
