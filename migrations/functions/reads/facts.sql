-- Reads individual clicks, leads, sales and commissions that match filters. Totals have one grouping at a time, so filtered breakdowns and
-- figures with two filters read up to `max_rows_read` rows, newest first.

-- The maximum number of clicks to read. Leads, first purchases, sales and commissions may be twice as many. A click takes 2 to 4 µs and each
-- of the others twice that. With two filters, the chart reads them again.
create or replace function max_rows_read(filters jsonb) returns bigint language sql immutable
return 15000 / (select least(count(*), 2) from jsonb_object_keys(filters));

-- The first day whose clicks are read. The days after it have at most twice the limit. The share of a day that is read follows
-- from the filter value with clicks in the fewest quarters of an hour.
create or replace function first_day_of_clicks(of_program_id bigint, filters jsonb, from_day date, until_day date) returns date
language sql stable set plan_cache_mode = force_custom_plan as $$
  select coalesce(max(e.day), from_day) from (
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
  ) e where e.read > 2 * max_rows_read(filters)
$$;

-- The quarters of an hour with clicks, and how many clicks each has. Clicks of bots are read too.
create or replace function clicks_by_quarter(of_program_id bigint, from_day date, until_day date, from_time timestamptz, until timestamptz)
returns table (begins timestamptz, clicks bigint) language sql stable as $$
  select w.begins, sum(w.clicks)::bigint from (
    select day_start(t.day) + u.quarter * interval '15 minutes' as begins, u.sum - coalesce(t.sums[u.n - 1], 0) as clicks
    from grouped_quarters t cross join lateral unnest(t.quarters, t.sums) with ordinality u (quarter, sum, n)
    where t.program_id = of_program_id and t.grouping_name = 'all' and t.metric = any ('{clicks,bot_clicks}') and t.currency = ''
      and t.day between from_day and until_day
    union all
    select date_bin('15 minutes', u.clicked_at, 'epoch'), 1 from uncounted_clicks u
    where u.program_id = of_program_id and u.clicked_at >= from_time and u.clicked_at < until
  ) w group by w.begins
$$;

-- The quarters of an hour in which every filter has a click, and those of uncounted clicks. A filter without a value
-- matches any quarter.
create or replace function fitting_quarters(
  of_program_id bigint, filters jsonb, from_day date, until_day date, from_time timestamptz, until timestamptz
) returns setof timestamptz language sql stable as $$
  select f.begins from (
    select distinct f.key, day_start(t.day) + q.quarter * interval '15 minutes' as begins
    from jsonb_each_text(filters) f
    cross join generate_series(from_day::timestamp, until_day, '1 day') d (day)
    cross join lateral (
      select t.day, t.quarters from grouped_quarters t
      where t.program_id = of_program_id and t.grouping_name = f.key::grouping_name and t.metric = 'clicks' and t.currency = '' and t.day = d.day::date
        and t.value = any (array[f.value, ''])
      offset 0
    ) t
    cross join lateral unnest(t.quarters) q (quarter)
    where f.value is not null
  ) f group by f.begins having count(*) = (select count(*) from jsonb_each_text(filters) f where f.value is not null)
  union
  select date_bin('15 minutes', u.clicked_at, 'epoch') from uncounted_clicks u
  where u.program_id = of_program_id and u.clicked_at >= from_time and u.clicked_at < until
$$;

