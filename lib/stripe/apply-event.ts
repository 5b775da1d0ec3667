import type { Stripe } from 'stripe'
import { call, type Database } from '../database.ts'
import { messagesAbout, type OutboxMessage } from '../notifications/outbox.ts'
import { newClickIdStem } from '../tracking/clicks.ts'
import { retryBinding } from '../tracking/customers.ts'
import { invoiceOfPaymentIntent, refundsOfCharge } from './client.ts'
import type { WebhookEvent, Reversal } from './facts.ts'
import { asReversal } from './read-refund.ts'

/** What became of an event, as the log keeps it, and what is to be told because of it. */
export interface AppliedEvent {
  /** `recorded`, `duplicate`, `ignored` or `parked`. */
  outcome: string
  /** Why it is so, where that is not plain. */
  reason: string | null
  outbox: OutboxMessage[]
}

/** What Stripe was asked because no event told it. */
interface StripeAnswer {
  /** The refunds of a charge, one by one. */
  reversals?: Reversal[]
  /** The invoice that the payment intent paid; null where it paid none. */
  invoice_id?: string | null
}

/**
 * Applies an event: its whole effect and its row in the log are one transaction, so whatever breaks, sending it again is right, and
 * sending it twice changes nothing. One database request, two where Stripe was asked for an invoice.
 */
export async function applyEvent(db: Database, stripe: Stripe, event: WebhookEvent): Promise<AppliedEvent> {
  const { account_id: accountId, fact } = event
  const answer: StripeAnswer = {}
  if (fact.kind === 'charge_refunds') {
    const refunds = await refundsOfCharge(stripe, accountId, fact.charge_id)
    answer.reversals = refunds.flatMap((refund) => asReversal(refund) ?? [])
  }
  const applied = await apply(db, event, answer)
  if (applied) return applied
  const intentId =
    fact.kind === 'purchase' ? fact.asks_invoice_of : 'payment_intent_id' in fact ? fact.payment_intent_id : null
  if (intentId === null) throw new Error('an event was not applied')
  answer.invoice_id = await invoiceOfPaymentIntent(stripe, accountId, intentId)
  const appliedNow = await apply(db, event, answer)
  if (!appliedNow) throw new Error('an event was not applied though Stripe had answered')
  return appliedNow
}

/** Undefined, with nothing done, where Stripe must be asked for the invoice of the event's payment. */
async function apply(db: Database, event: WebhookEvent, answer: StripeAnswer): Promise<AppliedEvent | undefined> {
  const statement = call('apply_event', {
    told: JSON.stringify(event),
    answer: JSON.stringify(answer),
    stem: newClickIdStem(Date.now()),
  })
  const [row] = await retryBinding(() => db.query(statement))
  if (!row || row.outcome === null) return undefined
  return { outcome: row.outcome, reason: row.reason, outbox: messagesAbout(row) }
}
