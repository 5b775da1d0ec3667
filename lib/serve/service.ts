import { execFile } from 'node:child_process'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { explain, runCommand } from '../commands/command.ts'
import { migrate, requireSchema } from '../commands/migrate.ts'
import { OperatorError } from '../commands/operator-error.ts'
import { watchBlockedNetworks } from './blocked-networks.ts'
import { startPostgres } from './embedded-postgres.ts'
import { coordinate } from './coordinator.ts'
import { followDatabaseClock } from './database-clock.ts'
import { afterFirstProgram } from './first-program.ts'
import { loadFunctions, type ReadFunction } from './functions.ts'
import { openGeoFile } from './geo.ts'
import { openMetrics } from './metrics.ts'
import { logAsJson } from './log.ts'
import { openPool } from '../commands/postgres.ts'
import { openRateLimits, type RateLimits } from './rate-limits.ts'
import { type Schedules, startSchedules } from './schedules.ts'
import { checkSecrets } from '../commands/secrets.ts'
import { currentVersion } from '../commands/version.ts'
import { listen, logFailure, startServer } from './server.ts'
import { readSettings, type Settings } from './settings.ts'
import { shareClicks } from './shared-clicks.ts'
import { openTelemetry } from './telemetry.ts'
import { openVisitorBudget } from './visitor-budget.ts'
import { Database } from '../database.ts'
import { gaugesOf, readDatabaseFigures } from '../health.ts'
import { clickRetentionMonths } from '../tracking/retention.ts'

const usage = `npm run serve                 runs the service on the PostgreSQL 18 of DATABASE_URL
npm run serve -- --embedded   starts PostgreSQL itself, with data and secrets in the folder data/

--data FOLDER   uses a folder other than data/
--no-migrate    leaves the schema unchanged. Without this option, the service first migrates it to this version

It needs BASE_URL, TRUST_PROXY, MAIL_API_URL, MAIL_API_KEY and MAIL_FROM, and without --embedded also the secrets. It reports missing ones.
It listens on HOST and PORT, by default 127.0.0.1 and 8787. See lib/serve/README.md.`

/** The started parts. They are stopped in reverse order. */
const running: { name: string; stop: () => unknown }[] = []
let stopping: Promise<void> | undefined

async function serve(read: ReadFunction): Promise<void> {
  const { values } = parseArgs({
    options: {
      embedded: { type: 'boolean', default: false },
      data: { type: 'string', default: 'data' },
      'no-migrate': { type: 'boolean', default: false },
    },
  })
  const { settings, problems } = readSettings(process.env, {
    embedded: values.embedded,
    data: values.data,
    migrates: !values['no-migrate'],
  })
  if (problems.length > 0)
    throw new OperatorError(['The service was not started.', ...problems.map((problem) => `- ${problem}`)].join('\n'))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop())
  logAsJson()
  process.on('unhandledRejection', (error) => logFailure('unhandled', error))
  process.on('uncaughtException', (error) => {
    logFailure('uncaught', error)
    void stop('An unexpected error occurred. See the log for details.')
  })
  try {
    await start(settings, read)
  } catch (error) {
    await stop(explain(error))
  }
}

