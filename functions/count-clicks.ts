import { inBatches, workOnPrograms } from '../lib/batches.ts'
import { type ClickHouseEnv, openClickHouse } from '../lib/click-house.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { sendClicks } from '../lib/tracking/click-sink.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'
import { programsToCount } from '../lib/tracking/daily-totals.ts'

const clicksOfBatch = 20_000
/** A lead or sale changes up to 26 totals, and even a slow server must count a batch before the statement times out. */
const figuresOfBatch = 2000
const sentOfBatch = 5000

/**
 * Adds new clicks to the counters, and leads and sales to the groupings. After that, reads only have to add the clicks of the last
 * half minute. Clicks, leads, sales and refunds request a run with `soon`, and the schedule handles the rest. If ClickHouse
 * is configured, counted clicks are then sent there. If it doesn't respond, they wait for the next run.
 */
const counting = inBatches('count-clicks', async (db, env: DatabaseEnv & ClickHouseEnv, failures) => {
  const ofPrograms = async (count: typeof countClicks, limit: number) =>
    await workOnPrograms(
      failures,
      () => programsToCount(db),
      (programId) => count(db, limit, programId),
    )
  const clicks = await ofPrograms(countClicks, clicksOfBatch)
  const rows = await ofPrograms(countFigures, figuresOfBatch)
  const [counted, figures] = [sumOf(clicks), sumOf(rows)]
  const more = clicks.includes(clicksOfBatch) || rows.includes(figuresOfBatch)
  const clickHouse = openClickHouse(env)
  if (!clickHouse || more) return { counted, figures, more }
  try {
    return { counted, figures, ...(await sendClicks(db, clickHouse, sentOfBatch)) }
  } catch (error) {
    const { name, message } = error instanceof Error ? error : { name: typeof error, message: '' }
    console.error(JSON.stringify({ function: 'count-clicks', error: 'clickhouse', name, message }))
    return { counted, figures, more }
  }
})

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, number) => sum + number, 0)

export default counting

/** Entry point of the service binding `COUNT`, which only the service's own functions can reach. */
export const soon = {
  async fetch(_request: Request, env: DatabaseEnv & ClickHouseEnv): Promise<Response> {
    await counting.scheduled(undefined, env)
    return new Response(null, { status: 204 })
  },
}
