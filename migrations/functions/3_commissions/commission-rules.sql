-- Commission rules: choosing, applying and changing them.

-- Replaces the rules of a group, of a partner, or (with neither) of everybody. Existing rules that differ from the new ones end, and the
-- new ones begin. Returns whether anything changed. A concurrent sale uses all rules of the version that it read.
create or replace function save_rules(of_program_id bigint, of_group_id bigint, of_partner_id bigint, rules jsonb) returns boolean
language plpgsql as $$
declare
  version integer;
  wanted commission_rules[];
  kept bigint[];
begin
  -- Serializes changes to rules.
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

-- Returns the rules of a group, of a partner or of everybody after one rule is removed and another is added. The added rule replaces the
-- rule for the same product or type of sale.
create or replace function rules_with(of_program_id bigint, of_group_id bigint, of_partner_id bigint, ended_id bigint, added jsonb) returns jsonb
language sql stable as $$
  select coalesce(jsonb_agg(to_jsonb(r) - array['id', 'created_at'] order by r.id), '[]') || coalesce(added, '[]')
  from commission_rules r
  where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
    and r.id is distinct from ended_id
    and (added is null or (r.product_id, r.sale_type) is distinct from (added->>'product_id', added->>'sale_type'))
$$;

-- Refuses rules of a group or of a partner that the program does not have.
create or replace function refuse_unknown_holder(of_program_id bigint, of_group_id bigint, of_partner_id bigint) returns void language plpgsql as $$
begin
  if of_group_id is not null then
    perform from partner_groups g where g.program_id = of_program_id and g.id = of_group_id and g.removed_at is null for share;
  elsif of_partner_id is not null then
    perform from partners r where r.program_id = of_program_id and r.id = of_partner_id for key share;
  else
    return;
  end if;
  if not found then
    raise foreign_key_violation using message = 'The program has no such partner or group.', constraint = 'commission_rules_holder_known';
  end if;
end $$;

-- Ends one of the rules of a group, of a partner or of everybody, begins another, or both. Returns whether anything changed.
create or replace function change_rule(of_program_id bigint, of_group_id bigint, of_partner_id bigint, ended_id bigint, added jsonb) returns boolean
language plpgsql as $$
declare
  rules jsonb;
begin
  perform refuse_unknown_holder(of_program_id, of_group_id, of_partner_id);
  -- If two changes happen at once, the later one sees the rules of the earlier one.
  perform from programs p where p.id = of_program_id for no key update;
  rules := rules_with(of_program_id, of_group_id, of_partner_id, ended_id, added);
  if jsonb_array_length(rules) > 50 then
    raise check_violation using message = 'There are more than 50 rules.', constraint = 'commission_rules_most';
  end if;
  return save_rules(of_program_id, of_group_id, of_partner_id, rules);
end $$;

-- Returns the commissions of a period's sales and leads under the current rules, with partners in their current groups. Also returns the
-- original commissions. Both are before reversals, by partner and currency.
create or replace function commissions_by_rules(of_program_id bigint, from_time timestamptz, until timestamptz)
returns table (of_partner_id bigint, of_currency text, actual_cents bigint, cents bigint) language plpgsql stable as $$
declare
  sold record;
  of_customer_id bigint;
  counted_cents bigint;
  earlier_cents bigint;
begin
  for sold in
    with sold as materialized (
      select s.id, s.partner_id, s.customer_id, s.currency, s.sale_type, s.commission_base_cents, s.sale_date,
        -- If there is only one line, its weight doesn't matter.
        case when cardinality(s.lines) = 1 then array[((s.lines[1]).product_ids, 1)::sale_line] else s.lines end as lines
      from sales s
      where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.sale_date >= from_time and s.sale_date < until
    ),
    -- One row for all sales that look the same to every rule. A partner who has left earns nothing.
    terms as materialized (
      select k.*, t.commission_bp, t.commission_fixed_cents, t.commission_months, t.commission_cap_cents, t.terms_by_line
      from (select distinct s.partner_id, s.currency, s.lines, s.sale_type from sold s) k
      join partners r on r.program_id = of_program_id and r.id = k.partner_id and r.closed_at is null
      join programs p on p.id = r.program_id
      cross join lateral with_terms(jsonb_populate_record(null::sales, jsonb_build_object(
        'program_id', p.id, 'partner_id', k.partner_id, 'currency', k.currency, 'lines', k.lines, 'sale_type', k.sale_type,
        'terms_among', jsonb_build_object('rules_version', p.rules_version, 'group_id', r.group_id, 'commission_bp', p.commission_bp,
          'commission_months', p.commission_duration_months)))) t
    )
    select s.*, u.first_purchase_date, coalesce(c.amount_cents, 0) as actual_cents,
      t.commission_bp, t.commission_fixed_cents, t.commission_months, t.commission_cap_cents, t.terms_by_line
    from sold s
    join customers u on u.program_id = of_program_id and u.id = s.customer_id
    left join terms t on t.partner_id = s.partner_id and t.currency = s.currency and t.sale_type = s.sale_type
      and t.lines is not distinct from s.lines
    left join commissions c on c.program_id = of_program_id and c.sale_id = s.id
    order by s.customer_id, s.currency, s.sale_date, s.id
  loop
    if (sold.customer_id, sold.currency) is distinct from (of_customer_id, of_currency) then
      of_customer_id := sold.customer_id;
      of_currency := sold.currency;
      counted_cents := 0;
      earlier_cents := null;
    end if;
    -- The same as left_under_cap, but with the recomputed commissions of the customer's sales in the period.
    if num_nonnulls(sold.commission_cap_cents, sold.terms_by_line) > 0 and earlier_cents is null then
      select coalesce(sum(c.amount_cents), 0) into earlier_cents
      from sales s join commissions c on c.program_id = s.program_id and c.sale_id = s.id
      where s.program_id = of_program_id and s.customer_id = sold.customer_id and not s.is_test and s.currency = sold.currency
        and s.sale_date < from_time;
    end if;
    of_partner_id := sold.partner_id;
    actual_cents := sold.actual_cents;
    cents := case when sold.commission_bp is null then 0
      when sold.terms_by_line is not null then (
        select sum(l.commission_cents) from commissions_of_lines(sold.commission_base_cents, sold.terms_by_line, sold.sale_date,
          sold.first_purchase_date, earlier_cents + counted_cents) l
      )
      else commission_of(sold.commission_base_cents, sold.commission_bp, sold.commission_fixed_cents, sold.commission_months,
        sold.sale_date, sold.first_purchase_date, sold.commission_cap_cents - earlier_cents - counted_cents) end;
    counted_cents := counted_cents + cents;
    return next;
  end loop;
  return query
    select l.partner_id, p.currency::text, l.actual_cents,
      case when r.closed_at is null then l.leads * coalesce(t.lead_commission_cents, p.lead_commission_cents) else 0 end
    from (
      select u.partner_id, count(*) as leads, coalesce(sum(c.amount_cents), 0)::bigint as actual_cents
      from customers u left join commissions c on c.program_id = u.program_id and c.customer_id = u.id and c.kind = 'lead'
      where u.program_id = of_program_id and u.signup_date >= from_time and u.signup_date < until
      group by u.partner_id
    ) l
    join programs p on p.id = of_program_id
    join partners r on r.program_id = p.id and r.id = l.partner_id
    left join lateral lead_terms_of(p.id, p.rules_version, r.id, r.group_id) t on true;
