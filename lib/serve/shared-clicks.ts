import { NeonDbError } from '@neondatabase/serverless'
import type { SentStatement, StatementResult } from '../database.ts'
import { functionCalls } from '../schema.ts'
import type { PostgresPool } from '../commands/postgres.ts'

/** If this many click statements are running, a new click waits. See test/bench/README.md for measurements. */
const mostUnderWay = 8
/** The maximum number of clicks in one statement. */
const mostTogether = 16

const { text: one, names } = functionCalls.track_click
const existingClickId = names.indexOf('existing_click_id')

/** The statements by their number of clicks. Each calls `track_click` once for each click and returns one row. */
const statements = Array.from({ length: mostTogether + 1 }, (_, count) => {
  const calls = Array.from({ length: count }, (__, index) => {
    const call = one.slice('select '.length).replaceAll(/\$(\d+)/g, (___, n) => `$${index * names.length + Number(n)}`)
    return `${call} as c${index}`
  })
  return `select ${calls.join(', ')}`
})

interface Waiting {
  statement: SentStatement
  /** The deadline, in the time of `performance.now()`. */
  until: number
  answer: (result: StatementResult) => void
  refuse: (error: unknown) => void
}

/**
 * Wraps a pool so that waiting clicks share one statement: one round trip and one commit. If few statements are running, a click is sent
 * at once, in its own statement.
 *
 * If Postgres refuses a statement, nothing was written, and each click is sent alone. If the outcome is unknown, each click fails as it
 * would alone. The retry finds recorded clicks by their keys.
 *
 * Only clicks of new customers share a statement. They don't lock shared rows, so statements never wait for each other. The click of an
 * existing customer locks that customer's row.
 */
export function shareClicks(pool: PostgresPool): PostgresPool {
  const waiting: Waiting[] = []
  let underWay = 0

  function sendNext(): void {
    while (waiting.length > 0 && underWay < mostUnderWay) {
      const now = performance.now()
      const clicks = waiting.splice(0, mostTogether).filter(({ until }) => until > now)
      if (clicks.length === 0) continue
      underWay += 1
      void send(clicks).finally(() => {
        underWay -= 1
        sendNext()
      })
    }
  }

  async function send(clicks: Waiting[]): Promise<void> {
    const last = clicks.at(-1)
    if (!last) return
    if (clicks.length === 1) return await sendAlone(last)
    const text = statements[clicks.length] ?? ''
    const parameters = clicks.flatMap(({ statement }) => statement.parameters)
    try {
      const [result] = await pool.run([{ text, parameters }], false, last.until - performance.now())
      // oxlint-disable-next-line no-unsafe-type-assertion -- the statement determines the type of its row
      const row = result?.rows[0] as Record<string, unknown>
      clicks.forEach(({ answer }, index) => answer({ rows: [{ track_click: row[`c${index}`] }], rowCount: 1 }))
    } catch (error) {
      if (error instanceof NeonDbError && error.severity === 'ERROR') await Promise.all(clicks.map(sendAlone))
      else for (const { refuse } of clicks) refuse(error)
    }
  }

  async function sendAlone({ statement, until, answer, refuse }: Waiting): Promise<void> {
    try {
      const [result] = await pool.run([statement], false, until - performance.now())
      answer(result ?? { rows: [], rowCount: 0 })
    } catch (error) {
      refuse(error)
    }
  }

  return {
    async run(requested, isTransaction, timeout_ms) {
      const [statement, ...more] = requested
      if (statement?.text !== one || statement.parameters[existingClickId] !== null || more.length > 0)
        return await pool.run(requested, isTransaction, timeout_ms)
      const { promise, resolve: answer, reject: refuse } = Promise.withResolvers<StatementResult>()
      const late = () => refuse(new NeonDbError(`no answer within ${timeout_ms} ms`))
      const timer = setTimeout(late, timeout_ms)
      waiting.push({ statement, until: performance.now() + timeout_ms, answer, refuse })
      sendNext()
      try {
        return [await promise]
      } finally {
        clearTimeout(timer)
      }
    },
    readConnections: () => pool.readConnections(),
    end: () => pool.end(),
  }
}
