import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { afterAll, afterEach, expect, test } from 'vitest'
import { createPerson } from '../lib/local/people.ts'
import { createAdjustment } from '../lib/money/adjustments.ts'
import { approveCommission, approveCommissions, rejectCommission } from '../lib/money/commissions.ts'
import { createPayoutRun, payByHand, payPayoutRun } from '../lib/money/payout-runs.ts'
import { hashPartnerEmails } from '../lib/money/partner-hashes.ts'
import { decideReviews, flagNewCommissions, listReviews } from '../lib/money/reviews.ts'
import { askPayout, payPayout } from '../lib/money/payouts.ts'
import { queuesOf } from '../lib/notifications/channels.ts'
import type { RelayMessage } from '../lib/notifications/outbox.ts'
import { openQueue } from '../lib/notifications/queue.ts'
import {
  changeEndpoint,
  deleteEndpoint,
  type EndpointOwner,
  findEndpoint,
  createEndpoint,
  listEndpoints,
  replayDeliveries,
  rotateSecret,
  testEndpoint,
  programOwner,
} from '../lib/notifications/webhook-endpoints.ts'
import { placeholders, type PostbackValues, postbackUrl, refusalOfTemplate } from '../lib/notifications/postbacks.ts'
import {
  deleteOldWebhooks,
  findDelivery,
  listDeliveries,
  listProgramDeliveries,
} from '../lib/notifications/webhook-log.ts'
import { deliverWebhooks } from '../lib/notifications/webhook-delivery.ts'
import { relayWebhooks } from '../lib/notifications/webhook-relay.ts'
import { wakesOf } from '../lib/notifications/webhook-wake-ups.ts'
import { openApiDocument } from '../lib/api/openapi.ts'
import { payloadTypes } from '../lib/api/webhook-payloads.ts'
import { postbackEvents, type WebhookType, webhookTypes } from '../lib/notifications/webhook-types.ts'
import type { Sandbox } from '../lib/local/sandbox.ts'
import { apply, confirmApplication, findApplication } from '../lib/programs/applications.ts'
import { createCode } from '../lib/programs/codes.ts'
import { changeJoinPage } from '../lib/programs/join-page.ts'
import { acceptPartnerInvitation, invitePartner } from '../lib/programs/partner-invitations.ts'
import { addPartner } from '../lib/programs/partners.ts'
import { openChannels as openOwnChannels } from '../lib/serve/channels.ts'
import { emailHash } from '../lib/tracking/customers.ts'
import type { ReviewRule } from '../lib/review-rules.ts'
import { startTrackingApi, times } from './support/api.ts'
import { today } from './support/ledger.ts'
import { checkerOf, webhookBodyPlace } from './support/openapi.ts'
import { type ReceivedWebhook, startReceiver } from './support/receiver.ts'

/** Answers DNS queries. Every name resolves to this machine. */
const nameService = createServer((request, response) => {
  const isIPv4 = new URL(request.url ?? '', 'http://x').searchParams.get('type') === 'A'
  response.end(JSON.stringify({ Answer: isIPv4 ? [{ type: 1, data: '127.0.0.1' }] : [] }))
}).listen(0, '127.0.0.1')
await once(nameService, 'listening')
afterAll(() => nameService.close())

const settings = {
  WEBHOOK_LOOPBACK: 'on',
  DNS_OVER_HTTPS_URL: `http://127.0.0.1:${(nameService.address() as AddressInfo).port}/dns-query`,
}
const api = await startTrackingApi({
  on: 'workers',
  functions: ['track-click', 'track-lead', 'track-sale', 'track-refund', 'deliver-webhooks', 'relay-outbox'],
  common: settings,
  environment: settings,
})
const { stack } = api
const { db } = stack
const env = { ...stack.environment, ...settings }
const receiver = await startReceiver()
afterAll(() => receiver.close())
const queue = openQueue({ ...stack.environment, AWS_ENDPOINT_URL: stack.queue.endpoint })
const channels = queuesOf(queue, { QUEUE_URL: stack.queue.url, WEBHOOK_QUEUE_URL: stack.queue.webhookUrl })
/** The actions that the service used on the webhook queue, by their names in AWS policies. */
const used = new Set<string>()
queue.middlewareStack.add(
  (next, { commandName }) =>
    async (args) => {
      if ((args.input as { QueueUrl: string }).QueueUrl === stack.queue.webhookUrl) {
        used.add(`sqs:${commandName?.replace(/(Batch)?Command$/, '')}`)
      }
      if (!('WaitTimeSeconds' in args.input)) return await next(args)
      // The queue can only wait for whole seconds. Without a wait, the consumer would poll constantly.
      Object.assign(args.input, { WaitTimeSeconds: 0 })
      const answer = await next(args)
      if (!('Messages' in answer.output)) await setTimeout(50)
      return answer
    },
  { step: 'initialize' },
)

/** All bodies that were received in all tests. */
const bodies: { type: string }[] = []
afterEach(() => {
  const ofPrograms = receiver.received.filter(({ name }) => !name.startsWith('postback-'))
  bodies.push(...ofPrograms.map(({ body }) => JSON.parse(body)))
  receiver.received.length = 0
})

let named = 0

interface Listener {
  program: Sandbox
  endpointId: number
  name: string
  secret: string
}

/** Creates an endpoint with a given behavior, for the given program or a new one. */
async function listen(
  behaviour: Parameters<typeof receiver.urlOf>[1],
  options: { program?: Sandbox; types?: WebhookType[]; url?: string } = {},
): Promise<Listener> {
  const program = options.program ?? (await api.program({ hold_days: 0, lead_commission_cents: 50 }))
  const name = `${behaviour}-${(named += 1)}`
  const endpoint = await createEndpoint(db, env, programOwner(program.programId), {
    url: options.url ?? receiver.urlOf(name, behaviour),
    description: name,
    types: options.types ?? [...webhookTypes],
  })
  receiver.expect(name, endpoint.secret)
  return { program, endpointId: endpoint.id, name, secret: endpoint.secret }
}

let sold = 0

/** Records a sale to a new customer of the program's partner. */
async function sell(program: Sandbox, id = `sale-${(sold += 1)}`) {
  const click_id = await api.click(program)
  const sale = { transaction_id: id, customer_key: id, click_id, amount_cents: 10_000 }
  const { body } = await api.call('/api/v1/track/sale', sale, { key: program.apiKey })
  return { id, ...body }
}

/** Runs the consumer in workerd, as deployed, until the queue is empty. */
async function deliverAsDeployed() {
  await stack.scheduled('deliver-webhooks')
  await receiver.settle()
}

