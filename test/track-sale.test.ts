import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../lib/local/sandbox.ts'
import { leadPath, refundPath, salePath, startTrackingApi, times } from './support/api.ts'

const api = await startTrackingApi({ functions: ['track-click', 'track-lead', 'track-sale', 'track-refund'] })
const program = await api.program()
const key = { key: program.apiKey }

let sales = 0
const newSale = () => ({ transaction_id: `sale-${(sales += 1)}`, customer_key: `user-${sales}`, amount_cents: 10_000 })

async function newLead(of: Sandbox = program) {
  const customer_key = `lead-${(sales += 1)}`
  const click_id = await api.click(of)
  await api.call(leadPath, { customer_key, click_id }, { key: of.apiKey })
  return { customer_key, click_id }
}

const customerOf = async (clickId: string) =>
  (
    await api.rows(`select customer_key, customer_status, first_purchase_date from customers where click_id = $1`, [
      clickId,
    ])
  )[0]
const saleOf = async (id: unknown) => (await api.rows(`select * from sales where id = $1`, [id]))[0]

describe('attribution', () => {
  test('by customer_key creates the sale, a pending commission, the conversion, one first purchase, and the totals of the day', async () => {
    const own = await api.program()
    const { customer_key, click_id } = await newLead(own)
    const { status, body } = await api.call(
      salePath,
      { ...newSale(), transaction_id: 'a', customer_key },
      { key: own.apiKey },
    )
    expect(status).toBe(200)
    expect(body).toEqual({
      success: true,
      sale_id: expect.any(Number),
      transaction_id: 'a',
      attributed: true,
      commission_id: expect.any(Number),
      commission_cents: 2000,
      currency: 'usd',
    })
    expect(await saleOf(body.sale_id)).toMatchObject({
      program_id: String(own.programId),
      amount_cents: '10000',
      currency: 'usd',
      sale_type: 'payment',
      payment_status: 'paid',
      is_recurring: false,
      is_test: false,
      refunded_cents: '0',
      processor_event_id: null,
    })
    expect(
      await api.rows(`select status, amount_cents, currency, partner_id::int from commissions where id = $1`, [
        body.commission_id,
      ]),
    ).toEqual([{ status: 'pending', amount_cents: '2000', currency: 'usd', partner_id: own.partnerId }])
    const { first_purchase_date, customer_status } = await customerOf(click_id)
    expect(customer_status).toBe('conversion')
    await api.call(salePath, { ...newSale(), transaction_id: 'b', customer_key }, { key: own.apiKey })
    expect((await customerOf(click_id)).first_purchase_date).toEqual(first_purchase_date)
    expect(
      await api.rows(`select sum(conversions)::int as conversions from daily_totals where program_id = $1`, [
        own.programId,
      ]),
    ).toEqual([{ conversions: 1 }])
    expect(
      await api.rows(
        `select sum(sales)::int as sales, sum(revenue_cents)::int as revenue, sum(commission_cents)::int as commission
         from daily_money where program_id = $1`,
        [own.programId],
      ),
    ).toEqual([{ sales: 2, revenue: 20_000, commission: 4000 }])
  })

  test.for([['click_id'], ['clickId']] as const)(
    'by %s if the key is unknown, and the key is then bound',
    async ([field]) => {
      const clickId = await api.click(program)
      const sale = newSale()
      const first = await api.call(salePath, { ...sale, [field]: clickId }, key)
      expect(first.body).toMatchObject({ attributed: true, commission_cents: 2000 })
      expect(await customerOf(clickId)).toMatchObject({
        customer_key: sale.customer_key,
        customer_status: 'conversion',
      })
      const second = await api.call(salePath, { ...newSale(), customer_key: sale.customer_key }, key)
      expect(second.body).toMatchObject({ attributed: true })
    },
  )

  test('a lead that is immediately followed by a sale is attributed', async () => {
    const clickId = await api.click(program)
    const sale = newSale()
    const [lead, sold] = await Promise.all([
      api.callAll(leadPath, [{ customer_key: sale.customer_key, click_id: clickId }], key),
      api.callAll(salePath, [{ ...sale, click_id: clickId }], key),
    ])
    expect(lead[0]).toMatchObject({ status: 200 })
    expect(sold[0]).toMatchObject({ status: 200, body: { attributed: true } })
    expect(
      await api.rows(`select count(*)::int as n from customers where customer_key = $1`, [sale.customer_key]),
    ).toEqual([{ n: 1 }])
  })

  describe('without a customer the sale is stored unattributed and earns nothing', async () => {
    const other = await api.program()
    const expired = await api.click(program)
    await api.stack.sql.query(
      `update customers set last_click_at = now() - interval '30 days 1 second' where click_id = $1`,
      [expired],
    )
    const foreign = await newLead(other)
    test.for([
      ['no click id', {}],
      ['invalid click id', { click_id: 'x' }],
      ['click id outside the window', { click_id: expired }],
      ["another program's click id", { click_id: foreign.click_id }],
      ["another program's customer key", { customer_key: foreign.customer_key }],
    ] as const)('%s', async ([, fields]) => {
      const sale = newSale()
      const { status, body } = await api.call(salePath, { ...sale, ...fields }, key)
      expect(status).toBe(200)
      expect(body).toMatchObject({ attributed: false, commission_id: null, commission_cents: 0 })
      expect(await saleOf(body.sale_id)).toMatchObject({ customer_id: null, partner_id: null })
      expect(await api.call(salePath, { ...sale, ...fields }, key)).toMatchObject({ status: 409 })
      expect((await api.call(refundPath, { transaction_id: sale.transaction_id }, key)).body).toMatchObject({
        status: 'no_commission',
      })
    })
  })
})

