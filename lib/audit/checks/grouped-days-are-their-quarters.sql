-- the days of grouped totals are the sums of their quarter-hours
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, concat_ws(' ', metric, currency)) as subject,
  coalesce(d.amount, 0)::text as found, coalesce(q.amount, 0)::text as expected
from (
  select t.program_id, t.grouping_name, m.metric, m.currency, t.starts as day, t.value, sum(m.amount) as amount
  from grouped_totals t
  cross join lateral (values
    ('clicks'::grouped_metric, '', t.clicks), ('bot_clicks', '', t.bot_clicks), ('leads', '', t.leads), ('conversions', '', t.conversions),
    ('sales', t.currency, t.sales), ('revenue', t.currency, t.revenue_cents), ('commission', t.currency, t.commission_cents),
    ('refunded', t.currency, t.refunded_cents)
  ) m (metric, currency, amount)
  where t.span = 'day' and m.amount <> 0 and ($1::bigint is null or t.program_id = $1)
  group by 1, 2, 3, 4, 5, 6
) d
full join (
  select program_id, grouping_name, metric, currency, day, value, sums[cardinality(sums)] as amount from grouped_quarters
  where $1::bigint is null or program_id = $1
) q using (program_id, grouping_name, metric, currency, day, value)
where coalesce(d.amount, 0) <> coalesce(q.amount, 0)
