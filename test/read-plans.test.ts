import { expect, test } from 'vitest'
import { listCommissions } from '../lib/money/commission-list.ts'
import { listPayoutRuns, readPayoutRunPart } from '../lib/money/payout-runs.ts'
import { listPayouts } from '../lib/money/payouts.ts'
import { listSales } from '../lib/money/sale-list.ts'
import { readTimeline } from '../lib/money/timeline.ts'
import { listEndpointsWithLatest, programOwner } from '../lib/notifications/webhook-endpoints.ts'
import { findDelivery, listDeliveries, listProgramDeliveries } from '../lib/notifications/webhook-log.ts'
import { listCustomers } from '../lib/tracking/customer-list.ts'
import { eventsNamed, type NamedChoice } from '../lib/tracking/event-list.ts'
import { capture, captured } from './bench/capture.ts'
import { seedPartners } from './bench/seed.ts'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'
import { eventsStatement } from '../lib/tracking/events.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { performanceStatement } from '../lib/tracking/performance.ts'
import { collectPlans, rowsRead } from './support/plans.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()
const { programId } = await createSandbox(db, { AUTH_SECRET: 'secret' })

const hourMs = 60 * 60 * 1000
const clicksPerHour = 50
const hours = 60 * 24
const start = Date.parse('2026-03-01T00:00:00Z')
await sql.query(
  `with customer as (
    insert into customers (program_id, click_id, link_id, partner_id, last_click_at)
    select program_id, 'cust_1790000000000_000000000000000000001', id, partner_id, now() from referral_links where program_id = $1
    returning program_id, id, link_id
  )
  insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, link_id)
  select program_id, $2::timestamptz + make_interval(secs => n * $4), n + 1, id, link_id from customer, generate_series(0, $3::int - 1) n`,
  [programId, new Date(start), hours * clicksPerHour, 3600 / clicksPerHour],
)
await sql.query(
  `insert into daily_totals (program_id, day, slot, clicks)
  select program_id, utc_day(click_timestamp), counter_slot(click_timestamp), count(*) from affiliate_click_events group by 1, 2, 3`,
)
await foldDailyTotals(db, 10_000)
await sql.query('analyze')

const plans = await collectPlans(sql)

/** Runs a statement and returns the number of click events that it and its functions touched. */
async function clicksRead(statement: ReturnType<typeof performanceStatement> | ReturnType<typeof eventsStatement>) {
  const { sql: text, parameters } = statement.compile()
  return await rowsOf(text, [...parameters], (relation) => relation.startsWith('affiliate_click_events'))
}

/** The number of rows that were read from the tables that `isOf` matches, or from all tables. */
async function rowsOf(text: string, parameters: unknown[], isOf?: (relation: string) => boolean) {
  plans.length = 0
  // This is enabled only for one connection, because triggers have a plan for each seeded row.
  await sql.query('set auto_explain.log_min_duration = 0')
  await sql.query(text, parameters)
  await sql.query('set auto_explain.log_min_duration = -1')
  expect(plans).not.toEqual([])
  // A node that runs several times reports the rounded average of its rows per run.
  return Math.round(plans.reduce((sum, plan) => sum + rowsRead(plan, isOf), 0))
}

// A range begins at the end of the previous one, so one read covers both. In most rows, the previous period
// begins before the history.
const windows: [what: string, from: number, to: number, clicks: number][] = [
  ['whole days are read from their totals only', 24, 48 * 24, 0],
  ['whole hours are read from their totals only', 24 + 8, 47 * 24 + 19, 0],
  ['an hour within a day is read from its total only', 24 + 3, 24 + 4, 0],
  ['a range that starts at 08:12 subtracts twelve minutes', 24 + 8.2, 48 * 24, 10],
  ['a range that starts at 08:54 adds six minutes', 24 + 8.9, 48 * 24, 5],
  ['a range that ends at 02:06 adds six minutes', 24, 48 * 24 + 2.1, 5],
  ['two partial hours read both ends, half an hour each at most', 24 + 8.5, 48 * 24 + 2.5, 25 + 25],
  ['two partial hours also read the beginning of the previous range', 30 * 24 + 8.5, 32 * 24 + 2.5, 25 + 25 + 25],
  ['twelve minutes are read as an hour without its other 48', 24 + 3.4, 24 + 3.6, 10 + 20 + 20],
]

test.each(windows)('%s', async (_what, from, to, clicks) => {
  const range = { dateFrom: new Date(start + from * hourMs), dateTo: new Date(start + to * hourMs - 1) }
  const read = await clicksRead(performanceStatement(programId, range, start + hours * hourMs))
  expect(read).toBe(clicks)
})

test('a page of events reads at most its cap and a few events with equal times', async () => {
  for (const dates of [{}, { dateTo: new Date(start + 20 * 24 * hourMs) }]) {
    const read = await clicksRead(eventsStatement('click', programId, dates, 30))
    expect(read).toBeGreaterThanOrEqual(30)
    expect(read).toBeLessThanOrEqual(40)
  }
})