describe('fields', () => {
  test.for([
    [
      'is_recurring, sale_type, subscription_id',
      { is_recurring: true, sale_type: 'renewal', subscription_id: 'sub_1' },
    ],
    ['isRecurring, saleType, subscriptionId', { isRecurring: true, saleType: 'renewal', subscriptionId: 'sub_1' }],
  ] as const)('a renewal: %s', async ([, fields]) => {
    const { body } = await api.call(salePath, { ...newSale(), ...fields }, key)
    expect(await saleOf(body.sale_id)).toMatchObject({
      is_recurring: true,
      sale_type: 'renewal',
      subscription_id: 'sub_1',
    })
  })

  test.for([
    ['payment', {}, 'payment'],
    ['subscription if is_recurring is true', { is_recurring: true }, 'subscription'],
  ] as const)('sale_type defaults to %s', async ([, fields, sale_type]) => {
    const { body } = await api.call(salePath, { ...newSale(), ...fields }, key)
    expect(await saleOf(body.sale_id)).toMatchObject({ sale_type })
  })

  test.for([['usd'], ['EUR'], ['jpy'], ['kwd'], ['huf']] as const)('currency %s', async ([currency]) => {
    const { customer_key } = await newLead()
    const { body } = await api.call(salePath, { ...newSale(), customer_key, currency }, key)
    expect(body).toMatchObject({ currency: currency.toLowerCase(), commission_cents: 2000 })
  })

  test.for([
    ['usd', 20],
    ['jpy', 2000],
    ['kwd', 2],
    ['huf', 20],
  ] as const)('a refund of %s is shown in its major unit: %f', async ([currency, deductionAmount]) => {
    const { customer_key } = await newLead()
    const sale = { ...newSale(), customer_key, currency }
    await api.call(salePath, sale, key)
    const { body } = await api.call(refundPath, { transaction_id: sale.transaction_id }, key)
    expect(body).toMatchObject({ status: 'reversed', deductionAmount, deduction_cents: 2000, currency })
  })

  test.for([
    ['transaction_id missing', { transaction_id: undefined }],
    ['transaction_id empty', { transaction_id: '' }],
    ['transaction_id of 256 characters', { transaction_id: 'x'.repeat(256) }],
    ['transaction_id a number', { transaction_id: 7 }],
    ['customer_key missing', { customer_key: undefined }],
    ['customer_key empty', { customer_key: '' }],
    ['customer_key of 256 characters', { customer_key: 'x'.repeat(256) }],
    ['amount_cents missing', { amount_cents: undefined }],
    ['amount_cents zero', { amount_cents: 0 }],
    ['amount_cents negative', { amount_cents: -1 }],
    ['amount_cents with a fraction', { amount_cents: 10.5 }],
    ['amount_cents as text', { amount_cents: '100' }],
    ['amount_cents above 9,999,999,999,999', { amount_cents: 10_000_000_000_000 }],
    ['amount_cents not a safe integer', { amount_cents: 2 ** 53 }],
    ["currency that doesn't exist", { currency: 'zzz' }],
    ['currency of four letters', { currency: 'usdt' }],
    ['currency empty', { currency: '' }],
    ['is_recurring as text', { is_recurring: 'yes' }],
    ['sale_type of 65 characters', { sale_type: 'x'.repeat(65) }],
    ['subscription_id empty', { subscription_id: '' }],
    ['additional_data a list', { additional_data: [1] }],
    ['test_mode as text', { additional_data: { test_mode: 'true' } }],
  ] as const)('400 invalid_request, nothing recorded: %s', async ([, fields]) => {
    const count = 'select count(*) as n from sales'
    const before = await api.rows(count)
    const answer = await api.call(salePath, { ...newSale(), ...fields }, key)
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
    expect(answer.body.error.details.length).toBeGreaterThan(0)
    expect(await api.rows(count)).toEqual(before)
  })

  test('values at the limits are accepted', async () => {
    const sale = {
      transaction_id: 'x'.repeat(255),
      customer_key: 'ü'.repeat(255),
      amount_cents: 9_999_999_999_999,
      sale_type: 'x'.repeat(64),
      subscription_id: 'x'.repeat(255),
    }
    expect((await api.call(salePath, sale, key)).status).toBe(200)
  })

  test('an additional_data.program_id of another program gets 400', async () => {
    const answer = await api.call(
      salePath,
      { ...newSale(), additional_data: { program_id: program.programId + 1 } },
      key,
    )
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } })
  })
})

