import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Database } from './database.ts'
import { ApiError } from './errors.ts'
import { kysely } from './kysely.ts'

/** Where mail goes. Without `MAIL_API_URL` none is sent, and what needs one is refused: what a mail holds is for its reader alone. */
export interface MailEnv {
  /** An HTTP mail API that takes `{from, to, subject, text, html, headers}` with a bearer key, as Resend's `https://api.resend.com/emails`. */
  MAIL_API_URL?: string
  MAIL_API_KEY?: string
  /** `Name <address>`; the address must be one the mail API may send from. */
  MAIL_FROM?: string
  /** Set on the local stack alone, where mail without a mail API is printed and kept in the table `mails`. */
  MAIL_INBOX?: string
}

export interface Mail {
  to: string
  subject: string
  text: string
  html?: string
  headers?: Record<string, string>
  /** The mail API takes a mail with a key that it knows for the one before. */
  idempotencyKey?: string
}

export const mailIsMissing = 'This service cannot send mail yet. Its operator has to set MAIL_API_URL and MAIL_FROM.'

/** Whether there is anywhere that mail goes. */
export function canMail(env: MailEnv): boolean {
  return Boolean(env.MAIL_API_URL || env.MAIL_INBOX)
}

/** Sends one mail. Throws `unavailable` where there is no mail API, or it does not take the mail. */
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
  throw new ApiError('unavailable', 'The mail could not be sent. Try again in a minute.')
}

/** A mail as HTML, in the colours and letters of who reads it: it loads nothing. */
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

/** The same of paragraphs of text, with the service's own addresses as links: a name that somebody typed may look like one. */
export async function pageOfText(title: string, paragraphs: string[], baseUrl: string): Promise<string> {
  const parts = (text: string) =>
    text
      .split(/(https?:\/\/\S+)/)
      .map((part) => (part.startsWith(`${baseUrl}/`) ? html`<a href="${part}">${part}</a>` : part))
  return await mailPage(title, html`${paragraphs.map((text) => html`<p>${parts(text)}</p>`)}`)
}
