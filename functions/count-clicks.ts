import { countClicks } from '../lib/tracking/clicks.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'

const batchSize = 20_000
const maxBatches = 100

/** Scheduled: moves what was clicked since the last run into the counters, so that reads have a minute of clicks to add at most. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const db = openDatabase(env)
    for (let batch = 0; batch < maxBatches; batch++) {
      const counted = await countClicks(db, batchSize)
      if (counted > 0) console.log(JSON.stringify({ function: 'count-clicks', counted }))
      if (counted < batchSize) return
    }
  },
}
