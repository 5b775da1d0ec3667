import * as z from 'zod/mini'
import { maxAmountCents } from '../money.ts'

/**
 * What the service takes from one webhook event, whatever the payload's generation: all that is needed to apply it now or again,
 * and all that the delivery log keeps. It holds no e-mail address, only its keyed hash.
 */
export interface ProcessorEvent {
  id: string
  type: string
  /** The connected account, `acct_…`. */
  account_id: string
  livemode: boolean
  /** When it happened, ISO 8601. */
  created: string
  fact: Fact
}

export type Fact = Purchase | Reversals | ChargeRefunds | InvoicePayment | Deauthorization | Ignored

/** A checkout or an invoice: who bought, and what was paid for it where it was paid. */
export interface Purchase {
  kind: 'purchase'
  program_id: number | null
  click_id: string | null
  customer_key: string | null
  email_hash: string | null
  processor_customer_id: string | null
  session_id: string | null
  /** When the buyer set out to buy, ISO 8601: the click must have been valid then. */
  started_at: string
  /** A checkout settles a provisional lead, an invoice does not. */
  settles_lead: boolean
  /** Payment comes later: whose the session is must be kept until then. */
  awaits_payment: boolean
  /** Payment intents and charges by which it was paid. */
  payment_ids: string[]
  sale: PurchaseSale | null
}

export interface PurchaseSale {
  /** Invoice, else payment intent, else session. */
  transaction_id: string
  amount_cents: number
  /** What was paid, without tax. */
  commission_base_cents: number
  currency: string
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  invoice_id: string | null
  payment_intent_id: string | null
  charge_id: string | null
  /** ISO 8601. */
  sale_date: string
}

/** Refunds or a dispute of one payment. */
export interface Reversals {
  kind: 'reversals'
  payment_intent_id: string | null
  charge_id: string | null
  /** Where the payload still names it (before 2025-03-31). */
  invoice_id: string | null
  reversals: Reversal[]
}

export interface Reversal {
  reversal_id: string
  reason: 'refund' | 'chargeback'
  reason_text: string | null
  amount_cents: number
  currency: string
  /** The refund failed or was canceled, or the dispute's money came back. */
  returned: boolean
}

/** A charge of which Stripe must be asked for the refunds one by one, as its payload only has their sum. */
export interface ChargeRefunds {
  kind: 'charge_refunds'
  payment_intent_id: string | null
  charge_id: string
  invoice_id: string | null
}

/** Which invoice a payment paid. */
export interface InvoicePayment {
  kind: 'invoice_payment'
  payment_ids: string[]
  invoice_id: string
}

/** The account's owner took the service's access away. */
export interface Deauthorization {
  kind: 'deauthorization'
}

export interface Ignored {
  kind: 'ignored'
  reason: string
}

export const ignored = (reason: string): Ignored => ({ kind: 'ignored', reason })

/** Hashes an e-mail address; see `emailHash`. */
export type HashEmail = (email: string) => Promise<string>

/** An id, or the expanded object with it, or neither. */
export const reference = z.pipe(
  z.nullish(z.union([z.string(), z.looseObject({ id: z.string() })])),
  z.transform((value) => (typeof value === 'object' ? (value?.id ?? null) : (value ?? null))),
)

/** Unix seconds as ISO 8601. */
export const unixTime = z.pipe(
  z.int().check(z.gte(0), z.lte(8_640_000_000_000)),
  z.transform((seconds) => new Date(seconds * 1000).toISOString()),
)

export const amount = z.int().check(z.gte(0), z.lte(maxAmountCents))
export const currency = z.string().check(z.regex(/^[a-z]{3}$/))

/** Text that people set; what the database could not hold counts as not set. */
export function freeText(length: number) {
  return z.pipe(
    z.optional(z.unknown()),
    z.transform((value) =>
      typeof value === 'string' &&
      value !== '' &&
      value.length <= length &&
      value.isWellFormed() &&
      !value.includes('\0')
        ? value
        : null,
    ),
  )
}

/** What the integrator attaches to a checkout session or a subscription. */
export const metadata = z.nullish(
  z.pipe(
    z.looseObject({
      program_id: freeText(20),
      svc_click_id: freeText(255),
      svc_customer_key: freeText(255),
    }),
    z.transform(({ program_id, svc_click_id, svc_customer_key }) => ({
      program_id: program_id !== null && /^[1-9]\d{0,14}$/.test(program_id) ? Number(program_id) : null,
      click_id: svc_click_id,
      customer_key: svc_customer_key,
    })),
  ),
)

export const noMetadata = { program_id: null, click_id: null, customer_key: null }
