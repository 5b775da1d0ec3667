import type * as z from 'zod/mini'
import type { KeyScope } from '../access/api-keys.ts'
import { type ErrorCode, errorCodes } from '../errors.ts'

/** A call that the reference shows. Tests send it to the service in the order of operations.ts and hold the answer to `response`. */
export interface Example {
  name: string
  summary: string
  body?: Record<string, unknown>
  /** Sent without the key or signature, as from a visitor's browser. */
  unsigned?: true
  status: number
  response: unknown
}

/** One endpoint as the OpenAPI document and the reference page describe it. */
export interface Operation {
  id: string
  method: 'get' | 'post' | 'patch' | 'delete'
  path: string
  summary: string
  description: string
  /** Who may call: anybody, the API key, the key or a browser without it, a dashboard session, the payment processor. */
  auth: 'none' | 'key' | 'key or browser' | 'session' | 'signature'
  /** What the key has to be for, in the program API. */
  scope?: KeyScope
  /** Whether it takes an Idempotency-Key. */
  idempotent?: true
  body?: { schema: z.ZodMiniType; fields: Record<string, string> }
  parameters?: {
    in: 'path' | 'query'
    schema: z.ZodMiniType
    /** `values` replaces what the schema says where that is text to be parsed. */
    fields: Record<string, { description: string; example?: string | number; values?: Record<string, unknown> }>
  }[]
  /** `fields` says what figures of the answer mean. */
  success: { schemas: z.ZodMiniType[]; description: string; fields?: Record<string, string> }
  /** Its own codes. `openapi.ts` adds those that follow from what it takes and who may call it. */
  errors?: ErrorCode[]
  examples: Example[]
}

/** Says what each field of a body means; the compiler sees to it that none is forgotten. */
export function body<Schema extends z.ZodMiniType<object>>(
  schema: Schema,
  fields: Record<keyof z.input<Schema>, string>,
) {
  return { schema, fields }
}

type Fields = Record<string, unknown>

/** An example of a call that succeeds: `fields` are its answer beside `success`. */
export const answered = (name: string, summary: string, fields: Fields, sent?: Fields): Example => ({
  name,
  summary,
  ...(sent && { body: sent }),
  status: 200,
  response: { success: true, ...fields },
})

/** An example of a call that is refused. */
export const refused = (
  name: string,
  summary: string,
  error: Fields & { code: ErrorCode; message: string },
  sent?: Fields,
): Example => ({
  name,
  summary,
  ...(sent && { body: sent }),
  status: errorCodes[error.code].status,
  response: { success: false, error },
})

export const exampleClickId = 'cust_1767225600000_123456789012345678901'

export const additionalDataText =
  'Data of your own. `test_mode: true` makes a test event, which counts for nothing; `program_id` names its program.'
