import * as z from 'zod/mini'
import { isCurrency, maxAmountCents } from './money.ts'

/** Text of at most `length` characters, or null, or nothing. */
function text(length: number) {
  return z.nullish(z.string().check(z.maxLength(length)))
}

const url = () => text(8192)
const id = () => z.nullish(z.int().check(z.positive()))
const key = () => z.string().check(z.minLength(1), z.maxLength(255))

/** Free data of the integrator. `test_mode: true` makes the event a test event; `program_id` names its program. */
const additionalData = z.nullish(z.looseObject({ test_mode: z.nullish(z.boolean()), program_id: id() }))

/** Body of POST /api/v1/track/click. */
export const clickRequest = z.object({
  affiliate_url: z.string().check(z.minLength(1), z.maxLength(8192)),
  page_url: url(),
  page_title: text(1024),
  referrer_url: url(),
  session_id: text(255),
  user_agent: text(2048),
  screen_resolution: z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>'))),
  viewport_size: z.nullish(z.string().check(z.regex(/^\d{1,5}x\d{1,5}$/, 'must have the form <width>x<height>'))),
  language: text(64),
  timezone: text(64),
  existing_click_id: text(255),
  additional_data: additionalData,
})

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
