import { type Explanation, explanation } from '../money/explanation-fields.ts'
import { answered, exampleClickId, type Operation } from './operation.ts'
import { answerOf } from './resource.ts'
import { salePath, saleQuery, testParameter } from './sales.ts'

const example: Explanation = {
  transaction_id: 'order-1001',
  is_test: false,
  attributed: true,
  summary: 'Jane Doe referred the buyer through the link jane. 20% of $49.00 is $9.80.',
  sale: {
    sale_date: '2026-01-01T12:05:00.000Z',
    amount_cents: 4900,
    tax_cents: 0,
    processor_fee_cents: 0,
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
    text: 'The latest click was 5 minutes earlier, within the 30-day window.',
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
    text: '20% of $49.00 is $9.80.',
    lines: null,
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

/** Describes the explanation of a sale for the reference. */
export const saleExplanation = (): Operation => ({
  id: 'explainSale',
  method: 'get',
  path: '/api/v1/sales/{transaction_id}/explanation',
  summary: 'Explain a sale',
  description:
    'Explains why a sale has its partner and commission, or why it has none. The explanation lists each step of the attribution, the click and its age, the rule, the calculation, and later refunds, disputes, corrections and payouts. It shows the original decisions and does not compute them again. For a payment from Stripe that is not a sale, it explains why.',
  auth: 'key',
  scope: 'read',
  parameters: [
    {
      in: 'path',
      schema: salePath,
      fields: {
        transaction_id: {
          description:
            'The `transaction_id` of the sale, or any id that the processor has for the payment or one of its events (at Stripe `in_`, `pi_`, `ch_`, `cs_` or `evt_`), percent-encoded.',
          example: 'order-1001',
        },
      },
    },
    { in: 'query', schema: saleQuery, fields: { test: testParameter } },
  ],
  success: {
    schemas: [answerOf('explanation', explanation())],
    description: 'The explanation.',
    fields: {
      customer: 'Null if the buyer is unknown. The key of an erased customer is null.',
      code: 'The partner’s code that attributed the sale, or that was given in addition to their link.',
      steps: 'The steps of the attribution in order, up to the step that found the customer. Can be empty.',
      click:
        'The click that decided. For an unattributed payment, the click in its metadata, if the attribution window had ended.',
      payout: 'The payout that paid the commission.',
      exact: 'Base times rate in minor units, before rounding half up.',
      lines:
        'The parts of an invoice with products that earn under different rules, largest first. `product_id` is null for the rest. Null if one rule applies to the whole sale.',
      commission: 'Null for a sale without a customer. `id` is null if the sale earned no commission.',
      history:
        'Oldest first. The values of `change_cents` add up to the remaining commission, and the entries add up to its part of the balance.',
      deliveries: 'The processor’s events about the payment in the last 90 days, at most 20.',
    },
  },
  examples: [answered('explained', 'A sale by a known customer', { explanation: example })],
})
