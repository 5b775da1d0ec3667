-- a sale's commission is its rate of what it brought without tax, and none where it came later than the program pays for
select s.program_id, 'sale ' || s.id as subject, coalesce('commission of ' || c.amount_cents, 'no commission') as found,
  x.commission || ' of ' || s.commission_base_cents as expected
from sales s
join customers u on u.program_id = s.program_id and u.id = s.customer_id
left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
cross join lateral (
  select case when s.sale_date > u.first_purchase_date + make_interval(months => s.commission_months) then 0
    else div(s.commission_base_cents::numeric * s.commission_bp + 5000, 10000) end as commission
) x
where ($1::bigint is null or s.program_id = $1) and not s.is_test and coalesce(c.amount_cents, 0) <> x.commission
