import { once } from 'node:events'
import { createServer } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cron } from 'croner'
import color from 'picocolors'
import { openDatabase } from '../database.ts'
import { readOptions } from '../commands/command.ts'
import { migrate } from '../commands/migrate.ts'
import { type Addresses, localEnvironment, localOnlyEnvironment } from './environment.ts'
import { openLog } from '../serve/log-file.ts'
import { type NeonEndpoint, startNeonEndpoint } from './neon.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { type Postgres, startPostgres } from '../serve/embedded-postgres.ts'
import { type Queue, startQueue } from './queue.ts'
import { dataFolder } from '../commands/running-stack.ts'
import { type Demo, lockDataFolder, readDemo, readSecrets, unlockDataFolder, writeState } from './state.ts'
import { type LocalStripe, startLocalStripe } from './stripe.ts'
import { type FunctionEntry, optionalVariables, readFunctions } from '../commands/wrangler-file.ts'
import { inboxPage } from './inbox.ts'
import { builtFunctions, startWorkers, type Workers } from './workers.ts'

/**
 * `npm start`: runs the whole service on one address of this machine, with the port `PORT`. `DATABASE_URL` selects another database.
 * With `QUEUE_URL`, `WEBHOOK_QUEUE_URL` and the AWS variables, it uses SQS queues. With `STRIPE_SECRET_KEY` and
 * `STRIPE_WEBHOOK_SECRET`, it uses a Stripe account. `RATE_LIMITS=on` enables rate limits. They are disabled by default because all
 * requests come from one address. Webhooks may go to http addresses of this machine, unless `WEBHOOK_LOOPBACK=off`.
 */
readOptions(
  `npm start    starts the whole service on http://127.0.0.1:8787, its data in .local/; Ctrl-C stops it

By variables: PORT moves it. RATE_LIMITS=on counts requests as wrangler.toml says. DATABASE_URL takes another database, QUEUE_URL with
the AWS variables a queue of SQS, STRIPE_SECRET_KEY with STRIPE_WEBHOOK_SECRET a Stripe account. WEBHOOK_LOOPBACK=off refuses
webhooks to http addresses of this machine.`,
  {},
)

const port = Number(process.env['PORT'] ?? 8787)
const externalDatabaseUrl = process.env['DATABASE_URL']
const externalQueueUrl = process.env['QUEUE_URL']

/** The started parts. They are stopped in reverse order. */
const running: { name: string; stop: () => unknown }[] = []
let stopping: Promise<void> | undefined

