-- the quarter-hours of grouped totals are in order, each with its sum
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, metric) as subject, quarters::text as found,
  'quarters from 0 to 95, in order, as many as sums' as expected
from grouped_quarters
where ($1::bigint is null or program_id = $1) and (
  cardinality(quarters) is distinct from cardinality(sums) or cardinality(quarters) = 0
  or quarters <> array(select distinct q from unnest(quarters) q where q between 0 and 95 order by q)
)
union all
select program_id, 'all, day ' || day || ', clicks', sum(all_clicks)::text, sum(link_clicks)::text
from (
  select program_id, day, quarter, case when grouping_name = 'all' then clicks else 0 end as all_clicks,
    case when grouping_name = 'link' then clicks else 0 end as link_clicks
  from (
    select program_id, grouping_name, day, u.quarter, u.sum - lag(u.sum, 1, 0) over (partition by program_id, grouping_name, day, value order by u.quarter) as clicks
    from grouped_quarters cross join unnest(quarters, sums) u (quarter, sum)
    where metric = 'clicks' and grouping_name in ('all', 'link') and ($1::bigint is null or program_id = $1)
  ) quarters
) part
group by program_id, day, quarter having sum(all_clicks) <> sum(link_clicks)
