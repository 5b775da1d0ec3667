import { verifyJWT } from 'better-auth/crypto'
import * as z from 'zod/mini'
import type { SessionEnv } from './sessions.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'

/** What better-auth signs into the link that confirms an address. */
const confirmation = z.object({ email: z.string(), updateTo: z.optional(z.undefined()) })

/**
 * Notes that a person's address is theirs, by the token of the link that was mailed to it. The person has to be signed in: the link
 * reaches whoever reads the mailbox, who need not be who made the account. Refuses with `forbidden` a link that is too old, forged
 * or of another address.
 */
export async function confirmEmail(db: Database, env: SessionEnv, token: string, userId: string): Promise<void> {
  const said = confirmation.safeParse(await verifyJWT(token, env.AUTH_SECRET))
  const confirmed = said.success
    ? await db.query(
        kysely
          .updateTable('users')
          .set({ email_verified: true })
          .where('id', '=', userId)
          .where('email', '=', said.data.email)
          .returning('id'),
      )
    : []
  if (confirmed.length === 0) {
    throw new ApiError('forbidden', 'This link is older than a day or was sent to another address. Send a new one.')
  }
}
