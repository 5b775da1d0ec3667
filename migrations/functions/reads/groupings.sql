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

-- The groupings by what a link named of its campaign; lib/tracking/campaign.ts has the names.
create or replace function campaign_groupings() returns text[] language sql immutable
return array['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content', 'sub1', 'sub2', 'sub3'];

-- What a value of a grouping is called that is an id: a partner's name, a link's code, a partner's code.
create or replace function label_of_group(of_program_id bigint, name text, value text) returns text language sql stable as $$
  select case name
    when 'partner' then (select p.name::text from partners p where p.program_id = of_program_id and p.id = value::bigint)
    when 'link' then (select k.code::text from referral_links k where k.program_id = of_program_id and k.id = value::bigint)
    when 'code' then (select k.code::text from partner_codes k where k.program_id = of_program_id and k.id = value::bigint)
  end
$$;

-- The link by which a customer came, of what they count for a partner: none where a code gave it to another partner than the link's.
create or replace function link_that_brought(c customers, of_partner_id bigint) returns bigint language sql immutable
return case when (c).partner_id = of_partner_id then (c).link_id end;

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
    cross join lateral values_grouped_by(f.partner_id, link_that_brought(c, f.partner_id), f.code_id, o.origin) v
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

-- The days (UTC) of intervals that follow each other, and which quarters of them belong to the interval: those after `before` up to `last`, of a
-- whole day after -1 up to 95. `n` is the number of the interval, from 1 on.
create or replace function days_of_intervals(starts timestamptz[], until timestamptz)
returns table (n integer, day date, before smallint, last smallint) language sql immutable rows 100 as $$
  select i.n::integer, d.day, (greatest(extract(epoch from i.starts - d.begins), 0) / 900)::smallint - 1::smallint,
    (least(extract(epoch from i.ends - d.begins), 86400) / 900)::smallint - 1::smallint
  from (
    select n, s.starts, lead(s.starts, 1, days_of_intervals.until) over (order by n) as ends
    from unnest(days_of_intervals.starts) with ordinality s (starts, n)
  ) i
  cross join lateral (
    select utc_day(i.starts) + d as day, (utc_day(i.starts) + d)::timestamp at time zone 'UTC' as begins
    from generate_series(0, utc_day(i.ends - interval '1 second') - utc_day(i.starts)) d
  ) d
$$;

-- How much of a day came in the quarters after `before` up to `last`.
create or replace function amount_of_quarters(quarters smallint[], sums bigint[], before smallint, last smallint) returns bigint language sql immutable
return case last when 95 then sums[cardinality(sums)] else coalesce(sums[width_bucket(last, quarters)], 0) end
  - case before when -1 then 0 else coalesce(sums[width_bucket(before, quarters)], 0) end;

