-- The overview: figures by interval of a range and of the one before it, and the values that come first in each breakdown. For lib/tracking/overview.ts.
--
-- Without a filter and with one, totals say how it went, whatever there was of it. What two filters leave, and what a filter leaves by another breakdown, no
-- total knows: rows are read for it, the latest ones, and no more than `max_rows_read`.

-- A sum that stays a bigint. Of `sum(bigint)` each group's is made a numeric and read back, which takes longer than the adding where groups are many.
create or replace aggregate total(bigint) (sfunc = int8pl, stype = bigint, initcond = '0', parallel = safe);

-- How many clicks are read at most, and half as many leads, first purchases, sales and commissions: a click takes 2 us, one of these 4. Where two filters
-- meet they are read once more for the chart.
create or replace function max_rows_read(filters jsonb) returns bigint language sql immutable
return 20000 / (select least(count(*), 2) from jsonb_object_keys(filters));

-- What is in no total yet, by its values: half a minute's worth.
create or replace function uncounted_groups(of_program_id bigint, from_time timestamptz, until timestamptz) returns table (
  at timestamptz, grouping_name grouping_name, value text, currency text, clicks bigint, leads bigint, conversions bigint, sales bigint,
  revenue_cents bigint, commission_cents bigint, refunded_cents bigint
) language sql stable as $$
  select u.clicked_at, v.grouping_name, v.value, null::text, 1::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint
  from uncounted_clicks u
  join referral_links l on l.program_id = u.program_id and l.id = u.link_id
  cross join lateral (
    select values_of_click(e) as origin from affiliate_click_events e
    where e.program_id = u.program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id
    offset 0
  ) e
  cross join lateral values_grouped_by(l.partner_id, u.link_id, null, e.origin) v
  where u.program_id = of_program_id and not u.is_bot and u.clicked_at >= from_time and u.clicked_at < until
  union all
  select f.at, v.grouping_name, v.value, f.currency::text, 0, f.leads, f.conversions, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from uncounted_figures f
  join customers c on c.program_id = f.program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = f.program_id and known.customer_id = f.customer_id
  cross join lateral values_grouped_by(f.partner_id, link_that_brought(c, f.partner_id), f.code_id, coalesce(known.origin, origin_of_customer(c, f.clicked_at))) v
  where f.program_id = of_program_id and f.at >= from_time and f.at < until
$$;