describe('commission', () => {
  test.for([
    ['rounds half up: 27.50 at 1.4%', 2750, 140, 39],
    ['10 cents at 5%', 10, 500, 1],
    ['less than half a cent is zero', 9, 500, 0],
    ['100%', 12_345, 10_000, 12_345],
    ['0%', 10_000, 0, 0],
    ['the largest amount at 33.33%', 9_999_999_999_999, 3333, 3_333_000_000_000],
  ] as const)('%s', async ([, amount_cents, commission_bp, commission_cents]) => {
    const own = await api.program({ commission_bp })
    const { customer_key } = await newLead(own)
    const { body } = await api.call(salePath, { ...newSale(), customer_key, amount_cents }, { key: own.apiKey })
    expect(body).toMatchObject({
      attributed: true,
      commission_cents,
      commission_id: commission_cents === 0 ? null : expect.any(Number),
    })
  })

  test.for([
    ['19% tax on top', 11_900, 1900, 2000],
    ['only tax', 11_900, 11_900, 0],
  ] as const)('is not earned on tax: %s', async ([, amount_cents, tax_cents, commission_cents]) => {
    const { customer_key } = await newLead()
    const sale = { ...newSale(), customer_key, amount_cents, tax_cents }
    const { body } = await api.call(salePath, sale, key)
    expect(body).toMatchObject({ attributed: true, commission_cents })
    expect(await saleOf(body.sale_id)).toMatchObject({ amount_cents: '11900' })
    // Half of the payment earns half of the commission.
    const half = { transaction_id: sale.transaction_id, refund_amount_cents: 5950 }
    if (commission_cents > 0)
      expect((await api.call(refundPath, half, key)).body).toMatchObject({ deduction_cents: 1000 })
  })

  test('commission_duration_months counts from the first purchase', async () => {
    const own = await api.program({ commission_duration_months: 1 })
    const { customer_key, click_id } = await newLead(own)
    const sell = async () =>
      (await api.call(salePath, { ...newSale(), customer_key, is_recurring: true }, { key: own.apiKey })).body
    expect(await sell()).toMatchObject({ commission_cents: 2000 })
    const move = (interval: string) =>
      api.stack.sql.query(`update customers set first_purchase_date = now() - $2::interval where click_id = $1`, [
        click_id,
        interval,
      ])
    await move('1 month -1 minute')
    expect(await sell()).toMatchObject({ commission_cents: 2000 })
    await move('1 month 1 minute')
    expect(await sell()).toMatchObject({ attributed: true, commission_cents: 0, commission_id: null })
  })
})

