import { readFileSync } from 'node:fs'
import { checkoutMetadata, stripeAmount } from '@affiliate-tracking/svc-tracker'
import {
  type PaidInvoice,
  refundFromEvent,
  saleFromInvoice,
  saleFromSession,
  type StripeApi,
} from '@affiliate-tracking/svc-tracker/stripe'
import { describe, expect, test } from 'vitest'

describe('checkoutMetadata', () => {
  const input = { clickId: 'cust_1_2', customerExternalId: 'user-1', programId: 5 }
  const metadata = { svc_click_id: 'cust_1_2', svc_customer_key: 'user-1', program_id: '5' }

  test('sets the fields of a payment only on the session, because Stripe refuses them elsewhere', () => {
    expect(checkoutMetadata({ ...input, mode: 'payment' })).toEqual({ metadata })
  })

  test('sets the fields of a subscription on both', () => {
    expect(checkoutMetadata({ ...input, mode: 'subscription' })).toEqual({ metadata, subscription_data: { metadata } })
  })

  test('has all three fields for a visitor without a click', () => {
    expect(checkoutMetadata({ ...input, clickId: null, mode: 'payment' }).metadata).toEqual({
      ...metadata,
      svc_click_id: '',
    })
  })
})

test.each([
  ['usd', 990, 990],
  ['jpy', 990, 990],
  ['kwd', 990, 990],
  ['isk', 99_000, 990],
  ['ISK', 99_050, 991],
  ['ugx', 99_049, 990],
  ['mga', 990, 99_000],
])("Stripe's %s %i is %i minor units under ISO 4217", (currency, amount, expected) => {
  expect(stripeAmount(amount, currency)).toBe(expected)
})

const metadata = { svc_customer_key: 'user-1', svc_click_id: 'cust_1_2', program_id: '5' }
const buyer = { customerExternalId: 'user-1', clickId: 'cust_1_2', programId: 5 }

describe('saleFromSession', () => {
  const base = {
    id: 'cs_1',
    mode: 'payment',
    payment_status: 'paid',
    amount_total: 1190,
    total_details: { amount_tax: 190 },
    currency: 'eur',
    metadata,
    invoice: null,
    payment_intent: 'pi_1',
  }
  const sale = { ...buyer, amount: 1190, tax: 190, currency: 'eur', invoiceId: 'pi_1', saleType: 'payment' }
  test.each([
    ['a payment', base, sale],
    [
      'an invoice, whose id is also the id of the sale in a connected account',
      { ...base, invoice: 'in_1' },
      { ...sale, invoiceId: 'in_1' },
    ],
    ['expanded objects', { ...base, payment_intent: { id: 'pi_2' } }, { ...sale, invoiceId: 'pi_2' }],
    ['no tax details', { ...base, total_details: null }, { ...sale, tax: 0 }],
    [
      'krónur, which Stripe sends with two decimals',
      { ...base, currency: 'isk', amount_total: 124_000, total_details: { amount_tax: 24_000 } },
      { ...sale, currency: 'isk', amount: 1240, tax: 240 },
    ],
    ['an empty click id', { ...base, metadata: { ...metadata, svc_click_id: '' } }, { ...sale, clickId: null }],
    ['a pending payment', { ...base, payment_status: 'unpaid' }, null],
    ['nothing to pay', { ...base, payment_status: 'no_payment_required', amount_total: 0 }, null],
    [
      'the first payment of a subscription',
      { ...base, mode: 'subscription', invoice: 'in_1', subscription: 'sub_1' },
      { ...sale, invoiceId: 'in_1', saleType: 'subscription', subscriptionId: 'sub_1' },
    ],
    ['a session that saves a card', { ...base, mode: 'setup' }, null],
    ['no customer key', { ...base, metadata: {} }, null],
    ['no metadata', { ...base, metadata: null }, null],
  ])('of %s', (_, session, expected) => {
    expect(saleFromSession(session)).toEqual(expected)
  })
})

