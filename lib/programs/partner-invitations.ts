import { type Expression, expressionBuilder, type ExpressionBuilder, sql } from 'kysely'
import { jsonObjectFrom } from 'kysely/helpers/postgres'
import { rolesWith } from '../access/roles.ts'
import { hashToken, newToken } from '../access/tokens.ts'
import { brandOf } from '../brand.ts'
import { refuse } from '../constraints.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type Part, partOf, totalsOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { messagesAbout, type RelayMessage, writtenMessages } from '../notifications/outbox.ts'
import type { DB } from '../schema.ts'

const validDays = 14

type InvitationBuilder = ExpressionBuilder<DB & { i: DB['partner_invitations'] }, 'i'>

/**
 * The invitation is open and not expired, and its sender may still invite. It ends when the sender loses the right to invite, unless the
 * partner applied.
 */
function holds(eb: InvitationBuilder) {
  return eb.and([
    isOpen(eb),
    eb('i.expires_at', '>', now),
    eb.or([eb('i.application_id', 'is not', null), senderMay(eb)]),
  ])
}

function senderMay(eb: InvitationBuilder) {
  return eb.exists(
    eb
      .selectFrom('program_roles as m')
      .whereRef('m.program_id', '=', 'i.program_id')
      .whereRef('m.user_id', '=', 'i.invited_by')
      .where('m.roles', '&&', sql<string[]>`${rolesWith('partner:manage')}::text[]`),
  )
}

function isOpen(eb: InvitationBuilder) {
  return eb.and([eb('i.accepted_at', 'is', null), eb('i.declined_at', 'is', null), eb('i.revoked_at', 'is', null)])
}

/** Revokes partner invitations whose senders lost the right to invite. This is part of the transaction that removes the right. */
export function endPartnerInvitations(workspaceId: string | Expression<string>) {
  return kysely
    .updateTable('partner_invitations as i')
    .set({ revoked_at: now })
    .where('i.program_id', 'in', (eb) => eb.selectFrom('programs').select('id').where('workspace_id', '=', workspaceId))
    .where((eb) => isOpen(eb))
    .where((eb) => eb.not(holds(eb)))
}

/** Column: whether a partner has an open invitation. */
export function openInvitationOf(programId: Expression<number>, partnerId: Expression<number>) {
  const eb = expressionBuilder<DB>()
  return eb.exists(
    eb
      .selectFrom('partner_invitations as i')
      .where('i.program_id', '=', programId)
      .where('i.partner_id', '=', partnerId)
      .where((invitation) => holds(invitation)),
  )
}

/**
 * Creates the token for a link with which a person takes over a partner, and replaces the partner's open invitation. Returns undefined
 * if the partner has no address, or if they already have an account and the partnership hasn't ended.
 */
export async function invitePartner(
  db: Database,
  invitation: { programId: number; partnerId: number; invitedBy: string },
): Promise<{ token: string; email: string; language: string | null } | undefined> {
  const { programId, partnerId, invitedBy } = invitation
  const token = newToken()
  const tokenHash = await hashToken(token)
  const expires = sql<Date>`now() + make_interval(days => ${validDays})`
  const [invited] = await db.query(
    kysely
      .insertInto('partner_invitations')
      .columns(['program_id', 'partner_id', 'email', 'token_hash', 'invited_by', 'expires_at'])
      .expression((eb) =>
        eb
          .selectFrom('partners')
          .select(['program_id', 'id'])
          .select((of) => [
            of.fn<string>('lower', ['email']).as('email'),
            of.val(tokenHash).as('token_hash'),
            of.val(invitedBy).as('invited_by'),
            expires.as('expires_at'),
          ])
          .where('program_id', '=', programId)
          .where('id', '=', partnerId)
          .where('email', 'is not', null)
          .where((of) => of.or([of('user_id', 'is', null), of('ended_at', 'is not', null)])),
      )
      .onConflict((oc) =>
        oc
          .columns(['program_id', 'partner_id'])
          .where('accepted_at', 'is', null)
          .where('declined_at', 'is', null)
          .where('revoked_at', 'is', null)
          .doUpdateSet({
            email: (eb) => eb.ref('excluded.email'),
            token_hash: tokenHash,
            invited_by: invitedBy,
            application_id: null,
            created_at: now,
            expires_at: expires,
          }),
      )
      .returning(['email'])
      .returning((eb) =>
        eb
          .selectFrom('programs as g')
          .select('g.language')
          .whereRef('g.id', '=', 'partner_invitations.program_id')
          .as('language'),
      ),
  )
  return invited && { token, ...invited }
}

/** Returns the program and the address of the invitation for a link, or undefined if the link no longer works. */
export async function findPartnerInvitation(db: Database, token: string) {
  const [found] = await db.query(
    kysely
      .selectFrom('partner_invitations as i')
      .innerJoin('programs as g', 'g.id', 'i.program_id')
      .innerJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'i.program_id').onRef('p.id', '=', 'i.partner_id'),
      )
      .select(['g.name as program_name', 'g.language', 'i.email', 'p.name as partner_name'])
      .select((eb) =>
        jsonObjectFrom(brandOf(eb.ref('g.id')))
          .$notNull()
          .as('brand'),
      )
      .where('i.token_hash', '=', await hashToken(token))
      .where((eb) => holds(eb)),
  )
  return found
}

