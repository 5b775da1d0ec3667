import { html, raw } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Sender } from './brand.ts'
import type { Database } from './database.ts'
import { brandColors } from './brand-colors.ts'
import { ApiError } from './errors.ts'
import { kysely } from './kysely.ts'
import { type Language, languages } from './languages.ts'

/**
 * The variables of outgoing mail. Without `MAIL_API_URL`, the service refuses actions that send a mail, because only the recipient may see
 * its content.
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
  /** The address of the service. Only its pages become links. */
  BASE_URL?: string
  /** The metrics of the process on one box. See lib/serve/metrics.ts. */
  PROCESS_METRICS?: { countMail(isOk: boolean): void } | undefined
}

export interface Mail {
  to: string
  subject: string
  /** Paragraphs with empty lines between them. If a paragraph is an address of the service, it becomes a button. */
  text: string
  /** The same text as HTML, rendered by `mailPage`. Without it, `sendMail` renders the text. */
  html?: string
  /** The language of the text. Default: English. */
  language?: Language
  /** The label of a button. Default: `Open the page`. */
  button?: string
  /** The program that appears as the sender. */
  sender?: Sender | undefined
  headers?: Record<string, string>
  /** The mail API treats a second mail with the same key as a repeat. */
  idempotencyKey?: string
}

export const mailIsMissing = "This service can't send e-mail yet. Its operator must set MAIL_API_URL and MAIL_FROM."

/** Returns whether the service can send mail. */
export function canMail(env: MailEnv): boolean {
  return Boolean(env.MAIL_API_URL || env.MAIL_INBOX)
}

/** Sends one mail. Throws `unavailable` if there is no mail API, or if the API refuses the mail. */
export async function sendMail(db: Database, env: MailEnv, mail: Mail): Promise<void> {
  if (!canMail(env)) throw new ApiError('unavailable', mailIsMissing)
  const page = mail.html ?? (await pageOfText(mail, env.BASE_URL))
  if (!env.MAIL_API_URL) {
    console.log(`Mail to ${mail.to}: ${mail.subject}\n${mail.text}`)
    await db.query(
      kysely.insertInto('mails').values({ recipient: mail.to, subject: mail.subject, body: mail.text, html: page }),
    )
    return
  }
  const { to, subject, text, headers, idempotencyKey } = mail
  const status = await fetch(env.MAIL_API_URL, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${env.MAIL_API_KEY ?? ''}`,
      'content-type': 'application/json',
      ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    },
    body: JSON.stringify({
      from: fromOf(env.MAIL_FROM, mail.sender?.name),
      to: [to],
      subject,
      text,
      html: page,
      headers,
    }),
    signal: AbortSignal.timeout(10_000),
  }).then(
    (response) => response.status,
    (error: unknown) => (error instanceof Error ? error.name : typeof error),
  )
  const isOk = typeof status === 'number' && status < 300
  env.PROCESS_METRICS?.countMail(isOk)
  if (isOk) return
  console.error(JSON.stringify({ error: 'mail_refused', status }))
  throw new ApiError('unavailable', 'The e-mail could not be sent. Try again in a minute.')
}

/**
 * Returns the sender's name and address. A program's name is followed by the service's name, so that nobody can impersonate another sender.
 */
function fromOf(from: string | undefined, sender: string | undefined): string | undefined {
  const [, service, address] = /^([^<]*)<([^<>]+)>$/.exec(from ?? '') ?? []
  if (sender === undefined || address === undefined) return from
  const name = sender
    .replaceAll(/["\\<>\p{Cc}]/gu, ' ')
    .trim()
    .slice(0, 60)
  return `"${name} via ${service?.replaceAll('"', '').trim()}" <${address}>`
}

const style = `
  body { margin: 0; padding: 1.5rem 1rem; background: #f5f5f4; color: #1b1a18; font: 16px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif; overflow-wrap: anywhere }
  main { max-width: 34rem; margin: 0 auto; padding: 1.5rem; background: #ffffff; border: 1px solid #e5e4e1; border-radius: 8px }
  .sender { margin: 0 0 1rem; font-weight: 600 }
  h1 { margin: 0 0 1rem; font-size: 1.75rem; line-height: 1.2 }
  h2 { margin: 1.5rem 0 .5rem; font-size: 1.05rem }
  ul { margin: 0 0 1rem; padding-inline-start: 1.2rem }
  li { margin: .25rem 0 }
  a { color: #3049d8 }
  .button { display: inline-block; padding: .625rem 1.25rem; border-radius: 6px; background: #3049d8; color: #ffffff; font-weight: 600; text-decoration: none }
  .why { margin: 1.5rem 0 0; font-size: .8125rem; color: #5c5953 }
  @media (prefers-color-scheme: dark) {
    body { background: #0d0e10; color: #ececea }
    main { background: #191b1f; border-color: #2b2e34 }
    a { color: #96a6ff }
    .button { background: #96a6ff; color: #0d1130 }
    .why { color: #a6a8ae }
  }`

/** The colors of a program's brand. */
function colorsOf(sender: Sender | undefined): string {
  if (!sender?.color) return ''
  const { light, dark } = brandColors(sender.color)
  const rules = ({ accent, button, onButton }: typeof light) =>
    `a { color: ${accent} } .button { background: ${button}; color: ${onButton} }`
  return `${rules(light)} @media (prefers-color-scheme: dark) { ${rules(dark)} }`
}

type Content = HtmlEscapedString | Promise<HtmlEscapedString>

interface MailPage {
  title: string
  language?: Language | undefined
  sender?: Sender | undefined
  /** The amount, or the subject. */
  headline: string
  content: Content
  /** Why the reader gets the mail. */
  why?: Content
}

/** Renders a mail as HTML in the reader's light or dark setting. It loads nothing. */
export async function mailPage({ title, language = 'en', sender, headline, content, why }: MailPage): Promise<string> {
  return String(
    await html`<!doctype html>
      <html lang="${language}" dir="${languages[language].dir}">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width" />
          <meta name="color-scheme" content="light dark" />
          <meta name="supported-color-schemes" content="light dark" />
          <title>${title}</title>
          <style>
            ${raw(style)} ${raw(colorsOf(sender))}
          </style>
        </head>
        <body>
          <main>
            ${sender === undefined ? '' : html`<p class="sender">${sender.name}</p>`}
            <h1>${headline}</h1>
            ${content} ${why === undefined ? '' : html`<p class="why">${why}</p>`}
          </main>
        </body>
      </html>`,
  )
}

/** A link that looks like a button. */
export const mailButton = (address: string, text: string) =>
  html`<p><a class="button" href="${address}">${text}</a></p>`

/**
 * Renders the paragraphs of a mail. Only the service's own addresses become links, because a typed name can look like an
 * address.
 */
async function pageOfText(
  { subject, text, sender, language, button = 'Open the page' }: Mail,
  baseUrl: string | undefined,
): Promise<string> {
  const isOwn = (part: string) => baseUrl !== undefined && part.startsWith(`${baseUrl}/`)
  const parts = (paragraph: string) =>
    paragraph.split(/(https?:\/\/\S+)/).map((part) => (isOwn(part) ? html`<a href="${part}">${part}</a>` : part))
  const paragraphs = text
    .split('\n\n')
    .map((one) => (isOwn(one) && !/\s/.test(one) ? mailButton(one, button) : html`<p>${parts(one)}</p>`))
  return await mailPage({ title: subject, language, sender, headline: subject, content: html`${paragraphs}` })
}