/** Runs the consumer in this process without waiting for the queue. First the relay finds webhooks without a wake-up message. */
async function deliver() {
  await relayWebhooks(db, channels.wakes)
  await deliverWebhooks({ db, channels, env }, { deadline: Date.now() + 20_000, waits: false, takesSlow: true })
  await receiver.settle()
}

test('a call that waits for the next webhook may take longer than the normal timeout', async () => {
  const waiting = openQueue({ ...stack.environment, AWS_ENDPOINT_URL: stack.queue.endpoint })
  const attempts: number[] = []
  waiting.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args)
      attempts.push(answer.output.$metadata.attempts ?? 0)
      return answer
    },
    { step: 'initialize' },
  )
  const wakes = wakesOf(waiting, stack.queue.webhookUrl)
  const received = wakes.receive(1, 20)
  await setTimeout(3300)
  const wake = { program_id: 1, due_at: Math.floor(Date.now() / 1000) }
  await channels.wakes.send([wake])
  const woken = await received
  expect([woken, attempts]).toMatchObject([[{ wake }], [1]])
  await wakes.remove(woken)
})

/** The webhooks by type, in order. */
function reported(webhooks: ReceivedWebhook[]) {
  return webhooks
    .map(({ body }) => JSON.parse(body))
    .toSorted((a, b) => a.sequence - b.sequence)
    .map(({ type, data }) => ({ type, ...data }))
}

const deliveriesOf = ({ program, endpointId }: Listener) =>
  listDeliveries(db, programOwner(program.programId), endpointId, { limit: 100 })

/** The attempts of an endpoint's only delivery. */
async function onlyDelivery(listener: Listener) {
  const [delivery] = await deliveriesOf(listener)
  const found = await findDelivery(
    db,
    programOwner(listener.program.programId),
    listener.endpointId,
    Number(delivery?.message_id),
  )
  return { ...delivery, attempts: found?.attempts ?? [] }
}

/** Makes the waiting deliveries of an endpoint due now, and ends its pause. */
async function letTimePass({ endpointId }: Pick<Listener, 'endpointId'>) {
  const ids = [endpointId]
  await stack.sql.query(
    `update webhook_deliveries set next_attempt_at = now() where next_attempt_at is not null and endpoint_id = $1`,
    ids,
  )
  await stack.sql.query(`update webhook_endpoints set rests_until = null where id = $1`, ids)
}

test('a program gets one webhook for each event, and the library verifies it', async () => {
  const listener = await listen('ok')
  const { program } = listener
  const key = { key: program.apiKey }
  const click_id = await api.click(program)
  await api.call('/api/v1/track/lead', { customer_key: 'ann', click_id, email: 'ann@example.com' }, key)
  const sale = { transaction_id: 'order-1', customer_key: 'ann', amount_cents: 10_000 }
  const { body: recorded } = await api.call('/api/v1/track/sale', sale, key)
  await api.call('/api/v1/track/refund', { transaction_id: 'order-1', refund_amount_cents: 2500 }, key)
  const second = await sell(program, 'order-2')
  await hashPartnerEmails(db, (address) => emailHash(env.EMAIL_HASH_KEY, address), 100)
  await approveCommissions(db, program.programId, [recorded.commission_id, second.commission_id])
  const ask = { programId: program.programId, partnerId: program.partnerId, currency: 'usd', amountCents: 3000 }
  const payout = await askPayout(db, { ...ask, requestId: crypto.randomUUID() })
  await rejectCommission(db, program.programId, second.commission_id, 'It was ann@example.com herself.')
  await payPayout(db, program.programId, payout, 1500, { reference: 'T1', paid_on: new Date(today) })
  await expect.poll(() => stack.queue.webhookMessages().length).toBeGreaterThan(0)
  await deliverAsDeployed()
  await deliver()

  const webhooks = receiver.of(listener.name)
  const partner = { partner_id: program.partnerId }
  expect(reported(webhooks)).toMatchObject([
    { type: 'lead.created', lead_id: expect.any(Number), customer_id: expect.any(Number), ...partner },
    { type: 'commission.created', kind: 'lead', amount_cents: 50, currency: 'usd', ...partner },
    { type: 'sale.created', transaction_id: 'order-1', amount_cents: 10_000, currency: 'usd', ...partner },
    { type: 'commission.created', kind: 'sale', transaction_id: 'order-1', amount_cents: 2000, ...partner },
    {
      type: 'sale.refunded',
      transaction_id: 'order-1',
      refunded_by_cents: 2500,
      refunded_cents: 2500,
      reason: 'refund',
    },
    { type: 'commission.reversed', reversed_by_cents: 500, reversed_cents: 500, is_full: false, reason: 'refund' },
    { type: 'sale.created', transaction_id: 'order-2' },
    { type: 'commission.created', transaction_id: 'order-2', amount_cents: 2000 },
    { type: 'commission.approved', transaction_id: 'order-1', approved_cents: 1500 },
    { type: 'commission.approved', transaction_id: 'order-2', approved_cents: 2000 },
    { type: 'payout.requested', payout_id: payout, amount_cents: 3000, currency: 'usd', status: 'requested' },
    { type: 'payout.reduced', payout_id: payout, amount_cents: 1500, reduced_by_cents: 1500 },
    { type: 'commission.reversed', reversed_by_cents: 2000, is_full: true, reason: 'rejected' },
    {
      type: 'payout.paid',
      payout_id: payout,
      amount_cents: 1500,
      status: 'paid',
      reference: 'T1',
      paid_on: today,
    },
  ])
  expect(new Set(webhooks.map(({ id }) => id)).size).toBe(webhooks.length)
  for (const { signed, body, id, headers } of webhooks) {
    expect(signed).toBe(true)
    expect(body).not.toContain('@example.com')
    expect(JSON.parse(body)).toMatchObject({ id, timestamp: expect.stringMatching(/^2.*Z$/) })
    expect(headers['content-type']).toBe('application/json')
  }
})