async function start(settings: Settings, read: ReadFunction): Promise<void> {
  const placeOf = settings.geoFile === undefined ? () => ({}) : openGeoFile(settings.geoFile)
  const databaseUrl = settings.databaseUrl ?? (await startOwnPostgres(settings))
  const front = createServer()
  if (settings.migrates)
    console.log(JSON.stringify({ applied: await answeringMeanwhile(front, settings, () => migrate(databaseUrl)) }))
  else await requireSchema(databaseUrl)
  await checkSecrets(databaseUrl, settings.environment, settings.replacedSecrets)
  const telemetry = await openTelemetry()
  const pool = shareClicks(openPool(databaseUrl))
  const postgres = telemetry?.statements(pool) ?? pool
  running.push({ name: 'the connections', stop: () => postgres.end() })
  if (telemetry) running.push({ name: 'OpenTelemetry', stop: () => telemetry.stop() })
  const clock = await followDatabaseClock(postgres)
  running.push({ name: 'the clock', stop: () => clock.stop() })
  const rateLimits = openRateLimits()
  const budget = openVisitorBudget()
  const version = currentVersion()
  const environment = { ...settings.environment, DATABASE_URL: databaseUrl, VERSION: version }
  let schedules: Schedules | undefined
  const metrics = openMetrics({
    readConnections: () => postgres.readConnections(),
    readLags: () => schedules?.readLags() ?? {},
    baseUrl: settings.environment['BASE_URL'] ?? '',
    // This process watches only the disk of its own PostgreSQL.
    dataFolder: settings.databaseUrl === undefined ? settings.dataFolder : undefined,
    backupFolder: settings.backupFolder,
  })
  const service = await loadFunctions({
    read,
    environment,
    postgres: { ...postgres, now: clock.now },
    rateLimits,
    budget,
    metrics,
    telemetry,
  })
  const db = new Database({ DATABASE_URL: databaseUrl, POSTGRES: postgres })
  const clickMonths = clickRetentionMonths(settings.environment['CLICK_RETENTION_MONTHS'])
  telemetry?.exportMetrics(async () => {
    const figures = { ...(await readDatabaseFigures(db, clickMonths)), ...(await service.channels.readFigures()) }
    return [...gaugesOf(figures), ...(await metrics.read())]
  })
  schedules = startSchedules(service)
  coordinateSchedules(databaseUrl, schedules, rateLimits)
  const blocked = watchBlockedNetworks(db)
  running.push({ name: 'the blocked networks', stop: () => blocked.stop() })
  const server = await startServer({
    server: front,
    service: { ...service, answer: afterFirstProgram(db, service) },
    budget,
    baseUrl: settings.environment['BASE_URL'] ?? '',
    host: settings.host,
    port: settings.port,
    socket: settings.socket,
    trusted: settings.trusted,
    placeOf,
    isBlocked: (address) => blocked.has(address),
  })
  running.push({ name: 'the server', stop: () => server.stop() })
  console.log(
    JSON.stringify({ serving: settings.environment['BASE_URL'], version, host: settings.host, port: server.port }),
  )
  // systemd waits for this notification, and Node itself can't send datagrams to it.
  if (process.env['NOTIFY_SOCKET'])
    execFile('systemd-notify', ['--ready'], (error) => error && logFailure('systemd-notify', error))
}

/** During a short migration, callers wait at the proxy. During a longer one, they get a 503 and retry. */
const silentMilliseconds = 5000

async function answeringMeanwhile<Result>(
  server: Server,
  settings: Settings,
  work: () => Promise<Result>,
): Promise<Result> {
  server.on('request', (incoming, outgoing) => {
    incoming.resume()
    const error = { code: 'unavailable', message: 'The service is being upgraded. Try again in a minute.' }
    outgoing.writeHead(503, { 'retry-after': '10', 'content-type': 'application/json', connection: 'close' })
    outgoing.end(JSON.stringify({ success: false, error }))
  })
  // If the port is taken, the service reports that when it starts to listen.
  server.on('error', () => {})
  const timer = setTimeout(() => listen(server, settings), silentMilliseconds)
  try {
    return await work()
  } finally {
    clearTimeout(timer)
  }
}

/** Runs the schedules on the leader, and webhook deliveries in every process. */
function coordinateSchedules(databaseUrl: string, schedules: Schedules, rateLimits: RateLimits): void {
  const coordinator = coordinate({
    connectionString: databaseUrl,
    onLeader: () => schedules.lead(),
    onFollower: () => schedules.follow(),
    takeMessages: () => rateLimits.takeMessages(),
    onMessage: (message) => rateLimits.hear(message),
    onProblem: (error) => logFailure('coordinator', error),
  })
  running.push({
    name: 'the schedules',
    async stop() {
      await schedules.stop()
      await coordinator.stop()
    },
  })
}

/** Starts PostgreSQL in a folder. While it runs, the file `database-url` holds its address for commands such as `npm run backup`. */
async function startOwnPostgres({ dataFolder, databasePassword }: Settings): Promise<string> {
  const postgres = await startPostgres({
    dataFolder: path.join(dataFolder, 'postgres'),
    password: databasePassword,
    onExit: (message) => void stop(message),
    onProblem: (sentence) => console.error(sentence),
    prefersSystem: true,
  })
  const url = postgres.urlOf('postgres')
  const file = path.join(dataFolder, 'database-url')
  writeFileSync(file, url, { mode: 0o600 })
  chmodSync(file, 0o600)
  running.push({
    name: 'PostgreSQL',
    async stop() {
      rmSync(file, { force: true })
      await postgres.stop()
    },
  })
  return url
}

/** Stops all parts in order and ends the process. `problem` is the reason if something failed. */
async function stop(problem?: string): Promise<void> {
  stopping ??= (async () => {
    if (problem) console.error(problem)
    else console.log('Stopping after the open requests.')
    for (const part of running.toReversed()) {
      try {
        await part.stop()
      } catch (error) {
        logFailure(`stop ${part.name}`, error)
      }
    }
    process.exit(problem ? 1 : 0)
  })()
  await stopping
}

export const runService = async (read: ReadFunction): Promise<void> => await runCommand(usage, () => serve(read))
