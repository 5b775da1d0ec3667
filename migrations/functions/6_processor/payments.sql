-- One payment has several ids at the processor: of its checkout session, its charge, its intent and the invoice that it paid. A sale is stored
-- under the id that its first event has; processor_payments keeps which ids are of one payment, each pointing to the
-- one that ranks highest among them.

-- An invoice can be paid by several intents, an intent tried by several charges, so each of them stands for all that is of lower rank.
create or replace function rank_of_id(id text) returns integer language sql immutable
return case substr(id, 1, 3) when 'in_' then 3 when 'pi_' then 2 when 'cs_' then 1 else 0 end;

create or replace function first_with_prefix(ids text[], prefix text) returns text language sql immutable
as $$ select id from unnest(ids) id where starts_with(id, prefix) order by id limit 1 $$;

-- The ids by which an event names its payment.
create or replace function payment_ids_of(fact jsonb) returns text[] language sql immutable
return array(select jsonb_array_elements_text(fact->'payment_ids'));

-- Locks ids of an account, lower ranks first and otherwise in an order that is the same for all.
create or replace function lock_ids(of_account_id text, ids text[]) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(key) from (
    select min(rank_of_id(id)) as rank, hashtextextended(of_account_id || ' ' || id, 0) as key
    from unnest(ids) id where id is not null group by 2 order by 1, 2
  ) keys;
end $$;

-- Holds this transaction back until others about the same payment are done, so that a sale and a refund of it that arrive at once cannot
-- miss each other: first the payment's own ids, then what these point to, which may have become another id while this waited. Ranks only rise on
-- the way, so that two cannot wait for each other. Nobody can change where an id points without holding what it points to.
create or replace function lock_payments(of_account_id text, ids text[]) returns void language plpgsql as $$
declare
  locked text[] := array[]::text[];
  wanted text[] := ids;
begin
  while cardinality(wanted) > 0 loop
    perform lock_ids(of_account_id, wanted);
    locked := locked || wanted;
    wanted := array(
      select distinct p.transaction_id from processor_payments p
      where p.account_id = of_account_id and p.payment_id = any (ids) and p.transaction_id <> all (locked)
    );
  end loop;
end $$;

-- Keeps that these ids are of one payment. An id that points to an invoice already stays with that one.
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

-- All ids that are known to be of the same payment as these.
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

-- Locks the customers of all sales of a payment, in the order of their ids and before anything else of these sales, where there are several: such
-- sales are made one, and two payments of the same two customers would wait for each other in a circle.
create or replace function lock_customers_of_payment(of_account_id text, ids text[], buyer_id bigint) returns void language plpgsql as $$
declare
  all_ids text[] := ids_of_payment(of_account_id, ids);
  customer_ids bigint[];
begin
  select array_agg(distinct s.customer_id) into customer_ids from programs p join sales s on s.program_id = p.id
  where p.processor_account_id = of_account_id and s.transaction_id = any (all_ids) and s.customer_id is not null;
  customer_ids := array_remove(customer_ids || buyer_id, null);
  if cardinality(customer_ids) > 1 then
    perform from customers c join programs p on p.id = c.program_id
    where p.processor_account_id = of_account_id and c.id = any (customer_ids) order by c.program_id, c.id for no key update of c;
  end if;
end $$;

-- The sale that one of these ids stands for, in a program of the account; all null where none is known. One that the processor told of comes
-- before one that the API did.
create or replace function sale_of_payments(of_account_id text, of_test boolean, ids text[]) returns sales language plpgsql as $$
declare
  -- Once, and not for each sale that is looked at.
  all_ids text[] := ids_of_payment(of_account_id, ids);
  sale sales;
begin
  select s.* into sale from programs p join sales s on s.program_id = p.id
  where p.processor_account_id = of_account_id and s.is_test = of_test and s.transaction_id = any (all_ids)
  -- One that turned out to be of the same payment as another brings nothing any more.
  order by s.amount_cents = 0, s.processor_event_id is null, s.program_id, s.id limit 1;
  return sale;
end $$;
