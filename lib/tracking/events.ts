import { type RawBuilder, sql } from 'kysely'
import type * as z from 'zod/mini'
import type { Database } from '../database.ts'
import type { eventsQuery } from '../api/read-requests.ts'

interface EventCommon {
  id: number
  /** ISO 8601: when it happened. */
  timestamp: string
  /** Of the customer whom the event belongs to. */
  click_id: string
  /** ISO 8601: when it was recorded. */
  createdAt: string
}

export interface ClickEvent extends EventCommon {
  event_type: 'click'
  session_id: string | null
  page_url: string | null
  referrer_url: string | null
  geo_country: string | null
  geo_region: string | null
  geo_city: string | null
  device_type: string | null
  device_os: string | null
  browser_name: string | null
  /** Whether the customer has bought since. */
  converted: boolean
}

export interface LeadEvent extends EventCommon {
  event_type: 'lead'
  session_id: string | null
  page_url: string | null
  /** Absent on a provisional lead, which does not save the integrator's user id. */
  customer_key?: string | null
  converted: boolean
}

export interface ConversionEvent extends EventCommon {
  event_type: 'conversion'
  amount_cents: number
  currency: string
  sale_type: string
  payment_status: string
  processor_event_id: string | null
  is_recurring: boolean
}

export type TrackingEvent = ClickEvent | LeadEvent | ConversionEvent

export interface EventPage {
  data: TrackingEvent[]
  /** `total` counts what was read: the newest `3 * pageSize` of each type at most. */
  meta: { pagination: { page: number; pageSize: number; pageCount: number; total: number } }
}

type EventsQuery = z.output<typeof eventsQuery>
type EventFilter = Pick<EventsQuery, 'eventType' | 'dateFrom' | 'dateTo'>

const defaultPageSize = 10

/** What `asEventPage` is made of: `3 * pageSize` events of each type, so pages end there even where older events exist. */
export function eventPageStatements(programId: number, query: EventsQuery) {
  return eventsStatements(programId, query, 3 * (query.pageSize ?? defaultPageSize))
}

/**
 * One page of a program's events, newest first; equal timestamps are ordered by type, then id. `results` are those of
 * `eventPageStatements` for the same query.
 */
export function asEventPage(results: EventRow[][], { page = 1, pageSize = defaultPageSize }: EventsQuery): EventPage {
  const rows = newestFirst(results)
  const total = rows.length
  return {
    data: rows.slice((page - 1) * pageSize, page * pageSize).map(asEvent),
    meta: { pagination: { page, pageSize, pageCount: Math.ceil(total / pageSize), total } },
  }
}

/**
 * The newest events of each type, up to `limit` of each, in the order of `asEventPage`. `completeAfter` is the moment after
 * which none is missing: that of the oldest event of a type which reached the limit. Null where all are there.
 */
export async function newestEvents(
  db: Database,
  programId: number,
  filter: EventFilter,
  limit: number,
): Promise<{ events: TrackingEvent[]; completeAfter: string | null }> {
  const results = await db.batch(eventsStatements(programId, filter, limit))
  const cutAt = results
    .filter((rows) => rows.length >= limit)
    .map((rows) => Math.min(...rows.map(({ timestamp }) => timestamp.getTime())))
  return {
    events: newestFirst(results).map(asEvent),
    completeAfter: cutAt.length === 0 ? null : new Date(Math.max(...cutAt)).toISOString(),
  }
}

function newestFirst(results: EventRow[][]): EventRow[] {
  return results
    .flat()
    .toSorted(
      (a, b) =>
        b.timestamp.getTime() - a.timestamp.getTime() ||
        compare(a.event_type, b.event_type) ||
        Number(a.id) - Number(b.id),
    )
}

/** An event as its statement selects it: under the names of the answer, `bigint` as text. */
export type EventRow = { id: string; timestamp: Date; createdAt: Date } & (
  | Omit<ClickEvent, keyof EventCommon>
  | (Omit<LeadEvent, keyof EventCommon> & { provisional: boolean })
  | (Omit<ConversionEvent, keyof EventCommon | 'amount_cents'> & { amount_cents: string })
) & { click_id: string }

function asEvent(row: EventRow): TrackingEvent {
  const common = {
    id: Number(row.id),
    timestamp: row.timestamp.toISOString(),
    createdAt: row.createdAt.toISOString(),
  }
  if (row.event_type === 'click') return { ...row, ...common }
  if (row.event_type === 'conversion') return { ...row, ...common, amount_cents: Number(row.amount_cents) }
  const { provisional, customer_key: customerKey, ...lead } = row
  return { ...lead, ...common, ...(!provisional && { customer_key: customerKey }) }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

const sources = {
  click: {
    table: sql`affiliate_click_events`,
    time: sql`click_timestamp`,
    listed: sql`true`,
    columns: sql`e.session_id, e.page_url, e.referrer_url, e.geo_country, e.geo_region, e.geo_city, e.device_type, e.device_os,
  e.browser_name, c.customer_status = 'conversion' as converted`,
  },
  lead: {
    table: sql`affiliate_lead_events`,
    time: sql`lead_timestamp`,
    listed: sql`true`,
    columns: sql`e.session_id, e.page_url, e.customer_key, e.provisional, c.customer_status = 'conversion' as converted`,
  },
  conversion: {
    table: sql`sales`,
    time: sql`sale_date`,
    listed: sql`customer_id is not null`,
    columns: sql`e.amount_cents, e.currency, e.sale_type, e.payment_status, e.processor_event_id, e.is_recurring`,
  },
}

/**
 * For each type that is asked for, its newest events within the dates, `limit` of them at most, from its own table. Both dates belong
 * to the range, to the millisecond. Test events and sales without a customer are not listed.
 */
function eventsStatements(programId: number, filter: EventFilter, limit: number) {
  const types = filter.eventType ? [filter.eventType] : (['click', 'lead', 'conversion'] as const)
  return types.map((type) => eventsStatement(type, programId, filter, limit))
}

/** The newest events of one type within the dates, `limit` of them at most, with what their customers add. */
export function eventsStatement(
  type: TrackingEvent['event_type'],
  programId: number,
  { dateFrom, dateTo }: EventFilter,
  limit: number,
) {
  const { table, time, listed, columns } = sources[type]
  const conditions: RawBuilder<unknown>[] = [sql`program_id = ${programId}`, sql`not is_test`, listed]
  if (dateFrom) conditions.push(sql`${time} >= ${dateFrom}::timestamptz`)
  if (dateTo) conditions.push(sql`${time} < ${new Date(dateTo.getTime() + 1)}::timestamptz`)
  return sql<EventRow>`select e.id, ${type} as event_type, e.${time} as timestamp, c.click_id, ${columns}, e.created_at as "createdAt"
from (
  select * from ${table} where ${sql.join(conditions, sql` and `)} order by ${time} desc, id limit ${limit}
) e
join customers c on c.program_id = e.program_id and c.id = e.customer_id`
}
