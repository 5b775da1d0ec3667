import { sql } from 'kysely'

/**
 * How long the service keeps each kind of row. The function `apply-retention` deletes older rows. Rows that expire, such as sessions, are
 * deleted when they expire. For individual clicks, see CLICK_RETENTION_MONTHS (lib/tracking/retention.ts). The database has three further
 * retention periods: `audit_log_begins()`, `money_kept()` and `notifications_begin()`.
 */
export const terms = {
  used_forms: '1 day',
  sign_in_attempts: '1 day',
  idempotency_keys: '1 day',
  /** Counters of mails about payouts. Until then, bounces and complaints about these mails are stored. */
  payee_mail_counts: '30 days',
  /** Mails of the local stack. */
  mails: '7 days',
  /** Counted from their expiry. */
  invitations: '1 year',
  /** Until then, their links can confirm them. */
  unconfirmed_applications: '7 days',
  rejected_applications: '1 year',
  webhook_messages: '30 days',
  imports: '2 years',
  bulk_jobs: '2 years',
  /** Counted from their end. */
  blocks: '2 years',
  /** Searches and notes in the settings of bulk jobs. */
  bulk_job_texts: '1 day',
  /** Copies of programs for their archives. */
  exports: '1 day',
  /** Imports that changed nothing or were undone. */
  idle_imports: '30 days',
  /** Endpoints of `svc listen`. */
  fetched_endpoints: '1 day',
  /** This also applies to refunds, sessions and payments without a sale. */
  processor_events: '90 days',
  /** Payloads of events that the service could not read. */
  unread_payloads: '30 days',
} as const

/** Returns the time from which rows of this kind are kept. */
export const keptSince = (kind: keyof typeof terms) => sql<Date>`now() - interval ${sql.lit(terms[kind])}`
