import { html } from 'hono/html'
import * as z from 'zod/mini'
import { rolesWith } from '../access/roles.ts'
import type { Sender } from '../brand.ts'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { DatabaseFunctions } from '../schema.ts'
import { canMail, type Mail, mailButton, type MailEnv, mailPage, sendMail } from '../mail.ts'
import { chooseLanguage } from '../languages.ts'
import { mailBounds } from '../mail-bounds.ts'
import { mails } from '../texts/messages/mails.ts'
import { createTexts, type Texts } from '../texts/texts.ts'
import { mailTopics, topicWords, unsubscribeToken } from './mail-choices.ts'
import { notificationPayload } from './notification-list.ts'
import { textOf } from './notification-text.ts'

export interface NotificationMailEnv extends MailEnv {
  BASE_URL: string
  /** Signs unsubscribe links. */
  AUTH_SECRET: string
}

/** A notification in a mail. */
export const mailedNotification = z.object({
  program_id: z.number(),
  program_name: z.string(),
  /** The sender of mails to partners, and the color of their buttons. */
  sender: z.string(),
  color: z.nullable(z.string()),
  audience: z.enum(['partner', 'advertiser']),
  partner_name: z.nullable(z.string()),
  kind: z.string(),
  payload: notificationPayload,
})
type Notification = z.infer<typeof mailedNotification>

const claimedMail = z.object({
  mail_id: z.string(),
  user_id: z.string(),
  email: z.string(),
  user_name: z.string(),
  /** The language of a partner. Null means English. */
  language: z.nullable(z.string()),
  frequency: z.enum(['at_once', 'daily']),
  topics: z.array(z.enum(mailTopics)),
  notifications: z.array(mailedNotification),
})

/** A busy mail API can take seconds to respond. A Worker can open six connections at once and needs one for the database. */
const mailsAtOnce = 4
const mailsOfRound = 20
/** Further lines are only on the notifications page. */
const linesOfMail = 30

/**
 * Sends due notification mails until none is left or `deadline` (ms since 1970) has passed. Returns the number of sent mails. A mail that the mail
 * API refuses is sent again later with the same key, ten times over a day. Does nothing without a mail API.
 */
export async function sendNotificationMails(db: Database, env: NotificationMailEnv, deadline: number): Promise<number> {
  let sent = 0
  while (canMail(env) && Date.now() < deadline) {
    const claimed = await db.query(
      call('claim_mails', {
        max_mails: mailsOfRound,
        most_immediate: mailBounds.notification.perRecipient,
        reading_roles: rolesWith('notification:list'),
      }),
    )
    const taken: string[] = []
    const waiting = claimed.values()
    const send = async () => {
      for (const row of waiting) {
        const mail = await mailOf(env, row)
        // `sendMail` logs a refused mail. The mail is due again later.
        if (
          await sendMail(db, env, mail).then(
            () => true,
            () => false,
          )
        )
          taken.push(mail.idempotencyKey)
      }
    }
    await Promise.all(Array.from({ length: mailsAtOnce }, send))
    if (taken.length > 0) await db.query(kysely.deleteFrom('notification_mails').where('mail_id', 'in', taken))
    sent += taken.length
    // If the mail API refuses more than half of the mails, this run sends no more.
    if (taken.length * 2 < claimed.length || claimed.length < mailsOfRound) break
  }
  return sent
}

type MailTexts = Texts<typeof mails>

