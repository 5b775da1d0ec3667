import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { generateApiKey } from '../lib/access/api-keys.ts'
import { invoicePayment, refund } from '../lib/local/stripe-events.ts'
import { approveCommissions, approveDueCommissions, rejectCommission } from '../lib/money/commissions.ts'
import { refundSale } from '../lib/money/refunds.ts'
import { recordSale } from '../lib/money/sales.ts'
import { askPayout, payPayout } from '../lib/money/payouts.ts'
import { noSale, transfer } from './support/ledger.ts'
import { bill, firstPayment } from './support/payments.ts'
import { createShop, type TestShop } from './support/shops.ts'
import { startEndpoint } from './support/stack.ts'
import { openWebhook, testStoredState } from './support/webhook.ts'

const endpoint = await startEndpoint()
const { db, sql } = endpoint
const { send, rows, report, salesOf } = await openWebhook(endpoint)

const day = 86_400

/** A session of 50.00 and its invoice, with this amount paid by card. */
const session = (shop: TestShop) => send(shop, 'checkout.session.completed', firstPayment(shop, { total: 5000 }))
const invoiced = (shop: TestShop, paid: number, more: Partial<Parameters<typeof bill>[1]> = {}) =>
  send(shop, 'invoice.paid', bill(shop, { amount_paid: paid, total: 5000, ...more }))
const bare = { metadata: {} }
const payment = { invoice: 'in_1', payment_intent: 'pi_1' }

const credit = async (shop: TestShop) => {
  const found = await rows('select id::int from commissions where program_id = $1 and credited_at is null', shop)
  await approveCommissions(
    db,
    shop.programId,
    found.map(({ id }) => Number(id)),
  )
}

/** Pays out the payable balance of the first partner. */
async function payOut(shop: TestShop, amountCents: number, pays = true) {
  const of = { programId: shop.programId, partnerId: shop.partnerId, currency: 'usd' }
  const id = await askPayout(db, { ...of, amountCents, requestId: randomUUID() })
  if (pays) await payPayout(db, shop.programId, id, amountCents, transfer)
}

async function keyOf(shop: TestShop) {
  const { key, keyHash, hint } = await generateApiKey()
  await sql.query("insert into api_keys (program_id, key_hash, hint) values ($1, decode($2, 'hex'), $3)", [
    shop.programId,
    keyHash,
    hint,
  ])
  return { key, keyHash }
}

const moneyOf = async (shop: TestShop) => ({
  days: await rows(
    `select sum(sales)::int as sales, sum(revenue_cents)::int as revenue, sum(commission_cents)::int as commission,
      (select sum(conversions)::int from daily_totals where program_id = $1) as conversions
    from daily_money where program_id = $1`,
    shop,
  ),
  balance: (await rows('select balance_cents::int as cents from balances where program_id = $1', shop))[0]?.['cents'],
})

const reportedOf = async (shop: TestShop) =>
  (
    await rows(
      `select kind || ' ' || (payload->>'amount_cents') as reported from outbox where program_id = $1 order by id`,
      shop,
    )
  ).map(({ reported }) => reported)

/** The sale call reports 99.00 for the invoice `in_1`. */
const reported = async (shop: TestShop, currency: string) => {
  const { keyHash } = await keyOf(shop)
  const sale = { ...noSale, transaction_id: 'in_1', customer_key: 'user-1', amount_cents: 9900, currency }
  await recordSale(db, keyHash, { ...sale, click_id: shop.clickId }, null, randomUUID())
}

/** Limits commissions to one month. Returns the shop as it was on one of the last hundred days. */
const months = async (shop: TestShop) => {
  await sql.query(
    'update programs set commission_duration_months = 1, hold_days = 0, cookie_window_days = 365 where id = $1',
    [shop.programId],
  )
  await sql.query(`update customers set last_click_at = now() - interval '100 days' where program_id = $1`, [
    shop.programId,
  ])
  return (days: number) => ({ ...shop, now: shop.now + (days - 100) * day })
}
const commissions = (shop: TestShop) =>
  rows(
    `select concat_ws(' ', s.transaction_id, c.amount_cents, c.status) as text
    from sales s left join commissions c on c.program_id = s.program_id and c.sale_id = s.id where s.program_id = $1 order by s.id`,
    shop,
  ).then((found) => found.map(({ text }) => text))

const paidBy = (of: number) => ({ payment_intent: `pi_${of}`, charge: `ch_${of}` })

