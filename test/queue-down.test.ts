import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { createSandbox } from '../lib/local/sandbox.ts'
import { startStack } from './support/stack.ts'

/** Starts a proxy between the functions and the queue. It can forward, break every connection, or never answer. */
async function startLine() {
  let mode: 'up' | 'down' | 'silent' = 'up'
  let target = 0
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    if (mode === 'down') socket.destroy()
    if (mode !== 'up') return
    const upstream = connect(target, '127.0.0.1').on('error', () => socket.destroy())
    socket.pipe(upstream).pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error("The proxy's port is unknown.")
  const cut = () => sockets.forEach((socket) => socket.destroy())
  afterAll(() => {
    cut()
    server.close()
  })
  return {
    origin: `http://127.0.0.1:${address.port}`,
    leadTo: (url: string) => void (target = Number(new URL(url).port)),
    set(next: typeof mode) {
      mode = next
      cut()
    },
  }
}

const line = await startLine()
const queuePath = '/000000000000/notifications'
const stack = await startStack({
  on: 'workers',
  functions: ['track-click', 'track-sale', 'track-refund', 'relay-outbox', 'deliver-notifications'],
  environment: { QUEUE_URL: line.origin + queuePath },
})
line.leadTo(stack.queue.endpoint)
const { AUTH_SECRET } = stack.environment
const sandbox = await createSandbox(stack.db, { ...stack.env, AUTH_SECRET })

async function post(path: string, body: unknown) {
  const response = await fetch(stack.baseUrl + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${sandbox.apiKey}` },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: await response.json() }
}

let sold = 0

/** Sales of one customer that are refunded in the test. */
async function sell(count: number): Promise<string[]> {
  const affiliate_url = `https://shop.example.com/?aff=${sandbox.partnerCode}`
  const { body: click } = await post('/api/v1/track/click', { affiliate_url })
  const ids = Array.from({ length: count }, () => `order-${sold++}`)
  await Promise.all(
    ids.map((transaction_id) =>
      post('/api/v1/track/sale', {
        transaction_id,
        customer_key: click.click_id,
        click_id: click.click_id,
        amount_cents: 1000,
      }),
    ),
  )
  return ids
}

/** Counts the notifications of each sale. */
async function reported(ids: string[]): Promise<number[]> {
  const { rows } = await stack.sql.query<{ count: number }>(
    `select count(n.id)::int from unnest($1::text[]) as sale left join notifications n on n.payload->>'transaction_id' = sale group by sale`,
    [ids],
  )
  return rows.map(({ count }) => count)
}

test.for(['down', 'silent'] as const)(
  'with a queue that is %s, 100 refunds are answered as usual, and each is reported once when the queue is back',
  { timeout: 120_000 },
  async (mode) => {
    const ids = await sell(100)
    line.set(mode)
    const answers = await Promise.all(ids.map((transaction_id) => post('/api/v1/track/refund', { transaction_id })))
    expect(answers).toEqual(
      ids.map(() => ({
        status: 200,
        body: {
          success: true,
          status: 'reversed',
          deductionAmount: 2,
          deduction_cents: 200,
          currency: 'usd',
          commission_id: expect.any(Number),
        },
      })),
    )
    expect(await reported(ids)).toEqual(ids.map(() => 0))

    line.set('up')
    await stack.sql.query("update outbox set created_at = created_at - interval '1 minute'")
    await stack.scheduled('relay-outbox')
    await stack.scheduled('deliver-notifications')
    expect(await reported(ids)).toEqual(ids.map(() => 1))
    await stack.scheduled('relay-outbox')
    await stack.scheduled('deliver-notifications')
    expect(await reported(ids)).toEqual(ids.map(() => 1))
    expect(stack.queue.messages()).toEqual([])
  },
)
