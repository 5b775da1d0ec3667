import { sql } from 'kysely'
import type { Role } from '../access/roles.ts'
import { hashToken, newToken } from '../access/tokens.ts'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'

const memberInvitationDays = 7
const partnerInvitationDays = 14

const inDays = (days: number) => sql<Date>`now() + make_interval(days => ${days})`

/**
 * Invites an e-mail address, or renews the invitation that is open for it, and returns the token for the link in the mail.
 * Refuses with `conflict` where the address belongs to an active member.
 */
export async function inviteMember(
  db: Database,
  invitation: { workspaceId: string; email: string; role: Role; invitedBy: string },
): Promise<string> {
  const token = newToken()
  const { workspaceId, role, invitedBy } = invitation
  const email = invitation.email.trim().toLowerCase()
  const tokenHash = await hashToken(token)
  const invited = await db.query(
    kysely
      .insertInto('workspace_invitations')
      .columns(['workspace_id', 'email', 'role', 'token_hash', 'invited_by', 'expires_at'])
      .expression((eb) =>
        kysely
          .selectNoFrom([
            eb.val(workspaceId).as('workspace_id'),
            eb.val(email).as('email'),
            eb.val(role).as('role'),
            eb.val(tokenHash).as('token_hash'),
            eb.val(invitedBy).as('invited_by'),
            inDays(memberInvitationDays).as('expires_at'),
          ])
          .where(
            eb.not(
              eb.exists(
                eb
                  .selectFrom('workspace_members as m')
                  .innerJoin('users as u', 'u.id', 'm.user_id')
                  .where('m.workspace_id', '=', workspaceId)
                  .where('u.email', '=', email)
                  .where('m.removed_at', 'is', null),
              ),
            ),
          ),
      )
      .onConflict((oc) =>
        oc
          .columns(['workspace_id', 'email'])
          .where('accepted_at', 'is', null)
          .where('revoked_at', 'is', null)
          .doUpdateSet({
            role,
            token_hash: tokenHash,
            invited_by: invitedBy,
            expires_at: inDays(memberInvitationDays),
          }),
      )
      .returning('id'),
  )
  if (invited.length === 0) throw new ApiError('conflict', `${email} is a member already.`)
  return token
}

/** Takes an open invitation back, so that its link stops working. */
export async function revokeInvitation(db: Database, workspaceId: string, invitationId: string): Promise<void> {
  await db.query(
    kysely
      .updateTable('workspace_invitations')
      .set({ revoked_at: now })
      .where('id', '=', invitationId)
      .where('workspace_id', '=', workspaceId)
      .where('accepted_at', 'is', null)
      .where('revoked_at', 'is', null),
  )
}

/** The workspace, address and role an invitation's link is for, or undefined where the link is used up, revoked or too old. */
export async function findInvitation(db: Database, token: string) {
  const [invitation] = await db.query(
    kysely
      .selectFrom('workspace_invitations as i')
      .innerJoin('workspaces as w', 'w.id', 'i.workspace_id')
      .select(['w.name as workspace_name', 'i.email', 'i.role'])
      .where('i.token_hash', '=', await hashToken(token))
      .where('i.accepted_at', 'is', null)
      .where('i.revoked_at', 'is', null)
      .where('i.expires_at', '>', now),
  )
  return invitation
}

/**
 * Makes the signed-in user a member with the invitation's role and returns the workspace's id; a removed member becomes active
 * again. The link came to the invited address, so only that address may use it, and using it proves the address. Refuses with
 * `forbidden` otherwise.
 */
