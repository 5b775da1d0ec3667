import { type Expression, type InferResult, type Selectable, sql } from 'kysely'
import type { ClickHouse } from '../click-house.ts'
import { call, type Database, type Statement } from '../database.ts'
import { hasWords, kysely, lower } from '../kysely.ts'
import { countedPart, countStatement, type Part, type Totals, totalsOf } from '../keyset.ts'
import type { DB, Json } from '../schema.ts'
import { type ClickChoice, mergedClicks, withClickRows } from './click-reads.ts'
import { isLeadOrBuyer } from './customer-list.ts'
import {
  type ClicksKept,
  clicksKept,
  compare,
  edgeOf,
  type EventPosition,
  type EventType,
  eventTypes,
  microseconds,
  placeOf,
  within,
} from './events.ts'

/** An event in the dashboard's list. Columns of other event types are null. */
export type ListedEvent = InferResult<ReturnType<typeof clicks | typeof leads | typeof sales>>[number]

/** The filters of the list. Test events have no partner and no link, and only test clicks have a country. */
export interface EventChoice {
  programId: number
  isTest: boolean
  eventType?: EventType | undefined
  /** Exclusive. */
  from?: Date | undefined
  to?: Date | undefined
  /** A partner's id, or a part of their name. A name selects the partner whose name matches best. */
  partner?: string | undefined
  /** A link's code, in upper or lower case. */
  code?: string | undefined
  /** Two letters. Leads and sales have the country of the customer's click. */
  country?: string | undefined
  /** A complete customer key, click id or transaction id. */
  search?: string | undefined
}

/** The filters with ids instead of names. */
export interface NamedChoice extends Omit<EventChoice, 'partner' | 'code'> {
  partner_id?: number | undefined
  link?: { id: number; partner_id: number } | undefined
  /** Only events of one customer. */
  customer_id?: Expression<number> | undefined
}

/** The cursor of an event: its time in microseconds, type and id. */
export const asCursor = ({ at_us: us, event_type: type, id }: EventPosition) => `${us}.${type}.${id}`

/** Returns the position of a cursor, or undefined if the cursor is invalid. */
export function positionIn(text: string | undefined): EventPosition | undefined {
  const [, us, named, id] = /^(\d{1,16})\.([a-z]+)\.(\d{1,15})$/.exec(text ?? '') ?? []
  const type = eventTypes.find((known) => known === named)
  return type === undefined ? undefined : { at_us: Number(us), event_type: type, id: Number(id) }
}

/**
 * Returns one page of a program's events. The order is the same on every page: newest first, then by type, then latest id first. With
 * `after`, returns the nearest later events first. `clicksSince` is the start of the kept clicks if earlier ones were dropped. Sends one
 * request, and another one before it if it has to look up a link or a partner's name.
 */
export async function listedEvents(
  db: Database,
  choice: EventChoice,
  part: Part<EventPosition>,
  clickHouse?: ClickHouse,
): Promise<{ events: ListedEvent[]; clicksSince: Date | undefined }> {
  return await eventsNamed(db, await withIds(db, choice), part, clickHouse)
}

/** Counts the events that match, and sums the sales. Leads, and clicks without totals, are counted up to 1,000 each. */
export async function eventTotals(db: Database, choice: EventChoice): Promise<Totals[]> {
  const named = await withIds(db, choice)
  const totals = {
    click: () => (hasTotals(named) ? clickTotals(named) : countStatement(clicksRead(named, countedPart))),
    lead: () => countStatement(leads(named, countedPart)),
    conversion: () => totalsOf(sales(named, countedPart), sql<number>`amount_cents`),
  }
  const types = choice.eventType ? [choice.eventType] : eventTypes
  return (await db.batch(types.map((type) => totals[type]()))).flat()
}

/** Whether the totals of clicks have the sum for these filters: none, or one of a link, a partner and a country. */
const hasTotals = (choice: NamedChoice) =>
  !choice.isTest &&
  !isOfCustomers(choice) &&
  [choice.link, choice.partner_id, choice.country].filter((filter) => filter !== undefined).length <= 1

function clickTotals({ programId, partner_id, link, country, from, to }: NamedChoice): Statement<Totals> {
  const chosen = sql`${partner_id ?? null}, ${link?.id ?? null}, ${country ?? null}, ${from ?? null}, ${to ?? null}`
  return kysely.selectNoFrom([
    sql<null>`null::text`.as('currency'),
    sql<number>`count_listed_clicks(${programId}, ${chosen})`.as('rows'),
    sql<number>`0`.as('cents'),
  ])
}

