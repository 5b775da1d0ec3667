import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { afterAll, expect, inject, test, vi } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { migrate } from '../lib/commands/migrate.ts'
import { Database } from '../lib/database.ts'
import { generateSecrets, localEnvironment, localOnlyEnvironment } from '../lib/local/environment.ts'
import { openLog } from '../lib/local/log.ts'
import { startNeonEndpoint } from '../lib/local/neon.ts'
import { startPostgres } from '../lib/local/postgres.ts'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startWorkers } from '../lib/local/workers.ts'
import { readTestFunctions } from './support/functions.ts'

/** A disk of so many bytes, in memory. It takes a process that may mount one, which root on Linux mostly may. */
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

/** Whether the stack said that Postgres ended for want of room. */
const isEnd = (problem: string) => /is full.*Make room there/.test(problem)

const disk = mountDisk(128 * 1024 * 1024)

/** Where no disk can be mounted, this has nothing to run on. */
const onDisk = (name: string, run: (folder: string) => Promise<void>, timeout: number) =>
  disk && test(name, async () => await run(disk), timeout)

onDisk(
  'a full disk is answered 503 and loses nothing, and the service comes back when there is room',
  async (folder) => {
    const problems: string[] = []
    const postgres = await startPostgres({
      dataFolder: path.join(folder, 'postgres'),
      password: 'test',
      settings: ['min_wal_size=32MB', 'max_wal_size=32MB'],
      onProblem: (sentence) => void problems.push(sentence),
      onExit: (message) => expect.unreachable(message),
    })
    const databaseUrl = postgres.urlOf('postgres')
    await migrate(databaseUrl)
    const neon = await startNeonEndpoint()
    const addresses = {
      baseUrl: 'http://127.0.0.1',
      databaseUrl,
      neonEndpoint: neon.url,
      awsEndpoint: undefined,
      queueUrl: '',
      deadLetterQueueUrl: '',
      webhookQueueUrl: '',
      stripeApiUrl: undefined,
    }
    const env = { ...localEnvironment(addresses, generateSecrets()), ...localOnlyEnvironment(addresses) }
    const db = new Database(env)
    const { apiKey, partnerCode } = await createSandbox(db, env)
    const functions = readTestFunctions()
      .filter(({ name }) => ['track-click', 'track-sale', 'cli-status'].includes(name))
      .map((entry) => ({ ...entry, rateLimits: [], services: {} }))
    const workers = await startWorkers({
      functions,
      scripts: new Map(
        functions.map(({ name }) => [name, readFileSync(path.join(inject('scriptsFolder'), `${name}.js`), 'utf8')]),
      ),
      environment: env,
      common: localOnlyEnvironment(addresses),
    })
    try {
      const call = async (name: string, body?: object) => {
        const response = await fetch(`${workers.baseUrl}/api/v1/${name}`, {
          ...(body && { method: 'POST', body: JSON.stringify(body) }),
          headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
        })
        return { status: response.status, retryAfter: response.headers.get('retry-after'), body: await response.text() }
      }
      const clicks: string[] = []
      const sales: string[] = []
      const affiliate_url = `https://shop.example.com/?aff=${partnerCode}`
      /** Calls until one is not answered 200, and returns that; undefined where all were. */
      async function callUntilRefused(count: number) {
        for (let n = 0; n < count; n++) {
          const click = await call('track/click', {
            affiliate_url,
            additional_data: { text: crypto.randomUUID().repeat(50) },
          })
          if (click.status !== 200) return click
          const { click_id } = JSON.parse(click.body) as { click_id: string }
          clicks.push(click_id)
          const transaction_id = crypto.randomUUID()
          const sale = await call('track/sale', {
            transaction_id,
            customer_key: click_id,
            click_id,
            amount_cents: 1000,
          })
          if (sale.status !== 200) return sale
          sales.push(transaction_id)
        }
        return undefined
      }
      expect(await callUntilRefused(3)).toBe(undefined)

      const ballast = path.join(folder, 'ballast')
      const { bavail, bsize } = statfsSync(folder)
      writeFileSync(ballast, Buffer.alloc(bavail * bsize - 256 * 1024))
      const refused = await callUntilRefused(20_000)
      expect(refused).toMatchObject({ status: 503, retryAfter: expect.stringMatching(/^\d+$/) })
      expect(JSON.parse(refused?.body ?? '')).toMatchObject({ error: { code: 'unavailable' } })
      // Now its log of transactions, which takes a file more with each switch, until Postgres itself ends.
      const filler = new Client({ connectionString: databaseUrl })
      filler.on('error', () => {})
      await filler.connect()
      for (let n = 0; n < 20 && !problems.some(isEnd); n++) {
        await filler.query('select txid_current(); select pg_switch_wal()').catch(() => {})
      }
      await expect.poll(() => problems.some(isEnd), { timeout: 10_000 }).toBe(true)
      for (let n = 0; n < 5; n++) {
        expect(await callUntilRefused(1)).toMatchObject({ status: 503 })
        await sleep(300)
      }

      rmSync(ballast)
      await expect.poll(() => callUntilRefused(5), { timeout: 20_000, interval: 200 }).toBe(undefined)
      expect(problems.at(-1)).toBe('Postgres runs again.')

      const sql = new Client({ connectionString: databaseUrl })
      await sql.connect()
      const listOf = async (query: string) => (await sql.query<{ value: string }>(query)).rows.map(({ value }) => value)
      expect(await listOf('select click_id as value from customers')).toEqual(expect.arrayContaining(clicks))
      expect(await listOf('select transaction_id as value from sales')).toEqual(expect.arrayContaining(sales))
      expect(await findDifferences(sql)).toEqual([])
      await sql.end()
    } finally {
      await workers.close()
      await neon.close()
      await postgres.stop()
    }
  },
  120_000,
)

const logFolder = mkdtempSync(path.join(tmpdir(), 'log-'))
afterAll(() => rmSync(logFolder, { recursive: true }))

test('a log on a full disk loses lines, says so once, and ends nothing', () => {
  const onProblem = vi.fn()
  const log = openLog('/dev/full', onProblem)
  for (let line = 0; line < 3; line++) log.write('a line\n')
  expect(onProblem.mock.calls).toEqual([[expect.stringMatching(/^\/dev\/full cannot be written.*ENOSPC/)]])
  log.close()
})

test('a log goes on when its folder is there again, and tells of the next time', () => {
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

test('a log keeps twice its most bytes', () => {
  const name = path.join(logFolder, 'a.log')
  const log = openLog(name, expect.unreachable, 100)
  for (let line = 0; line < 50; line++) log.write(`line ${line}\n`)
  log.close()
  expect(statSync(name).size).toBeLessThanOrEqual(100)
  expect(existsSync(`${name}.2`)).toBe(false)
  expect(readFileSync(`${name}.1`, 'utf8') + readFileSync(name, 'utf8')).toMatch(/line 39\n[^]*line 49\n$/)
  expect(statSync(name).mode & 0o777).toBe(0o600)
})
