import { createEmailVerificationToken } from 'better-auth/api'
import { verifyJWT } from 'better-auth/crypto'
import * as z from 'zod/mini'
import type { SessionEnv } from './sessions.ts'
import { type Database, violatedConstraint } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { type MailEnv, sendMail } from '../mail.ts'
import { countAttempts } from './attempts.ts'

/** How long a link that confirms an address works. */
export const confirmationSeconds = 24 * 60 * 60

/** Mails in a quarter of an hour that a person may have sent to new addresses of theirs, and that one address gets. */
const changesPerAccount = 5

/** What better-auth signs into the link that confirms an address: the account's, and the one it changes to. */
const confirmation = z.object({ email: z.string(), updateTo: z.optional(z.string()) })

type EmailEnv = SessionEnv & MailEnv & { BASE_URL: string }

/** What the link of this token confirms, or undefined where it is forged or older than a day. */
export async function readConfirmation(env: SessionEnv, token: string) {
  return confirmation.safeParse(await verifyJWT(token, env.AUTH_SECRET)).data
}

/**
 * Notes that a person's address is theirs, or gives them a new one, by the token of the link that was mailed to it. The person has to be
 * signed in: the link reaches whoever reads the mailbox, who need not be who made the account. Refuses with `forbidden` a link that
 * is too old, forged or of another account, and with `conflict` an address that got an account meanwhile.
 */
export async function confirmEmail(db: Database, env: SessionEnv, token: string, userId: string): Promise<void> {
  const said = await readConfirmation(env, token)
  const [confirmed] = await db
    .batch([
      kysely
        .updateTable('users')
        .set({ email: said?.updateTo ?? said?.email ?? '', email_verified: true })
        .where('id', '=', userId)
        .where('email', '=', said?.email ?? '')
        .returning('id'),
      // Links that were mailed to the address before choose no password any more.
      kysely
        .deleteFrom('verifications')
        .where('value', '=', userId)
        .where((eb) => eb.lit(said?.updateTo !== undefined)),
    ])
    .catch((error: unknown) => {
      if (violatedConstraint(error) !== 'users_email_key') throw error
      throw new ApiError('conflict', 'Another account has this address. Use another one.')
    })
  if (confirmed.length === 0) {
    throw new ApiError('forbidden', 'This link is older than a day or was sent to another address. Send a new one.')
  }
}

/**
 * Mails the link by which a person's account takes another address, and tells the one it has. Whoever asks learns nothing of the new
 * address: where it has an account of its own, its mail says so. Refuses more than five in a quarter of an hour with `rate_limited`.
 */
export async function askEmailChange(
  db: Database,
  env: EmailEnv,
  user: { email: string },
  newEmail: string,
): Promise<void> {
  const keys = [`change of ${user.email}`, `change to ${newEmail}`]
  const attempts = await countAttempts(db, keys)
  if (keys.some((key) => (attempts.get(key) ?? 0) > changesPerAccount)) {
    throw new ApiError('rate_limited', 'Too many tries. Wait 15 minutes, then try again.')
  }
  const [taken] = await db.query(kysely.selectFrom('users').select('id').where('email', '=', newEmail))
  const token = await createEmailVerificationToken(env.AUTH_SECRET, user.email, newEmail, confirmationSeconds)
  const mail = taken
    ? {
        subject: 'You have an account already',
        text: [
          'Somebody, probably you, wanted to give another account this address. It has one already. Sign in here:',
          `${env.BASE_URL}/sign-in`,
          'If it was not you, do nothing: nothing has changed.',
        ],
      }
    : {
        subject: 'Confirm your new e-mail address',
        text: [
          'Somebody, probably you, wants to use this address for their account. Confirm within a day that it is yours:',
          `${env.BASE_URL}/verify-email?token=${encodeURIComponent(token)}`,
          'If it was not you, do nothing: without this link nothing changes.',
        ],
      }
  await sendMail(db, env, { to: newEmail, subject: mail.subject, text: mail.text.join('\n\n') })
  await sendMail(db, env, {
    to: user.email,
    subject: 'Your e-mail address is about to change',
    text: [
      `Somebody, probably you, asked that your account uses ${newEmail}. It does once the link that was mailed there is opened.`,
      'If it was not you, choose a new password now, which signs everybody else out:',
      `${env.BASE_URL}/forgot-password`,
    ].join('\n\n'),
  })
}
