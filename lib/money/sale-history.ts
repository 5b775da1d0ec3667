import * as z from 'zod/mini'
import { commissionReason } from '../commission-reasons.ts'
import { wordsOfRule } from '../review-rules.ts'
import { englishSale, type SaleTexts } from './sale-texts.ts'
import type { ExplainedSale } from './explanation-read.ts'

/** One event in the history of a sale or its commission. Amounts are in minor units of the commission’s currency. */
export interface Happening {
  at: string
  kind:
    | 'recorded'
    | 'commission'
    | 'correction'
    | 'refund'
    | 'chargeback'
    | 'returned'
    | 'approved'
    | 'rejected'
    | 'paid'
    | 'adjusted'
    | 'held'
    | 'released'
  text: string
  /** The change of the commission's remaining amount. */
  change_cents: number
  /** The entry in the partner's balance, if the commission was credited. */
  entry: { number: number; amount_cents: number; balance_cents: number } | null
}

const correctionsSchema = z.array(
  z.object({
    at: z.string(),
    was_cents: z.number(),
    amount_cents: z.number(),
    change_cents: z.number(),
    base_cents: z.number(),
    source: z.string(),
  }),
)

/** Formats a time for API responses: ISO 8601 in UTC. */
export const iso = (at: Date | string) => new Date(at).toISOString()

/** Explains why a shadow-mode commission is not credited. */
export const shadowText = 'in shadow mode and so without any credit'

/** The stored history of a commission and its sale's refunds, if any. */
type CommissionFacts = Pick<
  ExplainedSale,
  | 'currency'
  | 'entries'
  | 'corrections'
  | 'commission_created_at'
  | 'commission_cents'
  | 'hold_until'
  | 'review_reason'
  | 'is_shadow'
  | 'refunds'
  | 'flagged_at'
  | 'flags'
  | 'decision'
  | 'decided_at'
  | 'credited_at'
  | 'rejected_at'
  | 'reason'
  | 'reversed_cents'
  | 'paid_at'
  | 'payout_id'
  | 'reference'
  | 'paid_on'
>

/** Builds the history of a sale and its commission, oldest first. */
export function historyOf(sale: ExplainedSale, texts = englishSale): Happening[] {
  const recorded: Happening = {
    at: iso(sale.created_at),
    kind: 'recorded',
    text: texts.fixed('Recorded. The amount is {amount}.', { amount: texts.money(sale.amount_cents, sale.currency) }),
    change_cents: 0,
    entry: null,
  }
  return inOrder([recorded, ...happeningsOf(sale, texts), ...sale.adjustments.map((one) => byHand(one, texts))])
}

/** An adjustment has its own balance entry, so it does not change the commission. */
function byHand(
  { created_at: at, amount_cents: cents, currency, note, name }: ExplainedSale['adjustments'][number],
  { fixed, money }: SaleTexts,
): Happening {
  const amount = money(Math.abs(cents), currency)
  const text =
    cents < 0
      ? '{amount} was manually deducted from the balance of {name}.'
      : '{amount} was manually added to the balance of {name}.'
  return {
    at: iso(at),
    kind: 'adjusted',
    text: `${fixed(text, { amount, name })}${note === null ? '' : ` ${note}`}`,
    change_cents: 0,
    entry: null,
  }
}

export const commissionHistory = (commission: CommissionFacts) => inOrder(happeningsOf(commission, englishSale))

/** Sorts by time, and otherwise keeps the given order. */
function inOrder(history: Happening[]): Happening[] {
  return history
    .map((happening, index) => ({ happening, index }))
    .toSorted((a, b) => a.happening.at.localeCompare(b.happening.at) || a.index - b.index)
    .map(({ happening }) => happening)
}

