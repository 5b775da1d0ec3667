-- Totals by the hour, so that a range which cuts a day does not count half a day's rows. What a call counts in is a row of one hour:
-- its slot is 64 times the hour's number, 1 to 24, and the backend's part of 0 to 63. So a call still writes one short row and no
-- array. Once an hour is over, its slots are folded into slot 0, the day's only row that has figures by hour: 24 each.
alter table daily_totals add column clicks_by_hour bigint[], add column leads_by_hour bigint[], add column conversions_by_hour bigint[];
alter table daily_money add column sales_by_hour bigint[], add column revenue_cents_by_hour bigint[],
  add column commission_cents_by_hour bigint[];

-- The number of the UTC hour, 1 to 24: its place in the figures by hour.
create function hour_of_day(at timestamptz) returns integer language sql immutable
as $$ select extract(hour from at at time zone 'UTC')::integer + 1 $$;

-- The slot a backend counts in what happened at `at`. Connections are opened one after the other, so neighbours get different slots.
create function counter_slot(at timestamptz) returns smallint language sql stable
as $$ select (64 * hour_of_day(at) + (pg_backend_pid() & 63))::smallint $$;

-- For the functions that run until their next version is deployed. What they count of another hour than this one (a refund) is of the
-- right day and the wrong hour.
create or replace function counter_slot() returns smallint language sql volatile as $$ select counter_slot(now()) $$;

create function add_hours(a bigint[], b bigint[]) returns bigint[] language sql immutable
as $$ select array(select coalesce(x, 0) + coalesce(y, 0) from unnest(a, b) as hour (x, y)) $$;

-- What is there already: one row a day, its hours counted from the rows.
with folded as (delete from daily_totals where slot > 0 returning *)
insert into daily_totals as counted (program_id, day, slot, clicks, leads, conversions)
select program_id, day, 0, sum(clicks), sum(leads), sum(conversions) from folded group by program_id, day
on conflict (program_id, day, slot) do update set
  clicks = counted.clicks + excluded.clicks,
  leads = counted.leads + excluded.leads,
  conversions = counted.conversions + excluded.conversions;

with hourly as (
  select program_id, utc_day(at) as day, hour_of_day(at) as hour, sum(clicks) as clicks, sum(leads) as leads,
    sum(conversions) as conversions
  from (
    select program_id, date_trunc('hour', click_timestamp, 'UTC') as at, count(*) as clicks, 0 as leads, 0 as conversions
    from affiliate_click_events where not is_test group by 1, 2
    union all
    select program_id, date_trunc('hour', signup_date, 'UTC'), 0, count(*), 0 from customers where signup_date is not null group by 1, 2
    union all
    select program_id, date_trunc('hour', first_purchase_date, 'UTC'), 0, 0, count(*)
    from customers where first_purchase_date is not null group by 1, 2
  ) fact
  group by 1, 2, 3
)
update daily_totals t set clicks_by_hour = d.clicks, leads_by_hour = d.leads, conversions_by_hour = d.conversions
from (
  select program_id, day, array_agg(coalesce(h.clicks, 0) order by hour) as clicks,
    array_agg(coalesce(h.leads, 0) order by hour) as leads, array_agg(coalesce(h.conversions, 0) order by hour) as conversions
  from daily_totals cross join generate_series(1, 24) hour left join hourly h using (program_id, day, hour)
  group by program_id, day
) d
where t.program_id = d.program_id and t.day = d.day;

with folded as (delete from daily_money where slot > 0 returning *)
insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents)
select program_id, day, currency, 0, sum(sales), sum(revenue_cents), sum(commission_cents) from folded group by program_id, day, currency
on conflict (program_id, day, currency, slot) do update set
  sales = counted.sales + excluded.sales,
  revenue_cents = counted.revenue_cents + excluded.revenue_cents,
  commission_cents = counted.commission_cents + excluded.commission_cents;