describe('saleFromInvoice', () => {
  const base: PaidInvoice = {
    id: 'in_1',
    amount_paid: 990,
    total: 990,
    billing_reason: 'subscription_cycle',
    currency: 'eur',
  }
  const current = { ...base, parent: { subscription_details: { metadata, subscription: 'sub_1' } } }
  const sale = {
    ...buyer,
    amount: 990,
    tax: 0,
    invoiceId: 'in_1',
    currency: 'eur',
    isRecurring: true,
    saleType: 'subscription',
    subscriptionId: 'sub_1',
  }
  test.each<[string, PaidInvoice, object | null]>([
    ['the current shape', current, sale],
    [
      'the current shape, expanded',
      { ...base, parent: { subscription_details: { metadata, subscription: { id: 'sub_1' } } } },
      sale,
    ],
    ['the shape before 2025-03-31', { ...base, subscription_details: { metadata }, subscription: 'sub_1' }, sale],
    [
      'the shape with metadata only in the lines',
      { ...base, lines: { data: [{ metadata }] }, subscription: 'sub_1' },
      sale,
    ],
    [
      'both shapes, the current one first',
      { ...current, subscription_details: { metadata: { svc_customer_key: 'other' } }, subscription: 'sub_other' },
      sale,
    ],
    [
      'its own metadata',
      { ...base, metadata, billing_reason: 'manual' },
      { ...sale, isRecurring: false, saleType: 'payment', subscriptionId: undefined },
    ],
    ['the first payment', { ...current, billing_reason: 'subscription_create' }, { ...sale, isRecurring: false }],
    ['a change of plan', { ...current, billing_reason: 'subscription_update' }, { ...sale, isRecurring: false }],
    [
      'tax',
      { ...current, amount_paid: 1190, total: 1190, total_excluding_tax: 1000 },
      { ...sale, amount: 1190, tax: 190 },
    ],
    [
      'tax in an older payload',
      { ...current, amount_paid: 1190, total: 1190, tax: 190 },
      { ...sale, amount: 1190, tax: 190 },
    ],
    [
      'tax that the balance partly paid',
      { ...current, amount_paid: 595, total: 1190, total_excluding_tax: 1000 },
      { ...sale, amount: 595, tax: 95 },
    ],
    [
      'krónur, which Stripe sends with two decimals',
      { ...current, amount_paid: 99_050, total: 99_050, currency: 'isk' },
      { ...sale, amount: 991, currency: 'isk' },
    ],
    ['no payment, for example at the start of a trial', { ...current, amount_paid: 0, total: 0 }, null],
    ['no customer key', { ...base, parent: { subscription_details: { metadata: {} } } }, null],
    ['neither a subscription nor metadata', base, null],
  ])('with %s', (_, invoice, expected) => {
    expect(saleFromInvoice(invoice, { includeFirst: true })).toEqual(expected)
    const isRenewal = invoice.billing_reason === 'subscription_cycle'
    expect(saleFromInvoice(invoice)).toEqual(isRenewal ? expected : null)
  })
})

const calls: string[] = []
/** Stripe's API since 2025-03-31. One payment belongs to an invoice. */
const stripe: StripeApi = {
  invoicePayments: {
    list: async ({ payment }) => {
      calls.push(payment.payment_intent)
      return { data: payment.payment_intent === 'pi_invoice' ? [{ invoice: 'in_1' }] : [] }
    },
  },
  paymentIntents: { retrieve: () => Promise.reject(new Error('It no longer says what it was for.')) },
}
/** In earlier API versions, the payment intent refers to the invoice. */
const olderStripe: StripeApi = {
  paymentIntents: { retrieve: async (id) => ({ id, invoice: id === 'pi_invoice' ? { id: 'in_1' } : null }) },
}

