import { Stripe } from 'stripe'
import { processorFixtures } from '../../lib/local/processor-fixture.ts'
import type { ProcessorName } from '../../lib/processors/processors.ts'
import { webhookSecret } from './world.ts'

/** Sends one POST request. Status 0 means no answer. */
export async function post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  try {
    return await fetch(`http://svc.test${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  } catch {
    return Response.error()
  }
}

export const isKnown = ({ status }: Response) => status > 0 && status < 500

/** Calls until the outcome is known. Throws if the service never answers or keeps failing. */
export async function untilKnown<Answer extends { status: number }>(
  call: () => Promise<Answer>,
  known: (answer: Answer) => boolean,
): Promise<Answer> {
  for (let attempt_count = 0, failures = 0; attempt_count < 60; attempt_count++) {
    const answer = await call()
    if (known(answer)) return answer
    if (answer.status === 500) failures += 1
    if (failures === 3) throw new Error('A call got a 500 three times.')
    await new Promise((resolve) => setTimeout(resolve, Math.min(10 * attempt_count, 300)))
  }
  throw new Error('A call has no known outcome after sixty attempts.')
}

/** A connection of a program to a processor other than Stripe. */
export interface Connection {
  processor: ProcessorName
  accountId: string
}

export const connectionSecret = 'secret-of-chaos'

/** Delivers an event until it is accepted, as processors do: to Stripe's endpoint, or to a connection. */
export async function deliver(event: object, connection?: Connection): Promise<void> {
  const payload = JSON.stringify(event)
  const response = await untilKnown(() => {
    if (connection) {
      const { processor, accountId } = connection
      const headers = processorFixtures[processor].headersOf(payload, connectionSecret, new Date())
      return post(`/api/v1/webhooks/${processor}/${accountId}`, payload, headers)
    }
    const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret: webhookSecret })
    return post('/api/v1/webhooks/stripe', payload, { 'stripe-signature': signature })
  }, isKnown)
  if (!response.ok) throw new Error(`A webhook got the answer ${response.status}: ${await response.text()}`)
}
