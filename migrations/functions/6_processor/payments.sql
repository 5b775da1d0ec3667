-- One payment has several ids at the processor: for its checkout session, its charge, its intent and its invoice. A sale is stored under
-- the id in its first event. processor_payments stores which ids belong to one payment. Each id points to the id with the highest rank.

-- Returns the rank of an id. Several intents can pay one invoice, and one intent can have several charges, so each id covers all ids of
-- lower rank. If a processor has orders, an order covers the start of its subscription (`subscription_…`), which covers the first invoice
-- (`invoice_…`).
create or replace function rank_of_id(id text) returns integer language sql immutable
return case substr(id, 1, 3) when 'in_' then 3 when 'pi_' then 2 when 'cs_' then 1 when 'sub' then -1 when 'inv' then -2 else 0 end;

create or replace function first_with_prefix(ids text[], prefix text) returns text language sql immutable
as $$ select id from unnest(ids) id where starts_with(id, prefix) order by id limit 1 $$;

-- Returns the ids of an event's payment.
create or replace function payment_ids_of(fact jsonb) returns text[] language sql immutable
return array(select jsonb_array_elements_text(fact->'payment_ids'));

-- The position of an id or a name in the lock order: payments by rank, then customers at the processor, then other names of buyers.
create or replace function lock_place(id text) returns integer language sql immutable
return case when starts_with(id, 'customer ') then 4 when position(' ' in id) > 0 then 5 else rank_of_id(id) end;

-- Locks ids and names of an account, in the same order for all callers. These locks come before the locks of rows: customers, sales,
-- commissions and balances.
create or replace function lock_ids(of_account_id text, ids text[]) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(key) from (
    select min(lock_place(id)) as place, hashtextextended(of_account_id || ' ' || id, 0) as key
    from unnest(ids) id where id is not null group by 2 order by 1, 2
  ) keys;
end $$;

-- Waits for other transactions about the same payment, so that a sale and its concurrent refund cannot miss each other. Locks all ids of
-- the payment. If another transaction adds an id while this one waits, the exception releases all locks, and the function locks all ids
-- again in order. A transaction changes the target of an id only while it holds the old target.
create or replace function lock_payments(of_account_id text, ids text[]) returns void language plpgsql as $$
declare
  wanted text[] := ids_of_payment(of_account_id, ids);
begin
  loop
    begin
      perform lock_ids(of_account_id, wanted);
      exit when wanted @> ids_of_payment(of_account_id, ids);
      raise sqlstate 'SVCLK';
    exception when sqlstate 'SVCLK' then
      wanted := ids_of_payment(of_account_id, ids);
    end;
  end loop;
end $$;

-- Stores that these ids belong to one payment. An id that points to an invoice stays with it.
create or replace function learn_payments(of_account_id text, ids text[]) returns void language plpgsql as $$
declare
  known text[] := array(select id from unnest(ids) id where id is not null union
    select p.transaction_id from processor_payments p where p.account_id = of_account_id and p.payment_id = any (ids));
  highest text := (select id from unnest(known) id order by rank_of_id(id) desc, id limit 1);
begin
  known := array(select id from unnest(known) id where rank_of_id(id) < rank_of_id(highest));
  update processor_payments p set transaction_id = highest where p.account_id = of_account_id and p.transaction_id = any (known);
  insert into processor_payments (account_id, payment_id, transaction_id)
  select of_account_id, id, highest from unnest(known) id order by id
  on conflict do nothing;
end $$;

-- Returns all known ids of the payment that has one of these ids.
create or replace function ids_of_payment(of_account_id text, ids text[]) returns text[] language sql stable as $$
  with pointed_to as (
    select id from unnest(ids) id union
    select p.transaction_id from processor_payments p where p.account_id = of_account_id and p.payment_id = any (ids)
  )
  select array(
    select id from pointed_to union
    select p.payment_id from processor_payments p join pointed_to t on t.id = p.transaction_id where p.account_id = of_account_id
    order by 1
  )
$$;

-- Locks the customers of all sales of a payment, and its buyer, in the order of their ids. This lock comes before all other row locks.
create or replace function lock_customers_of_payment(of_account_id text, ids text[], buyer_id bigint) returns void language plpgsql as $$
declare
  all_ids text[] := ids_of_payment(of_account_id, ids);
  customer_ids bigint[];
begin
  select array_agg(distinct s.customer_id) into customer_ids from programs_of_account(of_account_id) p join sales s on s.program_id = p.id
  where s.transaction_id = any (all_ids) and s.customer_id is not null;
  perform from customers c join programs_of_account(of_account_id) p on p.id = c.program_id
  where c.id = any (customer_ids || buyer_id) order by c.program_id, c.id for no key update of c;
end $$;

-- Returns the sale of a payment that has one of these ids, in a program of the account. All fields are null if there is none. A sale that
-- the processor reported comes before a sale that only the API reported.
create or replace function sale_of_payments(of_account_id text, of_test boolean, ids text[]) returns sales language plpgsql as $$
declare
  -- Computed once instead of for each sale.
  all_ids text[] := ids_of_payment(of_account_id, ids);
  sale sales;
begin
  select s.* into sale from connected_programs(of_account_id) p join sales s on s.program_id = p.id
  where s.is_test = of_test and s.transaction_id = any (all_ids)
  -- A merged sale has an amount of 0 and comes last.
  order by s.amount_cents = 0, s.processor_event_id is null, s.program_id, s.id limit 1;
  return sale;
end $$;

-- Returns the program's sale of a payment that has one of these ids at an account. The account may be disconnected now.
create or replace function sale_of_program(of_program_id bigint, of_account_id text, of_test boolean, ids text[]) returns sales
language plpgsql stable as $$
declare
  all_ids text[] := ids_of_payment(of_account_id, ids);
  sale sales;
begin
  select s.* into sale from sales s
  where s.program_id = of_program_id and s.is_test = of_test and s.transaction_id = any (all_ids)
  order by s.amount_cents = 0, s.processor_event_id is null, s.id limit 1;
  return sale;
end $$;
