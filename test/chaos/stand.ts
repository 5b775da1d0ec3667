import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { generateSecrets, localEnvironment, localOnlyEnvironment } from '../../lib/local/environment.ts'
import { startNeonEndpoint } from '../../lib/local/neon.ts'
import { freePort, startPostgres } from '../../lib/serve/embedded-postgres.ts'
import { startQueue } from '../../lib/local/queue.ts'
import { startLocalStripe } from '../../lib/local/stripe.ts'
import { bundleFunctions, startWorkers } from '../../lib/local/workers.ts'
import { readTestFunctions } from '../support/functions.ts'
import { migrate } from '../../lib/commands/migrate.ts'
import { emailHashKey, patiently, webhookSecret } from './world.ts'

/** Starts a separate Postgres and its surroundings for the commands, because they must not kill the tests' shared one. */
export async function startStand() {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-chaos-'))
  const serverOptions = {
    dataFolder: path.join(folder, 'postgres'),
    password: 'chaos',
    // The kernel holds every acknowledged commit, so it survives the death of the process.
    settings: ['fsync=off', 'full_page_writes=off'],
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
      rmSync(folder, { recursive: true })
    },
  }
}
