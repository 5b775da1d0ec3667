-- The overview: the figures of a range and of the previous period by interval, and the first values of each breakdown. For lib/tracking/overview.ts.
-- Totals hold figures with at most one filter. Figures of two filters and breakdowns with a filter come from rows (facts.sql).

-- Figures of consecutive intervals, with one filter or none. A filter without a value selects the events without a value of the grouping.
create or replace function series_of_totals(
  of_program_id bigint, filters jsonb, starts timestamptz[], until timestamptz, of_currency text, click_cells jsonb
) returns table (n integer, metric grouped_metric, amount bigint) language plpgsql stable as $$
#variable_conflict use_column
declare
  metrics constant grouped_metric[] := '{clicks,leads,conversions,sales,revenue,commission,refunded}';
  name constant grouping_name := coalesce((select jsonb_object_keys(filters)), 'all');
  wanted constant text := case name when 'all' then '' else filters->>name::text end;
begin
  if wanted is null then
    return query select a.n, a.metric, a.amount
    from amounts_with_rest(of_program_id, array[name], metrics, of_currency, true, series_of_totals.starts, series_of_totals.until, click_cells) a
    where a.value is null;
  else
    return query select a.n, a.metric, a.amount
    from amounts_of_values(of_program_id, array[name], array[wanted], metrics, of_currency, true, series_of_totals.starts, series_of_totals.until,
      click_cells) a;
  end if;
end $$;

-- The range from `starts[1]` to `until` by interval, and the same intervals `days_before` days earlier (0: no comparison), in whole UTC
-- days. An open range is compared with the same part of the previous period, to the quarter of an hour of `moment`. Sales include all
-- currencies, and money only one. With two filters, a row without `n` contains the time from which rows are read. If the previous period
-- can't be read completely, it has no rows.
create or replace function read_series(
  of_program_id bigint, filters jsonb, starts timestamptz[], until timestamptz, days_before integer, of_currency text, moment timestamptz,
  click_cells jsonb
) returns table (n integer, is_before boolean, metric text, amount bigint, read_from timestamptz)
language plpgsql stable as $$
#variable_conflict use_column
declare
  metrics constant grouped_metric[] := '{clicks,leads,conversions,sales,revenue,commission,refunded}';
  current_starts constant timestamptz[] := read_series.starts;
  shift constant interval := make_interval(hours => 24 * days_before);
  previous_starts constant timestamptz[] := array(select s - shift from unnest(current_starts) s order by s);
  previous_until constant timestamptz := least(current_starts[1], date_bin('15 minutes', moment - shift, 'epoch') + interval '15 minutes');
  current_rows record;
  previous_rows record;
  is_compared boolean := days_before > 0;
begin
  if (select count(*) < 2 from jsonb_object_keys(filters)) then
    return query
    select s.n, false, s.metric::text, s.amount, null::timestamptz
    from series_of_totals(of_program_id, filters, current_starts, read_series.until, of_currency, click_cells) s
    union all
    select s.n, true, s.metric::text, s.amount, null
    from series_of_totals(of_program_id, filters, array(select s from unnest(previous_starts) s where s < previous_until order by s), previous_until,
      of_currency, click_cells) s
    where is_compared;
    return;
  end if;
  current_rows := rows_read(of_program_id, filters, current_starts[1], read_series.until, true, true);
  previous_rows := rows_read(of_program_id, filters, previous_starts[1], current_starts[1], true, true);
  is_compared := is_compared and current_rows.read_from = current_starts[1] and previous_rows.read_from = previous_starts[1];
  return query
  select null::integer, null::boolean, null::text, null::bigint, case when is_compared then previous_starts[1] else current_rows.read_from end
  union all
  select width_bucket(f.at, current_starts), false, f.metric::text, total(f.amount), null
  from filtered_facts(of_program_id, filters, current_rows.read_from, read_series.until, current_rows.quarters, current_rows.days, of_currency, metrics,
    false) f
  group by 1, 3
  union all
  select width_bucket(f.at, previous_starts), true, f.metric::text, total(f.amount), null
  from filtered_facts(of_program_id, filters, previous_starts[1], least(current_starts[1], moment - shift), previous_rows.quarters, previous_rows.days,
    of_currency, metrics, false) f
  where is_compared
  group by 1, 3;
