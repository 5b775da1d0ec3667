-- Exports of a program, and imports of such archives. lib/moving/archive-kinds.ts has the kinds of rows and their columns. The statements
-- that copy them are in lib/moving/exports.ts and lib/moving/import-archive.ts.

-- Starts an export and deletes the copies of earlier ones. Returns null if the program had six in the last hour.
create or replace function begin_export(of_program_id bigint, out export_id bigint) language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('export', of_program_id));
  if (select count(*) from exports e where e.program_id = of_program_id and e.created_at > now() - interval '1 hour') >= 6 then
    raise exception 'too many exports' using errcode = 'program_limit_exceeded', constraint = 'exports_per_hour';
  end if;
  delete from export_rows r where r.program_id = of_program_id;
  insert into exports (program_id) values (of_program_id) returning id into export_id;
  perform write_program_audit(of_program_id, 'program.exported', export_id::text, null);
end $$;

-- Refuses an archive in words that its owner reads.
create or replace function refuse_archive(why text) returns void language plpgsql as $$
begin
  raise exception '%', why using errcode = 'data_exception', constraint = 'archive_refused';
end $$;

-- The new id of a row that another row of the archive names.
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
    perform refuse_archive(format('%s names a row of %s that the archive does not have.', row_of.kind, of_kind));
  end if;
  return found_id;
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

-- Whether an archive can fill the program: nothing in it counts yet. Its test events stay.
create or replace function is_unused(of_program_id bigint) returns boolean language sql stable
return not exists (
  select from partners r where r.program_id = of_program_id
  union all select from partner_groups g where g.program_id = of_program_id
  union all select from commission_rules c where c.program_id = of_program_id
  union all select from referral_links l where l.program_id = of_program_id
  union all select from sales s where s.program_id = of_program_id and not s.is_test
);

-- Ends the reading of an archive. The import is then planned, or failed with this problem.
create or replace function finish_reading_archive(of_program_id bigint, of_import_id bigint, why_not text, remark text) returns void
language plpgsql as $$
begin
  why_not := coalesce(why_not, case when not is_unused(of_program_id) then
    'This program already has partners, rules or sales. An archive fills a new program only. Create a program and import it there.' end);
  update imports i set problem = coalesce(why_not, remark), planned_at = case when why_not is null then now() end,
    state = case when why_not is null then 'planned' else 'failed' end
  where i.program_id = of_program_id and i.id = of_import_id and i.state in ('reading', 'planned', 'applying');
  if why_not is not null then
    delete from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id;
    return;
  end if;
  update imports i set row_count = k.rows, create_count = k.rows
  from (select count(*) as rows from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id) k
  where i.program_id = of_program_id and i.id = of_import_id;
  -- Without statistics, each row that names another one would read the whole table.
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
    perform refuse_archive('This program already has partners, rules or sales. Create a program and import the archive there.');
  end if;
  perform set_config('svc.restoring', 'on', true);
  delete from minimum_payouts m where m.program_id = of_program_id;
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
    from commissions m where m.program_id = of_program_id
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

