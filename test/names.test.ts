import { expect, test } from 'vitest'
import { asciiHost, shownHost } from '../lib/hosts.ts'
import { isName } from '../lib/names.ts'
import { programSettings } from '../lib/programs/programs.ts'
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
  ['a Latin-1 control character', 'Ada\u0085', false],
  ['a line separator', 'Ada\u2028', false],
  ['a direction override', 'Ada\u202Etxt.exe', false],
  ['a direction mark', '\u200FAda', false],
  ['an isolate', 'Ada\u2066', false],
]

test.each(names)('the code and the tables agree on a name with %s', async (_what, name, taken) => {
  expect(isName(name)).toBe(taken)
  const stored = sql.query('select $1::name_text', [name])
  await (taken ? stored : expect(stored).rejects.toMatchObject({ code: '23514' }))
})

test('every column for names of workspaces, programs, people and partners uses the domain', async () => {
  const { rows } = await sql.query(
    `select table_name, domain_name from information_schema.columns
    where table_schema = 'public' and column_name = 'name' and table_name in ('users', 'workspaces', 'programs', 'partners') order by 1`,
  )
  expect(rows).toEqual(
    ['partners', 'programs', 'users', 'workspaces'].map((table) => ({ table_name: table, domain_name: 'name_text' })),
  )
})

const hosts: [typed: string, stored: string][] = [
  ['münchen.de', 'xn--mnchen-3ya.de'],
  ['https://Shop.Bücher.example/start', 'shop.xn--bcher-kva.example'],
  ['пример.рф', 'xn--e1afmkfd.xn--p1ai'],
  ['例え.テスト:8080', 'xn--r8jz45g.xn--zckzah:8080'],
  ['📦.ws', 'xn--cu8h.ws'],
  ['example.com', 'example.com'],
]

test.each(hosts)('the domain %s is stored as %s, and displayed as typed', (typed, stored) => {
  expect(programSettings.shape.domain.parse(typed)).toBe(stored)
  const host = typed.toLowerCase().replace(/^https:\/\/|\/.*$/g, '')
  expect([asciiHost(host), shownHost(stored)]).toEqual([stored, host])
})

test.each(['99999999999999999999', 'example.com:99999', 'example.com:x', 'a b'])(
  'the impossible domain %s is refused',
  (typed) => {
    expect(programSettings.shape.domain.safeParse(typed).success).toBe(false)
  },
)

test.each(['xn--x.com', 'xn--.de', 'xn--99999999.de'])(
  'the domain %s has no other spelling and is displayed unchanged',
  (host) => {
    expect(shownHost(host)).toBe(host)
  },
)
