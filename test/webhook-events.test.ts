import { describe, expect, test } from 'vitest'
import {
  capturedCharge,
  dispute,
  invoicePayment,
  paymentIntent,
  refund,
  type Shop,
  stripeEvent,
} from '../lib/local/stripe-events.ts'
import { openStripe } from '../lib/processors/stripe/client.ts'
import { applyParkedEvents } from '../lib/processors/parked-events.ts'
import { seal, unseal } from '../lib/processors/seal.ts'
import {
  deleteOldWebhookEvents,
  listUnreadEvents,
  listWebhookEvents,
  replayWebhookEvent,
} from '../lib/processors/webhook-events.ts'
import { bill, firstPayment, oneTime, paidBy } from './support/payments.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, rows, salesOf } = await openWebhook(endpoint)
const client = openStripe(env)

describe('the log of webhook events', () => {
  test("shows each event's result, newest first, page by page", async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    await send(shop, 'invoice.paid', bill(shop, { metadata: {} }), 'evt_b')
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    const all = await listWebhookEvents(db, shop.programId, { limit: 10, before: undefined, livemode: true })
    expect(all).toMatchObject([
      {
        event_id: 'evt_b',
        event_type: 'invoice.paid',
        outcome: 'ignored',
        reason: "Its metadata contains no program, and the program does not attribute known customers' payments.",
        deliveries: 1,
      },
      {
        event_id: 'evt_a',
        event_type: 'checkout.session.completed',
        outcome: 'recorded',
        reason: null,
        deliveries: 2,
        livemode: true,
      },
    ])
    expect(await listWebhookEvents(db, shop.programId, { limit: 10, before: 'evt_b', livemode: true })).toEqual(
      all.slice(1),
    )
    expect(
      await listWebhookEvents(db, (await createShop(sql)).programId, { limit: 10, before: undefined, livemode: true }),
    ).toEqual([])
  })

  test('replays an event that could not be recorded before', async () => {
    const shop = await createShop(sql)
    await sql.query('update programs set processor_account_id = null where id = $1', [shop.programId])
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_early')
    await sql.query('update programs set processor_account_id = $2 where id = $1', [shop.programId, shop.account])
    expect(await replayWebhookEvent(db, client, env.EMAIL_HASH_KEY, shop.programId, 'evt_early')).toMatchObject({
      outcome: 'recorded',
    })
    expect(await salesOf(shop)).toMatchObject([{ known_as: 'user-1', commission: 2000 }])
  })

  test('replays everything without changing anything', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy }), 'evt_b')
    await send(
      shop,
      'charge.dispute.funds_withdrawn',
      dispute(shop, { id: 'dp_1', amount: 10_000, ...paidBy }),
      'evt_c',
    )
    const before = await salesOf(shop)
    for (const id of ['evt_c', 'evt_a', 'evt_b', 'evt_a']) {
      expect(await replayWebhookEvent(db, client, env.EMAIL_HASH_KEY, shop.programId, id)).toMatchObject({
        outcome: 'recorded',
        outbox: [],
      })
    }
    expect(await salesOf(shop)).toEqual(before)
  })

  test('replays no event of another program', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_mine')
    const other = await createShop(sql)
    await expect(replayWebhookEvent(db, client, env.EMAIL_HASH_KEY, other.programId, 'evt_mine')).rejects.toMatchObject(
      {
        code: 'not_found',
      },
    )
  })

  test('deletes events and parked events after 90 days, but keeps the parts of a sale', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop))
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy }))
    await send(shop, 'refund.created', refund(shop, { id: 're_2', amount: 100, payment_intent: 'pi_8' }))
    await sql.query(`update processor_events set received_at = now() - interval '89 days'`)
    expect(await deleteOldWebhookEvents(db, 10)).toEqual({ webhook_events: 0, reversals: 0, sessions: 0, more: false })
    await sql.query(`update processor_events set received_at = now() - interval '91 days' where account_id = $1`, [
      shop.account,
    ])
    await sql.query(`update processor_reversals set created_at = now() - interval '91 days' where account_id = $1`, [
      shop.account,
    ])
    const batches = [await deleteOldWebhookEvents(db, 2), await deleteOldWebhookEvents(db, 2)]
    expect(batches).toEqual([
      { webhook_events: 2, reversals: 1, sessions: 0, more: true },
      { webhook_events: 1, reversals: 0, sessions: 0, more: false },
    ])
    expect(await listWebhookEvents(db, shop.programId, { limit: 10, before: undefined, livemode: true })).toEqual([])
    // An event that was reported doesn't count again, no matter how old it is.
    await send(shop, 'checkout.session.completed', oneTime(shop))
    await send(shop, 'refund.created', refund(shop, { id: 're_1', amount: 3000, ...paidBy }))
    expect(await salesOf(shop)).toMatchObject([{ refunded: 3000, reversed: 600 }])
    expect(
      await send(shop, 'refund.failed', refund(shop, { id: 're_1', amount: 3000, status: 'failed', ...paidBy })),
    ).toMatchObject({ body: { outcome: 'recorded' } })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 0 }])
  })
})

