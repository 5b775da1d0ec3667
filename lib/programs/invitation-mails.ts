import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { type MailEnv, sendMail } from '../mail.ts'

/** From whom an invitation comes. The names stand in the mail, which holds nothing else that somebody typed. */
interface InvitationSender {
  workspaceId: string
  user: { id: string; name: string; email: string; emailVerified: boolean }
}

/**
 * Counts an invitation that is about to be mailed, before anything is changed for it. Refuses with `forbidden` who has not confirmed their own
 * address, and with `rate_limited` a fourth mail to a recipient or a 101st in all on a day (UTC), from a workspace or from an account.
 */
export async function countInvitationMail(db: Database, sender: InvitationSender, recipient: string): Promise<void> {
  if (!sender.user.emailVerified) {
    throw new ApiError('forbidden', 'Confirm your e-mail address first: we mailed you a link for it.')
  }
  const to_recipient = recipient.trim().toLowerCase()
  const [row] = await db.query(
    call('count_invitation_mail', { of_workspace_id: sender.workspaceId, of_user_id: sender.user.id, to_recipient }),
  )
  if (row?.count_invitation_mail === 'recipient') {
    throw new ApiError('rate_limited', `${to_recipient} was invited three times today. Try again tomorrow.`)
  }
  if (row?.count_invitation_mail === 'all') {
    throw new ApiError(
      'rate_limited',
      'A hundred invitations went out from you or this workspace today. Go on tomorrow.',
    )
  }
}

/** Mails the link of an invitation: to join a workspace, or to be the partner of a program, which lasts `days`. */
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