export async function acceptInvitation(db: Database, token: string, userId: string): Promise<string> {
  const tokenHash = await hashToken(token)
  const [joined] = await db.query(
    kysely
      .with('invitation', (cte) =>
        cte
          .updateTable('workspace_invitations as i')
          .from('users as u')
          .set({ accepted_at: now })
          .where('i.token_hash', '=', tokenHash)
          .where('i.accepted_at', 'is', null)
          .where('i.revoked_at', 'is', null)
          .where('i.expires_at', '>', now)
          .where('u.id', '=', userId)
          .whereRef('u.email', '=', 'i.email')
          .returning(['i.workspace_id', 'i.role']),
      )
      .with('proven', (cte) =>
        cte
          .updateTable('users')
          .set({ email_verified: true })
          .where('id', '=', userId)
          .where((eb) => eb.exists(eb.selectFrom('invitation'))),
      )
      .insertInto('workspace_members')
      .columns(['workspace_id', 'user_id', 'role'])
      .expression((eb) => eb.selectFrom('invitation').select(['workspace_id', eb.val(userId).as('user_id'), 'role']))
      .onConflict((oc) =>
        oc.columns(['workspace_id', 'user_id']).doUpdateSet({
          role: (eb) =>
            eb
              .case()
              .when('workspace_members.removed_at', 'is', null)
              .then(eb.ref('workspace_members.role'))
              .else(eb.ref('excluded.role'))
              .end(),
          removed_at: null,
        }),
      )
      .returning('workspace_id'),
  )
  if (!joined) {
    throw new ApiError(
      'forbidden',
      'This invitation is for another e-mail address, or was used, taken back or left too long. Ask for a new one.',
    )
  }
  return joined.workspace_id
}

/** Makes the secret for the link by which a partner takes over their account, or undefined where somebody has already. */
export async function invitePartner(
  db: Database,
  partnerId: number,
): Promise<{ token: string; email: string } | undefined> {
  const token = newToken()
  const tokenHash = await hashToken(token)
  const [invited] = await db.query(
    kysely
      .with('partner', (cte) =>
        cte
          .selectFrom('partners')
          .select('id')
          .select((eb) => eb.ref('email').$notNull().as('email'))
          .where('id', '=', partnerId)
          .where('user_id', 'is', null)
          .where('email', 'is not', null),
      )
      .with('invitation', (cte) =>
        cte
          .insertInto('partner_invitations')
          .columns(['partner_id', 'token_hash', 'expires_at'])
          .expression((eb) =>
            eb
              .selectFrom('partner')
              .select(['id', eb.val(tokenHash).as('token_hash'), inDays(partnerInvitationDays).as('expires_at')]),
          ),
      )
      .selectFrom('partner')
      .select('email'),
  )
  return invited && { token, email: invited.email }
}

/** The partner an invitation's link is for, or undefined where the link is used up or too old. */
export async function findPartnerInvitation(db: Database, token: string) {
  const [partner] = await db.query(
    kysely
      .selectFrom('partner_invitations as i')
      .innerJoin('partners as p', 'p.id', 'i.partner_id')
      .select('p.name')
      .select((eb) => eb.ref('p.email').$notNull().as('email'))
      .where('i.token_hash', '=', await hashToken(token))
      .where('i.accepted_at', 'is', null)
      .where('i.expires_at', '>', now)
      .where('p.user_id', 'is', null),
  )
  return partner
}

/** Ties a partner account to the signed-in user. Refuses a link that is used up, and users who are another partner already. */
export async function acceptPartnerInvitation(db: Database, token: string, userId: string): Promise<void> {
  const tokenHash = await hashToken(token)
  const accepted = await db
    .query(
      kysely
        .with('invitation', (cte) =>
          cte
            .updateTable('partner_invitations as i')
            .from('partners as p')
            .set({ accepted_at: now })
            .where('i.token_hash', '=', tokenHash)
            .where('i.accepted_at', 'is', null)
            .where('i.expires_at', '>', now)
            .whereRef('p.id', '=', 'i.partner_id')
            .where('p.user_id', 'is', null)
            .returning('i.partner_id'),
        )
        .updateTable('partners')
        .from('invitation')
        .set({ user_id: userId })
        .whereRef('partners.id', '=', 'invitation.partner_id')
        .returning('partners.id'),
    )
    .catch((error: unknown) => {
      if (violatedConstraint(error) !== 'partners_user_id_key') throw error
      throw new ApiError(
        'conflict',
        'You are signed in as another partner already. Sign out, then open the link again.',
      )
    })
  if (accepted.length === 0) {
    throw new ApiError('forbidden', 'This invitation was used or left too long. Ask for a new one.')
  }
}
