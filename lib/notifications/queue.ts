import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs'
import type { OutboxMessage } from './outbox.ts'

/** The variables by which a function reaches the queue. */
export interface QueueEnv {
  AWS_REGION: string
  AWS_ACCESS_KEY_ID: string
  AWS_SECRET_ACCESS_KEY: string
  /** Address of an SQS endpoint other than AWS's own, as the local stack has one. */
  AWS_ENDPOINT_URL?: string
  QUEUE_URL: string
}

/** SQS takes ten messages a call, and a Worker opens six connections at once. */
export const messagesPerCall = 10
export const callsAtOnce = 6

/** A queue that does not answer is given up soon, because whoever waits for it has a deadline: two tries of three seconds. */
export function openQueue(env: QueueEnv): SQSClient {
  return new SQSClient({
    region: env.AWS_REGION,
    credentials: { accessKeyId: env.AWS_ACCESS_KEY_ID, secretAccessKey: env.AWS_SECRET_ACCESS_KEY },
    maxAttempts: 2,
    requestHandler: { requestTimeout: 3000, throwOnRequestTimeout: true },
    ...(env.AWS_ENDPOINT_URL && { endpoint: env.AWS_ENDPOINT_URL }),
  })
}

/** `items` in groups of ten, to be sent in one call each. */
export function inCalls<Item>(items: Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / messagesPerCall) }, (_, call) =>
    items.slice(call * messagesPerCall, (call + 1) * messagesPerCall),
  )
}

/**
 * Sends messages to the queue, ten a call and six calls at once, and returns those that the queue took. A message that it did not
 * take stays in the outbox, from where the relay sends it again. Throws where every call failed.
 */
export async function sendToQueue(
  queue: SQSClient,
  queueUrl: string,
  messages: OutboxMessage[],
): Promise<OutboxMessage[]> {
  const taken: OutboxMessage[] = []
  let failure: unknown
  const calls = inCalls(messages).values()
  const send = async () => {
    for (const batch of calls) {
      try {
        const answer = await queue.send(
          new SendMessageBatchCommand({
            QueueUrl: queueUrl,
            Entries: batch.map((message, index) => ({ Id: String(index), MessageBody: JSON.stringify(message) })),
          }),
        )
        taken.push(...(answer.Successful ?? []).flatMap(({ Id }) => batch[Number(Id)] ?? []))
      } catch (error) {
        failure = error
        // What is left would wait for the same time-out.
        return
      }
    }
  }
  await Promise.all(Array.from({ length: callsAtOnce }, send))
  if (failure !== undefined && taken.length === 0) throw failure
  return taken
}