function happeningsOf(sale: CommissionFacts, { fixed, day, money: format }: SaleTexts): Happening[] {
  const { currency, entries } = sale
  const money = (cents: number) => format(cents, currency)
  const corrections = sale.corrections === null ? [] : correctionsSchema.parse(sale.corrections)
  const entryOf = (fits: (entry: ExplainedSale['entries'][number]) => boolean) => {
    const entry = entries.find(fits)
    return entry
      ? { number: entry.entry_number, amount_cents: entry.amount_cents, balance_cents: entry.balance_after_cents }
      : null
  }
  const history: Happening[] = []
  const { commission_created_at: createdAt, commission_cents: cents, hold_until: holdUntil } = sale
  if (createdAt !== null && cents !== null && holdUntil !== null) {
    const first = corrections[0]?.was_cents ?? cents
    history.push({
      at: iso(createdAt),
      kind: 'commission',
      text: [
        sale.is_shadow === true
          ? fixed(`A commission of {amount} was created, ${shadowText}.`, { amount: money(first) })
          : fixed('A commission of {amount} was created, on hold until {day}.', {
              amount: money(first),
              day: day(holdUntil),
            }),
        ...(sale.review_reason === null ? [] : [fixed('To be reviewed: only a browser identified the customer.')]),
      ].join(' '),
      change_cents: first,
      entry: null,
    })
  }
  corrections.forEach((correction, index) => {
    history.push({
      at: iso(correction.at),
      kind: 'correction',
      text:
        correction.was_cents === correction.amount_cents
          ? fixed('Corrected: the processor reported other amounts for the payment or its refunds.')
          : fixed('Corrected from {before} to {after}: {base} without tax counts, according to the {source}.', {
              before: money(correction.was_cents),
              after: money(correction.amount_cents),
              base: money(correction.base_cents),
              source: correction.source === 'api' ? 'API' : correction.source,
            }),
      change_cents: correction.change_cents,
      entry: entryOf((e) => e.cause === 'commission_corrected' && e.correction_number === index + 1),
    })
  })
  for (const refund of sale.refunds) {
    const isDispute = refund.reason === 'chargeback'
    const amount = money(refund.applied_cents)
    const asked = money(refund.requested_cents ?? 0)
    const capped = refund.requested_cents !== null && refund.requested_cents > refund.applied_cents
    history.push({
      at: iso(refund.created_at),
      kind: isDispute ? 'chargeback' : 'refund',
      text: [
        fixed(isDispute ? 'Chargeback of {amount}: the buyer disputed the payment.' : 'Refund of {amount}.', {
          amount: capped ? fixed('{amount} (of {asked}: no more was left)', { amount, asked }) : amount,
        }),
        ...(refund.reason_text === null ? [] : [refund.reason_text]),
      ].join(' '),
      change_cents: 0 - refund.deduction_cents,
      entry: entryOf((e) => e.cause === 'commission_reversed' && e.refund_id === refund.id),
    })
    if (refund.returned_at !== null && refund.applied_cents > 0) {
      history.push({
        at: iso(refund.returned_at),
        kind: 'returned',
        text: fixed(
          isDispute
            ? 'The chargeback of {amount} was returned: the disputed money came back.'
            : 'The refund of {amount} was returned: it failed or was canceled.',
          { amount },
        ),
        change_cents: refund.returned_cents,
        entry: entryOf((e) => e.cause === 'reversal_returned' && e.refund_id === refund.id),
      })
    }
  }
  if (sale.flagged_at !== null) {
    const text = `${fixed('Held for review.')} ${(sale.flags ?? []).map((flag) => fixed(wordsOfRule(flag))).join(' ')}`
    history.push({ at: iso(sale.flagged_at), kind: 'held', text, change_cents: 0, entry: null })
  }
  if (sale.decided_at !== null && sale.decision === 'released') {
    const text = fixed('Reviewed and released.')
    history.push({ at: iso(sale.decided_at), kind: 'released', text, change_cents: 0, entry: null })
  }
  if (sale.credited_at !== null) {
    const early = holdUntil !== null && sale.credited_at < holdUntil
    history.push({
      at: iso(sale.credited_at),
      kind: 'approved',
      text: fixed(
        early
          ? "Approved before its hold period ended, and credited to the partner's balance."
          : "Its hold period ended, and it was credited to the partner's balance.",
      ),
      change_cents: 0,
      entry: entryOf((e) => e.cause === 'commission_credited'),
    })
  }
  if (sale.rejected_at !== null) {
    const left = history.reduce((sum, { change_cents: change }) => sum + change, 0)
    history.push({
      at: iso(sale.rejected_at),
      kind: 'rejected',
      text: `${fixed('Rejected.')}${sale.reason === null ? '' : ` ${fixed(commissionReason(sale.reason) ?? '')}`}`,
      change_cents: (cents ?? 0) - (sale.reversed_cents ?? 0) - left,
      entry: entryOf((e) => e.cause === 'commission_reversed' && e.refund_id === null),
    })
  }
  if (sale.paid_at !== null) {
    history.push({
      at: iso(sale.paid_at),
      kind: 'paid',
      text: fixed('Paid with payout {id}, {reference}, on {day}.', {
        id: String(sale.payout_id),
        reference: String(sale.reference),
        day: sale.paid_on === null ? '' : day(sale.paid_on),
      }),
      change_cents: 0,
      entry: null,
    })
  }
  return history
}
