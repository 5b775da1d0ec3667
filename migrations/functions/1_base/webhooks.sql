-- Outgoing webhooks: writes messages for a program's endpoints, claims their deliveries, and records attempts. Callers
-- check `programs.webhook_types` first, so that a program without endpoints costs one comparison.

-- Stores the types that a program's endpoints subscribe to, in one list on the program.
create or replace function note_webhook_types() returns trigger language plpgsql as $$
begin
  update programs p set webhook_types = wanted.types
  from (
    select array_agg(distinct t.type::text order by t.type::text) as types
    from webhook_endpoints e cross join unnest(e.types) t (type)
    where e.program_id = new.program_id and e.disabled_at is null and e.deleted_at is null
  ) wanted
  where p.id = new.program_id and p.webhook_types is distinct from wanted.types;
  return null;
end $$;
create or replace trigger webhook_endpoints_types after insert or update of types, disabled_at, deleted_at on webhook_endpoints
  for each row execute function note_webhook_types();

-- The first state of a delivery: due at once, or waiting for `svc listen` if the endpoint has no address.
create or replace function first_delivery(of_url text) returns table (status text, next_attempt_at timestamptz) language sql stable rows 1 as $$
  select case when of_url is null then 'to_fetch' else 'pending' end, case when of_url is not null then now() end
$$;

-- Returns a time as the API writes it: `2026-01-31T12:05:00.000Z`.
create or replace function webhook_time(at timestamptz) returns text language sql stable
return to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- Writes a message for the endpoints of a partner, or of the program itself. A restored backup contains its own messages.
create or replace function write_message(of_program_id bigint, of_partner_id bigint, of_type text, of_data jsonb) returns void language plpgsql as $$
declare
  written bigint;
begin
  if current_setting('svc.restoring', true) = 'on' then
    return;
  end if;
  insert into webhook_messages (program_id, type, data) values (of_program_id, of_type, jsonb_strip_nulls(of_data)) returning id into written;
  insert into webhook_deliveries (program_id, endpoint_id, message_id, status, next_attempt_at)
  select e.program_id, e.id, written, d.status, d.next_attempt_at from webhook_endpoints e cross join lateral first_delivery(e.url) d
  where e.program_id = of_program_id and e.partner_id is not distinct from of_partner_id and of_type = any (e.types)
    and e.disabled_at is null and e.deleted_at is null;
  if found then
    perform set_config('svc.webhooks', 'on', true);
  else
    -- The last endpoint with this type has been disabled in the meantime.
    delete from webhook_messages m where m.program_id = of_program_id and m.id = written;
  end if;
end $$;

-- Writes a message for the program's endpoints that subscribe to its type. The caller has checked that such an endpoint exists.
create or replace function write_webhook(of_program_id bigint, of_type text, of_data jsonb) returns void language plpgsql as $$
begin
  perform write_message(of_program_id, null, of_type, of_data);
end $$;

-- Returns whether this transaction wrote a message. If so, the caller wakes the consumer after the commit.
create or replace function wrote_webhook() returns boolean language sql stable
return coalesce(current_setting('svc.webhooks', true) = 'on', false);

-- The messages that this transaction wrote. Its last statement returns them.
create or replace function written_messages(out outbox_ids bigint[], out wrote_webhooks boolean) language sql stable
as $$ select written_outbox_ids(), wrote_webhook() $$;

create or replace function wants_webhook(of_program_id bigint, of_type text) returns boolean language sql stable
return exists (select from programs p where p.id = of_program_id and of_type = any (p.webhook_types));

-- The data of each message: ids, amounts and states, but nothing that identifies a person.
create or replace function webhook_commission(commission commissions, of_transaction_id text) returns jsonb language sql immutable
return jsonb_build_object('commission_id', (commission).id, 'kind', (commission).kind, 'partner_id', (commission).partner_id,
  'customer_id', (commission).customer_id, 'sale_id', (commission).sale_id, 'transaction_id', of_transaction_id,
  'amount_cents', (commission).amount_cents, 'reversed_cents', (commission).reversed_cents, 'currency', (commission).currency,
  'is_shadow', (commission).is_shadow);

