-- Exports of a program, and imports of such archives. lib/moving/archive-kinds.ts has the kinds of rows and their columns. The statements
-- that copy them are in lib/moving/exports.ts and lib/moving/import-archive.ts.

-- Starts an export and deletes the copies of earlier ones. Refuses a deleted program, and the seventh export in an hour.
create or replace function begin_export(of_program_id bigint, out export_id bigint) language plpgsql as $$
begin
  perform from programs p where p.id = of_program_id and p.deleted_at is null for key share;
  if not found then
    raise exception 'a deleted program' using errcode = 'foreign_key_violation', constraint = 'exports_program_exists';
  end if;
  perform lock_exports(array[of_program_id]);
  if (select count(*) from exports e where e.program_id = of_program_id and e.created_at > now() - interval '1 hour') >= 6 then
    raise exception 'too many exports' using errcode = 'program_limit_exceeded', constraint = 'exports_per_hour';
  end if;
  delete from export_rows r where r.program_id = of_program_id;
  insert into exports (program_id) values (of_program_id) returning id into export_id;
  perform write_program_audit(of_program_id, 'program.exported', export_id::text, null);
end $$;

-- Refuses an archive. lib/moving/import-archive.ts has the sentence for each reason.
create or replace function refuse_archive(reason text, details text) returns void language plpgsql as $$
begin
  raise exception '%', reason using errcode = 'data_exception', constraint = 'archive_refused', detail = coalesce(details, '');
end $$;

-- The new id of a row that another row of the archive refers to.
create or replace function archived_id(row_of archive_rows, of_kind text, named bigint) returns bigint language plpgsql stable as $$
declare
  found_id bigint;
begin
  if named is null then
    return null;
  end if;
  select a.new_id into found_id from archive_rows a
  where a.program_id = row_of.program_id and a.import_id = row_of.import_id and a.kind = of_kind and a.old_id = named;
  if found_id is null then
    perform refuse_archive('row_missing', format('%s %s', row_of.kind, of_kind));
  end if;
  return found_id;
end $$;

-- The address of the join page: the program's own one, or a new one.
create or replace function archived_slug(row_of archive_rows) returns text language plpgsql as $$
declare
  own text := (select min(s.slug) from join_slugs s where s.program_id = row_of.program_id);
begin
  if own is null then
    own := 'program-' || row_of.program_id || '-' || left(md5(gen_random_uuid()::text), 8);
    insert into join_slugs (slug, program_id) values (own, row_of.program_id);
  end if;
  return own;
end $$;

create or replace function archived_choice(row_of archive_rows, among terms_choice) returns terms_choice language sql stable
return case when among is not null or (among).rules_version is not null then
  ((among).rules_version, archived_id(row_of, 'groups', (among).group_id), (among).commission_bp, (among).commission_months)::terms_choice
end;

create or replace function archived_terms(row_of archive_rows, terms line_terms[]) returns line_terms[] language sql stable
return (
  select array_agg((archived_id(row_of, 'rules', t.rule_id), t.commission_bp, t.commission_months, t.fixed_cents, t.cap_cents, t.weight)::line_terms
    order by t.place)
  from unnest(terms) with ordinality t (rule_id, commission_bp, commission_months, fixed_cents, cap_cents, weight, place)
);

create or replace function archived_resolution(row_of archive_rows, resolution jsonb) returns jsonb language sql stable
return case when jsonb_typeof(resolution->'link_id') = 'number' then
  resolution || jsonb_build_object('link_id', archived_id(row_of, 'links', (resolution->>'link_id')::bigint))
else resolution end;

create or replace function archived_lines(row_of archive_rows, lines jsonb) returns jsonb language sql stable
return (
  select coalesce(jsonb_agg(l.line || jsonb_strip_nulls(jsonb_build_object(
    'commission_id', archived_id(row_of, 'commissions', (l.line->>'commission_id')::bigint),
    'adjustment_id', archived_id(row_of, 'adjustments', (l.line->>'adjustment_id')::bigint))) order by l.place), '[]')
  from jsonb_array_elements(lines) with ordinality l (line, place)
);

-- Returns whether an archive can fill the program, because the program contains only test events. They stay.
create or replace function is_unused(of_program_id bigint) returns boolean language sql stable
return not exists (
  select from partners r where r.program_id = of_program_id
  union all select from partner_groups g where g.program_id = of_program_id
  union all select from commission_rules c where c.program_id = of_program_id
  union all select from referral_links l where l.program_id = of_program_id
  union all select from sales s where s.program_id = of_program_id and not s.is_test
  union all select from program_terms t where t.program_id = of_program_id
);

