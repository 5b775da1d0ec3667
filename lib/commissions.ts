import { type RawBuilder, sql } from 'kysely'
import { type Database, retryOnce } from './database.ts'
import { ApiError } from './errors.ts'
import type { OutboxMessage } from './outbox.ts'

/**
 * CTEs that carry a change of a commission's reversal into everything that depends on it, in the statement that made it. They
 * read CTE `effect`, the changes of one commission in the order of `step`: program_id, step, commission_id, partner_id,
 * currency, refund_id (or null), cause (text, unique for what happened), delta_cents (commission reversed by it; zero or less
 * where a reversal is put back), reversed_cents and reversal (what the commission then stands at), rejected_at (null where
 * nobody rejected it), reason, credited_at, paid_at, created_at, transaction_id, and `notice`: `reversal` tells the partner, and
 * the advertiser where the commission was paid out already; `dispute_reinstated` tells the advertiser; null tells nobody.
 *
 * A credited commission is deducted from the partner's balance; open withdrawals that the balance no longer covers are
 * reduced, newest first. The statement's locks (sale, commission, balance) must have been taken by earlier statements of the
 * same batch; withdrawals change under their balance's lock only, so they need none of their own.
 */
export const reversalEffectCtes = sql`last_effect as (select * from effect order by step desc limit 1),
reversed_commission as (
  update commissions c set reversed_cents = e.reversed_cents, reversal = e.reversal, reason = e.reason,
    rejected_at = coalesce(c.rejected_at, e.rejected_at)
  from last_effect e where c.program_id = e.program_id and c.id = e.commission_id
),
deduction as (
  select e.*, b.entry_count + row_number() over w as entry_number,
    b.balance_cents + e.delta_cents - sum(e.delta_cents) over w as balance_before_cents,
    b.balance_cents - sum(e.delta_cents) over w as balance_after_cents
  from effect e join balances b on b.program_id = e.program_id and b.partner_id = e.partner_id and b.currency = e.currency
  where e.credited_at is not null and e.delta_cents <> 0
  window w as (order by e.step)
),
last_deduction as (select * from deduction order by entry_number desc limit 1),
entry as (
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id, refund_id)
  select program_id, partner_id, currency, entry_number, -delta_cents, balance_before_cents, balance_after_cents,
    case when delta_cents > 0 then 'commission_reversed' else 'reversal_returned' end, commission_id, refund_id
  from deduction
),
moved_balance as (
  update balances b set balance_cents = d.balance_after_cents, entry_count = d.entry_number
  from last_deduction d where b.program_id = d.program_id and b.partner_id = d.partner_id and b.currency = d.currency
),
open_withdrawal as (
  select w.program_id, w.id, w.amount_cents, d.balance_after_cents as balance_cents,
    sum(w.amount_cents) over () as open_cents,
    sum(w.amount_cents) over (order by w.id desc) - w.amount_cents as newer_cents
  from last_deduction d join withdrawals w on w.program_id = d.program_id and w.partner_id = d.partner_id and w.currency = d.currency
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
  select program_id, utc_day(created_at), currency, counter_slot(created_at), -sum(delta_cents) from effect
  group by program_id, created_at, currency having sum(delta_cents) <> 0
  on conflict (program_id, day, currency, slot) do update set commission_cents = counted.commission_cents + excluded.commission_cents
),
told as (
  select e.program_id, case e.reversal when 'full' then 'commission_reversed' else 'commission_refunded' end as kind,
    'partner' as audience, e.partner_id, e.cause, json_build_object(
      'commission_id', e.commission_id, 'transaction_id', e.transaction_id, 'amount_cents', e.delta_cents, 'currency', e.currency,
      'reason', e.reason, 'deducted', e.credited_at is not null) as payload
  from effect e where e.notice = 'reversal'
  union all
  select e.program_id, case e.notice when 'reversal' then 'paid_commission_reversed' else e.notice end, 'advertiser', e.partner_id,
    e.cause, json_build_object(
      'commission_id', e.commission_id, 'transaction_id', e.transaction_id, 'amount_cents', abs(e.delta_cents),
      'currency', e.currency, 'reason', e.reason)
  from effect e where e.notice = 'dispute_reinstated' or e.notice = 'reversal' and e.paid_at is not null
  union all
  select w.program_id, 'withdrawal_reduced', 'partner', e.partner_id, e.cause || ':withdrawal:' || w.id, json_build_object(
      'withdrawal_id', w.id, 'amount_cents', w.amount_cents, 'reduced_by_cents', w.cut_cents, 'currency', e.currency,
      'transaction_id', e.transaction_id, 'reason', e.reason)
  from reduced_withdrawal w join last_effect e on e.program_id = w.program_id
),
outbox_rows as (
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  select program_id, kind, audience, partner_id, cause, payload::jsonb from told
  returning program_id, id
)`

/** Column `outbox`: the messages that a statement with `reversalEffectCtes` wrote, to be sent after the response. */
export const outboxColumn = sql`(select json_agg(json_build_object('program_id', program_id, 'outbox_id', id)) from outbox_rows) as outbox`

/**
 * Credits commissions whose hold has ended to their partners' balances, the longest waiting `limit` of them, and returns how
 * many it credited and whether more may wait. What a refund took before is not credited. It can be stopped anywhere, and run
 * twice at once: a run waits for the other's batch and passes over what that one credited.
 */
