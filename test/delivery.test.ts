import { ChangeMessageVisibilityBatchCommand, SendMessageBatchCommand, type SQSClient } from '@aws-sdk/client-sqs'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { Database } from '../lib/database.ts'
import { listDeadLetters, redriveDeadLetters } from '../lib/commands/dead-letters.ts'
import { startQueue } from '../lib/local/queue.ts'
import { drainQueue } from '../lib/notifications/in-app.ts'
import { type OutboxMessage, sendSoon } from '../lib/notifications/outbox.ts'
import { deadLetterUrlOf, inCalls, openQueue, sendToQueue } from '../lib/notifications/queue.ts'
import { queuesOf } from '../lib/notifications/channels.ts'
import { relayOutbox } from '../lib/notifications/relay.ts'
import { createLedgerProgram } from './support/ledger.ts'
import { startEndpoint } from './support/stack.ts'

const { db, sql, env } = await startEndpoint()
const queue = await startQueue()
afterAll(() => queue.close())
const { programId, partnerIds } = await createLedgerProgram(sql, db)

const soon = () => Date.now() + 20_000
const queueEnv = {
  AWS_REGION: 'eu-central-1',
  AWS_ACCESS_KEY_ID: 'local',
  AWS_SECRET_ACCESS_KEY: 'local',
  AWS_ENDPOINT_URL: queue.endpoint,
  QUEUE_URL: queue.url,
}

test.each([
  ['a page', { origin: 'https://evil.example' }, 403],
  ['a page in a frame without an origin', { origin: 'null' }, 403],
  ['a page through a link', { 'sec-fetch-site': 'cross-site' }, 403],
  ['a page whose domain resolves to this machine', { host: 'evil.example' }, 403],
  ['a program', {}, 200],
] as [string, Record<string, string>, number][])('a topic from %s with %j gets %i', async (_who, more, status) => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded', ...more }
  const sent = request(queue.endpoint, { method: 'POST', headers }).end('Action=CreateTopic&Name=page')
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  expect(response.statusCode).toBe(status)
})

/** The receipts of received messages that must not be deleted. */
let received: string[] = []

/** The queue's client, without the consumer's extra second of waiting. */
function openClient(): SQSClient {
  const client = openQueue(queueEnv)
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const { QueueUrl: url } = args.input as { QueueUrl: string }
        const resource = url === queue.url ? 'notifications' : 'dead-letters'
        used.add(`${resource} sqs:${commandName?.replace(/(Batch)?Command$/, '')}`)
        if ('WaitTimeSeconds' in args.input) Object.assign(args.input, { WaitTimeSeconds: 0 })
        const result = await next(args)
        if ('Messages' in result.output) {
          received.push(...(result.output.Messages ?? []).flatMap(({ ReceiptHandle }) => ReceiptHandle ?? []))
        }
        return result
      },
    { step: 'initialize' },
  )
  return client
}
/** The actions used on each queue, by their names in AWS policies. */
const used = new Set<string>()
const client = openClient()

/** Simulates a minute: received messages that were not deleted become visible again. */
async function letVisibilityEnd() {
  for (const receipts of inCalls(received)) {
    const Entries = receipts.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle, VisibilityTimeout: 0 }))
    await client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queue.url, Entries }))
  }
  received = []
}

/** Creates outbox rows that are old enough for the relay, and returns their messages. */
async function createOutbox(count: number): Promise<OutboxMessage[]> {
  const { rows } = await sql.query<{ id: string }>(
    `insert into outbox (program_id, kind, audience, partner_id, cause, payload, created_at)
    select $1, 'commission_reversed', 'partner', $2, gen_random_uuid()::text, '{"amount_cents": 5, "currency": "usd"}', now() - interval '1 minute'
    from generate_series(1, $3) returning id`,
    [programId, partnerIds[0], count],
  )
  return rows.map(({ id }) => ({ program_id: programId, outbox_id: Number(id) }))
}

/** The number of outbox rows, of delivered ones, and of notifications. */
async function delivery() {
  const { rows } = await sql.query<Record<'rows' | 'delivered' | 'notifications', number>>(
    `select count(*)::int as rows, count(o.delivered_at)::int as delivered, count(n.id)::int as notifications
    from outbox o left join notifications n using (program_id, id)`,
  )
  return rows[0]
}

