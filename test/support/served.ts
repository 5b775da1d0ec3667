import { inspect } from 'node:util'
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { bareEnvironment } from './spawned.ts'
import type { Meter, MeteredPostgres } from './meter.ts'
import type { Answered, Done, OfFaults, Order, Ports, Seen, ThreadOptions } from './serve-thread.ts'

/** The functions, run as in lib/serve, for one test file. */
export interface ServedFunctions {
  scheduled(name: string, cron?: string): Promise<void>
  /** The number of programs with webhooks to send. */
  waitingWebhooks(): Promise<number>
  meter: Meter
  /** The functions' `console` output. */
  logs(): string[]
  answers(): Answered[]
  close(): Promise<void>
}

/** The thread, and the reason why it ended. */
interface Thread {
  worker: Worker
  death: Promise<Error>
}

let thread: Thread | undefined

/**
 * A thread that resembles Node's process in `npm run serve`: without vitest, its transforms and its variables. It runs
 * one service after another, because loading the functions takes longer than most tests. If it dies, the next service
 * gets a new thread.
 */
function threadOfThisProcess(): Thread {
  thread ??= startThread()
  return thread
}

export function startThread(): Thread {
  const worker = new Worker(new URL('./serve-thread.ts', import.meta.url), {
    execArgv: [],
    env: { ...bareEnvironment, TZ: 'UTC', NODE_ENV: 'production' },
  })
  worker.unref()
  const death = Promise.withResolvers<Error>()
  const die = (cause: unknown) => {
    if (thread?.worker === worker) thread = undefined
    death.resolve(new Error(`The thread of the functions died: ${inspect(cause)}`, { cause }))
  }
  worker.once('error', die).once('exit', (code) => die(`it ended with ${code}`))
  return { worker, death: death.promise }
}

/**
 * `own` is the test's own connection. Its requests count too, and a fault can affect a request from either connection. If the thread
 * dies, every pending call rejects with the cause.
 */
export async function serveFunctions(
  options: ThreadOptions,
  own: MeteredPostgres,
  { worker, death }: Thread = threadOfThisProcess(),
): Promise<ServedFunctions> {
  const [orders, faults, seen] = [new MessageChannel(), new MessageChannel(), new MessageChannel()]
  const ports: Ports = { orders: orders.port2, faults: faults.port2, seen: seen.port2 }
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let [lastId, lastFault] = [0, 0]

  orders.port1.on('message', ({ id, result, error }: Done) => {
    if (error === undefined) waiting.get(id)?.resolve(result)
    else waiting.get(id)?.reject(new Error(error))
    waiting.delete(id)
  })
  const answerTo = async (id: number): Promise<unknown> => {
    const answer = Promise.withResolvers<unknown>()
    waiting.set(id, answer)
    return await Promise.race([answer.promise, death.then((error) => Promise.reject(error))])
  }
  type Asked<One> = One extends unknown ? Omit<One, 'id'> : never
  const ask = async (order: Asked<Order>): Promise<unknown> => {
    lastId += 1
    const id = lastId
    orders.port1.postMessage({ id, ...order })
    return await answerTo(id)
  }

  const counted = { requests: 0, statements: 0, recent: [] as string[] }
  const logs: string[] = []
  const answers: Answered[] = []
  // Reads everything that the thread reported before an answer.
  const look = () => {
    for (let reported = receiveMessageOnPort(seen.port1); reported; reported = receiveMessageOnPort(seen.port1)) {
      const { message }: { message: Seen } = reported
      if ('log' in message) logs.push(message.log)
      else if ('answered' in message) answers.push(message.answered)
      else if ('spent' in message) own.spend(message.spent)
      else {
        counted.requests += 1
        counted.statements += message.statements
        counted.recent = [...counted.recent.slice(-7), message.request]
      }
    }
    return counted
  }

  own.reported = {
    beforeRequest: look,
    onFault: (spent) => faults.port1.postMessage({ spent } satisfies OfFaults),
  }
  worker.postMessage({ options, ports }, Object.values(ports))
  await answerTo(0)
  return {
    scheduled: async (name, cron) => void (await ask({ what: 'scheduled', name, cron })),
    waitingWebhooks: async () => Number(await ask({ what: 'waiting' })),
    meter: {
      get requests() {
        return own.requests + look().requests
      },
      get statements() {
        return own.statements + look().statements
      },
      get recent() {
        return [...own.recent, ...look().recent]
      },
      inject(fault) {
        lastFault += 1
        const inject = { ...fault, id: lastFault }
        own.inject(inject)
        faults.port1.postMessage({ inject } satisfies OfFaults)
      },
      clearFaults() {
        own.clearFaults()
        faults.port1.postMessage({ clear: true } satisfies OfFaults)
      },
    },
    logs() {
      look()
      return logs
    },
    answers() {
      look()
      return answers
    },
    async close() {
      try {
        await ask({ what: 'stop' })
      } finally {
        for (const { port1 } of [orders, faults, seen]) port1.close()
      }
    },
  }
}
