-- Applies a planned import in batches. Each batch leaves a consistent program, and a repeated batch applies its rows only once.

-- Returns whether another import that was not undone needs a link parameter. A repeated import, which created nothing, needs none.
create or replace function is_param_of_other_import(import imports, param text) returns boolean language sql stable
return exists (
  select from imports o where o.program_id = (import).program_id and o.id <> (import).id and o.state in ('applying', 'applied')
    and o.create_count > 0 and param = any (o.added_params)
);

-- Starts to apply an import: logs the action and enables the source's link parameters. Returns the previous state, or null if there is no
-- such import. Only a planned import starts.
create or replace function begin_import(of_program_id bigint, of_import_id bigint, params text[], out was text) language plpgsql as $$
declare
  import imports;
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id for update;
  was := import.state;
  if was is distinct from 'planned' then
    return;
  end if;
  perform write_program_audit(of_program_id, 'import.applied', of_import_id::text, jsonb_build_object('source', import.source, 'rows', (
    select coalesce(jsonb_object_agg(k.kind, k.rows), '{}') from (
      select r.kind::text, count(*) as rows from import_rows r
      where r.program_id = of_program_id and r.import_id = of_import_id and r.outcome in ('create', 'update') group by r.kind
      union all
      select r.kind, count(*) from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id group by r.kind
    ) k)));
  perform set_config('svc.importing', 'on', true);
  -- If several imports need a parameter, the last undo removes it.
  update imports i set state = 'applying', added_params = array(
    select n from unnest(params) n join programs p on p.id = of_program_id
    where n <> all (p.link_params) or is_param_of_other_import(import, n)
  )
  where i.program_id = of_program_id and i.id = of_import_id returning i.* into import;
  update programs p set link_params = p.link_params || array(
    select n from unnest(import.added_params) n where n <> all (p.link_params)
  )
  where p.id = of_program_id and cardinality(import.added_params) > 0;
end $$;

-- A click id for a customer who never clicked here, in the usual format: the time and 20 random digits.
create or replace function imported_click_id(of_program_id bigint) returns text language sql volatile
return format('cust_%s_%s%s%s', (extract(epoch from now()) * 1000)::bigint,
  lpad((('x' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 12))::bit(48)::bigint % 10000000000)::text, 10, '0'),
  lpad((('x' || substr(replace(gen_random_uuid()::text, '-', ''), 1, 12))::bit(48)::bigint % 10000000000)::text, 10, '0'), of_program_id);

-- The group of a partner's row, by its id in the source or by its name.
create or replace function group_of_row(import imports, named text) returns bigint language plpgsql stable as $$
begin
  return (
    select g.id from partner_groups g
    where g.program_id = import.program_id and g.removed_at is null and (g.external_id = imported_id(import, named)
      or lower(g.name) = lower(coalesce((
        select r.fields->>'name' from import_rows r
        where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'group' and r.source_id = named order by r.id limit 1
      ), named)))
    order by g.external_id = imported_id(import, named) desc nulls last limit 1
  );
end $$;

create or replace function apply_group_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
begin
  insert into partner_groups (program_id, name, external_id)
  values (import.program_id, applied.fields->>'name', imported_id(import, applied.source_id)) returning id into applied.target_id;
  if jsonb_array_length(applied.fields->'rules') > 0 then
    perform save_rules(import.program_id, applied.target_id, null, applied.fields->'rules');
  end if;
  return applied;
end $$;

-- Returns the columns that an update changed, each with its old and its new value.
create or replace function changed_columns(old_row jsonb, new_row jsonb) returns jsonb language sql immutable
return (
  select coalesce(jsonb_object_agg(o.key, jsonb_build_array(o.value, new_row->o.key)), '{}') from jsonb_each(old_row) o
  where o.value <> new_row->o.key
);

create or replace function apply_partner_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
declare
  of_group_id constant bigint := group_of_row(import, applied.fields->>'group');
begin
  if applied.outcome = 'create' then
    insert into partners (program_id, name, email, payout_email, group_id, is_active, external_id)
    values (import.program_id, applied.fields->>'name', applied.fields->>'email', applied.fields->>'payout_email', of_group_id,
      applied.fields->>'status' is distinct from 'inactive', imported_id(import, applied.source_id))
    returning id into applied.target_id;
    return applied;
  end if;
  update partners p set external_id = imported_id(import, applied.source_id), group_id = coalesce(p.group_id, of_group_id),
    payout_email = case when p.user_id is null then coalesce(p.payout_email, applied.fields->>'payout_email') else p.payout_email end
  where p.program_id = import.program_id and p.id = applied.target_id
  returning changed_columns(
    jsonb_build_object('external_id', old.external_id, 'group_id', old.group_id, 'payout_email', old.payout_email),
    jsonb_build_object('external_id', new.external_id, 'group_id', new.group_id, 'payout_email', new.payout_email)
  ) into applied.replaced;
  return applied;
