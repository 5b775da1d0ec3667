import { Stripe } from 'stripe'
import { afterAll, vi } from 'vitest'
import webhook from '../../functions/processor-webhook.ts'
import { type LocalStripe, startLocalStripe } from '../../lib/local/stripe.ts'
import { type Shop, stripeEvent } from '../../lib/local/stripe-events.ts'
import type { TestEndpoint } from './stack.ts'

export interface Answer {
  status: number
  body: { outcome?: string; reason?: string | null; error?: { code: string } }
  /** Database requests that it took. */
  requests: number
}

export interface TestWebhook {
  stripe: LocalStripe
  env: typeof environment
  /** Signs an event's text and posts it to the function. */
  post: (text: string, header?: string) => Promise<Answer>
  /** Wraps an object in an event of this type and posts it. Each event has an id of its own unless one is given. */
  send: (shop: Shop, type: string, object: Record<string, unknown>, id?: string) => Promise<Answer>
}

const environment = {
  EMAIL_HASH_KEY: 'key',
  STRIPE_WEBHOOK_SECRET: 'whsec_old,whsec_new',
  STRIPE_SECRET_KEY: 'sk_test',
  RELAY: { fetch: () => Promise.resolve(new Response()) },
}

/** The header with which Stripe would sign this text. */
export async function signatureOf(text: string, secret = 'whsec_new', timestamp = Math.floor(Date.now() / 1000)) {
  return await Stripe.webhooks.generateTestHeaderStringAsync({ payload: text, secret, timestamp })
}

/** The webhook function in this process, on a test's database, with Stripe's stand-in. */
export async function openWebhook(endpoint: TestEndpoint): Promise<TestWebhook> {
  vi.spyOn(console, 'log').mockReturnValue()
  vi.spyOn(console, 'error').mockReturnValue()
  const stripe = await startLocalStripe()
  afterAll(() => stripe.close())
  const env = { ...environment, ...endpoint.env, STRIPE_API_URL: stripe.url }
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} }
  let sent = 0
  const post = async (text: string, header?: string): Promise<Answer> => {
    const before = endpoint.neon.requests
    const headers = { 'stripe-signature': header ?? (await signatureOf(text)) }
    const response = await webhook.request('/', { method: 'POST', body: text, headers }, env, context)
    const body: Answer['body'] = await response.json()
    return { status: response.status, body, requests: endpoint.neon.requests - before }
  }
  return {
    stripe,
    env,
    post,
    send(shop, type, object, id = `evt_${++sent}`) {
      return post(JSON.stringify(stripeEvent(shop, id, type, object)))
    },
  }
}
