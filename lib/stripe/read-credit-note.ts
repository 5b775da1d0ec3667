import * as z from 'zod/mini'
import { stripeAmount } from '../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored } from './facts.ts'
import { amount, currency, freeText, id, reference } from './payload.ts'

const creditNote = z.looseObject({
  id,
  currency,
  invoice: reference,
  memo: freeText(1000),
  /** What was given back outside of Stripe. */
  out_of_band_amount: z.nullish(amount),
})

/**
 * Reads `credit_note.created`. What was given back outside of Stripe is taken here. A refund that it makes is told as a refund; what goes
 * to the customer's balance is taken off a later invoice; and a note before payment made its invoice ask for less.
 */
export function readCreditNote(object: unknown): Fact {
  const note = creditNote.parse(object)
  const outside = note.out_of_band_amount ?? 0
  if (outside === 0) return ignored('It gives nothing back outside of Stripe. A refund of it is told as a refund.')
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
