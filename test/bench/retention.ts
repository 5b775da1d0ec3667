import applyRetention from '../../functions/apply-retention.ts'
import countClicks from '../../functions/count-clicks.ts'
import makePartitions from '../../functions/make-partitions.ts'
import { apiKeyHash } from '../../lib/access/api-keys.ts'
import { findDifferences } from '../../lib/commands/audit.ts'
import { recordSale } from '../../lib/money/sales.ts'
import { recordClick } from '../../lib/tracking/clicks.ts'
import { foldDailyTotals } from '../../lib/tracking/daily-totals.ts'
import { eventsStatement } from '../../lib/tracking/events.ts'
import { recordServerLead } from '../../lib/tracking/leads.ts'
import { readPerformance } from '../../lib/tracking/performance.ts'
import { setClock } from '../support/clock.ts'
import { noLead, noSale } from '../support/ledger.ts'
import { callsOf, clickOn } from './calls.ts'
import { capture, captured } from './capture.ts'
import { type Call, Connection, drive, quantile } from './driver.ts'
import { type BenchDatabase, startDatabase } from './environment.ts'
import { type Result, round } from './result.ts'
import { seedPartners } from './seed.ts'

const months = 36
/** A quarter of a day's clicks, in a program with 300,000 a day. */
const clicksOfMonth = 75_000
const leadsOfMonth = 750
const salesOfMonth = 250
const links = 1000
const vacuumed = 'customers, uncounted_clicks, link_clicks, link_months, daily_totals, daily_money, sales, commissions'
const rounds = 5
/** The service is measured after these months. It keeps 25 months, so it drops clicks from the 26th on. */
const measuredAfter = [1, 3, 6, 12, 18, 24, 27, 30, 33, 36]

/**
 * Plays three years of one program month by month, with a clock that the benchmark sets. A month has clicks of different visitors, one lead
 * per hundred clicks, one sale per three hundred, and one run of the scheduled functions. Each month has a quarter of the clicks of a day
 * with 300,000, so `apply-retention` does a quarter of a night's work per run. Inserts clicks with one statement per month, with the same
 * rows that `track_click` writes. The service does everything else. No commit waits for the disk.
 */
