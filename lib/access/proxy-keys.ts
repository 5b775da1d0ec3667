import { hmac } from '../hmac.ts'

/** The variable from which the proxy keys of all programs come. */
export interface ProxyEnv {
  PROXY_SECRET: string
}

const utf8 = new TextEncoder()
const algorithm = { name: 'HMAC', hash: 'SHA-256' }

/**
 * The key by which a program's proxy signs what it says of its visitors (tracker/src/proxy.ts): `svc_proxy_<program>_<43 characters>`.
 * It follows from the secret and the program's id, so that a click needs no look into the database to check it.
 */
export async function proxyKey({ PROXY_SECRET }: ProxyEnv, programId: number): Promise<string> {
  const bytes = hmac(PROXY_SECRET, `proxy of program ${programId}`)
  const text = btoa(String.fromCharCode(...bytes))
  return `svc_proxy_${programId}_${text.replaceAll('+', '-').replaceAll('/', '_').replace('=', '')}`
}

const knownKeys = new Map<string, CryptoKey>()
const maxKnownKeys = 500

/** Whether `signature` (hexadecimal) is that of `text` by the proxy key of a program. */
export async function isSignedByProxy(
  env: ProxyEnv,
  programId: number,
  text: string,
  signature: string,
): Promise<boolean> {
  const name = `${env.PROXY_SECRET} ${programId}`
  let key = knownKeys.get(name)
  if (!key) {
    key = await crypto.subtle.importKey('raw', utf8.encode(await proxyKey(env, programId)), algorithm, false, [
      'verify',
    ])
    if (knownKeys.size >= maxKnownKeys) knownKeys.clear()
    knownKeys.set(name, key)
  }
  const bytes = Uint8Array.from(signature.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
  return await crypto.subtle.verify(algorithm, key, bytes, utf8.encode(text))
}
