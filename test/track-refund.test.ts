import { describe, expect, test } from 'vitest'
import type { Sandbox } from '../lib/local/sandbox.ts'
import { leadPath, refundPath, salePath, startTrackingApi, times } from './support/api.ts'

const api = await startTrackingApi({
  functions: ['track-click', 'track-lead', 'track-sale', 'track-refund', 'approve-commissions'],
})
const program = await api.program()
const key = { key: program.apiKey }

let sales = 0
async function newSale(amount_cents = 10_000, of: Sandbox = program) {
  const transaction_id = `sale-${(sales += 1)}`
  const customer_key = `user-${sales}`
  await api.call(leadPath, { customer_key, click_id: await api.click(of) }, { key: of.apiKey })
  const { body } = await api.call(salePath, { transaction_id, customer_key, amount_cents }, { key: of.apiKey })
  return { transaction_id, commission_id: Number(body.commission_id), sale_id: Number(body.sale_id) }
}
const refund = async (transaction_id: string, fields: Record<string, unknown> = {}, options = key) => {
  const { status, body } = await api.call(refundPath, { transaction_id, ...fields }, options)
  expect(status).toBe(200)
  return body
}
const commissionOf = async (id: number) =>
  (
    await api.rows(`select status, amount_cents::int, reversed_cents::int, reason from commissions where id = $1`, [id])
  )[0]
const refundedOf = async (transactionId: string) =>
  Number(
    (await api.rows(`select refunded_cents from sales where transaction_id = $1`, [transactionId]))[0].refunded_cents,
  )

describe('states', () => {
  test('a refund of part of the sale sets `refunded` and reduces the commission proportionally', async () => {
    const sale = await newSale()
    expect(await refund(sale.transaction_id, { refund_amount_cents: 2500 })).toEqual({
      success: true,
      status: 'refunded',
      deductionAmount: 5,
      deduction_cents: 500,
      currency: 'usd',
      commission_id: sale.commission_id,
    })
    expect(await commissionOf(sale.commission_id)).toMatchObject({ status: 'refunded', reversed_cents: 500 })
  })

  test.for([
    ['refunded total reaches the sale amount', { refund_amount_cents: 10_000 }],
    ['more than the sale amount is capped', { refund_amount_cents: 99_999 }],
    ['amount omitted', {}],
    ['amount null', { refund_amount_cents: null }],
    ['amount 0', { refund_amount_cents: 0 }],
  ] as const)('%s → `reversed`, commission fully reversed', async ([, fields]) => {
    const sale = await newSale()
    expect(await refund(sale.transaction_id, fields)).toMatchObject({
      status: 'reversed',
      deductionAmount: 20,
      commission_id: sale.commission_id,
    })
    expect(await commissionOf(sale.commission_id)).toMatchObject({ status: 'reversed', reversed_cents: 2000 })
    expect(await refundedOf(sale.transaction_id)).toBe(10_000)
  })

  test('refunds of 30 and 20 on a sale of 100 halve the commission, and a refund of the rest reverses it', async () => {
    const sale = await newSale()
    expect(await refund(sale.transaction_id, { refund_amount_cents: 3000 })).toMatchObject({ deductionAmount: 6 })
    expect(await refund(sale.transaction_id, { refund_amount_cents: 2000 })).toMatchObject({ deductionAmount: 4 })
    expect(await commissionOf(sale.commission_id)).toMatchObject({ status: 'refunded', reversed_cents: 1000 })
    expect(await refund(sale.transaction_id)).toMatchObject({ status: 'reversed', deductionAmount: 10 })
  })

  test('a refund of a reversed sale is skipped', async () => {
    const sale = await newSale()
    await refund(sale.transaction_id)
    for (const fields of [{}, { refund_amount_cents: 100, refund_id: 'late' }]) {
      expect(await refund(sale.transaction_id, fields)).toEqual({
        success: true,
        status: 'skipped',
        reason: 'already_reversed',
        commission_id: sale.commission_id,
      })
    }
  })

  test('a refund_id that was already applied is skipped, whatever its amount', async () => {
    const sale = await newSale()
    await refund(sale.transaction_id, { refund_amount_cents: 1000, refund_id: 'r' })
    for (const refund_amount_cents of [1000, 2000]) {
      expect(await refund(sale.transaction_id, { refund_amount_cents, refund_id: 'r' })).toEqual({
        success: true,
        status: 'skipped',
        reason: 'refund_already_applied',
        commission_id: sale.commission_id,
      })
    }
    expect(await refundedOf(sale.transaction_id)).toBe(1000)
  })

  test('a refund of a sale without a commission gets no_commission, and the refunded total still grows', async () => {
    await api.call(salePath, { transaction_id: 'plain', customer_key: 'nobody', amount_cents: 500 }, key)
    expect(await refund('plain', { refund_amount_cents: 200 })).toEqual({
      success: true,
      status: 'no_commission',
      message: expect.any(String),
    })
    expect(await refundedOf('plain')).toBe(200)
  })
})

