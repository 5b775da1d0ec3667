-- Rewrites past months of clicks into shorter rows, for `rewriteClicks` in lib/tracking/retention.ts. A click itself never reads or writes
-- `click_parts`. The rows of a month are copied in batches. Then the copy replaces the month's partition.

create or replace function null_if_empty(part jsonb) returns jsonb language sql immutable return nullif(jsonb_strip_nulls(part), '{}');

-- The texts of a click that other clicks share.
create or replace function parts_of_click(
  e affiliate_click_events, out landing jsonb, out page jsonb, out browser jsonb, out place jsonb, out referrer jsonb
) language sql immutable as $$
  select null_if_empty(jsonb_build_object('affiliate_url', e.affiliate_url, 'campaign', e.campaign)),
    null_if_empty(jsonb_build_object('page_url', e.page_url, 'page_title', e.page_title)),
    null_if_empty(jsonb_build_object('user_agent', e.user_agent, 'screen_resolution', e.screen_resolution,
      'language', e.language, 'device_os', e.device_os, 'browser_name', e.browser_name)),
    null_if_empty(jsonb_build_object('timezone', e.timezone, 'geo_region', e.geo_region, 'geo_city', e.geo_city)),
    null_if_empty(jsonb_build_object('referrer_url', e.referrer_url))
$$;

-- Copies a change to a month that is being rewritten. Every row up to the last copied one has a copy. The copied row keeps its texts.
create or replace function copy_click_change() returns trigger language plpgsql as $$
declare
  copy constant text := format('rewriting.%I', tg_table_name);
  progress rewritten_months;
begin
  if tg_op <> 'INSERT' then
    execute format('delete from %s where program_id = $1 and is_test = $2 and click_timestamp = $3 and id = $4', copy)
    using old.program_id, old.is_test, old.click_timestamp, old.id;
  end if;
  if tg_op <> 'DELETE' then
    select m.* into progress from rewritten_months m where m.month = to_date(right(tg_table_name, 7), 'YYYY_MM');
    if (new.program_id, new.is_test, new.click_timestamp, new.id)
      <= (progress.program_id, progress.is_test, progress.click_timestamp, progress.id) then
      execute format('insert into %s select ($1).*', copy) using new;
    end if;
  end if;
  return null;
end $$;

-- The oldest month of clicks to rewrite: it ended three days ago, so that no retry of a click is late, and all its clicks are counted.
create or replace function month_to_rewrite() returns date language sql stable
return (
  select min(m.month) from (
    select to_date(right(c.relname, 7), 'YYYY_MM') as month from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'affiliate_click_events'::regclass and c.relname <> 'affiliate_click_events_default'
  ) m
  where day_start((m.month + interval '1 month')::date) < now() - interval '3 days'
    and not exists (select from rewritten_months r where r.month = m.month and r.rewritten_at is not null)
    and not exists (select from uncounted_clicks u where u.clicked_at < day_start((m.month + interval '1 month')::date))
);

