import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import * as z from 'zod/mini'
import { OperatorError } from '../operator-error.ts'

/** A deployed Worker. */
export interface DeployedWorker {
  vars: Record<string, string>
  /** Only the names of the secrets, because Cloudflare never returns their values. */
  secrets: string[]
  crons: string[]
}

/** The current state at Cloudflare. */
export interface Edge {
  /** All Workers of the account, including unrelated ones. */
  names: string[]
  /** The existing Workers among the requested ones. */
  workers: Record<string, DeployedWorker>
  /** The Worker for each route pattern in the zone. */
  routes: { pattern: string; script: string }[]
}

const answer = z.object({
  success: z.boolean(),
  errors: z.optional(z.array(z.object({ message: z.string() }))),
  result: z.optional(z.unknown()),
})
const zones = z.array(z.object({ id: z.string(), account: z.object({ id: z.string() }) }))
export const scripts = z.array(z.object({ id: z.string() }))
const routes = z.array(z.object({ pattern: z.string(), script: z.optional(z.string()) }))
const settings = z.object({
  bindings: z.optional(z.array(z.object({ type: z.string(), name: z.string(), text: z.optional(z.string()) }))),
})
const schedules = z.object({ schedules: z.optional(z.array(z.object({ cron: z.string() }))) })

/** An account without Workers. */
export const emptyEdge: Edge = { names: [], workers: {}, routes: [] }

type Environment = Record<string, string | undefined>

/** Reads from Cloudflare's API, or posts a body. Throws if Cloudflare refuses, with a remedy. */
export type AskCloudflare = <Schema extends z.ZodMiniType>(
  path: string,
  schema: Schema,
  body?: object,
) => Promise<z.infer<Schema>>

/** `CLOUDFLARE_API_BASE_URL` chooses another address, for wrangler too. */
export function openCloudflare(token: string, environment: Environment): AskCloudflare {
  const base = environment['CLOUDFLARE_API_BASE_URL'] ?? 'https://api.cloudflare.com/client/v4'
  return async (path, schema, body) => {
    const response = await fetch(`${base}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    }).catch((error: unknown) => {
      throw new OperatorError(`Cloudflare did not respond: ${String(error)}. Try again.`)
    })
    const { success, errors, result } = answer.parse(await response.json().catch(() => ({ success: false })))
    if (success) return schema.parse(result)
    const why = errors?.map(({ message }) => message).join('; ') || `status ${response.status}`
    throw new OperatorError(
      `Cloudflare refused ${body ? 'to change' : 'to read'} ${path}: ${why}. The token needs the permissions "Workers Scripts: Edit" and, in the zone, "Workers Routes: Edit". Log in again with \`npx wrangler login\`, or set CLOUDFLARE_API_TOKEN.`,
    )
  }
}

/** Returns the zone's id, and the path of the account's Workers. */
export async function readZone(ask: AskCloudflare, domain: string, environment: Environment) {
  const [zone] = await ask(`/zones?name=${encodeURIComponent(domain)}`, zones)
  if (!zone) {
    throw new OperatorError(
      `You have no access to a zone ${domain} at Cloudflare. Add the domain there, or correct DOMAIN.`,
    )
  }
  return {
    zone: zone.id,
    account: `/accounts/${environment['CLOUDFLARE_ACCOUNT_ID'] ?? zone.account.id}/workers/scripts`,
  }
}

/** Reads the deployed state from Cloudflare. */
export async function readEdge(
  token: string,
  domain: string,
  names: string[],
  environment: Environment = process.env,
): Promise<Edge> {
  const ask = openCloudflare(token, environment)
  const { zone, account } = await readZone(ask, domain, environment)
  const [all, zoneRoutes] = await Promise.all([ask(account, scripts), ask(`/zones/${zone}/workers/routes`, routes)])
  const known = all.map(({ id }) => id)
  const workers = await Promise.all(
    names
      .filter((name) => known.includes(name))
      .map(async (name): Promise<[string, DeployedWorker]> => {
        const [{ bindings = [] }, { schedules: crons = [] }] = await Promise.all([
          ask(`${account}/${name}/settings`, settings),
          ask(`${account}/${name}/schedules`, schedules),
        ])
        const ofType = (type: string) => bindings.filter((binding) => binding.type === type)
        return [
          name,
          {
            vars: Object.fromEntries(ofType('plain_text').map((binding) => [binding.name, binding.text ?? ''])),
            secrets: ofType('secret_text').map((binding) => binding.name),
            crons: crons.map(({ cron }) => cron),
          },
        ]
      }),
  )
  return {
    names: known,
    workers: Object.fromEntries(workers),
    routes: zoneRoutes.map(({ pattern, script = '' }) => ({ pattern, script })),
  }
}

/** Returns `CLOUDFLARE_API_TOKEN`, or the token from `wrangler login`, or undefined. */
export async function cloudflareToken(environment: Record<string, string | undefined>): Promise<string | undefined> {
  if (environment['CLOUDFLARE_API_TOKEN']) return environment['CLOUDFLARE_API_TOKEN']
  try {
    const { stdout } = await promisify(execFile)('wrangler', ['auth', 'token', '--json'])
    return z.object({ token: z.string() }).parse(JSON.parse(stdout)).token
  } catch {
    return undefined
  }
}
