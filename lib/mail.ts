import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Database } from './database.ts'
import { ApiError } from './errors.ts'
import { kysely } from './kysely.ts'

/**
 * The variables of outgoing mail. Without `MAIL_API_URL` the service refuses actions that need a mail, because only
 * its reader may see its content.
 */
export interface MailEnv {
  /**
   * An HTTP mail API that takes `{from, to, subject, text, html, headers}` with a bearer key, such as Resend's
   * `https://api.resend.com/emails`.
   */
  MAIL_API_URL?: string
  MAIL_API_KEY?: string
  /** `Name <address>`. The mail API must allow this address as a sender. */
  MAIL_FROM?: string
  /** Only set on the local stack, which prints mail and keeps it in the table `mails`. */
  MAIL_INBOX?: string
}

export interface Mail {
  to: string
  subject: string
  text: string
  html?: string
  headers?: Record<string, string>
  /** The mail API treats a mail with a known key as a repeat. */
  idempotencyKey?: string
}

export const mailIsMissing = 'This service cannot send e-mail yet. Its operator must set MAIL_API_URL and MAIL_FROM.'

/** Returns whether the service can send mail. */
export function canMail(env: MailEnv): boolean {
  return Boolean(env.MAIL_API_URL || env.MAIL_INBOX)
}

/** Sends one mail. Throws `unavailable` if there is no mail API or it refuses the mail. */
export async function sendMail(db: Database, env: MailEnv, mail: Mail): Promise<void> {
  if (!canMail(env)) throw new ApiError('unavailable', mailIsMissing)
  if (!env.MAIL_API_URL) {
    console.log(`Mail to ${mail.to}: ${mail.subject}\n${mail.text}`)
    await db.query(
      kysely
        .insertInto('mails')
        .values({ recipient: mail.to, subject: mail.subject, body: mail.text, html: mail.html ?? null }),
    )
    return
  }
  const { to, idempotencyKey, ...content } = mail
  const status = await fetch(env.MAIL_API_URL, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${env.MAIL_API_KEY ?? ''}`,
      'content-type': 'application/json',
      ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    },
    body: JSON.stringify({ from: env.MAIL_FROM, to: [to], ...content }),
    signal: AbortSignal.timeout(10_000),
  }).then(
    (response) => response.status,
    (error: unknown) => (error instanceof Error ? error.name : typeof error),
  )
  if (typeof status === 'number' && status < 300) return
  console.error(JSON.stringify({ error: 'mail_refused', status }))
  throw new ApiError('unavailable', 'The e-mail could not be sent. Try again in a minute.')
}

/** Renders a mail as HTML in the reader's light or dark setting. It loads nothing. */
export async function mailPage(
  title: string,
  content: HtmlEscapedString | Promise<HtmlEscapedString>,
): Promise<string> {
  return String(
    await html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width" />
          <meta name="color-scheme" content="light dark" />
          <title>${title}</title>
        </head>
        <body
          style="margin:0 auto;max-width:36rem;padding:1.5rem;font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere"
        >
          ${content}
        </body>
      </html>`,
  )
}

/**
 * Renders paragraphs of text as a mail. Only the service's own addresses become links, because a typed name can look
 * like an address.
 */
export async function pageOfText(title: string, paragraphs: string[], baseUrl: string): Promise<string> {
  const parts = (text: string) =>
    text
      .split(/(https?:\/\/\S+)/)
      .map((part) => (part.startsWith(`${baseUrl}/`) ? html`<a href="${part}">${part}</a>` : part))
  return await mailPage(title, html`${paragraphs.map((text) => html`<p>${parts(text)}</p>`)}`)
}
