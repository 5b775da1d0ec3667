import type { Stripe } from 'stripe'
import type { Generation } from '../../lib/local/stripe-events.ts'

/**
 * What a Stripe account keeps, and how its events show it: in API versions before 2025-03-31 (`old`) and from then on (`new`). The
 * objects of the new generation are held to the types of Stripe's library; those of the old one to its API's fixtures of February 2025.
 * Fields that are the same for everybody (addresses, texts, settings) are left out.
 */

/** What something costs, in Stripe's unit. Discounts come off before tax. */
export interface Price {
  subtotal: number
  discount: number
  tax: number
  /** The tax is part of the subtotal. */
  inclusive: boolean
  total: number
  /** The total without tax. */
  untaxed: number
}

/** Who buys. */
export interface Buyer {
  /** Stripe's customer, `cus_…`. */
  customer: string
  email: string
  /** What the integrator attaches for this buyer. */
  metadata: Record<string, string>
  clickId: string | null
  livemode: boolean
}

/** One payment as the oracle counts it, whatever objects tell of it. Its money is in the ledger. */
export interface Payment {
  label: string
  buyer: Buyer
  currency: string
  price: Pick<Price, 'total' | 'untaxed'>
  /** Ids under which the account knows it: invoice, intents, charges, session. */
  ids: string[]
  charges: Charge[]
  /** Unix seconds. */
  at: number
  renewal: boolean
}

export interface Session {
  id: string
  mode: 'payment' | 'subscription' | 'setup'
  status: 'paid' | 'unpaid' | 'no_payment_required'
  buyer: Buyer
  currency: string
  price: Price
  created: number
  invoice: string | null
  intent: string | null
  subscription: string | null
  /** Made from a payment link: the click id is in `client_reference_id`, and there is no metadata. */
  fromLink: boolean
  /** The promotion code that it was discounted by. */
  promotion: string | null
}

export interface Intent {
  id: string
  payment: Payment
  amount: number
  received: number
  status: 'succeeded' | 'requires_capture'
  metadata: Record<string, string>
  tax: number | null
  charge: Charge | null
  invoice: string | null
  created: number
}

export interface Charge {
  id: string
  intent: string
  payment: Payment
  amount: number
  captured: number
  /** What refunds that did not fail took. */
  refunded: number
  disputed: boolean
  invoice: string | null
  transaction: string | null
  created: number
}

export interface Invoice {
  id: string
  buyer: Buyer
  currency: string
  price: Price
  reason: 'subscription_create' | 'subscription_cycle' | 'subscription_update' | 'manual'
  subscription: Subscription | null
  metadata: Record<string, string>
  /** The customer's balance before and after: negative is credit. */
  startingBalance: number
  endingBalance: number
  due: number
  paid: number
  outside: number
  overpaid: number
  creditedBefore: number
  creditedAfter: number
  intent: string | null
  charge: string | null
  created: number
}

export interface Subscription {
  id: string
  buyer: Buyer
  /** Empty where the integrator attached it to the session alone. */
  metadata: Record<string, string>
}

export interface Refund {
  id: string
  charge: Charge
  amount: number
  status: 'requires_action' | 'pending' | 'succeeded' | 'failed' | 'canceled'
  transaction: string | null
  failureTransaction: string | null
  created: number
}

export interface Dispute {
  id: string
  charge: Charge
  /** In `currency`, which the buyer's bank chose. */
  amount: number
  currency: string
  status: 'warning_needs_response' | 'warning_closed' | 'needs_response' | 'won' | 'lost'
  transactions: Transaction[]
  created: number
}

export interface CreditNote {
  id: string
  invoice: Invoice
  amount: number
  before: boolean
  refund: Refund | null
  outside: number
  created: number
}

/** A balance transaction. `amount` is in `currency`; `exchange_rate` is how many of its units one of the charge's gave. */
export interface Transaction {
  id: string
  object: 'balance_transaction'
  amount: number
  available_on: number
  created: number
  currency: string
  description: string | null
  exchange_rate: number | null
  fee: number
  fee_details: []
  net: number
  reporting_category: 'charge' | 'refund' | 'refund_failure' | 'dispute' | 'dispute_reversal'
  source: string
  status: 'pending'
  type: 'charge' | 'refund' | 'refund_failure' | 'adjustment'
}

/** How an endpoint's API version writes objects. */
export interface Version {
  generation: Generation
  /** Invoices from before `subscription_details`: the subscription's metadata is in its line alone. */
  oldest: boolean
}

