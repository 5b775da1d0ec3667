import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Client } from 'pg'
import { afterAll, describe, expect, inject, test, vi } from 'vitest'
import { migrate, readSqlFiles, requireSchema } from '../lib/commands/migrate.ts'
import { hazardsOf } from './support/migration-hazards.ts'

const adminUrl = inject('adminUrl')
const admin = new Client({ connectionString: adminUrl })
await admin.connect()
const databases: string[] = []

/** A database without any migration. */
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

/** The files up to this one only run on a new database, so they may do anything. Until the first release, this is the newest file. */
const newestOfFirstRelease = '0014_bulk_jobs.sql'

const file = (name: string, sql: string) => ({ name, sql, checksum: createHash('sha256').update(sql).digest('hex') })
const first = file('0001_first.sql', 'create table first (id int)')
const second = file('0002_second.sql', 'create table second (id int)')

test('applies each file once, in order', async () => {
  const url = await emptyDatabase()
  expect(await migrate(url, [first])).toEqual(['0001_first.sql'])
  expect(await migrate(url, [first, second])).toEqual(['0002_second.sql'])
  expect(await migrate(url, [first, second])).toEqual([])
})

test('two concurrent runners apply each file once', async () => {
  const url = await emptyDatabase()
  const slow = file('0001_slow.sql', 'create table slow (id int); select pg_sleep(0.3)')
  const applied = await Promise.all([migrate(url, [slow, second]), migrate(url, [slow, second])])
  expect(applied.flat().toSorted()).toEqual(['0001_slow.sql', '0002_second.sql'])
})

test('a file that deadlocks with a call is applied after the call', async () => {
  const url = await emptyDatabase()
  await migrate(url, [first, second])
  const call = new Client({ connectionString: url })
  await call.connect()
  await call.query(`set deadlock_timeout = '1min'; begin; select from second`)
  const widens = file(
    '0003_widens.sql',
    'alter table first add column more int; alter table second add column more int',
  )
  const applied = migrate(url, [first, second, widens])
  const waiting = `select from pg_locks where relation = 'second'::regclass and not granted`
  await expect.poll(async () => (await call.query(waiting)).rowCount, { timeout: 60_000 }).toBe(1)
  await call.query('select from first; commit')
  await call.end()
  expect(await applied).toEqual(['0003_widens.sql'])
})

test('a file that waits for a lock lets other queries pass, and is applied when the lock is free', async () => {
  const url = await emptyDatabase()
  await migrate(url, [first])
  const [backup, visitor] = [new Client({ connectionString: url }), new Client({ connectionString: url })]
  await Promise.all([backup.connect(), visitor.connect()])
  await backup.query('begin; select from first')
  const applied = migrate(url, [first, file('0002_widens.sql', 'alter table first add column more int')])
  const waiting = `select from pg_locks where relation = 'first'::regclass and not granted`
  await expect.poll(async () => (await visitor.query(waiting)).rowCount, { timeout: 60_000 }).toBe(1)
  await visitor.query('select from first')
  await backup.query('commit')
  await Promise.all([backup.end(), visitor.end()])
  expect(await applied).toEqual(['0002_widens.sql'])
})

test('two runners apply a file outside a transaction once, and a failure keeps its earlier statements', async () => {
  const url = await emptyDatabase()
  const mark = '-- outside a transaction\n'
  const index = 'create index concurrently if not exists first_id on first (id);\n'
  const broken = file('0002_index.sql', `${mark}${index}select 1/0`)
  await expect(migrate(url, [first, broken])).rejects.toThrow('0002_index.sql failed at line 3: division by zero')
  expect(await ask(url, `to_regclass('first_id') is not null`)).toBe(true)
  const files = [first, file('0002_index.sql', `${mark}${index}select pg_sleep(0.3)`)]
  expect((await Promise.all([migrate(url, files), migrate(url, files)])).flat()).toEqual(['0002_index.sql'])
})

