import { expect, test } from 'vitest'
import { Database, retryOnce } from '../lib/database.ts'
import { isTransient } from '../lib/errors.ts'
import { startEndpoint } from './support/stack.ts'
import { statement } from './support/statement.ts'

const { env, neon } = await startEndpoint()
const one = statement<{ one: number }>`select 1 as one`

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
