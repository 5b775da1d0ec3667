import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import type { Viewer } from '../../../lib/access/viewer.ts'
import { answerOf, isUsedForm, keepAnswer, releaseForm } from '../../../lib/access/used-forms.ts'
import type { Database, SentForm } from '../../../lib/database.ts'
import { cameFrom } from './address.ts'
import { redirectWith } from './flash.tsx'
import type { PageContext } from './page.ts'

/** The field of a form's one-time token. */
export const formToken = 'form_token'
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * A page with a one-time token in each of its forms, so that a form sent twice counts once. A form that another button sends by GET, into an address,
 * says `data-token="button"`, and the button that posts it has the token's name.
 */
export function withFormTokens(page: string): string {
  return page
    .replaceAll(
      /<form method="post"(?! data-token)[^>]*>/g,
      (form) => `${form}<input type="hidden" name="${formToken}" value="${crypto.randomUUID()}"/>`,
    )
    .replaceAll(`<button name="${formToken}"`, (button) => `${button} value="${crypto.randomUUID()}"`)
}

/** The form that a request sends, where it is one of this dashboard's pages. */
async function sentForm(c: Context): Promise<SentForm | undefined> {
  const { [formToken]: token } = await c.req.parseBody().catch((): Record<string, unknown> => ({}))
  return typeof token === 'string' && uuid.test(token) ? { token, requestId: crypto.randomUUID() } : undefined
}

type PagesEnv = PageContext extends Context<infer Env> ? Env : never

/**
 * What a form does is put down to who sent it, and done once: the form is taken in the transaction of what it does, so that after an outcome that is not
 * known, sending it again does it once too. A form that was refused can be sent again.
 */
export const actOnce = createMiddleware<PagesEnv>(async (c, next) => {
  if (c.req.method !== 'POST') return await next()
  const db = c.get('db')
  const form = await sentForm(c)
  const viewer = c.get('viewer')
  if (viewer ?? form) c.set('db', db.actingAs(viewer?.user.id ?? null, form))
  // What the sign-in library does is in no transaction of ours, so the form is taken before it.
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

/** Leads who sent a form again to where its first answer led. */
export async function leadToFirstAnswer(c: Context, db: Database): Promise<Response> {
  const form = await sentForm(c)
  const viewer: Viewer | undefined = c.get('viewer')
  const location = form && (await answerOf(db, viewer?.user.id ?? null, form.token))
  return redirectWith(c, location ?? cameFrom(c) ?? '/', 'This form was sent twice. It was applied once.')
}
