import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { findDifferences } from '../lib/commands/audit.ts'
import { migrate, readSqlFiles, type SqlFile } from '../lib/commands/migrate.ts'
import { readReleased } from '../lib/commands/release.ts'
import { generateSecrets, localEnvironment, localOnlyEnvironment } from '../lib/local/environment.ts'
import { startNeonEndpoint } from '../lib/local/neon.ts'
import { startQueue } from '../lib/local/queue.ts'
import type { Sandbox } from '../lib/local/sandbox.ts'
import { type FunctionEntry, readFunctions } from '../lib/commands/wrangler-file.ts'
import { bundleFunctions, startWorkers, type WorkerModule } from '../lib/local/workers.ts'

/**
 * A version under load while the schema of the next one comes, then the functions of the next one, then its own again. Versions are
 * those of migrations/released.json, by their tags, each against this checkout.
 *
 * Nothing was released yet, so no upgrade between two versions that differ is tried here. What is tried is a stand-in: this checkout as a
 * version 0.0.1 of a repository that the test makes up, and as the next one the same code with a made-up migration more. It shows that
 * the code bears such a migration under load.
 */
const run = promisify(execFile)
const root = fileURLToPath(new URL('../', import.meta.url))
const underLoad = ['track-click', 'track-lead', 'track-sale', 'track-refund', 'relay-outbox', 'tracking-performance']
const scheduled = ['count-clicks', 'deliver-notifications']

/** What a repository had at a tag, in a folder of its own. */
async function checkOut(repository: string, tag: string): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-version-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  try {
    await run('git', ['-C', repository, 'archive', '--output', path.join(folder, 'version.tar'), tag])
  } catch (error) {
    throw new Error(`${tag} is in migrations/released.json, but not here. Fetch it: git fetch --tags`, { cause: error })
  }
  await run('tar', ['-xf', 'version.tar'], { cwd: folder })
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'))
  return folder
}

/** A repository that has this checkout, as it stands, as its version 0.0.1. */
async function makeUpRepository(): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-repository-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const name of [
    'functions',
    'lib',
    'migrations',
    'package.json',
    'tracker/src',
    'tsconfig.json',
    'wrangler.toml',
  ]) {
    cpSync(path.join(root, name), path.join(folder, name), { recursive: true })
  }
  const git = (...args: string[]) =>
    run('git', ['-C', folder, '-c', 'user.name=test', '-c', 'user.email=test@example.com', ...args])
  await git('init', '--quiet')
  await git('add', '--all')
  await git('commit', '--quiet', '--message', 'A version')
  await git('tag', 'v0.0.1')
  return folder
}

const fileOf = (name: string, sql: string): SqlFile => ({
  name,
  sql,
  checksum: createHash('sha256').update(sql).digest('hex'),
})

/** This checkout's files with what a next version may bring: a column with a rule, a table, an index, and a function that writes both. */
function madeUpNext(): SqlFile[] {
  const files = readSqlFiles()
  const numbered = files.filter(({ name }) => !name.startsWith('functions/'))
  const migration = fileOf(
    `${String(numbered.length + 1).padStart(4, '0')}_next.sql`,
    `alter table sales add column written_by_next boolean not null default false;
    alter table customers add column next_score integer check (next_score > 0);
    create index customers_next_score_idx on customers (program_id, next_score) where next_score is not null;
    create table next_sales (program_id bigint not null, transaction_id text not null, primary key (program_id, transaction_id));`,
  )
  const living = fileOf(
    'functions/next.sql',
    `create or replace function note_next_sale() returns trigger language plpgsql as $$
    begin
      new.written_by_next := true;
      insert into next_sales (program_id, transaction_id) values (new.program_id, new.transaction_id);
      return new;
    end $$;
    create or replace trigger note_next_sale before insert on sales for each row execute function note_next_sale();`,
  )
  return [...numbered, migration, ...files.filter(({ name }) => name.startsWith('functions/')), living]
}

