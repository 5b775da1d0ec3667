import { canonicalJson } from './requests.ts'

const lifeSeconds = 15 * 60

async function sign(secret: string, text: string): Promise<string> {
  const encoder = new TextEncoder()
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign'])
  const signed = new Uint8Array(await crypto.subtle.sign('HMAC', key, encoder.encode(text)))
  return Array.from(signed, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * Returns the token that confirms this call within 15 minutes: its expiry in Unix seconds and a MAC. The caller's API key is the key of the
 * MAC. So nothing has to be stored, and a plan for one key can't confirm a call with another key.
 */
export async function confirmationOf(
  secret: string,
  tool: string,
  args: object,
  expiresAt = Math.floor(Date.now() / 1000) + lifeSeconds,
): Promise<string> {
  return `${expiresAt}.${await sign(secret, `${expiresAt} ${tool} ${canonicalJson(args)}`)}`
}

/** Checks the token of a plan. Returns `expired` after 15 minutes, and `different` if the token belongs to other arguments. */
export async function checkConfirmation(
  secret: string,
  tool: string,
  args: object,
  confirmation: string,
): Promise<'valid' | 'expired' | 'different'> {
  const [, expiresAt] = /^(\d{1,12})\.[0-9a-f]{64}$/.exec(confirmation) ?? []
  if (expiresAt === undefined) return 'different'
  // A comparison in constant time isn't needed, because the caller knows the key.
  if ((await confirmationOf(secret, tool, args, Number(expiresAt))) !== confirmation) return 'different'
  return Number(expiresAt) < Date.now() / 1000 ? 'expired' : 'valid'
}