-- Stores a part of an archive, and deletes the parts of the program's other imports. `outcome` is `stored`, or `complete` for the last
-- missing part, or null if the import is not waiting for this part. It is `full` if the waiting parts of the workspace would have more than
-- `most_bytes`. `storeArchivePart` in lib/moving/imports.ts is its only caller.
create or replace function store_waiting_part(
  of_program_id bigint, of_import_id bigint, of_part integer, content_base64 text, most_bytes bigint, out outcome text
) language plpgsql as $$
declare
  of_workspace_id text := (select p.workspace_id from programs p where p.id = of_program_id);
begin
  perform pg_advisory_xact_lock(hashtextextended('archives of ' || of_workspace_id, 0));
  perform from imports i
  where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and of_part between 1 and i.part_count for update;
  if not found then
    return;
  end if;
  delete from archive_parts a where a.program_id = of_program_id and a.import_id <> of_import_id;
  if most_bytes < length(content_base64) / 4 * 3 + (
    select coalesce(sum(octet_length(a.content)), 0) from archive_parts a join programs p on p.id = a.program_id
    where p.workspace_id = of_workspace_id and (a.program_id, a.import_id, a.part) <> (of_program_id, of_import_id, of_part)
  ) then
    outcome := 'full';
    return;
  end if;
  insert into archive_parts (program_id, import_id, part, content) values (of_program_id, of_import_id, of_part, decode(content_base64, 'base64'))
  on conflict (program_id, import_id, part) do update set content = excluded.content;
  update imports i set part_count = null
  where i.program_id = of_program_id and i.id = of_import_id
    and i.part_count = (select count(*) from archive_parts a where a.program_id = of_program_id and a.import_id = of_import_id);
  outcome := case when found then 'complete' else 'stored' end;
end $$;

-- Begins to read an archive of this size. Returns the reason why its rows cannot be stored: the program is in use (`program_used`), or the
-- archives of the workspace have too many bytes, today or waiting (`too_many_bytes`). Calls of the same workspace run one at a time.
create or replace function begin_reading_archive(
  of_program_id bigint, of_import_id bigint, bytes bigint, most_bytes bigint, out why_not text
) language plpgsql as $$
declare
  of_workspace_id text := (select p.workspace_id from programs p where p.id = of_program_id);
begin
  perform pg_advisory_xact_lock(hashtextextended('archives of ' || of_workspace_id, 0));
  why_not := case when not is_unused(of_program_id) then 'program_used' else (
    select 'too_many_bytes' from imports i join programs p on p.id = i.program_id
    where p.workspace_id = of_workspace_id and (i.created_at > now() - interval '1 day' or i.state in ('reading', 'planned'))
    having sum(i.archive_bytes) + bytes > most_bytes
  ) end;
  if why_not is null then
    update imports i set archive_bytes = bytes where i.program_id = of_program_id and i.id = of_import_id;
  end if;
end $$;

-- Ends the reading of an archive. After that, the import is planned, or has failed with this problem. `if_used` is the problem if the
-- program has been used in the meantime.
create or replace function finish_reading_archive(of_program_id bigint, of_import_id bigint, why_not text, if_used text, remark text)
returns void language plpgsql as $$
begin
  why_not := coalesce(why_not, case when not is_unused(of_program_id) then if_used end);
  update imports i set problem = coalesce(why_not, remark), planned_at = case when why_not is null then now() end,
    state = case when why_not is null then 'planned' else 'failed' end
  where i.program_id = of_program_id and i.id = of_import_id and i.state in ('reading', 'planned', 'applying');
  delete from archive_parts a where a.program_id = of_program_id and a.import_id = of_import_id;
  if why_not is not null then
    delete from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id;
    return;
  end if;
  update imports i set row_count = k.rows, create_count = k.rows
  from (select count(*) as rows from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id) k
  where i.program_id = of_program_id and i.id = of_import_id;
  -- Without statistics, every row that refers to another row would cause a scan of the whole table.
  execute 'analyze (skip_locked) archive_rows';
end $$;

-- Starts the transaction that applies an archive, as for a restored backup: it reports nothing to partners, endpoints and the audit log.
create or replace function begin_archive(of_program_id bigint, of_import_id bigint) returns void language plpgsql as $$
begin
  perform from programs p where p.id = of_program_id for no key update;
  perform from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'applying' and i.source = 'archive' for update;
  if not found then
    raise exception 'the archive is not being applied' using errcode = 'program_limit_exceeded', constraint = 'archive_applied';
  elsif not is_unused(of_program_id) then
    perform refuse_archive('program_used', null);
  end if;
  perform set_config('svc.restoring', 'on', true);
  delete from minimum_payouts m where m.program_id = of_program_id;
  delete from program_billing b where b.program_id = of_program_id;
  delete from tax_form_limits l where l.program_id = of_program_id;
