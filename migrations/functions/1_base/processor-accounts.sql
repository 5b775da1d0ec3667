-- The accounts at the payment processor that belong to a program.

-- The programs that are connected to an account, or were connected to it before their present account.
create or replace function programs_of_account(of_account_id text) returns setof programs language sql stable as $$
  select p.* from programs p where of_account_id in (p.processor_account_id, p.processor_former_account_id)
$$;

-- The program's present account and the former one.
create or replace function accounts_of(program programs) returns text[] language sql immutable
return array[(program).processor_account_id, (program).processor_former_account_id];

-- The last connected account, even if the program has disconnected it.
create or replace function last_account_of(program programs) returns text language sql immutable
return coalesce((program).processor_account_id, (program).processor_former_account_id);
