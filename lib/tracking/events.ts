import { type Compilable, type Expression, expressionBuilder, type InferResult, sql } from 'kysely'
import type { ClickHouse } from '../click-house.ts'
import type { Database, Statement } from '../database.ts'
import type { Part } from '../keyset.ts'
import { kysely } from '../kysely.ts'
import { type ClickChoice, mergedClicks, withClickRows } from './click-reads.ts'

/** A row in the format of the response, with times in ISO 8601. */
type Row<Select extends (...args: never[]) => Compilable> = InferResult<ReturnType<Select>>[number]
type Answered<Selected> = Omit<Selected, 'timestamp' | 'createdAt' | 'at_us'> & { timestamp: string; createdAt: string }

export type ClickEvent = Answered<Row<typeof clickEvents>>
type LeadEvent = Answered<Omit<Row<typeof leadEvents>, 'provisional' | 'customer_key'>> & {
  /** Absent for provisional leads, which don't store the customer key. */
  customer_key?: string | null
}
type ConversionEvent = Answered<Row<typeof conversionEvents>>

export type TrackingEvent = ClickEvent | LeadEvent | ConversionEvent

export interface EventPage {
  data: TrackingEvent[]
  /** `total` counts the events that were read: up to the newest `3 * pageSize` of each type. */
  meta: {
    pagination: { page: number; pageSize: number; pageCount: number; total: number }
    /** The start of the kept clicks. Absent if none were dropped for their age. */
    clicksSince?: string
  }
}

export type EventType = 'click' | 'lead' | 'conversion'

interface EventFilter {
  eventType?: EventType | undefined
  dateFrom?: Date | undefined
  dateTo?: Date | undefined
  /** Only events after this one in the order of `listEvents`. */
  after?: EventPosition | undefined
}

/** An event's position: its time in microseconds since 1970, its type and its id. */
export interface EventPosition {
  at_us: number
  event_type: EventType
  id: number
}

interface EventsQuery extends EventFilter {
  page?: number | undefined
  pageSize?: number | undefined
}

const defaultPageSize = 10

/**
 * The statements for `asEventPage`. They read `3 * pageSize` events of each type, so the pages end after these, even
 * if older events exist. `clickRows` are clicks from ClickHouse.
 */
export function eventPageStatements(programId: number, query: EventsQuery, clickRows?: string) {
  return [...eventsStatements(programId, query, rowsOfPage(query), clickRows), clicksKept()]
}

const rowsOfPage = ({ pageSize = defaultPageSize }: EventsQuery) => 3 * pageSize

/** Reads a page of events. Its clicks come from ClickHouse. */
export async function readEventPage(db: Database, programId: number, query: EventsQuery, clickHouse: ClickHouse) {
  const choice = clickChoice(programId, query, rowsOfPage(query))
  const results = await withClickRows(db, clickHouse, choice, (rows) => eventPageStatements(programId, query, rows))
  return asEventPage(results, query)
}

export type ClicksKept = Row<typeof clicksKept>

/** Selects the start of the kept click events. Returns no row if no month has been dropped. */
export function clicksKept() {
  return kysely.selectFrom('clicks_kept').select('since as clicks_since')
}

/** Finds the result of `clicksKept` among the results of a batch. */
function takeClicksKept<Ordered extends OrderedRow>(results: (Ordered | ClicksKept)[][]) {
  const rows: Ordered[] = []
  let clicksSince: string | undefined
  for (const row of results.flat()) {
    if ('clicks_since' in row) clicksSince = row.clicks_since.toISOString()
    else rows.push(row)
  }
  return { rows, clicksSince }
}

/**
 * Builds one page of a program's events, newest first. Events with the same time are ordered by type, then by id, latest first. `results`
 * comes from `eventPageStatements` for the same query.
 */
export function asEventPage(
  results: (EventRow | ClicksKept)[][],
  { page = 1, pageSize = defaultPageSize }: EventsQuery,
): EventPage {
  const { rows: unordered, clicksSince } = takeClicksKept<EventRow>(results)
  const rows = newestFirst(unordered)
  const total = rows.length
  return {
    data: rows.slice((page - 1) * pageSize, page * pageSize).map(asEvent),
    meta: {
      pagination: { page, pageSize, pageCount: Math.ceil(total / pageSize), total },
      ...(clicksSince && { clicksSince }),
    },
  }
}

/**
 * Lists up to `limit` events of a program after `after`, each with its position. The order never changes: newest first to the microsecond,
 * then by type, then latest id first.
 */
