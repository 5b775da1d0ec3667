import * as z from 'zod/mini'
import { stripeAmount } from '../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored } from './facts.ts'
import { amount, currency, reference } from './payload.ts'

const dispute = z.looseObject({
  id: z.string(),
  amount,
  currency,
  status: z.string(),
  charge: reference,
  payment_intent: reference,
})

/**
 * Reads `charge.dispute.funds_withdrawn` and `.funds_reinstated`, the two events on which money moves. An inquiry (a status that
 * begins with `warning_`) moves none.
 */
export function readDispute(type: string, object: unknown): Fact {
  const disputed = dispute.parse(object)
  if (disputed.status.startsWith('warning_')) return ignored('An inquiry moves no money.')
  return {
    kind: 'reversals',
    payment_intent_id: disputed.payment_intent,
    charge_id: disputed.charge,
    invoice_id: null,
    reversals: [
      {
        reversal_id: disputed.id,
        reason: 'chargeback',
        reason_text: null,
        amount_cents: stripeAmount(disputed.amount, disputed.currency),
        currency: disputed.currency,
        returned: type === 'charge.dispute.funds_reinstated',
      },
    ],
  }
}