/** An object of Stripe's as far as it is written out here. */
type Shown<Whole> = { [Field in keyof Whole]?: Whole[Field] | undefined } & { id: string }

export function customerObject(
  buyer: Buyer,
  metadata: Record<string, string>,
  created: number,
): Shown<Stripe.Customer> {
  return {
    id: buyer.customer,
    object: 'customer',
    balance: 0,
    created,
    default_source: null,
    description: null,
    email: buyer.email,
    invoice_prefix: 'A1B2C3D4',
    livemode: buyer.livemode,
    metadata,
    name: null,
    phone: null,
    shipping: null,
    tax_exempt: 'none',
  }
}

/** What a session was discounted by, as Stripe's API answers it where it is asked. */
export const discountsOfSession = ({ id, price, promotion }: Session) => ({
  id,
  total_details: {
    breakdown: { discounts: [{ amount: price.discount, discount: { id: `di_${id}`, promotion_code: promotion } }] },
  },
})

export function sessionObject({ generation }: Version, session: Session): Shown<Stripe.Checkout.Session> {
  const { buyer, price, created, currency, promotion } = session
  return {
    id: session.id,
    object: 'checkout.session',
    amount_subtotal: session.mode === 'setup' ? null : price.subtotal,
    amount_total: session.mode === 'setup' ? null : price.total,
    automatic_tax: {
      enabled: price.tax > 0,
      liability: null,
      provider: null,
      status: price.tax > 0 ? 'complete' : null,
    },
    client_reference_id: session.fromLink ? buyer.clickId : null,
    created,
    currency: session.mode === 'setup' ? null : currency,
    customer: buyer.customer,
    customer_details: {
      address: null,
      business_name: null,
      email: buyer.email,
      individual_name: null,
      name: null,
      phone: null,
      tax_exempt: 'none',
      tax_ids: [],
    },
    customer_email: null,
    // Before 2025-01-27 Stripe has to be asked.
    ...(generation === 'new' && {
      discounts: promotion === null ? [] : [{ coupon: 'cou_1', promotion_code: promotion }],
    }),
    expires_at: created + 86_400,
    invoice: session.invoice,
    livemode: buyer.livemode,
    metadata: session.fromLink ? {} : buyer.metadata,
    mode: session.mode,
    payment_intent: session.intent,
    payment_link: session.fromLink ? 'plink_1' : null,
    payment_method_types: ['card'],
    payment_status: session.status,
    setup_intent: session.mode === 'setup' ? `seti_${session.id}` : null,
    status: 'complete',
    subscription: session.subscription,
    total_details:
      session.mode === 'setup' ? null : { amount_discount: price.discount, amount_shipping: 0, amount_tax: price.tax },
  }
}

export function intentObject({ generation }: Version, intent: Intent): Shown<Stripe.PaymentIntent> {
  const { payment } = intent
  return {
    id: intent.id,
    object: 'payment_intent',
    amount: intent.amount,
    amount_capturable: intent.status === 'requires_capture' ? intent.amount : 0,
    ...(intent.tax !== null && { amount_details: { tax: { total_tax_amount: intent.tax } } }),
    amount_received: intent.received,
    created: intent.created,
    currency: payment.currency,
    customer: payment.buyer.customer,
    latest_charge: intent.charge?.id ?? null,
    livemode: payment.buyer.livemode,
    metadata: intent.metadata,
    payment_method_types: ['card'],
    receipt_email: null,
    status: intent.status,
    ...(generation === 'old' && { invoice: intent.invoice }),
  }
}

export function chargeObject({ generation }: Version, charge: Charge): Shown<Stripe.Charge> {
  const { payment } = charge
  return {
    id: charge.id,
    object: 'charge',
    amount: charge.amount,
    amount_captured: charge.captured,
    // What was authorised and not captured counts as refunded here.
    amount_refunded: charge.refunded + (charge.captured > 0 ? charge.amount - charge.captured : 0),
    balance_transaction: charge.transaction,
    captured: charge.captured > 0,
    created: charge.created,
    currency: payment.currency,
    customer: payment.buyer.customer,
    disputed: charge.disputed,
    livemode: payment.buyer.livemode,
    metadata: {},
    paid: true,
    payment_intent: charge.intent,
    refunded: charge.refunded === charge.captured && charge.captured > 0,
    status: 'succeeded',
    ...(generation === 'old' && { invoice: charge.invoice }),
  }
}