/** Reads one page of events for filters with ids, in one request. */
export async function eventsNamed(
  db: Database,
  choice: NamedChoice,
  part: Part<EventPosition>,
  clickHouse?: ClickHouse,
) {
  const types = choice.eventType ? [choice.eventType] : eventTypes
  const named = clickHouse && (await clickChoice(db, choice, part))
  const results = await withClickRows<ListedEvent | ClicksKept>(db, clickHouse, named, (rows) => [
    ...types.map((type) => (type === 'click' ? clicks(choice, part, named, rows) : statementOf(type, choice, part))),
    clicksKept(),
  ])
  const events: ListedEvent[] = []
  let clicksSince: Date | undefined
  for (const row of results.flat()) {
    if ('clicks_since' in row) clicksSince = row.clicks_since
    else events.push(row)
  }
  const sign = part.after === undefined ? 1 : -1
  const inOrder = events.toSorted(
    (a, b) => sign * (b.at_us - a.at_us || compare(a.event_type, b.event_type) || b.id - a.id),
  )
  return { events: inOrder.slice(0, part.limit), clicksSince }
}

/** Builds the statement that reads the events of one type. */
export function statementOf(type: EventType, choice: NamedChoice, part: Part<EventPosition>) {
  return { click: clicks, lead: leads, conversion: sales }[type](choice, part)
}

type ClickEvent = Selectable<DB['click_events']>

const no = <Type>() => sql<Type | null>`null`

/** Selects a value of the click under which the customer counts. */
const originOf = (name: 'country' | 'device' | 'browser') => sql<string | null>`o.origin->>${sql.lit(name)}`
const originColumns = [
  originOf('country').as('geo_country'),
  no<string>().as('geo_city'),
  originOf('device').as('device_type'),
  no<string>().as('device_os'),
  originOf('browser').as('browser_name'),
  no<Json>().as('campaign'),
] as const

/** Columns that only sales have. */
const noPayment = [
  no<string>().as('transaction_id'),
  no<number>().as('amount_cents'),
  no<number>().as('refunded_cents'),
  no<string>().as('currency'),
  no<string>().as('sale_type'),
  no<string>().as('payment_status'),
  no<boolean>().as('is_recurring'),
] as const

/** Selects the customers that match the search, or the customer in the filter. */
function customersOf({ programId, search = '', customer_id: id }: NamedChoice) {
  const all = kysely.selectFrom('customers').select('id').where('program_id', '=', programId)
  if (id !== undefined) return all.where('id', '=', id)
  return all.where((of) => of.or([of('customer_key', '=', search), of('click_id', '=', search)]))
}

const isOfCustomers = ({ search, customer_id: id }: NamedChoice) => search !== undefined || id !== undefined

/** An id that no partner or link has. */
const none = 0

/** Names are looked up first, so that Postgres knows the number of the partner's events when it plans the query. */
async function withIds(db: Database, { partner, code, ...choice }: EventChoice): Promise<NamedChoice> {
  const { programId } = choice
  const isId = partner !== undefined && /^[1-9]\d{0,14}$/.test(partner)
  if ((partner === undefined || isId) && code === undefined)
    return { ...choice, partner_id: isId ? Number(partner) : undefined }
  const [[row], [link]] = await db.batch([
    kysely
      .selectFrom('partners')
      .select('id')
      .where('program_id', '=', programId)
      .where((of) =>
        partner === undefined
          ? of.lit(false)
          : isId
            ? of('id', '=', Number(partner))
            : hasWords(of.ref('name'), partner),
      )
      .orderBy((of) => of.fn<number>('length', ['name']))
      .orderBy('id')
      .limit(1),
    kysely
      .selectFrom('referral_links')
      .select(['id', 'partner_id'])
      .where('program_id', '=', programId)
      .where((of) => of(of.fn('lower', ['code']), '=', lower(code ?? ''))),
  ])
  return {
    ...choice,
    partner_id: partner === undefined ? undefined : (row?.id ?? none),
    link: code === undefined ? undefined : { id: link?.id ?? none, partner_id: link?.partner_id ?? none },
  }
}

/** The clicks of a page, for ClickHouse. Undefined if it has none or if Postgres has an index for them. */
async function clickChoice(db: Database, choice: NamedChoice, part: Part<EventPosition>) {
  const { programId, isTest, eventType = 'click', partner_id, link, country, from, to } = choice
  if (isTest || isOfCustomers(choice) || eventType !== 'click') return undefined
  const isOfLinks = partner_id !== undefined || link !== undefined
  const ids = { of_program_id: programId, of_partner_id: partner_id ?? null, of_link_id: link?.id ?? null }
  const [row] = isOfLinks ? await db.query(call('links_listed', ids)) : []
  const links = isOfLinks ? (row?.links_listed ?? []) : undefined
  return { programId, links, country, from, to, place: placeOf('click', part), limit: part.limit }
}

