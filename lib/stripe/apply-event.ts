import type { Stripe } from 'stripe'
import { call, type Database } from '../database.ts'
import { messagesAbout, type RelayMessage } from '../notifications/outbox.ts'
import { reasonText } from '../processor-reasons.ts'
import { newClickIdPrefix } from '../tracking/clicks.ts'
import { retryBinding } from '../tracking/customers.ts'
import { askConversions, discountedBy, invoiceOfPaymentIntent, refundsOfCharge } from './client.ts'
import { inEachCurrency } from './conversions.ts'
import type { WebhookEvent, Reversal } from './facts.ts'
import { readListedRefund } from './read-refund.ts'

/** The outcome of an event, as the log stores it, and the notifications to send. */
export interface AppliedEvent {
  /** `recorded`, `duplicate`, `ignored` or `parked`. */
  outcome: string
  /** The sentence that explains the outcome if it is not obvious. */
  reason: string | null
  outbox: RelayMessage[]
}

/** Stripe's answers to questions that no event answered. */
interface StripeAnswer {
  /** The refunds of a charge one by one, or the event's reversals in each currency that Stripe converted them to. */
  reversals?: Reversal[]
  is_converted?: boolean
  /** The reason of the first refund in the list that the service cannot store. */
  excluded?: string | undefined
  /** The invoice that the payment intent paid; null if it paid none. */
  invoice_id?: string | null
  /** The promotion codes of its discounts. */
  promotion_code_ids?: string[]
}

/**
 * Applies an event. Its whole effect and its row in the log are one transaction, so sending the event again is right after any failure, and
 * sending it twice changes nothing. Takes one database request, and one more for each question to Stripe.
 */
export async function applyEvent(db: Database, stripe: Stripe, event: WebhookEvent): Promise<AppliedEvent> {
  const { account_id: accountId, fact } = event
  const answer: StripeAnswer = {}
  if (fact.kind === 'charge_refunds') {
    const refunds = await refundsOfCharge(stripe, accountId, fact.charge_id)
    const read = refunds.map(readListedRefund)
    answer.reversals = read.flatMap(({ reversals }) => reversals)
    answer.excluded = read.map(({ excluded }) => excluded).find((reason) => reason !== undefined)
  }
  let applied = await apply(db, event, answer)
  while (applied.outcome === null) {
    await ask(stripe, event, applied.reason, answer)
    applied = await apply(db, event, answer)
  }
  return { ...applied, outcome: applied.outcome, reason: reasonText(applied.reason) }
}

/** Asks Stripe a question of `apply_event` and adds the answer. `apply_event` asks each question once. */
async function ask(
  stripe: Stripe,
  { account_id: accountId, fact }: WebhookEvent,
  question: string | null,
  answer: StripeAnswer,
): Promise<void> {
  const intentId =
    fact.kind === 'purchase' ? fact.asks_invoice_of : 'payment_intent_id' in fact ? fact.payment_intent_id : null
  if (question === 'invoice' && intentId !== null && answer.invoice_id === undefined) {
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

/** Runs `apply_event`. The outcome is null and nothing is done if Stripe must answer a question first; the reason is then the question. */
async function apply(db: Database, event: WebhookEvent, answer: StripeAnswer) {
  const statement = call('apply_event', {
    received: JSON.stringify(event),
    answer: JSON.stringify(answer),
    click_id_prefix: newClickIdPrefix(Date.now()),
  })
  const [row] = await retryBinding(() => db.query(statement))
  if (!row) throw new Error('an event was not applied')
  return { outcome: row.outcome, reason: row.reason, outbox: messagesAbout(row) }
}