/** The functions of a folder's version, as they are built and routed there. */
async function functionsOf(
  folder: string,
): Promise<{ functions: FunctionEntry[]; modules: Map<string, WorkerModule[]> }> {
  const functions = readFunctions(readFileSync(path.join(folder, 'wrangler.toml'), 'utf8'))
    .filter(({ name }) => underLoad.includes(name) || scheduled.includes(name))
    // Clicks are counted when the load is over, so that the test ends with what it began.
    .map((entry) => {
      const { COUNT: _, ...services } = entry.services
      return { ...entry, services, rateLimits: [] }
    })
  return { functions, modules: await bundleFunctions(functions, { shared: true, folder }) }
}

async function emptyDatabase(): Promise<{ url: string; sql: Client }> {
  const name = `upgrade_${crypto.randomUUID().replaceAll('-', '')}`
  const admin = new Client({ connectionString: inject('adminUrl') })
  await admin.connect()
  await admin.query(`create database ${name} template template0`)
  const url = Object.assign(new URL(inject('adminUrl')), { pathname: name }).href
  const sql = new Client({ connectionString: url })
  await sql.connect()
  onTestFinished(async () => {
    await sql.end()
    await admin.query(`drop database ${name} with (force)`)
    await admin.end()
  })
  return { url, sql }
}

/** A program in the database, made by the version in `folder`. */
async function sandboxOf(folder: string, env: Record<string, string>): Promise<Sandbox> {
  const script = `import { openDatabase } from './lib/database.ts'
    import { createSandbox } from './lib/local/sandbox.ts'
    console.log(JSON.stringify(await createSandbox(openDatabase(process.env), process.env)))`
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd: folder, env })
  return JSON.parse(stdout) as Sandbox
}

interface Acknowledged {
  clicks: string[]
  leads: string[]
  sales: string[]
  refunds: string[]
  reads: number
}

/**
 * Callers one after the other at the address that `baseUrl` gives, until `stop`: a click, a lead, a sale, a refund of a part, a read. What
 * is answered 503 is sent again, as the client library does. Every other answer is kept.
 */
function startLoad(baseUrl: () => string, { apiKey, partnerCode, programId, dashboardToken }: Sandbox) {
  const acknowledged: Acknowledged = { clicks: [], leads: [], sales: [], refunds: [], reads: 0 }
  const failures: string[] = []
  const over = new AbortController()
  let calls = 0
  async function send(call: string, body?: object): Promise<Record<string, unknown>> {
    for (;;) {
      calls += 1
      const response = await fetch(`${baseUrl()}/api/${call}`, {
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
        headers: { 'content-type': 'application/json', authorization: `Bearer ${body ? apiKey : dashboardToken}` },
      })
      const text = await response.text()
      if (response.status === 503) continue
      if (!response.ok && !text.includes('duplicate_transaction')) failures.push(`${call}: ${response.status} ${text}`)
      return JSON.parse(text) as Record<string, unknown>
    }
  }
  const affiliate_url = `https://shop.example.com/?aff=${partnerCode}`
  const callers = Array.from({ length: 3 }, async (_, caller) => {
    for (let n = 0; !over.signal.aborted && failures.length === 0; n++) {
      const customer_key = `user-${caller}-${n}`
      const transaction_id = `order-${caller}-${n}`
      const { click_id } = await send('v1/track/click', { affiliate_url })
      acknowledged.clicks.push(String(click_id))
      await send('v1/track/lead', { customer_key, click_id })
      acknowledged.leads.push(customer_key)
      await send('v1/track/sale', { customer_key, transaction_id, amount_cents: 1000 })
      acknowledged.sales.push(transaction_id)
      await send('v1/track/refund', { transaction_id, refund_amount_cents: 400, refund_id: 'refund-1' })
      acknowledged.refunds.push(transaction_id)
      await send(`tracking/performance/${programId}`)
      acknowledged.reads += 1
    }
  })
  return {
    acknowledged,
    failures,
    calls: () => calls,
    async stop(): Promise<void> {
      over.abort()
      await Promise.all(callers)
    },
  }
}

