-- a sale's commission follows from its rate, fixed amount, cap and months, and from the sale without tax
select x.program_id, 'sale ' || x.id as subject, coalesce('commission of ' || x.amount_cents, 'no commission') as found,
  x.expected || ' of ' || x.commission_base_cents as expected
from (
  select y.*, case when y.terms_by_line is not null then (
        select sum(l.commission_cents)
        from commissions_of_lines(y.commission_base_cents, y.terms_by_line, y.sale_date, y.first_purchase_date, y.earlier::bigint) l
      )
      when y.commission_cap_cents - y.earlier < y.uncapped then greatest(y.commission_cap_cents - y.earlier, 0)
    else y.uncapped end as expected
  from (
    select s.program_id, s.id, s.commission_base_cents, s.commission_cap_cents, s.terms_by_line, s.sale_date, u.first_purchase_date,
      c.amount_cents,
      case when s.commission_base_cents = 0 or s.sale_date > months_after(u.first_purchase_date, s.commission_months) then 0
        else least(div(s.commission_base_cents::numeric * s.commission_bp + 5000, 10000) + coalesce(s.commission_fixed_cents, 0), 9999999999999)
      end as uncapped,
      coalesce(sum(c.amount_cents) over (
        partition by s.program_id, s.customer_id, s.currency order by s.sale_date, s.id rows between unbounded preceding and 1 preceding
      ), 0) as earlier
    from sales s
    join customers u on u.program_id = s.program_id and u.id = s.customer_id
    left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where ($1::bigint is null or s.program_id = $1) and not s.is_test
  ) y
) x
where coalesce(x.amount_cents, 0) <> x.expected