/** Every action that sends webhooks, and whether it wakes the consumer. */
async function wokenBy(program: Sandbox): Promise<Record<string, boolean>> {
  const { programId, partnerId, workspaceId } = program
  const commissions: number[] = []
  for (let sales = 0; sales < 5; sales++) commissions.push((await sell(program)).commission_id)
  const [first = 0, second = 0, third = 0, ...rest] = commissions
  const email = `joins-${programId}@example.com`
  const { partnerId: invited } = await addPartner(db, { programId, name: 'Joins', email, code: null })
  const owner = await api.rows(`select user_id from workspace_members where workspace_id = $1 and role = 'owner'`, [
    workspaceId,
  ])
  const { token = '' } = (await invitePartner(db, { programId, partnerId: invited, invitedBy: owner[0].user_id })) ?? {}
  const joins = await createPerson(db, { AUTH_SECRET: stack.environment.AUTH_SECRET }, { name: 'J', email })
  const money = { programId, partnerId, currency: 'usd' }
  const transfer = { reference: 'T', paid_on: new Date(today) }
  let payout = 0
  let run = 0
  const acts: Record<string, (outbox: RelayMessage[]) => Promise<RelayMessage[] | void>> = {
    approve: async () => (await approveCommission(db, programId, first)).outbox,
    'approve some': async (outbox) => void (await approveCommissions(db, programId, [second, third], outbox)),
    reject: async () => (await rejectCommission(db, programId, rest[0] ?? 0, 'no')).outbox,
    ask: async (outbox) =>
      void (payout = await askPayout(db, { ...money, amountCents: 500, requestId: crypto.randomUUID() }, outbox)),
    pay: async () => (await payPayout(db, programId, payout, 500, transfer)).outbox,
    run: async (outbox) => void (run = (await createPayoutRun(db, programId, crypto.randomUUID(), outbox)) ?? 0),
    'pay the run': async () => (await payPayoutRun(db, programId, run, transfer)).outbox,
    'approve another': async () => (await approveCommission(db, programId, rest[1] ?? 0)).outbox,
    'pay by hand': () => payByHand(db, { ...money, amountCents: 2000, requestId: crypto.randomUUID() }, transfer),
    join: () => acceptPartnerInvitation(db, { token }, joins.userId),
  }
  const woken: Record<string, boolean> = {}
  for (const [name, act] of Object.entries(acts)) {
    const outbox: RelayMessage[] = []
    const sent = [...((await act(outbox)) ?? []), ...outbox]
    woken[name] = sent.some(
      (message) => 'due_at' in message && message.program_id === programId && message.due_at === 0,
    )
  }
  return woken
}

test("people's actions wake the consumer immediately if they wrote a webhook, and only then", async () => {
  const { program } = await listen('ok')
  const woken = await wokenBy(program)
  expect(Object.entries(woken).filter(([, is]) => !is)).toEqual([])
  const unreported = await wokenBy(await api.program({ hold_days: 0 }))
  expect(Object.entries(unreported).filter(([, is]) => is)).toEqual([])
})

test("a new partner's sign-in sends a webhook", async () => {
  const listener = await listen('ok', { types: ['partner.joined'] })
  await stack.sql.query(`insert into users (id, name, email) values ('joins', 'Joins', 'joins@example.com')`)
  const joined = { program_id: listener.program.programId, name: 'Joins', user_id: 'joins' }
  const { rows } = await stack.sql.query<{ id: string }>(
    'insert into partners (program_id, name, user_id) values ($1, $2, $3) returning id',
    Object.values(joined),
  )
  await deliver()
  expect(reported(receiver.of(listener.name))).toEqual([{ type: 'partner.joined', partner_id: Number(rows[0]?.id) }])
})

test('only webhooks of subscribed types are written, and none for a disabled, deleted or missing endpoint', async () => {
  const wants = await listen('ok', { types: ['sale.created'] })
  const { program } = wants
  const off = await listen('ok', { program })
  await changeEndpoint(db, env, programOwner(program.programId), off.endpointId, { enabled: false })
  const gone = await listen('ok', { program })
  await deleteEndpoint(db, programOwner(program.programId), gone.endpointId)
  const without = await api.program()
  await sell(program)
  await sell(without)
  await api.call(
    '/api/v1/track/sale',
    { transaction_id: 'test', customer_key: 'x', amount_cents: 1, additional_data: { test_mode: true } },
    { key: program.apiKey },
  )
  await deliver()
  expect(reported(receiver.received).map(({ type }) => type)).toEqual(['sale.created'])
  expect(await api.rows('select 1 from webhook_messages where program_id = $1', [without.programId])).toEqual([])
  await changeEndpoint(db, env, programOwner(program.programId), wants.endpointId, { enabled: false })
  expect(await api.rows('select webhook_types from programs where id = $1', [program.programId])).toEqual([
    { webhook_types: null },
  ])
})

const hung = async () => await api.rows(`select 1 from webhook_attempts where error like 'There was no response%'`)

test('webhooks to other endpoints arrive despite a misbehaving one, and each attempt is stored with its response', async () => {
  // There are more endpoints than a consumer has connections, so that a second consumer must run.
  const hanging = await Promise.all(times(6, () => listen('hang', { types: ['sale.created'] })))
  const down = await listen('ok', { types: ['sale.created'], url: 'http://127.0.0.1:9/' })
  const hidden = await listen('ok', { types: ['sale.created'], url: 'https://hooks.example.com/' })
  const broken = await listen('500', { types: ['sale.created'] })
  const redirecting = await listen('redirect', { types: ['sale.created'] })
  const long = await listen('long', { types: ['sale.created'] })
  const slow = await listen('slow', { types: ['sale.created'] })
  const well = await listen('ok', { types: ['sale.created'] })
  const steady = await listen('300ms', { types: ['sale.created'] })
  for (const listener of [...hanging, down, hidden, broken, redirecting, long, slow]) await sell(listener.program)
  for (let sales = 0; sales < 20; sales++) await sell(well.program)
  for (let sales = 0; sales < 8; sales++) await sell(steady.program)
  const run = deliverAsDeployed()
  // All other webhooks arrived while the first hanging requests were still open.
  await expect.poll(() => receiver.received.length, { timeout: 8000 }).toBeGreaterThanOrEqual(38)
  expect(await hung()).toEqual([])
  await expect.poll(hung, { timeout: 20_000 }).toHaveLength(6)
  for (const { program, endpointId } of hanging)
    await changeEndpoint(db, env, programOwner(program.programId), endpointId, { enabled: false })
  await run

  const sentTo = (listener: Listener) => receiver.of(listener.name)
  expect(sentTo(well)).toHaveLength(20)
  expect(sentTo(steady)).toHaveLength(8)
  expect(stack.logs.join('\n')).toContain('"function":"deliver-webhooks","lane":2')

  for (const [listener, attempt] of [
    ...hanging.map((each) => [each, { status: null, error: 'There was no response within 10 seconds.' }] as const),
    [down, { status: null, error: expect.stringContaining('The connection failed') }] as const,
    [
      hidden,
      { status: null, error: 'hooks.example.com resolves to 127.0.0.1, which is not a public address.' },
    ] as const,
    [broken, { status: 500, error: null, answer: expect.stringMatching(/^500: \d+ bytes$/) }] as const,
    [redirecting, { status: 302, error: null }] as const,
  ]) {
    expect(await onlyDelivery(listener)).toMatchObject({ status: 'pending' })
    expect((await onlyDelivery(listener)).attempts[0]).toMatchObject(attempt)
  }
  for (const listener of [slow, long]) {
    expect(await onlyDelivery(listener)).toMatchObject({ status: 'delivered', attempts: [{ status: 200 }] })
  }
  expect((await onlyDelivery(long)).attempts[0]?.answer).toHaveLength(4096)
  expect(receiver.received.map(({ signed }) => signed)).not.toContain(false)
  // Webhooks of a program never reach another program's endpoint.
  for (const listener of [...hanging, well, slow, steady]) {
    const messages = await api.rows('select id from webhook_messages where program_id = $1', [
      listener.program.programId,
    ])
    const ids = messages.map(({ id }) => `evt_${id}`)
    expect(ids).toEqual(expect.arrayContaining(sentTo(listener).map(({ id }) => id)))
  }
  for (const { program, endpointId } of [...hanging, down, hidden, broken, redirecting]) {
    await deleteEndpoint(db, programOwner(program.programId), endpointId)
  }
}, 140_000)

