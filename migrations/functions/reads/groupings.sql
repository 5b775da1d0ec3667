-- Reads the totals that counting.sql writes, for any range and cut into any intervals. The API's groups and the overview both read `grouped_amounts`.

-- A sum that returns a bigint. `sum(bigint)` returns a numeric, and with many groups, the conversions take longer than the additions.
create or replace aggregate total(bigint) (sfunc = int8pl, stype = bigint, initcond = '0', parallel = safe);

-- The display name of a value that is an id: the partner's name, the link's code, or the partner's code.
create or replace function label_of_group(of_program_id bigint, name text, value text) returns text language sql stable as $$
  select case name
    when 'partner' then (select p.name::text from partners p where p.program_id = of_program_id and p.id = value::bigint)
    when 'link' then (select k.code::text from referral_links k where k.program_id = of_program_id and k.id = value::bigint)
    when 'code' then (select k.code::text from partner_codes k where k.program_id = of_program_id and k.id = value::bigint)
  end
$$;

-- The moment at which a day begins in a time zone. If midnight happens twice, returns the first.
create or replace function day_begins(day timestamp, zone text) returns timestamptz language sql stable as $$
  select case when (b.begins - interval '1 hour') at time zone zone = day then b.begins - interval '1 hour' else b.begins end
  from (select day at time zone zone as begins) b
$$;

-- The starts of a range's intervals (hour, day, week, month), in UTC and in the time zone. The first can be earlier
-- than the range. Without `every`, the range is one interval.
create or replace function intervals_of_days(first_day timestamp, last_day timestamp, every text, zone text)
returns table (at timestamptz, local timestamp) language sql stable as $$
  select day_begins(first_day, zone), first_day where every is null
  union all
  select day_begins(local, zone), local
  from generate_series(date_trunc(every, first_day), last_day, case when every <> 'hour' then ('1 ' || every)::interval end) local
  union all
  select at, at at time zone zone
  from (select day_begins(first_day, zone) as begins, day_begins(last_day + interval '1 day', zone) as ends) range
  cross join generate_series(range.begins, range.ends - interval '1 second', interval '15 minutes') at
  where every = 'hour' and (extract(minute from at at time zone zone) = 0 or at = range.begins)
$$;

-- The UTC days of consecutive intervals. The quarters after `before` up to `last` belong to the interval. A whole day has -1 and 95. `n` is
-- the interval's number, starting at 1.
create or replace function days_of_intervals(starts timestamptz[], until timestamptz)
returns table (n integer, day date, before smallint, last smallint) language sql immutable rows 100 as $$
  select i.n::integer, d.day, (greatest(extract(epoch from i.starts - d.begins), 0) / 900)::smallint - 1::smallint,
    (least(extract(epoch from i.ends - d.begins), 86400) / 900)::smallint - 1::smallint
  from (
    select n, s.starts, lead(s.starts, 1, days_of_intervals.until) over (order by n) as ends
    from unnest(days_of_intervals.starts) with ordinality s (starts, n)
  ) i
  cross join lateral (
    select utc_day(i.starts) + d as day, day_start(utc_day(i.starts) + d) as begins
    from generate_series(0, utc_day(i.ends - interval '1 second') - utc_day(i.starts)) d
  ) d
$$;

-- The totals that make up consecutive intervals. If at least half of a month's days are in an interval, its row is added and the other days are
-- subtracted. Whole days are added. A day that an interval cuts has no span, and its quarters after `before` up to `last` are added. PL/pgSQL keeps
-- the estimate of 100 rows. As an SQL function, this was inlined, the planner expected two million rows, and reads took twice as long, or twenty times
-- as long with `work_mem` at 256 MB.
create or replace function interval_parts(interval_starts timestamptz[], until timestamptz)
returns table (n integer, sign integer, span total_span, starts date, before smallint, last smallint) language plpgsql stable rows 100 as $$
#variable_conflict use_column
begin
  return query
  with day as materialized (
    select d.*, d.before = -1 and d.last = 95 as is_whole, date_trunc('month', d.day::timestamp)::date as month
    from days_of_intervals(interval_starts, interval_parts.until) d
  ),
  month as materialized (
    select d.n, d.month, (d.month + interval '1 month')::date as next from day d where d.is_whole group by d.n, d.month
    having 2 * count(*) >= least((d.month + interval '1 month')::date, utc_day(now()) + 1) - d.month
  )
  select m.n, 1, 'month'::total_span, m.month, null::smallint, null::smallint from month m
  union all
  select m.n, -1, 'day', m.month + o, null, null
  from month m cross join generate_series(0, m.next - m.month - 1) o
  where not exists (select from day d where d.n = m.n and d.day = m.month + o and d.is_whole)
  union all
  select d.n, 1, case when d.is_whole then 'day'::total_span end, d.day, d.before, d.last from day d
  where not d.is_whole or not exists (select from month m where m.n = d.n and m.month = d.month);
