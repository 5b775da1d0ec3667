-- Performance by what clicks were: how the totals are kept, and how they are read. lib/tracking/groupings.ts says what is asked and answered.

-- The number of the quarter of an hour in the UTC day, 0 to 95.
create or replace function quarter_of_day(at timestamptz) returns smallint language sql immutable
as $$ select (floor(extract(epoch from at) / 900)::bigint % 96)::smallint $$;

-- What a click was, under the names of groupings; of addresses the host that it came from and the page without its query.
create or replace function values_of_click(click affiliate_click_events) returns jsonb language sql immutable
return jsonb_strip_nulls(jsonb_build_object(
  'country', left(nullif((click).geo_country, ''), 200),
  'device', (click).device_type,
  'browser', left(nullif((click).browser_name, ''), 200),
  'referrer', left(substring(lower((click).referrer_url) from '^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#:]+)'), 200),
  'page', left(nullif(substring(coalesce(nullif((click).page_url, ''), (click).affiliate_url) from '^[^?#]+'), ''), 200)
)) || coalesce((click).campaign, '{}');

-- The values that something counts for. Who came by no link (null) has none of a link.
create or replace function values_grouped_by(of_partner_id bigint, of_link_id bigint, origin jsonb)
returns table (grouping_name grouping_name, value text) language sql immutable as $$
  select 'all'::grouping_name, ''
  union all select 'partner', of_partner_id::text where of_partner_id is not null
  union all select 'link', of_link_id::text where of_link_id is not null
  union all select key::grouping_name, value from jsonb_each_text(origin)
$$;

-- Adds the sums of some quarters to those of a day. Mostly what is counted is of the day's latest quarter or of one after it.
create or replace function add_quarters(
  inout quarters smallint[], inout sums bigint[], more_quarters smallint[], more_sums bigint[]
) language plpgsql immutable as $$
declare
  latest constant integer := cardinality(quarters);
begin
  if cardinality(more_quarters) = 1 and more_quarters[1] = quarters[latest] then
    sums[latest] := sums[latest] + more_sums[1];
  elsif cardinality(more_quarters) = 1 and more_quarters[1] > quarters[latest] then
    quarters := quarters || more_quarters;
    sums := sums || (sums[latest] + more_sums[1]);
  else
    select array_agg(a.quarter order by a.quarter), array_agg(a.sum order by a.quarter) into quarters, sums
    from (
      select s.quarter, (sum(sum(s.amount)) over (order by s.quarter))::bigint as sum
      from (
        select u.quarter, u.sum - lag(u.sum, 1, 0::bigint) over (order by u.quarter) as amount
        from unnest(add_quarters.quarters, add_quarters.sums) u (quarter, sum)
        union all
        select u.quarter, u.sum - lag(u.sum, 1, 0::bigint) over (order by u.quarter)
        from unnest(more_quarters, more_sums) u (quarter, sum)
      ) s
      group by s.quarter
    ) a;
  end if;
end $$;

create or replace function max_values_of_day() returns integer language sql immutable return 200;

-- Adds what was counted to the totals, in the order of their keys, so that two who count never wait for each other in a circle.
create or replace function add_grouped(figures grouped_figure[]) returns void language plpgsql as $$
begin
  insert into grouped_totals as kept (program_id, grouping_name, metric, currency, day, value, quarters, sums)
  with counted as materialized (
    select program_id, grouping_name, metric, currency, day, value, quarter, sum(amount) as amount from unnest(figures)
    where amount <> 0 group by 1, 2, 3, 4, 5, 6, 7
  ),
  new as materialized (
    select c.program_id, c.grouping_name, c.metric, c.currency, c.day, c.value, row_number() over (
      partition by c.program_id, c.grouping_name, c.metric, c.currency, c.day order by sum(c.amount) desc, c.value
    ) as place
    from counted c
    where c.grouping_name > 'device' and not exists (
      select from grouped_totals t where t.program_id = c.program_id and t.grouping_name = c.grouping_name and t.metric = c.metric
        and t.currency = c.currency and t.day = c.day and t.value = c.value
    )
    group by c.program_id, c.grouping_name, c.metric, c.currency, c.day, c.value
  ),
  beyond as materialized (
    select n.* from new n
    join (
      select d.*, (
        select count(*) from grouped_totals t where t.program_id = d.program_id and t.grouping_name = d.grouping_name
          and t.metric = d.metric and t.currency = d.currency and t.day = d.day and t.value <> ''
      ) as known
      from (select distinct program_id, grouping_name, metric, currency, day from new) d
    ) of_day using (program_id, grouping_name, metric, currency, day)
    where of_day.known + n.place > max_values_of_day()
  )
  select program_id, grouping_name, metric, currency, day, value, array_agg(quarter order by quarter), array_agg(sum order by quarter)
  from (
    select c.program_id, c.grouping_name, c.metric, c.currency, c.day, v.value, c.quarter, (sum(sum(c.amount)) over (
      partition by c.program_id, c.grouping_name, c.metric, c.currency, c.day, v.value order by c.quarter
    ))::bigint as sum
    from counted c
    left join beyond b using (program_id, grouping_name, metric, currency, day, value)
    cross join lateral (select case when b.place is null then c.value else '' end as value) v
    group by c.program_id, c.grouping_name, c.metric, c.currency, c.day, v.value, c.quarter
  ) summed
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (program_id, grouping_name, metric, currency, day, value) do update set (quarters, sums) = (
    select a.quarters, a.sums from add_quarters(kept.quarters, kept.sums, excluded.quarters, excluded.sums) a
  );
