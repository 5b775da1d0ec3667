import { type RawBuilder, sql } from 'kysely'
import type { Stripe } from 'stripe'
import { retryBinding } from '../tracking/customers.ts'
import { type Database, jsonb } from '../database.ts'
import { messagesAbout, type OutboxMessage } from '../notifications/outbox.ts'
import { type ProcessorSale, saleColumns } from '../money/sales.ts'
import { attributionStatements, customerCte, programCte } from './attribution.ts'
import type { InvoicePayment, ProcessorEvent, Purchase, Reversals } from './facts.ts'
import { asReversal } from './read-refund.ts'
import {
  keepReversalsStatement,
  learnPaymentsStatement,
  lockStatements,
  saleOfPayments,
  settleReversalsStatements,
} from './reversals.ts'
import { invoiceOfPaymentIntent, refundsOfCharge } from './client.ts'

/** What became of an event, as the delivery log keeps it, and what is to be told because of it. */
export interface Handled {
  outcome: 'recorded' | 'duplicate' | 'ignored' | 'parked'
  /** Why it is so, where that is not plain. */
  reason: string | null
  outbox: OutboxMessage[]
}

type HandledRow = Omit<Handled, 'outbox'>

/**
 * Applies an event: its whole effect and its row in the delivery log are one transaction, so whatever breaks, sending it
 * again is right, and sending it twice changes nothing. `stripe` is asked only for what no event told: the invoice of a refund's
 * payment, and a charge's refunds. One database request, two where Stripe was asked for an invoice.
 */
export async function applyEvent(db: Database, stripe: Stripe, event: ProcessorEvent): Promise<Handled> {
  const { fact } = event
  if (fact.kind === 'purchase') return await applyPurchase(db, event, fact)
  if (fact.kind === 'reversals') return await applyReversals(db, stripe, event, fact)
  if (fact.kind === 'charge_refunds') {
    const refunds = await refundsOfCharge(stripe, event.account_id, fact.charge_id)
    const reversals = refunds.flatMap((refund) => asReversal(refund) ?? [])
    return await applyReversals(db, stripe, event, { ...fact, kind: 'reversals', reversals })
  }
  if (fact.kind === 'invoice_payment') return await applyInvoicePayment(db, event, fact)
  if (fact.kind === 'deauthorization') return await run(db, [deauthorizeStatement(event)])
  return await run(db, [
    logStatement(event, sql`select null::bigint as program_id, 'ignored' as outcome, ${fact.reason}::text as reason`),
  ])
}

/** Runs a batch whose last statement writes the log. Messages come from whichever statement has column `outbox`. */
async function run(db: Database, statements: RawBuilder<unknown>[]): Promise<Handled> {
  const handled = await runIfDecided(db, statements)
  if (!handled) throw new Error('an event was applied without its row in the log')
  return handled
}

async function runIfDecided(db: Database, statements: RawBuilder<unknown>[]): Promise<Handled | undefined> {
  // oxlint-disable-next-line no-unsafe-type-assertion -- the last statement is logStatement's; column `outbox` is always this one
  const results = (await retryBinding(() => db.batch(statements))) as (Partial<HandledRow> & {
    of_program_id?: number
    outbox_ids?: number[] | null
  })[][]
  const row = results.at(-1)?.[0]
  if (row?.outcome === undefined) return undefined
  const outbox = results.flatMap((rows) =>
    rows.flatMap(({ of_program_id = null, outbox_ids = null }) =>
      messagesAbout({ program_id: of_program_id, outbox_ids }),
    ),
  )
  return { outcome: row.outcome, reason: row.reason ?? null, outbox }
}

/**
 * Writes what became of an event; `result` is a SELECT of program_id, outcome and reason, and no row writes nothing. Delivered
 * again, an event that was recorded stays so.
 */
