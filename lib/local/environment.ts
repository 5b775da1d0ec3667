import { randomBytes } from 'node:crypto'

/** The queue's emulator accepts any region and credentials, so functions get these values. */
export const localAws = { region: 'eu-central-1', accessKeyId: 'local', secretAccessKey: 'local' }

const secret = () => randomBytes(32).toString('base64url')

/** Secrets that the first start generates and stores next to the data. */
export function generateSecrets() {
  return {
    EMAIL_HASH_KEY: secret(),
    AUTH_SECRET: secret(),
    PROXY_SECRET: secret(),
    WEBHOOK_SECRET: secret(),
    STRIPE_WEBHOOK_SECRET: `whsec_${secret()}`,
    DATABASE_PASSWORD: secret(),
    METRICS_TOKEN: secret(),
  }
}

export type Secrets = ReturnType<typeof generateSecrets>

/** The addresses of a stack's parts. Without `neonEndpoint`, the database is at Neon. Without `awsEndpoint`, the queue is at AWS. */
export interface Addresses {
  baseUrl: string
  databaseUrl: string
  neonEndpoint: string | undefined
  awsEndpoint: string | undefined
  queueUrl: string
  deadLetterQueueUrl: string
  webhookQueueUrl: string
  /** Default: Stripe's own address. */
  stripeApiUrl: string | undefined
}

/**
 * All variables and secrets of functions on this machine. Add new ones here. Each function only gets the names in its
 * wrangler.toml entry (`vars` and `secrets.required`), so a missing name fails here as it would on Cloudflare.
 * Variables in the environment of `npm start` take precedence, so you can try a real account.
 */
export function localEnvironment(addresses: Addresses, secrets: Secrets) {
  return {
    DATABASE_URL: addresses.databaseUrl,
    BASE_URL: addresses.baseUrl,
    API_BASE_URL: addresses.baseUrl,
    AWS_REGION: localAws.region,
    AWS_ACCESS_KEY_ID: localAws.accessKeyId,
    AWS_SECRET_ACCESS_KEY: localAws.secretAccessKey,
    QUEUE_URL: addresses.queueUrl,
    DEAD_LETTER_QUEUE_URL: addresses.deadLetterQueueUrl,
    WEBHOOK_QUEUE_URL: addresses.webhookQueueUrl,
    EMAIL_HASH_KEY: secrets.EMAIL_HASH_KEY,
    AUTH_SECRET: secrets.AUTH_SECRET,
    PROXY_SECRET: secrets.PROXY_SECRET,
    WEBHOOK_SECRET: secrets.WEBHOOK_SECRET,
    STRIPE_WEBHOOK_SECRET: secrets.STRIPE_WEBHOOK_SECRET,
    STRIPE_SECRET_KEY: 'sk_test_local',
    METRICS_TOKEN: secrets.METRICS_TOKEN,
  }
}

/** Variables that only exist on this machine. Every function gets them. */
export function localOnlyEnvironment({ neonEndpoint, awsEndpoint, stripeApiUrl }: Addresses): Record<string, string> {
  return {
    MAIL_INBOX: 'mails',
    LOGGED_PART: '1',
    ...(neonEndpoint && { NEON_ENDPOINT: neonEndpoint }),
    ...(awsEndpoint && { AWS_ENDPOINT_URL: awsEndpoint }),
    ...(stripeApiUrl && { STRIPE_API_URL: stripeApiUrl }),
  }
}
