-- a sale commission has the partner, customer and currency of its live sale, and is no more than its base plus its fixed amount
select c.program_id, 'commission ' || c.id as subject,
  format('partner %s customer %s %s %s', c.partner_id, c.customer_id, c.amount_cents, c.currency) as found,
  format('partner %s customer %s up to %s %s%s', s.partner_id, s.customer_id, s.commission_base_cents + f.fixed_cents, s.currency,
    case when s.is_test then ', no test sale' end) as expected
from commissions c
join sales s on s.program_id = c.program_id and s.id = c.sale_id
cross join lateral (
  select coalesce((select sum(t.fixed_cents) from unnest(s.terms_by_line) t), s.commission_fixed_cents, 0) as fixed_cents
) f
where ($1::bigint is null or c.program_id = $1)
  and ((c.partner_id, c.customer_id, c.currency, c.code_id) is distinct from (s.partner_id, s.customer_id, s.currency, s.code_id)
    or c.amount_cents > s.commission_base_cents + f.fixed_cents or s.is_test)
