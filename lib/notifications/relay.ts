import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely, now } from '../kysely.ts'
import type { Channels } from './channels.ts'
import { rowsOf } from './outbox.ts'

/** The function that wrote a row has sent it by then, or has failed to. */
const sendAfterSeconds = 10
/** A message that the queue took is in it or among its dead letters, so it is sent again seldom. */
const resendAfterMinutes = 15

/**
 * Sends the outbox rows that are not delivered and that nobody has sent, or not for long, oldest first, until none is left, no
 * more is taken or `deadline` (ms since 1970) is past. Returns how many were sent. What is sent twice is delivered once.
 */
export async function relayOutbox(db: Database, { tell }: Pick<Channels, 'tell'>, deadline: number): Promise<number> {
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
    const sent = await tell(messages)
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
