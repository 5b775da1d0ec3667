import type { Stripe } from 'stripe'
import {
  charge,
  checkoutSession,
  creditNote,
  customer,
  dispute,
  type Generation,
  invoice as writeInvoice,
  invoicePayment,
  paymentIntent,
  refund,
  type Shop,
  type Shown,
} from '../../lib/local/stripe-events.ts'

/**
 * The objects of a Stripe account in the format of its events, for API versions before 2025-03-31 (`old`) and since
 * then (`new`). New objects have the types of Stripe's library.
 */

/** A price, in Stripe's unit. Discounts are subtracted before tax. */
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

/** The buyer. */
export interface Buyer {
  /** Stripe's customer, `cus_…`. */
  customer: string
  email: string
  /** The metadata that the integrator attaches to this buyer's objects. */
  metadata: Record<string, string>
  clickId: string | null
  livemode: boolean
}

/** One payment as the oracle counts it, no matter which objects describe it. Its money is in the ledger. */
export interface Payment {
  label: string
  buyer: Buyer
  currency: string
  price: Pick<Price, 'total' | 'untaxed'>
  /** The processor's fee, if the program excludes it from commissions. */
  fee?: number
  /** The part of the refunds and disputes without tax, if the processor reports it. */
  goneUntaxed?: number | undefined
  /** The ids of the payment's objects in the account: invoice, intents, charges and session. */
  ids: string[]
  charges: Charge[]
  /** Unix seconds. */
  at: number
  renewal: boolean
  /** The lines of the invoice. Null without an invoice. */
  lines: Line[] | null
}

/** A line of an invoice in Stripe's unit. `product` is the suffix of the ids of its product and price. */
export interface Line {
  product: string | null
  amount: number
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
  /** Created from a payment link, so it has the click id in `client_reference_id` and no metadata. */
  fromLink: boolean
  /** The promotion code of the discount. */
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
  /** The total of the successful and pending refunds. */
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
  /** The customer's balance before and after. Credit is negative. */
  startingBalance: number
  endingBalance: number
  due: number
  paid: number
  outside: number
  overpaid: number
  creditedBefore: number
  creditedAfter: number
  lines: Line[]
  intent: string | null
  charge: string | null
  created: number
}

