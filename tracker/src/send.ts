/** The key, timeout and retries for calls from a server. */
export interface Caller {
  /** The program's API key. Keep it on the server. */
  apiKey: string | undefined
  /** How long one attempt may take, in milliseconds. Default 10,000. */
  timeoutMs?: number | undefined
  /** The number of retries after no response, 429 or 5xx. Default 2. */
  retries?: number | undefined
}

export interface SvcError {
  /** The service's stable error code. If there was no response: `network_error`, `timeout`, `invalid_response` or `invalid_request`. */
  code: string
  message: string
  details?: { field: string; message: string }[]
  /** For a sale that was recorded before (409): its id, and whether the data is the same. */
  sale_id?: number
  same_payload?: boolean
  /** Whether the recorded sale has a partner after this call, which may have added its customer, and the id of its commission. */
  attributed?: boolean
  commission_id?: number | null
  [name: string]: unknown
}

/** The result of every call. `status` is the HTTP status, or 0 without a response. */
export type Result<Data> =
  | { ok: true; status: number; error: null; data: Data }
  | { ok: false; status: number; error: SvcError; data: null }

const failed = (status: number, error: SvcError): Result<never> => ({ ok: false, status, error, data: null })

/** Throws if this isn't an API key, so that a missing variable is noticed at the start instead of at the first sale. */
export function checkKey(apiKey: string | undefined): void {
  if (!apiKey?.trim()) throw new TypeError('apiKey is missing. Set SVC_API_KEY to the API key of your program.')
  if (!/^svc_live_\w+$/.test(apiKey.trim()))
    throw new TypeError('apiKey is not an API key. Copy the complete key, which begins with svc_live_.')
}

/** Ignored fields that have already been logged. */
const logged = new Set<string>()

/** If the service asks for a longer wait, the call fails and the caller decides. */
const longestWaitMs = 10_000

/**
 * Sends one call, and repeats it if there is no response, or after 429 or 5xx. Each call is safe to repeat. `input` returns the body. If
 * it throws, the error is `invalid_request`.
 */
export async function send<Data>(
  { apiKey, timeoutMs = 10_000, retries = 2 }: Caller,
  url: string,
  method: string,
  input?: () => object,
  headers?: Record<string, string>,
): Promise<Result<Data>> {
  let body: string | null = null
  try {
    if (input) body = JSON.stringify(input())
  } catch (error) {
    return failed(400, { code: 'invalid_request', message: String(error) })
  }
  let outcomeUnknown = false
  for (let attempt = 0; ; attempt++) {
    let status = 0
    let error: SvcError
    let waitMs = 200 * 2 ** attempt * (1 + Math.random())
    try {
      const response = await fetch(url, {
        method,
        headers: { authorization: `Bearer ${apiKey?.trim()}`, 'content-type': 'application/json', ...headers },
        body,
        // Following a redirect would turn the call into a GET.
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
      })
      status = response.status
      waitMs = Math.max(waitMs, Number(response.headers.get('retry-after')) * 1000 || 0)
      const answer = await response.json()
      if (answer.success) {
        const ignored = String(answer.ignored_fields ?? '')
        if (ignored && !logged.has(ignored)) console.warn(`The service ignored these unknown fields: ${ignored}.`)
        logged.add(ignored)
        return { ok: true, status, error: null, data: answer }
      }
      error = answer.error
      if (!error) throw SyntaxError()
      // The response to an earlier attempt was lost, but that attempt recorded exactly this sale.
      if (outcomeUnknown && error['same_payload'])
        // oxlint-disable-next-line no-unsafe-type-assertion -- only a sale has this response, and these are its fields
        return { ok: true, status, error: null, data: { success: true, sale_id: error['sale_id'] } as Data }
    } catch (cause) {
      // Only the error's name and code are used, because its text can quote the Authorization header.
      const name = cause instanceof Error ? cause.name : ''
      const code = { SyntaxError: 'invalid_response', TimeoutError: 'timeout' }[name] ?? 'network_error'
      if (name !== 'SyntaxError') status = 0
      error = { code, message: `${name}${causeOf(cause)} at ${url}. Check baseUrl and the network.` }
    }
    if (status === 0 || status >= 500) outcomeUnknown = true
    else if (status !== 429) attempt = retries
    if (attempt >= retries || waitMs > longestWaitMs) return failed(status, error)
    await new Promise((resolve) => setTimeout(resolve, waitMs))
  }
}

/** Returns the system's code for a failed request, such as ECONNREFUSED. */
function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : ''
}