export function invoiceObject(
  version: Version,
  invoice: Invoice,
): Omit<Shown<Stripe.Invoice>, 'lines'> & { lines: object } {
  const { buyer, price, created, currency, subscription } = invoice
  const isPaid = invoice.due <= invoice.paid + invoice.outside
  // Since 2025-03-31 `amount_paid` holds what was paid outside of Stripe; before, it left it out.
  const paid = version.generation === 'new' ? invoice.paid + invoice.outside : invoice.paid
  const update = invoice.reason === 'subscription_update'
  const parts = update
    ? [-Math.floor(price.subtotal / 4), price.subtotal + Math.floor(price.subtotal / 4)]
    : [price.subtotal]
  return {
    id: invoice.id,
    object: 'invoice',
    amount_due: invoice.due,
    ...(version.generation === 'new' && { amount_overpaid: invoice.overpaid }),
    amount_paid: paid,
    amount_remaining: Math.max(0, invoice.due - paid),
    amount_shipping: 0,
    attempt_count: 1,
    attempted: true,
    auto_advance: false,
    billing_reason: invoice.reason,
    collection_method: invoice.outside > 0 ? 'send_invoice' : 'charge_automatically',
    created,
    currency,
    customer: buyer.customer,
    customer_email: buyer.email,
    customer_tax_exempt: 'none',
    discounts: price.discount > 0 ? [`di_${invoice.id}`] : [],
    ending_balance: invoice.endingBalance,
    lines: {
      object: 'list',
      data: parts.map((amount, at) => lineObject(version, invoice, amount, at, update)),
      has_more: false,
      url: `/v1/invoices/${invoice.id}/lines`,
    },
    livemode: buyer.livemode,
    metadata: invoice.metadata,
    number: `A-${invoice.id}`,
    period_end: created,
    period_start: created,
    post_payment_credit_notes_amount: invoice.creditedAfter,
    pre_payment_credit_notes_amount: invoice.creditedBefore,
    starting_balance: invoice.startingBalance,
    status: isPaid ? 'paid' : 'open',
    status_transitions: {
      finalized_at: created,
      marked_uncollectible_at: null,
      paid_at: isPaid ? created + 1 : null,
      voided_at: null,
    },
    subtotal: price.subtotal,
    subtotal_excluding_tax: price.inclusive ? price.subtotal - price.tax : price.subtotal,
    total: price.total,
    total_discount_amounts: price.discount > 0 ? [{ amount: price.discount, discount: `di_${invoice.id}` }] : [],
    total_excluding_tax: price.untaxed,
    ...(version.generation === 'new'
      ? {
          customer_account: null,
          parent: subscription && {
            quote_details: null,
            subscription_details: { metadata: subscription.metadata, subscription: subscription.id },
            type: 'subscription_details',
          },
          total_taxes: taxes(price).map((tax) => ({
            ...tax,
            tax_behavior: price.inclusive ? 'inclusive' : 'exclusive',
            tax_rate_details: { tax_rate: 'txr_1' },
            type: 'tax_rate_details' as const,
          })),
        }
      : {
          application_fee_amount: null,
          charge: invoice.charge,
          discount: null,
          paid: isPaid,
          paid_out_of_band: invoice.outside > 0,
          payment_intent: invoice.intent,
          quote: null,
          subscription: subscription?.id ?? null,
          ...(!version.oldest && { subscription_details: { metadata: subscription?.metadata ?? null } }),
          tax: price.tax || null,
          total_tax_amounts: taxes(price).map((tax) => ({ ...tax, inclusive: price.inclusive, tax_rate: 'txr_1' })),
          transfer_data: null,
        }),
  }
}

function taxes(price: Price) {
  if (price.tax === 0) return []
  return [{ amount: price.tax, taxability_reason: 'standard_rated' as const, taxable_amount: price.untaxed }]
}

