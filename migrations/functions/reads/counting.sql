-- Counts clicks, leads, sales and commissions by the values of their clicks. Only this file writes the totals
-- (`grouped_totals`, `grouped_quarters`). A click or a sale only adds a row to `uncounted_clicks` or
-- `uncounted_figures`.

-- The number of the quarter of an hour in the UTC day, 0 to 95.
create or replace function quarter_of_day(at timestamptz) returns smallint language sql immutable
as $$ select (floor(extract(epoch from at) / 900)::bigint % 96)::smallint $$;

-- The host of the referring page.
create or replace function host_of_referrer(referrer_url text) returns text language sql immutable
return left(substring(lower(referrer_url) from '^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#:]+)'), 200);

-- The landing page of a click, without its query.
create or replace function page_of_click(page_url text, affiliate_url text) returns text language sql immutable
return left(nullif(substring(coalesce(nullif(page_url, ''), affiliate_url) from '^[^?#]+'), ''), 200);

-- The groupings by a link's campaign parameters (see lib/tracking/campaign.ts).
create or replace function campaign_groupings() returns text[] language sql immutable
return array['utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content', 'sub1', 'sub2', 'sub3'];

-- Returns whether stored JSON is a campaign. An old import could contain any other JSON, and such a row must not stop the counting of all
-- programs.
create or replace function is_campaign(stored jsonb) returns boolean language sql immutable
return jsonb_typeof(stored) = 'object' and stored - campaign_groupings() = '{}' and not jsonb_path_exists(stored, '$.* ? (@.type() <> "string")');

-- The values of a click, by grouping.
create or replace function values_of_click(click click_events) returns jsonb language sql immutable
return jsonb_strip_nulls(jsonb_build_object(
  'country', left(nullif((click).geo_country, ''), 200),
  'device', (click).device_type,
  'browser', left(nullif((click).browser_name, ''), 200),
  'referrer', host_of_referrer((click).referrer_url),
  'page', page_of_click((click).page_url, (click).affiliate_url)
)) || case when is_campaign((click).campaign) then (click).campaign else '{}' end;

-- The groupings and values under which an event counts. A null id has no row. Ignores everything in `origin` that isn't the value of a
-- grouping, for the same reason.
create or replace function values_grouped_by(of_partner_id bigint, of_link_id bigint, of_code_id bigint, origin jsonb)
returns table (grouping_name grouping_name, value text) language sql immutable as $$
  select 'all'::grouping_name, ''
  union all select 'partner', of_partner_id::text where of_partner_id is not null
  union all select 'link', of_link_id::text where of_link_id is not null
  union all select 'code', of_code_id::text where of_code_id is not null
  union all select g, left(origin->>g::text, 200) from unnest(enum_range('country'::grouping_name, null)) g where origin->>g::text <> ''
$$;

-- The link that led a customer to this partner, or null if a code assigned the customer to a partner other than the link's.
create or replace function referring_link(c customers, of_partner_id bigint) returns bigint language sql immutable
return case when (c).partner_id = of_partner_id then (c).link_id end;

-- Adds running totals of quarters to those of a day. Most additions belong to the latest quarter or to a later one.
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

-- The maximum number of values of each grouping that the clicks of one address add in a run of count_clicks. A value takes a kilobyte, and
-- there is a run every 25 seconds. So an address that invents values in many programs can't fill the disk.
create or replace function max_values_of_visitor() returns integer language sql immutable return 10;

-- Sums figures. After the first 200 values of a day and grouping, replaces further values with the empty value.
create or replace function limit_values(figures grouped_figure[]) returns grouped_figure[] language sql stable as $$
  with summed as materialized (
    select program_id, grouping_name, metric, currency, day, value, quarter, sum(amount)::bigint as amount from unnest(figures)
    where amount <> 0 group by 1, 2, 3, 4, 5, 6, 7
  ),
  new as materialized (
    select s.program_id, s.grouping_name, s.day, s.value, row_number() over (
      partition by s.program_id, s.grouping_name, s.day order by sum(s.amount) desc, s.value
    ) as place
    from summed s
    where s.grouping_name > 'device' and not exists (
      select from grouped_totals t where t.program_id = s.program_id and t.grouping_name = s.grouping_name and t.span = 'day' and t.starts = s.day
        and t.value = s.value
    )
    group by s.program_id, s.grouping_name, s.day, s.value
  ),
  beyond as materialized (
    select n.* from new n
    join (
      select d.*, (
        select count(distinct t.value) from grouped_totals t where t.program_id = d.program_id and t.grouping_name = d.grouping_name
          and t.span = 'day' and t.starts = d.day and t.value <> ''
      ) as existing
      from (select distinct program_id, grouping_name, day from new) d
    ) of_day using (program_id, grouping_name, day)
    where of_day.existing + n.place > max_values_of_day()
  )
  select array_agg(row(s.program_id, s.grouping_name, s.metric, s.currency, s.day, case when b.place is null then s.value else '' end, s.quarter,
    s.amount)::grouped_figure)
  from summed s left join beyond b using (program_id, grouping_name, day, value)