-- Which rows are read for what the filters fit: from `read_from` on, which is `from_time` where that is not too many. `quarters` are those of an hour in
-- which such clicks came, null for all of them, and `days` those on which something else did.
create or replace function parts_read(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, with_clicks boolean, with_others boolean,
  out read_from timestamptz, out quarters timestamptz[], out days date[]
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
declare
  from_day date := utc_day(from_time);
  until_day constant date := utc_day(until - interval '1 millisecond');
  -- What had no value is in no total.
  listed constant bigint := (select count(*) from jsonb_each_text(filters) f where f.value is not null);
begin
  read_from := from_time;
  if with_clicks then
    -- By how many quarters of each day the rarest value of the filters has, twice of what is read are in the days after this one; quarters are taken apart of
    -- these days alone.
    select coalesce(max(e.day), from_day) into from_day from (
      select t.day, sum(t.sums[cardinality(t.sums)] * coalesce((
        select min(coalesce(v.quarters, 0)::numeric / cardinality(t.quarters)) from jsonb_each_text(filters) f
        left join lateral (
          select sum(cardinality(v.quarters)) as quarters from grouped_quarters v
          where v.program_id = of_program_id and v.grouping_name = f.key::grouping_name and v.metric = 'clicks' and v.currency = '' and v.day = t.day
            and v.value = any (array[f.value, ''])
        ) v on true
        where f.value is not null
      ), 1)) over (order by t.day desc) as read
      from grouped_quarters t
      where t.program_id = of_program_id and t.grouping_name = 'all' and t.metric = 'clicks' and t.currency = '' and t.day between from_day and until_day
    ) e where e.read > 2 * max_rows_read(filters);
    with whole as (
      select t.day::timestamp at time zone 'UTC' + u.quarter * interval '15 minutes' as begins, u.sum - coalesce(t.sums[u.n - 1], 0) as clicks
      from grouped_quarters t cross join lateral unnest(t.quarters, t.sums) with ordinality u (quarter, sum, n)
      where t.program_id = of_program_id and t.grouping_name = 'all' and t.metric = any ('{clicks,bot_clicks}') and t.currency = ''
        and t.day between from_day and until_day
      union all
      select date_bin('15 minutes', u.clicked_at, 'epoch'), 1 from uncounted_clicks u
      where u.program_id = of_program_id and u.clicked_at >= from_time and u.clicked_at < until
    ),
    fitting as (
      select f.begins from (
        select distinct f.key, t.day::timestamp at time zone 'UTC' + q.quarter * interval '15 minutes' as begins
        from jsonb_each_text(filters) f
        cross join generate_series(from_day, until_day, '1 day') d (day)
        cross join lateral (
          select t.day, t.quarters from grouped_quarters t
          where t.program_id = of_program_id and t.grouping_name = f.key::grouping_name and t.metric = 'clicks' and t.currency = '' and t.day = d.day::date
            and t.value = any (array[f.value, ''])
          offset 0
        ) t
        cross join lateral unnest(t.quarters) q (quarter)
        where f.value is not null
      ) f group by f.begins having count(*) = listed
      union
      select date_bin('15 minutes', u.clicked_at, 'epoch') from uncounted_clicks u
      where u.program_id = of_program_id and u.clicked_at >= from_time and u.clicked_at < until
    ),
    summed as (
      select w.begins, w.clicks, w.clicks * (listed = 0 or f.begins is not null)::integer as fits
      from (select w.begins, sum(w.clicks) as clicks from whole w group by w.begins) w left join fitting f on f.begins = w.begins
    ),
    placed as (
      select s.*, sum(s.fits) over (order by s.begins desc) as read from summed s
    ),
    kept as (select p.* from placed p where p.read <= greatest(max_rows_read(filters), (select min(first.read) from placed first where first.fits > 0)))
    select greatest(from_time, case when from_day > utc_day(from_time) or exists (
        select from placed p where p.fits > 0 and p.begins < (select min(k.begins) from kept k)
      ) then coalesce(min(k.begins), from_day::timestamp at time zone 'UTC') end),
      case when sum(k.clicks) > 2 * sum(k.fits) then array_agg(k.begins order by k.begins) filter (where k.fits > 0) end
    into read_from, quarters
    from kept k;
    read_from := coalesce(read_from, from_time);
  end if;
  if with_others then
    with whole as (
      select t.day, sum(t.leads + t.conversions + 2 * t.sales) as rows from grouped_days t
      where t.program_id = of_program_id and t.grouping_name = 'all' and t.day between utc_day(read_from) and until_day group by t.day
      union all
      select utc_day(u.at), 0 from uncounted_figures u where u.program_id = of_program_id and u.at >= read_from and u.at < until
    ),
    placed as (
      select w.day, sum(sum(w.rows)) over (order by w.day desc) as read
      from whole w
      where w.rows = 0 or listed = (
        select count(distinct f.key) from jsonb_each_text(filters) f
        join grouped_days t on t.program_id = of_program_id and t.grouping_name = f.key::grouping_name and t.day = w.day
          and t.value = any (array[f.value, ''])
        where f.value is not null and (t.leads <> 0 or t.conversions <> 0 or t.sales <> 0 or t.revenue_cents <> 0 or t.commission_cents <> 0)
      )
      group by w.day
    ),
    kept as (select p.day from placed p where p.read <= greatest(max_rows_read(filters) / 2, (select min(first.read) from placed first)))
    select coalesce(array_agg(k.day), '{}'),
      greatest(read_from, case when exists (select from placed p where p.day < (select min(k.day) from kept k)) then min(k.day)::timestamp at time zone 'UTC' end)
    into days, read_from
    from kept k;
  end if;
end $$;

-- What came about in a range, one row each, of what every filter fits: a click by what it was itself, the rest by the click that their customer had when they
-- were first counted. A filter is named as a grouping, its value null for what had none. `wanted` is one metric, or null for all of them. Values of clicks are
-- left out unless they are asked for, since finding a page and a host takes as long as reading the click.
create or replace function filtered_facts(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, quarters timestamptz[], days date[], of_currency text, wanted text,
  with_click_values boolean
) returns table (
  at timestamptz, partner text, link text, code text, country text, device text, referrer text, page text, campaign jsonb, clicks integer, leads integer,
  conversions integer, sales integer, revenue_cents bigint, commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  -- What a link has to have named, and what it must not have.
  named constant jsonb := (
    select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(filters) f where f.key = any (campaign_groupings()) and f.value <> 'null'
  );
  unnamed constant text[] := array(select f.key from jsonb_each(filters) f where f.key = any (campaign_groupings()) and f.value = 'null');
begin
  if wanted is null or wanted = any ('{clicks,conversion}') then
    return query
    select e.click_timestamp, k.partner_id::text, e.link_id::text, null::text, left(nullif(e.geo_country, ''), 200), e.device_type,
      case when with_click_values then host_of_referrer(e.referrer_url) end,
      case when with_click_values then page_of_click(e.page_url, e.affiliate_url) end,
      e.campaign, 1, 0, 0, 0, 0::bigint, 0::bigint, 0::bigint
    from (
      select from_time as begins, until as ends where quarters is null
      union all
      select greatest(q, from_time), least(q + interval '15 minutes', until) from unnest(quarters) q
    ) part
    cross join lateral (
      select * from affiliate_click_events e
      where e.program_id = of_program_id and not e.is_test and e.click_timestamp >= part.begins and e.click_timestamp < part.ends
      offset 0
    ) e
    join referral_links k on k.program_id = e.program_id and k.id = e.link_id
    where e.device_type is distinct from 'bot'
      and (not filters ? 'partner' or k.partner_id = (filters->>'partner')::bigint)
      and (not filters ? 'link' or e.link_id = (filters->>'link')::bigint)
      and filters->>'code' is null
      and (not filters ? 'country' or left(nullif(e.geo_country, ''), 200) is not distinct from filters->>'country')
      and (not filters ? 'device' or e.device_type is not distinct from filters->>'device')
      and (named = '{}' or e.campaign @> named) and not coalesce(e.campaign ?| unnamed, false)
      and (not filters ? 'referrer' or host_of_referrer(e.referrer_url) is not distinct from filters->>'referrer')
      and (not filters ? 'page' or page_of_click(e.page_url, e.affiliate_url) is not distinct from filters->>'page');
  end if;
  if wanted = 'clicks' then
    return;
  end if;
  return query
  select f.at, f.partner_id::text, link_that_brought(c, f.partner_id)::text, f.code_id::text, o.origin->>'country', o.origin->>'device', o.origin->>'referrer', o.origin->>'page',
    o.origin, 0, f.leads, f.conversions, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from (
    select greatest(d::timestamp at time zone 'UTC', from_time) as begins, least((d + 1)::timestamp at time zone 'UTC', until) as ends from unnest(days) d
  ) part
  cross join lateral (
    select c.signup_date as at, c.id as customer_id, c.partner_id, null::bigint as code_id, 1 as leads, 0 as conversions, 0 as sales, 0::bigint as revenue_cents,
      0::bigint as commission_cents, 0::bigint as refunded_cents
    from customers c
    where c.program_id = of_program_id and c.signup_date >= part.begins and c.signup_date < part.ends and (wanted is null or wanted = 'leads')
    union all
    select c.first_purchase_date, c.id, coalesce((
        select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = c.code_id
      ), c.partner_id), c.code_id, 0, 1, 0, 0, 0, 0 from customers c
    where c.program_id = of_program_id and c.first_purchase_date >= part.begins and c.first_purchase_date < part.ends
      and (wanted is null or wanted = 'conversion')
    union all
    select s.sale_date, s.customer_id, s.partner_id, s.code_id, 0, 0, 1, case s.currency when of_currency then s.amount_cents::bigint else 0 end, 0,
      case s.currency when of_currency then s.refunded_cents::bigint else 0 end
    from sales s
    where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
      and s.sale_date >= part.begins and s.sale_date < part.ends and (wanted is null or wanted = any ('{sales,revenue}'))
    union all
    select m.created_at, m.customer_id, m.partner_id, m.code_id, 0, 0, 0, 0, m.amount_cents - m.reversed_cents, 0 from commissions m
    where m.program_id = of_program_id and m.created_at >= part.begins and m.created_at < part.ends and m.currency = of_currency
      and (wanted is null or wanted = 'commission')
  ) f
  join customers c on c.program_id = of_program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = of_program_id and known.customer_id = f.customer_id
  cross join lateral (select coalesce(known.origin, origin_of_customer(c, c.last_click_at)) as origin) o
  where (not filters ? 'partner' or f.partner_id = (filters->>'partner')::bigint)
    and (not filters ? 'link' or link_that_brought(c, f.partner_id) is not distinct from (filters->>'link')::bigint)
    and (not filters ? 'code' or f.code_id is not distinct from (filters->>'code')::bigint)
    and (not filters ? 'country' or o.origin->>'country' is not distinct from filters->>'country')
    and (not filters ? 'device' or o.origin->>'device' is not distinct from filters->>'device')
    and (named = '{}' or o.origin @> named) and not o.origin ?| unnamed
    and (not filters ? 'referrer' or o.origin->>'referrer' is not distinct from filters->>'referrer')
    and (not filters ? 'page' or o.origin->>'page' is not distinct from filters->>'page');
end $$;

-- Both ranges by interval, in whole days of UTC: `previous_from` is as long before `current_from` as the last day of the range is after it, and what
-- is before `current_from` stands at the interval of the range that is as far into it. Of what is further into it than now is, to the quarter of an
-- hour, nothing is told, so that what goes on is compared with what had come by then. Sales are those of all currencies, money is that of one. A row whose
-- `is_before` is null says from when on rows were read, where two filters make that necessary: the range before is left out where not all is.
create or replace function read_series(
  of_program_id bigint, filters jsonb, previous_from timestamptz, current_from timestamptz, until timestamptz, every text, of_currency text,
  moment timestamptz
) returns table (
  starts timestamptz, is_before boolean, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint,
  commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  between_ranges constant interval := make_interval(secs => extract(epoch from current_from - previous_from)::double precision);
  from_day constant date := utc_day(previous_from);
  until_day constant date := utc_day(until - interval '1 millisecond');
  -- The day that is cut where as much of the time before is over as of the range.
  cut_day constant date := utc_day(moment - between_ranges);
  names constant text[] := array(select jsonb_object_keys(filters));
  name constant grouping_name := coalesce(names[1], 'all');
  wanted constant text := filters->>name::text;
  -- What had no value of a grouping is what the whole has more than all its values.
  is_rest constant boolean := cardinality(names) = 1 and wanted is null;
  added_name constant grouping_name := case when is_rest then 'all' else name end;
  added_value constant text := coalesce(wanted, '');
  is_compared boolean;
  part record;
  before record;
begin
  if cardinality(names) > 1 then
    part := parts_read(of_program_id, filters, current_from, until, true, true);
    before := parts_read(of_program_id, filters, previous_from, current_from, true, true);
    is_compared := previous_from < current_from and part.read_from = current_from and before.read_from = previous_from;
    return query
    select case when is_compared then previous_from else part.read_from end, null::boolean, null::bigint, null::bigint, null::bigint, null::bigint,
      null::bigint, null::bigint, null::bigint
    union all
    select date_trunc(every, f.at + case when f.is_before then between_ranges else interval '0' end, 'UTC'), f.is_before, sum(f.clicks), sum(f.leads),
      sum(f.conversions), sum(f.sales), sum(f.revenue_cents)::bigint, sum(f.commission_cents)::bigint, sum(f.refunded_cents)::bigint
    from (
      select false as is_before, f.*
      from filtered_facts(of_program_id, filters, part.read_from, until, part.quarters, part.days, of_currency, null, false) f
      union all
      select true, f.*
      from filtered_facts(of_program_id, filters, previous_from, least(current_from, moment - between_ranges), before.quarters, before.days, of_currency,
        null, false) f
      where is_compared
    ) f
    group by 1, 2;
    return;
  end if;
  return query
  with day as (
    select distinct t.day from grouped_days t
    where t.program_id = of_program_id and t.grouping_name = 'all' and t.day between from_day and until_day
  )
  select date_trunc(every, h.at + case when h.at < current_from then between_ranges else interval '0' end, 'UTC'), h.at < current_from,
    sum(h.sign * h.clicks)::bigint, sum(h.sign * h.leads)::bigint, sum(h.sign * h.conversions)::bigint, sum(h.sign * h.sales)::bigint,
    sum(case when h.currency = of_currency then h.sign * h.revenue_cents else 0 end)::bigint,
    sum(case when h.currency = of_currency then h.sign * h.commission_cents else 0 end)::bigint,
    sum(case when h.currency = of_currency then h.sign * h.refunded_cents else 0 end)::bigint
  from (
    select t.day::timestamp at time zone 'UTC' as at, t.sign, t.currency::text, t.clicks, t.leads, t.conversions, t.sales, t.revenue_cents,
      t.commission_cents, t.refunded_cents
    from day d
    cross join lateral (
      select 1 as sign, t.* from grouped_days t
      where t.program_id = of_program_id and t.grouping_name = added_name and t.day = d.day and t.value = added_value
      union all
      select -1, t.* from grouped_days t where t.program_id = of_program_id and t.grouping_name = name and t.day = d.day and is_rest
      offset 0
    ) t
    where every <> 'hour' and d.day <> cut_day
    union all
    select (t.day::timestamp at time zone 'UTC') + u.quarter * interval '15 minutes', t.sign, t.currency,
      case t.metric when 'clicks' then a.amount else 0 end, case t.metric when 'leads' then a.amount else 0 end,
      case t.metric when 'conversions' then a.amount else 0 end, case t.metric when 'sales' then a.amount else 0 end,
      case t.metric when 'revenue' then a.amount else 0 end, case t.metric when 'commission' then a.amount else 0 end,
      case t.metric when 'refunded' then a.amount else 0 end
    from day d
    cross join lateral (
      select 1 as sign, t.* from grouped_quarters t
      where t.program_id = of_program_id and t.grouping_name = added_name and t.day = d.day and t.value = added_value
      union all
      select -1, t.* from grouped_quarters t where t.program_id = of_program_id and t.grouping_name = name and t.day = d.day and is_rest
      offset 0
    ) t
    cross join lateral unnest(t.quarters, t.sums) with ordinality u (quarter, sum, n)
    cross join lateral (select u.sum - coalesce(t.sums[u.n - 1], 0) as amount) a
    where every = 'hour' or d.day = cut_day
    union all
    select u.at, case when u.grouping_name = added_name and u.value = added_value then 1 else -1 end, u.currency, u.clicks, u.leads, u.conversions,
      u.sales, u.revenue_cents, u.commission_cents, u.refunded_cents
    from uncounted_groups(of_program_id, previous_from, until) u
    where u.grouping_name = added_name and u.value = added_value or is_rest and u.grouping_name = name
  ) h
  where h.at >= current_from or h.at + between_ranges <= moment
  group by 1, 2;
end $$;

-- The values that come first by the metric, in each breakdown, with the metric's figure and how many values there are. A conversion rate has its two
-- figures, and comes first by its conversions. Null is what had no value, empty what is not kept apart. Without a metric it is revenue where there was
-- any in these days, else clicks. The breakdown `label` says what the partner, the link and the code are called that it is filtered by, and `read_from` since when
-- rows were read.
create or replace function read_breakdowns(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, asked_metric text, of_currency text, max_values integer
) returns table (of_metric text, breakdown text, value text, label text, "values" bigint, amount bigint, clicks bigint)
language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  names constant grouping_name[] := '{partner,link,code,country,device,referrer,page}' || campaign_groupings()::grouping_name[];
  from_day constant date := utc_day(from_time);
  until_day constant date := utc_day(until - interval '1 millisecond');
  chosen constant text := coalesce(asked_metric, (
    select 'revenue' from daily_money m where m.program_id = of_program_id and m.currency = of_currency and m.day between from_day and until_day
    having sum(m.revenue_cents) > 0
  ), 'clicks');
  main constant grouped_metric := case chosen when 'conversion' then 'conversions' else chosen end;
  with_clicks constant boolean := chosen = any ('{clicks,conversion}');
  -- Then the chart is of these rows too.
  is_crossed constant boolean := (select count(*) > 1 from jsonb_object_keys(filters));
  part record;
begin
  return query
  select chosen, 'label', f.key, l.label, 0::bigint, 0::bigint, 0::bigint
  from jsonb_each_text(filters) f cross join lateral label_of_group(of_program_id, f.key, f.value) l (label)
  where l.label is not null;
  if filters <> '{}' then
    part := parts_read(of_program_id, filters, from_time, until, with_clicks or is_crossed, chosen <> 'clicks' or is_crossed);
    return query
    with fact as materialized (
      select f.*, (case main when 'clicks' then f.clicks when 'leads' then f.leads when 'conversions' then f.conversions when 'sales' then f.sales
        when 'revenue' then f.revenue_cents else f.commission_cents end)::bigint as amount
      from filtered_facts(of_program_id, filters, part.read_from, until, part.quarters, part.days, of_currency, chosen, with_clicks) f
    ),
    campaign as materialized (
      select v.key as name, v.value, sum(f.amount)::bigint as amount, sum(f.clicks)::bigint as clicks
      from fact f cross join lateral jsonb_each_text(f.campaign) v
      where f.campaign is not null and v.key = any (campaign_groupings()) and (f.amount <> 0 or f.clicks <> 0)
      group by 1, 2
    ),
    listed as (
      select case
          when grouping(f.partner) = 0 then 'partner' when grouping(f.link) = 0 then 'link' when grouping(f.code) = 0 then 'code' when grouping(f.country) = 0 then 'country'
          when grouping(f.device) = 0 then 'device' when grouping(f.referrer) = 0 then 'referrer' else 'page'
        end as breakdown, coalesce(f.partner, f.link, f.code, f.country, f.device, f.referrer, f.page) as value,
        sum(f.amount)::bigint as amount, sum(f.clicks)::bigint as clicks
      from fact f where f.amount <> 0 or chosen = 'conversion' and f.clicks <> 0
      group by grouping sets ((f.partner), (f.link), (f.code), (f.country), (f.device), (f.referrer), (f.page))
      union all
      select c.name, c.value, c.amount, c.clicks from campaign c
      union all
      -- What named nothing is what there is more in all.
      select n.name, null, w.amount - coalesce(c.amount, 0), w.clicks - coalesce(c.clicks, 0)
      from unnest(campaign_groupings()) n (name)
      cross join (select coalesce(sum(f.amount), 0)::bigint as amount, coalesce(sum(f.clicks), 0)::bigint as clicks from fact f) w
      left join (select c.name, sum(c.amount)::bigint as amount, sum(c.clicks)::bigint as clicks from campaign c group by c.name) c on c.name = n.name
    ),
    ranked as (
      select l.*, row_number() over (partition by l.breakdown order by l.amount desc, l.clicks desc, l.value) as place,
        count(*) over (partition by l.breakdown) as "values"
      from listed l where l.amount <> 0 or l.clicks <> 0
    )
    select chosen, 'read_from', to_char(part.read_from at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), null, 0::bigint, 0::bigint, 0::bigint
    union all
    (select chosen, r.breakdown, r.value, label_of_group(of_program_id, r.breakdown, r.value), r."values", r.amount, r.clicks
    from ranked r where r.place <= max_values order by r.breakdown, r.place);
    return;
  end if;
  return query
  -- A month that is in the range by half or more counts with its total, less the days that are not in it.
  with month as (
    select m.first::date as first, (m.first + interval '1 month')::date as next from generate_series(date_trunc('month', from_day::timestamp), until_day, '1 month') m (first)
  ),
  share as materialized (
    select m.first, m.next, greatest(m.first, from_day) as begins, least(m.next - 1, until_day) as ends,
      2 * (least(m.next - 1, until_day) - greatest(m.first, from_day) + 1) >= least(m.next, utc_day(now()) + 1) - m.first as is_whole
    from month m
  ),
  days as materialized (
    select 1 as sign, s.begins as first, s.ends as last from share s where not s.is_whole
    union all
    select -1, s.first, s.begins - 1 from share s where s.is_whole and s.begins > s.first
    union all
    select -1, s.ends + 1, s.next - 1 from share s where s.is_whole and s.ends < s.next - 1
  ),
  -- Index scans of one grouping and some days each.
  counted as (
    select n.name, t.*, 1 as sign
    from unnest(names || 'all'::grouping_name) n (name) cross join share s
    cross join lateral (
      select t.value, t.currency, t.clicks, t.leads, t.conversions, t.sales, t.revenue_cents, t.commission_cents from grouped_months t
      where t.program_id = of_program_id and t.grouping_name = n.name and t.month = s.first
      offset 0
    ) t
    where s.is_whole
    union all
    select n.name, t.*, d.sign
    from unnest(names || 'all'::grouping_name) n (name) cross join days d
    cross join lateral (
      select t.value, t.currency, t.clicks, t.leads, t.conversions, t.sales, t.revenue_cents, t.commission_cents from grouped_days t
      where t.program_id = of_program_id and t.grouping_name = n.name and t.day between d.first and d.last
      offset 0
    ) t
    union all
    select u.grouping_name, u.value, u.currency::currency_code, u.clicks, u.leads, u.conversions, u.sales, u.revenue_cents, u.commission_cents, 1
    from uncounted_groups(of_program_id, from_time, until) u where u.grouping_name = any (names || 'all'::grouping_name)
  ),
  summed as materialized (
    select c.name, c.value, total(c.sign * m.amount) as amount, total(c.sign * m.clicks) as clicks
    from counted c
    cross join lateral (
      select case main when 'clicks' then c.clicks when 'leads' then c.leads when 'conversions' then c.conversions when 'sales' then c.sales
        when 'revenue' then case c.currency when of_currency then c.revenue_cents else 0 end
        else case c.currency when of_currency then c.commission_cents else 0 end end as amount, case when with_clicks then c.clicks else 0 end as clicks
    ) m
    where m.amount <> 0 or m.clicks <> 0 group by 1, 2
  ),
  totals as materialized (
    select s.name, total(s.amount) as amount, total(s.clicks) as clicks, count(*) filter (where s.amount <> 0 or s.clicks <> 0) as "values"
    from summed s group by s.name
  ),
  -- Null is what a grouping does not list: what the whole has more.
  rest as materialized (
    select n.name, coalesce(w.amount, 0) - coalesce(t.amount, 0) as amount, coalesce(w.clicks, 0) - coalesce(t.clicks, 0) as clicks,
      coalesce(t."values", 0) as "values"
    from unnest(names) n (name) left join totals t on t.name = n.name left join totals w on w.name = 'all'
  )
  select chosen, r.name::text, l.value, label_of_group(of_program_id, r.name::text, l.value), r."values" + (r.amount <> 0 or r.clicks <> 0)::integer, l.amount, l.clicks
  from rest r
  cross join lateral (
    select s.value, s.amount, s.clicks from summed s where s.name = r.name and (s.amount <> 0 or s.clicks <> 0)
    union all
    select null, r.amount, r.clicks where r.amount <> 0 or r.clicks <> 0
    order by 2 desc, 3 desc, 1 limit max_values
  ) l
  order by 2, 6 desc, 7 desc, 3;
end $$;

-- What came by a partner's own links: `all` of it, and of the links and of each parameter that these named the values that come first by commission, with
-- how many there are; a value of null is what named nothing. What a code of theirs brought of somebody who came by no link of theirs is in none, since that click is not theirs. `read_from` says since
-- when rows were read.
create or replace function read_partner_campaigns(
  of_program_id bigint, of_partner_id bigint, filters jsonb, from_time timestamptz, until timestamptz, of_currency text, max_values integer
) returns table (
  breakdown text, value text, label text, "values" bigint, clicks bigint, leads bigint, sales bigint, commission_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  of_theirs constant jsonb := filters || jsonb_build_object('partner', of_partner_id::text);
  part constant record := parts_read(of_program_id, of_theirs, from_time, until, true, true);
begin
  return query
  with fact as materialized (
    select f.* from filtered_facts(of_program_id, of_theirs, part.read_from, until, part.quarters, part.days, of_currency, null, false) f
    where f.link is not null
  ),
  listed as (
    select v.name, v.value, sum(f.clicks)::bigint as clicks, sum(f.leads)::bigint as leads, sum(f.sales)::bigint as sales,
      sum(f.commission_cents)::bigint as commission_cents
    from fact f
    cross join lateral (
      select 'all' as name, '' as value
      union all select 'link', f.link
      union all select c.key, c.value from jsonb_each_text(f.campaign) c where c.key = any (campaign_groupings())
    ) v
    group by 1, 2
  ),
  -- What named nothing is what there is more in all.
  with_rest as (
    select * from listed
    union all
    select n.name, null, w.clicks - n.clicks, w.leads - n.leads, w.sales - n.sales, w.commission_cents - n.commission_cents
    from (
      select l.name, sum(l.clicks)::bigint as clicks, sum(l.leads)::bigint as leads, sum(l.sales)::bigint as sales,
        sum(l.commission_cents)::bigint as commission_cents
      from listed l where l.name = any (campaign_groupings()) group by l.name
    ) n
    join listed w on w.name = 'all' and (w.clicks, w.leads, w.sales, w.commission_cents) <> (n.clicks, n.leads, n.sales, n.commission_cents)
  ),
  ranked as (
    select l.*, row_number() over (partition by l.name order by l.commission_cents desc, l.clicks desc, l.value) as place,
      count(*) over (partition by l.name) as "values"
    from with_rest l
  )
  select 'read_from', to_char(part.read_from at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), null::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
    0::bigint
  union all
  select 'label', k.id::text, k.code, 0, 0, 0, 0, 0 from referral_links k
  where k.program_id = of_program_id and k.id = (filters->>'link')::bigint and k.partner_id = of_partner_id
  union all
  (select r.name, r.value, label_of_group(of_program_id, r.name, r.value), r."values", r.clicks, r.leads, r.sales, r.commission_cents
  from ranked r where r.place <= max_values order by r.name, r.place);
end $$;
