import { NeonDbError } from '@neondatabase/serverless'
import type { SentStatement, StatementResult } from '../database.ts'
import { functionCalls } from '../schema.ts'
import type { PostgresPool } from './postgres.ts'

/** A click that finds so many statements of clicks under way waits for one of them. test/bench/README.md has what was measured. */
const mostUnderWay = 8
/** Clicks of one statement. */
const mostTogether = 16

const { text: one, names } = functionCalls.track_click
const existingClickId = names.indexOf('existing_click_id')

/** By how many they are: that many calls of `track_click`, whose answers are the columns of one row. */
const statements = Array.from({ length: mostTogether + 1 }, (_, count) => {
  const calls = Array.from({ length: count }, (__, index) => {
    const call = one.slice('select '.length).replaceAll(/\$(\d+)/g, (___, n) => `$${index * names.length + Number(n)}`)
    return `${call} as c${index}`
  })
  return `select ${calls.join(', ')}`
})

interface Waiting {
  statement: SentStatement
  /** By `performance.now()`, when nobody waits for it any more. */
  until: number
  answer: (result: StatementResult) => void
  refuse: (error: unknown) => void
}

/**
 * The same connections, over which clicks that would wait for each other are recorded by one statement: one round trip and one commit,
 * after which each is answered. A click that finds few under way is sent at once and by itself.
 *
 * Where the statement is refused it has written nothing, and each of its clicks is sent by itself. Where nobody knows its outcome, each is
 * told so as if it had been by itself: it is sent again, and found by its keys if it was recorded.
 *
 * Shared are clicks of new customers alone. They lock no row that others have, so those of one statement never wait for those of
 * another; the click of a customer who is there locks their row.
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
      // oxlint-disable-next-line no-unsafe-type-assertion -- the statement says what its row is
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
    async run(asked, isTransaction, timeout_ms) {
      const [statement, ...more] = asked
      if (statement?.text !== one || statement.parameters[existingClickId] !== null || more.length > 0)
        return await pool.run(asked, isTransaction, timeout_ms)
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
    end: () => pool.end(),
  }
}
