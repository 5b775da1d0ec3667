import { inBatches, workOnPrograms } from '../lib/batches.ts'
import { foldDailyTotals, programsToFold } from '../lib/tracking/daily-totals.ts'

const batchSize = 10_000

/** Scheduled: merges the slots of past hours, so that the performance read only needs one row per day. */
export default inBatches('fold-daily-totals', async (db, _env, failures) => {
  const folded = await workOnPrograms(
    failures,
    () => programsToFold(db),
    (programId) => foldDailyTotals(db, batchSize, programId),
  )
  return { folded: folded.reduce((sum, rows) => sum + rows, 0), more: folded.includes(batchSize) }
})
