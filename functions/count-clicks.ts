import { inBatches } from '../lib/batches.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { countClicks, countFigures } from '../lib/tracking/clicks.ts'

const batchSize = 20_000

/**
 * Moves what was clicked since the last run into the counters, so that reads have half a minute of clicks to add at most, and what leads and sales
 * brought into the groupings. Clicks, leads, sales and refunds ask for it by `soon`; scheduled it does what was not asked for.
 */
const counting = inBatches('count-clicks', async (db) => {
  const counted = await countClicks(db, batchSize)
  const figures = await countFigures(db, batchSize)
  return { counted, figures, more: counted === batchSize || figures === batchSize }
})

export default counting

/** Entry point of the service binding `COUNT`, which nothing outside the service reaches. */
export const soon = {
  async fetch(_request: Request, env: DatabaseEnv): Promise<Response> {
    await counting.scheduled(undefined, env)
    return new Response(null, { status: 204 })
  },
}
