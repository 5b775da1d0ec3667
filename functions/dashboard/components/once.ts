import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { answerOf, isUsedForm, keepAnswer, releaseForm } from '../../../lib/access/used-forms.ts'
import type { Database, SentForm } from '../../../lib/database.ts'
import { cameFrom } from './address.ts'
import { redirectWith } from './flash.tsx'
import type { PageContext } from './page.ts'

export const formToken = 'form_token'
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * Adds a one-time token to each form of a page, so that a repeated form counts once. A form with `data-token="button"` also has a
 * button that sends it by GET, so only the button that posts it contains the token.
 */
export function withFormTokens(page: string): string {
  return page
    .replaceAll(
      /<form method="post"(?! data-token)[^<>]*>/g,
      (form) => `${form}<input type="hidden" name="${formToken}" value="${crypto.randomUUID()}"/>`,
    )
    .replaceAll(`<button name="${formToken}"`, (button) => `${button} value="${crypto.randomUUID()}"`)
}

/** The forms that must not count twice even if nobody is signed in. Each succeeds only a few times for an address, so they store little. */
const strangersForms = /^\/(sign-up|forgot-password|reset-password|two-factor|join\/[^/]+)$/

/** Returns the form in a request if a page of this dashboard sent it. */
async function sentForm(c: Context, viewer: Viewer | undefined): Promise<SentForm | undefined> {
  if (!viewer && !strangersForms.test(c.req.path)) return undefined
  const { [formToken]: token } = await c.req.parseBody().catch((): Record<string, unknown> => ({}))
  return typeof token === 'string' && uuid.test(token) ? { token, requestId: crypto.randomUUID() } : undefined
}

type PagesEnv = PageContext extends Context<infer Env> ? Env : never

/**
 * Attributes the changes that a form makes to its sender, and applies them once. The transaction of the change also marks the form as used,
 * so it is safe to send the form again after an unknown outcome. A refused form can be sent again.
 */
export const actOnce = createMiddleware<PagesEnv>(async (c, next) => {
  if (c.req.method !== 'POST') return await next()
  const db = c.get('db')
  const viewer = c.get('viewer')
  const form = await sentForm(c, viewer)
  if (viewer ?? form) c.set('db', db.actingAs(viewer?.user.id ?? null, form))
  // The sign-in library writes outside our transactions, so the form is marked as used first.
  const isTakenBefore = form && (!viewer || c.req.path.startsWith('/account'))
  if (isTakenBefore) await c.get('db').batch([])
  await next()
  if (!form || isUsedForm(c.error)) return undefined
  const { status, headers } = c.res
  const isRefused = c.error !== undefined || status >= 400 || c.get('isRefused')
  if (isRefused && (status < 500 || isTakenBefore)) await releaseForm(db, form)
  else await keepAnswer(db, form, headers.get('location') ?? headers.get('content-location') ?? cameFrom(c) ?? '/')
  return undefined
})

/** Redirects a repeated form to the page that the first submission led to. */
export async function leadToFirstAnswer(c: Context, db: Database): Promise<Response> {
  const viewer: Viewer | undefined = c.get('viewer')
  const form = await sentForm(c, viewer)
  const location = form && (await answerOf(db, viewer?.user.id ?? null, form.token))
  return redirectWith(c, location ?? cameFrom(c) ?? '/', 'This form was sent twice. It was applied once.')
}
