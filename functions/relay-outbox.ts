import { attempt, type Failures, throwFailures } from '../lib/batches.ts'
import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { type ChannelsEnv, openChannels } from '../lib/notifications/channels.ts'
import type { OutboxMessage, RelayMessage, WebhookWake } from '../lib/notifications/outbox.ts'
import { relayOutbox } from '../lib/notifications/relay.ts'
import { relayWebhooks } from '../lib/notifications/webhook-relay.ts'

const relayMilliseconds = 45_000

/** Scheduled: sends outbox messages that a function or the queue failed to deliver, and wakes due webhooks. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & ChannelsEnv): Promise<void> {
    const db = openDatabase(env)
    const channels = openChannels(env)
    const failures: Failures = new Map()
    const deadline = Date.now() + relayMilliseconds
    const sent = await attempt(failures, 'notifications', () => relayOutbox(db, channels, deadline), 0)
    const woken = await attempt(failures, 'webhooks', () => relayWebhooks(db, channels.wakes), 0)
    if (sent + woken > 0) console.log(JSON.stringify({ function: 'relay-outbox', sent, woken }))
    throwFailures('relay-outbox', failures)
  },
}

/**
 * Entry point of the service binding `RELAY`, which only the service's own functions can reach. It sends messages that a function has just
 * written. So no other function needs the queue's client. Body: `RelayMessage[]`.
 */
export const soon = {
  async fetch(request: Request, env: ChannelsEnv): Promise<Response> {
    // oxlint-disable-next-line no-unsafe-type-assertion -- only the service's own functions are bound to this
    const messages = (await request.json()) as RelayMessage[]
    const wakes = messages.filter((message): message is WebhookWake => 'due_at' in message)
    const rows = messages.filter((message): message is OutboxMessage => 'outbox_id' in message)
    const channels = openChannels(env)
    const [sent, woken] = await Promise.all([channels.send(rows), channels.wakes.send(wakes)])
    return Response.json({ sent: sent.length + woken.length })
  },
}
