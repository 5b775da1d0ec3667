import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import type { OutboxMessage, RelayMessage, WebhookWake } from '../lib/notifications/outbox.ts'
import { openQueue, type QueueEnv, sendToQueue, type WebhookQueueEnv } from '../lib/notifications/queue.ts'
import { relayOutbox } from '../lib/notifications/relay.ts'
import { sendWakes } from '../lib/notifications/webhook-delivery.ts'
import { relayWebhooks } from '../lib/notifications/webhook-relay.ts'

let opened: { env: QueueEnv; queue: ReturnType<typeof openQueue> } | undefined

/** The isolate's client: to make one costs twice as much as to send with it. */
function queueOf(env: QueueEnv): ReturnType<typeof openQueue> {
  if (opened?.env !== env) opened = { env, queue: openQueue(env) }
  return opened.queue
}

const relayMilliseconds = 45_000

/** Scheduled: sends what is in the outbox and was not delivered, after a function or the queue failed; and wakes webhooks that are due. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & QueueEnv & WebhookQueueEnv): Promise<void> {
    const db = openDatabase(env)
    const sent = await relayOutbox(db, queueOf(env), env.QUEUE_URL, Date.now() + relayMilliseconds)
    const woken = await relayWebhooks(db, queueOf(env), env.WEBHOOK_QUEUE_URL)
    if (sent + woken > 0) console.log(JSON.stringify({ function: 'relay-outbox', sent, woken }))
  },
}

/**
 * Entry point of the service binding `RELAY`, which nothing outside the service reaches: sends the messages that a function has
 * just written, so that only this function carries the queue's client. Body: `RelayMessage[]`.
 */
export const soon = {
  async fetch(request: Request, env: QueueEnv & WebhookQueueEnv): Promise<Response> {
    // oxlint-disable-next-line no-unsafe-type-assertion -- only the service's own functions are bound to this
    const messages = (await request.json()) as RelayMessage[]
    const wakes = messages.filter((message): message is WebhookWake => 'due_at' in message)
    const rows = messages.filter((message): message is OutboxMessage => 'outbox_id' in message)
    const [sent, woken] = await Promise.all([
      sendToQueue(queueOf(env), env.QUEUE_URL, rows),
      sendWakes(queueOf(env), env.WEBHOOK_QUEUE_URL, wakes),
    ])
    return Response.json({ sent: sent.length + woken.length })
  },
}
