-- the clicks of a link are its click events
select program_id, 'link ' || link_id as subject, format('%s, last %s', c.clicks, c.last) as found,
  format('%s, last %s', e.clicks, e.last) as expected
from (
  select program_id, link_id, clicks, last_clicked_at as last from link_click_counts where ($1::bigint is null or program_id = $1)
) c
full join (
  select program_id, link_id, count(*) as clicks, max(click_timestamp) as last from affiliate_click_events
  where not is_test and ($1::bigint is null or program_id = $1) group by program_id, link_id
) e using (program_id, link_id)
where (c.clicks, c.last) is distinct from (e.clicks::numeric, e.last)
