import * as z from 'zod/mini'
import { isCurrency, maxAmountCents } from '../money.ts'
import { additionalData, id, key, text, url } from './request-fields.ts'

/** Body of POST /api/v1/track/lead. */
export const leadRequest = z.object({
  customer_key: key(),
  click_id: text(255),
  /** The same under the client library's name. */
  clickId: text(255),
  email: text(320),
  session_id: text(255),
  page_url: url(),
  /** On a browser lead: the program that the page believes the click is of. */
  program_id: id(),
  additional_data: additionalData,
})

export type LeadRequest = z.output<typeof leadRequest>

/** Body of POST /api/v1/track/sale. */
export const saleRequest = z.object({
  transaction_id: key(),
  customer_key: key(),
  amount_cents: z.int().check(z.positive(), z.maximum(maxAmountCents)),
  currency: z.nullish(z.string().check(z.toLowerCase(), z.refine(isCurrency, 'must be an ISO 4217 currency code'))),
  click_id: text(255),
  clickId: text(255),
  is_recurring: z.nullish(z.boolean()),
  isRecurring: z.nullish(z.boolean()),
  sale_type: z.nullish(z.string().check(z.minLength(1), z.maxLength(64))),
  saleType: z.nullish(z.string().check(z.minLength(1), z.maxLength(64))),
  subscription_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  subscriptionId: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  additional_data: additionalData,
})

/** Body of POST /api/v1/track/refund. */
export const refundRequest = z.object({
  transaction_id: key(),
  refund_amount_cents: z.nullish(z.int().check(z.nonnegative(), z.maximum(maxAmountCents))),
  refund_id: z.nullish(z.string().check(z.minLength(1), z.maxLength(255))),
  refund_reason: text(1000),
  reason: z.nullish(z.enum(['refund', 'chargeback'])),
})
