-- a day's clicks in each grouping match its click events
-- This covers only days with kept events. Erasing a customer removes the values of their clicks, so the numbers of clicks without a value
-- may differ.
with clicked as materialized (
  select e.program_id, (case when e.device_type = 'bot' then 'bot_clicks' else 'clicks' end)::grouped_metric as metric,
    utc_day(e.click_timestamp) as day, count(*) as clicks, count(*) filter (where e.affiliate_url is null) as erased,
    e.link_id, e.geo_country, e.device_type, e.browser_name, values_of_click(e) - '{country,device,browser}'::text[] as others
  from click_events e
  left join uncounted_clicks u on u.program_id = e.program_id and u.clicked_at = e.click_timestamp and u.event_id = e.id
  where not e.is_test and u.event_id is null and ($1::bigint is null or e.program_id = $1)
  group by 1, 2, 3, e.link_id, e.geo_country, e.device_type, e.browser_name, 10
)
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, metric) as subject, coalesce(t.clicks, 0)::text as found,
  coalesce(e.clicks, 0)::text as expected
from (
  select program_id, grouping_name, metric, day, value, sums[cardinality(sums)] as clicks from grouped_quarters
  where metric in ('clicks', 'bot_clicks') and day >= (select coalesce(max(utc_day(since)), '-infinity') from clicks_kept)
    and ($1::bigint is null or program_id = $1)
) t
full join (
  select c.program_id, v.grouping_name::grouping_name, c.metric, c.day, left(v.value, 200) as value, sum(c.clicks) as clicks
  from clicked c
  left join referral_links l on l.id = c.link_id
  cross join lateral (
    values ('all', ''), ('link', c.link_id::text), ('partner', l.partner_id::text), ('country', c.geo_country), ('device', c.device_type),
      ('browser', c.browser_name)
    union all
    select key, value from jsonb_each_text(c.others)
  ) v (grouping_name, value)
  where v.value <> '' or v.grouping_name = 'all'
  group by 1, 2, 3, 4, 5
) e using (program_id, grouping_name, metric, day, value)
left join (
  select program_id, metric, day, sum(erased) as clicks from clicked group by 1, 2, 3
) erased using (program_id, metric, day)
left join (
  select program_id, grouping_name, metric, day, sums[cardinality(sums)] as clicks from grouped_quarters where value = '' and grouping_name <> 'all'
) rest using (program_id, grouping_name, metric, day)
where (value <> '' or grouping_name = 'all') and coalesce(t.clicks, 0) not between
  coalesce(e.clicks, 0) - coalesce(rest.clicks, 0) and coalesce(e.clicks, 0) + case when grouping_name > 'link' then coalesce(erased.clicks, 0) else 0 end
