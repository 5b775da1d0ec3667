import { inBatches } from '../lib/batches.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'

const batchSize = 10_000

/** Scheduled: folds the slots of past hours into one, so that the performance read costs a row a day. */
export default inBatches('fold-daily-totals', async (db) => {
  const folded = await foldDailyTotals(db, batchSize)
  return { folded, more: folded === batchSize }
})
