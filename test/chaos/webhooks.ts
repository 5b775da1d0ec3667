import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { Database } from '../../lib/database.ts'
import type { NeonEndpoint } from '../../lib/local/neon.ts'
import type { Queue } from '../../lib/local/queue.ts'
import { localAws } from '../../lib/local/environment.ts'
import { queuesOf } from '../../lib/notifications/channels.ts'
import { openQueue } from '../../lib/notifications/queue.ts'
import { type ConsumerTerm, deliverWebhooks } from '../../lib/notifications/webhook-delivery.ts'
import {
  changeEndpoint,
  createEndpoint,
  replayDeliveries,
  programOwner,
} from '../../lib/notifications/webhook-endpoints.ts'
import { relayWebhooks } from '../../lib/notifications/webhook-relay.ts'
import { createLedgerProgram } from '../support/ledger.ts'
import { startReceiver } from '../support/receiver.ts'
import type { FaultyQueue } from './queue-faults.ts'
import { seeded } from './random.ts'

interface WebhookChaos {
  sql: Pick<pg.Pool, 'query'>
  databaseUrl: string
  neon: Pick<NeonEndpoint, 'url' | 'inject' | 'clearFaults' | 'faults'>
  queue: Queue
  faults: FaultyQueue
  seed: number
  /** The number of rounds with one sale and two refunds per program. */
  rounds: number
  /** Adds endpoints that never answer, so that each attempt takes ten seconds, and measures how much they delay the others. */
  hanging: boolean
}

export interface WebhookChaosFigures {
  /** The errors, one sentence each. */
  wrong: string[]
  events: number
  requests: number
  /** Faults in requests of the consumer or the relay to the database and the queue. */
  databaseFaults: number
  queueFaults: number
  /**
   * The longest time from a sale until its webhook arrives at the program's server, alone and next to hanging endpoints. Measured only if
   * `hanging` is true.
   */
  alone_ms: number | undefined
  beside_ms: number | undefined
}

const kinds = ['ok', 'ok', 'slow', '500', 'redirect', 'down', 'hidden'] as const
const hangs = ['hang', 'hang', 'hang'] as const
type Kind = (typeof kinds)[number] | 'hang'

/** The result of each attempt by kind of endpoint: a status or a reason. */
const endings: Record<Kind, RegExp> = {
  ok: /^200$/,
  slow: /^200$/,
  '500': /^500$/,
  redirect: /^302$/,
  down: /^The connection failed/,
  hidden: /^hooks\.example\.com resolves to 127\.0\.0\.1,/,
  hang: /^There was no response within 10 seconds\.$/,
}

/** The extra delay that dead endpoints may cause. */
const patienceMilliseconds = 1000
/** The number of lanes of the deployed function. */
const maxLanes = 24

/**
 * Sends sales and refunds while the database and the queue fail. The endpoints are healthy, slow, down, answer 500, redirect to this
 * machine, resolve to this machine, or never answer. After that, all of them recover. Checks that every event reaches only its program's
 * endpoint, signed, with one id and body. The numbers of a sale's events must follow their real order.
 */
