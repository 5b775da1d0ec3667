import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import type { Channels } from './channels.ts'
import { rowsOf } from './outbox.ts'

/** After this time, the function that wrote a row has either sent it or failed. */
const sendAfterSeconds = 10
/** An accepted message is in the queue or among its dead letters, so the relay rarely sends it again. */
const resendAfterMinutes = 15

/**
 * Sends undelivered outbox rows that nobody sent recently, oldest first. Stops when none is left, when the queue refuses some, or when `deadline`
 * (ms since 1970) has passed. Returns the number of sent rows. A row that is sent twice is delivered once.
 */
export async function relayOutbox(db: Database, { send }: Pick<Channels, 'send'>, deadline: number): Promise<number> {
  let total = 0
  while (Date.now() < deadline) {
    const messages = await db.query(
      kysely
        .selectFrom('outbox')
        .select(['program_id', 'id as outbox_id'])
        .where('delivered_at', 'is', null)
        .where('created_at', '<', sql<Date>`now() - make_interval(secs => ${sendAfterSeconds})`)
        .where((eb) =>
          eb.or([
            eb('sent_at', 'is', null),
            eb('sent_at', '<', sql<Date>`now() - make_interval(mins => ${resendAfterMinutes})`),
          ]),
        )
        .orderBy('created_at')
        .orderBy('program_id')
        .orderBy('id')
        .limit(500),
    )
    if (messages.length === 0) break
    const sent = await send(messages)
    await db.query(
      kysely
        .updateTable('outbox')
        .from(rowsOf(sent))
        .set({ sent_at: now })
        .whereRef('outbox.program_id', '=', 'named.program_id')
        .whereRef('outbox.id', '=', 'named.id'),
    )
    total += sent.length
    if (sent.length < messages.length) break
  }
  return total
}
