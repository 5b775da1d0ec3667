-- Performance by what clicks were: how the totals are kept, and how they are read. lib/tracking/groupings.ts says what is asked and answered.

-- The number of the quarter of an hour in the UTC day, 0 to 95.
create or replace function quarter_of_day(at timestamptz) returns smallint language sql immutable
as $$ select (floor(extract(epoch from at) / 900)::bigint % 96)::smallint $$;

-- The host that a click came from.
create or replace function host_of_referrer(referrer_url text) returns text language sql immutable
return left(substring(lower(referrer_url) from '^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#:]+)'), 200);

-- The page that a click led to, without its query.
create or replace function page_of_click(page_url text, affiliate_url text) returns text language sql immutable
return left(nullif(substring(coalesce(nullif(page_url, ''), affiliate_url) from '^[^?#]+'), ''), 200);

-- What a click was, under the names of groupings; of addresses the host that it came from and the page without its query.
create or replace function values_of_click(click affiliate_click_events) returns jsonb language sql immutable
return jsonb_strip_nulls(jsonb_build_object(
  'country', left(nullif((click).geo_country, ''), 200),
  'device', (click).device_type,
  'browser', left(nullif((click).browser_name, ''), 200),
  'referrer', host_of_referrer((click).referrer_url),
  'page', page_of_click((click).page_url, (click).affiliate_url)
)) || coalesce((click).campaign, '{}');

-- The values that something counts for. What came by no link or no code (null) has none of these.
create or replace function values_grouped_by(of_partner_id bigint, of_link_id bigint, of_code_id bigint, origin jsonb)
returns table (grouping_name grouping_name, value text) language sql immutable as $$
  select 'all'::grouping_name, ''
  union all select 'partner', of_partner_id::text where of_partner_id is not null
  union all select 'link', of_link_id::text where of_link_id is not null
  union all select 'code', of_code_id::text where of_code_id is not null
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
  with counted as materialized (
    select program_id, grouping_name, metric, currency, day, value, quarter, sum(amount)::bigint as amount from unnest(figures)
    where amount <> 0 group by 1, 2, 3, 4, 5, 6, 7
  ),
  new as materialized (
    select c.program_id, c.grouping_name, c.day, c.value, row_number() over (
      partition by c.program_id, c.grouping_name, c.day order by sum(c.amount) desc, c.value
    ) as place
    from counted c
    where c.grouping_name > 'device' and not exists (
      select from grouped_days t where t.program_id = c.program_id and t.grouping_name = c.grouping_name and t.day = c.day
        and t.value = c.value
    )
    group by c.program_id, c.grouping_name, c.day, c.value
  ),
  beyond as materialized (
    select n.* from new n
    join (
      select d.*, (
        select count(distinct t.value) from grouped_days t where t.program_id = d.program_id and t.grouping_name = d.grouping_name
          and t.day = d.day and t.value <> ''
      ) as known
      from (select distinct program_id, grouping_name, day from new) d
    ) of_day using (program_id, grouping_name, day)
    where of_day.known + n.place > max_values_of_day()
  ),
  named as materialized (
    select c.program_id, c.grouping_name, c.metric, c.currency, c.day, case when b.place is null then c.value else '' end as value,
      c.quarter, c.amount
    from counted c left join beyond b using (program_id, grouping_name, day, value)
  ),
  figures as materialized (
    select n.program_id, n.grouping_name, n.day, n.value, coalesce(nullif(n.currency, ''), p.currency) as currency,
      coalesce(sum(n.amount) filter (where n.metric = 'clicks'), 0) as clicks, coalesce(sum(n.amount) filter (where n.metric = 'bot_clicks'), 0) as bot_clicks,
      coalesce(sum(n.amount) filter (where n.metric = 'leads'), 0) as leads, coalesce(sum(n.amount) filter (where n.metric = 'conversions'), 0) as conversions,
      coalesce(sum(n.amount) filter (where n.metric = 'sales'), 0) as sales, coalesce(sum(n.amount) filter (where n.metric = 'revenue'), 0) as revenue_cents,
      coalesce(sum(n.amount) filter (where n.metric = 'commission'), 0) as commission_cents,
      coalesce(sum(n.amount) filter (where n.metric = 'refunded'), 0) as refunded_cents
    from named n join programs p on p.id = n.program_id
    group by 1, 2, 3, 4, 5
  ),
  days as (
    insert into grouped_days as kept (program_id, grouping_name, day, value, currency, clicks, bot_clicks, leads, conversions, sales,
      revenue_cents, commission_cents, refunded_cents)
    select * from figures order by 1, 2, 3, 4, 5
    on conflict (program_id, grouping_name, day, value, currency) do update set
      clicks = kept.clicks + excluded.clicks, bot_clicks = kept.bot_clicks + excluded.bot_clicks, leads = kept.leads + excluded.leads,
      conversions = kept.conversions + excluded.conversions, sales = kept.sales + excluded.sales,
      revenue_cents = kept.revenue_cents + excluded.revenue_cents, commission_cents = kept.commission_cents + excluded.commission_cents,
      refunded_cents = kept.refunded_cents + excluded.refunded_cents
  ),
  months as (
    insert into grouped_months as kept (program_id, grouping_name, month, value, currency, clicks, bot_clicks, leads, conversions, sales,
      revenue_cents, commission_cents, refunded_cents)
    select f.program_id, f.grouping_name, date_trunc('month', f.day::timestamp)::date, f.value, f.currency, sum(f.clicks), sum(f.bot_clicks), sum(f.leads),
      sum(f.conversions), sum(f.sales), sum(f.revenue_cents), sum(f.commission_cents), sum(f.refunded_cents)
    from figures f group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
    on conflict (program_id, grouping_name, month, value, currency) do update set
      clicks = kept.clicks + excluded.clicks, bot_clicks = kept.bot_clicks + excluded.bot_clicks, leads = kept.leads + excluded.leads,
      conversions = kept.conversions + excluded.conversions, sales = kept.sales + excluded.sales,
      revenue_cents = kept.revenue_cents + excluded.revenue_cents, commission_cents = kept.commission_cents + excluded.commission_cents,
      refunded_cents = kept.refunded_cents + excluded.refunded_cents
  )
  insert into grouped_quarters as kept (program_id, grouping_name, metric, currency, day, value, quarters, sums)
  select program_id, grouping_name, metric, currency, day, value, array_agg(quarter order by quarter), array_agg(sum order by quarter)
  from (
    select n.program_id, n.grouping_name, n.metric, n.currency, n.day, n.value, n.quarter, (sum(sum(n.amount)) over (
      partition by n.program_id, n.grouping_name, n.metric, n.currency, n.day, n.value order by n.quarter
    ))::bigint as sum
    from named n
    group by n.program_id, n.grouping_name, n.metric, n.currency, n.day, n.value, n.quarter
  ) summed
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (program_id, grouping_name, metric, currency, day, value) do update set (quarters, sums) = (
    select a.quarters, a.sums from add_quarters(kept.quarters, kept.sums, excluded.quarters, excluded.sums) a
  );
