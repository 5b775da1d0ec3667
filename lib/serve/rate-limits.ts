import { createHash } from 'node:crypto'
import type { RateLimit } from '../api/rate-limits.ts'

/** A part of the hash of a limiter's key, and the key's counts in a window by process. */
type Shared = [limiter: string, key: string, window: number, times: number]

/** A process sends a key's count to the other processes once it reaches this share of its limit. Lower counts don't matter. */
const sharedFrom = 0.1
/** The number of counts that fit into one Postgres notification of 8,000 bytes. */
const mostPerMessage = 100
const mostKeys = 200_000

/**
 * Counts requests in this process in fixed windows. Once a second it sends counts near a limit to the other processes. A single process
 * sends nothing. Several processes can exceed a limit by up to one second's requests.
 */
export function openRateLimits(now = Date.now): RateLimits {
  const counters = new Map<string, Counter>()
  return {
    limiter(name, { limit, period }) {
      const counter = {
        limit,
        period_ms: period * 1000,
        window: 0,
        own: new Map(),
        others: new Map(),
        shared: new Map(),
      }
      counters.set(name, counter)
      return { limit: ({ key }) => Promise.resolve({ success: count(counter, key, now()) }) }
    },
    takeMessages() {
      const shared = Array.from(counters, ([name, counter]) => newOf(name, counter, now())).flat()
      return Array.from({ length: Math.ceil(shared.length / mostPerMessage) }, (_, index) =>
        JSON.stringify(shared.slice(index * mostPerMessage, (index + 1) * mostPerMessage)),
      )
    },
    hear(message) {
      // oxlint-disable-next-line no-unsafe-type-assertion -- only the service's own processes may write to its database
      for (const [name, key, window, times] of JSON.parse(message) as Shared[]) {
        const counter = counters.get(name)
        if (!counter) continue
        begin(counter, now())
        if (counter.window === window) counter.others.set(key, (counter.others.get(key) ?? 0) + times)
      }
    },
  }
}

export interface RateLimits {
  /** A limiter from wrangler.toml: `limit` requests of a key in `period` seconds. */
  limiter(name: string, simple: { limit: number; period: number }): RateLimit
  /** Returns the waiting messages for the other processes and forgets them. */
  takeMessages(): string[]
  hear(message: string): void
}

interface Counter {
  limit: number
  period_ms: number
  window: number
  own: Map<string, number>
  /** For each hash of a key: the counts of the other processes, and the part of this process's count that they know. */
  others: Map<string, number>
  shared: Map<string, number>
}

function begin(counter: Counter, at: number): void {
  const window = Math.floor(at / counter.period_ms)
  if (counter.window === window) return
  Object.assign(counter, { window, own: new Map(), others: new Map(), shared: new Map() })
}

function count(counter: Counter, key: string, at: number): boolean {
  begin(counter, at)
  // With hundreds of thousands of invented addresses, the process drops counts so that its memory doesn't grow.
  if (counter.own.size >= mostKeys) counter.own.clear()
  const times = (counter.own.get(key) ?? 0) + 1
  counter.own.set(key, times)
  const elsewhere = counter.others.size > 0 ? (counter.others.get(hashOf(key)) ?? 0) : 0
  return times + elsewhere <= counter.limit
}

function newOf(name: string, counter: Counter, at: number): Shared[] {
  begin(counter, at)
  const found: Shared[] = []
  for (const [key, times] of counter.own) {
    if (times < counter.limit * sharedFrom) continue
    const hash = hashOf(key)
    const before = counter.shared.get(hash) ?? 0
    if (times > before) found.push([name, hash, counter.window, times - before])
    counter.shared.set(hash, times)
  }
  return found
}

/** Hashes keep addresses and keys private. */
const hashOf = (key: string) => createHash('sha256').update(key).digest('base64url').slice(0, 16)
