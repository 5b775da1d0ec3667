import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Client, Pool } from 'pg'
import { afterAll, expect, inject, vi } from 'vitest'
import { Database, type Postgres } from '../../lib/database.ts'
import { type Addresses, generateSecrets, localEnvironment, localOnlyEnvironment } from '../../lib/local/environment.ts'
import { type NeonEndpoint, startNeonEndpoint } from '../../lib/local/neon.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import type { Queue } from '../../lib/local/queue.ts'
import { type LocalStripe, startLocalStripe } from '../../lib/local/stripe.ts'
import { openPool } from '../../lib/commands/postgres.ts'
import { hashPasswordsCheaply } from './cheap-passwords.ts'
import type { Answered } from './serve-thread.ts'
import { type Meter, meter, type MeteredPostgres, reuseConnections } from './meter.ts'

/**
 * The ways to run the service. `workerd`: functions in workerd with Neon's driver, as on Cloudflare. `serve`: functions
 * in plain Node on open connections, as in `npm run serve`.
 */
export type RunOn = 'workers' | 'serve'

/** How tests run the service by default: the environment variable `RUN_ON`, or else `serve`. */
export const runOn: RunOn = process.env['RUN_ON'] === 'workers' ? 'workers' : 'serve'

/**
 * The number of connections for a test's functions and for its own calls to lib/. Each connection is a Postgres process with its own plans,
 * so more connections would cost more than most tests. Races, and callers that wait for each other, need this many.
 */
export const connectionsOfTests = 8

export interface TestDatabase {
  databaseUrl: string
  /** A plain Postgres connection, to check the effects of the service. */
  sql: Client
}

/**
 * Creates a migrated database for the test file and drops it at the end. For tests of SQL, and of `lib/` functions that
 * take a connection string. {@link startEndpoint} adds the functions' driver.
 */
export async function createDatabase(): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl')
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const admin = new Client({ connectionString: adminUrl })
  await admin.connect()
  // Copying the files costs half as much as a copy through the write-ahead log.
  await admin.query(`create database ${name} strategy file_copy`)
  const url = new URL(adminUrl)
  url.pathname = name
  const sql = new Client({ connectionString: url.href })
  await sql.connect()
  afterAll(async () => {
    await sql.end()
    await admin.query(`drop database ${name} with (force)`)
    await admin.end()
  })
  return { databaseUrl: url.href, sql }
}

/** Opens up to `max` plain connections to a database of the test file, for checks and for simultaneous events. */
export function openConnections(databaseUrl: string, max: number): Pool {
  const pool = new Pool({ connectionString: databaseUrl, max, idleTimeoutMillis: 60_000 })
  // The database can end before the last connection closes, and an unhandled error would end the process.
  pool.on('error', () => {})
  pool.on('connect', (client) => client.on('error', () => {}))
  afterAll(() => pool.end())
  return pool
}

export interface TestEndpoint extends TestDatabase {
  /** Counts database requests and injects faults (lib/local/neon.ts). */
  neon: Meter
  /** The functions' `c.get('db')`. */
  db: Database
  /** Commands always use `NEON_ENDPOINT`, while functions prefer `POSTGRES`. */
  env: { DATABASE_URL: string; NEON_ENDPOINT: string; POSTGRES?: Postgres }
}

export interface NeonTestEndpoint extends TestEndpoint {
  neon: NeonEndpoint
}

export interface PooledTestEndpoint extends TestEndpoint {
  neon: MeteredPostgres
}

/**
 * Creates a database and connects to it, by default in the way that this run uses. For tests that call `lib/` or `app.request()` without
 * functions behind HTTP.
 */
