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
