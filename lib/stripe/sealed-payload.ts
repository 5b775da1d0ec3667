const encoder = new TextEncoder()

/** Derives a key that only encrypts payloads from the deployment's secret for customers' data. */
async function keyFor(secret: string): Promise<CryptoKey> {
  const material = await crypto.subtle.importKey('raw', encoder.encode(secret), 'HKDF', false, ['deriveKey'])
  return await crypto.subtle.deriveKey(
    { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: encoder.encode('unread webhook payload') },
    material,
    { name: 'AES-GCM', length: 256 },
    false,
    ['encrypt', 'decrypt'],
  )
}

/**
 * Encrypts a payload for the log: AES-256-GCM under a key derived from EMAIL_HASH_KEY, tied to the event's id. Returns the random nonce
 * (12 bytes) and the ciphertext as Postgres writes bytes, `\x…`.
 */
export async function sealPayload(secret: string, eventId: string, payload: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(12))
  const algorithm = { name: 'AES-GCM', iv, additionalData: encoder.encode(eventId) }
  const sealed = await crypto.subtle.encrypt(algorithm, await keyFor(secret), encoder.encode(payload))
  return `\\x${[...iv, ...new Uint8Array(sealed)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

/** Decrypts the text that `sealPayload` encrypted. Returns undefined if the secret has changed since. */
export async function openPayload(secret: string, eventId: string, sealed: string): Promise<string | undefined> {
  const bytes = Uint8Array.from(sealed.match(/[0-9a-f]{2}/g) ?? [], (byte) => Number.parseInt(byte, 16))
  const algorithm = { name: 'AES-GCM', iv: bytes.slice(0, 12), additionalData: encoder.encode(eventId) }
  try {
    const opened = await crypto.subtle.decrypt(algorithm, await keyFor(secret), bytes.slice(12))
    return new TextDecoder().decode(opened)
  } catch (error) {
    if (error instanceof DOMException) return undefined
    throw error
  }
}
