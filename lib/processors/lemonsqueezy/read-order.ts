import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'
import { amount, anyCurrency, freeText, type HashEmail, namesIn, numericId, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'
import { refundedTotalOf, refundFields } from './refunded-total.ts'

const order = z.looseObject({
  id: numericId,
  customer_id: z.nullish(numericId),
  user_email: freeText(320),
  currency: anyCurrency,
  total: amount,
  tax: z.nullish(amount),
  status: z.nullish(z.string()),
  first_order_item: z.nullish(
    z.looseObject({
      product_id: z.nullish(numericId),
      variant_id: z.nullish(numericId),
      price_id: z.nullish(numericId),
    }),
  ),
  created_at: time,
  custom_data: z.optional(z.unknown()),
})

/** The states of unpaid and fraudulent orders. */
const unpaid = ['pending', 'failed', 'fraudulent']

/** Reads `order_created`: a single payment, or the first payment of a subscription. */
export async function readOrder({ object }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const paid = order.parse(object)
  if (unpaid.includes(paid.status ?? '')) return ignored(`The order is ${paid.status}.`)
  const { product_id, variant_id, price_id } = paid.first_order_item ?? {}
  const productIds = [price_id, variant_id, product_id].filter((one) => typeof one === 'string')
  return await purchaseOf(
    {
      names: namesIn(paid.custom_data),
      email: paid.user_email,
      customerId: paid.customer_id ?? null,
      subscriptionId: null,
      paymentIds: [paid.id],
      startedAt: paid.created_at,
      settlesLead: true,
      sale:
        paid.total === 0
          ? null
          : {
              transaction_id: paid.id,
              amount_cents: paid.total,
              commission_base_cents: Math.max(0, paid.total - (paid.tax ?? 0)),
              currency: paid.currency,
              lines: productIds.length === 0 ? null : [{ product_ids: productIds, weight: 1 }],
              isRenewal: false,
              paidAt: paid.created_at,
            },
    },
    hashEmail,
  )
}

const refundedOrder = z.looseObject({ id: numericId, currency: anyCurrency, ...refundFields })

/** Reads `order_refunded`, which reports the total of all refunds of the order. */
export function readOrderRefund({ object }: ProcessorEvent): Fact {
  const { id, currency, ...refunded } = refundedOrder.parse(object)
  const total_cents = refundedTotalOf(refunded)
  if (total_cents === 0) return ignored('Nothing was refunded.')
  return { kind: 'refunded_total', payment_ids: [id], total_cents, currency }
}
