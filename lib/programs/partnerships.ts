import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { type Part, partOf } from '../keyset.ts'
import type { Language } from '../languages.ts'
import { kysely, now } from '../kysely.ts'
import { balancesOf, lastPayoutOf, nextCreditOf, openPayoutOf } from '../money/balances.ts'
import { rulesForPartner } from './commission-rules.ts'
import { codesOf } from './codes.ts'
import { linkFiguresOf, linksFollow } from './links.ts'

/**
 * The programs that a person joined. Each program has its own partner for the person. Their account shows all of them in one place.
 */
export type ProgramOfPartner = Awaited<ReturnType<typeof listProgramsOfPartner>>[number]

/**
 * Lists the current and former programs of a partner, with the links and the money in each, last joined first. Pages by partner id.
 * `programId` selects one program.
 */
export async function listProgramsOfPartner(
  db: Database,
  userId: string,
  { programId, ...part }: Part & { programId?: number },
) {
  let query = partnershipsStatement().where('p.user_id', '=', userId)
  if (programId !== undefined) query = query.where('p.program_id', '=', programId)
  return await db.query(partOf(query, sql.ref<number>('p.id'), part))
}

/** Selects partners `p` with their program `g`, their links and their money. */
export function partnershipsStatement() {
  return kysely
    .selectFrom('partners as p')
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select(['g.id', 'g.name', 'g.domain', 'g.currency', 'g.commission_bp'])
    .select(['g.commission_duration_months', 'g.lead_commission_cents', 'g.hold_days', 'g.cookie_window_days'])
    .select(['p.id as partner_id', 'p.is_active', 'p.ended_at', 'p.ended_by'])
    .select((eb) => [
      jsonArrayFrom(linkFiguresOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('links'),
      jsonArrayFrom(codesOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('codes'),
      jsonArrayFrom(rulesForPartner(eb.ref('p.program_id'), eb.ref('p.id'), eb.ref('p.group_id'))).as('rules'),
      jsonArrayFrom(balancesOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('balances'),
      nextCreditOf(eb.ref('p.program_id'), eb.ref('p.id'), eb.ref('g.currency')).as('next_credit'),
      openPayoutOf(eb.ref('p.program_id'), eb.ref('p.id'), eb.ref('g.currency')).as('open_payout'),
      lastPayoutOf(eb.ref('p.program_id'), eb.ref('p.id'), eb.ref('g.currency')).as('last_payout'),
      eb.fn
        .coalesce(
          eb
            .selectFrom('minimum_payouts as m')
            .select('m.minimum_payout_cents')
            .whereRef('m.program_id', '=', 'g.id')
            .whereRef('m.currency', '=', 'g.currency'),
          eb.lit(0),
        )
        .as('minimum_payout_cents'),
    ])
}

/** Lists the names of all current and former programs of a partner, last joined first. */
export async function listProgramNames(db: Database, userId: string) {
  return await db.query(programNames(userId))
}

export type ProgramBalances = Awaited<ReturnType<typeof listProgramBalances>>[number]

/** Lists all current and former programs of a partner with the balances in each, last joined first. */
export async function listProgramBalances(db: Database, userId: string) {
  return await db.query(
    programNames(userId).select((eb) =>
      jsonArrayFrom(balancesOf(eb.ref('p.program_id'), eb.ref('p.id'))).as('balances'),
    ),
  )
}

const programNames = (userId: string) =>
  kysely
    .selectFrom('partners as p')
    .innerJoin('programs as g', 'g.id', 'p.program_id')
    .select(['g.id', 'g.name', 'g.currency', 'p.id as partner_id'])
    .where('p.user_id', '=', userId)
    .orderBy('p.id', 'desc')

/**
 * Ends a partnership for the program or for the person. Disables the links, and revokes the codes (in Stripe through `disableRevoked`)
 * and the open invitation. Earlier earnings stay payable. A new invitation continues the partnership without codes. Repeating this
 * changes nothing.
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
    linksFollow('userId' in of ? of : { programId: of.programId, partnerIds: [of.partnerId] }),
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

/** Sets a person's name in every program that they joined and haven't left. Programs that they join later also get the name. */
export async function setPartnerName(db: Database, userId: string, name: string): Promise<void> {
  await db.batch([
    profileWith(userId, { name }),
    kysely.updateTable('partners').set({ name }).where('user_id', '=', userId).where('ended_at', 'is', null),
  ])
}

/**
 * Sets a person's payout address in every program that they joined. `before` lists the replaced addresses. After an earlier payout or
 * request, the new address isn't used for 24 hours, until `waitsUntil` (migrations/functions/2_ledger/payout-runs.sql).
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

/** Sets a person's language. Null means the language of the program or the browser. */
export async function setPartnerLanguage(db: Database, userId: string, language: Language | null): Promise<void> {
  await db.query(profileWith(userId, { language }))
}

/**
 * Saves the language in which a person became a partner, so that later mails are in it. An existing choice wins, and so does the language
 * of a program of this partner.
 */
export async function keepPartnerLanguage(db: Database, userId: string, language: Language): Promise<void> {
  await db.query(
    kysely
      .insertInto('partner_profiles')
      .columns(['user_id', 'language'])
      .expression((eb) =>
        eb
          .selectFrom('users as u')
          .select((of) => ['u.id as user_id', of.val(language).as('language')])
          .where('u.id', '=', userId)
          .where((of) =>
            of.not(
              of.exists(
                of
                  .selectFrom('partners as p')
                  .innerJoin('programs as g', 'g.id', 'p.program_id')
                  .select('p.id')
                  .where('p.user_id', '=', userId)
                  .where('g.language', 'is not', null),
              ),
            ),
          ),
      )
      .onConflict((oc) =>
        oc
          .column('user_id')
          .doUpdateSet({ language: (eb) => eb.ref('excluded.language') })
          .where('partner_profiles.language', 'is', null),
      ),
  )
}

/** Stores a person's partner profile, also for programs that they join later. */
function profileWith(
  userId: string,
  profile: { name: string } | { payout_email: string } | { language: Language | null },
) {
  return kysely
    .insertInto('partner_profiles')
    .values({ user_id: userId, ...profile })
    .onConflict((oc) => oc.column('user_id').doUpdateSet(profile))
}
