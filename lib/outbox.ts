import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs'
import { sql } from 'kysely'
import type { Database } from './database.ts'

/** What a queue message carries: which outbox row it is about. The row itself holds what is told. */
export interface OutboxMessage {
  program_id: number
  outbox_id: number
}

/** The variables by which a function reaches the queue. */
export interface QueueEnv {
  AWS_REGION: string
  AWS_ACCESS_KEY_ID: string
  AWS_SECRET_ACCESS_KEY: string
  /** Address of an SQS endpoint other than AWS's own, as the local stack has one. */
  AWS_ENDPOINT_URL?: string
  QUEUE_URL: string
}

const maxBatch = 10 // SQS takes ten messages a call.

export function openQueue(env: QueueEnv): SQSClient {
  return new SQSClient({
    region: env.AWS_REGION,
    credentials: { accessKeyId: env.AWS_ACCESS_KEY_ID, secretAccessKey: env.AWS_SECRET_ACCESS_KEY },
    ...(env.AWS_ENDPOINT_URL && { endpoint: env.AWS_ENDPOINT_URL }),
  })
}

/**
 * Sends messages to the queue, ten a call, and returns those that the queue took. A message that it did not take stays in the
 * outbox, from where the relay sends it again.
 */
export async function sendToQueue(
  queue: SQSClient,
  queueUrl: string,
  messages: OutboxMessage[],
): Promise<OutboxMessage[]> {
  const taken: OutboxMessage[] = []
  for (let start = 0; start < messages.length; start += maxBatch) {
    const batch = messages.slice(start, start + maxBatch)
    const answer = await queue.send(
      new SendMessageBatchCommand({
        QueueUrl: queueUrl,
        Entries: batch.map((message, index) => ({ Id: String(index), MessageBody: JSON.stringify(message) })),
      }),
    )
    const accepted = new Set(answer.Successful?.map((entry) => entry.Id))
    taken.push(...batch.filter((_, index) => accepted.has(String(index))))
  }
  return taken
}

/** The binding by which a function hands messages to `relay-outbox`, which holds the queue's client for all. */
export interface RelayEnv {
  RELAY: { fetch(url: string, init: { method: string; body: string }): Promise<Response> }
}

/**
 * Has the relay send messages right after the response that caused them. A relay or queue that fails is no failure of the
 * response: the scheduled run finds the rows in the outbox.
 */
export async function sendSoon(env: RelayEnv, messages: OutboxMessage[]): Promise<void> {
  if (messages.length === 0) return
  try {
    await env.RELAY.fetch('https://relay/', { method: 'POST', body: JSON.stringify(messages) })
  } catch (error) {
    console.error(
      JSON.stringify({ error: 'relay_unreachable', name: error instanceof Error ? error.name : typeof error }),
    )
  }
}

/** How long a message may be under way before the relay takes it for lost. */
const resendAfterSeconds = 60

/**
 * Sends every outbox row that is not delivered and was not sent within the last minute, in bounded rounds, until none is left
 * or a round sends nothing. Returns how many were sent. What is sent twice is delivered once.
 */
export async function relayOutbox(db: Database, queue: SQSClient, queueUrl: string): Promise<number> {
  let total = 0
  for (let round = 0; round < 100; round++) {
    const waiting = await db.query(sql<{ program_id: string; id: string }>`select program_id, id from outbox
where delivered_at is null and created_at < now() - interval '2 seconds'
  and (sent_at is null or sent_at < now() - make_interval(secs => ${resendAfterSeconds}))
order by created_at limit 500`)
    const messages = waiting.map((row) => ({ program_id: Number(row.program_id), outbox_id: Number(row.id) }))
    const sent = await sendToQueue(queue, queueUrl, messages)
    if (sent.length === 0) break
    await db.query(sql`update outbox set sent_at = now() from unnest(${sent.map((m) => m.program_id)}::bigint[], ${sent.map((m) => m.outbox_id)}::bigint[]) as sent (program_id, id)
where outbox.program_id = sent.program_id and outbox.id = sent.id`)
    total += sent.length
  }
  return total
}
