-- a customer is a conversion from their first live sale on
select u.program_id, 'customer ' || u.id as subject, format('%s, first purchase %s', u.customer_status, u.first_purchase_date) as found,
  format('%s sales', coalesce(s.count, 0)) as expected
from customers u
left join (
  select program_id, customer_id, count(*), array_agg(sale_date) as dates from sales
  where not is_test and customer_id is not null and ($1::bigint is null or program_id = $1) group by program_id, customer_id
) s on s.program_id = u.program_id and s.customer_id = u.id
where ($1::bigint is null or u.program_id = $1) and ((u.customer_status = 'conversion') <> (s.count is not null)
  or s.count is not null and u.first_purchase_date <> all (s.dates))
