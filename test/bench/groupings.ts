import type pg from 'pg'
import type { GroupedMetric, GroupingName } from '../../lib/schema.ts'
import { countClicks, countFigures } from '../../lib/tracking/clicks.ts'
import { type GroupsQuery, groupsStatement, readGroups } from '../../lib/tracking/groupings.ts'
import { readPerformance } from '../../lib/tracking/performance.ts'
import { capture, captured } from './capture.ts'
import { type Call, Connection, drive } from './driver.ts'
import { cpuMicroseconds, startDatabase } from './environment.ts'
import { type Options, type Result, round } from './result.ts'
import { seedPartners } from './seed.ts'

const days = 90
const rounds = 4
const readsARound = 5
const dayMs = 86_400_000

/** The number of values that each grouping has every day. Groupings after `device` keep at most 200 values a day. */
const values = {
  all: 1,
  partner: 10,
  link: 100,
  country: 10,
  device: 3,
  referrer: 200,
  page: 200,
  sub1: 200,
} as const satisfies Partial<Record<GroupingName, number>>
type Name = keyof typeof values
const groupingNames = [
  'all',
  'partner',
  'link',
  'country',
  'device',
  'referrer',
  'page',
  'sub1',
] as const satisfies Name[]

/** One of `every` clicks changes the total by `amount`. */
const moved: [metric: GroupedMetric, every: number, amount: number][] = [
  ['clicks', 1, 1],
  ['leads', 20, 1],
  ['conversions', 100, 1],
  ['sales', 80, 1],
  ['revenue', 80, 4900],
  ['commission', 80, 980],
]
const dayColumns = (
  [
    'clicks',
    'bot_clicks',
    'leads',
    'conversions',
    'sales',
    'revenue',
    'commission',
    'refunded',
  ] satisfies GroupedMetric[]
).map((metric) => `coalesce(sum(amount) filter (where metric = '${metric}'), 0)`)
const moneyMetrics: GroupedMetric[] = ['sales', 'revenue', 'commission']

/**
 * Measures performance by group over 90 days, for a program with 100,000 clicks and one with ten million (`--events`). Both have the same
 * partners, countries and pages. Inserts the totals directly, as the counting job would. Each size has its own database. They take turns,
 * each over one connection without HTTP. Also measures the counting of single clicks and sales, and Postgres' CPU time for the dashboard's
 * read.
 */
export async function groupings({ events }: Options): Promise<Result> {
  const sizes = [100_000, events]
  const result: Result = { figures: [], goals: [] }
  const programs = []
  for (const size of sizes) {
    const started = performance.now()
    programs.push(await seedProgram(size))
    result.figures.push({
      what: `seeding ${size.toLocaleString('en')}, s`,
      measured: round((performance.now() - started) / 1000),
    })
  }
  for (const [what, changes] of reads) {
    // Takes the minimum of the rounds, because other work on the machine only adds time.
    const cpu = sizes.map(() => Infinity)
    const times = sizes.map(() => Infinity)
    for (let n = 0; n <= rounds; n++) {
      for (const [index, { connection, programId, database }] of programs.entries()) {
        const call = asCall(groupsStatement(programId, { ...wholeQuery(), ...changes }))
        const calls = Array.from({ length: readsARound }, () => call)
        const before = cpuMicroseconds(database.postgresPid, true)
        const { p50_ms } = await drive([connection], calls)
        const spent = (cpuMicroseconds(database.postgresPid, true) - before) / calls.length / 1000
        cpu[index] = Math.min(cpu[index] ?? NaN, spent)
        times[index] = Math.min(times[index] ?? NaN, p50_ms)
      }
    }
    const [smallest = NaN, largest = NaN] = cpu
    const ratio = largest / smallest
    const last = times[1] ?? NaN
    result.figures.push({
      what,
      'CPU ms, 100,000': round(smallest),
      'CPU ms': round(largest),
      ratio: round(ratio),
      'p50 ms': round(last),
    })
    const { groupBy = 'all' } = changes
    if (changes.timeZone !== undefined && changes.interval === 'day' && isCounted(groupBy)) {
      // The bounds split every day, and a split day has a row for each metric that changed. With fewer clicks, most metrics didn't
      // change. Metrics, values and days limit the number of rows, so the cost per row must not depend on the clicks.
      const [fewest = NaN, most = NaN] = await Promise.all(programs.map((program) => rowsOfQuarters(program, groupBy)))
      Object.assign(result.figures.at(-1) ?? {}, { rows: `${fewest} and ${most}` })
      result.goals.push({
        what: `${what} at ${events.toLocaleString('en')} relative to 100,000, per row`,
        measured: ratio / (most / fewest),
        most: 1.3,
      })
    } else if (isCounted(groupBy)) {
      result.goals.push({ what: `${what} at ${events.toLocaleString('en')} by 100,000`, measured: ratio, most: 1.3 })
    } else result.goals.push({ what: `${what} at ${events.toLocaleString('en')}, ms`, measured: last, most: 200 })
  }
  for (const { connection, database } of programs) {
    await connection.close()
    await database.close()
  }
  await counting(result)
  return result
}

