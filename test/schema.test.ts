import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { dumpSchema, generateSchemaTypes } from '../lib/local/schema-files.ts'
import { createDatabase } from './support/stack.ts'

const { databaseUrl, sql } = await createDatabase()

describe('the output of `npm run schema` matches the migrations', () => {
  test('migrations/schema.sql', async () => {
    expect(await dumpSchema(databaseUrl)).toBe(readFileSync('migrations/schema.sql', 'utf8'))
  })

  test('lib/schema.ts', async () => {
    expect(await generateSchemaTypes(databaseUrl)).toBe(readFileSync('lib/schema.ts', 'utf8'))
  })
})

test('only reads without locks have generic plans, because a plan for empty tables can take minutes on full tables', async () => {
  const { rows } = await sql.query<{ proname: string }>(
    `select proname from pg_proc where proconfig::text like '%force_generic_plan%' order by 1`,
  )
  expect(rows.map(({ proname }) => proname)).toEqual([
    'click_of_customer',
    'count_rows',
    'read_performance',
    'sum_hours',
  ])
})
