import * as z from 'zod/mini'
import { type Explanation, explanation } from '../money/explanation-fields.ts'
import { answered, exampleClickId, type Operation } from './operation.ts'
import { success } from '../response-fields.ts'
import { salePath, saleQuery, testParameter } from './sales.ts'

const example: Explanation = {
  transaction_id: 'order-1001',
  is_test: false,
  attributed: true,
  summary: 'Jane Doe brought the buyer by the link jane. 20 % of $49.00 is $9.80.',
  sale: {
    sale_date: '2026-01-01T12:05:00.000Z',
    amount_cents: 4900,
    tax_cents: 0,
    commission_base_cents: 4900,
    refunded_cents: 0,
    currency: 'usd',
    source: 'api',
  },
  partner: { id: 1, name: 'Jane Doe' },
  link: { id: 1, code: 'jane' },
  code: null,
  customer: { click_id: exampleClickId, customer_key: 'user-1' },
  steps: [{ step: 'customer_key', found: 'found', text: 'Found the customer.' }],
  click: {
    first_at: '2026-01-01T12:00:00.000Z',
    latest_at: '2026-01-01T12:00:00.000Z',
    decided_at: '2026-01-01T12:05:00.000Z',
    age_seconds: 300,
    window_days: 30,
    within_window: true,
    attribution_model: 'last_click',
    text: 'The latest click was 5 minutes before and the window was 30 days.',
    campaign: { utm_source: 'newsletter', sub1: 'banner' },
    event: { page_url: 'https://shop.example.com/', referrer_url: null, country: 'DE', device: 'mobile' },
  },
  rule: {
    id: null,
    text: "The program's own terms.",
    commission_bp: 2000,
    commission_percent: 20,
    fixed_cents: 0,
    cap_cents: null,
    duration_months: null,
    first_purchase_date: '2026-01-01T12:05:00.000Z',
    hold_days: 30,
  },
  commission: {
    id: 1,
    status: 'pending',
    exact: '980',
    amount_cents: 980,
    reversed_cents: 0,
    left_cents: 980,
    currency: 'usd',
    text: '20 % of $49.00 is $9.80.',
  },
  lead_commission: null,
  payout: null,
  history: [
    {
      at: '2026-01-01T12:05:00.000Z',
      kind: 'recorded',
      text: 'Recorded. The amount is $49.00.',
      change_cents: 0,
      entry: null,
    },
    {
      at: '2026-01-01T12:05:00.000Z',
      kind: 'commission',
      text: 'A commission of $9.80 was created, on hold until Jan 31, 2026.',
      change_cents: 980,
      entry: null,
    },
  ],
  deliveries: [],
}

/** Why a sale has its partner, as the reference shows it. */
export const saleExplanation = (): Operation => ({
  id: 'explainSale',
  method: 'get',
  path: '/api/v1/sales/{transaction_id}/explanation',
  summary: 'Explain a sale',
  description:
    'Why a sale has its partner and its commission, or why it has none: each step that was tried, the click and its age, the rule and the calculation, and each refund, dispute, correction and payout after it. All is as it was decided, and nothing is computed again. Of a payment that Stripe reported and that is no sale, it says why not.',
  auth: 'key',
  scope: 'read',
  parameters: [
    {
      in: 'path',
      schema: salePath,
      fields: {
        transaction_id: {
          description:
            'The `transaction_id` of the sale, or any id that Stripe has for the payment or one of its events (`in_`, `pi_`, `ch_`, `cs_`, `evt_`), encoded as a part of an address.',
          example: 'order-1001',
        },
      },
    },
    { in: 'query', schema: saleQuery, fields: { test: testParameter } },
  ],
  success: {
    schemas: [z.object({ success: success(), explanation: explanation() })],
    description: 'Why it is so.',
    fields: {
      customer: 'Null where nobody is known. The key of an erased customer is null.',
      code: 'The code of the partner that the sale is theirs by, or that was named beside their link.',
      steps: 'Steps, in this order, up to what named the customer. Empty where nothing came as far.',
      click: 'What decided; of a payment of nobody the click that it names, where its window was over.',
      payout: 'By which the commission was paid.',
      exact: 'Base times rate in minor units, before it is rounded half up.',
      commission: 'Of a sale without a customer null; its `id` is null where it earned nothing.',
      history:
        'The oldest first. The `change_cents` together are what is left of the commission, and the amounts of the entries what it is in the balance.',
      deliveries: 'What Stripe told of the payment in the last 90 days, 20 events at most.',
    },
  },
  errors: ['not_found'],
  examples: [answered('explained', 'A sale by a known customer', { explanation: example })],
})
