import type { Database } from '../database.ts'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { kysely, now } from '../kysely.ts'
import { balancesOf } from '../money/balances.ts'
import { linksFollow, linksOf } from './links.ts'

/**
 * The programs that a person accepted, and what they say of themselves there. Each program has a partner of its own for them; a person sees
 * theirs in one place by the account that accepted the invitations.
 */
export type ProgramOfPartner = Awaited<ReturnType<typeof listProgramsOfPartner>>[number]

/**
 * The programs that a person is or was a partner of, with their links and their money there, the one joined last first: `limit` of them at most,
 * below the partner id `before` where one is given; `programId` asks for one alone.
 */
export async function listProgramsOfPartner(
  db: Database,
  userId: string,
  options: { limit: number; before?: number | undefined; programId?: number },
) {
  const { limit, before, programId } = options
  let query = kysely
    .selectFrom('partners as p')
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select(['g.id', 'g.name', 'g.domain', 'g.currency', 'g.commission_bp'])
    .select(['p.id as partner_id', 'p.is_active', 'p.ended_at', 'p.ended_by'])
    .select((eb) => [
      linksOf(eb.ref('p.program_id'), eb.ref('p.id')).as('links'),
      jsonArrayFrom(balancesOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('balances'),
    ])
    .where('p.user_id', '=', userId)
    .orderBy('p.id', 'desc')
    .limit(limit)
  if (before !== undefined) query = query.where('p.id', '<', before)
  if (programId !== undefined) query = query.where('p.program_id', '=', programId)
  return await db.query(query)
}

/**
 * Ends a partnership, by the program or by the person themselves: the links are off, an open invitation holds no longer, and what was
 * earned until then stays theirs and payable. It begins again when they accept a new invitation. Repeating it changes nothing.
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
      .updateTable('partner_invitations')
      .set({ revoked_at: now })
      .where('program_id', '=', of.programId)
      .where('partner_id', 'in', partner)
      .where('accepted_at', 'is', null)
      .where('declined_at', 'is', null)
      .where('revoked_at', 'is', null),
  ])
}

/**
 * What a person says of themselves: the name that programs see, or where to pay them. It reaches every program that they accepted; a name none
 * that ended. A program that they accept later is told it then.
 */
export async function setPartnerProfile(
  db: Database,
  userId: string,
  profile: { name: string } | { payout_email: string },
): Promise<void> {
  const told = kysely.updateTable('partners').set(profile).where('user_id', '=', userId)
  await db.batch([
    kysely
      .insertInto('partner_profiles')
      .values({ user_id: userId, ...profile })
      .onConflict((oc) => oc.column('user_id').doUpdateSet(profile)),
    'name' in profile ? told.where('ended_at', 'is', null) : told,
  ])
}
