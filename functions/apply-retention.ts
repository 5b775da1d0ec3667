import { inBatches } from '../lib/batches.ts'
import { deleteOldAuditEntries } from '../lib/access/audit-log.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import { deleteOldWebhookEvents } from '../lib/stripe/webhook-events.ts'

const batchSize = 5000

/**
 * Scheduled: deletes what was kept for its term. Sessions and one-time secrets go when they run out, mails of the
 * local stack after a week, webhook events and what was
 * parked for them after 90 days, the audit log after two years.
 */
export default inBatches('apply-retention', async (db) => {
  await deleteExpired(db)
  const audit_entries = await deleteOldAuditEntries(db, batchSize)
  const events = await deleteOldWebhookEvents(db, batchSize)
  return { ...events, audit_entries, more: events.more || audit_entries === batchSize }
})