end $$;

-- What the click was that a customer counts for, whose latest one was at `clicked_at`: that one or, where it was on another link than the one they
-- count for, their first one, whose time is in their click id.
create or replace function origin_of_customer(c customers, clicked_at timestamptz) returns jsonb language sql stable
set plan_cache_mode = force_generic_plan as $$
  select coalesce((
    select values_of_click(e) from affiliate_click_events e
    where e.program_id = (c).program_id and not e.is_test and e.link_id = (c).link_id
      and e.click_timestamp = any (array[clicked_at, timestamptz 'epoch'
        + interval '1 millisecond' * substring((c).click_id from '^cust_([0-9]{13})_')::bigint])
    order by e.customer_id = (c).id desc, e.click_timestamp desc, e.id limit 1
  ), '{}')
$$;

-- Moves what leads, sales, refunds and corrections changed, at most `max_rows` of it, into the totals, and returns how many rows that were. It may
-- run twice at once, and beside count_clicks. A customer's origin is the click that they had when they were first counted.
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
  select f.program_id, f.customer_id, origin_of_customer(c, f.clicked_at)
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
    cross join lateral values_grouped_by(f.partner_id, c.link_id, f.code_id, o.origin) v
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
-- It costs a row for each value and day; how much there was of each makes no difference. Of days that an interval cuts, as those of other time
-- zones are, it costs one for each metric too.
create or replace function read_groups(
  of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_by text, is_ascending boolean, max_groups integer,
  of_currency text, first_day text, last_day text, every text, zone text
) returns table (
  place integer, value text, label text, starts timestamptz, starts_local text, clicks bigint, bot_clicks bigint, leads bigint,
  conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_nestloop = off as $$
#variable_conflict use_column
declare
  from_time constant timestamptz := day_begins(first_day::timestamp, zone);
  until constant timestamptz := day_begins(last_day::timestamp + interval '1 day', zone);
  from_day constant date := utc_day(from_time);
  until_day constant date := utc_day(until);
  money constant text := coalesce(of_currency, (select p.currency from programs p where p.id = of_program_id));
  with_clicks constant boolean := 'clicks' = any (metrics);
  with_bot_clicks constant boolean := 'bot_clicks' = any (metrics);
  with_leads constant boolean := 'leads' = any (metrics);
  with_conversions constant boolean := 'conversions' = any (metrics);
  with_sales constant boolean := 'sales' = any (metrics);
  with_revenue constant boolean := 'revenue' = any (metrics);
  with_commission constant boolean := 'commission' = any (metrics);
  with_refunded constant boolean := 'refunded' = any (metrics);
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
  -- A day that is whole has its row of totals; of one that is cut the quarters say what belongs to the interval. Rows that have nothing of what is
  -- asked for are left out, and what is not asked for means nothing in the others.
  cell as materialized (
    select t.grouping_name = 'all' as is_whole, t.value, p.n, t.clicks, t.bot_clicks, t.leads, t.conversions, m.sales, m.revenue_cents,
      m.commission_cents, m.refunded_cents
    from grouped_days t
    join part p on p.day = t.day and p.before = -1 and p.last = 95
    cross join lateral (
      select case t.currency when money then t.sales else 0 end as sales,
        case t.currency when money then t.revenue_cents else 0 end as revenue_cents,
        case t.currency when money then t.commission_cents else 0 end as commission_cents,
        case t.currency when money then t.refunded_cents else 0 end as refunded_cents
    ) m
    where t.program_id = of_program_id and t.grouping_name = any (array[by_name, 'all']) and t.day between from_day and until_day and (
      with_clicks and t.clicks <> 0 or with_bot_clicks and t.bot_clicks <> 0 or with_leads and t.leads <> 0
      or with_conversions and t.conversions <> 0 or with_sales and m.sales <> 0 or with_revenue and m.revenue_cents <> 0
      or with_commission and m.commission_cents <> 0 or with_refunded and m.refunded_cents <> 0
    )
    union all
    select t.grouping_name = 'all', t.value, p.n,
      case t.metric when 'clicks' then a.amount else 0 end, case t.metric when 'bot_clicks' then a.amount else 0 end,
      case t.metric when 'leads' then a.amount else 0 end, case t.metric when 'conversions' then a.amount else 0 end,
      case t.metric when 'sales' then a.amount else 0 end, case t.metric when 'revenue' then a.amount else 0 end,
      case t.metric when 'commission' then a.amount else 0 end, case t.metric when 'refunded' then a.amount else 0 end
    from (select distinct day from part where before > -1 or last < 95) cut
    cross join lateral (
      select q.* from grouped_quarters q
      where q.program_id = of_program_id and q.grouping_name = any (array[by_name, 'all']) and q.metric = any (metrics)
        and q.currency = any (array['', money]) and q.day = cut.day
      -- So that only these days are read.
      offset 0
    ) t
    join part p on p.day = t.day and (p.before > -1 or p.last < 95)
    cross join lateral (
      select case p.last when 95 then t.sums[cardinality(t.sums)] else coalesce(t.sums[width_bucket(p.last, t.quarters)], 0) end
        - case p.before when -1 then 0 else coalesce(t.sums[width_bucket(p.before, t.quarters)], 0) end as amount
    ) a
    where a.amount <> 0
  ),
  whole as materialized (
    select c.n, sum(c.clicks) as clicks, sum(c.bot_clicks) as bot_clicks, sum(c.leads) as leads,
      sum(c.conversions) as conversions, sum(c.sales) as sales, sum(c.revenue_cents) as revenue_cents,
      sum(c.commission_cents) as commission_cents, sum(c.refunded_cents) as refunded_cents
    from cell c where c.is_whole group by c.n
  ),
  -- What a grouping does not list is what the whole has more.
  rest as materialized (
    select f.* from (
      select w.n, w.clicks - coalesce(l.clicks, 0) as clicks, w.bot_clicks - coalesce(l.bot_clicks, 0) as bot_clicks,
        w.leads - coalesce(l.leads, 0) as leads, w.conversions - coalesce(l.conversions, 0) as conversions,
        w.sales - coalesce(l.sales, 0) as sales, w.revenue_cents - coalesce(l.revenue_cents, 0) as revenue_cents,
        w.commission_cents - coalesce(l.commission_cents, 0) as commission_cents,
        w.refunded_cents - coalesce(l.refunded_cents, 0) as refunded_cents
      from whole w
      left join (
        select c.n, sum(c.clicks) as clicks, sum(c.bot_clicks) as bot_clicks, sum(c.leads) as leads,
          sum(c.conversions) as conversions, sum(c.sales) as sales, sum(c.revenue_cents) as revenue_cents,
          sum(c.commission_cents) as commission_cents, sum(c.refunded_cents) as refunded_cents
        from cell c where not c.is_whole group by c.n
      ) l on l.n = w.n
      where by_name <> 'all'
    ) f
    where with_clicks and f.clicks <> 0 or with_bot_clicks and f.bot_clicks <> 0 or with_leads and f.leads <> 0
      or with_conversions and f.conversions <> 0 or with_sales and f.sales <> 0 or with_revenue and f.revenue_cents <> 0
      or with_commission and f.commission_cents <> 0 or with_refunded and f.refunded_cents <> 0
  ),
  -- Only what comes first is added up by interval.
  first as materialized (
    select r.value, r.place, case by_name
        when 'partner' then (select p.name::text from partners p where p.program_id = of_program_id and p.id = r.value::bigint)
        when 'link' then (select k.code from referral_links k where k.program_id = of_program_id and k.id = r.value::bigint)
        when 'code' then (select k.code::text from partner_codes k where k.program_id = of_program_id and k.id = r.value::bigint)
      end as label
    from (
      select s.value, row_number() over (order by coalesce(case
        when sort_by = any (array['conversion_rate', 'average_order_cents']) then s.part / nullif(s.of, 0) else s.part
      end, 0) * case when is_ascending then 1 else -1 end, s.value) as place
      from (
        select v.value, sum(case sort_by
          when 'clicks' then v.clicks
          when 'bot_clicks' then v.bot_clicks
          when 'leads' then v.leads
          when 'conversions' then v.conversions
          when 'sales' then v.sales
          when 'revenue_cents' then v.revenue_cents
          when 'commission_cents' then v.commission_cents
          when 'refunded_cents' then v.refunded_cents
          when 'conversion_rate' then v.conversions
          when 'average_order_cents' then v.revenue_cents
        end) as part, sum(case sort_by when 'conversion_rate' then v.clicks when 'average_order_cents' then v.conversions end) as of
        from (
          select c.value, c.clicks, c.bot_clicks, c.leads, c.conversions, c.sales, c.revenue_cents, c.commission_cents, c.refunded_cents
          from cell c where not c.is_whole
          union all
          select null, r.clicks, r.bot_clicks, r.leads, r.conversions, r.sales, r.revenue_cents, r.commission_cents,
            r.refunded_cents from rest r
        ) v
        group by v.value
      ) s
      order by place limit max_groups
    ) r
  )
  select f.place::integer, f.value, f.label, b.at, to_char(b.local, 'YYYY-MM-DD"T"HH24:MI:SS'), f.clicks::bigint, f.bot_clicks::bigint, f.leads::bigint,
      f.conversions::bigint, f.sales::bigint, f.revenue_cents::bigint, f.commission_cents::bigint, f.refunded_cents::bigint
  from (
    select t.place, t.value, t.label, c.n, sum(c.clicks) as clicks, sum(c.bot_clicks) as bot_clicks, sum(c.leads) as leads,
      sum(c.conversions) as conversions, sum(c.sales) as sales, sum(c.revenue_cents) as revenue_cents,
      sum(c.commission_cents) as commission_cents, sum(c.refunded_cents) as refunded_cents
    from first t join cell c on c.value = t.value and not c.is_whole
    group by t.place, t.value, t.label, c.n
    union all
    select t.place, null, null, r.n, r.clicks, r.bot_clicks, r.leads, r.conversions, r.sales, r.revenue_cents, r.commission_cents,
      r.refunded_cents
    from first t cross join rest r where t.value is null
    union all
    select 0, null, null, b.n, coalesce(w.clicks, 0), coalesce(w.bot_clicks, 0), coalesce(w.leads, 0), coalesce(w.conversions, 0),
      coalesce(w.sales, 0), coalesce(w.revenue_cents, 0), coalesce(w.commission_cents, 0), coalesce(w.refunded_cents, 0)
    from bucket b left join whole w on w.n = b.n
  ) f
  join bucket b on b.n = f.n
  order by f.place, b.at;
end $$;
