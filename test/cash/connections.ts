import { generateApiKey } from '../../lib/access/api-keys.ts'
import type { NeonEndpoint } from '../../lib/local/neon.ts'
import type { Story } from '../../lib/local/processor-events.ts'
import { processorFixtures } from '../../lib/local/processor-fixture.ts'
import { changeSecret, createConnection, disconnectConnection } from '../../lib/processors/connections.ts'
import { applyParkedEvents } from '../../lib/processors/parked-events.ts'
import type { ProcessorName } from '../../lib/processors/processors.ts'
import { openStripe } from '../../lib/processors/stripe/client.ts'
import { seeded, type Random } from '../chaos/random.ts'
import type { TestShop } from '../support/shops.ts'
import type { Entry } from './account.ts'
import { plays } from './connection-plays.ts'
import { click, compare, type Desk, endOf, look, makeCall, onlyShop, type Outcome, recordLeads, send } from './desk.ts'
import type { Call, History } from './history.ts'
import type { Payment } from './objects.ts'
import { expectedOf } from './oracle.ts'

/** Injects faults into a desk's database. */
export type Faults = Pick<NeonEndpoint, 'inject' | 'clearFaults'>

/** Currencies with two, zero and three decimals. */
const currencies = ['usd', 'usd', 'eur', 'jpy', 'kwd', 'idr'] as const

/** The settings of a program for a history. */
interface Settings {
  currency: string
  commission_bp: number
  hold_days: 0 | 30
  commission_base: 'net' | 'net_of_fees'
  /** Whether a second connection reports the same account. */
  isTwice: boolean
  /** The partner of each purchase. */
  partners: (0 | 1 | null)[]
}

const drawSettings = (random: Random): Settings => ({
  currency: random.pick(currencies) ?? 'usd',
  commission_bp: random.pick([2000, 2000, 1375, 333, 1, 10_000]) ?? 2000,
  hold_days: random.chance(0.3) ? 0 : 30,
  commission_base: random.chance(0.3) ? 'net_of_fees' : 'net',
  isTwice: random.chance(0.15),
  partners: Array.from({ length: random.integer(1, 3) }, () => random.pick([0, 0, 1, 1, null]) ?? null),
})

interface ConnectedProgram {
  shop: TestShop
  settings: Settings
  /** An API key. */
  key: string
  partnerIds: number[]
  /** The click of each purchase. */
  clickIds: (string | null)[]
  /** Connections to the same live account, and one to its sandbox. */
  live: string[]
  sandbox: string
}

const secret = 'secret-of-the-account'

async function open(desk: Desk, processor: ProcessorName, settings: Settings): Promise<ConnectedProgram> {
  const { sql, db } = desk
  const shop = await onlyShop(sql)
  // Buyers have their own clicks, so the shop's visitor is removed.
  await sql.query('delete from customers where program_id = $1', [shop.programId])
  const { key, keyHash, hint } = await generateApiKey()
  const { rows } = await sql.query<{ code: string }>(
    `with settings as (
      update programs set commission_bp = $2, hold_days = $3, currency = $4, commission_base = $5 where id = $1
    ),
    key as (insert into api_keys (program_id, key_hash, hint) values ($1, decode($6, 'hex'), $7))
    select code from referral_links where program_id = $1 order by partner_id`,
    [
      shop.programId,
      settings.commission_bp,
      settings.hold_days,
      settings.currency,
      settings.commission_base,
      keyHash,
      hint,
    ],
  )
  const clickIds: (string | null)[] = []
  for (const partner of settings.partners)
    clickIds.push(partner === null ? null : await click(desk, rows[partner]?.code ?? '', 'Mozilla/5.0'))
  const connect = async (livemode: boolean) => {
    const accountId = await createConnection(db, shop.programId, { processor, livemode })
    await changeSecret(db, { EMAIL_HASH_KEY: String(desk.env['EMAIL_HASH_KEY']) }, shop.programId, accountId, secret)
    return accountId
  }
  const live = [await connect(true)]
  if (settings.isTwice) live.push(await connect(true))
  const partnerIds = [shop.partnerId, shop.otherPartnerId]
  return { shop, settings, key, partnerIds, clickIds, live, sandbox: await connect(false) }
}

/** The account's money in the oracle's format, and the deliveries and calls that report it. */
interface ConnectionHistory {
  payments: Payment[]
  ledger: Entry[]
  events: { connection: string; event: object }[]
  calls: Call[]
  leads: History['leads']
  partnerOf: Map<Payment, number>
}