function logStatement(event: ProcessorEvent, result: RawBuilder<unknown>, scope?: RawBuilder<unknown>) {
  return sql<HandledRow>`with ${scope ? sql`${scope}, ` : sql``}result as (${result})
insert into processor_events as stored (account_id, event_id, event_type, program_id, livemode, outcome, reason, fact, event_created_at)
select ${event.account_id}, ${event.id}, ${event.type}, program_id, ${event.livemode}::boolean, outcome, reason, ${jsonb(event.fact)},
  ${event.created}::timestamptz
from result
on conflict (account_id, event_id) do update set
  deliveries = stored.deliveries + 1,
  last_received_at = now(),
  program_id = coalesce(excluded.program_id, stored.program_id),
  outcome = case when stored.outcome = 'recorded' then stored.outcome else excluded.outcome end,
  reason = case when stored.outcome = 'recorded' then stored.reason else excluded.reason end
returning outcome, reason`
}

async function applyPurchase(db: Database, event: ProcessorEvent, purchase: Purchase): Promise<Handled> {
  const { sale, payment_ids: paymentIds } = purchase
  const program = programCte(event, purchase.program_id)
  const attribution = event.livemode ? attributionStatements(event, purchase) : []
  const notConnected =
    purchase.program_id === null
      ? 'Its metadata names no program.'
      : `Program ${purchase.program_id}, which its metadata names, is not connected to this account.`
  const ignoredResult = sql`select null::bigint as program_id, 'ignored' as outcome, ${notConnected}::text as reason
  where not exists (select from program)`
  if (!sale) {
    const waiting = purchase.awaits_payment ? 'Its payment is under way.' : 'Nothing was paid; a lead is settled.'
    return await run(db, [
      ...attribution,
      logStatement(
        event,
        sql`${ignoredResult}
  union all
  select p.id, case when c.id is null then 'ignored' else 'recorded' end,
    case when c.id is null then 'Nothing was paid, and no partner brought this customer.' else ${waiting} end
  from program p left join customer c on true`,
        sql`${program}, ${customerCte(purchase)}`,
      ),
    ])
  }
  const stored = sql`select s.* from sales s join programs p on p.id = s.program_id
  where p.id = ${purchase.program_id}::bigint and p.processor_account_id = ${event.account_id}
    and s.is_test = ${!event.livemode}::boolean and s.transaction_id = ${sale.transaction_id}`
  return await run(db, [
    ...lockStatements(event.account_id, paymentIds, sale.transaction_id),
    learnPaymentsStatement(event.account_id, paymentIds, sale.transaction_id),
    ...attribution,
    sql`with ${program}, ${customerCte(purchase)}
select from program p left join customer c on true
cross join lateral record_sale(jsonb_populate_record(null::sales, ${saleColumns(asSale(event, purchase, sale), crypto.randomUUID())}
  || jsonb_build_object('program_id', p.id, 'customer_id', c.id)), true)`,
    ...settleReversalsStatements(event, stored),
    logStatement(
      event,
      sql`${ignoredResult}
  union all
  select s.program_id, case when s.processor_event_id = ${event.id} then 'recorded' else 'duplicate' end,
    case
      when s.processor_event_id is distinct from ${event.id} then 'Its payment is recorded already, as ' || s.transaction_id || '.'
      when s.customer_id is null then 'No partner brought this customer.'
    end
  from sale s`,
      sql`${program}, sale as (${stored})`,
    ),
  ])
}

function asSale(event: ProcessorEvent, purchase: Purchase, sale: NonNullable<Purchase['sale']>): ProcessorSale {
  return {
    transaction_id: sale.transaction_id,
    customer_key: purchase.customer_key,
    click_id: purchase.click_id,
    amount_cents: sale.amount_cents,
    currency: sale.currency,
    sale_type: sale.sale_type,
    is_recurring: sale.is_recurring,
    subscription_id: sale.subscription_id,
    is_test: !event.livemode,
    additional_data: null,
    commission_base_cents: sale.commission_base_cents,
    payment_status: 'paid',
    sale_date: new Date(sale.sale_date),
    processor_event_id: event.id,
    processor_session_id: purchase.session_id,
    processor_payment_intent_id: sale.payment_intent_id,
    processor_charge_id: sale.charge_id,
    processor_invoice_id: sale.invoice_id,
    processor_customer_id: purchase.processor_customer_id,
  }
}