export type PartnerInvitation = Awaited<ReturnType<typeof listPartnerInvitations>>[number]

/** Lists the open invitations to a verified address, newest first, only with their programs' names. */
export async function listPartnerInvitations(db: Database, email: string, part: Part) {
  return await db.query(partnerInvitationList(email, part))
}

export const partnerInvitationTotals = (email: string) => totalsOf(partnerInvitationList(email, { limit: 0 }))

function partnerInvitationList(email: string, part: Part) {
  const query = kysely
    .selectFrom('partner_invitations as i')
    .innerJoin('programs as g', 'g.id', 'i.program_id')
    .select(['i.program_id', 'i.id', 'g.name as program_name', 'i.expires_at'])
    .where('i.email', '=', email)
    .where((eb) => holds(eb))
  return partOf(query, sql.ref<number>('i.id'), part)
}

/** An invitation, identified by its link or by its row in the list. */
type NamedInvitation = { token: string } | { programId: number; id: number }

/**
 * Connects a program's partner to the person with the invited address: through the link, which proves the address, or through the list,
 * which requires a verified address. From then on, the program sees the person's own name and payout address. An ended partnership
 * continues. Returns the messages to send. Throws `forbidden` if the invitation has expired or belongs to somebody else, and `conflict` if
 * the person is already a partner of the program.
 */
export async function acceptPartnerInvitation(
  db: Database,
  named: NamedInvitation,
  userId: string,
): Promise<RelayMessage[]> {
  const which = await conditionOf(named)
  const accepted = kysely
    .with('invitation', (cte) =>
      cte
        .updateTable('partner_invitations as i')
        .from('users as u')
        .from('partners as p')
        .set({ accepted_at: now })
        .where((eb) => holds(eb))
        .where((eb) => which(eb))
        .where('u.id', '=', userId)
        .whereRef('u.email', '=', 'i.email')
        .where((eb) => eb.or([eb.lit('token' in named), eb('u.email_verified', '=', true)]))
        .whereRef('p.program_id', '=', 'i.program_id')
        .whereRef('p.id', '=', 'i.partner_id')
        .where((eb) => eb.or([eb('p.user_id', 'is', null), eb('p.user_id', '=', userId)]))
        .returning(['i.program_id', 'i.partner_id'])
        .returning((eb) => eb('p.ended_at', 'is not', null).as('had_ended')),
    )
    .with('switched', (cte) =>
      cte
        .updateTable('referral_links as l')
        .from('invitation')
        .set({ is_active: true })
        .whereRef('l.program_id', '=', 'invitation.program_id')
        .whereRef('l.partner_id', '=', 'invitation.partner_id')
        .where('invitation.had_ended', '=', true),
    )
    .with('proven', (cte) =>
      cte
        .updateTable('users')
        .set({ email_verified: true })
        .where('id', '=', userId)
        .where('email_verified', '=', false)
        .where((eb) => eb.exists(eb.selectFrom('invitation'))),
    )
    .updateTable('partners as p')
    .from('invitation')
    .set({
      user_id: userId,
      is_active: (eb) => eb.case().when('p.ended_at', 'is not', null).then(true).else(eb.ref('p.is_active')).end(),
      ended_at: null,
      ended_by: null,
      name: (eb) => eb.fn.coalesce(profileOf(userId).select('name').$asScalar(), 'p.name'),
      payout_email: (eb) => eb.fn.coalesce(profileOf(userId).select('payout_email').$asScalar(), 'p.payout_email'),
    })
    .whereRef('p.program_id', '=', 'invitation.program_id')
    .whereRef('p.id', '=', 'invitation.partner_id')
    .returning('p.program_id')
  const [[joined], [written]] = await db.batch([accepted, writtenMessages()]).catch(refuse)
  if (!joined) {
    throw new ApiError(
      'forbidden',
      'This invitation is for another e-mail address, or was used, revoked or has expired. Ask for a new one.',
    )
  }
  return messagesAbout({ ...joined, ...written })
}

/** Declines an invitation in the list for the person's verified address. Does nothing if the invitation is no longer open. */
export async function declinePartnerInvitation(
  db: Database,
  { programId, id }: { programId: number; id: number },
  userId: string,
): Promise<void> {
  await db.query(
    kysely
      .updateTable('partner_invitations as i')
      .from('users as u')
      .set({ declined_at: now })
      .where('i.program_id', '=', programId)
      .where('i.id', '=', id)
      .where((eb) => isOpen(eb))
      .where('u.id', '=', userId)
      .where('u.email_verified', '=', true)
      .whereRef('u.email', '=', 'i.email'),
  )
}

async function conditionOf(named: NamedInvitation) {
  const tokenHash = 'token' in named ? await hashToken(named.token) : undefined
  return (eb: InvitationBuilder) =>
    'token' in named
      ? eb('i.token_hash', '=', tokenHash ?? new Uint8Array())
      : eb.and([eb('i.program_id', '=', named.programId), eb('i.id', '=', named.id)])
}

function profileOf(userId: string) {
  return kysely.selectFrom('partner_profiles as f').where('f.user_id', '=', userId)
}
