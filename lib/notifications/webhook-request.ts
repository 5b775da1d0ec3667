import { type AddressEnv, type OutsideRequest, refusalOfAddress, refusalOfName } from './public-address.ts'

/** What became of one try. Without a status, `error` says why there was no answer. */
export interface WebhookAnswer {
  attempted_at: Date
  duration_ms: number
  status: number | null
  error: string | null
  /** The beginning of what was answered. */
  answer: string | null
}

const answerWithinMilliseconds = 10_000
const maxAnswerBytes = 4096

/**
 * Sends one webhook: by POST, to a public address only, for ten seconds at most, without following a redirect. Never throws. Of what is
 * answered, 4 KB are read.
 */
export async function sendWebhook(
  url: string,
  headers: Record<string, string>,
  body: string,
  env: AddressEnv,
): Promise<WebhookAnswer> {
  const attempted_at = new Date()
  const ended = new AbortController()
  const timer = setTimeout(() => ended.abort(), answerWithinMilliseconds)
  const outcome = await post(
    url,
    { method: 'POST', headers, body, redirect: 'manual', signal: ended.signal },
    env,
  ).catch((error: unknown) => ({
    status: null,
    answer: null,
    error: ended.signal.aborted
      ? `There was no answer within ${answerWithinMilliseconds / 1000} seconds.`
      : whyBroken(error),
  }))
  clearTimeout(timer)
  return { attempted_at, duration_ms: Date.now() - attempted_at.getTime(), ...outcome }
}

async function post(url: string, request: OutsideRequest, env: AddressEnv) {
  const wrong = refusalOfAddress(url, env)
  const refusal = wrong === undefined ? await refusalOfName(url, env, request.signal) : `The address ${wrong}.`
  if (refusal !== undefined) return { status: null, answer: null, error: refusal }
  const response = await (env.OUTSIDE ?? globalThis).fetch(url, request)
  return { status: response.status, answer: await beginningOf(response), error: null }
}

/** The first 4 KB of an answer as text that Postgres takes. */
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
  // What is left is not read; whether the other side minds does not matter.
  void reader.cancel().catch(() => undefined)
  return new TextDecoder().decode(bytes.subarray(0, length)).replaceAll('\0', '\uFFFD')
}

function whyBroken(error: unknown): string {
  const text = error instanceof Error ? [error.message, causeOf(error)].filter(Boolean).join(': ') : String(error)
  return `The connection failed: ${text}`.slice(0, 300)
}

const causeOf = ({ cause }: Error) => (cause instanceof Error ? cause.message : undefined)
