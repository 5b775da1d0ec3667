-- a day's leads, conversions, sales and money by partner, link, code, country, device and browser match its rows
-- These values of an erased customer's click are kept. Browsers are compared only on days that recorded them.
with origin as materialized (
  select c.program_id, c.id as customer_id, c.partner_id as partner_of_link_id, c.link_id, o.origin
  from customers c left join customer_origins o on o.program_id = c.program_id and o.customer_id = c.id
  where $1::bigint is null or c.program_id = $1
),
row_figures as (
  select program_id, id as customer_id, partner_id, null::bigint as code_id, '' as currency, utc_day(signup_date) as day, 'leads'::grouped_metric as metric, 1 as amount
  from customers where signup_date is not null and (imported_at is null or signup_date > imported_at)
  union all
  select c.program_id, c.id, case when c.code_id is null then c.partner_id else k.partner_id end, c.code_id, '', utc_day(c.first_purchase_date),
    'conversions', 1
  from customers c left join partner_codes k on k.program_id = c.program_id and k.id = c.code_id where c.first_purchase_date is not null and (c.imported_at is null or c.first_purchase_date > c.imported_at)
  union all
  select s.program_id, s.customer_id, s.partner_id, s.code_id, s.currency, utc_day(s.sale_date), m.metric, m.amount
  from sales s
  cross join lateral (values ('sales'::grouped_metric, 1::bigint), ('revenue', s.amount_cents), ('refunded', s.refunded_cents)) m (metric, amount)
  where not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
  union all
  select program_id, customer_id, partner_id, code_id, currency, utc_day(created_at), 'commission', amount_cents - reversed_cents from commissions
  where not is_shadow
),
expected as (
  select r.program_id, v.grouping_name, r.metric, r.currency, r.day, v.value, sum(r.amount) as amount
  from row_figures r join origin o using (program_id, customer_id)
  cross join lateral (values
    ('all'::grouping_name, ''), ('partner', r.partner_id::text), ('link', case when r.partner_id = o.partner_of_link_id then o.link_id::text end),
    ('code', r.code_id::text),
    ('country', o.origin->>'country'), ('device', o.origin->>'device'), ('browser', o.origin->>'browser')
  ) v (grouping_name, value)
  where v.value is not null
  group by 1, 2, 3, 4, 5, 6
),
found as (
  select program_id, grouping_name, metric, currency, day, value, sum(amount) as amount
  from (
    select program_id, grouping_name, metric, currency, day, value, sums[cardinality(sums)] as amount from grouped_quarters
    where metric not in ('clicks', 'bot_clicks') and grouping_name <= 'browser' and ($1::bigint is null or program_id = $1)
    union all
    select u.program_id, v.grouping_name, m.metric, case when m.is_money then u.currency else '' end, utc_day(u.at), v.value, m.amount
    from uncounted_figures u join origin o using (program_id, customer_id)
    cross join lateral (values
      ('all'::grouping_name, ''), ('partner', u.partner_id::text), ('link', case when u.partner_id = o.partner_of_link_id then o.link_id::text end),
      ('code', u.code_id::text),
      ('country', o.origin->>'country'), ('device', o.origin->>'device'), ('browser', o.origin->>'browser')
    ) v (grouping_name, value)
    cross join lateral (values
      ('leads'::grouped_metric, u.leads, false), ('conversions', u.conversions, false), ('sales', u.sales, true),
      ('revenue', u.revenue_cents, true), ('commission', u.commission_cents, true), ('refunded', u.refunded_cents, true)
    ) m (metric, amount, is_money)
    where v.value is not null
  ) part
  group by 1, 2, 3, 4, 5, 6
)
select program_id, format('%s %s, day %s, %s', grouping_name, quote_literal(value), day, concat_ws(' ', metric, currency)) as subject,
  found::text, expected::text
from (
  select program_id, grouping_name, metric, currency, day, value, coalesce(f.amount, 0) as found, coalesce(e.amount, 0) as expected
  from found f full join expected e using (program_id, grouping_name, metric, currency, day, value)
) x
left join (
  select distinct program_id, grouping_name, day from grouped_quarters where value = '' and ($1::bigint is null or program_id = $1)
) mixed using (program_id, grouping_name, day)
where found <> expected and (grouping_name < 'browser' or mixed.program_id is null)
