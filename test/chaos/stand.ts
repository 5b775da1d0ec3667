import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { generateSecrets, localEnvironment, localOnlyEnvironment } from '../../lib/local/environment.ts'
import { startNeonEndpoint } from '../../lib/local/neon.ts'
import { freePort, startPostgres } from '../../lib/serve/embedded-postgres.ts'
import { startQueue } from '../../lib/local/queue.ts'
import { startLocalStripe } from '../../lib/local/stripe.ts'
import { bundleFunctions, startWorkers } from '../../lib/local/workers.ts'
import { readTestFunctions } from '../support/functions.ts'
import { migrate } from '../../lib/commands/migrate.ts'
import { emailHashKey, patiently, webhookSecret } from './world.ts'

/**
 * Mounts a disk in memory at a new folder, to simulate a full disk. Returns whether this worked, because usually only root may mount disks.
 */
function mountDisk(folder: string): boolean {
  mkdirSync(folder)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1500m,mode=755', 'tmpfs', folder], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Connects, for statements that may fail or find the connection broken. */
async function connect(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString, query_timeout: 5000 })
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Starts a separate Postgres and its surroundings for the commands, because they must not kill the Postgres that the tests share. */
export async function startStand() {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-chaos-'))
  const disk = path.join(folder, 'disk')
  const isMounted = mountDisk(disk)
  /** The reports about full disks that ended Postgres. */
  const ended: string[] = []
  const serverOptions = {
    dataFolder: path.join(disk, 'postgres'),
    password: 'chaos',
    // The kernel has received every acknowledged commit, so commits survive the death of the process.
    settings: ['fsync=off', 'full_page_writes=off'],
    onProblem: (sentence: string) => void (sentence.includes('is full') && ended.push(sentence)),
  }
  let postgres = await startPostgres(serverOptions)
  const databaseUrl = postgres.urlOf('postgres')
  await migrate(databaseUrl)
  const [neon, queue, stripe] = await Promise.all([startNeonEndpoint(), startQueue(), startLocalStripe()])
  return {
    databaseUrl,
    neon,
    queue,
    stripe,
    /** Kills Postgres abruptly, as in a power failure, and restarts it at the same address. */
    async killPostgres(): Promise<void> {
      const settings = [...serverOptions.settings, `port=${new URL(databaseUrl).port}`]
      process.kill(postgres.pid, 'SIGKILL')
      postgres = await patiently(() => startPostgres({ ...serverOptions, settings }))
    },
    /** A folder for files of the run. */
    folder,
    /** Fills the disk until Postgres stops, and frees it two seconds later. Undefined if Postgres has no disk of its own. */
    fillDisk: isMounted
      ? async (): Promise<void> => {
          const before = ended.length
          const ballast = path.join(disk, 'ballast')
          // A new connection can need space, so this one opens first.
          const client = await patiently(() => connect(databaseUrl))
          const until = performance.now() + 60_000
          for (let part = 0; ended.length === before && performance.now() < until; part++) {
            const { bavail, bsize } = statfsSync(disk)
            try {
              // Reserves the pages without writing them, which takes minutes on a busy machine.
              execFileSync('fallocate', ['--length', String(Math.max(bavail, 1) * bsize), `${ballast}-${part}`], {
                stdio: 'ignore',
              })
            } catch {
              // The disk is full. Postgres ends when it needs the next file of its write-ahead log.
            }
            await client.query('select txid_current(); select pg_switch_wal()').catch(() => {})
            await sleep(20)
          }
          await client.end().catch(() => {})
          await sleep(2000)
          for (const name of readdirSync(disk)) if (name.startsWith('ballast')) rmSync(path.join(disk, name))
          if (ended.length === before) throw new Error('Postgres did not end on the full disk.')
        }
      : undefined,
    /** Starts functions in workerd without rate limits, with `queueEndpoint` in front of the queue. */
    async startFunctions(queueEndpoint: string, names: string[] | 'all', onLog?: (line: string) => void) {
      const port = await freePort()
      const addresses = {
        baseUrl: `http://127.0.0.1:${port}`,
        databaseUrl,
        neonEndpoint: neon.url,
        awsEndpoint: queueEndpoint,
        queueUrl: queue.url,
        deadLetterQueueUrl: queue.deadLetterUrl,
        webhookQueueUrl: queue.webhookUrl,
        stripeApiUrl: stripe.url,
      }
      const functions = readTestFunctions()
        .filter(({ name }) => names === 'all' || names.includes(name))
        .map((entry) => ({ ...entry, rateLimits: [] }))
      const environment = localEnvironment(addresses, {
        ...generateSecrets(),
        STRIPE_WEBHOOK_SECRET: webhookSecret,
        EMAIL_HASH_KEY: emailHashKey,
      })
      const workers = await startWorkers({
        functions,
        modules: await bundleFunctions(functions, { shared: true }),
        environment,
        common: localOnlyEnvironment(addresses),
        port,
        ...(onLog && { onLog }),
      })
      return { ...workers, environment }
    },
    async close(): Promise<void> {
      await Promise.all([neon.close(), queue.close(), stripe.close()])
      await postgres.stop()
      if (isMounted) execFileSync('umount', ['--lazy', disk])
      rmSync(folder, { recursive: true })
    },
  }
}
