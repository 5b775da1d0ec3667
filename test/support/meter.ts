import { NeonDbError } from '@neondatabase/serverless'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Postgres, type SentStatement, withTimeout } from '../../lib/database.ts'
import type { Fault, NeonEndpoint } from '../../lib/local/neon.ts'

/** Counts the requests to a database as the Neon endpoint does, and injects faults into the next ones. */
export type Meter = Pick<NeonEndpoint, 'requests' | 'statements' | 'recent' | 'inject' | 'clearFaults'>

/** A fault that two meters share, but that affects only one of them. */
export interface SharedFault extends Fault {
  id: number
}

interface Report {
  /** Called first, so that faults arrive in time. */
  beforeRequest?: () => void
  onRequest?: (request: string, statements: number) => void
  onFault?: (id: number) => void
}

export interface MeteredPostgres extends Postgres, Meter {
  /** Receives the requests. */
  reported: Report
  inject(fault: Fault | SharedFault): void
  /** The fault has affected a request of the other meter. */
  spend(id: number): void
}

/** If this many connections are busy, a statement waits for one of them. After this time, it opens another connection. */
const workingAtOnce = 3
const patienceMs = 200

/**
 * Reuses connections before it opens others. A new connection loads the catalog and plans every statement and function again, which takes
 * more CPU time than most tests. Statements that wait for each other's locks still get separate connections.
 */
export function reuseConnections(postgres: Postgres): Postgres {
  let working = 0
  const waiting = new Set<() => void>()
  return {
    async run(...asked) {
      if (working >= workingAtOnce) {
        const { promise, resolve } = Promise.withResolvers<void>()
        waiting.add(resolve)
        const patience = setTimeout(resolve, patienceMs)
        await promise
        clearTimeout(patience)
        waiting.delete(resolve)
      }
      working += 1
      try {
        return await postgres.run(...asked)
      } finally {
        working -= 1
        const [next] = waiting
        next?.()
      }
    },
  }
}

const backendEnds = { text: 'select pg_terminate_backend(pg_backend_pid())', parameters: [] }

/**
 * Connections that count their requests (a batch as one), and fail as {@link Fault} describes. A transport fault looks the same as in a
 * driver.
 */
export function meter(postgres: Postgres, reported: Report = {}): MeteredPostgres {
  let faults: (Required<Fault> & { id: number })[] = []

  function takeFault(statements: SentStatement[]): Fault | undefined {
    const fault = faults.find(({ matching }) => statements.some(({ text }) => text.includes(matching)))
    if (!fault) return undefined
    metered.spend(fault.id)
    metered.reported.onFault?.(fault.id)
    return fault
  }

  const metered: MeteredPostgres = {
    reported,
    requests: 0,
    statements: 0,
    recent: [],
    inject: (fault) => void faults.push({ id: 0, times: 1, delay_ms: 0, matching: '', ...fault }),
    clearFaults: () => void (faults = []),
    spend(id) {
      const fault = faults.find((one) => one.id === id)
      if (fault) fault.times -= 1
      faults = faults.filter(({ times }) => times > 0)
    },
    async run(statements, isTransaction, timeout_ms) {
      metered.reported.beforeRequest?.()
      const request = statements.map(({ text }) => text.slice(0, 60)).join('; ')
      metered.requests += 1
      metered.statements += statements.length
      metered.recent = [...metered.recent.slice(-7), request]
      metered.reported.onRequest?.(request, statements.length)
      const fault = takeFault(statements)
      if (fault?.action === 'kill-backend') return await postgres.run([...statements, backendEnds], true, timeout_ms)
      if (fault?.action === 'drop-before' || fault?.action === 'unavailable') throw broken()
      if (fault?.action === 'delay')
        await withTimeout(timeout_ms, sleep(fault.delay_ms)).catch(() => Promise.reject(broken()))
      const results = await postgres.run(statements, isTransaction, timeout_ms)
      if (fault?.action === 'drop-after' || fault?.action === 'cut') throw broken()
      return results
    },
  }
  return metered
}

const broken = () => new NeonDbError('Connection terminated unexpectedly')