/** A line of an invoice. A changed subscription has one that credits what is left of the old price and one for the new. */
function lineObject(version: Version, invoice: Invoice, amount: number, at: number, proration: boolean): object {
  const { subscription, currency, created, buyer } = invoice
  const line: Shown<Stripe.InvoiceLineItem> = {
    id: `il_${invoice.id}_${at}`,
    object: 'line_item',
    amount,
    currency,
    description: null,
    discountable: !proration,
    discounts: [],
    invoice: invoice.id,
    livemode: buyer.livemode,
    metadata: subscription?.metadata ?? {},
    period: { end: created, start: created },
    quantity: 1,
  }
  if (version.generation === 'old') {
    return {
      ...line,
      ...(proration || !subscription ? { invoice_item: `ii_${invoice.id}_${at}` } : {}),
      proration,
      proration_details: { credited_items: null },
      subscription: subscription?.id ?? null,
      subscription_item: subscription ? `si_${subscription.id}` : undefined,
      tax_rates: [],
      type: proration || !subscription ? 'invoiceitem' : 'subscription',
    }
  }
  const item = {
    invoice_item: `ii_${invoice.id}_${at}`,
    proration,
    proration_details: { credited_items: null },
    subscription: subscription?.id ?? null,
  }
  const parent: Stripe.InvoiceLineItem['parent'] = subscription
    ? {
        invoice_item_details: null,
        subscription_item_details: {
          ...item,
          invoice_item: proration ? item.invoice_item : null,
          subscription_item: `si_${subscription.id}`,
        },
        type: 'subscription_item_details',
      }
    : { invoice_item_details: item, subscription_item_details: null, type: 'invoice_item_details' }
  return { ...line, parent, pricing: null, subtotal: amount, taxes: [] }
}

/** What one payment paid of an invoice. */
export function invoicePaymentObject(
  invoice: Invoice,
  paid: { id: string; intent: string | null; amount: number; created: number },
): Shown<Stripe.InvoicePayment> {
  return {
    id: paid.id,
    object: 'invoice_payment',
    amount_paid: paid.amount,
    amount_requested: paid.amount,
    created: paid.created,
    currency: invoice.currency,
    invoice: invoice.id,
    is_default: paid.intent === invoice.intent,
    livemode: invoice.buyer.livemode,
    payment:
      paid.intent === null
        ? { payment_record: `pr_${paid.id}`, type: 'payment_record' }
        : { payment_intent: paid.intent, type: 'payment_intent' },
    status: 'paid',
    status_transitions: { canceled_at: null, paid_at: paid.created },
  }
}

export function refundObject(refund: Refund): Shown<Stripe.Refund> {
  const { charge } = refund
  return {
    id: refund.id,
    object: 'refund',
    amount: refund.amount,
    balance_transaction: refund.transaction,
    charge: charge.id,
    created: refund.created,
    currency: charge.payment.currency,
    ...(refund.failureTransaction !== null && { failure_balance_transaction: refund.failureTransaction }),
    ...(refund.status === 'failed' && { failure_reason: 'expired_or_canceled_card' }),
    metadata: {},
    payment_intent: charge.intent,
    ...(refund.status === 'pending' && { pending_reason: 'processing' as const }),
    reason: 'requested_by_customer',
    receipt_number: null,
    source_transfer_reversal: null,
    status: refund.status,
    transfer_reversal: null,
  }
}

export function disputeObject(
  dispute: Dispute,
): Omit<Shown<Stripe.Dispute>, 'balance_transactions'> & { balance_transactions: Transaction[] } {
  const { charge } = dispute
  return {
    id: dispute.id,
    object: 'dispute',
    amount: dispute.amount,
    balance_transactions: dispute.transactions,
    charge: charge.id,
    created: dispute.created,
    currency: dispute.currency,
    is_charge_refundable: dispute.status.startsWith('warning_'),
    livemode: charge.payment.buyer.livemode,
    metadata: {},
    payment_intent: charge.intent,
    reason: 'fraudulent',
    status: dispute.status,
  }
}

export function creditNoteObject({ generation }: Version, note: CreditNote): Shown<Stripe.CreditNote> {
  const { invoice, refund } = note
  return {
    id: note.id,
    object: 'credit_note',
    amount: note.amount,
    amount_shipping: 0,
    created: note.created,
    currency: invoice.currency,
    customer: invoice.buyer.customer,
    discount_amount: 0,
    invoice: invoice.id,
    livemode: invoice.buyer.livemode,
    metadata: {},
    number: `A-${note.id}`,
    out_of_band_amount: note.outside || null,
    reason: 'product_unsatisfactory',
    status: 'issued',
    subtotal: note.amount,
    total: note.amount,
    type: note.before ? 'pre_payment' : 'post_payment',
    voided_at: null,
    ...(generation === 'new'
      ? {
          post_payment_amount: note.before ? 0 : note.amount,
          pre_payment_amount: note.before ? note.amount : 0,
          refunds: refund
            ? [
                {
                  amount_refunded: refund.amount,
                  payment_record_refund: null,
                  refund: refund.id,
                  type: 'refund' as const,
                },
              ]
            : [],
        }
      : { refund: refund?.id ?? null }),
  }
}
