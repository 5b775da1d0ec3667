-- a link's clicks in a month match its click events
-- Of dropped months, only the sum is left.
select program_id, format('link %s, month %s', link_id, month) as subject, format('%s, last %s', c.clicks, c.last) as found,
  format('%s, last %s', e.clicks, e.last) as expected
from (
  select program_id, link_id, month, sum(clicks) as clicks, max(last_clicked_at) as last from (
    select program_id, link_id, month, clicks, last_clicked_at from link_months where month > '-infinity'
    union all
    select program_id, link_id, month_of(clicked_at), 1, clicked_at from uncounted_clicks where not is_bot
  ) part
  where ($1::bigint is null or program_id = $1) group by program_id, link_id, month
) c
full join (
  select program_id, link_id, month_of(click_timestamp) as month, count(*) as clicks, max(click_timestamp) as last from affiliate_click_events
  where not is_test and device_type is distinct from 'bot' and ($1::bigint is null or program_id = $1) group by program_id, link_id, month_of(click_timestamp)
) e using (program_id, link_id, month)
where (c.clicks, c.last) is distinct from (e.clicks::numeric, e.last)