function playHistory(processor: ProcessorName, program: ConnectedProgram, random: Random): ConnectionHistory {
  const { shop, settings, live, sandbox } = program
  const history: ConnectionHistory = {
    payments: [],
    ledger: [],
    events: [],
    calls: [],
    leads: [],
    partnerOf: new Map(),
  }
  for (const [at, partner] of settings.partners.entries()) {
    const clickId = program.clickIds[at] ?? null
    const customerKey = `buyer-${at}`
    const isTest = random.chance(0.1)
    const isLateLead = random.chance(0.2)
    const isNamedByCustomer = processor === 'paddle' && random.chance(0.15)
    const amount = random.chance(0.1) ? 9_999_999_999_999 : random.integer(100, 50_000)
    const tax = random.chance(0.3) ? 0 : random.integer(0, Math.floor(amount / 4))
    const hasFee = settings.commission_base === 'net_of_fees' && processor !== 'lemonsqueezy'
    const fee = hasFee ? random.integer(0, Math.floor(amount / 10)) : 0
    const story: Story = {
      order: `${shop.programId}-${at}`,
      programId: shop.programId,
      clickId: isLateLead ? null : clickId,
      customerKey,
      email: `buyer-${at}@example.com`,
      amount,
      tax,
      fee,
      refunded: 0,
      currency: settings.currency,
      now: new Date(),
      // Only Lemon Squeezy marks test mode events. The other processors have a separate account for them.
      isTest,
    }
    const played = plays[processor](story, random, isNamedByCustomer)
    const connections = isTest && processor !== 'lemonsqueezy' ? [sandbox] : live
    for (const connection of connections) for (const event of played.events) history.events.push({ connection, event })
    const buyer = { customer: customerKey, email: '', metadata: {}, clickId, livemode: !isTest }
    for (const [place, paid] of played.payments.entries()) {
      if (!paid) continue
      const payment: Payment = {
        label: `purchase ${at + 1}${place === 0 ? '' : ', renewal'}`,
        buyer,
        currency: settings.currency,
        price: { total: paid.total, untaxed: paid.untaxed },
        goneUntaxed: paid.goneUntaxed,
        fee,
        ids: [paid.id],
        lines: null,
        charges: [],
        at: story.now.getTime() / 1000 + place * 86_400,
        renewal: place > 0,
      }
      history.payments.push(payment)
      history.ledger.push({ payment, outside: paid.arrived })
      if (paid.gone > 0) history.ledger.push({ payment, outside: -paid.gone })
      const partnerId = partner === null ? undefined : program.partnerIds[partner]
      if (partnerId !== undefined) history.partnerOf.set(payment, partnerId)
    }
    if (clickId === null || isTest) continue
    const [{ id, arrived }] = played.payments
    if (isLateLead) history.calls.push({ kind: 'lead', customer_key: customerKey, click_id: clickId })
    if (random.chance(0.2)) {
      history.leads.push({ customer_key: customerKey, click_id: clickId })
      history.calls.push({
        kind: 'sale',
        transaction_id: id,
        customer_key: customerKey,
        amount_cents: arrived,
        currency: settings.currency,
      })
    }
    for (const [place, refund_amount_cents] of played.refunds.entries()) {
      if (!random.chance(0.25)) continue
      const refund_id = random.chance(0.5) ? { refund_id: `shop-${at}-${place}` } : {}
      history.calls.push({ kind: 'refund', transaction_id: id, refund_amount_cents, ...refund_id })
    }
  }
  return history
}

/**
 * Plays the history of a seed in a new program and delivers it in a random order, as processors do under faults. Up to three deliveries run
 * at once. Some have a wrong signature first, and some arrive during a database failure or while the connection is disconnected. Every
 * event and call is sent at least once, and a quarter of them twice. Deliveries without an answer are sent again later. Finally, compares
 * the program with the cash.
 */
export async function runConnection(
  desk: Desk,
  faults: Faults,
  processor: ProcessorName,
  seed: number,
  order: number,
): Promise<Outcome> {
  const drawn = seeded(seed, 12)
  const settings = drawSettings(drawn)
  const program = await open(desk, processor, settings)
  const history = playHistory(processor, program, drawn)
  const random = seeded(seed, 12, order)
  const wrong: string[] = []
  await recordLeads(desk, history.leads, program.key)
  await deliver(desk, faults, program, deliveriesOf(desk, processor, program, history, random, wrong), random, wrong)

  const expected = expectedOf(history, {
    commissionBp: settings.commission_bp,
    durationMonths: null,
    partnerOf: (payment) => history.partnerOf.get(payment) ?? null,
    partsOf: () => [{ rule: null, weight: 1 }],
    isRejected: () => false,
  })
  const found = await look(desk, program.shop.programId)
  wrong.push(...compare(expected, found, () => settings.hold_days === 0))
  const [first = 0, second = 0] = program.partnerIds
  const named = (text: string) =>
    text.replaceAll(`partner ${first}`, 'partner A').replaceAll(`partner ${second}`, 'partner B')
  return { end: endOf(expected, found).map(named).toSorted(), wrong: wrong.map(named) }
}

