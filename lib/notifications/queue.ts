import { GetQueueAttributesCommand, SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'

/** The variables of the queue. */
export interface QueueEnv {
  AWS_REGION: string
  AWS_ACCESS_KEY_ID: string
  AWS_SECRET_ACCESS_KEY: string
  /** The address of an SQS endpoint other than AWS's own, such as the local stack's. */
  AWS_ENDPOINT_URL?: string
  QUEUE_URL: string
}

/** SQS accepts ten messages per call, and a Worker can open six connections at once. */
export const messagesPerCall = 10
export const callsAtOnce = 6

/** Opens a client that gives up on a silent queue after two attempts of three seconds, because its callers have deadlines. */
export function openQueue(env: QueueEnv): SQSClient {
  return new SQSClient({
    region: env.AWS_REGION,
    credentials: { accessKeyId: env.AWS_ACCESS_KEY_ID, secretAccessKey: env.AWS_SECRET_ACCESS_KEY },
    maxAttempts: 2,
    requestHandler: { requestTimeout: 3000, throwOnRequestTimeout: true },
    ...(env.AWS_ENDPOINT_URL && { endpoint: env.AWS_ENDPOINT_URL }),
  })
}

/** Splits `items` into groups of ten, one for each call. */
export function inCalls<Item>(items: Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / messagesPerCall) }, (_, call) =>
    items.slice(call * messagesPerCall, (call + 1) * messagesPerCall),
  )
}

/**
 * Sends messages to the queue, ten per call and six calls at once, and returns the messages that were accepted. The relay sends the
 * others again from the database. `delay` returns how many seconds the queue holds a message back, up to 900. Throws if every call fails.
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
        // This stops here, because the remaining calls would run into the same timeout.
        return
      }
    }
  }
  await Promise.all(Array.from({ length: callsAtOnce }, send))
  if (failure !== undefined && taken.length === 0) throw failure
  return taken
}

const redrivePolicy = z.object({ deadLetterTargetArn: z.optional(z.string()) })

/** Returns the address of the queue's dead-letter queue, or undefined if there is none. */
export async function deadLetterUrlOf(queue: SQSClient, queueUrl: string): Promise<string | undefined> {
  const { Attributes: attributes } = await queue.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['RedrivePolicy'] }),
  )
  const { deadLetterTargetArn: arn } = redrivePolicy.parse(JSON.parse(attributes?.RedrivePolicy ?? '{}'))
  return arn && queueUrl.slice(0, queueUrl.lastIndexOf('/') + 1) + arn.split(':').at(-1)
}

/** Returns the approximate numbers of waiting messages and dead letters, or null if unknown. */
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
