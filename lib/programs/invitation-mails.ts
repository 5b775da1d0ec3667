import { readSender } from '../brand.ts'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { workspaceBounds } from '../mail-bounds.ts'
import { chooseLanguage } from '../languages.ts'
import { type MailEnv, sendMail } from '../mail.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts, type Texts } from '../texts/texts.ts'

/** The sender of an invitation. These names are the only user-written text in the mail. */
export interface InvitationSender {
  workspaceId: string
  user: { id: string; name: string; email: string; emailVerified: boolean }
}

/**
 * Counts an invitation before it changes anything. Throws `forbidden` if the sender's address is not confirmed. Throws `rate_limited` after
 * 3 mails to one recipient or 100 mails in total on a day (UTC), from a workspace or from an account.
 */
export async function countInvitationMail(db: Database, sender: InvitationSender, recipient: string): Promise<void> {
  if (!sender.user.emailVerified) {
    throw new ApiError('forbidden', 'Confirm your e-mail address first with the link that we sent you.')
  }
  const exceeded = await countMail(db, {
    of_workspace_id: sender.workspaceId,
    of_user_id: sender.user.id,
    to_recipient: recipient.trim(),
  })
  if (exceeded === 'recipient')
    throw new ApiError('rate_limited', `${recipient.trim()} already got three e-mails today. Try again tomorrow.`)
  if (exceeded === 'workspace') {
    throw new ApiError(
      'rate_limited',
      'You or this workspace sent a hundred invitations and other e-mails today. Continue tomorrow.',
    )
  }
  if (exceeded !== null)
    throw new ApiError('forbidden', 'No owner of this workspace has a confirmed e-mail address. Ask one to confirm it.')
}

/** Counts an invitation in one statement and returns the limit that it would exceed, or null. */
export async function countMail(
  db: Database,
  mail: { of_workspace_id: string; of_user_id: string; to_recipient: string },
): Promise<string | null> {
  const [row] = await db.query(
    call('count_mail', { ...mail, of_source: null, of_network: null, bounds: workspaceBounds }),
  )
  return row?.count_mail ?? null
}

/** Mails an invitation to a workspace, which is valid for `days`. */
export async function mailMemberInvitation(
  db: Database,
  env: MailEnv,
  { user }: InvitationSender,
  { to, name, link, days }: { to: string; name: string; link: string; days: number },
): Promise<void> {
  await sendMail(db, env, {
    to,
    subject: `Join ${name}`,
    text: [
      `${user.name} (${user.email}) invites you to the workspace ${name}.`,
      ...acceptWithin(createTexts(mails, 'en'), link, days),
    ].join('\n\n'),
  })
}

/** Mails an invitation to become a partner of a program, in the program's language. It is valid for `days`. */
export async function mailPartnerInvitation(
  db: Database,
  env: MailEnv,
  { user }: InvitationSender,
  invitation: { to: string; programId: number; name: string; language: string | null; link: string; days: number },
): Promise<void> {
  const { to, programId, name, link, days } = invitation
  const texts = createTexts(mails, chooseLanguage([invitation.language]))
  const { t, language } = texts
  await sendMail(db, env, {
    to,
    sender: await readSender(db, programId),
    language,
    button: t('Open the page'),
    subject: t('Become a partner of {name}', { name }),
    text: [
      t(
        '{user} ({email}) invites you to be a partner of the program {name}. Accept to see your links and what you earn.',
        { user: user.name, email: user.email, name },
      ),
      ...acceptWithin(texts, link, days),
    ].join('\n\n'),
  })
}

const acceptWithin = ({ t }: Texts<typeof mails>, link: string, days: number) => [
  t('Accept within {days} days:', { days }),
  link,
  t('If you do not know them, do nothing: nothing about you is shared.'),
]
