import type { WebhookEvent } from './webhook-types.ts'

export type { WebhookData, WebhookEvent, WebhookEventOf, WebhookType } from './webhook-types.ts'

/** The headers of a request, as in `fetch` or in Node. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>

/** Thrown by `verifyWebhook`. Return 400 and ignore the request. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
}

/** The largest difference between a webhook's time and this machine's time. */
const toleranceSeconds = 5 * 60
const utf8 = new TextEncoder()
const hmac = { name: 'HMAC', hash: 'SHA-256' }

function headerOf(headers: WebhookHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  if (typeof value === 'string' && value) return value
  throw new WebhookVerificationError(`The header ${name} is missing.`)
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

/**
 * Verifies and parses a webhook that is signed according to Standard Webhooks. `body` is the raw body. `secret` is the endpoint's secret,
 * `whsec_…`, or several. Throws `WebhookVerificationError` if the signature does not match, or if the webhook is older than five minutes.
 * The same event can arrive more than once, with the same `id`.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | string[],
): Promise<WebhookEvent> {
  const id = headerOf(headers, 'webhook-id')
  const timestamp = headerOf(headers, 'webhook-timestamp')
  const signatures = headerOf(headers, 'webhook-signature')
  if (!/^\d{1,15}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > toleranceSeconds) {
    throw new WebhookVerificationError(
      'The webhook was sent more than five minutes ago. Check the clock of this machine.',
    )
  }
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body)
  const signed = utf8.encode(`${id}.${timestamp}.${text}`)
  for (const one of [secret].flat()) {
    const bytes = one.startsWith('whsec_') ? bytesOf(one.slice(6)) : undefined
    if (!bytes?.length)
      throw new WebhookVerificationError(
        'The secret does not belong to an endpoint. Copy the secret that begins with whsec_.',
      )
    const key = await crypto.subtle.importKey('raw', bytes, hmac, false, ['verify'])
    for (const signature of signatures.split(' ')) {
      const sent = signature.startsWith('v1,') ? bytesOf(signature.slice(3)) : undefined
      if (sent && (await crypto.subtle.verify(hmac, key, sent, signed))) return JSON.parse(text)
    }
  }
  throw new WebhookVerificationError(
    "Signature verification failed. Check the endpoint's signing secret, and pass the raw body.",
  )
}
