import { call, type Database } from '../database.ts'
import { ApiError, nameSome } from '../errors.ts'
import { kysely, now } from '../kysely.ts'

/** What a person changes of their own account without the sign-in library: their name, their sessions, and whether there is one. */
export async function rename(db: Database, userId: string, name: string): Promise<void> {
  await db.query(kysely.updateTable('users').set({ name }).where('id', '=', userId))
}

/** False for who only ever signed in by a provider. */
export async function hasPassword(db: Database, userId: string): Promise<boolean> {
  const found = await db.query(
    kysely.selectFrom('accounts').select('id').where('user_id', '=', userId).where('password', 'is not', null),
  )
  return found.length > 0
}

/** A person's sessions that hold, the newest first. Their tokens stay in the database. */
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

/** Ends one of a person's sessions, or all of them where `sessionId` is null. */
export async function endSessions(db: Database, userId: string, sessionId: string | null): Promise<void> {
  let ending = kysely.deleteFrom('sessions').where('user_id', '=', userId)
  if (sessionId !== null) ending = ending.where('id', '=', sessionId)
  await db.query(ending)
}

/**
 * Erases a person's account, and their name and addresses wherever programs have them as a partner; sums stay without the person. Refuses with
 * `conflict` while a program owes them something or a workspace would be without an owner, and names these.
 */
export async function eraseAccount(db: Database, userId: string): Promise<void> {
  const [done] = await db.query(call('erase_account', { of_user_id: userId }))
  const { unsettled, last_owner_of: owned } = {
    unsettled: done?.unsettled ?? [],
    last_owner_of: done?.last_owner_of ?? [],
  }
  if (unsettled.length > 0) {
    throw new ApiError(
      'conflict',
      `Money of yours is not settled in: ${nameSome(unsettled)}. Wait until it is paid or decided.`,
    )
  }
  if (owned.length > 0) {
    throw new ApiError(
      'conflict',
      `You are the last owner of: ${nameSome(owned)}. Make somebody else an owner or delete it first.`,
    )
  }
}