end $$;

-- Moves what leads, sales, refunds and corrections changed, at most `max_rows` of it, into the totals, and returns how many rows that were. It may
-- run twice at once, and beside count_clicks. A customer's origin is the click that they had when they were first counted: their latest one or, where that
-- was on another link than the one they count for, their first one, whose time is in their click id.
create or replace function count_figures(max_rows integer) returns bigint language plpgsql as $$
declare
  taken uncounted_figures[];
begin
  with moved as (
    delete from uncounted_figures
    where ctid = any (array(select ctid from uncounted_figures limit max_rows for update skip locked))
    returning uncounted_figures
  )
  select array_agg(m.uncounted_figures) into taken from moved m;
  if taken is null then
    return 0;
  end if;
  insert into customer_origins (program_id, customer_id, origin)
  select f.program_id, f.customer_id, coalesce((
    select values_of_click(e) from affiliate_click_events e
    where e.program_id = c.program_id and not e.is_test and e.link_id = c.link_id
      and e.click_timestamp = any (array[f.clicked_at, timestamptz 'epoch'
        + interval '1 millisecond' * substring(c.click_id from '^cust_([0-9]{13})_')::bigint])
    order by e.customer_id = c.id desc, e.click_timestamp desc, e.id limit 1
  ), '{}')
  from (select distinct on (program_id, customer_id) * from unnest(taken) order by program_id, customer_id, at, clicked_at) f
  join customers c on c.program_id = f.program_id and c.id = f.customer_id
  where not exists (select from customer_origins o where o.program_id = f.program_id and o.customer_id = f.customer_id)
  order by f.program_id, f.customer_id
  on conflict (program_id, customer_id) do nothing;
  perform add_grouped((
    select array_agg(row(f.program_id, v.grouping_name, m.metric, case when m.is_money then f.currency else '' end, utc_day(f.at), v.value,
      quarter_of_day(f.at), m.amount)::grouped_figure)
    from unnest(taken) f
    join customers c on c.program_id = f.program_id and c.id = f.customer_id
    join customer_origins o on o.program_id = f.program_id and o.customer_id = f.customer_id
    cross join lateral values_grouped_by(f.partner_id, c.link_id, o.origin) v
    cross join lateral (values
      ('leads'::grouped_metric, f.leads, false), ('conversions', f.conversions, false), ('sales', f.sales, true),
      ('revenue', f.revenue_cents, true), ('commission', f.commission_cents, true), ('refunded', f.refunded_cents, true)
    ) m (metric, amount, is_money)
    where m.amount <> 0
  ));
  return cardinality(taken);
end $$;

-- The moment at which a day begins in a time zone: where its midnight comes twice, the first one.
create or replace function day_begins(day timestamp, zone text) returns timestamptz language sql stable as $$
  select case when (b.begins - interval '1 hour') at time zone zone = day then b.begins - interval '1 hour' else b.begins end
  from (select day at time zone zone as begins) b
$$;

