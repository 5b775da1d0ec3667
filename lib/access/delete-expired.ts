import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import { keptSince } from '../retention.ts'

/** Deletes expired sessions, one-time secrets, invitations and idempotency keys, counters of attempts and mails, and old mails. */
export async function deleteExpired(db: Database): Promise<void> {
  await db.batch([
    kysely.deleteFrom('erased_payees').where('erased_at', '<', sql<Date>`now() - money_kept()`),
    // The rest of a document is kept, because document numbers must not have gaps.
    kysely
      .updateTable('documents as d')
      .set({ payee: '{}' })
      .where('d.issued_at', '<', sql<Date>`now() - money_kept()`)
      .where(sql<boolean>`d.payee <> '{}'`)
      .where((eb) =>
        eb.exists(
          eb
            .selectFrom('partners as p')
            .select('p.id')
            .whereRef('p.program_id', '=', 'd.program_id')
            .whereRef('p.id', '=', 'd.partner_id')
            .where('p.user_id', 'is', null),
        ),
      ),
    kysely.deleteFrom('sessions').where('expires_at', '<', now),
    kysely.deleteFrom('verifications').where('expires_at', '<', now),
    kysely.deleteFrom('used_forms').where('used_at', '<', keptSince('used_forms')),
    kysely.deleteFrom('sign_in_attempts').where('window_started_at', '<', keptSince('sign_in_attempts')),
    kysely.deleteFrom('public_test_events').where('day', '<', sql<Date>`utc_day(now())`),
    kysely
      .deleteFrom('mail_counts')
      .where('day', '<', sql<Date>`utc_day(now())`)
      .where((eb) =>
        eb.or([
          eb('counted', 'not like', 'payouts to %'),
          eb('day', '<', sql<Date>`utc_day(${keptSince('payee_mail_counts')})`),
        ]),
      ),
    kysely.deleteFrom('workspace_invitations').where('expires_at', '<', keptSince('invitations')),
    kysely.deleteFrom('partner_invitations').where('expires_at', '<', keptSince('invitations')),
    kysely.deleteFrom('idempotency_keys').where('created_at', '<', keptSince('idempotency_keys')),
    kysely.deleteFrom('blocks').where('ends_at', '<', keptSince('blocks')),
    kysely.deleteFrom('mails').where('created_at', '<', keptSince('mails')),
  ])
}