/** Groupings whose number of values is unlimited. */
const isCounted = (groupBy: string) => /^(all|partner|link|country|device)$/.test(groupBy)

/** Returns the number of rows per quarter of an hour, for the first values of a grouping and for the total. */
async function rowsOfQuarters(
  { database, programId }: Awaited<ReturnType<typeof seedProgram>>,
  groupBy: string,
): Promise<number> {
  const { rows } = await database.sql.query<{ count: string }>(
    `select count(*) from grouped_quarters q
    where q.program_id = $1 and (q.grouping_name = 'all' or q.grouping_name = $2::grouping_name and q.value in (
      select value from grouped_totals where program_id = $1 and grouping_name = $2::grouping_name and span = 'day' group by value
      order by sum(clicks) desc, value limit $3
    ))`,
    [programId, groupBy, wholeQuery().limit],
  )
  return Number(rows[0]?.count)
}

const day = (at: number) => new Date(at).toISOString().slice(0, 10)

function wholeQuery(now = Date.now()): GroupsQuery {
  return {
    groupBy: undefined,
    from: day(now - days * dayMs),
    to: day(now - dayMs),
    timeZone: 'UTC',
    interval: undefined,
    metrics: ['clicks', 'leads', 'conversions', 'sales', 'revenue_cents', 'commission_cents'],
    sort: 'clicks',
    order: 'desc',
    limit: 25,
    currency: undefined,
  }
}

const byDay = { interval: 'day' } as const
const reads: [what: string, changes: Partial<GroupsQuery>][] = [
  ['total by day', byDay],
  ['by partner', { groupBy: 'partner' }],
  ['by link and day', { groupBy: 'link', ...byDay }],
  ['by country and day', { groupBy: 'country', ...byDay }],
  ['by link and day in Kolkata', { groupBy: 'link', ...byDay, timeZone: 'Asia/Kolkata' }],
  ['by partner and day in Kolkata', { groupBy: 'partner', ...byDay, timeZone: 'Asia/Kolkata' }],
  ['by country and week in Kolkata', { groupBy: 'country', interval: 'week', timeZone: 'Asia/Kolkata' }],
  ['by device', { groupBy: 'device' }],
  ['by referrer', { groupBy: 'referrer' }],
  ['by page and day', { groupBy: 'page', ...byDay }],
  ['by page and day in Kolkata', { groupBy: 'page', ...byDay, timeZone: 'Asia/Kolkata' }],
  ['by sub1 and week in Berlin', { groupBy: 'sub1', interval: 'week', timeZone: 'Europe/Berlin' }],
]

/** A statement as the driver sends it. Postgres writes arrays with braces. */
function asCall(statement: ReturnType<typeof groupsStatement>): Call {
  const { sql: query, parameters } = statement.compile()
  return {
    query,
    params: parameters.map((value) =>
      Array.isArray(value) ? `{${value.join(',')}}` : value === null ? null : `${value as string | number}`,
    ),
  }
}

async function seedProgram(events: number) {
  const database = await startDatabase(['fsync=off', 'shared_buffers=1GB', 'max_wal_size=8GB', 'work_mem=256MB'])
  const { sql, sandbox } = database
  const { programId } = sandbox
  const { firstPartner, firstLink } = await seedPartners(sql, programId, 100)
  const first: Partial<Record<Name, number>> = { partner: firstPartner, link: firstLink }
  for (const name of groupingNames) {
    const count = values[name]
    const value = name in first ? `(${first[name]} + n)::text` : name === 'all' ? `''` : `'value ' || n`
    for (const [metric, every, amount] of moved) {
      await seedTotals(sql, programId, { name, value, count, metric, times: Math.floor(events / every), amount })
    }
  }
  await sql.query(
    `insert into grouped_totals (program_id, grouping_name, span, starts, value, currency, clicks, bot_clicks, leads, conversions, sales, revenue_cents,
      commission_cents, refunded_cents)
    select program_id, grouping_name, span, starts, value, currency, ${dayColumns.join(', ')} from (
      select *, sums[cardinality(sums)] as amount from grouped_quarters where program_id = $1
    ) q cross join lateral (values ('day'::total_span, day), ('month', date_trunc('month', day::timestamp)::date)) s (span, starts)
    group by program_id, grouping_name, span, starts, value, currency`,
    [programId],
  )
  await sql.query('vacuum analyze')
  return { database, programId, connection: await Connection.open(database.databaseUrl) }
}

