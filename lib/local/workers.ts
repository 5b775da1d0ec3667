import { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import path from 'node:path'
import type { V4WorkerOptions } from 'miniflare'
import * as z from 'zod/mini'
import { type FunctionEntry, readFunctions } from '../commands/wrangler-file.ts'
import { inboxPage } from './inbox.ts'
import { buildOnce, root } from '../serve/build-cache.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { stopWithThisProcess } from '../commands/processes.ts'

/** A module of a Worker. Other modules import it by `path`. */
export interface WorkerModule {
  path: string
  contents: string
}

/**
 * Bundles each function with wrangler's settings, in one pass. A function's first module is its entry. By default each function has one
 * module, as in a deployment. With `shared`, common modules are built only once. This takes a quarter of the time.
 */
export async function bundleFunctions(
  functions: FunctionEntry[],
  { shared = false, minify = false }: { shared?: boolean; minify?: boolean } = {},
): Promise<Map<string, WorkerModule[]>> {
  const { build } = await import('esbuild')
  const outdir = `${root}.local/functions`
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: functions.map(({ name, main }) => ({ in: main, out: name })),
    outdir,
    write: false,
    bundle: true,
    splitting: shared,
    metafile: true,
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
  const texts = new Map(outputFiles.map(({ path: file, text }) => [path.basename(file), text]))
  const imported = new Map(
    Object.entries(metafile.outputs).map(([file, { imports }]) => [
      path.basename(file),
      imports.filter(({ external }) => !external).map((one) => path.basename(one.path)),
    ]),
  )
  return new Map(
    functions.map(({ name }) => {
      const files = new Set([`${name}.js`])
      // The loop also visits members that are added while it runs.
      for (const file of files) for (const next of imported.get(file) ?? []) files.add(next)
      return [name, Array.from(files, (file) => ({ path: file, contents: texts.get(file) ?? '' }))]
    }),
  )
}

const keptFunctions = z.object({
  texts: z.record(z.string(), z.string()),
  modulesOf: z.record(z.string(), z.array(z.string())),
})

/** Returns the functions in wrangler.toml and the inbox page, built by {@link bundleFunctions} with `shared`. */
export async function builtFunctions(): Promise<Map<string, WorkerModule[]>> {
  const functions = readFunctions()
  const built = async () => await bundleFunctions([...functions, inboxPage(functions)], { shared: true })
  const file = await buildOnce('functions.json', async (created) => {
    const modules = [...(await built())]
    const texts = Object.fromEntries(modules.flatMap(([, all]) => all.map((one) => [one.path, one.contents])))
    const modulesOf = Object.fromEntries(modules.map(([name, all]) => [name, all.map((one) => one.path)]))
    return [{ path: created, contents: JSON.stringify({ texts, modulesOf }) }]
  })
  if (!file) return await built()
  const { texts, modulesOf } = keptFunctions.parse(JSON.parse(readFileSync(file, 'utf8')))
  return new Map(
    Object.entries(modulesOf).map(([name, files]) => [
      name,
      files.map((one) => ({ path: one, contents: texts[one] ?? '' })),
    ]),
  )
}

export interface Workers {
  baseUrl: string
  /** Runs a function's scheduled handler, now or at a given time. */
  scheduled(name: string, options?: { cron?: string; scheduledTime?: Date }): Promise<void>
  close(): Promise<void>
}

interface ScheduledWorker {
  scheduled(options: { cron: string; scheduledTime: Date }): Promise<{ outcome: string }>
}

/** The location of requests on this machine, which replaces Cloudflare's data. */
const localRequestCf = { country: 'US', region: 'California', regionCode: 'CA', city: 'San Francisco', colo: 'SFO' }

/** Responds to requests on paths without a route. */
const fallbackScript = `export default {
  fetch(request) {
    const { pathname } = new URL(request.url)
    const error = { code: 'not_found', message: 'There is nothing at ' + pathname + '.' }
    return Response.json({ success: false, error }, { status: 404 })
  },
}`

/**
 * Starts all functions in one workerd, routed by the paths in wrangler.toml for any host. Each also has its own address
 * `http://<function>.localhost:<port>/`, like a deployed one.
 */
export async function startWorkers(options: {
  functions: FunctionEntry[]
  /** The bundles from {@link bundleFunctions}. */
  modules: Map<string, WorkerModule[]>
  /** Values for the names in `vars` and `secrets.required`. */
  environment: Record<string, string>
  /** Values for every function. */
  common: Record<string, string>
  port?: number
  onLog?: (line: string, level: string) => void
}): Promise<Workers> {
  // Loading Miniflare takes half a second of CPU time, so it is loaded only here.
  const { convertV4MiniflareOptions, Log, LogLevel, Miniflare } = await import('miniflare')
  const { functions, modules, environment, common } = options
  const onLog = options.onLog ?? (() => {})
  const neonEndpoint = common['NEON_ENDPOINT']
  const neon = neonEndpoint && { NEON: { external: { address: new URL(neonEndpoint).host, http: {} } } }
  const workers = functions.map((entry): V4WorkerOptions => ({
    name: entry.name,
    modules: (modules.get(entry.name) ?? []).map((module) => ({ type: 'ESModule', ...module })),
    compatibilityDate: entry.compatibilityDate,
    compatibilityFlags: entry.compatibilityFlags,
    routes: [...entry.paths.map((pattern) => `*${pattern}`), `${entry.name}.localhost/*`],
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
      // The first Worker gets the requests without a route.
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

/** If Miniflare is killed, workerd keeps running, and Miniflare doesn't expose the process id. */
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
      throw new OperatorError(`${entry.name} needs the secret ${name}. Add it to lib/local/environment.ts.`)
    }
  }
  return values
}
