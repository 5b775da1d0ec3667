import * as z from 'zod/mini'
import { stripeAmount } from '../../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored } from '../facts.ts'
import { amount, currency, freeText, id, reference } from '../payload.ts'

const creditNote = z.looseObject({
  id,
  currency,
  invoice: reference,
  memo: freeText(1000),
  /** The amount that the seller refunded outside of Stripe. */
  out_of_band_amount: z.nullish(amount),
})

/**
 * Reads `credit_note.created`. Reverses only the amount that the seller refunded outside of Stripe. Stripe reports the note's other refunds
 * as refunds. Credit to the customer's balance reduces a later invoice, and a note from before the payment has already reduced its invoice.
 */
export function readCreditNote(object: unknown): Fact {
  const note = creditNote.parse(object)
  const outside = note.out_of_band_amount ?? 0
  if (outside === 0) return ignored('It returns nothing outside of Stripe. Stripe reports its refund as a refund.')
  return {
    kind: 'reversals',
    payment_intent_id: null,
    charge_id: null,
    invoice_id: note.invoice,
    reversals: [
      {
        reversal_id: note.id,
        reason: 'refund',
        reason_text: note.memo,
        amount_cents: stripeAmount(outside, note.currency),
        currency: note.currency,
        returned: false,
      },
    ],
  }
}
