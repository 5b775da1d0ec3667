import { call, type DatabaseEnv, openDatabase } from '../database.ts'
import { hmac } from '../hmac.ts'

/** The secret from which all proxy keys are derived. */
export interface ProxyEnv {
  PROXY_SECRET: string
}

const utf8 = new TextEncoder()
const algorithm = { name: 'HMAC', hash: 'SHA-256' }

/**
 * Returns the name of a proxy key, which is part of the key and of the header that it signs. `7` is the first key of program 7, and `7.1`
 * is the next one.
 */
const nameOf = (programId: number, keyNumber: number) =>
  keyNumber === 0 ? `${programId}` : `${programId}.${keyNumber}`

/** Parses the name of a proxy key into program and number. Returns undefined if the text is not such a name. */
export function readProxyKeyName(name: string): { programId: number; keyNumber: number } | undefined {
  const [, programId, keyNumber = '0'] = /^([1-9]\d{0,14})(?:\.([1-9]\d{0,8}))?$/.exec(name) ?? []
  return programId === undefined ? undefined : { programId: Number(programId), keyNumber: Number(keyNumber) }
}

/**
 * Returns a key with which a program's own-domain proxy signs visitor data: `svc_proxy_<name>_<43 characters>`. The key is derived from the
 * secret and its name, so checking a signature doesn't need a database query. Each rotation (lib/access/program-keys.ts) raises the number.
 */
export async function proxyKey({ PROXY_SECRET }: ProxyEnv, programId: number, keyNumber = 0): Promise<string> {
  const name = nameOf(programId, keyNumber)
  const bytes = hmac(PROXY_SECRET, `proxy of program ${name}`)
  const text = btoa(String.fromCharCode(...bytes))
  return `svc_proxy_${name}_${text.replaceAll('+', '-').replaceAll('/', '_').replace('=', '')}`
}

const knownKeys = new Map<string, CryptoKey>()
const maxKnownKeys = 500

/** Checks the signature (hexadecimal) of `text` with one of a program's proxy keys. */
export async function isSignedByProxy(
  env: ProxyEnv,
  { programId, keyNumber }: { programId: number; keyNumber: number },
  text: string,
  signature: string,
): Promise<boolean> {
  const name = `${env.PROXY_SECRET} ${nameOf(programId, keyNumber)}`
  let key = knownKeys.get(name)
  if (!key) {
    const secret = utf8.encode(await proxyKey(env, programId, keyNumber))
    key = await crypto.subtle.importKey('raw', secret, algorithm, false, ['verify'])
    if (knownKeys.size >= maxKnownKeys) knownKeys.clear()
    knownKeys.set(name, key)
  }
  const bytes = Uint8Array.from(signature.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16))
  return await crypto.subtle.verify(algorithm, key, bytes, utf8.encode(text))
}

/**
 * The numbers of the programs' valid keys. An isolate reads them at most once a minute, so a signed call usually doesn't need another
 * request.
 */
const validNumbers = new Map<string, { numbers: number[]; readAt: number }>()
const readAgainAfterMs = 60_000

/** Returns whether this number belongs to the program's current proxy key or, during a rotation, to the previous one. */
export async function isValidProxyKey(
  env: ProxyEnv & DatabaseEnv,
  { programId, keyNumber }: { programId: number; keyNumber: number },
  now = Date.now(),
): Promise<boolean> {
  const name = `${env.PROXY_SECRET} ${programId}`
  let known = validNumbers.get(name)
  if (!known || now - known.readAt > readAgainAfterMs) {
    const [row] = await openDatabase(env).query(call('proxy_key_numbers', { of_program_id: programId }))
    known = { numbers: row?.proxy_key_numbers ?? [], readAt: now }
    if (validNumbers.size >= maxKnownKeys) validNumbers.clear()
    validNumbers.set(name, known)
  }
  return known.numbers.includes(keyNumber)
}
