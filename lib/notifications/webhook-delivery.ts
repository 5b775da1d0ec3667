import { call, type Database, retryOnce } from '../database.ts'
import type { DatabaseFunctions } from '../schema.ts'
import type { Channels } from './channels.ts'
import { failingDays } from './failing-days.ts'
import { type OutboxMessage, type WebhookWake } from './outbox.ts'
import type { AddressEnv } from './public-address.ts'
import { postbackBody, postbackUrl, postbackValues } from './postbacks.ts'
import type { Wakes, Woken } from './webhook-wake-ups.ts'
import { sendWebhook } from './webhook-request.ts'
import { webhookHeaders, type WebhookSecretEnv } from './webhook-secrets.ts'
import { webhookBody, webhookId } from './webhook-types.ts'

/** The relay sends attempts that are due later than this. Twice an hour, it looks this far ahead. */
export const lookAheadSeconds = 35 * 60

/** A Worker can open six connections at once: four for endpoints, one for the queue and one for the database. */
const endpointsAtOnce = 4
/** How long a due program waits for a free connection of its consumer. */
const patienceMilliseconds = 250
/** How long one call waits for messages while the consumer is idle. */
const idleWaitSeconds = 20
type Claimed = DatabaseFunctions['claim_due_webhooks']['row'] & {
  program_id: number
  endpoint_id: number
  message_id: number
}

/** A program with an idle endpoint that didn't fit into a claim, and whether all such endpoints are slow. */
interface Left {
  program_id: number
  isSlow: boolean
}

/** Why the consumer checks a program: the messages about the program, and whether one of its attempts has ended and freed a place. */
interface Look {
  messages: Woken[]
  hasEnded: boolean
}

/** Deliveries that were claimed together. Their messages are deleted once every attempt is recorded. */
interface Round {
  messages: Woken[]
  open: number
}

interface Attempt {
  round: Round
  row: object
  isTaken: boolean
}

export interface WebhookConsumer {
  db: Database
  /** The wake-ups, and the channel that notifies an owner about a disabled endpoint. */
  channels: Pick<Channels, 'wakes' | 'send'>
  env: AddressEnv & WebhookSecretEnv
}

/**
 * How long a consumer works: until `deadline` (ms since 1970) or the end of its process. If `waits` is false, the consumer also stops when
 * there is nothing left to do.
 */
export interface ConsumerTerm {
  deadline: number
  waits: boolean
  /** Whether this consumer also calls slow endpoints. Otherwise, they wait for another consumer. */
  takesSlow: boolean
  /** Starts another consumer when all connections are busy. The promise is resolved when that consumer ends. */
  onFull?: () => Promise<unknown>
}

/**
 * Delivers the due webhooks of the programs in the messages, four requests at once, and records attempts as they end. A slow request does
 * not block later ones. Returns the numbers of delivered and failed attempts. If the database or the queue fails, finishes running attempts
 * and throws. Unrecorded attempts are sent again under the same id.
 */
