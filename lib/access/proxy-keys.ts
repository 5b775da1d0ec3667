import { hmac } from '../hmac.ts'

/** The secret that all proxy keys derive from. */
export interface ProxyEnv {
  PROXY_SECRET: string
}

const utf8 = new TextEncoder()
const algorithm = { name: 'HMAC', hash: 'SHA-256' }

/**
 * Returns the key with which a program's own-domain proxy signs visitor data: `svc_proxy_<program>_<43 characters>`. It derives from the secret and
 * the program id, so checking a click needs no database query.
 */
export async function proxyKey({ PROXY_SECRET }: ProxyEnv, programId: number): Promise<string> {
  const bytes = hmac(PROXY_SECRET, `proxy of program ${programId}`)
  const text = btoa(String.fromCharCode(...bytes))
  return `svc_proxy_${programId}_${text.replaceAll('+', '-').replaceAll('/', '_').replace('=', '')}`
}

const knownKeys = new Map<string, CryptoKey>()
const maxKnownKeys = 500

/** Checks the signature (hexadecimal) of `text` with a program's proxy key. */
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
