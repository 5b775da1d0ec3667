import { AsyncLocalStorage } from 'node:async_hooks'
import { format } from 'node:util'
import { type MessagePort, parentPort, receiveMessageOnPort } from 'node:worker_threads'
import type { Postgres } from '../../lib/database.ts'
import type { FunctionEntry } from '../../lib/commands/wrangler-file.ts'
import { type Context, loadFunctions } from '../../lib/serve/functions.ts'
import { openPool } from '../../lib/commands/postgres.ts'
import { openRateLimits } from '../../lib/serve/rate-limits.ts'
import { startServer } from '../../lib/serve/server.ts'
import { readSource } from '../../lib/serve/sources.ts'
import { readTrusted } from '../../lib/serve/settings.ts'
import { shareClicks } from '../../lib/serve/shared-clicks.ts'
import { openVisitorBudget } from '../../lib/serve/visitor-budget.ts'
import { hashPasswordsCheaply } from './cheap-passwords.ts'
import { meter, reuseConnections, type SharedFault } from './meter.ts'

/** The service that the thread runs for a test file. */
export interface ThreadOptions {
  functions: FunctionEntry[]
  databaseUrl: string
  connections: number
  environment: Record<string, string>
  common: Record<string, string>
  baseUrl: string
  port: number
}

/** The test's requests. The thread answers each with `Done`. */
export type Order = { id: number } & (
  | { what: 'scheduled'; name: string; cron: string | undefined }
  | { what: 'waiting' }
  | { what: 'stop' }
)
export interface Done {
  id: number
  result?: unknown
  error?: string
}

/** Reports that the thread sends on its own. */
export type Seen =
  | { request: string; statements: number }
  | { spent: number }
  | { log: string }
  | { answered: Answered }

/** An answer of the service. `rounds` is the number of its database requests, but requests at the same time count once. */
export interface Answered {
  method: string
  path: string
  status: number
  rounds: number
}

/** The messages about faults that the thread receives. */
export type OfFaults = { inject: SharedFault } | { spent: number } | { clear: true }

export interface Ports {
  orders: MessagePort
  /** Contains {@link OfFaults}. The thread reads the message just before each database request. */
  faults: MessagePort
  seen: MessagePort
}

/** Posts a message to the test. It doesn't transfer objects. */
const report = (port: MessagePort, message: Seen | Done) => port.postMessage(message, [])

/** The location of this machine's requests, as in lib/local/workers.ts. */
const place = { country: 'US', region: 'California', city: 'San Francisco' }

hashPasswordsCheaply()

/** The thread runs one service at a time, so all logs belong to it. */
let seenBy: MessagePort | undefined
for (const level of ['log', 'info', 'warn', 'error'] as const) {
  console[level] = (...values: unknown[]) => {
    if (seenBy) report(seenBy, { log: format(...values) })
  }
}

/** Whether the answer that caused the work hasn't been sent yet, and the rounds of its completed database requests. */
const answering = new AsyncLocalStorage<{ isOver: boolean; rounds: number }>()

/**
 * The database that counts requests for a test. The counts don't include work after an answer, because a queue consumer does that work on
 * Cloudflare.
 */
function countedPostgres(pool: Postgres, { faults, seen }: Ports): Postgres {
  const metered = meter(pool, {
    beforeRequest() {
      for (let reported = receiveMessageOnPort(faults); reported; reported = receiveMessageOnPort(faults)) {
        const { message }: { message: OfFaults } = reported
        if ('inject' in message) metered.inject(message.inject)
        else if ('spent' in message) metered.spend(message.spent)
        else metered.clearFaults()
      }
    },
    onRequest: (request, statements) => report(seen, { request, statements }),
    onFault: (id) => report(seen, { spent: id }),
  })
  return {
    async run(...asked) {
      const state = answering.getStore()
      if (!state || state.isOver) return await (state ? pool : metered).run(...asked)
      const round = state.rounds + 1
      try {
        return await metered.run(...asked)
      } finally {
        state.rounds = Math.max(state.rounds, round)
      }
    },
  }
}

async function open(options: ThreadOptions, ports: Ports): Promise<void> {
  const { functions, databaseUrl, connections, environment, common, baseUrl, port } = options
  const { orders } = ports
  seenBy = ports.seen
  const pool = shareClicks(openPool(databaseUrl, connections))
  const budget = openVisitorBudget()
  const loaded = {
    read: readSource,
    functions,
    environment,
    common,
    rateLimits: openRateLimits(),
    budget,
    postgres: countedPostgres(reuseConnections(pool), ports),
  }
  const service = await loadFunctions(loaded)
  const answer = (request: Request, context: Context) => {
    const state = { isOver: false, rounds: 0 }
    return answering.run(state, async () => {
      const response = await service.answer(request, context).finally(() => (state.isOver = true))
      const { method, url } = request
      const answered = { method, path: new URL(url).pathname, status: response.status, rounds: state.rounds }
      report(ports.seen, { answered })
      return response
    })
  }
  const { trusted } = readTrusted('127.0.0.1')
  const server = await startServer({
    service: { answer, isProgramHost: (host) => service.isProgramHost(host) },
    budget,
    baseUrl,
    host: '127.0.0.1',
    port,
    trusted,
    placeOf: () => place,
    isBlocked: () => false,
  })

  async function follow(order: Order): Promise<unknown> {
    if (order.what === 'waiting') return service.channels.waiting()
    if (order.what === 'scheduled') await service.scheduled(order.name, order.cron)
    else {
      await server.stop()
      service.channels.stop()
      await pool.end()
    }
    return undefined
  }
  orders.on('message', (order: Order) => void settle(order.id, follow(order), orders))
}

async function settle(id: number, work: Promise<unknown>, orders: MessagePort): Promise<void> {
  const done: Done = await work.then(
    (result) => ({ id, result }),
    (error: unknown) => ({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
  )
  report(orders, done)
}

parentPort?.on('message', ({ options, ports }: { options: ThreadOptions; ports: Ports }) => {
  void settle(0, open(options, ports), ports.orders)
})
