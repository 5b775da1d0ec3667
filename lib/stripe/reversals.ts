import { type RawBuilder, sql } from 'kysely'
import type { ProcessorEvent, Reversal } from './facts.ts'

/**
 * Statements that hold a transaction back until others about the same payment are done, so that a sale and a refund which arrive
 * at once cannot miss each other. First the payment's ids, then the transactions that these are known to have paid: nobody
 * can change that knowledge without holding the former. Each lock is a statement of its own, because only a later one sees
 * what the lock waited for.
 */
export function lockStatements(accountId: string, paymentIds: string[], transactionId: string | null) {
  const lock = (ids: RawBuilder<unknown>) => sql`select pg_advisory_xact_lock(key) from (
  select distinct hashtextextended(${accountId} || ' ' || id, 0) as key from (${ids}) ids (id) order by 1
) keys`
  return [
    lock(sql`select unnest(${paymentIds}::text[])`),
    lock(sql`select transaction_id from processor_payments where account_id = ${accountId} and payment_id = any(${paymentIds}::text[])
  union all select ${transactionId}::text where ${transactionId}::text is not null`),
  ]
}

/** Keeps which transaction these payments paid. */
export function learnPaymentsStatement(accountId: string, paymentIds: string[], transactionId: string) {
  return sql`insert into processor_payments (account_id, payment_id, transaction_id)
select ${accountId}, id, ${transactionId} from unnest(${paymentIds}::text[]) id where id <> ${transactionId} order by id
on conflict do nothing`
}

/** SELECT of the sale that one of these payments paid, in a program of the event's account. */
export function saleOfPayments(event: ProcessorEvent, paymentIds: string[]): RawBuilder<unknown> {
  return sql`select s.* from programs p join sales s on s.program_id = p.id
  where p.processor_account_id = ${event.account_id} and s.is_test = ${!event.livemode}::boolean and s.transaction_id in (
    select unnest(${paymentIds}::text[])
    union all
    select transaction_id from processor_payments where account_id = ${event.account_id} and payment_id = any(${paymentIds}::text[])
  )
  order by s.processor_event_id is null, s.program_id, s.id limit 1`
}

/**
 * Keeps refunds and disputes as they were told, where CTE `kept` (preceding, in `scope`) has a row. What was told before stays;
 * that one was returned is added.
 */
export function keepReversalsStatement(
  scope: RawBuilder<unknown>,
  event: ProcessorEvent,
  payment: { payment_intent_id: string | null; charge_id: string | null },
  reversals: Reversal[],
) {
  return sql`with ${scope},
told as (
  select * from jsonb_to_recordset(${JSON.stringify(reversals)}::jsonb)
    as t (reversal_id text, reason text, reason_text text, amount_cents bigint, currency text, returned boolean)
)
insert into processor_reversals as stored (account_id, reversal_id, livemode, reason, reason_text, payment_intent_id, charge_id,
  amount_cents, currency, event_id, returned_event_id, returned_at)
select ${event.account_id}, reversal_id, ${event.livemode}::boolean, reason, reason_text, ${payment.payment_intent_id},
  ${payment.charge_id}, amount_cents, currency, case when not returned then ${event.id} end, case when returned then ${event.id} end,
  case when returned then now() end
from told, kept order by reversal_id
on conflict (account_id, reversal_id) do update set
  event_id = coalesce(stored.event_id, excluded.event_id),
  returned_event_id = coalesce(stored.returned_event_id, excluded.returned_event_id),
  returned_at = coalesce(stored.returned_at, excluded.returned_at)`
}

/**
 * Statements that carry what is kept of a sale's payments, refunds and disputes into it (`settle_refunds`). `sale` is the
 * SELECT of the sale.
 */
export function settleReversalsStatements(event: ProcessorEvent, sale: RawBuilder<unknown>): RawBuilder<unknown>[] {
  const paidBy = (prefix: string) => sql`(
    select min(m.payment_id) from processor_payments m
    where m.account_id = ${event.account_id} and m.transaction_id = s.transaction_id and starts_with(m.payment_id, ${prefix})
  )`
  return [
    sql`with sale as (${sale}),
paid as (
  select s.program_id, s.id, coalesce(s.processor_payment_intent_id, ${paidBy('pi_')}) as payment_intent_id,
    coalesce(s.processor_charge_id, ${paidBy('ch_')}) as charge_id
  from sale s
)
update sales s set processor_payment_intent_id = p.payment_intent_id, processor_charge_id = p.charge_id from paid p
where s.program_id = p.program_id and s.id = p.id
  and (s.processor_payment_intent_id, s.processor_charge_id) is distinct from (p.payment_intent_id, p.charge_id)`,
    sql`with sale as materialized (${sale}), mark as materialized (select mark_outbox() as mark),
settled as materialized (select s.program_id, mark, settle_reversals(s.program_id, s.id) from sale s, mark)
select program_id as of_program_id, outbox_since(program_id, mark) as outbox_ids from settled`,
  ]
}