export async function listEvents(
  db: Database,
  programId: number,
  filter: EventFilter,
  limit: number,
  clickHouse?: ClickHouse,
): Promise<{ event: TrackingEvent; position: EventPosition }[]> {
  const results = await withClickRows(db, clickHouse, clickChoice(programId, filter, limit), (clickRows) =>
    eventsStatements(programId, filter, limit, clickRows),
  )
  const rows = results.flat()
  const placed = rows.map((row) => ({ event: asEvent(row), position: positionOf(row) }))
  const inOrder = placed.toSorted(
    ({ position: a }, { position: b }) => b.at_us - a.at_us || compare(a.event_type, b.event_type) || b.id - a.id,
  )
  return inOrder.slice(0, limit)
}

const positionOf = ({ at_us, event_type, id }: EventRow): EventPosition => ({ at_us, event_type, id })

export const eventTypes = ['click', 'lead', 'conversion'] as const

interface OrderedRow {
  timestamp: Date
  event_type: string
  id: number
}

function newestFirst<Ordered extends OrderedRow>(rows: Ordered[]): Ordered[] {
  return rows.toSorted(
    (a, b) => b.timestamp.getTime() - a.timestamp.getTime() || compare(a.event_type, b.event_type) || b.id - a.id,
  )
}

type EventRow = Row<(typeof statements)[TrackingEvent['event_type']]>

function asEvent(placed: EventRow): TrackingEvent {
  const { at_us: _, ...row } = placed
  const times = { timestamp: row.timestamp.toISOString(), createdAt: row.createdAt.toISOString() }
  if (row.event_type !== 'lead') return { ...row, ...times }
  const { provisional, customer_key: customerKey, ...lead } = row
  return { ...lead, ...times, ...(!provisional && { customer_key: customerKey }) }
}

export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/**
 * Selects up to `limit` of the newest events between the dates for each requested type, from the type's own table. Both dates are
 * inclusive, to the millisecond. Skips test events and sales without a customer.
 */
function eventsStatements(programId: number, filter: EventFilter, limit: number, clickRows?: string) {
  const types = filter.eventType ? [filter.eventType] : eventTypes
  return types.map((type) => eventsStatement(type, programId, filter, limit, clickRows))
}

/** The clicks of a page, for ClickHouse. Undefined if the page has none. */
function clickChoice(programId: number, filter: EventFilter, limit: number): ClickChoice | undefined {
  const { eventType = 'click', dateFrom: from, after } = filter
  return eventType === 'click'
    ? { programId, from, to: endOf(filter), place: placeOf('click', { before: after }), limit }
    : undefined
}

/** Selects up to `limit` of the newest events of one type between the dates, with details of their customers. */
export function eventsStatement(
  type: TrackingEvent['event_type'],
  programId: number,
  filter: EventFilter,
  limit: number,
  clickRows?: string,
): Statement<EventRow> {
  return statements[type](programId, filter, limit, clickRows)
}

const statements = { click: clickEvents, lead: leadEvents, conversion: conversionEvents }

function clickEvents(programId: number, filter: EventFilter, limit: number, clickRows?: string) {
  const choice = clickChoice(programId, filter, limit)
  const newest =
    choice && clickRows !== undefined ? mergedClicks(choice, clickRows) : newestClicks(programId, filter, limit)
  return (
    kysely
      .selectFrom(newest.as('e'))
      // Customers who only clicked are deleted when their window ends.
      .leftJoin('customers as c', (join) =>
        join.onRef('c.program_id', '=', 'e.program_id').onRef('c.id', '=', 'e.customer_id'),
      )
      .select((eb) => [
        'e.id',
        eb.val<'click'>('click').as('event_type'),
        'e.click_timestamp as timestamp',
        microseconds(eb.ref('e.click_timestamp')),
        eb.fn.coalesce('c.click_id', 'e.click_id').$notNull().as('click_id'),
        'e.session_id',
        'e.page_url',
        'e.referrer_url',
        'e.geo_country',
        'e.geo_region',
        'e.geo_city',
        'e.device_type',
        'e.device_os',
        'e.browser_name',
        /** Whether the customer has bought anything so far. */
        eb.fn
          .coalesce(eb('c.customer_status', '=', sql.lit('conversion')), eb.lit(false))
          .$castTo<boolean>()
          .as('converted'),
        'e.created_at as createdAt',
      ])
  )
}

function leadEvents(programId: number, filter: EventFilter, limit: number) {
  const newest = newestLeads(programId, filter, limit)
  return kysely
    .selectFrom(newest.as('e'))
    .innerJoin('customers as c', (join) =>
      join.onRef('c.program_id', '=', 'e.program_id').onRef('c.id', '=', 'e.customer_id'),
    )
    .select((eb) => [
      'e.id',
      eb.val<'lead'>('lead').as('event_type'),
      'e.lead_timestamp as timestamp',
      microseconds(eb.ref('e.lead_timestamp')),
      'c.click_id',
      'e.session_id',
      'e.page_url',
      'e.customer_key',
      'e.provisional',
      /** Whether the customer has bought anything so far. */
      eb('c.customer_status', '=', sql.lit('conversion')).$castTo<boolean>().as('converted'),
      'e.created_at as createdAt',
    ])
}

