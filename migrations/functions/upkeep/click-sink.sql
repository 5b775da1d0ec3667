-- Sends clicks and their totals to ClickHouse, for lib/tracking/click-sink.ts. A batch contains current rows, and its number is their version.
-- Takes are in order because each updates `click_sink` first. So a higher version is never older, and repeats change nothing.

-- Starts the sink, or copies everything again. Batches up to `sent` were taken before, so their confirmation does not change the state.
create or replace function start_click_sink() returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtext('click_sink'));
  insert into click_sink default values
  on conflict (is_only) do update set copied_program_id = default, copied_until = default, copied_id = default,
    counted_program_id = default, counted_name = default, counted_metric = default, counted_day = default, counted_value = default,
    is_complete = default, up_to = default, dropped_before = default, sent = click_sink.taken;
end $$;

-- Queues up to `max_rows` earlier clicks.
create or replace function queue_earlier_clicks(max_rows integer) returns void language plpgsql as $$
declare
  s click_sink;
  last record;
begin
  select k.* into s from click_sink k;
  with next as (
    select e.program_id, e.click_timestamp, e.id from affiliate_click_events e
    where (e.program_id, e.is_test, e.click_timestamp, e.id) > (s.copied_program_id, false, s.copied_until, s.copied_id) and not e.is_test
    order by e.program_id, e.is_test, e.click_timestamp, e.id limit max_rows
  ),
  queued as (
    insert into unsent_clicks (program_id, clicked_at, event_id) select n.program_id, n.click_timestamp, n.id from next n
  )
  select n.* into last from next n order by n.program_id desc, n.click_timestamp desc, n.id desc limit 1;
  update click_sink set copied_program_id = last.program_id, copied_until = coalesce(last.click_timestamp, copied_until),
    copied_id = coalesce(last.id, copied_id);
end $$;

-- Queues up to `max_rows` earlier totals. Programs can have millions, so one statement for a program would take too long.
create or replace function queue_earlier_counts(max_rows integer) returns void language plpgsql set plan_cache_mode = force_custom_plan as $$
declare
  s click_sink;
  last record;
begin
  select k.* into s from click_sink k;
  with next as (
    select q.program_id, q.grouping_name, q.metric, q.day, q.value from grouped_quarters q
    where (q.program_id, q.grouping_name, q.metric, q.currency, q.day, q.value)
        > (s.counted_program_id, s.counted_name, s.counted_metric, '', s.counted_day, s.counted_value)
      and q.metric in ('clicks', 'bot_clicks') and q.currency = ''
    order by q.program_id, q.grouping_name, q.metric, q.currency, q.day, q.value limit max_rows
  ),
  queued as (
    insert into unsent_counts (program_id, grouping_name, metric, day, value) select n.* from next n
  )
  select n.*, count(*) over () as row_count into last from next n
  order by n.program_id desc, n.grouping_name desc, n.metric desc, n.day desc, n.value desc limit 1;
  update click_sink set counted_program_id = case when last.row_count = max_rows then last.program_id end,
    counted_name = coalesce(last.grouping_name, counted_name),
    counted_metric = coalesce(last.metric, counted_metric), counted_day = coalesce(last.day, counted_day),
    counted_value = coalesce(last.value, counted_value);
end $$;

create or replace function microseconds(at timestamptz) returns bigint language sql immutable
return (extract(epoch from at) * 1000000)::bigint;

-- A line of ClickHouse's table of clicks. `event` is the row for lists, without nulls. The hash of the visitor's address and the integrator's
-- data stay here.
create or replace function line_of_click(e click_events, version bigint) returns text language sql stable
return json_build_object(
  'program_id', (e).program_id, 'at_us', microseconds((e).click_timestamp), 'id', (e).id, 'version', version, 'link_id', (e).link_id,
  'is_bot', coalesce((e).device_type = 'bot', false), 'origin', values_of_click(e), 'event', jsonb_strip_nulls(to_jsonb(e) - '{visitor,additional_data}'::text[])::text
)::text;

