import * as z from 'zod/mini'
import { testType, type WebhookType, webhookTypes } from '../notifications/webhook-types.ts'
import { cents, count, currency, day, id } from '../response-fields.ts'

const signed = () => z.int()
const maybe = { id: () => z.optional(id()), text: () => z.optional(z.string()) }

const sale = () => ({
  sale_id: id(),
  transaction_id: z.string(),
  partner_id: id(),
  customer_id: id(),
  amount_cents: cents(),
  currency: currency(),
  sale_type: z.string(),
  is_recurring: z.boolean(),
  subscription_id: maybe.text(),
  coupon: maybe.text(),
  code_id: maybe.id(),
})
const commission = () => ({
  commission_id: id(),
  kind: z.enum(['sale', 'lead']),
  partner_id: id(),
  customer_id: maybe.id(),
  sale_id: maybe.id(),
  transaction_id: maybe.text(),
  amount_cents: cents(),
  reversed_cents: cents(),
  currency: currency(),
})
const payout = () => ({
  payout_id: id(),
  partner_id: id(),
  payout_run_id: maybe.id(),
  amount_cents: cents(),
  currency: currency(),
  status: z.enum(['requested', 'paid', 'refused', 'cancelled']),
  reference: maybe.text(),
  paid_on: z.optional(day()),
})

const saleExample = {
  sale_id: 1,
  transaction_id: 'order-1001',
  partner_id: 1,
  customer_id: 1,
  amount_cents: 4900,
  currency: 'usd',
  sale_type: 'payment',
  is_recurring: false,
}
const commissionExample = {
  commission_id: 1,
  kind: 'sale',
  partner_id: 1,
  customer_id: 1,
  sale_id: 1,
  transaction_id: 'order-1001',
  amount_cents: 980,
  reversed_cents: 0,
  currency: 'usd',
}
const payoutExample = { payout_id: 1, partner_id: 1, amount_cents: 980, currency: 'usd', status: 'requested' }

/** What each field of `data` means, of every type. */
export const webhookFields: Record<string, string> = {
  adjustment_id: 'Id of the manual commission or deduction, of the program API.',
  external_id: 'Your own id of it, where you gave one.',
  amount_cents: 'What was paid, earned or asked for, in the smallest unit of the currency.',
  application_id: 'Id of the application, of the program API.',
  approved_cents: 'What was added to the partner’s balance: what refunds before left of the commission.',
  commission_id: 'Id of the commission.',
  currency: 'ISO 4217, in lower case.',
  flags: 'What was found of a held commission, separated by commas.',
  customer_id: 'Id of the customer, of the program API.',
  endpoint_id: 'Id of the endpoint for which the test event was made.',
  hold_until: 'When the commission can be approved at the earliest.',
  is_full: 'Whether nothing of the commission is left.',
  is_recurring: 'Whether it is a later payment of a subscription.',
  kind: 'Whether a sale earned the commission or a lead.',
  lead_id: 'Id of the lead.',
  paid_on: 'The day of the transfer, as who paid gave it.',
  partner_id: 'Id of the partner.',
  payout_id: 'Id of the payout.',
  payout_run_id: 'Id of the payout run that it belongs to.',
  reason: 'What it was reversed for.',
  reduced_by_cents: 'How much less the payout is.',
  reference: 'The reference of the transfer, as who paid gave it.',
  refunded_by_cents: 'What was refunded now; below zero where a refund or a dispute was reversed.',
  refunded_cents: 'What of the sale is refunded in all.',
  reversed_by_cents: 'How much less of the commission is left; below zero where more is.',
  reversed_cents: 'What of the commission is reversed in all.',
  sale_id: 'Id of the sale.',
  sale_type: 'What was sold, as the sale call or Stripe’s payment says.',
  status: 'What the payout is now.',
  subscription_id: 'The subscription that the payment belongs to.',
  coupon: 'What was named as its code.',
  code_id: 'The code of the partner that the sale is theirs by, or that was named beside their link.',
  transaction_id: 'The transaction id of the sale.',
}

/** What each field of a webhook's body means. */
export const webhookBodyFields = {
  id: 'The same in every try and at every endpoint, and the header `webhook-id`.',
  type: 'What happened.',
  timestamp: 'When, ISO 8601.',
  sequence: 'Of two events about one sale, commission or payout, the one with the larger came later.',
  data: 'Ids, sums in the smallest unit of their currency, and states; a field that has no value is left out.',
}

/** The headers by which a webhook is signed, as Standard Webhooks has them. */
export const webhookHeaderFields = {
  'webhook-id': {
    description: 'The `id` of the body. Keep those that you have handled, and pass over what comes again.',
    example: 'evt_1',
  },
  'webhook-timestamp': {
    description: 'When this try was sent, in seconds since 1970. Refuse what is more than five minutes away.',
    example: '1767269100',
  },
  'webhook-signature': {
    description:
      'Signatures with a space between them, two while the secret is rotated, each `v1,` and the base64 of HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`, by what is base64 behind `whsec_` in the secret.',
    example: 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  },
}

