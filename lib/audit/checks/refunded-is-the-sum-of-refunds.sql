-- the refunded amount of a sale is the sum of its refunds that were not undone, and no more than the sale
select s.program_id, 'sale ' || s.id as subject, s.refunded_cents::text as found,
  format('%s of %s', coalesce(r.sum, 0), s.amount_cents) as expected
from sales s
left join (
  select program_id, sale_id, sum(applied_cents) from refunds
  where returned_at is null and ($1::bigint is null or program_id = $1) group by program_id, sale_id
) r on r.program_id = s.program_id and r.sale_id = s.id
where ($1::bigint is null or s.program_id = $1) and (s.refunded_cents <> coalesce(r.sum, 0) or s.refunded_cents > s.amount_cents)