test('a version runs on the schema of the next one, with a warning and without changing it', async () => {
  const url = await emptyDatabase()
  const next = [file('9999_next.sql', 'create table next (id int)'), file('functions/next.sql', sumOf('next_sum'))]
  const files = readSqlFiles()
  const numbered = files.filter(({ name }) => /^\d/.test(name))
  await migrate(url, [
    ...numbered,
    ...next.slice(0, 1),
    ...files.filter(({ name }) => !/^\d/.test(name)),
    ...next.slice(1),
  ])
  const warn = vi.spyOn(console, 'warn').mockReturnValue()
  expect(await migrate(url)).toEqual([])
  await requireSchema(url)
  expect(await isThere(url, 'next_sum')).toBe(1)
  expect(warn.mock.calls.flat()).toEqual(Array(2).fill(expect.stringContaining('9999_next.sql from a newer version')))
  warn.mockRestore()
})

describe('a migration that would block or break the running version is found', async () => {
  const sql = new Client({ connectionString: await emptyDatabase() })
  await sql.connect()
  afterAll(() => sql.end())
  await sql.query(`create table old (id int primary key, kind text, note text not null default '');
    create table parent (id int primary key); create index old_kind on old (kind);
    create table parts (at int) partition by range (at); create table parts_1 partition of parts for values from (0) to (9)`)
  const concurrently = '-- outside a transaction\n'

  test.each<[hazard: string, statements: string, found: RegExp]>([
    ['a dropped table', 'drop table parent', /^parent is gone/],
    ['a renamed table', 'alter table parent rename to other', /^parent is gone/],
    ['a dropped column', 'alter table old drop column kind', /^old\.kind is gone.*\n.*old_kind/],
    ['a renamed column', 'alter table old rename kind to sort', /^old\.kind is gone/],
    ['another type', 'alter table old alter id type bigint', /rewritten.*\n.*old\.id gets another type/],
    ['a smaller change of a type', 'alter table old alter kind type varchar(9)', /old\.kind gets another type/],
    ['a required column', 'alter table old alter kind set not null', /^old\.kind becomes required/],
    ['a new required column', 'alter table old add more int not null', /^old\.more is required/],
    ['a default for each row', 'alter table old add more uuid default gen_random_uuid()', /^old is rewritten/],
    ['a check', 'alter table old add constraint kinds check (kind > 0::text)', /^old\.kinds checks all rows/],
    ['a foreign key', 'alter table old add foreign key (id) references parent', /^old\.old_id_fkey checks all rows/],
    ['a unique constraint', 'alter table old add unique (kind)', /^old_kind_key is built under a lock/],
    ['an index', 'create index on old (note)', /^old_note_idx is built under a lock/],
    ['an index of partitions', 'create index on parts (at)', /^parts_1_at_idx is built.*\n?.*parts_at_idx is built/],
    ['a dropped index', 'drop index old_kind', /^old_kind is dropped under a lock/],
    ['an emptied table', 'truncate parent', /^parent is rewritten or emptied/],
    ['an update of all rows', `update old set kind = 'a'`, /^old: its rows are locked/],
  ])('%s', async (_, statements, found) => {
    expect((await hazardsOf(sql, file('0002_new.sql', statements))).toSorted().join('\n')).toMatch(found)
  })

  test.each([
    [
      'a new table with everything',
      'create table new (id int primary key references parent, at int not null); create index on new (at)',
    ],
    ['a column', 'alter table old add more int'],
    ['a required column with a default', 'alter table old add more int not null default 0'],
    ['a constraint that is not valid', 'alter table old add constraint kinds check (id > 0) not valid'],
    [
      'a view, a function and a trigger',
      `create view seen as select id from old;
      create function noted() returns trigger language plpgsql as $$ begin return new; end $$;
      create trigger noted before insert on old for each row execute function noted()`,
    ],
    [
      'an index outside a transaction',
      `${concurrently}create index concurrently if not exists old_note on old (note);
      drop index concurrently old_note`,
    ],
  ])('but %s is safe', async (_, statements) => {
    expect(await hazardsOf(sql, file('0002_new.sql', statements))).toEqual([])
  })

  test('no migration after those of the first release has a hazard', async () => {
    const numbered = readSqlFiles().filter(({ name }) => /^\d/.test(name))
    const released = numbered.filter(({ name }) => name <= newestOfFirstRelease)
    expect(released.at(-1)?.name).toBe(newestOfFirstRelease)
    const later = numbered.slice(released.length)
    if (later.length === 0) return
    const url = await emptyDatabase()
    const client = new Client({ connectionString: url })
    await client.connect()
    for (const [index, next] of later.entries()) {
      await migrate(url, [...released, ...later.slice(0, index)])
      expect(await hazardsOf(client, next), next.name).toEqual([])
    }
    await client.end()
  })
})

