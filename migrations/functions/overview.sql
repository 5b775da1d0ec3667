-- The overview: figures by interval of a range and of the one before it, and the values that come first in each breakdown. For lib/tracking/overview.ts.

-- What came about in a range, one row each, of what every filter fits: a click by what it was itself, the rest by the click that their customer had when they
-- were first counted. A filter is named as a grouping, its value null for what had none; it is a click's `utm_source` alone of what its link named. Values
-- of clicks are left out unless they are asked for, since finding a page and a host takes as long as reading the click.
create or replace function filtered_facts(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, of_currency text, with_click_values boolean
) returns table (
  at timestamptz, partner text, link text, country text, device text, referrer text, page text, utm_source text, clicks integer, leads integer,
  conversions integer, sales integer, revenue_cents bigint, commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
  return query
  select e.click_timestamp, k.partner_id::text, e.link_id::text, left(nullif(e.geo_country, ''), 200), e.device_type,
    case when with_click_values then host_of_referrer(e.referrer_url) end,
    case when with_click_values then page_of_click(e.page_url, e.affiliate_url) end,
    e.campaign->>'utm_source', 1, 0, 0, 0, 0::bigint, 0::bigint, 0::bigint
  from affiliate_click_events e
  join referral_links k on k.program_id = e.program_id and k.id = e.link_id
  where e.program_id = of_program_id and not e.is_test and e.click_timestamp >= from_time and e.click_timestamp < until
    and e.device_type is distinct from 'bot'
    and (not filters ? 'partner' or k.partner_id = (filters->>'partner')::bigint)
    and (not filters ? 'link' or e.link_id = (filters->>'link')::bigint)
    and (not filters ? 'country' or left(nullif(e.geo_country, ''), 200) is not distinct from filters->>'country')
    and (not filters ? 'device' or e.device_type is not distinct from filters->>'device')
    and (not filters ? 'utm_source' or e.campaign->>'utm_source' is not distinct from filters->>'utm_source')
    and (not filters ? 'referrer' or host_of_referrer(e.referrer_url) is not distinct from filters->>'referrer')
    and (not filters ? 'page' or page_of_click(e.page_url, e.affiliate_url) is not distinct from filters->>'page')
  union all
  select f.at, f.partner_id::text, c.link_id::text, o.origin->>'country', o.origin->>'device', o.origin->>'referrer', o.origin->>'page',
    o.origin->>'utm_source', 0, f.leads, f.conversions, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from (
    select c.signup_date as at, c.id as customer_id, c.partner_id, 1 as leads, 0 as conversions, 0 as sales, 0::bigint as revenue_cents,
      0::bigint as commission_cents, 0::bigint as refunded_cents
    from customers c where c.program_id = of_program_id and c.signup_date >= from_time and c.signup_date < until
    union all
    select c.first_purchase_date, c.id, c.partner_id, 0, 1, 0, 0, 0, 0 from customers c
    where c.program_id = of_program_id and c.first_purchase_date >= from_time and c.first_purchase_date < until
    union all
    select s.sale_date, s.customer_id, s.partner_id, 0, 0, 1, case s.currency when of_currency then s.amount_cents::bigint else 0 end, 0,
      case s.currency when of_currency then s.refunded_cents::bigint else 0 end
    from sales s
    where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
      and s.sale_date >= from_time and s.sale_date < until
    union all
    select m.created_at, m.customer_id, m.partner_id, 0, 0, 0, 0, m.amount_cents - m.reversed_cents, 0 from commissions m
    where m.program_id = of_program_id and m.created_at >= from_time and m.created_at < until and m.currency = of_currency
  ) f
  join customers c on c.program_id = of_program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = of_program_id and known.customer_id = f.customer_id
  cross join lateral (select coalesce(known.origin, origin_of_customer(c, c.last_click_at)) as origin) o
  where (not filters ? 'partner' or f.partner_id = (filters->>'partner')::bigint)
    and (not filters ? 'link' or c.link_id = (filters->>'link')::bigint)
    and (not filters ? 'country' or o.origin->>'country' is not distinct from filters->>'country')
    and (not filters ? 'device' or o.origin->>'device' is not distinct from filters->>'device')
    and (not filters ? 'utm_source' or o.origin->>'utm_source' is not distinct from filters->>'utm_source')
    and (not filters ? 'referrer' or o.origin->>'referrer' is not distinct from filters->>'referrer')
    and (not filters ? 'page' or o.origin->>'page' is not distinct from filters->>'page');
end $$;

-- Both ranges by interval, in whole days of UTC: `previous_from` is as long before `current_from` as the last day of the range is after it, and what
-- is before `current_from` stands at the interval of the range that is as far into it; where it is further into it than now is, which is told of what
-- is filtered alone, it is `not_yet`. Sales are those of all currencies, money is that of one.
create or replace function read_series(
  of_program_id bigint, filters jsonb, previous_from timestamptz, current_from timestamptz, until timestamptz, every text, of_currency text,
  moment timestamptz
) returns table (
  starts timestamptz, is_before boolean, not_yet boolean, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint,
  commission_cents bigint, refunded_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  between_ranges constant interval := make_interval(secs => extract(epoch from current_from - previous_from)::double precision);
  from_day constant date := utc_day(previous_from);
  until_day constant date := utc_day(until - interval '1 millisecond');
begin
  if filters <> '{}' then
    return query
    select date_trunc(every, f.at + case when f.at < current_from then between_ranges else interval '0' end, 'UTC'),
      f.at < current_from, f.at < current_from and f.at + between_ranges > moment, sum(f.clicks), sum(f.leads), sum(f.conversions), sum(f.sales), sum(f.revenue_cents)::bigint,
      sum(f.commission_cents)::bigint, sum(f.refunded_cents)::bigint
    from filtered_facts(of_program_id, filters, previous_from, until, of_currency, false) f
    group by 1, 2, 3;
    return;
  end if;
  return query
  select date_trunc(every, h.at + case when h.at < current_from then between_ranges else interval '0' end, 'UTC'), h.at < current_from,
    false, sum(h.clicks)::bigint, sum(h.leads)::bigint, sum(h.conversions)::bigint, sum(h.sales)::bigint, sum(h.revenue_cents)::bigint,
    sum(h.commission_cents)::bigint, sum(h.refunded_cents)::bigint
  from (
    select (t.day + make_interval(hours => slot.first_hour + u.n::integer - 1)) at time zone 'UTC' as at, u.clicks, u.leads, u.conversions,
      0::bigint as sales, 0::bigint as revenue_cents, 0::bigint as commission_cents, 0::bigint as refunded_cents
    from daily_totals t
    cross join lateral (
      select every = 'hour' and t.slot = 0 as is_folded, case when every = 'hour' and t.slot > 0 then t.slot / 64 - 1 else 0 end as first_hour
    ) slot
    cross join lateral unnest(
      case when slot.is_folded then t.clicks_by_hour else array[t.clicks::bigint] end,
      case when slot.is_folded then t.leads_by_hour else array[t.leads::bigint] end,
      case when slot.is_folded then t.conversions_by_hour else array[t.conversions] end
    ) with ordinality u (clicks, leads, conversions, n)
    where t.program_id = of_program_id and t.day between from_day and until_day
    union all
    select (m.day + make_interval(hours => slot.first_hour + u.n::integer - 1)) at time zone 'UTC', 0, 0, 0, u.sales,
      case m.currency when of_currency then u.revenue_cents else 0 end, case m.currency when of_currency then u.commission_cents else 0 end,
      case m.currency when of_currency then u.refunded_cents else 0 end
    from daily_money m
    cross join lateral (
      select every = 'hour' and m.slot = 0 as is_folded, case when every = 'hour' and m.slot > 0 then m.slot / 64 - 1 else 0 end as first_hour
    ) slot
    cross join lateral unnest(
      case when slot.is_folded then m.sales_by_hour else array[m.sales] end,
      case when slot.is_folded then m.revenue_cents_by_hour else array[m.revenue_cents] end,
      case when slot.is_folded then m.commission_cents_by_hour else array[m.commission_cents] end,
      case when slot.is_folded then m.refunded_cents_by_hour else array[m.refunded_cents] end
    ) with ordinality u (sales, revenue_cents, commission_cents, refunded_cents, n)
    where m.program_id = of_program_id and m.day between from_day and until_day
    union all
    select u.clicked_at, 1, 0, 0, 0, 0, 0, 0 from uncounted_clicks u
    where u.program_id = of_program_id and not u.is_bot and u.clicked_at >= previous_from and u.clicked_at < until
  ) h
  group by 1, 2;
end $$;

-- The values that come first by the metric, in each breakdown, with the metric's figure and how many values there are. A conversion rate has its two
-- figures, and comes first by its conversions. Null is what had no value, empty what is not kept apart. Without a metric it is revenue where there was
-- any in these days, else clicks. The breakdown `label` says what the partner and the link are called that it is filtered by.
create or replace function read_breakdowns(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, asked_metric text, of_currency text, max_values integer
) returns table (of_metric text, breakdown text, value text, label text, "values" bigint, amount bigint, clicks bigint)
language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  names constant grouping_name[] := '{partner,link,country,device,referrer,page,utm_source}';
  from_day constant date := utc_day(from_time);
  until_day constant date := utc_day(until - interval '1 millisecond');
  chosen constant text := coalesce(asked_metric, (
    select 'revenue' from daily_money m where m.program_id = of_program_id and m.currency = of_currency and m.day between from_day and until_day
    having sum(m.revenue_cents) > 0
  ), 'clicks');
  main constant grouped_metric := case chosen when 'conversion' then 'conversions' else chosen end;
  metrics constant grouped_metric[] := case chosen when 'conversion' then array['conversions', 'clicks']::grouped_metric[] else array[main] end;
begin
  return query
  with filtered as materialized (
    select f.*, (case main when 'clicks' then f.clicks when 'leads' then f.leads when 'conversions' then f.conversions when 'sales' then f.sales
      when 'revenue' then f.revenue_cents else f.commission_cents end)::bigint as amount
    from filtered_facts(of_program_id, filters, from_time, until, of_currency, 'clicks' = any (metrics)) f
    where filters <> '{}'
  ),
  uncounted as (
    select v.grouping_name, v.value, 'clicks'::grouped_metric as metric, 1::bigint as amount
    from uncounted_clicks u
    join referral_links l on l.program_id = u.program_id and l.id = u.link_id
    cross join lateral (
      select values_of_click(e) as origin from affiliate_click_events e
      where e.program_id = u.program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id
      offset 0
    ) e
    cross join lateral values_grouped_by(l.partner_id, u.link_id, e.origin) v
    where u.program_id = of_program_id and not u.is_bot and u.clicked_at >= from_time and u.clicked_at < until and 'clicks' = any (metrics)
    union all
    select v.grouping_name, v.value, m.metric, m.amount
    from uncounted_figures f
    join customers c on c.program_id = f.program_id and c.id = f.customer_id
    left join customer_origins known on known.program_id = f.program_id and known.customer_id = f.customer_id
    cross join lateral values_grouped_by(f.partner_id, c.link_id, coalesce(known.origin, origin_of_customer(c, f.clicked_at))) v
    cross join lateral (values
      ('leads'::grouped_metric, f.leads), ('conversions', f.conversions), ('sales', f.sales),
      ('revenue', f.revenue_cents), ('commission', f.commission_cents)
    ) m (metric, amount)
    where f.program_id = of_program_id and f.at >= from_time and f.at < until and m.metric = any (metrics) and m.amount <> 0
      and (f.currency is null or chosen = 'sales' or f.currency = of_currency)
  ),
  counted as (
    select g.grouping_name, g.value, case main when 'clicks' then g.clicks when 'leads' then g.leads when 'conversions' then g.conversions
        when 'sales' then g.sales when 'revenue' then case g.currency when of_currency then g.revenue_cents else 0 end
        else case g.currency when of_currency then g.commission_cents else 0 end end as amount,
      case when 'clicks' = any (metrics) then g.clicks else 0 end as clicks
    from grouped_days g
    where g.program_id = of_program_id and g.grouping_name = any (names || 'all'::grouping_name) and g.day between from_day and until_day
    union all
    select u.grouping_name, u.value, case when u.metric = main then u.amount else 0 end, case when u.metric = 'clicks' then u.amount else 0 end
    from uncounted u
  ),
  summed as materialized (
    select c.grouping_name, c.value, sum(c.amount)::bigint as amount, sum(c.clicks)::bigint as clicks
    from counted c where filters = '{}' group by 1, 2
  ),
  listed as (
    select s.grouping_name::text as breakdown, s.value, s.amount, s.clicks from summed s where s.grouping_name <> 'all'
    union all
    -- What a grouping does not list is what the whole has more.
    select n.name::text, null, coalesce(w.amount, 0) - l.amount, coalesce(w.clicks, 0) - l.clicks
    from unnest(names) n (name)
    left join summed w on w.grouping_name = 'all'
    cross join lateral (
      select coalesce(sum(s.amount), 0)::bigint as amount, coalesce(sum(s.clicks), 0)::bigint as clicks from summed s where s.grouping_name = n.name
    ) l
    union all
    select case
        when grouping(f.partner) = 0 then 'partner' when grouping(f.link) = 0 then 'link' when grouping(f.country) = 0 then 'country'
        when grouping(f.device) = 0 then 'device' when grouping(f.referrer) = 0 then 'referrer' when grouping(f.page) = 0 then 'page' else 'utm_source'
      end, coalesce(f.partner, f.link, f.country, f.device, f.referrer, f.page, f.utm_source), sum(f.amount)::bigint, sum(f.clicks)::bigint
    from filtered f where f.amount <> 0 or chosen = 'conversion' and f.clicks <> 0
    group by grouping sets ((f.partner), (f.link), (f.country), (f.device), (f.referrer), (f.page), (f.utm_source))
  ),
  ranked as (
    select l.*, row_number() over (partition by l.breakdown order by l.amount desc, l.clicks desc, l.value) as place,
      count(*) over (partition by l.breakdown) as "values"
    from listed l where l.amount <> 0 or l.clicks <> 0
  )
  select chosen, r.breakdown, r.value, case r.breakdown
      when 'partner' then (select p.name::text from partners p where p.program_id = of_program_id and p.id = r.value::bigint)
      when 'link' then (select k.code::text from referral_links k where k.program_id = of_program_id and k.id = r.value::bigint)
    end, r."values", r.amount, r.clicks
  from ranked r where r.place <= max_values
  union all
  select chosen, 'label', 'partner', p.name, 0, 0, 0 from partners p
  where p.program_id = of_program_id and p.id = (filters->>'partner')::bigint
  union all
  select chosen, 'label', 'link', k.code, 0, 0, 0 from referral_links k
  where k.program_id = of_program_id and k.id = (filters->>'link')::bigint
  order by 2, 6 desc, 7 desc, 3;
end $$;