const deauthorize = (shop: Shop) =>
  send(shop, 'account.application.deauthorized', { id: 'ca_1', object: 'application', name: 'Service' })

const connected = async (shop: Shop) =>
  (await rows('select processor_account_id as account from programs where id = $1', shop))[0]?.['account'] !== null

describe('account.application.deauthorized', () => {
  test.for<[string, Partial<Shop>, string, boolean]>([
    ['disconnects the programs of the account', {}, 'null', false],
    ['that ended an older connection does not end a newer one', {}, "now() + interval '1 minute'", true],
    ['of test mode does not end a live connection', { livemode: false }, 'null', true],
  ])('%s', async ([, sender, connectedAt, stays]) => {
    const shop = await createShop(sql)
    await sql.query(`update programs set processor_connected_at = ${connectedAt} where id = $1`, [shop.programId])
    expect(await deauthorize({ ...shop, ...sender })).toMatchObject({
      status: 200,
      body: { outcome: stays ? 'ignored' : 'recorded' },
    })
    expect(await connected(shop)).toBe(stays)
    const reported = `select kind from outbox where program_id = $1 and kind = 'processor_disconnected' and audience = 'advertiser'`
    expect(await rows(reported, shop)).toHaveLength(stays ? 0 : 1)
  })
})

const unreadable = (shop: Shop) => ({ ...oneTime(shop), amount_total: 'a hundred' })

/** The events of a shop's account, and the stored payloads of unreadable events. */
const stored = (shop: Shop) =>
  rows(
    `select e.outcome, e.payload is not null as stored, e.payload::text as payload from processor_events e
    join programs p on p.processor_account_id = e.account_id where p.id = $1 order by e.event_id`,
    shop,
  )

const notices = (shop: Shop) =>
  rows(`select kind, payload->>'reason' as reason from outbox where program_id = $1 and kind = 'payment_ignored'`, shop)
const unknown = { metadata: {}, id: 'in_9', payment_intent: 'pi_9', charge: 'ch_9' }

describe('an unreadable payload', () => {
  test('is stored encrypted, and recorded when it is replayed after a fix', async () => {
    const shop = await createShop(sql)
    const answer = await send(shop, 'checkout.session.completed', unreadable(shop), 'evt_unread')
    expect(answer).toMatchObject({
      status: 200,
      body: { outcome: 'ignored', reason: expect.stringMatching(/could not be read: amount_total/) },
    })
    expect(await stored(shop)).toEqual([
      { outcome: 'ignored', stored: true, payload: expect.stringMatching(/^\\x[0-9a-f]+$/) },
    ])
    expect(await replayWebhookEvent(db, client, env.EMAIL_HASH_KEY, shop.programId, 'evt_unread')).toMatchObject({
      outcome: 'ignored',
    })
    expect(await stored(shop)).toMatchObject([{ stored: true }])

    // Simulates the fix: a payload that the current schema can read replaces the unreadable one.
    const mended = JSON.stringify(stripeEvent(shop, 'evt_unread', 'checkout.session.completed', oneTime(shop)))
    await sql.query('update processor_events set payload = $2 where account_id = $1', [
      shop.account,
      await seal(env.EMAIL_HASH_KEY, 'unread webhook payload', 'evt_unread', mended),
    ])
    expect(await listUnreadEvents(db, shop.programId)).toEqual([{ event_id: 'evt_unread', program_id: shop.programId }])
    expect(await replayWebhookEvent(db, client, env.EMAIL_HASH_KEY, shop.programId, 'evt_unread')).toMatchObject({
      outcome: 'recorded',
    })
    expect(await salesOf(shop)).toMatchObject([{ amount: 10_000, commission: 2000 }])
    expect(await stored(shop)).toMatchObject([{ outcome: 'recorded', stored: false }])
    expect(await listUnreadEvents(db, shop.programId)).toEqual([])
  })

  test('in test mode, of an unused type, or already read is not stored', async () => {
    const shop = await createShop(sql)
    await send({ ...shop, livemode: false }, 'checkout.session.completed', unreadable(shop))
    await send(shop, 'product.created', { id: 'prod_1' })
    await send(shop, 'checkout.session.completed', oneTime(shop))
    expect((await stored(shop)).map((event) => event['stored'])).toEqual([false, false, false])
  })

  test('is kept for 30 days', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', unreadable(shop), 'evt_old')
    await send(shop, 'checkout.session.completed', unreadable(shop), 'evt_new')
    await sql.query(
      `update processor_events set received_at = now() - interval '31 days' where account_id = $1 and event_id = 'evt_old'`,
      [shop.account],
    )
    await deleteOldWebhookEvents(db, 10)
    expect(await stored(shop)).toMatchObject([{ stored: true }, { stored: false }])
  })

  test("can't be decrypted with another secret or for another event", async () => {
    const sealed = await seal('secret', 'unread webhook payload', 'evt_1', 'text')
    expect(await seal('secret', 'unread webhook payload', 'evt_1', 'text')).not.toBe(sealed)
    expect(await unseal('secret', 'unread webhook payload', 'evt_1', sealed)).toBe('text')
    expect(await unseal('other', 'unread webhook payload', 'evt_1', sealed)).toBeUndefined()
    expect(await unseal('secret', 'unread webhook payload', 'evt_2', sealed)).toBeUndefined()
  })
})

