-- clicks whose events were dropped are in the totals of their days
select program_id, 'clicks of dropped months' as subject, coalesce(t.clicks, 0)::text as found, coalesce(d.clicks, 0)::text as expected
from (
  select program_id, sum(clicks) as clicks from link_months
  where month = '-infinity' and ($1::bigint is null or program_id = $1) group by program_id
) d
full join (
  select program_id, sum(clicks) as clicks from daily_totals
  where day < (select utc_day(since) from clicks_kept) and ($1::bigint is null or program_id = $1) group by program_id
) t using (program_id)
where coalesce(t.clicks, 0) <> coalesce(d.clicks, 0)