test('a file that fails leaves no changes', async () => {
  const url = await emptyDatabase()
  const broken = file('0002_broken.sql', 'create table half (id int);\ncreate tabel half')
  await expect(migrate(url, [first, broken])).rejects.toThrow(
    '0002_broken.sql failed at line 2 and was rolled back: syntax error at or near "tabel"',
  )
  const fixed = file('0002_broken.sql', 'create table half (id int)')
  expect(await migrate(url, [first, fixed])).toEqual(['0002_broken.sql'])
})

test.each([
  ['changed', [file('0001_first.sql', 'create table other (id int)'), second], '0001_first.sql was changed'],
  ['removed', [second], 'The database has 0001_first.sql, but this checkout does not'],
  [
    'added late',
    [file('0000_late.sql', 'select 1'), first, second],
    '0000_late.sql is not applied, but 0002_second.sql is',
  ],
])('refuses to run if an applied file was %s', async (_, migrations, message) => {
  const url = await emptyDatabase()
  await migrate(url, [first, second])
  await expect(migrate(url, migrations)).rejects.toThrow(message)
})

test('an error without a position shows the first line of its statement', async () => {
  const url = await emptyDatabase()
  const broken = file(
    '0001_broken.sql',
    "-- A text; with 'quotes\ncreate table a (b text default ';');\n\n-- Again.\ncreate table a ()",
  )
  await expect(migrate(url, [broken])).rejects.toThrow(
    '0001_broken.sql failed at line 5 and was rolled back: relation "a" already exists',
  )
})

async function ask(url: string, query: string): Promise<unknown> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<{ answer: unknown }>(`select ${query} as answer`)
    return rows[0]?.answer
  } finally {
    await client.end()
  }
}

const isThere = (url: string, name: string) => ask(url, `(select count(*)::int from pg_proc where proname = '${name}')`)

const sumOf = (name: string) =>
  `create or replace aggregate ${name}(bigint) (sfunc = int8pl, stype = bigint, initcond = '0');`

