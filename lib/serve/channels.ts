import { setTimeout as sleep } from 'node:timers/promises'
import type { Channels } from '../notifications/channels.ts'
import type { OutboxMessage, WebhookWake } from '../notifications/outbox.ts'
import type { Wakes } from '../notifications/webhook-wake-ups.ts'

/** The consumer of what is to be told, as a queue calls it: it names in its answer what it could not tell. */
type Consumer = (event: {
  Records: { messageId: string; body: string }[]
}) => Promise<{ batchItemFailures: { itemIdentifier: string }[] }>

export interface OwnChannels extends Channels {
  /** Programs that wait to be looked at for webhooks, those due later too. */
  waiting(): number
  /** Resolves once something is due. */
  due(): Promise<void>
  /** What is under way is finished. What is not begun, another process or the next one finds in the database. */
  stop(): void
}

/**
 * What takes the place of queues in a process that has the consumers beside it. It holds nothing that the database does not: what is
 * lost with the process is found in the outbox and among the webhooks' deliveries by the next run of `relay-outbox`.
 */
export function openChannels(consume: Consumer): OwnChannels {
  const tell = gathering(consume)
  const programs = new Map<number, number>()
  let isOver = false
  let woken = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined

  /** Milliseconds until something is due. */
  const untilDue = () => Math.min(...programs.values()) * 1000 - Date.now()

  function wake(): void {
    clearTimeout(timer)
    if (programs.size === 0) return
    const wait = untilDue()
    // A timer takes 24 days at most, and an hour is no more than another look.
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
    tell,
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

/** Much less than a person notices, and under load most of what telling costs is saved: a transaction for ten rows is hardly more than one for one. */
const gatherMilliseconds = 50

/** Has what comes within a moment told in one call of the consumer, and what comes meanwhile in the next. */
function gathering(consume: Consumer): Channels['tell'] {
  let gathered: { messages: OutboxMessage[]; told: Promise<Set<OutboxMessage>> } | undefined
  let before: Promise<unknown> = Promise.resolve()

  async function tellGathered(): Promise<Set<OutboxMessage>> {
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
      gathered = { messages: [], told: tellGathered() }
      before = gathered.told.catch(() => {})
    }
    gathered.messages.push(...messages)
    const told = await gathered.told
    return messages.filter((message) => told.has(message))
  }
}
