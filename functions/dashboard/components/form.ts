import type { Context, Env } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import * as z from 'zod/mini'
import { accept, textsOf } from '../../../lib/api/input.ts'
import { ApiError, type ErrorDetail } from '../../../lib/errors.ts'
import { backTo, cut } from './address.ts'

const texts = z.record(z.string(), z.string())
const formState = z.object({ values: texts, errors: texts, problem: z.optional(z.string()) })

/** What the page of a form shows: what was typed, what is wrong with which field, and what is wrong with none in particular. */
export type FormState = z.infer<typeof formState>

export const emptyForm: FormState = { values: {}, errors: {} }

/**
 * A form post as `schema` takes it, for the handler after it: `c.req.valid('form')`. What the schema refuses is shown on `page`, the
 * page of the form; without it, it is `invalid_request`, which leads back to the page that the form stands on.
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
/** What browsers keep of a cookie, with room for its name. */
const maxCookie = 3800

/** An address as the path of a cookie, where a semicolon would end it. */
const cookiePath = (path: string) => path.replaceAll(/[;\r\n]/g, encodeURIComponent)

/** What a post leaves behind so that its form can be sent again. */
export interface RefusedVariables {
  isRefused?: boolean
  /** Answers with a page of this site, as its browser would load it with a cookie more. */
  showPage: (address: string, cookie: string) => Promise<Response>
}

/**
 * Leads back to `page`, where the form shows once what was typed, without passwords, and what is wrong with it. What is longer than browsers
 * keep in a cookie is answered with that page itself, so that nobody types it again.
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

/** What the form of this page was refused for just before, once; `emptyForm` where it was not. */
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

/** A text in a form that may be missing, which then is empty. */
export const optionalText = z.prefault(z.string(), '')

/** A reason in a form. `missing` is said where there is none. */
export function reasonField(missing: string) {
  return z.string(missing).check(shortText(1000), z.minLength(1, missing))
}

/** Cuts what people typed to `length` characters at most, without the spaces around it. */
export function shortText(length: number) {
  return z.overwrite<string>((text) => cut(text.trim(), length))
}

/**
 * Shows the error as a field's, where it says that something stands in the way of what was entered: of the field that it names, else of
 * this one. Others go on.
 */
export async function refuseConflict(c: Context, page: string, field: string, error: unknown): Promise<Response> {
  if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
  const named = error.details?.[0]?.field ?? field
  return await refuseForm(c, page, { errors: { [named]: error.message } })
}

/** Messages by field, the first of each, in the order of the fields. */
function byField(details: ErrorDetail[]): Record<string, string> {
  const errors: Record<string, string> = {}
  for (const { field, message } of details) errors[field] ??= message
  return errors
}