end $$;

create or replace function apply_code_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
declare
  of_partner_id constant bigint := partner_of_row(applied);
begin
  if applied.kind = 'link' then
    insert into referral_links (program_id, partner_id, code, page_url, external_id, is_active)
    select p.program_id, p.id, applied.fields->>'code', applied.fields->>'page_url', imported_id(import, applied.source_id), p.is_active
    from partners p where p.program_id = import.program_id and p.id = of_partner_id returning id into applied.target_id;
  else
    insert into partner_codes (program_id, partner_id, code)
    values (import.program_id, of_partner_id, applied.fields->>'code') returning id into applied.target_id;
  end if;
  return applied;
end $$;

-- Creates a customer with the dates of the former service, or adds names to an existing one. Their payments count from now on, because
-- earlier payments belong to the former service.
create or replace function apply_customer_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
declare
  purchase constant timestamptz := least((applied.fields->>'first_purchase_date')::timestamptz, now());
  signup constant timestamptz := least(coalesce((applied.fields->>'signup_date')::timestamptz, purchase), now());
begin
  if applied.outcome = 'create' then
    insert into customers (program_id, click_id, customer_key, email_hash, mailbox_hash, link_id, partner_id, customer_status, signup_date,
      lead_event_id, first_purchase_date, imported_at)
    values (import.program_id, imported_click_id(import.program_id), applied.fields->>'customer_key',
      decode(applied.fields->>'email_hash', 'hex'), decode(applied.fields->>'mailbox_hash', 'hex'), (
        select l.id from referral_links l
        where l.program_id = import.program_id and l.partner_id = partner_of_row(applied) and lower(l.code) = lower(applied.fields->>'link')
      ), partner_of_row(applied), case when purchase is null then 'lead' else 'conversion' end, signup,
      nextval('affiliate_lead_events_id_seq'), purchase, now())
    returning id into applied.target_id;
  else
    update customers c set updated_at = now(),
      customer_key = coalesce(c.customer_key, case when not exists (
        select from customers k where k.program_id = c.program_id and k.customer_key = applied.fields->>'customer_key'
      ) then applied.fields->>'customer_key' end),
      email_hash = coalesce(c.email_hash, decode(applied.fields->>'email_hash', 'hex')),
      mailbox_hash = case when c.email_hash is null then decode(applied.fields->>'mailbox_hash', 'hex') else c.mailbox_hash end
    where c.program_id = import.program_id and c.id = applied.target_id
    returning changed_columns(
      jsonb_build_object('customer_key', old.customer_key, 'email_hash', old.email_hash, 'mailbox_hash', old.mailbox_hash),
      jsonb_build_object('customer_key', new.customer_key, 'email_hash', new.email_hash, 'mailbox_hash', new.mailbox_hash)
    ) || jsonb_build_object('updated_at', new.updated_at) into applied.replaced;
  end if;
  -- Allows the same minute as existed_at, because clocks differ and processors round to whole seconds.
  insert into processor_customers (program_id, processor_customer_id, customer_id, known_from)
  select import.program_id, applied.fields->>'processor_customer_id', applied.target_id, now() - interval '1 minute'
  where applied.fields ? 'processor_customer_id'
  on conflict do nothing;
  if found then
    applied.replaced := coalesce(applied.replaced, '{}') || '{"added_processor_customer": true}';
  end if;
  return applied;
end $$;

-- Posts the former service's debt to a partner. Notifies nobody.
create or replace function apply_balance_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
declare
  adjustment adjustments;
begin
  insert into adjustments (program_id, partner_id, currency, amount_cents, note, external_id, request_id, import_id)
  values (import.program_id, partner_of_row(applied), applied.fields->>'currency', (applied.fields->>'amount_cents')::bigint,
    applied.fields->>'note', import.source || ':balance:' || applied.source_id, gen_random_uuid(), import.id)
  returning * into adjustment;
  applied.target_id := adjustment.id;
  insert into balances (program_id, partner_id, currency) values (import.program_id, adjustment.partner_id, adjustment.currency)
  on conflict do nothing;
  perform from balances b
  where b.program_id = import.program_id and b.partner_id = adjustment.partner_id and b.currency = adjustment.currency for no key update;
  perform change_balance(import.program_id, adjustment.partner_id, adjustment.currency, adjustment.amount_cents, 'opening_balance',
    'adjustment:' || adjustment.id, jsonb_build_object('adjustment_id', adjustment.id, 'currency', adjustment.currency),
    of_adjustment_id => adjustment.id);
  return applied;
