import { expect, test } from 'vitest'
import { findDifferences } from '../lib/audit.ts'
import { createDemo } from '../lib/local/demo.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql } = await startEndpoint()

test('the demo of a first start passes the audit, and has something of everything in the past', async () => {
  const { programId } = await createDemo(db, { AUTH_SECRET: 'test' })
  expect(await findDifferences(sql, programId)).toEqual([])
  const { rows } = await sql.query(
    `select count(*) > 20 as many_days, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions, max(day) <= utc_day(now()) as past
     from (select day, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions from daily_totals group by day) days`,
  )
  expect(rows).toEqual([{ many_days: true, clicks: '200', leads: '50', conversions: '25', past: true }])
  const { rows: statuses } = await sql.query('select distinct status from commissions order by status')
  expect(statuses.map(({ status }) => status)).toEqual(
    expect.arrayContaining(['approved', 'pending', 'refunded', 'reversed']),
  )
})
