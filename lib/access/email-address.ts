import { createEmailVerificationToken } from 'better-auth/api'
import { verifyJWT } from 'better-auth/crypto'
import * as z from 'zod/mini'
import type { SessionEnv } from './sessions.ts'
import { refuse } from '../constraints.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import type { Language } from '../languages.ts'
import { type MailEnv, sendMail } from '../mail.ts'
import { mailBounds, tooManyMails, tooManyMailsOfNetwork } from '../mail-bounds.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts } from '../texts/texts.ts'
import { mayMailToday, mayMailUnconfirmed } from './attempts.ts'
import { mailboxOf } from './mailbox.ts'

/** How long a confirmation link is valid. */
export const confirmationSeconds = 24 * 60 * 60

/** The claims that better-auth signs into a confirmation link: the account's address, and its new address if it changes. */
const confirmation = z.object({ email: z.string(), updateTo: z.optional(z.string()) })

type EmailEnv = SessionEnv & MailEnv & { BASE_URL: string }

/** Returns the claims of a confirmation link, or undefined if its token is forged or older than a day. */
export async function readConfirmation(env: SessionEnv, token: string) {
  return confirmation.safeParse(await verifyJWT(token, env.AUTH_SECRET)).data
}

/**
 * Confirms a person's address, or changes it, with the token of the mailed link. The person must be signed in, because the owner of the
 * mailbox may not be the owner of the account. Throws `forbidden` if the link is too old, forged or for another account, and `conflict` if
 * another account has taken the address since then.
 */
export async function confirmEmail(db: Database, env: SessionEnv, token: string, userId: string): Promise<void> {
  const claims = await readConfirmation(env, token)
  const [confirmed] = await db
    .batch([
      kysely
        .updateTable('users')
        .set({ email: claims?.updateTo ?? claims?.email ?? '', email_verified: true })
        .where('id', '=', userId)
        .where('email', '=', claims?.email ?? '')
        .returning('id'),
      // Links in earlier mails to the old address must no longer allow anybody to set a password.
      kysely
        .deleteFrom('verifications')
        .where('value', '=', userId)
        .where((eb) => eb.lit(claims?.updateTo !== undefined)),
    ])
    .catch(refuse)
  if (confirmed.length === 0) {
    throw new ApiError('forbidden', 'This link is older than a day or was sent to another address. Request a new one.')
  }
}

/** The pages that can follow a page in a mail. A stranger can choose them, so their paths have no room for a message. */
const mailedNext = /^\/(partner|account|programs\/\d{1,15}|(partner-)?invitation\?token=[\w-]{43})$/

/** Returns the address of a page that a mail links to. `next` is the page after it. Omits a page that isn't in `mailedNext`. */
export function mailedPage(env: { BASE_URL: string }, path: string, { next, token }: { next: string; token?: string }) {
  const query = new URLSearchParams({
    ...(token !== undefined && { token }),
    ...(mailedNext.test(next) && { next }),
  }).toString()
  return `${env.BASE_URL}${path}${query && '?'}${query}`
}

interface EmailChange {
  newEmail: string
  /** The language of the mails. */
  language: Language
  /** The start page of the person, after the pages that the mails link to. */
  next: string
}

/**
 * Mails a link to the new address that changes a person's address, and notifies the old address. An unconfirmed old address gets no mail,
 * because its owner may be a stranger and the mail contains typed text. The response doesn't show whether the new address has an account.
 * Only the mail to that address reveals it. Throws `rate_limited` after five requests in a day, or if the network of `visitorAddress` has
 * caused too many mails.
 */
export async function askEmailChange(
  db: Database,
  env: EmailEnv,
  user: { email: string; emailVerified: boolean },
  { newEmail, language, next }: EmailChange,
  visitorAddress: string | null,
): Promise<void> {
  // The requests are counted under two keys, so that strangers who request an address can't prevent its owner from using it.
  const keys = [`change of ${mailboxOf(user.email)}`, `change to ${mailboxOf(newEmail)}`]
  if (!(await mayMailToday(db, keys, mailBounds.change.perRecipient))) throw new ApiError('rate_limited', tooManyMails)
  if (!(await mayMailUnconfirmed(db, visitorAddress))) throw new ApiError('rate_limited', tooManyMailsOfNetwork)
  const [taken] = await db.query(kysely.selectFrom('users').select('id').where('email', '=', newEmail))
  const token = await createEmailVerificationToken(env.AUTH_SECRET, user.email, newEmail, confirmationSeconds)
  const { t } = createTexts(mails, language)
  const send = async (to: string, subject: string, text: string[]) =>
    await sendMail(db, env, { to, subject, text: text.join('\n\n'), language, button: t('Open the page') })
  if (taken)
    await send(newEmail, t('You already have an account'), [
      t(
        'Somebody, probably you, wanted to use this address for another account. You already have an account. Sign in here:',
      ),
      mailedPage(env, '/sign-in', { next }),
      t("If this wasn't you, you can ignore this e-mail. Nothing has changed."),
    ])
  else
    await send(newEmail, t('Confirm your new e-mail address'), [
      t(
        'Somebody, probably you, wants to use this address for their account. If it is yours, confirm it within a day:',
      ),
      mailedPage(env, '/verify-email', { token, next }),
      t("If this wasn't you, you can ignore this e-mail. Nothing changes until somebody opens the link."),
    ])
  if (!user.emailVerified) return
  await send(user.email, t('Your e-mail address is about to change'), [
    t(
      'Somebody, probably you, asked to change the address of your account to {email}. We sent a link to the new address, and the change takes effect when it is opened.',
      { email: newEmail },
    ),
    t("If this wasn't you, choose a new password now, which signs everybody else out:"),
    mailedPage(env, '/forgot-password', { next }),
  ])
}
