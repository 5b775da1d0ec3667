import { html } from 'hono/html'
import * as z from 'zod/mini'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import { chooseLanguage } from '../languages.ts'
import { payeeBounds } from '../mail-bounds.ts'
import { canMail, type Mail, mailPage, sendMail } from '../mail.ts'
import type { DatabaseFunctions } from '../schema.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts } from '../texts/texts.ts'
import { topicWords, unsubscribeToken } from './mail-choices.ts'
import { mailedNotification, type NotificationMailEnv, totalOf } from './notification-mails.ts'
import { textOf } from './notification-text.ts'

const mailsOfRound = 20

/**
 * Sends partners without an account mails about their payouts, until nothing is due or `deadline` (ms since 1970) has passed. Returns the
 * number of sent mails. A refused mail is sent again later with the same key, ten times over a day. Does nothing without a mail API.
 */
export async function sendPayeeMails(db: Database, env: NotificationMailEnv, deadline: number): Promise<number> {
  let sent = 0
  while (canMail(env) && Date.now() < deadline) {
    const claimed = await db.query(call('claim_payee_mails', { max_mails: mailsOfRound, bounds: payeeBounds }))
    let taken = 0
    for (const row of claimed) {
      // `sendMail` logs a refused mail. The mail is due again later.
      const isSent = await sendMail(db, env, await mailOf(env, row)).then(
        () => true,
        () => false,
      )
      if (!isSent) continue
      taken += 1
      await db.query(
        kysely
          .deleteFrom('payee_mails')
          .where('program_id', '=', row.program_id ?? 0)
          .where('notification_id', '=', row.notification_id ?? 0),
      )
    }
    sent += taken
    if (taken * 2 < claimed.length || claimed.length < mailsOfRound) break
  }
  return sent
}

async function mailOf(env: NotificationMailEnv, row: DatabaseFunctions['claim_payee_mails']['row']): Promise<Mail> {
  const notification = z.parse(mailedNotification, row.notification)
  const [email, name] = [row.email ?? '', row.partner_name ?? '']
  const texts = createTexts(mails, chooseLanguage([row.language]))
  const { t, fixed, language } = texts
  const sender = { name: notification.sender, color: notification.color }
  const stop = `${env.BASE_URL}/mail/unsubscribe?token=${await unsubscribeToken(env, { email, language })}`
  const line = textOf(notification, undefined, texts)
  const why = t('{name} pays you as a partner and gave us this address. You have no account here.', {
    name: notification.program_name,
  })
  const subject = fixed(topicWords.paid.subject)
  const greeting = t('Hello {name},', { name })
  return {
    to: email,
    subject: t('{label}: {value}', { label: subject, value: notification.program_name }),
    ...(row.mail_id !== null && { idempotencyKey: row.mail_id }),
    headers: { 'List-Unsubscribe': `<${stop}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' },
    text: [greeting, line, `${why}\n${t('{label}: {value}', { label: t('Stop these e-mails'), value: stop })}`].join(
      '\n\n',
    ),
    sender,
    html: await mailPage({
      title: subject,
      language,
      sender,
      headline: totalOf([notification], texts) ?? subject,
      content: html`<p>${greeting}</p>
        <p>${line}</p>`,
      why: html`${why} <a href="${stop}">${t('Stop these e-mails')}</a>.`,
    }),
  }
}
