import * as z from 'zod/mini'
import { payoutStatuses } from '../money/payouts.ts'
import { testType, type WebhookType, webhookTypes } from '../notifications/webhook-types.ts'
import { cents, count, currency, day, id, time } from '../response-fields.ts'

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
  is_shadow: z.boolean(),
})
const payout = () => ({
  payout_id: id(),
  partner_id: id(),
  payout_run_id: maybe.id(),
  amount_cents: cents(),
  currency: currency(),
  status: z.enum(payoutStatuses),
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
  is_shadow: false,
}
const payoutExample = { payout_id: 1, partner_id: 1, amount_cents: 980, currency: 'usd', status: 'requested' }

/** Describes each field of `data`, for all types. */
export const webhookFields: Record<string, string> = {
  adjustment_id: 'The id of the manual commission or deduction in the program API.',
  external_id: 'Your own id for it, if you sent one.',
  amount_cents: 'The paid, earned or requested amount in the currency’s minor unit.',
  application_id: 'The id of the application in the program API.',
  approved_cents: 'The amount added to the partner’s balance: the commission minus earlier refunds.',
  commission_id: 'Id of the commission.',
  currency: 'The ISO 4217 code in lower case.',
  flags: 'The review rules that matched a held commission, separated by commas.',
  customer_id: 'The id of the customer in the program API.',
  endpoint_id: 'The id of the endpoint that the test is for.',
  hold_until: 'The end of the commission’s hold period.',
  is_full: 'Whether the whole commission is reversed.',
  is_recurring: 'Whether the sale is a renewal of a subscription.',
  is_shadow: 'Whether it was computed in shadow mode. In that case, it is never credited.',
  kind: 'Whether a sale or a lead earned the commission.',
  lead_id: 'Id of the lead.',
  paid_on: 'The day of the transfer, as recorded by the payer.',
  partner_id: 'Id of the partner.',
  payout_id: 'Id of the payout.',
  payout_run_id: 'The id of the payout run.',
  reason: 'The reason for the reversal.',
  reduced_by_cents: 'The amount of the reduction.',
  reference: 'The reference of the transfer, as recorded by the payer.',
  refunded_by_cents: 'The amount of this refund; negative if a refund or a dispute was reversed.',
  refunded_cents: 'The refunded total of the sale.',
  reversed_by_cents: 'The amount of this reversal; negative if it was restored.',
  reversed_cents: 'The reversed total of the commission.',
  sale_id: 'Id of the sale.',
  sale_type: 'The kind of sale, from the sale call or the processor’s payment.',
  status: 'The current status of the payout.',
  subscription_id: 'Id of the subscription.',
  coupon: 'The coupon of the sale call.',
  code_id: 'The id of the partner’s code that attributed the sale, or that was used in addition to their link.',
  transaction_id: 'The transaction id of the sale.',
}

/** Describes each field of a webhook's body. */
export const webhookBodyFields = {
  id: 'The same for every attempt and every endpoint, and equal to the header `webhook-id`.',
  type: 'The event type.',
  timestamp: 'The time of the event (ISO 8601).',
  sequence: 'A number that increases with each event about the same sale, commission or payout.',
  data: 'Ids, states, and amounts in the currency’s minor unit. Fields without a value are omitted.',
}

/** The signature headers of a webhook, as Standard Webhooks defines them. */
export const webhookHeaderFields = {
  'webhook-id': {
    description: 'The `id` of the body. Store the ids that you have handled, and ignore repeats.',
    example: 'evt_1',
  },
  'webhook-timestamp': {
    description:
      'The time of this attempt in seconds since 1970. Refuse the webhook if this differs from the current time by more than five minutes.',
    example: '1767269100',
  },
  'webhook-signature': {
    description:
      'Signatures separated by a space, two during a rotation. Each is `v1,` and the base64 of the HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`. The key is the base64 part of the secret after `whsec_`.',
    example: 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  },
}

interface Payload {
  /** Describes the trigger, for the reference and the dashboard. */
  when: string
  data: z.ZodMiniObject
  example: object
}

/**
 * The content of `data` by type. It consists of ids, amounts and states, and never identifies a person. Fields without a value are absent.
 */
export const webhookPayloads: Record<WebhookType | typeof testType, Payload> = {
  'lead.created': {
    when: 'A referred visitor signed up.',
    data: z.object({ lead_id: id(), partner_id: id(), customer_id: id() }),
    example: { lead_id: 1, partner_id: 1, customer_id: 1 },
  },
  'sale.created': {
    when: 'A sale was attributed to a partner, either immediately or after its buyer became known.',
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
    when: 'A partner earned a commission, which is pending until its hold ends.',
    data: z.object({ ...commission(), hold_until: time() }),
    example: { ...commissionExample, hold_until: '2026-01-31T12:05:00.000Z' },
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
    when: 'An applicant confirmed their address.',
    data: z.object({ application_id: id() }),
    example: { application_id: 1 },
  },
  'commission.flagged': {
    when: 'A commission is held until somebody reviews it.',
    data: z.object({ ...commission(), flags: z.string() }),
    example: { ...commissionExample, flags: 'self_referral,bot' },
  },
  'commission.released': {
    when: 'Somebody released a held commission, which is pending until its hold period ends.',
    data: z.object({ ...commission(), hold_until: time() }),
    example: { ...commissionExample, hold_until: '2026-01-31T12:05:00.000Z' },
  },
  'partner.joined': {
    when: 'A partner signed in for the first time, or again after leaving.',
    data: z.object({ partner_id: id() }),
    example: { partner_id: 1 },
  },
  'adjustment.created': {
    when: 'A manual commission was added to a partner’s balance, or a deduction with a negative amount.',
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
    when: 'Somebody sent a test event. Every endpoint gets it.',
    data: z.object({ endpoint_id: id() }),
    example: { endpoint_id: 1 },
  },
}

/** All types that a program can receive. */
export const payloadTypes = [...webhookTypes, testType] as const

/** The schema of a webhook's body. */
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
