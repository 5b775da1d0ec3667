-- One payment has several ids at the processor: of its intent, its charge and the invoice that it paid. The sale is stored under one of them,
-- its transaction id; processor_payments keeps which other ids stand for that.

-- Locks ids of an account, one after the other in an order that is the same for all.
create or replace function lock_ids(of_account_id text, ids text[]) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(key) from (
    select distinct hashtextextended(of_account_id || ' ' || id, 0) as key from unnest(ids) id where id is not null order by 1
  ) keys;
end $$;

-- Holds this transaction back until others about the same payment are done, so that a sale and a refund of it that arrive at once cannot
-- miss each other: first the payment's ids, then the transactions that these are known to have paid, and `of_transaction_id` where one is
-- given. Nobody can change that knowledge without holding the former.
create or replace function lock_payments(of_account_id text, payment_ids text[], of_transaction_id text) returns void language plpgsql as $$
begin
  perform lock_ids(of_account_id, payment_ids);
  perform lock_ids(of_account_id, array(
    select p.transaction_id from processor_payments p where p.account_id = of_account_id and p.payment_id = any (payment_ids)
  ) || of_transaction_id);
end $$;

-- Keeps that these payments paid this transaction. What was known before stays.
create or replace function learn_payments(of_account_id text, payment_ids text[], of_transaction_id text) returns void
language plpgsql as $$
begin
  insert into processor_payments (account_id, payment_id, transaction_id)
  select of_account_id, id, of_transaction_id from unnest(payment_ids) id where id <> of_transaction_id order by id
  on conflict do nothing;
end $$;

-- The sale that one of these ids stands for, in a program of the account; all null where none is known. One that the processor told of comes
-- before one that the API did.
create or replace function sale_of_payments(of_account_id text, of_test boolean, payment_ids text[]) returns sales language plpgsql as $$
declare
  sale sales;
begin
  select s.* into sale from programs p join sales s on s.program_id = p.id
  where p.processor_account_id = of_account_id and s.is_test = of_test and s.transaction_id = any (payment_ids || array(
    select m.transaction_id from processor_payments m where m.account_id = of_account_id and m.payment_id = any (payment_ids)
  ))
  order by s.processor_event_id is null, s.program_id, s.id limit 1;
  return sale;
end $$;

-- Which invoice a payment paid. What is parked for the payment is applied where the invoice's sale is known.
create or replace function apply_invoice_payment(event processor_events) returns processor_events language plpgsql as $$
declare
  invoice_id text := event.fact->>'invoice_id';
  payment_ids text[] := array(select jsonb_array_elements_text(event.fact->'payment_ids'));
  sale sales;
begin
  perform lock_payments(event.account_id, payment_ids, invoice_id);
  perform learn_payments(event.account_id, payment_ids, invoice_id);
  sale := sale_of_payments(event.account_id, not event.livemode, array[invoice_id]);
  if sale.id is not null then
    perform settle_reversals(sale);
  end if;
  event.program_id := sale.program_id;
  return became(event, 'recorded', null);
end $$;
