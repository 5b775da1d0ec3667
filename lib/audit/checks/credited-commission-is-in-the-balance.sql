-- a credited commission's remaining amount is in the balance, and other commissions are not
select c.program_id, 'commission ' || c.id as subject, format('%s in %s entries, %s of them credits', e.sum, e.count, e.credits) as found,
  case when c.credited_at is null then 'none' else format('%s with one credit', c.amount_cents - c.reversed_cents) end as expected
from commissions c
left join (
  select program_id, commission_id, sum(amount_cents), count(*), count(*) filter (where cause = 'commission_credited') as credits
  from balance_entries where commission_id is not null and ($1::bigint is null or program_id = $1) group by program_id, commission_id
) e on e.program_id = c.program_id and e.commission_id = c.id
where ($1::bigint is null or c.program_id = $1) and case when c.credited_at is null then e.count is not null
  else (e.sum, e.credits) is distinct from (c.amount_cents - c.reversed_cents, 1) end
