import { inBatches } from '../lib/batches.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'

const batchSize = 10_000

/** Scheduled: merges the slots of past hours, so that the performance read only needs one row per day. */
export default inBatches('fold-daily-totals', async (db) => {
  const folded = await foldDailyTotals(db, batchSize)
  return { folded, more: folded === batchSize }
})
