import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { loggedPart } from '../../lib/api/app.ts'
import { Database } from '../../lib/database.ts'
import type { Secrets } from '../../lib/local/environment.ts'
import { type Addresses, localEnvironment, localOnlyEnvironment } from '../../lib/local/environment.ts'
import { startNeonEndpoint } from '../../lib/local/neon.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import { startQueue } from '../../lib/local/queue.ts'
import type { FunctionEntry } from '../../lib/commands/wrangler-file.ts'
import { bundleFunctions, startWorkers } from '../../lib/local/workers.ts'
import { loadFunctions } from '../../lib/serve/functions.ts'
import { readSource } from '../../lib/serve/sources.ts'
import { logAsJson } from '../../lib/serve/log.ts'
import { openPool } from '../../lib/commands/postgres.ts'
import { shareClicks } from '../../lib/serve/shared-clicks.ts'
import { openRateLimits } from '../../lib/serve/rate-limits.ts'
import { startServer } from '../../lib/serve/server.ts'
import { readTrusted } from '../../lib/serve/settings.ts'
import { openVisitorBudget } from '../../lib/serve/visitor-budget.ts'
import { readTestFunctions } from '../support/functions.ts'
import { bareServer } from './bare.ts'

// Runs a part of the service in its own process, so that its CPU time can be measured separately. It ends with its
// parent.

interface Options {
  database: { DATABASE_URL: string; NEON_ENDPOINT: string; AUTH_SECRET: string }
  secrets: Secrets
  /** The program that the bare server serves, with its credentials. */
  sandbox: { programId: number; apiKey: string; dashboardToken: string }
  /** Whether the work after the answer to a refund is skipped. */
  sendsNothing?: boolean
}

/** An empty function, which shows the upper limit of workerd. */
const emptyScript = `export default { fetch() { return Response.json({ success: true }) } }`
const ownEntry = (name: string, more: Partial<FunctionEntry> = {}): FunctionEntry => ({
  name,
  workerName: name,
  main: '',
  routes: [],
  paths: [`/${name}`],
  crons: [],
  vars: {},
  secrets: [],
  rateLimits: [],
  services: {},
  compatibilityDate: '2026-11-01',
  compatibilityFlags: [],
  ...more,
})
const ownEntries = [
  ownEntry('empty'),
  ownEntry('bare-worker', { main: 'test/bench/bare-worker.ts', secrets: ['DATABASE_URL'] }),
  ownEntry('logged-click', {
    main: 'functions/track-click.ts',
    secrets: ['DATABASE_URL', 'PROXY_SECRET'],
    vars: { LOGGED_PART: '1' },
  }),
]

const [options] = (await once(process, 'message')) as [Options]
const parts = { neon: startNeon, workers: startFunctions, served: startServed, bare: startBare }
await parts[process.argv[2] as keyof typeof parts]()

async function startNeon(): Promise<void> {
  const endpoint = await startNeonEndpoint()
  process.send?.({ url: endpoint.url, control: endpoint.control })
  await once(process, 'disconnect')
  await endpoint.close()
}

/** The parent has ended, so nobody is reading the answer. */
function report(message: object): void {
  if (process.connected) process.send?.(message)
}

async function startFunctions(): Promise<void> {
  const queue = await startQueue()
  let queueRequests = 0
  subscribe('http.server.request.start', (message) => {
    const { request } = message as { request: IncomingMessage }
    if (String(request.headers['x-amz-target']).startsWith('AmazonSQS.')) queueRequests += 1
  })
  const port = await freePort()
  const functions = [...readTestFunctions().map((entry) => ({ ...entry, rateLimits: [] })), ...ownEntries]
  const addresses: Addresses = {
    baseUrl: `http://127.0.0.1:${port}`,
    databaseUrl: options.database.DATABASE_URL,
    neonEndpoint: options.database.NEON_ENDPOINT,
    awsEndpoint: queue.endpoint,
    queueUrl: queue.url,
    deadLetterQueueUrl: queue.deadLetterUrl,
    webhookQueueUrl: queue.webhookUrl,
    stripeApiUrl: undefined,
  }
  const modules = await bundleFunctions(functions.filter(({ main }) => main !== ''))
  const start = () =>
    startWorkers({
      functions,
      modules: modules.set('empty', [{ path: 'empty.js', contents: emptyScript }]),
      environment: localEnvironment(addresses, options.secrets),
      common: { ...localOnlyEnvironment(addresses), LOGGED_PART: String(loggedPart) },
      port,
    })
  let workers = await start()
  const answer = async (message: { scheduled?: string; restart?: true }) => {
    if (message.scheduled) await workers.scheduled(message.scheduled)
    if (message.restart) {
      await workers.close()
      workers = await start()
    }
  }
  process.on('message', (message: { scheduled?: string }) => {
    answer(message).then(
      () => report({ queueRequests }),
      (error: unknown) => report({ error: String(error) }),
    )
  })
  process.send?.({ baseUrl: workers.baseUrl })
  await once(process, 'disconnect')
  await workers.close()
  await queue.close()
}

/** Runs the real `npm run serve` without schedules. Its rate limits count calls but never refuse them. */
async function startServed(): Promise<void> {
  const postgres = shareClicks(openPool(options.database.DATABASE_URL))
  const limits = openRateLimits()
  const baseUrl = 'http://127.0.0.1'
  const addresses: Addresses = {
    baseUrl,
    databaseUrl: options.database.DATABASE_URL,
    neonEndpoint: undefined,
    awsEndpoint: undefined,
    queueUrl: '',
    deadLetterQueueUrl: '',
    webhookQueueUrl: '',
    stripeApiUrl: undefined,
  }
  const budget = openVisitorBudget()
  const service = await loadFunctions({
    read: readSource,
    environment: localEnvironment(addresses, options.secrets),
    postgres,
    rateLimits: { ...limits, limiter: (name, simple) => limits.limiter(name, { ...simple, limit: Infinity }) },
    budget,
  })
  if (options.sendsNothing) service.channels.send = (messages) => Promise.resolve(messages)
  const { trusted } = readTrusted('127.0.0.1')
  logAsJson()
  const server = await startServer({
    service,
    budget,
    baseUrl,
    host: '127.0.0.1',
    port: 0,
    trusted,
    placeOf: () => ({}),
    isBlocked: () => false,
  })
  process.send?.({ baseUrl: `http://127.0.0.1:${server.port}` })
  await once(process, 'disconnect')
  await server.stop()
  service.channels.stop()
  await postgres.end()
}

async function startBare(): Promise<void> {
  const { database, sandbox } = options
  const postgres = openPool(database.DATABASE_URL)
  const db = new Database({ DATABASE_URL: database.DATABASE_URL, POSTGRES: postgres })
  const server = bareServer({ db, env: database, ...sandbox })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  process.send?.({ baseUrl: `http://127.0.0.1:${port}` })
  await once(process, 'disconnect')
  server.closeAllConnections()
  server.close()
  await postgres.end()
}
process.exit()
