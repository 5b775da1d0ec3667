import { parse, stringify } from 'smol-toml'
import * as z from 'zod/mini'

const placeholderDomain = 'example.com'
const placeholderHost = `api.${placeholderDomain}`

/** The one environment whose Workers have the very names of wrangler.toml. */
export const production = 'production'

/** What an operator says by the environment of the command. Variables and secrets are looked up in `given` by their names. */
export interface Operator {
  /** `production`, `staging` or another: it is part of the names of Workers and hosts and of the numbers of rate limits. */
  environment: string
  /** The zone at Cloudflare. */
  domain: string
  /** Where the service answers: `API_HOST`, else `api.<domain>`, in other environments `api-<environment>.<domain>`. */
  host: string
  given: Record<string, string | undefined>
}

/** @returns what the command's environment says, and in sentences what it lacks. */
export function readOperator(given: Record<string, string | undefined>): { operator: Operator; problems: string[] } {
  const { ENVIRONMENT: environment = '', DOMAIN: domain = '' } = given
  const problems: string[] = []
  if (!/^[a-z][a-z0-9-]{1,19}$/.test(environment)) {
    problems.push(
      'Set ENVIRONMENT to what is deployed: ENVIRONMENT=production, or staging or another name of small letters, digits and hyphens. Each has Workers, a host, a database and queues of its own.',
    )
  }
  if (!domain) problems.push('Set DOMAIN to your zone at Cloudflare: DOMAIN=yourdomain.com.')
  // One label deep, because the certificate that Cloudflare gives a zone for nothing covers no more.
  const label = environment === production ? 'api' : `api-${environment}`
  const host = given['API_HOST'] || (domain && `${label}.${domain}`)
  return { operator: { environment: environment || production, domain, host, given }, problems }
}

/** wrangler.toml, as far as it is changed here; the rest goes on as it is. */
const wranglerConfig = z.looseObject({
  env: z.record(
    z.string(),
    z.looseObject({
      name: z.string(),
      vars: z.optional(z.record(z.string(), z.string())),
      services: z.optional(z.array(z.looseObject({ service: z.string() }))),
      ratelimits: z.optional(z.array(z.looseObject({ namespace_id: z.string() }))),
    }),
  ),
})

/** `svc-track-click` is `svc-staging-track-click` in staging. */
export function workerName(name: string, environment: string): string {
  return environment === production ? name : name.replace(/^svc-/, `svc-${environment}-`)
}

/**
 * The number of a rate limit, which is shared by all Workers of an account that name it: other environments count by numbers of their
 * own, a multiple of ten thousand above, by a hash (FNV-1a) of their name.
 */
function namespaceId(id: string, environment: string): string {
  if (environment === production) return id
  let hash = 0x811c9dc5
  for (const character of environment) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0
  return String(((hash % 200_000) + 1) * 10_000 + Number(id))
}

/**
 * wrangler.toml as an operator deploys it. A variable that is given takes the place of one of the same name, also where it is given
 * empty. One that is not given and has no value in wrangler.toml is left out, so that `--keep-vars` keeps what is at the edge.
 */
export function operatorToml(wranglerToml: string, { environment, domain, host, given }: Operator): string {
  const placed = wranglerToml
    .replaceAll(placeholderHost, host || placeholderHost)
    .replaceAll(placeholderDomain, domain || placeholderDomain)
  const config = wranglerConfig.parse(parse(placed))
  for (const env of Object.values(config.env)) {
    env.name = workerName(env.name, environment)
    for (const binding of env.services ?? []) binding.service = workerName(binding.service, environment)
    for (const limit of env.ratelimits ?? []) limit.namespace_id = namespaceId(limit.namespace_id, environment)
    if (!env.vars) continue
    const values = Object.entries(env.vars).map(([name, value]) => [name, given[name] ?? (value || undefined)])
    env.vars = Object.fromEntries(values.filter(([, value]) => value !== undefined))
  }
  return stringify(config)
}
