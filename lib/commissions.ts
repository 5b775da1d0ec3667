import { sql } from 'kysely'
import { type Database, retryOnce } from './database.ts'

/**
 * CTEs that carry a change of a commission's reversal into everything that depends on it, in the statement that made it. They
 * read CTE `effect`, at most one row: program_id, commission_id, partner_id, currency, refund_id (or null), cause (text, unique
 * for what happened), delta_cents (commission reversed by it; negative where a reversal is put back), reversed_cents and
 * reversal (what the commission then stands at), reason, credited_at, paid_at, created_at, transaction_id, sale_refunded_cents.
 *
 * A credited commission is deducted from the partner's balance; open withdrawals that the balance no longer covers are
 * reduced, newest first; the partner is told, and the advertiser too where the commission was paid out already. The
 * statement's locks (sale, commission, balance) must have been taken by earlier statements of the same batch.
 */
export const reversalEffectCtes = sql`reversed_commission as (
  update commissions c set reversed_cents = e.reversed_cents, reversal = e.reversal, reason = e.reason
  from effect e where c.program_id = e.program_id and c.id = e.commission_id
),
deduction as (
  select e.*, b.balance_cents, b.entry_count from effect e
  join balances b on b.program_id = e.program_id and b.partner_id = e.partner_id and b.currency = e.currency
  where e.credited_at is not null and e.delta_cents <> 0
),
entry as (
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id, refund_id)
  select program_id, partner_id, currency, entry_count + 1, -delta_cents, balance_cents, balance_cents - delta_cents,
    case when delta_cents > 0 then 'commission_reversed' else 'reversal_returned' end, commission_id, refund_id
  from deduction
),
moved_balance as (
  update balances b set balance_cents = d.balance_cents - d.delta_cents, entry_count = d.entry_count + 1
  from deduction d where b.program_id = d.program_id and b.partner_id = d.partner_id and b.currency = d.currency
),
open_withdrawal as (
  select w.program_id, w.id, w.amount_cents, d.balance_cents - d.delta_cents as balance_cents,
    sum(w.amount_cents) over () as open_cents,
    sum(w.amount_cents) over (order by w.id desc) - w.amount_cents as newer_cents
  from deduction d join withdrawals w on w.program_id = d.program_id and w.partner_id = d.partner_id and w.currency = d.currency
  where w.status = 'requested'
),
cut as (
  select program_id, id, least(amount_cents, open_cents - greatest(balance_cents, 0) - newer_cents)::bigint as cut_cents
  from open_withdrawal where open_cents - greatest(balance_cents, 0) > newer_cents
),
reduced_withdrawal as (
  update withdrawals w set
    amount_cents = w.amount_cents - c.cut_cents,
    status = case when w.amount_cents = c.cut_cents then 'cancelled' else w.status end,
    decided_at = case when w.amount_cents = c.cut_cents then now() else w.decided_at end
  from cut c where w.program_id = c.program_id and w.id = c.id
  returning w.program_id, w.id, w.amount_cents, c.cut_cents
),
commission_total as (
  insert into daily_money as counted (program_id, day, currency, slot, commission_cents)
  select program_id, utc_day(created_at), currency, counter_slot(), -delta_cents from effect where delta_cents <> 0
  on conflict (program_id, day, currency, slot) do update set commission_cents = counted.commission_cents + excluded.commission_cents
),
told as (
  select e.program_id, case e.reversal when 'full' then 'commission_reversed' else 'commission_refunded' end as kind,
    'partner' as audience, e.partner_id, e.cause, json_build_object(
      'commission_id', e.commission_id, 'transaction_id', e.transaction_id, 'amount_cents', e.delta_cents, 'currency', e.currency,
      'reason', e.reason, 'deducted', e.credited_at is not null) as payload
  from effect e where e.delta_cents >= 0
  union all
  select e.program_id, 'paid_commission_reversed', 'advertiser', e.partner_id, e.cause, json_build_object(
      'commission_id', e.commission_id, 'transaction_id', e.transaction_id, 'amount_cents', e.delta_cents, 'currency', e.currency,
      'reason', e.reason)
  from effect e where e.paid_at is not null and e.delta_cents >= 0
  union all
  select w.program_id, 'withdrawal_reduced', 'partner', e.partner_id, e.cause || ':withdrawal:' || w.id, json_build_object(
      'withdrawal_id', w.id, 'amount_cents', w.amount_cents, 'reduced_by_cents', w.cut_cents, 'currency', e.currency,
      'transaction_id', e.transaction_id, 'reason', e.reason)
  from reduced_withdrawal w join effect e on e.program_id = w.program_id
),
outbox_rows as (
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  select program_id, kind, audience, partner_id, cause, payload::jsonb from told
  returning program_id, id
)`

