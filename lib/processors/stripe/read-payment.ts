import * as z from 'zod/mini'
import { shareOf, stripeAmount } from '../../../tracker/src/stripe-amounts.ts'
import { emailHashes } from '../../tracking/customers.ts'
import { type Fact, ignored, type Purchase } from '../facts.ts'
import {
  amount,
  currency,
  freeText,
  type HashEmail,
  id,
  metadata,
  noMetadata,
  reference,
  unixTime,
} from '../payload.ts'

const intent = z.looseObject({
  id,
  created: unixTime,
  amount,
  amount_received: amount,
  currency,
  /** The tax on the whole amount, if the integrator sent it. */
  amount_details: z.nullish(z.looseObject({ tax: z.nullish(z.looseObject({ total_tax_amount: z.nullish(amount) })) })),
  metadata,
  customer: reference,
  receipt_email: freeText(320),
  latest_charge: reference,
  /** Before 2025-03-31, null if the intent didn't pay an invoice. Absent since 2025-03-31. */
  invoice: reference,
})

const charge = z.looseObject({
  id,
  created: unixTime,
  amount,
  amount_captured: amount,
  currency,
  metadata,
  customer: reference,
  receipt_email: freeText(320),
  billing_details: z.nullish(z.looseObject({ email: freeText(320) })),
  payment_intent: reference,
  /** The invoice that the charge paid, as in an intent. */
  invoice: reference,
})

/** A payment without a session or an invoice. */
interface Payment {
  id: string
  chargeId: string | null
  created: string
  /** The requested amount, its tax, and the received amount, in Stripe's unit. */
  amount: number
  tax: number
  received: number
  currency: string
  metadata: NonNullable<z.output<typeof metadata>>
  customer: string | null
  email: string | null
  invoiceId: string | null
  source: 'charge' | 'intent'
  /** The payload doesn't say whether the intent paid an invoice. */
  hidesInvoice: boolean
}

/** Reads `payment_intent.succeeded`. For the Payment Element, it is the only event that identifies the buyer. */
export async function readIntent(object: unknown, created: string, hashEmail: HashEmail): Promise<Fact> {
  const paid = intent.parse(object)
  return await purchaseOf(
    {
      ...paid,
      metadata: paid.metadata ?? noMetadata,
      chargeId: paid.latest_charge,
      tax: paid.amount_details?.tax?.total_tax_amount ?? 0,
      received: paid.amount_received,
      email: paid.receipt_email,
      invoiceId: paid.invoice,
      source: 'intent',
      hidesInvoice: !isNamed(object, 'invoice'),
    },
    created,
    hashEmail,
  )
}

/**
 * Reads `charge.captured`: the full or partial capture of an authorized amount. Stripe copies an intent's metadata to its charges. Only the
 * intent has the tax.
 */
export async function readCapturedCharge(object: unknown, created: string, hashEmail: HashEmail): Promise<Fact> {
  const captured = charge.parse(object)
  return await purchaseOf(
    {
      ...captured,
      metadata: captured.metadata ?? noMetadata,
      id: captured.payment_intent ?? captured.id,
      chargeId: captured.id,
      tax: 0,
      received: captured.amount_captured,
      email: captured.receipt_email ?? captured.billing_details?.email ?? null,
      invoiceId: captured.invoice,
      source: 'charge',
      hidesInvoice: captured.payment_intent !== null && !isNamed(object, 'invoice'),
    },
    created,
    hashEmail,
  )
}

const isNamed = (object: unknown, field: string) => typeof object === 'object' && object !== null && field in object

async function purchaseOf(payment: Payment, created: string, hashEmail: HashEmail): Promise<Fact> {
  if (payment.received === 0) return ignored('Nothing was paid.')
  const { program_id, click_id, customer_key } = payment.metadata
  const paidCents = stripeAmount(payment.received, payment.currency)
  const untaxed = Math.max(0, payment.amount - payment.tax)
  const purchase: Purchase = {
    kind: 'purchase',
    program_id,
    click_id,
    customer_key,
    ...(await emailHashes(hashEmail, payment.email)),
    processor_customer_id: payment.customer,
    session_id: null,
    started_at: payment.created,
    settles_lead: true,
    awaits_payment: false,
    requested: null,
    // A session or an invoice may identify the buyer.
    reported_alone: false,
    payment_ids: [payment.id, payment.chargeId, payment.invoiceId].filter((one) => one !== null),
    asks_invoice_of: payment.hidesInvoice ? payment.id : null,
    sale: {
      transaction_id: payment.invoiceId ?? payment.id,
      amount_cents: paidCents,
      amount_source: payment.source,
      commission_base_cents: shareOf(paidCents, untaxed, payment.amount),
      currency: payment.currency,
      sale_type: 'payment',
      is_recurring: false,
      subscription_id: null,
      processor_invoice_id: payment.invoiceId,
      processor_payment_intent_id: payment.id.startsWith('pi_') ? payment.id : null,
      processor_charge_id: payment.chargeId,
      sale_date: created,
    },
  }
  return purchase
}
