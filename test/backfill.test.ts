import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, test, vi } from 'vitest'
import { customer, dispute, paymentIntent, refund, type Shop } from '../lib/local/stripe-events.ts'
import {
  continueBackfill,
  readBackfill,
  resumeBackfill,
  startBackfill,
  stepBackfill,
  stopBackfill,
} from '../lib/processors/stripe/backfill.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { attributeKnownCustomers } from '../lib/processors/known-customers.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { bill, firstPayment, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, stripe, rows, salesOf } = await openWebhook(endpoint)
const client = openStripe(env)

const step = (shop: Shop) => stepBackfill(db, client, env.EMAIL_HASH_KEY, shop.programId)
const goOn = (shop: Shop) =>
  continueBackfill(db, client, env.EMAIL_HASH_KEY, { programId: shop.programId, seconds: 60 })
const readPast = async (shop: Shop, months = 3) => {
  await startBackfill(db, shop.programId, months)
  await goOn(shop)
}

type Objects = Record<string, unknown>[]

/** Adds past payments to an account at the fake Stripe. */
function has(
  shop: Shop,
  past: {
    customers?: Objects
    sessions?: Objects
    subscriptions?: Objects
    invoices?: Objects
    intents?: Objects
    refunds?: Objects
    disputes?: Objects
  },
) {
  const paths = {
    customers: '/v1/customers',
    sessions: '/v1/checkout/sessions',
    subscriptions: '/v1/subscriptions',
    invoices: '/v1/invoices',
    intents: '/v1/payment_intents',
    refunds: '/v1/refunds',
    disputes: '/v1/disputes',
  } as const
  for (const [kind, path] of Object.entries(paths)) {
    stripe.lists.set(`${shop.account} ${path}`, past[kind as keyof typeof paths] ?? [])
  }
}

const day = 86_400

/** A shop with a customer who came 80 days ago. */
async function oldShop(): Promise<TestShop> {
  const shop = await createShop(sql)
  await sql.query(
    `update customers set created_at = now() - interval '80 days', last_click_at = now() - interval '80 days' where program_id = $1`,
    [shop.programId],
  )
  return { ...shop, now: shop.now - 79 * day }
}

const later = (shop: TestShop, days: number): TestShop => ({ ...shop, now: shop.now + days * day })
const paidBy = (id: string) => ({ data: [{ payment: { type: 'payment_intent', payment_intent: `pi_${id}` } }] })
const invoiceOf = (shop: TestShop, id: string, more: Partial<Parameters<typeof bill>[1]> = {}) => ({
  ...bill(shop, { id, metadata: {}, ...more }),
  payments: paidBy(id),
})
const sent = (shop: TestShop, id: string) => ({ ...invoiceOf(shop, id), subscription: null, parent: null })
const subscription = (shop: TestShop, id: string, metadata?: object) => ({
  id,
  object: 'subscription',
  created: shop.now,
  customer: shop.customer,
  livemode: shop.livemode,
  status: 'active',
  metadata: metadata ?? { program_id: String(shop.programId), svc_click_id: shop.clickId },
})

async function endOf(shop: TestShop) {
  const sales = await salesOf(shop)
  return sales
    .map(({ transaction_id: id, partner_id: partner, commission, reversed }) => ({ id, partner, commission, reversed }))
    .toSorted((a, b) => String(a.id).localeCompare(String(b.id)))
}
const earned = (shop: TestShop, id: string, reversed = 0) => ({
  id,
  partner: shop.partnerId,
  commission: 2000,
  reversed,
})

