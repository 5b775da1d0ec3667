import { inBatches } from '../lib/batches.ts'
import { deleteOldAuditEntries } from '../lib/access/audit-log.ts'
import { deleteExpired } from '../lib/access/delete-expired.ts'
import type { DatabaseEnv } from '../lib/database.ts'
import { deleteOldNotifications } from '../lib/notifications/notification-list.ts'
import { deleteOldWebhooks } from '../lib/notifications/webhook-log.ts'
import { deleteOldWebhookEvents, deleteUnsoldPayments } from '../lib/processors/webhook-events.ts'
import { deleteOldExports } from '../lib/moving/exports.ts'
import { deleteOldImports } from '../lib/moving/imports.ts'
import { deleteOldApplications } from '../lib/programs/applications.ts'
import { deleteOldBulkJobs } from '../lib/programs/bulk-jobs.ts'
import {
  clickRetentionMonths,
  deleteExpiredCustomers,
  dropClickMonth,
  rewriteClicks,
} from '../lib/tracking/retention.ts'

const batchSize = 5000
/** The number of click events that each batch searches for customers to delete. */
const clicksOfBatch = 20_000
/** The number of click events that each batch rewrites. */
const rewrittenClicks = 5000

/**
 * Scheduled: deletes data after its retention period. lib/commands/README.md lists the periods. It deletes clicks last, one month at a
 * time, and rewrites past months of clicks into shorter rows. `/healthz` reports a backlog.
 */
export default inBatches('apply-retention', async (db, env: DatabaseEnv & { CLICK_RETENTION_MONTHS?: string }) => {
  const months = clickRetentionMonths(env.CLICK_RETENTION_MONTHS)
  await deleteExpired(db)
  const audit_entries = await deleteOldAuditEntries(db, batchSize)
  const notifications = await deleteOldNotifications(db, batchSize)
  const webhooks = await deleteOldWebhooks(db, batchSize)
  const applications = await deleteOldApplications(db, batchSize)
  const imports = await deleteOldImports(db)
  await deleteOldBulkJobs(db)
  const exported = await deleteOldExports(db)
  const events = await deleteOldWebhookEvents(db, batchSize)
  const payments = events.more ? 0 : await deleteUnsoldPayments(db)
  const { deleted: customers, more } = await deleteExpiredCustomers(db, clicksOfBatch)
  const dropped = more ? undefined : await dropClickMonth(db, months)
  const clicks = more || dropped ? { rewritten: 0, more: false } : await rewriteClicks(db, rewrittenClicks)
  return {
    ...events,
    audit_entries,
    notifications,
    webhooks,
    applications,
    imports,
    exports: exported,
    payments,
    customers,
    ...(dropped && { dropped }),
    ...(clicks.rewritten > 0 && { rewritten: clicks.rewritten }),
    more:
      events.more ||
      audit_entries === batchSize ||
      notifications === batchSize ||
      webhooks === batchSize ||
      applications === batchSize ||
      more ||
      dropped !== undefined ||
      clicks.more,
  }
})
