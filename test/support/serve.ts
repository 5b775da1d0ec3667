import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, expect, vi } from 'vitest'
import { bareEnvironment } from './spawned.ts'

export interface Mail {
  to: string[]
  subject: string
  text: string
  html?: string
  headers?: Record<string, string>
}

export interface MailApi {
  url: string
  /** What was taken. */
  mails: Mail[]
  /** The idempotency key of every mail that came, also of those that were not taken. */
  keys: (string | undefined)[]
  /** What is answered. */
  status: number
  /** The newest mail to an address. */
  to(address: string): Mail | undefined
}

/** Stands in for the mail API, at the edge of what is the service's. */
export async function startMailApi(): Promise<MailApi> {
  const api: MailApi = {
    url: '',
    mails: [],
    keys: [],
    status: 200,
    to: (address) => api.mails.findLast(({ to }) => to[0] === address),
  }
  const server = createServer((request, response) => {
    void (async () => {
      const mail = (await json(request)) as Mail
      const key = request.headers['idempotency-key']
      api.keys.push(typeof key === 'string' ? key : undefined)
      if (api.status === 200) api.mails.push(mail)
      response.writeHead(api.status).end('{}')
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  afterAll(() => void server.close())
  const { port } = server.address() as AddressInfo
  api.url = `http://127.0.0.1:${port}/emails`
  return api
}

export interface Served {
  process: ChildProcess
  baseUrl: string
  /** The lines that it logged, all of them JSON. */
  logs(): Record<string, unknown>[]
  /** What it wrote on standard error, where nothing of a running service goes. */
  errors(): string
  /** Sends the signal and resolves with the code that it ended with. */
  end(signal: NodeJS.Signals): Promise<number | null>
}

/** What a service needs on a machine without a proxy. */
export const settingsOf = (port: number, mailApi: MailApi): Record<string, string> => ({
  BASE_URL: `http://127.0.0.1:${port}`,
  PORT: String(port),
  MAIL_API_URL: mailApi.url,
  MAIL_API_KEY: 'key',
  MAIL_FROM: 'Partners <partners@example.com>',
})

/** What is given in place of the secrets that one with a database of its own makes. */
export const givenSecrets: Record<string, string> = Object.fromEntries(
  ['AUTH_SECRET', 'EMAIL_HASH_KEY', 'PROXY_SECRET', 'WEBHOOK_SECRET', 'METRICS_TOKEN'].map((name) => [
    name,
    `${name.toLowerCase()}-${'x'.repeat(24)}`,
  ]),
)

/** `npm run serve` with nothing of this process's environment but what is given. */
export async function startServe(
  environment: Record<string, string>,
  args: string[] = [],
  cwd: string = process.cwd(),
): Promise<Served> {
  const child = spawn(process.execPath, ['lib/serve/serve.ts', ...args], {
    cwd,
    env: { ...bareEnvironment, ...environment },
  })
  let output = ''
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  const ended = once(child, 'exit')
  afterAll(() => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  })
  await vi.waitFor(
    () => {
      if (child.exitCode !== null) return
      expect(output + errors).toContain('"serving"')
    },
    { timeout: 120_000, interval: 100 },
  )
  expect(`${child.exitCode} ${errors}`).toBe('null ')
  return {
    process: child,
    baseUrl: environment['BASE_URL'] ?? '',
    logs: () =>
      output
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    errors: () => errors,
    async end(signal) {
      child.kill(signal)
      const [code] = (await ended) as [number | null]
      return code
    },
  }
}
