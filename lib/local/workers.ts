import { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type V4WorkerOptions } from 'miniflare'
import { parse } from 'smol-toml'
import * as z from 'zod/mini'
import { LocalStackError, stopWithThisProcess } from './postgres.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** A function's entry in wrangler.toml, as far as the local stack and the deploy command read it. */
export interface FunctionEntry {
  /** The env's name, which is also the function's file. */
  name: string
  /** What the Worker is called at Cloudflare. */
  workerName: string
  main: string
  /** Patterns of the routes, and their paths without the host. */
  routes: string[]
  paths: string[]
  crons: string[]
  vars: Record<string, string>
  secrets: string[]
  rateLimits: RateLimitEntry[]
  /** Service bindings: the binding's name, the bound function and which of its exports. */
  services: Record<string, { name: string; entrypoint?: string }>
  compatibilityDate: string
  compatibilityFlags: string[]
}

const rateLimit = z.object({
  name: z.string(),
  namespace_id: z.string(),
  simple: z.object({ limit: z.number(), period: z.literal([10, 60]) }),
})
type RateLimitEntry = z.infer<typeof rateLimit>

const compatibility = {
  compatibility_date: z.optional(z.string()),
  compatibility_flags: z.optional(z.array(z.string())),
}

/** wrangler.toml, as far as it is read here. */
const wranglerConfig = z.object({
  ...compatibility,
  env: z.record(
    z.string(),
    z.object({
      ...compatibility,
      name: z.string(),
      main: z.string(),
      routes: z.optional(z.array(z.object({ pattern: z.string() }))),
      triggers: z.optional(z.object({ crons: z.optional(z.array(z.string())) })),
      vars: z.optional(z.record(z.string(), z.string())),
      secrets: z.optional(z.object({ required: z.optional(z.array(z.string())) })),
      ratelimits: z.optional(z.array(rateLimit)),
      services: z.optional(
        z.array(z.object({ binding: z.string(), service: z.string(), entrypoint: z.optional(z.string()) })),
      ),
    }),
  ),
})

/** Reads the functions of wrangler.toml, or of such a text. */
export function readFunctions(wranglerToml = readFileSync(`${root}wrangler.toml`, 'utf8')): FunctionEntry[] {
  const config = wranglerConfig.parse(parse(wranglerToml))
  return Object.entries(config.env).map(([name, env]) => ({
    name,
    workerName: env.name,
    main: env.main,
    routes: (env.routes ?? []).map(({ pattern }) => pattern),
    paths: (env.routes ?? []).map(({ pattern }) => pattern.slice(pattern.indexOf('/'))),
    crons: env.triggers?.crons ?? [],
    vars: env.vars ?? {},
    secrets: env.secrets?.required ?? [],
    rateLimits: env.ratelimits ?? [],
    services: Object.fromEntries(
      (env.services ?? []).map(({ binding, service, entrypoint }) => {
        const bound = Object.entries(config.env).find(([, other]) => other.name === service)
        if (!bound) throw new LocalStackError(`wrangler.toml: ${name} binds ${service}, which no entry is named.`)
        return [binding, { name: bound[0], ...(entrypoint && { entrypoint }) }]
      }),
    ),
    compatibilityDate: env.compatibility_date ?? config.compatibility_date ?? '',
    compatibilityFlags: env.compatibility_flags ?? config.compatibility_flags ?? [],
  }))
}

/** The script of each function by its name, built in one pass with the settings that wrangler builds with; minified as deployed if
 * asked. `folder` is the checkout that has them. */
export async function bundleFunctions(
  functions: FunctionEntry[],
  minify = false,
  folder = root,
): Promise<Map<string, string>> {
  const { outputFiles } = await build({
    absWorkingDir: folder,
    entryPoints: functions.map(({ name, main }) => ({ in: main, out: name })),
    outdir: `${root}.local/functions`,
    write: false,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    platform: 'browser',
    conditions: ['workerd', 'worker', 'browser'],
    minify,
    keepNames: !minify,
    define: { 'process.env.NODE_ENV': '"production"', 'navigator.userAgent': '"Cloudflare-Workers"' },
    loader: { '.txt': 'text', '.html': 'text', '.sql': 'text', '.bin': 'binary' },
    external: ['cloudflare:*', 'node:*'],
    alias: Object.fromEntries(
      builtinModules.filter((name) => !name.includes(':')).map((name) => [name, `node:${name}`]),
    ),
    logLevel: 'silent',
  })
  return new Map(outputFiles.map(({ path, text }) => [path.slice(path.lastIndexOf('/') + 1, -'.js'.length), text]))
}