describe("importing an account's past payments", () => {
  test("records the program's payments with their refunds and disputes, and doesn't store other payments", async () => {
    const shop = await oldShop()
    const stranger = { ...shop, customer: 'cus_stranger', email: 'eve@example.com', clickId: null, customerKey: null }
    has(shop, {
      sessions: [
        firstPayment(shop),
        { ...oneTime(shop, { id: 'cs_open', payment_intent: 'pi_open' }), status: 'open' },
        oneTime(stranger, { id: 'cs_x', payment_intent: 'pi_x', metadata: {} }),
      ],
      subscriptions: [subscription(shop, 'sub_1'), subscription(stranger, 'sub_x', {})],
      invoices: [
        invoiceOf(shop, 'in_1', { billing_reason: 'subscription_create' }),
        // This invoice has no metadata, so its subscription's metadata applies.
        invoiceOf(later(shop, 30), 'in_2'),
        invoiceOf(later(stranger, 30), 'in_x', { subscription: 'sub_x' }),
        { ...invoiceOf(later(shop, 31), 'in_draft'), status: 'draft' },
      ],
      intents: [
        paymentIntent(shop, { id: 'pi_3', charge: 'ch_3', amount: 10_000 }),
        { ...paymentIntent(shop, { id: 'pi_4', charge: 'ch_4', amount: 10_000 }), status: 'canceled' },
      ],
      refunds: [
        refund(later(shop, 31), { id: 're_2', amount: 5000, payment_intent: 'pi_in_2', charge: 'ch_2' }),
        refund(later(shop, 31), { id: 're_x', amount: 5000, payment_intent: 'pi_in_x', charge: 'ch_x' }),
      ],
      disputes: [
        dispute(later(shop, 32), { id: 'dp_3', amount: 10_000, charge: 'ch_3', payment_intent: 'pi_3' }),
        dispute(later(shop, 32), {
          id: 'dp_1',
          amount: 10_000,
          charge: 'ch_1',
          payment_intent: 'pi_in_1',
          status: 'won',
        }),
      ],
    })
    await readPast(shop)
    const end = [earned(shop, 'in_1'), earned(shop, 'in_2', 1000), earned(shop, 'pi_3', 2000)]
    expect(await endOf(shop)).toEqual(end)
    const counted = await readBackfill(db, shop.programId)
    expect(counted).toMatchObject({ status: 'done', objects_read: 13, problem: null })

    await readPast(shop)
    expect(await endOf(shop)).toEqual(end)
    expect(await readBackfill(db, shop.programId)).toMatchObject({ objects_read: 13, events_recorded: 0 })
    expect(
      await rows(
        `select event_id from processor_events where account_id = (select processor_account_id from programs where id = $1) and fact::text ~ '_x'`,
        shop,
      ),
    ).toEqual([])
  })

  test("attributes invoices without metadata, and later ones, through their customer's metadata", async () => {
    const shop = await oldShop()
    const stranger = { ...shop, customer: 'cus_stranger', email: 'eve@example.com' }
    has(shop, {
      customers: [customer(shop), customer(stranger, {})],
      invoices: [sent(shop, 'in_1'), sent(stranger, 'in_x'), sent(later(shop, -20), 'in_0')],
    })
    await readPast(shop, 12)
    await readPast(shop, 12)
    const { commission: _, ...nobodys } = earned(shop, 'in_0', 0)
    expect(await endOf(shop)).toEqual([
      { ...nobodys, partner: null, commission: null, reversed: null },
      earned(shop, 'in_1'),
    ])
    await send(later(shop, 60), 'invoice.paid', sent(later(shop, 60), 'in_2'))
    expect(await endOf(shop)).toContainEqual(earned(shop, 'in_2'))
  })

  test('reads no further back than requested', async () => {
    const shop = await oldShop()
    has(shop, { invoices: [invoiceOf(shop, 'in_1', { metadata: { program_id: String(shop.programId) } })] })
    await readPast(shop, 1)
    expect(await salesOf(shop)).toEqual([])
    await readPast(shop, 3)
    expect(await salesOf(shop)).toHaveLength(1)
  })

  test('earns nothing on purchases that happened before the partner referred the buyer', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop))
    const before = { ...shop, now: shop.now - 40 * day, clickId: null }
    has(shop, {
      sessions: [oneTime(before, { id: 'cs_0', payment_intent: 'pi_0' })],
    })
    await readPast(shop)
    expect(await endOf(shop)).toEqual([
      { id: 'pi_0', partner: null, commission: null, reversed: null },
      earned(shop, 'pi_1'),
    ])
  })

  test('excludes payments of known customers without metadata until the program attributes them', async () => {
    const shop = await oldShop()
    has(shop, { sessions: [firstPayment(shop)], invoices: [invoiceOf(later(shop, 30), 'in_2')] })
    await readPast(shop)
    expect(await endOf(shop)).toEqual([earned(shop, 'in_1')])
    await attributeKnownCustomers(db, shop.programId)
    await applyParkedEvents(db, client, { limit: 10, accountId: shop.account })
    expect(await endOf(shop)).toEqual([earned(shop, 'in_1'), earned(shop, 'in_2')])
  })
  test('attributes excluded payments of a customer whose metadata arrives later', async () => {
    const shop = await oldShop()
    has(shop, { sessions: [firstPayment(shop)], invoices: [invoiceOf(later(shop, 30), 'in_2')] })
    await readPast(shop)
    expect(await endOf(shop)).toEqual([earned(shop, 'in_1')])
    await send(later(shop, 31), 'customer.updated', customer(shop))
    await applyParkedEvents(db, client, { limit: 10, accountId: shop.account })
    expect(await endOf(shop)).toEqual([earned(shop, 'in_1'), earned(shop, 'in_2')])
  })
})