describe('rules', () => {
  test('without refund_id a second call with the same amount is an ignored retry, and a different amount is another refund', async () => {
    const sale = await newSale()
    await refund(sale.transaction_id, { refund_amount_cents: 1000 })
    expect(await refund(sale.transaction_id, { refund_amount_cents: 1000 })).toMatchObject({
      status: 'skipped',
      reason: 'refund_already_applied',
    })
    expect(await refund(sale.transaction_id, { refund_amount_cents: 1500 })).toMatchObject({ status: 'refunded' })
    expect(await refundedOf(sale.transaction_id)).toBe(2500)
  })

  test('with refund_ids, equal amounts are separate refunds', async () => {
    const sale = await newSale()
    await refund(sale.transaction_id, { refund_amount_cents: 1000, refund_id: 'a' })
    expect(await refund(sale.transaction_id, { refund_amount_cents: 1000, refund_id: 'b' })).toMatchObject({
      status: 'refunded',
      deductionAmount: 2,
    })
  })

  test('refund_id is ignored if the amount is missing or 0', async () => {
    const sale = await newSale()
    await refund(sale.transaction_id, { refund_amount_cents: 1000, refund_id: 'same' })
    expect(await refund(sale.transaction_id, { refund_amount_cents: 0, refund_id: 'same' })).toMatchObject({
      status: 'reversed',
      deductionAmount: 18,
    })
  })

  test('amounts are capped at the sale amount: three refunds of 40 on a sale of 100', async () => {
    const sale = await newSale()
    const answers = []
    for (const refund_id of ['1', '2', '3']) {
      answers.push(await refund(sale.transaction_id, { refund_amount_cents: 4000, refund_id }))
    }
    expect(answers.map(({ status, deductionAmount }) => [status, deductionAmount])).toEqual([
      ['refunded', 8],
      ['refunded', 8],
      ['reversed', 4],
    ])
  })

  test('a full refund reverses exactly the commission, no matter how it is split', async () => {
    const sale = await newSale(1001)
    let deducted = 0
    for (const refund_amount_cents of [1, 2, 3, 333, 100, 7]) {
      deducted += Number((await refund(sale.transaction_id, { refund_amount_cents })).deduction_cents)
    }
    deducted += Number((await refund(sale.transaction_id)).deduction_cents)
    expect(deducted).toBe(200)
  })

  test.for([
    ['refund_reason', { refund_reason: 'Broken on arrival', reason: 'chargeback' }, 'Broken on arrival'],
    ['reason if refund_reason is absent', { reason: 'chargeback' }, 'chargeback'],
    ['reason if refund_reason is empty', { refund_reason: '', reason: 'chargeback' }, 'chargeback'],
    ['`refund` if both are absent', {}, 'refund'],
  ] as const)('%s is recorded on the commission and notified', async ([, fields, reason]) => {
    const sale = await newSale()
    await refund(sale.transaction_id, fields)
    expect(await commissionOf(sale.commission_id)).toMatchObject({ reason })
    expect(
      await api.rows(`select payload->>'reason' as reason from outbox where payload->>'commission_id' = $1`, [
        String(sale.commission_id),
      ]),
    ).toEqual([{ reason }])
  })

  test('only credited amounts are deducted from the balance, in one transaction with the status and before the response', async () => {
    const own = await api.program({ hold_days: 0 })
    const options = { key: own.apiKey }
    const balance = async () =>
      (await api.rows(`select balance_cents::int from balances where program_id = $1`, [own.programId]))[0]
        ?.balance_cents
    const pending = await newSale(10_000, own)
    await refund(pending.transaction_id, { refund_amount_cents: 5000 }, options)
    expect(await balance()).toBeUndefined()
    await api.stack.scheduled('approve-commissions')
    expect(await balance()).toBe(1000)
    const credited = await newSale(10_000, own)
    await api.stack.scheduled('approve-commissions')
    await refund(credited.transaction_id, { refund_amount_cents: 2500 }, options)
    expect(await balance()).toBe(2500)
    await refund(pending.transaction_id, {}, options)
    expect(await balance()).toBe(1500)
  })

  test('the partner is notified once per refund', async () => {
    const own = await api.program()
    const sale = await newSale(10_000, own)
    const options = { key: own.apiKey }
    await refund(sale.transaction_id, { refund_amount_cents: 100 }, options)
    await refund(sale.transaction_id, { refund_amount_cents: 100 }, options)
    await refund(sale.transaction_id, {}, options)
    expect(
      await api.rows(`select kind, audience from outbox where program_id = $1 order by id`, [own.programId]),
    ).toEqual([
      { kind: 'commission_refunded', audience: 'partner' },
      { kind: 'commission_reversed', audience: 'partner' },
    ])
  })

  test("sale lookup is limited to the key's program", async () => {
    const other = await api.program()
    const sale = await newSale()
    expect(await api.call(refundPath, { transaction_id: sale.transaction_id }, { key: other.apiKey })).toMatchObject({
      status: 404,
      body: { error: { code: 'not_found' } },
    })
    expect(await refundedOf(sale.transaction_id)).toBe(0)
  })
})