-- Reads the next batch: lines of clicks and totals, and the ids to confirm with `confirm_click_batch`. `erased` lists clicks as
-- `[program_id, microseconds, id]`. ClickHouse must delete their earlier versions, and its clicks before `drop_before`.
create or replace function take_click_batch(
  max_rows integer, out batch bigint, out clicks text, out counts text, out erased text, out drop_before timestamptz, out click_ids bigint[],
  out count_ids bigint[], out up_to timestamptz, out is_complete boolean, out more boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  s click_sink;
begin
  update click_sink k set taken = k.taken + 1 returning k.* into s;
  if s.copied_program_id is not null and (select count(*) from (select from unsent_clicks limit max_rows) u) < max_rows / 2 then
    perform queue_earlier_clicks(max_rows / 2);
  end if;
  if s.counted_program_id is not null and (select count(*) from (select from unsent_counts limit max_rows) u) < max_rows then
    perform queue_earlier_counts(max_rows);
  end if;
  select k.* into s from click_sink k;
  batch := s.taken;
  click_ids := array(select u.id from unsent_clicks u order by u.id limit max_rows);
  count_ids := array(select u.id from unsent_counts u order by u.id limit max_rows);
  clicks := (
    select string_agg(line_of_click(e, batch), E'\n' order by u.program_id, u.clicked_at, u.event_id)
    from (select distinct q.program_id, q.clicked_at, q.event_id from unsent_clicks q where q.id = any (click_ids)) u
    cross join lateral (
      select e.* from click_events e
      where e.program_id = u.program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id offset 0
    ) e
  );
  counts := (
    select string_agg(json_build_object('program_id', q.program_id, 'name', q.grouping_name, 'metric', q.metric, 'day', q.day, 'value', q.value,
      'quarters', q.quarters, 'sums', q.sums, 'version', batch)::text, E'\n' order by q.program_id, q.grouping_name, q.metric, q.day, q.value)
    from (select distinct c.program_id, c.grouping_name, c.metric, c.day, c.value from unsent_counts c where c.id = any (count_ids)) u
    join grouped_quarters q using (program_id, grouping_name, metric, day, value) where q.currency = ''
  );
  erased := (
    select json_agg(distinct jsonb_build_array(u.program_id, microseconds(u.clicked_at), u.event_id))::text from unsent_clicks u
    where u.id = any (click_ids) and u.is_erased
  );
  drop_before := (select k.since from clicks_kept k where k.since > s.dropped_before);
  more := s.copied_program_id is not null or s.counted_program_id is not null
    or cardinality(click_ids) = max_rows or cardinality(count_ids) = max_rows;
  is_complete := s.is_complete or not more;
  -- A count writes clicks and totals at once, and its statement lasts ten seconds at most.
  up_to := case when cardinality(count_ids) = max_rows then s.up_to else least(
    now() - interval '10 seconds', (select min(u.clicked_at) from uncounted_clicks u),
    (select min(u.clicked_at) from unsent_clicks u where not u.is_erased and not exists (select from unnest(click_ids) t (id) where t.id = u.id))
  ) end;
end $$;

-- Confirms that a batch arrived. Batches up to `sent` only remove their own rows.
create or replace function confirm_click_batch(
  batch bigint, click_ids bigint[], count_ids bigint[], up_to timestamptz, is_complete boolean, dropped_before timestamptz
) returns void language plpgsql as $$
#variable_conflict use_variable
begin
  delete from unsent_clicks u where u.id = any (click_ids);
  delete from unsent_counts u where u.id = any (count_ids);
  update click_sink k set sent = batch, up_to = greatest(k.up_to, up_to), is_complete = k.is_complete or is_complete,
    dropped_before = greatest(k.dropped_before, dropped_before)
  where batch > k.sent;
end $$;
