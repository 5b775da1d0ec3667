import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import * as z from 'zod/mini'
import { readOptions } from '../../lib/commands/command.ts'
import { OperatorError } from '../../lib/commands/operator-error.ts'
import { openPool } from '../../lib/commands/postgres.ts'
import { Database } from '../../lib/database.ts'
import { createSandbox } from '../../lib/local/sandbox.ts'
import { freePort } from '../../lib/serve/embedded-postgres.ts'
import { startCallers } from '../chaos/serve.ts'
import { selfSigned } from '../support/self-signed.ts'
import { givenSecrets, spawnServe } from '../support/serve-process.ts'
import { bareEnvironment } from '../support/spawned.ts'

/**
 * `npm run alerts`: runs `npm run serve -- --embedded` with callers, and a Prometheus with the rules of lib/serve/monitoring/. Causes
 * incidents, and prints how many seconds it takes until each alert fires. Requires the programs `prometheus` and `promtool`, and root for
 * a small disk. The exit code is 1 if an alert takes longer than a minute, or if one fires before the incidents.
 */
readOptions('npm run alerts    plants incidents and measures the time until Prometheus raises each alert', {})

const rulesFile = path.resolve('lib/serve/monitoring/alerts.yaml')
const mostSeconds = 60
const folder = mkdtempSync(path.join(tmpdir(), 'svc-alerts-'))
const [data, backups] = [path.join(folder, 'data'), path.join(folder, 'backups')]
for (const created of [data, backups]) mkdirSync(created)
const undo: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
/** Stops everything in reverse order, even after a failure. */
const end = async () => {
  for (const step of undo.toReversed()) await step()
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  undo.push(() => server.close())
  return (server.address() as AddressInfo).port
}

let mailStatus = 200
const mailPort = await listen(
  createServer((request, response) => void request.resume().on('end', () => response.writeHead(mailStatus).end('{}'))),
)
const tlsPort = await listen(createTlsServer(selfSigned(['localhost'])))

try {
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1200m,mode=755', 'tmpfs', data], { stdio: 'ignore' })
} catch {
  await end()
  throw new OperatorError('Mounting a small disk failed. Run this as root on Linux.')
}
undo.push(() => execFileSync('umount', ['--lazy', data]))

const port = await freePort()
const backup = path.join(backups, 'svc-2026-01-01T000000.sql.gz')
writeFileSync(backup, '')
const environment = {
  ...bareEnvironment,
  ...givenSecrets,
  BASE_URL: `https://localhost:${tlsPort}`,
  PORT: String(port),
  TRUST_PROXY: '127.0.0.1',
  MAIL_API_URL: `http://127.0.0.1:${mailPort}`,
  MAIL_API_KEY: 'key',
  MAIL_FROM: 'Partners <partners@example.com>',
  BACKUP_FOLDER: backups,
}
const served = await spawnServe(environment, ['--embedded', '--data', data])
const baseUrl = `http://127.0.0.1:${port}`
undo.push(() => served.end('SIGKILL'))
const databaseUrl = readFileSync(path.join(data, 'database-url'), 'utf8')
const sql = new Client({ connectionString: databaseUrl })
sql.on('error', () => {})
await sql.connect()
undo.push(() => sql.end().catch(() => {}))
const pool = openPool(databaseUrl, 2)
const env = { AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '', DATABASE_URL: databaseUrl, POSTGRES: pool }
const program = await createSandbox(new Database(env), env)
await pool.end()
const callers = startCallers(() => baseUrl, [program], 4)
undo.push(() => callers.stop())

// The job of "Alerts and a probe" in lib/commands/README.md.
const prometheusPort = await freePort()
const settings = {
  global: { scrape_interval: '15s' },
  rule_files: [rulesFile],
  scrape_configs: [
    {
      job_name: 'svc',
      metrics_path: '/healthz',
      params: { format: ['prometheus'] },
      authorization: { credentials: givenSecrets['METRICS_TOKEN'] },
      static_configs: [{ targets: [`127.0.0.1:${port}`] }],
    },
  ],
}
const settingsFile = path.join(folder, 'prometheus.yml')
writeFileSync(settingsFile, JSON.stringify(settings))
console.log(execFileSync('promtool', ['check', 'config', settingsFile], { encoding: 'utf8' }).trim())
const prometheus = spawn(
  'prometheus',
  [
    `--config.file=${settingsFile}`,
    `--storage.tsdb.path=${path.join(folder, 'tsdb')}`,
    `--web.listen-address=127.0.0.1:${prometheusPort}`,
    '--log.level=error',
  ],
  { stdio: ['ignore', 'ignore', 'inherit'] },
)
undo.push(() => void prometheus.kill('SIGKILL'))

const alertsAnswer = z.object({
  data: z.object({
    alerts: z.array(z.object({ labels: z.looseObject({ alertname: z.string() }), state: z.string() })),
  }),
})
/** Returns the names of the alerts that are firing. */
async function firing(): Promise<Set<string>> {
  const response = await fetch(`http://127.0.0.1:${prometheusPort}/api/v1/alerts`).catch(() => undefined)
  if (!response?.ok) return new Set()
  const { data: answer } = alertsAnswer.parse(await response.json())
  return new Set(answer.alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname))
}

