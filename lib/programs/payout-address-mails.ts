import { mayMailToday } from '../access/attempts.ts'
import { mailboxOf } from '../access/mailbox.ts'
import type { Database } from '../database.ts'
import { mailBounds } from '../mail-bounds.ts'
import type { Language } from '../languages.ts'
import { type MailEnv, sendMail } from '../mail.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts } from '../texts/texts.ts'

const { perAccount, perChange, perRecipient } = mailBounds.payoutAddress

/** Counts a change to a person's payout address. Returns false if the person has used up today's changes. */
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
  change: { email: string; payoutEmail: string; before: string[]; waitsUntil: Date | null; language: Language },
): Promise<void> {
  const { email, payoutEmail, before, waitsUntil, language } = change
  const { t, time } = createTexts(mails, language)
  const text = [
    t('Your payouts go to {email} from now on, and no longer to {before}.', {
      email: payoutEmail,
      before: before.join(', ') || t('no address'),
    }),
    ...(waitsUntil ? [t("Payout runs don't pay you until {time} UTC.", { time: time(waitsUntil) })] : []),
    t("If this wasn't you, choose a new password now and set the address again:"),
    `${env.BASE_URL}/forgot-password`,
  ].join('\n\n')
  const mail = async (to: string) =>
    await sendMail(db, env, {
      to,
      subject: t('Your payout address was changed'),
      text,
      language,
      button: t('Open the page'),
    })
  const others = before.filter((address) => mailboxOf(address) !== mailboxOf(email)).slice(0, perChange)
  await Promise.allSettled([
    mail(email),
    ...others.map(async (to) => {
      if (await mayMailToday(db, [`payout address to ${mailboxOf(to)}`], perRecipient)) await mail(to)
    }),
  ])
}
