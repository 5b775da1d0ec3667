import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { beforeEach, describe, expect, test } from 'vitest'
import { Database } from '../lib/database.ts'
import { isTransient } from '../lib/errors.ts'
import { startEndpoint } from './support/stack.ts'
import { statement } from './support/statement.ts'

const { db, env, neon, sql: postgres } = await startEndpoint('workers')
await postgres.query('create table numbers (id int primary key)')

beforeEach(async () => {
  neon.clearFaults()
  await postgres.query('truncate numbers')
})

const insert = (id: number) => statement`insert into numbers values (${id})`
const stored = async () =>
  (await postgres.query<{ id: number }>('select id from numbers order by id')).rows.map(({ id }) => id)

describe('faults', () => {
  test.each([
    ['drop-before', []],
    ['drop-after', [1]],
    ['unavailable', []],
    ['kill-backend', []],
  ] as const)('%s fails one request and leaves %j stored', async (action, left) => {
    neon.inject({ action, matching: 'numbers' })
    await expect(db.query(insert(1))).rejects.toThrow()
    expect(await stored()).toEqual(left)
    await db.query(insert(2))
    expect(await stored()).toEqual([...left, 2])
  })

  test('can be set over HTTP too', async () => {
    const control = new URL('/control', neon.url)
    const headers = neon.control
    const body = JSON.stringify({ action: 'unavailable', times: 2 })
    await fetch(`${control}/faults`, { method: 'POST', headers, body })
    await expect(db.query(insert(1))).rejects.toThrow('503')
    await fetch(control, { method: 'DELETE', headers })
    await db.query(insert(1))
    expect(await (await fetch(control, { headers })).json()).toEqual({
      requests: 1,
      statements: 1,
      answered_bytes: expect.toSatisfy((bytes: number) => bytes > 50),
      faults: [],
    })
  })
})

const sendTo = async (pathname: string, headers: Record<string, string>) => {
  const sent = request(new URL(pathname, neon.url), { method: 'POST', headers })
  sent.end(JSON.stringify({ action: 'unavailable', times: 5 }))
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  return response.statusCode
}

test.each([
  ['a page', { origin: 'https://evil.example' }],
  ['a page in a frame without an origin', { origin: 'null' }],
  ['a page through a link', { 'sec-fetch-site': 'cross-site' }],
  ['a page whose domain resolves to this machine', { host: 'evil.example' }],
])('%s is refused, whatever token it has', async (_who, headers) => {
  for (const pathname of ['/control/faults', '/control', '/sql'])
    expect([pathname, await sendTo(pathname, { ...neon.control, ...headers })]).toEqual([pathname, 403])
  await db.query(insert(1))
})

test.each([
  ['without a token', {}],
  ['with a guessed token', { 'control-token': 'guessed' }],
] as [string, Record<string, string>][])('faults are refused %s', async (_what, headers) => {
  expect(await sendTo('/control/faults', headers)).toBe(403)
  expect(await sendTo('/sql', { ...headers, 'inject-fault': '{"action":"unavailable"}' })).toBe(403)
  await db.query(insert(1))
})

test("an unreachable Postgres causes a retry, and a refused statement doesn't", async () => {
  const away = new Database({ ...env, DATABASE_URL: 'postgresql://postgres:test@127.0.0.1:1/away' })
  const [unreached, refused] = await Promise.allSettled([away.query(insert(1)), db.query(statement`select 1 / 0`)])
  expect(unreached).toMatchObject({ status: 'rejected', reason: { name: 'NeonDbError', code: '' } })
  expect([unreached, refused].map((outcome) => 'reason' in outcome && isTransient(outcome.reason))).toEqual([
    true,
    false,
  ])
})
