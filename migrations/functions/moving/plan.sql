-- The plan of an import: the effect of each row, with the reason. Planning only changes the rows themselves. Applying a row plans it again
-- first, because the program may have changed since. lib/moving/reasons.ts has the sentences for the reasons.

create or replace function decided(planned import_rows, as_outcome import_outcome, because text, found_id bigint default null)
returns import_rows language plpgsql immutable as $$
begin
  planned.outcome := as_outcome;
  planned.reason := because;
  planned.target_id := found_id;
  return planned;
end $$;

-- The id under which the program stores a record of a source.
create or replace function imported_id(import imports, of_source_id text) returns text language sql immutable
return (import).source || ':' || of_source_id;

-- Finds the partner of a row by their id in the source, their e-mail address or the code of a link. Rows of the import come before partners
-- of the program.
create or replace function with_partner_of_row(import imports, planned import_rows) returns import_rows language plpgsql stable as $$
declare
  named constant text := planned.fields->>'partner';
begin
  select coalesce(r.partner_row_id, r.id), r.partner_id into planned.partner_row_id, planned.partner_id from (
    select r.id, r.partner_row_id, r.partner_id, 1 as place from import_rows r
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'partner' and r.source_id = named and r.outcome <> 'error'
    union all
    select r.id, r.partner_row_id, r.partner_id, 2 from import_rows r
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'partner' and r.fields->>'email' = lower(named)
      and r.outcome <> 'error'
    union all
    select r.partner_row_id, null, r.partner_id, 3 from import_rows r
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'link' and lower(r.fields->>'code') = lower(named)
      and r.outcome <> 'error'
  ) r order by r.place, r.id limit 1;
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    select r.id into planned.partner_id from (
      select p.id, 1 as place from partners p where p.program_id = import.program_id and p.external_id = imported_id(import, named)
      union all
      select p.id, 2 from partners p where p.program_id = import.program_id and lower(p.email) = lower(named)
      union all
      select l.partner_id, 3 from referral_links l where l.program_id = import.program_id and lower(l.code) = lower(named)
    ) r order by r.place limit 1;
  end if;
  return planned;
end $$;

-- The partner of a row in the program, or null if the import has not created them yet.
create or replace function partner_of_row(planned import_rows) returns bigint language sql stable
return coalesce((planned).partner_id, (
  select r.target_id from import_rows r
  where r.program_id = (planned).program_id and r.import_id = (planned).import_id and r.id = (planned).partner_row_id
));

create or replace function plan_group_row(import imports, planned import_rows) returns import_rows language plpgsql stable as $$
declare
  known partner_groups;
begin
  select g.* into known from partner_groups g
  where g.program_id = import.program_id and (g.external_id = imported_id(import, planned.source_id)
    or lower(g.name) = lower(planned.fields->>'name') and g.removed_at is null)
  order by g.external_id = imported_id(import, planned.source_id) desc nulls last limit 1;
  if known.id is null then
    return decided(planned, 'create', coalesce(planned.fields->>'note', 'new'));
  end if;
  return decided(planned, 'skip', case when known.external_id = imported_id(import, planned.source_id) then 'already_imported'
    else 'same_name' end, known.id);
end $$;

create or replace function plan_partner_row(import imports, planned import_rows) returns import_rows language plpgsql stable as $$
declare
  of_email constant text := planned.fields->>'email';
  known partners;
begin
  select p.* into known from partners p
  where p.program_id = import.program_id and p.external_id = imported_id(import, planned.source_id);
  if found then
    return decided(planned, 'skip', 'already_imported', known.id);
  end if;
  select r.id into planned.partner_row_id from import_rows r
  where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'partner' and r.fields->>'email' = of_email
    and r.id < planned.id and r.outcome <> 'error' order by r.id limit 1;
  if found then
    return decided(planned, 'skip', 'same_email_as_another_row');
  end if;
  select p.* into known from partners p where p.program_id = import.program_id and lower(p.email) = of_email;
  if known.id is null then
    return decided(planned, 'create', coalesce(planned.fields->>'note', 'new'));
  end if;
  return decided(planned, case when known.external_id is null then 'update'::import_outcome else 'skip' end, 'same_email', known.id);
end $$;

