-- Sets the outcome of an event and the code of the reason (lib/processor-reasons.ts). If there is no outcome, the reason is a question
-- for the processor, and nothing has changed.
create or replace function with_outcome(event processor_events, outcome text, reason text) returns processor_events language plpgsql as $$
begin
  event.outcome := outcome;
  event.reason := reason;
  return event;
end $$;

-- Writes an event into the log and returns the stored row. An event from a connection belongs to the connection's program even if it
-- contains no program id. A recorded event stays recorded when it is delivered again. The log keeps the first parsed version of an event,
-- unless no schema could parse it.
create or replace function log_event(event processor_events) returns processor_events language plpgsql as $$
begin
  insert into processor_events as stored (account_id, event_id, event_type, program_id, livemode, outcome, reason, waits_for, awaits, fact,
    resolution, payload, event_created_at)
  values (event.account_id, event.event_id, event.event_type,
    coalesce(event.program_id, (select c.program_id from processor_connections c where c.account_id = event.account_id)), event.livemode, event.outcome, event.reason,
    event.waits_for, event.awaits, event.fact, event.resolution, event.payload, event.event_created_at)
  on conflict (account_id, event_id) do update set
    deliveries = stored.deliveries + 1,
    last_received_at = now(),
    program_id = coalesce(excluded.program_id, stored.program_id),
    fact = case when stored.fact ? 'unread' then excluded.fact else stored.fact end,
    payload = excluded.payload,
    -- A recorded sale still waits for its buyer if its event is repeated while the account is disconnected.
    awaits = case when stored.outcome = 'recorded' and excluded.outcome in ('parked', 'ignored') then stored.awaits else excluded.awaits end,
    resolution = case when stored.outcome = 'recorded' then stored.resolution else excluded.resolution end,
    outcome = case when stored.outcome = 'recorded' then stored.outcome else excluded.outcome end,
    reason = case when stored.outcome = 'recorded' then stored.reason else excluded.reason end,
    waits_for = case when stored.outcome <> 'recorded' then excluded.waits_for end
  returning * into event;
  return event;
end $$;

-- Returns the names of a buyer in the format in which the log stores them for unattributed purchases.
create or replace function awaited_names(of_account_id text, names text[]) returns text[] language sql immutable
return array(select of_account_id || ' ' || name from unnest(names) name);

-- Returns the log entry of an event that waits for something with this kind and name.
create or replace function awaited_name(of_account_id text, kind text, name text) returns text language sql immutable
return of_account_id || ' ' || kind || ' ' || name;

-- Parks ignored payments without metadata if one of these names now identifies their customer. A scheduled function applies them again,
-- each with its own locks. Payments dated before `since` stay unattributed.
create or replace function park_awaiting_payments(of_account_id text, of_livemode boolean, names text[], since timestamptz) returns void
language plpgsql as $$
begin
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'customer_known'
  where e.account_id = of_account_id and e.livemode = of_livemode and e.outcome = 'ignored'
    and (e.program_id is null or starts_with(e.account_id, 'conn_'))
    and e.awaits && awaited_names(of_account_id, names) and (e.fact->>'started_at')::timestamptz >= since;
end $$;
