import { parse, stringify } from 'smol-toml'
import * as z from 'zod/mini'

const placeholderDomain = 'example.com'
const placeholderHost = `api.${placeholderDomain}`

/** The environment whose Workers have the names in wrangler.toml. */
export const production = 'production'

/** An operator's settings. `given` contains variables and secrets by name. */
export interface Operator {
  /** `production`, `staging` or another name. The names of Workers and hosts and the numbers of rate limits depend on it. */
  environment: string
  /** The zone's name at Cloudflare. */
  domain: string
  /** The service's host: `API_HOST`, or else `api.<domain>`, in other environments `api-<environment>.<domain>`. */
  host: string
  given: Record<string, string | undefined>
}

/** @returns the settings, and a sentence for each missing one. */
export function readOperator(given: Record<string, string | undefined>): { operator: Operator; problems: string[] } {
  const { ENVIRONMENT: environment = '', DOMAIN: domain = '' } = given
  const problems: string[] = []
  if (!/^[a-z][a-z0-9-]{1,19}$/.test(environment)) {
    problems.push(
      'Set ENVIRONMENT to a name: ENVIRONMENT=production, staging or another one of lowercase letters, digits and hyphens. Each has its own Workers, host, database and queues.',
    )
  }
  if (!domain) problems.push('Set DOMAIN to your zone at Cloudflare: DOMAIN=yourdomain.com.')
  const region = given['DATABASE_REGION']
  const [, neonRegion, cloud] = /\.([\w-]+)\.(aws|azure)\.neon\.tech/.exec(given['DATABASE_URL'] ?? '') ?? []
  if (region && !/^(aws|gcp|azure):[a-z\d-]+$/.test(region))
    problems.push('Set DATABASE_REGION to the cloud and region of the database, such as aws:eu-central-1.')
  else if (region && neonRegion && region !== `${cloud}:${neonRegion}`)
    problems.push(
      `DATABASE_REGION is ${region}, but DATABASE_URL is in ${cloud}:${neonRegion}. Correct DATABASE_REGION.`,
    )
  const share = Number(given['OTEL_TRACES_SAMPLER_ARG'] ?? 1)
  if (!(share >= 0 && share <= 1)) problems.push('Set OTEL_TRACES_SAMPLER_ARG to the share of traces, from 0 to 1.')
  // Only one label, because Cloudflare's free certificate covers no more.
  const label = environment === production ? 'api' : `api-${environment}`
  const host = given['API_HOST'] || (domain && `${label}.${domain}`)
  return { operator: { environment: environment || production, domain, host, given }, problems }
}

/** The parts of wrangler.toml that this file changes. The rest is copied unchanged. */
const wranglerConfig = z.looseObject({
  observability: z.looseObject({ logs: z.looseObject({}) }),
  env: z.record(
    z.string(),
    z.looseObject({
      name: z.string(),
      routes: z.optional(z.array(z.looseObject({ pattern: z.string() }))),
      vars: z.optional(z.record(z.string(), z.string())),
      services: z.optional(z.array(z.looseObject({ service: z.string() }))),
      ratelimits: z.optional(z.array(z.looseObject({ namespace_id: z.string() }))),
      secrets: z.optional(z.looseObject({ required: z.optional(z.array(z.string())) })),
      placement: z.optional(z.object({ region: z.string() })),
    }),
  ),
})

/** `svc-track-click` is `svc-staging-track-click` in staging. */
export function workerName(name: string, environment: string): string {
  return environment === production ? name : name.replace(/^svc-/, `svc-${environment}-`)
}

/**
 * Returns the number of a rate limit. All Workers in an account that use the same number share one limit, so other environments add a
 * multiple of ten thousand that depends on a hash (FNV-1a) of their name.
 */
function namespaceId(id: string, environment: string): string {
  if (environment === production) return id
  let hash = 0x811c9dc5
  for (const character of environment) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0
  return String(((hash % 200_000) + 1) * 10_000 + Number(id))
}

/**
 * Returns wrangler.toml for an operator's deployment. If a variable is set, it replaces the variable of the same name, even if it is empty.
 * `--keep-vars` keeps the value at Cloudflare for variables that are not set. Functions that use the database run near `DATABASE_REGION`,
 * so only one of a page's requests has to cross the distance to the visitor. With `PROGRAM_HOSTS=on`, the dashboard also serves all other
 * hosts of the zone, which are the domains of programs. `VERSION` is a variable of every function. With `OTEL_TRACES_DESTINATION` and
 * `OTEL_LOGS_DESTINATION`, Cloudflare sends traces and logs to these OTLP destinations of the account. `staticFolders` are the folders with
 * the static files of functions, by name.
 */
export function operatorToml(
  wranglerToml: string,
  { environment, domain, host, given }: Operator,
  staticFolders: Record<string, string> = {},
): string {
  const placed = wranglerToml
    .replaceAll(placeholderHost, host || placeholderHost)
    .replaceAll(placeholderDomain, domain || placeholderDomain)
  const config = wranglerConfig.parse(parse(placed))
  if (given['PROGRAM_HOSTS'] === 'on') config.env['dashboard']?.routes?.push({ pattern: '*/*', zone_name: domain })
  const { OTEL_TRACES_DESTINATION: traces, OTEL_LOGS_DESTINATION: logs } = given
  if (logs) config.observability.logs['destinations'] = [logs]
  if (traces) {
    const share = Number(given['OTEL_TRACES_SAMPLER_ARG'] ?? 1)
    config.observability['traces'] = {
      enabled: true,
      destinations: [traces],
      head_sampling_rate: share,
      persist: false,
    }
  }
  for (const [name, env] of Object.entries(config.env)) {
    const directory = staticFolders[name]
    if (directory) env['assets'] = { directory, html_handling: 'none' }
    env.name = workerName(env.name, environment)
    for (const binding of env.services ?? []) binding.service = workerName(binding.service, environment)
    for (const limit of env.ratelimits ?? []) limit.namespace_id = namespaceId(limit.namespace_id, environment)
    const region = given['DATABASE_REGION']
    if (region && env.secrets?.required?.includes('DATABASE_URL')) env.placement = { region }
    const values = Object.entries({ ...env.vars, VERSION: given['VERSION'] ?? '' }).map(([variable, value]) => [
      variable,
      given[variable] ?? (value || undefined),
    ])
    env.vars = Object.fromEntries(values.filter(([, value]) => value !== undefined))
  }
  return stringify(config)
}
