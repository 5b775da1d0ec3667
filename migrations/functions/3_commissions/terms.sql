-- The terms of a commission: the rule for a sale or a lead, and the room under a cap.

-- The rules of a partner, of their group and of everybody in a version of the program's rules.
create or replace function rules_of(of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint)
returns setof commission_rules language sql stable rows 3 as $$
  select r.* from (
    select o.* from commission_rules o where o.program_id = of_program_id and o.partner_id = of_partner_id
    union all
    select g.* from commission_rules g where g.program_id = of_program_id and g.partner_id is null and g.group_id = of_group_id
    union all
    select e.* from commission_rules e where e.program_id = of_program_id and e.partner_id is null and e.group_id is null
  ) r
  where r.since_version <= version and (r.until_version is null or r.until_version > version)
$$;

-- Returns the rule for a line of a sale, or no row. The partner's own rules come first, then the group's rules, then the general ones. A
-- rule for a product comes first, then a rule for a type of sale, then a rule for all sales. If several of `product_ids` have a rule, the
-- first one applies. A rule with only a fixed amount applies only in the program's own currency. In another currency, the next rule
-- applies.
create or replace function terms_of(
  of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint, product_ids text[], sale_type text,
  in_own_currency boolean
) returns setof commission_rules language sql stable rows 1 as $$
  select r.* from rules_of(of_program_id, version, of_partner_id, of_group_id) r
  where (r.product_id is null or r.product_id = any (terms_of.product_ids))
    and (r.sale_type is null or r.sale_type = terms_of.sale_type)
    and (in_own_currency or r.commission_bp > 0 or r.commission_fixed_cents = 0)
  order by r.partner_id, r.group_id, array_position(terms_of.product_ids, r.product_id), r.sale_type
  limit 1
$$;

-- Returns the terms of a sale's lines. A line has the terms of its rule, or else the program's own. Lines with the same terms form one
-- part, and the largest part comes first. Fixed amounts and caps are in the program's currency, so a sale in another currency has neither.
create or replace function terms_of_lines(sale sales) returns line_terms[] language sql stable as $$
  select array_agg((x.rule_id, x.bp, x.months, x.fixed_cents, x.cap_cents, x.weight)::line_terms order by x.weight desc, x.rule_id)
  from (
    select r.id as rule_id, case when r.id is null then (sale.terms_among).commission_bp else r.commission_bp end as bp,
      case when r.id is null then (sale.terms_among).commission_months else r.commission_duration_months end as months,
      case when p.currency = sale.currency then nullif(r.commission_fixed_cents, 0) end as fixed_cents,
      case when p.currency = sale.currency then r.lifetime_cap_cents end as cap_cents, sum(l.weight)::bigint as weight
    from programs p
    cross join unnest(coalesce(sale.lines, array[(null, 1)::sale_line])) l
    left join lateral terms_of(p.id, (sale.terms_among).rules_version, sale.partner_id, (sale.terms_among).group_id, l.product_ids,
      sale.sale_type, p.currency = sale.currency) r on true
    where p.id = sale.program_id
    group by 1, 2, 3, 4, 5
  ) x
$$;

-- Returns a sale with the terms that applied when it was attributed. If its lines have different terms, `terms_by_line` has them, and the
-- sale's own columns have the terms of the largest part. Does nothing if the program had no rules at that time.
create or replace function with_terms(sale sales) returns sales language plpgsql stable as $$
declare
  parts line_terms[];
begin
  if (sale.terms_among).rules_version is null then
    return sale;
  end if;
  parts := terms_of_lines(sale);
  sale.commission_rule_id := (parts[1]).rule_id;
  sale.commission_bp := (parts[1]).commission_bp;
  sale.commission_months := (parts[1]).commission_months;
  sale.commission_fixed_cents := (parts[1]).fixed_cents;
  sale.commission_cap_cents := (parts[1]).cap_cents;
  sale.terms_by_line := case when cardinality(parts) > 1 then parts end;
  return sale;
end $$;

-- The commissions for a customer's sales before this one, without reversals. They count toward the cap.
create or replace function earlier_commissions(sale sales) returns bigint language sql stable
return coalesce((
  select sum(c.amount_cents)::bigint from sales s join commissions c on c.program_id = s.program_id and c.sale_id = s.id
  where s.program_id = (sale).program_id and s.customer_id = (sale).customer_id and not s.is_test and s.currency = (sale).currency
    and (s.sale_date, s.id) < ((sale).sale_date, (sale).id)
), 0);

-- The maximum that a sale may earn under its cap. Null without a cap.
create or replace function left_under_cap(sale sales) returns bigint language plpgsql stable as $$
begin
  return case when sale.commission_cap_cents is not null then sale.commission_cap_cents - earlier_commissions(sale) end;
end $$;

-- The commission of a sale under its own terms.
create or replace function earned_by(sale sales, first_purchase_date timestamptz) returns bigint language plpgsql stable as $$
begin
  if sale.terms_by_line is null then
    return commission_of(sale.commission_base_cents, sale.commission_bp, sale.commission_fixed_cents, sale.commission_months, sale.sale_date,
      first_purchase_date, left_under_cap(sale));
  end if;
  return (
    select sum(l.commission_cents)
    from commissions_of_lines(sale.commission_base_cents, sale.terms_by_line, sale.sale_date, first_purchase_date, earlier_commissions(sale)) l
  );
end $$;

-- Returns the rule for a partner's lead: the partner's own rule, or else their group's rule. If there is no row, the program's own amount
-- applies.
create or replace function lead_terms_of(of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint)
returns setof commission_rules language sql stable rows 1 as $$
  select r.* from rules_of(of_program_id, version, of_partner_id, of_group_id) r
  where num_nonnulls(r.partner_id, r.group_id) > 0 and r.lead_commission_cents is not null
  order by r.partner_id limit 1
$$;
