import { approveDueCommissions } from '../lib/money/commissions.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'

const batchSize = 500
const maxBatches = 100

/** Scheduled: credits the commissions whose hold has ended, batch after batch; the next run takes up what is left. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv): Promise<void> {
    const db = openDatabase(env)
    for (let batch = 0; batch < maxBatches; batch++) {
      const { credited, more } = await approveDueCommissions(db, batchSize)
      if (credited > 0) console.log(JSON.stringify({ function: 'approve-commissions', credited }))
      if (!more) return
    }
  },
}
