import { sql } from 'kysely'
import type { Stripe } from 'stripe'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely, now } from '../kysely.ts'
import { applyEvent, type AppliedEvent } from './apply-event.ts'
import type { ProcessorEvent } from './facts.ts'

/** An event of the processor and what became of it. */
export interface Delivery {
  event_id: string
  event_type: string
  livemode: boolean
  outcome: AppliedEvent['outcome']
  /** Why it is so, where that is not plain. */
  reason: string | null
  /** How often it was delivered or replayed. */
  deliveries: number
  event_created_at: Date
  received_at: Date
  last_received_at: Date
}

/** Events of this program, and those of its account that named no program. */
const deliveriesOf = (programId: number) => sql`processor_events e join programs p on p.id = ${programId}
  and (e.program_id = p.id or (e.program_id is null and e.account_id = p.processor_account_id))`

/** The program's deliveries, newest first, from the one after `before` (its event id) on. They are kept for 90 days. */
export async function listDeliveries(
  db: Database,
  programId: number,
  { limit, before }: { limit: number; before: string | undefined },
): Promise<Delivery[]> {
  return await db.query(sql<Delivery>`select e.event_id, e.event_type, e.livemode, e.outcome, e.reason, e.deliveries, e.event_created_at,
  e.received_at, e.last_received_at
from ${deliveriesOf(programId)}
where ${before ?? null}::text is null or (e.received_at, e.event_id) < (
  select last.received_at, last.event_id from processor_events last where last.account_id = e.account_id and last.event_id = ${before ?? null}
)
order by e.received_at desc, e.event_id desc limit ${limit}`)
}

/**
 * Applies an event of the log again, as it would be if Stripe delivered it again: what was recorded changes nothing, what could not
 * be recorded may now be. Refuses with `not_found`.
 */
export async function replayDelivery(
  db: Database,
  stripe: Stripe,
  programId: number,
  eventId: string,
): Promise<AppliedEvent> {
  const [row] = await db.query(
    sql<ProcessorEvent>`select e.event_id, e.event_type, e.account_id, e.livemode, e.fact,
  to_char(e.event_created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as event_created_at
from ${deliveriesOf(programId)} where e.event_id = ${eventId}`,
  )
  if (!row) throw new ApiError('not_found', 'There is no such delivery. Deliveries are kept for 90 days.')
  return await applyEvent(db, stripe, row)
}

const end = sql<Date>`now() - interval '90 days'`

/**
 * Deletes what is older than 90 days: webhook events, and refunds and unpaid sessions whose sale did not come in that time; `limit`
 * of each at most. What became part of a sale stays. Returns how many rows went, and whether more wait.
 */
export async function deleteOldWebhookEvents(
  db: Database,
  limit: number,
): Promise<{ webhook_events: number; reversals: number; sessions: number; more: boolean }> {
  const [events, reversals, sessions] = await db.batch([
    kysely
      .deleteFrom('processor_events')
      .where((eb) => {
        const old = eb.selectFrom('processor_events').select(['account_id', 'event_id']).where('received_at', '<', end)
        return eb(eb.refTuple('account_id', 'event_id'), 'in', old.limit(limit).$asTuple('account_id', 'event_id'))
      })
      .returning('event_id'),
    kysely
      .deleteFrom('processor_reversals')
      .where((eb) => {
        const old = eb
          .selectFrom('processor_reversals')
          .select(['account_id', 'reversal_id'])
          .where('created_at', '<', end)
        return eb(
          eb.refTuple('account_id', 'reversal_id'),
          'in',
          old.limit(limit).$asTuple('account_id', 'reversal_id'),
        )
      })
      .returning('reversal_id'),
    kysely
      .deleteFrom('processor_sessions')
      .where((eb) => {
        const old = eb
          .selectFrom('processor_sessions')
          .select(['program_id', 'session_id'])
          .where('created_at', '<', end)
        return eb(eb.refTuple('program_id', 'session_id'), 'in', old.limit(limit).$asTuple('program_id', 'session_id'))
      })
      .returning('session_id'),
    kysely.deleteFrom('processor_connect_states').where('expires_at', '<', now),
  ])
  const counts = { webhook_events: events.length, reversals: reversals.length, sessions: sessions.length }
  return { ...counts, more: Object.values(counts).includes(limit) }
}
