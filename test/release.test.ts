import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { readSqlFiles } from '../lib/commands/migrate.ts'
import { thirdPartyNotices } from '../lib/commands/notices.ts'
import { changedSinceRelease, readReleased, withRelease } from '../lib/commands/release.ts'
import { openLog } from '../lib/local/log.ts'

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

test('THIRD_PARTY_NOTICES has the terms of the packages as they are installed: `npm run notices` writes it', () => {
  const notices = thirdPartyNotices()
  expect(notices).toMatch(/^hono \d[^]*MIT License[^]*Copyright \(c\) 2021/m)
  expect(readFileSync('THIRD_PARTY_NOTICES', 'utf8')).toBe(notices)
})

const folder = mkdtempSync(path.join(tmpdir(), 'log-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a log on a full disk loses lines, says so once, and ends nothing', () => {
  const onProblem = vi.fn()
  const log = openLog('/dev/full', onProblem)
  for (let line = 0; line < 3; line++) log.write('a line\n')
  expect(onProblem.mock.calls).toEqual([[expect.stringMatching(/^\/dev\/full cannot be written.*ENOSPC/)]])
  log.close()
})

test('a log goes on when its folder is there again, and tells of the next time', () => {
  const onProblem = vi.fn()
  const log = openLog(path.join(folder, 'later/a.log'), onProblem)
  log.write('lost\n')
  mkdirSync(path.join(folder, 'later'))
  log.write('kept\n')
  log.close()
  expect(readFileSync(path.join(folder, 'later/a.log'), 'utf8')).toBe('kept\n')
  rmSync(path.join(folder, 'later'), { recursive: true })
  log.write('lost\n')
  expect(onProblem).toHaveBeenCalledTimes(2)
})

test('a log keeps twice its most bytes', () => {
  const name = path.join(folder, 'a.log')
  const log = openLog(name, expect.unreachable, 100)
  for (let line = 0; line < 50; line++) log.write(`line ${line}\n`)
  log.close()
  expect(statSync(name).size).toBeLessThanOrEqual(100)
  expect(existsSync(`${name}.2`)).toBe(false)
  expect(readFileSync(`${name}.1`, 'utf8') + readFileSync(name, 'utf8')).toMatch(/line 39\n[^]*line 49\n$/)
  expect(statSync(name).mode & 0o777).toBe(0o600)
})
