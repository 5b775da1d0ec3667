import type { StripeEvent } from '../../lib/local/stripe-events.ts'
import { minorUnits } from './currencies.ts'
import { type History, transactionOf } from './history.ts'
import { type Refund, refundObject } from './objects.ts'

/** The reports about one payment, in minor units. */
export interface Told {
  amount: bigint
  base: bigint
  reversed: bigint
}

// oxlint-disable-next-line no-explicit-any -- payloads of two generations, read where they are
type Payload = any

/**
 * Sums up an account's events, and refund calls of the whole rest, for each live payment under its transaction id (invoice, else intent,
 * else session). It reads all of them together and in no order, with the answers of Stripe's API for facts that no event has. A service
 * that had received everything would compute this. The oracle, which knows the ledger and no event, must agree: so the events say enough,
 * and say it truly.
 */
export function toldBy({ account, calls }: Pick<History, 'account' | 'calls'>): Map<string, Told> {
  const events = account.events.filter(({ livemode }) => livemode)
  const objects = (...types: string[]): Payload[] =>
    events.filter(({ type }) => types.includes(type)).map(({ data }: StripeEvent) => data.object)

  const invoices = new Map<string, Payload>(objects('invoice.paid').map((invoice) => [invoice.id, invoice]))
  const sessions: Payload[] = objects('checkout.session.completed', 'checkout.session.async_payment_succeeded')
  const intents = new Map<string, Payload>(objects('payment_intent.succeeded').map((intent) => [intent.id, intent]))
  const invoiceOf = (intent: string | null) => (intent === null ? undefined : account.invoiceOfIntent.get(intent))
  const told = new Map<string, Told & { total: bigint; untaxed: bigint; currency: string; gone: bigint }>()
  const tell = (id: string, currency: string, paid: number, total: number, untaxed: number) => {
    const amount = minorUnits(BigInt(paid), currency)
    // If nothing was sold, the payment settles an earlier debt, whose tax no event has.
    const base = total === 0 ? amount : (2n * amount * BigInt(untaxed) + BigInt(total)) / (2n * BigInt(total))
    told.set(id, { amount, base, reversed: 0n, total: BigInt(total), untaxed: BigInt(untaxed), currency, gone: 0n })
  }

  for (const invoice of invoices.values()) {
    // Before 2025-03-31 `amount_paid` excludes payments outside of Stripe.
    const paid = invoice.paid_out_of_band ? invoice.amount_due : invoice.amount_paid
    tell(invoice.id, invoice.currency, paid, invoice.total, invoice.total_excluding_tax)
  }
  for (const intent of intents.values()) {
    if (invoiceOf(intent.id) !== undefined) continue
    const session = sessions.find(({ payment_intent: id }) => id === intent.id)
    const total = session?.amount_total ?? intent.amount
    const tax = session ? session.total_details.amount_tax : (intent.amount_details?.tax?.total_tax_amount ?? 0)
    tell(intent.id, intent.currency, intent.amount_received, total, total - tax)
  }

  const take = (intent: string, amount: bigint) => {
    const sale = told.get(invoiceOf(intent) ?? intent)
    if (sale) sale.gone += amount
  }
  const listed: Payload[] = [...account.refundsOfCharge.values()].flat().map((refund: Refund) => refundObject(refund))
  const chargesRefunded = new Set(objects('charge.refunded').map(({ id }) => id))
  const refunds: Payload[] = [
    ...objects('refund.created', 'refund.updated', 'refund.failed', 'charge.refund.updated'),
    ...listed.filter(({ charge }) => chargesRefunded.has(charge)),
  ]
  for (const id of new Set(refunds.map((refund) => refund.id))) {
    const states = refunds.filter((refund) => refund.id === id)
    const statuses = new Set(states.map(({ status }) => status))
    const isReturned = statuses.has('failed') || statuses.has('canceled')
    const [{ payment_intent: intent, amount, currency }] = states
    if (!isReturned && (statuses.has('pending') || statuses.has('succeeded')))
      take(intent, minorUnits(BigInt(amount), currency))
  }

  const disputes = objects('charge.dispute.funds_withdrawn', 'charge.dispute.funds_reinstated')
  for (const id of new Set(disputes.map((dispute) => dispute.id))) {
    // The one with most transactions is the latest.
    const latest = disputes
      .filter((dispute) => dispute.id === id)
      .toSorted((a, b) => b.balance_transactions.length - a.balance_transactions.length)[0]
    const moves: { amount: number; currency: string }[] = latest.balance_transactions
    const currency = told.get(invoiceOf(latest.payment_intent) ?? latest.payment_intent)?.currency ?? ''
    const left = -moves.reduce((sum, { amount }) => sum + BigInt(amount), 0n)
    const taken = -BigInt(moves[0]?.amount ?? 0)
    // In the charge's currency as it is, else in the proportion in which the dispute's own amount was taken.
    const gone = moves[0]?.currency === currency ? left : (BigInt(latest.amount) * left) / taken
    take(latest.payment_intent, minorUnits(gone, currency))
  }
  for (const note of objects('credit_note.created')) {
    const sale = told.get(note.invoice)
    if (sale) sale.gone += minorUnits(BigInt(note.out_of_band_amount ?? 0), note.currency)
  }
  for (const call of calls) {
    if (call.kind !== 'refund' || call.refund_amount_cents !== undefined) continue
    const payment = account.payments.find(({ ids }) => ids.includes(call.transaction_id))
    const sale = payment && told.get(transactionOf(payment))
    if (sale) sale.gone = sale.amount
  }
  return new Map(
    [...told].map(([id, { amount, base, gone }]) => [id, { amount, base, reversed: gone < amount ? gone : amount }]),
  )
}
