-- Returns a host and the domains above it: `shop.example.com`, `example.com`, `com`.
create or replace function domains_of(host text) returns text[] language sql immutable
return array(
  select array_to_string((string_to_array(host, '.'))[n:], '.') from generate_subscripts(string_to_array(host, '.'), 1) n
);

-- Finds the program of a click without a program id. If several programs have the code, the program is the one that verified the
-- closest domain of the page's host. A TXT record comes before a seen tag. `is_ambiguous` means that none of them verified it.
create or replace function program_of_click(aff text, host text, out program_id bigint, out is_ambiguous boolean) language plpgsql stable as $$
#variable_conflict use_column
declare
  ids bigint[];
begin
  ids := array(
    select l.program_id from referral_links l join programs p on p.id = l.program_id
    where lower(l.code) = lower(aff) and p.deleted_at is null limit 2
  );
  if cardinality(ids) > 1 then
    ids := array(
      select p.id from programs p join referral_links l on l.program_id = p.id and lower(l.code) = lower(aff)
      where split_part(p.domain, ':', 1) = any (domains_of(host)) and p.domain_verified_at is not null and p.deleted_at is null
      order by p.domain_proven_at is null, length(split_part(p.domain, ':', 1)) desc fetch first row with ties
    );
    is_ambiguous := cardinality(ids) <> 1;
  end if;
  if is_ambiguous is not true then
    program_id := ids[1];
  end if;
end $$;

-- Verifies a program's domain after a click on that host with the program's id. Anybody can invent such a click. So the function never
-- takes a domain, with or without `www.`, away from the first workspace that was seen there, and it never verifies a whole top-level
-- domain. A TXT record still wins (lib/programs/domain-proof.ts). The function doesn't wait for the program's row. A later click tries
-- again.
create or replace function verify_domain(of_program_id bigint, host text) returns void language plpgsql as $$
declare
  of_domain text;
  of_workspace_id text;
begin
  select split_part(p.domain, ':', 1), p.workspace_id into of_domain, of_workspace_id from programs p
  where p.id = of_program_id and p.domain_verified_at is null and split_part(p.domain, ':', 1) = any (domains_of(host))
  for no key update skip locked;
  if found and of_domain like '%.%' and not exists (
    select from programs o
    where split_part(o.domain, ':', 1) in (of_domain, 'www.' || of_domain, regexp_replace(of_domain, '^www\.', ''))
      and o.domain_verified_at is not null and o.deleted_at is null and o.workspace_id <> of_workspace_id
  ) then
    update programs p set domain_verified_at = now() where p.id = of_program_id;
  end if;
end $$;

-- Records a click for `recordClick` in lib/tracking/clicks.ts. This is a function because Neon's proxy sends every statement unnamed,
-- so Postgres plans it in each call. Postgres plans the statements inside a function only once per connection. Returns `{click_id,
-- partner_code, cookie_window_days}`, or `{refused}` with the error code after writing nothing. If the statement is sent again, the
-- unique key of the customer or of the event refuses it.
create or replace function track_click(
  aff text, named_program_id bigint, host text, existing_click_id text, click_id_prefix text, at timestamptz, event_id bigint, session_id text, affiliate_url text,
  page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text, viewport_size text,
  language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text,
  browser_name text, additional_data jsonb, campaign jsonb, visitor bigint
) returns json language plpgsql as $$
#variable_conflict use_column
declare
  of_program_id bigint := named_program_id;
  is_ambiguous boolean;
  link record;
  customer bigint;
  customer_click_id text;
  refusal text;
begin
  if of_program_id is null then
    select f.program_id, f.is_ambiguous into of_program_id, is_ambiguous from program_of_click(aff, host) f;
  end if;
  select l.id, l.code, l.program_id, l.partner_id, l.is_active, p.cookie_window_days, p.attribution_model,
    p.deleted_at is not null as is_deleted, p.domain_verified_at is null as is_unverified into link
  from referral_links l join programs p on p.id = l.program_id
  where l.program_id = of_program_id and lower(l.code) = lower(aff);
  if link.is_active is not true or link.partner_id is null or is_blocked(link.program_id) then
    refusal := case
      when is_ambiguous then 'ambiguous_partner_code'
      when link.is_deleted then 'unknown_partner_code'
      when link.id is not null and link.partner_id is not null then 'link_disabled'
      when link.id is not null or named_program_id is null
        and exists (select from referral_links l where lower(l.code) = lower(aff) and l.program_id is null) then 'invalid_link'
      else 'unknown_partner_code'
    end;
    perform note_refusal(coalesce(named_program_id, link.program_id), 'click', refusal, aff);
    return json_build_object('refused', refusal);
  end if;
  if link.is_unverified and named_program_id is not null then
    perform verify_domain(named_program_id, host);
  end if;

  if existing_click_id is not null then
    -- A lead fixes the partner. Before that, the customer moves to the newest link, unless the program keeps the first link.
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
    customer_click_id := click_id_prefix || link.program_id;
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

-- Returns the response to the click with this event again, or null if no such click was recorded.
create or replace function recorded_click(aff text, at timestamptz, event_id bigint) returns json language plpgsql stable as $$
begin
  return (
    select json_build_object('click_id', c.click_id, 'partner_code', l.code, 'cookie_window_days', p.cookie_window_days)
    from referral_links l
    join programs p on p.id = l.program_id
    join affiliate_click_events e on e.program_id = l.program_id and not e.is_test and e.click_timestamp = at and e.id = event_id
      and e.link_id = l.id
    join customers c on c.program_id = e.program_id and c.id = e.customer_id
    where lower(l.code) = lower(aff)
  );
end $$;

-- Records a test click once, as an event with is_test. It has no customer and is not counted. Its program is the given program, or else
-- the link's. Null if there is none. Anybody can send test clicks, so a program keeps a limited number per day. `is_kept` says whether it
-- kept this click.
create or replace function track_test_click(
  given_program_id bigint, network bigint, aff text, host text, at timestamptz, event_id bigint,
  session_id text, affiliate_url text, page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text,
  viewport_size text, language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text,
  browser_name text, additional_data jsonb, campaign jsonb,
  out of_program_id bigint, out is_ambiguous boolean, out is_kept boolean
) language plpgsql as $$
#variable_conflict use_column
begin
  if given_program_id is null then
    select f.program_id, f.is_ambiguous into given_program_id, is_ambiguous from program_of_click(aff, host) f;
  end if;
  select p.id into of_program_id from programs p where p.id = given_program_id and p.deleted_at is null;
  is_kept := of_program_id is not null and count_public_test_event(of_program_id, network);
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