const versions: [version: string, next: string, repository: () => Promise<string>, files: () => SqlFile[]][] = [
  ['0.0.1', 'a made-up one', makeUpRepository, madeUpNext],
  ...Object.keys(readReleased()).map((version): (typeof versions)[number] => [
    version,
    'this one',
    async () => root,
    readSqlFiles,
  ]),
]

test.each(versions)(
  'version %s runs on the schema of %s under load, there and back, and loses nothing',
  { timeout: 120_000 },
  async (version, _, repository, nextFiles) => {
    const before = await checkOut(await repository(), `v${version}`)
    const { url, sql } = await emptyDatabase()
    await migrate(url, readSqlFiles(pathToFileURL(`${before}/migrations/`)))
    const neon = await startNeonEndpoint()
    const queue = await startQueue()
    onTestFinished(async () => {
      await neon.close()
      await queue.close()
    })
    const addresses = {
      baseUrl: 'http://127.0.0.1',
      databaseUrl: url,
      neonEndpoint: neon.url,
      awsEndpoint: queue.endpoint,
      queueUrl: queue.url,
      deadLetterQueueUrl: queue.deadLetterUrl,
      webhookQueueUrl: queue.webhookUrl,
      stripeApiUrl: undefined,
    }
    const environment = localEnvironment(addresses, generateSecrets())
    const common = localOnlyEnvironment(addresses)
    const start = async (folder: string) => {
      const workers = await startWorkers({ ...(await functionsOf(folder)), environment, common })
      onTestFinished(() => workers.close())
      return workers
    }
    const [own, next] = [await start(before), await start(root)]
    const sandbox = await sandboxOf(before, { PATH: process.env['PATH'] ?? '', ...environment, ...common })

    let baseUrl = own.baseUrl
    const load = startLoad(() => baseUrl, sandbox)
    const { acknowledged, failures } = load
    const steps: Record<string, number> = {}
    /** Lets the load go on for a while, and counts the sales that were acknowledged in it. */
    const step = async (name: string, work: () => unknown) => {
      const [sales, calls] = [acknowledged.sales.length, load.calls()]
      await work()
      while (load.calls() < calls + 60 && failures.length === 0) await sleep(20)
      steps[name] = acknowledged.sales.length - sales
    }
    await step('before', () => {})
    await step('while the schema comes', () => migrate(url, nextFiles()))
    const afterMigration = acknowledged.sales.length
    await step('own functions on the new schema', () => {})
    await step('new functions', () => (baseUrl = next.baseUrl))
    await step('own functions again', () => (baseUrl = own.baseUrl))
    await load.stop()

    expect(failures).toEqual([])
    for (const [name, sales] of Object.entries(steps)) expect([name, sales > 0]).toEqual([name, true])
    await own.scheduled('deliver-notifications')
    await next.scheduled('count-clicks')
    const listOf = async (query: string) => {
      const { rows } = await sql.query<{ value: string }>(query)
      return rows.map(({ value }) => value).toSorted()
    }
    expect(await listOf('select click_id as value from customers')).toEqual(expect.arrayContaining(acknowledged.clicks))
    expect(await listOf('select customer_key as value from customers where signup_date is not null')).toEqual(
      acknowledged.leads.toSorted(),
    )
    const soldAndRefunded = `select s.transaction_id as value from sales s join refunds r
      on r.program_id = s.program_id and r.sale_id = s.id where s.amount_cents = 1000 and r.applied_cents = 400`
    expect(await listOf(soldAndRefunded)).toEqual(acknowledged.refunds.toSorted())
    expect(acknowledged.refunds.toSorted()).toEqual(acknowledged.sales.toSorted())
    if (version === '0.0.1') {
      expect(await listOf('select transaction_id as value from next_sales')).toEqual(
        expect.arrayContaining(acknowledged.sales.slice(afterMigration)),
      )
    }
    expect(await findDifferences(sql)).toEqual([])
  },
)