test('a page with clicks from ClickHouse reads no waiting clicks of other programs', async () => {
  await sql.query(
    'insert into unsent_clicks (program_id, clicked_at, event_id) select $1::bigint + 1, now(), n from generate_series(1, 5000) n',
    [programId],
  )
  await sql.query('analyze unsent_clicks')
  expect(await rowsOf(`select from merged_clicks($1, '[]')`, [programId])).toBeLessThan(10)
  await sql.query('truncate unsent_clicks')
})

const listed = (await createSandbox(db, { AUTH_SECRET: 'secret' })).programId
const partners = 100
const people = 20_000
const { firstPartner, firstLink } = await seedPartners(sql, listed, partners)
// Almost all events belong to the first partners. The last partner has only a few, which are far apart.
const nth = `case when n % 4000 = 0 then ${partners - 1} else n % 10 end`
await sql.query(
  `with came as (
    insert into customers (program_id, click_id, customer_key, link_id, partner_id, customer_status, last_click_at, created_at, signup_date,
      lead_event_id, first_purchase_date)
    select $1::bigint, 'cust_1790000000000_' || lpad(n::text, 20, '0') || $1::bigint, 'user-' || n, $2 + ${nth}, $3 + ${nth}, 'conversion', at, at, at, n, at
    from (select n, $4::timestamptz + n * interval '3 minutes' as at from generate_series(1, ${people}) n) c order by n
    returning *
  ),
  clicked as (
    insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, user_agent)
    select program_id, created_at, lead_event_id, id, click_id, link_id, repeat('a', 150) from came
  ),
  signed_up as (
    insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key)
    select program_id, signup_date, lead_event_id, id, customer_key from came
  ),
  sold as (
    insert into sales (program_id, transaction_id, customer_id, partner_id, customer_key, amount_cents, commission_base_cents, commission_bp,
      currency, sale_date)
    select program_id, 'order-' || lead_event_id, id, partner_id, customer_key, 4900, 4900, 2000, 'usd', first_purchase_date from came
    order by first_purchase_date
    returning *
  )
  insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until, created_at, review_reason)
  select program_id, 'sale', partner_id, customer_id, id, currency, 980, sale_date, sale_date,
    case when id % 1000 = 0 then 'unverified_customer' end
  from sold order by sale_date`,
  [listed, firstLink, firstPartner, new Date(start)],
)
await sql.query(
  `insert into uncounted_clicks (program_id, link_id, clicked_at, event_id)
  select program_id, link_id, click_timestamp, id from affiliate_click_events where program_id = $1`,
  [listed],
)
await sql.query('select count_clicks(100000)')
await sql.query(
  `with run as (
    insert into payout_runs (program_id, request_id) select $1, gen_random_uuid() from generate_series(1, 200) returning id
  )
  insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id)
  select $1, $2::bigint + n, 'usd', 1, 1, 'in_run', id from run, generate_series(0, 49) n`,
  [listed, firstPartner],
)
await sql.query(
  `with endpoint as (
    insert into webhook_endpoints (program_id, url, types) select $1, 'https://h' || n || '.example.com', '{payout.paid}' from generate_series(1, 20) n
    returning id
  ),
  message as (
    insert into webhook_messages (program_id, type, data)
    select $1, case when n % 5000 = 0 then 'payout.paid' else 'webhook.test' end, '{}' from generate_series(1, 20000) n returning id
  )
  insert into webhook_deliveries (program_id, endpoint_id, message_id, status, finished_at)
  select $1, e.id, m.id, s.status, case when s.status <> 'pending' then now() end
  from endpoint e, message m, lateral (
    select case m.id % 1000 when 0 then 'failed' when 10 then 'pending' else 'delivered' end as status
  ) s
  where m.id % 10 = 0`,
  [listed],
)
const { rows: times } = await sql.query<{ now: Date }>('select clock_timestamp() as now')
const since = times[0]?.now ?? new Date()
await sql.query(`update sales set sale_type = 'changed' where program_id = $1 and id % 500 = 0`, [listed])
await sql.query('update commissions set correction_count = 1 where program_id = $1 and id % 500 = 0', [listed])
await sql.query(`update customers set customer_key = customer_key || '!' where program_id = $1 and id % 500 = 0`, [
  listed,
])
await sql.query(`update payouts set payout_address = 'changed' where program_id = $1 and id % 500 = 0`, [listed])
// The index by customer is only useful after a vacuum, which Postgres runs from time to time.
await sql.query('vacuum analyze')
const { rows: ids } = await sql.query<{ run: number; endpoint: number; customer: number }>(
  `select (select max(id) from payout_runs where program_id = $1)::integer as run,
    (select max(id) from webhook_endpoints where program_id = $1)::integer as endpoint,
    (select max(id) from customers where program_id = $1)::integer as customer`,
  [listed],
)
const { run = 0, endpoint = 0, customer = 0 } = ids[0] ?? {}

