-- a commission's status follows from its facts
select program_id, 'commission ' || id as subject, status as found, x.expected
from commissions
cross join lateral (
  select case
    when rejected_at is not null or reversal = 'full' then 'reversed'
    when reversal = 'partial' then 'refunded'
    when paid_at is not null then 'paid'
    when credited_at is not null then 'approved'
    else 'pending'
  end as expected
) x
where ($1::bigint is null or program_id = $1) and status <> x.expected