export async function deliverWebhooks(
  consumer: WebhookConsumer,
  { deadline, waits, takesSlow, onFull }: ConsumerTerm,
): Promise<{ delivered: number; failed: number }> {
  const { db, channels } = consumer
  const { wakes }: { wakes: Wakes } = channels
  const figures = { delivered: 0, failed: 0 }
  // Many waiting slow endpoints must not keep a consumer busy that only calls fast ones.
  const laterSeconds = takesSlow ? 1 : 5
  /** Programs to check next. */
  let waiting = new Map<number, Look>()
  let free = endpointsAtOnce
  let isEmpty = false
  const ended: Attempt[] = []
  const done: Woken[] = []
  const running = new Map<string, Promise<void>>()
  let failure: unknown
  let attempts = 0

  /** Runs at most one task with each name at a time. */
  function start(name: string, work: () => Promise<void>): void {
    if (running.has(name)) return
    const task = work()
      .catch((error: unknown) => void (failure ??= error))
      .finally(() => running.delete(name))
    running.set(name, task)
  }

  function look(programId: number, why: Partial<Look>): void {
    const before = waiting.get(programId)
    waiting.set(programId, {
      messages: [...(before?.messages ?? []), ...(why.messages ?? [])],
      hasEnded: (before?.hasEnded ?? false) || (why.hasEnded ?? false),
    })
  }

  async function receive(): Promise<void> {
    const isIdle = running.size === 0
    // This claims only as many as can start at once. Other consumers claim the rest.
    const messages = await wakes.receive(free, waits && isIdle ? idleWaitSeconds : 1)
    isEmpty = messages.length === 0 && isIdle
    const later: { wake: WebhookWake; message: Woken }[] = []
    for (const message of messages) {
      const { wake } = message
      // The queue repeats messages from others until it drops them.
      if (!wake) continue
      if (wake.due_at * 1000 > Date.now()) later.push({ wake, message })
      else look(wake.program_id, { messages: [message] })
    }
    if (later.length === 0) return
    const sent = await wakes.send(later.map(({ wake }) => wake))
    done.push(...later.filter(({ wake }) => sent.includes(wake)).map(({ message }) => message))
  }

  async function claim(): Promise<void> {
    const programs = waiting
    const atMost = free
    waiting = new Map()
    free -= atMost
    const { claimed, left } = await claimDue(db, [...programs.keys()], atMost, takesSlow)
    free += atMost - claimed.length
    const round = { messages: messagesOf(programs), open: claimed.length }
    if (claimed.length === 0) done.push(...round.messages)
    // If the claim had room for more, the remaining programs have reached a limit. They are checked again later, and so are slow endpoints,
    // because other consumers may not take them.
    const isFull = claimed.length === atMost
    for (const { program_id, isSlow } of left) if (isFull && !isSlow) look(program_id, {})
    const later = left.filter(({ isSlow }) => !isFull || isSlow)
    if (later.length > 0)
      await wakes.send(later.map(({ program_id }) => ({ program_id, due_at: Date.now() / 1000 + laterSeconds })))
    // After a full claim, there may be more deliveries. The next claim prefers endpoints that respond, because a slow endpoint doesn't
    // get a second request.
    if (isFull) for (const [id, { hasEnded }] of programs) if (hasEnded) look(id, { hasEnded })
    for (const delivery of claimed) start(`attempt ${(attempts += 1)}`, () => attempt(delivery, round))
  }

  async function attempt(delivery: Claimed, round: Round): Promise<void> {
    const { program_id, endpoint_id, message_id } = delivery
    const result = await attemptDelivery(consumer, delivery)
    const isTaken = result.status !== null && result.status >= 200 && result.status < 300
    ended.push({ round, isTaken, row: { program_id, endpoint_id, message_id, ...result, is_taken: isTaken } })
    free += 1
  }

  async function record(): Promise<void> {
    const attempt_count = ended.splice(0)
    const statement = call('record_webhook_attempts', {
      attempts: JSON.stringify(attempt_count.map(({ row }) => row)),
      failing_days: failingDays,
    })
    const programs = await db.query(statement)
    for (const { round, isTaken } of attempt_count) {
      figures[isTaken ? 'delivered' : 'failed'] += 1
      round.open -= 1
      if (round.open === 0) done.push(...round.messages)
    }
    const due: WebhookWake[] = []
    for (const { program_id, next_at } of programs) {
      if (program_id === null || next_at === null) continue
      const seconds = (next_at.getTime() - Date.now()) / 1000
      if (seconds <= 0) look(program_id, { hasEnded: true })
      else if (seconds <= lookAheadSeconds) due.push({ program_id, due_at: next_at.getTime() / 1000 })
    }
    if (due.length > 0) await wakes.send(due)
    const notifications = programs.flatMap(({ program_id, outbox_ids }) =>
      program_id === null ? [] : (outbox_ids ?? []).map((outbox_id): OutboxMessage => ({ program_id, outbox_id })),
    )
    if (notifications.length > 0) await channels.send(notifications)
  }

  /** Returns waiting programs to the queue for another consumer if no connection becomes free soon. */
  async function giveBack(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, patienceMilliseconds))
    if (free > 0) return
    const programs = waiting
    waiting = new Map()
    await wakes.send(wakesNow(programs))
    done.push(...messagesOf(programs))
  }

  async function finish(): Promise<void> {
    await wakes.remove(done.splice(0))
  }

  for (;;) {
    if (ended.length > 0) start('record', record)
    if (done.length > 0) start('finish', finish)
    const continues = failure === undefined && Date.now() < deadline && !wakes.isOver?.()
    if (continues && waiting.size > 0 && free > 0) start('claim', claim)
    const receives = continues && (waits || !isEmpty)
    if (receives && waiting.size === 0 && free > 0) start('receive', receive)
    if (continues && free === 0 && waiting.size > 0 && onFull) start('give back', giveBack)
    if (receives && free === 0 && onFull) start('another', async () => void (await onFull()))
    if (running.size === 0) break
    await Promise.race(running.values())
  }
  if (failure !== undefined) throw failure
  if (waiting.size > 0) await wakes.send(wakesNow(waiting))
  return figures
}

const messagesOf = (programs: Map<number, Look>): Woken[] => [...programs.values()].flatMap(({ messages }) => messages)

const wakesNow = (programs: Map<number, unknown>): WebhookWake[] =>
  Array.from(programs.keys(), (program_id) => ({ program_id, due_at: 0 }))

async function attemptDelivery({ env }: WebhookConsumer, delivery: Claimed) {
  const { url, type, data, created_at } = delivery
  const { program_id, endpoint_id, message_id, secret_number, has_previous_secret } = delivery
  if (url === null || type === null || created_at === null)
    throw new Error('The database returned a claim without its message.')
  const message = { message_id, type, data, created_at }
  const isPostback = delivery.partner_id !== null
  if (isPostback && delivery.method === 'GET') {
    const address = postbackUrl(url, postbackValues(env, program_id, message))
    return await sendWebhook({ url: address, method: 'GET', headers: {} }, env)
  }
  const body = isPostback ? postbackBody(env, program_id, message) : webhookBody(message)
  const secret = {
    program_id,
    endpoint_id,
    secret_number: secret_number ?? 1,
    has_previous_secret: has_previous_secret ?? false,
  }
  const headers = await webhookHeaders(env, secret, webhookId(message_id), body)
  return await sendWebhook({ url, method: 'POST', headers, body }, env)
}

/** Claims due deliveries. Also returns programs with an idle endpoint that didn't fit into the claim. */
async function claimDue(
  db: Database,
  programIds: number[],
  atMost: number,
  takesSlow: boolean,
): Promise<{ claimed: Claimed[]; left: Left[] }> {
  const statement = call('claim_due_webhooks', { program_ids: programIds, at_most: atMost, takes_slow: takesSlow })
  const rows = await retryOnce(() => db.query(statement))
  const claimed: Claimed[] = []
  const left: Left[] = []
  for (const row of rows) {
    const { program_id, endpoint_id, message_id } = row
    if (program_id === null) continue
    if (endpoint_id === null || message_id === null) left.push({ program_id, isSlow: row.is_slow ?? false })
    else claimed.push({ ...row, program_id, endpoint_id, message_id })
  }
  return { claimed, left }
}
