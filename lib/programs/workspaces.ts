import { call, type Database } from '../database.ts'
import { ApiError, nameSome } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { type ConnectEnv, giveAccountBack } from '../stripe/connect.ts'
import { switchOffRevoked } from './promotion-codes.ts'

/** A page that deletes a workspace waits for as many calls of Stripe. */
const mostSwitchedOff = 100

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

/**
 * Deletes a workspace: its members, keys, invitations and partnerships end, its programs answer as if there were none, and their access to Stripe is given
 * back. What was paid stays in the books. Refuses with `conflict`, naming them, while money of partners is not settled.
 */
export async function deleteWorkspace(db: Database, env: ConnectEnv, workspaceId: string): Promise<void> {
  const [done] = await db.query(call('delete_workspace', { of_workspace_id: workspaceId }))
  const unsettled = done?.unsettled ?? []
  if (unsettled.length > 0) {
    throw new ApiError('conflict', `Settle these first: ${nameSome(unsettled)}. Pay or refuse open payouts.`)
  }
  const accountIds = done?.account_ids ?? []
  // While Stripe still lets the service in; what it does not answer now is tried by the schedule.
  if (accountIds.length > 0) await switchOffRevoked(db, env, { limit: mostSwitchedOff, accountIds })
  for (const accountId of accountIds) await giveAccountBack(env, accountId)
}
