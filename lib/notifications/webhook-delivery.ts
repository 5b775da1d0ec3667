import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs'
import * as z from 'zod/mini'
import { call, type Database, retryOnce } from '../database.ts'
import type { DatabaseFunctions } from '../schema.ts'
import { messagesAbout, type WebhookWake } from './outbox.ts'
import type { AddressEnv } from './public-address.ts'
import { inCalls, sendToQueue } from './queue.ts'
import { sendWebhook } from './webhook-request.ts'
import { webhookHeaders, type WebhookSecretEnv } from './webhook-secrets.ts'
import { webhookBody, webhookId } from './webhook-types.ts'

const wakeMessage = z.object({ program_id: z.int().check(z.positive()), due_at: z.number() })

/** What a message of the webhooks' queue says, or undefined where it is none of ours. */
export function parseWake(body: string | undefined): WebhookWake | undefined {
  try {
    return wakeMessage.parse(JSON.parse(body ?? ''))
  } catch {
    return undefined
  }
}

/** SQS holds a message back for 15 minutes at most; what is due later is sent on when it comes. */
const longestDelaySeconds = 900
/** What is due later than this, the relay sends, which looks this far ahead twice an hour. */
export const lookAheadSeconds = 35 * 60

/** Puts wakes into the queue so that each comes when its program has something due, or before. */
export async function sendWakes(queue: SQSClient, queueUrl: string, wakes: WebhookWake[]): Promise<WebhookWake[]> {
  const seconds = Date.now() / 1000
  return await sendToQueue(queue, queueUrl, wakes, ({ due_at }) =>
    Math.min(Math.max(Math.ceil(due_at - seconds), 0), longestDelaySeconds),
  )
}

/** A Worker opens six connections at once: four for endpoints, one for the queue and one for the database. */
const endpointsAtOnce = 4
/** How long what is due waits for a connection of the consumer that knows of it. */
const patienceMilliseconds = 250
/** How long the queue is asked at a time where nothing else is to be done. */
const idleWaitSeconds = 20
/** Longer than claims stand, so that what a consumer left undone when it ended can be claimed by whom the message wakes again. */
const visibilitySeconds = 60

type Claimed = DatabaseFunctions['claim_webhooks']['row'] & {
  program_id: number
  endpoint_id: number
  message_id: number
}

/** What was claimed together: the messages that led to it are deleted once each of its tries is recorded. */
interface Round {
  messages: Message[]
  open: number
}

interface Attempt {
  round: Round
  row: object
  isTaken: boolean
}

export interface WebhookConsumer {
  db: Database
  queue: SQSClient
  /** The webhooks' queue, and that of the notifications, by which an owner learns that an endpoint was turned off. */
  queueUrl: string
  notificationsUrl: string
  env: AddressEnv & WebhookSecretEnv
}

/** How long a consumer works: until `deadline` (ms since 1970), and where it does not wait for more, no longer than there is something. */
export interface ConsumerTerm {
  deadline: number
  waits: boolean
  /** Is called where all connections are taken, and brings another consumer; the promise ends with it. */
  onFull?: () => Promise<unknown>
}

/**
 * Delivers what is due to the programs that messages name, four requests at once, and records tries as they end: one that hangs holds up
 * none that comes after it. Returns how many tries were taken by their endpoints and how many failed. Where the database or the queue
 * fails, it ends what is under way and throws; what was not recorded is sent again, under the same id.
 */
