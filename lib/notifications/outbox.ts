import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs'
import { sql } from 'kysely'
import type { Database } from '../database.ts'

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

/** SQS takes ten messages a call, and a Worker opens six connections at once. */
export const messagesPerCall = 10
export const callsAtOnce = 6

/** A queue that does not answer is given up soon, because whoever waits for it has a deadline: two tries of three seconds. */
export function openQueue(env: QueueEnv): SQSClient {
  return new SQSClient({
    region: env.AWS_REGION,
    credentials: { accessKeyId: env.AWS_ACCESS_KEY_ID, secretAccessKey: env.AWS_SECRET_ACCESS_KEY },
    maxAttempts: 2,
    requestHandler: { requestTimeout: 3000, throwOnRequestTimeout: true },
    ...(env.AWS_ENDPOINT_URL && { endpoint: env.AWS_ENDPOINT_URL }),
  })
}

/** `items` in groups of ten, to be sent in one call each. */
export function inCalls<Item>(items: Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / messagesPerCall) }, (_, call) =>
    items.slice(call * messagesPerCall, (call + 1) * messagesPerCall),
  )
}

/**
 * Sends messages to the queue, ten a call and six calls at once, and returns those that the queue took. A message that it did not
 * take stays in the outbox, from where the relay sends it again. Throws where every call failed.
 */
export async function sendToQueue(
  queue: SQSClient,
  queueUrl: string,
  messages: OutboxMessage[],
): Promise<OutboxMessage[]> {
  const taken: OutboxMessage[] = []
  let failure: unknown
  const calls = inCalls(messages).values()
  const send = async () => {
    for (const batch of calls) {
      try {
        const answer = await queue.send(
          new SendMessageBatchCommand({
            QueueUrl: queueUrl,
            Entries: batch.map((message, index) => ({ Id: String(index), MessageBody: JSON.stringify(message) })),
          }),
        )
        taken.push(...(answer.Successful ?? []).flatMap(({ Id }) => batch[Number(Id)] ?? []))
      } catch (error) {
        failure = error
        // What is left would wait for the same time-out.
        return
      }
    }
  }
  await Promise.all(Array.from({ length: callsAtOnce }, send))
  if (failure !== undefined && taken.length === 0) throw failure
  return taken
}

/** The binding by which a function hands messages to `relay-outbox`, which holds the queue's client for all. */
export interface RelayEnv {
  RELAY: { fetch(url: string, init: { method: string; body: string }): Promise<Response> }
}

/**
 * Has the relay send messages right after the response that caused them. A relay or queue that fails is no failure of the
 * response: the scheduled run finds the rows in the outbox. It begins a millisecond later, because the relay works on the same
 * thread, and what it does at once is done before the response is written.
 */
export async function sendSoon(env: RelayEnv, messages: OutboxMessage[]): Promise<void> {
  if (messages.length === 0) return
  await new Promise((resolve) => setTimeout(resolve, 1))
  try {
    await env.RELAY.fetch('https://relay/', { method: 'POST', body: JSON.stringify(messages) })
  } catch (error) {
    console.error(
      JSON.stringify({ error: 'relay_unreachable', name: error instanceof Error ? error.name : typeof error }),
    )
  }
}

/** The function that wrote a row has sent it by then, or has failed to. */
const sendAfterSeconds = 10
/** A message that the queue took is in it or among its dead letters, so it is sent again seldom. */
const resendAfterMinutes = 15

/**
 * Sends the outbox rows that are not delivered and that nobody has sent, or not for long, oldest first, until none is left, the
 * queue takes no more or `deadline` (ms since 1970) is past. Returns how many were sent. What is sent twice is delivered once.
 */
export async function relayOutbox(db: Database, queue: SQSClient, queueUrl: string, deadline: number): Promise<number> {
  let total = 0
  while (Date.now() < deadline) {
    const waiting = await db.query(sql<{ program_id: string; id: string }>`select program_id, id from outbox
where delivered_at is null and created_at < now() - make_interval(secs => ${sendAfterSeconds})
  and (sent_at is null or sent_at < now() - make_interval(mins => ${resendAfterMinutes}))
order by created_at, program_id, id limit 500`)
    if (waiting.length === 0) break
    const messages = waiting.map((row) => ({ program_id: Number(row.program_id), outbox_id: Number(row.id) }))
    const sent = await sendToQueue(queue, queueUrl, messages)
    await db.query(sql`update outbox set sent_at = now()
where (program_id, id) in (select * from unnest(${sent.map((m) => m.program_id)}::bigint[], ${sent.map((m) => m.outbox_id)}::bigint[]))`)
    total += sent.length
    if (sent.length < messages.length) break
  }
  return total
}
