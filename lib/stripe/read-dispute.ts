import * as z from 'zod/mini'
import { shareOf, stripeAmount } from '../../tracker/src/stripe-amounts.ts'
import { type Fact, ignored, type Reversal } from './facts.ts'
import { amount, currency, id, reference } from './payload.ts'

const dispute = z.looseObject({
  id,
  amount,
  currency,
  status: z.string(),
  charge: reference,
  payment_intent: reference,
  /** What it moved: below zero what was taken, above what was given back. */
  balance_transactions: z.nullish(z.array(z.looseObject({ amount: z.int(), currency }))),
})

type Dispute = z.output<typeof dispute>

/**
 * Reads `charge.dispute.funds_withdrawn` and `.funds_reinstated`, the two events on which money moves, and `.closed` of a dispute that
 * was lost, for what neither told. An inquiry (a status that begins with `warning_`) moves none.
 */
export function readDispute(type: string, object: unknown): Fact {
  const disputed = dispute.parse(object)
  if (disputed.status.startsWith('warning_')) return ignored('An inquiry moves no money.')
  if (type === 'charge.dispute.closed' && disputed.status !== 'lost') {
    return ignored('What a dispute that was not lost gives back, funds_reinstated tells.')
  }
  return {
    kind: 'reversals',
    payment_intent_id: disputed.payment_intent,
    charge_id: disputed.charge,
    invoice_id: null,
    reversals: movesOf(type, disputed).flatMap(reversalsOf),
  }
}

/** What a dispute took and what it kept, in Stripe's unit. */
interface Move {
  reversal_id: string
  currency: string
  taken: number
  kept: number
  isReinstated: boolean
}

/**
 * The balance transactions say what was taken and not given back. They can be in another currency than the dispute; then the
 * dispute's own amount was kept in the same proportion. Both are told, and the one in the currency of the sale is applied.
 */
function movesOf(type: string, { id: disputeId, amount: disputed, currency: unit, ...rest }: Dispute): Move[] {
  const transactions = rest.balance_transactions ?? []
  const isReinstated =
    type === 'charge.dispute.funds_reinstated' ||
    (type === 'charge.dispute.closed' && transactions.some((move) => move.amount > 0))
  const [first] = transactions
  const taken = -transactions.reduce((sum, move) => sum + Math.min(move.amount, 0), 0)
  if (!first || taken === 0) {
    const kept = isReinstated ? 0 : disputed
    return [{ reversal_id: disputeId, currency: unit, taken: disputed, kept, isReinstated }]
  }
  const kept = Math.max(0, -transactions.reduce((sum, move) => sum + move.amount, 0))
  if (first.currency === unit) return [{ reversal_id: disputeId, currency: unit, taken, kept, isReinstated }]
  return [
    {
      reversal_id: disputeId,
      currency: unit,
      taken: disputed,
      kept: shareOf(disputed, kept, taken),
      isReinstated,
    },
    { reversal_id: `${disputeId}:${first.currency}`, currency: first.currency, taken, kept, isReinstated },
  ]
}

/** A dispute of which only a part came back is returned, and what was kept is taken in its place. */
function reversalsOf({ reversal_id, currency: unit, taken, kept, isReinstated }: Move): Reversal[] {
  const reversal = (reversalId: string, amountOf: number, returned: boolean): Reversal => ({
    reversal_id: reversalId,
    reason: 'chargeback',
    reason_text: null,
    amount_cents: stripeAmount(amountOf, unit),
    currency: unit,
    returned,
  })
  const whole = reversal(reversal_id, taken, isReinstated)
  return isReinstated && kept > 0 ? [whole, reversal(`${reversal_id}:kept`, kept, false)] : [whole]
}
