-- Records a click; lib/tracking/clicks.ts says what is given and answered. It is a function because Neon's proxy sends every
-- statement unnamed, to be planned in each call, while a function's statements are planned once a connection. Answers
-- `{click_id, partner_code, cookie_window_days}`, or `{refused}` with the code of the error, having written nothing. A statement that is
-- sent again is refused by the key of the customer or of the event. A tag that names its program takes no link of another one.
create or replace function track_click(
  aff text, named_program_id bigint, existing_click_id text, stem text, at timestamptz, event_id bigint, session_id text, affiliate_url text,
  page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text, viewport_size text,
  language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text,
  browser_name text, additional_data jsonb, campaign jsonb, visitor bigint
) returns json language plpgsql as $$
#variable_conflict use_column
declare
  link record;
  customer bigint;
  customer_click_id text;
  refusal text;
begin
  select l.id, l.code, l.program_id, l.partner_id, l.is_active, p.cookie_window_days, p.attribution_model,
    p.deleted_at is not null as is_deleted into link
  from referral_links l left join programs p on p.id = l.program_id
  where lower(l.code) = lower(aff);
  if link.is_active is not true or link.program_id is null or link.partner_id is null or link.program_id <> named_program_id then
    refusal := case
      when link.id is null or link.is_deleted or link.program_id <> named_program_id then 'unknown_partner_code'
      when link.program_id is null or link.partner_id is null then 'invalid_link'
      else 'link_disabled'
    end;
    perform note_refusal(coalesce(named_program_id, link.program_id), 'click', refusal, aff);
    return json_build_object('refused', refusal);
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
    returning c.id, c.click_id into customer, customer_click_id;
  end if;
  if customer is null then
    customer_click_id := stem || link.program_id;
    insert into customers as c (program_id, click_id, link_id, partner_id, last_click_at)
    values (link.program_id, customer_click_id, link.id, link.partner_id, at)
    returning c.id into customer;
  end if;

  insert into affiliate_click_events (program_id, is_test, click_timestamp, id, customer_id, click_id, link_id, session_id,
    affiliate_url, page_url, page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone,
    geo_country, geo_region, geo_city, device_type, device_os, browser_name, additional_data, campaign, visitor)
  values (link.program_id, false, at, event_id, customer, customer_click_id, link.id, session_id, affiliate_url, page_url, page_title,
    referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city,
    device_type, device_os, browser_name, additional_data, campaign, visitor);

  insert into uncounted_clicks (program_id, link_id, clicked_at, event_id, is_bot)
  values (link.program_id, link.id, at, event_id, coalesce(device_type = 'bot', false));
  return json_build_object('click_id', customer_click_id, 'partner_code', link.code, 'cookie_window_days', link.cookie_window_days);
end $$;

-- What the click with this event was answered when it was recorded; no answer where it was not.
create or replace function recorded_click(aff text, at timestamptz, event_id bigint) returns json language plpgsql stable as $$
begin
  return (
    select json_build_object('click_id', c.click_id, 'partner_code', l.code, 'cookie_window_days', p.cookie_window_days)
    from referral_links l
    join programs p on p.id = l.program_id
    join affiliate_click_events e on e.program_id = l.program_id and not e.is_test and e.click_timestamp = at and e.id = event_id
    join customers c on c.program_id = e.program_id and c.id = e.customer_id
    where lower(l.code) = lower(aff)
  );
end $$;

-- Records a test click: an event with is_test, no customer and no counter, once. Answers its program, the one given or the link's, or null
-- where there is none, and whether the event is kept: anybody can send these, so a program keeps so many a day.
create or replace function track_test_click(
  given_program_id bigint, aff text, at timestamptz, event_id bigint,
  session_id text, affiliate_url text, page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text,
  viewport_size text, language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text,
  browser_name text, additional_data jsonb, campaign jsonb,
  out of_program_id bigint, out is_kept boolean
) language plpgsql as $$
#variable_conflict use_column
begin
  select p.id into of_program_id from programs p
  where p.id = coalesce(given_program_id, (select l.program_id from referral_links l where lower(l.code) = lower(aff)))
    and p.deleted_at is null;
  is_kept := of_program_id is not null and count_public_test_event(of_program_id);
  if is_kept then
    insert into affiliate_click_events (program_id, is_test, click_timestamp, id, session_id, affiliate_url, page_url, page_title,
      referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type,
      device_os, browser_name, additional_data, campaign)
    values (of_program_id, true, at, event_id, session_id, affiliate_url, page_url, page_title, referrer_url, user_agent,
      screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type, device_os, browser_name,
      additional_data, campaign)
    on conflict do nothing;
  end if;
end $$;

-- Moves clicks that no counter has yet, at most `max_rows`, into the counters of their links, of these by month, of their programs' hours, and of what they were,
-- and returns how many. Those of bots count for their links alone, apart. It may run twice at once: each takes clicks that the other has not, and both write counters in the order of their keys.
create or replace function count_clicks(max_rows integer) returns bigint language plpgsql as $$
declare
  counted bigint;
  figures grouped_figure[];
begin
  with taken as (
    delete from uncounted_clicks
    where ctid = any (array(select ctid from uncounted_clicks limit max_rows for update skip locked))
    returning program_id, link_id, clicked_at, event_id, is_bot
  ),
  links as (
    insert into link_clicks as c (program_id, link_id, clicks, bot_clicks, last_clicked_at)
    select program_id, link_id, count(*) filter (where not is_bot), count(*) filter (where is_bot),
      max(clicked_at) filter (where not is_bot)
    from taken group by program_id, link_id order by program_id, link_id
    on conflict (program_id, link_id) do update set clicks = c.clicks + excluded.clicks, bot_clicks = c.bot_clicks + excluded.bot_clicks,
      last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
  ),
  months as (
    insert into link_months as c (program_id, link_id, month, clicks, last_clicked_at)
    select program_id, link_id, month_of(clicked_at), count(*), max(clicked_at) from taken where not is_bot
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (program_id, link_id, month) do update set clicks = c.clicks + excluded.clicks,
      last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
  ),
  hours as (
    insert into daily_totals as c (program_id, day, slot, clicks)
    select program_id, utc_day(clicked_at), 64 * hour_of_day(clicked_at), count(*) from taken where not is_bot
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (program_id, day, slot) do update set clicks = c.clicks + excluded.clicks
  )
  select (select count(*) from taken), (
    select array_agg(row(g.program_id, g.grouping_name, g.metric, '', g.day, g.value, g.quarter, g.clicks)::grouped_figure) from (
      select t.program_id, v.grouping_name, (case when t.is_bot then 'bot_clicks' else 'clicks' end)::grouped_metric as metric,
        utc_day(t.clicked_at) as day, v.value, quarter_of_day(t.clicked_at) as quarter, count(*) as clicks
      from taken t
      join referral_links l on l.id = t.link_id
      cross join lateral (
        select values_of_click(e) as origin from affiliate_click_events e
        where e.program_id = t.program_id and not e.is_test and e.click_timestamp = t.clicked_at and e.id = t.event_id
        -- So that each click is looked up by its key.
        offset 0
      ) e
      cross join lateral values_grouped_by(l.partner_id, t.link_id, null, e.origin) v
      group by 1, 2, 3, 4, 5, 6
    ) g
  ) into counted, figures;
  if figures is not null then
    perform add_grouped(figures);
  end if;
  return counted;
end $$;
