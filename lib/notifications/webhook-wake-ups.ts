import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'
import type { WebhookWake } from './outbox.ts'
import { inCalls, sendToQueue } from './queue.ts'

/** A received wake. `wake` is undefined if the message is not from this service. `receipt` is the queue's handle of the message. */
export interface Woken {
  wake: WebhookWake | undefined
  receipt?: string | undefined
}

/** Holds wakes until approximately their due time. */
export interface Wakes {
  /** Returns the accepted wakes. */
  send(wakes: WebhookWake[]): Promise<WebhookWake[]>
  /** Returns up to ten received wakes, after waiting up to `waitSeconds`. */
  receive(atMost: number, waitSeconds: number): Promise<Woken[]>
  /** Removes finished wakes. The queue repeats the remaining wakes if their receiver dies. */
  remove(woken: Woken[]): Promise<void>
  /** Returns true while the process shuts down: running work is finished and no new work starts. */
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

/** SQS holds a message back for up to 15 minutes. A later wake is sent again when it arrives. */
const longestDelaySeconds = 900
/** Longer than a claim, so that the next receiver of the message can claim the unfinished deliveries of a dead consumer. */
const visibilitySeconds = 60

/** Wakes in a queue of SQS. */
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
        // The client must not give up on a long poll, because the queue is not silent then.
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