async function start(): Promise<void> {
  const started = Date.now()
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new OperatorError('PORT must be 1 to 65535.')
  lockDataFolder()
  running.push({ name: 'the lock', stop: unlockDataFolder })
  await refuseTakenPort()
  const secrets = readSecrets()
  const limited = process.env['RATE_LIMITS'] === 'on'
  const deployed = readFunctions().map((entry) => (limited ? entry : { ...entry, rateLimits: [] }))
  const functions = [...deployed, inboxPage(deployed)]

  const [database, queue, stripe, modules] = await settled([
    startDatabase(secrets.DATABASE_PASSWORD),
    externalQueueUrl ? undefined : startLocalQueue(),
    process.env['STRIPE_SECRET_KEY'] ? undefined : openStripe(),
    builtFunctions(),
  ])
  const addresses: Addresses = {
    baseUrl: `http://127.0.0.1:${port}`,
    databaseUrl: database.url,
    neonEndpoint: database.endpoint?.url,
    awsEndpoint: queue?.endpoint,
    queueUrl: queue?.url ?? externalQueueUrl ?? '',
    webhookQueueUrl: queue?.webhookUrl ?? process.env['WEBHOOK_QUEUE_URL'] ?? '',
    deadLetterQueueUrl: queue?.deadLetterUrl ?? process.env['DEAD_LETTER_QUEUE_URL'] ?? '',
    stripeApiUrl: stripe?.url,
  }
  const defaults = localEnvironment(addresses, secrets)
  const overrides = Object.entries(process.env).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && (entry[0] in defaults || optionalVariables.has(entry[0])),
  )
  const environment = { ...defaults, ...Object.fromEntries(overrides) }
  const localOnly = localOnlyEnvironment(addresses)
  const logFile = path.join(dataFolder, 'functions.log')
  const log = openLog(logFile, (problem) => console.error(color.yellow(problem)))
  running.push({ name: 'the log', stop: () => log.close() })
  const workers = await startWorkers({
    functions,
    modules,
    environment,
    common: {
      WEBHOOK_LOOPBACK: 'on',
      ...localOnly,
      ...Object.fromEntries(overrides.filter(([name]) => optionalVariables.has(name))),
    },
    port,
    onLog(line, level) {
      log.write(`${withoutTokens(line)}\n`)
      if (level === 'error' || level === 'warn' || !line.startsWith('{')) console.log(color.dim(line))
    },
  })
  running.push({ name: 'the functions', stop: () => workers.close() })
  stopOnSignals()
  startSchedule(functions, workers)
  if (queue) deliverAsTheyCome(queue, workers)

  writeState({
    pid: process.pid,
    baseUrl: addresses.baseUrl,
    environment: { ...environment, ...localOnly },
    ...(database.endpoint && { neonControlToken: database.endpoint.control['Control-Token'] }),
  })
  const demo = externalDatabaseUrl
    ? undefined
    : await readDemo(async () => {
        // The demo is imported only when needed. It loads many modules, but runs only once for each data folder.
        const { createDemo } = await import('./demo.ts')
        return await createDemo(openDatabase({ ...environment, ...localOnly }), environment)
      })
  printSummary(addresses.baseUrl, demo, Date.now() - started)
}

/** Removes secrets of mailed links from a log line. Only the terminal shows them. */
function withoutTokens(text: string): string {
  return text.replaceAll(/([?&]token=)[^\s&]+/g, '$1…')
}

/** Waits for all parts, even if one fails, so that the others can be stopped. */
async function settled<Parts extends readonly unknown[]>(
  parts: readonly [...Parts],
): Promise<{ -readonly [Index in keyof Parts]: Awaited<Parts[Index]> }> {
  await Promise.allSettled(parts)
  return await Promise.all(parts)
}

/** The port of a killed stack is freed a moment later, so this retries for two seconds. */
async function refuseTakenPort(): Promise<void> {
  for (let attempts = 1; ; attempts++) {
    const probe = createServer()
    try {
      probe.listen(port, '127.0.0.1')
      await once(probe, 'listening')
      probe.close()
      await once(probe, 'close')
      return
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : ''
      if (code !== 'EADDRINUSE') throw new OperatorError(`Port ${port} is unusable (${code}). Set PORT to another one.`)
      if (attempts === 10) {
        throw new OperatorError(
          `Port ${port} is in use by another program. Stop it, or choose another port: PORT=${port + 1} npm start`,
        )
      }
      await sleep(200)
    }
  }
}

/** Prepares the database with the newest schema, and starts the Neon endpoint if the database is not Neon's own. */
async function startDatabase(password: string): Promise<{ url: string; endpoint: NeonEndpoint | undefined }> {
  let url = externalDatabaseUrl
  if (!url) {
    const postgres: Postgres = await startPostgres({
      dataFolder: path.join(dataFolder, 'postgres'),
      password,
      onExit: (message) => void stop(message),
    })
    running.push({ name: 'Postgres', stop: () => postgres.stop() })
    url = postgres.urlOf('postgres')
  }
  for (const name of await migrate(url)) console.log(color.dim(`applied ${name}`))
  if (new URL(url).hostname.endsWith('.neon.tech')) return { url, endpoint: undefined }
  const endpoint = await startNeonEndpoint()
  running.push({ name: 'the Neon endpoint', stop: () => endpoint.close() })
  return { url, endpoint }
}

