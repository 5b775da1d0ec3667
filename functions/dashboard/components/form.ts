import type { Context, Env } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { createContext, useContext } from 'hono/jsx'
import * as z from 'zod/mini'
import { accept, textsOf } from '../../../lib/api/input.ts'
import { ApiError, type ErrorDetail } from '../../../lib/errors.ts'
import { backTo, cut } from './address.ts'

const texts = z.record(z.string(), z.string())
const formState = z.object({
  /** The address that received the form. */
  action: z.optional(z.string()),
  values: texts,
  errors: texts,
  problem: z.optional(z.string()),
})

/** The state of a form: typed values, errors by field, and an error of the whole form. */
export type FormState = z.infer<typeof formState>

export const emptyForm: FormState = { values: {}, errors: {} }

/** The state of the form around a component. Outside of forms, it is the refused form of the page. */
export const FormContext = createContext(emptyForm)
export const useForm = () => useContext(FormContext)

/** Returns the state of the form with this address: the refused form of the page, or an empty one. */
export function useFormOf(action: string): FormState {
  const refused = useForm()
  return refused.action === action.split('?')[0] ? refused : emptyForm
}

/**
 * Parses a form post with `schema` into `c.req.valid('form')`. Shows errors on `page`, the page of the form. The errors come from the
 * schema, or the handler throws them about a field. `conflictField` is the field that shows a conflict without a field. All other errors
 * redirect to the previous page.
 */
export function form<Schema extends z.ZodMiniType<object>, E extends Env>(
  schema: Schema,
  page?: string | ((c: Context<E>) => string),
  conflictField?: string,
) {
  const parse = accept('form', schema, async (c: Context<E>, refusal) => {
    if (!(refusal instanceof ApiError) || !refusal.details) throw refusal
    const errors = byField(refusal.details)
    // Nobody would see an error next to a hidden field.
    const atField = 'request_id' in errors ? undefined : await refuseAtField(c, new FormRefusal(errors))
    if (atField) return atField
    throw new ApiError('invalid_request', Object.values(errors)[0] ?? 'Check what you entered and try again.')
  })
  const parseForPage: typeof parse = async (c, next) => {
    const address = typeof page === 'function' ? page(c) : page
    if (address !== undefined) keepPage(c, { address, conflictField })
    return await parse(c, next)
  }
  return parseForPage
}

const keepPage = (c: Context, page: RefusedVariables['formPage']) => c.set('formPage', page)

/** Thrown by a handler. The form shows these errors next to its fields. */
export class FormRefusal extends ApiError {
  readonly errors: Record<string, string>

  constructor(errors: Record<string, string>) {
    super('invalid_request', Object.values(errors)[0] ?? '')
    this.errors = errors
  }
}

/** Shows a handler's error on the page of the form. Returns undefined if the error is not about a field of the form. */
export async function refuseAtField(c: Context, refusal: ApiError): Promise<Response | undefined> {
  const page: RefusedVariables['formPage'] = c.get('formPage')
  if (!page) return undefined
  if (refusal instanceof FormRefusal) return await refuseForm(c, page.address, refusal)
  const field = refusal.details?.[0]?.field ?? (refusal.code === 'conflict' ? page.conflictField : undefined)
  if (field === undefined || !(field in (await c.req.parseBody()))) return undefined
  return await refuseForm(c, page.address, { errors: { [field]: refusal.message } })
}

const formCookie = '__Secure-svc_form'
/** The largest cookie that browsers accept, minus the room for its name. */
const maxCookie = 3800

/** Escapes characters that would end the path of a cookie. */
const cookiePath = (path: string) => path.replaceAll(/[;\r\n]/g, encodeURIComponent)

export interface RefusedVariables {
  /** The page with the form that this request submitted. */
  formPage?: { address: string; conflictField: string | undefined }
  /** A refused form sets this, so that the person can send it again. */
  isRefused?: boolean
  /** Renders a page of this site as if the browser had requested it with one more cookie. */
  showPage: (address: string, cookie: string) => Promise<Response>
}

/**
 * Redirects to `page`, whose form then shows the errors and the typed values, except passwords and taxpayer numbers. If they don't fit
 * into a cookie, the function renders the page directly, so that nobody has to retype anything.
 */
export async function refuseForm(c: Context, page: string, refusal: Partial<Pick<FormState, 'errors' | 'problem'>>) {
  const address = backTo(c, page)
  const [path = page] = address.split('?')
  const typed = Object.entries(textsOf(await c.req.parseBody())).filter(
    ([name]) => !/password|token|^(current|new|tax_id)$/.test(name),
  )
  const action = new URL(c.req.url).pathname
  const state = JSON.stringify({ action, errors: {}, ...refusal, values: Object.fromEntries(typed) })
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

/** Returns the refused form of this page and forgets it. Returns `emptyForm` if there was none. */
export function refusedForm(c: Context): FormState {
  const value = getCookie(c, formCookie)
  if (value === undefined || c.req.method !== 'GET') return emptyForm
  deleteCookie(c, formCookie, { path: cookiePath(c.req.path), secure: true })
  try {
    const { success, data } = formState.safeParse(JSON.parse(value))
    return success ? data : emptyForm
  } catch {
    return emptyForm
  }
}

/** An optional text in a form. If it is missing, it is empty. */
export const optionalText = z.prefault(z.string(), '')

const needsReason = 'Enter a reason. The partner sees it.'

/** The form for a decision with a reason that the partner sees. */
export const reasonForm = z.object({
  reason: z.string(needsReason).check(shortText(1000), z.minLength(1, needsReason)),
})

/** Trims text and cuts it to `length` characters. */
export function shortText(length: number) {
  return z.overwrite<string>((text) => cut(text.trim(), length))
}

/** Keeps the first message of each field, in the order of the fields. */
function byField(details: ErrorDetail[]): Record<string, string> {
  const errors: Record<string, string> = {}
  for (const { field, message } of details) errors[field] ??= message
  return errors
}
