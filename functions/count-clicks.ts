import { inBatches } from '../lib/batches.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'

const clicksOfBatch = 20_000
/** A lead or sale changes up to 26 totals, and even a slow server must count a batch before the statement times out. */
const figuresOfBatch = 2000

/**
 * Adds new clicks to the counters, and leads and sales to the groupings. After that, reads only have to add the clicks of the last
 * half minute. Clicks, leads, sales and refunds request a run with `soon`, and the schedule handles the rest.
 */
const counting = inBatches('count-clicks', async (db) => {
  const counted = await countClicks(db, clicksOfBatch)
  const figures = await countFigures(db, figuresOfBatch)
  return { counted, figures, more: counted === clicksOfBatch || figures === figuresOfBatch }
})

export default counting

/** Entry point of the service binding `COUNT`, which only the service's own functions can reach. */
export const soon = {
  async fetch(_request: Request, env: DatabaseEnv): Promise<Response> {
    await counting.scheduled(undefined, env)
    return new Response(null, { status: 204 })
  },
}