-- A program's figures of some days of a time zone, both included, by the values of a grouping: the first `max_groups` of them by `sort_by`, and as
-- place 0 the whole. `value` is null where there was none, and empty for what is not kept apart. Where there is an `every` (hour, day,
-- week, month of the time zone), each value has a row for each of these in which it has anything, and place 0 has all of them: `starts`, and
-- the same as the time zone has it, `starts_local`, which for the first one may be before the first day. Money is that of
-- `of_currency`, else the program's own.
--
-- It costs a row for each value, day and metric; how much there was of each makes no difference.
create or replace function read_groups(
  of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_by text, is_ascending boolean, max_groups integer,
  of_currency text, first_day text, last_day text, every text, zone text
) returns table (
  place integer, value text, label text, starts timestamptz, starts_local text, clicks bigint, bot_clicks bigint, leads bigint,
  conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  from_time constant timestamptz := day_begins(first_day::timestamp, zone);
  until constant timestamptz := day_begins(last_day::timestamp + interval '1 day', zone);
  from_day constant date := utc_day(from_time);
  until_day constant date := utc_day(until);
  money constant text := coalesce(of_currency, (select p.currency from programs p where p.id = of_program_id));
begin
  return query
  with begin as (
    select from_time as at, first_day::timestamp as local where every is null
    union all
    select day_begins(local, zone), local
    from generate_series(date_trunc(every, first_day::timestamp), last_day::timestamp, ('1 ' || every)::interval) local
    where every <> 'hour'
    union all
    select at, at at time zone zone from generate_series(from_time, until - interval '1 second', interval '15 minutes') at
    where every = 'hour' and (extract(minute from at at time zone zone) = 0 or at = from_time)
  ),
  bucket as materialized (
    select row_number() over (order by at) as n, at, local, greatest(at, from_time) as from_time,
      lead(at, 1, until) over (order by at) as until
    from begin
  ),
  part as materialized (
    select b.n, day.day, (greatest(extract(epoch from b.from_time - day.begins), 0) / 900)::smallint - 1::smallint as before,
      (least(extract(epoch from b.until - day.begins), 86400) / 900)::smallint - 1::smallint as last
    from bucket b
    cross join lateral (
      select utc_day(b.from_time) + d as day, (utc_day(b.from_time) + d)::timestamp at time zone 'UTC' as begins
      from generate_series(0, utc_day(b.until - interval '1 second') - utc_day(b.from_time)) d
    ) day
  ),
  cell as materialized (
    select t.grouping_name = by_name as is_value, case when t.grouping_name = by_name then t.value end as value, p.n, t.metric,
      sum(
        case p.last when 95 then t.sums[cardinality(t.sums)] else coalesce(t.sums[width_bucket(p.last, t.quarters)], 0) end
        - case p.before when -1 then 0 else coalesce(t.sums[width_bucket(p.before, t.quarters)], 0) end
      ) as amount
    from grouped_totals t join part p on p.day = t.day
    where t.program_id = of_program_id and t.grouping_name = any (array[by_name, 'all']) and t.metric = any (metrics)
      and t.currency = any (array['', money]) and t.day between from_day and until_day
    group by 1, 2, 3, 4
  ),
  -- What a grouping does not list is what the whole has more.
  listed as (
    select false as is_whole, c.value, c.n, c.metric, c.amount from cell c where c.is_value and by_name <> 'all'
    union all
    select false, null, c.n, c.metric, sum(case when c.is_value then -c.amount else c.amount end) from cell c
    where by_name <> 'all' group by c.n, c.metric having sum(case when c.is_value then -c.amount else c.amount end) <> 0
    union all
    select true, null, c.n, c.metric, c.amount from cell c where by_name = 'all' or not c.is_value
  ),
  wide as materialized (
    select l.is_whole, l.value, l.n, coalesce(sum(l.amount) filter (where l.metric = 'clicks'), 0)::bigint as clicks,
      coalesce(sum(l.amount) filter (where l.metric = 'bot_clicks'), 0)::bigint as bot_clicks,
      coalesce(sum(l.amount) filter (where l.metric = 'leads'), 0)::bigint as leads,
      coalesce(sum(l.amount) filter (where l.metric = 'conversions'), 0)::bigint as conversions,
      coalesce(sum(l.amount) filter (where l.metric = 'sales'), 0)::bigint as sales,
      coalesce(sum(l.amount) filter (where l.metric = 'revenue'), 0)::bigint as revenue_cents,
      coalesce(sum(l.amount) filter (where l.metric = 'commission'), 0)::bigint as commission_cents,
      coalesce(sum(l.amount) filter (where l.metric = 'refunded'), 0)::bigint as refunded_cents
    from listed l group by l.is_whole, l.value, l.n
  ),
  ranked as (
    select s.value, row_number() over (order by s.sorted * case when is_ascending then 1 else -1 end, s.value) as place
    from (
      select w.value, coalesce(case sort_by
        when 'clicks' then sum(w.clicks)
        when 'bot_clicks' then sum(w.bot_clicks)
        when 'leads' then sum(w.leads)
        when 'conversions' then sum(w.conversions)
        when 'sales' then sum(w.sales)
        when 'revenue_cents' then sum(w.revenue_cents)
        when 'commission_cents' then sum(w.commission_cents)
        when 'refunded_cents' then sum(w.refunded_cents)
        when 'conversion_rate' then sum(w.conversions) / nullif(sum(w.clicks), 0)
        when 'average_order_cents' then sum(w.revenue_cents) / nullif(sum(w.conversions), 0)
      end, 0) as sorted
      from wide w where not w.is_whole group by w.value
    ) s
  )
  select r.place::integer, r.value, case by_name
      when 'partner' then (select p.name::text from partners p where p.program_id = of_program_id and p.id = r.value::bigint)
      when 'link' then (select k.code from referral_links k where k.program_id = of_program_id and k.id = r.value::bigint)
    end, b.at, to_char(b.local, 'YYYY-MM-DD"T"HH24:MI:SS'), w.clicks, w.bot_clicks, w.leads, w.conversions, w.sales, w.revenue_cents, w.commission_cents, w.refunded_cents
  from ranked r
  join wide w on not w.is_whole and w.value is not distinct from r.value
  join bucket b on b.n = w.n
  where r.place <= max_groups
  union all
  select 0, null, null, b.at, to_char(b.local, 'YYYY-MM-DD"T"HH24:MI:SS'), coalesce(w.clicks, 0), coalesce(w.bot_clicks, 0), coalesce(w.leads, 0), coalesce(w.conversions, 0),
    coalesce(w.sales, 0), coalesce(w.revenue_cents, 0), coalesce(w.commission_cents, 0), coalesce(w.refunded_cents, 0)
  from bucket b left join wide w on w.is_whole and w.n = b.n
  order by 1, 4;
end $$;