export async function approveDueCommissions(db: Database, limit: number): Promise<{ credited: number; more: boolean }> {
  const due = await retryOnce(() =>
    db.query(sql<{ program_id: string; id: string }>`select program_id, id from commissions
  where hold_until <= now() and credited_at is null and rejected_at is null and reversal <> 'full'
  order by hold_until, program_id, id limit ${limit}`),
  )
  return { credited: due.length === 0 ? 0 : await creditCommissions(db, due), more: due.length === limit }
}

/**
 * Credits commissions of a program before their hold ends, and returns how many. Those that are credited, rejected or fully
 * reversed already, or are not the program's, stay as they are.
 */
export async function approveCommissions(db: Database, programId: number, commissionIds: number[]): Promise<number> {
  return await creditCommissions(
    db,
    commissionIds.map((id) => ({ program_id: String(programId), id: String(id) })),
  )
}

/**
 * One batch: locks the commissions and then their balances, each in key order so that two batches cannot wait for each other in
 * a circle, and then credits what still is to be credited.
 */
async function creditCommissions(db: Database, commissions: { program_id: string; id: string }[]): Promise<number> {
  const chosen = sql`select c.* from commissions c
where (c.program_id, c.id) in (
    select * from unnest(${commissions.map((c) => c.program_id)}::bigint[], ${commissions.map((c) => c.id)}::bigint[])
  )
  and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full'`
  const [, , , [credited]] = await retryOnce(() =>
    db.batch([
      sql`${chosen} order by c.program_id, c.id for no key update of c`,
      sql`insert into balances (program_id, partner_id, currency)
select distinct program_id, partner_id, currency from (${chosen}) c order by 1, 2, 3
on conflict do nothing`,
      sql`select from balances b where (b.program_id, b.partner_id, b.currency) in (
  select program_id, partner_id, currency from (${chosen}) c
) order by b.program_id, b.partner_id, b.currency for no key update`,
      sql<{ count: string }>`with credit as (
  select c.program_id, c.partner_id, c.currency, c.id as commission_id, c.amount_cents - c.reversed_cents as amount_cents,
    b.entry_count + row_number() over w as entry_number,
    b.balance_cents + sum(c.amount_cents - c.reversed_cents) over w as balance_after_cents
  from (${chosen}) c
  join balances b on b.program_id = c.program_id and b.partner_id = c.partner_id and b.currency = c.currency
  window w as (partition by c.program_id, c.partner_id, c.currency order by c.id)
),
credited as (
  update commissions c set credited_at = now() from credit
  where c.program_id = credit.program_id and c.id = credit.commission_id
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
select count(*) as count from credit`,
    ]),
  )
  return Number(credited?.count ?? 0)
}

/**
 * The statements that lock a commission and its partner's balance before a change of its reversal, in this order.
 * `commission` is a SELECT of the commission's row (all columns of `commissions`), without a WITH of its own.
 */
export function lockCommission(commission: RawBuilder<unknown>) {
  return [
    sql`select from commissions c where (c.program_id, c.id) in (select program_id, id from (${commission}) named) for no key update`,
    sql`select from balances b where (b.program_id, b.partner_id, b.currency) in (
  select program_id, partner_id, currency from (${commission}) named
) for no key update`,
  ] as const
}

/**
 * Rejects a commission of a program for good, at any time: what is left of it is reversed, deducted from the balance where it
 * was credited, and the partner is told the reason. A rejected commission stays rejected whatever happens to its sale.
 * Returns what was deducted and the messages to send; rejecting it again changes nothing and deducts 0. Refuses with
 * `not_found`, and with `conflict` where refunds reversed it fully already.
 */
export async function rejectCommission(
  db: Database,
  programId: number,
  commissionId: number,
  reason: string,
): Promise<{ deduction_cents: number; currency: string; outbox: OutboxMessage[] }> {
  const commission = sql`select * from commissions where program_id = ${programId} and id = ${commissionId}`
  const [, , [row]] = await retryOnce(() =>
    db.batch([
      ...lockCommission(commission),
      sql<{
        was_rejected: boolean
        was_reversed: boolean
        deduction_cents: string | null
        currency: string
        outbox: OutboxMessage[] | null
      }>`with prior as (${commission}),
effect as (
  select c.program_id, c.id as commission_id, c.partner_id, c.currency, null::bigint as refund_id, 'rejection:' || c.id as cause,
    c.amount_cents - c.reversed_cents as delta_cents, c.amount_cents as reversed_cents, 'full' as reversal, now() as rejected_at,
    ${reason}::text as reason, c.credited_at, c.paid_at, c.created_at, s.transaction_id, 'reversal' as notice, 1 as step
  from prior c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
  where c.status <> 'reversed'
),
${reversalEffectCtes}
select p.rejected_at is not null as was_rejected, p.status = 'reversed' as was_reversed, e.delta_cents as deduction_cents,
  p.currency, ${outboxColumn}
from prior p left join effect e on true`,
    ]),
  )
  if (!row) throw new ApiError('not_found', 'This program has no such commission.')
  if (row.was_reversed && !row.was_rejected) {
    throw new ApiError('conflict', 'Refunds reversed this commission fully already, so there is nothing to reject.')
  }
  return { deduction_cents: Number(row.deduction_cents ?? 0), currency: row.currency, outbox: row.outbox ?? [] }
}
