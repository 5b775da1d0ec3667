import { CompiledQuery } from 'kysely'
import { afterAll, describe, expect, test } from 'vitest'
import { Database, retryOnce, violatedConstraint } from '../lib/database.ts'
import { isTransient } from '../lib/errors.ts'
import { openPool } from '../lib/serve/postgres.ts'
import { startSilentNetwork } from './support/silent-network.ts'
import { startEndpoint } from './support/stack.ts'
import { statement } from './support/statement.ts'

const { env, neon, sql } = await startEndpoint()
const one = statement<{ one: number }>`select 1 as one`
const raw = (text: string, ...values: unknown[]) => ({ compile: () => CompiledQuery.raw(text, values) })

test('a database that hangs ends as a broken try, and the second one is answered', async () => {
  const db = new Database(env, 300)
  neon.inject({ action: 'delay', delay_ms: 2000 })
  await expect(db.query(one)).rejects.toSatisfy(isTransient)

  neon.inject({ action: 'delay', delay_ms: 2000 })
  expect(await retryOnce(() => db.query(one))).toEqual([{ one: 1 }])
})

test('an answer that breaks off is a broken try too', async () => {
  const db = new Database(env)
  neon.inject({ action: 'cut' })
  await expect(db.query(one)).rejects.toSatisfy(isTransient)

  neon.inject({ action: 'cut' })
  expect(await retryOnce(() => db.batch([one]))).toEqual([[{ one: 1 }]])
})

test('a statement that Postgres refuses is no broken try', async () => {
  const refused = new Database(env).query(statement`select no_such_column`)
  await expect(refused).rejects.not.toSatisfy(isTransient)
})

const pool = openPool(env.DATABASE_URL, 4)
afterAll(() => pool.end())
const ways = [
  ['through the HTTP of Neon', env],
  ['over connections that are held', { ...env, POSTGRES: pool }],
] as const

describe.each(ways)('%s', (_way, at) => {
  const db = new Database(at)

  test('values arrive as the types of the schema say, and go as they are given', async () => {
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

  test('a batch is one transaction, in which a refusal leaves nothing and is told by its constraint', async () => {
    const table = `batched_${ways.findIndex(([, other]) => other === at)}`
    await sql.query(`create table ${table} (id integer constraint ${table}_key primary key)`)
    const insert = (id: number) => raw(`insert into ${table} (id) values ($1) returning id`, id)
    const [first, count] = await db.batch([insert(1), raw(`select count(*) from ${table}`)])
    expect([first, count]).toEqual([[{ id: 1 }], [{ count: 1 }]])
    const refused: unknown = await db.batch([insert(2), insert(1)]).catch((error: unknown) => error)
    expect([violatedConstraint(refused), isTransient(refused)]).toEqual([`${table}_key`, false])
    expect((await sql.query(`select id from ${table}`)).rows).toEqual([{ id: 1 }])
  })

  test('who acts is said first in each transaction', async () => {
    const acting = db.actingAs(null)
    expect(await acting.query(one)).toEqual([{ one: 1 }])
  })

  test('more than there are connections are answered each with its own', async () => {
    const numbers = Array.from({ length: 200 }, (_, index) => index)
    const answers = await Promise.all(numbers.map((number) => db.query(statement`select ${number}::integer as number`)))
    expect(answers).toEqual(numbers.map((number) => [{ number }]))
  })
})

describe('over connections that are held', () => {
  const held = { DATABASE_URL: '', POSTGRES: pool }

  test('a try that hangs or loses its connection is a broken one, and the next is answered', async () => {
    const hung = new Database(held, 200).query(statement`select pg_sleep(3)`)
    await expect(hung).rejects.toSatisfy(isTransient)
    const killed = new Database(held).batch([statement`select pg_terminate_backend(pg_backend_pid())`, one])
    await expect(killed).rejects.toSatisfy(isTransient)
    expect(await new Database(held).query(one)).toEqual([{ one: 1 }])
  })

  test('a database that is not reached is a broken try', async () => {
    const nowhere = openPool('postgresql://postgres@127.0.0.1:9/postgres')
    await expect(new Database({ ...held, POSTGRES: nowhere }).query(one)).rejects.toSatisfy(isTransient)
    await nowhere.end()
  })

  test('a network that goes silent ends each try in its time, also of those that wait for a connection, and is used again', async () => {
    const url = new URL(env.DATABASE_URL)
    const network = await startSilentNetwork({ host: url.hostname, port: Number(url.port) })
    url.host = `127.0.0.1:${network.port}`
    const beyond = openPool(url.href, 2)
    const db = new Database({ ...held, POSTGRES: beyond }, 200)
    expect(await new Database({ ...held, POSTGRES: beyond }).query(one)).toEqual([{ one: 1 }])
    network.silence()
    const tries = Array.from({ length: 6 }, () => retryOnce(() => db.query(one)))
    for (const ended of await Promise.allSettled(tries))
      expect(ended).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isTransient) })
    network.speak()
    expect(await new Database({ ...held, POSTGRES: beyond }).query(one)).toEqual([{ one: 1 }])
    await beyond.end()
    network.close()
  })

  test('a statement whose answer a migration changed is prepared anew', async () => {
    const db = new Database(held)
    await sql.query('create table widened (id integer); insert into widened values (1)')
    const all = statement`select * from widened`
    // On each connection.
    await Promise.all([1, 2, 3, 4].map(() => db.batch([all, statement`select pg_sleep(0.05)`])))
    await sql.query('alter table widened add column more text')
    expect(await Promise.all([1, 2, 3, 4].map(() => db.query(all)))).toEqual(
      Array.from({ length: 4 }, () => [{ id: 1, more: null }]),
    )
  })
})