-- Creates the empty copy of a month's partition, unless the copy exists. A restored database can have the progress without the copy.
create or replace function start_rewriting(of_month date, partition text) returns void language plpgsql as $$
begin
  if to_regclass(format('rewriting.%I', partition)) is null then
    execute format('create table rewriting.%1$I (like %1$I including defaults including constraints including indexes)', partition);
    -- With this, Postgres attaches the copy without reading it.
    execute format('alter table rewriting.%I add constraint within check (click_timestamp >= %L and click_timestamp < %L)', partition,
      day_start(of_month), day_start((of_month + interval '1 month')::date));
    execute format('create or replace trigger copy_click_change after insert or update or delete on %I
      for each row execute function copy_click_change()', partition);
    delete from rewritten_months m where m.month = of_month;
    insert into rewritten_months (month) values (of_month);
  end if;
end $$;

create or replace function has_uncopied_clicks(of_month date, partition text) returns boolean language plpgsql stable as $$
declare
  found_rows boolean;
begin
  execute format('select exists (select from rewritten_months m join %I e
    on (e.program_id, e.is_test, e.click_timestamp, e.id) > (m.program_id, m.is_test, m.click_timestamp, m.id) where m.month = $1)', partition)
  into found_rows using of_month;
  return found_rows;
end $$;

-- Replaces a month's partition by its complete copy.
create or replace function finish_rewriting(of_month date, partition text) returns void language plpgsql as $$
begin
  execute format('alter table affiliate_click_events detach partition %I', partition);
  execute format('drop table %I', partition);
  execute format('alter table rewriting.%I set schema %I', partition, current_schema());
  execute format('alter table affiliate_click_events attach partition %I for values from (%L) to (%L)', partition, day_start(of_month),
    day_start((of_month + interval '1 month')::date));
  execute format('alter table %I drop constraint within', partition);
  update rewritten_months m set rewritten_at = now() where m.month = of_month;
end $$;

-- Copies the rows of a month between two keys. Texts that fewer than three visitors share stay in their rows. So an
-- erasure removes a visitor's own texts, and rare texts don't need a part.
create or replace function copy_clicks(of_month date, partition text, after rewritten_months, last rewritten_months) returns void
language plpgsql set enable_seqscan = off as $$
declare
  rows constant text := format('select e.* from %I e where (e.program_id, e.is_test, e.click_timestamp, e.id)
    > ($1.program_id, $1.is_test, $1.click_timestamp, $1.id) and (e.program_id, e.is_test, e.click_timestamp, e.id)
    <= ($2.program_id, $2.is_test, $2.click_timestamp, $2.id)', partition);
begin
  execute format('insert into click_parts (program_id, month, hash, part)
    select e.program_id, $3, md5(t.part::text)::uuid, t.part from (%s) e cross join lateral parts_of_click(e) p
    cross join lateral (values (p.landing), (p.page), (p.browser), (p.place), (p.referrer)) t (part)
    where t.part is not null group by 1, 4 having count(distinct e.customer_id) >= 3 order by 1, 3
    on conflict (program_id, month, hash) do nothing', rows) using after, last, of_month;
  execute format('insert into rewriting.%I (program_id, click_timestamp, id, customer_id, link_id, visitor, created_at, click_random, click_ms, landing_part, page_part,
      browser_part, place_part, referrer_part, is_test, click_id, session_id, affiliate_url, page_url, page_title, referrer_url, user_agent,
      screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type, device_os, browser_name,
      additional_data, campaign)
    select e.program_id, e.click_timestamp, e.id, e.customer_id, e.link_id, e.visitor,
      case when e.created_at between e.click_timestamp and e.click_timestamp + interval ''1 second'' then null else e.created_at end,
      coalesce(e.click_random, c.random), coalesce(e.click_ms, nullif(c.ms, milliseconds(e.click_timestamp))),
      coalesce(e.landing_part, landing.id), coalesce(e.page_part, page.id), coalesce(e.browser_part, browser.id), coalesce(e.place_part, place.id), coalesce(e.referrer_part, referrer.id), e.is_test,
      case when c.random is null then e.click_id end, e.session_id, case when landing.id is null then e.affiliate_url end,
      case when page.id is null then e.page_url end, case when page.id is null then e.page_title end,
      case when referrer.id is null then e.referrer_url end, case when browser.id is null then e.user_agent end,
      case when browser.id is null then e.screen_resolution end, e.viewport_size,
      case when browser.id is null then e.language end, case when place.id is null then e.timezone end, e.geo_country,
      case when place.id is null then e.geo_region end, case when place.id is null then e.geo_city end, e.device_type,
      case when browser.id is null then e.device_os end, case when browser.id is null then e.browser_name end, e.additional_data,
      case when landing.id is null then e.campaign end
    from (%s) e
    cross join lateral split_click_id(e.program_id, e.click_id) c
    -- Computes each hash once, and looks up each part by its key.
    cross join lateral (
      select md5(p.landing::text)::uuid as landing, md5(p.page::text)::uuid as page, md5(p.browser::text)::uuid as browser, md5(p.place::text)::uuid as place,
        md5(p.referrer::text)::uuid as referrer from parts_of_click(e) p offset 0
    ) h
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.landing offset 0) landing on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.page offset 0) page on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.browser offset 0) browser on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.place offset 0) place on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.referrer offset 0) referrer on true
    order by e.program_id, e.is_test, e.click_timestamp, e.id', partition, rows) using after, last, of_month;
end $$;

-- The milliseconds and the random part minus 2^63 of a program's own click id. Null for any other text.
create or replace function split_click_id(of_program_id bigint, click_id text, out ms bigint, out random bigint) language plpgsql immutable as $$
begin
  if click_id ~ '^cust_[1-9]\d{12}_\d{20}[1-9]\d*$' and substr(click_id, 40) = of_program_id::text
    and substr(click_id, 20, 20)::numeric < 18446744073709551616 then
    ms := substr(click_id, 6, 13)::bigint;
    random := substr(click_id, 20, 20)::numeric - 9223372036854775808;
  end if;
end $$;

-- Rewrites up to `max_clicks` clicks of the oldest month that ended three days ago. `more` says whether clicks are waiting. Changes to the
-- month wait until it is done. Waits only a second for locks, because clicks queue behind the last step.
create or replace function rewrite_clicks(max_clicks integer, out rewritten integer, out more boolean) language plpgsql set lock_timeout = '1s' as $$
declare
  of_month date;
  partition text;
  after rewritten_months;
  last rewritten_months;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  of_month := month_to_rewrite();
  more := of_month is not null;
  rewritten := 0;
  if not more then
    return;
  end if;
  partition := 'affiliate_click_events_' || to_char(of_month, 'YYYY_MM');
  perform start_rewriting(of_month, partition);
  if not has_uncopied_clicks(of_month, partition) then
    -- An erasure locks the parent table before the partition, so this function does too.
    lock table affiliate_click_events in access exclusive mode;
    if not has_uncopied_clicks(of_month, partition) then
      perform finish_rewriting(of_month, partition);
      more := month_to_rewrite() is not null;
    end if;
    return;
  end if;
  execute format('lock table %I in share mode', partition);
  select m.* into after from rewritten_months m where m.month = of_month;
  execute format('select n, $1.month, k.program_id, k.is_test, k.click_timestamp, k.id from (
      select e.*, row_number() over (order by e.program_id, e.is_test, e.click_timestamp, e.id) as n from (
        select e.program_id, e.is_test, e.click_timestamp, e.id from %I e
        where (e.program_id, e.is_test, e.click_timestamp, e.id) > ($1.program_id, $1.is_test, $1.click_timestamp, $1.id)
        order by e.program_id, e.is_test, e.click_timestamp, e.id limit $2
      ) e
    ) k order by n desc limit 1', partition)
  into rewritten, last.month, last.program_id, last.is_test, last.click_timestamp, last.id using after, max_clicks;
  rewritten := coalesce(rewritten, 0);
  if rewritten > 0 then
    perform copy_clicks(of_month, partition, after, last);
    update rewritten_months m set program_id = last.program_id, is_test = last.is_test, click_timestamp = last.click_timestamp, id = last.id
    where m.month = of_month;
  end if;
end $$;