-- Plans a link or a code, which can be free, or belong to the same partner or to another one.
create or replace function plan_code_row(import imports, planned import_rows) returns import_rows language plpgsql stable as $$
declare
  of_code constant text := planned.fields->>'code';
  known record;
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  end if;
  if planned.kind = 'link' then
    select l.id, l.partner_id into known from referral_links l
    where l.program_id = import.program_id and lower(l.code) = lower(of_code);
  else
    select k.id, k.partner_id into known from partner_codes k
    where k.program_id = import.program_id and lower(normalize(k.code)) = lower(normalize(of_code));
  end if;
  if found then
    return case when known.partner_id = partner_of_row(planned) then decided(planned, 'skip', 'already_there', known.id)
      else decided(planned, 'error', 'code_taken', known.id) end;
  end if;
  select r.partner_row_id, r.partner_id into known from import_rows r
  where r.program_id = import.program_id and r.import_id = import.id and r.kind = planned.kind and lower(r.fields->>'code') = lower(of_code)
    and r.id < planned.id and r.outcome not in ('skip', 'error') order by r.id limit 1;
  if found then
    return case when (known.partner_row_id, known.partner_id) is not distinct from (planned.partner_row_id, planned.partner_id)
      then decided(planned, 'skip', 'repeated') else decided(planned, 'error', 'code_taken') end;
  end if;
  return decided(planned, 'create', 'new');
end $$;

-- Finds a customer by any of the names in a row: the processor's, the integrator's, or the e-mail address.
create or replace function find_imported_customer(of_program_id bigint, fields jsonb) returns customers language plpgsql stable as $$
declare
  known customers;
begin
  select c.* into known from customers c where c.program_id = of_program_id and c.id = coalesce((
      select p.customer_id from processor_customers p
      where p.program_id = of_program_id and p.processor_customer_id = fields->>'processor_customer_id'
    ), (
      select k.id from customers k where k.program_id = of_program_id and k.customer_key = fields->>'customer_key'
    ), (
      select min(k.id) from customers k
      where k.program_id = of_program_id and k.email_hash = decode(fields->>'email_hash', 'hex') and k.signup_date is not null
        and not fields ?| array['processor_customer_id', 'customer_key']
    ));
  return known;
end $$;

create or replace function plan_customer_row(import imports, planned import_rows) returns import_rows language plpgsql stable as $$
declare
  known customers;
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  end if;
  known := find_imported_customer(import.program_id, planned.fields);
  if known.id is null then
    return decided(planned, 'create', case when planned.fields ? 'first_purchase_date' then 'new' else 'no_first_purchase_date' end);
  elsif known.partner_id is distinct from partner_of_row(planned) then
    return decided(planned, 'skip', 'other_partner', known.id);
  elsif (not planned.fields ? 'customer_key' or known.customer_key is not null)
    and (not planned.fields ? 'email_hash' or known.email_hash is not null)
    and (not planned.fields ? 'processor_customer_id' or exists (
      select from processor_customers p
      where p.program_id = import.program_id and p.processor_customer_id = planned.fields->>'processor_customer_id')) then
    return decided(planned, 'skip', case when known.imported_at is null then 'already_there' else 'already_imported' end, known.id);
  end if;
  return decided(planned, 'update', 'adds_names', known.id);
end $$;

-- Plans an opening balance. A partner has one opening balance per currency and source. Further amounts of the same import are added to the
-- first row.
create or replace function plan_balance_row(import imports, planned import_rows) returns import_rows language plpgsql as $$
declare
  is_first_plan constant boolean := planned.outcome is null;
  of_currency constant text := planned.fields->>'currency';
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  elsif in_shadow_mode(import.program_id) then
    return decided(planned, 'skip', 'shadow_mode');
  elsif exists (
    select from adjustments a
    where a.program_id = import.program_id and a.partner_id = partner_of_row(planned) and a.currency = of_currency
      and split_part(a.external_id, ':', 2) = 'balance'
  ) then
    -- This also includes other sources, because a second import of the same program must not double its debts.
    return decided(planned, 'skip', 'has_opening_balance');
  end if;
  if is_first_plan then
    update import_rows r set fields = r.fields
      || jsonb_build_object('amount_cents', (r.fields->>'amount_cents')::bigint + (planned.fields->>'amount_cents')::bigint)
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'balance' and r.outcome not in ('skip', 'error')
      and coalesce(r.partner_row_id, -r.partner_id) = coalesce(planned.partner_row_id, -planned.partner_id)
      and r.fields->>'currency' = of_currency;
    if found then
      return decided(planned, 'skip', 'added_to_another_row');
    end if;
  end if;
  return case when planned.fields->>'amount_cents' = '0' and not is_first_plan then decided(planned, 'skip', 'nothing_owed')
    else decided(planned, 'create', 'new') end;
end $$;