test('a delivery is attempted ten times with growing delays under one id, and has then failed', async () => {
  const listener = await listen('500', { types: ['sale.created'] })
  await sell(listener.program)
  await deliver()
  const waits: number[] = []
  for (let attempt_count = 1; attempt_count < 10; attempt_count++) {
    const [delivery] = await deliveriesOf(listener)
    expect(delivery).toMatchObject({ status: 'pending', attempt_count })
    const { attempts } = await onlyDelivery(listener)
    waits.push(Number(delivery?.next_attempt_at) - Date.parse(attempts.at(-1)?.attempted_at ?? ''))
    await letTimePass(listener)
    await deliver()
  }
  const minutes = waits.map((wait) => Math.round(wait / 6000) / 10)
  expect(minutes).toEqual([0.1, 5, 30, 120, 300, 600, 840, 1200, 1440])
  expect(await deliveriesOf(listener)).toMatchObject([{ status: 'failed', attempt_count: 10, next_attempt_at: null }])
  const came = receiver.of(listener.name)
  expect(came).toHaveLength(10)
  expect(new Set(came.map(({ id }) => id)).size).toBe(1)
  expect(new Set(came.map(({ body }) => body)).size).toBe(1)
})

test('an endpoint that fails for five days is disabled, its owner is notified, and waiting deliveries can be sent again', async () => {
  const listener = await listen('500', { types: ['sale.created'] })
  const { program, endpointId, name, secret } = listener
  await sell(program)
  await deliver()
  await stack.sql.query(`update webhook_endpoints set failing_since = now() - interval '5 days' where id = $1`, [
    endpointId,
  ])
  await sell(program)
  await letTimePass(listener)
  await deliver()
  expect(await findEndpoint(db, programOwner(program.programId), endpointId)).toMatchObject({
    disabled_because: 'failures',
  })
  expect((await deliveriesOf(listener)).map(({ status }) => status)).toEqual(['failed', 'failed'])
  const notices = await api.rows('select kind, audience, payload from outbox where program_id = $1', [
    program.programId,
  ])
  expect(notices).toMatchObject([
    { kind: 'webhook_disabled', audience: 'advertiser', payload: { endpoint_id: endpointId } },
  ])
  await expect.poll(() => stack.queue.messages().length).toBeGreaterThan(0)

  await expect(testEndpoint(db, programOwner(program.programId), endpointId)).rejects.toThrow(
    'enable the endpoint first',
  )
  receiver.expect(`${name}-mended`, secret)
  await changeEndpoint(db, env, programOwner(program.programId), endpointId, {
    enabled: true,
    url: receiver.urlOf(`${name}-mended`, 'ok'),
  })
  expect(await replayDeliveries(db, programOwner(program.programId), endpointId, { failedOnly: true })).toBe(2)
  await letTimePass(listener)
  await deliver()
  expect(receiver.of(`${name}-mended`)).toHaveLength(2)
  expect(await replayDeliveries(db, programOwner(program.programId), endpointId, { failedOnly: true })).toBe(0)
  const [{ message_id: messageId } = { message_id: 0 }] = await deliveriesOf(listener)
  expect(
    await replayDeliveries(db, programOwner(program.programId), endpointId, { messageId, failedOnly: false }),
  ).toBe(1)
  await letTimePass(listener)
  await deliver()
  expect(receiver.of(`${name}-mended`).filter(({ id }) => id === `evt_${messageId}`)).toHaveLength(2)

  // However often somebody sends a delivery again, only its newest attempts are kept.
  const sent = [program.programId, endpointId, messageId]
  await stack.sql.query(
    `insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status)
    select $1, $2, $3, now(), 1, 200 from generate_series(1, 30)`,
    sent,
  )
  await replayDeliveries(db, programOwner(program.programId), endpointId, { messageId, failedOnly: false })
  await letTimePass(listener)
  await deliver()
  const { rows: kept } = await stack.sql.query(
    'select from webhook_attempts where (program_id, endpoint_id, message_id) = ($1, $2, $3)',
    sent,
  )
  expect(kept).toHaveLength(20)
})

test('both secrets sign during a rotation, and a test message arrives for any subscription', async () => {
  const listener = await listen('ok', { types: ['payout.paid'] })
  const { program, endpointId, name } = listener
  const rotated = await rotateSecret(db, env, programOwner(program.programId), endpointId)
  expect(rotated.secret).not.toBe(listener.secret)
  await testEndpoint(db, programOwner(program.programId), endpointId)
  receiver.expect(name, listener.secret)
  await letTimePass(listener)
  await deliver()
  receiver.expect(name, rotated.secret)
  await testEndpoint(db, programOwner(program.programId), endpointId)
  await letTimePass(listener)
  await deliver()
  await stack.sql.query(`update webhook_endpoints set previous_secret_until = now() where id = $1`, [endpointId])
  receiver.expect(name, listener.secret)
  await testEndpoint(db, programOwner(program.programId), endpointId)
  await letTimePass(listener)
  await deliver()
  const came = receiver.of(name)
  expect(reported(came)).toEqual(times(3, () => ({ type: 'webhook.test', endpoint_id: endpointId })))
  expect(came.map(({ signed }) => signed)).toEqual([true, true, false])
  expect(came.map(({ headers }) => headers['webhook-signature']?.split(' ').length)).toEqual([2, 2, 1])
})

