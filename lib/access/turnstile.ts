import * as z from 'zod/mini'
import { ApiError } from '../errors.ts'

/** Cloudflare Turnstile, on public forms of a deployment that has keys of it. Without keys these forms are bounded by address alone. */
export interface TurnstileEnv {
  TURNSTILE_SITE_KEY?: string
  TURNSTILE_SECRET_KEY?: string
}

/** Where its script and its frame come from. */
export const turnstileOrigin = 'https://challenges.cloudflare.com'

/** The field in which its script sends what it found out. */
export const turnstileField = 'cf-turnstile-response'

const verified = z.object({ success: z.boolean() })
const longestResponse = 2048

/**
 * Whether who sent a form passed the challenge, once: Cloudflare takes each `response` a single time and for five minutes. True where there are no keys.
 * Refuses with `unavailable` where Cloudflare does not answer.
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
    throw new ApiError('unavailable', 'The check that you are no robot could not be made. Try again in a minute.')
  }
}
