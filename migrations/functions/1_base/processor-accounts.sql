-- The accounts at payment processors that belong to a program: its Stripe account, which other programs can share, and its connections to
-- other processors.

-- Returns the programs that are connected to an account.
create or replace function connected_programs(of_account_id text) returns setof programs language sql stable as $$
  select p.* from programs p where p.processor_account_id = of_account_id
  union all
  select p.* from processor_connections c join programs p on p.id = c.program_id
  where c.account_id = of_account_id and c.disconnected_at is null
$$;

-- Returns the programs that were connected to an account before.
create or replace function former_programs(of_account_id text) returns setof programs language sql stable as $$
  select p.* from programs p where p.processor_former_account_id = of_account_id
  union all
  select p.* from processor_connections c join programs p on p.id = c.program_id
  where c.account_id = of_account_id and c.disconnected_at is not null
$$;

-- Returns the programs that are or were connected to an account.
create or replace function programs_of_account(of_account_id text) returns setof programs language sql stable as $$
  select p.* from connected_programs(of_account_id) p union all select p.* from former_programs(of_account_id) p
$$;

-- Returns the accounts whose events belong to a program now, in the order in which all callers lock their names.
create or replace function connected_accounts(program programs) returns text[] language sql stable
return array_remove(array[(program).processor_account_id], null)
  || array(select c.account_id from processor_connections c where c.program_id = (program).id and c.disconnected_at is null order by 1);

-- Returns the program's current and former accounts, in the same order. Payments of a former account stay known.
create or replace function accounts_of(program programs) returns text[] language plpgsql stable as $$
begin
  return array_remove(array[program.processor_account_id, program.processor_former_account_id], null)
    || array(select c.account_id from processor_connections c where c.program_id = program.id order by 1);
end $$;

-- Returns the last connected Stripe account, even if the program has disconnected it.
create or replace function last_account_of(program programs) returns text language sql immutable
return coalesce((program).processor_account_id, (program).processor_former_account_id);

-- Returns the last connected Stripe account and all connections.
create or replace function last_accounts_of(program programs) returns text[] language sql stable
return array[last_account_of(program)] || array(select c.account_id from processor_connections c where c.program_id = (program).id);

-- Returns whether a transaction id from the API can be the id of a payment at an account. The ids of other processors have no recognizable
-- format.
create or replace function can_have_payment(of_account_id text, transaction_id text) returns boolean language sql immutable
return starts_with(of_account_id, 'conn_') or transaction_id ~ '^(in|pi|ch|py|cs)_';
