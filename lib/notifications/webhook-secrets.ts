import { Webhook } from 'standardwebhooks'
import { hmac } from '../hmac.ts'

/** The secret from which all endpoint secrets are derived. */
export interface WebhookSecretEnv {
  WEBHOOK_SECRET: string
}

/** Identifies an endpoint's secret by its number. `has_previous_secret` is true during a rotation, while the previous secret also signs. */
export interface SecretOf {
  program_id: number
  endpoint_id: number
  secret_number: number
  has_previous_secret: boolean
}

/**
 * Returns the secret of an endpoint: `whsec_` and 32 bytes in base64. It is derived from the deployment's secret and the endpoint's
 * number. So nobody can sign with a copy of the database.
 */
export async function webhookSecret(
  { WEBHOOK_SECRET }: WebhookSecretEnv,
  { program_id, endpoint_id, secret_number }: Omit<SecretOf, 'has_previous_secret'>,
): Promise<string> {
  if (!WEBHOOK_SECRET) throw new Error('WEBHOOK_SECRET is not set. Set it and deploy the function again.')
  const name = `secret ${secret_number} of webhook endpoint ${endpoint_id} of program ${program_id}`
  const bytes = hmac(WEBHOOK_SECRET, name)
  return `whsec_${btoa(String.fromCharCode(...bytes))}`
}

/** Signs a body with the headers of Standard Webhooks, with two signatures during a rotation. */
export async function webhookHeaders(
  env: WebhookSecretEnv,
  endpoint: SecretOf,
  id: string,
  body: string,
): Promise<Record<string, string>> {
  const at = new Date()
  const { secret_number: newest } = endpoint
  const numbers = endpoint.has_previous_secret && newest > 1 ? [newest, newest - 1] : [newest]
  const secrets = await Promise.all(numbers.map((secret_number) => webhookSecret(env, { ...endpoint, secret_number })))
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, at, body)).join(' '),
  }
}
