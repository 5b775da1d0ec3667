import type { Context, Env } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import * as z from 'zod/mini'
import { accept, textsOf } from '../../../lib/api/input.ts'
import { ApiError, type ErrorDetail } from '../../../lib/errors.ts'
import { backTo, cut } from './address.ts'

const texts = z.record(z.string(), z.string())
const formState = z.object({ values: texts, errors: texts, problem: z.optional(z.string()) })

/** The state of a form: typed values, errors by field, and an error of the whole form. */
export type FormState = z.infer<typeof formState>

export const emptyForm: FormState = { values: {}, errors: {} }

/**
 * Parses a form post with `schema` into `c.req.valid('form')`. Shows errors on `page`, the page of the form. Without a page, it refuses with
 * `invalid_request`, which leads back to the previous page.
 */
export function form<Schema extends z.ZodMiniType<object>, E extends Env>(
  schema: Schema,
  page?: (c: Context<E>) => string,
) {
  return accept('form', schema, async (c: Context<E>, refusal) => {
    if (!(refusal instanceof ApiError) || !refusal.details) throw refusal
    const errors = byField(refusal.details)
    if (page) return await refuseForm(c, page(c), { errors })
    throw new ApiError('invalid_request', Object.values(errors)[0] ?? 'Check what you entered and try again.')
  })
}

const formCookie = '__Secure-svc_form'
/** The size that browsers accept for a cookie, minus room for its name. */
const maxCookie = 3800

/** Escapes characters that end the path of a cookie. */
const cookiePath = (path: string) => path.replaceAll(/[;\r\n]/g, encodeURIComponent)

/** Set by a refused form, so it can be sent again. */
export interface RefusedVariables {
  isRefused?: boolean
  /** Renders a page of this site as if the browser loaded it with one more cookie. */
  showPage: (address: string, cookie: string) => Promise<Response>
}

/**
 * Redirects to `page`, whose form once shows the typed values (without passwords) and the errors. If they don't fit into a cookie, it
 * answers with that page itself, so nobody has to type them again.
 */
export async function refuseForm(c: Context, page: string, refusal: Partial<Omit<FormState, 'values'>>) {
  const address = backTo(c, page)
  const [path = page] = address.split('?')
  const typed = Object.entries(textsOf(await c.req.parseBody())).filter(
    ([name]) => !/password|token|^(current|new)$/.test(name),
  )
  const state = JSON.stringify({ errors: {}, ...refusal, values: Object.fromEntries(typed) })
  c.set('isRefused', true)
  if (encodeURIComponent(state).length > maxCookie) {
    const showPage: RefusedVariables['showPage'] = c.get('showPage')
    return await showPage(address, `${formCookie}=${encodeURIComponent(state)}`)
  }
  setCookie(c, formCookie, state, {
    path: cookiePath(path),
    secure: true,
    httpOnly: true,
    sameSite: 'Lax',
    maxAge: 60,
  })
  return c.redirect(address, 303)
}

/** Returns the refusal of this page's form, once. Returns `emptyForm` if there was none. */
export function shownForm(c: Context): FormState {
  const value = getCookie(c, formCookie)
  if (value === undefined) return emptyForm
  deleteCookie(c, formCookie, { path: cookiePath(c.req.path), secure: true })
  try {
    const { success, data } = formState.safeParse(JSON.parse(value))
    return success ? data : emptyForm
  } catch {
    return emptyForm
  }
}

/** An optional text of a form. A missing one is empty. */
export const optionalText = z.prefault(z.string(), '')

/** A required reason. `missing` is the error message. */
export function reasonField(missing: string) {
  return z.string(missing).check(shortText(1000), z.minLength(1, missing))
}

/** Trims text and cuts it to `length` characters. */
export function shortText(length: number) {
  return z.overwrite<string>((text) => cut(text.trim(), length))
}

/** Shows a conflict as the error of the field it names, or of `field`. Passes other errors on. */
export async function refuseConflict(c: Context, page: string, field: string, error: unknown): Promise<Response> {
  if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
  const named = error.details?.[0]?.field ?? field
  return await refuseForm(c, page, { errors: { [named]: error.message } })
}

/** Keeps the first message of each field, in the order of the fields. */
function byField(details: ErrorDetail[]): Record<string, string> {
  const errors: Record<string, string> = {}
  for (const { field, message } of details) errors[field] ??= message
  return errors
}