function clicksRead(choice: NamedChoice, part: Part<EventPosition>) {
  const { programId, isTest, partner_id, link, country, from, to } = choice
  const edge = edgeOf('click', part)
  const direction = edge.rises ? 'asc' : 'desc'
  if (isTest || (!isOfCustomers(choice) && (partner_id ?? link ?? country) === undefined))
    return (
      kysely
        .selectFrom('click_events as e')
        .selectAll('e')
        .where('e.program_id', '=', programId)
        .where((of) => (isTest ? of('e.is_test', '=', of.lit(true)) : of.not('e.is_test')))
        // A test click has no customer, so a search never finds it.
        .$if(isOfCustomers(choice), (list) => list.where((of) => of.lit(false)))
        .where(within(choice, sql.ref('e.click_timestamp'), sql.ref('e.id'), edge))
        .orderBy('e.click_timestamp', direction)
        .orderBy('e.id', direction)
        .limit(part.limit)
    )
  const chosen = sql`${partner_id ?? null}, ${link?.id ?? null}, ${country ?? null}, ${from ?? null}, ${to ?? null},
    ${edge.at ?? sql`null`}, ${String(edge.id)}, ${edge.rises}, ${part.limit}`
  const rows = isOfCustomers(choice)
    ? sql<ClickEvent>`list_clicks_of_customers(${programId}, array(${customersOf(choice)}), ${chosen})`
    : sql<ClickEvent>`list_clicks(${programId}, ${chosen})`
  return kysely.selectFrom(rows.as('e')).selectAll()
}

function clicks(choice: EventChoice, part: Part<EventPosition>, named?: ClickChoice, rows?: string) {
  const { isTest } = choice
  const read = named && rows !== undefined ? mergedClicks(named, rows) : clicksRead(choice, part)
  return (
    kysely
      .selectFrom(read.as('e'))
      .leftJoin('referral_links as l', (join) =>
        join.onRef('l.program_id', '=', 'e.program_id').onRef('l.id', '=', 'e.link_id'),
      )
      .leftJoin('partners as p', (join) =>
        join.onRef('p.program_id', '=', 'l.program_id').onRef('p.id', '=', 'l.partner_id'),
      )
      // Customers who only clicked are deleted when their window ends.
      .leftJoin('customers as c', (join) =>
        join.onRef('c.program_id', '=', 'e.program_id').onRef('c.id', '=', 'e.customer_id'),
      )
      .select([sql.lit('click').$castTo<'click'>().as('event_type'), 'e.id', 'e.click_timestamp as timestamp'])
      .select(microseconds(sql.ref('e.click_timestamp')))
      .select(['p.id as partner_id', 'p.name as partner_name', 'l.code as link_code'])
      .select((of) => [
        isTest ? no<string>().as('click_id') : of.fn.coalesce('c.click_id', 'e.click_id').as('click_id'),
        'c.id as customer_id',
        no<boolean>().as('provisional'),
      ])
      .select(['c.customer_key', 'e.page_url', 'e.referrer_url', 'e.geo_country', 'e.geo_city', 'e.device_type'])
      .select(['e.device_os', 'e.browser_name', 'e.campaign'])
      .select(noPayment)
  )
}

