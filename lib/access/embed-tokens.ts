import { ApiError } from '../errors.ts'
import { hmac } from '../hmac.ts'
import { base64Url, sameHash } from './tokens.ts'

/** The secret that signs the tokens. */
export interface EmbedEnv {
  AUTH_SECRET: string
}

/** A partner of a program. */
interface Embedded {
  programId: number
  partnerId: number
}

const lifeSeconds = 15 * 60

const sign = ({ AUTH_SECRET }: EmbedEnv, content: string) =>
  `svc_embed_${content}_${base64Url(hmac(`embed:${AUTH_SECRET}`, content))}`

/**
 * Creates a token that lets the embedded portal show one partner for 15 minutes. The token consists of the ids, the expiry and a MAC, and
 * is not stored. Each use also checks the origin of the surrounding page against the program's current list.
 */
export function createEmbedToken(
  env: EmbedEnv,
  { programId, partnerId }: Embedded,
): { token: string; expiresAt: Date } {
  const expires = Math.floor(Date.now() / 1000) + lifeSeconds
  return { token: sign(env, `${programId}_${partnerId}_${expires}`), expiresAt: new Date(expires * 1000) }
}

const shape = /^Bearer svc_embed_(([1-9]\d{0,14})_([1-9]\d{0,14})_(\d{1,12}))_[\w-]{43}$/

/** Reads the token from an Authorization header. Throws `unauthorized` for a forged or expired token. */
export async function readEmbedToken(env: EmbedEnv, authorization: string | undefined): Promise<Embedded> {
  const [header = '', content = '', programId, partnerId, expires] = shape.exec(authorization ?? '') ?? []
  if (!content || !(await sameHash(header, `Bearer ${sign(env, content)}`)) || Number(expires) * 1000 < Date.now())
    throw new ApiError('unauthorized', 'The session of this portal has ended. Reload the page.')
  return { programId: Number(programId), partnerId: Number(partnerId) }
}