create or replace function webhook_sale(sale sales) returns jsonb language sql immutable
return jsonb_build_object('sale_id', (sale).id, 'transaction_id', (sale).transaction_id, 'partner_id', (sale).partner_id,
  'customer_id', (sale).customer_id, 'amount_cents', (sale).amount_cents, 'currency', (sale).currency, 'sale_type', (sale).sale_type,
  'is_recurring', (sale).is_recurring, 'subscription_id', (sale).subscription_id, 'coupon', (sale).coupon,
  'code_id', (sale).code_id);

create or replace function webhook_payout(payout payouts) returns jsonb language sql immutable
return jsonb_build_object('payout_id', (payout).id, 'partner_id', (payout).partner_id, 'payout_run_id', (payout).payout_run_id,
  'amount_cents', (payout).amount_cents, 'currency', (payout).currency, 'status', (payout).status,
  'reference', (payout).reference, 'paid_on', (payout).paid_on);

create or replace function webhook_adjustment(adjustment adjustments, of_transaction_id text) returns jsonb language sql immutable
return jsonb_build_object('adjustment_id', (adjustment).id, 'partner_id', (adjustment).partner_id, 'sale_id', (adjustment).sale_id,
  'transaction_id', of_transaction_id, 'amount_cents', (adjustment).amount_cents, 'currency', (adjustment).currency,
  'external_id', (adjustment).external_id);

-- Reports a new commission to a program that has endpoints.
create or replace function notify_commission_created(of_program_id bigint, of_commission_id bigint) returns void language plpgsql as $$
begin
  perform write_webhook(c.program_id, 'commission.created', webhook_commission(c, s.transaction_id) || jsonb_build_object('hold_until', webhook_time(c.hold_until)))
  from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
  where c.program_id = of_program_id and c.id = of_commission_id;
end $$;

-- Reports a refund of a counted sale, with the total refunded amount. A negative amount returns money to the sale.
create or replace function notify_refund(sale sales, refund refunds, by_cents bigint) returns void language plpgsql as $$
begin
  if by_cents <> 0 and sale.customer_id is not null and not sale.is_test and wants_webhook(sale.program_id, 'sale.refunded') then
    perform write_webhook(sale.program_id, 'sale.refunded', webhook_sale(sale) || jsonb_build_object(
      'refunded_by_cents', by_cents, 'refunded_cents', sale.refunded_cents, 'reason', refund.reason));
  end if;
end $$;

create or replace function send_webhooks_of_payout() returns trigger language plpgsql as $$
declare
  type constant text := case
    when tg_op = 'INSERT' then 'payout.requested'
    when new.status = 'paid' and old.status <> 'paid' then 'payout.paid'
    when new.amount_cents < old.amount_cents then 'payout.reduced'
  end;
begin
  if wants_webhook(new.program_id, type) then
    perform write_webhook(new.program_id, type, webhook_payout(new)
      || case when type = 'payout.reduced' then jsonb_build_object('reduced_by_cents', old.amount_cents - new.amount_cents) else '{}' end);
  end if;
  return null;
end $$;
create or replace trigger payouts_webhooks after insert or update on payouts
  for each row execute function send_webhooks_of_payout();

-- A partner joins when a person first signs in as this partner, or returns after leaving.
create or replace function send_webhooks_of_partner() returns trigger language plpgsql as $$
begin
  if wants_webhook(new.program_id, 'partner.joined') then
    perform write_webhook(new.program_id, 'partner.joined', jsonb_build_object('partner_id', new.id));
  end if;
  return null;
end $$;
create or replace trigger partners_joined_webhooks after insert on partners
  for each row when (new.user_id is not null) execute function send_webhooks_of_partner();
create or replace trigger partners_accepted_webhooks after update on partners
  for each row when (new.user_id is not null and new.ended_at is null and (old.user_id is null or old.ended_at is not null))
  execute function send_webhooks_of_partner();

