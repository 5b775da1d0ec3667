-- a day's clicks, leads and conversions, in total and by hour, match its rows
-- Clicks are compared only on days with kept events.
select program_id, concat(day, case when hour > 0 then format(' %s:00', hour - 1) end) as subject,
  format('%s clicks, %s leads, %s conversions', t.clicks, t.leads, t.conversions) as found,
  format('%s clicks, %s leads, %s conversions', e.clicks, e.leads, e.conversions) as expected
from (
  select program_id, day, hour, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions
  from (
    select program_id, day, 0 as hour, clicks, leads, conversions from daily_totals
    union all
    select program_id, day, slot / 64, clicks, leads, conversions from daily_totals where slot > 0
    union all
    select program_id, day, h.hour, h.clicks, h.leads, h.conversions from daily_totals
    cross join unnest(clicks_by_hour, leads_by_hour, conversions_by_hour) with ordinality as h (clicks, leads, conversions, hour)
    union all
    select program_id, utc_day(clicked_at), hour, 1, 0, 0 from uncounted_clicks
    cross join lateral (values (0), (hour_of_day(clicked_at))) as h (hour)
    where not is_bot
  ) part
  where ($1::bigint is null or program_id = $1) group by program_id, day, hour
) t
full join (
  select program_id, day, coalesce(hour, 0) as hour, sum(clicks) as clicks, sum(leads) as leads, sum(conversions) as conversions
  from (
    select program_id, utc_day(click_timestamp) as day, hour_of_day(click_timestamp) as hour, count(*) as clicks, 0 as leads,
      0 as conversions
    from affiliate_click_events where not is_test and device_type is distinct from 'bot' and ($1::bigint is null or program_id = $1) group by 1, 2, 3
    union all
    select program_id, utc_day(signup_date), hour_of_day(signup_date), 0, count(*), 0 from customers
    where signup_date is not null and (imported_at is null or signup_date > imported_at) and customer_status in ('lead', 'conversion') and ($1::bigint is null or program_id = $1) group by 1, 2, 3
    union all
    select program_id, utc_day(first_purchase_date), hour_of_day(first_purchase_date), 0, 0, count(*) from customers
    where first_purchase_date is not null and (imported_at is null or first_purchase_date > imported_at) and customer_status = 'conversion' and ($1::bigint is null or program_id = $1) group by 1, 2, 3
  ) part
  group by program_id, day, grouping sets ((), (hour))
) e using (program_id, day, hour)
where (case when day >= (select coalesce(max(utc_day(since)), '-infinity') from clicks_kept) then coalesce(t.clicks, 0) else 0 end,
    coalesce(t.leads, 0), coalesce(t.conversions, 0))
  <> (coalesce(e.clicks, 0), coalesce(e.leads, 0), coalesce(e.conversions, 0))
