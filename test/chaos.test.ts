import { afterAll, expect, test } from 'vitest'
import { startLocalStripe } from '../lib/local/stripe.ts'
import { startQueue } from '../lib/local/queue.ts'
import { loadService } from './chaos/bundle.ts'
import { deliverEverything } from './chaos/notifications.ts'
import { differences, runHistory, runRaces } from './chaos/run-history.ts'
import { mailedTo, startFaultyMail } from './chaos/mail.ts'
import { startFaultyQueue } from './chaos/queue-faults.ts'
import { runWebhookChaos } from './chaos/webhooks.ts'
import { openWorld } from './chaos/world.ts'
import { openConnections, startEndpoint } from './support/stack.ts'

const seed = Number(process.env['SEED'] ?? 1)
const [{ databaseUrl, neon }, queue, stripe, service] = await Promise.all([
  startEndpoint('workers'),
  startQueue(),
  startLocalStripe(),
  loadService(),
])
const faultyQueue = await startFaultyQueue(queue.endpoint, seed, 0.3)
const mail = await startFaultyMail(seed, 0.3)
const world = openWorld({
  service,
  databaseUrl,
  pool: openConnections(databaseUrl, 8),
  neonEndpoint: neon.url,
  neonControl: neon.control,
  queueEndpoint: faultyQueue.url,
  queueUrl: queue.url,
  stripeApiUrl: stripe.url,
  faultRate: 0.1,
})
afterAll(async () => {
  await world.close()
  await faultyQueue.close()
  await mail.close()
  await queue.close()
  await stripe.close()
})

test(
  `each program receives all its webhooks in order, despite faults in endpoints, the database and the queue (SEED=${seed})`,
  { timeout: 120_000 },
  async () => {
    const options = { sql: world.pool, databaseUrl, neon, queue, faults: faultyQueue, seed, rounds: 2, hanging: false }
    const { wrong, events, databaseFaults, queueFaults } = await runWebhookChaos(options)
    expect(wrong).toEqual([])
    expect(events).toBe(7 * 2 * 3)
    expect(databaseFaults).toBeGreaterThan(0)
    expect(queueFaults).toBeGreaterThan(0)
  },
)

test(
  `3 histories with faults follow the rules, 3 with concurrent steps pass the audit, and each notification is delivered and mailed once (SEED=${seed})`,
  { timeout: 240_000 },
  async () => {
    const histories = Array.from({ length: 3 }, (_, lane) => runHistory(world, seed + lane, 40))
    expect((await Promise.all(histories)).flat()).toEqual([])
    const races = Array.from({ length: 3 }, (_, lane) => runRaces(world, seed + lane, 40))
    expect((await Promise.all(races)).flat()).toEqual([])
    await world.idle()
    expect(world.violations).toEqual([])
    expect(world.counts.faults).toBeGreaterThan(10)
    expect(await deliverEverything(world, faultyQueue, queue.url, mail)).toEqual([])
    expect(mailedTo(mail).size).toBeGreaterThan(1)
    expect(mail.faults).toBeGreaterThan(0)
    expect(await differences(world)).toEqual([])
  },
)
