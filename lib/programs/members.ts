import type { Role } from '../access/roles.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { endInvitations } from './invitations.ts'
import { endPartnerInvitations } from './partner-invitations.ts'

export type Member = Awaited<ReturnType<typeof listMembers>>['members'][number]

/** Lists current members, then former ones (with `removed_at`), and the open invitations. */
export async function listMembers(db: Database, workspaceId: string) {
  const [members, invitations] = await db.batch([
    kysely
      .selectFrom('workspace_members as m')
      .innerJoin('users as u', 'u.id', 'm.user_id')
      .select(['m.user_id', 'u.name', 'u.email', 'm.role', 'm.created_at', 'm.removed_at', 'u.two_factor_enabled'])
      .where('m.workspace_id', '=', workspaceId)
      .orderBy((eb) => eb('m.removed_at', 'is not', null))
      .orderBy('m.created_at')
      .orderBy('m.user_id'),
    kysely
      .selectFrom('workspace_invitations')
      .select(['id', 'email', 'role', 'expires_at'])
      .where('workspace_id', '=', workspaceId)
      .where('accepted_at', 'is', null)
      .where('revoked_at', 'is', null)
      .orderBy('created_at')
      .orderBy('id'),
  ])
  return { members, invitations }
}

/**
 * Changes the role of an active member, or removes them if `role` is null. Only an owner (`byOwner`) may change owners, and the last owner
 * can't be removed. An invitation ends if its sender may no longer invite. Locks the workspace's row first, so that two owners cannot
 * remove each other. The member's API keys stay valid, because the programs' servers use them. Returns the number of active API keys that
 * the member created.
 */
export async function changeMember(
  db: Database,
  change: { workspaceId: string; userId: string; role: Role | null; byOwner: boolean },
): Promise<number> {
  const { workspaceId, userId, role, byOwner } = change
  const changing = kysely
    .updateTable('workspace_members as m')
    .set(role === null ? { removed_at: now } : { role })
    .where('m.workspace_id', '=', workspaceId)
    .where('m.user_id', '=', userId)
    .where('m.removed_at', 'is', null)
    .where((eb) => eb.or([eb.lit(byOwner), eb.and([eb('m.role', '<>', 'owner'), eb.lit(role !== 'owner')])]))
    .where((eb) =>
      eb.or([
        eb('m.role', '<>', 'owner'),
        eb.lit(role === 'owner'),
        eb.exists(
          eb
            .selectFrom('active_members as other')
            .whereRef('other.workspace_id', '=', 'm.workspace_id')
            .whereRef('other.user_id', '<>', 'm.user_id')
            .where('other.role', '=', 'owner'),
        ),
      ]),
    )
    .returning('m.user_id')
  const [, changed, , , [keys]] = await db.batch([
    kysely.selectFrom('workspaces').where('id', '=', workspaceId).forUpdate(),
    kysely
      .with('changed', () => changing)
      .with('closed', (cte) =>
        cte
          .deleteFrom('program_members as p')
          .using('changed')
          .where('p.workspace_id', '=', workspaceId)
          .whereRef('p.user_id', '=', 'changed.user_id')
          .where((eb) => eb.lit(role === null)),
      )
      .selectFrom('changed')
      .select('user_id'),
    endInvitations(workspaceId),
    endPartnerInvitations(workspaceId),
    kysely
      .selectFrom('api_keys as k')
      .innerJoin('programs as p', 'p.id', 'k.program_id')
      .select((eb) => eb.cast<number>(eb.fn.countAll(), 'bigint').as('count'))
      .where('p.workspace_id', '=', workspaceId)
      .where('k.created_by', '=', userId)
      .where('k.revoked_at', 'is', null),
  ])
  if (changed.length === 0) {
    throw new ApiError(
      'conflict',
      'A workspace needs at least one owner, and only owners can change owners. Make another member an owner first.',
    )
  }
  return keys?.count ?? 0
}

/** Gives an active member a role on one program, or takes it away if `role` is null. */
export async function openProgram(
  db: Database,
  opening: { programId: number; userId: string; role: 'admin' | 'member' | 'billing' | null },
): Promise<void> {
  const { programId, userId, role } = opening
  const workspaceId = kysely
    .selectFrom('programs')
    .select('workspace_id')
    .where('id', '=', programId)
    .$asScalar()
    .$notNull()
  if (role === null) {
    await db.batch([
      kysely.deleteFrom('program_members').where('program_id', '=', programId).where('user_id', '=', userId),
      endPartnerInvitations(workspaceId),
    ])
    return
  }
  await db.batch([
    kysely
      .insertInto('program_members')
      .columns(['program_id', 'workspace_id', 'user_id', 'role'])
      .expression((eb) =>
        eb
          .selectFrom('programs as p')
          .innerJoin('active_members as m', 'm.workspace_id', 'p.workspace_id')
          .select(['p.id', 'p.workspace_id', eb.val(userId).as('user_id'), eb.val(role).as('role')])
          .where('p.id', '=', programId)
          .where('m.user_id', '=', userId),
      )
      .onConflict((oc) => oc.columns(['program_id', 'user_id']).doUpdateSet({ role })),
    endPartnerInvitations(workspaceId),
  ])
}

/** Lists the programs of a workspace that are open to individual members. */
export async function listOpenedPrograms(db: Database, workspaceId: string) {
  return await db.query(
    kysely
      .selectFrom('program_members as o')
      .innerJoin('programs as p', 'p.id', 'o.program_id')
      .innerJoin('users as u', 'u.id', 'o.user_id')
      .select(['o.program_id', 'p.name as program_name', 'o.user_id', 'u.name as user_name', 'o.role'])
      .where('o.workspace_id', '=', workspaceId)
      .orderBy('p.name')
      .orderBy('u.name')
      .orderBy('o.user_id'),
  )
}
