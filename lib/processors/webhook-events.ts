import { type Expression, type InferResult, sql } from 'kysely'
import type { Stripe } from 'stripe'
import { call, type Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { countedPart, countStatement, type Part, partOf } from '../keyset.ts'
import { kysely, now } from '../kysely.ts'
import { reasonText } from '../processor-reasons.ts'
import { keptSince, terms } from '../retention.ts'
import { applyEvent, type AppliedEvent } from './apply-event.ts'
import { emailHash } from '../tracking/customers.ts'
import type { WebhookEvent } from './facts.ts'
import { askProcessor } from './ask-processor.ts'
import { readReceiverOf } from './connections.ts'
import { readDelivery } from './read-delivery.ts'
import { readEvent } from './stripe/read-event.ts'
import { unseal } from './seal.ts'

/** A webhook event in the log and its outcome. */
export type ListedWebhookEvent = InferResult<ReturnType<typeof webhookEventsStatement>>[number]

/** The log columns that a replay needs. `fact` is never null. */
export type LoggedEvent = WebhookEvent
export const loggedEventColumns = [
  'e.event_id',
  'e.event_type',
  'e.account_id',
  'e.livemode',
  'e.event_created_at',
  'e.fact',
  sql<string | null>`e.payload::text`.as('payload'),
] as const

/**
 * Selects the events of this program, and the events of its account and its connections that have no program. For a former account, selects
 * only the events that are waiting until it is connected again.
 */
function webhookEventsOf(programId: number) {
  const connections = kysely
    .selectFrom('processor_connections')
    .select('account_id')
    .where('program_id', '=', programId)
  return kysely
    .selectFrom('processor_events as e')
    .innerJoin('programs as p', (join) =>
      join.on((eb) =>
        eb.or([
          eb('p.id', '=', eb.ref('e.program_id')),
          eb.and([
            eb('e.program_id', 'is', null),
            eb.or([
              eb('p.processor_account_id', '=', eb.ref('e.account_id')),
              // The subquery runs only once, so that Postgres can use the index to find the events.
              eb('e.account_id', '=', sql<string>`any (array(${connections}))`),
              eb.and([
                eb('p.processor_former_account_id', '=', eb.ref('e.account_id')),
                eb('e.waits_for', '=', 'connection'),
              ]),
            ]),
          ]),
        ]),
      ),
    )
    .where('p.id', '=', programId)
}

interface EventsPage extends Part<string> {
  /** True for live-mode events, false for test-mode events. */
  livemode: boolean
}

const receivedOf = (eventId: string) =>
  kysely
    .selectFrom('processor_events as last')
    .select('last.received_at')
    .where('last.account_id', '=', sql.ref<string>('e.account_id'))
    .where('last.event_id', '=', eventId)

function webhookEventsStatement(programId: number, { livemode, ...part }: EventsPage) {
  const events = webhookEventsOf(programId)
    .where((eb) => eb('e.livemode', '=', eb.lit(livemode)))
    .select([
      'e.event_id',
      'e.event_type',
      'e.livemode',
      'e.outcome',
      /** Explains an outcome that is not obvious. */
      'e.reason',
      /** The number of deliveries and replays. */
      'e.deliveries',
      'e.event_created_at',
      'e.received_at',
      'e.last_received_at',
      /** True if the event reports a purchase, a refund or a dispute. These have an explanation. */
      sql<boolean>`e.fact->>'kind' in ('purchase', 'reversals')`.as('is_explained'),
    ])
  const order = { ascending: false, value: { by: sql.ref('e.received_at'), of: receivedOf } }
  return partOf(events, sql.ref<string>('e.event_id'), part, order)
}

/** Lists the program's webhook events of one mode, newest first, with pages by event id. The log keeps events for 90 days. */
export async function listWebhookEvents(
  db: Database,
  programId: number,
  page: EventsPage,
): Promise<ListedWebhookEvent[]> {
  const events = await db.query(webhookEventsStatement(programId, page))
  return events.map((event) => ({ ...event, reason: reasonText(event.reason) }))
}

/** Counts the program's webhook events of one mode, up to 10,000. */
export const webhookEventTotals = (programId: number, { livemode }: { livemode: boolean }) =>
  countStatement(webhookEventsStatement(programId, { livemode, ...countedPart }))

export type DeliveryOfPayment = InferResult<ReturnType<typeof deliveriesOfPayment>>[number]

const deliveriesAtMost = 20

const fact = (path: string) => sql<string | null>`${sql.ref('e.fact')}#>>${sql.lit(path)}`

/** The id of the payment in a refund, a dispute or a payment of an invoice. */
const paymentOfReversal = sql<
  string | null
>`coalesce(e.fact->>'payment_intent_id', e.fact->>'charge_id', e.fact->>'invoice_id')`

/** Returns whether an id is that of an event, either from Stripe or from a backfill. */
export const isEventId = (id: string) => /^(evt|backfill)_/.test(id)

/** Selects all ids of the payment that has `ids` (text[]) in the program's last accounts. */
export const idsOfPayment = (programId: number, ids: Expression<unknown>) =>
  kysely
    .selectFrom('programs as a')
    .innerJoin(sql`unnest(last_accounts_of(a))`.as<'account'>(sql`account (id)`), (join) => join.onTrue())
    .select(sql<string>`unnest(ids_of_payment(account.id, ${ids}))`.as('id'))
    .where('a.id', '=', programId)

/**
 * Selects the events about a payment, its refunds and its dispute, up to 20, oldest first. Finds them by any id of the payment, or by the
 * event's own id, `evt_…`.
 */
export function deliveriesOfPayment(programId: number, paymentId: string, livemode: boolean) {
  return webhookEventsOf(programId)
    .where((eb) => eb('e.livemode', '=', eb.lit(livemode)))
    .where((eb) =>
      isEventId(paymentId)
        ? eb.and([eb('e.event_id', '=', paymentId), eb('e.account_id', '=', sql<string>`any (accounts_of(p))`)])
        : // Looked up once, and not for each event.
          eb.or(
            [fact('{sale,transaction_id}'), paymentOfReversal].map((id) =>
              eb(id, '=', sql<string>`any (array(${idsOfPayment(programId, sql`array[${paymentId}::text]`)}))`),
            ),
          ),
    )
    .select(['e.event_id', 'e.event_type', 'e.outcome', 'e.reason', 'e.resolution', 'e.received_at'])
    .select([
      fact('{sale,transaction_id}').as('payment_id'),
      fact('{sale,currency}').as('currency'),
      fact('{sale,sale_date}').as('paid_at'),
    ])
    .select((eb) => eb.cast<number | null>(fact('{sale,amount_cents}'), 'bigint').as('amount_cents'))
    .orderBy('e.received_at')
    .orderBy('e.event_id')
    .limit(deliveriesAtMost)
}

/**
 * Applies an event from the log as if the processor had delivered it again. A recorded event changes nothing. Other events may succeed now.
 * An unreadable payload is parsed again. `secret` is EMAIL_HASH_KEY. Throws `not_found`.
 */
export async function replayWebhookEvent(
  db: Database,
  stripe: Stripe,
  secret: string,
  programId: number,
  eventId: string,
): Promise<AppliedEvent & { livemode: boolean }> {
  const [event] = await db.query(
    webhookEventsOf(programId).where('e.event_id', '=', eventId).select(loggedEventColumns).$castTo<LoggedEvent>(),
  )
  if (!event) throw new ApiError('not_found', 'This event does not exist. Events are kept for 90 days.')
  return {
    ...(await applyEvent(db, askProcessor(stripe), await readAgain(db, event, secret))),
    livemode: event.livemode,
  }
}

/** Parses an event again with the current schemas if no schema could parse it before. */
async function readAgain(db: Database, event: WebhookEvent, secret: string): Promise<WebhookEvent> {
  if (event.payload === null) return event
  const text = await unseal(secret, 'unread webhook payload', event.event_id, event.payload)
  if (text === undefined) return event
  const hash = (email: string) => emailHash(secret, email)
  const receiver = event.account_id.startsWith('conn_') ? await readReceiverOf(db, event.account_id) : undefined
  const read = receiver
    ? await readDelivery(receiver, JSON.parse(text), undefined, hash)
    : await readEvent(JSON.parse(text), hash)
  return 'unread' in read.fact ? event : { ...read, event_id: event.event_id }
}

/** Lists the events with a stored payload that no schema could read, oldest first, each with a program that can replay it. */
export async function listUnreadEvents(
  db: Database,
  programId: number | undefined,
): Promise<{ event_id: string; program_id: number }[]> {
  const query = kysely
    .selectFrom('processor_events as e')
    .innerJoin('programs as p', (join) =>
      join.on((eb) =>
        eb(
          'p.id',
          '=',
          sql<number>`coalesce(e.program_id, (select min(connected.id) from connected_programs(e.account_id) connected))`,
        ),
      ),
    )
    .where('e.payload', 'is not', null)
    .select(['e.event_id', 'p.id as program_id'])
    .orderBy('e.event_created_at')
    .orderBy('e.event_id')
  return await db.query(programId === undefined ? query : query.where('p.id', '=', programId))
}

const end = keptSince('processor_events')

/**
 * Deletes old webhook events, including parked ones, and refunds and unpaid sessions without a sale, at most `limit` of each. Also deletes
 * old unreadable payloads. Keeps facts that are part of a sale. Keeps the metadata of customers until the processor deletes the customers.
 * Returns how many rows were deleted and whether there are more.
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
          .selectFrom('processor_reversals as v')
          .select(['v.account_id', 'v.reversal_id'])
          .where('v.created_at', '<', end)
          // A later report continues the refunds of a sale: a higher total, a returned dispute or a second loss.
          .where((of) => {
            const refund = of.selectFrom('refunds as r').whereRef('r.processor_reversal_id', '=', 'v.reversal_id')
            return of.not(of.exists(refund.select('r.id')))
          })
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
    kysely
      .updateTable('processor_events')
      .set({ payload: null })
      .where('payload', 'is not', null)
      .where('received_at', '<', keptSince('unread_payloads')),
    kysely.deleteFrom('processor_connect_states').where('expires_at', '<', now),
    kysely.deleteFrom('own_account_codes').where('expires_at', '<', now),
    // Earlier events can no longer arrive so long after the customer or the metadata was deleted.
    kysely
      .deleteFrom('processor_customer_metadata')
      .where('reported_at', '<', end)
      .where(sql<boolean>`(is_deleted or num_nonnulls(program_id, click_id, customer_key) = 0)`),
  ])
  const counts = { webhook_events: events.length, reversals: reversals.length, sessions: sessions.length }
  return { ...counts, more: Object.values(counts).includes(limit) }
}

/** Deletes the ids of old payments without a sale, and returns how many ids it deleted. */
export async function deleteUnsoldPayments(db: Database): Promise<number> {
  const [row] = await db.query(call('expire_unsold_payments', { kept: terms.processor_events }))
  return row?.expire_unsold_payments ?? 0
}
