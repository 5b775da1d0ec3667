import { ApiError } from '../errors.ts'

/** Stripe Connect, by which an advertiser lets the service into their account. Without it account ids are typed in. */
export interface ConnectEnv {
  /** `ca_…`, of the platform's Connect settings. */
  STRIPE_CLIENT_ID?: string
  STRIPE_SECRET_KEY?: string
}

/** Where Stripe asks the advertiser; it leads back to `/processor/callback` with `code` and this `state`. */
export function authorizeAddress(env: ConnectEnv, state: string): string {
  const address = new URL('https://connect.stripe.com/oauth/authorize')
  address.searchParams.set('response_type', 'code')
  address.searchParams.set('client_id', env.STRIPE_CLIENT_ID ?? '')
  address.searchParams.set('scope', 'read_write')
  address.searchParams.set('state', state)
  return address.href
}

/** The account that a callback's `code` stands for. A code works once and for five minutes. */
export async function accountOfCode(env: ConnectEnv, code: string): Promise<string> {
  const response = await fetch('https://connect.stripe.com/oauth/token', {
    method: 'POST',
    headers: { authorization: `Bearer ${env.STRIPE_SECRET_KEY ?? ''}` },
    body: new URLSearchParams({ grant_type: 'authorization_code', code }),
  })
  const body: unknown = await response.json().catch(() => null)
  if (
    !response.ok ||
    typeof body !== 'object' ||
    body === null ||
    !('stripe_user_id' in body) ||
    typeof body.stripe_user_id !== 'string'
  ) {
    throw new ApiError('conflict', 'Stripe did not confirm the connection. Connect again from the settings.')
  }
  return body.stripe_user_id
}