/** Sends one event or call. Returns false if it must be sent again. */
type Deliver = () => Promise<boolean>

function deliveriesOf(
  desk: Desk,
  processor: ProcessorName,
  program: ConnectedProgram,
  history: ConnectionHistory,
  random: Random,
  wrong: string[],
): Deliver[] {
  const { headersOf } = processorFixtures[processor]
  const post = async (connection: string, event: object, key: string) => {
    const text = JSON.stringify(event)
    const path = `/api/v1/webhooks/${processor}/${connection}`
    return await send(desk, desk.service.connectionWebhook, text, headersOf(text, key, new Date()), path)
  }
  const deliveries: Deliver[] = [
    ...history.events.map(({ connection, event }) => async () => {
      if (random.chance(0.1) && (await post(connection, event, 'another')).status === 200)
        wrong.push(`an event with a wrong signature was accepted: ${JSON.stringify(event)}`)
      const { status, body } = await post(connection, event, secret)
      if (status !== 200 && status !== 503)
        wrong.push(`an event was answered ${status} ${JSON.stringify(body)}: ${JSON.stringify(event)}`)
      return status !== 503
    }),
    ...history.calls.map((call) => async () => await makeCall(desk, call, program.key, wrong)),
  ]
  return [...deliveries, ...deliveries.filter(() => random.chance(0.25))]
    .map((one) => ({ one, place: random.next() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ one }) => one)
}

async function deliver(
  desk: Desk,
  faults: Faults,
  { shop: { programId }, settings, live }: ConnectedProgram,
  waiting: Deliver[],
  random: Random,
  wrong: string[],
): Promise<void> {
  const { db, env } = desk
  const keys = { EMAIL_HASH_KEY: String(env['EMAIL_HASH_KEY']) }
  const [connection = ''] = live
  const stripe = openStripe({ STRIPE_SECRET_KEY: 'sk_test', STRIPE_API_URL: 'http://127.0.0.1:9' })
  const applyParked = async () => {
    // Applying one event can reveal the buyer of another.
    for (const accountId of [...live, ...live])
      while ((await applyParkedEvents(db, stripe, { limit: 500, accountId })).applied > 0);
  }
  const credit = async () => {
    if (settings.hold_days === 0) await desk.service.approveCommissionsFunction.scheduled(null, env as never)
  }
  let isConnected = true
  for (let round = 0; waiting.length > 0 || !isConnected; round++) {
    if (round === 1000) {
      wrong.push(`${waiting.length} deliveries are never accepted`)
      return
    }
    if (isConnected && random.chance(0.08)) {
      await disconnectConnection(db, programId, connection)
      isConnected = false
    } else if (!isConnected && (waiting.length === 0 || random.chance(0.25))) {
      await changeSecret(db, keys, programId, connection, secret)
      isConnected = true
      await applyParked()
    }
    if (random.chance(0.1)) await credit()
    // A new backend has to plan every statement again.
    const action = random.chance(0.05)
      ? 'kill-backend'
      : random.pick(['drop-before', 'drop-after', 'unavailable'] as const)
    const matching = random.chance(0.5) ? '' : 'apply_event'
    if (action && random.chance(0.2)) faults.inject({ action, matching, times: random.integer(1, 3) })
    const batch = waiting.splice(0, random.integer(1, 3))
    const answers = await Promise.all(batch.map(async (one) => ({ one, isDone: await one() })))
    faults.clearFaults()
    for (const { one, isDone } of answers) if (!isDone) waiting.splice(random.integer(0, waiting.length), 0, one)
  }
  await applyParked()
  await credit()
}

/** Delivers a history in two orders. Returns the errors in each result and the differences between the two. */
export async function checkConnection(
  desk: Desk,
  faults: Faults,
  processor: ProcessorName,
  seed: number,
): Promise<string[]> {
  const first = await runConnection(desk, faults, processor, seed, 1)
  const second = await runConnection(desk, faults, processor, seed, 2)
  const ends = [first, second].map(({ end }) => end.join('; ') || 'nothing')
  const differs = ends[0] === ends[1] ? [] : [`the two orders end differently: ${ends.join(' / ')}`]
  return [...new Set([...first.wrong, ...second.wrong]), ...differs]
}
