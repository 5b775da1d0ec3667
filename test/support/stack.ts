import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Client } from 'pg'
import { afterAll, inject } from 'vitest'
import { Database } from '../../lib/database.ts'
import { type Addresses, generateSecrets, localEnvironment, localOnlyEnvironment } from '../../lib/local/environment.ts'
import { type NeonEndpoint, startNeonEndpoint } from '../../lib/local/neon.ts'
import { freePort } from '../../lib/local/postgres.ts'
import { type LocalStripe, startLocalStripe } from '../../lib/local/stripe.ts'
import type { Queue } from '../../lib/local/queue.ts'

export interface TestDatabase {
  databaseUrl: string
  /** A plain Postgres connection, for looking at what the service did. */
  sql: Client
}

/**
 * A migrated database of the test file's own, dropped when the file is done. For tests of SQL and of `lib/` functions that
 * take a connection string; {@link startEndpoint} adds the driver that functions use.
 */
export async function createDatabase(): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl')
  const name = `test_${randomUUID().replaceAll('-', '')}`
  const admin = new Client({ connectionString: adminUrl })
  await admin.connect()
  await admin.query(`create database ${name}`)
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

export interface TestEndpoint extends TestDatabase {
  /** Counts requests and injects faults; see lib/local/neon.ts. */
  neon: NeonEndpoint
  /** What functions call `c.get('db')`. */
  db: Database
  env: { DATABASE_URL: string; NEON_ENDPOINT: string }
}

/** A database and the Neon endpoint in front of it, without workerd: for tests that call `lib/` or `app.request()`. */
export async function startEndpoint(): Promise<TestEndpoint> {
  const database = await createDatabase()
  const neon = await startNeonEndpoint()
  afterAll(() => neon.close())
  const env = { DATABASE_URL: database.databaseUrl, NEON_ENDPOINT: neon.url }
  return { ...database, neon, env, db: new Database(env) }
}

export interface TestStack extends TestEndpoint {
  /** Origin of the functions in workerd, routed as wrangler.toml says. `http://<function>.localhost:<port>` works too. */
  baseUrl: string
  /** The queue, with `messages()` and `deadLetters()` to look into it. */
  queue: Queue
  queueUrl: string
  deadLetterQueueUrl: string
  /** Stands in for Stripe's API. */
  stripe: LocalStripe
  /** Everything functions were given, secrets included. */
  environment: ReturnType<typeof localEnvironment>
  /** Runs a scheduled function once. */
  scheduled(name: string, options?: { cron?: string; scheduledTime?: Date }): Promise<void>
  /** What functions wrote with `console.log` and `console.error`. */
  logs: string[]
}

/**
 * The whole service for one test file: a database, the Neon endpoint, a queue with its dead-letter queue, and functions in
 * workerd. Call it once at the top of a file (`const stack = await startStack()`); everything ends with the file.
 *
 * `functions` starts only those and what they are bound to, which is quicker. `environment` adds or replaces variables that wrangler.toml names.
 * Rate limits are off unless a number is given, because those of wrangler.toml are too generous to be met in a test.
 */
export async function startStack(
  options: {
    functions?: string[]
    environment?: Record<string, string>
    /** Variables for every function, as those of a local stack alone. */
    common?: Record<string, string>
    /** Requests a minute that every limiter lets through. */
    rateLimit?: number
    visibilityTimeoutSeconds?: number
  } = {},
): Promise<TestStack> {
  const { visibilityTimeoutSeconds, rateLimit } = options
  // Most files need no workerd and no queue, and loading them takes longer than most tests.
  const [{ startQueue }, { startWorkers }, { readTestFunctions }] = await Promise.all([
    import('../../lib/local/queue.ts'),
    import('../../lib/local/workers.ts'),
    import('./functions.ts'),
  ])
  const [endpoint, queue, stripe, port] = await Promise.all([
    startEndpoint(),
    startQueue(visibilityTimeoutSeconds === undefined ? {} : { visibilityTimeoutSeconds }),
    startLocalStripe(),
    freePort(),
  ])
  const addresses: Addresses = {
    baseUrl: `http://127.0.0.1:${port}`,
    databaseUrl: endpoint.databaseUrl,
    neonEndpoint: endpoint.neon.url,
    awsEndpoint: queue.endpoint,
    queueUrl: queue.url,
    deadLetterQueueUrl: queue.deadLetterUrl,
    webhookQueueUrl: queue.webhookUrl,
    stripeApiUrl: stripe.url,
  }
  const environment = { ...localEnvironment(addresses, generateSecrets()), ...options.environment }
  const logs: string[] = []
  const all = readTestFunctions()
  const wanted = all.filter(({ name }) => options.functions?.includes(name) ?? true)
  const bound = wanted.flatMap(({ services }) => Object.values(services).map(({ name }) => name))
  const functions = all
    .filter((entry) => wanted.includes(entry) || bound.includes(entry.name))
    .map((entry) => ({
      ...entry,
      rateLimits: rateLimit === undefined ? [] : entry.rateLimits.map(limitedTo(rateLimit)),
    }))
  const scriptsFolder = inject('scriptsFolder')
  const workers = await startWorkers({
    functions,
    scripts: new Map(functions.map(({ name }) => [name, readFileSync(path.join(scriptsFolder, `${name}.js`), 'utf8')])),
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
    logs,
  }
}

/** Sets a limit for a test; those of an address and of a proxied program in all stay above the others, as in wrangler.toml. */
function limitedTo(limit: number) {
  const times: Record<string, number> = { ADDRESS_RATE_LIMIT: 10, PROXY_RATE_LIMIT: 20 }
  return <Entry extends { name: string; simple: object }>(entry: Entry) => ({
    ...entry,
    simple: { limit: limit * (times[entry.name] ?? 1), period: 60 as const },
  })
}
