import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll } from 'vitest'
import { type Served, type Socket, spawnServe } from './serve-process.ts'
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
  /** The accepted mails. */
  mails: Mail[]
  /** The idempotency key of every mail, including refused ones. */
  keys: (string | undefined)[]
  /** The status of the answers. */
  status: number
  /** The latest mail to an address. */
  to(address: string): Mail | undefined
}

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

/** The settings of a service without a proxy. */
export const settingsOf = (port: number, mailApi: MailApi): Record<string, string> => ({
  BASE_URL: `http://127.0.0.1:${port}`,
  PORT: String(port),
  TRUST_PROXY: '127.0.0.1',
  MAIL_API_URL: mailApi.url,
  MAIL_API_KEY: 'key',
  MAIL_FROM: 'Partners <partners@example.com>',
})

/** Starts `npm run serve` with only the given environment. The process ends with the test file at the latest. */
export async function startServe(
  environment: Record<string, string>,
  args: string[] = [],
  cwd: string = process.cwd(),
  socket?: Socket,
): Promise<Served> {
  const served = await spawnServe({ ...bareEnvironment, ...environment }, args, cwd, socket)
  afterAll(() => {
    const { exitCode, signalCode } = served.process
    if (exitCode === null && signalCode === null) served.process.kill('SIGKILL')
  })
  return served
}
