-- Deletes data at the end of its retention period, for lib/tracking/retention.ts. Totals, leads, sales and money stay.

-- Customers who only clicked.
create or replace view click_only_customers as
select c.program_id, c.id, c.last_click_at from customers c
where c.customer_status = 'click' and num_nonnulls(c.customer_key, c.email_hash, c.provisional_lead_at) = 0
  and not exists (select from sales s where s.program_id = c.program_id and s.customer_id = c.id)
  and not exists (select from processor_customers p where p.program_id = c.program_id and p.customer_id = c.id)
  and not exists (select from processor_sessions s where s.program_id = c.program_id and s.customer_id = c.id)
  -- An import can add commissions to any customer.
  and not exists (select from commissions m where m.program_id = c.program_id and m.customer_id = c.id)
  and not exists (select from imported_commissions m where m.program_id = c.program_id and m.customer_id = c.id);

-- Deletes customers who only clicked, after the program's window since their latest click, of one program or of all programs. After that,
-- their click id counts as unknown, like any expired click id. Each customer has an event at their latest click. The function reads each
-- program's events once, in time order, up to the start of the window. So clicks don't need an index of customers by time. Reads about
-- `max_clicks` events. An archive can have any number of them at one time, so the function also deletes at most `max_clicks` customers of a
-- program. `more` says whether more are waiting.
create or replace function delete_expired_customers(
  max_clicks integer, of_program_id bigint default null, out deleted bigint, out more boolean
) language plpgsql set enable_seqscan = off as $$
declare
  clicks_left bigint := max_clicks;
  program record;
  to_time timestamptz;
  ids bigint[];
  clicks_read bigint;
  deleted_now bigint;
begin
  deleted := 0;
  for program in
    select p.id, p.from_time, p.expired from (
      select p.id, coalesce(x.up_to, '-infinity') as from_time,
        date_trunc('day', window_start(now(), p.cookie_window_days), 'UTC') as expired
      from programs p left join customers_expired x on x.program_id = p.id
      where p.id = of_program_id or of_program_id is null
    ) p
    where p.from_time < p.expired
    order by p.id
  loop
    more := clicks_left <= 0;
    exit when more;
    to_time := coalesce((
      select e.click_timestamp from affiliate_click_events e
      where e.program_id = program.id and not e.is_test and e.click_timestamp > program.from_time and e.click_timestamp <= program.expired
      order by e.click_timestamp offset clicks_left - 1 limit 1
    ), program.expired);
    select array_agg(distinct e.customer_id), count(*) into ids, clicks_read from affiliate_click_events e
    where e.program_id = program.id and not e.is_test and e.click_timestamp > program.from_time and e.click_timestamp <= to_time;
    ids := array(
      select v.id from click_only_customers v where v.program_id = program.id and v.id = any (ids) and v.last_click_at <= to_time limit max_clicks
    );
    -- Waits for concurrent clicks, leads and sales of these customers, which then stay.
    perform from customers c where c.program_id = program.id and c.id = any (ids) order by c.id for update;
    delete from customers c where c.program_id = program.id and c.id = any (array(
      select v.id from click_only_customers v where v.program_id = program.id and v.id = any (ids) and v.last_click_at <= to_time
    ));
    get diagnostics deleted_now = row_count;
    deleted := deleted + deleted_now;
    clicks_left := clicks_left - clicks_read;
    more := cardinality(ids) >= max_clicks;
    exit when more;
    insert into customers_expired as x (program_id, up_to) values (program.id, to_time)
    on conflict (program_id) do update set up_to = greatest(x.up_to, excluded.up_to);
    more := to_time < program.expired;
    exit when more;
    delete from affiliate_lead_events e
    where e.program_id = program.id and e.is_test and e.lead_timestamp < (select k.since from clicks_kept k);
  end loop;
  more := coalesce(more, false);
end $$;

