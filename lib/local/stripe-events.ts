/**
 * Events as Stripe sends them to a Connect endpoint, in the format of API versions before 2025-03-31 (`old`) and from then on (`new`).
 * Fields that the service does not read make payloads look realistic.
 */

import type { Stripe } from 'stripe'
import { ownAccount } from '../processors/stripe/client.ts'

export type Generation = 'old' | 'new'

/** The fields of a Stripe object that these events contain. */
export type Shown<Whole> = { [Field in keyof Whole]?: Whole[Field] | undefined } & { id: string }

/** The seller and the buyer. */
export interface Shop {
  generation: Generation
  account: string
  programId: number
  clickId: string | null
  customerKey: string | null
  email: string | null
  /** Stripe's id of the customer, `cus_…`. */
  customer: string | null
  livemode: boolean
  /** The time of the first event in Unix seconds. */
  now: number
}

export interface StripeEvent {
  id: string
  type: string
  account?: string
  livemode: boolean
  created: number
  data: { object: Record<string, unknown> }
}

const apiVersions = { old: '2024-06-20', new: '2025-03-31.basil' }

/** Wraps an object in an event. `id` is the event's id. */
export function stripeEvent(
  shop: Pick<Shop, 'generation' | 'account' | 'livemode' | 'now'>,
  id: string,
  type: string,
  object: Record<string, unknown>,
) {
  return {
    id,
    object: 'event',
    ...(shop.account !== ownAccount && { account: shop.account }),
    api_version: apiVersions[shop.generation],
    created: shop.now,
    data: { object },
    livemode: shop.livemode,
    pending_webhooks: 1,
    request: { id: null, idempotency_key: null },
    type,
  }
}

/** The metadata that an integrator attaches to sessions and subscriptions. */
export function shopMetadata(shop: Shop): Record<string, string> {
  return {
    program_id: String(shop.programId),
    ...(shop.clickId !== null && { svc_click_id: shop.clickId }),
    ...(shop.customerKey !== null && { svc_customer_key: shop.customerKey }),
  }
}

/** The shop's customer with the integrator's metadata. */
export function customer(shop: Shop, metadata = shopMetadata(shop)): Shown<Stripe.Customer> {
  return {
    id: shop.customer ?? '',
    object: 'customer',
    balance: 0,
    created: shop.now,
    currency: null,
    delinquent: false,
    email: shop.email,
    invoice_prefix: 'A1B2C3D4',
    livemode: shop.livemode,
    metadata,
    name: null,
  }
}

export function checkoutSession(
  shop: Shop,
  session: {
    id: string
    mode?: 'payment' | 'subscription' | 'setup'
    payment_status?: 'paid' | 'unpaid' | 'no_payment_required'
    total: number
    tax?: number
    discount?: number
    currency?: string
    invoice?: string | null
    payment_intent?: string | null
    subscription?: string | null
    metadata?: Record<string, string>
  },
): Shown<Stripe.Checkout.Session> {
  const { total, tax = 0, discount = 0 } = session
  return {
    id: session.id,
    object: 'checkout.session',
    amount_subtotal: total - tax + discount,
    amount_total: total,
    automatic_tax: { enabled: tax > 0, liability: null, provider: null, status: tax > 0 ? 'complete' : null },
    client_reference_id: null,
    created: shop.now,
    currency: session.currency ?? 'usd',
    customer: shop.customer,
    customer_details: {
      address: null,
      business_name: null,
      email: shop.email,
      individual_name: null,
      name: null,
      phone: null,
      tax_exempt: 'none',
      tax_ids: [],
    },
    customer_email: null,
    invoice: session.invoice ?? null,
    livemode: shop.livemode,
    metadata: session.metadata ?? shopMetadata(shop),
    mode: session.mode ?? 'payment',
    payment_intent: session.payment_intent ?? null,
    payment_method_types: ['card'],
    payment_status: session.payment_status ?? 'paid',
    status: 'complete',
    subscription: session.subscription ?? null,
    total_details: { amount_discount: discount, amount_shipping: 0, amount_tax: tax },
  }
}