-- The clicks to read: since `read_from`, and in the given quarters of an hour, or in all if `quarters` is null.
create or replace function clicks_read(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, out read_from timestamptz, out quarters timestamptz[]
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
declare
  until_day constant date := utc_day(until - interval '1 millisecond');
  from_day constant date := first_day_of_clicks(of_program_id, filters, utc_day(from_time), until_day);
  fits_all constant boolean := not exists (select from jsonb_each_text(filters) f where f.value is not null);
begin
  with placed as (
    select s.*, sum(s.fits) over (order by s.begins desc) as read
    from (
      select w.begins, w.clicks, w.clicks * (fits_all or f.begins is not null)::integer as fits
      from clicks_by_quarter(of_program_id, from_day, until_day, from_time, until) w
      left join fitting_quarters(of_program_id, filters, from_day, until_day, from_time, until) f (begins) on f.begins = w.begins
    ) s
  ),
  kept as (
    select p.* from placed p where p.read <= greatest(max_rows_read(filters), (select min(first.read) from placed first where first.fits > 0))
  )
  select greatest(from_time, case when from_day > utc_day(from_time) or exists (
      select from placed p where p.fits > 0 and p.begins < (select min(k.begins) from kept k)
    ) then coalesce(min(k.begins), day_start(from_day)) end),
    case when sum(k.clicks) > 2 * sum(k.fits) then array_agg(k.begins order by k.begins) filter (where k.fits > 0) end
  into read_from, quarters
  from kept k;
end $$;

-- The leads, first purchases, sales and commissions to read: since `read_from`, and on the given days.
create or replace function days_read(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, out read_from timestamptz, out days date[]
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
declare
  listed constant bigint := (select count(*) from jsonb_each_text(filters) f where f.value is not null);
begin
  with whole as (
    select t.starts as day, sum(t.leads + t.conversions + 2 * t.sales) as rows from grouped_totals t
    where t.program_id = of_program_id and t.grouping_name = 'all' and t.span = 'day'
      and t.starts between utc_day(from_time) and utc_day(until - interval '1 millisecond') group by t.starts
    union all
    select utc_day(u.at), 0 from uncounted_figures u where u.program_id = of_program_id and u.at >= from_time and u.at < until
  ),
  placed as (
    select w.day, sum(sum(w.rows)) over (order by w.day desc) as read
    from whole w
    where w.rows = 0 or listed = (
      select count(distinct f.key) from jsonb_each_text(filters) f
      join grouped_totals t on t.program_id = of_program_id and t.grouping_name = f.key::grouping_name and t.span = 'day' and t.starts = w.day
        and t.value = any (array[f.value, ''])
      where f.value is not null and (t.leads <> 0 or t.conversions <> 0 or t.sales <> 0 or t.revenue_cents <> 0 or t.commission_cents <> 0)
    )
    group by w.day
  ),
  kept as (select p.day from placed p where p.read <= greatest(max_rows_read(filters) / 2, (select min(first.read) from placed first)))
  select coalesce(array_agg(k.day), '{}'),
    greatest(from_time, case when exists (select from placed p where p.day < (select min(k.day) from kept k)) then day_start(min(k.day)) end)
  into days, read_from
  from kept k;
end $$;

-- The campaign values in filters, and the campaign parameters that a click must not have.
create or replace function campaign_wanted(filters jsonb) returns jsonb language sql immutable as $$
  select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(filters) f where f.key = any (campaign_groupings()) and f.value <> 'null'
$$;
create or replace function campaign_unwanted(filters jsonb) returns text[] language sql immutable as $$
  select coalesce(array_agg(f.key), '{}') from jsonb_each(filters) f where f.key = any (campaign_groupings()) and f.value = 'null'
$$;

-- The clicks of a range that match the filters. A filter is a grouping and its value, or null for clicks without one.
-- The caller can omit the host and the page, because computing them takes as long as reading the click.
create or replace function filtered_clicks(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, quarters timestamptz[], with_pages boolean
) returns table (
  at timestamptz, partner text, link text, country text, device text, referrer text, page text, campaign jsonb
) language plpgsql stable set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  wanted constant jsonb := campaign_wanted(filters);
  unwanted constant text[] := campaign_unwanted(filters);
begin
  return query
  select e.click_timestamp, k.partner_id::text, e.link_id::text, left(nullif(e.geo_country, ''), 200), e.device_type,
    case when with_pages then host_of_referrer(e.referrer_url) end, case when with_pages then page_of_click(e.page_url, e.affiliate_url) end, e.campaign
  from (
    select from_time as begins, until as ends where quarters is null
    union all
    select greatest(q, from_time), least(q + interval '15 minutes', until) from unnest(quarters) q
  ) part
  cross join lateral (
    select * from click_events e
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
    and (wanted = '{}' or e.campaign @> wanted) and not coalesce(e.campaign ?| unwanted, false)
    and (not filters ? 'referrer' or host_of_referrer(e.referrer_url) is not distinct from filters->>'referrer')
    and (not filters ? 'page' or page_of_click(e.page_url, e.affiliate_url) is not distinct from filters->>'page');
end $$;

-- The leads, first purchases, sales and commissions of the given days, each with the amount of one metric, its customer and its code.
create or replace function figures_of_days(
  of_program_id bigint, from_time timestamptz, until timestamptz, days date[], of_currency text, metrics grouped_metric[]
) returns table (at timestamptz, customer_id bigint, partner_id bigint, code_id bigint, metric grouped_metric, amount bigint)
language sql stable as $$
  select f.* from (
    select greatest(day_start(d), from_time) as begins, least(day_start(d + 1), until) as ends from unnest(days) d
  ) part
  cross join lateral (
    select c.signup_date, c.id, c.partner_id, null::bigint, 'leads'::grouped_metric, 1::bigint from customers c
    where c.program_id = of_program_id and c.signup_date >= part.begins and c.signup_date < part.ends and 'leads' = any (metrics)
      and (c.imported_at is null or c.signup_date > c.imported_at)
    union all
    select c.first_purchase_date, c.id, coalesce((
        select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = c.code_id
      ), c.partner_id), c.code_id, 'conversions', 1 from customers c
    where c.program_id = of_program_id and c.first_purchase_date >= part.begins and c.first_purchase_date < part.ends and 'conversions' = any (metrics)
      and (c.imported_at is null or c.first_purchase_date > c.imported_at)
    union all
    select s.sale_date, s.customer_id, s.partner_id, s.code_id, m.metric, m.amount
    from sales s
    cross join lateral (values
      ('sales'::grouped_metric, 1), ('revenue', case s.currency when of_currency then s.amount_cents else 0 end),
      ('refunded', case s.currency when of_currency then s.refunded_cents else 0 end)
    ) m (metric, amount)
    where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
      and s.sale_date >= part.begins and s.sale_date < part.ends and metrics && '{sales,revenue,refunded}' and m.metric = any (metrics)
    union all
    select m.created_at, m.customer_id, m.partner_id, m.code_id, 'commission', m.amount_cents - m.reversed_cents from commissions m
    where m.program_id = of_program_id and m.created_at >= part.begins and m.created_at < part.ends and m.currency = of_currency
      and not m.is_shadow and 'commission' = any (metrics)
  ) f (at, customer_id, partner_id, code_id, metric, amount)
$$;

-- The figures that match the filters, by the click that the customer had when they were first counted.
create or replace function filtered_figures(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, days date[], of_currency text, metrics grouped_metric[]
) returns table (
  at timestamptz, partner text, link text, code text, country text, device text, referrer text, page text, campaign jsonb, metric grouped_metric,
  amount bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  wanted constant jsonb := campaign_wanted(filters);
  unwanted constant text[] := campaign_unwanted(filters);
begin
  return query
  select f.at, f.partner_id::text, referring_link(c, f.partner_id)::text, f.code_id::text, o.origin->>'country', o.origin->>'device',
    o.origin->>'referrer', o.origin->>'page', o.origin, f.metric, f.amount
  from figures_of_days(of_program_id, from_time, until, days, of_currency, metrics) f
  join customers c on c.program_id = of_program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = of_program_id and known.customer_id = f.customer_id
  cross join lateral (select coalesce(known.origin, origin_of_customer(c, c.last_click_at)) as origin) o
  where (not filters ? 'partner' or f.partner_id = (filters->>'partner')::bigint)
    and (not filters ? 'link' or referring_link(c, f.partner_id) is not distinct from (filters->>'link')::bigint)
    and (not filters ? 'code' or f.code_id is not distinct from (filters->>'code')::bigint)
    and (not filters ? 'country' or o.origin->>'country' is not distinct from filters->>'country')
    and (not filters ? 'device' or o.origin->>'device' is not distinct from filters->>'device')
    and (wanted = '{}' or o.origin @> wanted) and not o.origin ?| unwanted
    and (not filters ? 'referrer' or o.origin->>'referrer' is not distinct from filters->>'referrer')
    and (not filters ? 'page' or o.origin->>'page' is not distinct from filters->>'page');
end $$;

-- The rows to read in a range since `read_from`: clicks in the given quarters of an hour, and other rows on the given days.
create or replace function rows_read(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, with_clicks boolean, with_others boolean,
  out read_from timestamptz, out quarters timestamptz[], out days date[]
) language plpgsql stable as $$
begin
  read_from := from_time;
  if with_clicks then
    select c.read_from, c.quarters into read_from, quarters from clicks_read(of_program_id, filters, from_time, until) c;
  end if;
  if with_others then
    select d.read_from, d.days into read_from, days from days_read(of_program_id, filters, read_from, until) d;
  end if;
end $$;

-- The rows that match the filters, as amounts of one metric each, with their values.
create or replace function filtered_facts(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, quarters timestamptz[], days date[], of_currency text,
  metrics grouped_metric[], with_pages boolean
) returns table (
  at timestamptz, partner text, link text, code text, country text, device text, referrer text, page text, campaign jsonb, metric grouped_metric,
  amount bigint
) language sql stable as $$
  select e.at, e.partner, e.link, null, e.country, e.device, e.referrer, e.page, e.campaign, 'clicks', 1
  from filtered_clicks(of_program_id, filters, from_time, until, quarters, with_pages) e where 'clicks' = any (metrics)
  union all
  select * from filtered_figures(of_program_id, filters, from_time, until, days, of_currency, metrics)
$$;
