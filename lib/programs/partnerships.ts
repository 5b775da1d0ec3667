import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { type Part, partOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { balancesOf } from '../money/balances.ts'
import { rulesForPartner } from './commission-rules.ts'
import { codesOf } from './codes.ts'
import { linkFiguresOf, linksFollow } from './links.ts'

/**
 * The programs that a person accepted, and what they say of themselves there. Each program has a partner of its own for them; a person sees
 * theirs in one place by the account that accepted the invitations.
 */
export type ProgramOfPartner = Awaited<ReturnType<typeof listProgramsOfPartner>>[number]

/**
 * The programs that a person is or was a partner of, with their links and their money there, the one joined last first, by partner ids;
 * `programId` asks for one alone.
 */
export async function listProgramsOfPartner(
  db: Database,
  userId: string,
  { programId, ...part }: Part & { programId?: number },
) {
  let query = kysely
    .selectFrom('partners as p')
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select(['g.id', 'g.name', 'g.domain', 'g.currency', 'g.commission_bp'])
    .select(['g.commission_duration_months', 'g.lead_commission_cents'])
    .select(['p.id as partner_id', 'p.is_active', 'p.ended_at', 'p.ended_by'])
    .select((eb) => [
      jsonArrayFrom(linkFiguresOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('links'),
      jsonArrayFrom(codesOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('codes'),
      jsonArrayFrom(rulesForPartner(eb.ref('p.program_id'), eb.ref('p.id'), eb.ref('p.group_id'))).as('rules'),
      jsonArrayFrom(balancesOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('balances'),
    ])
    .where('p.user_id', '=', userId)
  if (programId !== undefined) query = query.where('p.program_id', '=', programId)
  return await db.query(partOf(query, sql.ref<number>('p.id'), part))
}

/** The programs that a person is or was a partner of, by name alone, the one joined last first. */
export async function listProgramNames(db: Database, userId: string) {
  return await db.query(
    kysely
      .selectFrom('partners as p')
      .innerJoin('programs as g', 'g.id', 'p.program_id')
      .select(['g.id', 'g.name', 'g.currency', 'p.id as partner_id'])
      .where('p.user_id', '=', userId)
      .orderBy('p.id', 'desc')
      .limit(100),
  )
}

/**
 * Ends a partnership, by the program or by the person themselves: the links are off, the codes revoked (at Stripe by the schedule, see `switchOffRevoked`),
 * an open invitation holds no longer, and what was earned until then stays theirs and payable. It begins again when they accept a new
 * invitation, without codes until they are given some again. Repeating it changes nothing.
 */
export async function endPartnership(
  db: Database,
  of: { programId: number; partnerId: number } | { programId: number; userId: string },
): Promise<void> {
  const partner = kysely
    .selectFrom('partners')
    .select('id')
    .where('program_id', '=', of.programId)
    .where((eb) => ('userId' in of ? eb('user_id', '=', of.userId) : eb('id', '=', of.partnerId)))
  await db.batch([
    kysely
      .updateTable('partners')
      .set({ is_active: false, ended_at: now, ended_by: 'userId' in of ? 'partner' : 'program' })
      .where('program_id', '=', of.programId)
      .where('id', 'in', partner)
      .where('ended_at', 'is', null),
    linksFollow(of),
    kysely
      .updateTable('partner_codes')
      .set({ revoked_at: now })
      .where('program_id', '=', of.programId)
      .where('partner_id', 'in', partner)
      .where('revoked_at', 'is', null),
    kysely
      .updateTable('partner_invitations')
      .set({ revoked_at: now })
      .where('program_id', '=', of.programId)
      .where('partner_id', 'in', partner)
      .where('accepted_at', 'is', null)
      .where('declined_at', 'is', null)
      .where('revoked_at', 'is', null),
  ])
}

/** The name that programs see of a person. It reaches every program that they accepted and that did not end; later ones are told it then. */
export async function setPartnerName(db: Database, userId: string, name: string): Promise<void> {
  await db.batch([
    profileWith(userId, { name }),
    kysely.updateTable('partners').set({ name }).where('user_id', '=', userId).where('ended_at', 'is', null),
  ])
}

/**
 * Where a person wants to be paid, by every program that they accepted. `before` are the addresses that this ends. Where money was paid or
 * asked for, the new one waits 24 hours (migrations/functions/2_ledger/payout-runs.sql), and `waitsUntil` says until when.
 */
export async function setPayoutAddress(
  db: Database,
  userId: string,
  payoutEmail: string,
): Promise<{ before: string[]; waitsUntil: Date | null }> {
  const [before, , changed] = await db.batch([
    kysely
      .selectFrom('partners')
      .select((eb) => eb.fn.coalesce('payout_email', 'email').as('address'))
      .where('user_id', '=', userId)
      .orderBy('program_id')
      .orderBy('id')
      .forNoKeyUpdate(),
    profileWith(userId, { payout_email: payoutEmail }),
    kysely
      .updateTable('partners')
      .set({ payout_email: payoutEmail })
      .where('user_id', '=', userId)
      .returning('payout_waits_until'),
  ])
  const addresses = before.flatMap(({ address }) => (address === null || address === payoutEmail ? [] : [address]))
  const waits = changed.flatMap(({ payout_waits_until: at }) => at ?? [])
  return { before: [...new Set(addresses)], waitsUntil: waits.toSorted((a, b) => b.getTime() - a.getTime())[0] ?? null }
}

/** What a person says of themselves, for programs that they accept later too. */
function profileWith(userId: string, profile: { name: string } | { payout_email: string }) {
  return kysely
    .insertInto('partner_profiles')
    .values({ user_id: userId, ...profile })
    .onConflict((oc) => oc.column('user_id').doUpdateSet(profile))
}
