import { once } from 'node:events'
import { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'

/** A statement in the wire protocol. Every value is text or null. */
export interface Statement {
  query: string
  params: (string | null)[]
}

/** One client call: a single statement, or several in one transaction. */
export type Call = Statement | Statement[]

const sync = Buffer.from([0x53, 0, 0, 0, 4])
const execute = Buffer.from([0x45, 0, 0, 0, 9, 0, 0, 0, 0, 0])
const begin: Statement = { query: 'begin isolation level read committed', params: [] }
const commit: Statement = { query: 'commit', params: [] }

/**
 * A Postgres connection with the least possible client work, so that the benchmark measures the database. `pg` signs
 * in. After that, the client only writes bytes, and reads errors and the ends of answers. A call takes one write and
 * one wait, including the begin and commit of a transaction, as in pgbench's pipeline mode.
 */
export class Connection implements Carrier<Call> {
  readonly #socket: Socket
  readonly #client: Client
  #rest: Buffer = Buffer.alloc(0)
  #error: string | undefined
  #settle: ((error: string | undefined) => void) | undefined

  private constructor(client: Client, socket: Socket) {
    this.#client = client
    this.#socket = socket
    // If the connection breaks, the current call rejects, so this event doesn't need to be handled.
    client.on('error', () => {})
    socket.removeAllListeners('data')
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
  }

  static async open(connectionString: string): Promise<Connection> {
    const socket = new Socket()
    const client = new Client({ connectionString, stream: () => socket })
    await client.connect()
    return new Connection(client, socket)
  }

  /** Sends a call and calls `settle` at its end, with Postgres' error if there is one. */
  send(call: Call, settle: (error: string | undefined) => void): void {
    this.#settle = settle
    const statements = Array.isArray(call) ? [begin, ...call, commit] : [call]
    this.#socket.write(Buffer.concat([...statements.flatMap(encode), sync]))
  }

  async close(): Promise<void> {
    const closed = once(this.#socket, 'close')
    this.#socket.end(Buffer.from([0x58, 0, 0, 0, 4]))
    await closed
    this.#client.removeAllListeners()
  }

  #read(chunk: Buffer): void {
    const data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    while (at + 5 <= data.length && at + 1 + data.readInt32BE(at + 1) <= data.length) {
      const end = at + 1 + data.readInt32BE(at + 1)
      if (data[at] === 0x45) this.#error ??= data.toString('utf8', at + 5, end).replaceAll('\0', ' ')
      if (data[at] === 0x5a) {
        const settle = this.#settle
        const error = this.#error
        this.#settle = undefined
        this.#error = undefined
        settle?.(error)
      }
      at = end
    }
    this.#rest = data.subarray(at)
  }
}

/** An unnamed statement, as Neon's proxy sends it. Postgres parses and plans it in each call. */
function encode({ query, params }: Statement): Buffer[] {
  const parse = Buffer.from(`\0${query}\0\0\0`)
  return [header(0x50, parse.length), parse, bindMessage(params), execute]
}

function bindMessage(params: (string | null)[]): Buffer {
  const size = params.reduce((sum, value) => sum + 4 + (value === null ? 0 : Buffer.byteLength(value)), 0)
  const body = Buffer.allocUnsafe(8 + size)
  let at = body.write('\0\0', 0, 'latin1')
  at = body.writeInt16BE(0, at)
  at = body.writeInt16BE(params.length, at)
  for (const value of params) {
    at = body.writeInt32BE(value === null ? -1 : Buffer.byteLength(value), at)
    if (value !== null) at += body.write(value, at)
  }
  body.writeInt16BE(0, at)
  return Buffer.concat([header(0x42, body.length), body])
}

function header(type: number, length: number): Buffer {
  const message = Buffer.alloc(5)
  message[0] = type
  message.writeInt32BE(length + 4, 1)
  return message
}

export interface Load {
  calls: number
  seconds: number
  perSecond: number
  p50_ms: number
  p99_ms: number
}

/** Sends calls of one kind to a server, one at a time. */
export interface Carrier<Item> {
  /** Sends a call and calls `settle` at its end, with the error if there is one. */
  send(call: Item, settle: (error: string | undefined) => void): void
}

const unanswered_ms = 30_000

/**
 * Each carrier makes one call after another until `calls` or `seconds` run out. Any error ends the benchmark, because
 * failed calls make the figure worthless.
 */
export async function drive<Item>(carriers: Carrier<Item>[], calls: Iterable<Item>, seconds = Infinity): Promise<Load> {
  const latencies: number[] = []
  const waiting = calls[Symbol.iterator]()
  const started = performance.now()
  const until = started + seconds * 1000
  await Promise.all(
    carriers.map((carrier) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      // There is one timer per carrier, because a timer per call would cost more than the call.
      let last = performance.now()
      const watch = setInterval(() => {
        if (performance.now() - last > unanswered_ms) reject(new Error('A call got no answer within 30 seconds.'))
      }, 1000)
      const step = () => {
        const sent = performance.now()
        last = sent
        const next = sent < until ? waiting.next() : undefined
        if (!next || next.done) return resolve()
        carrier.send(next.value, (error) => {
          if (error !== undefined) return reject(new Error(error))
          latencies.push(performance.now() - sent)
          step()
        })
      }
      step()
      return promise.finally(() => clearInterval(watch))
    }),
  )
  const elapsed = (performance.now() - started) / 1000
  return {
    calls: latencies.length,
    seconds: elapsed,
    perSecond: latencies.length / elapsed,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
  }
}

