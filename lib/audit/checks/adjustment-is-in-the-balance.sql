-- a manual commission or deduction is in the balance once, with its original amount
select a.program_id, 'adjustment ' || a.id as subject, format('%s in %s entries', coalesce(e.sum, 0), coalesce(e.count, 0)) as found,
  a.amount_cents || ' in 1' as expected
from adjustments a
left join (
  select program_id, adjustment_id, sum(amount_cents), count(*) from balance_entries
  where adjustment_id is not null and ($1::bigint is null or program_id = $1) group by program_id, adjustment_id
) e on e.program_id = a.program_id and e.adjustment_id = a.id
where ($1::bigint is null or a.program_id = $1) and (e.sum, e.count) is distinct from (a.amount_cents, 1)