const aDayLater = async (shop: Shop) => {
  await sql.query(`update processor_events set received_at = received_at - interval '25 hours' where account_id = $1`, [
    shop.account,
  ])
  for (let times = 0; times < 2; times++) await applyParkedEvents(db, client, { limit: 100, accountId: shop.account })
}
const stranger = (shop: Shop) => ({ ...shop, customer: 'cus_other' })
const first = { ...unknown, billing_reason: 'subscription_create', subscription: 'sub_9' }
const intent = (shop: Shop) => paymentIntent(shop, { id: 'pi_9', charge: 'ch_9', amount: 100, metadata: {} })
const taken = (shop: Shop) =>
  capturedCharge(shop, { id: 'ch_9', payment_intent: 'pi_9', amount: 100, captured: 50, metadata: {} })

describe('an ignored live event', () => {
  test.each<[string, (shop: Shop) => [type: string, object: Record<string, unknown>], reported: number]>([
    ['a renewal of a known customer without metadata', (shop) => ['invoice.paid', bill(shop, unknown)], 1],
    [
      'a renewal of a known subscription with an unknown customer',
      (shop) => ['invoice.paid', bill({ ...shop, customer: 'cus_other' }, unknown)],
      1,
    ],
    [
      'a renewal of an unknown customer',
      (shop) => ['invoice.paid', bill({ ...shop, customer: 'cus_other' }, { ...unknown, subscription: 'sub_other' })],
      0,
    ],
    [
      'a first invoice that may get its session later',
      (shop) => ['invoice.paid', bill(shop, { ...unknown, billing_reason: 'subscription_create' })],
      0,
    ],
    ['the invoice of a recorded payment', (shop) => ['invoice.paid', bill(shop, { metadata: {} })], 0],
    [
      'an unreadable refund of a known payment',
      (shop) => [
        'refund.created',
        {
          ...refund(shop, { id: 're_1', amount: 1, ...paidBy }),
          amount: 'one',
        },
      ],
      1,
    ],
    ['an unused type', (shop) => ['customer.updated', { id: shop.customer, object: 'customer' }], 0],
  ])('%s', async (_, event, reported) => {
    const shop = await createShop(sql)
    await send(shop, 'invoice.paid', bill(shop))
    await send(
      shop,
      'invoice_payment.paid',
      invoicePayment(shop, { invoice: 'in_1', payment_intent: 'pi_1', amount: 1 }),
    )
    const [type, object] = event(shop)
    for (let times = 0; times < 2; times++) {
      await send(shop, type, object, 'evt_ignored')
      await send({ ...shop, livemode: false }, type, object)
    }
    expect(await notices(shop)).toHaveLength(reported)
  })

  test.each<[string, (shop: Shop) => [type: string, object: Record<string, unknown>][], reported: number]>([
    ['a first invoice', (shop) => [['invoice.paid', bill(shop, first)]], 1],
    ['an intent', (shop) => [['payment_intent.succeeded', intent(shop)]], 1],
    ['a captured charge', (shop) => [['charge.captured', taken(shop)]], 1],
    [
      'intent, charge and invoice of one payment',
      (shop) => [
        ['payment_intent.succeeded', intent(shop)],
        ['charge.captured', taken(shop)],
        ['invoice.paid', bill(shop, first)],
        ['invoice_payment.paid', invoicePayment(shop, { invoice: 'in_9', payment_intent: 'pi_9', amount: 100 })],
      ],
      1,
    ],
    [
      'a first invoice whose session arrived later',
      (shop) => [
        ['invoice.paid', bill(shop, first)],
        ['checkout.session.completed', firstPayment(shop, { invoice: 'in_9', subscription: 'sub_9' })],
      ],
      0,
    ],
    ['a first invoice of an unknown customer', (shop) => [['invoice.paid', bill(stranger(shop), first)]], 0],
    ['an intent of an unknown customer', (shop) => [['payment_intent.succeeded', intent(stranger(shop))]], 0],
  ])('%s without metadata that stays unexplained for a day', async (_, events, reported) => {
    const shop = await createShop(sql)
    await send(shop, 'invoice.paid', bill(shop))
    for (const [type, object] of events(shop)) await send(shop, type, object)
    await applyParkedEvents(db, client, { limit: 100, accountId: shop.account })
    expect(await notices(shop)).toEqual([])
    await aDayLater(shop)
    expect(await notices(shop)).toHaveLength(reported)
    await aDayLater(shop)
    expect(await notices(shop)).toHaveLength(reported)
    expect(await salesOf(shop)).toHaveLength(reported === 0 && events(shop).length === 2 ? 2 : 1)
  })
})

testStoredState(sql)
