/**
 * Converts Stripe's objects for `SvcClient`, for shops that send their sales themselves. The amounts are the same as for a connected Stripe
 * account. Verify the webhook's signature first. Stripe's package is not needed at run time.
 */
import type { RefundInput, SaleInput } from './server.ts'
import {
  type InvoiceAmounts,
  paidOfInvoice,
  type SessionAmounts,
  stripeAmount,
  untaxedOfSession,
} from './stripe-amounts.ts'

/** An id, or the expanded object with this id. */
type Reference = string | { id: string } | null | undefined
type Metadata = Record<string, string> | null | undefined

const idOf = (reference: Reference) => (typeof reference === 'string' ? reference : reference?.id)

/** The fields of `Stripe.Checkout.Session` that the helpers read. */
export interface PaidSession extends SessionAmounts {
  id: string
  mode?: string | null | undefined
  payment_status: string
  currency?: string | null | undefined
  metadata?: Metadata
  invoice?: Reference
  payment_intent?: Reference
  subscription?: Reference
}

interface SubscriptionDetails {
  metadata?: Metadata
  subscription?: Reference
}

/** The fields of `Stripe.Invoice` that the helpers read, in the format since 2025-03-31 and in earlier formats. */
export interface PaidInvoice extends InvoiceAmounts {
  id?: string | undefined
  billing_reason?: string | null | undefined
  metadata?: Metadata
  parent?: { subscription_details?: SubscriptionDetails | null | undefined } | null | undefined
  lines?: { data: { metadata?: Metadata }[] } | null | undefined
  subscription_details?: SubscriptionDetails | null | undefined
  subscription?: Reference
}

/** Returns the buyer, or null if none of these places has the metadata of `checkoutMetadata`. */
function buyerOf(places: Metadata[]): Pick<SaleInput, 'customerExternalId' | 'clickId' | 'programId'> | null {
  const found = places.find((metadata) => metadata?.['svc_customer_key'])
  const customerExternalId = found?.['svc_customer_key']
  if (!customerExternalId) return null
  return {
    customerExternalId,
    clickId: found['svc_click_id'] || null,
    programId: Number(found['program_id']) || undefined,
  }
}

/**
 * Returns the sale for a session: a single payment, or the first payment of a subscription. Returns null if the session is unpaid, free,
 * or has no customer key. The sale has the id of the invoice if there is one, so that the same payment from `saleFromInvoice` counts only
 * once.
 *
 * For `checkout.session.completed` and `checkout.session.async_payment_succeeded`.
 */
export function saleFromSession(session: PaidSession): SaleInput | null {
  const { currency, amount_total: total } = session
  const buyer = buyerOf([session.metadata])
  const isSubscription = session.mode === 'subscription'
  if (!(isSubscription || session.mode === 'payment')) return null
  if (session.payment_status !== 'paid' || !total || !currency || !buyer) return null
  const amount = stripeAmount(total, currency)
  return {
    ...buyer,
    amount,
    tax: amount - stripeAmount(untaxedOfSession(session), currency),
    currency,
    invoiceId: idOf(session.invoice) ?? idOf(session.payment_intent) ?? session.id,
    saleType: isSubscription ? 'subscription' : 'payment',
    ...(isSubscription && { subscriptionId: idOf(session.subscription) }),
  }
}

/**
 * Returns the sale for a renewal's invoice. `includeFirst` adds every other paid invoice: a subscription's first payment, a change of
 * plan, the end of a trial, or an invoice with its own metadata. Returns null if nothing was paid, or if no metadata identifies the
 * customer.
 *
 * For `invoice.paid`.
 */
