import { createHash } from 'node:crypto'
import pg from 'pg'
import { afterAll, expect, inject, test } from 'vitest'
import { audit } from '../lib/commands/audit.ts'
import { migrate, readMigrations } from '../lib/commands/migrate.ts'
import { seedPartners } from './bench/seed.ts'
import { fillEvents } from './support/events.ts'

const adminUrl = inject('adminUrl')
const admin = new pg.Client({ connectionString: adminUrl })
await admin.connect()
const databases: string[] = []

/** A database that no migration was applied to. */
async function emptyDatabase(): Promise<string> {
  const name = `migrate_${crypto.randomUUID().replaceAll('-', '')}`
  await admin.query(`create database ${name} template template0`)
  databases.push(name)
  const url = new URL(adminUrl)
  url.pathname = name
  return url.href
}

afterAll(async () => {
  for (const name of databases) await admin.query(`drop database ${name} with (force)`)
  await admin.end()
})

const file = (name: string, sql: string) => ({ name, sql, checksum: createHash('sha256').update(sql).digest('hex') })
const first = file('0001_first.sql', 'create table first (id int)')
const second = file('0002_second.sql', 'create table second (id int)')

test('applies each file once, in order', async () => {
  const url = await emptyDatabase()
  expect(await migrate(url, [first])).toEqual(['0001_first.sql'])
  expect(await migrate(url, [first, second])).toEqual(['0002_second.sql'])
  expect(await migrate(url, [first, second])).toEqual([])
})

test('two runners at once apply each file once between them', async () => {
  const url = await emptyDatabase()
  const slow = file('0001_slow.sql', 'create table slow (id int); select pg_sleep(0.3)')
  const applied = await Promise.all([migrate(url, [slow, second]), migrate(url, [slow, second])])
  expect(applied.flat().toSorted()).toEqual(['0001_slow.sql', '0002_second.sql'])
})

test('a file that fails leaves nothing behind', async () => {
  const url = await emptyDatabase()
  const broken = file('0002_broken.sql', 'create table half (id int);\ncreate tabel half')
  await expect(migrate(url, [first, broken])).rejects.toThrow(
    '0002_broken.sql failed and was rolled back: syntax error at or near "tabel" (line 2)',
  )
  const fixed = file('0002_broken.sql', 'create table half (id int)')
  expect(await migrate(url, [first, fixed])).toEqual(['0002_broken.sql'])
})

test.each([
  ['changed', [file('0001_first.sql', 'create table other (id int)'), second], '0001_first.sql was changed'],
  ['removed', [second], 'The database has 0001_first.sql, which this checkout has not'],
  [
    'added late',
    [file('0000_late.sql', 'select 1'), first, second],
    '0000_late.sql is not applied, but 0002_second.sql is',
  ],
])('refuses where an applied file was %s', async (_, migrations, message) => {
  const url = await emptyDatabase()
  await migrate(url, [first, second])
  await expect(migrate(url, migrations)).rejects.toThrow(message)
})

/** A database with a program, as the migrations before the one with this number leave it; `migrateOn` applies the others. */
async function programBefore(number: string) {
  const url = await emptyDatabase()
  const migrations = readMigrations()
  await migrate(
    url,
    migrations.filter(({ name }) => name < number),
  )
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ id: string }>(`
    with workspace as (insert into workspaces (name) values ('Workspace') returning id)
    insert into programs (workspace_id, name, domain) select id, 'Program', 'example.com' from workspace returning id`)
  return { client, programId: Number(rows[0]?.id), migrateOn: () => migrate(url, migrations) }
}

test('what was counted by the day is counted by the hour, and folded, from 0010_hours on', async () => {
  const { client, programId, migrateOn } = await programBefore('0010')
  await seedPartners(client, programId, 1)
  // The slots as they were, which told nothing of the hour.
  await client.query(`create function counter_slot(at timestamptz) returns smallint language sql immutable
    as $$ select (hashtext(at::text) & 63)::smallint $$`)
  await fillEvents(client, programId, 400)
  await client.query('drop function counter_slot(timestamptz)')
  await migrateOn()
  const checks = (await audit(client)).filter(({ check }) => check.startsWith("a day's"))
  expect(checks.map(({ findings }) => findings)).toEqual([[], []])
  const { rows: slots } = await client.query(`
    select 'totals' as of, day::text, slot, cardinality(leads_by_hour) as hours from daily_totals
    union all select 'money', day::text, slot, cardinality(sales_by_hour) from daily_money order by 1, 2`)
  await client.end()
  expect(slots.slice(0, 4)).toEqual([
    { of: 'money', day: '2026-10-31', slot: 0, hours: 24 },
    { of: 'money', day: '2026-11-01', slot: 0, hours: 24 },
    { of: 'totals', day: '2026-10-31', slot: 0, hours: 24 },
    { of: 'totals', day: '2026-11-01', slot: 0, hours: 24 },
  ])
})

test('a link that counted in several rows counts in one, from 0013_uncounted_clicks on', async () => {
  const { client, programId, migrateOn } = await programBefore('0013')
  const { firstLink } = await seedPartners(client, programId, 2)
  await client.query(
    `insert into link_clicks (program_id, link_id, slot, clicks, last_clicked_at)
    select $1, $2 + slot % 2, slot, slot + 1, timestamptz '2026-11-01 00:00Z' + make_interval(mins => slot) from generate_series(0, 5) slot`,
    [programId, firstLink],
  )
  await migrateOn()
  const { rows: counters } = await client.query(
    'select slot, clicks::int, last_clicked_at from link_clicks order by link_id',
  )
  const { rows: counts } = await client.query(
    'select clicks::int, last_clicked_at from link_click_counts order by link_id',
  )
  await client.end()
  const expected = [
    { clicks: 1 + 3 + 5, last_clicked_at: new Date('2026-11-01T00:04:00Z') },
    { clicks: 2 + 4 + 6, last_clicked_at: new Date('2026-11-01T00:05:00Z') },
  ]
  expect(counters).toEqual(expected.map((counter) => ({ slot: 0, ...counter })))
  expect(counts).toEqual(expected)
})
