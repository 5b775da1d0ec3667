import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'
import { rolesWith } from '../access/roles.ts'
import { call, type Database, retryOnce } from '../database.ts'
import type { OutboxMessage } from './outbox.ts'
import { callsAtOnce, inCalls, messagesPerCall } from './queue.ts'

const outboxMessage = z.object({ program_id: z.int().check(z.positive()), outbox_id: z.int().check(z.positive()) })

/** The outbox row that a queue message names, or undefined where the body is none of ours. */
export function parseOutboxMessage(body: string | undefined): OutboxMessage | undefined {
  try {
    return outboxMessage.parse(JSON.parse(body ?? ''))
  } catch {
    return undefined
  }
}

/**
 * Writes the in-app notifications that the messages are about, and whom they are to be mailed to, and returns the messages that are done: told now, or told
 * before. The notification's key is the outbox row's, so each is written once however often its message comes. A message
 * whose row does not exist is not done; the queue repeats it and at last puts it aside.
 */
export async function writeNotifications(db: Database, messages: OutboxMessage[]): Promise<OutboxMessage[]> {
  if (messages.length === 0) return []
  const found = await retryOnce(() =>
    db.query(
      call('write_notifications', {
        program_ids: messages.map(({ program_id }) => program_id),
        outbox_ids: messages.map(({ outbox_id }) => outbox_id),
        reading_roles: rolesWith('notice:list'),
      }),
    ),
  )
  const done = new Set(found.map((row) => `${row.program_id}:${row.outbox_id}`))
  return messages.filter((message) => done.has(`${message.program_id}:${message.outbox_id}`))
}

/** Longer than a round takes at its worst: no message comes again while it is worked on. */
const visibilitySeconds = 60

/**
 * Takes messages off the queue, writes their notifications and deletes what is done, in rounds of up to sixty messages, until the
 * queue is empty or `deadline` (ms since 1970) is past; a round that began before it is finished. Returns how many were
 * delivered. A message that is not deleted comes again, and after five times goes to the dead letters.
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

/** The first call asks all of the queue's servers, which takes a second where there is nothing; the others take what is at hand. */
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
  // Each is waited for, so that no call is cut off where another one fails.
  const deletions = await Promise.allSettled(inCalls(finished).map((batch) => deleteMessages(queue, queueUrl, batch)))
  for (const deletion of deletions) if (deletion.status === 'rejected') throw deletion.reason
  return finished.length
}

/** Deletes up to ten messages. What the queue failed to delete is tried once more; then it comes again and is found told. */
async function deleteMessages(queue: SQSClient, queueUrl: string, messages: Message[], tries = 2): Promise<void> {
  const { Failed: failed = [] } = await queue.send(
    new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: messages.map((message, index) => ({ Id: String(index), ReceiptHandle: message.ReceiptHandle })),
    }),
  )
  const left = failed.flatMap(({ Id }) => messages[Number(Id)] ?? [])
  if (left.length > 0 && tries > 1) await deleteMessages(queue, queueUrl, left, tries - 1)
}
