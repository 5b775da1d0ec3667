import * as z from 'zod/mini'
import { stripeAmount } from '../../tracker/src/stripe-amounts.ts'
import { conversionsOf, inEachCurrency } from './conversions.ts'
import { type Fact, ignored, type Reversal } from './facts.ts'
import { amount, currency, freeText, id, reference } from './payload.ts'

/** A refund as far as it is read. */
const refund = z.looseObject({
  id,
  amount,
  currency,
  status: z.nullish(z.string()),
  reason: freeText(1000),
  charge: reference,
  payment_intent: reference,
})

/**
 * What a refund does: takes (`pending`, `succeeded`), gives back (`failed`, `canceled`), or nothing yet (none). It is told in its own
 * currency and, where its balance transaction is expanded, in that of the account.
 */
export function reversalsOf(object: unknown): Reversal[] {
  const { id: refundId, amount: refunded, currency: unit, status, reason } = refund.parse(object)
  const returned = status === 'failed' || status === 'canceled'
  // Refunds had no status before 2016; such a one has been paid.
  if (!returned && status && status !== 'pending' && status !== 'succeeded') return []
  const reversal: Reversal = {
    reversal_id: refundId,
    reason: 'refund',
    reason_text: reason,
    amount_cents: stripeAmount(refunded, unit),
    currency: unit,
    returned,
  }
  return inEachCurrency(reversal, conversionsOf(object))
}

/** Reads `refund.created`, `refund.updated`, `refund.failed` and the older `charge.refund.updated`. */
export function readRefund(object: unknown): Fact {
  const { charge: chargeId, payment_intent: paymentIntentId, status } = refund.parse(object)
  const reversals = reversalsOf(object)
  if (reversals.length === 0) return ignored(`The refund is ${status}: nothing was refunded yet.`)
  return {
    kind: 'reversals',
    payment_intent_id: paymentIntentId,
    charge_id: chargeId,
    invoice_id: null,
    reversals,
  }
}

const charge = z.looseObject({ id, payment_intent: reference, invoice: reference })

/** Reads `charge.refunded`. Its `amount_refunded` is a running total, so the refunds themselves must be asked for. */
export function readRefundedCharge(object: unknown): Fact {
  const { id: chargeId, payment_intent: paymentIntentId, invoice: invoiceId } = charge.parse(object)
  return { kind: 'charge_refunds', charge_id: chargeId, payment_intent_id: paymentIntentId, invoice_id: invoiceId }
}