export interface Subscription {
  id: string
  buyer: Buyer
  /** Empty if only the session has the integrator's metadata. */
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
  /** The amount in `currency`, which the buyer's bank determines. */
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

/**
 * A balance transaction. `amount` is in `currency`. `exchange_rate` is the amount in `currency` for one unit of the
 * charge's currency.
 */
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

/** The format of objects in an endpoint's API version. */
export interface Version {
  generation: Generation
  /** Invoices that predate `subscription_details` have the subscription's metadata only in their line. */
  oldest: boolean
}

const shopOf = (buyer: Buyer, now: number, generation: Generation = 'new'): Shop => ({
  generation,
  account: '',
  programId: 0,
  clickId: buyer.clickId,
  customerKey: null,
  email: buyer.email,
  customer: buyer.customer,
  livemode: buyer.livemode,
  now,
})

export const customerObject = (buyer: Buyer, metadata: Record<string, string>, created: number) =>
  customer(shopOf(buyer, created), metadata)

/** A session's discounts in the format of Stripe's API. */
export const discountsOfSession = ({ id, price, promotion }: Session) => ({
  id,
  total_details: {
    breakdown: { discounts: [{ amount: price.discount, discount: { id: `di_${id}`, promotion_code: promotion } }] },
  },
})

export function sessionObject({ generation }: Version, session: Session): Shown<Stripe.Checkout.Session> {
  const { id, mode, buyer, price, created, currency, promotion, invoice, subscription } = session
  return {
    ...checkoutSession(shopOf(buyer, created, generation), {
      id,
      mode,
      payment_status: session.status,
      total: price.total,
      tax: price.tax,
      discount: price.discount,
      currency,
      invoice,
      payment_intent: session.intent,
      subscription,
      metadata: session.fromLink ? {} : buyer.metadata,
    }),
    amount_subtotal: price.subtotal,
    client_reference_id: session.fromLink ? buyer.clickId : null,
    // Before 2025-01-27, events don't contain the discounts, and only the API returns them.
    ...(generation === 'new' && {
      discounts: promotion === null ? [] : [{ coupon: 'cou_1', promotion_code: promotion }],
    }),
    expires_at: created + 86_400,
    payment_link: session.fromLink ? 'plink_1' : null,
    setup_intent: null,
    ...(mode === 'setup' && {
      amount_subtotal: null,
      amount_total: null,
      currency: null,
      setup_intent: `seti_${id}`,
      total_details: null,
    }),
  }
}

export function intentObject({ generation }: Version, intent: Intent): Shown<Stripe.PaymentIntent> {
  const { id, payment, amount, received, status, metadata, tax, created } = intent
  const paid = { id, charge: '', amount, received, currency: payment.currency, metadata, tax: tax ?? undefined }
  return {
    ...paymentIntent(shopOf(payment.buyer, created, generation), paid),
    amount_capturable: status === 'requires_capture' ? amount : 0,
    latest_charge: intent.charge?.id ?? null,
    receipt_email: null,
    status,
    ...(generation === 'old' && { invoice: intent.invoice }),
  }
}

export function chargeObject({ generation }: Version, model: Charge): Shown<Stripe.Charge> {
  const { id, payment, amount, captured, intent, invoice, created } = model
  // Here, an authorized amount that wasn't captured counts as refunded.
  const refunded = model.refunded + (captured > 0 ? amount - captured : 0)
  const { buyer, currency } = payment
  return {
    ...charge(shopOf(buyer, created, generation), { id, amount, refunded, currency, payment_intent: intent, invoice }),
    amount_captured: captured,
    balance_transaction: model.transaction,
    captured: captured > 0,
    disputed: model.disputed,
    refunded: model.refunded === captured && captured > 0,
  }
}

export function invoiceObject(
  version: Version,
  model: Invoice,
): Omit<Shown<Stripe.Invoice>, 'lines'> & { lines: object } {
  const { id, buyer, price, created, currency, subscription } = model
  const isNew = version.generation === 'new'
  const isPaid = model.due <= model.paid + model.outside
  // Since 2025-03-31, `amount_paid` includes payments outside Stripe.
  const paid = isNew ? model.paid + model.outside : model.paid
  const update = model.reason === 'subscription_update'
  return {
    ...writeInvoice(shopOf(buyer, created, version.generation), {
      id,
      subscription: subscription?.id ?? null,
      billing_reason: model.reason,
      amount_paid: paid,
      total: price.total,
      tax: price.tax,
      currency,
      payment_intent: model.intent,
      charge: model.charge,
      metadata: subscription?.metadata ?? {},
      only_in_line: version.oldest && !isNew,
    }),
    amount_due: model.due,
    ...(isNew && { amount_overpaid: model.overpaid }),
    amount_remaining: Math.max(0, model.due - paid),
    collection_method: model.outside > 0 ? 'send_invoice' : 'charge_automatically',
    discounts: price.discount > 0 ? [`di_${id}`] : [],
    ending_balance: model.endingBalance,
    lines: {
      object: 'list',
      data: model.lines.map((line, at) => lineObject(version, model, line, at, update)),
      has_more: false,
      url: `/v1/invoices/${id}/lines`,
    },
    metadata: model.metadata,
    post_payment_credit_notes_amount: model.creditedAfter,
    pre_payment_credit_notes_amount: model.creditedBefore,
    starting_balance: model.startingBalance,
    status: isPaid ? 'paid' : 'open',
    status_transitions: {
      finalized_at: created,
      marked_uncollectible_at: null,
      paid_at: isPaid ? created + 1 : null,
      voided_at: null,
    },
    subtotal: price.subtotal,
    subtotal_excluding_tax: price.inclusive ? price.subtotal - price.tax : price.subtotal,
    total_discount_amounts: price.discount > 0 ? [{ amount: price.discount, discount: `di_${id}` }] : [],
    ...(isNew
      ? {
          total_taxes: taxes(price).map((tax) => ({
            ...tax,
            tax_behavior: price.inclusive ? 'inclusive' : 'exclusive',
            tax_rate_details: { tax_rate: 'txr_1' },
            type: 'tax_rate_details' as const,
          })),
        }
      : {
          paid: isPaid,
          paid_out_of_band: model.outside > 0,
          tax: price.tax || null,
          total_tax_amounts: taxes(price).map((tax) => ({ ...tax, inclusive: price.inclusive, tax_rate: 'txr_1' })),
        }),
  }
}

function taxes(price: Price) {
  if (price.tax === 0) return []
  return [{ amount: price.tax, taxability_reason: 'standard_rated' as const, taxable_amount: price.untaxed }]
}

function lineObject(
  version: Version,
  invoice: Invoice,
  { product, amount }: Line,
  at: number,
  proration: boolean,
): object {
  const sold = product === null ? null : { price: `price_${product}`, product: `prod_${product}` }
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
      ...(sold && { price: { id: sold.price, product: sold.product } }),
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
  const pricing = sold && { price_details: sold, type: 'price_details', unit_amount_decimal: null }
  return { ...line, parent, pricing, subtotal: amount, taxes: [] }
}

/** The part of an invoice that one payment pays. */
export function invoicePaymentObject(
  { id, currency, buyer, intent }: Invoice,
  paid: { id: string; intent: string | null; amount: number; created: number },
): Shown<Stripe.InvoicePayment> {
  const { amount } = paid
  return {
    ...invoicePayment(shopOf(buyer, paid.created), { id: paid.id, invoice: id, payment_intent: '', amount, currency }),
    is_default: paid.intent === intent,
    payment:
      paid.intent === null
        ? { payment_record: `pr_${paid.id}`, type: 'payment_record' }
        : { payment_intent: paid.intent, type: 'payment_intent' },
  }
}

export function refundObject({ id, charge: of, amount, status, ...model }: Refund): Shown<Stripe.Refund> {
  const { payment, intent } = of
  const taken = { id, amount, currency: payment.currency, status, charge: of.id, payment_intent: intent }
  return {
    ...refund(shopOf(payment.buyer, model.created), taken),
    balance_transaction: model.transaction,
    ...(model.failureTransaction !== null && { failure_balance_transaction: model.failureTransaction }),
    ...(status === 'failed' && { failure_reason: 'expired_or_canceled_card' }),
    ...(status === 'pending' && { pending_reason: 'processing' as const }),
  }
}

export function disputeObject({
  id,
  charge: of,
  amount,
  currency,
  status,
  ...model
}: Dispute): Omit<Shown<Stripe.Dispute>, 'balance_transactions'> & { balance_transactions: Transaction[] } {
  const taken = { id, amount, currency, status, charge: of.id, payment_intent: of.intent }
  return {
    ...dispute(shopOf(of.payment.buyer, model.created), taken),
    balance_transactions: model.transactions,
    is_charge_refundable: status.startsWith('warning_'),
  }
}

export function creditNoteObject({ generation }: Version, note: CreditNote): Shown<Stripe.CreditNote> {
  const { id, invoice: of, amount, outside, refund: given } = note
  const written = { id, invoice: of.id, amount, outside, currency: of.currency }
  return {
    ...creditNote(shopOf(of.buyer, note.created, generation), written),
    ...(note.before && { type: 'pre_payment' as const }),
    ...(generation === 'new'
      ? {
          post_payment_amount: note.before ? 0 : amount,
          pre_payment_amount: note.before ? amount : 0,
          refunds: given
            ? [
                {
                  amount_refunded: given.amount,
                  payment_record_refund: null,
                  refund: given.id,
                  type: 'refund' as const,
                },
              ]
            : [],
        }
      : { refund: given?.id ?? null }),
  }
}