/** Learns which invoice a payment paid, and applies what is parked for the payment where the invoice's sale is known. */
async function applyInvoicePayment(db: Database, event: ProcessorEvent, fact: InvoicePayment): Promise<Handled> {
  const { payment_ids: paymentIds, invoice_id: invoiceId } = fact
  const sale = saleOfPayments(event, [invoiceId])
  return await run(db, [
    ...lockStatements(event.account_id, paymentIds, invoiceId),
    learnPaymentsStatement(event.account_id, paymentIds, invoiceId),
    ...settleReversalsStatements(event, sale),
    logStatement(
      event,
      sql`select (select program_id from sale) as program_id, 'recorded' as outcome, null as reason`,
      sql`sale as (${sale})`,
    ),
  ])
}

/**
 * Applies refunds or a dispute to the sale they are of. Where the sale is not known, and neither is which invoice the payment paid,
 * Stripe is asked for the invoice, and then they are parked for the sale that may come.
 */
async function applyReversals(db: Database, stripe: Stripe, event: ProcessorEvent, fact: Reversals): Promise<Handled> {
  const paymentIds = [fact.payment_intent_id, fact.charge_id].filter((id) => id !== null)
  const attempt = (invoiceId: string | null, decided: boolean) => {
    const sale = saleOfPayments(event, paymentIds)
    const kept = sql`sale as (${sale}),
account as (select from programs where processor_account_id = ${event.account_id} limit 1),
kept as (
  select from account where ${decided}::boolean or exists (select from sale)
    or exists (select from processor_payments where account_id = ${event.account_id} and payment_id = any(${paymentIds}::text[]))
)`
    return runIfDecided(db, [
      ...lockStatements(event.account_id, paymentIds, invoiceId),
      ...(invoiceId === null ? [] : [learnPaymentsStatement(event.account_id, paymentIds, invoiceId)]),
      keepReversalsStatement(kept, event, fact, fact.reversals),
      ...settleReversalsStatements(event, sale),
      logStatement(event, reversalResult(event, fact), kept),
    ])
  }
  const first = await attempt(fact.invoice_id, fact.invoice_id !== null || fact.payment_intent_id === null)
  if (first) return first
  const invoiceId = await invoiceOfPaymentIntent(stripe, event.account_id, fact.payment_intent_id ?? '')
  const handled = await attempt(invoiceId, true)
  if (!handled) throw new Error('a reversal was neither applied nor parked')
  return handled
}

/** SELECT of what became of a reversal event, from CTEs `account`, `kept` and `sale`. */
function reversalResult(event: ProcessorEvent, { reversals }: Reversals): RawBuilder<unknown> {
  const [reversal] = reversals
  return sql`select null::bigint as program_id, 'ignored' as outcome, 'No program is connected to this account.' as reason
  where not exists (select from account)
  union all
  select s.program_id,
    case
      when ${reversal === undefined}::boolean or s.currency <> ${reversal?.currency ?? ''} then 'ignored'
      when not exists (
        select from processor_reversals v where v.account_id = ${event.account_id} and ${event.id} in (v.event_id, v.returned_event_id)
      ) then 'duplicate'
      when s.id is null then 'parked'
      else 'recorded'
    end,
    case
      when ${reversal === undefined}::boolean then 'The charge has no refund that took money.'
      when s.currency <> ${reversal?.currency ?? ''} then 'It is in ' || ${reversal?.currency ?? ''}::text || ', its sale in ' || s.currency || '. Refund the sale by hand.'
      when not exists (
        select from processor_reversals v where v.account_id = ${event.account_id} and ${event.id} in (v.event_id, v.returned_event_id)
      ) then 'Another event told it already.'
      when s.id is null then 'No sale of this payment is known yet.'
    end
  from kept left join sale s on true`
}

/**
 * Disconnects the programs of the account, unless they were connected again since the event, or in live mode where the event is of
 * test mode.
 */
function deauthorizeStatement(event: ProcessorEvent) {
  return logStatement(
    event,
    sql`select min(id) as program_id, case when count(*) > 0 then 'recorded' else 'ignored' end as outcome,
    case when count(*) = 0 then 'No program is connected to this account any more, or it was connected again since.' end as reason
  from disconnected`,
    sql`disconnected as (
  update programs set processor_account_id = null, processor_connected_at = null
  where processor_account_id = ${event.account_id} and (${event.livemode}::boolean or not processor_livemode)
    and (processor_connected_at is null or processor_connected_at < ${event.created}::timestamptz + interval '1 second')
  returning id
)`,
  )
}