end $$;

-- The amount of a day's quarters after `before` up to `last`.
create or replace function amount_of_quarters(quarters smallint[], sums bigint[], before smallint, last smallint) returns bigint language sql immutable
return case last when 95 then sums[cardinality(sums)] else coalesce(sums[width_bucket(last, quarters)], 0) end
  - case before when -1 then 0 else coalesce(sums[width_bucket(before, quarters)], 0) end;

-- Returns one figure of a total. Money is in the currency `money`. Sales are in that currency too, unless the caller requests all
-- currencies.
create or replace function figure_of(t grouped_totals, metric grouped_metric, money text, with_all_sales boolean) returns bigint language sql immutable
return case metric
  when 'clicks' then (t).clicks when 'bot_clicks' then (t).bot_clicks when 'leads' then (t).leads when 'conversions' then (t).conversions
  when 'sales' then case when with_all_sales or (t).currency = money then (t).sales else 0 end
  else case when (t).currency = money then case metric
    when 'revenue' then (t).revenue_cents when 'commission' then (t).commission_cents else (t).refunded_cents
  end else 0 end
end;

-- The events since the last count (about half a minute), by their values.
create or replace function uncounted_amounts(of_program_id bigint, from_time timestamptz, until timestamptz) returns table (
  at timestamptz, grouping_name grouping_name, value text, metric grouped_metric, currency text, amount bigint
) language sql stable as $$
  select u.clicked_at, v.grouping_name, v.value, 'clicks'::grouped_metric, '', 1::bigint
  from uncounted_clicks u
  join referral_links l on l.program_id = u.program_id and l.id = u.link_id
  cross join lateral (
    select values_of_click(e) as origin from click_events e
    where e.program_id = u.program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id
    offset 0
  ) e
  cross join lateral values_grouped_by(l.partner_id, u.link_id, null, e.origin) v
  where u.program_id = of_program_id and not u.is_bot and u.clicked_at >= from_time and u.clicked_at < until
  union all
  select f.at, v.grouping_name, v.value, m.metric, m.currency, m.amount
  from uncounted_figures f
  join customers c on c.program_id = f.program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = f.program_id and known.customer_id = f.customer_id
  cross join lateral values_grouped_by(f.partner_id, referring_link(c, f.partner_id), f.code_id,
    coalesce(known.origin, origin_of_customer(c, f.clicked_at))) v
  cross join lateral figures_of(f) m
  where f.program_id = of_program_id and f.at >= from_time and f.at < until
$$;

-- The totals of groupings in consecutive intervals: of all values, or of the requested values. `names` contains 'all' if the caller needs
-- the whole. `value` is empty for values without separate totals. Skips amounts of zero. The overview also reads the newest events and
-- sales of all currencies. The API reads neither. `click_cells` are the counted clicks from ClickHouse, `[{at, name, value, metric, amount}]`, each
-- with the start of its interval in seconds. If they are null, they come from the totals here.
create or replace function amounts_of_values(
  of_program_id bigint, names grouping_name[], wanted text[], metrics grouped_metric[], money text, is_overview boolean, starts timestamptz[],
  until timestamptz, click_cells jsonb
) returns table (n integer, name grouping_name, value text, metric grouped_metric, amount bigint)
language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  stored constant grouped_metric[] := array(select m from unnest(metrics) m where click_cells is null or m not in ('clicks', 'bot_clicks'));
  stored_names constant grouping_name[] := case when cardinality(stored) > 0 then names end;
  -- The rows of these metrics. The index skips all other rows. For the money of three months, it touched 7,900 pages of memory instead of
  -- 67,800.
  only_currency constant text := case
    when metrics <@ '{clicks,bot_clicks,leads,conversions}' then '' when metrics <@ '{revenue,commission,refunded}' then money
  end;
