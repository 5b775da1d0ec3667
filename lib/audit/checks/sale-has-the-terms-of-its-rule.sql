-- a sale's lines have the terms of the first matching rules when it was attributed, or the program's terms
with line as (
  select s.program_id, s.id, l.weight,
    -- Fixed amounts and caps apply only to sales in the program's currency.
    jsonb_build_array(r.id,
      case when r.id is null then coalesce((s.terms_among).commission_bp, s.commission_bp) else r.commission_bp end,
      case when r.id is not null then r.commission_duration_months
        when (s.terms_among).rules_version is null then s.commission_months else (s.terms_among).commission_months end,
      case when s.currency = p.currency then nullif(r.commission_fixed_cents, 0) end,
      case when s.currency = p.currency then r.lifetime_cap_cents end) as terms,
    row_number() over (partition by s.program_id, s.id, l.number order by r.rank) as place
  from sales s
  join programs p on p.id = s.program_id
  cross join lateral unnest(coalesce(s.lines, array[(null, 1)::sale_line])) with ordinality l (product_ids, weight, number)
  left join lateral (
    select c.*, 1000 * case when c.partner_id is not null then 1 when c.group_id is not null then 2 else 3 end
      + coalesce(array_position(l.product_ids, c.product_id), case when c.sale_type is not null then 998 else 999 end) as rank
    from commission_rules c
    where c.program_id = s.program_id
      and (s.terms_among).rules_version between c.since_version and coalesce(c.until_version - 1, 2147483647)
      and coalesce(c.partner_id, s.partner_id) = s.partner_id
      and (c.group_id is null or c.group_id = (s.terms_among).group_id)
      and (c.product_id is null or array_position(l.product_ids, c.product_id) is not null)
      and coalesce(c.sale_type, s.sale_type) = s.sale_type
      and (s.currency = p.currency or c.commission_bp > 0 or c.commission_fixed_cents = 0)
  ) r on true
  where ($1::bigint is null or s.program_id = $1) and ((s.terms_among).rules_version is not null or s.commission_rule_id is not null)
),
part as (
  select program_id, id, terms, sum(weight) as weight from line where place = 1 group by program_id, id, terms
),
expected as (
  select program_id, id, jsonb_agg(terms || to_jsonb(weight) order by weight desc, terms) as terms, count(*) as parts from part group by program_id, id
)
select s.program_id, 'sale ' || s.id as subject, f.terms::text as found, e.terms::text as expected
from expected e
join sales s on s.program_id = e.program_id and s.id = e.id
cross join lateral (
  select jsonb_agg(x.terms order by x.weight desc, x.terms) as terms
  from (
    select jsonb_build_array(t.rule_id, t.commission_bp, t.commission_months, t.fixed_cents, t.cap_cents, t.weight) as terms, t.weight
    from unnest(s.terms_by_line) t
    union all
    select jsonb_build_array(s.commission_rule_id, s.commission_bp, s.commission_months, s.commission_fixed_cents, s.commission_cap_cents,
      e.terms->0->5), 1
    where s.terms_by_line is null
  ) x
) f
where f.terms <> e.terms
union all
select m.program_id, 'commission ' || m.id, format('%s by rule %s', m.amount_cents, m.lead_rule_id), coalesce(r.lead_commission_cents::text, 'no such rule')
from commissions m
left join commission_rules r on r.program_id = m.program_id and r.id = m.lead_rule_id
  and (r.partner_id is null or r.partner_id = m.partner_id)
where ($1::bigint is null or m.program_id = $1) and m.lead_rule_id is not null
  and (m.kind <> 'lead' or m.amount_cents is distinct from r.lead_commission_cents)
