import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'

const batchSize = 10_000
const maxBatches = 100

/** Scheduled: folds the slots of past hours into one, so that the performance read costs a row a day. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const db = openDatabase(env)
    for (let batch = 0; batch < maxBatches; batch++) {
      const folded = await foldDailyTotals(db, batchSize)
      if (folded > 0) console.log(JSON.stringify({ function: 'fold-daily-totals', folded }))
      if (folded < batchSize) return
    }
  },
}
