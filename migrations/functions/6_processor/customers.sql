-- Stores the current metadata of a customer at the processor. It attributes the customer's payments without metadata, both past
-- and future ones.
create or replace function apply_customer(event processor_events) returns processor_events language plpgsql as $$
declare
  fact jsonb := event.fact;
  named text := 'customer ' || (fact->>'processor_customer_id');
  given text[] := array_remove(array['key ' || (fact->>'customer_key'), 'click ' || (fact->>'click_id')], null);
  program programs;
begin
  if not exists (select from programs_of_account(event.account_id)) then
    return with_outcome(event, 'ignored', 'account_not_connected');
  elsif named is null then
    return with_outcome(event, 'ignored', 'customer_erased');
  end if;
  -- Locks the customer first, as purchases do.
  perform lock_ids(event.account_id, array[named]);
  perform lock_ids(event.account_id, given);
  insert into processor_customer_metadata as kept (account_id, livemode, processor_customer_id, program_id, click_id, customer_key, reported_at,
    event_id, is_deleted)
  values (event.account_id, event.livemode, fact->>'processor_customer_id', (fact->>'program_id')::bigint, fact->>'click_id',
    fact->>'customer_key', (fact->>'reported_at')::timestamptz, event.event_id, (fact->>'is_deleted')::boolean)
  on conflict (account_id, livemode, processor_customer_id) do update set program_id = excluded.program_id, click_id = excluded.click_id,
    customer_key = excluded.customer_key, reported_at = excluded.reported_at, event_id = excluded.event_id, is_deleted = excluded.is_deleted
  -- If two events have the same second, the same event always wins, no matter which one arrived first.
  where (kept.reported_at, kept.event_id) <= (excluded.reported_at, excluded.event_id);
  if not found then
    return with_outcome(event, 'duplicate', 'newer_metadata');
  end if;
  program := program_of_purchase(event.account_id, fact);
  event.program_id := program.id;
  if num_nonnulls(fact->>'program_id', fact->>'click_id') = 0 then
    return with_outcome(event, 'recorded', 'no_program_named');
  elsif event.livemode and program.id is not null then
    update processor_events e set awaits = e.awaits || awaited_names(event.account_id, given)
    where e.account_id = event.account_id and e.program_id = program.id and e.livemode and e.awaits @> awaited_names(event.account_id, array[named])
      and not e.awaits @> awaited_names(event.account_id, given);
    perform attribute_awaiting_purchases(event.account_id, program, array[named]);
  end if;
  perform park_awaiting_payments(event.account_id, event.livemode, array[named], '-infinity');
  -- Excluded payments wait only for metadata. The customer's other payments don't attribute them.
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'customer_known'
  where e.account_id = event.account_id and e.outcome = 'ignored'
    and e.awaits @> awaited_names(event.account_id, array['metadata ' || (event.fact->>'processor_customer_id')]);
  return with_outcome(event, 'recorded', 'customer_metadata');
end $$;
