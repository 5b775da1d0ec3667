import { type FunctionEntry, optionalVariables } from '../wrangler-file.ts'
import { type Operator, production, workerName } from './config.ts'
import type { Edge } from './edge.ts'
import { staticPaths } from './static-files.ts'

/** The changes of a deployment, one per line, and a sentence for each reason to refuse it. */
export interface Plan {
  lines: string[]
  /**
   * Whether a Worker, a route or a schedule is new or removed. Such a change can't be tested with a share of the requests.
   */
  changesTriggers: boolean
  problems: string[]
}

/** A variable that enables a feature, and the secret that the feature needs. */
const secretBeside: Record<string, string> = {
  MAIL_API_URL: 'MAIL_API_KEY',
  MAIL_EVENTS: 'MAIL_WEBHOOK_SECRET',
  CLICKHOUSE_URL: 'CLICKHOUSE_PASSWORD',
  GITHUB_CLIENT_ID: 'GITHUB_CLIENT_SECRET',
  GOOGLE_CLIENT_ID: 'GOOGLE_CLIENT_SECRET',
  TURNSTILE_SITE_KEY: 'TURNSTILE_SECRET_KEY',
}

/** Returns the required secrets of a function, and the secrets of its optional features. */
export function secretsOf({ secrets, vars }: Pick<FunctionEntry, 'secrets' | 'vars'>): string[] {
  return [...secrets, ...Object.keys(vars).flatMap((name) => secretBeside[name] ?? [])]
}

/**
 * Compares an operator's settings with the deployed state. `functions` are entries of the operator's configuration, and `edge` is
 * their state at Cloudflare.
 */
export function planOf(operator: Operator, functions: FunctionEntry[], edge: Edge, allNames: string[]): Plan {
  const { environment, host, given } = operator
  const place = given['DATABASE_REGION']
    ? `near ${given['DATABASE_REGION']}`
    : 'near the visitors, because DATABASE_REGION is not set'
  const lines = [
    `${environment}: version ${given['VERSION'] ?? 'unknown'} on ${host} in the zone ${operator.domain}, running ${place}`,
  ]
  for (const [kind, variable] of [
    ['traces', 'OTEL_TRACES_DESTINATION'],
    ['logs', 'OTEL_LOGS_DESTINATION'],
  ] as const)
    if (given[variable]) lines.push(`OTLP destination of ${kind}: ${given[variable]}`)
  const problems = new Set<string>()
  let changesTriggers = false
  for (const { name, vars, crons, rateLimits, routes, workerName: worker, ...entry } of functions) {
    const there = edge.workers[worker]
    changesTriggers ||= !there
    lines.push(`${there ? '~' : '+'} ${worker}${there ? '' : '  new'}`)
    const say = (kind: string, what: string, change: string) =>
      lines.push(`    ${`${kind.padEnd(7)}${what}`.padEnd(32)} ${change}`.trimEnd())

    const values: Record<string, string> = {}
    for (const [variable, fallback] of Object.entries(vars)) {
      const before = there?.vars[variable]
      const after = given[variable] ?? (fallback || before)
      values[variable] = after ?? ''
      if (after === undefined) say('var', variable, 'none')
      else if (before === undefined) say('var', variable, `set to ${JSON.stringify(after)}`)
      else if (before !== after) say('var', variable, `${JSON.stringify(before)} -> ${JSON.stringify(after)}`)
      else
        say('var', variable, given[variable] === undefined && !fallback ? `kept: ${JSON.stringify(after)}` : 'the same')
      if (!after && !optionalVariables.has(variable)) {
        problems.add(`${name} needs a value of ${variable}. Set it in the environment.`)
      }
    }
    for (const secret of secretsOf({ secrets: entry.secrets, vars })) {
      const isThere = there?.secrets.includes(secret) ?? false
      if (given[secret]) say('secret', secret, isThere ? 'replaced' : 'set')
      else say('secret', secret, isThere ? 'kept' : 'none')
      values[secret] = given[secret] || isThere ? 'there' : ''
      if (!values[secret] && entry.secrets.includes(secret)) {
        problems.add(`${name} needs the secret ${secret}. Set it in the environment.`)
      }
    }
    for (const [variable, secret] of Object.entries(secretBeside)) {
      if (values[variable] && !values[secret]) {
        problems.add(`${name} has ${variable} without ${secret}. Set ${secret}, or ${variable}= to disable it.`)
      }
    }
    if (environment === production && 'MAIL_API_URL' in vars && !(values['MAIL_API_URL'] && values['MAIL_FROM'])) {
      problems.add(
        'production needs mail for invitations and forgotten passwords. Set MAIL_API_URL, MAIL_API_KEY and MAIL_FROM.',
      )
    }
    for (const pattern of routes) {
      const other = edge.routes.find((route) => route.pattern === pattern && route.script !== worker)
      if (other) {
        problems.add(
          `${pattern} is answered by another Worker, ${other.script || 'none on purpose'}. Set API_HOST to a separate host for this environment, or remove that route.`,
        )
      }
      const isThere = edge.routes.some((route) => route.pattern === pattern && route.script === worker)
      say('route', pattern, isThere ? '' : 'added')
      changesTriggers ||= !isThere
    }
    for (const file of staticPaths[name] ?? []) say('file', file, 'static')
    for (const cron of crons) say('cron', cron, there?.crons.includes(cron) ? '' : 'added')
    for (const cron of there?.crons ?? []) if (!crons.includes(cron)) say('cron', cron, 'removed')
    changesTriggers ||= crons.toSorted().join() !== (there?.crons ?? []).toSorted().join()
    for (const { name: limit, namespace_id, simple } of rateLimits) {
      say('limit', limit, `${simple.limit} in ${simple.period} s, number ${namespace_id}`)
    }
    for (const variable of ['QUEUE_URL', 'WEBHOOK_QUEUE_URL']) {
      const queue = values[variable]
      if (!queue || queue.endsWith(`-${environment}`)) continue
      problems.add(
        `${variable} names the queue ${queue.slice(queue.lastIndexOf('/') + 1)}, but the queues of ${environment} end with -${environment}. This prevents an environment from reading another's messages.`,
      )
    }
  }
  const own = new Set(allNames.map((name) => workerName(name, environment)))
  const prefix = workerName('svc-', environment)
  const isOfAnother = (name: string) => allNames.some((other) => name.endsWith(other.replace(/^svc/, '')))
  for (const name of edge.names.filter((other) => other.startsWith(prefix) && !own.has(other) && !isOfAnother(other))) {
    lines.push(
      `? ${name}  is not a function of this version. It stays deployed. To delete it: npx wrangler delete --name ${name}`,
    )
  }
  return { lines, changesTriggers, problems: [...problems] }
}
