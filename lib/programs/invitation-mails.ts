import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { workspaceBounds } from '../mail-bounds.ts'
import { type MailEnv, sendMail } from '../mail.ts'

/** The sender of an invitation. Their names are the only user-written text in the mail. */
interface InvitationSender {
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

/** Counts an invitation in one statement and returns the exceeded bound, or null. */
async function countMail(
  db: Database,
  mail: { of_workspace_id: string; of_user_id: string; to_recipient: string },
): Promise<string | null> {
  const [row] = await db.query(
    call('count_mail', { ...mail, of_source: null, of_network: null, bounds: workspaceBounds }),
  )
  return row?.count_mail ?? null
}

/** Mails an invitation that is valid for `days`: to a workspace, or to become a partner of a program. */
export async function mailInvitation(
  db: Database,
  env: MailEnv,
  sender: InvitationSender,
  invitation: { to: string; what: 'workspace' | 'program'; name: string; link: string; days: number },
): Promise<void> {
  const { to, what, name, link, days } = invitation
  const { user } = sender
  await sendMail(db, env, {
    to,
    ...(what === 'program' && { sender: name }),
    subject: what === 'workspace' ? `Join ${name}` : `Become a partner of ${name}`,
    text: [
      what === 'workspace'
        ? `${user.name} (${user.email}) invites you to the workspace ${name}.`
        : `${user.name} (${user.email}) invites you to be a partner of the program ${name}. Accept to see your links and what you earn.`,
      `Accept within ${days} days:`,
      link,
      'If you do not know them, do nothing: nothing about you is shared.',
    ].join('\n\n'),
  })
}
