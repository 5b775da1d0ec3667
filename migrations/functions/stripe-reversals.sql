-- What is kept of the refunds and disputes of a sale's payments. A refund in another currency than the sale's is left to people.
create or replace function told_reversals(sale sales) returns processor_reversals[] language plpgsql as $$
declare
  of_account_id text;
  payment_ids text[];
begin
  select p.processor_account_id into of_account_id from programs p where p.id = sale.program_id;
  payment_ids := array(
    select m.payment_id from processor_payments m where m.account_id = of_account_id and m.transaction_id = sale.transaction_id
  ) || sale.transaction_id;
  return (
    select array_agg(v) from processor_reversals v
    where v.account_id = of_account_id and (v.payment_intent_id = any (payment_ids) or v.charge_id = any (payment_ids))
      and v.currency = sale.currency and v.livemode <> sale.is_test
  );
end $$;

-- Carries what is kept of a sale's payments, refunds and disputes into it, and says so of the events that were parked for it.
create or replace function settle_reversals(of_program_id bigint, of_sale_id bigint) returns void language plpgsql as $$
declare
  sale sales;
  told processor_reversals[];
begin
  select s.* into strict sale from sales s where s.program_id = of_program_id and s.id = of_sale_id;
  told := told_reversals(sale);
  perform settle_refunds(of_program_id, of_sale_id, told);
  update processor_events e set outcome = 'recorded', reason = 'Applied when its sale became known.'
  from unnest(told) t
  where e.account_id = t.account_id and e.event_id in (t.event_id, t.returned_event_id) and e.outcome = 'parked';
end $$;
