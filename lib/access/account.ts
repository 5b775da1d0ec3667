import { call, type Database } from '../database.ts'
import { ApiError, nameSome } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { createTexts, type Texts } from '../texts/texts.ts'
import { readUnsettled } from './unsettled.ts'

/** Renames a person. */
export async function rename(db: Database, userId: string, name: string): Promise<void> {
  await db.query(kysely.updateTable('users').set({ name }).where('id', '=', userId))
}

/** Returns whether the person has a password. People who only sign in through a provider have none. */
export async function hasPassword(db: Database, userId: string): Promise<boolean> {
  const found = await db.query(
    kysely.selectFrom('accounts').select('id').where('user_id', '=', userId).where('password', 'is not', null),
  )
  return found.length > 0
}

/** Lists a person's current sessions, newest first. Their tokens stay in the database. */
export async function listSessions(db: Database, userId: string) {
  return await db.query(
    kysely
      .selectFrom('sessions')
      .select(['id', 'user_agent', 'created_at', 'expires_at'])
      .where('user_id', '=', userId)
      .where('expires_at', '>', now)
      .orderBy('created_at', 'desc')
      .orderBy('id'),
  )
}

/** Ends one session of a person, or all of them if `sessionId` is null. */
export async function endSessions(db: Database, userId: string, sessionId: string | null): Promise<void> {
  let ending = kysely.deleteFrom('sessions').where('user_id', '=', userId)
  if (sessionId !== null) ending = ending.where('id', '=', sessionId)
  await db.query(ending)
}

/**
 * Erases a person's account, and their name and addresses in every program in which they are a partner. Totals and debts are kept, but
 * no longer identify the person. `payees` contains the encrypted identities that the books need (lib/money/payees.ts). Throws `conflict`
 * if programs still owe the person money, or if workspaces would lose their last owner. The error lists the names of these programs or
 * workspaces, in the language of `texts`.
 */
export async function eraseAccount(
  db: Database,
  userId: string,
  payees: string,
  { fixed }: Pick<Texts, 'fixed'> = createTexts({}, 'en'),
): Promise<void> {
  const [done] = await db.query(call('erase_user', { of_user_id: userId, payees }))
  const unsettled = readUnsettled(done?.unsettled).map(({ program, money }) => `${program} (${fixed(money)})`)
  const owned = done?.last_owner_of ?? []
  if (unsettled.length > 0) {
    throw new ApiError(
      'conflict',
      fixed('You have an unsettled balance in: {programs}. Wait until it is paid or settled.', {
        programs: nameSome(unsettled),
      }),
    )
  }
  if (owned.length > 0) {
    throw new ApiError(
      'conflict',
      `You are the last owner of: ${nameSome(owned)}. First make somebody else an owner, or delete the workspace.`,
    )
  }
}