function conversionEvents(programId: number, filter: EventFilter, limit: number) {
  const newest = newestSales(programId, filter, limit).where('customer_id', 'is not', null)
  return kysely
    .selectFrom(newest.as('e'))
    .innerJoin('customers as c', (join) =>
      join.onRef('c.program_id', '=', 'e.program_id').onRef('c.id', '=', 'e.customer_id'),
    )
    .select((eb) => [
      'e.id',
      eb.val<'conversion'>('conversion').as('event_type'),
      'e.sale_date as timestamp',
      microseconds(eb.ref('e.sale_date')),
      'c.click_id',
      'e.transaction_id',
      'e.amount_cents',
      /** The amount refunded or charged back so far. */
      'e.refunded_cents',
      'e.currency',
      'e.sale_type',
      'e.payment_status',
      'e.processor_event_id',
      'e.is_recurring',
      'e.created_at as createdAt',
    ])
}

function newestClicks(programId: number, filter: EventFilter, limit: number) {
  return kysely
    .selectFrom('click_events')
    .selectAll()
    .where('program_id', '=', programId)
    .where((eb) => eb.not('is_test'))
    .where((eb) => isRequested(filter, 'click', eb.ref('click_timestamp'), eb.ref('id')))
    .orderBy('click_timestamp', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
}

function newestLeads(programId: number, filter: EventFilter, limit: number) {
  return kysely
    .selectFrom('affiliate_lead_events')
    .selectAll()
    .where('program_id', '=', programId)
    .where((eb) => eb.not('is_test'))
    .where((eb) => isRequested(filter, 'lead', eb.ref('lead_timestamp'), eb.ref('id')))
    .orderBy('lead_timestamp', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
}

function newestSales(programId: number, filter: EventFilter, limit: number) {
  return kysely
    .selectFrom('sales')
    .selectAll()
    .where('program_id', '=', programId)
    .where((eb) => eb.not('is_test'))
    .where((eb) => isRequested(filter, 'conversion', eb.ref('sale_date'), eb.ref('id')))
    .orderBy('sale_date', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
}

/** The start of a page for one event type: the time in microseconds and the id after which it begins, and the direction. */
export function placeOf(type: EventType, { before, after }: Omit<Part<EventPosition>, 'limit'>) {
  const place = after ?? before
  const rises = after !== undefined
  if (!place) return { rises, at_us: undefined, id: 0 }
  const order = compare(type, place.event_type)
  return { rises, at_us: place.at_us, id: order < 0 ? 0 : order > 0 ? Number.MAX_SAFE_INTEGER : place.id }
}

/** The same start with the time as an expression. */
export function edgeOf(type: EventType, part: Omit<Part<EventPosition>, 'limit'>) {
  const { at_us: us, ...place } = placeOf(type, part)
  const at =
    us === undefined ? undefined : sql<Date>`(timestamptz 'epoch' + ${String(us)}::bigint * interval '1 microsecond')`
  return { ...place, at }
}

/** Selects the rows of a type after the start of the page and in a range of time that excludes its end. */
export function within(
  { from, to }: { from?: Date | undefined; to?: Date | undefined },
  time: Expression<Date>,
  id: Expression<number>,
  { rises, at, id: edgeId }: ReturnType<typeof edgeOf>,
) {
  const eb = expressionBuilder()
  return eb.and([
    ...(from ? [eb(time, '>=', from)] : []),
    ...(to ? [eb(time, '<', to)] : []),
    ...(at ? [sql<boolean>`(${time}, ${id}) ${sql.raw(rises ? '>' : '<')} (${at}, ${String(edgeId)}::bigint)`] : []),
  ])
}

/** The exclusive end of a filter. */
const endOf = ({ dateTo }: EventFilter) => dateTo && new Date(dateTo.getTime() + 1)

/** Both dates of a filter are inclusive, to the millisecond. `after` is exclusive. */
function isRequested(filter: EventFilter, type: EventType, time: Expression<Date>, id: Expression<number>) {
  return within({ from: filter.dateFrom, to: endOf(filter) }, time, id, edgeOf(type, { before: filter.after }))
}

/** Selects a time in microseconds, because a `Date` would cut them off. */
export const microseconds = (time: Expression<Date>) =>
  sql<number>`(extract(epoch from ${time}) * 1000000)::bigint`.as('at_us')
