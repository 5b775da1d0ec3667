import type * as z from 'zod/mini'
import type { KeyScope } from '../access/api-keys.ts'
import { type ErrorCode, errorCodes } from '../errors.ts'

/** A call in the reference. Tests send it to the service in the order of operations.ts and compare the response with `response`. */
export interface Example {
  name: string
  summary: string
  body?: Record<string, unknown>
  /** Sent without a key or signature, as from a visitor's browser. */
  unsigned?: true
  status: number
  response: unknown
}

/** Describes one endpoint for the OpenAPI document and the reference page. */
export interface Operation {
  id: string
  method: 'get' | 'post' | 'patch' | 'delete'
  path: string
  summary: string
  description: string
  /**
   * The allowed callers: anybody, callers with the API key, callers with the key and browsers without one, partners with their own key,
   * people with a dashboard session, or the payment processor.
   */
  auth: 'none' | 'key' | 'partner key' | 'key or browser' | 'session' | 'signature'
  /** The scope that the key must have. Only for the program API. */
  scope?: KeyScope
  /** True if the operation accepts an Idempotency-Key. */
  idempotent?: true
  body?: { schema: z.ZodMiniType; fields: Record<string, string> }
  parameters?: {
    in: 'path' | 'query'
    schema: z.ZodMiniType
    /** `values` is used in place of the schema if the schema parses text. */
    fields: Record<string, { description: string; example?: string | number; values?: Record<string, unknown> }>
  }[]
  /** `fields` describes fields of the response, and `media` is its type if it is not JSON. */
  success: { schemas: z.ZodMiniType[]; description: string; fields?: Record<string, string>; media?: string }
  /** The operation's own error codes. `openapi.ts` adds the codes for its input and its callers. */
  errors?: ErrorCode[]
  examples: Example[]
}

/** Describes each field of a body. If a description is missing, the code doesn't compile. */
export function body<Schema extends z.ZodMiniType<object>>(
  schema: Schema,
  fields: Record<keyof z.input<Schema>, string>,
) {
  return { schema, fields }
}

/** Describes another spelling of a field. The reference shows it, but the OpenAPI document doesn't. */
export const aliasOf = (field: string) => `The same as \`${field}\`.`
export const isAlias = (description: string) => description.startsWith(aliasOf('').slice(0, -2))

type Fields = Record<string, unknown>

/** An example of a successful call. `fields` are the response fields except `success`. */
export const answered = (name: string, summary: string, fields: Fields, sent?: Fields): Example => ({
  name,
  summary,
  ...(sent && { body: sent }),
  status: 200,
  response: { success: true, ...fields },
})

/** An example of a call that creates something. */
export const answeredCreated = (...example: Parameters<typeof answered>): Example => ({
  ...answered(...example),
  status: 201,
})

/** An example of a refused call. */
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

/** Describes the field `ignored` in the responses of the tracking calls. */
export const ignoredText = {
  ignored_fields: 'Unknown fields in the body, which were ignored. Omitted if there were none.',
}

export const exampleClickId = 'cust_1767225600000_123456789012345678901'

export const additionalDataText =
  'Your own data. `test_mode: true` marks the event as a test, which does not count. `program_id` is the id of its program.'