end $$;

-- The amounts of facts, or only of facts with a link, by the values of each breakdown. `value` is null for facts without a value.
create or replace function facts_by_value(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, quarters timestamptz[], days date[], of_currency text,
  metrics grouped_metric[], links_only boolean
) returns table (name text, value text, metric grouped_metric, amount bigint) language sql stable as $$
  with fact as materialized (
    select f.* from filtered_facts(of_program_id, filters, from_time, until, quarters, days, of_currency, metrics, 'clicks' = any (metrics)) f
    where f.amount <> 0 and (f.link is not null or not links_only)
  ),
  campaign as materialized (
    select v.key as name, v.value, f.metric, total(f.amount) as amount
    from fact f cross join lateral jsonb_each_text(f.campaign) v
    where f.campaign is not null and v.key = any (campaign_groupings())
    group by 1, 2, 3
  )
  select case
      when grouping(f.partner) = 0 then 'partner' when grouping(f.link) = 0 then 'link' when grouping(f.code) = 0 then 'code'
      when grouping(f.country) = 0 then 'country' when grouping(f.device) = 0 then 'device' when grouping(f.referrer) = 0 then 'referrer' else 'page'
    end, coalesce(f.partner, f.link, f.code, f.country, f.device, f.referrer, f.page), f.metric, total(f.amount)
  from fact f
  group by f.metric, grouping sets ((f.partner), (f.link), (f.code), (f.country), (f.device), (f.referrer), (f.page))
  union all
  select c.name, c.value, c.metric, c.amount from campaign c
  union all
  select n.name, null, f.metric, f.amount - coalesce(c.amount, 0)
  from unnest(campaign_groupings()) n (name)
  cross join (select f.metric, total(f.amount) as amount from fact f group by f.metric) f
  left join (select c.name, c.metric, total(c.amount) as amount from campaign c group by 1, 2) c on c.name = n.name and c.metric = f.metric
$$;

-- The top values of each breakdown by a metric, with their figures and the number of values. A conversion rate has two figures, and its
-- first values are those with the most conversions. `value` is null for events without a value, and empty for values without separate
-- totals. The default metric is revenue if these days have any, or else clicks. The breakdown `label` contains the names of the filters'
-- partner, link and code, and `read_from` is the time from which rows are read.
create or replace function read_breakdowns(
  of_program_id bigint, filters jsonb, from_time timestamptz, until timestamptz, asked_metric text, of_currency text, max_values integer,
  click_cells jsonb
) returns table (of_metric text, breakdown text, value text, label text, "values" bigint, amount bigint, clicks bigint)
language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  names constant grouping_name[] := '{partner,link,code,country,device,referrer,page}' || campaign_groupings()::grouping_name[];
  chosen constant text := coalesce(asked_metric, (
    select 'revenue' from daily_money m
    where m.program_id = of_program_id and m.currency = of_currency and m.day between utc_day(from_time) and utc_day(until - interval '1 millisecond')
    having sum(m.revenue_cents) > 0
  ), 'clicks');
  metrics constant grouped_metric[] := case chosen when 'conversion' then '{conversions,clicks}' else array[chosen::grouped_metric] end;
  -- With two filters, the chart reads the same rows.
  is_crossed constant boolean := (select count(*) > 1 from jsonb_object_keys(filters));
  part record;
begin
  part := rows_read(of_program_id, filters, from_time, until, filters <> '{}' and ('clicks' = any (metrics) or is_crossed),
    filters <> '{}' and (chosen <> 'clicks' or is_crossed));
  return query
  with amount as (
    select a.name, a.value, a.metric, a.amount
    from amounts_with_rest(of_program_id, names, metrics, of_currency, true, array[from_time], until, click_cells) a
    where filters = '{}' and a.name <> 'all'
    union all
    select f.name::grouping_name, f.value, f.metric, f.amount
    from facts_by_value(of_program_id, filters, part.read_from, until, part.quarters, part.days, of_currency, metrics, false) f
    where filters <> '{}'
  ),
  listed as materialized (
    select a.name, a.value, total(a.amount) filter (where a.metric = metrics[1]) as amount,
      total(a.amount) filter (where a.metric = 'clicks') as clicks
    from amount a where a.amount <> 0 group by 1, 2
  ),
  counted as (select l.name, count(*) as "values" from listed l group by 1)
  select chosen, 'label', f.key, l.label, 0::bigint, 0::bigint, 0::bigint
  from jsonb_each_text(filters) f cross join lateral label_of_group(of_program_id, f.key, f.value) l (label)
  where l.label is not null
  union all
  select chosen, 'read_from', to_char(part.read_from at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), null, 0, 0, 0
  union all
  -- Keeping the first values of each breakdown is faster than sorting all values, of which there can be thousands.
  (select chosen, k.name::text, r.value, label_of_group(of_program_id, k.name::text, r.value), k."values", r.amount, r.clicks
  from counted k cross join lateral (
    select l.* from listed l where l.name = k.name order by l.amount desc, l.clicks desc, l.value limit max_values
  ) r
  order by r.name, r.amount desc, r.clicks desc, r.value);
