import { refuse } from '../constraints.ts'
import { call, type Database, hexBytes, retryOnce } from '../database.ts'
import { ApiError } from '../errors.ts'

/** The prefixes of programs' API keys and of partners' API keys. */
const prefixes = { program: 'svc_live_', partner: 'svc_partner_' } as const
export type KeyOwner = keyof typeof prefixes
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretLength = 43 // 32 bytes in base 62
const checksumLength = 6 // 4 bytes in base 62
const secretShape = new RegExp(`^[0-9A-Za-z]{${secretLength + checksumLength}}$`)

function base62(bytes: Uint8Array, length: number): string {
  let value = 0n
  for (const byte of bytes) value = value * 256n + BigInt(byte)
  let text = ''
  for (; value > 0n; value /= 62n) text = alphabet.charAt(Number(value % 62n)) + text
  return text.padStart(length, '0')
}

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
}

async function checksum(secret: string): Promise<string> {
  return base62((await sha256(secret)).slice(0, 4), checksumLength)
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * Generates an API key (prefix + 32 random bytes + checksum), and the SHA-256 (hex) that the database stores instead. The key is shown once
 * and cannot be recovered.
 */
export async function generateApiKey(
  owner: KeyOwner = 'program',
): Promise<{ key: string; keyHash: string; hint: string }> {
  const secret = base62(crypto.getRandomValues(new Uint8Array(32)), secretLength)
  const key = prefixes[owner] + secret + (await checksum(secret))
  return { key, keyHash: hex(await sha256(key)), hint: key.slice(-4) }
}

/** Caches the hashes of known keys. Node computes digests on another thread, and two digests take a fifth of the time of a refund call. */
const knownHashes = new Map<string, string>()
const maxKnownHashes = 500

const howToSend = (owner: KeyOwner) => `Send the ${owner} API key as \`Authorization: Bearer ${prefixes[owner]}…\`.`

/**
 * Returns the hash (hex) of the key in an Authorization header. Refuses a missing or malformed header and a wrong checksum without asking the
 * database.
 */
export async function apiKeyHash(authorization: string | undefined, owner: KeyOwner = 'program'): Promise<string> {
  if (!authorization) throw new ApiError('unauthorized', `The Authorization header is missing. ${howToSend(owner)}`)
  const key = /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1]
  const prefix = prefixes[owner]
  if (!key?.startsWith(prefix) || !secretShape.test(key.slice(prefix.length)))
    throw new ApiError('unauthorized', `The Authorization header is malformed. ${howToSend(owner)}`)
  const known = knownHashes.get(key)
  if (known !== undefined) return known
  const secret = key.slice(prefix.length, prefix.length + secretLength)
  if ((await checksum(secret)) !== key.slice(-checksumLength)) {
    throw new ApiError('unauthorized', 'The API key is not valid: it was copied incorrectly or never existed.')
  }
  const hash = hex(await sha256(key))
  // The map is cleared when it is full, so that it can't grow through calls with random keys.
  if (knownHashes.size >= maxKnownHashes) knownHashes.clear()
  knownHashes.set(key, hash)
  return hash
}

/** Scopes of a key: `track` for leads, sales and refunds, `read` for the program's data, `manage` for changing it. */
export const keyScopes = ['track', 'read', 'manage'] as const
export type KeyScope = (typeof keyScopes)[number]

/** The columns about the key that every statement with a key returns. */
interface KeyState {
  key_refusal: string | null
  program_matches?: boolean | null
}

/** Throws if the key is unknown, revoked or expired, if it lacks `scope`, or if the call is for a different program. */
export function requireActiveKey<State extends KeyState>(
  state: State | undefined,
  scope: KeyScope = 'track',
): asserts state is State {
  if (state?.key_refusal === 'revoked') {
    throw new ApiError(
      'api_key_retired',
      'This API key was revoked. Create a new one in the dashboard and use it instead.',
    )
  }
  if (state?.key_refusal === 'expired') {
    throw new ApiError(
      'api_key_expired',
      'This API key has expired. Create a new one in the dashboard and use it instead.',
    )
  }
  if (state?.key_refusal === 'blocked') {
    throw new ApiError('forbidden', 'The operator of this service has blocked this program. Ask them for the reason.')
  }
  if (state?.key_refusal === 'scope') {
    throw new ApiError(
      'insufficient_scope',
      `This call needs an API key with the scope ${scope}. Create one in the dashboard and use it instead.`,
      { data: { needed_scope: scope } },
    )
  }
  if (state?.key_refusal !== '') {
    throw new ApiError('unauthorized', 'The API key is not valid: it was copied incorrectly or never existed.')
  }
  if (state.program_matches === false) {
    throw new ApiError(
      'invalid_request',
      "additional_data.program_id is not the API key's program. Send the key's program or none.",
      {
        details: [{ field: 'additional_data.program_id', message: 'must be the program of the API key' }],
      },
    )
  }
}

/**
 * Checks the key before anything else, so that a caller with a bad key gets no errors about the rest of the request. Returns the key's
 * program. Counts the `bytes` that the call may store. Throws `rate_limited` if they are too many for a day of the workspace.
 */
export async function checkApiKey(
  db: Database,
  keyHash: string,
  scope: KeyScope = 'track',
  bytes = 0,
): Promise<{ keyId: number; programId: number; domain: string; scopes: readonly string[] }> {
  const hash = hexBytes(keyHash)
  const check = call('check_api_key', { hash, scope })
  const count = call('count_written_bytes', { hash, bytes })
  const [row] = await retryOnce(async () =>
    bytes === 0 ? await db.query(check) : (await db.batch([check, count]))[0],
  ).catch(refuse)
  requireActiveKey(row, scope)
  if (row.key_id === null || row.program_id === null || row.domain === null || row.scopes === null)
    throw new Error('The database returned no program for an active key.')
  return { keyId: row.key_id, programId: row.program_id, domain: row.domain, scopes: row.scopes }
}

/** The error in an invalid body of a tracking call. */
export interface Refusal {
  call: 'lead' | 'sale' | 'refund'
  reason: unknown
}

/**
 * Checks the key of a tracking call with an invalid body. Records the names of the invalid fields and the violated rules for the program's
 * integrator, but not the values.
 */
export async function checkKeyOfRefused(
  db: Database,
  keyHash: string,
  { call: refused_call, reason }: Refusal,
): Promise<void> {
  const { code, message, details } = asRefusal(reason)
  const fields = details?.map(({ field, message: rule }) => `${field || 'the body'} ${rule}`).join('; ')
  const detail = (fields ?? message).slice(0, 300).toWellFormed()
  const check = { hash: hexBytes(keyHash), refused_call, code, detail }
  const [row] = await retryOnce(() => db.query(call('check_key_of_refused', check)))
  requireActiveKey(row)
}

function asRefusal(reason: unknown): ApiError {
  if (reason instanceof ApiError) return reason
  throw reason
}
