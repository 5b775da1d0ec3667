/**
 * Every error code of the service, with its status. The code is the stable part of an error body. The reference page
 * and the OpenAPI document are rendered from this table.
 */
export const errorCodes = {
  invalid_request: { status: 400, title: 'A field is missing or invalid' },
  invalid_json: { status: 400, title: 'The body is not JSON' },
  invalid_url: { status: 400, title: '`affiliate_url` cannot be parsed as a URL' },
  missing_partner_code: { status: 400, title: '`affiliate_url` has no `aff` parameter' },
  unknown_partner_code: { status: 400, title: 'No referral link matches the `aff` value' },
  ambiguous_partner_code: { status: 400, title: 'Several programs have a link with the `aff` value' },
  invalid_link: { status: 400, title: 'The referral link has no partner or no program' },
  no_attribution: { status: 400, title: 'There is neither a known customer key nor a valid click id' },
  invalid_signature: {
    status: 400,
    title: 'The payment processor’s signature is missing, wrong or too old',
  },
  already_settled: { status: 400, title: 'The lead is already settled' },
  unauthorized: { status: 401, title: 'The Authorization header is missing or malformed, or its token is not valid' },
  api_key_retired: { status: 401, title: 'The API key was revoked' },
  api_key_expired: { status: 401, title: 'The API key has expired' },
  forbidden: { status: 403, title: 'The caller is not allowed to do this' },
  insufficient_scope: {
    status: 403,
    title: 'The API key does not have the scope in `needed_scope`',
  },
  not_found: { status: 404, title: 'There is nothing at this URL' },
  method_not_allowed: { status: 405, title: 'The URL does not accept this method' },
  conflict: { status: 409, title: 'The current state does not allow this' },
  duplicate_transaction: { status: 409, title: 'A sale with this `transaction_id` already exists' },
  link_disabled: { status: 410, title: 'The referral link is inactive' },
  payload_too_large: { status: 413, title: 'The body is larger than 64 KiB, or 16 MiB for an import' },
  unsupported_media_type: { status: 415, title: 'The body must be sent as application/json' },
  idempotency_mismatch: { status: 422, title: 'The `Idempotency-Key` was already used for another request' },
  rate_limited: { status: 429, title: 'Too many requests' },
  internal_error: { status: 500, title: 'An unexpected error occurred' },
  unavailable: { status: 503, title: 'The result is unknown, and you can send the same request again' },
} as const satisfies Record<string, { status: number; title: string }>

export type ErrorCode = keyof typeof errorCodes

/** One invalid field: `field` is its path in the body or query, `message` is the rule. */
export interface ErrorDetail {
  field: string
  message: string
}

/**
 * A failed response. `message` says what went wrong and what to do. `details` lists the invalid fields. `data` is added to the error
 * object, for example the stored sale of a duplicate.
 */
export class ApiError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetail[] | undefined
  readonly headers: Record<string, string>
  readonly data: Record<string, unknown>

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: ErrorDetail[]; headers?: Record<string, string>; data?: Record<string, unknown> } = {},
  ) {
    super(message)
    this.code = code
    this.details = options.details
    this.headers = options.headers ?? {}
    this.data = options.data ?? {}
  }
}

/** Returns a program's row. Throws `not_found` if it is missing. */
export function found<Row>(row: Row | null | undefined, noun: string): Row {
  if (row === undefined || row === null) throw new ApiError('not_found', `This program has no such ${noun}.`)
  return row
}

/** Creates the error for an unknown partner or group. `field` is the field with the id. */
export const notOfProgram = (field: string, noun: 'partner' | 'group'): ApiError =>
  new ApiError('not_found', `This program has no such ${noun}.`, {
    details: [{ field, message: `must be the id of a ${noun} of the program` }],
  })

/** Errors with these two codes are RFC 9457 problem documents, because every endpoint can return them. */
export const problemCodes: ReadonlySet<ErrorCode> = new Set(['api_key_retired', 'rate_limited'])

/** Renders an error in the platform envelope, or in the typed one if its code is in `problemCodes`. */
export function errorResponse(error: ApiError): Response {
  const { status, title } = errorCodes[error.code]
  const body = {
    success: false,
    error: {
      code: error.code,
      message: error.message,
      ...(error.details && { details: error.details }),
      ...error.data,
    },
  }
  if (problemCodes.has(error.code)) {
    const problem = { type: `urn:svc:error:${error.code}`, title, status, detail: error.message, ...body }
    return Response.json(problem, {
      status,
      headers: { ...error.headers, 'content-type': 'application/problem+json' },
    })
  }
  return Response.json(body, { status, headers: error.headers })
}

/**
 * SQLSTATEs after which the same request can be sent again. 08: connection lost. 53: insufficient resources. 57P: server shutting down or
 * starting. 58: disk or file not accessible. 40: deadlock or serialization failure.
 */
const transientState = /^(08|53|57P|58|40)/

/**
 * Returns true if Postgres didn't refuse the statement itself. In that case, nothing was done or the outcome is unknown. Neon's proxy sends
 * an empty code if it couldn't reach Postgres or lost the connection. The check uses the name of the driver's error, so that functions
 * without a database don't bundle the driver. The failures of several steps are transient if all of them are.
 */
export function isTransient(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every((one: unknown) => isTransient(one))
  if (!(error instanceof Error) || error.name !== 'NeonDbError') return false
  const { code } = error as Error & { code?: string }
  return !code || transientState.test(code)
}

/** Lists up to five names for a message, and says if there are more. */
export function nameSome(names: readonly string[]): string {
  return names.slice(0, 5).join(', ') + (names.length > 5 ? ' and more' : '')
}
