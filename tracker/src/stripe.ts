/**
 * What Stripe's objects are to `SvcClient`, for shops that send their sales themselves: the amounts that a connected Stripe account would
 * record. Verify the webhook's signature first. Nothing of Stripe's package is needed at run time.
 */
import type { RefundInput, SaleInput } from './server.ts'
import {
  type InvoiceAmounts,
  paidOfInvoice,
  type SessionAmounts,
  stripeAmount,
  untaxedOfSession,
} from './stripe-amounts.ts'

/** An id, or the expanded object that has it. */
type Reference = string | { id: string } | null | undefined
type Metadata = Record<string, string> | null | undefined

const idOf = (reference: Reference) => (typeof reference === 'string' ? reference : reference?.id)

/** What is read of a `Stripe.Checkout.Session`. */
export interface PaidSession extends SessionAmounts {
  id: string
  mode?: string | null | undefined
  payment_status: string
  currency?: string | null | undefined
  metadata?: Metadata
  invoice?: Reference
  payment_intent?: Reference
}

interface SubscriptionDetails {
  metadata?: Metadata
  subscription?: Reference
}

/** What is read of a `Stripe.Invoice`, in its shape since 2025-03-31 and in those before. */
export interface PaidInvoice extends InvoiceAmounts {
  id?: string | undefined
  billing_reason?: string | null | undefined
  metadata?: Metadata
  parent?: { subscription_details?: SubscriptionDetails | null | undefined } | null | undefined
  lines?: { data: { metadata?: Metadata }[] } | null | undefined
  subscription_details?: SubscriptionDetails | null | undefined
  subscription?: Reference
}

/** Who bought, or null where the metadata of `checkoutMetadata` is in none of these places. */
function buyerOf(places: Metadata[]): Pick<SaleInput, 'customerExternalId' | 'clickId' | 'programId'> | null {
  const said = places.find((metadata) => metadata?.['svc_customer_key'])
  const customerExternalId = said?.['svc_customer_key']
  if (!customerExternalId) return null
  return {
    customerExternalId,
    clickId: said['svc_click_id'] || null,
    programId: Number(said['program_id']) || undefined,
  }
}

/**
 * The sale that a session in mode `payment` is, or null where it is none: not paid (yet), free, or without a customer key. Null for a
 * subscription too, whose first payment is the invoice of an `invoice.paid` event, like every later one.
 *
 * Of `checkout.session.completed` and `checkout.session.async_payment_succeeded`.
 */
export function saleFromSession(session: PaidSession): SaleInput | null {
  const { currency, amount_total: total } = session
  const buyer = buyerOf([session.metadata])
  if (session.mode !== 'payment' || session.payment_status !== 'paid' || !total || !currency || !buyer) return null
  const amount = stripeAmount(total, currency)
  return {
    ...buyer,
    amount,
    tax: amount - stripeAmount(untaxedOfSession(session), currency),
    currency,
    invoiceId: idOf(session.invoice) ?? idOf(session.payment_intent) ?? session.id,
    saleType: 'payment',
  }
}

/**
 * The sale that a paid invoice is: a subscription's first payment, a renewal, what a change of plan costs, the end of a trial, or an
 * invoice with the metadata on itself. Null where nothing was paid, or where no metadata names the customer.
 *
 * Of `invoice.paid`.
 */
export function saleFromInvoice(invoice: PaidInvoice): SaleInput | null {
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

/** What is asked of your `new Stripe(…)`: which invoice a payment was for. */
export interface StripeApi {
  /** Stripe's package has it since API version 2025-03-31; before, the payment intent says it. */
  invoicePayments?: {
    list(query: {
      payment: { type: 'payment_intent'; payment_intent: string }
      limit: number
    }): PromiseLike<{ data: { invoice: Reference }[] }>
  }
  paymentIntents: { retrieve(id: string): PromiseLike<{ id: string; invoice?: Reference }> }
}

/** What is read of refunds, disputes and credit notes. */
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
 * The refund that an event is, for `trackRefund`, or null where it is none. Of `refund.created` and `refund.updated` (once the refund has
 * succeeded), `charge.dispute.funds_withdrawn`, and `credit_note.created` with what was given back outside of Stripe. An event that comes
 * twice, or a refund that several events tell, is the same refund.
 *
 * Rejects where Stripe does not answer which invoice was paid: answer the event with 500, and it comes again.
 */
export async function refundFromEvent(
  event: { type: string; data: { object: object } },
  stripe: StripeApi,
): Promise<RefundInput | null> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- Stripe signed it, and the types below have these fields
  const object = event.data.object as MoneyBack
  const { currency, id: refundId } = object
  const told = (amount: number) => ({ amount: stripeAmount(amount, currency), refundId })
  switch (event.type) {
    case 'refund.created':
    case 'refund.updated':
    case 'charge.refund.updated': {
      if ((object.status ?? 'succeeded') !== 'succeeded') return null
      const invoiceId = await saleOf(object, stripe)
      return invoiceId ? { invoiceId, ...told(object.amount), refundReason: object.reason ?? undefined } : null
    }
    case 'charge.dispute.funds_withdrawn': {
      const invoiceId = await saleOf(object, stripe)
      const taken = (object.balance_transactions ?? [])
        .filter((move) => move.amount < 0 && move.currency === currency)
        .reduce((sum, move) => sum - move.amount, 0)
      return invoiceId ? { invoiceId, ...told(taken || object.amount), reason: 'chargeback' } : null
    }
    case 'credit_note.created': {
      const invoiceId = idOf(object.invoice)
      const amount = object.out_of_band_amount ?? 0
      return invoiceId && amount > 0 ? { invoiceId, ...told(amount), refundReason: object.memo ?? undefined } : null
    }
    default:
      return null
  }
}

/** The `invoiceId` that the sale of a payment was told with: the invoice it paid, else the payment itself. */
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
