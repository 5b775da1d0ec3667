import { randomInt } from 'node:crypto'
import { cpSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { ClientBase, Pool } from 'pg'
import { findDifferences } from '../../lib/commands/audit.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import type { Sandbox } from '../../lib/local/sandbox.ts'
import { startSilentNetwork } from '../support/silent-network.ts'
import { type Served, spawnServe } from '../support/serve-process.ts'
import { bareEnvironment } from '../support/spawned.ts'
import type { Random } from './random.ts'

/** Callers that click, sign up, buy and refund, no matter what happens to the service. They remember acknowledged calls. */
export interface Callers {
  /** The number of sales so far. */
  count(): number
  /** The number of answers so far that requested a retry. */
  refusals(): number
  /** Stops the callers and returns their results. */
  stop(): Promise<Heard>
}

interface Heard {
  clicks: string[]
  sales: string[]
  refunds: string[]
  /** The number of calls without an answer, or with an answer that requested a retry. */
  refusals: number
  /** Answers that callers must never get. */
  wrong: string[]
}

/** The details of a program that its callers know. */
type Caller = Pick<Sandbox, 'apiKey' | 'partnerCode'>

/**
 * `addressOf` names the process for the next call. Callers repeat a call without an answer, or with 503, as the
 * documentation says.
 */
export function startCallers(addressOf: () => string, programs: Caller[], count = 16): Callers {
  const heard: Heard = { clicks: [], sales: [], refunds: [], refusals: 0, wrong: [] }
  const over = new AbortController()

  /** The answer, or undefined if the run ended first. */
  async function call(name: string, body: object, key?: string): Promise<{ click_id?: string } | undefined> {
    for (let attempt_count = 0; attempt_count === 0 || !over.signal.aborted; attempt_count++) {
      try {
        const response = await fetch(`${addressOf()}/api/v1/track/${name}`, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            // Each call has its own address, because an address has a rate limit.
            'x-forwarded-for': `198.18.${randomInt(256)}.${randomInt(256)}`,
            ...(key !== undefined && { authorization: `Bearer ${key}` }),
          },
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(30_000),
        })
        const text = await response.text()
        const isKnown = response.status === 409 && attempt_count > 0
        if (response.ok || isKnown) return JSON.parse(text) as { click_id?: string }
        if (response.status !== 503) heard.wrong.push(`${name}: ${response.status} ${text.slice(0, 200)}`)
      } catch {
        // The process has ended, or the next one isn't ready yet.
      }
      heard.refusals += 1
      await sleep(50)
    }
    return undefined
  }

  async function shop({ partnerCode, apiKey }: Caller): Promise<void> {
    const click = await call('click', { affiliate_url: `https://shop.example.com/?aff=${partnerCode}` })
    if (click?.click_id === undefined) return
    heard.clicks.push(click.click_id)
    const id = crypto.randomUUID()
    if (!(await call('lead', { customer_key: id, click_id: click.click_id }, apiKey))) return
    const sale = { transaction_id: id, customer_key: id, click_id: click.click_id, amount_cents: 1000 }
    if (!(await call('sale', sale, apiKey))) return
    heard.sales.push(id)
    if (await call('refund', { transaction_id: id, refund_amount_cents: 250, refund_id: id }, apiKey))
      heard.refunds.push(id)
  }

  const calling = Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const program = programs[index % programs.length]
      if (program) while (!over.signal.aborted) await shop(program)
    }),
  )
  return {
    count: () => heard.sales.length,
    refusals: () => heard.refusals,
    async stop() {
      over.abort()
      await calling
      return heard
    },
  }
}