$$;

create or replace function add_totals(figures grouped_figure[]) returns void language sql as $$
  insert into grouped_totals as kept (program_id, grouping_name, span, starts, value, currency, clicks, bot_clicks, leads, conversions, sales,
    revenue_cents, commission_cents, refunded_cents)
  select d.program_id, d.grouping_name, s.span, s.starts, d.value, d.currency, sum(d.clicks), sum(d.bot_clicks), sum(d.leads), sum(d.conversions),
    sum(d.sales), sum(d.revenue_cents), sum(d.commission_cents), sum(d.refunded_cents)
  from (
    select f.program_id, f.grouping_name, f.day, f.value, f.currency,
      coalesce(sum(f.amount) filter (where f.metric = 'clicks'), 0) as clicks,
      coalesce(sum(f.amount) filter (where f.metric = 'bot_clicks'), 0) as bot_clicks,
      coalesce(sum(f.amount) filter (where f.metric = 'leads'), 0) as leads,
      coalesce(sum(f.amount) filter (where f.metric = 'conversions'), 0) as conversions,
      coalesce(sum(f.amount) filter (where f.metric = 'sales'), 0) as sales,
      coalesce(sum(f.amount) filter (where f.metric = 'revenue'), 0) as revenue_cents,
      coalesce(sum(f.amount) filter (where f.metric = 'commission'), 0) as commission_cents,
      coalesce(sum(f.amount) filter (where f.metric = 'refunded'), 0) as refunded_cents
    from unnest(figures) f
    group by 1, 2, 3, 4, 5
  ) d
  cross join lateral (values ('day'::total_span, d.day), ('month', date_trunc('month', d.day::timestamp)::date)) s (span, starts)
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (program_id, grouping_name, span, starts, value, currency) do update set
    clicks = kept.clicks + excluded.clicks, bot_clicks = kept.bot_clicks + excluded.bot_clicks, leads = kept.leads + excluded.leads,
    conversions = kept.conversions + excluded.conversions, sales = kept.sales + excluded.sales,
    revenue_cents = kept.revenue_cents + excluded.revenue_cents, commission_cents = kept.commission_cents + excluded.commission_cents,
    refunded_cents = kept.refunded_cents + excluded.refunded_cents
$$;

create or replace function add_totals_of_quarters(figures grouped_figure[]) returns void language sql as $$
  insert into grouped_quarters as kept (program_id, grouping_name, metric, currency, day, value, quarters, sums)
  select program_id, grouping_name, metric, currency, day, value, array_agg(quarter order by quarter), array_agg(sum order by quarter)
  from (
    select f.program_id, f.grouping_name, f.metric, f.currency, f.day, f.value, f.quarter, (sum(sum(f.amount)) over (
      partition by f.program_id, f.grouping_name, f.metric, f.currency, f.day, f.value order by f.quarter
    ))::bigint as sum
    from unnest(figures) f
    group by 1, 2, 3, 4, 5, 6, 7
  ) summed
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (program_id, grouping_name, metric, currency, day, value) do update set (quarters, sums) = (
    select a.quarters, a.sums from add_quarters(kept.quarters, kept.sums, excluded.quarters, excluded.sums) a
  )
$$;

-- Adds figures to the totals, in the order of their keys, so that two runs never deadlock.
create or replace function add_grouped(figures grouped_figure[]) returns void language plpgsql as $$
declare
  kept constant grouped_figure[] := limit_values(figures);
begin
  perform add_totals(kept);
  perform add_totals_of_quarters(kept);
  if has_click_sink() then
    insert into unsent_counts (program_id, grouping_name, metric, day, value)
    select distinct f.program_id, f.grouping_name, f.metric, f.day, f.value from unnest(kept) f where f.metric in ('clicks', 'bot_clicks');
  end if;
end $$;

-- Returns the values of the customer's latest click, at `clicked_at`, or of the first click if the latest
-- one used another link than the customer's. The click id contains the time of the first click.
create or replace function origin_of_customer(c customers, clicked_at timestamptz) returns jsonb language sql stable
return coalesce((select values_of_click(e) from click_of_customer(c, clicked_at) e), '{}');

-- The figures of one uncounted row, with the empty currency for counts.
create or replace function figures_of(f uncounted_figures) returns table (metric grouped_metric, currency text, amount bigint)
language sql immutable as $$
  select m.metric, case when m.is_money then (f).currency::text else '' end, m.amount
  from (values
    ('leads'::grouped_metric, (f).leads, false), ('conversions', (f).conversions, false), ('sales', (f).sales, true),
    ('revenue', (f).revenue_cents, true), ('commission', (f).commission_cents, true), ('refunded', (f).refunded_cents, true)
  ) m (metric, amount, is_money)
  where m.amount <> 0
$$;

