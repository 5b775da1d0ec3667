-- Creates the partitions of this month, of the following months, and of up to 12 months with rows in the default partition. Moves those rows
-- and returns the partitions' names. An import can add rows of any time. Those before 2020 stay in the default partition, so that no import
-- causes thousands of partitions, which would slow down every read.
create or replace function make_event_partitions(months_ahead integer) returns setof text language plpgsql as $$
declare
  parent text;
  months date[];
  month date;
  partition text;
  key text;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  foreach parent in array array['affiliate_click_events', 'affiliate_lead_events'] loop
    key := case parent when 'affiliate_click_events' then 'click_timestamp' else 'lead_timestamp' end;
    execute format(
      'select array(select (month_of(now()) + make_interval(months => n))::date from generate_series(0, $1) n union (
        select distinct month_of(%I) as month from %I where %I >= ''2020-01-01'' order by month limit 12
      ) order by 1)', key, parent || '_default', key) into months using months_ahead;
    foreach month in array months loop
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

-- Creates the first months. Later a scheduled function creates them.
select make_event_partitions(3);
