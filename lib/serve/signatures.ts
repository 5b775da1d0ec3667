import { createHmac, createSecretKey, type KeyObject, subtle, type webcrypto } from 'node:crypto'

// Node hands each signature to another thread, which takes a click's own thread more than to make it.

const own = { importKey: subtle.importKey.bind(subtle), sign: subtle.sign.bind(subtle) }
/** What HMACs are made with: keys that were imported as bytes. */
const keys = new WeakMap<webcrypto.CryptoKey, { secret: KeyObject; hash: string }>()

const bytesOf = (data: webcrypto.BufferSource) =>
  ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data)

async function importKey(...given: Parameters<typeof own.importKey>): Promise<webcrypto.CryptoKey> {
  const [format, data] = given
  const secret = format === 'raw' ? createSecretKey(bytesOf(data)) : undefined
  const key = await own.importKey(...given)
  if (secret && key.algorithm.name === 'HMAC' && key.usages.includes('sign')) {
    // oxlint-disable-next-line no-unsafe-type-assertion -- its name says so
    const { hash, length } = key.algorithm as webcrypto.HmacKeyAlgorithm
    if (length === 8 * (secret.symmetricKeySize ?? 0)) keys.set(key, { secret, hash: hash.name })
  }
  return key
}

const sign: typeof own.sign = async (algorithm, key, data) => {
  const known = (typeof algorithm === 'string' ? algorithm : algorithm.name) === 'HMAC' ? keys.get(key) : undefined
  if (!known) return await own.sign(algorithm, key, data)
  return Uint8Array.from(createHmac(known.hash, known.secret).update(bytesOf(data)).digest()).buffer
}

/** Has `crypto.subtle.sign` make an HMAC in the thread that asks for it, in this whole process. */
export function signInOwnThread(): void {
  // oxlint-disable-next-line unbound-method -- nothing of it is called, it has the types
  subtle.importKey = new Proxy(subtle.importKey, {
    apply: (_, __, given: Parameters<typeof own.importKey>) => importKey(...given),
  })
  subtle.sign = sign
}
