import { sql } from 'kysely'
import type { Role } from '../access/roles.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import type { Invitation } from './invitations.ts'

export interface Member {
  user_id: string
  name: string
  email: string
  role: Role
  created_at: Date
  /** Null while the member is active. */
  removed_at: Date | null
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
