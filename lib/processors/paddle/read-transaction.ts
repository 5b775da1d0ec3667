import * as z from 'zod/mini'
import { shareOf } from '../../../tracker/src/stripe-amounts.ts'
import type { Fact, PurchaseSale } from '../facts.ts'
import { anyCurrency, type HashEmail, id, namesIn, time } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { purchaseOf } from '../purchase.ts'
import { paddleAmount } from './amount.ts'

const lineItem = z.looseObject({
  price_id: z.nullish(id),
  product: z.nullish(z.looseObject({ id: z.nullish(id) })),
  totals: z.nullish(z.looseObject({ total: z.nullish(paddleAmount), tax: z.nullish(paddleAmount) })),
})

const transaction = z.looseObject({
  id,
  origin: z.nullish(z.string()),
  customer_id: z.nullish(id),
  subscription_id: z.nullish(id),
  custom_data: z.optional(z.unknown()),
  currency_code: anyCurrency,
  created_at: z.nullish(time),
  details: z.looseObject({
    totals: z.looseObject({
      total: paddleAmount,
      tax: paddleAmount,
      /** The paid amount after credit, and its tax. */
      grand_total: z.nullish(paddleAmount),
      grand_total_tax: z.nullish(paddleAmount),
      fee: z.nullish(paddleAmount),
    }),
    line_items: z.nullish(z.array(lineItem)),
  }),
  payments: z.nullish(z.array(z.looseObject({ amount: z.nullish(paddleAmount), status: z.nullish(z.string()) }))),
})

/** Reads `transaction.completed`, whose totals are final. Trials and purchases that were paid completely with credit have no payment. */
export async function readTransaction({ object, createdAt }: ProcessorEvent, hashEmail: HashEmail): Promise<Fact> {
  const paid = transaction.parse(object)
  const { total, tax, grand_total, grand_total_tax, fee } = paid.details.totals
  const due = Math.max(0, grand_total ?? total)
  const amount = Math.min(due, capturedOf(paid) ?? due)
  const paidTax = grand_total_tax == null ? shareOf(amount, tax, total) : shareOf(amount, grand_total_tax, due)
  const untaxed = Math.min(amount, Math.max(0, amount - paidTax))
  return await purchaseOf(
    {
      names: namesIn(paid.custom_data),
      customerId: paid.customer_id ?? null,
      subscriptionId: paid.subscription_id ?? null,
      paymentIds: [paid.id],
      startedAt: paid.created_at ?? createdAt.toISOString(),
      settlesLead: paid.origin !== 'subscription_recurring',
      sale:
        amount === 0
          ? null
          : {
              transaction_id: paid.id,
              amount_cents: amount,
              commission_base_cents: untaxed,
              processor_fee_cents: fee == null ? null : Math.max(0, fee),
              currency: paid.currency_code,
              lines: linesOf(paid.details.line_items ?? []),
              isRenewal: paid.origin === 'subscription_recurring',
              paidAt: createdAt.toISOString(),
            },
    },
    hashEmail,
  )
}

/** Returns the captured amount, or undefined if the payload has no captured payment. */
function capturedOf({ payments }: z.output<typeof transaction>): number | undefined {
  const captured = (payments ?? []).filter(({ status }) => status === 'captured')
  return captured.reduce((sum, { amount }) => sum + (amount ?? 0), 0) || undefined
}

/** Returns the lines with a product or price, each with its amount without tax, or null if no line has either. */
function linesOf(items: z.output<typeof lineItem>[]): PurchaseSale['lines'] {
  const lines = items.map(({ price_id, product, totals }) => ({
    product_ids: [price_id, product?.id].filter((productId) => typeof productId === 'string'),
    weight: Math.max(0, (totals?.total ?? 0) - (totals?.tax ?? 0)),
  }))
  const sold = lines.filter(({ weight }) => weight > 0).slice(0, 50)
  return sold.some((line) => line.product_ids.length > 0) ? sold : null
}