export async function startEndpoint(): Promise<TestEndpoint>
export async function startEndpoint(on: 'workers'): Promise<NeonTestEndpoint>
export async function startEndpoint(on: 'serve'): Promise<PooledTestEndpoint>
export async function startEndpoint(on?: RunOn): Promise<TestEndpoint>
export async function startEndpoint(on: RunOn = runOn): Promise<TestEndpoint> {
  const database = await createDatabase()
  const { databaseUrl } = database
  const neon = await startNeonEndpoint(6)
  afterAll(() => neon.close())
  const env: TestEndpoint['env'] = { DATABASE_URL: databaseUrl, NEON_ENDPOINT: neon.url }
  if (on === 'workers') return { ...database, neon, env, db: new Database(env) }
  const pool = openPool(databaseUrl, connectionsOfTests)
  const hashAsElsewhere = hashPasswordsCheaply()
  afterAll(async () => {
    hashAsElsewhere()
    await pool.end()
  })
  const metered = meter(reuseConnections(pool))
  env.POSTGRES = metered
  return { ...database, neon: metered, env, db: new Database(env) }
}

export interface TestStack extends TestEndpoint {
  /** The origin of the functions, with the routes in wrangler.toml. In workerd, `http://<function>.localhost:<port>` works too. */
  baseUrl: string
  /** The fake Stripe API. */
  stripe: LocalStripe
  /** All variables of the functions, including secrets. */
  environment: ReturnType<typeof localEnvironment>
  /** Runs a scheduled function once. */
  scheduled(name: string, options?: { cron?: string; scheduledTime?: Date }): Promise<void>
  /** Programs that wait for a run of the webhook consumer. */
  waitingWebhooks(): Promise<number>
  /** The answers so far, with their database requests. Empty in workerd. */
  readonly answers: Answered[]
  /** Lines that functions logged with `console.log` and `console.error`. */
  readonly logs: string[]
}

/** A stack in workerd with its queue. */
export interface WorkersStack extends TestStack {
  neon: NeonEndpoint
  /** The queue. `messages()` and `deadLetters()` read it. */
  queue: Queue
  queueUrl: string
  deadLetterQueueUrl: string
}

export interface StackOptions {
  /** How to run the functions, if the test requires a particular way. */
  on?: RunOn
  functions?: string[]
  environment?: Record<string, string>
  /** Variables for every function, as on a local stack. */
  common?: Record<string, string>
  /** Requests per minute of every limiter. */
  rateLimit?: number
}

/**
 * Starts the whole service for one test file: a database, the fake Stripe, and the functions ({@link runOn}). Call it once at the top of a
 * file (`const stack = await startStack()`). Everything ends with the file. `functions` starts only those and their bindings, which is
 * faster. `environment` adds or replaces variables in wrangler.toml. Rate limits are disabled unless a number is set, because those in
 * wrangler.toml are too generous for tests.
 */
export async function startStack(options: StackOptions & { on: 'workers' }): Promise<WorkersStack>
export async function startStack(options?: StackOptions): Promise<TestStack>
export async function startStack(options: StackOptions = {}): Promise<TestStack> {
  return (options.on ?? runOn) === 'workers' ? await startInWorkerd(options) : await startServed(options)
}

async function startServed(options: StackOptions): Promise<TestStack> {
  const { serveFunctions } = await import('./served.ts')
  const [endpoint, stripe, port] = await Promise.all([startEndpoint('serve'), startLocalStripe(), freePort()])
  const { addresses, environment } = surroundings(options, endpoint, { stripe, port })
  const thread = {
    functions: await functionsFor(options, ['deliver-notifications']),
    databaseUrl: endpoint.databaseUrl,
    connections: connectionsOfTests,
    environment,
    common: { ...localOnlyEnvironment(addresses), ...options.common },
    baseUrl: addresses.baseUrl,
    port,
  }
  afterAll(() => stripe.close())
  const served = await serveFunctions(thread, endpoint.neon)
  afterAll(() => served.close())
  return {
    ...endpoint,
    neon: served.meter,
    baseUrl: addresses.baseUrl,
    stripe,
    environment,
    async scheduled(name, { cron } = {}) {
      if (name !== 'deliver-notifications') return await served.scheduled(name, cron)
      // In tests, the consumer of notifications has no schedule. It runs after the response that caused the notifications.
      const unreported = 'select from outbox where delivered_at is null'
      await vi.waitFor(async () => expect((await endpoint.sql.query(unreported)).rowCount).toBe(0), 60_000)
    },
    waitingWebhooks: () => served.waitingWebhooks(),
    get answers() {
      return served.answers()
    },
    get logs() {
      return served.logs()
    },
  }
}