/** Expects that every notification so far has been delivered once, and that the queue is empty. */
async function expectAllReported() {
  const state = await delivery()
  expect(state).toEqual({ rows: state?.rows, delivered: state?.rows, notifications: state?.rows })
  expect(queue.messages()).toEqual([])
}

class Killed extends Error {}

/** A process that dies at external call number `fatal`, before the call or after its effect. */
class Life {
  steps = 0
  /** Calls in progress. They take effect even after the process is dead. */
  readonly calls: Promise<unknown>[] = []
  #dead = false
  readonly #fatal: number
  readonly #moment: 'before' | 'after'

  constructor(fatal: number, moment: 'before' | 'after') {
    this.#fatal = fatal
    this.#moment = moment
  }

  async step<Result>(call: () => Promise<Result>): Promise<Result> {
    this.steps += 1
    const fatal = this.steps === this.#fatal
    if (this.#dead || (fatal && this.#moment === 'before')) this.#die()
    const calling = call()
    this.calls.push(calling)
    const result = await calling
    if (fatal) this.#die()
    return result
  }

  #die(): never {
    this.#dead = true
    throw new Killed()
  }

  get database(): Database {
    return new MortalDatabase(this)
  }

  get client(): SQSClient {
    const mortal = openClient()
    // This wraps the other middleware, so it sees the queue's answer even if the process dies at this call.
    const around = { step: 'initialize', priority: 'high' } as const
    mortal.middlewareStack.add((next) => (args) => this.step(() => next(args)), around)
    return mortal
  }
}

class MortalDatabase extends Database {
  readonly #life: Life

  constructor(life: Life) {
    super(env)
    this.#life = life
  }

  override query<Row>(statement: Parameters<Database['query']>[0]): Promise<Row[]> {
    return this.#life.step(() => super.query(statement) as Promise<Row[]>)
  }
}

const lives: { name: string; run: (life: Life) => Promise<number> }[] = [
  {
    name: 'the consumer',
    run: async (life) => {
      await sendToQueue(client, queue.url, await createOutbox(25))
      return await drainQueue(life.database, life.client, queue.url, soon())
    },
  },
  {
    name: 'the relay',
    run: async (life) => {
      await createOutbox(25)
      return await relayOutbox(life.database, queuesOf(life.client, { QUEUE_URL: queue.url }), soon())
    },
  },
]

test.for(lives)('each event is delivered once, even if $name is killed between any two steps', async ({ run }) => {
  const whole = new Life(Infinity, 'before')
  await run(whole)
  expect(whole.steps).toBeGreaterThan(3)
  for (let fatal = 1; fatal <= whole.steps; fatal++) {
    for (const moment of ['before', 'after'] as const) {
      const life = new Life(fatal, moment)
      await expect(run(life)).rejects.toThrow(Killed)
      await Promise.allSettled(life.calls)
      await letVisibilityEnd()
      await sql.query('update outbox set sent_at = null where delivered_at is null')
      await relayOutbox(db, queuesOf(client, { QUEUE_URL: queue.url }), soon())
      await drainQueue(db, client, queue.url, soon())
      await expectAllReported()
    }
  }
})

test('messages that arrive three times, shuffled, at four concurrent consumers are delivered once each', async () => {
  const messages = await createOutbox(200)
  const thrice = [...messages, ...messages.toReversed(), ...messages]
  await sendToQueue(client, queue.url, thrice)
  await Promise.all([1, 2, 3, 4].map(() => drainQueue(db, openQueue(queueEnv), queue.url, soon())))
  await expectAllReported()
})

test('an unreadable message becomes a dead letter after five attempts and delays no others', async () => {
  const strange = ['not JSON', '{"program_id": 1}', JSON.stringify({ program_id: programId, outbox_id: 9_999_999 })]
  const Entries = strange.map((MessageBody, index) => ({ Id: String(index), MessageBody }))
  await client.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }))
  await sendToQueue(client, queue.url, await createOutbox(5))
  for (const lettersAfter of [0, 0, 0, 0, 0, 3]) {
    await drainQueue(db, client, queue.url, soon())
    await letVisibilityEnd()
    expect(queue.deadLetters()).toHaveLength(lettersAfter)
  }
  expect(queue.deadLetters().toSorted()).toEqual(strange.toSorted())
  await expectAllReported()

  const letters = await listDeadLetters(client, (await deadLetterUrlOf(client, queue.url)) ?? '', 3)
  expect(letters.map(({ body }) => body).toSorted()).toEqual(strange.toSorted())
  expect(queue.deadLetters()).toHaveLength(3)
})

