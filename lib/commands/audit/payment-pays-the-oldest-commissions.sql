-- a payment pays the oldest credited commissions first and leaves the newest
-- A returned payment gives back its commissions, so it changes what earlier payments should have paid. They are not checked.
with payment as (
  select e.* from balance_entries e
  where e.cause = 'payout_paid' and ($1::bigint is null or e.program_id = $1) and not exists (
    select from balance_entries r
    where r.program_id = e.program_id and r.partner_id = e.partner_id and r.currency = e.currency and r.cause = 'payout_returned'
      and r.entry_number > e.entry_number
  )
),
entry as (
  select e.program_id, e.partner_id, e.currency, e.entry_number, e.amount_cents, 'commission ' || e.commission_id as subject, credit.entry_number as credit_number, payment.entry_number as paid_number
  from balance_entries e
  join commissions c on c.program_id = e.program_id and c.id = e.commission_id
  join balance_entries credit on credit.program_id = c.program_id and credit.commission_id = c.id and credit.cause = 'commission_credited'
  left join payment on payment.program_id = c.program_id and payment.payout_id = c.payout_id
  where e.commission_id is not null and ($1::bigint is null or e.program_id = $1)
  union all
  select e.program_id, e.partner_id, e.currency, e.entry_number, e.amount_cents, 'adjustment ' || e.adjustment_id, e.entry_number,
    payment.entry_number
  from balance_entries e
  join adjustments a on a.program_id = e.program_id and a.id = e.adjustment_id and a.amount_cents > 0
  left join payment on payment.program_id = a.program_id and payment.payout_id = a.payout_id
  where e.adjustment_id is not null and ($1::bigint is null or e.program_id = $1)
),
held as (
  select p.program_id, p.payout_id, p.balance_after_cents, e.subject, e.credit_number,
    e.paid_number is not distinct from p.entry_number as paid_by_it, sum(e.amount_cents) as left_cents
  from payment p
  join entry e on e.program_id = p.program_id and e.partner_id = p.partner_id and e.currency = p.currency
    and e.entry_number < p.entry_number and (e.paid_number is null or e.paid_number >= p.entry_number)
  group by p.program_id, p.payout_id, p.balance_after_cents, e.subject, e.credit_number, paid_by_it
),
due as (
  select *, coalesce(sum(left_cents) over (
    partition by program_id, payout_id order by credit_number desc rows between unbounded preceding and 1 preceding), 0)
    >= balance_after_cents as is_due
  from held where left_cents > 0
)
select program_id, format('%s, payout %s', subject, payout_id) as subject,
  case when paid_by_it then 'paid by it' else 'not paid by it' end as found,
  case when is_due then 'paid by it' else 'not paid by it' end as expected
from due where paid_by_it <> is_due