async function startInWorkerd(options: StackOptions): Promise<WorkersStack> {
  // Most test files don't need workerd or a queue, and loading them takes longer than most tests.
  const [{ startQueue }, { startWorkers }] = await Promise.all([
    import('../../lib/local/queue.ts'),
    import('../../lib/local/workers.ts'),
  ])
  const [endpoint, queue, stripe, port] = await Promise.all([
    startEndpoint('workers'),
    startQueue(),
    startLocalStripe(),
    freePort(),
  ])
  const { addresses, environment } = surroundings(options, endpoint, { stripe, port, queue })
  const logs: string[] = []
  const functions = await functionsFor(options)
  const [scriptsFolder, modulesOf] = [inject('scriptsFolder'), inject('modulesOf')]
  const read = (file: string) => ({ path: file, contents: readFileSync(path.join(scriptsFolder, file), 'utf8') })
  const workers = await startWorkers({
    functions,
    modules: new Map(functions.map(({ name }) => [name, (modulesOf[name] ?? []).map(read)])),
    environment,
    common: { ...localOnlyEnvironment(addresses), ...options.common },
    port,
    onLog: (line) => void logs.push(line),
  })
  afterAll(async () => {
    await workers.close()
    await queue.close()
    await stripe.close()
  })
  return {
    ...endpoint,
    baseUrl: workers.baseUrl,
    queue,
    queueUrl: queue.url,
    deadLetterQueueUrl: queue.deadLetterUrl,
    stripe,
    environment,
    scheduled: (name, when) => workers.scheduled(name, when),
    waitingWebhooks: () => Promise.resolve(queue.readyWebhookCount()),
    answers: [],
    logs,
  }
}

/** The functions that a test named, and their bindings. */
async function functionsFor({ functions, rateLimit }: StackOptions, alwaysThere: string[] = []) {
  const { readTestFunctions } = await import('./functions.ts')
  const all = readTestFunctions()
  const wanted = all.filter(({ name }) => functions === undefined || [...functions, ...alwaysThere].includes(name))
  const bound = wanted.flatMap(({ services }) => Object.values(services).map(({ name }) => name))
  return all
    .filter((entry) => wanted.includes(entry) || bound.includes(entry.name))
    .map((entry) => ({
      ...entry,
      rateLimits: rateLimit === undefined ? [] : entry.rateLimits.map(limitedTo(rateLimit)),
    }))
}

function surroundings(
  options: StackOptions,
  endpoint: TestEndpoint,
  { stripe, port, queue }: { stripe: LocalStripe; port: number; queue?: Queue },
) {
  const addresses: Addresses = {
    baseUrl: `http://127.0.0.1:${port}`,
    databaseUrl: endpoint.databaseUrl,
    neonEndpoint: endpoint.env.NEON_ENDPOINT,
    awsEndpoint: queue?.endpoint,
    queueUrl: queue?.url ?? '',
    deadLetterQueueUrl: queue?.deadLetterUrl ?? '',
    webhookQueueUrl: queue?.webhookUrl ?? '',
    stripeApiUrl: stripe.url,
  }
  return { addresses, environment: { ...localEnvironment(addresses, generateSecrets()), ...options.environment } }
}

/** Sets a limit for a test. As in wrangler.toml, the total limits of an address and of a proxied program stay above the others. */
function limitedTo(limit: number) {
  const times: Record<string, number> = { ADDRESS_RATE_LIMIT: 10, PROXY_RATE_LIMIT: 20 }
  return <Entry extends { name: string; simple: object }>(entry: Entry) => ({
    ...entry,
    simple: { limit: limit * (times[entry.name] ?? 1), period: 60 as const },
  })
}
