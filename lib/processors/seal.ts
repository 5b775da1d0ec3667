const encoder = new TextEncoder()

/** The uses of encryption. Each use has its own key, derived from the deployment's secret for customers' data. */
type Purpose = 'unread webhook payload' | 'processor secret' | 'payee' | 'import key' | 'payout keys' | 'tax form'

async function keyFor(secret: string, purpose: Purpose): Promise<CryptoKey> {
  const material = await crypto.subtle.importKey('raw', encoder.encode(secret), 'HKDF', false, ['deriveKey'])
  return await crypto.subtle.deriveKey(
    { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: encoder.encode(purpose) },
    material,
    { name: 'AES-GCM', length: 256 },
    false,
    ['encrypt', 'decrypt'],
  )
}

/**
 * Encrypts a text for the database: AES-256-GCM under a key derived from `secret` (EMAIL_HASH_KEY), and bound to the id of its row.
 * Returns the random nonce (12 bytes) and the ciphertext in Postgres' text format for bytes, `\x…`.
 */
export async function seal(secret: string, purpose: Purpose, rowId: string, text: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(12))
  const algorithm = { name: 'AES-GCM', iv, additionalData: encoder.encode(rowId) }
  const sealed = await crypto.subtle.encrypt(algorithm, await keyFor(secret, purpose), encoder.encode(text))
  return `\\x${[...iv, ...new Uint8Array(sealed)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

/** Decrypts the text that `seal` encrypted. Returns undefined if the secret has changed since then. */
export async function unseal(
  secret: string,
  purpose: Purpose,
  rowId: string,
  sealed: string,
): Promise<string | undefined> {
  const bytes = Uint8Array.from(sealed.match(/[0-9a-f]{2}/g) ?? [], (byte) => Number.parseInt(byte, 16))
  const algorithm = { name: 'AES-GCM', iv: bytes.slice(0, 12), additionalData: encoder.encode(rowId) }
  try {
    const opened = await crypto.subtle.decrypt(algorithm, await keyFor(secret, purpose), bytes.slice(12))
    return new TextDecoder().decode(opened)
  } catch (error) {
    if (error instanceof DOMException) return undefined
    throw error
  }
}
