import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll } from 'vitest'

interface Binding {
  type: string
  name: string
  text?: string
}

/** A Worker of the fake API. */
export interface StandInWorker {
  bindings: Binding[]
  crons: string[]
  /** The uploaded versions, and the deployments, newest first. */
  versions?: { id: string; number: number; metadata: { created_on: string }; annotations: Record<string, string> }[]
  deployments?: { versions: { version_id: string; percentage: number }[] }[]
}

/**
 * A fake of the part of Cloudflare's API that deployments use: one account, its zone acme.test, Workers with their
 * bindings, and routes. As documented by Cloudflare, an upload keeps bindings of the types that it names, and
 * inherits others.
 */
export async function startCloudflare() {
  const workers: Record<string, StandInWorker> = {}
  const routes: { pattern: string; script: string }[] = []
  /** Requests that change data. */
  const changes: string[] = []

  const answers: [method: string, path: RegExp, answer: (name: string, body: string) => unknown][] = [
    ['GET', /^\/zones$/, () => [{ id: 'zone', name: 'acme.test', account: { id: 'account' } }]],
    ['GET', /^\/zones\/zone\/workers\/routes$/, () => routes],
    ['GET', /\/workers\/scripts$/, () => Object.keys(workers).map((id) => ({ id }))],
    [
      'GET',
      /\/workers\/services\/([^/]+)$/,
      (name) => workers[name] && { default_environment: { script: { last_deployed_from: 'wrangler', tags: [] } } },
    ],
    ['GET', /\/workers\/scripts\/([^/]+)\/settings$/, (name) => workers[name]],
    [
      'GET',
      /\/workers\/scripts\/([^/]+)\/secrets$/,
      (name) => workers[name]?.bindings.filter(({ type }) => type === 'secret_text') ?? [],
    ],
    ['GET', /\/workers\/scripts\/([^/]+)\/deployments$/, (name) => ({ deployments: workers[name]?.deployments ?? [] })],
    [
      'POST',
      /\/workers\/scripts\/([^/]+)\/deployments$/,
      (name, body) => {
        const { versions } = JSON.parse(body) as { versions: { version_id: string; percentage: number }[] }
        workers[name]?.deployments?.unshift({ versions })
        return { id: 'deployment' }
      },
    ],
    ['GET', /\/workers\/scripts\/([^/]+)\/versions$/, (name) => ({ items: workers[name]?.versions ?? [] })],
    [
      'GET',
      /\/workers\/scripts\/([^/]+)\/schedules$/,
      (name) => ({ schedules: workers[name]?.crons.map((cron) => ({ cron })) }),
    ],
    // The first upload is deployed immediately.
    [
      'PUT',
      /\/workers\/scripts\/([^/]+)$/,
      (name, body) => {
        const { id } = upload(name, body)
        workers[name]?.deployments?.unshift({ versions: [{ version_id: id, percentage: 100 }] })
        return { id, startup_time_ms: 1 }
      },
    ],
    // An existing Worker gets a new version, which is deployed later.
    ['POST', /\/workers\/scripts\/([^/]+)\/versions$/, upload],
    ['PUT', /\/workers\/scripts\/([^/]+)\/routes$/, (_, body) => JSON.parse(body)],
    ['GET', /\/workers\/workers\/([^/]+)$/, () => ({ subdomain: { enabled: false, previews_enabled: false } })],
  ]

  function upload(name: string, body: string) {
    const metadata = JSON.parse(/name="metadata"\r\n\r\n(.*)\r\n/.exec(body)?.[1] ?? '') as {
      bindings: Binding[]
      keep_bindings?: string[]
      annotations?: Record<string, string>
    }
    const old = workers[name]?.bindings ?? []
    const bindings = metadata.bindings.map((binding) =>
      binding.type === 'inherit' ? (old.find((other) => other.name === binding.name) ?? binding) : binding,
    )
    const isNew = (other: Binding) => !bindings.some((binding) => binding.name === other.name)
    const inherited = old.filter((other) => metadata.keep_bindings?.includes(other.type) && isNew(other))
    const { versions = [], deployments = [], crons = [] } = workers[name] ?? {}
    const number = versions.length + 1
    const id = `${name}-${number}`
    const created = { created_on: new Date().toISOString() }
    versions.unshift({ id, number, metadata: created, annotations: metadata.annotations ?? {} })
    workers[name] = { crons, versions, deployments, bindings: [...bindings, ...inherited] }
    return { id, startup_time_ms: 1, metadata: { has_preview: false }, resources: { script: {} } }
  }

  const server = createServer((request, response) => {
    void answer(request, response)
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '' } = request
    const { pathname } = new URL(request.url ?? '', 'http://cloudflare')
    const body = await text(request)
    const refuse = (status: number, code: number, message: string) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ success: false, errors: [{ code, message }], messages: [], result: null }))
    }
    if (request.headers.authorization !== 'Bearer token') return refuse(403, 10_000, 'Authentication error')
    if (method !== 'GET') changes.push(`${method} ${pathname}`)
    const found = answers.find(([verb, path]) => verb === method && path.test(pathname))
    const result = found ? found[2](found[1].exec(pathname)?.[1] ?? '', body) : {}
    if (result === undefined) return refuse(404, 10_090, 'This Worker does not exist')
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ success: true, errors: [], messages: [], result }))
  }

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  afterAll(() => server.close())
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    workers,
    routes,
    changes,
    environment: {
      CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}`,
      CLOUDFLARE_API_TOKEN: 'token',
      CLOUDFLARE_ACCOUNT_ID: 'account',
    },
  }
}