-- The number of concurrent requests to one endpoint.
create or replace function webhooks_at_once() returns integer language sql immutable return 4;

-- The number of concurrent requests of one workspace: a quarter of the capacity of all lanes (functions/deliver-webhooks.ts).
create or replace function workspace_webhooks_at_once() returns integer language sql immutable return 24;

-- The number of running requests of a workspace. Claims take the oldest deliveries, so the function only looks at the first due
-- ones of each endpoint.
create or replace function workspace_webhooks_under_way(of_workspace_id text) returns bigint language sql stable
return (
  select count(*)
  from programs p
  join webhook_endpoints e on e.program_id = p.id and e.deleted_at is null and e.disabled_at is null
  cross join lateral (
    select d.claimed_until from webhook_deliveries d
    where d.program_id = e.program_id and d.endpoint_id = e.id and d.next_attempt_at <= now()
    order by d.next_attempt_at limit 2 * webhooks_at_once()
  ) d
  where p.workspace_id = of_workspace_id and d.claimed_until > now()
);

-- The due deliveries of an endpoint that can start, oldest first, with their place among its requests. If the endpoint's last attempt failed,
-- it gets one request at a time. An endpoint that hasn't answered for a second doesn't get further requests.
create or replace function startable_webhooks(endpoint webhook_endpoints) returns table (message_id bigint, next_attempt_at timestamptz, place bigint)
language sql stable as $$
  select d.message_id, d.next_attempt_at, u.under_way + row_number() over (order by d.next_attempt_at, d.message_id)
  from (
    select count(*) as under_way, min(d.claimed_until) - interval '45 s' as since from webhook_deliveries d
    where d.program_id = endpoint.program_id and d.endpoint_id = endpoint.id and d.next_attempt_at is not null and d.claimed_until > now()
  ) u
  cross join lateral (
    select d.message_id, d.next_attempt_at from webhook_deliveries d
    where d.program_id = endpoint.program_id and d.endpoint_id = endpoint.id and d.next_attempt_at <= now()
      and (d.claimed_until is null or d.claimed_until <= now())
    order by d.next_attempt_at, d.message_id
    limit case when u.since < now() - interval '1 s' then 0
      else greatest(case when endpoint.failing_since is null then webhooks_at_once() else 1 end - u.under_way, 0) end
  ) d
$$;

