import { DeleteMessageBatchCommand, GetQueueAttributesCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs'
import { setTimeout as sleep } from 'node:timers/promises'
import { handler } from '../../functions/deliver-notifications.ts'
import { openQueue } from '../../lib/notifications/queue.ts'
import { drive, quantile } from './driver.ts'
import { type Endpoint, seedEndpoints, take } from './endpoints.ts'
import { type BenchStack, startStack } from './environment.ts'
import { HttpConnection } from './http.ts'
import { type Result, round } from './result.ts'

const messages = 1000
const alone = 20

/**
 * Messages that the consumer takes from a full queue in a second, as the scheduled Worker and as the Lambda handler that is given
 * ten at a time; and the time from the answer of a refund until its notification is there: with the Lambda entry called
 * as soon as the queue has the message, and with a run of the Worker (its schedule adds up to a minute, thirty seconds on average).
 */
export async function consumer(): Promise<Result> {
  const stack = await startStack()
  const refund = (await seedEndpoints(stack, 2 * (messages + alone))).find(({ name }) => name === 'refund')
  if (!refund) throw new Error('There is no endpoint for refunds.')
  const lone = new HttpConnection(stack.baseUrl)
  const carriers = Array.from({ length: 8 }, () => new HttpConnection(stack.baseUrl))
  const deliveries = { Worker: () => stack.scheduled('deliver-notifications'), Lambda: () => drainByLambda(stack) }
  const result: Result = { figures: [], goals: [] }
  for (const [name, deliver] of Object.entries(deliveries)) {
    const before = await told(stack)
    await drive(carriers, take(refund, messages))
    await untilSent(stack)
    const started = performance.now()
    await deliver()
    const seconds = (performance.now() - started) / 1000
    const delivered = (await told(stack)) - before
    const times = await timesToTell(stack, lone, refund, deliver)
    result.figures.push({
      consumer: name,
      'messages/s': round(delivered / seconds),
      delivered,
      'refund to notification, p50 ms': round(quantile(times, 0.5)),
      'p99 ms': round(quantile(times, 0.99)),
    })
    result.goals.push({
      what: `notifications that the ${name} wrote`,
      measured: delivered,
      least: messages,
      most: messages,
    })
  }
  for (const connection of [lone, ...carriers]) connection.close()
  await stack.close()
  return result
}

async function timesToTell(
  stack: BenchStack,
  connection: HttpConnection,
  refund: Endpoint,
  deliver: () => Promise<void>,
): Promise<number[]> {
  const times: number[] = []
  for (let n = 0; n < alone; n++) {
    const before = await told(stack)
    await drive([connection], take(refund, 1))
    const answered = performance.now()
    while ((await told(stack)) === before) await deliver()
    times.push(performance.now() - answered)
  }
  return times
}

async function told({ sql }: BenchStack): Promise<number> {
  const { rows } = await sql.query<{ count: string }>('select count(*) from notifications')
  return Number(rows[0]?.count)
}

/** Waits until every message that a refund wrote is in the queue: they are sent after the response. */
async function untilSent({ sql, queue, environment }: BenchStack): Promise<void> {
  const client = openQueue(queueEnv({ queue, environment }))
  for (let waited_ms = 0; waited_ms < 30_000; waited_ms += 200) {
    const { rows } = await sql.query<{ count: string }>('select count(*) from outbox where delivered_at is null')
    const { Attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: queue.url, AttributeNames: ['ApproximateNumberOfMessages'] }),
    )
    if (Number(Attributes?.['ApproximateNumberOfMessages']) >= Number(rows[0]?.count)) return
    await sleep(200)
  }
  throw new Error('The messages of the refunds did not reach the queue within half a minute.')
}

function queueEnv({ queue, environment }: Pick<BenchStack, 'queue' | 'environment'>) {
  return {
    AWS_REGION: environment['AWS_REGION'] ?? '',
    AWS_ACCESS_KEY_ID: environment['AWS_ACCESS_KEY_ID'] ?? '',
    AWS_SECRET_ACCESS_KEY: environment['AWS_SECRET_ACCESS_KEY'] ?? '',
    AWS_ENDPOINT_URL: queue.endpoint,
    QUEUE_URL: queue.url,
  }
}

/** What Lambda's event source does: receives ten, calls the handler, deletes what it did not name as failed. */
async function drainByLambda(stack: BenchStack): Promise<void> {
  const client = openQueue(queueEnv(stack))
  for (;;) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: stack.queue.url, MaxNumberOfMessages: 10 }),
    )
    if (Messages.length === 0) return
    const Records = Messages.map(({ MessageId = '', Body = '' }) => ({ messageId: MessageId, body: Body }))
    const { batchItemFailures } = await handler({ Records }, undefined, { ...stack.env, BASE_URL: stack.baseUrl })
    const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier))
    await client.send(
      new DeleteMessageBatchCommand({
        QueueUrl: stack.queue.url,
        Entries: Messages.filter(({ MessageId }) => !failed.has(MessageId ?? '')).map((message, index) => ({
          Id: String(index),
          ReceiptHandle: message.ReceiptHandle,
        })),
      }),
    )
  }
}
