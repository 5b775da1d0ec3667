import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { type OutboxMessage } from '../lib/notifications/outbox.ts'
import { openQueue, type QueueEnv, sendToQueue } from '../lib/notifications/queue.ts'
import { relayOutbox } from '../lib/notifications/relay.ts'

let opened: { env: QueueEnv; queue: ReturnType<typeof openQueue> } | undefined

/** The isolate's client: to make one costs twice as much as to send with it. */
function queueOf(env: QueueEnv): ReturnType<typeof openQueue> {
  if (opened?.env !== env) opened = { env, queue: openQueue(env) }
  return opened.queue
}

const relayMilliseconds = 45_000

/** Scheduled: sends what is in the outbox and was not delivered, after a function or the queue failed. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & QueueEnv): Promise<void> {
    const sent = await relayOutbox(openDatabase(env), queueOf(env), env.QUEUE_URL, Date.now() + relayMilliseconds)
    if (sent > 0) console.log(JSON.stringify({ function: 'relay-outbox', sent }))
  },
}

/**
 * Entry point of the service binding `RELAY`, which nothing outside the service reaches: sends the messages that a function has
 * just written, so that only this function carries the queue's client. Body: `OutboxMessage[]`.
 */
export const soon = {
  async fetch(request: Request, env: QueueEnv): Promise<Response> {
    // oxlint-disable-next-line no-unsafe-type-assertion -- only the service's own functions are bound to this
    const messages = (await request.json()) as OutboxMessage[]
    const sent = await sendToQueue(queueOf(env), env.QUEUE_URL, messages)
    return Response.json({ sent: sent.length })
  },
}