end $$;

create or replace function apply_commission_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
begin
  if applied.outcome = 'update' then
    update imported_commissions c set amount_cents = (applied.fields->>'amount_cents')::bigint,
      status = coalesce(applied.fields->>'status', 'pending')
    where c.program_id = import.program_id and c.id = applied.target_id
    returning changed_columns(
      jsonb_build_object('amount_cents', old.amount_cents, 'status', old.status),
      jsonb_build_object('amount_cents', new.amount_cents, 'status', new.status)
    ) into applied.replaced;
    return applied;
  end if;
  insert into imported_commissions (program_id, partner_id, customer_id, external_id, amount_cents, currency, status, sale_cents, payment_id,
    earned_at)
  values (import.program_id, partner_of_row(applied), (
      select r.target_id from import_rows r
      where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'customer'
        and r.source_id = applied.fields->>'customer' order by r.target_id is null, r.id limit 1
    ), imported_id(import, applied.source_id), (applied.fields->>'amount_cents')::bigint, applied.fields->>'currency',
    coalesce(applied.fields->>'status', 'pending'), (applied.fields->>'sale_cents')::bigint, applied.fields->>'payment_id',
    coalesce((applied.fields->>'earned_at')::timestamptz, now()))
  returning id into applied.target_id;
  return applied;
end $$;

-- Applies a newly planned row. If the database refuses it, the row becomes an error, so that one row never stops an import.
create or replace function apply_row(import imports, applied import_rows) returns import_rows language plpgsql as $$
begin
  applied := plan_row(import, applied);
  if applied.outcome not in ('create', 'update') then
    return applied;
  end if;
  applied := case applied.kind
    when 'group' then apply_group_row(import, applied)
    when 'partner' then apply_partner_row(import, applied)
    when 'customer' then apply_customer_row(import, applied)
    when 'balance' then apply_balance_row(import, applied)
    when 'commission' then apply_commission_row(import, applied)
    else apply_code_row(import, applied)
  end;
  applied.is_applied := true;
  return applied;
exception when integrity_constraint_violation or data_exception then
  return decided(applied, 'error', 'not_accepted');
end $$;

-- Locks the existing customers and balances that these rows change, in the lock order of sales and payout runs.
create or replace function lock_objects_of_rows(changed import_rows[]) returns void language plpgsql as $$
begin
  perform from customers c
  where (c.program_id, c.id) in (select r.program_id, r.target_id from unnest(changed) r where r.kind = 'customer')
  order by c.id for update;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select r.program_id, partner_of_row(r), r.fields->>'currency' from unnest(changed) r where r.kind = 'balance'
  )
  order by b.program_id, b.partner_id, b.currency for no key update;
end $$;

-- Applies the next rows of an import, in the order of their kinds. Returns their number. After the last row, the import is applied.
create or replace function apply_import_rows(of_program_id bigint, of_import_id bigint, max_rows integer) returns integer
language plpgsql as $$
declare
  import imports;
  applied import_rows;
  next_rows import_rows[];
  planned import_rows;
  outcomes_before import_outcome[] := '{}';
  outcomes import_outcome[] := '{}';
  applied_now integer := 0;
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'applying' for update;
  if not found then
    return 0;
  end if;
  perform set_config('svc.importing', 'on', true);
  perform analyze_import_tables();
  next_rows := array(
    select r from import_rows r
    where r.program_id = of_program_id and r.import_id = of_import_id and not r.is_applied and r.outcome in ('create', 'update')
    order by r.kind, r.id limit max_rows
  );
  perform lock_objects_of_rows(next_rows);
  foreach planned in array next_rows loop
    applied := apply_row(import, planned);
    update import_rows r set outcome = applied.outcome, reason = applied.reason, target_id = applied.target_id,
      partner_row_id = applied.partner_row_id, partner_id = applied.partner_id, replaced = applied.replaced, is_applied = applied.is_applied
    where r.program_id = of_program_id and r.import_id = of_import_id and r.id = applied.id;
    outcomes_before := outcomes_before || planned.outcome;
    outcomes := outcomes || applied.outcome;
    applied_now := applied_now + applied.is_applied::integer;
  end loop;
  perform count_import_rows(of_program_id, of_import_id, outcomes_before, outcomes, 0, applied_now);
  if cardinality(outcomes) = 0 then
    update imports i set state = 'applied', applied_at = now() where i.program_id = of_program_id and i.id = of_import_id;
  end if;
  return cardinality(outcomes);
end $$;