end $$;

-- Returns the commissions that a period's sales and leads would have earned with these rules of a group, a partner or everybody. Each
-- currency has one row (without a partner) and each partner has one, largest changes first. `actual_cents` are the original commissions,
-- `now_cents` the commissions under the current rules, and `then_cents` those with the change. The function saves the rules as usual, and
-- rolls back before it returns.
create or replace function preview_rules(
  of_program_id bigint, of_group_id bigint, of_partner_id bigint, rules jsonb, from_time timestamptz, until timestamptz
) returns table (partner_id bigint, partner_name text, currency text, actual_cents bigint, now_cents bigint, then_cents bigint)
language plpgsql as $$
declare
  was jsonb;
  would jsonb;
begin
  perform refuse_unknown_holder(of_program_id, of_group_id, of_partner_id);
  select jsonb_agg(jsonb_build_array(x.of_partner_id, x.of_currency, x.actual_cents, x.cents)) into was from (
    select c.of_partner_id, c.of_currency, sum(c.actual_cents) as actual_cents, sum(c.cents) as cents
    from commissions_by_rules(of_program_id, from_time, until) c group by c.of_partner_id, c.of_currency
  ) x;
  begin
    perform save_rules(of_program_id, of_group_id, of_partner_id, rules);
    select jsonb_agg(jsonb_build_array(x.of_partner_id, x.of_currency, x.cents)) into would from (
      select c.of_partner_id, c.of_currency, sum(c.cents) as cents
      from commissions_by_rules(of_program_id, from_time, until) c group by c.of_partner_id, c.of_currency
    ) x;
    raise sqlstate 'SVCPV';
  exception when sqlstate 'SVCPV' then
    -- A variable keeps its value when the block is rolled back.
  end;
  return query
    with changes as (
      select (w->>0)::bigint as id, w->>1 as of_currency, (w->>2)::bigint as actual, (w->>3)::bigint as now_is, (v->>2)::bigint as then_is
      from jsonb_array_elements(was) w join jsonb_array_elements(would) v on v->0 = w->0 and v->1 = w->1
    ),
    summed as (
      select c.id, c.of_currency, sum(c.actual)::bigint as actual, sum(c.now_is)::bigint as now_is, sum(c.then_is)::bigint as then_is
      from changes c group by grouping sets ((c.of_currency), (c.id, c.of_currency))
    )
    select s.id, r.name::text, s.of_currency, s.actual, s.now_is, s.then_is
    from summed s left join partners r on r.program_id = of_program_id and r.id = s.id
    where s.id is null or s.then_is <> s.now_is
    order by s.id is not null, abs(s.then_is - s.now_is) desc, s.of_currency, s.id
    limit 100;
end $$;

-- One row for each partner or product for which one rule ends, another begins, or both.
create or replace function preview_rule(
  of_program_id bigint, of_group_id bigint, of_partner_id bigint, ended_id bigint, added jsonb, from_time timestamptz, until timestamptz
) returns table (partner_id bigint, partner_name text, currency text, actual_cents bigint, now_cents bigint, then_cents bigint) language sql
as $$
  select * from preview_rules(of_program_id, of_group_id, of_partner_id,
    rules_with(of_program_id, of_group_id, of_partner_id, ended_id, added), from_time, until)
$$;

-- A rule can end, but nothing else in it changes, so every commission can be computed again under its rule. The undo of an import
-- deletes the rules of its groups if no sale earned a commission under them.
create or replace function refuse_rule_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    if old.ended_at is null and new.ended_at is not null
      and to_jsonb(new) - array['ended_at', 'until_version'] = to_jsonb(old) - array['ended_at', 'until_version'] then
      return new;
    end if;
  elsif current_setting('svc.undoing_import', true) = 'on' then
    return old;
  end if;
  raise restrict_violation using message = 'A commission rule can end, but not change.';
end $$;
create or replace trigger commission_rules_stay before update or delete on commission_rules for each row execute function refuse_rule_change();
