import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'
import { anyCurrency, freeText, type HashEmail, namesIn, numericId, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'
import { invoiceId, subscriptionId } from './ids.ts'
import { refundedTotalOf, refundFields } from './refunded-total.ts'

const invoice = z.looseObject({
  id: numericId,
  subscription_id: numericId,
  customer_id: z.nullish(numericId),
  user_email: freeText(320),
  billing_reason: z.nullish(z.string()),
  currency: anyCurrency,
  ...refundFields,
  /** The credit of a downgrade can exceed the price, so the amounts can be negative. */
  total: z.int(),
  tax: z.nullish(z.int()),
  created_at: time,
  custom_data: z.optional(z.unknown()),
})

/** The ids of an invoice's payment. For an initial invoice, `subscription_created` says that it is the payment of the order. */
function paymentIdsOf({ id, subscription_id, billing_reason }: z.output<typeof invoice>): string[] {
  return billing_reason === 'initial' ? [invoiceId(id), subscriptionId(subscription_id)] : [invoiceId(id)]
}

/**
 * Reads `subscription_payment_success` and `subscription_payment_recovered`. The initial invoice reports the payment of an order, which
 * `order_created` has already recorded. After a free order, the initial invoice has no amount, and the first payment after the trial is
 * a renewal. Invoices don't contain products.
 */
export async function readInvoice({ object }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const paid = invoice.parse(object)
  if (paid.billing_reason === 'initial') {
    return { kind: 'invoice_payment', payment_ids: paymentIdsOf(paid), invoice_id: null }
  }
  return await purchaseOf(
    {
      names: namesIn(paid.custom_data),
      email: paid.user_email,
      customerId: paid.customer_id ?? null,
      subscriptionId: subscriptionId(paid.subscription_id),
      paymentIds: paymentIdsOf(paid),
      startedAt: paid.created_at,
      settlesLead: false,
      sale:
        paid.total <= 0
          ? null
          : {
              transaction_id: invoiceId(paid.id),
              amount_cents: paid.total,
              commission_base_cents: Math.min(paid.total, Math.max(0, paid.total - (paid.tax ?? 0))),
              currency: paid.currency,
              isRenewal: paid.billing_reason !== 'updated',
              paidAt: paid.created_at,
            },
    },
    hashEmail,
  )
}

/** Reads `subscription_payment_refunded`, which reports the total of all refunds of the invoice. */
export function readInvoiceRefund({ object }: ProcessorEvent): Fact {
  const refunded = invoice.parse(object)
  const total_cents = Math.max(0, refundedTotalOf(refunded))
  if (total_cents === 0) return ignored('Nothing was refunded.')
  return {
    kind: 'refunded_total',
    payment_ids: paymentIdsOf(refunded),
    total_cents,
    currency: refunded.currency,
  }
}
