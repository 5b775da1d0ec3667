import { call, type Database } from '../database.ts'
import { messagesAbout, type RelayMessage } from '../notifications/outbox.ts'
import { reasonText } from '../processor-reasons.ts'
import { newClickIdPrefix } from '../tracking/clicks.ts'
import { retryBinding } from '../tracking/customers.ts'
import type { WebhookEvent, Reversal } from './facts.ts'

/** The outcome of an event in the log, and the notifications to send. */
export interface AppliedEvent {
  /** `recorded`, `duplicate`, `ignored` or `parked`. */
  outcome: string
  /** The sentence that explains the outcome if it is not obvious. */
  reason: string | null
  outbox: RelayMessage[]
}

/** The processor's answers to questions that the events leave open. */
export interface ProcessorAnswer {
  /** The individual refunds of a charge, or the event's reversals in each currency to which the processor has converted them. */
  reversals?: Reversal[]
  is_converted?: boolean
  /** The reason for the first refund in the list that the service can't store. */
  excluded?: string | undefined
  /** The invoice that the payment intent paid. Null if it didn't pay an invoice. */
  invoice_id?: string | null
  /** The promotion codes of the discounts. */
  promotion_code_ids?: string[]
}

/** Asks the event's processor a question (`refunds`, or one of `apply_event`) and adds its answer. */
export type Ask = (event: WebhookEvent, question: string | null, answer: ProcessorAnswer) => Promise<void>

/**
 * Applies an event. One transaction writes the whole effect and the row in the log. So senders can repeat the event after any failure, and
 * a repeated event changes nothing. Sends one database request, and another one for each question to the processor.
 */
export async function applyEvent(db: Database, ask: Ask, event: WebhookEvent): Promise<AppliedEvent> {
  const answer: ProcessorAnswer = {}
  if (event.fact.kind === 'charge_refunds') await ask(event, 'refunds', answer)
  let applied = await apply(db, event, answer)
  while (applied.outcome === null) {
    await ask(event, applied.reason, answer)
    applied = await apply(db, event, answer)
  }
  return { ...applied, outcome: applied.outcome, reason: reasonText(applied.reason) }
}

/**
 * Runs `apply_event`. If the processor must answer a question first, nothing changes, the outcome is null, and the reason is the
 * question.
 */
async function apply(db: Database, event: WebhookEvent, answer: ProcessorAnswer) {
  const statement = call('apply_event', {
    received: JSON.stringify(event),
    answer: JSON.stringify(answer),
    click_id_prefix: newClickIdPrefix(db.now()),
  })
  const [row] = await retryBinding(() => db.query(statement))
  if (!row) throw new Error('an event was not applied')
  return { outcome: row.outcome, reason: row.reason, outbox: messagesAbout(row) }
}
