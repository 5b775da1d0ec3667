import type { Stripe } from 'stripe'
import type { Ask } from '../apply-event.ts'
import { askConversions, discountedBy, invoiceOfPaymentIntent, refundsOfCharge } from './client.ts'
import { inEachCurrency } from './conversions.ts'
import { readListedRefund } from './read-refund.ts'

/** Returns the function that asks Stripe the questions about an event. `apply_event` asks each question only once. */
export function askStripe(stripe: Stripe): Ask {
  return async ({ account_id: accountId, fact }, question, answer) => {
    const intentId =
      fact.kind === 'purchase' ? fact.asks_invoice_of : 'payment_intent_id' in fact ? fact.payment_intent_id : null
    if (question === 'refunds' && fact.kind === 'charge_refunds') {
      const refunds = await refundsOfCharge(stripe, accountId, fact.charge_id)
      const read = refunds.map(readListedRefund)
      answer.reversals = read.flatMap(({ reversals }) => reversals)
      answer.excluded = read.map(({ excluded }) => excluded).find((reason) => reason !== undefined)
    } else if (question === 'invoice' && intentId !== null && answer.invoice_id === undefined) {
      answer.invoice_id = await invoiceOfPaymentIntent(stripe, accountId, intentId)
    } else if (
      question === 'discounts' &&
      fact.kind === 'purchase' &&
      fact.asks_discounts_of &&
      !answer.promotion_code_ids
    ) {
      answer.promotion_code_ids = await discountedBy(stripe, accountId, fact.asks_discounts_of)
    } else if (question === 'conversion' && 'charge_id' in fact && !answer.is_converted) {
      const { charge_id: chargeId } = fact
      const reversals = answer.reversals ?? (fact.kind === 'reversals' ? fact.reversals : [])
      const inAll = reversals.map(async (reversal) => {
        const refundId = reversal.reason === 'refund' ? reversal.reversal_id : null
        return inEachCurrency(reversal, await askConversions(stripe, accountId, { refundId, chargeId }))
      })
      answer.reversals = (await Promise.all(inAll)).flat()
      answer.is_converted = true
    } else {
      throw new Error('an event was not applied')
    }
  }
}
