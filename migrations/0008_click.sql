-- What measuring the click against a minimum of two inserts (test/bench) changed.

-- The insert of a customer took a KEY SHARE lock on its link's row: with sixteen clients on one link that was a multixact for
-- each click, and it was a third of the database's time even over a thousand links. `record_click` and the binding of a key
-- are the only writers, and both take link and partner from the link's row or from another customer; links are never deleted.
alter table customers drop constraint customers_program_id_link_id_partner_id_fkey;

-- Most customers have no key yet: they need no entry here.
alter table customers drop constraint customers_customer_key_key;
create unique index customers_customer_key_key on customers (program_id, customer_key) where customer_key is not null;

-- Postgres reads and compiles every CHECK of a table anew in each statement that writes to it; on the tables that every
-- click writes they were a fifth of its time. One CHECK says of a customer's status what three said, and a slot needs none:
-- it is only ever `counter_slot()`, and the sum over slots does not depend on it.
alter table customers drop constraint customers_customer_status_check, drop constraint customers_check2,
  drop constraint customers_check3;
alter table customers add constraint customers_customer_status_check check (
  customer_status = case when first_purchase_date is not null then 'conversion' when signup_date is not null then 'lead' else 'click' end
);
alter table customers drop constraint customers_customer_key_check;
alter table customers add constraint customers_customer_key_check check (customer_key <> '');
alter table link_clicks drop constraint link_clicks_slot_check;
alter table daily_totals drop constraint daily_totals_slot_check;
alter table daily_money drop constraint daily_money_slot_check;
alter table daily_totals drop constraint daily_totals_clicks_check, drop constraint daily_totals_leads_check,
  drop constraint daily_totals_conversions_check;
alter table daily_totals add constraint daily_totals_check check (least(clicks, leads, conversions) >= 0);

-- Records a click; lib/tracking/clicks.ts is its only caller and says what it does. It is a function because Neon's proxy sends every
-- statement unnamed, to be planned in each call: as one statement with five CTEs planning took three times as long as
-- running, while a function's statements are planned once a connection.
--
-- Answers one row: what the link of code `aff` is, and click_id, which is null where nothing could be recorded. A click
-- that was sent before (same `stem`, or same time and `event_id` for an existing customer) writes nothing more.
create function record_click(
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
  my_slot constant smallint := counter_slot();
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
  where c.program_id = link.program_id and c.link_id = link.id and c.slot = my_slot;
  if not found then
    insert into link_clicks as c (program_id, link_id, slot, clicks, last_clicked_at)
    values (link.program_id, link.id, my_slot, 1, at)
    on conflict on constraint link_clicks_pkey do update
    set clicks = c.clicks + 1, last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at);
  end if;
  update daily_totals c set clicks = c.clicks + 1
  where c.program_id = link.program_id and c.day = utc_day(at) and c.slot = my_slot;
  if not found then
    insert into daily_totals as c (program_id, day, slot, clicks) values (link.program_id, utc_day(at), my_slot, 1)
    on conflict on constraint daily_totals_pkey do update set clicks = c.clicks + 1;
  end if;
end $$;
