import { inBatches } from '../lib/batches.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'

const batchSize = 20_000

/**
 * Adds new clicks to the counters, and leads and sales to the groupings. So reads only add the clicks of the last half minute. Clicks,
 * leads, sales and refunds request a run with `soon`, and the schedule handles the rest.
 */
const counting = inBatches('count-clicks', async (db) => {
  const counted = await countClicks(db, batchSize)
  const figures = await countFigures(db, batchSize)
  return { counted, figures, more: counted === batchSize || figures === batchSize }
})

export default counting

/** Entry point of the service binding `COUNT`, which only the service's own functions can reach. */
export const soon = {
  async fetch(_request: Request, env: DatabaseEnv): Promise<Response> {
    await counting.scheduled(undefined, env)
    return new Response(null, { status: 204 })
  },
}
