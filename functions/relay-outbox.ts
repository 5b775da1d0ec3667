import { type DatabaseEnv, openDatabase } from '../lib/database.ts'
import { openQueue, type QueueEnv, relayOutbox } from '../lib/outbox.ts'

/** Scheduled: sends what is in the outbox and was not delivered, after a function or the queue failed. */
export default {
  async scheduled(_event: unknown, env: DatabaseEnv & QueueEnv): Promise<void> {
    const sent = await relayOutbox(openDatabase(env), openQueue(env), env.QUEUE_URL)
    if (sent > 0) console.log(JSON.stringify({ function: 'relay-outbox', sent }))
  },
}