const quartersOfDay = 96

/** The totals of one metric by one grouping, spread evenly over days, values and quarters of an hour. */
async function seedTotals(
  sql: pg.Client,
  programId: number,
  of: { name: GroupingName; value: string; count: number; metric: GroupedMetric; times: number; amount: number },
): Promise<void> {
  const cells = days * of.count * quartersOfDay
  const filled = Math.min(of.times, cells)
  // The divisions are exact, so that no grouping has a remainder, because the intervals of a remainder would need all values.
  const reached =
    filled < cells ? 'nth' : `((cell + 1) * ${of.times} / ${cells} - row * ${quartersOfDay} * ${of.times} / ${cells})`
  await sql.query(
    `insert into grouped_quarters (program_id, grouping_name, metric, currency, day, value, quarters, sums)
    select $1::bigint, $2::grouping_name, $3::grouped_metric, $4, utc_day(now()) - 1 - (row / ${of.count})::integer, ${of.value},
      array_agg((cell % ${quartersOfDay})::smallint order by cell),
      array_agg($5::bigint * ${reached} order by cell)
    from (
      select cell, cell / ${quartersOfDay} as row, (cell / ${quartersOfDay} % ${of.count}) as n,
        row_number() over (partition by cell / ${quartersOfDay} order by cell) as nth
      from (select (k * ${cells} + ${filled - 1}) / ${filled} as cell from generate_series(0::bigint, ${filled - 1}) k) filled
    ) cells
    group by row, n`,
    [programId, of.name, of.metric, moneyMetrics.includes(of.metric) ? 'usd' : '', of.amount],
  )
}

const recorded = 40_000

/** Returns how many microseconds Postgres takes to count a click, and for the dashboard's read. */
async function counting(result: Result): Promise<void> {
  const database = await startDatabase()
  const { db, sql, sandbox, databaseUrl, postgresPid } = database
  const { programId } = sandbox
  const { firstLink } = await seedPartners(sql, programId, 100)
  await sql.query('select make_event_partitions(1)')
  await sql.query(
    `with clicked as (
      insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, affiliate_url, page_url, referrer_url,
        geo_country, device_type, browser_name, campaign)
      select $1, now() - make_interval(secs => (${recorded} - n) * 0.01), n, n, 'click', $2 + n % 100, 'https://shop.example.com/?aff=x',
        'https://shop.example.com/' || n % 20, 'https://blog' || n % 30 || '.example.org/', 'C' || n % 40,
        case n % 3 when 0 then 'mobile' else 'desktop' end, 'B' || n % 8,
        case when n % 2 = 0 then jsonb_build_object('utm_source', 'S' || n % 10) end
      from generate_series(1, ${recorded}) n returning *
    )
    insert into uncounted_clicks (program_id, link_id, clicked_at, event_id) select program_id, link_id, click_timestamp, id from clicked`,
    [programId, firstLink],
  )
  await sql.query('vacuum analyze')
  await countClicks(db, 100)
  for (const [batch, times] of [
    [100, 50],
    [20_000, 1],
  ] as const) {
    const before = cpuMicroseconds(postgresPid, true)
    let counted = 0
    for (let n = 0; n < times; n++) counted += await countClicks(db, batch)
    const cpu = (cpuMicroseconds(postgresPid, true) - before) / counted
    result.figures.push({
      what: `counting a click, ${batch.toLocaleString('en')} at once, us of CPU`,
      measured: round(cpu),
    })
  }
  while ((await countClicks(db, 20_000)) + (await countFigures(db, 20_000)) > 0);
  // In production, autovacuum does this within a minute.
  await sql.query('vacuum analyze')
  const connection = await Connection.open(databaseUrl)
  const now = Date.now()
  const program = { id: programId, currency: 'usd', createdAt: new Date(now - 30 * dayMs) }
  for (const period of ['7d', '30d', 'all'] as const) {
    const statements = await capture(() => readPerformance(captured, program, { period }, now))
    const calls = Array.from({ length: 500 }, () => statements)
    await drive([connection], calls.slice(0, 50))
    const before = cpuMicroseconds(postgresPid, true)
    await drive([connection], calls)
    const cpu = (cpuMicroseconds(postgresPid, true) - before) / calls.length
    result.figures.push({ what: `the dashboard's read, ${period}, CPU us`, measured: round(cpu) })
    result.goals.push({ what: `the dashboard's read, ${period}, CPU us`, measured: cpu, most: 1200 })
  }
  const statements = await capture(() => readGroups(captured, programId, { ...wholeQuery(), groupBy: 'partner' }))
  result.figures.push({ what: 'statements in the one request of a read by group', measured: statements.length })
  await connection.close()
  await database.close()
}
