import * as z from 'zod/mini'
import { stripeAmount } from '../../../tracker/src/stripe-amounts.ts'
import { maxAmountCents } from '../../money.ts'
import { conversionsOf, inEachCurrency } from './conversions.ts'
import { type Fact, ignored, type Reversal } from '../facts.ts'
import { amount, currency, freeText, id, reference } from '../payload.ts'

/** The fields of a refund that the service reads. */
const refund = z.looseObject({
  id,
  amount,
  currency,
  // This must be text that the database can store, because the log shows it.
  status: z.nullish(id),
  reason: freeText(1000),
  charge: reference,
  payment_intent: reference,
})

/**
 * Returns the effect of a refund: it reverses (`pending`, `succeeded`), returns (`failed`, `canceled`), or does nothing yet (empty). The
 * refund is in its own currency and, if its balance transaction is expanded, also in the account's.
 */
export function reversalsOf(object: unknown): Reversal[] {
  const { id: refundId, amount: refunded, currency: unit, status, reason } = refund.parse(object)
  const returned = status === 'failed' || status === 'canceled'
  // Refunds before 2016 have no status, but they were paid.
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

/**
 * Reads a refund from a charge's list. If a refund can't be stored, the result is the code of the reason, and the other refunds are still
 * read.
 */
export function readListedRefund(object: unknown): { reversals: Reversal[]; excluded?: string } {
  const { data, error } = refund.safeParse(object)
  if (!data) {
    const { data: named } = z.looseObject({ id }).safeParse(object)
    const fields = [...new Set(error.issues.map(({ path }) => path.join('.') || 'object'))].join(',')
    return { reversals: [], excluded: `unreadable_refund ${named?.id ?? '?'} ${fields}` }
  }
  const reversals = reversalsOf(object)
  if (reversals.every(({ amount_cents: cents }) => cents <= maxAmountCents)) return { reversals }
  return { reversals: [], excluded: `refund_too_large ${data.id}` }
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

/** Reads `charge.refunded`. Its `amount_refunded` is a running total, so Stripe must list the refunds. */
export function readRefundedCharge(object: unknown): Fact {
  const { id: chargeId, payment_intent: paymentIntentId, invoice: invoiceId } = charge.parse(object)
  return { kind: 'charge_refunds', charge_id: chargeId, payment_intent_id: paymentIntentId, invoice_id: invoiceId }
}
