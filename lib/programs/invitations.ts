import { type ExpressionBuilder, sql } from 'kysely'
import { type Role, rolesWith } from '../access/roles.ts'
import { hashToken, newToken } from '../access/tokens.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import type { DB } from '../schema.ts'

const expires = sql<Date>`now() + make_interval(days => 7)`

type InvitationBuilder = ExpressionBuilder<DB & { i: DB['workspace_invitations'] }, 'i'>

function isOpen(eb: InvitationBuilder) {
  return eb.and([eb('i.accepted_at', 'is', null), eb('i.revoked_at', 'is', null)])
}

/** The invitation is open and not expired, and its sender may still invite. It ends when the sender's membership or permission ends. */
function holds(eb: InvitationBuilder) {
  return eb.and([
    isOpen(eb),
    eb('i.expires_at', '>', now),
    eb.exists(
      eb
        .selectFrom('active_members as m')
        .whereRef('m.workspace_id', '=', 'i.workspace_id')
        .whereRef('m.user_id', '=', 'i.invited_by')
        .where('m.role', 'in', rolesWith('member:manage'))
        .where((sender) =>
          sender.or([sender('i.role', '<>', 'owner'), sender('m.role', 'in', rolesWith('owner:manage'))]),
        ),
    ),
  ])
}

/** Revokes invitations whose senders lost the right to invite. This is part of the transaction that removes the right. */
export function endInvitations(workspaceId: string) {
  return kysely
    .updateTable('workspace_invitations as i')
    .set({ revoked_at: now })
    .where('i.workspace_id', '=', workspaceId)
    .where((eb) => isOpen(eb))
    .where((eb) => eb.not(holds(eb)))
}

/**
 * Invites an address to a workspace, or renews its open invitation. Returns the token for the mailed link. Throws `conflict` if the address
 * belongs to an active member. Throws the same error if an open invitation is for an owner and the sender is not an owner (`byOwner`).
 */
export async function inviteMember(
  db: Database,
  invitation: { workspaceId: string; email: string; role: Role; invitedBy: string; byOwner: boolean },
): Promise<string> {
  const token = newToken()
  const { workspaceId, role, invitedBy, byOwner } = invitation
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
            expires.as('expires_at'),
          ])
          .where(
            eb.not(
              eb.exists(
                eb
                  .selectFrom('active_members as m')
                  .innerJoin('users as u', 'u.id', 'm.user_id')
                  .where('m.workspace_id', '=', workspaceId)
                  .where('u.email', '=', email),
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
            expires_at: expires,
          })
          .where((eb) => eb.or([eb.lit(byOwner), eb('workspace_invitations.role', '<>', 'owner')])),
      )
      .returning('id'),
  )
  if (invited.length === 0)
    throw new ApiError('conflict', `${email} is already a member, or an owner invited them as an owner.`)
  return token
}

/** Revokes an open invitation, so that its link stops working. Only an owner (`byOwner`) may revoke an owner's invitation. */
export async function revokeInvitation(
  db: Database,
  of: { workspaceId: string; invitationId: string; byOwner: boolean },
): Promise<void> {
  const revoked = await db.query(
    kysely
      .updateTable('workspace_invitations as i')
      .set({ revoked_at: now })
      .where('i.id', '=', of.invitationId)
      .where('i.workspace_id', '=', of.workspaceId)
      .where((eb) => isOpen(eb))
      .where((eb) => eb.or([eb.lit(of.byOwner), eb('i.role', '<>', 'owner')]))
      .returning('i.id'),
  )
  if (revoked.length === 0)
    throw new ApiError('not_found', 'There is no such open invitation, or only an owner can revoke it.')
}

/** Returns the workspace, address and role of the invitation for a link. Returns undefined if the link is used, revoked or expired. */
export async function findInvitation(db: Database, token: string) {
  const [invitation] = await db.query(
    kysely
      .selectFrom('workspace_invitations as i')
      .innerJoin('workspaces as w', 'w.id', 'i.workspace_id')
      .select(['w.name as workspace_name', 'i.email', 'i.role'])
      .where('i.token_hash', '=', await hashToken(token))
      .where((eb) => holds(eb)),
  )
  return invitation
}

/**
 * Makes the signed-in user a member with the invitation's role and returns the workspace's id. A removed member becomes active again. Only the
 * invited address may use the link, and using it proves the address. Throws `forbidden` otherwise.
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
          .where((eb) => holds(eb))
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
      'This invitation is for another e-mail address, or was used, revoked or has expired. Ask for a new one.',
    )
  }
  return joined.workspace_id
}
