import { checkoutMetadata, renewalFromInvoice, stripeAmount } from 'svc-tracker'
import { describe, expect, test } from 'vitest'

describe('checkoutMetadata', () => {
  const input = { clickId: 'cust_1_2', customerExternalId: 'user-1', programId: 5 }
  const metadata = { svc_click_id: 'cust_1_2', svc_customer_key: 'user-1', program_id: '5' }

  test('of a payment is on the session alone, which Stripe would refuse otherwise', () => {
    expect(checkoutMetadata({ ...input, mode: 'payment' })).toEqual({ metadata })
  })

  test('of a subscription is on both', () => {
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
])('%s %i of Stripe are %i minor units by ISO 4217', (currency, amount, expected) => {
  expect(stripeAmount(amount, currency)).toBe(expected)
})

describe('renewalFromInvoice', () => {
  const metadata = { svc_customer_key: 'user-1' }
  const base = { id: 'in_1', amount_paid: 990, billing_reason: 'subscription_cycle', currency: 'eur' }
  const current = { ...base, parent: { subscription_details: { metadata, subscription: 'sub_1' } } }
  const renewal = {
    customerExternalId: 'user-1',
    amount: 990,
    invoiceId: 'in_1',
    currency: 'eur',
    isRecurring: true,
    saleType: 'subscription',
    subscriptionId: 'sub_1',
  }
  test.each([
    ['the current shape', current, renewal],
    [
      'the current shape, expanded',
      { ...base, parent: { subscription_details: { metadata, subscription: { id: 'sub_1' } } } },
      renewal,
    ],
    ['the shape before 2025-03-31', { ...base, subscription_details: { metadata }, subscription: 'sub_1' }, renewal],
    [
      'the older shape, expanded',
      { ...base, subscription_details: { metadata }, subscription: { id: 'sub_1' } },
      renewal,
    ],
    [
      'both shapes, the current one first',
      { ...current, subscription_details: { metadata: { svc_customer_key: 'other' } }, subscription: 'sub_other' },
      renewal,
    ],
    [
      'krónur, which Stripe writes with two decimals',
      { ...current, amount_paid: 99_050, currency: 'isk' },
      { ...renewal, amount: 991, currency: 'isk' },
    ],
    ['no subscription id', { ...base, subscription_details: { metadata } }, { ...renewal, subscriptionId: undefined }],
    ['the first payment', { ...current, billing_reason: 'subscription_create' }, null],
    ['a manual invoice', { ...current, billing_reason: 'manual' }, null],
    ['nothing paid', { ...current, amount_paid: 0 }, null],
    ['a credit', { ...current, amount_paid: -5 }, null],
    ['no customer key', { ...base, parent: { subscription_details: { metadata: {} } } }, null],
    ['no subscription', base, null],
  ])('with %s', (_, invoice, expected) => {
    expect(renewalFromInvoice(invoice)).toEqual(expected)
  })
})