/** Acknowledged events that are missing, duplicated or answered wrongly, and the findings of the audit. */
export async function lossesOf(sql: ClientBase, heard: Heard): Promise<string[]> {
  const lost = async (what: string, ids: string[], query: string) => {
    const { rows } = await sql.query<{ id: string }>(query, [ids])
    const found = rows.map(({ id }) => id)
    const times = found.length === new Set(found).size ? [] : [`a ${what} is there twice`]
    const there = new Set(found)
    return [...times, ...ids.filter((id) => !there.has(id)).map((id) => `lost: ${what} ${id}`)]
  }
  return [
    ...heard.wrong,
    ...(await lost('click', heard.clicks, 'select click_id as id from customers where click_id = any ($1)')),
    ...(await lost('sale', heard.sales, 'select transaction_id as id from sales where transaction_id = any ($1)')),
    ...(await lost(
      'refund',
      heard.refunds,
      'select transaction_id as id from sales where refunded_cents = 250 and transaction_id = any ($1)',
    )),
    ...(await findDifferences(sql)),
  ]
}

/** The faults that the run injects. */
const strokes = [
  'kill the leader',
  'kill another',
  'upgrade',
  'kill Postgres',
  'a clock jump',
  'a silent network',
  'rollback',
  'a full disk',
] as const

/**
 * Copies this checkout into a folder as the next version, with one more migration, which adds columns, an index and a table. Otherwise,
 * both versions run the same code.
 */
export function createNextVersion(folder: string): string {
  const sources = ['package.json', 'package-lock.json', 'wrangler.toml', 'tracker', 'functions', 'lib', 'migrations']
  cpSync('node_modules/.package-lock.json', path.join(folder, 'node_modules/.package-lock.json'))
  for (const source of sources) cpSync(source, path.join(folder, source), { recursive: true })
  // Each version has its own build in a folder of this run.
  for (const name of readdirSync('node_modules'))
    if (!name.startsWith('.')) symlinkSync(path.resolve('node_modules', name), path.join(folder, 'node_modules', name))
  writeFileSync(
    path.join(folder, 'migrations/9999_next.sql'),
    `alter table sales add column written_by_next boolean not null default false;
    alter table customers add column next_score integer;
    create index customers_next_score_idx on customers (program_id, next_score) where next_score is not null;
    create table next_sales (program_id bigint not null, transaction_id text not null, primary key (program_id, transaction_id));\n`,
  )
  return folder
}

/** If the database doesn't answer, a call makes two attempts of ten seconds each. */
const answeredWithinMilliseconds = 25_000

/** Whether a process holds the lock of lib/serve/coordinator.ts. */
async function isLed(sql: Pool): Promise<boolean> {
  const { rowCount } = await sql
    .query(
      `select from pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and granted and application_name = 'svc-coordinator'`,
    )
    .catch(() => ({ rowCount: 0 }))
  return rowCount === 1
}

const isLeader = (served: Served) => served.logs().some(({ leader }) => leader === true)
const clock = fileURLToPath(new URL('./clock.ts', import.meta.url))

/**
 * Runs two processes of `npm run serve` on one database with callers. Each round kills one, replaces one by the next or the previous
 * version, kills Postgres, moves a clock by an hour, cuts the network to Postgres, or fills its disk. After each round, checks that one
 * process is the leader and that all callers get answers again.
 */
