-- Returns whether a click belongs to one of these links and this country (null: any), and is in the range and beyond the list's cursor.
create or replace function is_listed_click(
  of_link_id bigint, country text, at timestamptz, of_id bigint, links bigint[], of_country text, from_time timestamptz, until timestamptz,
  edge timestamptz, edge_id bigint, rises boolean
) returns boolean language sql immutable
return (links is null or of_link_id = any (links)) and (of_country is null or country = of_country)
  and (from_time is null or at >= from_time) and (until is null or at < until)
  and (edge is null or case when rises then (at, of_id) > (edge, edge_id) else (at, of_id) < (edge, edge_id) end);

-- The links of a partner, one link, or null for all links.
create or replace function links_listed(of_program_id bigint, of_partner_id bigint, of_link_id bigint) returns bigint[] language sql stable
return case when of_link_id is not null or of_partner_id is not null then array(
  select l.id from referral_links l
  where l.program_id = of_program_id and l.id = coalesce(of_link_id, l.id) and l.partner_id = coalesce(of_partner_id, l.partner_id)
) end;

-- The clicks of a partner, a link or a country next to the list's cursor: earlier ones, newest first, or later ones if `rises`. Returns up
-- to `max_rows`. Click events have no index on these columns. `grouped_quarters` contains the quarters of an hour with such clicks, and
-- `uncounted_clicks` adds the newest. The function reads only those quarters. It begins with one day, and reads more days at once if the
-- days before had few clicks.
create or replace function list_clicks(
  of_program_id bigint, of_partner_id bigint, of_link_id bigint, of_country text, from_time timestamptz, until timestamptz,
  edge timestamptz, edge_id bigint, rises boolean, max_rows integer
) returns setof click_events language plpgsql stable rows 50 as $$
#variable_conflict use_column
declare
  links constant bigint[] := links_listed(of_program_id, of_partner_id, of_link_id);
  name constant grouping_name := case when of_link_id is not null then 'link' when of_partner_id is not null then 'partner' else 'country' end;
  wanted constant text := coalesce(of_link_id::text, of_partner_id::text, left(of_country, 200));
  -- The quarters of clicks in about the last minute, which the totals don't contain yet.
  uncounted constant timestamptz[] := array(
    select distinct date_bin('15 minutes', u.clicked_at, 'epoch') from uncounted_clicks u
    where u.program_id = of_program_id and (links is null or u.link_id = any (links))
  );
  -- The days with such clicks, in the order of the list.
  days constant date[] := array(
    select d.day from (
      select t.day from grouped_quarters t
      where t.program_id = of_program_id and t.grouping_name = name and t.metric in ('clicks', 'bot_clicks') and t.currency = '' and t.value = wanted
      union
      select utc_day(u) from unnest(uncounted) u
    ) d
    where d.day >= coalesce(greatest(utc_day(from_time), case when rises then utc_day(edge) end, (select utc_day(k.since) from clicks_kept k)), '-infinity')
      and d.day <= coalesce(least(utc_day(until), case when not rises then utc_day(edge) end), 'infinity')
    order by case when rises then d.day end, d.day desc
  );
  place integer := 1;
  day_count integer := 1;
  quarters timestamptz[];
  rows_left integer := max_rows;
  found_rows integer;
begin
  while rows_left > 0 and place <= cardinality(days) loop
    quarters := array(
      select day_start(t.day) + q.quarter * interval '15 minutes'
      from grouped_quarters t cross join lateral unnest(t.quarters) q (quarter)
      where t.program_id = of_program_id and t.grouping_name = name and t.metric in ('clicks', 'bot_clicks') and t.currency = ''
        and t.day = any (days[place:place + day_count - 1]) and t.value = wanted
      union
      select u from unnest(uncounted) u where utc_day(u) = any (days[place:place + day_count - 1])
    );
    -- Joins the texts of a click only to the returned rows.
    return query
      select e.* from (
        select k.click_timestamp, k.id from unnest(quarters) q (begins)
        cross join lateral (
          select k.link_id, k.geo_country, k.click_timestamp, k.id from affiliate_click_events k
          where k.program_id = of_program_id and not k.is_test
            and k.click_timestamp >= q.begins and k.click_timestamp < q.begins + interval '15 minutes'
          offset 0
        ) k
        where is_listed_click(k.link_id, k.geo_country, k.click_timestamp, k.id, links, of_country, from_time, until, edge, edge_id, rises)
        order by case when rises then k.click_timestamp end, case when rises then k.id end, k.click_timestamp desc, k.id desc
        limit rows_left
      ) k
      cross join lateral (
        select e.* from click_events e where e.program_id = of_program_id and e.click_timestamp = k.click_timestamp and e.id = k.id offset 0
      ) e
      order by case when rises then e.click_timestamp end, case when rises then e.id end, e.click_timestamp desc, e.id desc;
    get diagnostics found_rows = row_count;
    rows_left := rows_left - found_rows;
    place := place + day_count;
    day_count := least(2 * day_count, ceil(day_count::numeric * rows_left / greatest(found_rows, 1)));
  end loop;