const late: string[] = []
/** Causes incidents, and waits until the alert for each of them fires. */
async function plant(incidents: [name: string, alert: string, cause: () => unknown][]): Promise<void> {
  const waiting = new Map<string, { name: string; planted: number }>()
  for (const [name, alert, cause] of incidents) {
    // On a busy machine, causing an incident can take a while, and its alert can fire before the next incident.
    waiting.set(alert, { name, planted: performance.now() })
    await cause()
  }
  const last = performance.now()
  while (waiting.size > 0 && performance.now() - last < 3 * mostSeconds * 1000) {
    for (const alert of await firing()) {
      const incident = waiting.get(alert)
      if (incident === undefined) continue
      waiting.delete(alert)
      const seconds = (performance.now() - incident.planted) / 1000
      if (seconds > mostSeconds) late.push(`${alert} took ${seconds.toFixed(0)} s`)
      console.log(`${incident.name} | ${alert} | ${seconds.toFixed(0)} s`)
    }
    await sleep(500)
  }
  for (const alert of waiting.keys()) late.push(`${alert} did not fire`)
}

const insertOutbox = `insert into outbox (program_id, kind, audience, partner_id, cause, payload, created_at)
  select program_id, 'commission_reversed', 'partner', id, 'planted', '{}', now() - interval '1 hour'
  from partners where program_id = $1 limit 1`
const holdUntil = `update commissions set hold_until = now() - interval '3 hours'
  where program_id = $1 and id = (select max(id) from commissions where program_id = $1 and reversal <> 'full' and credited_at is null)`
const overdue = `with old as (update programs set created_at = now() - interval '300 days')
  update customers_expired set up_to = up_to - interval '9 days'`
/** Another process is the leader but runs nothing, because it is alive and stuck. */
const becomeLeader = async () => {
  await sql.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'svc-coordinator'`)
  await sql.query('select pg_advisory_lock(7350163984022)')
}

try {
  // Waits for two scrapes, so that rates have a start.
  await sleep(40_000)
  // The service reads its certificate only once an hour, so this incident exists from the start.
  for (let waits = 0; waits < mostSeconds && (await firing()).size === 0; waits++) await sleep(1000)
  const early = [...(await firing())]
  if (early.join() !== 'SvcCertificateEnds') late.push(`before the incidents, these fired: ${early.join(', ')}`)
  console.log('incident | alert | seconds until it fires')
  await becomeLeader()
  await plant([
    [
      'The relay of notifications is stuck',
      'SvcOutboxOldestSeconds',
      () => sql.query(insertOutbox, [program.programId]),
    ],
    [
      'Clicks are not counted',
      'SvcClicksUncountedOldestSeconds',
      () => sql.query(`update uncounted_clicks set clicked_at = now() - interval '3 hours'`),
    ],
    ['Commissions are not approved', 'SvcCommissionsDueOldestSeconds', () => sql.query(holdUntil, [program.programId])],
    ['Expired customers are not deleted', 'SvcRetentionBehindSeconds', () => sql.query(overdue)],
    ['The nightly backup is missing', 'SvcBackupLate', () => rmSync(backup)],
    [
      'The mail API refuses mail',
      'SvcMailRefused',
      async () => {
        mailStatus = 500
        const { status } = await fetch(`${baseUrl}/api/auth/sign-up/email`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', origin: environment.BASE_URL, connection: 'close' },
          body: JSON.stringify({ name: 'Ada', email: 'ada@example.com', password: 'a long enough password' }),
        })
        if (status !== 503) throw new Error(`The sign-up got ${status} although the mail API refused its mail.`)
      },
    ],
    [
      'The schema is older than the code',
      'SvcSchemaCurrent',
      () => sql.query('delete from schema_migrations where name = (select max(name) from schema_migrations)'),
    ],
    [
      'The disk is almost full',
      'SvcDiskFull',
      () => {
        const { bavail, bsize, blocks } = statfsSync(data)
        // The rest must be enough for the write-ahead log of the callers until the alert fires.
        const bytes = Math.floor(Math.max(0, bavail - blocks * 0.08)) * bsize
        execFileSync('fallocate', ['--length', String(bytes), path.join(data, 'ballast')])
      },
    ],
  ])
  rmSync(path.join(data, 'ballast'))
  await plant([
    ['A bad change breaks sales', 'SvcErrorsFast', () => sql.query('alter routine track_sale rename to broken_sale')],
  ])
  await plant([['The service is down', 'SvcDown', () => served.process.kill('SIGSTOP')]])
  served.process.kill('SIGCONT')
  while ((await firing()).has('SvcDown')) await sleep(1000)
  await plant([
    [
      'The database crashes and does not start again',
      'SvcDatabaseSeconds',
      () => {
        appendFileSync(path.join(data, 'postgres/postgresql.conf'), '\nplanted = on\n')
        const [pid] = readFileSync(path.join(data, 'postgres/postmaster.pid'), 'utf8').split('\n')
        process.kill(Number(pid), 'SIGKILL')
      },
    ],
  ])
} finally {
  served.process.kill('SIGCONT')
  await end()
}
for (const problem of late) console.error(problem)
process.exitCode = late.length === 0 ? 0 : 1
