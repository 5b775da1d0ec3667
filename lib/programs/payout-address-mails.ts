import { mayMailToday } from '../access/attempts.ts'
import { mailboxOf } from '../access/mailbox.ts'
import type { Database } from '../database.ts'
import { mailBounds } from '../mail-bounds.ts'
import { type MailEnv, sendMail } from '../mail.ts'

const { perAccount, perChange, perRecipient } = mailBounds.payoutAddress

/** Counts a change of a person's payout address. Returns false if the person has used up the changes of the day. */
export async function mayChangePayoutAddress(db: Database, userId: string): Promise<boolean> {
  return await mayMailToday(db, [`payout address of ${userId}`], perAccount)
}

/**
 * Notifies the account and the previous payout addresses of a change. People type their payout addresses without confirming them, so each
 * address gets few mails per day.
 */
export async function mailPayoutAddress(
  db: Database,
  env: MailEnv & { BASE_URL: string },
  change: { email: string; payoutEmail: string; before: string[]; waitsUntil: Date | null },
): Promise<void> {
  const { email, payoutEmail, before, waitsUntil } = change
  const text = [
    `Your payouts go to ${payoutEmail} from now on, and no longer to ${before.join(', ') || 'no address'}.`,
    ...(waitsUntil
      ? [`Payout runs don't pay you until ${waitsUntil.toISOString().slice(0, 16).replace('T', ' ')} UTC.`]
      : []),
    "If this wasn't you, choose a new password now and set the address again:",
    `${env.BASE_URL}/forgot-password`,
  ].join('\n\n')
  const mail = async (to: string) => await sendMail(db, env, { to, subject: 'Your payout address was changed', text })
  const others = before.filter((address) => mailboxOf(address) !== mailboxOf(email)).slice(0, perChange)
  await Promise.allSettled([
    mail(email),
    ...others.map(async (to) => {
      if (await mayMailToday(db, [`payout address to ${mailboxOf(to)}`], perRecipient)) await mail(to)
    }),
  ])
}
