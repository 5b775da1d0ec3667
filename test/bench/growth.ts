import type pg from 'pg'
import { apiKeyHash } from '../../lib/access/api-keys.ts'
import { foldDailyTotals } from '../../lib/tracking/daily-totals.ts'
import { eventsStatement } from '../../lib/tracking/events.ts'
import { readPerformance } from '../../lib/tracking/performance.ts'
import { clicks, refunds, sales } from './calls.ts'
import { capture, captured } from './capture.ts'
import { type Call, Connection, drive, quantile } from './driver.ts'
import { type BenchDatabase, startDatabase } from './environment.ts'
import { type Options, type Result, round } from './result.ts'
import { seedCounters, seedCustomers, seedPartners, seedSales } from './seed.ts'

const days = 180
const rounds = 5
const dayMs = 86_400_000

/**
 * Measures the reads and writes of one program with 100,000 click events, a million and ten million (`--events`), over 180 days. There is
 * one customer per four clicks, one lead per twenty, and one sale per hundred. Each size has its own database. They take turns, with the
 * real statements and without HTTP. No commit waits for the disk.
 */
export async function growth({ events }: Options): Promise<Result> {
  const sizes = [100_000, 1_000_000, 10_000_000].filter((size) => size < events).concat(events)
  const result: Result = { figures: [], goals: [] }
  const programs: Awaited<ReturnType<typeof seedProgram>>[] = []
  for (const size of sizes) {
    const started = performance.now()
    const program = await seedProgram(size)
    programs.push(program)
    const { rows } = await program.database.sql.query<{ size: string }>(
      'select pg_size_pretty(pg_database_size(current_database())) as size',
    )
    result.figures.push({
      what: `seeding ${size.toLocaleString('en')}, seconds`,
      size: rows[0]?.size ?? '',
      last: round((performance.now() - started) / 1000),
    })
  }
  for (const name of statementNames) {
    const times = sizes.map((): number[] => [])
    for (let n = 0; n <= rounds; n++) {
      for (const [index, { connection, statements }] of programs.entries()) {
        const { p50_ms } = await drive([connection], await statements[name](20))
        if (n > 0) times[index]?.push(p50_ms)
      }
    }
    const [smallest = [], largest = []] = [times[0], times.at(-1)]
    const ratio = quantile(
      largest.map((time, n) => time / (smallest[n] ?? NaN)),
      0.5,
    )
    result.figures.push({
      what: `${name}, ms`,
      ...Object.fromEntries(
        sizes.map((size, index) => [size.toLocaleString('en'), round(quantile(times[index] ?? [], 0.5))]),
      ),
      ratio: round(ratio),
    })
    result.goals.push({ what: `${name} at ${events.toLocaleString('en')} by 100,000`, measured: ratio, most: 1.3 })
  }
  for (const { connection, database } of programs) {
    await connection.close()
    await database.close()
  }
  return result
}

/** A database with one program that has this many click events and their customers, leads and sales. */
async function seedProgram(events: number) {
  const database = await startDatabase([
    'fsync=off',
    'shared_buffers=1GB',
    'max_wal_size=8GB',
    'maintenance_work_mem=512MB',
  ])
  const { sql, sandbox } = database
  const { programId } = sandbox
  const keyHash = await apiKeyHash(`Bearer ${sandbox.apiKey}`)
  const first = await seedPartners(sql, programId, 1000)
  await sql.query(`update programs set created_at = now() - make_interval(days => $1)`, [days])
  await makePastPartitions(sql)
  await seedCustomers(sql, programId, first, { from: 900_000_001, count: 5000, partners: 1000, key: 'buyer' })
  await seedCustomers(sql, programId, first, { from: 950_000_001, count: 5000, partners: 1000, key: 'refunded' })
  await seedSales(sql, programId, 'refunded', 'order')
  await seedCounters(sql, programId)
  await seedHistory(database, first, events)
  return {
    database,
    statements: await measuredStatements(programId, keyHash),
    connection: await Connection.open(database.databaseUrl),
  }
}

const repeated = (call: Call) => (count: number) => Array.from({ length: count }, () => call)

const statementNames = [
  'performance 7d',
  'performance 90d',
  'performance over all time',
  'performance between odd minutes',
  'performance from noon to noon',
  'performance between half hours, with the most rows',
  'a page of 10 events',
  'the last page of 100 events',
  'click',
  'sale',
  'refund',
] as const

async function measuredStatements(programId: number, keyHash: string) {
  const now = Date.now()
  const program = { id: programId, currency: 'usd', createdAt: new Date(now - days * dayMs) }
  const performanceOf = async (query: object) => await capture(() => readPerformance(captured, program, query, now))
  const eventsOf = (pageSize: number) =>
    (['click', 'lead', 'conversion'] as const).map((type) => {
      const { sql: query, parameters } = eventsStatement(type, programId, {}, 3 * pageSize).compile()
      return { query, params: parameters.map(String) }
    })
  const ragged = (fromHour: number, toHour: number) => ({
    dateFrom: new Date(Math.floor(now / dayMs) * dayMs - 60 * dayMs + fromHour * 3_600_000),
    dateTo: new Date(Math.floor(now / dayMs) * dayMs - 10 * dayMs + toHour * 3_600_000),
  })
  return {
    'performance 7d': repeated(await performanceOf({ period: '7d' })),
    'performance 90d': repeated(await performanceOf({ period: '90d' })),
    'performance over all time': repeated(await performanceOf({ period: 'all' })),
    'performance between odd minutes': repeated(await performanceOf(ragged(0.05, 23.95))),
    'performance from noon to noon': repeated(await performanceOf(ragged(12, 12))),
    'performance between half hours, with the most rows': repeated(await performanceOf(ragged(12.5, 12.5))),
    'a page of 10 events': repeated(eventsOf(10)),
    'the last page of 100 events': repeated(eventsOf(100)),
    click: clicks(programId, 1000),
    sale: sales(keyHash, 'buyer', 5000),
    refund: refunds(keyHash, 'order'),
  } satisfies Record<(typeof statementNames)[number], (count: number) => Call[] | Promise<Call[]>>
}

