import { inBatches } from '../lib/batches.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { reviewAndCredit } from '../lib/money/reviews.ts'

interface Env extends DatabaseEnv {
  EMAIL_HASH_KEY: string
}

/** Scheduled: holds suspicious commissions for review, and credits commissions after their hold. */
export default inBatches<Env>('approve-commissions', (db, { EMAIL_HASH_KEY }, failures) =>
  reviewAndCredit(db, EMAIL_HASH_KEY, 500, failures),
)