-- The partition of the oldest month of click events and its end, if the month has been due for `late`. The month must
-- have ended `months_kept` months ago, the function above must have checked its customers, and its clicks must be
-- counted. A program that fails there delays the months of all programs by at most a week.
create or replace function click_month_due(months_kept integer, late interval, out oldest text, out ends timestamptz)
language plpgsql stable as $$
begin
  oldest := (
    select min(c.relname::text) from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'affiliate_click_events'::regclass and c.relname <> 'affiliate_click_events_default'
  );
  ends := day_start((to_date(right(oldest, 7), 'YYYY_MM') + interval '1 month')::date);
  if oldest is null or day_start((utc_day(ends) + make_interval(months => months_kept))::date) > now() - late
    or day_start((utc_day(ends) + make_interval(months => months_kept))::date) > now() - late - interval '7 days' and (
      exists (select from programs p where not exists (select from customers_expired x where x.program_id = p.id and x.up_to >= ends + late))
      or exists (select from uncounted_clicks u where u.clicked_at < ends)
    ) then
    oldest := null;
    ends := null;
  end if;
end $$;

-- Drops the oldest month of click events of all programs if it is due. The totals and the clicks of each link stay. Returns the partition's
-- name, or null if none is due. Waits only a second for locks, because clicks queue behind it. The next run retries.
create or replace function drop_click_month(months_kept integer) returns text language plpgsql set lock_timeout = '1s' as $$
declare
  oldest text;
  ends timestamptz;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  select d.oldest, d.ends into oldest, ends from click_month_due(months_kept, '0') d;
  if oldest is null then
    return null;
  end if;
  with gone as (
    delete from link_months m where m.month > '-infinity' and m.month < utc_day(ends) returning m.*
  )
  insert into link_months as kept (program_id, link_id, month, clicks, last_clicked_at)
  select g.program_id, g.link_id, '-infinity', sum(g.clicks), max(g.last_clicked_at) from gone g group by 1, 2 order by 1, 2
  on conflict (program_id, link_id, month) do update set clicks = kept.clicks + excluded.clicks,
    last_clicked_at = greatest(kept.last_clicked_at, excluded.last_clicked_at);
  insert into clicks_kept (since) values (ends) on conflict (is_only) do update set since = excluded.since;
  delete from click_parts p where p.month < utc_day(ends);
  delete from rewritten_months m where m.month < utc_day(ends);
  execute format('drop table if exists rewriting.%I', oldest);
  execute format('drop table %I', oldest);
  return oldest;
end $$;

-- Deletes delivered messages and their notifications, read or unread, at the end of their retention period (`notifications_begin`). Returns
-- their number.
create or replace function delete_old_notifications(max_rows integer) returns bigint language plpgsql as $$
declare
  program_ids bigint[];
  ids bigint[];
begin
  select array_agg(o.program_id), array_agg(o.id) into program_ids, ids from (
    select program_id, id from outbox where created_at < notifications_begin() and delivered_at is not null
    order by program_id, id limit max_rows for update
  ) o;
  delete from notification_reads r using unnest(program_ids, ids) old (program_id, id)
  where r.program_id = old.program_id and r.notification_id = old.id;
  delete from notification_mails m using unnest(program_ids, ids) old (program_id, id)
  where m.program_id = old.program_id and m.notification_id = old.id;
  delete from payee_mails m using unnest(program_ids, ids) old (program_id, id)
  where m.program_id = old.program_id and m.notification_id = old.id;
  delete from notifications n using unnest(program_ids, ids) old (program_id, id) where n.program_id = old.program_id and n.id = old.id;
  delete from outbox o using unnest(program_ids, ids) old (program_id, id) where o.program_id = old.program_id and o.id = old.id;
  return coalesce(cardinality(ids), 0);
end $$;

-- Deletes the links between the ids of one payment if it had no sale within its retention period. No later report concerns such a payment.
-- Checks only payments from the 30 days before that period, so that a run doesn't read the payments of all sales.
create or replace function expire_unsold_payments(kept interval) returns bigint language plpgsql as $$
declare
  deleted bigint;
begin
  delete from processor_payments p
  where p.created_at between now() - kept - interval '30 days' and now() - kept
    and not exists (
      select from programs_of_account(p.account_id) g
      join sales s on s.program_id = g.id and s.transaction_id = any (ids_of_payment(p.account_id, array[p.payment_id]))
    )
    and exists (select from programs_of_account(p.account_id));
  get diagnostics deleted = row_count;
  return deleted;
end $$;