const buyers = 50
const many = 250

/** 250 invoices for 50 buyers. Two of three buyers have a click, and every third is unattributed. */
async function manyInvoices(shop: TestShop): Promise<Objects> {
  const clicks = Array.from({ length: buyers }, (_, n) => `cust_1_${n}0${shop.programId}`)
  await sql.query(
    `insert into customers (program_id, click_id, link_id, partner_id, created_at, last_click_at)
    select $1, click, $2, $3, now() - interval '80 days', now() - interval '80 days' from unnest($4::text[]) click`,
    [shop.programId, shop.linkId, shop.partnerId, clicks],
  )
  return Array.from({ length: many }, (_, n) => {
    const buyer = n % buyers
    const at = later({ ...shop, customer: `cus_${buyer}`, email: `${buyer}@example.org` }, n / 5)
    const metadata = { program_id: String(shop.programId), svc_click_id: String(clicks[buyer]) }
    return invoiceOf(at, `in_${n}`, {
      subscription: `sub_${buyer}`,
      amount_paid: 1000 + n,
      metadata: buyer % 3 === 0 ? {} : metadata,
    })
  })
}

const totalsOf = (shop: Shop) =>
  rows(
    `select (select json_agg(json_build_array(transaction_id, amount_cents, customer_id is not null) order by transaction_id) from sales where program_id = $1) as sales,
      (select json_agg(amount_cents order by amount_cents) from commissions where program_id = $1) as commissions`,
    shop,
  )

describe('many invoices', () => {
  test("have the same result despite an interruption and Stripe's rate limits", async () => {
    const whole = await oldShop()
    has(whole, { invoices: await manyInvoices(whole) })
    await readPast(whole)
    const end = await totalsOf(whole)
    expect(await readBackfill(db, whole.programId)).toMatchObject({
      status: 'done',
      objects_read: many,
      events_recorded: 165,
    })

    const broken = await oldShop()
    has(broken, { invoices: await manyInvoices(broken) })
    await startBackfill(db, broken.programId, 3)
    for (let page = 0; page < 5; page += 1) await step(broken)
    await stopBackfill(db, broken.programId)
    expect(await step(broken)).toMatchObject({ status: 'stopped' })
    const middle = await readBackfill(db, broken.programId)
    expect(middle).toMatchObject({ status: 'stopped', kind: 'invoices', objects_read: 200 })
    await resumeBackfill(db, broken.programId)
    stripe.fail(429, 1)
    expect(await step(broken)).toMatchObject({ status: 'waits' })
    expect(await readBackfill(db, broken.programId)).toMatchObject({
      status: 'running',
      objects_read: 200,
      problem: 'Stripe is limiting calls. Reading continues later.',
    })
    await goOn(broken)
    expect(await totalsOf(broken)).toEqual(end)
    expect(await readBackfill(db, broken.programId)).toMatchObject({
      status: 'done',
      objects_read: many,
      problem: null,
    })

    await readPast(broken)
    expect(await totalsOf(broken)).toEqual(end)
  })

  test('become one sale each if two imports and webhooks deliver them at once', async () => {
    const shop = await oldShop()
    const invoices = await manyInvoices(shop)
    has(shop, { invoices })
    await startBackfill(db, shop.programId, 3)
    const live = async () => {
      for (const one of invoices.slice(-60).toReversed()) await send(shop, 'invoice.paid', one)
    }
    await Promise.all([goOn(shop), goOn(shop), live()])
    expect(await salesOf(shop)).toHaveLength(165)
    expect(await readBackfill(db, shop.programId)).toMatchObject({ status: 'done', objects_read: many })
  })
})

