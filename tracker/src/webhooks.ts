import type { WebhookEvent } from './webhook-types.ts'

export type { WebhookData, WebhookEvent, WebhookEventOf, WebhookType } from './webhook-types.ts'

/** The headers of a request, as `fetch` has them or as Node has. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>

/** What `verifyWebhook` throws: answer 400, and act on nothing of what came. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError'
}

/** How far the time of a webhook may lie from this machine's. */
const toleranceSeconds = 5 * 60
const utf8 = new TextEncoder()
const hmac = { name: 'HMAC', hash: 'SHA-256' }

function headerOf(headers: WebhookHeaders, name: string): string {
  const value =
    headers instanceof Headers
      ? headers.get(name)
      : Object.entries(headers).find(([given]) => given.toLowerCase() === name)?.[1]
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
 * Reads a webhook that the service signed, by Standard Webhooks. `body` is the body as it came, before anything parsed it; `secret` is the endpoint's,
 * `whsec_…`, or several. Throws `WebhookVerificationError` where it was not signed by it, was changed on its way, or is older than five
 * minutes. The same event can come more than once: its `id` says so.
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
    throw new WebhookVerificationError('The webhook was sent more than five minutes ago, or this clock is wrong.')
  }
  const text = typeof body === 'string' ? body : new TextDecoder().decode(body)
  const signed = utf8.encode(`${id}.${timestamp}.${text}`)
  for (const one of [secret].flat()) {
    const bytes = one.startsWith('whsec_') ? bytesOf(one.slice(6)) : undefined
    if (!bytes?.length)
      throw new WebhookVerificationError('The secret is none of an endpoint: those begin with whsec_.')
    const key = await crypto.subtle.importKey('raw', bytes, hmac, false, ['verify'])
    for (const signature of signatures.split(' ')) {
      const sent = signature.startsWith('v1,') ? bytesOf(signature.slice(3)) : undefined
      if (sent && (await crypto.subtle.verify(hmac, key, sent, signed))) return JSON.parse(text)
    }
  }
  throw new WebhookVerificationError('No signature is of this body by this secret.')
}