test('deliveries that a dead consumer had claimed are sent by the next one under the same id', async () => {
  const listener = await listen('ok', { types: ['sale.created'] })
  await sell(listener.program)
  const claimed = await api.rows('select * from claim_due_webhooks(array[$1::bigint], 10, true)', [
    listener.program.programId,
  ])
  expect(claimed).toHaveLength(1)
  await deliver()
  expect(receiver.of(listener.name)).toEqual([])
  await stack.sql.query(`update webhook_deliveries set claimed_until = now() where claimed_until is not null`)
  await letTimePass(listener)
  await deliver()
  expect(receiver.of(listener.name).map(({ id }) => id)).toEqual([`evt_${claimed[0].message_id}`])
})

test('an endpoint gets only a few requests at a time, and after a failure only one, followed by a pause', async () => {
  const { program, endpointId } = await listen('ok', { types: ['sale.created'] })
  for (let sales = 0; sales < 6; sales++) await sell(program)
  const claim = async () =>
    await api.rows('select message_id from claim_due_webhooks(array[$1::bigint], 10, true)', [program.programId])
  expect(await claim()).toHaveLength(4)
  expect(await claim()).toHaveLength(0)
  await stack.sql.query(`update webhook_deliveries set claimed_until = null where endpoint_id = $1`, [endpointId])
  await stack.sql.query(`update webhook_endpoints set failing_since = now(), failures = 1 where id = $1`, [endpointId])
  expect(await claim()).toHaveLength(1)
  await stack.sql.query(`update webhook_deliveries set claimed_until = null where endpoint_id = $1`, [endpointId])
  await stack.sql.query(`update webhook_endpoints set rests_until = now() + interval '5 s' where id = $1`, [endpointId])
  expect(await claim()).toHaveLength(0)
})

test('attempts that overlap a failure count as one failure, and later ones count separately', async () => {
  const { program, endpointId } = await listen('ok', { types: ['sale.created'] })
  for (let sales = 0; sales < 4; sales++) await sell(program)
  const claimed = await api.rows('select message_id from claim_due_webhooks(array[$1::bigint], 10, true)', [
    program.programId,
  ])
  const [first, second, third, fourth] = claimed.map(({ message_id: id }) => Number(id))
  /** Records failed attempts that started at this time. Returns the number of failures and the length of the pause. */
  const record = async (began: string, messages: (number | undefined)[], isTaken = false) => {
    await stack.sql.query(
      `select record_webhook_attempts((
        select jsonb_agg(jsonb_build_object('program_id', $1::bigint, 'endpoint_id', $2::bigint, 'message_id', m, 'attempted_at', ${began},
          'duration_ms', 5, 'status', 503, 'is_taken', $4::boolean)) from unnest($3::bigint[]) m), 5)`,
      [program.programId, endpointId, messages, isTaken],
    )
    return (
      await api.rows(
        `select failures, extract(epoch from rests_until - failed_at)::integer as rest from webhook_endpoints where id = $1`,
        [endpointId],
      )
    )[0]
  }
  const before = `now() - interval '1 s'`
  // Two attempts that ended together, and a third that overlapped them.
  expect(await record(before, [first, second])).toEqual({ failures: 1, rest: 5 })
  expect(await record(before, [third])).toEqual({ failures: 1, rest: 5 })
  expect(await record(`now()`, [fourth])).toEqual({ failures: 2, rest: 5 })
  expect(await record(before, [third])).toEqual({ failures: 2, rest: 5 })
  expect(await record(`now()`, [third])).toEqual({ failures: 3, rest: 60 })
  expect(await record(before, [first], true)).toMatchObject({ failures: 0 })
  expect(await record(before, [second])).toEqual({ failures: 1, rest: 5 })
  await deleteEndpoint(db, programOwner(program.programId), endpointId)
})

test("an endpoint that doesn't respond isn't sent a second request and doesn't delay other endpoints", async () => {
  const hanging = await listen('hang', { types: ['sale.created'] })
  const { program } = hanging
  const others = await Promise.all(times(4, () => listen('ok', { program, types: ['sale.created'] })))
  for (let sales = 0; sales < 3; sales++) await sell(program)
  const claim = async (atMost: number) =>
    await api.rows('select program_id, endpoint_id, message_id from claim_due_webhooks(array[$1::bigint], $2, true)', [
      program.programId,
      atMost,
    ])
  // Only four of the five deliveries fit. The claim reports the fifth, and the next claim starts with it.
  const first = await claim(4)
  expect(first.filter(({ message_id }) => message_id === null)).toEqual([
    { program_id: `${program.programId}`, endpoint_id: null, message_id: null },
  ])
  const second = await claim(1)
  const given = [...first, ...second].flatMap(({ endpoint_id }) => (endpoint_id === null ? [] : Number(endpoint_id)))
  expect(new Set(given)).toEqual(new Set([hanging, ...others].map(({ endpointId }) => endpointId)))
  expect([first.length, second.length]).toEqual([5, 1])
  // One claim is seven seconds older than the other claims.
  await stack.sql.query(
    `update webhook_deliveries set claimed_until = now() + case endpoint_id when $1 then interval '43 s' else '50 s' end
    where program_id = $2 and claimed_until is not null`,
    [hanging.endpointId, program.programId],
  )
  const third = await claim(20)
  expect(third).toHaveLength(8)
  expect(third.map(({ endpoint_id }) => Number(endpoint_id))).not.toContain(hanging.endpointId)
})

test('a workspace with many slow endpoints leaves room for others', async () => {
  const types: WebhookType[] = ['sale.created']
  const [first, second, other] = [await api.program(), await api.program(), await api.program()]
  await stack.sql.query(
    'update programs set workspace_id = (select workspace_id from programs where id = $1) where id = $2',
    [first.programId, second.programId],
  )
  for (const program of [first, second]) await Promise.all(times(20, () => listen('hang', { program, types })))
  await listen('ok', { program: other, types })
  for (const program of [first, second, other]) await sell(program)
  const claim = async (programs: Sandbox[], atMost: number) =>
    await api.rows('select program_id, message_id from claim_due_webhooks($1, $2, true)', [
      programs.map(({ programId }) => programId),
      atMost,
    ])
  const given = await claim([first, second], 40)
  expect(given.filter(({ message_id }) => message_id !== null)).toHaveLength(24)
  // The other 16 are waiting, and the consumer checks again later.
  expect(given.filter(({ message_id }) => message_id === null)).not.toEqual([])
  expect((await claim([first, second, other], 40)).filter(({ message_id }) => message_id !== null)).toMatchObject([
    { program_id: `${other.programId}` },
  ])
})

