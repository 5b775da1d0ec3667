-- a program's row has the rules of partners and groups for whatever they sell, or none where one asks for the type of a sale
select x.program_id, 'program ' || x.program_id as subject, x.found::text as found, x.expected::text as expected
from (
  select p.id as program_id,
    (
      select jsonb_agg(jsonb_build_array(p.plain_rule_holders[n], p.plain_rules[n][1], p.plain_rules[n][2], p.plain_rules[n][3],
        p.plain_rules[n][4], p.plain_rules[n][5]) order by p.plain_rules[n][1])
      from generate_subscripts(p.plain_rule_holders, 1) n
    ) as found,
    c.expected, c.has_types
  from programs p
  left join (
    select r.program_id, count(r.sale_type) > 0 as has_types,
      jsonb_agg(jsonb_build_array(case when r.partner_id is null then 2 * r.group_id else 2 * r.partner_id + 1 end, r.id, r.commission_bp,
        r.commission_duration_months, case when r.commission_fixed_cents > 0 then r.commission_fixed_cents end, r.lifetime_cap_cents) order by r.id)
        filter (where num_nonnulls(r.product_id, r.sale_type) = 0) as expected
    from commission_rules r where r.until_version is null group by r.program_id
  ) c on c.program_id = p.id
  where p.plain_rule_holders is not null and ($1::bigint is null or p.id = $1)
) x
where x.found is distinct from x.expected or x.has_types
