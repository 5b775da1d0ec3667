import { sql } from 'kysely'
import type { Stripe } from 'stripe'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
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

const daysKept = 90
const rowsPerRound = 5000

/**
 * Deletes deliveries after 90 days, and refunds and unpaid sessions whose sale did not come in that time. What became part of a sale
 * stays. Returns how many rows went.
 */
export async function forgetDeliveries(db: Database): Promise<number> {
  let total = 0
  for (;;) {
    const old = (column: string) =>
      sql`${sql.ref(column)} < now() - make_interval(days => ${daysKept}) limit ${rowsPerRound}`
    const [{ rows } = { rows: '0' }] = await db.query(sql<{ rows: string }>`with event as (
  delete from processor_events where (account_id, event_id) in (
    select account_id, event_id from processor_events where ${old('received_at')}
  ) returning 1
),
reversal as (
  delete from processor_reversals where (account_id, reversal_id) in (
    select account_id, reversal_id from processor_reversals where ${old('created_at')}
  ) returning 1
),
session as (
  delete from processor_sessions where (program_id, session_id) in (
    select program_id, session_id from processor_sessions where ${old('created_at')}
  ) returning 1
),
state as (delete from processor_connect_states where expires_at < now() returning 1)
select (select count(*) from event) + (select count(*) from reversal) + (select count(*) from session) + (select count(*) from state) as rows`)
    total += Number(rows)
    if (Number(rows) < rowsPerRound) return total
  }
}
