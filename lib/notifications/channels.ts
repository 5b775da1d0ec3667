import type { SQSClient } from '@aws-sdk/client-sqs'
import type { OutboxMessage } from './outbox.ts'
import { openQueue, type QueueEnv, readQueueFigures, sendToQueue } from './queue.ts'
import { type Wakes, wakesOf } from './webhook-wake-ups.ts'

/** Channels for notifications and for programs with due webhooks. */
export interface Channels {
  /** Sends outbox rows to the consumer, and returns the rows that were accepted. The relay sends the others again. */
  send(messages: OutboxMessage[]): Promise<OutboxMessage[]>
  wakes: Wakes
  /** Approximate numbers of waiting messages and dead letters, or null if unknown. */
  readFigures(): Promise<{ queue_messages: number | null; dead_letters: number | null }>
}

export interface ChannelsEnv extends QueueEnv {
  WEBHOOK_QUEUE_URL?: string
  /** In-process channels that replace the queues, if the process has them. */
  CHANNELS?: Channels
}

let opened: { env: ChannelsEnv; channels: Channels } | undefined

/** Returns the isolate's channels. Creating a queue client costs twice as much as sending a message. */
export function openChannels(env: ChannelsEnv): Channels {
  if (env.CHANNELS) return env.CHANNELS
  if (opened?.env !== env) opened = { env, channels: queuesOf(openQueue(env), env) }
  return opened.channels
}

/** SQS queues: one for notifications, one for webhooks. */
export function queuesOf(
  queue: SQSClient,
  { QUEUE_URL, WEBHOOK_QUEUE_URL = '' }: Pick<ChannelsEnv, 'QUEUE_URL' | 'WEBHOOK_QUEUE_URL'>,
): Channels {
  return {
    send: (messages) => sendToQueue(queue, QUEUE_URL, messages),
    wakes: wakesOf(queue, WEBHOOK_QUEUE_URL),
    readFigures: () => readQueueFigures(queue, QUEUE_URL),
  }
}
