-- a customer is a conversion from their earliest live sale with an amount
select u.program_id, 'customer ' || u.id as subject, format('%s, first purchase %s', u.customer_status, u.first_purchase_date) as found,
  'first purchase ' || s.first_date as expected
from customers u
left join (
  select program_id, customer_id, min(sale_date) as first_date from sales
  where not is_test and amount_cents > 0 and customer_id is not null and ($1::bigint is null or program_id = $1) group by program_id, customer_id
) s on s.program_id = u.program_id and s.customer_id = u.id
where ($1::bigint is null or u.program_id = $1) and (u.imported_at is null or u.first_purchase_date > u.imported_at) and ((u.customer_status = 'conversion') <> (s.first_date is not null)
  or u.first_purchase_date is distinct from s.first_date)
