import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { asEventPage, eventPageStatements, type TrackingEvent } from '../lib/tracking/events.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { eventsQuery } from '../lib/api/tracking-events.ts'
import { fillEvents } from './support/events.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()
const sandbox = await createSandbox(db, { AUTH_SECRET: 'secret' })
const other = await createSandbox(db, { AUTH_SECRET: 'secret' })

await fillEvents(sql, sandbox.programId, 400)
await fillEvents(sql, other.programId, 50)

/** Returns every event of a program, newest first, from plain SQL. Each row is a JSON object. */
async function listRows(): Promise<TrackingEvent[]> {
  const { rows } = await sql.query<{ event: TrackingEvent }>(
    `with listed as (
      select 'click' as type, e.click_timestamp as at, e.id, e.created_at, c.click_id, jsonb_build_object(
        'session_id', session_id, 'page_url', page_url, 'referrer_url', referrer_url, 'geo_country', geo_country,
        'geo_region', geo_region, 'geo_city', geo_city, 'device_type', device_type, 'device_os', device_os,
        'browser_name', browser_name, 'converted', c.customer_status = 'conversion') as fields
      from affiliate_click_events e join customers c on c.program_id = e.program_id and c.id = e.customer_id
      where e.program_id = $1 and not is_test
      union all
      select 'lead', e.lead_timestamp, e.id, e.created_at, c.click_id, jsonb_build_object(
        'session_id', session_id, 'page_url', page_url, 'converted', c.customer_status = 'conversion')
        || case when provisional then '{}' else jsonb_build_object('customer_key', e.customer_key) end
      from affiliate_lead_events e join customers c on c.program_id = e.program_id and c.id = e.customer_id
      where e.program_id = $1 and not is_test
      union all
      select 'conversion', e.sale_date, e.id, e.created_at, c.click_id, jsonb_build_object(
        'transaction_id', transaction_id, 'amount_cents', amount_cents, 'refunded_cents', refunded_cents, 'currency', currency, 'sale_type', sale_type, 'payment_status', payment_status,
        'processor_event_id', e.processor_event_id, 'is_recurring', is_recurring)
      from sales e join customers c on c.program_id = e.program_id and c.id = e.customer_id
      where e.program_id = $1 and not is_test
    )
    select jsonb_build_object('id', id, 'event_type', type, 'click_id', click_id,
      'timestamp', to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'createdAt', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) || fields as event
    from listed order by at desc, type, id desc`,
    [sandbox.programId],
  )
  return rows.map(({ event }) => event)
}
const all = await listRows()

test('events have exactly the fields of their type', async () => {
  expect(new Set(all.map(({ event_type }) => event_type))).toEqual(new Set(['click', 'lead', 'conversion']))
  for (const eventType of ['click', 'lead', 'conversion'] as const) {
    const { data } = await readEvents({ eventType, pageSize: 100 })
    const byId = new Map(all.filter(({ event_type }) => event_type === eventType).map((event) => [event.id, event]))
    expect(data).toHaveLength(100)
    for (const event of data) expect(event).toEqual(byId.get(event.id))
  }
})

async function readEvents(query: Parameters<typeof asEventPage>[1]) {
  return asEventPage(await db.batch(eventPageStatements(sandbox.programId, query)), query)
}

const minute = Date.parse('2026-10-31T23:58:00.000Z')
const bound = fc.option(
  fc.integer({ min: 0, max: 200_000 }).map((offset) => new Date(minute + offset).toISOString()),
  { nil: undefined },
)

function order(a: TrackingEvent, b: TrackingEvent): number {
  return Date.parse(b.timestamp) - Date.parse(a.timestamp) || a.event_type.localeCompare(b.event_type) || b.id - a.id
}

test('pages merge the newest events of each type up to the cap, without repeats or gaps', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        pageSize: fc.integer({ min: 1, max: 100 }),
        eventType: fc.constantFrom(undefined, 'click', 'lead', 'conversion'),
        dateFrom: bound,
        dateTo: bound,
      }),
      async ({ pageSize, eventType, ...dates }) => {
        const [dateFrom, dateTo] =
          dates.dateFrom && dates.dateTo ? [dates.dateFrom, dates.dateTo].toSorted() : [dates.dateFrom, dates.dateTo]
        const listed = all.filter(
          ({ timestamp, event_type }) =>
            (!dateFrom || timestamp >= dateFrom) &&
            (!dateTo || timestamp <= dateTo) &&
            (!eventType || event_type === eventType),
        )
        const ofType = (type: string) => listed.filter(({ event_type }) => event_type === type).slice(0, 3 * pageSize)
        const total = ofType('click').length + ofType('lead').length + ofType('conversion').length
        const pageCount = Math.ceil(total / pageSize)
        const pages: TrackingEvent[] = []
        for (let page = 1; page <= pageCount + 1; page++) {
          const query = { page: String(page), pageSize: String(pageSize), eventType, dateFrom, dateTo }
          const answer = await readEvents(eventsQuery.parse(query))
          expect(answer.meta).toEqual({ pagination: { page, pageSize, pageCount, total } })
          expect(answer.data).toHaveLength(page > pageCount ? 0 : Math.min(pageSize, total - (page - 1) * pageSize))
          pages.push(...answer.data)
        }
        for (const type of ['click', 'lead', 'conversion']) {
          const expected = new Set(ofType(type).map(({ id }) => id))
          expect(new Set(pages.filter(({ event_type }) => event_type === type).map(({ id }) => id))).toEqual(expected)
        }
        expect(pages).toEqual(pages.toSorted(order))
      },
    ),
    { seed: 1, numRuns: 20 },
  )
})
