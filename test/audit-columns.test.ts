import { types } from 'pg'
import { expect, test } from 'vitest'
import { checks } from '../lib/commands/audit.ts'
import { createDatabase } from './support/stack.ts'

const { sql } = await createDatabase()
const { INT8, TEXT } = types.builtins

test.for(checks)('the check "$name" gives the columns of a finding', async ({ query }) => {
  const { fields } = await sql.query(`select * from (${query}) off limit 0`, [null])
  expect(fields.map(({ name, dataTypeID }) => [name, dataTypeID])).toEqual([
    ['program_id', INT8],
    ['subject', TEXT],
    ['found', TEXT],
    ['expected', TEXT],
  ])
})
