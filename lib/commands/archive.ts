import { createHash } from 'node:crypto'
import { createReadStream, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import { parquetWriteBuffer } from 'hyparquet-writer'
import type { Client } from 'pg'
import color from 'picocolors'
import * as z from 'zod/mini'
import { runCommand } from './command.ts'
import { withClient } from './migrate.ts'
import { OperatorError } from './operator-error.ts'
import { commandDatabase } from './running-stack.ts'

/** The columns of archived clicks. Times are in microseconds since 1970, and JSON is text. */
const columns = {
  program_id: 'INT64',
  is_test: 'BOOLEAN',
  click_timestamp: 'TIMESTAMP',
  id: 'INT64',
  customer_id: 'INT64',
  click_id: 'STRING',
  link_id: 'INT64',
  session_id: 'STRING',
  affiliate_url: 'STRING',
  page_url: 'STRING',
  page_title: 'STRING',
  referrer_url: 'STRING',
  user_agent: 'STRING',
  screen_resolution: 'STRING',
  viewport_size: 'STRING',
  language: 'STRING',
  timezone: 'STRING',
  geo_country: 'STRING',
  geo_region: 'STRING',
  geo_city: 'STRING',
  device_type: 'STRING',
  device_os: 'STRING',
  browser_name: 'STRING',
  additional_data: 'STRING',
  campaign: 'STRING',
  visitor: 'INT64',
  created_at: 'TIMESTAMP',
} as const
const names = Object.keys(columns).join(', ')

const rowsPerFile = 100_000
/** The number of rows in one insert. */
const rowsPerInsert = 2000

const manifestSchema = z.object({
  month: z.string(),
  written_at: z.string(),
  rows: z.number(),
  /** The sum of Postgres' hashes of the rows, in any order. */
  row_hash: z.string(),
  files: z.array(z.object({ name: z.string(), rows: z.number(), sha256: z.string() })),
})
/** One archived month: the number and hash of its rows, and its files. */
export type Manifest = z.infer<typeof manifestSchema>

const manifestName = /^clicks-(\d{4}-\d{2})\.json$/

/** Reads the manifests of the archive in `folder`, oldest month first. */
export function readManifests(folder: string): Manifest[] {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  return readdirSync(folder)
    .filter((name) => manifestName.test(name))
    .toSorted()
    .map((name) => manifestSchema.parse(JSON.parse(readFileSync(path.join(folder, name), 'utf8'))))
}

const monthOf = (month: string) => `'${month}-01 00:00+00'::timestamptz`
const within = (month: string) =>
  `click_timestamp >= ${monthOf(month)} and click_timestamp < ((${monthOf(month)} at time zone 'UTC' + interval '1 month') at time zone 'UTC')`

const hashQuery = (month: string) => `select count(*)::int as rows,
  coalesce(sum(hashtextextended(e::text, 0)::numeric), 0)::text as row_hash from (select ${names} from click_events where ${within(month)}) e`

/**
 * Months that can be archived. Their rows have been rewritten, so no late clicks can arrive. `changed_at` is the month's latest erasure.
 */
const monthsQuery = `select to_char(month, 'YYYY-MM') as month, changed_at from rewritten_months
  where rewritten_at is not null and month >= coalesce((select max(since at time zone 'UTC') from clicks_kept), '-infinity') order by 1`

/**
 * Writes each past month of clicks that is not in `folder` yet, or that an erasure has changed, as Parquet files with a manifest. Deletes
 * months whose retention period is over. Returns the written months.
 */
export async function writeArchive(databaseUrl: string, folder: string): Promise<Manifest[]> {
  return await withClient(databaseUrl, 'svc-archive', async (client) => {
    const archived = readManifests(folder)
    const { rows: months } = await client.query<{ month: string; changed_at: Date | null }>(monthsQuery)
    const { rows: kept } = await client.query<{ since: string }>(
      `select to_char(since at time zone 'UTC', 'YYYY-MM') as since from clicks_kept`,
    )
    const since = kept[0]?.since ?? ''
    for (const { month } of archived) if (month < since) removeMonth(folder, month, [])
    const written: Manifest[] = []
    for (const { month, changed_at } of months) {
      const known = archived.find((each) => each.month === month)
      if (!known || (changed_at && changed_at > new Date(known.written_at)))
        written.push(await writeMonth(client, folder, month))
    }
    return written
  })
}

async function writeMonth(client: Client, folder: string, month: string): Promise<Manifest> {
  await client.query('begin isolation level repeatable read read only')
  await client.query(`set local timezone = 'UTC'`)
  const written_at = new Date().toISOString()
  const { rows: sums } = await client.query<{ rows: number; row_hash: string }>(hashQuery(month))
  await client.query(`declare clicks cursor for select ${Object.entries(columns).map(textOf).join(', ')} from click_events
    where ${within(month)} order by program_id, is_test, click_timestamp, id`)
  const files: Manifest['files'] = []
  // A new version of a month has other file names, so a crash leaves the old version complete.
  const version = written_at.replaceAll(/\D/g, '')
  for (;;) {
    const { rows } = await client.query<(string | boolean | null)[]>({
      text: `fetch ${rowsPerFile} from clicks`,
      rowMode: 'array',
    })
    if (rows.length === 0) break
    const name = `clicks-${month}-${version}-${String(files.length + 1).padStart(5, '0')}.parquet`
    const bytes = new Uint8Array(parquetOf(rows))
    writeFileSync(path.join(folder, name), bytes, { mode: 0o600, flush: true })
    files.push({ name, rows: rows.length, sha256: createHash('sha256').update(bytes).digest('hex') })
  }
  await client.query('commit')
  const manifest = { month, written_at, rows: sums[0]?.rows ?? 0, row_hash: sums[0]?.row_hash ?? '0', files }
  const file = path.join(folder, `clicks-${month}.json`)
  writeFileSync(`${file}.part`, `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600, flush: true })
  renameSync(`${file}.part`, file)
  removeMonth(folder, month, [`clicks-${month}.json`, ...files.map(({ name }) => name)])
  return manifest
}

/** Deletes all files of a month except the given ones. */
function removeMonth(folder: string, month: string, except: string[]): void {
  for (const name of readdirSync(folder))
    if (name.startsWith(`clicks-${month}`) && !except.includes(name)) rmSync(path.join(folder, name))
}

const textOf = ([name, type]: [string, string]) =>
  type === 'TIMESTAMP'
    ? `(extract(epoch from ${name}) * 1000000)::bigint::text`
    : type === 'BOOLEAN'
      ? name
      : `${name}::text`

function parquetOf(rows: (string | boolean | null)[][]): ArrayBuffer {
  const columnData = Object.entries(columns).map(([name, type], at) => ({
    name,
    data: rows.map((row) => {
      const value = row[at] ?? null
      return typeof value === 'string' && type !== 'STRING' ? BigInt(value) : value
    }),
  }))
  const schema = [
    { name: 'root', num_children: columnData.length },
    ...Object.entries(columns).map(([name, type]) => ({
      name,
      repetition_type: 'OPTIONAL' as const,
      ...elements[type],
    })),
  ]
  return parquetWriteBuffer({ columnData, schema, rowGroupSize: rowsPerFile })
}

const elements = {
  INT64: { type: 'INT64' },
  BOOLEAN: { type: 'BOOLEAN' },
  STRING: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  TIMESTAMP: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
} as const

/**
 * Loads a month of the archive into the database, all or nothing. Refuses a month with clicks, a changed file, and rows that differ from
 * the archived ones. Returns the number of clicks.
 */
export async function restoreMonth(databaseUrl: string, folder: string, month: string): Promise<number> {
  const manifest = readManifests(folder).find((each) => each.month === month)
  if (!manifest) throw new OperatorError(`${folder} has no archive of ${month}.`)
  for (const { name, sha256 } of manifest.files) {
    const hash = createHash('sha256')
    await pipeline(createReadStream(path.join(folder, name)), hash)
    if (hash.digest('hex') !== sha256)
      throw new OperatorError(`${name} differs from its manifest. Nothing was loaded. Use another copy.`)
  }
  return await withClient(databaseUrl, 'svc-archive', async (client) => {
    await client.query('begin')
    await client.query(`set local timezone = 'UTC'`)
    const { rows: existing } = await client.query(`select from affiliate_click_events where ${within(month)} limit 1`)
    if (existing.length > 0) throw new OperatorError(`The database has clicks of ${month}. Nothing was loaded.`)
    const partition = `affiliate_click_events_${month.replace('-', '_')}`
    await client.query(`create table if not exists ${partition} partition of affiliate_click_events
      for values from ('${month}-01 00:00+00') to ('${nextMonth(month)}-01 00:00+00')`)
    await client.query(`delete from rewritten_months where month = '${month}-01'`)
    for (const { name } of manifest.files) {
      const rows = await parquetReadObjects({
        file: await asyncBufferFromFile(path.join(folder, name)),
        parsers: { timestampFromMicroseconds },
      })
      for (let at = 0; at < rows.length; at += rowsPerInsert) {
        await client.query(
          `insert into affiliate_click_events (${names}) select ${restored} from jsonb_to_recordset($1) as r (${recordTypes})`,
          [JSON.stringify(rows.slice(at, at + rowsPerInsert).map(asRow))],
        )
      }
    }
    const { rows: sums } = await client.query<{ rows: number; row_hash: string }>(hashQuery(month))
    if (sums[0]?.rows !== manifest.rows || sums[0].row_hash !== manifest.row_hash)
      throw new OperatorError(`The clicks of ${month} differ from the archived ones. Nothing was loaded.`)
    await client.query('commit')
    await client.query(`analyze ${partition}`)
    return manifest.rows
  })
}

function nextMonth(month: string): string {
  const [year = 0, number = 0] = month.split('-').map(Number)
  return new Date(Date.UTC(year, number)).toISOString().slice(0, 7)
}

/** Keeps the microseconds, which a `Date` doesn't have. */
function timestampFromMicroseconds(microseconds: bigint): string {
  const milliseconds = new Date(Number(microseconds / 1000n)).toISOString().slice(0, -1)
  return `${milliseconds}${String(microseconds % 1000n).padStart(3, '0')}Z`
}

/** JSON has no 64-bit integers, so they are text. */
const asRow = (row: Record<string, unknown>) =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === 'bigint' ? value.toString() : value]),
  )

/** Postgres' types for the values of `asRow`. */
const recordTypes = Object.entries(columns)
  .map(
    ([name, type]) =>
      `${name} ${{ INT64: 'bigint', BOOLEAN: 'boolean', STRING: 'text', TIMESTAMP: 'timestamptz' }[type]}`,
  )
  .join(', ')
/** JSON columns are stored as text. */
const restored = names.replace('additional_data, campaign', 'additional_data::jsonb, campaign::jsonb')

/** Returns the first month that is not in the archive, as a date. Backups begin there. Null if the archive is empty. */
export function archivedUntil(folder: string | undefined): string | null {
  const months = folder ? readManifests(folder).map(({ month }) => month) : []
  let last = months[0]
  for (const month of months.slice(1)) if (last !== undefined && month === nextMonth(last)) last = month
  return last === undefined ? null : `${nextMonth(last)}-01`
}

const usage = `npm run archive -- write FOLDER             writes past months of clicks that are not in FOLDER yet, as Parquet files
npm run archive -- restore FOLDER MONTH     loads a month such as 2026-01 from FOLDER into the database, all or nothing`

async function main(): Promise<void> {
  const [command, folder, month] = parseArgs({ allowPositionals: true }).positionals
  if (!folder || (command !== 'write' && command !== 'restore')) throw new OperatorError(`Name the folder:\n\n${usage}`)
  const { DATABASE_URL } = commandDatabase()
  if (command === 'write') {
    for (const { month: each, rows, files } of await writeArchive(DATABASE_URL, folder))
      console.log(`${color.green('✓')} ${each}: ${rows} clicks in ${files.length} files`)
    return
  }
  if (!month) throw new OperatorError(`Name the month:\n\n${usage}`)
  console.log(`${color.green('✓')} ${month}: ${await restoreMonth(DATABASE_URL, folder, month)} clicks are restored`)
}

if (import.meta.main) await runCommand(usage, main)
