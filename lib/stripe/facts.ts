/**
 * Stands for the account whose key this deployment has: its events name none. The program that it belongs to is connected to it as
 * others are to theirs, by an owner who proves that it is theirs (own-account.ts) or by `npm run own-account`.
 */
export const ownAccount = 'platform'

/**
 * What the service takes from one webhook event, whatever the payload's generation: all that is needed to apply it now or again,
 * and all that the log keeps, under the names of its columns. It holds no e-mail address, only its keyed hash. The functions of
 * migrations/functions/6_processor/ read it.
 */
export interface WebhookEvent {
  event_id: string
  event_type: string
  /** The connected account, `acct_…`, or {@link ownAccount}. */
  account_id: string
  livemode: boolean
  event_created_at: Date
  fact: Fact
  /** A live event that no schema reads, whole, as `sealPayload` makes it. */
  payload: string | null
}

export type Fact =
  | Purchase
  | Reversals
  | ChargeRefunds
  | InvoicePayment
  | CustomerMetadata
  | Deauthorization
  | Ownership
  | Ignored

/** A checkout, a payment or an invoice: who bought, and what was paid for it where it was paid. */
export interface Purchase {
  kind: 'purchase'
  program_id: number | null
  click_id: string | null
  customer_key: string | null
  email_hash: string | null
  mailbox_hash?: string
  processor_customer_id: string | null
  session_id: string | null
  /** When the buyer set out to buy, ISO 8601: the click must have been valid then. */
  started_at: string
  /** A checkout settles a provisional lead, an invoice does not. */
  settles_lead: boolean
  /** Payment comes later: whose the session is must be kept until then. */
  awaits_payment: boolean
  /** What a session asks for that awaits its payment, of which less may be captured, and of that what is no tax; in Stripe's unit. */
  asked: { total: number; untaxed: number } | null
  /** All ids that the payload names the payment by: of its session, charges, intents and invoice. */
  payment_ids: string[]
  /** No other event need say whose the payment is, so that somebody is told where this one does not. */
  reported_alone: boolean
  /** The payment intent of which Stripe must be asked whether it paid an invoice, where nothing else told it. */
  asks_invoice_of: string | null
  /** The promotion codes that it was discounted by, as far as the payload says; absent where it says none. */
  promotion_code_ids?: string[]
  /** The session or invoice that Stripe must be asked for, where the payload has discounts and does not say by what, and the account's programs have codes. */
  asks_discounts_of?: string
  sale: PurchaseSale | null
}

/** The columns of `sales` that the payload fills. */
export interface PurchaseSale {
  /** Invoice, else payment intent, else session. */
  transaction_id: string
  /** 0 only of an invoice, which then makes no sale. */
  amount_cents: number
  /** What decides over what: see `amount_source` in migrations/0004_money.sql. */
  amount_source: 'charge' | 'intent' | 'session' | 'invoice'
  /** What was paid, without tax. */
  commission_base_cents: number
  currency: string
  sale_type: string
  is_recurring: boolean
  subscription_id: string | null
  /** Only an invoice names products. */
  product_ids?: string[] | null
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
  charge_id: string | null
  /** Where the payload still names it (before 2025-03-31), and of a credit note. */
  invoice_id: string | null
  /** One can stand here in several currencies: the sale's counts, or else the first. */
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

/** Which ids are of one payment, and the invoice that it paid, where the event says it. */
export interface InvoicePayment {
  kind: 'invoice_payment'
  payment_ids: string[]
  invoice_id: string | null
}

/** What a customer's metadata says of them at some moment: whose those payments of theirs are that say nothing themselves. */
export interface CustomerMetadata {
  kind: 'customer'
  processor_customer_id: string
  program_id: number | null
  click_id: string | null
  customer_key: string | null
  /** The customer was deleted at the processor, and pays nothing more. */
  is_deleted: boolean
  /** ISO 8601. */
  reported_at: string
}

/** The account's owner took the service's access away. */
export interface Deauthorization {
  kind: 'deauthorization'
}

/** Somebody wrote the code of a program into the account's metadata (lib/stripe/own-account.ts). */
export interface Ownership {
  kind: 'ownership'
  code: string
}

export interface Ignored {
  kind: 'ignored'
  reason: string
  /** Of a payload that no schema reads: what it says it is about, as far as that can be told. */
  unread?: Unread
}

export interface Unread {
  payment_ids: string[]
  processor_customer_id: string | null
  subscription_id: string | null
}

export const ignored = (reason: string): Ignored => ({ kind: 'ignored', reason })
