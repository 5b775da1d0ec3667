import { createHmac, KeyObject, subtle, type webcrypto } from 'node:crypto'

// Node hands each signature to another thread, which takes a click's own thread more than to make it.

const own = subtle.sign.bind(subtle)
const keys = new WeakMap<webcrypto.CryptoKey, KeyObject>()

function keyOf(key: webcrypto.CryptoKey): KeyObject {
  const known = keys.get(key)
  if (known) return known
  const made = KeyObject.from(key)
  keys.set(key, made)
  return made
}

const sign: typeof own = async (algorithm, key, data) => {
  const name = typeof algorithm === 'string' ? algorithm : algorithm.name
  if (name !== 'HMAC' || key.algorithm.name !== 'HMAC' || !key.usages.includes('sign'))
    return await own(algorithm, key, data)
  // oxlint-disable-next-line no-unsafe-type-assertion -- its name says so
  const { hash } = key.algorithm as webcrypto.HmacKeyAlgorithm
  const bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data)
  return Uint8Array.from(createHmac(hash.name, keyOf(key)).update(bytes).digest()).buffer
}

/** Has `crypto.subtle.sign` make an HMAC in the thread that asks for it, in this whole process. */
export function signInOwnThread(): void {
  subtle.sign = sign
}
