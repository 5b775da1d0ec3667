import { setTimeout as sleep } from 'node:timers/promises'
import type { Channels } from '../notifications/channels.ts'
import type { OutboxMessage, WebhookWake } from '../notifications/outbox.ts'
import type { Wakes } from '../notifications/webhook-wake-ups.ts'

/** The consumer of notifications, with a queue's interface. Returns the messages that failed. */
type Consumer = (event: {
  Records: { messageId: string; body: string }[]
}) => Promise<{ batchItemFailures: { itemIdentifier: string }[] }>

export interface OwnChannels extends Channels {
  /** The number of programs with a webhook delivery that is due now or later. */
  waiting(): number
  /** Resolves when a delivery is due. */
  due(): Promise<void>
  /** Finishes current work. Another process or the next start finds the rest in the database. */
  stop(): void
}

/**
 * Replaces the queues in a process that runs the consumers itself. Everything in it is also in the database, so the next run
 * of `relay-outbox` finds the messages of a lost process.
 */
export function openChannels(consume: Consumer): OwnChannels {
  const send = gathering(consume)
  const programs = new Map<number, number>()
  let isOver = false
  let woken = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined

  /** Milliseconds until the first delivery is due. */
  const untilDue = () => Math.min(...programs.values()) * 1000 - Date.now()

  function wake(): void {
    clearTimeout(timer)
    if (programs.size === 0) return
    const wait = untilDue()
    // Timers are limited to 24 days, and one extra check per hour costs little.
    if (wait > 0) timer = setTimeout(wake, Math.min(wait, 3_600_000)).unref()
    else {
      woken.resolve()
      woken = Promise.withResolvers()
    }
  }

  function takeDue(atMost: number): WebhookWake[] {
    const now = Date.now() / 1000
    const due = [...programs].filter(([, due_at]) => due_at <= now).slice(0, atMost)
    for (const [programId] of due) programs.delete(programId)
    return due.map(([program_id, due_at]) => ({ program_id, due_at }))
  }

  const wakes: Wakes = {
    send(sent) {
      for (const { program_id, due_at } of sent)
        programs.set(program_id, Math.min(due_at, programs.get(program_id) ?? Infinity))
      wake()
      return Promise.resolve(sent)
    },
    async receive(atMost, waitSeconds) {
      const found = takeDue(atMost)
      if (found.length > 0) return found.map((one) => ({ wake: one }))
      const late = Promise.withResolvers<void>()
      const waits = setTimeout(late.resolve, waitSeconds * 1000)
      await Promise.race([woken.promise, late.promise])
      clearTimeout(waits)
      return takeDue(atMost).map((one) => ({ wake: one }))
    },
    remove: () => Promise.resolve(),
    isOver: () => isOver,
  }

  return {
    send,
    wakes,
    readFigures: () => Promise.resolve({ queue_messages: programs.size, dead_letters: 0 }),
    waiting: () => programs.size,
    due: () => (programs.size > 0 && untilDue() <= 0 ? Promise.resolve() : woken.promise),
    stop() {
      isOver = true
      clearTimeout(timer)
      woken.resolve()
    },
  }
}

/**
 * This delay is too short to matter. Under load it saves most of the cost, because ten rows in one transaction cost little more than one
 * row.
 */
const gatherMilliseconds = 50

/** Collects messages for a moment and passes them to the consumer in one call. Later messages wait for the next call. */
function gathering(consume: Consumer): Channels['send'] {
  let gathered: { messages: OutboxMessage[]; consumed: Promise<Set<OutboxMessage>> } | undefined
  let before: Promise<unknown> = Promise.resolve()

  async function consumeGathered(): Promise<Set<OutboxMessage>> {
    await Promise.all([before, sleep(gatherMilliseconds)])
    const messages = gathered?.messages ?? []
    gathered = undefined
    const Records = messages.map((message, index) => ({ messageId: String(index), body: JSON.stringify(message) }))
    const { batchItemFailures } = await consume({ Records })
    const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => Number(itemIdentifier)))
    return new Set(messages.filter((_, index) => !failed.has(index)))
  }

  return async (messages) => {
    if (messages.length === 0) return []
    if (!gathered) {
      gathered = { messages: [], consumed: consumeGathered() }
      before = gathered.consumed.catch(() => {})
    }
    gathered.messages.push(...messages)
    const consumed = await gathered.consumed
    return messages.filter((message) => consumed.has(message))
  }
}