describe('functions', () => {
  const living = readSqlFiles()
  /** The project's own files, with a change in functions/1_base/counters.sql. */
  const counters = 'functions/1_base/counters.sql'
  const withChange = (from: string, to: string) =>
    living.map(({ name, sql }) => {
      if (name !== counters) return file(name, sql)
      expect(sql).toContain(from)
      return file(name, sql.replace(from, to))
    })
  const utcDay = /^.* utc_day\(.*/m.exec(living.find(({ name }) => name === counters)?.sql ?? '')?.[0]
  const copyOf = (name: string) => utcDay?.replace('utc_day', name) ?? ''

  test('are applied after the numbered files, and again after a change', async () => {
    const url = await emptyDatabase()
    expect(await migrate(url)).toEqual(living.map(({ name }) => name))
    expect(living.findIndex(({ name }) => name.startsWith('functions/'))).toBe(
      living.filter(({ name }) => /^\d/.test(name)).length,
    )
    const hour = `hour_of_day('2026-11-01 10:00Z')`
    expect(await ask(url, hour)).toBe(11)
    const changed = withChange(`'UTC')::integer + 1`, `'UTC')::integer + 7`)
    expect(await migrate(url, changed)).toEqual([counters])
    expect(await ask(url, hour)).toBe(17)
    expect(await migrate(url, changed)).toEqual([])
    expect(await migrate(url)).toEqual([counters])
    expect(await ask(url, hour)).toBe(11)
  })

  test('are dropped if no file contains them anymore, and others stay', async () => {
    const url = await emptyDatabase()
    const foreign = file('0001_foreign.sql', copyOf('foreign_function'))
    const one = file('functions/one.sql', [copyOf('stays'), copyOf('goes'), sumOf('sum_goes')].join('\n'))
    const two = file('functions/two.sql', copyOf('goes_with_its_file'))
    await migrate(url, [foreign, one, two])
    expect(await migrate(url, [foreign, file('functions/one.sql', copyOf('stays'))])).toEqual(['functions/one.sql'])
    const left = await Promise.all(
      ['foreign_function', 'stays', 'goes', 'sum_goes', 'goes_with_its_file'].map((name) => isThere(url, name)),
    )
    expect(left).toEqual([1, 1, 0, 0, 0])
  })

  test('move from one file to another', async () => {
    const url = await emptyDatabase()
    await migrate(url, [file('functions/one.sql', copyOf('moves'))])
    await migrate(url, [file('functions/two.sql', copyOf('moves'))])
    expect(await isThere(url, 'moves')).toBe(1)
  })

  test.each([
    [
      'is still used',
      [file('functions/one.sql', '-- Nothing.')],
      /^day_of is no longer in functions\/one.sql .*depend on it[^]*Drop its users/,
    ],
    [
      'has a second signature',
      [file('functions/one.sql', copyOf('day_of').replace('at timestamptz', 'at timestamptz, also integer'))],
      'day_of has two signatures now. Give the new one a new name',
    ],
    [
      'does not compile',
      [
        file(
          'functions/one.sql',
          `-- A mistake.\n${copyOf('day_of')}\n\n${copyOf('other').replace('at time', 'at\nthyme')}`,
        ),
      ],
      'functions/one.sql failed at line 5 and was rolled back: type thymestamptz does not exist',
    ],
  ])('all stay unchanged if one %s', async (_, changed, message) => {
    const url = await emptyDatabase()
    const files = [file('functions/one.sql', copyOf('day_of'))]
    await migrate(url, [...files, file('functions/two.sql', `create view days as select day_of(now())`)])
    await expect(migrate(url, [...changed, file('functions/two.sql', copyOf('not_to_be'))])).rejects.toThrow(message)
    expect(await isThere(url, 'day_of')).toBe(1)
    expect(await isThere(url, 'not_to_be')).toBe(0)
    expect(await migrate(url, [...files, file('functions/two.sql', copyOf('to_be'))])).toEqual(['functions/two.sql'])
  })
})

/** A message in the Postgres protocol. */
function answerOf(type: string, ...parts: (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)))
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

test('refuses an old PostgreSQL server before it changes anything', async () => {
  const asked: string[] = []
  const ready = answerOf('Z', 'I')
  const versionRow = Buffer.concat([
    answerOf(
      'T',
      '\0\x01server_version_num\0',
      Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0]),
    ),
    answerOf('D', '\0\x01\0\0\0\x06170005'),
    answerOf('C', 'SHOW\0'),
    ready,
  ])
  const server = createServer((socket) => {
    socket.once('data', () => {
      socket.write(Buffer.concat([answerOf('R', '\0\0\0\0'), ready]))
      socket.on('data', (data) => {
        if (data.toString('latin1', 0, 1) !== 'Q') return
        asked.push(data.toString('utf8', 5, data.length - 1))
        socket.write(versionRow)
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  await expect(migrate(`postgresql://postgres@127.0.0.1:${port}/old`)).rejects.toThrow(
    'The database runs PostgreSQL 17, but the service needs 18 or newer. Nothing was changed.',
  )
  server.close()
  expect(asked).toEqual(['show server_version_num'])
})