describe('an invoice overrides its session', () => {
  test.for<[string, (shop: TestShop) => Promise<unknown>]>([
    ['after it', async (shop) => (await session(shop), await invoiced(shop, 2000))],
    ['before it', async (shop) => (await invoiced(shop, 2000), await session(shop))],
    ['after it, without metadata', async (shop) => (await session(shop), await invoiced(shop, 2000, bare))],
    ['before it, without metadata', async (shop) => (await invoiced(shop, 2000, bare), await session(shop))],
    [
      'if both are delivered twice',
      async (shop) => {
        for (const _ of [1, 2]) await invoiced(shop, 2000, bare)
        for (const _ of [1, 2]) await session(shop)
      },
    ],
  ])('%s', async ([, deliver]) => {
    const shop = await createShop(sql)
    await deliver(shop)
    expect(await salesOf(shop)).toMatchObject([{ amount: 2000, base: 2000, commission: 400, status: 'pending' }])
    expect(await moneyOf(shop)).toMatchObject({ days: [{ sales: 1, revenue: 2000, commission: 400, conversions: 1 }] })
    const outcomes = await rows(`select distinct outcome from processor_events where program_id = $1`, shop)
    expect(outcomes).not.toContainEqual({ outcome: 'ignored' })
  })

  test('if the card paid more than the session said', async () => {
    const shop = await createShop(sql)
    await session(shop)
    await invoiced(shop, 6000)
    expect(await salesOf(shop)).toMatchObject([{ amount: 6000, base: 6000, commission: 1200 }])
  })

  test('for a credited commission, with an entry and a notification', async () => {
    const shop = await createShop(sql)
    await session(shop)
    await credit(shop)
    await payOut(shop, 700, false)
    await invoiced(shop, 2000)
    expect(await salesOf(shop)).toMatchObject([{ commission: 400, status: 'approved' }])
    expect(await moneyOf(shop)).toMatchObject({ balance: 400, days: [{ commission: 400 }] })
    expect(await reportedOf(shop)).toEqual(['commission_corrected 600', 'payout_reduced 400'])
    expect(await rows('select cause, amount_cents::int from balance_entries where program_id = $1', shop)).toEqual([
      { cause: 'commission_credited', amount_cents: 1000 },
      { cause: 'commission_corrected', amount_cents: -600 },
    ])
  })

  test('for a paid commission, and the advertiser is notified about the missing amount', async () => {
    const shop = await createShop(sql)
    await session(shop)
    await credit(shop)
    await payOut(shop, 1000)
    await invoiced(shop, 2000)
    expect(await salesOf(shop)).toMatchObject([{ commission: 400, status: 'paid' }])
    expect(await moneyOf(shop)).toMatchObject({ balance: -600 })
    expect(await reportedOf(shop)).toEqual([
      'payout_paid 1000',
      'commission_corrected 600',
      'paid_commission_reversed 600',
      'balance_negative 600',
    ])
  })

  test('but a rejected commission stays rejected', async () => {
    const shop = await createShop(sql)
    await session(shop)
    const [commission] = await rows('select id::int from commissions where program_id = $1', shop)
    await rejectCommission(db, shop.programId, Number(commission?.['id']), 'Self-referral')
    await invoiced(shop, 6000)
    expect(await salesOf(shop)).toMatchObject([{ commission: 1200, reversed: 1200, status: 'reversed' }])
  })

  test.for([
    ['before it', true],
    ['after it', false],
  ] as const)('with refunds %s: in proportion to the corrected amount', async ([, isRefundedBefore]) => {
    const shop = await createShop(sql)
    await session(shop)
    await credit(shop)
    await send(shop, 'invoice_payment.paid', invoicePayment(shop, { ...payment, amount: 2000 }))
    if (!isRefundedBefore) await invoiced(shop, 2000)
    await report(shop, 're_1', 500)
    await invoiced(shop, 2000)
    expect(await salesOf(shop)).toMatchObject([{ refunded: 500, commission: 400, reversed: 100 }])
    expect(await moneyOf(shop)).toMatchObject({ balance: 300, days: [{ commission: 300 }] })
  })

  test('after a refund of the whole session amount through the API, and refunds no more than the corrected amount', async () => {
    const shop = await createShop(sql)
    const { keyHash } = await keyOf(shop)
    await session(shop)
    await credit(shop)
    for (const refundId of ['re_1', 're_2']) {
      const part = { amount_cents: 2500, refund_id: refundId, reason: 'refund', reason_text: null } as const
      await refundSale(db, keyHash, 'in_1', part, randomUUID())
    }
    await invoiced(shop, 2000)
    expect(await salesOf(shop)).toMatchObject([{ amount: 2000, refunded: 2000, commission: 400, reversed: 400 }])
    expect(await rows('select applied_cents::int as cents from refunds where program_id = $1', shop)).toEqual([
      { cents: 2000 },
      { cents: 0 },
    ])
    expect(await moneyOf(shop)).toMatchObject({ balance: 0, days: [{ commission: 0 }] })
  })
})

