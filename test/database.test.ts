import { CompiledQuery } from 'kysely'
import { Client } from 'pg'
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { call, Database, retryOnce, violatedConstraint } from '../lib/database.ts'
import { isTransient } from '../lib/errors.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { openPool } from '../lib/commands/postgres.ts'
import { followDatabaseClock } from '../lib/serve/database-clock.ts'
import { startServer } from '../lib/serve/server.ts'
import { openVisitorBudget } from '../lib/serve/visitor-budget.ts'
import { readTrusted } from '../lib/serve/settings.ts'
import { shareClicks } from '../lib/serve/shared-clicks.ts'
import { recordClick } from '../lib/tracking/clicks.ts'
import { clickOn } from './bench/calls.ts'
import { startSilentNetwork } from './support/silent-network.ts'
import { startEndpoint } from './support/stack.ts'
import { statement } from './support/statement.ts'

const { env, neon, sql } = await startEndpoint()
const one = statement<{ one: number }>`select 1 as one`
const raw = (text: string, ...values: unknown[]) => ({ compile: () => CompiledQuery.raw(text, values) })

test('a database that hangs counts as a failed attempt, and the second attempt succeeds', async () => {
  const db = new Database(env, 300)
  neon.inject({ action: 'delay', delay_ms: 2000 })
  await expect(db.query(one)).rejects.toSatisfy(isTransient)

  neon.inject({ action: 'delay', delay_ms: 2000 })
  expect(await retryOnce(() => db.query(one))).toEqual([{ one: 1 }])
})

test('an incomplete response also counts as a failed attempt', async () => {
  const db = new Database(env)
  neon.inject({ action: 'cut' })
  await expect(db.query(one)).rejects.toSatisfy(isTransient)

  neon.inject({ action: 'cut' })
  expect(await retryOnce(() => db.batch([one]))).toEqual([[{ one: 1 }]])
})

test("a statement that Postgres refuses isn't a failed attempt, but a missing server file is", async () => {
  const refused = new Database(env).query(statement`select no_such_column`)
  await expect(refused).rejects.not.toSatisfy(isTransient)
  const withoutFile = new Database(env).query(statement`select pg_read_file('none')`)
  await expect(withoutFile).rejects.toSatisfy(isTransient)
})

const pool = openPool(env.DATABASE_URL, 4)
afterAll(() => pool.end())
const ways = [
  ['through the HTTP of Neon', env],
  ['over connections that are held', { ...env, POSTGRES: pool }],
] as const

describe.each(ways)('%s', (_way, at) => {
  const db = new Database(at)

  test('values arrive with their schema types, and are sent unchanged', async () => {
    const values = statement`select 9007199254740991::bigint as big, array[1, 2]::bigint[] as bigs, 1.50::numeric as exact,
      '2026-01-02 03:04:05+02'::timestamptz as at, '{"a": [1]}'::jsonb as json, '\\xff00'::bytea as bytes, true as yes, null as none,
      current_setting('TimeZone') as zone`
    expect(await db.query(values)).toEqual([
      {
        big: 9007199254740991,
        bigs: [1, 2],
        exact: '1.50',
        at: new Date('2026-01-02T01:04:05Z'),
        json: { a: [1] },
        bytes: Buffer.from([255, 0]),
        yes: true,
        none: null,
        zone: expect.stringMatching(/^(UTC|GMT)$/),
      },
    ])
    const given = statement`select ${new Date(0)}::timestamptz = 'epoch' as at, ${new Uint8Array([255, 0])}::bytea = '\\xff00' as bytes,
      ${['a"b', null]}::text[] = array['a"b', null] as texts, ${JSON.stringify({ a: 1 })}::jsonb = '{"a": 1}' as json`
    expect(await db.query(given)).toEqual([{ at: true, bytes: true, texts: true, json: true }])
    await expect(db.query(statement`select 9007199254740993::bigint`)).rejects.toThrow('above 2^53')
  })

  test('a batch is one transaction: a refusal rolls it back and reports the violated constraint', async () => {
    const table = `batched_${ways.findIndex(([, other]) => other === at)}`
    await sql.query(`create table ${table} (id integer constraint ${table}_key primary key)`)
    const insert = (id: number) => raw(`insert into ${table} (id) values ($1) returning id`, id)
    const [first, count] = await db.batch([insert(1), raw(`select count(*) from ${table}`)])
    expect([first, count]).toEqual([[{ id: 1 }], [{ count: 1 }]])
    const refused: unknown = await db.batch([insert(2), insert(1)]).catch((error: unknown) => error)
    expect([violatedConstraint(refused), isTransient(refused)]).toEqual([`${table}_key`, false])
    expect((await sql.query(`select id from ${table}`)).rows).toEqual([{ id: 1 }])
  })

  test('each transaction starts by setting the acting person', async () => {
    const acting = db.actingAs(null)
    expect(await acting.query(one)).toEqual([{ one: 1 }])
  })

  test('every call gets its own answer, even if there are more calls than connections', async () => {
    const numbers = Array.from({ length: 200 }, (_, index) => index)
    const answers = await Promise.all(numbers.map((number) => db.query(statement`select ${number}::integer as number`)))
    expect(answers).toEqual(numbers.map((number) => [{ number }]))
  })
})

