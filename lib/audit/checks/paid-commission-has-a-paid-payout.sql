-- a commission or manual addition is paid when a payment pays its last part, and it names that payout
with earning as (
  select program_id, 'commission ' || id as subject, id as commission_id, 0::bigint as adjustment_id, paid_at, payout_id from commissions
  where $1::bigint is null or program_id = $1
  union all
  select program_id, 'adjustment ' || id, 0, id, paid_at, payout_id from adjustments where $1::bigint is null or program_id = $1
),
-- Payments of parts of earnings.
part as (
  select e.program_id, coalesce(e.commission_id, 0) as commission_id, coalesce(e.adjustment_id, 0) as adjustment_id, w.id as payout_id,
    w.decided_at as paid_at, max(p.entry_number) as entry_number, sum(l.amount_cents) as paid_cents
  from payout_lines l
  join balance_entries e using (program_id, partner_id, currency, entry_number)
  join payouts w on w.program_id = l.program_id and w.id = l.payout_id
  join balance_entries p on p.program_id = w.program_id and p.payout_id = w.id and p.cause = 'payout_paid'
    and coalesce(p.correction_number, 0) + 1 = l.payment_number
  where not l.is_returned and ($1::bigint is null or l.program_id = $1)
  group by 1, 2, 3, 4, 5
),
last as (
  select distinct on (program_id, commission_id, adjustment_id) *,
    sum(paid_cents) over (partition by program_id, commission_id, adjustment_id) as paid_so_far_cents
  from part order by program_id, commission_id, adjustment_id, entry_number desc
),
-- Earnings that the last payment completed: no earlier entry has an unpaid rest.
completed as (
  select l.program_id, l.commission_id, l.adjustment_id, l.payout_id
  from last l
  join balance_entries e on e.program_id = l.program_id and coalesce(e.commission_id, 0) = l.commission_id
    and coalesce(e.adjustment_id, 0) = l.adjustment_id and e.entry_number < l.entry_number
  group by 1, 2, 3, 4, l.paid_so_far_cents
  having sum(e.amount_cents) > 0 and sum(e.amount_cents) <= l.paid_so_far_cents
)
select c.program_id, c.subject, case when c.paid_at is null then 'not paid' else format('paid at %s by payout %s', c.paid_at, c.payout_id) end as found,
  case when c.paid_at is null then 'paid by payout ' || d.payout_id else 'a payment of it by this payout then' end as expected
from earning c
left join part p on p.program_id = c.program_id and p.commission_id = c.commission_id and p.adjustment_id = c.adjustment_id
  and p.payout_id = c.payout_id and p.paid_at = c.paid_at
left join completed d on d.program_id = c.program_id and d.commission_id = c.commission_id and d.adjustment_id = c.adjustment_id
where case when c.paid_at is null then d.payout_id is not null else p.payout_id is null end
