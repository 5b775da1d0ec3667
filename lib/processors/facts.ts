import { maxAmountCents } from '../money.ts'

/**
 * The facts of one webhook event, in the same format for all API versions. They are sufficient to apply the event now or later. The
 * log stores them under the same column names. They don't contain the e-mail address, but only its keyed hash. The functions in
 * migrations/functions/6_processor/ read them.
 */
export interface WebhookEvent {
  event_id: string
  event_type: string
  /** For Stripe, the connected account `acct_…` or `platform`. For other processors, the connection. */
  account_id: string
  livemode: boolean
  event_created_at: Date
  fact: Fact
  /** The whole payload of a live event without a matching schema, encrypted by `seal`. */
  payload: string | null
}

export type Fact =
  | Purchase
  | Reversals
  | RefundedTotal
  | PaymentFee
  | ChargeRefunds
  | InvoicePayment
  | CustomerMetadata
  | Deauthorization
  | Ownership
  | Ignored

/** A checkout, a payment or an invoice: the buyer, and the sale if it was paid. */
export interface Purchase {
  kind: 'purchase'
  program_id: number | null
  click_id: string | null
  customer_key: string | null
  email_hash: string | null
  mailbox_hash?: string
  processor_customer_id: string | null
  /**
   * The subscription, if the processor may omit the metadata in renewals. In that case, the service finds the buyer through the
   * subscription.
   */
  subscription_id?: string | null
  session_id: string | null
  /** The time when the buyer started the purchase, in ISO 8601. The click must be valid at that time. */
  started_at: string
  /** Checkouts settle provisional leads, but invoices don't. */
  settles_lead: boolean
  /** The payment comes later, so the service must store the session's buyer until then. */
  awaits_payment: boolean
  /** The amount of a session without its payment, and the amount without tax, in the processor's unit. The captured amount can be lower. */
  requested: { total: number; untaxed: number } | null
  /** All ids of the payment in the payload: session, charges, intents and invoice. */
  payment_ids: string[]
  /** True if no other event identifies the buyer. If this event doesn't either, the service notifies the advertiser. */
  reported_alone: boolean
  /** If no other event says whether this payment intent paid an invoice, the service asks the processor. */
  asks_invoice_of: string | null
  /** The promotion codes that discounted the purchase, if the payload contains any. */
  promotion_code_ids?: string[]
  /**
   * The session or invoice about which the service asks the processor, because the payload has discounts without their codes.
   * Undefined if no program of the account has codes.
   */
  asks_discounts_of?: string
  sale: PurchaseSale | null
}

/** The columns of `sales` that the payload fills. */
export interface PurchaseSale {
  /** The id of the invoice, or else of the payment intent, or else of the session. */
  transaction_id: string
  /** Only an invoice can have 0. In that case, it doesn't create a sale. */
  amount_cents: number
  /** The source of the amounts. `amount_source` in migrations/0004_money.sql says which source wins. */
  amount_source: 'charge' | 'intent' | 'session' | 'invoice'
  /** The paid amount without tax. */
  commission_base_cents: number
  /** The processor's fee, if it reports one. */
  processor_fee_cents?: number | null
  currency: string
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  /** Only an invoice has lines. Each line has its price, its product and its share of the amount, in this order. */
  lines?: { product_ids: string[]; weight: number }[] | null
  processor_invoice_id: string | null
  processor_payment_intent_id: string | null
  processor_charge_id: string | null
  /** ISO 8601. */
  sale_date: string
}

/** Refunds or a dispute of one payment, or a credit note of its invoice. */
export interface Reversals {
  kind: 'reversals'
  payment_intent_id: string | null
  /** For processors other than Stripe, the payment. */
  charge_id: string | null
  /** Only credit notes, and payloads before 2025-03-31, contain it. */
  invoice_id: string | null
  /** A reversal can appear in several currencies. The service uses the sale's currency, or else the first one. */
  reversals: Reversal[]
}

export interface Reversal {
  reversal_id: string
  reason: 'refund' | 'chargeback'
  reason_text: string | null
  amount_cents: number
  /** The amount without tax, if the reversal's share of the tax can differ from its share of the payment. */
  untaxed_cents?: number | null
  currency: string
  /** The refund failed or was canceled, or the dispute's money came back. */
  returned: boolean
  /**
   * Whether this is a chargeback or its return. Set only if the return has its own id at the processor and doesn't refer to the
   * chargeback.
   */
  pairs?: 'chargeback' | 'return'
}

/** The total of all refunds of a payment so far. Each increase is one refund. */
export interface RefundedTotal {
  kind: 'refunded_total'
  payment_ids: string[]
  total_cents: number
  currency: string
}

/** The processor's fee for a payment, if the processor reports it after the payment. */
export interface PaymentFee {
  kind: 'payment_fee'
  payment_ids: string[]
  fee_cents: number
}

/** A charge. The payload contains only the sum of its refunds, so the processor must list them. */
export interface ChargeRefunds {
  kind: 'charge_refunds'
  payment_intent_id: string | null
  charge_id: string
  invoice_id: string | null
}

/** The ids of one payment, and the invoice that it paid if the event contains it. */
export interface InvoicePayment {
  kind: 'invoice_payment'
  payment_ids: string[]
  invoice_id: string | null
}

/** The metadata of a customer at a given moment. It attributes the customer's payments without metadata. */
export interface CustomerMetadata {
  kind: 'customer'
  processor_customer_id: string
  program_id: number | null
  click_id: string | null
  customer_key: string | null
  /** The processor has deleted the customer, so there are no more payments. */
  is_deleted: boolean
  /** ISO 8601. */
  reported_at: string
}

/** The account's owner revoked the service's access. */
export interface Deauthorization {
  kind: 'deauthorization'
}

/** Somebody wrote a program's code into the account's metadata (lib/processors/stripe/own-account.ts). */
export interface Ownership {
  kind: 'ownership'
  code: string
}

export interface Ignored {
  kind: 'ignored'
  reason: string
  /** The ids that were found in an unreadable payload. */
  unread?: Unread
}

export interface Unread {
  payment_ids: string[]
  processor_customer_id: string | null
  subscription_id: string | null
}

export const ignored = (reason: string): Ignored => ({ kind: 'ignored', reason })

/**
 * Returns whether an amount is above the database's limit. The processor's own limit can be higher, because its unit can be a hundred times
 * smaller.
 */
export function isTooLarge(fact: Fact): boolean {
  if (fact.kind === 'purchase') return (fact.sale?.amount_cents ?? 0) > maxAmountCents
  if (fact.kind === 'refunded_total') return fact.total_cents > maxAmountCents
  return fact.kind === 'reversals' && fact.reversals.some(({ amount_cents: cents }) => cents > maxAmountCents)
}
