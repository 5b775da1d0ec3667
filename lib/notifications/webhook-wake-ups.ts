import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'
import type { WebhookWake } from './outbox.ts'
import { inCalls, sendToQueue } from './queue.ts'

/** A received wake-up. `wake` is undefined if the message isn't from this service. `receipt` is the queue's handle for the message. */
export interface Woken {
  wake: WebhookWake | undefined
  receipt?: string | undefined
}

/** Holds wake-ups until about their due time. */
export interface Wakes {
  /** Returns the wake-ups that were accepted. */
  send(wakes: WebhookWake[]): Promise<WebhookWake[]>
  /** Returns up to ten received wake-ups, after waiting up to `waitSeconds`. */
  receive(atMost: number, waitSeconds: number): Promise<Woken[]>
  /** Removes finished wake-ups. The queue repeats the others if their receiver dies. */
  remove(woken: Woken[]): Promise<void>
  /** Returns true while the process is shutting down. Running work is finished, but no new work starts. */
  isOver?(): boolean
}

const wakeMessage = z.object({ program_id: z.int().check(z.positive()), due_at: z.number() })

/** Parses a message from the webhook queue. Returns undefined if the message is not from this service. */
function parseWake(body: string | undefined): WebhookWake | undefined {
  try {
    return wakeMessage.parse(JSON.parse(body ?? ''))
  } catch {
    return undefined
  }
}

/** SQS can hold a message back for up to 15 minutes. A wake-up for a later time is sent again when it arrives. */
const longestDelaySeconds = 900
/** This is longer than a claim, so that the next receiver of the message can claim the unfinished deliveries of a dead consumer. */
const visibilitySeconds = 60

/** Wake-ups in an SQS queue. */
export function wakesOf(queue: SQSClient, queueUrl: string): Wakes {
  return {
    async send(wakes) {
      const seconds = Date.now() / 1000
      return await sendToQueue(queue, queueUrl, wakes, ({ due_at }) =>
        Math.min(Math.max(Math.ceil(due_at - seconds), 0), longestDelaySeconds),
      )
    },
    async receive(atMost, waitSeconds) {
      const { Messages: messages = [] } = await queue.send(
        new ReceiveMessageCommand({
          QueueUrl: queueUrl,
          MaxNumberOfMessages: atMost,
          VisibilityTimeout: visibilitySeconds,
          WaitTimeSeconds: waitSeconds,
        }),
        // The client must not give up during a long poll, because then the queue is silent on purpose.
        { requestTimeout: (waitSeconds + 3) * 1000 },
      )
      return messages.map(({ Body, ReceiptHandle: receipt }) => ({ wake: parseWake(Body), receipt }))
    },
    async remove(woken) {
      for (const batch of inCalls(woken)) {
        await queue.send(
          new DeleteMessageBatchCommand({
            QueueUrl: queueUrl,
            Entries: batch.map(({ receipt }, index) => ({ Id: String(index), ReceiptHandle: receipt })),
          }),
        )
      }
    },
  }
}