test('slow and new endpoints wait for a consumer that takes them, and come after fast ones', async () => {
  const types: WebhookType[] = ['sale.created']
  const [slow, fast] = [await listen('ok', { types }), await listen('ok', { types })]
  await stack.sql.query('update webhook_endpoints set slow_until = now() where id = $1', [fast.endpointId])
  for (const { program } of [slow, fast, fast]) await sell(program)
  const claim = async (atMost: number, takesSlow: boolean) =>
    (
      await api.rows('select program_id, endpoint_id, message_id from claim_due_webhooks($1, $2, $3)', [
        [slow.program.programId, fast.program.programId],
        atMost,
        takesSlow,
      ])
    ).map(({ program_id, ...one }) => (one.endpoint_id === null ? { later: Number(program_id) } : one))
  const [claimed, later] = await claim(1, true)
  expect([Number(claimed?.endpoint_id), later]).toEqual([fast.endpointId, { later: slow.program.programId }])
  // The response takes a second, so the endpoint is slow for a day.
  await stack.sql.query(
    `select record_webhook_attempts(jsonb_build_array(jsonb_build_object('program_id', $1::bigint, 'endpoint_id', $2::bigint,
      'message_id', $3::bigint, 'attempted_at', now(), 'duration_ms', 1000, 'status', 200, 'is_taken', true)), 5)`,
    [fast.program.programId, fast.endpointId, claimed?.message_id],
  )
  const both = [slow, fast].map(({ program }) => ({ later: program.programId }))
  expect(new Set(await claim(2, false))).toEqual(new Set(both))
  const ids = (await claim(2, true)).map((one) => ('endpoint_id' in one ? Number(one.endpoint_id) : one))
  expect(new Set(ids)).toEqual(new Set([slow.endpointId, fast.endpointId]))
})

test("an endpoint that hangs doesn't get a second request while the consumer delivers to others", async () => {
  const hanging = await listen('hang', { types: ['sale.created'] })
  const well = await Promise.all(times(3, () => listen('ok', { types: ['sale.created'] })))
  for (const { program } of [hanging, ...well]) for (let sales = 0; sales < 3; sales++) await sell(program)
  const requested: string[] = []
  const answers = Promise.withResolvers<void>()
  const requestsTo = ({ name }: Listener) => requested.filter((url) => url.includes(`/${name}/`)).length
  const outside = async (url: string) => {
    requested.push(url)
    if (url.includes('/hang')) await answers.promise
    return new Response('ok')
  }
  /** A queue with one message for each program. */
  const wakesLeft = [hanging, ...well].map(({ program }) => ({ wake: { program_id: program.programId, due_at: 0 } }))
  const wakes = {
    send: async (sent: { program_id: number; due_at: number }[]) => {
      wakesLeft.push(...sent.map((wake) => ({ wake })))
      return sent
    },
    receive: async (atMost: number) => {
      await setTimeout(10)
      return wakesLeft.splice(0, atMost)
    },
    remove: async () => undefined,
  }
  const run = deliverWebhooks(
    { db, channels: { ...channels, wakes }, env: { ...env, OUTSIDE: { fetch: outside } } },
    { deadline: Date.now() + 60_000, waits: false, takesSlow: true },
  )
  await expect.poll(() => well.map(requestsTo), { timeout: 60_000 }).toEqual([3, 3, 3])
  expect(requestsTo(hanging)).toBe(1)
  answers.resolve()
  expect(await run).toEqual({ delivered: 12, failed: 0 })
})

test('at shutdown pending attempts are recorded, nothing new starts, and no lane waits for another', async () => {
  const listener = await listen('hang', { types: ['sale.created'] })
  const { program } = listener
  for (let sales = 0; sales < 6; sales++) await sell(program)
  const requested: string[] = []
  const answers = Promise.withResolvers<void>()
  const outside = async (url: string) => {
    requested.push(url)
    await answers.promise
    return new Response('ok')
  }
  const own = openOwnChannels(() => Promise.reject(new Error('nothing is reported')))
  await own.wakes.send([{ program_id: program.programId, due_at: 0 }])
  const run = deliverWebhooks(
    { db, channels: own, env: { ...env, OUTSIDE: { fetch: outside } } },
    { deadline: Date.now() + 60_000, waits: true, takesSlow: true },
  )
  await expect.poll(() => requested.length, { timeout: 60_000 }).toBe(4)
  own.stop()
  answers.resolve()
  expect(await run).toEqual({ delivered: 4, failed: 0 })
  const left = `select status, count(*)::integer as count from webhook_deliveries where program_id = $1 group by 1 order by 1`
  expect(await api.rows(left, [program.programId])).toEqual([
    { status: 'delivered', count: 4 },
    { status: 'pending', count: 2 },
  ])
})

test('deliveries are deleted after 30 days, together with a deleted endpoint', async () => {
  const listener = await listen('ok', { types: ['sale.created'] })
  const { program, endpointId } = listener
  await sell(program)
  await deleteEndpoint(db, programOwner(program.programId), endpointId)
  expect(await deleteOldWebhooks(db, 100)).toBe(0)
  await stack.sql.query(`update webhook_messages set created_at = now() - interval '31 days' where program_id = $1`, [
    program.programId,
  ])
  expect(await deleteOldWebhooks(db, 100)).toBe(1)
  for (const table of ['webhook_messages', 'webhook_deliveries', 'webhook_attempts', 'webhook_endpoints']) {
    expect(await api.rows(`select 1 from ${table} where program_id = $1`, [program.programId])).toEqual([])
  }
})

test('a program gets webhooks about manual commissions, held commissions and decisions, and applications', async () => {
  const review_rules: ReviewRule[] = ['self_referral']
  const program = await api.program({ hold_days: 0, lead_commission_cents: 50, review_rules })
  const listener = await listen('ok', { program })
  const { programId, partnerId, apiKey } = listener.program
  const partner = { partner_id: partnerId }
  await createAdjustment(db, programId, { partnerId, amountCents: 500, note: 'Bonus' }, crypto.randomUUID(), [])
  await stack.sql.query("update partners set payout_email = 'nora@pays.example' where id = $1", [partnerId])
  const click_id = await api.click(listener.program)
  const email = 'nora@pays.example'
  await api.call('/api/v1/track/lead', { customer_key: 'herself', click_id, email }, { key: apiKey })
  await hashPartnerEmails(db, (address) => emailHash(env.EMAIL_HASH_KEY, address), 100)
  await flagNewCommissions(db, 100)
  const [held] = await listReviews(db, programId, { limit: 1 })
  await decideReviews(db, programId, [held?.commission_id ?? 0], 'released', 'We know her.')
  await changeJoinPage(db, programId, { slug: `webhooks-${programId}` })
  const { token } = await apply(db, {
    programId,
    userId: null,
    email,
    name: 'Nora',
    answers: [],
    seen: { terms: null },
  })
  const application = await findApplication(db, token)
  expect(application && (await confirmApplication(db, application))).toMatchObject({ outcome: 'waiting' })
  await deliver()
  expect(reported(receiver.of(listener.name))).toMatchObject([
    { type: 'adjustment.created', amount_cents: 500, currency: 'usd', ...partner },
    { type: 'lead.created', ...partner },
    { type: 'commission.created', kind: 'lead', ...partner },
    { type: 'commission.flagged', commission_id: held?.commission_id, flags: 'self_referral' },
    { type: 'commission.released', commission_id: held?.commission_id },
    { type: 'partner.applied', application_id: expect.any(Number) },
  ])
})

