-- Rules of commissions: which one holds, what it brings, and how it changes.

-- The rule that holds for a sale in a version of the program's rules, or none: the partner's own before those of their group and those before
-- everybody's; one for the product before one for all. Of several products the first that has a rule counts, after them the type of the sale.
create or replace function terms_of(
  of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint, product_ids text[], sale_type text
) returns setof commission_rules language sql stable rows 1 as $$
  select r.* from commission_rules r
  where r.program_id = of_program_id and r.since_version <= version and (r.until_version is null or r.until_version > version)
    and (r.partner_id is null or r.partner_id = of_partner_id)
    and (r.group_id is null or r.group_id = of_group_id)
    and (r.product_id is null or r.product_id = any (terms_of.product_ids))
    and (r.sale_type is null or r.sale_type = terms_of.sale_type)
  order by r.partner_id, r.group_id, array_position(terms_of.product_ids, r.product_id), r.sale_type
  limit 1
$$;

-- A sale with the terms that hold for it among those it was attributed in. Fixed amounts and caps are the program's currency's.
create or replace function with_terms(sale sales) returns sales language plpgsql stable as $$
begin
  select r.id, r.commission_bp, r.commission_duration_months,
    case when p.currency = sale.currency then nullif(r.commission_fixed_cents, 0) end,
    case when p.currency = sale.currency then r.lifetime_cap_cents end
  into sale.commission_rule_id, sale.commission_bp, sale.commission_months, sale.commission_fixed_cents, sale.commission_cap_cents
  from terms_of(sale.program_id, (sale.terms_among).rules_version, sale.partner_id, (sale.terms_among).group_id, sale.product_ids,
    sale.sale_type) r
  join programs p on p.id = r.program_id;
  if sale.commission_rule_id is null then
    sale.commission_bp := (sale.terms_among).commission_bp;
    sale.commission_months := (sale.terms_among).commission_months;
  end if;
  return sale;
end $$;

-- What a sale may still bring under its cap, after the customer's earlier sales, before anything of theirs was reversed; null without a cap.
create or replace function left_under_cap(sale sales) returns bigint language plpgsql stable as $$
begin
  if sale.commission_cap_cents is null then
    return null;
  end if;
  return sale.commission_cap_cents - coalesce((
    select sum(c.amount_cents) from sales s join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where s.program_id = sale.program_id and s.customer_id = sale.customer_id and not s.is_test and s.currency = sale.currency
      and (s.sale_date, s.id) < (sale.sale_date, sale.id)
  ), 0);
end $$;

-- What the lead of a partner pays by the rules: of the partner's own, or else of their group's; no row where neither says.
create or replace function lead_terms_of(of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint)
returns setof commission_rules language sql stable rows 1 as $$
  select r.* from commission_rules r
  where r.program_id = of_program_id and r.since_version <= version and (r.until_version is null or r.until_version > version)
    and (r.partner_id = of_partner_id or r.group_id = of_group_id) and r.lead_commission_cents is not null
  order by r.partner_id limit 1
$$;

-- The rules of a group, of a partner, or (neither given) of everybody are these from now on: what differs ends, what is new begins. Answers
-- whether anything changed. A sale under way takes the rules of the version that it read, all of them.
create or replace function save_rules(of_program_id bigint, of_group_id bigint, of_partner_id bigint, rules jsonb) returns boolean
language plpgsql as $$
declare
  version integer;
  wanted commission_rules[];
  kept bigint[];
begin
  -- Changes of rules come one after the other.
  select p.rules_version + 1 into version from programs p where p.id = of_program_id for no key update;
  wanted := array(
    select jsonb_populate_record(null::commission_rules, '{"commission_bp": 0, "commission_fixed_cents": 0}' || jsonb_strip_nulls(given)
      || jsonb_build_object('program_id', of_program_id, 'group_id', of_group_id, 'partner_id', of_partner_id))
    from jsonb_array_elements(rules) given
  );
  kept := array(
    select r.id from commission_rules r join unnest(wanted) w on
      (r.product_id, r.sale_type, r.commission_bp, r.commission_fixed_cents, r.lifetime_cap_cents, r.commission_duration_months,
        r.lead_commission_cents)
      is not distinct from
      (w.product_id, w.sale_type, w.commission_bp, w.commission_fixed_cents, w.lifetime_cap_cents, w.commission_duration_months,
        w.lead_commission_cents)
    where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
  );
  if cardinality(kept) = cardinality(wanted) and not exists (
    select from commission_rules r
    where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
      and r.id <> all (kept)
  ) then
    return false;
  end if;
  update programs p set rules_version = version where p.id = of_program_id;
  update commission_rules r set ended_at = now(), until_version = version
  where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
    and r.id <> all (kept);
  insert into commission_rules (program_id, group_id, partner_id, product_id, sale_type, commission_bp, commission_fixed_cents,
    lifetime_cap_cents, commission_duration_months, lead_commission_cents, since_version)
  select of_program_id, of_group_id, of_partner_id, w.product_id, w.sale_type, w.commission_bp, w.commission_fixed_cents,
    w.lifetime_cap_cents, w.commission_duration_months, w.lead_commission_cents, version
  from unnest(wanted) with ordinality w
  where not exists (
    select from commission_rules r where r.program_id = of_program_id and r.id = any (kept)
      and (r.product_id, r.sale_type) is not distinct from (w.product_id, w.sale_type)
  )
  order by w.ordinality;
  return true;
end $$;

-- A group with its rules; answers its id.
create or replace function make_group(of_program_id bigint, group_name text, rules jsonb) returns bigint language plpgsql as $$
declare
  made_id bigint;
begin
  insert into partner_groups (program_id, name) values (of_program_id, group_name) returning id into made_id;
  perform save_rules(of_program_id, made_id, null, rules);
  return made_id;
end $$;

-- Changes what is given of a group; says whether there is one.
create or replace function change_group(of_program_id bigint, of_group_id bigint, group_name text, rules jsonb) returns boolean
language plpgsql as $$
begin
  update partner_groups g set name = coalesce(group_name, g.name) where g.program_id = of_program_id and g.id = of_group_id;
  if not found then
    return false;
  end if;
  if rules is not null then
    perform save_rules(of_program_id, of_group_id, null, rules);
  end if;
  return true;
end $$;

-- What was computed by a rule can be computed again: it ends, and nothing else of it changes.
create or replace function refuse_rule_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    if old.ended_at is null and new.ended_at is not null
      and to_jsonb(new) - array['ended_at', 'until_version'] = to_jsonb(old) - array['ended_at', 'until_version'] then
      return new;
    end if;
  end if;
  raise restrict_violation using message = 'A commission rule ends, and does not change.';
end $$;
create or replace trigger commission_rules_stay before update or delete on commission_rules for each row execute function refuse_rule_change();
