-- a commission is reversed by floor(commission * refunded / sale), a rejected one fully
select c.program_id, 'commission ' || c.id as subject, c.reversal || ' ' || c.reversed_cents as found,
  x.reversal || ' ' || x.reversed as expected
from commissions c
left join sales s on s.program_id = c.program_id and s.id = c.sale_id
cross join lateral (
  select
    case
      when c.rejected_at is not null then c.amount_cents
      when s.id is null then 0
      when c.amount_cents = 0 then 0
      else div(c.amount_cents::numeric * s.refunded_cents, s.amount_cents)
    end as reversed,
    case
      when c.rejected_at is not null or c.amount_cents = 0 or s.refunded_cents = s.amount_cents then 'full'
      when s.refunded_cents > 0 then 'partial'
      else 'none'
    end as reversal
) x
where ($1::bigint is null or c.program_id = $1)
  and (c.reversed_cents <> x.reversed or c.reversal <> x.reversal or c.reversed_cents > c.amount_cents)
