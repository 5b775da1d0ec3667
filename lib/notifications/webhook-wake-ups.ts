import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'
import type { WebhookWake } from './outbox.ts'
import { inCalls, sendToQueue } from './queue.ts'

/** A wake that came; undefined where the message is none of ours. `receipt` is by what a queue knows it. */
export interface Woken {
  wake: WebhookWake | undefined
  receipt?: string | undefined
}

/** Where wakes wait until they are due, or about. */
export interface Wakes {
  /** Returns those that were taken. */
  send(wakes: WebhookWake[]): Promise<WebhookWake[]>
  /** What has come, ten at most; waits for something for so many seconds. */
  receive(atMost: number, waitSeconds: number): Promise<Woken[]>
  /** Ends those that were worked off. The others come again where their receiver is gone. */
  remove(woken: Woken[]): Promise<void>
  /** Whether the process that has them in itself ends: what is under way is finished, and nothing more begun. */
  isOver?(): boolean
}

const wakeMessage = z.object({ program_id: z.int().check(z.positive()), due_at: z.number() })

/** What a message of the webhooks' queue says, or undefined where it is none of ours. */
function parseWake(body: string | undefined): WebhookWake | undefined {
  try {
    return wakeMessage.parse(JSON.parse(body ?? ''))
  } catch {
    return undefined
  }
}

/** SQS holds a message back for 15 minutes at most; what is due later is sent on when it comes. */
const longestDelaySeconds = 900
/** Longer than claims stand, so that what a consumer left undone when it ended can be claimed by whom the message wakes again. */
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
        // The queue answers only then, which is no silence of the kind that the client gives up on.
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
