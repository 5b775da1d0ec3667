import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { dumpSchema, generateSchemaTypes } from '../lib/local/schema-files.ts'
import { createDatabase } from './support/stack.ts'

const { databaseUrl, sql } = await createDatabase()

describe('what `npm run schema` writes is what the migrations make', () => {
  test('migrations/schema.sql', async () => {
    expect(await dumpSchema(databaseUrl)).toBe(readFileSync('migrations/schema.sql', 'utf8'))
  })

  test('lib/schema.ts', async () => {
    expect(await generateSchemaTypes(databaseUrl)).toBe(readFileSync('lib/schema.ts', 'utf8'))
  })
})

test('what is planned once for any arguments are reads, which no lock waits for: a plan of empty tables can take minutes of full ones', async () => {
  const { rows } = await sql.query<{ proname: string }>(
    `select proname from pg_proc where proconfig::text like '%force_generic_plan%' order by 1`,
  )
  expect(rows.map(({ proname }) => proname)).toEqual([
    'count_rows',
    'origin_of_customer',
    'read_performance',
    'sum_hours',
  ])
})