export function invoice(
  shop: Shop,
  bill: {
    id: string
    subscription: string | null
    billing_reason?: Stripe.Invoice.BillingReason
    amount_paid: number
    total?: number
    tax?: number
    currency?: string
    payment_intent?: string | null
    charge?: string | null
    price?: { id: string; product: string }
    metadata?: Record<string, string>
    /** Puts the metadata only into the subscription's line, as in the oldest payloads. */
    only_in_line?: boolean
  },
): Omit<Shown<Stripe.Invoice>, 'lines'> & { lines: object } {
  const { subscription, amount_paid, total = amount_paid, tax = 0 } = bill
  const metadata = bill.metadata ?? shopMetadata(shop)
  const details = subscription === null ? null : { metadata: bill.only_in_line ? null : metadata, subscription }
  const line = {
    id: `il_${bill.id}`,
    object: 'line_item',
    amount: total - tax,
    currency: bill.currency ?? 'usd',
    metadata,
    quantity: 1,
    ...(bill.price && shop.generation === 'old' && { price: { object: 'price', ...bill.price } }),
    ...(bill.price &&
      shop.generation === 'new' && {
        pricing: { type: 'price_details', price_details: { price: bill.price.id, product: bill.price.product } },
      }),
    ...(shop.generation === 'new'
      ? {
          parent: {
            invoice_item_details: null,
            subscription_item_details: {
              invoice_item: null,
              proration: false,
              subscription,
              subscription_item: 'si_1',
            },
            type: 'subscription_item_details',
          },
        }
      : { type: 'subscription', subscription, subscription_item: 'si_1', proration: false }),
  }
  return {
    id: bill.id,
    object: 'invoice',
    amount_due: total,
    amount_paid,
    amount_remaining: 0,
    billing_reason: bill.billing_reason ?? 'subscription_cycle',
    collection_method: 'charge_automatically',
    created: shop.now,
    currency: bill.currency ?? 'usd',
    customer: shop.customer,
    customer_email: shop.email,
    lines: { object: 'list', data: [line], has_more: false, total_count: 1, url: `/v1/invoices/${bill.id}/lines` },
    livemode: shop.livemode,
    metadata: {},
    status: 'paid',
    status_transitions: { finalized_at: shop.now, marked_uncollectible_at: null, paid_at: shop.now, voided_at: null },
    subtotal: total - tax,
    total,
    total_excluding_tax: total - tax,
    ...(shop.generation === 'new'
      ? { parent: details && { quote_details: null, subscription_details: details, type: 'subscription_details' } }
      : {
          subscription,
          ...(!bill.only_in_line && { subscription_details: { metadata: details?.metadata ?? null } }),
          payment_intent: bill.payment_intent ?? null,
          charge: bill.charge ?? null,
          paid: true,
          tax,
        }),
  }
}

export function invoicePayment(
  shop: Shop,
  payment: { id?: string; invoice: string; payment_intent: string; amount: number; currency?: string },
): Shown<Stripe.InvoicePayment> {
  return {
    id: payment.id ?? `inpay_${payment.payment_intent}`,
    object: 'invoice_payment',
    amount_paid: payment.amount,
    amount_requested: payment.amount,
    created: shop.now,
    currency: payment.currency ?? 'usd',
    invoice: payment.invoice,
    is_default: true,
    livemode: shop.livemode,
    payment: { payment_intent: payment.payment_intent, type: 'payment_intent' },
    status: 'paid',
    status_transitions: { canceled_at: null, paid_at: shop.now },
  }
}

export function refund(
  shop: Shop,
  refunded: {
    id: string
    amount: number
    currency?: string
    status?: string
    charge?: string | null
    payment_intent?: string | null
  },
): Shown<Stripe.Refund> {
  return {
    id: refunded.id,
    object: 'refund',
    amount: refunded.amount,
    balance_transaction: 'txn_1',
    charge: refunded.charge ?? null,
    created: shop.now,
    currency: refunded.currency ?? 'usd',
    metadata: {},
    payment_intent: refunded.payment_intent ?? null,
    reason: 'requested_by_customer',
    status: refunded.status ?? 'succeeded',
  }
}

