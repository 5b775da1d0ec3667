import { describe, expect, test } from 'vitest'
import { notificationsCsv } from '../functions/dashboard/components/notification.tsx'
import { dispute, type Generation } from '../lib/local/stripe-events.ts'
import { approveDueCommissions } from '../lib/money/commissions.ts'
import { deleteOldWebhookEvents } from '../lib/processors/webhook-events.ts'
import { asNotification } from '../lib/notifications/notification-list.ts'
import { paidBy } from './support/payments.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState, reported, type Report } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { send, sold, report, rows, salesOf } = await openWebhook(endpoint)

const moved = (amount: number) => ({ amount, currency: 'usd' })

describe.each<Generation>(['old', 'new'])('disputes, in payloads of the %s generation', (generation) => {
  test.for<[what: string, events: Report[], refunded: number]>([
    ['one for the full amount', [reported('dp_1', 10_000)], 10_000],
    ['one for a part', [reported('dp_1', 2500)], 2500],
    ['a won dispute', [reported('dp_1', 10_000), reported('dp_1', 10_000, 'won')], 0],
    ['a dispute whose closing event arrives first', [reported('dp_1', 10_000, 'won'), reported('dp_1', 10_000)], 0],
    ['a refund and a dispute for the full amount', [reported('re_1', 3000), reported('dp_1', 10_000)], 10_000],
    [
      'a refund and a won dispute',
      [reported('re_1', 3000), reported('dp_1', 10_000), reported('dp_1', 10_000, 'won')],
      3000,
    ],
    [
      'a won dispute with a refund in between',
      [reported('dp_1', 10_000), reported('re_1', 3000), reported('dp_1', 10_000, 'won')],
      3000,
    ],
    [
      'a dispute beyond the remaining amount, and a refund that failed',
      [reported('re_1', 6000), reported('dp_1', 8000), reported('re_1', 6000, 'failed')],
      8000,
    ],
    [
      'a won dispute beyond the remaining amount, and a refund that failed',
      [reported('re_1', 6000), reported('dp_1', 8000), reported('re_1', 6000, 'failed'), reported('dp_1', 8000, 'won')],
      0,
    ],
  ])('%s', async ([, events, refunded]) => {
    const shop = await sold({ generation })
    for (const event of events) await report(shop, ...event)
    const status = { 0: 'pending', 10_000: 'reversed' }[refunded] ?? 'refunded'
    expect(await salesOf(shop)).toMatchObject([{ refunded, reversed: refunded / 5, status }])
  })

  test.each([
    ['lost, with an empty list and without earlier events', [], 'lost', [], 0],
    ['lost, with an empty list after a withdrawal', ['funds_withdrawn'], 'lost', [], 10_000],
    ['lost, with its debit', [], 'lost', [moved(-10_000)], 10_000],
    ['lost, with a part returned', [], 'lost', [moved(-10_000), moved(3000)], 7000],
    ['lost, after an earlier event', ['funds_withdrawn'], 'lost', [moved(-10_000)], 10_000],
    ['won, with `funds_reinstated` still to come', ['funds_withdrawn'], 'won', [moved(-10_000), moved(10_000)], 10_000],
    ['an inquiry', [], 'warning_closed', [], 0],
  ])('a dispute that closes: %s', async (_, before, status, moves, refunded) => {
    const shop = await sold({ generation })
    const closed = dispute(shop, { id: 'dp_1', amount: 10_000, status, ...paidBy })
    for (const type of before) await send(shop, `charge.dispute.${type}`, { ...closed, status: 'needs_response' })
    await send(shop, 'charge.dispute.closed', { ...closed, balance_transactions: moves })
    expect(await salesOf(shop)).toMatchObject([{ refunded, reversed: refunded / 5 }])
  })

  const inAnyOrder = [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
    [0, 2, 1],
  ]
  test.each(inAnyOrder.flatMap((order) => [false, true].map((isListed) => [order.join(), isListed, order] as const)))(
    'won, then lost again, and finally won: order %s, with balance transactions: %s',
    async (_, isListed, order) => {
      const shop = await sold({ generation })
      const dp = { id: 'dp_1', amount: 10_000, ...paidBy }
      const steps = [-10_000, 10_000, -10_000, 10_000].map(moved)
      const move = async (step: number) => {
        const kind = step % 2 === 0 ? 'funds_withdrawn' : 'funds_reinstated'
        const object = dispute(shop, { ...dp, status: step % 2 === 0 ? 'lost' : 'won' })
        const balance_transactions = isListed ? steps.slice(0, step + 1) : []
        const later = { ...shop, now: shop.now + step }
        return await send(
          later,
          `charge.dispute.${kind}`,
          { ...object, balance_transactions },
          `evt_${shop.programId}_${step}`,
        )
      }
      for (const step of order) await move(step)
      expect(await salesOf(shop)).toMatchObject([{ refunded: 10_000, reversed: 2000 }])
      // Closing a lost dispute only confirms the loss, and repeats have no effect.
      const closed = dispute(shop, { ...dp, status: 'lost' })
      await send(shop, 'charge.dispute.closed', { ...closed, balance_transactions: isListed ? steps.slice(0, 3) : [] })
      for (const step of order) await move(step)
      expect(await salesOf(shop)).toMatchObject([{ refunded: 10_000, reversed: 2000 }])
      await move(3)
      expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 0 }])
    },
  )

  test('funds that Stripe withdraws and reinstates in the same second count both times', async () => {
    const shop = await sold({ generation })
    const lost = {
      ...dispute(shop, { id: 'dp_1', amount: 10_000, status: 'lost', ...paidBy }),
      balance_transactions: [],
    }
    const refunded = []
    for (const kind of ['withdrawn', 'reinstated', 'withdrawn', 'reinstated']) {
      await send(shop, `charge.dispute.funds_${kind}`, lost)
      refunded.push((await salesOf(shop))[0]?.['refunded'])
    }
    expect(refunded).toEqual([10_000, 0, 10_000, 0])
  })

  test('a dispute that is lost again after the events of the first loss were deleted counts as lost', async () => {
    const shop = await sold({ generation })
    const lost = {
      ...dispute(shop, { id: 'dp_1', amount: 10_000, status: 'lost', ...paidBy }),
      balance_transactions: [],
    }
    await send(shop, 'charge.dispute.funds_withdrawn', lost)
    await send(shop, 'charge.dispute.funds_reinstated', lost)
    await sql.query("update processor_events set received_at = now() - interval '91 days' where account_id = $1", [
      shop.account,
    ])
    await sql.query(
      `update processor_reversals set created_at = now() - interval '91 days', returned_at = now() - interval '91 days'
      where account_id = $1`,
      [shop.account],
    )
    await deleteOldWebhookEvents(db, 100)
    await send(shop, 'charge.dispute.funds_withdrawn', lost)
    expect(await salesOf(shop)).toMatchObject([{ refunded: 10_000, reversed: 2000 }])
    await send({ ...shop, now: shop.now + 1 }, 'charge.dispute.funds_reinstated', lost)
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0, reversed: 0 }])
  })

  test('a won dispute is credited to the balance again, and the advertiser is asked to check', async () => {
    const shop = await sold({ generation })
    await sql.query('update commissions set hold_until = now() where program_id = $1', [shop.programId])
    await approveDueCommissions(db, 100)
    await report(shop, 'dp_1', 10_000)
    expect(await rows('select balance_cents::int as balance from balances where program_id = $1', shop)).toEqual([
      { balance: 0 },
    ])
    await report(shop, 'dp_1', 10_000, 'won')
    expect(await rows('select balance_cents::int as balance from balances where program_id = $1', shop)).toEqual([
      { balance: 2000 },
    ])
    expect(
      await rows(
        `select kind, audience, payload->>'amount_cents' as cents, payload->>'reason' as reason from outbox where program_id = $1 order by id`,
        shop,
      ),
    ).toMatchObject([
      { kind: 'commission_reversed', audience: 'partner', cents: '2000', reason: 'chargeback' },
      { kind: 'dispute_reinstated', audience: 'advertiser', cents: '2000' },
    ])
  })

  test('a dispute in a different currency than the sale waits for a person', async () => {
    const shop = await sold({ generation })
    const inEuros = dispute(shop, { id: 'dp_1', amount: 9000, currency: 'eur', ...paidBy })
    expect(await send(shop, 'charge.dispute.funds_withdrawn', inEuros)).toMatchObject({
      body: { outcome: 'ignored', reason: expect.stringMatching(/eur.*usd.*manually/) },
    })
    expect(await salesOf(shop)).toMatchObject([{ refunded: 0 }])
    const query = `select id, program_id, kind, payload, created_at, 'Shop' as program_name, 'Nora' as partner_name, false as read
      from outbox where program_id = $1 and kind = 'refund_not_converted'`
    const { rows: notices } = await sql.query(query, [shop.programId])
    expect(notificationsCsv(notices.map(asNotification))).toContain('€90.00 was charged back for the sale')
  })
})

testStoredState(sql)