-- Claims up to `at_most` due deliveries of these programs: the oldest of each endpoint first, and a second one only after every endpoint's
-- first. A workspace has a limited number of requests at a time, and a program's own endpoints come before those of its partners. After a
-- failure, an endpoint rests. Slow endpoints come last, and wait for another consumer if not `takes_slow`. Claims end after 45 seconds, in
-- case their consumer died. If a program still has an unclaimed delivery for an idle endpoint, the function returns a row without a delivery
-- for it. `is_slow` says whether all its idle endpoints are slow.
create or replace function claim_due_webhooks(program_ids bigint[], at_most integer, takes_slow boolean) returns table (
  program_id bigint, endpoint_id bigint, message_id bigint, partner_id bigint, method text, url text, secret_number integer,
  has_previous_secret boolean, type text, data jsonb, created_at timestamptz, is_slow boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  -- A program can have thousands of endpoints of partners, but few with due deliveries.
  due_ids bigint[];
begin
  -- This prevents two consumers from counting the open requests at the same moment.
  due_ids := array(
    select e.id from webhook_endpoints e
    where e.program_id = any (program_ids) and e.deleted_at is null and e.disabled_at is null and exists (
      select from webhook_deliveries d where d.program_id = e.program_id and d.endpoint_id = e.id and d.next_attempt_at <= now()
    )
    order by e.program_id, e.id for no key update
  );
  return query
  with workspaces as materialized (
    select p.workspace_id, workspace_webhooks_at_once() - workspace_webhooks_under_way(p.workspace_id) as free
    from programs p where p.id = any (program_ids) group by p.workspace_id
  ), waiting as (
    select d.*, w.free, row_number() over (
      partition by w.workspace_id order by d.is_slow and not takes_slow, d.is_of_partner, d.place, d.next_attempt_at
    ) as turn_in_workspace
    from (
      select e.program_id, e.id as endpoint_id, d.*, e.partner_id is not null as is_of_partner, e.slow_until > now() as is_slow
      from webhook_endpoints e cross join lateral startable_webhooks(e) d
      where e.program_id = any (program_ids) and e.id = any (due_ids) and e.deleted_at is null and e.disabled_at is null
        and (e.rests_until is null or e.rests_until <= now())
    ) d
    join programs p on p.id = d.program_id
    join workspaces w on w.workspace_id = p.workspace_id
  ), due as (
    select n.*, case when n.is_free then row_number() over (order by not n.is_free, n.is_slow, n.place, n.next_attempt_at) end as turn
    from (select w.*, w.turn_in_workspace <= w.free and (takes_slow or not w.is_slow) as is_free from waiting w) n
  ), claimed as (
    update webhook_deliveries d set claimed_until = now() + interval '45 s'
    from due n
    where n.turn <= at_most and d.program_id = n.program_id and d.endpoint_id = n.endpoint_id and d.message_id = n.message_id
    returning d.program_id, d.endpoint_id, d.message_id
  )
  select c.program_id, c.endpoint_id, c.message_id, e.partner_id, e.method, e.url, e.secret_number, coalesce(e.previous_secret_until > now(), false), m.type, m.data,
    m.created_at, e.slow_until > now()
  from claimed c
  join webhook_endpoints e on e.program_id = c.program_id and e.id = c.endpoint_id
  join webhook_messages m on m.program_id = c.program_id and m.id = c.message_id
  union all
  select n.program_id, null::bigint, null::bigint, null::bigint, null, null, null::integer, null::boolean, null, null::jsonb, null::timestamptz,
    bool_and(n.is_slow)
  from due n where (n.turn > at_most or n.turn is null) and n.place = 1 group by n.program_id
  order by 3;
end $$;

-- The time at which the consumer should look at a program again: when its next unclaimed delivery is due. Null if there
-- is none.
create or replace function next_webhook_at(of_program_id bigint) returns timestamptz language sql stable
return (
  select min(greatest(d.next_attempt_at, e.rests_until))
  from webhook_endpoints e
  cross join lateral (
    select min(d.next_attempt_at) as next_attempt_at from webhook_deliveries d
    where d.program_id = e.program_id and d.endpoint_id = e.id and d.next_attempt_at is not null
      and (d.claimed_until is null or d.claimed_until <= now())
  ) d
  where e.program_id = of_program_id and e.deleted_at is null and e.disabled_at is null and d.next_attempt_at is not null
);

-- Records attempts (rows of `webhook_attempts`, and whether each was delivered). Returns for each program when to look
-- at it again, and the ids of its outbox rows to send. Disables an endpoint whose attempts have failed for `failing_days`,
-- and notifies its program. A delivery that another consumer claimed, or that somebody sent again, keeps its state.
create or replace function record_webhook_attempts(
  attempts jsonb, failing_days integer
) returns table (program_id bigint, next_at timestamptz, outbox_ids bigint[]) language plpgsql as $$
#variable_conflict use_column
declare
  attempt record;
  endpoint webhook_endpoints;
begin
  perform from webhook_endpoints e
  where (e.program_id, e.id) in (
    select a.program_id, a.endpoint_id from jsonb_to_recordset(attempts) a (program_id bigint, endpoint_id bigint)
  )
  order by e.program_id, e.id for no key update;
  update webhook_endpoints e set slow_until = now() + interval '1 day'
  where e.slow_until < now() + interval '23 h' and (e.program_id, e.id) in (
    select a.program_id, a.endpoint_id from jsonb_to_recordset(attempts) a (program_id bigint, endpoint_id bigint, duration_ms integer)
    where a.duration_ms >= 1000
  );
  for attempt in
    select a.* from jsonb_to_recordset(attempts) a (program_id bigint, endpoint_id bigint, message_id bigint, attempted_at timestamptz,
      duration_ms integer, status integer, error text, answer text, is_taken boolean)
    order by a.program_id, a.endpoint_id, a.message_id
  loop
    insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, error, answer)
    select d.program_id, d.endpoint_id, d.message_id, attempt.attempted_at, attempt.duration_ms, attempt.status, attempt.error, attempt.answer
    from webhook_deliveries d
    where d.program_id = attempt.program_id and d.endpoint_id = attempt.endpoint_id and d.message_id = attempt.message_id;
    -- A delivery keeps its newest 20 attempts, so that sending it again and again doesn't fill the disk.
    delete from webhook_attempts t
    where t.program_id = attempt.program_id and t.endpoint_id = attempt.endpoint_id and t.message_id = attempt.message_id and t.id <= (
      select o.id from webhook_attempts o
      where o.program_id = attempt.program_id and o.endpoint_id = attempt.endpoint_id and o.message_id = attempt.message_id
      order by o.id desc offset 20 limit 1
    );
    update webhook_deliveries d set
      attempt_count = d.attempt_count + 1,
      status = case when attempt.is_taken then 'delivered' when webhook_delay(d.attempt_count + 1) is null then 'failed' else 'pending' end,
      next_attempt_at = case when not attempt.is_taken then now() + webhook_delay(d.attempt_count + 1) end,
      finished_at = case when attempt.is_taken or webhook_delay(d.attempt_count + 1) is null then now() end,
      claimed_until = null
    where d.program_id = attempt.program_id and d.endpoint_id = attempt.endpoint_id and d.message_id = attempt.message_id
      and d.status = 'pending';
    if attempt.is_taken then
      update webhook_endpoints e set failing_since = null, failures = 0, rests_until = null
      where e.program_id = attempt.program_id and e.id = attempt.endpoint_id and e.failing_since is not null;
    else
      -- If several attempts were open when one failed, they count as one failure, because a restarting server refuses several at once.
      update webhook_endpoints e set failing_since = coalesce(e.failing_since, attempt.attempted_at), failures = f.failures, failed_at = now(),
        rests_until = now() + webhook_rest(f.failures)
      from (
        select o.failures + case when o.failures > 0 and attempt.attempted_at < o.failed_at then 0 else 1 end as failures
        from webhook_endpoints o where o.program_id = attempt.program_id and o.id = attempt.endpoint_id
      ) f
      where e.program_id = attempt.program_id and e.id = attempt.endpoint_id
      returning e.* into endpoint;
      if endpoint.failing_since <= now() - make_interval(days => failing_days) and endpoint.disabled_at is null then
        perform disable_webhooks(endpoint);
      end if;
    end if;
  end loop;
  return query
  select p.program_id, next_webhook_at(p.program_id), array(
    select o.id from outbox o where o.program_id = p.program_id and o.id = any (written_outbox_ids())
  )
  from (select distinct a.program_id from jsonb_to_recordset(attempts) a (program_id bigint)) p;