with hourly as (
  select program_id, utc_day(at) as day, currency, hour_of_day(at) as hour, sum(sales) as sales, sum(revenue_cents) as revenue_cents,
    sum(commission_cents) as commission_cents
  from (
    select program_id, sale_date as at, currency, 1 as sales, amount_cents as revenue_cents, 0 as commission_cents
    from sales where not is_test and customer_id is not null and payment_status = 'paid'
    union all
    select program_id, created_at, currency, 0, 0, amount_cents - reversed_cents from commissions
  ) fact
  group by 1, 2, 3, 4
)
update daily_money m set sales_by_hour = d.sales, revenue_cents_by_hour = d.revenue_cents, commission_cents_by_hour = d.commission_cents
from (
  select program_id, day, currency, array_agg(coalesce(h.sales, 0) order by hour) as sales,
    array_agg(coalesce(h.revenue_cents, 0) order by hour) as revenue_cents,
    array_agg(coalesce(h.commission_cents, 0) order by hour) as commission_cents
  from daily_money cross join generate_series(1, 24) hour left join hourly h using (program_id, day, currency, hour)
  group by program_id, day, currency
) d
where m.program_id = d.program_id and m.day = d.day and m.currency = d.currency;

-- As before, but the day's clicks are counted in the slot of their hour.
create or replace function record_click(
  aff text, existing_click_id text, stem text, at timestamptz, event_id bigint, session_id text, affiliate_url text,
  page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text, viewport_size text,
  language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text,
  browser_name text, additional_data jsonb,
  out is_active boolean, out program_id bigint, out partner_id bigint, out partner_code text,
  out cookie_window_days integer, out click_id text
) language plpgsql as $$
#variable_conflict use_column
declare
  link record;
  customer bigint;
  link_slot constant smallint := pg_backend_pid() & 63;
  hour_slot constant smallint := counter_slot(at);
begin
  select l.id, l.code, l.program_id, l.partner_id, l.is_active, p.cookie_window_days, p.attribution_model into link
  from referral_links l left join programs p on p.id = l.program_id
  where lower(l.code) = lower(aff);
  is_active := link.is_active;
  program_id := link.program_id;
  partner_id := link.partner_id;
  partner_code := link.code;
  cookie_window_days := link.cookie_window_days;
  if link.is_active is not true or link.program_id is null or link.partner_id is null then
    return;
  end if;

  if existing_click_id is not null then
    -- From lead on the partner is fixed; before that the newest link takes the customer, unless the first one keeps it.
    update customers c set
      last_click_at = greatest(c.last_click_at, at),
      link_id = case when c.customer_status = 'click' and link.attribution_model = 'last_click'
        then link.id else c.link_id end,
      partner_id = case when c.customer_status = 'click' and link.attribution_model = 'last_click'
        then link.partner_id else c.partner_id end
    where c.program_id = link.program_id and c.click_id = existing_click_id
    returning c.id, c.click_id into customer, click_id;
    if exists (
      select from affiliate_click_events e
      where e.program_id = link.program_id and not e.is_test and e.click_timestamp = at and e.id = event_id
    ) then
      return;
    end if;
  end if;
  if customer is null then
    click_id := stem || link.program_id;
    insert into customers as c (program_id, click_id, link_id, partner_id, last_click_at)
    values (link.program_id, click_id, link.id, link.partner_id, at)
    on conflict on constraint customers_click_id_key do nothing
    returning c.id into customer;
    if customer is null then
      return;
    end if;
  end if;

  insert into affiliate_click_events (program_id, is_test, click_timestamp, id, customer_id, link_id, session_id,
    affiliate_url, page_url, page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone,
    geo_country, geo_region, geo_city, device_type, device_os, browser_name, additional_data)
  values (link.program_id, false, at, event_id, customer, link.id, session_id, affiliate_url, page_url, page_title,
    referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city,
    device_type, device_os, browser_name, additional_data);

  -- Almost always the row is there; an update is cheaper than an insert that finds out.
  update link_clicks c set clicks = c.clicks + 1, last_clicked_at = greatest(c.last_clicked_at, at)
  where c.program_id = link.program_id and c.link_id = link.id and c.slot = link_slot;
  if not found then
    insert into link_clicks as c (program_id, link_id, slot, clicks, last_clicked_at)
    values (link.program_id, link.id, link_slot, 1, at)
    on conflict on constraint link_clicks_pkey do update
    set clicks = c.clicks + 1, last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at);
  end if;
  update daily_totals c set clicks = c.clicks + 1
  where c.program_id = link.program_id and c.day = utc_day(at) and c.slot = hour_slot;
  if not found then
    insert into daily_totals as c (program_id, day, slot, clicks) values (link.program_id, utc_day(at), hour_slot, 1)
    on conflict on constraint daily_totals_pkey do update set clicks = c.clicks + 1;
  end if;
end $$;
