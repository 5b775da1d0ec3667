import { once } from 'node:events'
import type { Secrets } from '../../lib/local/environment.ts'
import { type Addresses, localEnvironment, localOnlyEnvironment } from '../../lib/local/environment.ts'
import { startNeonEndpoint } from '../../lib/local/neon.ts'
import { freePort } from '../../lib/local/postgres.ts'
import { startQueue } from '../../lib/local/queue.ts'
import type { FunctionEntry } from '../../lib/local/functions.ts'
import { bundleFunctions, startWorkers } from '../../lib/local/workers.ts'
import { readTestFunctions } from '../support/functions.ts'

// A part of the service in a process of its own, so that its CPU time can be told from the rest. It ends with its parent.

interface Options {
  database: { DATABASE_URL: string; NEON_ENDPOINT: string }
  secrets: Secrets
}

/** What workerd answers when a function does nothing at all: the end of what any function can reach. */
const emptyScript = `export default { fetch() { return Response.json({ success: true }) } }`
const empty: FunctionEntry = {
  name: 'empty',
  workerName: 'empty',
  main: '',
  routes: [],
  paths: ['/empty'],
  crons: [],
  vars: {},
  secrets: [],
  rateLimits: [],
  services: {},
  compatibilityDate: '2026-11-01',
  compatibilityFlags: [],
}

const [options] = (await once(process, 'message')) as [Options]
const parts = { neon: startNeon, workers: startFunctions }
await parts[process.argv[2] as keyof typeof parts]()

async function startNeon(): Promise<void> {
  const endpoint = await startNeonEndpoint()
  process.send?.({ url: endpoint.url, control: endpoint.control })
  await once(process, 'disconnect')
  await endpoint.close()
}

async function startFunctions(): Promise<void> {
  const queue = await startQueue()
  const port = await freePort()
  const functions = [...readTestFunctions().map((entry) => ({ ...entry, rateLimits: [] })), empty]
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
  const scripts = await bundleFunctions(functions.filter(({ main }) => main !== ''))
  const start = () =>
    startWorkers({
      functions,
      scripts: scripts.set('empty', emptyScript),
      environment: localEnvironment(addresses, options.secrets),
      common: localOnlyEnvironment(addresses),
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
      () => process.send?.({}),
      (error: unknown) => process.send?.({ error: String(error) }),
    )
  })
  process.send?.({
    baseUrl: workers.baseUrl,
    queue: {
      endpoint: queue.endpoint,
      url: queue.url,
      deadLetterUrl: queue.deadLetterUrl,
      webhookUrl: queue.webhookUrl,
    },
  })
  await once(process, 'disconnect')
  await workers.close()
  await queue.close()
}
process.exit()