/** A template with every placeholder. */
const everyPlaceholder = placeholders.map((name) => `${name}={${name}}`).join('&')

/** Returns the number in an event id. */
const numberOf = (id: string | undefined) => Number(id?.slice(4))
/** The parameters of a signed postback, in the format of its query. */
const asTexts = (data: object) => Object.fromEntries(Object.entries(data).map(([name, value]) => [name, String(value)]))

/** Creates a partner's target of one kind and behavior. */
async function target(
  owner: EndpointOwner,
  behaviour: Parameters<typeof receiver.urlOf>[1],
  method: 'GET' | 'POST' = 'GET',
) {
  const name = `postback-${(named += 1)}`
  const url = `${receiver.urlOf(name, behaviour)}${method === 'GET' ? `?${everyPlaceholder}` : ''}`
  const created = await createEndpoint(db, env, owner, { url, method, types: [...postbackEvents], description: '' })
  receiver.expect(name, created.secret)
  return { name, owner, endpointId: created.id, program: { programId: owner.programId } }
}

test("a partner's targets receive every placeholder despite an outage, and no data about the buyer", async () => {
  const program = await api.program({ hold_days: 0, lead_commission_cents: 50 })
  const { programId } = program
  const owner = { programId, partnerId: program.partnerId }
  const other = await addPartner(db, { programId, name: 'Other', email: null, code: 'other' })
  const otherOwner = { programId, partnerId: other.partnerId }
  await createCode(db, programId, {
    partner_id: other.partnerId,
    code: 'OTHER',
    promotion_code_id: null,
    account_id: null,
  })
  const get = await target(owner, 'down')
  const post = await target(owner, 'down', 'POST')
  const redirecting = await target(owner, 'redirect')
  const others = await target(otherOwner, 'ok')

  const key = { key: program.apiKey }
  const sub1 = 'a&b=ü/é#?{sub2}'
  const campaign = new URLSearchParams({ sub1, sub2: '..', sub3: '%41', utm_source: 'x y', utm_campaign: '\u{1f986}' })
  const affiliate_url = `https://shop.example.com/?aff=${program.partnerCode}&${campaign}`
  const click_id = await api.click(program, { affiliate_url })
  const buyer = { customer_key: 'buyer-key', email: 'buyer@example.com' }
  await api.call('/api/v1/track/lead', { ...buyer, click_id }, key)
  const sale = { transaction_id: 'order-77', customer_key: 'buyer-key', amount_cents: 10_000 }
  const { body: recorded } = await api.call('/api/v1/track/sale', sale, key)
  // Another partner's code gets this sale to the same customer.
  await api.call('/api/v1/track/sale', { ...sale, transaction_id: 'order-78', coupon: 'OTHER' }, key)
  const [{ id: lead }] = await api.rows(`select id from commissions where program_id = $1 and kind = 'lead'`, [
    programId,
  ])
  await hashPartnerEmails(db, (address) => emailHash(env.EMAIL_HASH_KEY, address), 100)
  await approveCommissions(db, programId, [Number(lead), recorded.commission_id])
  await api.call('/api/v1/track/refund', { transaction_id: 'order-77', refund_amount_cents: 2500 }, key)
  const ask = { programId, partnerId: owner.partnerId, currency: 'usd', amountCents: 1550 }
  const payout = await askPayout(db, { ...ask, requestId: crypto.randomUUID() })
  await payPayout(db, programId, payout, 1550, { reference: 'T1', paid_on: new Date(today) })
  await deliver()
  expect((await listDeliveries(db, owner, get.endpointId, { limit: 9 })).map(({ status }) => status)).toContain(
    'pending',
  )
  for (let attempt = 0; attempt < 6; attempt++) {
    await Promise.all([letTimePass(get), letTimePass(post)])
    await deliver()
  }

  const link = {
    link_code: program.partnerCode,
    sub1,
    sub2: '..',
    sub3: '%41',
    utm_source: 'x y',
    utm_campaign: '\u{1f986}',
  }
  const none = { link_code: '', sub1: '', sub2: '', sub3: '', utm_source: '', utm_campaign: '' }
  const all = { currency: 'usd', program_id: String(programId), reason: '', sale_key: '' }
  const saleKey = expect.stringMatching(/^[0-9a-f]{24}$/)
  const expected = [
    { ...all, ...link, event: 'lead', commission: '0.50', commission_cents: '50', status: 'pending' },
    {
      ...all,
      ...link,
      event: 'sale',
      commission: '20.00',
      commission_cents: '2000',
      status: 'pending',
      sale_key: saleKey,
    },
    { ...all, ...link, event: 'commission_approved', commission: '0.50', commission_cents: '50', status: 'approved' },
    {
      ...all,
      ...link,
      event: 'commission_approved',
      commission: '20.00',
      commission_cents: '2000',
      status: 'approved',
      sale_key: saleKey,
    },
    {
      ...all,
      ...link,
      event: 'commission_reversed',
      commission: '-5.00',
      commission_cents: '-500',
      status: 'refunded',
      reason: 'refund',
      sale_key: saleKey,
    },
    { ...all, ...none, event: 'payout_paid', commission: '15.50', commission_cents: '1550', status: 'paid' },
  ].map((values) => ({
    ...values,
    event_id: expect.stringMatching(/^evt_\d+$/),
    timestamp: expect.stringMatching(/Z$/),
  }))
  const latest = (name: string) => [...new Map(receiver.of(name).map((one) => [one.search + one.id, one])).values()]
  const calls = latest(get.name)
    .map(({ search }) => Object.fromEntries(new URLSearchParams(search)))
    .toSorted((a, b) => numberOf(a['event_id']) - numberOf(b['event_id']))
  expect(calls).toEqual(expected)
  expect(new Set(calls.flatMap(({ sale_key: saleOf }) => saleOf || [])).size).toBe(1)
  const posts = latest(post.name).map(({ signed, body }) => ({ signed, ...JSON.parse(body) }))
  const bySequence = posts.toSorted((a, b) => a.sequence - b.sequence)
  expect(bySequence.map(({ signed, data }) => ({ signed, ...asTexts(data) }))).toEqual(
    calls.map((call) => ({ signed: true, ...call })),
  )
  // The click is on another partner's link.
  const ofOther = latest(others.name).map(({ search }) => Object.fromEntries(new URLSearchParams(search)))
  expect(ofOther).toMatchObject([{ ...none, event: 'sale', commission_cents: '2000' }])
  const everything = JSON.stringify(receiver.received.filter(({ name }) => name.startsWith('postback-')))
  for (const secret of ['buyer', 'order-7', click_id, 'customer']) expect(everything).not.toContain(secret)
  expect(await listDeliveries(db, owner, redirecting.endpointId, { limit: 1 })).toMatchObject([{ status: 'pending' }])

  // A test postback has its own event and no amount.
  const before = receiver.of(others.name).length
  await testEndpoint(db, otherOwner, others.endpointId)
  await deliver()
  expect(receiver.of(others.name).at(before)?.search).toMatch(/event=test&.*commission=0.00&commission_cents=0&/)

  // After five days of failures, the partner is notified, but not the program.
  await stack.sql.query(`update webhook_endpoints set failing_since = now() - interval '5 days' where id = $1`, [
    redirecting.endpointId,
  ])
  await letTimePass(redirecting)
  await deliver()
  expect(await findEndpoint(db, owner, redirecting.endpointId)).toMatchObject({ disabled_because: 'failures' })
  expect(
    await api.rows(`select audience, partner_id::int from outbox where program_id = $1 and kind like '%disabled'`, [
      programId,
    ]),
  ).toEqual([{ audience: 'partner', partner_id: owner.partnerId }])

  // Nobody else can read, change or use a target, not even the program itself.
  for (const stranger of [otherOwner, programOwner(programId)]) {
    const [{ message_id: messageId } = { message_id: 0 }] = await listDeliveries(db, owner, get.endpointId, {
      limit: 1,
    })
    for (const act of [
      () => findEndpoint(db, stranger, get.endpointId),
      () => listDeliveries(db, stranger, get.endpointId, { limit: 1 }),
      () => findDelivery(db, stranger, get.endpointId, messageId),
      () => testEndpoint(db, stranger, get.endpointId),
      () => rotateSecret(db, env, stranger, post.endpointId),
      () => changeEndpoint(db, env, stranger, get.endpointId, { enabled: false }),
      () => deleteEndpoint(db, stranger, get.endpointId),
      () => replayDeliveries(db, stranger, get.endpointId, { messageId, failedOnly: false }),
    ])
      await expect(act()).rejects.toMatchObject({ code: 'not_found' })
  }
  const ofProgram = await listProgramDeliveries(db, programId, { limit: 50 })
  expect(ofProgram).toEqual([])

  // A person who takes over the partner doesn't see the previous person's targets.
  const grace = await createPerson(db, env, { name: 'Grace', email: 'grace@example.com' })
  for (const userId of [grace.userId, null])
    await stack.sql.query('update partners set user_id = $2 where program_id = $1 and id = $3', [
      programId,
      userId,
      owner.partnerId,
    ])
  expect(await listEndpoints(db, owner, { limit: 9 })).toEqual([])
})

