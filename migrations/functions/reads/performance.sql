-- The performance read, for `performanceStatement` in lib/tracking/performance.ts. It reads a range and the previous
-- period at once, because one begins when the other ends. Bounds are rounded to hours. Totals supply the whole hours,
-- and the rows between a bound and its hour are counted and added or subtracted.
-- All functions are stable, so that they read one snapshot: a click is in a row or in a counter, even while a count
-- runs. Postgres doesn't inline a function with a setting, and therefore opens only the months that the function reads.

-- The start or the end of the bound's hour, whichever is nearer, so that at most half an hour of rows is counted.
-- Almost nothing happens after now, so a bound later today counts from the hour of now.
create or replace function hour_of_bound(bound timestamptz, at timestamptz) returns timestamptz language plpgsql immutable as $$
declare
  hour_of_now timestamptz := date_trunc('hour', at, 'UTC');
  tomorrow timestamptz := date_trunc('day', at, 'UTC') + interval '1 day';
  begins timestamptz := date_trunc('hour', bound, 'UTC');
  ends timestamptz := begins + interval '1 hour';
begin
  if bound >= hour_of_now and bound < tomorrow then
    begins := hour_of_now;
    ends := tomorrow;
  end if;
  return case when least(bound, at) - begins <= greatest(least(ends, at) - bound, interval '0') then begins else ends end;
end $$;

-- The totals of some hours of a day, numbered from 1 to 24.
create or replace function sum_hours(of_program_id bigint, of_day date, first integer, last integer)
returns table (
  currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint,
  refunded_cents bigint
) language sql stable set plan_cache_mode = force_generic_plan as $$
select null, sum(hour.clicks), sum(hour.leads), sum(hour.conversions), 0, 0, 0, 0
from daily_totals t
cross join unnest(
  case t.slot when 0 then t.clicks_by_hour[first:last] else array[t.clicks] end,
  case t.slot when 0 then t.leads_by_hour[first:last] else array[t.leads] end,
  case t.slot when 0 then t.conversions_by_hour[first:last] else array[t.conversions] end
) hour (clicks, leads, conversions)
where t.program_id = of_program_id and t.day = of_day and (t.slot = 0 or t.slot between 64 * first and 64 * last + 63)
union all
select t.currency, 0, 0, 0, sum(hour.sales), sum(hour.revenue_cents), sum(hour.commission_cents), sum(hour.refunded_cents)
from daily_money t
cross join unnest(
  case t.slot when 0 then t.sales_by_hour[first:last] else array[t.sales] end,
  case t.slot when 0 then t.revenue_cents_by_hour[first:last] else array[t.revenue_cents] end,
  case t.slot when 0 then t.commission_cents_by_hour[first:last] else array[t.commission_cents] end,
  case t.slot when 0 then t.refunded_cents_by_hour[first:last] else array[t.refunded_cents] end
) hour (sales, revenue_cents, commission_cents, refunded_cents)
where t.program_id = of_program_id and t.day = of_day and (t.slot = 0 or t.slot between 64 * first and 64 * last + 63)
group by t.currency
$$;

-- The same figures from the rows between two moments.
create or replace function count_rows(of_program_id bigint, from_time timestamptz, to_time timestamptz)
returns table (
  currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint,
  refunded_cents bigint
) language sql stable set plan_cache_mode = force_generic_plan as $$
select null, count(*), 0, 0, 0, 0, 0, 0 from affiliate_click_events e
where e.program_id = of_program_id and not e.is_test and e.click_timestamp >= from_time and e.click_timestamp < to_time
  and e.device_type is distinct from 'bot'
union all
select null, 0, count(*), 0, 0, 0, 0, 0 from customers c
where c.program_id = of_program_id and c.signup_date >= from_time and c.signup_date < to_time
union all
select null, 0, 0, count(*), 0, 0, 0, 0 from customers c
where c.program_id = of_program_id and c.first_purchase_date >= from_time and c.first_purchase_date < to_time
union all
select s.currency, 0, 0, 0, count(*), sum(s.amount_cents), 0, sum(s.refunded_cents) from sales s
where s.program_id = of_program_id and s.sale_date >= from_time and s.sale_date < to_time
  and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
group by s.currency
union all
select c.currency, 0, 0, 0, 0, 0, sum(c.amount_cents - c.reversed_cents), 0 from commissions c
where c.program_id = of_program_id and c.created_at >= from_time and c.created_at < to_time
group by c.currency
$$;

