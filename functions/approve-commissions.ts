import { inBatches } from '../lib/batches.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'

const batchSize = 500

/** Scheduled: credits the commissions whose hold has ended. */
export default inBatches('approve-commissions', (db) => approveDueCommissions(db, batchSize))