end $$;

-- Disables an endpoint that has failed for days, and notifies its program or partner. Its waiting deliveries fail and can be sent again.
create or replace function disable_webhooks(endpoint webhook_endpoints) returns void language plpgsql as $$
begin
  update webhook_endpoints e set disabled_at = now(), disabled_because = 'failures'
  where e.program_id = endpoint.program_id and e.id = endpoint.id;
  update webhook_deliveries d set status = 'failed', next_attempt_at = null, claimed_until = null, finished_at = now()
  where d.program_id = endpoint.program_id and d.endpoint_id = endpoint.id and d.status = 'pending';
  perform write_outbox(endpoint.program_id, case when endpoint.partner_id is null then 'webhook_disabled' else 'postback_disabled' end,
    case when endpoint.partner_id is null then 'advertiser' else 'partner' end, endpoint.partner_id,
    format('webhook:%s:%s', endpoint.id, extract(epoch from endpoint.failing_since)),
    jsonb_build_object('endpoint_id', endpoint.id, 'url', endpoint.url));
end $$;

-- Sends an endpoint's deliveries again: one of them, or those of messages from `since` until before `until`, and only failed ones if
-- `failed_only`. Takes up to 10,000, oldest first, and skips pending ones. Returns their number, or null if the endpoint is unknown or
-- disabled.
create or replace function replay_webhooks(
  of_program_id bigint, of_partner_id bigint, of_endpoint_id bigint, of_message_id bigint, since timestamptz, until timestamptz,
  failed_only boolean
) returns integer language plpgsql as $$
declare
  replayed integer;
  address text;