describe('over connections that are held', () => {
  const held = { DATABASE_URL: '', POSTGRES: pool }

  test('an attempt that hangs or loses its connection fails, and the next one succeeds', async () => {
    const hung = new Database(held, 200).query(statement`select pg_sleep(3)`)
    await expect(hung).rejects.toSatisfy(isTransient)
    const killed = new Database(held).batch([statement`select pg_terminate_backend(pg_backend_pid())`, one])
    await expect(killed).rejects.toSatisfy(isTransient)
    expect(await new Database(held).query(one)).toEqual([{ one: 1 }])
  })

  test("attempts that exceed the lock timeout don't leave an open connection", async () => {
    const few = openPool(env.DATABASE_URL, 2)
    const db = new Database({ ...held, POSTGRES: few }, 300)
    const key = 7_350_163
    await sql.query('select pg_advisory_lock($1)', [key])
    const waiting = raw('select pg_advisory_lock($1)', key)
    for (const ended of await Promise.allSettled(Array.from({ length: 6 }, () => retryOnce(() => db.query(waiting)))))
      expect(ended).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isTransient) })
    const left = `select from pg_locks where locktype = 'advisory' and objid = $1 and not granted`
    await vi.waitFor(async () => expect((await sql.query(left, [key])).rowCount).toBe(0), 60_000)
    await sql.query('select pg_advisory_unlock($1)', [key])
    await few.end()
  })

  test('an attempt fails if the database is unreachable', async () => {
    const nowhere = openPool('postgresql://postgres@127.0.0.1:9/postgres')
    await expect(new Database({ ...held, POSTGRES: nowhere }).query(one)).rejects.toSatisfy(isTransient)
    await nowhere.end()
  })

  test('on a silent network each attempt times out, even while it waits for a connection, and later ones succeed', async () => {
    const url = new URL(env.DATABASE_URL)
    const network = await startSilentNetwork({ host: url.hostname, port: Number(url.port) })
    url.host = `127.0.0.1:${network.port}`
    const beyond = openPool(url.href, 2)
    const db = new Database({ ...held, POSTGRES: beyond }, 200)
    expect(await new Database({ ...held, POSTGRES: beyond }).query(one)).toEqual([{ one: 1 }])
    network.silence()
    const attempts = Array.from({ length: 6 }, () => retryOnce(() => db.query(one)))
    for (const ended of await Promise.allSettled(attempts))
      expect(ended).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isTransient) })
    network.speak()
    expect(await new Database({ ...held, POSTGRES: beyond }).query(one)).toEqual([{ one: 1 }])
    await beyond.end()
    network.close()
  })

  test('a statement is prepared again after a migration changes its result', async () => {
    const db = new Database(held)
    await sql.query('create table widened (id integer); insert into widened values (1)')
    const all = statement`select * from widened`
    // Runs the statement once on each connection, so that each connection prepares it.
    await Promise.all([1, 2, 3, 4].map(() => db.batch([all, statement`select pg_sleep(0.05)`])))
    await sql.query('alter table widened add column more text')
    expect(await Promise.all([1, 2, 3, 4].map(() => db.query(all)))).toEqual(
      Array.from({ length: 4 }, () => [{ id: 1, more: null }]),
    )
  })
})