end $$;

-- The exact figures of a partner's links, or of one link, in whole UTC days: for each link, and for all links together (`name` is 'all').
create or replace function counted_partner_figures(
  of_program_id bigint, of_partner_id bigint, of_link_id bigint, from_time timestamptz, until timestamptz, of_currency text
) returns table (name text, value text, clicks bigint, leads bigint, sales bigint, commission_cents bigint)
language sql stable as $$
  with amount as materialized (
    select a.value, a.metric, a.amount
    from amounts_of_values(of_program_id, '{link}', array(
        select k.id::text from referral_links k
        where k.program_id = of_program_id and k.partner_id = of_partner_id and (of_link_id is null or k.id = of_link_id)
      ), '{clicks,leads,sales,commission}', of_currency, true, array[from_time], until, null) a
  )
  select l.name, l.value, total(l.amount) filter (where l.metric = 'clicks'), total(l.amount) filter (where l.metric = 'leads'),
    total(l.amount) filter (where l.metric = 'sales'), total(l.amount) filter (where l.metric = 'commission')
  from (
    select 'link' as name, a.value, a.metric, a.amount from amount a
    union all
    select 'all', null, a.metric, a.amount from amount a
  ) l
  group by 1, 2
$$;

-- The figures of a partner's own links, by link and by campaign parameter: the first values by commission, and their
-- number. `all` is the total, and a null value stands for clicks without the parameter. Excludes sales by the partner's
-- code to customers who never clicked the partner's links. Filters by campaign and the figures of campaigns come from
-- rows, since `read_from`. All other figures are exact totals.
create or replace function read_partner_campaigns(
  of_program_id bigint, of_partner_id bigint, filters jsonb, from_time timestamptz, until timestamptz, of_currency text, max_values integer
) returns table (
  breakdown text, value text, label text, "values" bigint, clicks bigint, leads bigint, sales bigint, commission_cents bigint
) language plpgsql stable set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
  of_theirs constant jsonb := filters || jsonb_build_object('partner', of_partner_id::text);
  part constant record := rows_read(of_program_id, of_theirs, from_time, until, true, true);
  is_counted constant boolean := filters - 'link' = '{}';
begin
  return query
  with amount as materialized (
    select f.* from facts_by_value(of_program_id, of_theirs, part.read_from, until, part.quarters, part.days, of_currency,
      '{clicks,leads,sales,commission}', true) f
    where f.name = any ('{partner,link}' || campaign_groupings()) and f.amount <> 0
  ),
  listed as (
    select case a.name when 'partner' then 'all' else a.name end as name, a.value,
      total(a.amount) filter (where a.metric = 'clicks') as clicks, total(a.amount) filter (where a.metric = 'leads') as leads,
      total(a.amount) filter (where a.metric = 'sales') as sales, total(a.amount) filter (where a.metric = 'commission') as commission_cents
    from amount a where not is_counted or a.name not in ('partner', 'link') group by 1, 2
    union all
    select c.* from counted_partner_figures(of_program_id, of_partner_id, (filters->>'link')::bigint, from_time, until, of_currency) c
    where is_counted
  ),
  ranked as (
    select l.*, row_number() over (partition by l.name order by l.commission_cents desc, l.clicks desc, l.value) as place,
      count(*) over (partition by l.name) as "values"
    from listed l
    -- Skips parameters that don't appear in any click.
    where l.name = 'all' or exists (select from listed named where named.name = l.name and named.value is not null)
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
