import { retryOnce, violatedConstraint } from '../database.ts'

/**
 * Runs `attempt`, a request that may give a customer key to a customer, as `retryOnce` does, and once more where another call gave
 * the key to another customer meanwhile: the next try finds that customer.
 */
export async function retryBinding<Result>(attempt: () => Promise<Result>): Promise<Result> {
  return await retryOnce(async () => {
    try {
      return await attempt()
    } catch (error) {
      if (violatedConstraint(error) !== 'customers_customer_key_key') throw error
      return await attempt()
    }
  })
}

/**
 * The keyed hash of an e-mail address that is stored in its place: HMAC-SHA-256 (hex) of its normalised form (trimmed,
 * lower case, NFKC), under the secret EMAIL_HASH_KEY.
 */
export async function emailHash(secret: string, email: string): Promise<string> {
  const encoder = new TextEncoder()
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  const normalised = email.trim().normalize('NFKC').toLowerCase()
  const digest = await crypto.subtle.sign('HMAC', key, encoder.encode(normalised))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
