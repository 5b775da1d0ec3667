import * as z from 'zod/mini'
import { shareOf, stripeAmount } from '../../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored, type Reversal } from '../facts.ts'
import { amount, currency, id, reference } from '../payload.ts'

const dispute = z.looseObject({
  id,
  amount,
  currency,
  status: z.string(),
  charge: reference,
  payment_intent: reference,
  /** The moved amount. Negative if it was withdrawn, positive if it was returned. */
  balance_transactions: z.nullish(z.array(z.looseObject({ amount: z.int(), currency }))),
})

type Dispute = z.output<typeof dispute>

/**
 * Reads `charge.dispute.funds_withdrawn` and `.funds_reinstated`, the two events that move money. Also reads the `.closed` event of a
 * lost dispute, which only corrects them. An inquiry (a status that begins with `warning_`) doesn't move money.
 */
export function readDispute(type: string, object: unknown): Fact {
  const disputed = dispute.parse(object)
  if (disputed.status.startsWith('warning_')) return ignored("An inquiry doesn't move money.")
  if (type === 'charge.dispute.closed' && disputed.status !== 'lost') {
    return ignored('The dispute was not lost. funds_reinstated reports the money that it returns.')
  }
  if (type === 'charge.dispute.closed' && !disputed.balance_transactions?.length) {
    return ignored('It has no balance transactions. funds_withdrawn and funds_reinstated report the money that moved.')
  }
  return {
    kind: 'reversals',
    payment_intent_id: disputed.payment_intent,
    charge_id: disputed.charge,
    invoice_id: null,
    reversals: movesOf(type, disputed).flatMap(reversalsOf),
  }
}

/** The amounts that were withdrawn and kept because of a dispute, in Stripe's unit. */
interface Move {
  reversal_id: string
  currency: string
  taken: number
  kept: number
  isReinstated: boolean
  /** The number of balance transactions so far. */
  steps: number
}

/**
 * Returns the amounts of a dispute from its balance transactions. If these aren't in the dispute's currency, the kept part of the
 * dispute's own amount has the same proportion. The function returns both, and the service applies the amount in the sale's currency.
 */
function movesOf(type: string, { id: disputeId, amount: disputed, currency: unit, ...rest }: Dispute): Move[] {
  const transactions = rest.balance_transactions ?? []
  const isReinstated = type === 'charge.dispute.funds_reinstated' || transactions.some((move) => move.amount > 0)
  const steps = transactions.length
  const [first] = transactions
  const taken = -transactions.reduce((sum, move) => sum + Math.min(move.amount, 0), 0)
  if (!first || taken === 0) {
    const kept = isReinstated ? 0 : disputed
    return [{ reversal_id: disputeId, currency: unit, taken: disputed, kept, isReinstated, steps }]
  }
  const kept = Math.max(0, -transactions.reduce((sum, move) => sum + move.amount, 0))
  if (first.currency === unit) return [{ reversal_id: disputeId, currency: unit, taken, kept, isReinstated, steps }]
  return [
    {
      reversal_id: disputeId,
      currency: unit,
      taken: disputed,
      kept: shareOf(disputed, kept, taken),
      isReinstated,
      steps,
    },
    { reversal_id: `${disputeId}:${first.currency}`, currency: first.currency, taken, kept, isReinstated, steps },
  ]
}

/** Returns the reversals of a move. A partly reinstated dispute is returned, and the kept part is reversed in its place. */
function reversalsOf({ reversal_id, currency: unit, taken, kept, isReinstated, steps }: Move): Reversal[] {
  const reversal = (reversalId: string, amountOf: number, returned: boolean): Reversal => ({
    reversal_id: reversalId,
    reason: 'chargeback',
    reason_text: null,
    amount_cents: stripeAmount(amountOf, unit),
    currency: unit,
    returned,
  })
  const whole = reversal(reversal_id, taken, isReinstated)
  if (!isReinstated) return [whole]
  // A dispute that is lost again has more steps, and the latest step replaces all earlier ones.
  const earlier = steps > 2 ? ['again', 'kept', ...Array.from({ length: steps - 3 }, (_, n) => `kept${n + 3}`)] : []
  return [
    whole,
    ...earlier.map((name) => reversal(`${reversal_id}:${name}`, taken, true)),
    ...(kept > 0 ? [reversal(`${reversal_id}:kept${steps > 2 ? steps : ''}`, kept, false)] : []),
  ]
}
