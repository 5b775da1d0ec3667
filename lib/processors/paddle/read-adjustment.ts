import * as z from 'zod/mini'
import { type Fact, ignored } from '../facts.ts'
import { anyCurrency, freeText, id } from '../payload.ts'
import type { ProcessorEvent } from '../processor.ts'
import { paddleAmount } from './amount.ts'

const totals = z.looseObject({ total: paddleAmount, tax: z.nullish(paddleAmount) })

const adjustment = z.looseObject({
  id,
  action: z.string(),
  status: z.nullish(z.string()),
  transaction_id: id,
  reason: freeText(1000),
  currency_code: anyCurrency,
  totals,
  items: z.nullish(z.array(z.looseObject({ type: z.nullish(z.string()), totals: z.nullish(totals) }))),
})

/** Actions that don't move any of the sale's money. */
const withoutMoney: Readonly<Record<string, string>> = {
  credit: 'It credits the customer’s balance or an unpaid invoice. No money was returned.',
  credit_reverse: 'It reverts a credit. No money moved.',
  chargeback_warning: "A warning doesn't move money.",
  chargeback_warning_reverse: "A warning doesn't move money.",
}

/**
 * Reads `adjustment.created` and `adjustment.updated`. A refund counts once Paddle approves it, and is undone if Paddle later rejects or
 * reverses it. Paddle credits invoices only before they are paid, so the completed transaction already has the lower amount. A chargeback
 * counts at once. Its reversal is a separate adjustment without a reference to the chargeback. Paddle also marks the chargeback as
 * reversed. Both reports count as one return.
 */
export function readAdjustment({ object }: ProcessorEvent): Fact {
  const { action, status, ...moved } = adjustment.parse(object)
  const reason = withoutMoney[action]
  if (reason !== undefined) return ignored(reason)
  const isRefund = action === 'refund'
  if (!isRefund && action !== 'chargeback' && action !== 'chargeback_reverse') {
    return ignored('Adjustments of this action are not used.')
  }
  if (isRefund && status !== 'approved' && status !== 'rejected' && status !== 'reversed') {
    return ignored('Paddle has not approved the refund yet.')
  }
  const amount = Math.max(0, moved.totals.total)
  if (amount === 0) return ignored('Nothing was refunded.')
  const isUndone = status === 'rejected' || status === 'reversed'
  return {
    kind: 'reversals',
    payment_intent_id: null,
    charge_id: moved.transaction_id,
    invoice_id: null,
    reversals: [
      {
        reversal_id: moved.id,
        reason: isRefund ? 'refund' : 'chargeback',
        reason_text: moved.reason,
        amount_cents: amount,
        untaxed_cents: untaxedOf(moved),
        currency: moved.currency_code,
        returned: isUndone || action === 'chargeback_reverse',
        ...(!isRefund && { pairs: action === 'chargeback' ? ('chargeback' as const) : ('return' as const) }),
      },
    ],
  }
}

const withoutTax = ({ total, tax }: z.output<typeof totals>) => total - (tax ?? 0)

/** Returns the refunded amount without tax, or null if Paddle doesn't report tax. An item can be a refund of its tax alone. */
function untaxedOf({ items, totals: all }: Pick<z.output<typeof adjustment>, 'items' | 'totals'>): number | null {
  if (all.tax == null) return null
  const taxOnly = (items ?? []).flatMap((item) => (item.type === 'tax' && item.totals ? [item.totals] : []))
  const untaxed = withoutTax(all) - taxOnly.reduce((sum, item) => sum + withoutTax(item), 0)
  return Math.min(Math.max(0, untaxed), Math.max(0, all.total))
}