describe('an invoice of 0', () => {
  test.for<[string, (shop: TestShop) => Promise<unknown>]>([
    ['after the session', async (shop) => (await session(shop), await invoiced(shop, 0))],
    ['before it', async (shop) => (await invoiced(shop, 0), await session(shop))],
    ['before it, without metadata', async (shop) => (await invoiced(shop, 0, bare), await session(shop))],
  ])('sets the sale to zero: %s', async ([, deliver]) => {
    const shop = await createShop(sql)
    await deliver(shop)
    expect(await salesOf(shop)).toMatchObject([{ amount: 0, base: 0, commission: 0, status: 'reversed' }])
    expect(await rows('select payment_status from sales where program_id = $1', shop)).toEqual([
      { payment_status: 'no_payment_required' },
    ])
    expect(await moneyOf(shop)).toEqual({ days: [{ sales: 0, revenue: 0, commission: 0, conversions: 0 }] })
    expect(
      await rows('select customer_status, first_purchase_date from customers where program_id = $1', shop),
    ).toEqual([{ customer_status: 'click', first_purchase_date: null }])
    await approveDueCommissions(db, 100)
    await credit(shop)
    expect((await moneyOf(shop)).balance).toBeUndefined()
  })

  test('is no sale without a session', async () => {
    const shop = await createShop(sql)
    expect(await invoiced(shop, 0)).toMatchObject({ body: { outcome: 'ignored', reason: 'Nothing was paid.' } })
    expect(await salesOf(shop)).toEqual([])
  })

  test('reverses the credited amount', async () => {
    const shop = await createShop(sql)
    await session(shop)
    await credit(shop)
    await invoiced(shop, 0)
    expect(await moneyOf(shop)).toMatchObject({ balance: 0, days: [{ sales: 0, revenue: 0, commission: 0 }] })
  })
})

describe('the processor overrides the API', () => {
  test('on the amount and the tax of a payment that both report', async () => {
    const shop = await createShop(sql)
    await reported(shop, 'usd')
    expect(await salesOf(shop)).toMatchObject([{ amount: 9900, base: 9900, commission: 1980 }])
    await invoiced(shop, 5000, { tax: 800 })
    expect(await salesOf(shop)).toMatchObject([{ amount: 5000, base: 4200, commission: 840 }])
    expect(await moneyOf(shop)).toMatchObject({ days: [{ sales: 1, revenue: 5000, commission: 840 }] })
  })

  test('on the currency, with a notification', async () => {
    const shop = await createShop(sql)
    await reported(shop, 'eur')
    await invoiced(shop, 5000)
    await send(shop, 'invoice_payment.paid', invoicePayment(shop, { ...payment, amount: 5000 }))
    await report(shop, 're_1', 1000)
    expect(await salesOf(shop)).toMatchObject([
      { amount: 5000, currency: 'usd', commission: 1000, refunded: 1000, reversed: 200 },
    ])
    expect(
      await rows(
        'select currency, sum(revenue_cents)::int as cents from daily_money where program_id = $1 group by 1 order by 1',
        shop,
      ),
    ).toEqual([
      { currency: 'eur', cents: 0 },
      { currency: 'usd', cents: 5000 },
    ])
    expect(await reportedOf(shop)).toContain('sale_currency_corrected 5000')
  })

  test('but a credited commission keeps its currency, and the advertiser is notified once', async () => {
    const shop = await createShop(sql)
    await reported(shop, 'eur')
    await credit(shop)
    for (const _ of [1, 2]) await invoiced(shop, 5000)
    expect(await salesOf(shop)).toMatchObject([{ amount: 9900, currency: 'eur', commission: 1980 }])
    expect(await reportedOf(shop)).toEqual(['sale_currency_differs 5000'])
  })
})