export async function retention(): Promise<Result> {
  const database = await startDatabase(['fsync=off', 'shared_buffers=1GB', 'max_wal_size=8GB'])
  const { sql, sandbox, env } = database
  const { programId } = sandbox
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const first = await seedPartners(sql, programId, links)
  const setTime = await setClock(database)
  // Connections that were opened before the clock was set don't use that clock.
  await sql.query('set search_path = clock, pg_catalog, public')
  await sql.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  )
  const begin = new Date()
  begin.setUTCHours(0, 0, 0, 0)
  begin.setUTCMonth(begin.getUTCMonth() - months, 1)
  await sql.query('update programs set created_at = $1', [begin])
  const connections = await Promise.all([1, 2, 3].map(() => Connection.open(database.databaseUrl)))
  const measuring = await Connection.open(database.databaseUrl)

  const figures: Result['figures'] = []
  const written = { clicks: 0, leads: 0, sales: 0 }
  for (let month = 1; month <= months; month++) {
    const from = monthAfter(begin, month - 1)
    const to = monthAfter(begin, month)
    await setTime(from)
    await run(makePartitions, env)
    await seedClicks(database, first, from, to, written.clicks)
    written.clicks += clicksOfMonth
    await setTime(new Date(to.getTime() - 60_000))
    await drive(connections, await leadsAndSales(programId, keyHash, written))
    await setTime(to)
    await run(countClicks, env)
    while ((await foldDailyTotals(database.db, 10_000)) > 0);
    const started = performance.now()
    await run(applyRetention, env)
    const retention_s = (performance.now() - started) / 1000
    // In production, autovacuum does this within a month.
    await sql.query(`vacuum analyze ${vacuumed}, affiliate_click_events_${monthName(from)}`)
    if (!measuredAfter.includes(month)) continue
    const times = await measure(measuring, programId, to)
    written.clicks += rounds * 20 + 20
    figures.push({ month, ...(await sizesOf(database)), 'retention, s': round(retention_s), ...times })
  }

  await setTime(monthAfter(begin, months))
  await run(countClicks, env)
  const now = monthAfter(begin, months).getTime()
  const program = { id: programId, currency: 'usd', createdAt: begin }
  const { metrics } = await readPerformance(database.db, program, { period: 'all' }, now)
  const differences = await findDifferences(sql)
  for (const connection of [...connections, measuring]) await connection.close()
  await database.close()

  /**
   * Returns the median of the months from the 27th on, when clicks are dropped, divided by that of the months from the
   * 6th on.
   */
  const level = (column: string, most: number) => {
    const median = (from: number, to: number) => {
      const measured = figures.filter(({ month }) => Number(month) >= from && Number(month) <= to)
      return quantile(
        measured.map((row) => Number(row[column])),
        0.5,
      )
    }
    return {
      what: `${column} in months 27 to 36 relative to months 6 to 24`,
      measured: median(27, 36) / median(6, 24),
      most,
    }
  }
  const sizeAt = (wanted: number) => Number(figures.find(({ month }) => month === wanted)?.['clicks and visitors, MB'])
  return {
    figures,
    goals: [
      {
        what: 'MB of clicks and visitors in month 36 relative to month 27',
        measured: sizeAt(36) / sizeAt(27),
        most: 1.05,
      },
      ...['performance 30d, ms', 'click, ms', 'retention, s'].map((column) => level(column, 1.3)),
      // This read returns a row per day, and days are never deleted. Postgres plans the list for each kept month.
      ...['performance all, ms', 'events, ms'].map((column) => level(column, 2)),
      {
        what: 'reported share of the written clicks',
        measured: metrics.totalClicks / written.clicks,
        least: 1,
        most: 1,
      },
      { what: 'reported share of the written leads', measured: metrics.totalLeads / written.leads, least: 1, most: 1 },
      {
        what: 'reported share of the written sales',
        measured: metrics.totalConversions / written.sales,
        least: 1,
        most: 1,
      },
      { what: 'findings of the audit', measured: differences.length, most: 0 },
    ],
  }
}

async function run(
  entry: { scheduled(event: unknown, env: BenchDatabase['env']): Promise<void> },
  env: BenchDatabase['env'],
): Promise<void> {
  const { log } = console
  console.log = () => {}
  try {
    await entry.scheduled(undefined, env)
  } finally {
    console.log = log
  }
}

function monthAfter(begin: Date, count: number): Date {
  const time = new Date(begin)
  time.setUTCMonth(time.getUTCMonth() + count)
  return time
}

const monthName = (month: Date) => month.toISOString().slice(0, 7).replace('-', '_')

const clickIdOf = (programId: number, n: number) => `cust_1700000000000_${String(n).padStart(20, '0')}${programId}`

/** Inserts a month's clicks, evenly spread and in time order, numbered from `after` + 1. */
async function seedClicks(
  { sql, sandbox: { programId } }: BenchDatabase,
  first: { firstLink: number; firstPartner: number },
  from: Date,
  to: Date,
  after: number,
): Promise<void> {
  const { user_agent, page_title, referrer_url, page_url, language, timezone, session_id } = clickOn('code1')
  await sql.query(
    `with visitor as (
      insert into customers (program_id, click_id, link_id, partner_id, last_click_at, created_at)
      select $1::bigint, 'cust_1700000000000_' || lpad(n::text, 20, '0') || $1::bigint, $2 + n % ${links}, $3 + n % ${links}, at, at
      from generate_series($4::bigint + 1, $4::bigint + ${clicksOfMonth}) n
      cross join lateral (select $5::timestamptz + (n - $4::bigint - 0.5) / ${clicksOfMonth} * ($6::timestamptz - $5::timestamptz) as at) t
      returning id, click_id, link_id, last_click_at
    ), event as (
      insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, session_id, affiliate_url, page_url,
        page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city,
        device_type, device_os, browser_name, created_at)
      select $1, last_click_at, id, id, click_id, link_id, $7, 'https://shop.example.com/shoes?aff=code1&utm_source=blog', $8, $9, $10, $11,
        '1920x1080', '1280x720', $12, $13, 'US', 'California', 'San Francisco', 'desktop', 'Windows', 'Chrome', last_click_at
      from visitor
    )
    insert into uncounted_clicks (program_id, link_id, clicked_at) select $1, link_id, last_click_at from visitor`,
    [
      programId,
      first.firstLink,
      first.firstPartner,
      after,
      from,
      to,
      session_id,
      page_url,
      page_title,
      referrer_url,
      user_agent,
      language,
      timezone,
    ],
  )
}