end $$;

-- Counts the kept clicks of a partner, a link or a country, or all clicks, from the totals and `uncounted_clicks`. The range begins and ends
-- at a quarter of an hour.
create or replace function count_listed_clicks(
  of_program_id bigint, of_partner_id bigint, of_link_id bigint, of_country text, from_time timestamptz, until timestamptz
) returns bigint language sql stable as $$
  select coalesce(sum(c.clicks), 0)::bigint from (
    -- Only the first and the last day can be counted in part.
    select case
      when (from_time is null or day_start(t.day) >= from_time) and (until is null or day_start(t.day + 1) <= until) then t.sums[cardinality(t.sums)]
      else (
        select sum(s.clicks_so_far - coalesce(t.sums[s.place - 1], 0))
        from unnest(t.quarters, t.sums) with ordinality s (quarter, clicks_so_far, place)
        cross join lateral (select day_start(t.day) + s.quarter * interval '15 minutes' as at) q
        where (from_time is null or q.at >= from_time) and (until is null or q.at < until)
      ) end as clicks
    from grouped_quarters t
    where t.program_id = of_program_id and t.metric in ('clicks', 'bot_clicks') and t.currency = ''
      and t.grouping_name = case
        when of_link_id is not null then 'link' when of_partner_id is not null then 'partner' when of_country is not null then 'country' else 'all'
      end::grouping_name
      and t.value = coalesce(of_link_id::text, of_partner_id::text, left(of_country, 200), '')
      and t.day >= coalesce(greatest(utc_day(from_time), (select utc_day(k.since) from clicks_kept k)), '-infinity')
      and t.day <= coalesce(utc_day(until), 'infinity')
    union all
    select count(*) from uncounted_clicks u
    join affiliate_click_events e on e.program_id = u.program_id and e.click_timestamp = u.clicked_at and e.id = u.event_id
    cross join links_listed(of_program_id, of_partner_id, of_link_id) l (links)
    where u.program_id = of_program_id and (l.links is null or u.link_id = any (l.links)) and (of_country is null or e.geo_country = of_country)
      and (from_time is null or e.click_timestamp >= from_time) and (until is null or e.click_timestamp < until)
  ) c
$$;

-- The clicks of some customers. Their clicks can be months apart, so the index by customer finds the few pages of each month that contain
-- them.
create or replace function list_clicks_of_customers(
  of_program_id bigint, customer_ids bigint[], of_partner_id bigint, of_link_id bigint, of_country text, from_time timestamptz, until timestamptz,
  edge timestamptz, edge_id bigint, rises boolean, max_rows integer
) returns setof click_events language plpgsql stable rows 50
set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_indexscan = off as $$
declare
  links constant bigint[] := links_listed(of_program_id, of_partner_id, of_link_id);
  -- Reads only the months in between. As in an erasure, the first month allows for wrong browser clocks.
  first timestamptz;
  last timestamptz;
begin
  select greatest(min(least(c.created_at, click_id_created_at(c.click_id))) - interval '1 day', from_time, case when rises then edge end),
    least(max(c.last_click_at), until, case when not rises then edge end) into first, last
  from customers c where c.program_id = of_program_id and c.id = any (customer_ids);
  return query
    select e.* from click_events e
    where e.program_id = of_program_id and not e.is_test and e.customer_id = any (customer_ids) and e.click_timestamp between first and last
      and is_listed_click(e.link_id, e.geo_country, e.click_timestamp, e.id, links, of_country, from_time, until, edge, edge_id, rises)
    order by case when rises then e.click_timestamp end, case when rises then e.id end, e.click_timestamp desc, e.id desc
    limit max_rows;
end $$;

-- Rows of clicks from ClickHouse, and the current rows of the clicks that it may not have yet.
create or replace function merged_clicks(of_program_id bigint, clicks jsonb) returns setof click_events language sql stable rows 100 as $$
  with unsent as materialized (
    select e.* from (
      select u.clicked_at, u.event_id from uncounted_clicks u where u.program_id = of_program_id
      union
      select u.clicked_at, u.event_id from unsent_clicks u where u.program_id = of_program_id
    ) u
    cross join lateral (
      select e.* from click_events e
      where e.program_id = of_program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id offset 0
    ) e
  )
  select * from unsent
  union all
  select k.* from jsonb_populate_recordset(null::click_events, clicks) k
  where not exists (select from unsent u where u.click_timestamp = k.click_timestamp and u.id = k.id)
$$;