describe('commission_duration_months counts from the earliest sale that earned something', () => {
  test('in either order: a sale after that time is reversed, and its credit too', async () => {
    const shop = await createShop(sql)
    const at = await months(shop)
    await send(at(40), 'invoice.paid', bill(at(40), { id: 'in_2' }))
    await send(at(60), 'invoice.paid', bill(at(60), { id: 'in_3' }))
    await approveDueCommissions(db, 100)
    expect(await commissions(shop)).toEqual(['in_2 2000 approved', 'in_3 2000 approved'])
    await send(at(1), 'checkout.session.completed', firstPayment(at(1)))
    expect(await commissions(shop)).toEqual(['in_2 0 reversed', 'in_3 0 reversed', 'in_1 2000 pending'])
    expect(await moneyOf(shop)).toMatchObject({ balance: 0, days: [{ sales: 3, revenue: 30_000, commission: 2000 }] })
  })

  test('and from the next sale if the first one drops to zero', async () => {
    const shop = await createShop(sql)
    const at = await months(shop)
    await send(at(1), 'checkout.session.completed', firstPayment(at(1)))
    await send(at(40), 'invoice.paid', bill(at(40), { id: 'in_2', payment_intent: 'pi_2', charge: 'ch_2' }))
    await send(at(41), 'refund.created', refund(at(41), { id: 're_1', amount: 5000, ...paidBy(2) }))
    await send(
      at(41),
      'invoice_payment.paid',
      invoicePayment(at(41), { invoice: 'in_2', payment_intent: 'pi_2', amount: 10_000 }),
    )
    expect(await commissions(shop)).toEqual(['in_1 2000 pending', 'in_2'])
    await send(at(1), 'invoice.paid', bill(at(1), { amount_paid: 0, total: 10_000 }))
    expect(await commissions(shop)).toEqual(['in_1 0 reversed', 'in_2 2000 refunded'])
    expect(await salesOf(shop)).toMatchObject([{ amount: 0 }, { refunded: 5000, reversed: 1000 }])
  })
})

describe('concurrent corrections', () => {
  test('sessions and invoices of one payment, each ten times, and the approval correct it once', async () => {
    const shop = await createShop(sql, { holdDays: 0 })
    const answers = await Promise.all(
      Array.from({ length: 10 }, async (_, index) => {
        if (index % 3 === 0) await approveDueCommissions(db, 20)
        return [await session(shop), await invoiced(shop, 2000, index % 2 ? bare : {}), await report(shop, 're_1', 500)]
      }),
    )
    await send(shop, 'invoice_payment.paid', invoicePayment(shop, { ...payment, amount: 2000 }))
    await approveDueCommissions(db, 20)
    for (const { status } of answers.flat()) expect(status).toBe(200)
    expect(await salesOf(shop)).toMatchObject([{ amount: 2000, refunded: 500, commission: 400, reversed: 100 }])
    expect(await moneyOf(shop)).toMatchObject({ balance: 300, days: [{ sales: 1, revenue: 2000, commission: 300 }] })
  })

  test('corrections of all sales of a customer, with refunds and open payouts, have the same result as one after another', async () => {
    const shop = await createShop(sql, { holdDays: 0 })
    await sql.query('update programs set commission_duration_months = 1 where id = $1', [shop.programId])
    const at = (days: number) => ({ ...shop, now: shop.now - (40 - days) * day })
    const first = (paid: number) =>
      send(at(0), 'invoice.paid', bill(at(0), { amount_paid: paid, total: 10_000, payment_intent: 'pi_1' }))
    await Promise.all(
      [2, 3, 4, 5].map((of) => send(at(30 + of), 'invoice.paid', bill(at(30 + of), { id: `in_${of}`, ...paidBy(of) }))),
    )
    await approveDueCommissions(db, 20)
    const answers = await Promise.all([
      ...Array.from({ length: 4 }, () => send(at(0), 'checkout.session.completed', firstPayment(at(0)))),
      ...Array.from({ length: 4 }, () => first(4000)),
      ...[2, 3, 4, 5].map((of) =>
        send(shop, 'refund.created', refund(shop, { id: `re_${of}`, amount: 1000, ...paidBy(of) })),
      ),
      ...Array.from({ length: 4 }, async () => {
        await payOut(shop, 300).catch(() => {})
        return { status: 200 }
      }),
    ])
    for (const { status } of answers) expect(status).toBe(200)
    await approveDueCommissions(db, 20)
    const sales = await salesOf(shop)
    expect(sales.map(({ commission }) => Number(commission)).toSorted((a, b) => a - b)).toEqual([0, 0, 0, 0, 800])
    expect(sales.find(({ transaction_id: id }) => id === 'in_1')).toMatchObject({ amount: 4000, commission: 800 })
  })
})

testStoredState(sql)