export function saleFromInvoice(invoice: PaidInvoice, { includeFirst = false } = {}): SaleInput | null {
  if (!includeFirst && invoice.billing_reason !== 'subscription_cycle') return null
  const details = invoice.parent?.subscription_details
  const buyer = buyerOf([
    invoice.metadata,
    details?.metadata,
    invoice.subscription_details?.metadata,
    ...(invoice.lines?.data ?? []).map(({ metadata }) => metadata),
  ])
  const { amount, untaxed } = paidOfInvoice(invoice)
  if (!(amount > 0) || !buyer || !invoice.id) return null
  const subscriptionId = idOf(details?.subscription ?? invoice.subscription)
  return {
    ...buyer,
    amount,
    tax: amount - untaxed,
    currency: invoice.currency,
    invoiceId: invoice.id,
    isRecurring: invoice.billing_reason === 'subscription_cycle',
    saleType: subscriptionId ? 'subscription' : 'payment',
    subscriptionId,
  }
}

/** The calls to your `new Stripe(…)` that find the invoice of a payment. */
export interface StripeApi {
  /** In Stripe's package since API version 2025-03-31. Before that, the payment intent contains the invoice. */
  invoicePayments?: {
    list(query: {
      payment: { type: 'payment_intent'; payment_intent: string }
      limit: number
    }): PromiseLike<{ data: { invoice: Reference }[] }>
  }
  paymentIntents: { retrieve(id: string): PromiseLike<{ id: string; invoice?: Reference }> }
}

/** The fields of refunds, disputes and credit notes that `refundFromEvent` reads. */
interface MoneyBack {
  id: string
  amount: number
  currency: string
  status?: string | null
  reason?: string | null
  memo?: string | null
  payment_intent?: Reference
  charge?: Reference
  invoice?: Reference
  out_of_band_amount?: number | null
  balance_transactions?: { amount: number; currency: string }[]
}

/**
 * Returns the refund in an event for `trackRefund`, or null if there is none. Reads `refund.created` and `refund.updated` (once the
 * refund has succeeded), `charge.dispute.funds_withdrawn`, and `credit_note.created` with the amount that the shop refunded outside of
 * Stripe. Repeated events, and several events about one refund, return the same refund.
 *
 * Rejects if the call to Stripe for the paid invoice fails. In that case, return 500, and Stripe sends the event again.
 */
export async function refundFromEvent(
  event: { type: string; data: { object: object } },
  stripe: StripeApi,
): Promise<RefundInput | null> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- Stripe signed it, and the types below have these fields
  const object = event.data.object as MoneyBack
  const { currency, id: refundId } = object
  const refundOf = (amount: number) => ({ amount: stripeAmount(amount, currency), refundId })
  switch (event.type) {
    case 'refund.created':
    case 'refund.updated':
    case 'charge.refund.updated': {
      if ((object.status ?? 'succeeded') !== 'succeeded') return null
      const invoiceId = await saleOf(object, stripe)
      return invoiceId ? { invoiceId, ...refundOf(object.amount), refundReason: object.reason ?? undefined } : null
    }
    case 'charge.dispute.funds_withdrawn': {
      const invoiceId = await saleOf(object, stripe)
      const taken = (object.balance_transactions ?? [])
        .filter((move) => move.amount < 0 && move.currency === currency)
        .reduce((sum, move) => sum - move.amount, 0)
      return invoiceId ? { invoiceId, ...refundOf(taken || object.amount), reason: 'chargeback' } : null
    }
    case 'credit_note.created': {
      const invoiceId = idOf(object.invoice)
      const amount = object.out_of_band_amount ?? 0
      return invoiceId && amount > 0 ? { invoiceId, ...refundOf(amount), refundReason: object.memo ?? undefined } : null
    }
    default:
      return null
  }
}

/** Returns the `invoiceId` of a payment's sale: the paid invoice, or else the payment itself. */
async function saleOf({ payment_intent, charge }: MoneyBack, stripe: StripeApi): Promise<string | undefined> {
  const intent = idOf(payment_intent)
  if (!intent) return idOf(charge)
  if (!stripe.invoicePayments) return idOf((await stripe.paymentIntents.retrieve(intent)).invoice) ?? intent
  const { data } = await stripe.invoicePayments.list({
    payment: { type: 'payment_intent', payment_intent: intent },
    limit: 1,
  })
  return idOf(data[0]?.invoice) ?? intent
}
