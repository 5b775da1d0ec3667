import { type InferResult, sql } from 'kysely'
import type { Stripe } from 'stripe'
import { call, type Database } from '../database.ts'
import { kysely } from '../kysely.ts'
import type { RelayMessage } from '../notifications/outbox.ts'
import { applyEvent } from './apply-event.ts'
import { askProcessor } from './ask-processor.ts'
import { type LoggedEvent, loggedEventColumns } from './webhook-events.ts'

/**
 * Applies due parked events, longest waiting first, optionally only for `accountId`. An event is due if its account is connected again, if
 * its customer is now known, or if the processor must convert its refund or dispute to another currency. A payment is also due after an
 * hour without a session, or after a day without an explanation. Each event has its own transaction, and applying it twice is safe. A
 * failed event waits for the next run. Returns the number of events that are no longer waiting, and the notifications to send.
 */
export async function applyParkedEvents(
  db: Database,
  stripe: Stripe,
  { limit, accountId }: { limit: number; accountId?: string },
): Promise<{ applied: number; failed: number; outbox: RelayMessage[] }> {
  const [, events] = await db.batch([
    call('park_unexplained_payments', { of_account_id: accountId ?? null, at_most: limit }),
    dueEvents(limit, accountId),
  ])
  const done = { applied: 0, failed: 0, outbox: [] as RelayMessage[] }
  for (const event of events) {
    try {
      const { outbox } = await applyEvent(db, askProcessor(stripe), event)
      done.applied += 1
      done.outbox.push(...outbox)
    } catch (error) {
      done.failed += 1
      const name = error instanceof Error ? error.name : typeof error
      console.error(JSON.stringify({ error: 'parked_event_failed', event_id: event.event_id, name }))
    }
  }
  return done
}

function dueEvents(limit: number, accountId: string | undefined) {
  return kysely
    .selectFrom('processor_events as e')
    .select(loggedEventColumns)
    .where('e.waits_for', 'is not', null)
    .where((eb) =>
      eb.or([
        eb('e.waits_for', 'in', ['conversion', 'buyer']),
        eb.and([
          eb('e.waits_for', '=', 'session'),
          eb('e.event_created_at', '<', sql<Date>`now() - interval '1 hour'`),
        ]),
        eb.and([
          eb('e.waits_for', '=', 'connection'),
          sql<boolean>`exists (select from connected_programs(e.account_id) p where p.id = coalesce(e.program_id, p.id))`,
        ]),
      ]),
    )
    .$if(accountId !== undefined, (query) => query.where('e.account_id', '=', accountId ?? ''))
    .orderBy('e.received_at')
    .limit(limit)
    .$castTo<LoggedEvent>()
}

export type WaitingEvents = InferResult<ReturnType<typeof waitingEvents>>[number]

/**
 * Counts the events that wait until a program's account is connected again, and returns the time of the oldest. Events of a connected
 * account only wait until the next run of `applyParkedEvents`.
 */
export function waitingEvents(programId: number) {
  return kysely
    .selectFrom('processor_events as e')
    .innerJoin('programs as p', (join) => join.on('e.account_id', '=', sql<string>`any (accounts_of(p))`))
    .select((eb) => [
      'e.account_id',
      eb.cast<number>(eb.fn.countAll(), 'bigint').as('events'),
      sql<Date>`min(${eb.ref('e.received_at')})`.as('oldest_at'),
    ])
    .where('p.id', '=', programId)
    .where('e.waits_for', '=', 'connection')
    .where((eb) => eb.or([eb('e.program_id', 'is', null), eb('e.program_id', '=', programId)]))
    .groupBy('e.account_id')
    .orderBy('e.account_id')
}
