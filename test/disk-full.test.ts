import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { afterAll, expect, test, vi } from 'vitest'
import { Database } from '../lib/database.ts'
import { openLog } from '../lib/serve/log-file.ts'
import { freePort } from '../lib/serve/embedded-postgres.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { openPool } from '../lib/commands/postgres.ts'
import { lossesOf, startCallers } from './chaos/serve.ts'
import { settingsOf, startMailApi, startServe } from './support/serve.ts'
import { givenSecrets } from './support/serve-process.ts'

/** Mounts a disk of this size in memory. Usually only root on Linux can do so. */
function mountDisk(bytes: number): string | undefined {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes},mode=755`, 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    rmSync(folder, { recursive: true })
    return undefined
  }
  afterAll(() => {
    execFileSync('umount', ['--lazy', folder])
    rmSync(folder, { recursive: true })
  })
  return folder
}

/** Returns whether the service reported that a full disk stopped its PostgreSQL. */
const isEnd = (message: string) => /is full.*Free some space there/.test(message)

const disk = mountDisk(192 * 1024 * 1024)

/** This test needs permission to mount a disk. */
const onDisk = (name: string, run: (folder: string) => Promise<void>, timeout: number) =>
  disk && test(name, async () => await run(disk), timeout)

onDisk(
  'a full disk causes 503 and loses nothing, and the service recovers when space is free',
  async (folder) => {
    const environment = settingsOf(await freePort(), await startMailApi())
    const served = await startServe({ ...environment, ...givenSecrets }, ['--embedded', '--data', folder])
    const databaseUrl = readFileSync(path.join(folder, 'database-url'), 'utf8')
    const pool = openPool(databaseUrl, 2)
    const env = { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '', DATABASE_URL: databaseUrl, POSTGRES: pool }
    const program = await createSandbox(new Database(env), env)
    await pool.end()
    const callers = startCallers(() => served.baseUrl, [program])
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(20), 60_000)

    const ballast = path.join(folder, 'ballast')
    const { bavail, bsize } = statfsSync(folder)
    try {
      writeFileSync(ballast, Buffer.alloc(bavail * bsize - 256 * 1024))
    } catch (error) {
      // Concurrent callers may use up the reserved space too.
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
    }
    await vi.waitFor(() => expect(callers.refusals()).toBeGreaterThan(10), 60_000)
    // Fills the disk with the write-ahead log, with one file per switch, until Postgres stops.
    const said = () => served.logs().map(({ message }) => String(message))
    const filler = new Client({ connectionString: databaseUrl })
    filler.on('error', () => {})
    await filler.connect().catch(() => {})
    for (let n = 0; n < 20 && !said().some(isEnd); n++) {
      await filler.query('select txid_current(); select pg_switch_wal()').catch(() => {})
    }
    await vi.waitFor(() => expect(said().some(isEnd)).toBe(true), 60_000)
    const asked = await fetch(`${served.baseUrl}/api/v1/cli/status`, {
      headers: { authorization: `Bearer ${program.apiKey}` },
    })
    expect([asked.status, Number(asked.headers.get('retry-after'))]).toEqual([503, expect.any(Number)])
    expect(await asked.json()).toMatchObject({ error: { code: 'unavailable' } })

    const before = callers.count()
    rmSync(ballast)
    await vi.waitFor(() => expect(callers.count()).toBeGreaterThan(before + 20), 60_000)
    expect(said()).toContain('Postgres is running again.')
    const sql = new Client({ connectionString: databaseUrl })
    await sql.connect()
    expect(await lossesOf(sql, await callers.stop())).toEqual([])
    await sql.end()
    expect(await served.end('SIGTERM')).toBe(0)
  },
  120_000,
)

const logFolder = mkdtempSync(path.join(tmpdir(), 'log-'))
afterAll(() => rmSync(logFolder, { recursive: true }))

test("a log on a full disk loses lines, reports it once, and doesn't stop the service", () => {
  const onProblem = vi.fn()
  const log = openLog('/dev/full', onProblem)
  for (let line = 0; line < 3; line++) log.write('a line\n')
  expect(onProblem.mock.calls).toEqual([[expect.stringMatching(/^\/dev\/full cannot be written.*ENOSPC/)]])
  log.close()
})

test('a log continues when its folder exists again, and reports the next failure', () => {
  const onProblem = vi.fn()
  const log = openLog(path.join(logFolder, 'later/a.log'), onProblem)
  log.write('lost\n')
  mkdirSync(path.join(logFolder, 'later'))
  log.write('kept\n')
  log.close()
  expect(readFileSync(path.join(logFolder, 'later/a.log'), 'utf8')).toBe('kept\n')
  rmSync(path.join(logFolder, 'later'), { recursive: true })
  log.write('lost\n')
  expect(onProblem).toHaveBeenCalledTimes(2)
})

test('a log keeps at most twice its size limit', () => {
  const name = path.join(logFolder, 'a.log')
  const log = openLog(name, expect.unreachable, 100)
  for (let line = 0; line < 50; line++) log.write(`line ${line}\n`)
  log.close()
  expect(statSync(name).size).toBeLessThanOrEqual(100)
  expect(existsSync(`${name}.2`)).toBe(false)
  expect(readFileSync(`${name}.1`, 'utf8') + readFileSync(name, 'utf8')).toMatch(/line 39\n[^]*line 49\n$/)
  expect(statSync(name).mode & 0o777).toBe(0o600)
})
