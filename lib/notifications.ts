import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import { sql } from 'kysely'
import * as z from 'zod/mini'
import type { Database } from './database.ts'
import type { OutboxMessage } from './outbox.ts'

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
 * Writes the in-app notifications that the messages are about and returns the messages that are done: told now, or told
 * before. The notification's key is the outbox row's, so each is written once however often its message comes. A message
 * whose row does not exist is not done; the queue repeats it and at last puts it aside.
 */
export async function writeNotifications(db: Database, messages: OutboxMessage[]): Promise<OutboxMessage[]> {
  if (messages.length === 0) return []
  const told = await db.query(sql<{ program_id: string; id: string }>`with named as (
  select distinct program_id, id
  from unnest(${messages.map((m) => m.program_id)}::bigint[], ${messages.map((m) => m.outbox_id)}::bigint[]) as m (program_id, id)
),
row as (
  select o.* from outbox o join named n on n.program_id = o.program_id and n.id = o.id order by o.program_id, o.id
),
notification as (
  insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
  select program_id, id, kind, audience, partner_id, payload, created_at from row
  on conflict (program_id, id) do nothing
),
delivered as (
  update outbox o set delivered_at = now() from row
  where o.program_id = row.program_id and o.id = row.id and o.delivered_at is null
)
select program_id, id from row`)
  const done = new Set(told.map((row) => `${row.program_id}:${row.id}`))
  return messages.filter((message) => done.has(`${message.program_id}:${message.outbox_id}`))
}

const visibilitySeconds = 60

/**
 * Takes messages off the queue, ten at a time, writes their notifications and deletes what is done, until the queue is empty or
 * `deadline` (ms since 1970) is past. Returns how many were delivered. A message that is not deleted comes again.
 */
export async function drainQueue(db: Database, queue: SQSClient, queueUrl: string, deadline: number): Promise<number> {
  let delivered = 0
  while (Date.now() < deadline) {
    const { Messages: messages = [] } = await queue.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: 10,
        VisibilityTimeout: visibilitySeconds,
        WaitTimeSeconds: 0,
      }),
    )
    if (messages.length === 0) break
    delivered += (await deliverMessages(db, queue, queueUrl, messages)).length
  }
  return delivered
}

async function deliverMessages(
  db: Database,
  queue: SQSClient,
  queueUrl: string,
  messages: Message[],
): Promise<Message[]> {
  const parsed = messages.map((message) => ({ message, content: parseOutboxMessage(message.Body) }))
  const done = new Set(
    await writeNotifications(
      db,
      parsed.flatMap(({ content }) => (content ? [content] : [])),
    ),
  )
  const finished = parsed.filter(({ content }) => content && done.has(content)).map(({ message }) => message)
  if (finished.length > 0) {
    await queue.send(
      new DeleteMessageBatchCommand({
        QueueUrl: queueUrl,
        Entries: finished.map((message, index) => ({ Id: String(index), ReceiptHandle: message.ReceiptHandle })),
      }),
    )
  }
  return finished
}