/** Returns the exit code and the output of the command. */
function runCommand(shop: Shop, stripeUrl: string, ...options: string[]) {
  const { DATABASE_URL, NEON_ENDPOINT } = endpoint.env
  const { EMAIL_HASH_KEY, STRIPE_SECRET_KEY } = env
  const child = spawn(process.execPath, ['lib/commands/backfill.ts', String(shop.programId), ...options], {
    env: { DATABASE_URL, NEON_ENDPOINT, EMAIL_HASH_KEY, STRIPE_SECRET_KEY, STRIPE_API_URL: stripeUrl, NO_COLOR: '1' },
  })
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return {
    interrupt: () => child.kill('SIGINT'),
    ended: ended.then(([stdout, stderr, [code]]) => ({ code: Number(code), lines: stdout.trim().split('\n'), stderr })),
  }
}

test('npm run backfill stops at Ctrl-C, continues later, and starts over with an explicit start date', async () => {
  const shop = await oldShop()
  has(shop, { invoices: await manyInvoices(shop) })
  // Sends Ctrl-C while the command waits for the second page of invoices.
  let onSecondPage: (() => Promise<unknown>) | undefined
  const slow = createServer((request, response) => {
    void (async () => {
      if (request.url?.startsWith('/v1/invoices?') && request.url.includes('starting_after')) {
        const press = onSecondPage
        onSecondPage = undefined
        await press?.()
      }
      const headers = { 'stripe-account': String(request.headers['stripe-account']) }
      const answer = await fetch(`${stripe.url}${request.url}`, { headers })
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
    })()
  }).listen(0, '127.0.0.1')
  await once(slow, 'listening')
  const url = `http://127.0.0.1:${(slow.address() as AddressInfo).port}`

  const first = runCommand(shop, url, '--months', '3')
  onSecondPage = async () => {
    first.interrupt()
    await vi.waitUntil(async () => (await readBackfill(db, shop.programId))?.status === 'stopped', { timeout: 60_000 })
  }
  const stopped = await first.ended
  expect(stopped).toMatchObject({ code: 0, stderr: '' })
  expect(stopped.lines.at(-1)).toMatch(/^stopped at invoices: 100 read, \d+ recorded$/)

  const second = await runCommand(shop, url).ended
  expect(second.lines[0]).toMatch(/^reading invoices: 200 read/)
  expect(second.lines.at(-1)).toMatch(/^done: 250 read/)
  expect(await salesOf(shop)).toHaveLength(165)
  const third = await runCommand(shop, url, '--months', '3').ended
  expect(third.lines.at(-1)).toBe('done: 250 read, 0 recorded')
  expect(await salesOf(shop)).toHaveLength(165)

  await sql.query('update programs set processor_account_id = null where id = $1', [shop.programId])
  expect(await runCommand(shop, url).ended).toMatchObject({ code: 1, stderr: 'Connect Stripe first.\n' })
  slow.closeAllConnections()
  slow.close()
}, 60_000)

test('the import of a disconnected account stops', async () => {
  const shop = await oldShop()
  has(shop, { invoices: await manyInvoices(shop) })
  await startBackfill(db, shop.programId, 3)
  await sql.query('update programs set processor_account_id = null where id = $1', [shop.programId])
  expect(await step(shop)).toMatchObject({ status: 'stopped' })
  expect(await readBackfill(db, shop.programId)).toMatchObject({
    status: 'stopped',
    problem: 'Stripe was disconnected.',
  })
  await expect(startBackfill(db, shop.programId, 3)).rejects.toThrow('Connect Stripe first.')
})

testStoredState(sql)