async function startLocalQueue(): Promise<Queue> {
  const queue = await startQueue({ dataFolder: path.join(dataFolder, 'queue') })
  running.push({ name: 'the queue', stop: () => queue.close() })
  return queue
}

async function openStripe(): Promise<LocalStripe> {
  const stripe = await startLocalStripe()
  running.push({ name: "Stripe's stand-in", stop: () => stripe.close() })
  return stripe
}

/** Runs the scheduled functions on the schedules in wrangler.toml, in UTC. Never runs a function twice at the same time. */
function startSchedule(functions: FunctionEntry[], workers: Workers): void {
  for (const { name, crons } of functions) {
    for (const cron of crons) {
      const job = new Cron(cron, { timezone: 'UTC', protect: true }, () => runScheduled(workers, name, cron))
      running.push({ name: `the schedule of ${name}`, stop: () => job.stop() })
    }
  }
}

/** Wakes each consumer when a message arrives, like a Lambda event source. */
function deliverAsTheyCome(queue: Queue, workers: Workers): void {
  for (const [name, readyCount] of [
    ['deliver-notifications', () => queue.readyCount()],
    ['deliver-webhooks', () => queue.readyWebhookCount()],
  ] as const) {
    const job = new Cron('* * * * * *', { protect: true }, async () => {
      if (readyCount() > 0) await runScheduled(workers, name, '')
    })
    running.push({ name: `the delivery of ${name}`, stop: () => job.stop() })
  }
}

async function runScheduled(workers: Workers, name: string, cron: string): Promise<void> {
  try {
    await workers.scheduled(name, { cron })
  } catch (error) {
    if (!stopping) console.error(color.red(`${name}: ${error instanceof Error ? error.message : String(error)}`))
  }
}

const line = (name: string, value: string) => `  ${color.dim(name.padEnd(11))}${value}`

function printSummary(baseUrl: string, demo: Demo | undefined, duration_ms: number): void {
  const seconds = (duration_ms / 1000).toFixed(1)
  const lines = [
    '',
    color.green(color.bold(`The service runs at ${baseUrl}`)) + color.dim(` (${seconds} s)`),
    '',
    ...(demo
      ? [
          line('dashboard', `${baseUrl}/  as ${demo.email}, password ${demo.password}`),
          line('partner', `${baseUrl}/  as ${demo.partnerEmail}, password ${demo.password}`),
          line('program', `${demo.programId}  with API key ${demo.apiKey}`),
          line('link', `https://shop.example.com/?aff=${demo.partnerCode}`),
        ]
      : []),
    line('docs', `${baseUrl}/docs  for integrators; ${baseUrl}/api/v1/reference for the API`),
    line('mail', `${baseUrl}/inbox`),
    line('sandbox', 'npm run -s sandbox  creates another program and prints its keys and tokens'),
    line(
      'data',
      externalDatabaseUrl
        ? 'the database of DATABASE_URL'
        : `${path.relative('', dataFolder)}/  (remove it to start from scratch)`,
    ),
    line('logs', path.relative('', path.join(dataFolder, 'functions.log'))),
    line('stop', 'Ctrl-C'),
    '',
  ]
  console.log(lines.join('\n'))
}

/** Stops all parts in order and ends the process. `problem` is the reason if something failed. */
async function stop(problem?: string): Promise<void> {
  stopping ??= (async () => {
    if (problem) console.error(`${color.red('✗')} ${problem}`)
    else console.log(color.dim('\nStopping. The data stays.'))
    for (const part of running.toReversed()) {
      try {
        await part.stop()
      } catch (error) {
        console.error(`Could not stop ${part.name}: ${String(error)}`)
      }
    }
    process.exit(problem ? 1 : 0)
  })()
  await stopping
}

/** Replaces Miniflare's own signal handlers, which would end the process too early. */
function stopOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.removeAllListeners(signal)
    process.on(signal, () => void stop())
  }
}

stopOnSignals()
try {
  await start()
} catch (error) {
  await stop(error instanceof OperatorError ? error.message : error instanceof Error ? error.stack : String(error))
}
