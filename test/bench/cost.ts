import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { Cron } from 'croner'
import { loggedPart } from '../../lib/api/app.ts'
import { writeArchive } from '../../lib/commands/archive.ts'
import { readFunctions } from '../../lib/commands/wrangler-file.ts'
import { rewriteClicks } from '../../lib/tracking/retention.ts'
import { bytesOfClick, fillPastMonth } from './click-bytes.ts'
import { drive } from './driver.ts'
import { type Endpoint, seedEndpoints, take } from './endpoints.ts'
import { type BenchStack, cpuMicroseconds, startStack } from './environment.ts'
import { HttpConnection } from './http.ts'
import { bill, prices, scaleComputeDollars, type Usage } from './prices.ts'
import { type Result, round } from './result.ts'

/** The month whose bill is computed, after 25 months with the same traffic. */
const month = {
  clicks: 50e6,
  /** Whole months for which clicks are kept. */
  months: 25,
  hours: 730,
  days: 31,
  /** A lead for every 50 clicks, a sale for every 100, a refund for every 20 sales, and a page of the dashboard for every 100 clicks. */
  lead: 1 / 50,
  sale: 1 / 100,
  refund: 1 / 2000,
  performance: 1 / 100,
  /** Half a CU has 2 GB of memory. Click ids begin with the time, so the index pages for new clicks stay in memory. */
  computeUnits: 0.5,
  /** The busiest minutes have this multiple of the average traffic. */
  peak: 10,
  /** The plan allows 7 days of restore history, so a backup of the rows once a week is enough. */
  historyDays: 7,
  backups: 4.3,
  storedBackups: 2,
}

const calls = { click: 20_000, lead: 4000, sale: 4000, refund: 1000, performance: 500 }
type Call = keyof typeof calls
const pastClicks = 50_000

/**
 * The cost of a call. CPU is in microseconds. `bytes` is the growth of the database with all indexes, `text` that of its rows in a backup,
 * `answer` the bytes that Neon sends, and `queue` the requests to SQS.
 */
interface Unit {
  workerd: number
  postgres: number
  wal: number
  bytes: number
  text: number
  answer: number
  queue: number
}

async function read(stack: BenchStack): Promise<Unit> {
  await stack.sql.query('checkpoint')
  const { rows } = await stack.sql.query<{ wal: string; size: string }>(
    `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as wal, pg_database_size(current_database()) as size`,
  )
  const control = await fetch(new URL('/control', stack.neon.url), { headers: stack.neon.control })
  const { answered_bytes } = (await control.json()) as { answered_bytes: number }
  return {
    workerd: cpuMicroseconds(stack.workerdPid),
    postgres: cpuMicroseconds(stack.postgresPid, true),
    wal: Number(rows[0]?.wal),
    bytes: Number(rows[0]?.size),
    text: await bytesOfBackup(stack),
    answer: answered_bytes,
    queue: await stack.queueRequests(),
  }
}

async function measure(stack: BenchStack, endpoint: Endpoint, count: number): Promise<Unit> {
  const carriers = Array.from({ length: 8 }, () => new HttpConnection(stack.baseUrl))
  await drive(carriers, take(endpoint, count / 10))
  const before = await read(stack)
  await drive(carriers, take(endpoint, count))
  if (endpoint.name === 'click') await stack.scheduled('count-clicks')
  // A refund notifies partners.
  if (endpoint.name === 'refund') await stack.scheduled('deliver-notifications')
  const after = await read(stack)
  for (const carrier of carriers) carrier.close()
  const each = (name: keyof Unit) => (after[name] - before[name]) / count
  return {
    workerd: each('workerd'),
    postgres: each('postgres'),
    wal: each('wal'),
    bytes: each('bytes'),
    text: each('text'),
    answer: each('answer'),
    queue: each('queue'),
  }
}

/**
 * The bill of a month with 50 million clicks, after 25 such months: the measured cost of each call times its number, at the providers'
 * prices. All of workerd's CPU time counts as Worker time, although Cloudflare bills less.
 */