const limit = 50
const rare = String(firstPartner + partners - 1)
const linkOf = (n: number) => ({ id: firstLink + n, partner_id: firstPartner + n })
const middle = new Date(start + 500 * hourMs)
const events = (choice: Partial<NamedChoice>) => () =>
  eventsNamed(captured, { programId: listed, isTest: false, ...choice }, { limit })
// A page with fifty rows reads these rows (or ten times as many if one in ten matches) and the rows that are joined with them. The
// number must not grow with the twenty thousand seeded rows.
const pages: [what: string, read: () => Promise<unknown>][] = [
  ['all events', events({})],
  ['the events of a customer', events({ search: 'user-7' })],
  ["a customer's timeline", () => readTimeline(captured, listed, String(customer))],
  ['the sales of a partner with few events', () => listSales(captured, listed, { limit, partner_id: Number(rare) })],
  [
    'the customers of a partner with few events',
    () => listCustomers(captured, listed, { limit, partner_id: Number(rare) }),
  ],
  [
    'the customers of a partner with many events',
    () => listCustomers(captured, listed, { limit, partner_id: firstPartner }),
  ],
  ['the events of a partner with few events', events({ partner_id: Number(rare) })],
  ['the events of a partner with many events', events({ partner_id: firstPartner })],
  ['the events of a link with few events', events({ link: linkOf(partners - 1) })],
  ['the events of a link with many events', events({ link: linkOf(0) })],
  ['commissions', () => listCommissions(captured, { programId: listed }, { limit })],
  ['commissions until a day', () => listCommissions(captured, { programId: listed }, { limit, to: middle })],
  ['changed sales', () => listSales(captured, listed, { limit, updated_since: since })],
  ['changed commissions', () => listCommissions(captured, { programId: listed }, { limit, updated_since: since })],
  ['changed customers', () => listCustomers(captured, listed, { limit, updated_since: since })],
  ['changed payouts', () => listPayouts(captured, { programId: listed }, { limit, updated_since: since })],
  ['commissions to review', () => listCommissions(captured, { programId: listed }, { limit, review: 'waiting' })],
  ['reviewed commissions', () => listCommissions(captured, { programId: listed }, { limit, review: 'decided' })],
  ['payout runs', () => listPayoutRuns(captured, listed, { limit })],
  ['the payments of a run', () => readPayoutRunPart(captured, listed, run, { payments: { limit } })],
  ['webhook deliveries', () => listProgramDeliveries(captured, listed, { limit })],
  ['failed deliveries', () => listProgramDeliveries(captured, listed, { limit, status: 'failed' })],
  ['pending deliveries', () => listProgramDeliveries(captured, listed, { limit, status: 'pending' })],
  [
    'pending deliveries of a rare type',
    () => listProgramDeliveries(captured, listed, { limit, status: 'pending', type: 'payout.paid' }),
  ],
  ['deliveries of a rare type', () => listProgramDeliveries(captured, listed, { limit, type: 'payout.paid' })],
  ['deliveries before another', () => listProgramDeliveries(captured, listed, { limit, before: `10000-${endpoint}` })],
  ['deliveries of an endpoint', () => listDeliveries(captured, programOwner(listed), endpoint, { limit })],
  [
    'deliveries of an endpoint before another',
    () => listDeliveries(captured, programOwner(listed), endpoint, { limit, before: 10_000 }),
  ],
  [
    'failed deliveries of an endpoint',
    () => listDeliveries(captured, programOwner(listed), endpoint, { limit, status: 'failed' }),
  ],
  [
    'pending deliveries of an endpoint',
    () => listDeliveries(captured, programOwner(listed), endpoint, { limit, status: 'pending' }),
  ],
  ['the response to a delivery', () => findDelivery(captured, programOwner(listed), endpoint, 10_000)],
  ['endpoints with their latest delivery', () => listEndpointsWithLatest(captured, programOwner(listed))],
]

test.each(pages)('a page of %s reads a small part of the program', async (_what, read) => {
  let rows = 0
  for (const { query, params } of await capture(read)) rows += await rowsOf(query, params)
  expect(rows).toBeLessThan(2500)
})

test('undoing an approval reads only customers of its partner', async () => {
  const { rows } = await sql.query<{ id: string }>(
    `with partner as (insert into partners (program_id, name) values ($1, 'New') returning id),
    link as (insert into referral_links (code, program_id, partner_id) select 'new', $1, id from partner)
    insert into applications (program_id, source, status, name, email, verified_at, decided_at, partner_id)
    select $1, 'api', 'approved', 'New', 'new@example.com', now(), now(), id from partner returning id`,
    [listed],
  )
  const customersRead = await rowsOf(
    'select undo_approval($1, $2)',
    [listed, rows[0]?.id],
    (name) => name === 'customers',
  )
  expect(customersRead).toBe(0)
  expect((await sql.query('select status from applications where program_id = $1', [listed])).rows).toEqual([
    { status: 'waiting' },
  ])
})