begin
  return query
  with part as materialized (
    select * from interval_parts(amounts_of_values.starts, amounts_of_values.until)
  ),
  cell as (
    select p.n, k.name, t.value, t.metric, p.sign * t.amount as amount
    from unnest(stored_names) k (name) cross join part p
    -- Each grouping and part is a separate index scan.
    cross join lateral (
      select t.value, m.metric, figure_of(t, m.metric, money, is_overview) as amount
      from grouped_totals t cross join unnest(stored) m (metric)
      where t.program_id = of_program_id and t.grouping_name = k.name and t.span = p.span and t.starts = p.starts
        and (wanted is null or t.value = any (wanted)) and (only_currency is null or t.currency = only_currency)
      offset 0
    ) t
    union all
    select p.n, k.name, q.value, q.metric, amount_of_quarters(q.quarters, q.sums, p.before, p.last)
    from unnest(stored_names) k (name) cross join (select distinct p.starts from part p where p.span is null) cut
    cross join lateral (
      select * from grouped_quarters q
      where q.program_id = of_program_id and q.grouping_name = k.name and q.metric = any (stored) and q.day = cut.starts
        and (q.currency = '' or q.currency = money or is_overview and q.metric = 'sales') and (wanted is null or q.value = any (wanted))
      offset 0
    ) q
    join part p on p.starts = cut.starts and p.span is null
    union all
    select width_bucket(u.at, amounts_of_values.starts), u.grouping_name, u.value, u.metric, u.amount
    from uncounted_amounts(of_program_id, amounts_of_values.starts[1], amounts_of_values.until) u
    where is_overview and u.grouping_name = any (names) and u.metric = any (metrics) and (wanted is null or u.value = any (wanted))
      and (u.currency = '' or u.currency = money or u.metric = 'sales')
    union all
    select width_bucket(to_timestamp(k.at), amounts_of_values.starts), k.name, k.value, k.metric, k.amount
    from jsonb_to_recordset(click_cells) k (at bigint, name grouping_name, value text, metric grouped_metric, amount bigint)
    where k.name = any (names) and k.metric = any (metrics) and (wanted is null or k.value = any (wanted))
      and to_timestamp(k.at) >= amounts_of_values.starts[1] and to_timestamp(k.at) < amounts_of_values.until
  )
  select c.n, c.name, c.value, c.metric, total(c.amount) from cell c where c.amount <> 0 group by 1, 2, 3, 4;
end $$;

-- The same amounts, plus a row with a null `value` for events without a value of the grouping. Its figures are the
-- difference between the total and all values, so this reads all values.
create or replace function amounts_with_rest(
  of_program_id bigint, names grouping_name[], metrics grouped_metric[], money text, is_overview boolean, starts timestamptz[], until timestamptz,
  click_cells jsonb
) returns table (n integer, name grouping_name, value text, metric grouped_metric, amount bigint) language sql stable as $$
  with amount as materialized (
    select * from amounts_of_values(of_program_id, names || 'all'::grouping_name, null, metrics, money, is_overview, amounts_with_rest.starts,
      amounts_with_rest.until, click_cells)
  )
  select * from amount
  union all
  select s.n, k.name, null, s.metric, total(case s.name when 'all' then s.amount else -s.amount end)
  from (select a.n, a.name, a.metric, total(a.amount) as amount from amount a group by 1, 2, 3) s
  join unnest(names) k (name) on s.name in ('all', k.name)
  group by 1, 2, 4 having total(case s.name when 'all' then s.amount else -s.amount end) <> 0
$$;

