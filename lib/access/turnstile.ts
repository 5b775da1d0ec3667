import * as z from 'zod/mini'
import { ApiError } from '../errors.ts'

/** Cloudflare Turnstile for public forms. Without keys, only the limits per address protect these forms. */
export interface TurnstileEnv {
  TURNSTILE_SITE_KEY?: string
  TURNSTILE_SECRET_KEY?: string
}

/** The origin of Turnstile's script and frame. */
export const turnstileOrigin = 'https://challenges.cloudflare.com'

/** The form field in which Turnstile's script sends the response. */
export const turnstileField = 'cf-turnstile-response'

const verified = z.object({ success: z.boolean() })
const longestResponse = 2048

/**
 * Checks the response to a challenge with Cloudflare, which accepts each `response` only once, and only for five minutes. Returns true if
 * the deployment has no keys. Throws `unavailable` if Cloudflare does not respond.
 */
export async function passesChallenge(env: TurnstileEnv, response: string, address: string | null): Promise<boolean> {
  const { TURNSTILE_SITE_KEY, TURNSTILE_SECRET_KEY: secret } = env
  if (!TURNSTILE_SITE_KEY || !secret) return true
  if (response === '' || response.length > longestResponse) return false
  try {
    const answer = await fetch(`${turnstileOrigin}/turnstile/v0/siteverify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ secret, response, ...(address !== null && { remoteip: address }) }),
      signal: AbortSignal.timeout(10_000),
    })
    return verified.parse(await answer.json()).success
  } catch (error) {
    console.error(
      JSON.stringify({ error: 'turnstile_failed', name: error instanceof Error ? error.name : typeof error }),
    )
    throw new ApiError('unavailable', 'The robot check failed to run. Try again in a minute.')
  }
}
