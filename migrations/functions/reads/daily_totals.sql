-- These functions fold the slots of past hours into slot 0, the day's row, which also has the figures by hour, and
-- return the number of deleted rows. They skip locked rows and write in key order, so that they don't deadlock with
-- each other or with other writers.

create or replace function fold_daily_totals(max_rows bigint, of_program_id bigint default null) returns bigint language sql as $$
with waiting as (
  select program_id, day, slot from daily_totals
  where slot >= 64 and (day < utc_day(now()) or day = utc_day(now()) and slot < 64 * hour_of_day(now()))
    and (program_id = of_program_id or of_program_id is null)
  order by day limit max_rows for update skip locked
),
folded as (
  delete from daily_totals t using waiting w where t.program_id = w.program_id and t.day = w.day and t.slot = w.slot
  returning t.*, t.slot / 64 as hour
),
hourly as (
  select program_id, day, hour, coalesce(sum(clicks), 0) as clicks, coalesce(sum(leads), 0) as leads,
    coalesce(sum(conversions), 0) as conversions
  from (select distinct program_id, day from folded) days
  cross join generate_series(1, 24) hour
  left join folded using (program_id, day, hour)
  group by program_id, day, hour
),
kept as (
  insert into daily_totals as counted (program_id, day, slot, clicks, clicks_by_hour, leads, leads_by_hour, conversions, conversions_by_hour)
  select program_id, day, 0, sum(clicks), array_agg(clicks order by hour), sum(leads), array_agg(leads order by hour),
    sum(conversions), array_agg(conversions order by hour)
  from hourly group by program_id, day order by program_id, day
  on conflict (program_id, day, slot) do update set
    clicks = counted.clicks + excluded.clicks,
    clicks_by_hour = add_hours(counted.clicks_by_hour, excluded.clicks_by_hour),
    leads = counted.leads + excluded.leads,
    leads_by_hour = add_hours(counted.leads_by_hour, excluded.leads_by_hour),
    conversions = counted.conversions + excluded.conversions,
    conversions_by_hour = add_hours(counted.conversions_by_hour, excluded.conversions_by_hour)
)
select count(*) from folded
$$;

create or replace function fold_daily_money(max_rows bigint, of_program_id bigint default null) returns bigint language sql as $$
with waiting as (
  select program_id, day, currency, slot from daily_money
  where slot >= 64 and (day < utc_day(now()) or day = utc_day(now()) and slot < 64 * hour_of_day(now()))
    and (program_id = of_program_id or of_program_id is null)
  order by day limit max_rows for update skip locked
),
folded as (
  delete from daily_money m using waiting w
  where m.program_id = w.program_id and m.day = w.day and m.currency = w.currency and m.slot = w.slot
  returning m.*, m.slot / 64 as hour
),
hourly as (
  select program_id, day, currency, hour, coalesce(sum(sales), 0) as sales, coalesce(sum(revenue_cents), 0) as revenue_cents,
    coalesce(sum(commission_cents), 0) as commission_cents, coalesce(sum(refunded_cents), 0) as refunded_cents
  from (select distinct program_id, day, currency from folded) days
  cross join generate_series(1, 24) hour
  left join folded using (program_id, day, currency, hour)
  group by program_id, day, currency, hour
),
kept as (
  insert into daily_money as counted (program_id, day, currency, slot, sales, sales_by_hour, revenue_cents, revenue_cents_by_hour,
    commission_cents, commission_cents_by_hour, refunded_cents, refunded_cents_by_hour)
  select program_id, day, currency, 0, sum(sales), array_agg(sales order by hour), sum(revenue_cents),
    array_agg(revenue_cents order by hour), sum(commission_cents), array_agg(commission_cents order by hour),
    sum(refunded_cents), array_agg(refunded_cents order by hour)
  from hourly group by program_id, day, currency order by program_id, day, currency
  on conflict (program_id, day, currency, slot) do update set
    sales = counted.sales + excluded.sales,
    sales_by_hour = add_hours(counted.sales_by_hour, excluded.sales_by_hour),
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    revenue_cents_by_hour = add_hours(counted.revenue_cents_by_hour, excluded.revenue_cents_by_hour),
    commission_cents = counted.commission_cents + excluded.commission_cents,
    commission_cents_by_hour = add_hours(counted.commission_cents_by_hour, excluded.commission_cents_by_hour),
    refunded_cents = counted.refunded_cents + excluded.refunded_cents,
    refunded_cents_by_hour = add_hours(counted.refunded_cents_by_hour, excluded.refunded_cents_by_hour)
)
select count(*) from folded
$$;
