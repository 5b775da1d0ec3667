import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'

/**
 * Deletes expired rows: sessions, one-time secrets, counters of attempts and mails, old mails, and idempotency keys. Invitations go a year after
 * they expire.
 */
export async function deleteExpired(db: Database): Promise<void> {
  await db.batch([
    kysely.deleteFrom('sessions').where('expires_at', '<', now),
    kysely.deleteFrom('verifications').where('expires_at', '<', now),
    kysely.deleteFrom('used_forms').where('used_at', '<', sql<Date>`now() - interval '1 day'`),
    kysely.deleteFrom('sign_in_attempts').where('window_started_at', '<', sql<Date>`now() - interval '1 day'`),
    kysely.deleteFrom('mail_counts').where('day', '<', sql<Date>`utc_day(now())`),
    kysely.deleteFrom('workspace_invitations').where('expires_at', '<', sql<Date>`now() - interval '1 year'`),
    kysely.deleteFrom('partner_invitations').where('expires_at', '<', sql<Date>`now() - interval '1 year'`),
    kysely.deleteFrom('idempotency_keys').where('created_at', '<', sql<Date>`now() - interval '1 day'`),
    kysely.deleteFrom('mails').where('created_at', '<', sql<Date>`now() - interval '7 days'`),
  ])
}