create or replace function plan_commission_row(import imports, planned import_rows) returns import_rows language plpgsql stable as $$
declare
  known imported_commissions;
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  end if;
  select c.* into known from imported_commissions c
  where c.program_id = import.program_id and c.external_id = imported_id(import, planned.source_id);
  return case
    when not found then decided(planned, 'create', 'history_only')
    when (known.amount_cents::text, known.status) is distinct from (planned.fields->>'amount_cents', coalesce(planned.fields->>'status', 'pending'))
      then decided(planned, 'update', 'history_changed', known.id)
    else decided(planned, 'skip', 'already_imported', known.id)
  end;
end $$;

-- Returns whether two rows with the same id would import the same object. Other fields can differ, because some tables have fewer columns.
create or replace function is_same_record(kind import_kind, one jsonb, other jsonb) returns boolean language sql immutable
return not exists (
  select from unnest(case kind
    when 'partner' then array['email']
    when 'customer' then array['partner', 'processor_customer_id', 'customer_key']
    when 'balance' then array['amount_cents']
    when 'commission' then array['partner', 'amount_cents', 'currency']
  end) field where lower(one->>field) <> lower(other->>field)
);

create or replace function plan_row(import imports, planned import_rows) returns import_rows language plpgsql as $$
declare
  earlier jsonb;
begin
  if planned.kind not in ('link', 'code') then
    select r.fields into earlier from import_rows r where r.program_id = import.program_id and r.import_id = import.id
      and r.kind = planned.kind and r.source_id = planned.source_id and r.id < planned.id and r.outcome <> 'error' order by r.id limit 1;
  end if;
  if earlier is not null and is_same_record(planned.kind, earlier, planned.fields) then
    return decided(planned, 'skip', 'repeated');
  elsif earlier is not null then
    return decided(planned, 'error', 'same_id');
  end if;
  return case planned.kind
    when 'group' then plan_group_row(import, planned)
    when 'partner' then plan_partner_row(import, planned)
    when 'customer' then plan_customer_row(import, planned)
    when 'balance' then plan_balance_row(import, planned)
    when 'commission' then plan_commission_row(import, planned)
    else plan_code_row(import, planned)
  end;
end $$;

-- Updates an import's counts with the outcomes of some rows before and after a step. Each array has one element per row. A null outcome
-- isn't counted.
create or replace function count_import_rows(
  of_program_id bigint, of_import_id bigint, outcomes_before import_outcome[], outcomes import_outcome[], new_rows integer, newly_applied integer
) returns void language plpgsql as $$
begin
  update imports i set row_count = i.row_count + new_rows, applied_count = i.applied_count + newly_applied,
    create_count = i.create_count + rows_with('create', outcomes) - rows_with('create', outcomes_before),
    update_count = i.update_count + rows_with('update', outcomes) - rows_with('update', outcomes_before),
    skip_count = i.skip_count + rows_with('skip', outcomes) - rows_with('skip', outcomes_before),
    error_count = i.error_count + rows_with('error', outcomes) - rows_with('error', outcomes_before)
  where i.program_id = of_program_id and i.id = of_import_id;
end $$;

create or replace function rows_with(outcome import_outcome, outcomes import_outcome[]) returns integer language sql immutable
return cardinality(array_positions(outcomes, outcome));

-- Stores rows while the import reads them. Rows that are already stored don't change.
create or replace function store_import_rows(of_program_id bigint, of_import_id bigint, rows jsonb) returns void language plpgsql as $$
declare
  stored import_outcome[];
begin
  with kept as (
    insert into import_rows (program_id, import_id, id, kind, source_id, origin, fields, outcome, reason)
    select i.program_id, i.id, r.id, r.kind, r.source_id, r.origin, r.fields, case when r.problem is not null then 'error'::import_outcome end,
      r.problem
    from imports i
    cross join jsonb_to_recordset(rows) r (id bigint, kind import_kind, source_id text, origin text, fields jsonb, problem text)
    where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading'
    on conflict do nothing returning outcome
  )
  select array_agg(k.outcome) into stored from kept k;
  perform count_import_rows(of_program_id, of_import_id, '{}', coalesce(stored, '{}'), coalesce(cardinality(stored), 0), 0);
end $$;

-- Stores a page of a service with the next position, unless another call has stored it. Returns true if the list continues but the import
-- already has all rows of the page. In that case, the list would never end, or the service skipped a page.
create or replace function store_import_page(
  of_program_id bigint, of_import_id bigint, rows jsonb, was jsonb, reached jsonb, out is_repeated boolean
) language plpgsql as $$
begin
  update imports i set position = reached, problem = null
  where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and i.position = was;
  is_repeated := found and reached ? 'cursor' and rows <> '[]' and not exists (
    select from jsonb_to_recordset(rows) n(kind import_kind, source_id text)
    where not exists (
      select from import_rows r
      where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = n.kind and r.source_id = n.source_id
    )
  );
  if found and not is_repeated then
    perform store_import_rows(of_program_id, of_import_id, rows);
  end if;