describe('errors', () => {
  test.for([
    ['400 transaction_id missing', {}, 400, 'invalid_request'],
    ['400 transaction_id empty', { transaction_id: '' }, 400, 'invalid_request'],
    ['400 reason not refund or chargeback', { transaction_id: 'x', reason: 'whim' }, 400, 'invalid_request'],
    ['400 refund_amount_cents negative', { transaction_id: 'x', refund_amount_cents: -1 }, 400, 'invalid_request'],
    ['400 refund_amount_cents a fraction', { transaction_id: 'x', refund_amount_cents: 0.5 }, 400, 'invalid_request'],
    ['400 refund_amount_cents as text', { transaction_id: 'x', refund_amount_cents: '5' }, 400, 'invalid_request'],
    ['400 refund_id of 256 characters', { transaction_id: 'x', refund_id: 'x'.repeat(256) }, 400, 'invalid_request'],
    [
      '400 refund_reason of 1001 characters',
      { transaction_id: 'x', refund_reason: 'x'.repeat(1001) },
      400,
      'invalid_request',
    ],
    ['404 no sale with the transaction_id', { transaction_id: 'never' }, 404, 'not_found'],
  ] as const)('%s', async ([, body, status, code]) => {
    expect(await api.call(refundPath, body, key)).toMatchObject({ status, body: { error: { code } } })
  })
})

describe('concurrent refunds', () => {
  test.for([
    ['without refund_id', { refund_amount_cents: 100 }],
    ['with refund_id', { refund_amount_cents: 100, refund_id: 'r' }],
    ['of the whole rest', {}],
  ] as const)('20 equal refunds, %s, have one effect', async ([, fields]) => {
    const sale = await newSale(1000)
    const answers = await api.callAll(
      refundPath,
      times(20, () => ({ transaction_id: sale.transaction_id, ...fields })),
      key,
    )
    const done = answers.filter(({ body }) => body.status === 'refunded' || body.status === 'reversed')
    expect(done).toHaveLength(1)
    expect(answers.filter(({ body }) => body.status === 'skipped')).toHaveLength(19)
    expect((await commissionOf(sale.commission_id)).reversed_cents).toBe(done[0]?.body.deduction_cents)
  })

  test('20 refunds of a tenth never exceed the sale', async () => {
    const own = await api.program({ hold_days: 0 })
    const sale = await newSale(1000, own)
    await api.stack.scheduled('approve-commissions')
    const answers = await api.callAll(
      refundPath,
      times(20, (index) => ({
        transaction_id: sale.transaction_id,
        refund_amount_cents: 100,
        refund_id: String(index),
      })),
      { key: own.apiKey },
    )
    expect(answers.filter(({ body }) => body.status === 'refunded')).toHaveLength(9)
    expect(answers.filter(({ body }) => body.status === 'reversed')).toHaveLength(1)
    expect(answers.filter(({ body }) => body.reason === 'already_reversed')).toHaveLength(10)
    const deducted = answers.reduce((sum, { body }) => sum + Number(body.deduction_cents ?? 0), 0)
    expect(deducted).toBe(200)
    expect(await refundedOf(sale.transaction_id)).toBe(1000)
    expect(await api.rows(`select balance_cents::int from balances where program_id = $1`, [own.programId])).toEqual([
      { balance_cents: 0 },
    ])
  })
})
