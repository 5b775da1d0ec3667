import { maxAmountCents } from '../money.ts'

/**
 * The facts of one webhook event, whatever the payload's generation: everything that is needed to apply it now or again. The log stores it
 * under the same column names. It holds no e-mail address, only its keyed hash. The functions of migrations/functions/6_processor/ read it.
 */
export interface WebhookEvent {
  event_id: string
  event_type: string
  /** At Stripe the connected account, `acct_…`, or `platform`; at others the connection. */
  account_id: string
  livemode: boolean
  event_created_at: Date
  fact: Fact
  /** The whole payload of a live event that no schema reads, as `seal` encrypts it. */
  payload: string | null
}

export type Fact =
  | Purchase
  | Reversals
  | RefundedTotal
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
  /** The subscription, if its processor may not repeat the metadata in renewals: the buyer is remembered by it. */
  subscription_id?: string | null
  session_id: string | null
  /** The time when the buyer started to buy, ISO 8601. The click must have been valid then. */
  started_at: string
  /** A checkout settles a provisional lead, an invoice does not. */
  settles_lead: boolean
  /** The payment comes later, so the session's buyer must be stored until then. */
  awaits_payment: boolean
  /** The amount of a session that awaits its payment and the untaxed part of it, in the processor's unit. The capture can be lower. */
  asked: { total: number; untaxed: number } | null
  /** All ids of the payment in the payload: of its session, charges, intents and invoice. */
  payment_ids: string[]
  /** No other event will name the buyer, so the advertiser is notified if this one does not. */
  reported_alone: boolean
  /** The payment intent for which the processor must say whether it paid an invoice, if no other event says so. */
  asks_invoice_of: string | null
  /** The promotion codes that discounted it, as far as the payload names them; absent if it names none. */
  promotion_code_ids?: string[]
  /**
   * The session or invoice to ask the processor about if the payload has discounts but does not name their codes, and the account's programs have
   * codes.
   */
  asks_discounts_of?: string
  sale: PurchaseSale | null
}

/** The columns of `sales` that the payload fills. */
export interface PurchaseSale {
  /** Invoice, else payment intent, else session. */
  transaction_id: string
  /** 0 only for an invoice, which then makes no sale. */
  amount_cents: number
  /** The source whose figures win; see `amount_source` in migrations/0004_money.sql. */
  amount_source: 'charge' | 'intent' | 'session' | 'invoice'
  /** The paid amount without tax. */
  commission_base_cents: number
  /** The processor's fee, if it reports one. */
  processor_fee_cents?: number | null
  currency: string
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  /** Only an invoice has lines: each with its price before its product, and its share of the amount. */
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
  /** At other processors than Stripe, the payment. */
  charge_id: string | null
  /** Named by payloads before 2025-03-31 and by credit notes. */
  invoice_id: string | null
  /** A reversal can appear in several currencies: the sale's currency counts, or else the first one. */
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
  /** At a processor that gives the return of a chargeback its own id and does not name the chargeback: which of the two this is. */
  pairs?: 'chargeback' | 'return'
}

/** The total that the refunds of a payment have reached. Each rise is one refund. */
export interface RefundedTotal {
  kind: 'refunded_total'
  payment_ids: string[]
  total_cents: number
  currency: string
}

/** A charge whose payload only has the sum of its refunds, so the processor must list them one by one. */
export interface ChargeRefunds {
  kind: 'charge_refunds'
  payment_intent_id: string | null
  charge_id: string
  invoice_id: string | null
}

/** The ids of one payment, and the invoice that it paid if the event names it. */
export interface InvoicePayment {
  kind: 'invoice_payment'
  payment_ids: string[]
  invoice_id: string | null
}

/** The metadata of a customer at some moment. It attributes those payments of the customer that have no metadata. */
export interface CustomerMetadata {
  kind: 'customer'
  processor_customer_id: string
  program_id: number | null
  click_id: string | null
  customer_key: string | null
  /** The customer was deleted at the processor and pays nothing more. */
  is_deleted: boolean
  /** ISO 8601. */
  reported_at: string
}

/** The account's owner revoked the service's access. */
export interface Deauthorization {
  kind: 'deauthorization'
}

/** Somebody wrote the code of a program into the account's metadata (lib/processors/stripe/own-account.ts). */
export interface Ownership {
  kind: 'ownership'
  code: string
}

export interface Ignored {
  kind: 'ignored'
  reason: string
  /** The ids that an unreadable payload names, as far as they can be found. */
  unread?: Unread
}

export interface Unread {
  payment_ids: string[]
  processor_customer_id: string | null
  subscription_id: string | null
}

export const ignored = (reason: string): Ignored => ({ kind: 'ignored', reason })

/**
 * Returns whether an amount is above the database's limit. An amount within the processor's own limit can be, because its unit can be a
 * hundred times smaller.
 */
export function isTooLarge(fact: Fact): boolean {
  if (fact.kind === 'purchase') return (fact.sale?.amount_cents ?? 0) > maxAmountCents
  if (fact.kind === 'refunded_total') return fact.total_cents > maxAmountCents
  return fact.kind === 'reversals' && fact.reversals.some(({ amount_cents: cents }) => cents > maxAmountCents)
}