test('hostile templates are refused', () => {
  const refusals = [
    ['https://user:secret@tracker.example.com/?a={sub1}', 'must not contain a password'],
    ['https://10.0.0.1/?a={sub1}', 'must be a public address'],
    ['https://[::ffff:127.0.0.1]/?a={sub1}', 'must be a public address'],
    ['https://tracker.internal/?a={sub1}', 'must have a public host'],
    ['http://tracker.example.com/?a={sub1}', 'must begin with https://'],
    [`https://tracker.example.com/?a=${'x'.repeat(8000)}`, 'must have at most 2000 characters'],
    ['https://tracker.example.com/?a={customer_key}', 'contains the unknown placeholder {customer_key}'],
    ['https://tracker.example.com/?a={sub1', 'contains a single brace'],
    ['https://{sub1}/?a=b', 'must have its placeholders after the question mark'],
    ['https://{sub1}@10.0.0.1/', 'must have its placeholders after the question mark'],
    ['https://tracker.example.com/{sub1}/?a=b', 'must have its placeholders after the question mark'],
    [`https://tracker.example.com/?${'{sub1}'.repeat(31)}`, 'must have at most 30 placeholders'],
    ['https://tracker.example.com/{sub1}', 'must have its placeholders after the question mark'],
  ] as const
  for (const [template, refusal] of refusals) expect(refusalOfTemplate(template, {})).toBe(refusal)
  expect(refusalOfTemplate('https://tracker.example.com/p?a={sub1}&b={sub1}', {})).toBeUndefined()
})

test('no value of a placeholder changes the host, the path or another parameter of a postback', () => {
  const template = `https://tracker.example.com/p?${placeholders.map((name) => `${name}={${name}}`).join('&')}&end=1`
  for (const value of [
    '@evil.example/',
    '//evil.example/?event=x#',
    '../..',
    '\\evil',
    'a&status=paid;b=+%26%00',
    'Ada\r\nHost: evil.example',
    '"><script>alert(1)</script>',
    '{sub1}{reason}',
    '\u202E\u0000\uD800',
  ]) {
    const values = Object.fromEntries(placeholders.map((name) => [name, value])) as PostbackValues
    const sent = postbackUrl(template, values)
    expect(sent).toMatch(/^https:\/\/tracker\.example\.com\/p\?[\w.~!*'()%=&-]+$/)
    const { origin, pathname, hash, searchParams } = new URL(sent)
    expect([origin, pathname, hash]).toEqual(['https://tracker.example.com', '/p', ''])
    const expected = placeholders.map((name) => [name, value.toWellFormed()])
    expect([...searchParams]).toEqual([...expected, ['end', '1']])
  }
})

test('every event type was sent, and each body matches the OpenAPI document', () => {
  const violations = checkerOf(openApiDocument('https://track.example.com'))
  expect(new Set(bodies.map(({ type }) => type))).toEqual(new Set(payloadTypes))
  for (const body of bodies) expect([body, violations(webhookBodyPlace(body.type), body)]).toEqual([body, null])
})

test("the operator's policy allows exactly the consumer's calls", () => {
  const policy = JSON.parse(readFileSync('lib/commands/aws/queue-policy.json', 'utf8')) as {
    Statement: { Sid: string; Action: string[] }[]
  }
  expect([...used].toSorted()).toEqual(policy.Statement.find(({ Sid }) => Sid === 'Webhooks')?.Action.toSorted())
})
