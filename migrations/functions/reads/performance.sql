-- The figures of the performance endpoint, for `performanceStatement` in lib/tracking/performance.ts. They cover a range and the previous
-- period at once, because the range begins when the previous period ends. Bounds are rounded to hours. Totals supply the whole hours, and
-- the rows between a bound and its hour are counted and added or subtracted. All functions are stable, so that they read one snapshot: a
-- click is in a row or in a counter, even while a count runs. Postgres doesn't inline a function with a setting, and therefore opens only
-- the months that the function reads.

-- The start of the figures for all time: when the program was created, or the day of its first event if an archive brought its history.
create or replace function program_began(of_program_id bigint, created_at timestamptz) returns timestamptz language sql stable
return least(created_at, (
  select day_start(min(t.starts)) from grouped_totals t
  where t.program_id = of_program_id and t.grouping_name = 'all' and t.span = 'day'
));

-- The start or the end of the bound's hour, whichever is closer, so that at most half an hour of rows is counted. Hardly any rows are dated
-- in the future, so a bound later today is replaced by the current hour.
create or replace function hour_of_bound(bound timestamptz, at timestamptz) returns timestamptz language plpgsql immutable as $$
declare
  hour_of_now timestamptz := date_trunc('hour', at, 'UTC');
  tomorrow timestamptz := date_trunc('day', at, 'UTC') + interval '24 hours';
  begins timestamptz := date_trunc('hour', bound, 'UTC');
  ends timestamptz := begins + interval '1 hour';
begin
  if bound >= hour_of_now and bound < tomorrow then
    begins := hour_of_now;
    ends := tomorrow;
  end if;
  return case when least(bound, at) - begins <= greatest(least(ends, at) - bound, interval '0') then begins else ends end;
end $$;

-- The totals of whole days, from `from_day` to before `to_day`.
create or replace function sum_days(of_program_id bigint, from_day date, to_day date)
returns table (
  day date, currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint,
  refunded_cents bigint
) language sql stable as $$
select t.day, null::text, t.clicks, t.leads, t.conversions, 0::bigint, 0::bigint, 0::bigint, 0::bigint
from daily_totals t where t.program_id = of_program_id and t.day >= from_day and t.day < to_day
union all
select t.day, t.currency::text, 0, 0, 0, t.sales, t.revenue_cents, t.commission_cents, t.refunded_cents
from daily_money t where t.program_id = of_program_id and t.day >= from_day and t.day < to_day
$$;

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

-- The totals of each day from one hour to another. The first and the last day can have hours outside the range.
create or replace function sum_range(of_program_id bigint, from_hour timestamptz, to_hour timestamptz)
returns table (
  day date, currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint,
  refunded_cents bigint
) language plpgsql stable as $$
#variable_conflict use_column
declare
  first_day constant date := utc_day(from_hour + interval '23 hours');
  end_day constant date := utc_day(to_hour);
begin
  return query
  select d.day, d.currency, total(d.clicks), total(d.leads), total(d.conversions), total(d.sales), total(d.revenue_cents),
    total(d.commission_cents), total(d.refunded_cents)
  from sum_days(of_program_id, first_day, end_day) d group by 1, 2
  union all
  select utc_day(cut.from_hour), h.*
  from (values (from_hour, least(day_start(first_day), to_hour)), (day_start(greatest(end_day, first_day)), to_hour)) cut (from_hour, to_hour)
  cross join lateral sum_hours(of_program_id, utc_day(cut.from_hour), hour_of_day(cut.from_hour), hour_of_day(cut.to_hour - interval '1 hour')) h
  where cut.from_hour < cut.to_hour;
end $$;

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
  and (c.imported_at is null or c.signup_date > c.imported_at)
union all
select null, 0, 0, count(*), 0, 0, 0, 0 from customers c
where c.program_id = of_program_id and c.first_purchase_date >= from_time and c.first_purchase_date < to_time
  and (c.imported_at is null or c.first_purchase_date > c.imported_at)
union all
select s.currency, 0, 0, 0, count(*), sum(s.amount_cents), 0, sum(s.refunded_cents) from sales s
where s.program_id = of_program_id and s.sale_date >= from_time and s.sale_date < to_time
  and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
group by s.currency
union all
select c.currency, 0, 0, 0, 0, 0, sum(c.amount_cents - c.reversed_cents), 0 from commissions c
where c.program_id = of_program_id and c.created_at >= from_time and c.created_at < to_time and not c.is_shadow
group by c.currency
$$;

-- Figures to add up. Rows with a day belong to the range from `current_from` up to `until`, and rows without one to the
-- previous period from `previous_from`. Money has a currency. If `current_from` is null, the range begins with the
-- program and has no previous period. `at` is now. The function reads one row per day and currency, at most half an
-- hour of rows at each bound, and the uncounted clicks. Each connection plans these queries once for all programs and
-- ranges, and index scans suit every program. As one statement, which Neon's proxy plans in each call, they took the
-- database four times as long.
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
begin
  if current_from is null then
    select program_began(p.id, p.created_at) into created from programs p where p.id = of_program_id;
    current_from := date_trunc('day', created, 'UTC');
    previous_from := current_from;
    until := greatest(created, at) + interval '1 millisecond';
  end if;
  previous_hour := hour_of_bound(previous_from, at);
  current_hour := hour_of_bound(current_from, at);
  end_hour := hour_of_bound(until, at);

  return query
  -- Counts the rows between a bound and its hour once for both ranges. Rows after the bound belong to the range that
  -- begins there, whose totals begin later. The range that ends there has them in its totals, so they are subtracted.
  -- For rows before the bound, it is the other way around.
  with counted as materialized (
    select least(bound.time, bound.hour) as from_time, side.sign * bound.current as current, side.sign * bound.previous as previous, part.*
    from (values (previous_from, previous_hour, 0, 1), (current_from, current_hour, 1, -1), (until, end_hour, -1, 0))
      bound (time, hour, current, previous)
    cross join lateral (select case when bound.hour > bound.time then 1 else -1 end as sign) side
    cross join lateral count_rows(of_program_id, least(bound.time, bound.hour), greatest(bound.time, bound.hour)) part
    where bound.time <> bound.hour
  )
  select f.day::text, f.currency, f.clicks, f.leads, f.conversions, f.partners, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from (
    select case when range.is_current then t.day end as day, t.currency, total(t.clicks) as clicks, total(t.leads) as leads,
      total(t.conversions) as conversions, 0::bigint as partners, total(t.sales) as sales, total(t.revenue_cents) as revenue_cents,
      total(t.commission_cents) as commission_cents, total(t.refunded_cents) as refunded_cents
    from (values (true, current_hour, end_hour), (false, previous_hour, current_hour)) range (is_current, from_hour, to_hour)
    cross join lateral sum_range(of_program_id, range.from_hour, range.to_hour) t
    group by 1, 2
    union all
    select case when part.is_current then utc_day(c.from_time) end, c.currency, part.sign * c.clicks, part.sign * c.leads, part.sign * c.conversions,
      0, part.sign * c.sales, part.sign * c.revenue_cents, part.sign * c.commission_cents, part.sign * c.refunded_cents
    from counted c cross join lateral (values (true, c.current), (false, c.previous)) part (is_current, sign)
    where part.sign <> 0
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