function leads(choice: NamedChoice, part: Part<EventPosition>) {
  const { programId, isTest, country, search } = choice
  const edge = edgeOf('lead', part)
  const direction = edge.rises ? 'asc' : 'desc'
  let list = kysely
    .selectFrom('affiliate_lead_events as e')
    .leftJoin('customers as c', (join) =>
      join.onRef('c.program_id', '=', 'e.program_id').onRef('c.id', '=', 'e.customer_id'),
    )
    .leftJoin('referral_links as l', (join) =>
      join.onRef('l.program_id', '=', 'c.program_id').onRef('l.id', '=', 'c.link_id'),
    )
    .leftJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'c.program_id').onRef('p.id', '=', 'c.partner_id'),
    )
    .leftJoin('customer_origins as o', (join) =>
      join.onRef('o.program_id', '=', 'c.program_id').onRef('o.customer_id', '=', 'c.id'),
    )
    .select([sql.lit('lead').$castTo<'lead'>().as('event_type'), 'e.id', 'e.lead_timestamp as timestamp'])
    .select(microseconds(sql.ref('e.lead_timestamp')))
    .select(['p.id as partner_id', 'p.name as partner_name', 'l.code as link_code', 'c.click_id'])
    .select('c.id as customer_id')
    .select(['e.provisional', 'e.customer_key', 'e.page_url', no<string>().as('referrer_url')])
    .select(originColumns)
    .select(noPayment)
    .where('e.program_id', '=', programId)
    .where((of) => (isTest ? of('e.is_test', '=', of.lit(true)) : of.not('e.is_test')))
    .where(within(choice, sql.ref('e.lead_timestamp'), sql.ref('e.id'), edge))
    .orderBy('e.lead_timestamp', direction)
    .orderBy('e.id', direction)
    .limit(part.limit)
  const partners = partnersOf(choice)
  for (const partner of partners) list = list.where('c.partner_id', '=', partner)
  if (partners.length > 0) list = list.where(isLeadOrBuyer)
  if (choice.link !== undefined) list = list.where('c.link_id', '=', choice.link.id)
  if (country !== undefined) list = list.where(originOf('country'), '=', country)
  if (!isOfCustomers(choice)) return list
  if (isTest) return list.where('e.customer_key', '=', search ?? '')
  return list.where('e.customer_id', 'in', customersOf(choice))
}

/** The required partner. A link filter also sets its partner, because the indexes begin with the partner. */
const partnersOf = ({ partner_id, link }: NamedChoice) =>
  [partner_id, link?.partner_id].filter((id) => id !== undefined)

function sales(choice: NamedChoice, part: Part<EventPosition>) {
  const { programId, isTest, country } = choice
  const edge = edgeOf('conversion', part)
  const direction = edge.rises ? 'asc' : 'desc'
  let list = kysely
    .selectFrom('sales as e')
    .leftJoin('customers as c', (join) =>
      join.onRef('c.program_id', '=', 'e.program_id').onRef('c.id', '=', 'e.customer_id'),
    )
    .leftJoin('referral_links as l', (join) =>
      join.onRef('l.program_id', '=', 'c.program_id').onRef('l.id', '=', 'c.link_id'),
    )
    .leftJoin('partners as p', (join) =>
      join.onRef('p.program_id', '=', 'e.program_id').onRef('p.id', '=', 'e.partner_id'),
    )
    .leftJoin('customer_origins as o', (join) =>
      join.onRef('o.program_id', '=', 'c.program_id').onRef('o.customer_id', '=', 'c.id'),
    )
    .select([sql.lit('conversion').$castTo<'conversion'>().as('event_type'), 'e.id', 'e.sale_date as timestamp'])
    .select(microseconds(sql.ref('e.sale_date')))
    .select(['p.id as partner_id', 'p.name as partner_name', 'l.code as link_code', 'c.click_id'])
    .select('c.id as customer_id')
    .select([no<boolean>().as('provisional'), 'e.customer_key'])
    .select([no<string>().as('page_url'), no<string>().as('referrer_url')])
    .select(originColumns)
    .select(['e.transaction_id', 'e.amount_cents', 'e.refunded_cents', 'e.currency', 'e.sale_type'])
    .select(['e.payment_status', 'e.is_recurring'])
    .where('e.program_id', '=', programId)
    .where((of) => (isTest ? of('e.is_test', '=', of.lit(true)) : of.not('e.is_test')))
    .where(within(choice, sql.ref('e.sale_date'), sql.ref('e.id'), edge))
    .orderBy('e.sale_date', direction)
    .orderBy('e.id', direction)
    .limit(part.limit)
  if (!isTest) list = list.where('e.customer_id', 'is not', null)
  for (const partner of partnersOf(choice)) list = list.where('e.partner_id', '=', partner)
  if (choice.link !== undefined) list = list.where('c.link_id', '=', choice.link.id)
  if (country !== undefined) list = list.where(originOf('country'), '=', country)
  return isOfCustomers(choice) ? list.where('e.id', 'in', salesNamed(choice)) : list
}

/** Selects the sales that match a search by transaction id or by customer. */
function salesNamed(choice: NamedChoice) {
  const { programId, isTest, search = '' } = choice
  const all = kysely
    .selectFrom('sales as s')
    .select('s.id')
    .where('s.program_id', '=', programId)
    .where((of) => (isTest ? of('s.is_test', '=', of.lit(true)) : of.not('s.is_test')))
  const named = all.where('s.transaction_id', '=', search)
  return isTest
    ? named.unionAll(all.where('s.customer_key', '=', search))
    : named.unionAll(all.where('s.customer_id', 'in', customersOf(choice)))
}