export async function deliverWebhooks(
  consumer: WebhookConsumer,
  { deadline, waits, onFull }: ConsumerTerm,
): Promise<{ delivered: number; failed: number }> {
  const { db, queue, queueUrl } = consumer
  const figures = { delivered: 0, failed: 0 }
  /** Programs to look at, each with the messages that named it. */
  let waiting = new Map<number, Message[]>()
  let free = endpointsAtOnce
  let isEmpty = false
  const ended: Attempt[] = []
  const done: Message[] = []
  const running = new Map<string, Promise<void>>()
  let failure: unknown
  let attempts = 0

  /** Runs one work of each name at a time. */
  function start(name: string, work: () => Promise<void>): void {
    if (running.has(name)) return
    const task = work()
      .catch((error: unknown) => void (failure ??= error))
      .finally(() => running.delete(name))
    running.set(name, task)
  }

  const look = (programId: number, messages: Message[]) =>
    waiting.set(programId, [...(waiting.get(programId) ?? []), ...messages])

  async function receive(): Promise<void> {
    const isIdle = running.size === 0
    // No more than can be begun at once: the rest is for others.
    const messages = await receiveMessages(queue, queueUrl, free, waits && isIdle ? idleWaitSeconds : 1)
    isEmpty = messages.length === 0 && isIdle
    const later: { wake: WebhookWake; message: Message }[] = []
    for (const message of messages) {
      const wake = parseWake(message.Body)
      // One that is none of ours comes again until the queue drops it.
      if (!wake) continue
      if (wake.due_at * 1000 > Date.now()) later.push({ wake, message })
      else look(wake.program_id, [message])
    }
    if (later.length === 0) return
    const wakes = later.map(({ wake }) => wake)
    const sent = await sendWakes(queue, queueUrl, wakes)
    done.push(...later.filter(({ wake }) => sent.includes(wake)).map(({ message }) => message))
  }

  async function claim(): Promise<void> {
    const programs = waiting
    const atMost = free
    waiting = new Map()
    free -= atMost
    const claimed = await claimDue(db, [...programs.keys()], atMost)
    free += atMost - claimed.length
    const round = { messages: [...programs.values()].flat(), open: claimed.length }
    if (claimed.length === 0) done.push(...round.messages)
    // Where as many were due as were asked for, there may be more.
    if (claimed.length === atMost) for (const id of programs.keys()) look(id, [])
    for (const delivery of claimed) start(`attempt ${(attempts += 1)}`, () => attempt(delivery, round))
  }

  async function attempt(delivery: Claimed, round: Round): Promise<void> {
    const { program_id, endpoint_id, message_id } = delivery
    const made = await attemptDelivery(consumer, delivery)
    const isTaken = made.status !== null && made.status >= 200 && made.status < 300
    ended.push({ round, isTaken, row: { program_id, endpoint_id, message_id, ...made, is_taken: isTaken } })
    free += 1
  }

  async function record(): Promise<void> {
    const tries = ended.splice(0)
    const statement = call('record_webhook_attempts', { attempts: JSON.stringify(tries.map(({ row }) => row)) })
    const programs = await db.query(statement)
    for (const { round, isTaken } of tries) {
      figures[isTaken ? 'delivered' : 'failed'] += 1
      round.open -= 1
      if (round.open === 0) done.push(...round.messages)
    }
    const wakes: WebhookWake[] = []
    for (const { program_id, next_at } of programs) {
      if (program_id === null || next_at === null) continue
      const seconds = (next_at.getTime() - Date.now()) / 1000
      if (seconds <= 0) look(program_id, [])
      else if (seconds <= lookAheadSeconds) wakes.push({ program_id, due_at: next_at.getTime() / 1000 })
    }
    if (wakes.length > 0) await sendWakes(queue, queueUrl, wakes)
    const told = programs.flatMap(({ program_id, outbox_ids }) => messagesAbout({ program_id, outbox_ids }))
    if (told.length > 0) await sendToQueue(queue, consumer.notificationsUrl, told)
  }

  /** What cannot be begun soon goes back into the queue, where another consumer finds it. */
  async function giveBack(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, patienceMilliseconds))
    if (free > 0) return
    const programs = waiting
    waiting = new Map()
    await sendWakes(queue, queueUrl, wakesNow(programs))
    done.push(...[...programs.values()].flat())
  }

  async function finish(): Promise<void> {
    for (const batch of inCalls(done.splice(0))) await deleteMessages(queue, queueUrl, batch)
  }

  for (;;) {
    if (ended.length > 0) start('record', record)
    if (done.length > 0) start('finish', finish)
    const goesOn = failure === undefined && Date.now() < deadline
    if (goesOn && waiting.size > 0 && free > 0) start('claim', claim)
    const receives = goesOn && (waits || !isEmpty)
    if (receives && waiting.size === 0 && free > 0) start('receive', receive)
    if (goesOn && free === 0 && waiting.size > 0 && onFull) start('give back', giveBack)
    if (receives && free === 0 && onFull) start('another', async () => void (await onFull()))
    if (running.size === 0) break
    await Promise.race(running.values())
  }
  if (failure !== undefined) throw failure
  if (waiting.size > 0) await sendWakes(queue, queueUrl, wakesNow(waiting))
  return figures
}

const wakesNow = (programs: Map<number, unknown>): WebhookWake[] =>
  Array.from(programs.keys(), (program_id) => ({ program_id, due_at: 0 }))

async function attemptDelivery({ env }: WebhookConsumer, delivery: Claimed) {
  const { url, type, data, created_at } = delivery
  const { program_id, endpoint_id, message_id, secret_number, has_previous_secret } = delivery
  if (url === null || type === null || created_at === null) throw new Error('A claim without its message.')
  const body = webhookBody({ message_id, type, data, created_at })
  const secret = {
    program_id,
    endpoint_id,
    secret_number: secret_number ?? 1,
    has_previous_secret: has_previous_secret ?? false,
  }
  return await sendWebhook(url, await webhookHeaders(env, secret, webhookId(message_id), body), body, env)
}

async function claimDue(db: Database, programIds: number[], atMost: number): Promise<Claimed[]> {
  const statement = call('claim_webhooks', { program_ids: programIds, at_most: atMost })
  const rows = await retryOnce(() => db.query(statement))
  return rows.flatMap((row) => {
    const { program_id, endpoint_id, message_id } = row
    return program_id === null || endpoint_id === null || message_id === null
      ? []
      : [{ ...row, program_id, endpoint_id, message_id }]
  })
}

async function receiveMessages(
  queue: SQSClient,
  queueUrl: string,
  atMost: number,
  waitSeconds: number,
): Promise<Message[]> {
  const { Messages: messages = [] } = await queue.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: atMost,
      VisibilityTimeout: visibilitySeconds,
      WaitTimeSeconds: waitSeconds,
    }),
  )
  return messages
}

async function deleteMessages(queue: SQSClient, queueUrl: string, messages: Message[]): Promise<void> {
  await queue.send(
    new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: messages.map((message, index) => ({ Id: String(index), ReceiptHandle: message.ReceiptHandle })),
    }),
  )
}
