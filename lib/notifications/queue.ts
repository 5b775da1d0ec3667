import { GetQueueAttributesCommand, SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'

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
 * take stays in the database, from where the relay sends it again. `delay` is for how many seconds the queue holds one back, 900 at
 * most. Throws where every call failed.
 */
export async function sendToQueue<Message extends object>(
  queue: SQSClient,
  queueUrl: string,
  messages: Message[],
  delay?: (message: Message) => number,
): Promise<Message[]> {
  const taken: Message[] = []
  let failure: unknown
  const calls = inCalls(messages).values()
  const send = async () => {
    for (const batch of calls) {
      try {
        const answer = await queue.send(
          new SendMessageBatchCommand({
            QueueUrl: queueUrl,
            Entries: batch.map((message, index) => ({
              Id: String(index),
              MessageBody: JSON.stringify(message),
              ...(delay && { DelaySeconds: delay(message) }),
            })),
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

const redrivePolicy = z.object({ deadLetterTargetArn: z.optional(z.string()) })

/** The address of the queue's dead letters, which the queue itself names; undefined where it has none. */
export async function deadLetterUrlOf(queue: SQSClient, queueUrl: string): Promise<string | undefined> {
  const { Attributes: attributes } = await queue.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['RedrivePolicy'] }),
  )
  const { deadLetterTargetArn: arn } = redrivePolicy.parse(JSON.parse(attributes?.RedrivePolicy ?? '{}'))
  return arn && queueUrl.slice(0, queueUrl.lastIndexOf('/') + 1) + arn.split(':').at(-1)
}

/** How many messages wait in the queue and among its dead letters, about; null where that could not be had. */
export async function readQueueFigures(
  queue: SQSClient,
  queueUrl: string,
): Promise<{ queue_messages: number | null; dead_letters: number | null }> {
  const countOf = async (url: string | undefined) => {
    const { Attributes: attributes } = await queue.send(
      new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['ApproximateNumberOfMessages'] }),
    )
    return Number(attributes?.ApproximateNumberOfMessages)
  }
  const [messages, deadLetters] = await Promise.allSettled([
    countOf(queueUrl),
    deadLetterUrlOf(queue, queueUrl).then(countOf),
  ])
  return {
    queue_messages: messages.status === 'fulfilled' ? messages.value : null,
    dead_letters: deadLetters.status === 'fulfilled' ? deadLetters.value : null,
  }
}
