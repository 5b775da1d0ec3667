import { sql } from 'kysely'
import type { Role } from '../access/roles.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { hashToken, newToken } from '../access/tokens.ts'

const invitationDays = 7

export interface Member {
  user_id: string
  name: string
  email: string
  role: Role
  created_at: Date
  /** Null while the member is active. */
  removed_at: Date | null
}

export interface Invitation {
  id: string
  email: string
  role: Role
  expires_at: Date
}

/** Makes a workspace with its first owner and returns its id. */
export async function createWorkspace(db: Database, workspace: { name: string; ownerId: string }): Promise<string> {
  const id = crypto.randomUUID()
  await db.query(sql`
    with made as (insert into workspaces (id, name) values (${id}, ${workspace.name}) returning id)
    insert into workspace_members (workspace_id, user_id, role) select id, ${workspace.ownerId}, 'owner' from made`)
  return id
}

/** Everybody who is or was a member, the active ones first, and the invitations that are open. */
export async function listMembers(
  db: Database,
  workspaceId: string,
): Promise<{ members: Member[]; invitations: Invitation[] }> {
  const [members, invitations] = await db.batch([
    sql<Member>`
      select m.user_id, u.name, u.email, m.role, m.created_at, m.removed_at
      from workspace_members m join users u on u.id = m.user_id
      where m.workspace_id = ${workspaceId} order by m.removed_at is not null, m.created_at, m.user_id`,
    sql<Invitation>`
      select id, email, role, expires_at from workspace_invitations
      where workspace_id = ${workspaceId} and accepted_at is null and revoked_at is null order by created_at, id`,
  ])
  return { members, invitations }
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
      now() + make_interval(days => ${invitationDays})
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

/**
 * Gives an active member another role, or removes them where `role` is null. Only an owner may touch an owner or make one
 * (`byOwner`), and the last owner stays. The workspace's row is locked first, so that two owners cannot remove each other.
 */
export async function changeMember(
  db: Database,
  change: { workspaceId: string; userId: string; role: Role | null; byOwner: boolean },
): Promise<void> {
  const { workspaceId, userId, role, byOwner } = change
  const [, changed] = await db.batch([
    sql`select from workspaces where id = ${workspaceId} for update`,
    sql`
      with changed as (
        update workspace_members m set
          role = coalesce(${role}::text, m.role), removed_at = case when ${role}::text is null then now() end
        where m.workspace_id = ${workspaceId} and m.user_id = ${userId} and m.removed_at is null
          and (${byOwner}::boolean or (m.role <> 'owner' and ${role}::text is distinct from 'owner'))
          and (m.role <> 'owner' or ${role}::text is not distinct from 'owner' or exists (
            select from workspace_members o
            where o.workspace_id = m.workspace_id and o.user_id <> m.user_id and o.role = 'owner' and o.removed_at is null))
        returning m.user_id
      ), closed as (
        delete from program_members p using changed
        where p.workspace_id = ${workspaceId} and p.user_id = changed.user_id and ${role}::text is null
      )
      select user_id from changed`,
  ])
  if (changed.length === 0) {
    throw new ApiError(
      'conflict',
      'A workspace keeps at least one owner, and only an owner changes owners. Make another owner first.',
    )
  }
}

/** Opens a program to an active member with a role of its own there, or closes it again where `role` is null. */
export async function openProgram(
  db: Database,
  opening: { programId: number; userId: string; role: 'admin' | 'member' | 'billing' | null },
): Promise<void> {
  const { programId, userId, role } = opening
  await db.query(
    role === null
      ? sql`delete from program_members where program_id = ${programId} and user_id = ${userId}`
      : sql`
        insert into program_members (program_id, workspace_id, user_id, role)
        select p.id, m.workspace_id, m.user_id, ${role}
        from programs p join workspace_members m on m.workspace_id = p.workspace_id
        where p.id = ${programId} and m.user_id = ${userId} and m.removed_at is null
        on conflict (program_id, user_id) do update set role = excluded.role`,
  )
}

export interface OpenedProgram {
  program_id: number
  program_name: string
  user_id: string
  user_name: string
  role: Role
}

/** Which programs of a workspace are opened to single members. */
export async function listOpenedPrograms(db: Database, workspaceId: string): Promise<OpenedProgram[]> {
  const rows = await db.query<Omit<OpenedProgram, 'program_id'> & { program_id: string }>(sql`
    select o.program_id, p.name as program_name, o.user_id, u.name as user_name, o.role
    from program_members o join programs p on p.id = o.program_id join users u on u.id = o.user_id
    where o.workspace_id = ${workspaceId} order by p.name, u.name, o.user_id`)
  return rows.map((row) => ({ ...row, program_id: Number(row.program_id) }))
}
