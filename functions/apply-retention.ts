import { inBatches } from '../lib/batches.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { deleteOldWebhookEvents } from '../lib/stripe/webhook-events.ts'

const batchSize = 5000

/**
 * Scheduled: deletes what was kept for its term. Sessions and one-time secrets go when they run out, webhook events and what was
 * parked for them after 90 days.
 */
export default inBatches('apply-retention', async (db) => {
  await deleteExpired(db)
  return await deleteOldWebhookEvents(db, batchSize)
})
