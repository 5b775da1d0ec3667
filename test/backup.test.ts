import { generateX25519Identity, identityToRecipient } from 'age-encryption'
import { execFileSync } from 'node:child_process'
import { createWriteStream, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, expect, test, vi } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { readManifests, restoreMonth, writeArchive } from '../lib/commands/archive.ts'
import { backup, restore } from '../lib/commands/backup.ts'
import { isTransient } from '../lib/errors.ts'
import { kysely } from '../lib/kysely.ts'
import { createDemo } from '../lib/local/demo.ts'
import { checkSecrets } from '../lib/commands/secrets.ts'
import { givenSecrets } from './support/serve-process.ts'
import { createDatabase, startEndpoint } from './support/stack.ts'

const source = await startEndpoint()
const folder = mkdtempSync(path.join(tmpdir(), 'backup-'))
const file = path.join(folder, 'backup.sql.gz')
afterAll(() => rmSync(folder, { recursive: true }))

/** Each table with the hash of its rows. */
async function contents({ sql }: Pick<typeof source, 'sql'>): Promise<Record<string, string>> {
  const { rows: tables } = await sql.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition and relname not in ('schema_migrations', 'schema_functions')`,
  )
  const hashes: Record<string, string> = {}
  for (const { name } of tables) {
    const { rows } = await sql.query<{ hash: string }>(
      `select count(*) || ' ' || md5(coalesce(string_agg(t::text, ';' order by t::text), '')) as hash from ${name} t`,
    )
    hashes[name] = rows[0]?.hash ?? ''
  }
  return hashes
}

test('a backup restored into an empty database has the same rows, passes the audit and accepts new rows', async () => {
  await createDemo(source.db, { AUTH_SECRET: 'test', EMAIL_HASH_KEY: 'test' })
  // Texts that break a careless dump.
  await source.sql.query(`update partners set note = E'tab\\t newline\\n back\\\\slash \\\\. é \u2028'`)
  await checkSecrets(source.databaseUrl, givenSecrets, undefined)
  await backup(source.databaseUrl, file)
  const target = await createDatabase()
  // The target database contains fingerprints of its secrets, like a database in use.
  await checkSecrets(target.databaseUrl, givenSecrets, undefined)
  await restore(target.databaseUrl, file)

  const unknown = `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and reltuples < 0`
  expect((await target.sql.query(unknown)).rows).toEqual([])
  const restored = await contents(target)
  expect(restored).toEqual(await contents(source))
  expect(restored['affiliate_click_events']).toMatch(/^200 /)
  expect(await findDifferences(target.sql)).toEqual([])
  const next = `insert into partners (program_id, name) select min(id), 'next' from programs returning id`
  const { rows } = await target.sql.query(next)
  expect(rows).toEqual((await source.sql.query(next)).rows)
})

test('restoring an encrypted backup requires its identity, and the restore waits for other statements and then makes them wait', async () => {
  const identity = await generateX25519Identity()
  const secret = `${file}.age`
  await expect(backup(source.databaseUrl, file, 'age1x')).rejects.toThrow('ends in .age')
  await expect(backup(source.databaseUrl, secret)).rejects.toThrow('Set BACKUP_RECIPIENT to an age recipient')
  await backup(source.databaseUrl, secret, await identityToRecipient(identity))
  expect(readFileSync(secret).toString('latin1')).toMatch(/^age-encryption\.org\/v1\n/)

  const target = await startEndpoint()
  await expect(restore(target.databaseUrl, secret)).rejects.toThrow('Set BACKUP_IDENTITY')
  const other = restore(target.databaseUrl, secret, undefined, await generateX25519Identity())
  await expect(other).rejects.toThrow('does not belong to the recipient')
  const cut = path.join(folder, 'cut.sql.gz.age')
  writeFileSync(cut, readFileSync(secret).subarray(0, -100))
  await expect(restore(target.databaseUrl, cut, undefined, identity)).rejects.toThrow('Nothing was loaded')

  // A schedule of the running service holds a lock and waits for one of the restore's.
  await target.sql.query(`set deadlock_timeout = '1min'; begin; select from webhook_endpoints`)
  // The restore has to wait, because the pipe holds back the last bytes.
  const pipe = path.join(folder, 'pipe.sql.gz.age')
  execFileSync('mkfifo', [pipe])
  const restoring = restore(target.databaseUrl, pipe, undefined, identity)
  const feed = createWriteStream(pipe)
  const bytes = readFileSync(secret)
  feed.write(bytes.subarray(0, -100))
  const waitingFor = `select from pg_locks where relation = 'webhook_endpoints'::regclass and not granted`
  await vi.waitFor(async () => expect((await target.sql.query(waitingFor)).rowCount).toBe(1), 10_000)
  await target.sql.query('select from programs; commit')
  const locked =
    "select from pg_locks where relation = 'programs'::regclass and mode = 'AccessExclusiveLock' and granted"
  await vi.waitFor(async () => expect((await target.sql.query(locked)).rowCount).toBe(1), 10_000)
  const waiting = target.db.query(kysely.selectFrom('programs').select('id'))
  await expect(waiting).rejects.toSatisfy(isTransient)
  feed.end(bytes.subarray(-100))
  await restoring
  expect(await contents(target)).toEqual(await contents(source))
}, 60_000)

test('a restore into a database with rows is refused', async () => {
  await expect(restore(source.databaseUrl, file)).rejects.toThrow('This database has rows.')
})

test("a backup whose secrets differ from the running service's is refused unless they are marked as new", async () => {
  const target = await createDatabase()
  await checkSecrets(target.databaseUrl, { ...givenSecrets, EMAIL_HASH_KEY: 'y'.repeat(32) }, undefined)
  const refused = String(await restore(target.databaseUrl, file).catch((error: unknown) => error))
  expect(refused).toContain('was used with another EMAIL_HASH_KEY. Put back')
  expect((await target.sql.query('select from users union all (select from programs)')).rows).toEqual([])
  await restore(target.databaseUrl, file, /REPLACED_SECRETS=(\S+)\.$/.exec(refused)?.[1])
  expect((await contents(target))['secret_fingerprints']).toBe((await contents(source))['secret_fingerprints'])
})

test('a backup with different migrations is refused before anything is loaded', async () => {
  const other = path.join(folder, 'other.sql.gz')
  writeFileSync(other, gzipSync('-- svc backup of migrations: 0001_other.sql\n'))
  const target = await createDatabase()
  await expect(restore(target.databaseUrl, other)).rejects.toThrow('another version')
})

test.each([
  ['cut off', () => readFileSync(file).subarray(0, -100), 'is incomplete: its end is missing'],
  ['cut off near the beginning', () => readFileSync(file).subarray(0, 60), 'is incomplete: its end is missing'],
  ['no backup', () => Buffer.from('-- svc backup'), 'is damaged or not a backup'],
  [
    'damaged',
    () => {
      const bytes = readFileSync(file)
      const middle = bytes.length >> 1
      return bytes.fill(0, middle, middle + 50)
    },
    'is damaged or not a backup',
  ],
])('a file that is %s is refused with a message before anything is loaded', async (_, bytes, message) => {
  const broken = path.join(folder, 'broken.sql.gz')
  writeFileSync(broken, bytes())
  const target = await createDatabase()
  await expect(restore(target.databaseUrl, broken)).rejects.toThrow(message)
  expect((await target.sql.query('select from users union all (select from programs)')).rows).toEqual([])
})

test("a failed backup, for example on a full disk, keeps the previous backup and doesn't leave a partial file", async () => {
  const before = readFileSync(file)
  await expect(backup(source.databaseUrl.replace(/[^/]+$/, 'nowhere'), file)).rejects.toThrow('does not exist')
  symlinkSync('/dev/full', `${file}.part`)
  await expect(backup(source.databaseUrl, file)).rejects.toThrow('no space left')
  expect(readFileSync(file)).toEqual(before)
  expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([])
})

test('past months of clicks are archived once, skipped by backups, and restored with the same rows', async () => {
  const archive = path.join(folder, 'archive')
  const { sql, databaseUrl } = await createDatabase()
  await sql.query(`insert into affiliate_click_events (program_id, click_timestamp, id, customer_id, click_id, link_id, affiliate_url, page_url,
      additional_data, campaign, visitor, created_at)
    select 1, month_of(now()) - n / 10 * interval '1 month' - interval '5 days' + n * interval '1.000007 s', n, n,
      'cust_1790000000000_' || lpad(n::text, 20, '0') || '1', 2, 'https://shop.example.com/?aff=größe', E'a\\b"\n\u2028', '{"n": 1.50}',
      '{"sub1": "x"}', 9223372036854775807 - n, now() from generate_series(10, 29) n`)
  await sql.query('select make_event_partitions(1)')
  for (let more = true; more;)
    ({ more } = (await sql.query<{ more: boolean }>('select * from rewrite_clicks(100)')).rows[0] ?? { more: false })
  const { rows: parts } = await sql.query(
    `select from affiliate_click_events where landing_part is not null and click_id is null`,
  )
  expect(parts).toHaveLength(20)
  const written = await writeArchive(databaseUrl, archive)
  expect(written.map(({ rows }) => rows).filter(Boolean)).toEqual([10, 10])
  expect(await writeArchive(databaseUrl, archive)).toEqual([])

  const rest = path.join(folder, 'without-archived.sql.gz')
  await backup(databaseUrl, rest, undefined, archive)
  const target = await createDatabase()
  await restore(target.databaseUrl, rest)
  expect((await target.sql.query('select from click_events')).rows).toEqual([])
  for (const { month, rows } of written)
    if (rows > 0) expect(await restoreMonth(target.databaseUrl, archive, month)).toBe(rows)
  const all = 'select * from click_events order by id'
  expect((await target.sql.query(all)).rows).toEqual((await sql.query(all)).rows)
  const month = written.findLast(({ rows }) => rows > 0)?.month ?? ''
  await expect(restoreMonth(target.databaseUrl, archive, month)).rejects.toThrow(`The database has clicks of ${month}.`)

  // After an erasure, the month is written again. A changed file is refused.
  await sql.query(`select erase_clicks(1, array[10], null, '-infinity', null, 'erased')`)
  expect(await writeArchive(databaseUrl, archive)).toMatchObject([{ month }])
  const parquet = path.join(archive, readManifests(archive).find((each) => each.month === month)?.files[0]?.name ?? '')
  writeFileSync(parquet, Buffer.concat([readFileSync(parquet), Buffer.from('x')]))
  await expect(restoreMonth((await createDatabase()).databaseUrl, archive, month)).rejects.toThrow(
    'differs from its manifest',
  )
})