-- Figures to add up. Rows with a day belong to the range from `current_from` up to `until`, and rows without one to the
-- previous period from `previous_from`. Money has a currency. If `current_from` is null, the range begins with the
-- program and has no previous period. `at` is now.
-- The cost is a row per day and currency, at most half an hour of rows at each bound, and the uncounted clicks. Each
-- connection plans these queries once for all programs and ranges, and the plans by index suit every program. As one
-- statement, which Neon's proxy plans in each call, they took the database four times as long.
create or replace function read_performance(
  of_program_id bigint, previous_from timestamptz, current_from timestamptz, until timestamptz, at timestamptz
) returns table (
  day text, currency text, clicks bigint, leads bigint, conversions bigint, partners bigint, sales bigint, revenue_cents bigint,
  commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  created timestamptz;
  previous_hour timestamptz;
  current_hour timestamptz;
  end_hour timestamptz;
  -- The first whole days of both ranges, and the days after their last whole days.
  previous_day date;
  previous_end date;
  current_day date;
  current_end date;
begin
  if current_from is null then
    select p.created_at into created from programs p where p.id = of_program_id;
    current_from := date_trunc('day', created, 'UTC');
    previous_from := current_from;
    until := greatest(created, at) + interval '1 millisecond';
  end if;
  previous_hour := hour_of_bound(previous_from, at);
  current_hour := hour_of_bound(current_from, at);
  end_hour := hour_of_bound(until, at);
  previous_day := utc_day(previous_hour + interval '23 hours');
  previous_end := utc_day(current_hour);
  current_day := utc_day(current_hour + interval '23 hours');
  current_end := utc_day(end_hour);

  return query
  -- Counts the rows between a bound and its hour once for both ranges. Rows after the bound belong to the range that
  -- begins there, whose totals begin later. The range that ends there has them in its totals, so they are subtracted.
  -- Rows before the bound are the opposite case.
  with counted as materialized (
    select least(bound.time, bound.hour) as from_time, side.sign * bound.current as current, side.sign * bound.previous as previous, part.*
    from (values (previous_from, previous_hour, 0, 1), (current_from, current_hour, 1, -1), (until, end_hour, -1, 0))
      bound (time, hour, current, previous)
    cross join lateral (select case when bound.hour > bound.time then 1 else -1 end as sign) side
    cross join lateral count_rows(of_program_id, least(bound.time, bound.hour), greatest(bound.time, bound.hour)) part
    where bound.time <> bound.hour
  )
  select f.day::text, f.currency, f.clicks, f.leads, f.conversions, f.partners, f.sales, f.revenue_cents, f.commission_cents,
    f.refunded_cents
  from (
    select t.day, null::text as currency, sum(t.clicks)::bigint as clicks, sum(t.leads)::bigint as leads,
      sum(t.conversions)::bigint as conversions, 0::bigint as partners, 0::bigint as sales, 0::bigint as revenue_cents,
      0::bigint as commission_cents, 0::bigint as refunded_cents
    from daily_totals t where t.program_id = of_program_id and t.day >= current_day and t.day < current_end
    group by t.day
    union all
    select t.day, t.currency, 0, 0, 0, 0, sum(t.sales)::bigint, sum(t.revenue_cents)::bigint, sum(t.commission_cents)::bigint,
      sum(t.refunded_cents)::bigint
    from daily_money t where t.program_id = of_program_id and t.day >= current_day and t.day < current_end
    group by t.day, t.currency
    union all
    select null, null, sum(t.clicks)::bigint, sum(t.leads)::bigint, sum(t.conversions)::bigint, 0, 0, 0, 0, 0
    from daily_totals t where t.program_id = of_program_id and t.day >= previous_day and t.day < previous_end
    union all
    select null, t.currency, 0, 0, 0, 0, sum(t.sales)::bigint, sum(t.revenue_cents)::bigint, sum(t.commission_cents)::bigint,
      sum(t.refunded_cents)::bigint
    from daily_money t where t.program_id = of_program_id and t.day >= previous_day and t.day < previous_end
    group by t.currency
    union all
    -- The hours of the range on the days that a bound cuts.
    select case when cut.from_hour >= current_hour then utc_day(cut.from_hour) end, hour.currency, hour.clicks, hour.leads,
      hour.conversions, 0, hour.sales, hour.revenue_cents, hour.commission_cents, hour.refunded_cents
    from (values
      (previous_hour, least(previous_day at time zone 'UTC', current_hour)),
      (greatest(previous_end, previous_day) at time zone 'UTC', current_hour),
      (current_hour, least(current_day at time zone 'UTC', end_hour)),
      (greatest(current_end, current_day) at time zone 'UTC', end_hour)
    ) cut (from_hour, to_hour)
    cross join lateral sum_hours(of_program_id, utc_day(cut.from_hour), hour_of_day(cut.from_hour),
      hour_of_day(cut.to_hour - interval '1 hour')) hour
    where cut.from_hour < cut.to_hour
    union all
    select utc_day(c.from_time), c.currency, c.current * c.clicks, c.current * c.leads, c.current * c.conversions, 0,
      c.current * c.sales, c.current * c.revenue_cents, c.current * c.commission_cents,
      c.current * c.refunded_cents
    from counted c where c.current <> 0
    union all
    select null, c.currency, c.previous * c.clicks, c.previous * c.leads, c.previous * c.conversions, 0,
      c.previous * c.sales, c.previous * c.revenue_cents, c.previous * c.commission_cents,
      c.previous * c.refunded_cents
    from counted c where c.previous <> 0
    union all
    select case when c.clicked_at >= current_hour then utc_day(c.clicked_at) end, null, count(*), 0, 0, 0, 0, 0, 0, 0
    from uncounted_clicks c
    where c.program_id = of_program_id and not c.is_bot and c.clicked_at >= previous_hour and c.clicked_at < end_hour
    group by 1
    union all
    select case when p.created_at >= current_from then utc_day(p.created_at) end, null, 0, 0, 0, count(*), 0, 0, 0, 0
    from partners p
    where p.program_id = of_program_id and p.created_at >= previous_from and p.created_at < until
    group by 1
  ) f
  order by f.day, f.currency;
end $$;