end $$;

-- Creates the events and figures that follow from the rows of an archive.
create or replace function derive_from_archive(of_program_id bigint, of_import_id bigint) returns void language plpgsql as $$
begin
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, provisional)
  select c.program_id, l.at, l.id, c.id, case when not l.provisional then c.customer_key end, l.provisional from customers c
  cross join lateral (values (c.signup_date, c.lead_event_id, false), (c.provisional_lead_at, c.provisional_lead_event_id, true)) l (at, id, provisional)
  where c.program_id = of_program_id and l.id is not null and (l.provisional or c.imported_at is null or l.at > c.imported_at);
  insert into customer_origins (program_id, customer_id, origin)
  select r.program_id, r.new_id, r.fields->'origin' from archive_rows r
  where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'customers' and jsonb_typeof(r.fields->'origin') = 'object';
  insert into customers_expired as e (program_id, up_to)
  select r.program_id, (r.fields->>'clicks_expired_until')::timestamptz from archive_rows r
  where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'program' and r.fields->>'clicks_expired_until' is not null
  on conflict (program_id) do update set up_to = greatest(e.up_to, excluded.up_to);
  insert into uncounted_clicks (program_id, link_id, clicked_at, event_id, is_bot)
  select e.program_id, e.link_id, e.click_timestamp, e.id, e.device_type is not distinct from 'bot' from affiliate_click_events e
  where e.program_id = of_program_id and not e.is_test and e.link_id is not null;
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, leads, conversions)
  select c.program_id, c.id, coalesce(k.partner_id, c.partner_id), f.code_id, c.last_click_at, f.at, f.leads, f.conversions from customers c
  cross join lateral (values (c.signup_date, 1, 0, null), (c.first_purchase_date, 0, 1, c.code_id)) f (at, leads, conversions, code_id)
  left join partner_codes k on k.program_id = c.program_id and k.id = f.code_id
  where c.program_id = of_program_id and f.at is not null and (c.imported_at is null or f.at > c.imported_at);
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, currency, sales, revenue_cents, commission_cents,
    refunded_cents)
  select of_program_id, m.customer_id, m.partner_id, m.code_id, c.last_click_at, m.at, m.currency, m.sales, m.revenue, m.commission, m.refunded
  from (
    select s.customer_id, s.partner_id, s.code_id, s.sale_date as at, s.currency, 1 as sales, s.amount_cents as revenue, 0 as commission,
      s.refunded_cents as refunded
    from sales s where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
    union all
    select m.customer_id, m.partner_id, m.code_id, m.created_at, m.currency, 0, 0, m.amount_cents - m.reversed_cents, 0
    from commissions m where m.program_id = of_program_id and not m.is_shadow
  ) m
  join customers c on c.program_id = of_program_id and c.id = m.customer_id;
  insert into daily_totals (program_id, day, slot, leads, conversions)
  select f.program_id, utc_day(f.at), 64 * hour_of_day(f.at) + 1, sum(f.leads), sum(f.conversions)
  from uncounted_figures f where f.program_id = of_program_id and f.currency is null group by 1, 2, 3;
  insert into daily_money (program_id, day, currency, slot, sales, revenue_cents, commission_cents, refunded_cents)
  select f.program_id, utc_day(f.at), f.currency, 64 * hour_of_day(f.at) + 1, sum(f.sales), sum(f.revenue_cents), sum(f.commission_cents),
    sum(f.refunded_cents)
  from uncounted_figures f where f.program_id = of_program_id and f.currency is not null group by 1, 2, 3, 4;
end $$;

-- Completes the rows of an archive. The checks of the audit follow in the same transaction.
create or replace function finish_archive(of_program_id bigint, of_import_id bigint) returns void language plpgsql as $$
begin
  perform derive_from_archive(of_program_id, of_import_id);
  if exists (
    select from affiliate_lead_events e where e.program_id = of_program_id and e.lead_timestamp < timestamptz '2020-01-01 00:00+00'
  ) then
    perform refuse_archive('lead_too_old', null);
  end if;
  update programs p set moved_in_at = now() where p.id = of_program_id;
  update imports i set state = 'applied', applied_at = now(), applied_count = i.row_count
  where i.program_id = of_program_id and i.id = of_import_id;
  delete from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id;
end $$;