export function charge(
  shop: Shop,
  charged: {
    id: string
    amount: number
    refunded: number
    currency?: string
    payment_intent?: string
    invoice?: string | null
  },
): Shown<Stripe.Charge> {
  return {
    id: charged.id,
    object: 'charge',
    amount: charged.amount,
    amount_refunded: charged.refunded,
    created: shop.now,
    currency: charged.currency ?? 'usd',
    customer: shop.customer,
    livemode: shop.livemode,
    metadata: {},
    paid: true,
    payment_intent: charged.payment_intent ?? null,
    refunded: charged.refunded === charged.amount,
    status: 'succeeded',
    ...(shop.generation === 'old' && { invoice: charged.invoice ?? null }),
  }
}

export function dispute(
  shop: Shop,
  disputed: {
    id: string
    amount: number
    currency?: string
    status?: Stripe.Dispute.Status
    charge: string
    payment_intent?: string
  },
): Shown<Stripe.Dispute> {
  return {
    id: disputed.id,
    object: 'dispute',
    amount: disputed.amount,
    balance_transactions: [],
    charge: disputed.charge,
    created: shop.now,
    currency: disputed.currency ?? 'usd',
    is_charge_refundable: false,
    livemode: shop.livemode,
    metadata: {},
    payment_intent: disputed.payment_intent ?? null,
    reason: 'fraudulent',
    status: disputed.status ?? 'needs_response',
  }
}

/** A credit note for a paid invoice, with an amount that the seller refunded outside of Stripe. */
export function creditNote(
  shop: Shop,
  note: { id: string; invoice: string; amount: number; outside: number; currency?: string },
): Shown<Stripe.CreditNote> {
  return {
    id: note.id,
    object: 'credit_note',
    amount: note.amount,
    created: shop.now,
    currency: note.currency ?? 'usd',
    customer: shop.customer ?? '',
    invoice: note.invoice,
    livemode: shop.livemode,
    memo: null,
    metadata: {},
    out_of_band_amount: note.outside || null,
    reason: 'product_unsatisfactory',
    status: 'issued',
    total: note.amount,
    type: 'post_payment',
    voided_at: null,
    ...(shop.generation === 'new'
      ? { post_payment_amount: note.amount, pre_payment_amount: 0, refunds: [] }
      : { refund: null }),
  }
}

/** A successful intent. `received` is the amount that arrived, by default the whole amount. */
export function paymentIntent(
  shop: Shop,
  paid: {
    id: string
    charge: string
    amount: number
    received?: number
    currency?: string
    tax?: number
    metadata?: Record<string, string>
  },
): Shown<Stripe.PaymentIntent> {
  return {
    id: paid.id,
    object: 'payment_intent',
    amount: paid.amount,
    amount_capturable: 0,
    amount_details: paid.tax === undefined ? { tip: {} } : { tip: {}, tax: { total_tax_amount: paid.tax } },
    amount_received: paid.received ?? paid.amount,
    created: shop.now,
    currency: paid.currency ?? 'usd',
    customer: shop.customer,
    latest_charge: paid.charge,
    livemode: shop.livemode,
    metadata: paid.metadata ?? shopMetadata(shop),
    receipt_email: shop.email,
    status: 'succeeded',
    ...(shop.generation === 'old' && { invoice: null }),
  }
}

/** An authorized charge with this captured amount. */
export function capturedCharge(
  shop: Shop,
  paid: { id: string; payment_intent: string; amount: number; captured: number; metadata?: Record<string, string> },
): Shown<Stripe.Charge> {
  const { payment_intent, amount } = paid
  return {
    ...charge(shop, { id: paid.id, amount, refunded: amount - paid.captured, payment_intent }),
    amount_captured: paid.captured,
    captured: true,
    metadata: paid.metadata ?? shopMetadata(shop),
  }
}