-- The first values of a grouping by a metric, or by the ratio of two.
create or replace function first_values(
  of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_metrics grouped_metric[], is_ascending boolean, max_groups integer,
  money text, from_time timestamptz, until timestamptz, click_cells jsonb
) returns text[] language sql stable as $$
  select array_agg(v.value order by v.place) from (
    select s.value, row_number() over (
      order by case when is_ascending then 1 else -1 end * coalesce(s.sorted / case when sort_metrics[2] is null then 1 else nullif(s.divisor, 0) end, 0),
        s.value
    ) as place
    from (
      select a.value, total(a.amount) filter (where a.metric = sort_metrics[1])::numeric as sorted,
        total(a.amount) filter (where a.metric = sort_metrics[2]) as divisor
      from amounts_with_rest(of_program_id, array[by_name], metrics, money, false, array[from_time], until, click_cells) a
      where a.name = by_name group by a.value
    ) s
    order by place limit max_groups
  ) v
$$;

-- A program's figures by the values of a grouping, for some days in a time zone, both included. Returns the first
-- `max_groups` values, and the total as place 0. `value` is null for events without a value. It is empty for values
-- without separate totals. With `every`, each value has a row for each interval with figures, and place 0 has a row
-- for every interval. Money is in `of_currency`, or else in the program's own currency.
create or replace function read_groups(
  of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_metrics grouped_metric[], is_ascending boolean, max_groups integer,
  of_currency text, first_day text, last_day text, every text, zone text, click_cells jsonb
) returns table (
  place integer, value text, label text, starts timestamptz, starts_local text, clicks bigint, bot_clicks bigint, leads bigint,
  conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  from_time constant timestamptz := day_begins(first_day::timestamp, zone);
  until constant timestamptz := day_begins(last_day::timestamp + interval '1 day', zone);
  money constant text := coalesce(of_currency, (select p.currency from programs p where p.id = of_program_id));
  names constant grouping_name[] := case by_name when 'all' then '{all}' else array[by_name, 'all'] end;
  grouped constant text[] := case when by_name = 'all' then '{}' else coalesce(
    first_values(of_program_id, by_name, metrics, sort_metrics, is_ascending, max_groups, money, from_time, until, click_cells), '{}') end;
  -- The row for events without a value requires all values.
  wanted constant text[] := case when array_position(grouped, null) is null then array_append(grouped, '') end;
  interval_starts timestamptz[];
  interval_locals timestamp[];
  read_starts timestamptz[];
begin
  select array_agg(i.at order by i.at), array_agg(i.local order by i.at) into interval_starts, interval_locals
  from intervals_of_days(first_day::timestamp, last_day::timestamp, every, zone) i;
  read_starts := greatest(interval_starts[1], from_time) || interval_starts[2:];
  return query
  with amount as (
    select a.* from amounts_of_values(of_program_id, names, wanted, metrics, money, false, read_starts, until, click_cells) a
    where wanted is not null
    union all
    select a.* from amounts_with_rest(of_program_id, array[by_name], metrics, money, false, read_starts, until, click_cells) a
    where wanted is null
    union all
    select n, 'all', '', 'clicks', 0 from generate_subscripts(interval_starts, 1) n
  ),
  figure as (
    select case a.name when 'all' then 0 else array_position(grouped, a.value) end as place, a.n,
      total(a.amount) filter (where a.metric = 'clicks') as clicks,
      total(a.amount) filter (where a.metric = 'bot_clicks') as bot_clicks,
      total(a.amount) filter (where a.metric = 'leads') as leads,
      total(a.amount) filter (where a.metric = 'conversions') as conversions,
      total(a.amount) filter (where a.metric = 'sales') as sales,
      total(a.amount) filter (where a.metric = 'revenue') as revenue_cents,
      total(a.amount) filter (where a.metric = 'commission') as commission_cents,
      total(a.amount) filter (where a.metric = 'refunded') as refunded_cents
    from amount a group by 1, 2
  )
  select f.place, g.value, g.label, interval_starts[f.n], to_char(interval_locals[f.n], 'YYYY-MM-DD"T"HH24:MI:SS'), f.clicks, f.bot_clicks, f.leads,
    f.conversions, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from figure f
  left join (
    select g.place, g.value, label_of_group(of_program_id, by_name::text, g.value) as label from unnest(grouped) with ordinality g (value, place)
  ) g on g.place = f.place
  where f.place is not null
  order by f.place, f.n;
end $$;