export async function cost(): Promise<Result> {
  const stack = await startStack({ counts: false })
  const endpoints = await seedEndpoints(stack, Math.max(calls.lead, calls.sale, calls.refund) * 1.1)
  const units: Record<Call, Unit> = { click: none(), lead: none(), sale: none(), refund: none(), performance: none() }
  for (const endpoint of endpoints) {
    if (isCall(endpoint.name)) units[endpoint.name] = await measure(stack, endpoint, calls[endpoint.name])
  }
  const visitor = await bytesOfTable(stack, 'customers')
  const past = await measurePastMonth(stack)
  await stack.close()

  const scaleDollars = month.computeUnits * month.hours * (scaleComputeDollars - prices.compute.dollars)
  const { rows, dollars } = bill(usagesOf(units, past, visitor))
  return {
    figures: [
      ...Object.entries(units).map(([name, unit]) => ({
        what: `a ${name}`,
        ...Object.fromEntries(Object.entries(unit).map(([of, amount]) => [of, round(amount)])),
      })),
      ...Object.entries(past.before.columns).map(([name, bytes]) => ({
        what: `bytes of a click: ${name}`,
        new: round(bytes),
        past: round(past.after.columns[name] ?? 0),
      })),
      { what: 'bytes of a click: rows with headers', new: round(past.before.rows), past: round(past.after.rows) },
      { what: 'bytes of a click: indexes', new: round(past.before.indexes), past: round(past.after.indexes) },
      { what: 'bytes of a click: shared texts', new: 0, past: round(past.parts) },
      { what: 'bytes of a click: in the archive', new: 0, past: round(past.parquet) },
      ...rows,
      { what: 'all of them', dollars: round(dollars), how: '' },
      { what: 'all of them, with Neon Scale', dollars: round(dollars + scaleDollars), how: '' },
    ],
    goals: [
      { what: 'bytes of a past click relative to a new one', measured: past.pastClick / past.newClick, most: 0.5 },
      { what: 'dollars for 50 million clicks a month, after 25 months', measured: dollars, most: 250 },
      {
        what: `share of the processor that Postgres uses at ${month.peak} times the average traffic`,
        measured: (month.peak * busyHours(units, past)) / (month.computeUnits * month.hours),
        most: 0.5,
      },
    ],
  }
}

const none = (): Unit => ({ workerd: 0, postgres: 0, wal: 0, bytes: 0, text: 0, answer: 0, queue: 0 })
const isCall = (name: string): name is Call => name in calls

type PastMonth = Awaited<ReturnType<typeof measurePastMonth>>

/** The number of these calls in the month. */
const monthly = (name: Call) => month.clicks * (name === 'click' ? 1 : month[name])

/** Sums a figure of all calls of the month. */
const sumOf = (units: Record<Call, Unit>, of: keyof Unit) =>
  Object.entries(units).reduce((sum, [name, unit]) => sum + (isCall(name) ? monthly(name) * unit[of] : 0), 0)

const busyHours = (units: Record<Call, Unit>, past: PastMonth) =>
  (sumOf(units, 'postgres') + month.clicks * past.rewritingCpu) / 1e6 / 3600

const gb = (bytes: number) => bytes / 1e9
const each = (amount: number, of: string) => `${round(amount)} ${of}`

function usagesOf(units: Record<Call, Unit>, past: PastMonth, visitor: { bytes: number; text: number }): Usage[] {
  const { clicks, months, days, hours } = month
  const requests = (['click', 'lead', 'sale', 'refund', 'performance'] as const).reduce(
    (sum, name) => sum + monthly(name),
    0,
  )
  const runs = scheduledRuns()
  const { newClick, pastClick } = past
  const kept = (name: Call) => gb(monthly(name) * months * units[name].bytes)
  /** A backup has the clicks of this month, on average half of them and three days, the visitors, and everything else of 25 months. */
  const backup = gb(
    clicks * ((0.5 + 3 / days) * past.text + visitor.text) +
      months * (['lead', 'sale', 'refund'] as const).reduce((sum, name) => sum + monthly(name) * units[name].text, 0),
  )
  return [
    { price: 'workersPlan', amount: 1, how: '' },
    { price: 'request', amount: requests, how: 'one for each call; a browser does not ask first' },
    { price: 'request', amount: runs, how: 'runs of the schedules in wrangler.toml' },
    { price: 'workerCpu', amount: sumOf(units, 'workerd') / 1000, how: each(units.click.workerd, 'us for a click') },
    {
      price: 'staticRequest',
      amount: clicks,
      how: 'the script for each click, which browsers keep for a day, and packages',
    },
    { price: 'logEvent', amount: requests * loggedPart + runs, how: `${loggedPart} of the calls, and each run` },
    { price: 'compute', amount: month.computeUnits * hours, how: `always on with ${month.computeUnits} CU` },
    {
      price: 'storage',
      amount: gb(clicks * (1 + 3 / days) * newClick),
      how: each(newClick, 'bytes for a click of this month'),
    },
    {
      price: 'storage',
      amount: gb(clicks * (months - 1) * pastClick),
      how: each(pastClick, 'bytes for a click of 24 past months'),
    },
    {
      price: 'storage',
      amount: gb(clicks * visitor.bytes),
      how: each(visitor.bytes, 'bytes for a visitor of 31 days'),
    },
    { price: 'storage', amount: kept('lead'), how: each(units.lead.bytes, 'bytes for a lead of 25 months') },
    { price: 'storage', amount: kept('sale'), how: each(units.sale.bytes, 'bytes for a sale with its commission') },
    { price: 'storage', amount: kept('refund'), how: each(units.refund.bytes, 'bytes for a refund') },
    {
      price: 'history',
      amount: gb(sumOf(units, 'wal') + clicks * past.rewritingWal) * (month.historyDays / days),
      how: `${month.historyDays} days; ${each(units.click.wal, 'bytes of WAL for a click')}, ${each(past.rewritingWal, 'for rewriting it')}`,
    },
    {
      price: 'egress',
      amount: gb(sumOf(units, 'answer')),
      how: each(units.click.answer, 'bytes for the answer to a click'),
    },
    {
      price: 'egress',
      amount: gb(clicks * past.text),
      how: `the archive of a month; ${each(past.text, 'bytes for a click')}`,
    },
    {
      price: 'egress',
      amount: backup * month.backups,
      how: `weekly backups without archived months; ${each(backup, 'GB')}`,
    },
    {
      price: 'objects',
      amount: gb(clicks * months * past.parquet),
      how: `the archive; ${each(past.parquet, 'bytes for a click')}`,
    },
    {
      price: 'objects',
      amount: backup * month.storedBackups * past.gzip,
      how: `two backups, compressed to ${round(past.gzip)}`,
    },
    { price: 'objectWrite', amount: clicks / 100_000 + 100, how: 'files of the archive and backups' },
    {
      price: 'queueRequest',
      amount: monthly('sale') * units.refund.queue + sumOf(units, 'queue'),
      how: each(units.refund.queue, 'for each notification of a sale or refund: send, receive and delete'),
    },
    { price: 'queueRequest', amount: 2 * 60 * hours, how: 'two queues each minute' },
  ]
}

