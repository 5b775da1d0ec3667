import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'
import { amount, anyCurrency, freeText, id } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'

const refund = z.looseObject({
  id,
  // This must be text that the database can store, because the log shows it.
  status: id,
  reason: freeText(1000),
  /** The refunded amount without tax. */
  amount,
  tax_amount: z.nullish(amount),
  currency: anyCurrency,
  order_id: id,
  dispute: z.optional(z.unknown()),
})

/** Reads `refund.created` and `refund.updated`. A refund counts once it has succeeded, and is undone if it later fails. */
export function readRefund({ object }: ProcessorEvent): Fact {
  const refunded = refund.parse(object)
  const isUndone = refunded.status === 'failed' || refunded.status === 'canceled'
  if (!isUndone && refunded.status !== 'succeeded')
    return ignored(`The refund is ${refunded.status}: nothing was refunded yet.`)
  return {
    kind: 'reversals',
    payment_intent_id: null,
    charge_id: refunded.order_id,
    invoice_id: null,
    reversals: [
      {
        reversal_id: refunded.id,
        reason: refunded.dispute ? 'chargeback' : 'refund',
        reason_text: refunded.reason,
        // Includes tax, like the sale's amount.
        amount_cents: refunded.amount + (refunded.tax_amount ?? 0),
        currency: refunded.currency,
        returned: isUndone,
      },
    ],
  }
}
