import type { Context } from 'hono'
import { createMiddleware } from 'hono/factory'
import * as z from 'zod/mini'
import { ApiError } from '../../../lib/errors.ts'

/** What the page of a form shows: what was sent, and what is wrong with which field. */
export interface FormState {
  values: Record<string, string>
  errors: Record<string, string>
  /** What is wrong with none of the fields in particular. */
  problem?: string
  status: 200 | 400 | 401 | 409 | 429
}

export const emptyForm: FormState = { values: {}, errors: {}, status: 200 }

type Refuse<Env extends object> = (c: Context<Env>, form: FormState) => Response | Promise<Response>

/**
 * A form post as `schema` takes it, for the handler after it: `c.req.valid('form')`. What the schema refuses is shown by `refuse`, the
 * page of the form; without it, it is `invalid_request`, which leads back to the page that the form stands on.
 */
export function form<Schema extends z.ZodMiniType<object>, Env extends object>(
  schema: Schema,
  refuse: Refuse<Env> = (_c, { errors }) => {
    throw new ApiError('invalid_request', Object.values(errors)[0] ?? 'Check what you entered and try again.')
  },
) {
  return createMiddleware<Env, string, { in: { form: z.input<Schema> }; out: { form: z.output<Schema> } }>(
    async (c, next) => {
      const values = await readValues(c)
      const parsed = schema.safeParse(values)
      if (!parsed.success) return await refuse(c, { values, errors: fieldErrors(parsed.error.issues), status: 400 })
      c.req.addValidatedData('form', parsed.data)
      return await next()
    },
  )
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
export async function formAgain(c: Context, refusal: Partial<Omit<FormState, 'values'>>): Promise<FormState> {
  return { values: await readValues(c), errors: {}, status: 400, ...refusal }
}

/** The error as a field's, where it says that something stands in the way of what was entered; others go on. */
export async function conflictOf(c: Context, field: string, error: unknown): Promise<FormState> {
  if (!(error instanceof ApiError) || error.code !== 'conflict') throw error
  return await formAgain(c, { errors: { [field]: error.message }, status: 409 })
}

/** The text fields of a form post. Files and repeated fields are left out. */
async function readValues(c: Context): Promise<Record<string, string>> {
  const body = await c.req.parseBody().catch(() => {
    throw new ApiError('invalid_request', 'The form could not be read. Go back and send it again.')
  })
  const fields = Object.entries(body).filter((field): field is [string, string] => typeof field[1] === 'string')
  return Object.fromEntries(fields.map(([name, value]) => [name, value.replaceAll(/\0|\p{Surrogate}/gu, '')]))
}

/** Messages by field, from the first issue of each. */
function fieldErrors(issues: readonly z.core.$ZodIssue[]): Record<string, string> {
  return Object.fromEntries(issues.toReversed().map((issue) => [String(issue.path[0] ?? ''), issue.message]))
}
