import { readFileSync } from 'node:fs'
import { parse } from 'smol-toml'
import * as z from 'zod/mini'
import { OperatorError } from './operator-error.ts'

const wranglerFile = new URL('../../wrangler.toml', import.meta.url)

/** A function's entry in wrangler.toml, with the parts that the local stack, the deploy command and one box use. */
export interface FunctionEntry {
  /** The name of the env and of the function's file. */
  name: string
  /** The Worker's name at Cloudflare. */
  workerName: string
  main: string
  /** Route patterns, and their paths without the host. */
  routes: string[]
  paths: string[]
  crons: string[]
  vars: Record<string, string>
  secrets: string[]
  rateLimits: RateLimitEntry[]
  /** Service bindings, each with its name, the bound function and its export. */
  services: Record<string, { name: string; entrypoint?: string }>
  /** The cloud region near which the function runs, if one is set. */
  region?: string
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

/** The parts of wrangler.toml that this file reads. */
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
      placement: z.optional(z.object({ region: z.string() })),
      services: z.optional(
        z.array(z.object({ binding: z.string(), service: z.string(), entrypoint: z.optional(z.string()) })),
      ),
    }),
  ),
})

/** Reads the functions from wrangler.toml, or from a text. */
export function readFunctions(wranglerToml = readFileSync(wranglerFile, 'utf8')): FunctionEntry[] {
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
    ...(env.placement && { region: env.placement.region }),
    services: Object.fromEntries(
      (env.services ?? []).map(({ binding, service, entrypoint }) => {
        const bound = Object.entries(config.env).find(([, other]) => other.name === service)
        if (!bound) throw new OperatorError(`wrangler.toml: ${name} binds ${service}, but no entry has this name.`)
        return [binding, { name: bound[0], ...(entrypoint && { entrypoint }) }]
      }),
    ),
    compatibilityDate: env.compatibility_date ?? config.compatibility_date ?? '',
    compatibilityFlags: env.compatibility_flags ?? config.compatibility_flags ?? [],
  }))
}

/** Variables of optional features. A deployment, one box and `npm start` pass them on if they are set. */
export const optionalVariables: ReadonlySet<string> = new Set([
  'MAIL_API_URL',
  'MAIL_API_KEY',
  'MAIL_FROM',
  'MAIL_EVENTS',
  'MAIL_WEBHOOK_SECRET',
  'GITHUB_CLIENT_ID',
  'GITHUB_CLIENT_SECRET',
  'GOOGLE_CLIENT_ID',
  'GOOGLE_CLIENT_SECRET',
  'STRIPE_CLIENT_ID',
  'TURNSTILE_SITE_KEY',
  'TURNSTILE_SECRET_KEY',
  'PROGRAM_HOSTS',
  'CLICK_RETENTION_MONTHS',
  'CLICKHOUSE_URL',
  'CLICKHOUSE_PASSWORD',
  'DNS_OVER_HTTPS_URL',
  // Only the local stack adds this entry, so it is never deployed.
  'WEBHOOK_LOOPBACK',
])

/** Groups functions in the order of their deployment, because the target of a service binding must be deployed first. */
export function inBindingOrder<Entry extends Pick<FunctionEntry, 'name' | 'services'>>(functions: Entry[]): Entry[][] {
  const waiting = new Map(functions.map((entry) => [entry.name, entry]))
  const groups: Entry[][] = []
  while (waiting.size > 0) {
    const ready = [...waiting.values()].filter(({ services }) =>
      Object.values(services).every((target) => !waiting.has(target.name)),
    )
    if (ready.length === 0) throw new Error(`Service bindings form a cycle: ${[...waiting.keys()].join(', ')}.`)
    groups.push(ready)
    for (const { name } of ready) waiting.delete(name)
  }
  return groups
}
