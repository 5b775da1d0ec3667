import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

/**
 * Says whether members of a workspace must have two-factor codes to see anything of it. Refuses with `conflict` where who demands them has
 * none, and would lock themselves out.
 */
export async function demandTwoFactor(
  db: Database,
  demand: { workspaceId: string; userId: string; isDemanded: boolean },
): Promise<void> {
  const { workspaceId, userId, isDemanded } = demand
  const changed = await db.query(
    kysely
      .updateTable('workspaces')
      .set({ requires_two_factor: isDemanded })
      .where('id', '=', workspaceId)
      .where((eb) =>
        eb.or([
          eb.lit(!isDemanded),
          eb.exists(eb.selectFrom('users').where('id', '=', userId).where('two_factor_enabled', '=', true)),
        ]),
      )
      .returning('id'),
  )
  if (changed.length === 0) throw new ApiError('conflict', 'Set up two-factor codes for your own account first.')
}

/** Makes a workspace with its first owner and returns its id. */
export async function createWorkspace(db: Database, workspace: { name: string; ownerId: string }): Promise<string> {
  const { name, ownerId } = workspace
  const id = crypto.randomUUID()
  await db.batch([
    kysely.insertInto('workspaces').values({ id, name }),
    kysely.insertInto('workspace_members').values({ workspace_id: id, user_id: ownerId, role: 'owner' }),
  ])
  return id
}
