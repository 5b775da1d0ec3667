import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readSqlFiles } from '../lib/commands/migrate.ts'
import { thirdPartyNotices } from '../lib/commands/notices.ts'
import { changedSinceRelease, readReleased, withRelease, withVersion } from '../lib/commands/release.ts'

const file = (name: string, sql: string) => ({ name, sql, checksum: createHash('sha256').update(sql).digest('hex') })
const first = file('0001_first.sql', 'create table first (id int)')
const second = file('0002_second.sql', 'create table second (id int)')
const functions = file('functions/one.sql', 'select 1')

test('no migration that was released has changed', () => {
  expect(changedSinceRelease(readReleased(), readSqlFiles())).toEqual([])
})

test('a version records the migrations that none before had, and no functions', () => {
  const one = withRelease({}, '0.2.0', [first, functions])
  expect(one).toEqual({ '0.2.0': { '0001_first.sql': first.checksum } })
  expect(withRelease(one, '0.3.0', [first, second, functions])).toEqual({
    ...one,
    '0.3.0': { '0002_second.sql': second.checksum },
  })
})

test.each([
  ['changed', [file('0001_first.sql', 'create table first (id bigint)'), second], 'has changed. Undo that'],
  ['removed', [second], 'is gone. Put it back'],
  ['renamed', [{ ...first, name: '0001_one.sql' }, second], 'is gone. Put it back'],
])('a released migration that is %s is found, and nothing more is released', (_, files, message) => {
  const record = withRelease({}, '0.2.0', [first])
  expect(changedSinceRelease(record, files)).toEqual([
    expect.stringContaining(`0001_first.sql was released with 0.2.0 and ${message}`),
  ])
  expect(() => withRelease(record, '0.3.0', files)).toThrow(message)
})

test.each([
  ['0.2', 'Give a version such as 0.2.0'],
  ['0.2.0', '0.2.0 is recorded already'],
])('the version %s is refused', (version, message) => {
  expect(() => withRelease({ '0.2.0': {} }, version, [first])).toThrow(message)
})

test.each(['package.json', 'tracker/package.json', 'package-lock.json'])(
  'a release writes its version into %s, and changes nothing else there',
  (name) => {
    const before = readFileSync(name, 'utf8').split('\n')
    const after = withVersion(before.join('\n'), '98.7.6').split('\n')
    const changed = after.filter((line, at) => line !== before[at]).map((line) => line.trim())
    expect(after).toHaveLength(before.length)
    expect(changed).toEqual(Array.from({ length: name.includes('lock') ? 3 : 1 }, () => '"version": "98.7.6",'))
  },
)

test('THIRD_PARTY_NOTICES has the terms of the packages as they are installed: `npm run notices` writes it', () => {
  const notices = thirdPartyNotices()
  expect(notices).toMatch(/^hono \d[^]*MIT License[^]*Copyright \(c\) 2021/m)
  expect(readFileSync('THIRD_PARTY_NOTICES', 'utf8')).toBe(notices)
})