/**
 * Credits commissions whose hold has ended to their partners' balances, `limit` of them at most, and returns how many. What
 * a refund took before is not credited. It can run twice at once: each takes what the other has not locked, and a commission is
 * credited once because credited_at is set once and its entry's cause is unique.
 */
export async function approveDueCommissions(db: Database, limit: number): Promise<number> {
  const due = sql`select program_id, id from commissions
  where hold_until <= now() and credited_at is null and rejected_at is null and reversal <> 'full'
  order by hold_until, program_id, id limit ${limit} for update skip locked`
  const [, , , [credited]] = await retryOnce(() => db.batch(creditStatements(due)))
  return Number(credited?.count ?? 0)
}

/**
 * The batch that credits the commissions which `chosen` (a SELECT of program_id, id that locks them) names. The first statement
 * marks them with the transaction's time, by which the later ones find them; balances are locked in key order, so that two such
 * batches cannot wait for each other in a circle.
 */
export function creditStatements(chosen: ReturnType<typeof sql>) {
  const marked = sql`select c.* from commissions c
  where c.credited_at = now() and c.amount_cents > c.reversed_cents and not exists (
    select from balance_entries e
    where e.program_id = c.program_id and e.cause = 'commission_credited' and e.commission_id = c.id
  )`
  return [
    sql`with chosen as (${chosen})
update commissions c set credited_at = now() from chosen where c.program_id = chosen.program_id and c.id = chosen.id and c.credited_at is null`,
    sql`insert into balances (program_id, partner_id, currency)
select distinct program_id, partner_id, currency from (${marked}) c order by 1, 2, 3
on conflict do nothing`,
    sql`select from balances b where (b.program_id, b.partner_id, b.currency) in (
  select program_id, partner_id, currency from (${marked}) c
) order by b.program_id, b.partner_id, b.currency for update`,
    sql<{ count: string }>`with credit as (
  select c.program_id, c.partner_id, c.currency, c.id as commission_id, c.amount_cents - c.reversed_cents as amount_cents,
    b.entry_count + row_number() over w as entry_number,
    b.balance_cents + sum(c.amount_cents - c.reversed_cents) over w as balance_after_cents
  from (${marked}) c
  join balances b on b.program_id = c.program_id and b.partner_id = c.partner_id and b.currency = c.currency
  window w as (partition by c.program_id, c.partner_id, c.currency order by c.id)
),
entry as (
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id)
  select program_id, partner_id, currency, entry_number, amount_cents, balance_after_cents - amount_cents, balance_after_cents,
    'commission_credited', commission_id
  from credit
),
moved as (
  update balances b set balance_cents = b.balance_cents + t.amount_cents, entry_count = b.entry_count + t.entries
  from (select program_id, partner_id, currency, sum(amount_cents) as amount_cents, count(*) as entries from credit group by 1, 2, 3) t
  where b.program_id = t.program_id and b.partner_id = t.partner_id and b.currency = t.currency
)
select count(*) as count from commissions where credited_at = now()`,
  ] as const
}
