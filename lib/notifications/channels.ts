import type { SQSClient } from '@aws-sdk/client-sqs'
import type { OutboxMessage } from './outbox.ts'
import { openQueue, type QueueEnv, readQueueFigures, sendToQueue } from './queue.ts'
import { type Wakes, wakesOf } from './webhook-wake-ups.ts'

/** Where messages go that say what is to be told, and that programs have webhooks due. */
export interface Channels {
  /** Has rows of the outbox told, and returns those that were taken. A row that was not stays there and is sent again. */
  tell(messages: OutboxMessage[]): Promise<OutboxMessage[]>
  wakes: Wakes
  /** How many messages wait, and how many nobody could handle, about; null where that could not be had. */
  readFigures(): Promise<{ queue_messages: number | null; dead_letters: number | null }>
}

export interface ChannelsEnv extends QueueEnv {
  WEBHOOK_QUEUE_URL?: string
  /** Those of the process itself, where it has some, in place of queues. */
  CHANNELS?: Channels
}

let opened: { env: ChannelsEnv; channels: Channels } | undefined

/** The isolate's channels: a client of the queue costs twice as much as to send with it. */
export function openChannels(env: ChannelsEnv): Channels {
  if (env.CHANNELS) return env.CHANNELS
  if (opened?.env !== env) opened = { env, channels: queuesOf(openQueue(env), env) }
  return opened.channels
}

/** The queues of SQS: one for what is to be told, one for webhooks. */
export function queuesOf(
  queue: SQSClient,
  { QUEUE_URL, WEBHOOK_QUEUE_URL = '' }: Pick<ChannelsEnv, 'QUEUE_URL' | 'WEBHOOK_QUEUE_URL'>,
): Channels {
  return {
    tell: (messages) => sendToQueue(queue, QUEUE_URL, messages),
    wakes: wakesOf(queue, WEBHOOK_QUEUE_URL),
    readFigures: () => readQueueFigures(queue, QUEUE_URL),
  }
}
