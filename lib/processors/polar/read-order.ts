import * as z from 'zod/mini'
import { shareOf } from '../../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored, type PurchaseSale } from '../facts.ts'
import { amount, anyCurrency, freeText, type HashEmail, id, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'
import { namesOf } from './names.ts'

const fields = {
  id,
  platform_fee_amount: z.nullish(amount),
  platform_fee_currency: z.nullish(anyCurrency),
  currency: anyCurrency,
}

const order = z.looseObject({
  ...fields,
  created_at: time,
  billing_reason: z.nullish(z.string()),
  /** This includes the tax in prices with tax. The credit for an upgrade can exceed its price, so amounts can be negative. */
  tax_amount: z.int(),
  total_amount: z.int(),
  /** The change in the customer's balance. Negative if the balance pays a part of the order. */
  applied_balance_amount: z.nullish(z.int()),
  customer_id: z.nullish(id),
  subscription_id: z.nullish(id),
  product_id: z.nullish(id),
  metadata: z.optional(z.unknown()),
  customer: z.nullish(z.looseObject({ email: freeText(320), external_id: freeText(255) })),
  subscription: z.nullish(z.looseObject({ metadata: z.optional(z.unknown()) })),
  items: z.nullish(z.array(z.looseObject({ product_price_id: z.nullish(id), amount: z.nullish(z.int()) }))),
})

/** Reads `order.paid`: a single payment, or a payment of a subscription. */
export async function readOrder({ object, createdAt }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const paid = order.parse(object)
  const { total_amount: total, tax_amount: tax } = paid
  const amountPaid = Math.max(0, total + (paid.applied_balance_amount ?? 0))
  const isRenewal = paid.billing_reason === 'subscription_cycle' || paid.billing_reason === 'subscription_meter_cycle'
  return await purchaseOf(
    {
      names: namesOf([paid.metadata, paid.subscription?.metadata], paid.customer?.external_id),
      email: paid.customer?.email ?? null,
      customerId: paid.customer_id ?? null,
      subscriptionId: paid.subscription_id ?? null,
      paymentIds: [paid.id],
      startedAt: paid.created_at,
      settlesLead: !isRenewal,
      sale:
        amountPaid === 0
          ? null
          : {
              transaction_id: paid.id,
              amount_cents: amountPaid,
              commission_base_cents: Math.min(amountPaid, shareOf(amountPaid, Math.max(0, total - tax), total)),
              processor_fee_cents: feeOf(paid),
              currency: paid.currency,
              lines: linesOf(paid),
              isRenewal,
              paidAt: createdAt.toISOString(),
            },
    },
    hashEmail,
  )
}

const orderWithFee = z.looseObject(fields)

/** Reads `order.updated`. Polar settles the fee after the payment, so the order has no fee yet in `order.paid`. */
export function readOrderFee({ object }: ProcessorEvent): Fact {
  const updated = orderWithFee.parse(object)
  const fee = feeOf(updated)
  if (!fee) return ignored("It has no fee in the order's currency.")
  return { kind: 'payment_fee', payment_ids: [updated.id], fee_cents: fee }
}

/** Returns the fee, if it is in the order's currency. */
function feeOf(paid: z.output<typeof orderWithFee>): number | null {
  const { platform_fee_amount: fee, platform_fee_currency: feeCurrency, currency } = paid
  return feeCurrency == null || feeCurrency === currency ? (fee ?? null) : null
}

/** Returns the lines with a product or price, each with its amount without tax, or null if no line has either. */
function linesOf({ items, product_id }: Pick<z.output<typeof order>, 'items' | 'product_id'>): PurchaseSale['lines'] {
  const lines = (items ?? []).map((item) => ({
    product_ids: [item.product_price_id, product_id].filter((one) => typeof one === 'string'),
    weight: item.amount ?? 0,
  }))
  if (lines.length === 0 && product_id) return [{ product_ids: [product_id], weight: 1 }]
  const sold = lines.filter(({ weight }) => weight > 0).slice(0, 50)
  return sold.some((line) => line.product_ids.length > 0) ? sold : null
}