test('dead letters can be sent back after the cause is fixed', async () => {
  const [message] = await createOutbox(1)
  await client.send(
    new SendMessageBatchCommand({
      QueueUrl: queue.deadLetterUrl,
      Entries: [{ Id: '0', MessageBody: JSON.stringify(message) }],
    }),
  )
  const waiting = queue.deadLetters().length
  // A message becomes visible again one second after it was read.
  await sleep(1100)
  expect(await redriveDeadLetters(client, queue.deadLetterUrl, queue.url)).toBe(waiting)
  expect(queue.deadLetters()).toEqual([])
  expect(await drainQueue(db, client, queue.url, soon())).toBe(1)
  // Messages that fail again return to the dead letters.
  for (let attempt_count = 0; attempt_count < 5; attempt_count++) {
    await letVisibilityEnd()
    await drainQueue(db, client, queue.url, soon())
  }
  expect(queue.deadLetters()).toHaveLength(waiting - 1)
})

/** A client of the real queue that refuses one message in each call of this kind, once per message. */
function openRefusingClient(command: 'SendMessageBatchCommand' | 'DeleteMessageBatchCommand'): SQSClient {
  const refusing = openClient()
  let refused = false
  refusing.middlewareStack.add(
    (next, context) => async (args) => {
      const input = args.input as { Entries?: { Id: string }[] }
      if (refused || context.commandName !== command || !input.Entries) return await next(args)
      refused = true
      const [first, ...others] = input.Entries
      const result = await next({ ...args, input: Object.assign({}, args.input, { Entries: others }) })
      Object.assign(result.output, { Failed: [{ Id: first?.Id, SenderFault: false, Code: 'InternalError' }] })
      return result
    },
    { step: 'initialize' },
  )
  return refusing
}

test("a message that the queue refuses in a batch of ten is sent again, and a failed deletion doesn't cause a second delivery", async () => {
  const messages = await createOutbox(10)
  const taken = await sendToQueue(openRefusingClient('SendMessageBatchCommand'), queue.url, messages)
  expect(taken).toEqual(messages.slice(1))
  expect(await relayOutbox(db, queuesOf(client, { QUEUE_URL: queue.url }), soon())).toBe(10)
  await drainQueue(db, openRefusingClient('DeleteMessageBatchCommand'), queue.url, soon())
  await letVisibilityEnd()
  await drainQueue(db, client, queue.url, soon())
  await expectAllReported()
})

test('a run after its deadline claims nothing', async () => {
  await sendToQueue(client, queue.url, await createOutbox(3))
  expect(await drainQueue(db, client, queue.url, Date.now())).toBe(0)
  expect(queue.messages()).toHaveLength(3)
  await drainQueue(db, client, queue.url, soon())
  await expectAllReported()
})

test("the relay starts after the response, so that it doesn't delay the response", async () => {
  const asked: string[] = []
  const RELAY = {
    fetch: async (_url: string, { body }: { body: string }) => {
      asked.push(body)
      return Response.json({})
    },
  }
  const messages = [{ program_id: 1, outbox_id: 2 }]
  const sent = sendSoon({ RELAY }, messages)
  expect(asked).toEqual([])
  await sent
  expect(asked).toEqual([JSON.stringify(messages)])
})

test("the operator's policy allows exactly the calls made here", () => {
  const text = readFileSync('lib/commands/aws/queue-policy.json', 'utf8')
  const { Statement: statements } = JSON.parse(text) as { Statement: { Action: string[]; Resource: string }[] }
  const allowed = statements.flatMap(({ Action: actions, Resource: resource }) =>
    actions.map((action) => `${/:(\w[\w-]*)-ENVIRONMENT$/.exec(resource)?.[1]} ${action}`),
  )
  // The test itself hides and reveals messages, and sends messages to the dead-letter queue.
  const own = ['notifications sqs:ChangeMessageVisibility', 'dead-letters sqs:SendMessage']
  const done = [...used].filter((action) => !own.includes(action))
  expect([...done, 'dead-letters sqs:GetQueueAttributes'].toSorted()).toEqual(
    // Another test covers the consumer of webhooks.
    allowed.filter((action) => !action.startsWith('webhooks ')).toSorted(),
  )
})