describe('refundFromEvent', () => {
  const refund = { id: 're_1', amount: 500, currency: 'eur', status: 'succeeded', payment_intent: 'pi_1' }
  const dispute = {
    id: 'dp_1',
    amount: 500,
    currency: 'eur',
    payment_intent: { id: 'pi_invoice' },
    balance_transactions: [{ amount: -450, currency: 'eur' }],
  }
  const reported = { invoiceId: 'pi_1', amount: 500, refundId: 're_1', refundReason: undefined }
  const disputed = { invoiceId: 'in_1', amount: 450, refundId: 'dp_1', reason: 'chargeback' }
  const note = { id: 'cn_1', currency: 'eur', invoice: 'in_1', out_of_band_amount: 500, memo: 'Sorry' }
  test.each<[string, string, object, object | null]>([
    ['a refund', 'refund.created', refund, reported],
    [
      'a refund of an invoice',
      'refund.updated',
      { ...refund, payment_intent: 'pi_invoice' },
      { ...reported, invoiceId: 'in_1' },
    ],
    [
      'a refund of a charge without an intent',
      'refund.created',
      { ...refund, payment_intent: null, charge: 'ch_1' },
      { ...reported, invoiceId: 'ch_1' },
    ],
    [
      'a refund with a reason',
      'charge.refund.updated',
      { ...refund, reason: 'duplicate' },
      { ...reported, refundReason: 'duplicate' },
    ],
    ['a refund in krónur', 'refund.created', { ...refund, currency: 'isk', amount: 50_000 }, reported],
    ['a pending refund', 'refund.created', { ...refund, status: 'pending' }, null],
    ['a failed refund', 'refund.updated', { ...refund, status: 'failed' }, null],
    ['a failed refund in the current shape', 'refund.failed', { ...refund, status: 'failed' }, null],
    ['a dispute', 'charge.dispute.funds_withdrawn', dispute, disputed],
    [
      'a dispute with a debit in another currency',
      'charge.dispute.funds_withdrawn',
      { ...dispute, balance_transactions: [{ amount: -520, currency: 'usd' }] },
      { ...disputed, amount: 500 },
    ],
    ['a dispute without a debit yet', 'charge.dispute.created', dispute, null],
    [
      'a credit note for a refund outside Stripe',
      'credit_note.created',
      note,
      { invoiceId: 'in_1', amount: 500, refundId: 'cn_1', refundReason: 'Sorry' },
    ],
    ['a credit note with its own refund', 'credit_note.created', { ...note, out_of_band_amount: 0 }, null],
    ['another event', 'customer.created', { id: 'cus_1' }, null],
  ])('of %s', async (_, type, object, expected) => {
    for (const api of [stripe, olderStripe])
      expect(await refundFromEvent({ type, data: { object } }, api)).toEqual(expected)
  })

  test("rejects if Stripe doesn't answer, so that Stripe sends the event again", async () => {
    const down: StripeApi = { ...stripe, invoicePayments: { list: () => Promise.reject(new Error('no answer')) } }
    await expect(refundFromEvent({ type: 'refund.created', data: { object: refund } }, down)).rejects.toThrow(
      'no answer',
    )
  })
})

const fixtures: { version: string; resource: string; object: never }[] = readFileSync(
  new URL('stripe-fixtures.jsonl', import.meta.url),
  'utf8',
)
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line))

const of = (resource: string) => fixtures.filter((fixture) => fixture.resource === resource)

test("Stripe's own examples of every API version can be read, and don't attribute a partner", async () => {
  expect(of('checkout.session').map(({ object }) => saleFromSession(object))).toEqual(
    of('checkout.session').map(() => null),
  )
  expect(of('invoice').map(({ object }) => saleFromInvoice(object))).toEqual(of('invoice').map(() => null))
  const paid = { amount_paid: 1190, total: 1190, total_excluding_tax: 1000, metadata }
  expect(
    of('invoice').map(({ object }) => saleFromInvoice(Object.assign(object, paid), { includeFirst: true })),
  ).toEqual(of('invoice').map(() => expect.objectContaining({ amount: 1190, tax: 190, isRecurring: false, ...buyer })))
  for (const { object } of of('refund'))
    expect(await refundFromEvent({ type: 'refund.created', data: { object } }, stripe)).toMatchObject({
      amount: 100,
      invoiceId: expect.stringMatching(/^(ch|pi)_/),
    })
  expect(of('refund').length * of('invoice').length * of('checkout.session').length).toBeGreaterThan(0)
})
