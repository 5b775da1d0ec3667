-- Records a refund from the API for `refundSale` in lib/money/refunds.ts. Returns no sale if the program has none with this id.
create or replace function track_refund(
  hash bytea, of_transaction_id text, key text, wanted_cents bigint, because text, because_text text, request uuid,
  out key_refusal text, out program_id bigint, out sale_id bigint, out commission_id bigint, out currency text, out outcome text,
  out deduction_cents bigint, out outbox_ids bigint[], out wrote_webhooks boolean
) language plpgsql as $$
#variable_conflict use_column
declare
  sale sales;
begin
  select k.program_id, use_key(k, 'track') into program_id, key_refusal from api_keys k where k.key_hash = hash;
  if key_refusal is distinct from '' then
    return;
  end if;
  -- If a live and a test sale have this id, the live sale wins.
  select s.* into sale from sales s
  where s.program_id = track_refund.program_id and not s.is_test and s.transaction_id = of_transaction_id for no key update;
  if sale.id is null then
    select s.* into sale from sales s
    where s.program_id = track_refund.program_id and s.is_test and s.transaction_id = of_transaction_id for no key update;
  end if;
  if sale.id is null or sale.amount_cents = 0 then
    sale := sale_of_processor_id(track_refund.program_id, of_transaction_id);
  end if;
  if sale.id is null then
    return;
  end if;
  sale_id := sale.id;
  select r.* into commission_id, currency, outcome, deduction_cents
  from refund_sale(sale, key, wanted_cents, because, because_text, request) r;
  outbox_ids := written_outbox_ids();
  wrote_webhooks := wrote_webhook();
end $$;

-- Finds and locks the program's sale for one of the processor's ids. The processor gives live and test payments different ids. All fields
-- are null if there is none.
create or replace function sale_of_processor_id(of_program_id bigint, processor_id text) returns sales language plpgsql as $$
declare
  account_id text;
  sale sales;
begin
  for account_id in
    select a.id from programs p cross join unnest(accounts_of(p)) a (id)
    where p.id = of_program_id and can_have_payment(a.id, processor_id)
  loop
    perform lock_payments(account_id, array[processor_id]);
    sale := sale_of_program(of_program_id, account_id, false, array[processor_id]);
    if sale.id is null then
      sale := sale_of_program(of_program_id, account_id, true, array[processor_id]);
    end if;
    select s.* into sale from sales s where s.program_id = of_program_id and s.id = sale.id for no key update;
    exit when sale.id is not null;
  end loop;
  return sale;
end $$;
