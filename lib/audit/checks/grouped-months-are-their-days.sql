-- the months of grouped totals are the sums of their days
select program_id, format('%s %s, month %s, %s', grouping_name, quote_literal(value), to_char(month, 'YYYY-MM'), currency) as subject,
  m.figures::text as found, d.figures::text as expected
from (
  select t.program_id, t.grouping_name, t.starts as month, t.value, t.currency,
    array[t.clicks, t.bot_clicks, t.leads, t.conversions, t.sales, t.revenue_cents, t.commission_cents, t.refunded_cents]::numeric[] as figures
  from grouped_totals t where t.span = 'month' and ($1::bigint is null or t.program_id = $1)
) m
full join (
  select t.program_id, t.grouping_name, date_trunc('month', t.starts::timestamp)::date as month, t.value, t.currency,
    array[sum(t.clicks), sum(t.bot_clicks), sum(t.leads), sum(t.conversions), sum(t.sales), sum(t.revenue_cents), sum(t.commission_cents),
      sum(t.refunded_cents)] as figures
  from grouped_totals t where t.span = 'day' and ($1::bigint is null or t.program_id = $1) group by 1, 2, 3, 4, 5
) d using (program_id, grouping_name, month, value, currency)
where m.figures is distinct from d.figures
