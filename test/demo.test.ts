import { expect, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { countClicks, countFigures, recordClick } from '../lib/tracking/clicks.ts'
import { createDemo } from '../lib/local/demo.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { noClick } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()

test('the demo data of a first start passes the audit and covers every kind of past data', async () => {
  // Clicks from outside the demo are also waiting to be counted.
  const { partnerCode } = await createSandbox(db, { AUTH_SECRET: 'test' })
  const click = { ...noClick, affiliate_url: 'https://shop.example.com/', partner_code: partnerCode }
  for (let n = 0; n < 3; n++) await recordClick(db, click, null)
  const { programId } = await createDemo(db, { AUTH_SECRET: 'test', EMAIL_HASH_KEY: 'test' })
  expect(await findDifferences(sql)).toEqual([])
  // All events are counted, including the refunds of the demo.
  expect([await countClicks(db, 1000), await countFigures(db, 1000)]).toEqual([0, 0])
  expect(await findDifferences(sql)).toEqual([])
  const { rows } = await sql.query(
    `select count(*) > 20 as many_days, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions, max(day) <= utc_day(now()) as past
     from (select day, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions from daily_totals where program_id = $1 group by day) days`,
    [programId],
  )
  expect(rows).toEqual([{ many_days: true, clicks: '200', leads: '50', conversions: '33', past: true }])
  const { rows: reported } = await sql.query(
    `select count(*) as sales from sales where program_id = $1
      and ((resolution->>'came_at')::timestamptz > (resolution->>'clicked_at')::timestamptz or (resolution->>'at')::timestamptz <> sale_date)`,
    [programId],
  )
  expect(reported).toEqual([{ sales: '0' }])
  const { rows: lists } = await sql.query(
    `select array_agg(id order by id) = array_agg(id order by sale_date) as are_in_order from sales where program_id = $1`,
    [programId],
  )
  expect(lists).toEqual([{ are_in_order: true }])
  const { rows: statuses } = await sql.query('select distinct status from commissions order by status')
  expect(statuses.map(({ status }) => status)).toEqual(
    expect.arrayContaining(['approved', 'pending', 'refunded', 'reversed']),
  )
  const { rows: run } = await sql.query(
    `select (select count(*)::int from partner_groups where program_id = $1) as groups,
      (select count(*)::int from partner_codes k where program_id = $1 and exists (
        select from grouped_totals d where d.program_id = $1 and d.grouping_name = 'code' and d.sales > 0 and d.value = k.id::text)) as codes_that_sold,
      (select array_agg(distinct status order by status) from applications where program_id = $1) as applications,
      (select array_agg(coalesce(decision, 'waits') order by decision) from commission_reviews where program_id = $1) as reviews,
      (select array_agg(amount_cents > 0 order by amount_cents) from adjustments where program_id = $1) as adjustments,
      (select is_open from join_pages where program_id = $1) as join_page`,
    [programId],
  )
  expect(run).toEqual([
    {
      groups: 2,
      codes_that_sold: 2,
      applications: ['approved', 'rejected', 'unverified', 'waiting'],
      reviews: ['rejected', 'released', 'waits', 'waits'],
      adjustments: [false, true],
      join_page: true,
    },
  ])
})