const each = (number: number) => ({ customers: number, events: number, uncounted: number })

describe('clicks that wait at the same moment', { timeout: 120_000 }, async () => {
  const { partnerCode, programId } = await createSandbox(new Database(env), { AUTH_SECRET: 'secret' })
  const shared = shareClicks(pool)
  const db = new Database({ DATABASE_URL: '', POSTGRES: shared })
  const click = clickOn(partnerCode)
  const record = (count: number, at = db) =>
    Array.from({ length: count }, () => recordClick(at, click, null).then(({ click_id }) => click_id))

  // The commit of several clicks waits for a lock, but the commit of a single click doesn't.
  await sql.query(`
    create function wait_where_shared() returns trigger language plpgsql as $$
    begin
      if (select count(*) from uncounted_clicks u where u.xmin = pg_current_xact_id()::xid) > 1 then
        perform pg_advisory_xact_lock_shared(7);
      end if;
      return null;
    end $$;
    create constraint trigger held after insert on uncounted_clicks deferrable initially deferred
      for each row execute function wait_where_shared()`)
  const hold = () => sql.query('select pg_advisory_lock(7)')
  const release = () => sql.query('select pg_advisory_unlock_all()')
  const held = `from pg_locks where locktype = 'advisory' and objid = 7 and not granted
    and database = (select oid from pg_database where datname = current_database())`
  const count = async (rest: string) => Number((await sql.query(`select count(*) ${rest}`)).rows[0].count)
  const untilHeld = (statements: number) =>
    vi.waitFor(async () => expect(await count(held)).toBe(statements), { timeout: 60_000 })
  const stored = async () => ({
    customers: await count('from customers'),
    events: await count('from affiliate_click_events'),
    uncounted: await count('from uncounted_clicks'),
  })
  afterEach(async () => {
    await release()
    await sql.query('truncate customers, affiliate_click_events, uncounted_clicks cascade')
  })

  test('are recorded sixteen per statement, and are answered after the commit', async () => {
    await hold()
    let answered = 0
    const clicks = record(200)
    for (const recorded of clicks) void recorded.then(() => (answered += 1))
    // The first eight don't have to wait. The next calls are held back.
    await untilHeld(4)
    expect([answered, await stored()]).toEqual([8, each(8)])
    await release()
    const ids = await Promise.all(clicks)
    expect([new Set(ids).size, await stored()]).toEqual([200, each(200)])
    expect(await count('from (select distinct xmin::text from affiliate_click_events) as transactions')).toBe(8 + 12)
    expect(await count(`from customers where click_id = any ('{${ids.join()}}')`)).toBe(200)
  })

  test('are recorded even if one of them is refused, and the refused one writes nothing', async () => {
    const [known = ''] = await Promise.all(record(1))
    const { additional_data: _, campaign: __, partner_code: aff, visitor: ___, ...event } = click
    const none = {
      additional_data: null,
      campaign: null,
      visitor: null,
      named_program_id: null,
      host: null,
      existing_click_id: null,
    }
    const click_id_prefix = known.slice(0, -String(programId).length)
    const taken = call('track_click', { aff, ...event, ...none, click_id_prefix, at: new Date(), event_id: 1 })
    const before = record(20)
    const [refused, violating, again, ...rest] = await Promise.allSettled([
      recordClick(db, clickOn('nobody'), null),
      db.query(taken),
      recordClick(db, click, known),
      ...before,
      ...record(20),
    ])
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'unknown_partner_code' } })
    expect(violating).toMatchObject({ status: 'rejected', reason: { constraint: 'customers_click_id_key' } })
    expect(again).toMatchObject({ status: 'fulfilled', value: { click_id: known } })
    expect(new Set(rest.map((answer) => answer.status === 'fulfilled' && answer.value)).size).toBe(40)
    expect(rest.filter(({ status }) => status === 'rejected')).toEqual([])
    expect(await stored()).toEqual({ customers: 41, events: 42, uncounted: 42 })
  })

  test('are recorded once and answered if their connections are killed before the commit', async () => {
    await hold()
    const clicks = record(60)
    await untilHeld(4)
    expect(await count(`from (select pg_terminate_backend(pid) ${held}) as killed`)).toBe(4)
    await release()
    expect(new Set(await Promise.all(clicks)).size).toBe(60)
    expect(await stored()).toEqual(each(60))
  })

  test('are recorded once if the answer to their commit is lost, and time out if no answer arrives', async () => {
    const url = new URL(env.DATABASE_URL)
    const network = await startSilentNetwork({ host: url.hostname, port: Number(url.port) })
    url.host = `127.0.0.1:${network.port}`
    const beyond = shareClicks(openPool(url.href, 4))
    const at = { DATABASE_URL: '', POSTGRES: beyond }
    await hold()
    const clicks = record(60, new Database(at))
    await untilHeld(4)
    network.silence()
    await release()
    await vi.waitFor(async () => expect(await stored()).toEqual(each(60)), { timeout: 60_000 })
    network.speak()
    expect(new Set(await Promise.all(clicks)).size).toBe(60)
    expect(await stored()).toEqual(each(60))

    network.silence()
    for (const ended of await Promise.allSettled(record(60, new Database(at, 100))))
      expect(ended).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isTransient) })
    network.speak()
    expect(await Promise.all(record(60, new Database(at)))).toHaveLength(60)
    await beyond.end()
    network.close()
  })

  test('get an answer before their server stops', async () => {
    let taken = 0
    const server = await startServer({
      service: {
        isProgramHost: () => Promise.resolve(false),
        async answer() {
          taken += 1
          return Response.json(await recordClick(db, click, null))
        },
      },
      budget: openVisitorBudget(),
      baseUrl: 'https://partners.example.com',
      host: '127.0.0.1',
      port: 0,
      trusted: readTrusted('').trusted,
      placeOf: () => ({}),
      isBlocked: () => false,
    })
    await hold()
    // Sends nothing until eight statements are being held back.
    const before = record(8 + 8 * 16)
    await untilHeld(4)
    const answers = Array.from({ length: 60 }, () => fetch(`http://127.0.0.1:${server.port}/`))
    await vi.waitFor(() => expect(taken).toBe(60), { timeout: 60_000 })
    const stopped = server.stop()
    await release()
    await Promise.all(before)
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array.from({ length: 60 }, () => 200))
    await stopped
    expect(await stored()).toEqual(each(before.length + 60))
  })

  test("don't wait for the others if they are refused", async () => {
    const other = new Client({ connectionString: env.DATABASE_URL })
    await other.connect()
    const note = `select note_refusal(${programId}, 'click', 'link_disabled', '')`
    await other.query(`begin; ${note}`)
    await sql.query(note)
    await other.query('commit')
    await other.end()
    expect(await count(`from refused_calls where code = 'link_disabled'`)).toBe(1)
  })
})

test("clicks and their ids have the time of the database's clock, even if the clock of the process jumps", async () => {
  const { partnerCode } = await createSandbox(new Database(env), { AUTH_SECRET: 'secret' })
  const clock = await followDatabaseClock(pool)
  onTestFinished(() => clock.stop())
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2031-01-01') })
  onTestFinished(() => void vi.useRealTimers())
  const db = new Database({ DATABASE_URL: '', POSTGRES: { ...pool, now: clock.now } })
  const { click_id } = await recordClick(db, clickOn(partnerCode), null)
  const { rows } = await sql.query(
    `select click_timestamp between now() - interval '1 minute' and now() + interval '1 second' as is_dated,
      to_timestamp(substr(click_id, 6, 13)::bigint / 1000.0) = click_timestamp as is_same
    from affiliate_click_events where click_id = $1`,
    [click_id],
  )
  expect(rows).toEqual([{ is_dated: true, is_same: true }])
})
