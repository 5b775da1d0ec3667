import { sql } from 'kysely'
import type { Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { Wakes } from './webhook-wake-ups.ts'
import { lookAheadSeconds } from './webhook-delivery.ts'

const maxWakes = 10_000

/**
 * Wakes the webhook consumer for attempts that become due before or shortly after the next run, and for earlier attempts that have no
 * wake-up. Sends one message for each program and minute, which is due at the end of the minute. Returns the number of sent messages.
 */
export async function relayWebhooks(db: Database, wakes: Wakes): Promise<number> {
  const due = await db.query(
    kysely
      .selectFrom('webhook_deliveries as d')
      .innerJoin('webhook_endpoints as e', (join) =>
        join.onRef('e.program_id', '=', 'd.program_id').onRef('e.id', '=', 'd.endpoint_id'),
      )
      .select([
        'd.program_id',
        sql<number>`case when greatest(d.next_attempt_at, e.rests_until) <= now() then 0
          else extract(epoch from date_trunc('minute', greatest(d.next_attempt_at, e.rests_until)))::integer + 60 end`.as(
          'due_at',
        ),
      ])
      .where('d.next_attempt_at', '<', sql<Date>`now() + make_interval(secs => ${lookAheadSeconds})`)
      .where((eb) => eb.or([eb('d.claimed_until', 'is', null), eb('d.claimed_until', '<', sql<Date>`now()`)]))
      .where('e.disabled_at', 'is', null)
      .where('e.deleted_at', 'is', null)
      .distinct()
      .orderBy('due_at')
      .limit(maxWakes),
  )
  return (await wakes.send(due)).length
}
