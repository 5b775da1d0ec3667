-- a day's sales, revenue, commission and refunds, in total and by hour, match its rows
select program_id, concat_ws(' ', concat(day, case when hour > 0 then format(' %s:00', hour - 1) end), currency) as subject,
  format('%s sales, %s revenue, %s commission, %s refunded', t.sales, t.revenue, t.commission, t.refunded) as found,
  format('%s sales, %s revenue, %s commission, %s refunded', e.sales, e.revenue, e.commission, e.refunded) as expected
from (
  select program_id, day, hour, currency::text, sum(sales) as sales, sum(revenue_cents) as revenue, sum(commission_cents) as commission,
    sum(refunded_cents) as refunded
  from (
    select program_id, day, 0 as hour, currency, sales, revenue_cents, commission_cents, refunded_cents from daily_money
    union all
    select program_id, day, slot / 64, currency, sales, revenue_cents, commission_cents, refunded_cents from daily_money where slot > 0
    union all
    select program_id, day, h.hour, currency, h.sales, h.revenue, h.commission, h.refunded from daily_money
    cross join unnest(sales_by_hour, revenue_cents_by_hour, commission_cents_by_hour, refunded_cents_by_hour) with ordinality
      as h (sales, revenue, commission, refunded, hour)
  ) part
  where ($1::bigint is null or program_id = $1) group by program_id, day, hour, currency
) t
full join (
  select program_id, day, coalesce(hour, 0) as hour, currency::text, sum(sales) as sales, sum(revenue) as revenue,
    sum(commission) as commission, sum(refunded) as refunded
  from (
    select program_id, utc_day(sale_date) as day, hour_of_day(sale_date) as hour, currency, count(*) as sales,
      sum(amount_cents) as revenue, 0 as commission, sum(refunded) as refunded
    from sales
    left join (
      select program_id, sale_id as id, sum(applied_cents) as refunded from refunds
      where returned_at is null and ($1::bigint is null or program_id = $1) group by program_id, sale_id
    ) taken using (program_id, id)
    where not is_test and customer_id is not null and payment_status = 'paid' and ($1::bigint is null or program_id = $1)
    group by 1, 2, 3, 4
    union all
    select program_id, utc_day(created_at), hour_of_day(created_at), currency, 0, 0, sum(amount_cents - reversed_cents), 0
    from commissions where not is_shadow and ($1::bigint is null or program_id = $1) group by 1, 2, 3, 4
  ) part
  group by program_id, day, currency, grouping sets ((), (hour))
) e using (program_id, day, hour, currency)
where (coalesce(t.sales, 0), coalesce(t.revenue, 0), coalesce(t.commission, 0), coalesce(t.refunded, 0))
  <> (coalesce(e.sales, 0), coalesce(e.revenue, 0), coalesce(e.commission, 0), coalesce(e.refunded, 0))
