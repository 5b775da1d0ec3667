import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'
import { rolesWith } from '../access/roles.ts'
import { call, type Database, retryOnce } from '../database.ts'
import type { OutboxMessage } from './outbox.ts'
import { callsAtOnce, inCalls, messagesPerCall } from './queue.ts'

const outboxMessage = z.object({ program_id: z.int().check(z.positive()), outbox_id: z.int().check(z.positive()) })

/** Parses the outbox row in a queue message. Returns undefined if the body is not from this service. */
export function parseOutboxMessage(body: string | undefined): OutboxMessage | undefined {
  try {
    return outboxMessage.parse(JSON.parse(body ?? ''))
  } catch {
    return undefined
  }
}

/**
 * Writes the in-app notifications for the messages, and schedules their mails. Returns the finished messages, delivered now or earlier. The
 * outbox row's id is the notification's key, so a repeated message writes it only once. A message without a row stays unfinished, so the
 * queue repeats it and finally moves it to the dead letters.
 */
export async function writeNotifications(db: Database, messages: OutboxMessage[]): Promise<OutboxMessage[]> {
  if (messages.length === 0) return []
  const found = await retryOnce(() =>
    db.query(
      call('write_notifications', {
        program_ids: messages.map(({ program_id }) => program_id),
        outbox_ids: messages.map(({ outbox_id }) => outbox_id),
        reading_roles: rolesWith('notification:list'),
      }),
    ),
  )
  const done = new Set(found.map((row) => `${row.program_id}:${row.outbox_id}`))
  return messages.filter((message) => done.has(`${message.program_id}:${message.outbox_id}`))
}

/** This is longer than the slowest round, so that the queue doesn't repeat a message in progress. */
const visibilitySeconds = 60

/**
 * Receives messages from the queue, writes their notifications and deletes finished messages, up to sixty at a time. Stops when the
 * queue is empty or `deadline` (ms since 1970) has passed, but finishes the current round. Returns the number of delivered messages. The
 * queue repeats an undeleted message, and moves it to the dead letters after five deliveries.
 */
export async function drainQueue(db: Database, queue: SQSClient, queueUrl: string, deadline: number): Promise<number> {
  let delivered = 0
  let calls = 1
  while (Date.now() < deadline) {
    const messages = await receiveMessages(queue, queueUrl, calls)
    if (messages.length === 0) break
    delivered += await deliverMessages(db, queue, queueUrl, messages)
    calls = messages.length < calls * messagesPerCall ? 1 : Math.min(calls * 2, callsAtOnce)
  }
  return delivered
}

/**
 * The first call asks all servers of the queue. This takes a second if there are no messages. The other calls receive messages that are
 * ready.
 */
async function receiveMessages(queue: SQSClient, queueUrl: string, calls: number): Promise<Message[]> {
  const answers = await Promise.all(
    Array.from({ length: calls }, (_, index) =>
      queue.send(
        new ReceiveMessageCommand({
          QueueUrl: queueUrl,
          MaxNumberOfMessages: messagesPerCall,
          VisibilityTimeout: visibilitySeconds,
          WaitTimeSeconds: index === 0 ? 1 : 0,
        }),
      ),
    ),
  )
  return answers.flatMap(({ Messages: messages = [] }) => messages)
}

async function deliverMessages(db: Database, queue: SQSClient, queueUrl: string, messages: Message[]): Promise<number> {
  const parsed = messages.map((message) => ({ message, content: parseOutboxMessage(message.Body) }))
  const done = new Set(
    await writeNotifications(
      db,
      parsed.flatMap(({ content }) => content ?? []),
    ),
  )
  const finished = parsed.filter(({ content }) => content && done.has(content)).map(({ message }) => message)
  // Waits for all calls, so that one failure doesn't interrupt the others.
  const deletions = await Promise.allSettled(inCalls(finished).map((batch) => deleteMessages(queue, queueUrl, batch)))
  for (const deletion of deletions) if (deletion.status === 'rejected') throw deletion.reason
  return finished.length
}

/**
 * Deletes up to ten messages and retries failed deletions once. If a message remains, the queue repeats it, and this function recognizes it
 * as delivered.
 */
async function deleteMessages(queue: SQSClient, queueUrl: string, messages: Message[], attempts = 2): Promise<void> {
  const { Failed: failed = [] } = await queue.send(
    new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: messages.map((message, index) => ({ Id: String(index), ReceiptHandle: message.ReceiptHandle })),
    }),
  )
  const left = failed.flatMap(({ Id }) => messages[Number(Id)] ?? [])
  if (left.length > 0 && attempts > 1) await deleteMessages(queue, queueUrl, left, attempts - 1)
}
