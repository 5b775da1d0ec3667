import { inBatches } from '../lib/batches.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'
import { flagNewCommissions, hashPartnerEmails } from '../lib/money/reviews.ts'
import { emailHash } from '../lib/tracking/customers.ts'

const batchSize = 500

interface Env extends DatabaseEnv {
  EMAIL_HASH_KEY: string
}

/** Scheduled: holds commissions that a person should look at, and credits those whose hold has ended. */
export default inBatches<Env>('approve-commissions', async (db, { EMAIL_HASH_KEY }) => {
  const hashed = await hashPartnerEmails(db, (address) => emailHash(EMAIL_HASH_KEY, address), batchSize)
  const looked = await flagNewCommissions(db, batchSize)
  const { credited, more } = await approveDueCommissions(db, batchSize)
  return { credited, flagged: looked.flagged, more: more || looked.more || hashed === batchSize }
})
