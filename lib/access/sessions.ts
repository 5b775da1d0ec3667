/** The environment that a function needs to read sessions. */
export interface SessionEnv {
  /** The secret that signs session tokens. Every function that reads sessions has the same secret. */
  AUTH_SECRET: string
}

/** The dashboard's cookie. `__Host-` ties it to this host, to HTTPS (or loopback) and to the path `/`. */
export const sessionCookie = '__Host-svc_session'

/** The lifetime of a session in seconds. */
export const sessionSeconds = 30 * 24 * 60 * 60

const encoder = new TextEncoder()

let imported: { secret: string; key: Promise<CryptoKey> } | undefined

function signingKey(secret: string): Promise<CryptoKey> {
  const algorithm = { name: 'HMAC', hash: 'SHA-256' }
  if (imported?.secret !== secret) {
    const key = crypto.subtle.importKey('raw', encoder.encode(secret), algorithm, false, ['sign', 'verify'])
    imported = { secret, key }
  }
  return imported.key
}

/** Returns `<token>.<HMAC-SHA-256 of the token, base64>`, the format of a session token in better-auth's cookie. */
export async function signToken(token: string, secret: string): Promise<string> {
  const signature = await crypto.subtle.sign('HMAC', await signingKey(secret), encoder.encode(token))
  return `${token}.${btoa(String.fromCharCode(...new Uint8Array(signature)))}`
}

/** Returns the token that `signToken` signed, or undefined if the signature isn't valid. */
async function verifyToken(signed: string, secret: string): Promise<string | undefined> {
  const [token, signature, ...rest] = decode(signed).split('.')
  if (!token || !signature || rest.length > 0) return undefined
  try {
    const bytes = Uint8Array.from(atob(signature), (character) => character.charCodeAt(0))
    const genuine = await crypto.subtle.verify('HMAC', await signingKey(secret), bytes, encoder.encode(token))
    return genuine ? token : undefined
  } catch {
    return undefined
  }
}

/**
 * Returns a request's session token after checking its signature: from `Authorization: Bearer <token>`, or else from the dashboard's
 * cookie. A request with an invalid Authorization header does not fall back to the cookie. Returns undefined if there is no token. Forged
 * tokens and API keys never reach the database.
 */
export async function readSessionToken(headers: Headers, secret: string): Promise<string | undefined> {
  const authorization = headers.get('authorization')
  const signed =
    authorization === null ? readCookie(headers, sessionCookie) : /^bearer +(\S+)$/i.exec(authorization)?.[1]
  return signed === undefined ? undefined : await verifyToken(signed, secret)
}

function readCookie(headers: Headers, name: string): string | undefined {
  const pairs = (headers.get('cookie') ?? '').split(/; */)
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1)
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}
