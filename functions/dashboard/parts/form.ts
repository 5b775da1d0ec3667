import type { Context, Env } from 'hono'
import * as z from 'zod/mini'
import { accept, textsOf } from '../../../lib/api/input.ts'
import { ApiError, type ErrorDetail } from '../../../lib/errors.ts'

/** What the page of a form shows: what was sent, and what is wrong with which field. */
export interface FormState {
  values: Record<string, string>
  errors: Record<string, string>
  /** What is wrong with none of the fields in particular. */
  problem?: string
  status: 200 | 400 | 401 | 409 | 429 | 503
}

export const emptyForm: FormState = { values: {}, errors: {}, status: 200 }

type Refuse<E extends Env> = (c: Context<E>, form: FormState) => Response | Promise<Response>

/**
 * A form post as `schema` takes it, for the handler after it: `c.req.valid('form')`. What the schema refuses is shown by `refuse`, the
 * page of the form; without it, it is `invalid_request`, which leads back to the page that the form stands on.
 */
export function form<Schema extends z.ZodMiniType<object>, E extends Env>(
  schema: Schema,
  refuse: Refuse<E> = (_c, { errors }) => {
    throw new ApiError('invalid_request', Object.values(errors)[0] ?? 'Check what you entered and try again.')
  },
) {
  return accept('form', schema, async (c: Context<E>, refusal) => {
    if (!(refusal instanceof ApiError) || !refusal.details) throw refusal
    return await refuse(c, await formAgain(c, { errors: byField(refusal.details) }))
  })
}

/** A text in a form that may be missing, which then is empty. */
export const optionalText = z.prefault(z.string(), '')

/** A reason in a form. `missing` is said where there is none. */
export function reasonField(missing: string) {
  return z.string(missing).check(shortText(1000), z.minLength(1, missing))
}

/** Cuts what people typed to `length` characters at most, without the spaces around it. */
export function shortText(length: number) {
  return z.overwrite<string>((text) => text.trim().slice(0, length).toWellFormed())
}

/** The same form again, for its page to say why what the schema took was refused after all. */
export async function formAgain(
  c: Pick<Context, 'req'>,
  refusal: Partial<Omit<FormState, 'values'>>,
): Promise<FormState> {
  return { values: textsOf(await c.req.parseBody()), errors: {}, status: 400, ...refusal }
}

/**
 * The error as a field's, where it says that something stands in the way of what was entered: of the field that it names, else of this one.
 * Others go on.
 */
export async function conflictOf(c: Context, field: string, error: unknown): Promise<FormState> {
  if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
  const named = error.details?.[0]?.field ?? field
  return await formAgain(c, { errors: { [named]: error.message }, status: 409 })
}

/** Messages by field, the first of each. */
function byField(details: ErrorDetail[]): Record<string, string> {
  return Object.fromEntries(details.toReversed().map(({ field, message }) => [field, message]))
}
