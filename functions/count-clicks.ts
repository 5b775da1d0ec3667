import { inBatches } from '../lib/batches.ts'
import { countClicks } from '../lib/tracking/clicks.ts'

const batchSize = 20_000

/** Scheduled: moves what was clicked since the last run into the counters, so that reads have a minute of clicks to add at most. */
export default inBatches('count-clicks', async (db) => {
  const counted = await countClicks(db, batchSize)
  return { counted, more: counted === batchSize }
})
