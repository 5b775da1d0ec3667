import { NoAnswerError, withTimeout } from '../database.ts'
import { type AddressEnv, type OutsideRequest, refusalOfAddress, refusalOfName } from './public-address.ts'

/** The result of one attempt. Without a status, `error` explains why there was no response. */
export interface WebhookAnswer {
  attempted_at: Date
  duration_ms: number
  status: number | null
  error: string | null
  /** The beginning of the response. */
  answer: string | null
}

const answerWithinMilliseconds = 10_000
const maxAnswerBytes = 4096

/** A webhook is a POST request with a body. A partner's template is a GET request without one. */
export interface WebhookRequest {
  url: string
  method: 'POST' | 'GET'
  headers: Record<string, string>
  body?: string
}

/** Sends one webhook to a public address, for up to ten seconds, without following redirects. Reads 4 KB of the response. Never throws. */
export async function sendWebhook({ url, ...request }: WebhookRequest, env: AddressEnv): Promise<WebhookAnswer> {
  const attempted_at = new Date()
  const ended = new AbortController()
  const answered = post(url, { ...request, redirect: 'manual', signal: ended.signal }, env)
  // Even if the signal has no effect, this webhook doesn't keep others waiting.
  const outcome = await withTimeout(answerWithinMilliseconds, answered).catch((error: unknown) => ({
    status: null,
    answer: null,
    error:
      error instanceof NoAnswerError
        ? `There was no response within ${answerWithinMilliseconds / 1000} seconds.`
        : whyBroken(error),
  }))
  ended.abort()
  return { attempted_at, duration_ms: Date.now() - attempted_at.getTime(), ...outcome }
}

async function post(url: string, request: OutsideRequest, env: AddressEnv) {
  const wrong = refusalOfAddress(url, env)
  const refusal = wrong === undefined ? await refusalOfName(url, env, request.signal) : `The address ${wrong}.`
  if (refusal !== undefined) return { status: null, answer: null, error: refusal }
  const response = await (env.OUTSIDE ?? globalThis).fetch(url, request)
  return { status: response.status, answer: await beginningOf(response), error: null }
}

/** Reads the first 4 KB of a response as text that Postgres can store. */
async function beginningOf(response: Response): Promise<string> {
  if (!response.body) return ''
  const reader = response.body.getReader()
  const bytes = new Uint8Array(maxAnswerBytes)
  let length = 0
  while (length < maxAnswerBytes) {
    const { done, value } = await reader.read()
    if (done) break
    const part = value.subarray(0, maxAnswerBytes - length)
    bytes.set(part, length)
    length += part.length
  }
  // The rest of the body is ignored, and so are errors from the other side.
  void reader.cancel().catch(() => undefined)
  return new TextDecoder().decode(bytes.subarray(0, length)).replaceAll('\0', '\uFFFD')
}

function whyBroken(error: unknown): string {
  const text = error instanceof Error ? [error.message, causeOf(error)].filter(Boolean).join(': ') : String(error)
  return `The connection failed: ${text}`.slice(0, 300)
}

const causeOf = ({ cause }: Error) => (cause instanceof Error ? cause.message : undefined)
