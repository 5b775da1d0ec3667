-- a link's clicks are the sum of its months
select program_id, 'link ' || link_id as subject, format('%s, last %s', c.clicks, c.last) as found,
  format('%s, last %s', m.clicks, m.last) as expected
from (
  select program_id, link_id, clicks, last_clicked_at as last from link_clicks where ($1::bigint is null or program_id = $1)
) c
full join (
  select program_id, link_id, sum(clicks) as clicks, max(last_clicked_at) as last from link_months
  where ($1::bigint is null or program_id = $1) group by program_id, link_id
) m using (program_id, link_id)
where (coalesce(c.clicks, 0)::numeric, c.last) is distinct from (coalesce(m.clicks, 0), m.last)