/** Runs of all schedules in a month. Each counts as a request. */
function scheduledRuns(): number {
  const from = new Date('2026-10-01T00:00:00Z')
  const day = new Date('2026-10-01T23:59:59Z')
  return readFunctions()
    .flatMap(({ crons }) => crons)
    .reduce((sum, cron) => {
      let runs = 0
      const schedule = new Cron(cron, { timezone: 'UTC' })
      for (let at = schedule.nextRun(new Date(from.getTime() - 1)); at && at <= day; at = schedule.nextRun(at)) runs++
      return sum + runs * month.days
    }, 0)
}

/** Returns the bytes of all rows as text. */
async function bytesOfBackup({ sql }: BenchStack): Promise<number> {
  const { rows: tables } = await sql.query<{ name: string }>(
    `select c.oid::regclass::text as name from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`,
  )
  const sums = tables.map(({ name }) => `(select coalesce(sum(octet_length(t::text)), 0) from ${name} t)`)
  const { rows } = await sql.query<{ bytes: string }>(`select ${sums.join(' + ')} as bytes`)
  return Number(rows[0]?.bytes)
}

async function bytesOfTable({ sql }: BenchStack, table: string): Promise<{ bytes: number; text: number }> {
  const { rows } = await sql.query<{ bytes: number; text: number }>(
    `select pg_total_relation_size('${table}') / count(*)::float8 as bytes, avg(octet_length(t::text))::float8 as text from ${table} t`,
  )
  return rows[0] ?? { bytes: NaN, text: NaN }
}

/** Measures varied clicks before and after they are rewritten, by column, and in the archive. */
async function measurePastMonth(stack: BenchStack) {
  const { sql, db, sandbox } = stack
  const partition = await fillPastMonth(sql, sandbox.programId, pastClicks)
  const before = await bytesOfClick(sql, partition)
  const now = await read(stack)
  while ((await rewriteClicks(db, 5000)).more);
  const done = await read(stack)
  await sql.query(`vacuum analyze ${partition}`)
  const after = await bytesOfClick(sql, partition)
  const { rows } = await sql.query<{ parts: number }>(
    `select pg_total_relation_size('click_parts') / $1::float8 as parts`,
    [pastClicks],
  )
  const parts = rows[0]?.parts ?? NaN
  const { rows: texts } = await sql.query<{ text: string }>(
    `select e::text as text from click_events e where click_timestamp < now() - interval '20 days' limit 5000`,
  )
  const text = texts.map((row) => row.text).join('\n')
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-archive-'))
  const written = await writeArchive(stack.databaseUrl, folder)
  const sizes = readdirSync(folder).map((name) => statSync(path.join(folder, name)).size)
  rmSync(folder, { recursive: true })
  if (!written.some(({ rows: archived }) => archived === pastClicks)) throw new Error('The archive lacks the clicks.')
  return {
    before,
    after,
    parts,
    newClick: before.rows + before.indexes,
    pastClick: after.rows + after.indexes + parts,
    text: Buffer.byteLength(text) / texts.length,
    /** The size of compressed rows relative to their text. */
    gzip: gzipSync(text).length / Buffer.byteLength(text),
    parquet: sizes.reduce((sum, size) => sum + size, 0) / pastClicks,
    rewritingWal: (done.wal - now.wal) / pastClicks,
    rewritingCpu: (done.postgres - now.postgres) / pastClicks,
  }
}
