const encoder = new TextEncoder()

/** By a deployment's secrets, which are few. To import one takes longer than to sign with it. */
const keys = new Map<string, Promise<CryptoKey>>()
const maxKeys = 20

/** HMAC-SHA-256 of a text by a secret of the deployment. */
export async function hmac(secret: string, text: string): Promise<ArrayBuffer> {
  let key = keys.get(secret)
  if (!key) {
    const algorithm = { name: 'HMAC', hash: 'SHA-256' }
    key = crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
    if (keys.size >= maxKeys) keys.clear()
    keys.set(secret, key)
  }
  return await crypto.subtle.sign('HMAC', await key, encoder.encode(text))
}
