-- Connections between programs and accounts at the payment processor.

-- Connects a program to an account. Returns false and does nothing if another program has the deployment's own account, or if another
-- workspace has this account. Otherwise, people could read someone else's payments by entering their account. Callers are
-- `connectProcessor` in lib/processors/stripe/connect.ts and apply_ownership.
create or replace function connect_processor(of_program_id bigint, of_account_id text, is_live boolean) returns boolean
language plpgsql as $$
begin
  -- Only a statement that starts after the lock sees other connections of the account.
  perform pg_advisory_xact_lock(hashtextextended(of_account_id, 0));
  update programs p set
    processor_account_id = of_account_id,
    processor_former_account_id = nullif(last_account_of(p), of_account_id),
    processor_connected_at = now(),
    processor_livemode = is_live
  where p.id = of_program_id and not exists (
    select from programs other
    where other.processor_account_id = of_account_id and other.id <> p.id
      and (other.workspace_id <> p.workspace_id or of_account_id = 'platform')
  );
  return found;
end $$;

-- Connects a program to the deployment's own account after the program's code was written into that account's metadata. An owner must have
-- requested the code, and the code works only once. The program's log says why a code was refused.
create or replace function apply_ownership(event processor_events) returns processor_events language plpgsql as $$
declare
  own_code own_account_codes;
begin
  select c.* into own_code from own_account_codes c where c.code = event.fact->>'code' and c.expires_at > now() for update;
  if own_code.program_id is null then
    return with_outcome(event, 'ignored', 'unknown_code');
  end if;
  event.program_id := own_code.program_id;
  if event.account_id <> 'platform' then
    return with_outcome(event, 'ignored', 'code_of_connected_account');
  end if;
  if own_code.needs_livemode and not event.livemode then
    return with_outcome(event, 'ignored', 'code_of_test_mode');
  end if;
  if not exists (
    select from active_members m join programs p on p.workspace_id = m.workspace_id
    where p.id = own_code.program_id and m.user_id = own_code.requested_by and m.role = 'owner'
  ) then
    return with_outcome(event, 'ignored', 'code_of_former_owner');
  end if;
  perform set_config('svc.actor', own_code.requested_by, true);
  if not connect_processor(own_code.program_id, event.account_id, event.livemode) then
    return with_outcome(event, 'ignored', 'account_taken');
  end if;
  delete from own_account_codes c where c.program_id = own_code.program_id;
  return with_outcome(event, 'recorded', null);
end $$;

-- Disconnects the programs of an account after its owner revoked the service's access. Skips programs that were reconnected since then,
-- and live-mode programs if the event belongs to test mode. Notifies each program's members. The relay sends the messages for the other
-- programs.
create or replace function apply_deauthorization(event processor_events) returns processor_events language plpgsql as $$
declare
  disconnected_ids bigint[];
begin
  with disconnected as (
    update programs p set processor_account_id = null, processor_connected_at = null, processor_former_account_id = event.account_id
    where p.processor_account_id = event.account_id and (event.livemode or not p.processor_livemode)
      and (p.processor_connected_at is null or p.processor_connected_at < event.event_created_at + interval '1 second')
    returning p.id
  )
  select min(d.id), array_agg(d.id) into event.program_id, disconnected_ids from disconnected d;
  if event.program_id is null then
    return with_outcome(event, 'ignored', 'already_disconnected');
  end if;
  perform write_outbox(event.program_id, 'processor_disconnected', 'advertiser', null, 'event:' || event.event_id, '{}');
  insert into outbox (program_id, kind, audience, cause, payload)
  select id, 'processor_disconnected', 'advertiser', 'event:' || event.event_id, '{}' from unnest(disconnected_ids) id where id <> event.program_id;
  return with_outcome(event, 'recorded', null);
end $$;