/** Renders the notifications of one person as a mail: plain text, and equivalent HTML without pictures. The headline is the amount, if there is one. */
async function mailOf(
  env: NotificationMailEnv,
  row: DatabaseFunctions['claim_mails']['row'],
): Promise<Mail & { idempotencyKey: string }> {
  const { mail_id: mailId, user_id: userId, email, user_name: name, ...claimed } = z.parse(claimedMail, row)
  const { frequency, topics, notifications } = claimed
  const texts = createTexts(mails, chooseLanguage([claimed.language]))
  const { t, fixed, language } = texts
  const names = [...new Set(notifications.map((one) => one.program_name))]
  const isForPartners = notifications.every(({ audience }) => audience === 'partner')
  const sender = senderOf(notifications, isForPartners)
  const about =
    frequency === 'daily' ? t('Your day') : topics.map((topic) => fixed(topicWords[topic].subject)).join(', ')
  const shown = notifications.slice(0, linesOfMail)
  const more = notifications.length - shown.length
  const programs = Map.groupBy(shown, ({ program_id, audience }) => `${audience}:${program_id}`)
  const parts = [...programs.values()].map((listed) => ({
    title: listed[0]?.program_name,
    lines: timesOf(
      listed.map((one) => textOf(one, undefined, texts)),
      texts,
    ),
    address: pageOf(env, listed[0]),
  }))
  const stopped = { userId, topics, ...(isForPartners && { language }) }
  const stop = `${env.BASE_URL}/mail/unsubscribe?token=${await unsubscribeToken(env, stopped)}`
  const choices = `${env.BASE_URL}/${isForPartners ? 'partner' : 'account'}/mail`
  const moreText = more > 0 ? [t('And {count} more on the page.', { count: more })] : []
  const named = { topics: topics.map((topic) => fixed(topicWords[topic].name)).join(', ') }
  const why =
    frequency === 'daily'
      ? t('We e-mail you about this once a day: {topics}.', named)
      : t('We e-mail you about this at once: {topics}.', named)
  return {
    to: email,
    subject: t('{label}: {value}', {
      label: about,
      value: (names.length === 1 && names[0]) || t('{count} programs', { count: names.length }),
    }),
    idempotencyKey: mailId,
    headers: { 'List-Unsubscribe': `<${stop}>`, 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' },
    text: [
      t('Hello {name},', { name }),
      ...parts.map(({ title, lines, address }) => [title, ...lines.map((line) => `- ${line}`), address].join('\n')),
      ...moreText,
      [
        why,
        t('{label}: {value}', { label: t('Choose your e-mails'), value: choices }),
        t('{label}: {value}', { label: t('Stop these e-mails'), value: stop }),
      ].join('\n'),
    ].join('\n\n'),
    sender,
    html: await mailPage({
      title: about,
      language,
      sender,
      headline: totalOf(notifications, texts) ?? about,
      content: html`<p>${t('Hello {name},', { name })}</p>
        ${parts.map(
          ({ title, lines, address }) =>
            html`${parts.length > 1 ? html`<h2>${title}</h2>` : ''}
              <ul>
                ${lines.map((line) => html`<li>${brokenLines(line)}</li>`)}
              </ul>
              ${mailButton(address, t('See it in the dashboard'))}`,
        )}
        ${moreText.map((line) => html`<p>${line}</p>`)}`,
      why: html`${why}<br /><a href="${choices}">${t('Choose your e-mails')}</a> ${t('or')}
        <a href="${stop}">${t('stop these e-mails')}</a>.`,
    }),
  }
}

/** Returns the program of all notifications as the sender. Members of a program know it by its own name. */
function senderOf(notifications: Notification[], isForPartners: boolean): Sender | undefined {
  const [first] = notifications
  if (!first || notifications.some((one) => one.program_id !== first.program_id)) return undefined
  return isForPartners ? { name: first.sender, color: first.color } : { name: first.program_name, color: null }
}

/**
 * Returns the amount of notifications of one kind and currency, for the headline. A loss is negative. Returns undefined if there is no
 * such amount.
 */
export function totalOf(notifications: Notification[], { money }: MailTexts): string | undefined {
  const amounts = notifications.map(({ kind, payload }) => ({ kind, ...payload }))
  const [first] = amounts
  const isOne = amounts.every(({ kind, currency }) => kind === first?.kind && currency === first.currency)
  const cents = amounts.reduce((sum, one) => sum + (isLoss(one) ? -1 : 1) * (one.amount_cents ?? 0), 0)
  return isOne && first?.currency !== undefined && cents !== 0 ? money(cents, first.currency) : undefined
}

const isLoss = ({ kind, deducted }: { kind: string; deducted?: boolean | undefined }) =>
  ['commission_reversed', 'commission_refunded', 'adjustment_deducted'].includes(kind) ||
  (kind === 'commission_corrected' && deducted === true)

/** Keeps the line breaks of a program's message. */
const brokenLines = (text: string) =>
  text.split('\n').map((line, index) => html`${index > 0 ? html`<br />` : ''}${line}`)

/** Merges equal texts into one with a count. */
function timesOf(lines: string[], { t }: MailTexts): string[] {
  const same = Map.groupBy(lines, (text) => text)
  return [...same].map(([text, { length }]) =>
    length === 1 ? text : t('{text} ({count} times)', { text, count: length }),
  )
}

/** Returns the dashboard page of a notification. */
function pageOf({ BASE_URL }: NotificationMailEnv, of: Notification | undefined): string {
  return of?.audience === 'advertiser'
    ? `${BASE_URL}/programs/${of.program_id}/notifications`
    : `${BASE_URL}/partner/notifications`
}
