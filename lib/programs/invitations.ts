import { sql } from 'kysely'
import type { Role } from '../access/roles.ts'
import { hashToken, newToken } from '../access/tokens.ts'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'

const memberInvitationDays = 7
const partnerInvitationDays = 14

export interface Invitation {
  id: string
  email: string
  role: Role
  expires_at: Date
}

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
  const invited = await db.query(sql`
    insert into workspace_invitations (workspace_id, email, role, token_hash, invited_by, expires_at)
    select ${workspaceId}, ${email}, ${role}, ${await hashToken(token)}, ${invitedBy},
      now() + make_interval(days => ${memberInvitationDays})
    where not exists (
      select from workspace_members m join users u on u.id = m.user_id
      where m.workspace_id = ${workspaceId} and u.email = ${email} and m.removed_at is null)
    on conflict (workspace_id, email) where accepted_at is null and revoked_at is null
    do update set role = excluded.role, token_hash = excluded.token_hash, invited_by = excluded.invited_by,
      expires_at = excluded.expires_at
    returning id`)
  if (invited.length === 0) throw new ApiError('conflict', `${email} is a member already.`)
  return token
}

/** Takes an open invitation back, so that its link stops working. */
export async function revokeInvitation(db: Database, workspaceId: string, invitationId: string): Promise<void> {
  await db.query(sql`
    update workspace_invitations set revoked_at = now()
    where id = ${invitationId} and workspace_id = ${workspaceId} and accepted_at is null and revoked_at is null`)
}

/** The workspace and address an invitation's link is for, or undefined where the link is used up, revoked or too old. */
export async function findInvitation(
  db: Database,
  token: string,
): Promise<{ workspace_name: string; email: string; role: Role } | undefined> {
  const [invitation] = await db.query<{ workspace_name: string; email: string; role: Role }>(sql`
    select w.name as workspace_name, i.email, i.role
    from workspace_invitations i join workspaces w on w.id = i.workspace_id
    where i.token_hash = ${await hashToken(token)} and i.accepted_at is null and i.revoked_at is null and i.expires_at > now()`)
  return invitation
}

/**
 * Makes the signed-in user a member with the invitation's role; a removed member becomes active again. The link came to the
 * invited address, so only that address may use it, and using it proves the address. Refuses with `forbidden` otherwise.
 */
export async function acceptInvitation(db: Database, token: string, userId: string): Promise<string> {
  const [joined] = await db.query<{ workspace_id: string }>(sql`
    with invitation as (
      update workspace_invitations i set accepted_at = now() from users u
      where i.token_hash = ${await hashToken(token)} and i.accepted_at is null and i.revoked_at is null
        and i.expires_at > now() and u.id = ${userId} and u.email = i.email
      returning i.workspace_id, i.role
    ), proven as (
      update users set email_verified = true where id = ${userId} and exists (select from invitation)
    )
    insert into workspace_members as m (workspace_id, user_id, role)
    select workspace_id, ${userId}, role from invitation
    on conflict (workspace_id, user_id) do update set
      role = case when m.removed_at is null then m.role else excluded.role end, removed_at = null
    returning m.workspace_id`)
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
  const [invited] = await db.query<{ email: string }>(sql`
    with invitation as (
      insert into partner_invitations (partner_id, token_hash, expires_at)
      select id, ${await hashToken(token)}, now() + make_interval(days => ${partnerInvitationDays})
      from partners where id = ${partnerId} and user_id is null and email is not null
      returning partner_id
    )
    select email from partners join invitation on partner_id = id`)
  return invited && { token, email: invited.email }
}

/** The partner an invitation's link is for, or undefined where the link is used up or too old. */
export async function findPartnerInvitation(
  db: Database,
  token: string,
): Promise<{ name: string; email: string } | undefined> {
  const [partner] = await db.query<{ name: string; email: string }>(sql`
    select p.name, p.email from partner_invitations i join partners p on p.id = i.partner_id
    where i.token_hash = ${await hashToken(token)} and i.accepted_at is null and i.expires_at > now() and p.user_id is null`)
  return partner
}

/** Ties a partner account to the signed-in user. Refuses a link that is used up, and users who are another partner already. */
export async function acceptPartnerInvitation(db: Database, token: string, userId: string): Promise<void> {
  const accepted = await db
    .query(
      sql`
      with invitation as (
        update partner_invitations i set accepted_at = now() from partners p
        where i.token_hash = ${await hashToken(token)} and i.accepted_at is null and i.expires_at > now()
          and p.id = i.partner_id and p.user_id is null
        returning i.partner_id
      )
      update partners set user_id = ${userId} from invitation where id = partner_id returning id`,
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
