-- The click id of a customer, from its milliseconds and its random part minus 2^63. Null if either of them is null.
create or replace function click_id_of(of_program_id bigint, ms bigint, random bigint) returns text language sql immutable
return 'cust_' || ms || '_' || lpad((random + 9223372036854775808::numeric)::text, 20, '0') || of_program_id;

create or replace function milliseconds(at timestamptz) returns bigint language sql immutable
return floor(extract(epoch from at) * 1000)::bigint;

-- Click events with all their texts. The shared texts of rewritten rows are in `click_parts` (functions/upkeep/rewriting.sql). Postgres
-- skips the joins for columns that nobody reads.
create or replace view click_events as
select e.program_id, e.is_test, e.click_timestamp, e.id, e.customer_id,
  coalesce(e.click_id, click_id_of(e.program_id, coalesce(e.click_ms, milliseconds(e.click_timestamp)), e.click_random)) as click_id,
  e.link_id, e.session_id,
  coalesce(e.affiliate_url, landing.part->>'affiliate_url') as affiliate_url,
  coalesce(e.page_url, page.part->>'page_url') as page_url,
  coalesce(e.page_title, page.part->>'page_title') as page_title,
  coalesce(e.referrer_url, referrer.part->>'referrer_url') as referrer_url,
  coalesce(e.user_agent, browser.part->>'user_agent') as user_agent,
  coalesce(e.screen_resolution, browser.part->>'screen_resolution') as screen_resolution,
  e.viewport_size,
  coalesce(e.language, browser.part->>'language') as language,
  coalesce(e.timezone, place.part->>'timezone') as timezone,
  e.geo_country,
  coalesce(e.geo_region, place.part->>'geo_region') as geo_region,
  coalesce(e.geo_city, place.part->>'geo_city') as geo_city,
  e.device_type,
  coalesce(e.device_os, browser.part->>'device_os') as device_os,
  coalesce(e.browser_name, browser.part->>'browser_name') as browser_name,
  e.additional_data,
  coalesce(e.campaign, landing.part->'campaign') as campaign,
  e.visitor,
  coalesce(e.created_at, e.click_timestamp) as created_at
from affiliate_click_events e
left join click_parts landing on landing.program_id = e.program_id and landing.id = e.landing_part
left join click_parts page on page.program_id = e.program_id and page.id = e.page_part
left join click_parts browser on browser.program_id = e.program_id and browser.id = e.browser_part
left join click_parts place on place.program_id = e.program_id and place.id = e.place_part
left join click_parts referrer on referrer.program_id = e.program_id and referrer.id = e.referrer_part;