interface Payload {
  /** When it is sent, in words for the reference and the dashboard. */
  when: string
  data: z.ZodMiniObject
  example: object
}

/** What `data` of a webhook holds, by its type: ids, sums and states, and nothing that says who somebody is. A field that has no value is left out. */
export const webhookPayloads: Record<WebhookType | typeof testType, Payload> = {
  'lead.created': {
    when: 'A visitor whom a partner referred signed up.',
    data: z.object({ lead_id: id(), partner_id: id(), customer_id: id() }),
    example: { lead_id: 1, partner_id: 1, customer_id: 1 },
  },
  'sale.created': {
    when: 'A sale was attributed to a partner, at once or when its buyer became known.',
    data: z.object(sale()),
    example: saleExample,
  },
  'sale.refunded': {
    when: 'A sale with a partner was refunded or charged back, or a refund was reversed.',
    data: z.object({
      ...sale(),
      refunded_by_cents: signed(),
      refunded_cents: cents(),
      reason: z.enum(['refund', 'chargeback']),
    }),
    example: { ...saleExample, refunded_by_cents: 900, refunded_cents: 900, reason: 'refund' },
  },
  'commission.created': {
    when: 'A partner earned a commission, which waits until its hold ends.',
    data: z.object({ ...commission(), hold_until: z.iso.datetime({ offset: true }) }),
    example: { ...commissionExample, hold_until: '2026-01-31T12:05:00+00:00' },
  },
  'commission.approved': {
    when: 'A commission was credited to the partner’s balance.',
    data: z.object({ ...commission(), approved_cents: cents() }),
    example: { ...commissionExample, approved_cents: 980 },
  },
  'commission.reversed': {
    when: 'A commission was reversed or restored, in part or in full.',
    data: z.object({
      ...commission(),
      reversed_by_cents: signed(),
      is_full: z.boolean(),
      reason: z.enum(['refund', 'chargeback', 'rejected', 'corrected']),
    }),
    example: { ...commissionExample, reversed_cents: 180, reversed_by_cents: 180, is_full: false, reason: 'refund' },
  },
  'partner.applied': {
    when: 'Somebody applied to be a partner and confirmed their address.',
    data: z.object({ application_id: id() }),
    example: { application_id: 1 },
  },
  'commission.flagged': {
    when: 'A commission is held until a person reviews it.',
    data: z.object({ ...commission(), flags: z.string() }),
    example: { ...commissionExample, flags: 'self_referral,bot' },
  },
  'commission.released': {
    when: 'A person released a held commission, which waits until its hold ends.',
    data: z.object({ ...commission(), hold_until: z.iso.datetime({ offset: true }) }),
    example: { ...commissionExample, hold_until: '2026-01-31T12:05:00+00:00' },
  },
  'partner.joined': {
    when: 'Somebody signed in as a partner for the first time, or again after they had left.',
    data: z.object({ partner_id: id() }),
    example: { partner_id: 1 },
  },
  'adjustment.created': {
    when: 'A manual commission was added to a partner’s balance, or a deduction: its amount is below zero.',
    data: z.object({
      adjustment_id: id(),
      partner_id: id(),
      sale_id: maybe.id(),
      transaction_id: maybe.text(),
      amount_cents: signed(),
      currency: currency(),
      external_id: maybe.text(),
    }),
    example: { adjustment_id: 1, partner_id: 1, amount_cents: 5000, currency: 'usd', external_id: 'bonus-2026-05' },
  },
  'payout.requested': {
    when: 'A payout was requested by the partner or created by a payout run.',
    data: z.object(payout()),
    example: payoutExample,
  },
  'payout.reduced': {
    when: 'A reversal reduced an open payout.',
    data: z.object({ ...payout(), reduced_by_cents: cents() }),
    example: { ...payoutExample, amount_cents: 800, reduced_by_cents: 180 },
  },
  'payout.paid': {
    when: 'A payout was marked as paid.',
    data: z.object(payout()),
    example: { ...payoutExample, status: 'paid', reference: 'transfer 17', paid_on: '2026-02-01' },
  },
  [testType]: {
    when: 'Somebody sent a test event, which every endpoint gets.',
    data: z.object({ endpoint_id: id() }),
    example: { endpoint_id: 1 },
  },
}

/** Every type that a program can get. */
export const payloadTypes = [...webhookTypes, testType] as const

/** The whole body of a webhook of one type. */
export const webhookBodySchema = (type: keyof typeof webhookPayloads) =>
  z.object({
    id: z.string(),
    type: z.literal(type),
    timestamp: z.iso.datetime(),
    sequence: count(),
    data: webhookPayloads[type].data,
  })

export const webhookExample = (type: keyof typeof webhookPayloads) => ({
  id: 'evt_1',
  type,
  timestamp: '2026-01-01T12:05:00.000Z',
  sequence: 1,
  data: webhookPayloads[type].example,
})
