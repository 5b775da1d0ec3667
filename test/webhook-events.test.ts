import { describe, expect, test } from 'vitest'
import { dispute, refund, type Shop } from '../lib/local/stripe-events.ts'
import { openStripe } from '../lib/stripe/client.ts'
import { deleteOldWebhookEvents, listWebhookEvents, replayWebhookEvent } from '../lib/stripe/webhook-events.ts'
import { bill, oneTime, paidBy } from './support/payments.ts'
import { createShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testWhatIsKept } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { env, send, rows, salesOf } = await openWebhook(endpoint)

describe('the log of webhook events', () => {
  const client = openStripe(env)
  test('says what became of each event, newest first, page by page', async () => {
    const shop = await createShop(sql)
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    await send(shop, 'invoice.paid', bill(shop, { metadata: {} }), 'evt_b')
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_a')
    const all = await listWebhookEvents(db, shop.programId, { limit: 10, before: undefined })
    expect(all).toMatchObject([
      {
        event_id: 'evt_b',
        event_type: 'invoice.paid',
        outcome: 'ignored',
        reason: 'Its metadata names no program.',
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
    expect(await listWebhookEvents(db, shop.programId, { limit: 10, before: 'evt_b' })).toEqual(all.slice(1))
    expect(await listWebhookEvents(db, (await createShop(sql)).programId, { limit: 10, before: undefined })).toEqual([])
  })

  test('replays an event that could not be recorded before', async () => {
    const shop = await createShop(sql)
    await sql.query('update programs set processor_account_id = null where id = $1', [shop.programId])
    await send(shop, 'checkout.session.completed', oneTime(shop), 'evt_early')
    await sql.query('update programs set processor_account_id = $2 where id = $1', [shop.programId, shop.account])
    expect(await replayWebhookEvent(db, client, shop.programId, 'evt_early')).toMatchObject({ outcome: 'recorded' })
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
      expect(await replayWebhookEvent(db, client, shop.programId, id)).toMatchObject({
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
    await expect(replayWebhookEvent(db, client, other.programId, 'evt_mine')).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('deletes after 90 days, and what was parked with it; what became part of a sale stays', async () => {
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
      { webhook_events: 2, reversals: 2, sessions: 0, more: true },
      { webhook_events: 1, reversals: 0, sessions: 0, more: false },
    ])
    expect(await listWebhookEvents(db, shop.programId, { limit: 10, before: undefined })).toEqual([])
    // What was told once is not counted again, however old it is.
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
    ['that an older connection ended does not end a newer one', {}, "now() + interval '1 minute'", true],
    ['of test mode does not end a live connection', { livemode: false }, 'null', true],
  ])('%s', async ([, sender, connectedAt, stays]) => {
    const shop = await createShop(sql)
    await sql.query(`update programs set processor_connected_at = ${connectedAt} where id = $1`, [shop.programId])
    expect(await deauthorize({ ...shop, ...sender })).toMatchObject({
      status: 200,
      body: { outcome: stays ? 'ignored' : 'recorded' },
    })
    expect(await connected(shop)).toBe(stays)
  })
})

testWhatIsKept(sql)
