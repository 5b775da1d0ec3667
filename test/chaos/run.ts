import { mkdtempSync } from 'node:fs'
import path from 'node:path'
import { readOptions } from '../../lib/commands/command.ts'
import { Pool } from 'pg'
import color from 'picocolors'
import { Database } from '../../lib/database.ts'
import { createSandbox } from '../../lib/local/sandbox.ts'
import { givenSecrets } from '../support/serve-process.ts'
import { loadService } from './bundle.ts'
import { deliverEverything } from './notifications.ts'
import { differences, runHistory } from './run-history.ts'
import { mailedTo, startFaultyMail } from './mail.ts'
import { startFaultyQueue } from './queue-faults.ts'
import { seeded } from './random.ts'
import { runServeChaos } from './serve.ts'
import { startStand } from './stand.ts'
import { runWebhookChaos } from './webhooks.ts'
import { openWorld, type World } from './world.ts'

/**
 * `npm run chaos -- --seeds 500 --steps 40 --seed 1 --faults 0.1`: runs histories under faults, eight programs with up to twelve concurrent
 * calls each. A twentieth of the seeds use workerd, and the rest run the same apps in this process. Kills Postgres with SIGKILL twice.
 * `--nightly` runs 20,000 seeds. Afterward, webhooks are sent to dead and broken endpoints. Then two processes of `npm run serve` are
 * killed and replaced, lose their database, and get wrong clocks, for at least `--minutes`. `--seeds 0` runs only these parts. The last
 * line contains the result. The exit code is 1 if anything is wrong.
 */
const usage =
  'npm run chaos [-- --seeds 500 --steps 40 --seed N --faults 0.1 --minutes 0 --nightly]    runs and audits random histories under faults'
const { values } = readOptions(usage, {
  options: {
    seeds: { type: 'string', default: '500' },
    steps: { type: 'string', default: '40' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    faults: { type: 'string', default: '0.1' },
    minutes: { type: 'string', default: '0' },
    nightly: { type: 'boolean', default: false },
  },
})
const seeds = values.nightly ? 20_000 : Number(values.seeds)
const steps = Number(values.steps)
const firstSeed = Number(values.seed)
const faultRate = Number(values.faults)
const lanes = 8

const [stand, service] = await Promise.all([startStand(), loadService()])
const { databaseUrl, neon, queue, stripe } = stand
const faultyQueue = await startFaultyQueue(queue.endpoint, firstSeed, 0.3)
const mail = await startFaultyMail(firstSeed, 0.3)
// The pool replaces broken connections.
const pool = new Pool({ connectionString: databaseUrl, max: lanes })
pool.on('error', () => {})
pool.on('connect', (client) => client.on('error', () => {}))
const worldOptions = {
  service,
  databaseUrl,
  pool,
  neonEndpoint: neon.url,
  neonControl: neon.control,
  queueEndpoint: faultyQueue.url,
  queueUrl: queue.url,
  stripeApiUrl: stripe.url,
  faultRate,
}

/** Runs the seeds from `from` to `to`, eight at a time. Kills Postgres before each seed in `at`. */
async function runSeeds(world: World, from: number, to: number, at: number[]): Promise<string[]> {
  const wrong: string[] = []
  let next = from
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (next < to) {
        const seed = next++
        if (at.includes(seed)) await stand.killPostgres()
        wrong.push(...(await runHistory(world, firstSeed + seed, steps)))
      }
    }),
  )
  await world.idle()
  return [...wrong, ...world.violations.splice(0)]
}

const started = performance.now()
const seconds = () => ((performance.now() - started) / 1000).toFixed(0)
console.log(`${seeds} seeds of ${steps} steps from seed ${firstSeed}, ${faultRate * 100}% faults`)
const throughWorkerd = Math.ceil(seeds / 20)
const inProcess = openWorld(worldOptions)
const kills = [Math.floor((seeds - throughWorkerd) / 3), Math.floor(((seeds - throughWorkerd) * 2) / 3)].filter(
  (seed) => seed > 0,
)
const wrong = await runSeeds(inProcess, 0, seeds - throughWorkerd, kills)
await inProcess.close()
console.log(
  color.dim(`${seeds - throughWorkerd} in this process, Postgres killed ${kills.length} times, ${seconds()} s`),
)