export async function runServeChaos(options: {
  sql: Pool
  /** The environment of `npm run serve` without BASE_URL and PORT. */
  environment: Record<string, string>
  programs: Sandbox[]
  killPostgres: () => Promise<void>
  /** Fills the disk of Postgres until Postgres stops, and then frees the disk. Undefined if Postgres has no disk of its own. */
  fillDisk: (() => Promise<void>) | undefined
  /** An empty folder for the next version. */
  folder: string
  random: Random
  /** The run ends after this many rounds, but not before `minutes`. */
  rounds: number
  minutes: number
}): Promise<{
  wrong: string[]
  acknowledged: number
  refusals: number
  /** The refusals during the replacement of one version by the other. */
  restart_refusals: number
  strokes: Record<string, number>
  /** The time limit for the final check, which is mostly the audit. */
  audit_ms: number
}> {
  const { sql, programs, killPostgres, fillDisk, random, rounds, minutes } = options
  const next = createNextVersion(options.folder)
  let restart_refusals = 0
  let version = process.cwd()
  const wrong: string[] = []
  const counts: Record<string, number> = {}
  const databaseUrl = new URL(options.environment['DATABASE_URL'] ?? '')
  const network = await startSilentNetwork({ host: databaseUrl.hostname, port: Number(databaseUrl.port) })
  databaseUrl.host = `127.0.0.1:${network.port}`
  async function start(): Promise<Served> {
    const port = await freePort()
    const environment = {
      ...bareEnvironment,
      ...options.environment,
      DATABASE_URL: databaseUrl.href,
      BASE_URL: `http://127.0.0.1:${port}`,
      PORT: String(port),
      TRUST_PROXY: '127.0.0.1',
      NODE_OPTIONS: `--import=${clock}`,
    }
    return await spawnServe(environment, [], version)
  }
  let running: Served[] = await Promise.all([start(), start()])
  // An aborted run must not leave these processes running.
  process.once('exit', () => running.forEach((served) => served.process.kill('SIGKILL')))
  const replace = (old: Served, by: Served) => (running = running.map((one) => (one === old ? by : one)))
  const callers = startCallers(() => random.pick(running)?.baseUrl ?? '', programs)

  async function silence(): Promise<void> {
    network.silence()
    const answers = running.map(async ({ baseUrl }) => {
      const headers = { authorization: `Bearer ${programs[0]?.apiKey}` }
      const signal = AbortSignal.timeout(answeredWithinMilliseconds)
      const answer = await fetch(`${baseUrl}/api/v1/cli/status`, { headers, signal }).catch(() => undefined)
      if (answer?.status !== 503) wrong.push(`in the silence the answer was ${answer?.status ?? 'none'}`)
    })
    await Promise.all(answers)
    network.speak()
  }

  async function strike(stroke: (typeof strokes)[number]): Promise<void> {
    if (stroke === 'kill Postgres') return await killPostgres()
    if (stroke === 'a silent network') return await silence()
    if (stroke === 'a full disk') return await fillDisk?.()
    const leader = running.find(isLeader)
    const other = running.find((one) => one !== leader)
    const struck = stroke === 'kill another' ? other : (leader ?? other)
    if (!struck) return
    if (stroke === 'a clock jump') return void struck.process.kill('SIGUSR2')
    if (stroke === 'upgrade' || stroke === 'rollback') {
      version = stroke === 'upgrade' ? next : process.cwd()
      // Meanwhile, the next version migrates the database of the previous one.
      const replacement = await start()
      const before = callers.refusals()
      replace(struck, replacement)
      const code = await struck.end('SIGTERM')
      restart_refusals += callers.refusals() - before
      if (code !== 0) wrong.push(`a stop ended with ${code}`)
    } else {
      await struck.end('SIGKILL')
      replace(struck, await start())
    }
  }

  const until = performance.now() + minutes * 60_000
  for (let round = 0; round < rounds || performance.now() < until; round++) {
    const stroke = strokes[round % strokes.length] ?? 'upgrade'
    if (stroke === 'a full disk' && !fillDisk) continue
    counts[stroke] = (counts[stroke] ?? 0) + 1
    await sleep(random.integer(200, 1500))
    await strike(stroke)
    const before = callers.count()
    for (let waited = 0; callers.count() < before + 50 || !(await isLed(sql)); waited++) {
      if (waited > 600) {
        wrong.push(`after ${stroke} nobody leads, or nobody is answered`)
        break
      }
      await sleep(100)
    }
  }
  const heard = await callers.stop()
  const codes = await Promise.all(running.map((served) => served.end('SIGTERM')))
  for (const served of running) if (served.errors() !== '') wrong.push(`on standard error: ${served.errors()}`)
  for (const code of codes) if (code !== 0) wrong.push(`a stop ended with ${code}`)
  network.close()
  const client = await sql.connect()
  const started = performance.now()
  try {
    wrong.push(...(await lossesOf(client, heard)))
  } finally {
    client.release()
  }
  const acknowledged = heard.clicks.length + heard.sales.length + heard.refunds.length
  const audit_ms = performance.now() - started
  return { wrong, acknowledged, refusals: heard.refusals, restart_refusals, strokes: counts, audit_ms }
}
