import { call, type Database } from '../database.ts'
import { ApiError, nameSome } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { readUnsettled } from '../access/unsettled.ts'
import { type ConnectEnv, giveAccountBack } from '../processors/stripe/connect.ts'
import { disableRevoked } from './promotion-codes.ts'

/** The page that deletes a workspace waits for at most this many calls to Stripe. */
const mostDisabled = 100

/**
 * Requires two-factor codes from all members of a workspace, or stops requiring them. Throws `conflict` if the person has no codes, because
 * they would lock themselves out.
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

/** Creates a workspace with its first owner and returns its id. */
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
 * Deletes a workspace. Removes its members, revokes its keys, its invitations and its access to Stripe, ends its partnerships, and deletes
 * its programs. Paid amounts stay in the books. Throws `conflict` with the names of unsettled partners.
 */
export async function deleteWorkspace(db: Database, env: ConnectEnv, workspaceId: string): Promise<void> {
  const [done] = await db.query(call('close_workspace', { of_workspace_id: workspaceId }))
  const unsettled = readUnsettled(done?.unsettled)
  if (unsettled.length > 0) {
    const names = unsettled.map(({ partner, program, money }) => `${partner} in ${program} (${money})`)
    throw new ApiError('conflict', `Settle these first: ${nameSome(names)}. Pay or refuse open payouts.`)
  }
  const accountIds = done?.account_ids ?? []
  // This comes first, while the service still has access to Stripe. A scheduled function retries failed calls.
  if (accountIds.length > 0) await disableRevoked(db, env, { limit: mostDisabled, accountIds })
  for (const accountId of accountIds) await giveAccountBack(env, accountId)
}