async function makePastPartitions(sql: pg.Client): Promise<void> {
  await sql.query(`do $$ declare month timestamptz; parent text; begin
    for month in select generate_series(date_trunc('month', now()) - make_interval(days => ${days + 31}),
      date_trunc('month', now()) - interval '1 day', interval '1 month') loop
      foreach parent in array array['affiliate_click_events', 'affiliate_lead_events'] loop
        execute format('create table if not exists %I partition of %I for values from (%L) to (%L)',
          parent || '_' || to_char(date_trunc('month', month), 'YYYY_MM'), parent, date_trunc('month', month),
          date_trunc('month', month) + interval '1 month');
      end loop;
    end loop;
  end $$`)
}

/**
 * Inserts events in time order, spread evenly over the days before now, with the totals that the writes would have
 * created.
 */
async function seedHistory(
  { db, sql, sandbox: { programId } }: BenchDatabase,
  first: { firstLink: number; firstPartner: number },
  events: number,
): Promise<void> {
  const at = `now() - interval '1 hour' - make_interval(secs => (1 - n / ${events}.0) * ${days - 1} * 86400)`
  await sql.query(
    `insert into customers (program_id, click_id, customer_key, link_id, partner_id, customer_status, last_click_at, signup_date,
      lead_event_id, first_purchase_date)
    select $1::bigint, 'cust_1780000000000_' || lpad(n::text, 20, '0') || $1::bigint, case when n % 20 = 0 then 'user' || n end,
      $2 + n % 1000, $3 + n % 1000,
      case when n % 100 = 0 then 'conversion' when n % 20 = 0 then 'lead' else 'click' end, ${at},
      case when n % 20 = 0 then ${at} end, case when n % 20 = 0 then n end, case when n % 100 = 0 then ${at} end
    from generate_series(4, $4::bigint, 4) n`,
    [programId, first.firstLink, first.firstPartner, events],
  )
  const { rows } = await sql.query<{ id: string }>(
    `select id from customers where program_id = $1 and click_id = 'cust_1780000000000_' || lpad('4', 20, '0') || $1::bigint`,
    [programId],
  )
  const idOfFourth = Number(rows[0]?.id)
  await sql.query(
    `insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, link_id, session_id, affiliate_url, page_url,
      referrer_url, user_agent, geo_country, geo_region, geo_city, device_type, device_os, browser_name)
    select $1, ${at}, n, $4 + greatest(n / 4, 1) - 1, $2 + n % 1000, 's' || n, 'https://shop.example.com/?aff=code' || n % 1000,
      'https://shop.example.com/', 'https://blog.example.org/', 'Mozilla/5.0 (Windows NT 10.0; Win64; x64)', 'US', 'California',
      'San Francisco', 'desktop', 'Windows', 'Chrome'
    from generate_series(1, $3::bigint) n`,
    [programId, first.firstLink, events, idOfFourth],
  )
  await sql.query(
    `insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key)
    select program_id, signup_date, lead_event_id, id, customer_key from customers
    where program_id = $1 and signup_date < now() - interval '30 minutes'`,
    [programId],
  )
  await sql.query(
    `with sale as (
      insert into sales (program_id, transaction_id, customer_id, partner_id, customer_key, sale_date, amount_cents,
        commission_base_cents, commission_bp, currency)
      select program_id, 'history' || lead_event_id, id, partner_id, customer_key, first_purchase_date, 4900, 4900, 2000, 'usd' from customers
      where program_id = $1 and first_purchase_date < now() - interval '30 minutes'
      returning *
    )
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until, created_at)
    select program_id, 'sale', partner_id, customer_id, id, currency, 980, sale_date + interval '30 days', sale_date from sale`,
    [programId],
  )
  await sql.query(
    `insert into daily_totals as counted (program_id, day, slot, clicks)
    select program_id, utc_day(click_timestamp), counter_slot(click_timestamp), count(*) from affiliate_click_events
    where program_id = $1
    group by 1, 2, 3 on conflict (program_id, day, slot) do update set clicks = counted.clicks + excluded.clicks`,
    [programId],
  )
  await sql.query(
    `insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents)
    select program_id, utc_day(sale_date), 'usd', counter_slot(sale_date), count(*), count(*) * 4900, count(*) * 980 from sales
    where program_id = $1 and transaction_id like 'history%' group by 1, 2, 4
    on conflict (program_id, day, currency, slot) do update set sales = counted.sales + excluded.sales,
      revenue_cents = counted.revenue_cents + excluded.revenue_cents, commission_cents = counted.commission_cents + excluded.commission_cents`,
    [programId],
  )
  while ((await foldDailyTotals(db, 10_000)) > 0);
  await sql.query('vacuum analyze')
}