export async function runWebhookChaos(options: WebhookChaos): Promise<WebhookChaosFigures> {
  const { sql, neon, queue, faults } = options
  const random = seeded(options.seed, 9)
  const wrong: string[] = []
  const nameService = createServer((_request, response) =>
    response.end(JSON.stringify({ Answer: [{ type: 1, data: '127.0.0.1' }] })),
  ).listen(0, '127.0.0.1')
  await once(nameService, 'listening')
  const receiver = await startReceiver()
  const env = {
    WEBHOOK_SECRET: 'chaos',
    WEBHOOK_LOOPBACK: 'on',
    DNS_OVER_HTTPS_URL: `http://127.0.0.1:${(nameService.address() as AddressInfo).port}/`,
  }
  const db = new Database({ DATABASE_URL: options.databaseUrl, NEON_ENDPOINT: neon.url })
  const clientOf = (endpoint: string) =>
    openQueue({
      AWS_REGION: localAws.region,
      AWS_ACCESS_KEY_ID: localAws.accessKeyId,
      AWS_SECRET_ACCESS_KEY: localAws.secretAccessKey,
      AWS_ENDPOINT_URL: endpoint,
      QUEUE_URL: queue.url,
    })
  const clients = { faulty: clientOf(faults.url), well: clientOf(queue.endpoint) }
  const channelsOf = (client: typeof clients.well) =>
    queuesOf(client, { QUEUE_URL: queue.url, WEBHOOK_QUEUE_URL: queue.webhookUrl })
  const [faulty, well] = [channelsOf(clients.faulty), channelsOf(clients.well)]

  async function open(kind: Kind, number: number) {
    const program = await createLedgerProgram(sql, db, { holdDays: 0 })
    const name = `${kind}-${number}`
    const elsewhere: Partial<Record<Kind, string>> = {
      down: 'http://127.0.0.1:9/',
      hidden: 'https://hooks.example.com/',
    }
    const url = elsewhere[kind] ?? receiver.urlOf(name, kind as Exclude<Kind, 'down' | 'hidden'>)
    const settings = { url, description: name, types: ['sale.created' as const, 'sale.refunded' as const] }
    const endpoint = await createEndpoint(db, env, programOwner(program.programId), settings)
    receiver.expect(name, endpoint.secret)
    /** The expected events of each sale. */
    const sales = new Map<string, number[]>()
    return { kind, name, program, endpointId: endpoint.id, sales }
  }
  const programs = await Promise.all([...kinds, ...(options.hanging ? hangs : [])].map(open))
  type Listener = (typeof programs)[number]

  /** A sale and two refunds of it at the same time. */
  async function sell({ program, sales }: Listener): Promise<void> {
    const { id } = await program.soldBy(0, 10_000)
    sales.set(id, [1000, 2000])
    await Promise.all([program.refund(id, 1000), program.refund(id, 2000)])
  }

  /** Runs the consumer once. Like the deployed consumer, it starts another one if all its connections are busy. */
  async function run(channels: typeof well, term: ConsumerTerm, lane = 1): Promise<void> {
    const onFull = async () => await run(channels, { ...term, waits: false }, lane + 1)
    await deliverWebhooks({ db, channels, env }, lane < maxLanes ? { ...term, onFull } : term)
  }

  async function consume(channels: typeof well, milliseconds: number): Promise<void> {
    await relayWebhooks(db, channels.wakes)
    await run(channels, { deadline: Date.now() + milliseconds, waits: false, takesSlow: true })
  }

  /** Makes waiting deliveries due now, including those of a consumer that has ended. Returns their number. */
  async function letTimePass(): Promise<number> {
    await sql.query('update webhook_endpoints set rests_until = null where rests_until is not null')
    const { rowCount } = await sql.query(
      'update webhook_deliveries set next_attempt_at = now(), claimed_until = null where next_attempt_at is not null',
    )
    return rowCount ?? 0
  }

  // Only the events of these sales matter here. Other tests check sales under faults.
  const injected = ['drop-before', 'drop-after', 'cut', 'unavailable', 'kill-backend'] as const
  const met = ['claim_due_webhooks', 'record_webhook_attempts', 'from "webhook_deliveries"'] as const
  let databaseFaults = 0
  const queueFaultsBefore = faults.faults
  async function consumeUnderFaults(): Promise<void> {
    // A consumer repeats a failed claim, so a single fault in a claim has no effect.
    for (const matching of met) {
      const action = random.pick(injected)
      if (action && random.chance(0.6)) neon.inject({ action, matching, times: random.integer(1, 2) })
    }
    const before = neon.faults()
    await Promise.all([consume(faulty, 500), consume(faulty, 500)].map((each) => each.catch(() => undefined)))
    databaseFaults += before - neon.faults()
    neon.clearFaults()
  }
  faults.faulty = true
  for (let round = 0; round < options.rounds; round++) {
    await Promise.all([...programs.map(sell), consumeUnderFaults()])
    await letTimePass()
    await consumeUnderFaults()
  }
  faults.faulty = false
  const queueFaults = faults.faults - queueFaultsBefore

  /**
   * Returns the longest time from the answer to a healthy program's sale until its webhook arrives. There are only a few sales, so that
   * the last one arrives before the consumer ends, even on a busy machine.
   */
  async function longestToReport(listener: Listener): Promise<number> {
    let longest = 0
    for (let sale = 0; sale < 5; sale++) {
      const { id } = await listener.program.soldBy(0, 5000)
      const sold = Date.now()
      listener.sales.set(id, [])
      await well.wakes.send([{ program_id: listener.program.programId, due_at: 0 }])
      const isReported = () => receiver.of(listener.name).some(({ body }) => body.includes(id))
      while (!isReported() && Date.now() - sold < 15_000) await sleep(5)
      longest = Math.max(longest, Date.now() - sold)
    }
    return longest
  }
  let alone_ms: number | undefined
  let beside_ms: number | undefined
  const [healthy] = programs
  if (options.hanging && healthy) {
    const measure = async () => {
      const running = run(well, { deadline: Date.now() + 12_000, waits: true, takesSlow: true })
      await sleep(1000)
      const longest = await longestToReport(healthy)
      await running
      return longest
    }
    const later = `update webhook_deliveries set next_attempt_at = now() + interval '1 hour' where next_attempt_at is not null`
    await sql.query(later)
    alone_ms = await measure()
    // Resets the history of failures, so each endpoint may have several concurrent requests.
    await sql.query('update webhook_endpoints set failing_since = null, failures = 0')
    await letTimePass()
    await relayWebhooks(db, well.wakes)
    const hung = () => receiver.received.filter(({ behaviour }) => behaviour === 'hang').length
    const before = hung()
    beside_ms = await measure()
    if (hung() - before < hangs.length) wrong.push('fewer requests hung than endpoints')
    if (beside_ms > alone_ms + patienceMilliseconds)
      wrong.push(
        `a sale's webhook arrived after ${beside_ms} ms beside dead endpoints of others, and after ${alone_ms} ms alone`,
      )
  }

  for (const { kind, name, program, endpointId } of programs) {
    const { rows } = await sql.query<{ ending: string }>(
      'select coalesce(status::text, error) as ending from webhook_attempts where program_id = $1 and endpoint_id = $2',
      [program.programId, endpointId],
    )
    if (rows.length === 0) wrong.push(`no try at ${name} was recorded`)
    for (const { ending } of rows) if (!endings[kind].test(ending)) wrong.push(`a try at ${name} ended with ${ending}`)
    if (kind === 'ok' || kind === 'slow') continue
    await changeEndpoint(db, env, programOwner(program.programId), endpointId, { url: receiver.urlOf(name, 'ok') })
    await replayDeliveries(db, programOwner(program.programId), endpointId, { failedOnly: true })
  }
  for (let round = 0; (await letTimePass()) > 0; round++) {
    if (round === 12) {
      wrong.push('deliveries still wait after twelve rounds without a fault')
      break
    }
    await consume(well, 5000)
  }
  await receiver.settle()

  let events = 0
  for (const { name, sales } of programs) {
    const bodies = new Map<string, Set<string>>()
    const taken = new Set<string>()
    for (const { id, body, signed, behaviour } of receiver.of(name)) {
      bodies.set(id, (bodies.get(id) ?? new Set()).add(body))
      if (behaviour === 'ok' || behaviour === 'slow') taken.add(id)
      if (!signed) wrong.push(`${name} got ${id} with another endpoint's signature`)
    }
    for (const [id, { size }] of bodies) {
      if (size > 1) wrong.push(`${name} received ${id} with ${size} bodies`)
      if (!taken.has(id)) wrong.push(`${name} never took ${id}`)
    }
    const received = [...bodies.values()]
      .flatMap((each) => [...each].map((body) => JSON.parse(body) as Report))
      .toSorted((a, b) => a.sequence - b.sequence)
    events += received.length
    const ofSales = Map.groupBy(received, ({ data }) => data.transaction_id)
    for (const id of ofSales.keys()) if (!sales.has(id)) wrong.push(`${name} received ${id} of another program`)
    for (const [id, refunds] of sales) {
      const steps = (ofSales.get(id) ?? []).map(({ type, data }) => [type, data.refunded_cents ?? 0].join(' '))
      const orders = [refunds, refunds.toReversed()].map((order) => stepsOf(order).join(', '))
      if (!orders.includes(steps.join(', ')))
        wrong.push(`by their numbers, ${name} received for ${id}: ${steps.join(', ') || 'nothing'}`)
    }
  }
  const requests = receiver.received.length
  receiver.close()
  nameService.close()
  clients.faulty.destroy()
  clients.well.destroy()
  return { wrong, events, requests, databaseFaults, queueFaults, alone_ms, beside_ms }
}

interface Report {
  type: string
  sequence: number
  data: { transaction_id: string; refunded_cents?: number }
}

/** The events of a sale with these refunds, in order. */
function stepsOf(refunds: number[]): string[] {
  let refunded = 0
  return ['sale.created 0', ...refunds.map((cents) => `sale.refunded ${(refunded += cents)}`)]
}
