import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'

/** What a person changes of their own account without the sign-in library: their name and their sessions. */
export async function rename(db: Database, userId: string, name: string): Promise<void> {
  await db.query(kysely.updateTable('users').set({ name }).where('id', '=', userId))
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