-- Returns a row of the program whose money does not add up, or null. The constraints of the tables hold the rules of single rows, and the
-- audit (lib/commands/audit) checks everything.
create or replace function contradiction_in_money(of_program_id bigint) returns text language sql stable
return (
  select c.what from (
    select 'the refunds of sale ' || s.transaction_id as what from sales s
    left join (
      select r.sale_id, sum(r.applied_cents) from refunds r where r.program_id = of_program_id and r.returned_at is null group by r.sale_id
    ) r on r.sale_id = s.id
    where s.program_id = of_program_id and s.refunded_cents <> coalesce(r.sum, 0)
    union all
    select 'commission of sale ' || s.transaction_id from commissions m join sales s on s.program_id = m.program_id and s.id = m.sale_id
    where m.program_id = of_program_id and (
      (m.partner_id, m.customer_id, m.currency::text) is distinct from (s.partner_id, s.customer_id, s.currency::text)
      or m.rejected_at is null and m.amount_cents > 0 and m.reversed_cents <> div(m.amount_cents::numeric * s.refunded_cents, s.amount_cents)
      or m.amount_cents > s.commission_base_cents
        + coalesce((select sum(t.fixed_cents) from unnest(s.terms_by_line) t), s.commission_fixed_cents, 0))
    union all
    select 'a commission and its entries in the balance' from commissions m
    left join (
      select e.commission_id, sum(e.amount_cents) from balance_entries e where e.program_id = of_program_id group by e.commission_id
    ) e on e.commission_id = m.id
    where m.program_id = of_program_id and case when m.credited_at is null then e.sum is not null
      else e.sum is distinct from m.amount_cents - m.reversed_cents end
    union all
    select 'an adjustment and its entry in the balance' from adjustments a
    left join (
      select e.adjustment_id, sum(e.amount_cents), count(*) from balance_entries e where e.program_id = of_program_id group by e.adjustment_id
    ) e on e.adjustment_id = a.id
    where a.program_id = of_program_id and (e.sum, e.count) is distinct from (a.amount_cents, 1)
    union all
    select 'a payout, its lines and its entry in the balance' from payouts w
    left join (
      select e.payout_id, sum(e.amount_cents) from balance_entries e where e.program_id = of_program_id group by e.payout_id
    ) e on e.payout_id = w.id
    left join (
      select l.payout_id, sum(l.amount_cents) from payout_lines l where l.program_id = of_program_id and not l.is_returned group by l.payout_id
    ) l on l.payout_id = w.id
    where w.program_id = of_program_id and (coalesce(-e.sum, 0), coalesce(l.sum, 0)) is distinct from
      (case w.status when 'paid' then w.amount_cents else 0 end, case w.status when 'paid' then w.amount_cents else 0 end)
    union all
    select 'the payout lines of an entry' from balance_entries e
    join (
      select l.partner_id, l.currency, l.entry_number, sum(l.amount_cents), min(l.amount_cents), max(l.amount_cents) from payout_lines l
      where l.program_id = of_program_id and not l.is_returned group by 1, 2, 3
    ) l using (partner_id, currency, entry_number)
    where e.program_id = of_program_id and (e.payout_id is not null or abs(l.sum) > abs(e.amount_cents) or l.min < 0 and e.amount_cents > 0
      or l.max > 0 and e.amount_cents < 0)
    union all
    select 'a balance and its entries' from balances b
    left join (
      select e.partner_id, e.currency, count(*) from balance_entries e where e.program_id = of_program_id group by 1, 2
    ) e using (partner_id, currency)
    where b.program_id = of_program_id and b.entry_count <> coalesce(e.count, 0)
    union all
    select 'open payouts and their balance' from payable_balances p where p.program_id = of_program_id and p.payable_cents < 0 and p.open_cents > 0
      and exists (
        select from payouts w where w.program_id = p.program_id and w.partner_id = p.partner_id and w.currency = p.currency
          and w.status in ('requested', 'in_run'))
    union all
    select 'a payout run and its payouts' from payout_runs r
    where r.program_id = of_program_id
      and r.payments <> (select count(*) from payouts w where w.program_id = r.program_id and w.payout_run_id = r.id)
  ) c limit 1
);

-- Ends the transaction that applies an archive, and refuses the whole archive if its rows contradict each other.
create or replace function finish_archive(of_program_id bigint, of_import_id bigint) returns void language plpgsql as $$
declare
  contradiction text;
begin
  if exists (
    select from customers c where c.program_id = of_program_id and c.imported_at is null
      and least(c.signup_date, c.provisional_lead_at) < timestamptz '2020-01-01 00:00+00'
  ) then
    perform refuse_archive('A lead is older than 2020, when no such service existed.');
  elsif exists (
    select from customers c
    left join referral_links l on l.program_id = c.program_id and l.id = c.link_id
    left join partner_codes k on k.program_id = c.program_id and k.id = c.code_id
    where c.program_id = of_program_id and c.partner_id is distinct from coalesce(l.partner_id, k.partner_id, c.partner_id)
  ) then
    perform refuse_archive('A customer has another partner than their link or code.');
  end if;
  contradiction := contradiction_in_money(of_program_id);
  if contradiction is not null then
    perform refuse_archive(format('The amounts do not add up: %s.', contradiction));
  end if;
  perform derive_from_archive(of_program_id, of_import_id);
  update programs p set moved_in_at = now() where p.id = of_program_id;
  update imports i set state = 'applied', applied_at = now(), applied_count = i.row_count
  where i.program_id = of_program_id and i.id = of_import_id;
  delete from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id;
end $$;
