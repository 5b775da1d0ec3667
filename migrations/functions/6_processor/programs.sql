-- Returns whether a purchase identifies a program: through its metadata (with the program's former id after a move), or else through
-- its click. A payment link carries only a click id.
create or replace function names_program(fact jsonb, program programs) returns boolean language sql stable
return case
  when fact->>'program_id' is not null then (fact->>'program_id')::bigint = any ((program).former_ids || (program).id)
  else exists (select from customers c where c.program_id = (program).id and c.click_id = fact->>'click_id')
end;

-- Returns the program of the account that a purchase identifies.
create or replace function program_of_purchase(of_account_id text, fact jsonb) returns programs language plpgsql stable as $$
declare
  program programs;
begin
  select p.* into program from connected_programs(of_account_id) p where names_program(fact, p)
  order by p.id::text = fact->>'program_id' desc limit 1;
  return program;
end $$;

-- If a program was disconnected from the event's account, parks the event until the program is connected again. The program is the one that
-- a purchase identifies, or else the one with the payment's sale. While the account has no other program, refunds and disputes of unknown
-- sales wait too, since their sale may be waiting. Otherwise, returns the event without an outcome.
create or replace function park_disconnected(event processor_events, ids text[]) returns processor_events language plpgsql as $$
declare
  has_other boolean;
begin
  if not exists (select from former_programs(event.account_id)) then
    return event;
  end if;
  if event.fact->>'kind' = 'purchase' then
    -- A connection belongs to one program, so its renewals don't need a program id.
    select p.id into event.program_id from former_programs(event.account_id) p
    where names_program(event.fact, p) or event.fact->>'program_id' is null and starts_with(event.account_id, 'conn_') limit 1;
  else
    select s.program_id into event.program_id from former_programs(event.account_id) p join sales s on s.program_id = p.id
    where s.is_test = not event.livemode
      and s.transaction_id = any (ids_of_payment(event.account_id, ids))
    order by s.program_id limit 1;
  end if;
  has_other := exists (select from connected_programs(event.account_id));
  if event.program_id is null and (has_other or event.fact->>'kind' not in ('reversals', 'charge_refunds', 'refunded_total', 'payment_fee')) then
    return event;
  end if;
  event.waits_for := 'connection';
  return with_outcome(event, 'parked', 'account_disconnected');
end $$;