begin
  update webhook_endpoints e set rests_until = null
  where e.program_id = of_program_id and e.partner_id is not distinct from of_partner_id and e.id = of_endpoint_id
    and e.deleted_at is null and e.disabled_at is null and e.url is not null
  returning e.url into address;
  if not found then
    return null;
  end if;
  update webhook_deliveries d set status = 'pending', attempt_count = 0, next_attempt_at = now(), claimed_until = null, finished_at = null
  where d.program_id = of_program_id and d.endpoint_id = of_endpoint_id and d.message_id in (
    select o.message_id from webhook_deliveries o
    join webhook_messages m on m.program_id = o.program_id and m.id = o.message_id
    where o.program_id = of_program_id and o.endpoint_id = of_endpoint_id and o.status <> 'pending'
      and (of_message_id is null or m.id = of_message_id)
      and (since is null or m.created_at >= since) and (until is null or m.created_at < until)
      and (not failed_only or o.status = 'failed')
    order by m.id limit 10000
  );
  get diagnostics replayed = row_count;
  if of_partner_id is null then
    perform write_program_audit(of_program_id, 'webhook.sent_again', address, jsonb_build_object('deliveries', replayed));
  end if;
  return replayed;
end $$;

-- Writes a test message for one endpoint, regardless of its types. Returns the message id, or null if the endpoint is
-- unknown or disabled.
create or replace function test_webhook(of_program_id bigint, of_partner_id bigint, of_endpoint_id bigint) returns bigint language plpgsql as $$
declare
  endpoint webhook_endpoints;
  written bigint;
begin
  update webhook_endpoints e set rests_until = null
  where e.program_id = of_program_id and e.partner_id is not distinct from of_partner_id and e.id = of_endpoint_id
    and e.deleted_at is null and e.disabled_at is null
  returning e.* into endpoint;
  if not found then
    return null;
  end if;
  insert into webhook_messages (program_id, type, data)
  values (of_program_id, 'webhook.test', jsonb_build_object('endpoint_id', of_endpoint_id)) returning id into written;
  insert into webhook_deliveries (program_id, endpoint_id, message_id, status, next_attempt_at)
  select of_program_id, of_endpoint_id, written, d.status, d.next_attempt_at from first_delivery(endpoint.url) d;
  if of_partner_id is null then
    perform write_program_audit(of_program_id, 'webhook.tested', coalesce(endpoint.url, 'svc listen'), null);
  end if;
  return written;
end $$;

-- Deletes up to `max_rows` messages at the end of their retention period, with their deliveries and attempts, and returns their number.
-- Removes deleted endpoints after their last delivery. Ends forgotten endpoints of `svc listen` after `fetched_kept`.
create or replace function expire_webhooks(max_rows integer, kept interval, fetched_kept interval) returns bigint language plpgsql as $$
declare
  deleted bigint;
begin
  delete from webhook_messages m where (m.program_id, m.id) in (
    select o.program_id, o.id from webhook_messages o where o.created_at < now() - kept order by o.created_at limit max_rows
  );
  get diagnostics deleted = row_count;
  update webhook_endpoints e set deleted_at = now()
  where e.url is null and e.deleted_at is null and e.created_at < now() - fetched_kept;
  delete from webhook_endpoints e
  where e.deleted_at is not null and not exists (
    select from webhook_deliveries d where d.program_id = e.program_id and d.endpoint_id = e.id
  );
  return deleted;
end $$;