end $$;

-- Ends the reading of an import. If `derives_balances` and no row contains a balance, the source's unpaid commissions become the balances.
create or replace function finish_reading(of_program_id bigint, of_import_id bigint, derives_balances boolean, of_note text) returns void
language plpgsql as $$
declare
  derived integer;
begin
  update imports i set position = '{"is_read": true}', sealed_key = null, problem = null
  where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and i.position is distinct from '{"is_read": true}';
  if not found or not derives_balances or exists (
    select from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'balance'
  ) then
    return;
  end if;
  insert into import_rows (program_id, import_id, id, kind, source_id, origin, fields)
  select of_program_id, of_import_id, u.last_id + row_number() over (order by u.partner, u.currency), 'balance',
    left(u.partner || ':' || u.currency, 200), 'unpaid commissions',
    jsonb_build_object('partner', u.partner, 'currency', u.currency, 'amount_cents', u.cents, 'note', of_note)
  from (
    select c.partner, c.currency, sum(c.cents) as cents, (
        select max(r.id) from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id
      ) as last_id
    from (
      select distinct on (r.source_id) r.fields->>'partner' as partner, r.fields->>'currency' as currency,
        (r.fields->>'amount_cents')::bigint as cents
      from import_rows r
      where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'commission' and r.outcome is null
        and r.fields->>'status' in ('pending', 'approved')
      order by r.source_id, r.id
    ) c group by c.partner, c.currency having sum(c.cents) <> 0
  ) u;
  get diagnostics derived = row_count;
  perform count_import_rows(of_program_id, of_import_id, '{}', '{}', derived, 0);
end $$;

-- Updates Postgres' statistics of the tables that an import fills. Without them, all indexes of an almost empty table look equally good. A
-- session then keeps plans that read all rows of the program for each row of the import: 2,000 customers took 21 s.
create or replace function analyze_import_tables() returns void language plpgsql as $$
declare
  grown regclass;
begin
  for grown in
    select c.oid from pg_class c where c.reltuples < 2000 and c.oid in ('import_rows'::regclass, 'partners'::regclass,
      'referral_links'::regclass, 'partner_codes'::regclass, 'customers'::regclass, 'processor_customers'::regclass, 'adjustments'::regclass,
      'balances'::regclass, 'balance_entries'::regclass, 'imported_commissions'::regclass)
  loop
    execute format('analyze (skip_locked) %s', grown);
  end loop;
end $$;

-- Returns whether this transaction may plan rows: of one import at a time in each workspace, and of two in the whole service. The plan of a
-- large import keeps a core busy for minutes, and any program can start one.
create or replace function may_plan(of_program_id bigint) returns boolean language plpgsql as $$
begin
  return pg_try_advisory_xact_lock(hashtextextended('plans of ' || (select p.workspace_id from programs p where p.id = of_program_id), 0))
    and (pg_try_advisory_xact_lock(hashtextextended('plans', 1)) or pg_try_advisory_xact_lock(hashtextextended('plans', 2)));
end $$;

-- Plans the next rows of a fully read import, in the order of their kinds. Returns their number, or null if the import has to wait for
-- others. After the last row, the import is planned.
create or replace function plan_import_rows(of_program_id bigint, of_import_id bigint, max_rows integer) returns integer
language plpgsql as $$
declare
  import imports;
  planned import_rows;
  outcomes import_outcome[] := '{}';
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and i.position = '{"is_read": true}' for update;
  if not found then
    return 0;
  elsif not may_plan(of_program_id) then
    return null;
  end if;
  perform analyze_import_tables();
  for planned in
    select r.* from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id and r.outcome is null
    order by r.kind, r.id limit max_rows
  loop
    planned := plan_row(import, planned);
    update import_rows r set outcome = planned.outcome, reason = planned.reason, target_id = planned.target_id,
      partner_row_id = planned.partner_row_id, partner_id = planned.partner_id
    where r.program_id = of_program_id and r.import_id = of_import_id and r.id = planned.id;
    outcomes := outcomes || planned.outcome;
  end loop;
  perform count_import_rows(of_program_id, of_import_id, '{}', outcomes, 0, 0);
  if cardinality(outcomes) = 0 then
    update imports i set state = 'planned', planned_at = now(), sealed_key = null, position = null
    where i.program_id = of_program_id and i.id = of_import_id;
  end if;
  return cardinality(outcomes);
end $$;
