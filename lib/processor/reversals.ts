import { type RawBuilder, sql } from 'kysely'
import type { ProcessorEvent, Reversal } from './event.ts'

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
 * Statements that carry the kept refunds and disputes of a sale into it: each gets its row in `refunds` once, also one that was
 * returned before (so that the refund endpoint knows it too), and one that was returned since is marked. The sale's row is locked
 * first. `sale` is the SELECT of the sale. What the rows then amount to is `restateStatements`' part (lib/refunds.ts).
 */
export function attachReversalsStatements(event: ProcessorEvent, sale: RawBuilder<unknown>) {
  return [
    sql`with sale as (${sale}) select from sales s where (s.program_id, s.id) in (select program_id, id from sale) for update`,
    sql`with sale as (${sale}),
payment as (
  select transaction_id as id from sale
  union all
  select m.payment_id from processor_payments m join sale s on m.transaction_id = s.transaction_id where m.account_id = ${event.account_id}
),
reversal as (
  select v.*, s.program_id, s.id as sale_id from processor_reversals v join sale s on v.currency = s.currency and v.livemode <> s.is_test
  where v.account_id = ${event.account_id}
    and (v.payment_intent_id in (select id from payment) or v.charge_id in (select id from payment))
),
returned as (
  update refunds r set returned_at = now() from reversal v
  where r.program_id = v.program_id and r.sale_id = v.sale_id and r.refund_key = 'id:' || v.reversal_id
    and v.returned_at is not null and r.returned_at is null
),
logged as (
  update processor_events e set outcome = 'recorded', reason = 'Applied when its sale became known.' from reversal v
  where e.account_id = v.account_id and e.event_id in (v.event_id, v.returned_event_id) and e.outcome = 'parked'
)
insert into refunds (program_id, sale_id, refund_key, requested_cents, applied_cents, reason, reason_text, returned_at)
select program_id, sale_id, 'id:' || reversal_id, amount_cents, 0, reason, reason_text, returned_at
from reversal order by created_at, reversal_id
on conflict on constraint refunds_sale_key do nothing`,
  ]
}
