import { attempt, inBatches, workOnPrograms } from '../lib/batches.ts'
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
import { listProgramIds } from '../lib/programs/programs.ts'
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

type Env = DatabaseEnv & { CLICK_RETENTION_MONTHS?: string }
const noEvents = { webhook_events: 0, reversals: 0, sessions: 0, more: false }
const noClicks = { rewritten: 0, more: false }

/**
 * Scheduled: deletes data after its retention period. lib/commands/README.md lists the periods. It deletes clicks last, one month at a
 * time, and rewrites past months of clicks into shorter rows. If a step fails, the others still run. `/healthz` reports a backlog.
 */
export default inBatches<Env>('apply-retention', async (db, env, failures) => {
  const months = clickRetentionMonths(env.CLICK_RETENTION_MONTHS)
  const count = async (step: string, work: () => Promise<number>) => await attempt(failures, step, work, 0)
  await attempt(failures, 'expired rows', () => deleteExpired(db), undefined)
  const audit_entries = await count('audit log', () => deleteOldAuditEntries(db, batchSize))
  const notifications = await count('notifications', () => deleteOldNotifications(db, batchSize))
  const webhooks = await count('webhooks', () => deleteOldWebhooks(db, batchSize))
  const applications = await count('applications', () => deleteOldApplications(db, batchSize))
  const imports = await count('imports', () => deleteOldImports(db))
  await attempt(failures, 'bulk jobs', () => deleteOldBulkJobs(db), undefined)
  const exported = await count('exports', () => deleteOldExports(db))
  const events = await attempt(failures, 'events', () => deleteOldWebhookEvents(db, batchSize), noEvents)
  const payments = events.more ? 0 : await count('payments', () => deleteUnsoldPayments(db))
  const expire = (programId: number | null) => deleteExpiredCustomers(db, clicksOfBatch, programId)
  const expireAll = () => workOnPrograms(failures, () => listProgramIds(db), expire)
  const expired = await attempt(failures, 'customers', expireAll, [])
  const customers = expired.reduce((sum, { deleted }) => sum + deleted, 0)
  const more = expired.some((ofProgram) => ofProgram.more)
  const dropped = more ? undefined : await attempt(failures, 'months', () => dropClickMonth(db, months), undefined)
  const clicks =
    more || dropped ? noClicks : await attempt(failures, 'clicks', () => rewriteClicks(db, rewrittenClicks), noClicks)
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