const received = ['processor-webhook', 'connection-webhook']
const tracking = ['track-click', 'track-lead', 'track-sale', 'track-refund', ...received, 'relay-outbox']
const workers = await stand.startFunctions(faultyQueue.url, tracking)
const world = openWorld({ ...worldOptions, baseUrl: workers.baseUrl })
const random = seeded(firstSeed, 5)
const actions = ['drop-before', 'drop-after', 'unavailable', 'delay', 'kill-backend'] as const
let seen = neon.requests
const injector = setInterval(() => {
  for (; seen < neon.requests; seen++) {
    if (!random.chance(faultRate)) continue
    neon.inject({ action: random.pick(actions) ?? 'delay', delay_ms: 20, matching: 'key_hash' })
    world.counts.faults += 1
  }
}, 5)
wrong.push(...(await runSeeds(world, seeds - throughWorkerd, seeds, [])))
clearInterval(injector)
neon.clearFaults()
console.log(color.dim(`${throughWorkerd} through workerd, ${seconds()} s`))

wrong.push(...(await deliverEverything(world, faultyQueue, queue.url, mail)), ...(await differences(world)))
const mailed = [...mailedTo(mail)].reduce((sum, [, count]) => sum + count, 0)
console.log(
  color.dim(
    `${mailed} notifications were mailed once in ${mail.taken.size} mails, ${mail.faults} faults of the mail API, ${seconds()} s`,
  ),
)
const webhooks = await runWebhookChaos({
  sql: world.pool,
  databaseUrl,
  neon,
  queue,
  faults: faultyQueue,
  seed: firstSeed,
  rounds: 4,
  hanging: true,
})
wrong.push(...webhooks.wrong, ...(await differences(world)))
console.log(
  color.dim(
    `${webhooks.events} webhooks in ${webhooks.requests} requests, ${webhooks.databaseFaults} faults of the database and ${webhooks.queueFaults} of the queue; reported after ${webhooks.beside_ms} ms at most beside endpoints that hang, ${webhooks.alone_ms} ms alone, ${seconds()} s`,
  ),
)
const servedEnvironment = {
  ...givenSecrets,
  AUTH_SECRET: givenSecrets['AUTH_SECRET'] ?? '',
  // In this part, nobody receives mail.
  MAIL_API_URL: 'http://127.0.0.1:9',
  MAIL_API_KEY: 'none',
  MAIL_FROM: 'Chaos <chaos@example.com>',
}
const db = new Database({ DATABASE_URL: databaseUrl, NEON_ENDPOINT: neon.url })
const served = await runServeChaos({
  sql: world.pool,
  environment: { ...servedEnvironment, DATABASE_URL: databaseUrl },
  programs: await Promise.all(Array.from({ length: 4 }, () => createSandbox(db, servedEnvironment))),
  killPostgres: () => stand.killPostgres(),
  random: seeded(firstSeed, 6),
  rounds: values.nightly ? 200 : 20,
  minutes: Number(values.minutes),
  fillDisk: stand.fillDisk,
  folder: mkdtempSync(path.join(stand.folder, 'next-')),
})
wrong.push(...served.wrong)
const befallen = Object.entries(served.strokes).map(([stroke, count]) => `${count} × ${stroke}`)
console.log(
  color.dim(
    `${served.acknowledged} calls were acknowledged by two processes of npm run serve, ${served.refusals} answered with a request to repeat, ${served.restart_refusals} of them while a version replaced the other: ${befallen.join(', ')}; audited in ${(served.audit_ms / 1000).toFixed(1)} s, ${seconds()} s`,
  ),
)
const notifications = await world.pool.query<{ count: string }>('select count(*) from notifications')
await world.close()
await pool.end()
await workers.close()
await faultyQueue.close()
await mail.close()
await stand.close()

for (const line of wrong.slice(0, 50)) console.log(color.red(line))
const calls = inProcess.counts.calls + world.counts.calls
const faults = inProcess.counts.faults + world.counts.faults
const figures = `${seeds} seeds × ${steps} steps, ${calls} calls, ${faults} faults, ${kills.length} times SIGKILL to Postgres, ${notifications.rows[0]?.count} notifications reported once`
console.log(`${figures}: ${wrong.length} violations in ${seconds()} s`)
process.exitCode = wrong.length === 0 ? 0 : 1
