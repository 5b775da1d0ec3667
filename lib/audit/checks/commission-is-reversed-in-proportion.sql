-- a commission is reversed by floor(commission * refunded part of its sale), a rejected one fully
-- A refund counts with its amount without tax, if the processor reports it.
select c.program_id, 'commission ' || c.id as subject, c.reversal || ' ' || c.reversed_cents as found,
  x.reversal || ' ' || x.reversed as expected
from commissions c
left join sales s on s.program_id = c.program_id and s.id = c.sale_id
cross join lateral (
  select greatest(s.commission_base_cents + coalesce(s.processor_fee_cents, 0), 1)::numeric as untaxed
) u
cross join lateral (
  select case s.refunded_cents
    when s.amount_cents then s.amount_cents * u.untaxed
    when 0 then 0
    else (
      select least(s.amount_cents * u.untaxed, sum(case
        when s.amount_source = 'api' or r.untaxed_cents is null then r.applied_cents * u.untaxed
        else r.untaxed_cents::numeric * s.amount_cents
      end))
      from refunds r where r.program_id = s.program_id and r.sale_id = s.id and r.returned_at is null
    )
  end as refunded
) p
cross join lateral (
  select
    case
      when c.rejected_at is not null then c.amount_cents
      when s.id is null then 0
      when c.amount_cents = 0 then 0
      else div(c.amount_cents * p.refunded, s.amount_cents * u.untaxed)
    end as reversed,
    case
      when c.rejected_at is not null or c.amount_cents = 0 or p.refunded = s.amount_cents * u.untaxed then 'full'
      when p.refunded > 0 then 'partial'
      else 'none'
    end as reversal
) x
where ($1::bigint is null or c.program_id = $1)
  and (c.reversed_cents <> x.reversed or c.reversal <> x.reversal or c.reversed_cents > c.amount_cents)