-- Moves up to `max_rows` uncounted rows of leads, sales, refunds and corrections into the totals, of one program or of all programs. Returns
-- their number. Runs can overlap with each other and with count_clicks. A customer keeps the origin of their first counted row.
create or replace function count_figures(max_rows integer, of_program_id bigint default null) returns bigint language plpgsql as $$
declare
  taken uncounted_figures[];
begin
  with moved as (
    delete from uncounted_figures
    where ctid = any (array(
      select ctid from uncounted_figures where program_id = of_program_id or of_program_id is null limit max_rows for update skip locked
    ))
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
    select array_agg(row(f.program_id, v.grouping_name, m.metric, m.currency, utc_day(f.at), v.value, quarter_of_day(f.at), m.amount)::grouped_figure)
    from unnest(taken) f
    join customers c on c.program_id = f.program_id and c.id = f.customer_id
    join customer_origins o on o.program_id = f.program_id and o.customer_id = f.customer_id
    cross join lateral values_grouped_by(f.partner_id, referring_link(c, f.partner_id), f.code_id, o.origin) v
    cross join lateral figures_of(f) m
  ));
  return cardinality(taken);
end $$;

-- Moves up to `max_rows` uncounted clicks, of one program or of all programs, into the counters of links, of links by month, of programs by
-- hour, and into the totals. Returns their number. Clicks of bots count only for links and groupings, in separate columns. Runs can overlap: each locks rows that no other run
-- holds, and writes counters in the order of their keys.
create or replace function count_clicks(max_rows integer, of_program_id bigint default null) returns bigint language plpgsql as $$
declare
  has_sink constant boolean := has_click_sink();
  counted bigint;
  figures grouped_figure[];
begin
  with taken as (
    delete from uncounted_clicks
    where ctid = any (array(
      select ctid from uncounted_clicks where program_id = of_program_id or of_program_id is null limit max_rows for update skip locked
    ))
    returning program_id, link_id, clicked_at, event_id, is_bot
  ),
  unsent as (
    insert into unsent_clicks (program_id, clicked_at, event_id) select program_id, clicked_at, event_id from taken where has_sink
  ),
  links as (
    insert into link_clicks as c (program_id, link_id, clicks, bot_clicks, last_clicked_at)
    select program_id, link_id, count(*) filter (where not is_bot), count(*) filter (where is_bot),
      max(clicked_at) filter (where not is_bot)
    from taken group by program_id, link_id order by program_id, link_id
    on conflict (program_id, link_id) do update set clicks = c.clicks + excluded.clicks, bot_clicks = c.bot_clicks + excluded.bot_clicks,
      last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
  ),
  months as (
    insert into link_months as c (program_id, link_id, month, clicks, last_clicked_at)
    select program_id, link_id, month_of(clicked_at), count(*), max(clicked_at) from taken where not is_bot
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (program_id, link_id, month) do update set clicks = c.clicks + excluded.clicks,
      last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
  ),
  hours as (
    insert into daily_totals as c (program_id, day, slot, clicks)
    select program_id, utc_day(clicked_at), 64 * hour_of_day(clicked_at), count(*) from taken where not is_bot
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (program_id, day, slot) do update set clicks = c.clicks + excluded.clicks
  )
  select (select count(*) from taken), (
    select array_agg(row(g.program_id, g.grouping_name, g.metric, '', g.day, g.value, g.quarter, g.clicks)::grouped_figure) from (
      select t.program_id, t.grouping_name, (case when t.is_bot then 'bot_clicks' else 'clicks' end)::grouped_metric as metric,
        utc_day(t.clicked_at) as day, case when t.place > max_values_of_visitor() then '' else t.value end as value,
        quarter_of_day(t.clicked_at) as quarter, count(*) as clicks
      from (
        select t.program_id, t.clicked_at, t.is_bot, v.grouping_name, v.value, case when v.grouping_name > 'device' and e.visitor is not null
          then dense_rank() over (partition by e.visitor, v.grouping_name order by t.program_id, v.value) end as place
        from taken t
        join referral_links l on l.id = t.link_id
        cross join lateral (
          select values_of_click(e) as origin, e.visitor from click_events e
          where e.program_id = t.program_id and not e.is_test and e.click_timestamp = t.clicked_at and e.id = t.event_id
          -- Forces an index lookup for each click.
          offset 0
        ) e
        cross join lateral values_grouped_by(l.partner_id, t.link_id, null, e.origin) v
      ) t
      group by 1, 2, 3, 4, 5, 6
    ) g
  ) into counted, figures;
  if figures is not null then
    perform add_grouped(figures);
  end if;
  return counted;
end $$;

-- The clicks of each link, including uncounted ones.
create or replace view link_click_counts as
select program_id, link_id, sum(clicks) as clicks, sum(bot_clicks) as bot_clicks, max(last_clicked_at) as last_clicked_at
from (
  select program_id, link_id, clicks, bot_clicks, last_clicked_at from link_clicks
  union all
  select program_id, link_id, (not is_bot)::integer, is_bot::integer, case when not is_bot then clicked_at end from uncounted_clicks
) clicked
group by program_id, link_id;
