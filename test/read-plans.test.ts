import { expect, test } from 'vitest'
import { foldDailyTotals } from '../lib/tracking/daily-totals.ts'
import { eventsStatement } from '../lib/tracking/events.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { performanceStatement } from '../lib/tracking/performance.ts'
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

interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  Plans?: PlanNode[]
}

const plans: PlanNode[] = []
sql.on('notice', ({ message = '' }) => {
  const json = message.slice(message.indexOf('{'))
  if (json.startsWith('{')) plans.push((JSON.parse(json) as { Plan: PlanNode }).Plan)
})
await sql.query(`load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on;
  set auto_explain.log_analyze = on; set auto_explain.log_level = notice; set auto_explain.log_format = json`)

/** Runs a statement and returns how many click events it touched, those of the functions that it calls too. */
async function clicksRead(statement: ReturnType<typeof performanceStatement> | ReturnType<typeof eventsStatement>) {
  const { sql: text, parameters } = statement.compile()
  plans.length = 0
  await sql.query(text, [...parameters])
  expect(plans).not.toEqual([])
  const touched = (node: PlanNode): number =>
    (node['Relation Name']?.startsWith('affiliate_click_events')
      ? (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
      : 0) + (node.Plans ?? []).reduce((sum, child) => sum + touched(child), 0)
  // The rows of a node that runs several times are the average of its runs, rounded.
  return Math.round(plans.reduce((sum, plan) => sum + touched(plan), 0))
}

// A range begins where the one before it ends, and what is read there serves both. That one begins before the history in most rows.
const windows: [what: string, from: number, to: number, clicks: number][] = [
  ['whole days are read from their totals alone', 24, 48 * 24, 0],
  ['so are whole hours', 24 + 8, 47 * 24 + 19, 0],
  ['and an hour within a day', 24 + 3, 24 + 4, 0],
  ['a range that starts at 08:12 leaves out twelve minutes', 24 + 8.2, 48 * 24, 10],
  ['a range that starts at 08:54 adds six minutes', 24 + 8.9, 48 * 24, 5],
  ['a range that ends at 02:06 adds six minutes', 24, 48 * 24 + 2.1, 5],
  ['two cut hours cost both ends, half an hour each at most', 24 + 8.5, 48 * 24 + 2.5, 25 + 25],
  ['and the beginning of the range before, too', 30 * 24 + 8.5, 32 * 24 + 2.5, 25 + 25 + 25],
  ['twelve minutes are an hour without its other 48, after twelve minutes', 24 + 3.4, 24 + 3.6, 10 + 20 + 20],
]

test.each(windows)('%s', async (_what, from, to, clicks) => {
  const range = { dateFrom: new Date(start + from * hourMs), dateTo: new Date(start + to * hourMs - 1) }
  const read = await clicksRead(performanceStatement(programId, range, start + hours * hourMs))
  expect(read).toBe(clicks)
})

test('a page of events reads no more events than its cap, and a few to settle equal times', async () => {
  for (const dates of [{}, { dateTo: new Date(start + 20 * 24 * hourMs) }]) {
    const read = await clicksRead(eventsStatement('click', programId, dates, 30))
    expect(read).toBeGreaterThanOrEqual(30)
    expect(read).toBeLessThanOrEqual(40)
  }
})