/** Returns the calls for a month's leads and sales. The month's last visitors sign up, and the first of those buy. */
async function leadsAndSales(
  programId: number,
  keyHash: string,
  written: { clicks: number; leads: number; sales: number },
): Promise<Call[]> {
  const last = written.clicks
  const lead = callsOf((n) =>
    recordServerLead(
      captured,
      keyHash,
      { ...noLead, customer_key: `user${last - n + 1}`, click_id: clickIdOf(programId, last - n + 1) },
      null,
    ),
  )
  const sale = callsOf((n) =>
    recordSale(
      captured,
      keyHash,
      {
        ...noSale,
        transaction_id: `order${last - n + 1}`,
        customer_key: `user${last - n + 1}`,
        click_id: null,
        amount_cents: 4900,
        currency: 'usd',
      },
      null,
      crypto.randomUUID(),
    ),
  )
  written.leads += leadsOfMonth
  written.sales += salesOfMonth
  return [...(await lead(leadsOfMonth)), ...(await sale(salesOfMonth))]
}

const repeated = (call: Call) => (count: number) => Array.from({ length: count }, () => call)

/**
 * Times calls one at a time, as Neon's proxy sends them. Returns medians of the minimum of some rounds, because other work can disturb a
 * round.
 */
async function measure(connection: Connection, programId: number, now: Date): Promise<Record<string, number>> {
  const program = { id: programId, currency: 'usd', createdAt: now }
  const performanceOf = (period: 'all' | '30d') =>
    capture(() => readPerformance(captured, program, { period }, now.getTime()))
  const events = (['click', 'lead', 'conversion'] as const).map((type) => {
    const { sql: query, parameters } = eventsStatement(type, programId, {}, 30).compile()
    return { query, params: parameters.map(String) }
  })
  const statements: Record<string, (count: number) => Call[] | Promise<Call[]>> = {
    'performance 30d, ms': repeated(await performanceOf('30d')),
    'performance all, ms': repeated(await performanceOf('all')),
    'events, ms': repeated(events),
    'click, ms': callsOf((n) => recordClick(captured, clickOn(`code${1 + (n % links)}`), null, now.getTime() - n)),
  }
  const times: Record<string, number[]> = {}
  for (let n = 0; n <= rounds; n++) {
    for (const [name, calls] of Object.entries(statements)) {
      const { p50_ms } = await drive([connection], await calls(20))
      if (n > 0) (times[name] ??= []).push(p50_ms)
    }
  }
  return Object.fromEntries(Object.entries(times).map(([name, each]) => [name, round(Math.min(...each))]))
}

async function sizesOf({ sql }: BenchDatabase): Promise<Record<string, number>> {
  const { rows } = await sql.query<Record<string, string>>(
    `with size as (
      select coalesce(parent.relname, c.relname) as name, sum(pg_total_relation_size(c.oid)) / 1e6 as mb
      from pg_class c left join pg_inherits i on i.inhrelid = c.oid left join pg_class parent on parent.oid = i.inhparent
      where c.relkind = 'r' group by 1
    )
    select pg_database_size(current_database()) / 1e6 as "all, MB",
      (select sum(mb) from size where name in ('affiliate_click_events', 'customers', 'uncounted_clicks')) as "clicks and visitors, MB",
      (select count(*) from affiliate_click_events) as clicks, (select count(*) from customers) as customers`,
  )
  return Object.fromEntries(Object.entries(rows[0] ?? {}).map(([name, value]) => [name, Math.round(Number(value))]))
}