export function quantile(values: number[], q: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * q)] ?? NaN
}

/** One of the subjects that are compared. */
export interface Side<Item> {
  name: string
  carriers: Carrier<Item>[]
  /** Creates the next `count` calls before the clock starts. */
  calls: (count: number) => Promise<Item[]> | Item[]
}

export interface Measured {
  loads: Load[]
  /** CPU time per call of each measured process, by round, and the medians. */
  rounds_us: Record<string, number[]>
  cpu_us: Record<string, number>
}

/**
 * Measures the sides in turn. Every round measures each side, in alternating order, so that other work on the machine affects all of them.
 * The first rounds warm up the compiled code and don't count. `cpu` returns a process's CPU time so far. Work that ends within `settle_ms`
 * after the last answer still counts.
 */
export async function interleave<Item>(
  sides: Side<Item>[],
  options: {
    rounds: number
    count: number
    cpu: Record<string, () => number>
    warmUps?: number
    settle_ms?: number
  },
): Promise<Map<string, Measured>> {
  const { rounds, count, cpu, warmUps = 1, settle_ms = 0 } = options
  const measured = new Map<string, Measured>(sides.map(({ name }) => [name, { loads: [], rounds_us: {}, cpu_us: {} }]))
  const readCpu = () => Object.entries(cpu).map(([process, read]) => [process, read()] as const)
  for (let round = 0; round < warmUps + rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const calls = await side.calls(count)
      const before = Object.fromEntries(readCpu())
      const load = await drive(side.carriers, calls)
      await sleep(settle_ms)
      const result = measured.get(side.name)
      if (round < warmUps || !result) continue
      result.loads.push(load)
      for (const [process, used_us] of readCpu())
        (result.rounds_us[process] ??= []).push((used_us - (before[process] ?? NaN)) / load.calls)
    }
  }
  for (const { rounds_us, cpu_us } of measured.values())
    for (const [process, each] of Object.entries(rounds_us)) cpu_us[process] = quantile(each, 0.5)
  return measured
}

/**
 * Returns the CPU time per call of `base` divided by that of `side`, in these processes, as the median of the rounds.
 */
export function cpuRatio(
  [side, ...processes]: [Measured | undefined, ...string[]],
  [base, ...baseProcesses]: [Measured | undefined, ...string[]],
): number {
  const sum = (measured: Measured | undefined, names: string[], round: number) =>
    names.reduce((total, name) => total + (measured?.rounds_us[name]?.[round] ?? NaN), 0)
  const ratios = side?.loads.map((_, round) => sum(base, baseProcesses, round) / sum(side, processes, round))
  return quantile(ratios ?? [], 0.5)
}

/** Returns the rate of one side divided by another's, as the median of the rounds. */
export function rateRatio(side: Measured | undefined, base: Measured | undefined): number {
  return quantile(
    side?.loads.map(({ perSecond }, round) => perSecond / (base?.loads[round]?.perSecond ?? NaN)) ?? [],
    0.5,
  )
}

export function medianRate(side: Measured | undefined): number {
  return quantile(side?.loads.map(({ perSecond }) => perSecond) ?? [], 0.5)
}
