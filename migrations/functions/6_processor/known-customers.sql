-- Payments without metadata from customers who are known from earlier payments. A program's setting decides whether it attributes them.

-- Returns, for each connected account, the names under which a program's excluded payments wait.
create or replace function names_of_excluded(program programs) returns text[] language sql stable
return array(select awaited_name(a, 'setting', (program).id::text) from unnest(connected_accounts(program)) a);

-- Enables the setting and parks the excluded payments, so that they are applied again. Returns the accounts of these events.
create or replace function attribute_known_customers(of_program_id bigint) returns text[] language plpgsql as $$
declare
  program programs;
begin
  update programs p set attribute_known_customers = true where p.id = of_program_id returning p.* into program;
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'setting_on'
  where e.awaits && names_of_excluded(program) and e.outcome = 'ignored';
  return connected_accounts(program);
end $$;

-- Counts the payments that a program's setting excludes.
create or replace function count_excluded_payments(of_program_id bigint) returns bigint language sql stable as $$
  select count(distinct coalesce(i.transaction_id, e.fact#>>'{sale,transaction_id}'))
  from programs p
  join processor_events e on e.awaits && names_of_excluded(p)
  left join processor_payments i on i.account_id = e.account_id and i.payment_id = e.fact#>>'{sale,transaction_id}'
  where p.id = of_program_id
$$;

-- Returns the objects of an account's past (in `past_objects`, counted from 0) that belong to a sale or a buyer of the account's programs.
create or replace function known_of_past(of_account_id text, past_objects jsonb) returns table (place integer, is_test boolean)
language sql stable as $$
  with objects as (
    select (o.place - 1)::integer as place, o.fact from jsonb_array_elements(past_objects) with ordinality o (fact, place)
  ), named as (
    select o.place, i.id from objects o cross join jsonb_array_elements_text(o.fact->'payment_ids') i (id)
  ), pointed_to as (
    select n.place, n.id from named n union
    select n.place, p.transaction_id from named n join processor_payments p on p.account_id = of_account_id and p.payment_id = n.id
  ), of_payment as (
    select t.place, t.id from pointed_to t union
    select t.place, p.payment_id from pointed_to t join processor_payments p on p.account_id = of_account_id and p.transaction_id = t.id
  )
  select i.place, s.is_test from of_payment i cross join (values (false), (true)) mode (is_test)
  cross join connected_programs(of_account_id) p
  join sales s on s.program_id = p.id and s.is_test = mode.is_test and s.transaction_id = i.id
  union
  select o.place, not m.livemode from objects o join processor_customer_metadata m
    on m.account_id = of_account_id and m.processor_customer_id = o.fact->>'processor_customer_id'
    and (m.program_id is not null or m.click_id is not null)
  union
  select o.place, mode.is_test from objects o cross join (values (false), (true)) mode (is_test)
  where (known_buyer(of_account_id, mode.is_test, o.fact)).id is not null
$$;
