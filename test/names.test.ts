import { expect, test } from 'vitest'
import { isName } from '../lib/names.ts'
import { createDatabase } from './support/stack.ts'

const { sql } = await createDatabase()

const names: [what: string, name: string, taken: boolean][] = [
  ['a name', 'Ada Lovelace', true],
  ['another script', 'הרצל עדה', true],
  ['80 characters', '🛒'.repeat(80), true],
  ['81 characters', 'x'.repeat(81), false],
  ['nothing', '', false],
  ['a line break', 'Ada\r\nBcc: eve@example.com', false],
  ['a tab', 'Ada\tLovelace', false],
  ['a control character of Latin 1', 'Ada\u0085', false],
  ['a line separator', 'Ada\u2028', false],
  ['an override of direction', 'Ada\u202Etxt.exe', false],
  ['a mark of direction', '\u200FAda', false],
  ['an isolate', 'Ada\u2066', false],
]

test.each(names)('a name of %s is taken or not, by the rule and by the tables alike', async (_what, name, taken) => {
  expect(isName(name)).toBe(taken)
  const kept = sql.query('select $1::name_text', [name])
  await (taken ? kept : expect(kept).rejects.toMatchObject({ code: '23514' }))
})

test('every table keeps names of workspaces, programs, people and partners by it', async () => {
  const { rows } = await sql.query(
    `select table_name, domain_name from information_schema.columns
    where table_schema = 'public' and column_name = 'name' and table_name in ('users', 'workspaces', 'programs', 'partners') order by 1`,
  )
  expect(rows).toEqual(
    ['partners', 'programs', 'users', 'workspaces'].map((table) => ({ table_name: table, domain_name: 'name_text' })),
  )
})