describe('duplicate_transaction', () => {
  test.for([
    ['the same sale', {}, true],
    ['another amount', { amount_cents: 9999 }, false],
    ['another currency', { currency: 'eur' }, false],
    ['another customer', { customer_key: 'somebody-else' }, false],
    ['another subscription', { subscription_id: 'sub_2' }, false],
    ['other tax', { tax_cents: 1 }, false],
    ['the same tax', { tax_cents: 0 }, true],
  ] as const)('409 with the stored sale and same_payload: %s', async ([, fields, same_payload]) => {
    const sale = newSale()
    const { body } = await api.call(salePath, sale, key)
    const again = await api.call(salePath, { ...sale, ...fields }, key)
    expect(again).toMatchObject({
      status: 409,
      body: { error: { code: 'duplicate_transaction', sale_id: body.sale_id, same_payload } },
    })
    expect(await saleOf(body.sale_id)).toMatchObject({ amount_cents: '10000', customer_key: sale.customer_key })
  })

  test("a refused duplicate doesn't bind a key to its click", async () => {
    const sale = newSale()
    await api.call(salePath, sale, key)
    const clickId = await api.click(program)
    const again = await api.call(salePath, { ...sale, customer_key: 'binder', click_id: clickId }, key)
    expect(again.status).toBe(409)
    expect(await customerOf(clickId)).toMatchObject({ customer_key: null, customer_status: 'click' })
  })

  test('another program may use the same transaction_id', async () => {
    const sale = newSale()
    const other = await api.program()
    expect((await api.call(salePath, sale, key)).status).toBe(200)
    expect((await api.call(salePath, sale, { key: other.apiKey })).status).toBe(200)
  })

  test('20 equal sales at once get 200 once and 409 19 times, and create one commission', async () => {
    const { customer_key } = await newLead()
    const sale = { ...newSale(), customer_key }
    const answers = await api.callAll(
      salePath,
      times(20, () => sale),
      key,
    )
    const [won] = answers.filter(({ status }) => status === 200)
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19)
    expect(won?.body).toMatchObject({ attributed: true, commission_cents: 2000 })
    for (const { status, body } of answers) {
      if (status === 409) expect(body.error).toMatchObject({ sale_id: won?.body.sale_id, same_payload: true })
    }
    expect(
      await api.rows(`select count(*)::int as n from commissions where sale_id = $1`, [won?.body.sale_id]),
    ).toEqual([{ n: 1 }])
  })

  test('20 first sales of one customer at once convert it once', async () => {
    const own = await api.program()
    const { customer_key } = await newLead(own)
    const bodies = times(20, () => ({ ...newSale(), customer_key }))
    const answers = await api.callAll(salePath, bodies, { key: own.apiKey })
    expect(answers.map(({ status }) => status)).toEqual(times(20, () => 200))
    expect(
      await api.rows(
        `select (select sum(conversions)::int from daily_totals where program_id = $1) as conversions,
           (select sum(commission_cents)::int from daily_money where program_id = $1) as commission`,
        [own.programId],
      ),
    ).toEqual([{ conversions: 1, commission: 40_000 }])
  })

  test('20 sales of different customers on one click at once are all attributed', async () => {
    const click_id = await api.click(program)
    const answers = await api.callAll(
      salePath,
      times(20, () => ({ ...newSale(), click_id })),
      key,
    )
    expect(answers.map(({ status, body }) => [status, body.attributed])).toEqual(times(20, () => [200, true]))
  })
})

describe('test sale', () => {
  const additional_data = { test_mode: true }

  test("doesn't create a commission, conversion or total, and has separate transaction ids", async () => {
    const own = await api.program()
    const { customer_key, click_id } = await newLead(own)
    const sale = { ...newSale(), customer_key, click_id }
    const options = { key: own.apiKey }
    const { status, body } = await api.call(salePath, { ...sale, additional_data }, options)
    expect(status).toBe(200)
    expect(body).toMatchObject({ attributed: true, commission_id: null, commission_cents: 0, test_mode: true })
    expect(await saleOf(body.sale_id)).toMatchObject({ is_test: true })
    expect(await customerOf(click_id)).toMatchObject({ customer_status: 'lead', first_purchase_date: null })
    expect(await api.rows(`select * from daily_money where program_id = $1`, [own.programId])).toEqual([])
    expect(await api.call(salePath, { ...sale, additional_data }, options)).toMatchObject({ status: 409 })
    expect((await api.call(refundPath, { transaction_id: sale.transaction_id }, options)).body).toMatchObject({
      status: 'no_commission',
    })
    expect(await api.call(salePath, sale, options)).toMatchObject({ status: 200, body: { commission_cents: 2000 } })
  })

  test("doesn't bind a key to a click", async () => {
    const click_id = await api.click(program)
    const { body } = await api.call(salePath, { ...newSale(), click_id, additional_data }, key)
    expect(body).toMatchObject({ attributed: true, test_mode: true })
    expect(await customerOf(click_id)).toMatchObject({ customer_key: null, customer_status: 'click' })
  })
})
