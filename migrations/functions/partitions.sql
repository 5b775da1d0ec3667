-- Makes the partitions of this month and of the months ahead, and returns their names. Rows that the default partition took
-- for such a month move to it.
create or replace function make_event_partitions(months_ahead integer) returns setof text language plpgsql as $$
declare
  parent text;
  month date;
  partition text;
  key text;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  foreach parent in array array['affiliate_click_events', 'affiliate_lead_events'] loop
    key := case parent when 'affiliate_click_events' then 'click_timestamp' else 'lead_timestamp' end;
    for month in
      select m::date from generate_series(
        date_trunc('month', now() at time zone 'UTC'),
        date_trunc('month', now() at time zone 'UTC') + make_interval(months => months_ahead),
        interval '1 month'
      ) m
    loop
      partition := parent || '_' || to_char(month, 'YYYY_MM');
      continue when to_regclass(partition) is not null;
      execute format('create table %I (like %I including defaults including constraints)', partition, parent);
      execute format('lock table %I in access exclusive mode', parent || '_default');
      execute format(
        'with moved as (delete from %1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into %5$I select * from moved',
        parent || '_default', key, month::text || ' 00:00+00', (month + interval '1 month')::date::text || ' 00:00+00', partition);
      execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, partition,
        month::text || ' 00:00+00', (month + interval '1 month')::date::text || ' 00:00+00');
      return next partition;
    end loop;
  end loop;
end $$;

-- So that the first events have their months; from then on a scheduled function makes them.
select make_event_partitions(3);
