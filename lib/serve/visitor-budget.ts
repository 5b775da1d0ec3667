import { createHash } from 'node:crypto'
import { countedAddress } from '../access/counted-address.ts'

/**
 * The CPU time of the service and of Postgres that the requests from one address may take in a window: 2% of a core. Together with the
 * limits for clicks and leads, an address stays below 5%. The window is as long as the one for sign-ins, so that an office can open many
 * pages at once.
 */
const most_ms = 17_500
const windowMinutes = 15
const windowMilliseconds = windowMinutes * 60_000
/** The average CPU time per minute that an address may use, in milliseconds. */
export const perMinute = most_ms / windowMinutes

/**
 * The CPU time of a request in milliseconds, by its path. The first match applies. `npm run bench -- abuse` compares these numbers with
 * measured ones.
 */
const costs: [path: RegExp, milliseconds: number][] = [
  [/^\/healthz/, 0.3],
  [/^\/(js|packages)\//, 0.4],
  [/^\/api\/v1\/webhooks\//, 0.4],
  [/^\/docs/, 0.8],
  [/^\/api\/v1\/reference/, 6],
  [/^\/api\/v1\/openapi/, 10],
  [/^\//, 1.3],
]
/** A password is hashed with a deliberately slow function. */
export const hashing_ms = 200
const millisecondsOfMegabyte = 22
/** Larger bodies, of imports, count even with a known key, because they are read before the limits of the key apply. */
const mostFreeBytes = 64 * 1024

/** Clicks and leads have separate limits, because many honest visitors can share an address. */
const tracking = /^\/api\/v1\/track\/(click|lead)$/
const keyed = /^\/api\/(v1\/(?!webhooks\/|reference|openapi|track\/click)|tracking\/)/

/** With many invented addresses and keys, the process drops counts so that its memory doesn't grow. */
const mostKept = 100_000

/** A request as the budget counts it. `bodyBytes` is the maximum length of its body. */
export interface Use {
  pathname: string
  authorization: string | undefined
  bodyBytes: number
}

/** Estimates the CPU milliseconds of a request. */
export function costOf({ pathname, bodyBytes }: Use): number {
  const base = costs.find(([path]) => path.test(pathname))?.[1] ?? 0
  return base + (bodyBytes / 1024 / 1024) * millisecondsOfMegabyte
}

/** Returns the hash of the key or session in a call, if its route requires one. */
function keyOf({ pathname, authorization }: Use): string | undefined {
  if (authorization === undefined || !keyed.test(pathname)) return undefined
  return createHash('sha256').update(authorization).digest('base64')
}

/**
 * A budget for each address, for everything that a stranger can request from one box, except clicks and leads. Calls with a key or
 * session that has worked before don't count, unless they are large. On Cloudflare, the edge limits strangers.
 */
export function openVisitorBudget(now = Date.now) {
  let window = 0
  let used = new Map<string, number>()
  const knownKeys = new Set<string>()
  /** Spends the milliseconds of an address. Returns whether it had enough left. */
  function spend(address: string | null, milliseconds: number): boolean {
    const counted = countedAddress(address)
    if (counted === undefined) return true
    const current = Math.floor(now() / windowMilliseconds)
    if (current !== window || used.size >= mostKept) used = new Map()
    window = current
    const sum = (used.get(counted) ?? 0) + milliseconds
    used.set(counted, sum)
    return sum <= most_ms
  }
  return {
    /** Counts a request. Returns whether its address had enough budget left. */
    take(address: string, use: Use): boolean {
      if (tracking.test(use.pathname) && use.authorization === undefined) return true
      const key = keyOf(use)
      const isFree = key !== undefined && knownKeys.has(key) && use.bodyBytes <= mostFreeBytes
      return isFree || spend(address, costOf(use))
    },
    /** Counts a password that a request hashes or checks. Returns whether its address had enough budget left. */
    takeHashing: (address: string | null) => spend(address, hashing_ms),
    /** Remembers the key of a successful request. */
    know(use: Use): void {
      const key = keyOf(use)
      if (key === undefined) return
      if (knownKeys.size >= mostKept) knownKeys.clear()
      knownKeys.add(key)
    },
  }
}

export type VisitorBudget = ReturnType<typeof openVisitorBudget>