-- The values of a grouping that come first by `sort_by` between two moments, and as place 0 the whole. `value` is null for what the grouping does
-- not list, which is what the whole has more.
create or replace function read_first_groups(
  of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_by text, is_ascending boolean, max_groups integer,
  money text, from_time timestamptz, until timestamptz
) returns table (
  place integer, value text, label text, clicks bigint, bot_clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint,
  commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  from_day constant date := utc_day(from_time);
  until_day constant date := utc_day(until);
  cut_days constant date[] := array(
    select d.day from days_of_intervals(array[from_time], until) d where d.before > -1 or d.last < 95
  );
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
  -- A day that is whole has its row of totals; of one that is cut the quarters say what belongs to the range. Rows that have nothing of what is
  -- asked for are left out, and what is not asked for means nothing in the others.
  with cell as (
    select t.grouping_name, t.value, t.clicks, t.bot_clicks, t.leads, t.conversions, m.sales, m.revenue_cents, m.commission_cents, m.refunded_cents
    from grouped_days t
    cross join lateral (
      select case t.currency when money then t.sales else 0 end as sales,
        case t.currency when money then t.revenue_cents else 0 end as revenue_cents,
        case t.currency when money then t.commission_cents else 0 end as commission_cents,
        case t.currency when money then t.refunded_cents else 0 end as refunded_cents
    ) m
    where t.program_id = of_program_id and t.grouping_name = any (array[by_name, 'all']) and t.day >= from_day and t.day < until_day
      and t.day <> all (cut_days) and (
        with_clicks and t.clicks <> 0 or with_bot_clicks and t.bot_clicks <> 0 or with_leads and t.leads <> 0
        or with_conversions and t.conversions <> 0 or with_sales and m.sales <> 0 or with_revenue and m.revenue_cents <> 0
        or with_commission and m.commission_cents <> 0 or with_refunded and m.refunded_cents <> 0
      )
    union all
    select q.grouping_name, q.value,
      case q.metric when 'clicks' then a.amount else 0 end, case q.metric when 'bot_clicks' then a.amount else 0 end,
      case q.metric when 'leads' then a.amount else 0 end, case q.metric when 'conversions' then a.amount else 0 end,
      case q.metric when 'sales' then a.amount else 0 end, case q.metric when 'revenue' then a.amount else 0 end,
      case q.metric when 'commission' then a.amount else 0 end, case q.metric when 'refunded' then a.amount else 0 end
    from grouped_quarters q
    join days_of_intervals(array[from_time], until) d on d.day = q.day
    cross join lateral (select amount_of_quarters(q.quarters, q.sums, d.before, d.last) as amount) a
    where q.program_id = of_program_id and q.grouping_name = any (array[by_name, 'all']) and q.metric = any (metrics)
      and q.currency = any (array['', money]) and q.day = any (cut_days) and a.amount <> 0
  ),
  summed as materialized (
    select c.grouping_name, c.value, sum(c.clicks) as clicks, sum(c.bot_clicks) as bot_clicks, sum(c.leads) as leads,
      sum(c.conversions) as conversions, sum(c.sales) as sales, sum(c.revenue_cents) as revenue_cents,
      sum(c.commission_cents) as commission_cents, sum(c.refunded_cents) as refunded_cents
    from cell c group by c.grouping_name, c.value
  ),
  listed as (
    select s.value, s.clicks, s.bot_clicks, s.leads, s.conversions, s.sales, s.revenue_cents, s.commission_cents, s.refunded_cents
    from summed s where s.grouping_name = by_name and by_name <> 'all'
    union all
    select null, r.* from (
      select w.clicks - l.clicks as clicks, w.bot_clicks - l.bot_clicks as bot_clicks, w.leads - l.leads as leads,
        w.conversions - l.conversions as conversions, w.sales - l.sales as sales, w.revenue_cents - l.revenue_cents as revenue_cents,
        w.commission_cents - l.commission_cents as commission_cents, w.refunded_cents - l.refunded_cents as refunded_cents
      from summed w
      cross join (
        select coalesce(sum(s.clicks), 0) as clicks, coalesce(sum(s.bot_clicks), 0) as bot_clicks, coalesce(sum(s.leads), 0) as leads,
          coalesce(sum(s.conversions), 0) as conversions, coalesce(sum(s.sales), 0) as sales,
          coalesce(sum(s.revenue_cents), 0) as revenue_cents, coalesce(sum(s.commission_cents), 0) as commission_cents,
          coalesce(sum(s.refunded_cents), 0) as refunded_cents
        from summed s where s.grouping_name <> 'all'
      ) l
      where w.grouping_name = 'all' and by_name <> 'all'
    ) r
    where with_clicks and r.clicks <> 0 or with_bot_clicks and r.bot_clicks <> 0 or with_leads and r.leads <> 0
      or with_conversions and r.conversions <> 0 or with_sales and r.sales <> 0 or with_revenue and r.revenue_cents <> 0
      or with_commission and r.commission_cents <> 0 or with_refunded and r.refunded_cents <> 0
  )
  select f.place::integer, f.value, label_of_group(of_program_id, by_name::text, f.value), f.clicks::bigint, f.bot_clicks::bigint, f.leads::bigint, f.conversions::bigint, f.sales::bigint, f.revenue_cents::bigint,
    f.commission_cents::bigint, f.refunded_cents::bigint
  from (
    select row_number() over (order by coalesce(case sort_by
        when 'clicks' then l.clicks
        when 'bot_clicks' then l.bot_clicks
        when 'leads' then l.leads
        when 'conversions' then l.conversions
        when 'sales' then l.sales
        when 'revenue_cents' then l.revenue_cents
        when 'commission_cents' then l.commission_cents
        when 'refunded_cents' then l.refunded_cents
        when 'conversion_rate' then l.conversions / nullif(l.clicks, 0)
        when 'average_order_cents' then l.revenue_cents / nullif(l.conversions, 0)
      end, 0) * case when is_ascending then 1 else -1 end, l.value) as place, l.*
    from listed l order by place limit max_groups
  ) f
  union all
  select 0, null, null, coalesce(sum(s.clicks), 0)::bigint, coalesce(sum(s.bot_clicks), 0)::bigint, coalesce(sum(s.leads), 0)::bigint,
    coalesce(sum(s.conversions), 0)::bigint, coalesce(sum(s.sales), 0)::bigint, coalesce(sum(s.revenue_cents), 0)::bigint,
    coalesce(sum(s.commission_cents), 0)::bigint, coalesce(sum(s.refunded_cents), 0)::bigint
  from summed s where s.grouping_name = 'all'
  order by 1;
end $$;

-- A program's figures of some days of a time zone, both included, by the values of a grouping: the first `max_groups` of them by `sort_by`, and as
-- place 0 the whole. `value` is null where there was none, and empty for what is not kept apart. Where there is an `every` (hour, day,
-- week, month of the time zone), each value has a row for each of these in which it has anything, and place 0 has all of them: `starts`, and
-- the same as the time zone has it, `starts_local`, which for the first one may be before the first day. Money is that of
-- `of_currency`, else the program's own.
--
-- It costs a row for each value and day; how much there was of each makes no difference. Of days that an interval cuts, as those of other time
-- zones are, it costs one for each metric too, of those values alone that come first.
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
  money constant text := coalesce(of_currency, (select p.currency from programs p where p.id = of_program_id));
  first_values text[];
  first_labels text[];
  -- Those whose intervals are read.
  read_values text[];
  interval_starts timestamptz[];
  interval_locals timestamp[];
  part_numbers integer[];
  part_days date[];
  part_befores smallint[];
  part_lasts smallint[];
begin
  if every is null then
    return query
    select f.place, f.value, f.label, from_time, to_char(first_day::timestamp, 'YYYY-MM-DD"T"HH24:MI:SS'), f.clicks, f.bot_clicks, f.leads,
      f.conversions, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
    from read_first_groups(of_program_id, by_name, metrics, sort_by, is_ascending, max_groups, money, from_time, until) f;
    return;
  end if;
  if by_name <> 'all' then
    select array_agg(f.value order by f.place), array_agg(f.label order by f.place) into first_values, first_labels
    from read_first_groups(of_program_id, by_name, metrics, sort_by, is_ascending, max_groups, money, from_time, until) f where f.place > 0;
  end if;
  read_values := array_append(first_values, '');
  -- What the grouping does not list is what the whole has more than all of its values.
  if array_position(first_values, null) is not null then
    read_values := array(
      select distinct t.value from grouped_days t
      where t.program_id = of_program_id and t.grouping_name = any (array[by_name, 'all']) and t.day between utc_day(from_time) and utc_day(until)
    );
  end if;
  select array_agg(b.at order by b.at), array_agg(b.local order by b.at) into interval_starts, interval_locals
  from (
    select day_begins(local, zone) as at, local
    from generate_series(date_trunc(every, first_day::timestamp), last_day::timestamp, ('1 ' || every)::interval) local
    where every <> 'hour'
    union all
    select at, at at time zone zone from generate_series(from_time, until - interval '1 second', interval '15 minutes') at
    where every = 'hour' and (extract(minute from at at time zone zone) = 0 or at = from_time)
  ) b;
  select array_agg(d.n), array_agg(d.day), array_agg(d.before), array_agg(d.last) into part_numbers, part_days, part_befores, part_lasts
  from days_of_intervals(greatest(interval_starts[1], from_time) || interval_starts[2:], until) d;
  return query
  with part as materialized (
    select * from unnest(part_numbers, part_days, part_befores, part_lasts) p (n, day, before, last)
  ),
  figure as materialized (
    select c.is_whole, c.value, c.n, sum(c.clicks)::bigint as clicks, sum(c.bot_clicks)::bigint as bot_clicks, sum(c.leads)::bigint as leads,
      sum(c.conversions)::bigint as conversions, sum(c.sales)::bigint as sales, sum(c.revenue_cents)::bigint as revenue_cents,
      sum(c.commission_cents)::bigint as commission_cents, sum(c.refunded_cents)::bigint as refunded_cents
    from (
      select t.grouping_name = 'all' as is_whole, t.value, p.n, t.clicks, t.bot_clicks, t.leads, t.conversions,
        case t.currency when money then t.sales else 0 end as sales,
        case t.currency when money then t.revenue_cents else 0 end as revenue_cents,
        case t.currency when money then t.commission_cents else 0 end as commission_cents,
        case t.currency when money then t.refunded_cents else 0 end as refunded_cents
      from grouped_days t join part p on p.day = t.day and p.before = -1 and p.last = 95
      where t.program_id = of_program_id and t.grouping_name = any (array[by_name, 'all']) and t.value = any (read_values)
        and t.day = any (array(select p.day from part p where p.before = -1 and p.last = 95))
      union all
      select q.grouping_name = 'all', q.value, p.n,
        case q.metric when 'clicks' then a.amount else 0 end, case q.metric when 'bot_clicks' then a.amount else 0 end,
        case q.metric when 'leads' then a.amount else 0 end, case q.metric when 'conversions' then a.amount else 0 end,
        case q.metric when 'sales' then a.amount else 0 end, case q.metric when 'revenue' then a.amount else 0 end,
        case q.metric when 'commission' then a.amount else 0 end, case q.metric when 'refunded' then a.amount else 0 end
      from grouped_quarters q
      join part p on p.day = q.day and (p.before > -1 or p.last < 95)
      cross join lateral (select amount_of_quarters(q.quarters, q.sums, p.before, p.last) as amount) a
      where q.program_id = of_program_id and q.grouping_name = any (array[by_name, 'all']) and q.metric = any (metrics)
        and q.currency = any (array['', money]) and q.value = any (read_values)
        and q.day = any (array(select distinct p.day from part p where p.before > -1 or p.last < 95)) and a.amount <> 0
    ) c
    group by c.is_whole, c.value, c.n
  ),
  first as materialized (
    select f.place, f.value, f.label from unnest(first_values, first_labels) with ordinality f (value, label, place)
  )
  select f.place::integer, f.value, f.label, interval_starts[f.n], to_char(interval_locals[f.n], 'YYYY-MM-DD"T"HH24:MI:SS'), f.clicks::bigint,
    f.bot_clicks::bigint, f.leads::bigint, f.conversions::bigint, f.sales::bigint, f.revenue_cents::bigint, f.commission_cents::bigint,
    f.refunded_cents::bigint
  from (
    select t.place, t.value, t.label, v.n, v.clicks, v.bot_clicks, v.leads, v.conversions, v.sales, v.revenue_cents, v.commission_cents,
      v.refunded_cents
    from first t join figure v on v.value = t.value and not v.is_whole
    union all
    select t.place, null, null, w.n, w.clicks - coalesce(l.clicks, 0), w.bot_clicks - coalesce(l.bot_clicks, 0),
      w.leads - coalesce(l.leads, 0), w.conversions - coalesce(l.conversions, 0), w.sales - coalesce(l.sales, 0),
      w.revenue_cents - coalesce(l.revenue_cents, 0), w.commission_cents - coalesce(l.commission_cents, 0),
      w.refunded_cents - coalesce(l.refunded_cents, 0)
    from figure w
    left join (
      select v.n, sum(v.clicks) as clicks, sum(v.bot_clicks) as bot_clicks, sum(v.leads) as leads, sum(v.conversions) as conversions,
        sum(v.sales) as sales, sum(v.revenue_cents) as revenue_cents, sum(v.commission_cents) as commission_cents,
        sum(v.refunded_cents) as refunded_cents
      from figure v where not v.is_whole group by v.n
    ) l on l.n = w.n
    cross join (select place from first where value is null) t
    where w.is_whole
    union all
    select 0, null, null, i.n, coalesce(w.clicks, 0), coalesce(w.bot_clicks, 0), coalesce(w.leads, 0), coalesce(w.conversions, 0),
      coalesce(w.sales, 0), coalesce(w.revenue_cents, 0), coalesce(w.commission_cents, 0), coalesce(w.refunded_cents, 0)
    from generate_subscripts(interval_starts, 1) i (n) left join figure w on w.n = i.n and w.is_whole
  ) f
  order by f.place, f.n;
end $$;