export interface Workers {
  baseUrl: string
  /** Runs a function's scheduled handler now, or as at another time. */
  scheduled(name: string, options?: { cron?: string; scheduledTime?: Date }): Promise<void>
  close(): Promise<void>
}

interface ScheduledWorker {
  scheduled(options: { cron: string; scheduledTime: Date }): Promise<{ outcome: string }>
}

/** Where a request comes from on this machine, in place of what Cloudflare's edge would say. */
const localRequestCf = { country: 'US', region: 'California', regionCode: 'CA', city: 'San Francisco', colo: 'SFO' }

/** Answers what no route takes. */
const fallbackScript = `export default {
  fetch(request) {
    const { pathname } = new URL(request.url)
    const error = { code: 'not_found', message: 'There is nothing at ' + pathname + '.' }
    return Response.json({ success: false, error }, { status: 404 })
  },
}`

/**
 * All functions in one workerd, routed by the paths in wrangler.toml whatever the host. Each also answers at the root of
 * an address of its own, `http://<function>.localhost:<port>/`, as it does when it is deployed.
 */
export async function startWorkers(options: {
  functions: FunctionEntry[]
  scripts: Map<string, string>
  /** Values for the names in `vars` and `secrets.required`. */
  environment: Record<string, string>
  /** Values that every function is given. */
  common: Record<string, string>
  port?: number
  onLog?: (line: string, level: string) => void
}): Promise<Workers> {
  const { functions, scripts, environment, common } = options
  const onLog = options.onLog ?? (() => {})
  const neonEndpoint = common['NEON_ENDPOINT']
  const neon = neonEndpoint && { NEON: { external: { address: new URL(neonEndpoint).host, http: {} } } }
  const workers = functions.map((entry): V4WorkerOptions => ({
    name: entry.name,
    modules: [{ type: 'ESModule', path: `${entry.name}.js`, contents: scripts.get(entry.name) ?? '' }],
    compatibilityDate: entry.compatibilityDate,
    compatibilityFlags: entry.compatibilityFlags,
    routes: [...entry.paths.map((path) => `*${path}`), `${entry.name}.localhost/*`],
    bindings: { ...common, ...valuesFor(entry, environment) },
    serviceBindings: { ...entry.services, ...neon },
    ratelimits: Object.fromEntries(entry.rateLimits.map(({ name, ...limit }) => [name, limit])),
  }))
  subscribe('child_process', stopWorkerdWithThisProcess)
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: options.port ?? 0,
      cf: localRequestCf,
      log: new Log(LogLevel.NONE),
      logRequests: false,
      handleStructuredLogs: ({ message, level }) => onLog(message, level),
      // The first worker is asked where no route matches.
      workers: [
        {
          name: 'fallback',
          modules: [{ type: 'ESModule', path: 'fallback.js', contents: fallbackScript }],
        },
        ...workers,
      ],
    }),
  )
  const url = await miniflare.ready
  unsubscribe('child_process', stopWorkerdWithThisProcess)
  return {
    baseUrl: url.origin,
    async scheduled(name, { cron = '', scheduledTime = new Date() } = {}) {
      // oxlint-disable-next-line no-unsafe-type-assertion -- Miniflare types it by a package that is not installed here
      const worker = (await miniflare.getWorker(name)) as unknown as ScheduledWorker
      const { outcome } = await worker.scheduled({ cron, scheduledTime })
      if (outcome !== 'ok') throw new Error(`The scheduled run of ${name} ended with ${outcome}.`)
    },
    close: () => miniflare.dispose(),
  }
}

/** Miniflare leaves workerd running where it is killed itself, and does not tell its process id. */
function stopWorkerdWithThisProcess(message: unknown): void {
  if (typeof message !== 'object' || message === null || !('process' in message)) return
  const { process: child } = message
  if (!(child instanceof ChildProcess)) return
  child.once('spawn', () => {
    if (child.spawnfile.endsWith('workerd')) stopWithThisProcess(child)
  })
}

function valuesFor(entry: FunctionEntry, environment: Record<string, string>): Record<string, string> {
  const values = { ...entry.vars }
  for (const name of [...Object.keys(entry.vars), ...entry.secrets]) {
    const value = environment[name]
    if (value !== undefined) values[name] = value
    else if (values[name] === undefined) {
      throw new LocalStackError(`${entry.name} needs the secret ${name}. Add it to lib/local/environment.ts.`)
    }
  }
  return values
}
