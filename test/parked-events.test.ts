import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { invoicePayment, refund, type Shop } from '../lib/local/stripe-events.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { connectProcessor, disconnectProcessor } from '../lib/processors/stripe/connect.ts'
import { applyParkedEvents, waitingEvents } from '../lib/processors/parked-events.ts'
import { deleteOldWebhookEvents, listWebhookEvents } from '../lib/processors/webhook-events.ts'
import { bill, oneTime } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, sold, stripe, report, rows, salesOf } = await openWebhook(endpoint)
const client = openStripe(env)

const disconnect = (shop: Shop) => disconnectProcessor(db, env, shop.programId)
const reconnect = (shop: Shop) => connectProcessor(db, shop.programId, shop.account)
const applyAll = ({ account: accountId }: Shop) => applyParkedEvents(db, client, { limit: 100, accountId })
const outcomesOf = async (shop: TestShop) =>
  (await listWebhookEvents(db, shop.programId, { limit: 100, before: undefined, livemode: true })).map(
    ({ outcome }) => outcome,
  )

/** The events of two payments, one with an invoice: a refund of each, and a won dispute. */
const reported: ((shop: Shop) => ReturnType<typeof send>)[] = [
  (shop) => send(shop, 'checkout.session.completed', oneTime(shop)),
  (shop) => report(shop, 're_1', 3000),
  (shop) => report(shop, 'dp_1', 2000),
  (shop) => report(shop, 'dp_1', 2000, 'won'),
  (shop) => send(shop, 'invoice.paid', bill(shop, { id: 'in_2', payment_intent: 'pi_2', charge: 'ch_2' })),
  (shop) =>
    send(
      shop,
      'invoice_payment.paid',
      invoicePayment(shop, { invoice: 'in_2', payment_intent: 'pi_2', amount: 10_000 }),
    ),
  (shop) => send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 10_000, payment_intent: 'pi_2' })),
]
const ends = [
  { refunded: 3000, commission: 2000, reversed: 600 },
  { refunded: 10_000, commission: 2000, reversed: 2000 },
]
const orders = fc.tuple(
  fc.shuffledSubarray(reported, { minLength: reported.length }),
  fc.nat({ max: reported.length }),
  fc.boolean(),
)

test('events of a disconnected account are parked, and applied once in any order when it is connected again', async () => {
  await fc.assert(
    fc.asyncProperty(orders, async ([order, before, hasOther]) => {
      const shop = await createShop(sql)
      if (hasOther) {
        await sql.query(
          `insert into programs (workspace_id, name, domain, processor_account_id)
          select workspace_id, 'Other', 'shop.example.com', processor_account_id from programs where id = $1`,
          [shop.programId],
        )
      }
      for (const event of order.slice(0, before)) await event(shop)
      await disconnect(shop)
      for (const event of order.slice(before)) expect((await event(shop)).status).toBe(200)
      const unapplied = await salesOf(shop)
      expect(await applyAll(shop)).toMatchObject({ failed: 0 })
      expect(await salesOf(shop)).toEqual(unapplied)
      await reconnect(shop)
      const done = await Promise.all([applyAll(shop), applyAll(shop)])
      expect(done).toMatchObject([{ failed: 0 }, { failed: 0 }])
      expect((await salesOf(shop)).toSorted((a, b) => Number(a['refunded']) - Number(b['refunded']))).toMatchObject(
        ends,
      )
      expect(await db.query(waitingEvents(shop.programId))).toEqual([])
      expect(await outcomesOf(shop)).not.toContain('parked')
      expect(await applyAll(shop)).toMatchObject({ applied: 0 })
    }),
    { numRuns: 25, seed: Number(process.env['SEED'] ?? 1) },
  )
})

test('the number of parked events and their account is shown until they are applied; other workspaces see nothing', async () => {
  const shop = await sold()
  const stranger = await createShop(sql)
  await disconnect(shop)
  await report(shop, 're_1', 3000)
  const named = { ...shop, programId: stranger.programId }
  await send(named, 'checkout.session.completed', oneTime(named, { id: 'cs_2', payment_intent: 'pi_2' }))
  await send(shop, 'refund.created', refund(shop, { id: 're_3', amount: 1, payment_intent: 'pi_unknown' }))
  expect(await db.query(waitingEvents(shop.programId))).toEqual([
    { account_id: shop.account, events: 2, oldest_at: expect.any(Date) },
  ])
  expect(await outcomesOf(shop)).toEqual(['parked', 'parked', 'recorded'])
  expect(await db.query(waitingEvents(stranger.programId))).toEqual([])
  // In the meantime, another account is connected to the program.
  await connectProcessor(db, shop.programId, `${shop.account}_next`)
  expect(await applyAll(shop)).toMatchObject({ applied: 0 })
  expect(await db.query(waitingEvents(shop.programId))).toMatchObject([{ account_id: shop.account, events: 2 }])
  await reconnect(shop)
  expect(await applyAll(shop)).toMatchObject({ applied: 2 })
  expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
})

test('events are also parked after the owner revoked access', async () => {
  const shop = await sold()
  await send({ ...shop, now: shop.now + 5 }, 'account.application.deauthorized', { id: 'ca_1', object: 'application' })
  expect(await report(shop, 're_1', 3000)).toMatchObject({ body: { outcome: 'parked', reason: /disconnected/ } })
})

test('an event that fails to apply waits for the next run, and so does one that arrived while the account was connected', async () => {
  const shop = await createShop(sql)
  await disconnect(shop)
  await send(shop, 'charge.refunded', { id: 'ch_1', object: 'charge', payment_intent: 'pi_1' })
  await send(shop, 'checkout.session.completed', oneTime(shop))
  stripe.refunds.set('ch_1', [refund(shop, { id: 're_1', amount: 3000, payment_intent: 'pi_1' })])
  await reconnect(shop)
  stripe.fail(500, 3)
  expect(await applyAll(shop)).toMatchObject({ applied: 1, failed: 1 })
  expect(await applyAll(shop)).toMatchObject({ applied: 1, failed: 0 })
  expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
  stripe.refunds.clear()
})

test('parked events are kept for 90 days', async () => {
  const shop = await sold()
  await disconnect(shop)
  await report(shop, 're_1', 3000)
  const age = (days: number) =>
    rows(`update processor_events set received_at = now() - interval '${days} days' where program_id = $1`, shop)
  await age(89)
  await deleteOldWebhookEvents(db, 1000)
  expect(await db.query(waitingEvents(shop.programId))).toHaveLength(1)
  await age(91)
  await deleteOldWebhookEvents(db, 1000)
  expect(await db.query(waitingEvents(shop.programId))).toEqual([])
})

testStoredState(sql)
