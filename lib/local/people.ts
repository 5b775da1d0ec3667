import { hashPassword } from 'better-auth/crypto'
import { sql } from 'kysely'
import type { Role } from '../access/roles.ts'
import { type SessionEnv, sessionSeconds, signToken } from '../access/sessions.ts'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'

/** A person to sign in as, for the sandbox and for tests without pages. */
export interface Person {
  userId: string
  email: string
  /** The value for `Authorization: Bearer` and for the session cookie. */
  token: string
}

/** Creates a user with a confirmed address, a session and, if given, a password. */
export async function createPerson(
  db: Database,
  env: SessionEnv,
  person: { name: string; email: string; password?: string },
): Promise<Person> {
  const userId = crypto.randomUUID()
  const email = person.email.toLowerCase()
  await db.query(kysely.insertInto('users').values({ id: userId, name: person.name, email, email_verified: true }))
  if (person.password !== undefined) {
    await db.query(
      kysely.insertInto('accounts').values({
        id: crypto.randomUUID(),
        user_id: userId,
        provider_id: 'credential',
        account_id: userId,
        password: await hashPassword(person.password),
      }),
    )
  }
  return { userId, email, token: await createSession(db, userId, env.AUTH_SECRET) }
}

/** Signs a user in without a password and returns the signed token. */
async function createSession(db: Database, userId: string, secret: string): Promise<string> {
  const token = Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('')
  await db.query(
    kysely.insertInto('sessions').values({
      id: crypto.randomUUID(),
      user_id: userId,
      token,
      expires_at: sql<Date>`now() + make_interval(secs => ${sessionSeconds})`,
    }),
  )
  return await signToken(token, secret)
}

/** Makes a user an active member of a workspace without an invitation. */
export async function addMember(db: Database, workspaceId: string, userId: string, role: Role): Promise<void> {
  await db.query(kysely.insertInto('workspace_members').values({ workspace_id: workspaceId, user_id: userId, role }))
}

/** Lets a user sign in as a partner without an invitation. */
export async function tiePartner(db: Database, partnerId: number, userId: string): Promise<void> {
  await db.query(kysely.updateTable('partners').set({ user_id: userId }).where('id', '=', partnerId))
}
