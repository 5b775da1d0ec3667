import { randomBytes } from 'node:crypto'

/** The queue's emulator takes any region and any credentials; these are what functions are given. */
export const localAws = { region: 'eu-central-1', accessKeyId: 'local', secretAccessKey: 'local' }

const secret = () => randomBytes(32).toString('base64url')

/** Secrets that are made up on the first start and kept beside the data. */
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

/** Where the parts of a stack are. Without `neonEndpoint` the database is Neon's own, without `awsEndpoint` the queue AWS'. */
export interface Addresses {
  baseUrl: string
  databaseUrl: string
  neonEndpoint: string | undefined
  awsEndpoint: string | undefined
  queueUrl: string
  deadLetterQueueUrl: string
  webhookQueueUrl: string
  /** Without it Stripe's own. */
  stripeApiUrl: string | undefined
}

/**
 * Every variable and secret that functions know on this machine: the one place to add one. A function is given those that
 * its entry in wrangler.toml names under `vars` and `secrets.required`, so a name forgotten there is missed here as it would
 * be on the edge. `npm start` lets variables of its environment win, so that a real account can be tried.
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

/** Variables that exist on this machine only and go to every function. */
export function localOnlyEnvironment({ neonEndpoint, awsEndpoint, stripeApiUrl }: Addresses): Record<string, string> {
  return {
    MAIL_INBOX: 'mails',
    LOGGED_PART: '1',
    ...(neonEndpoint && { NEON_ENDPOINT: neonEndpoint }),
    ...(awsEndpoint && { AWS_ENDPOINT_URL: awsEndpoint }),
    ...(stripeApiUrl && { STRIPE_API_URL: stripeApiUrl }),
  }
}
