-- A refund's id after its customer was erased: a digest with a salt of its own, which says nothing, but by which the same id told again is known.
create or replace function erased_refund_key(key text, salt text) returns text language sql immutable
return 'sha:' || salt || ':' || encode(sha256(convert_to(salt || key, 'UTF8')), 'hex');

-- Whether a stored refund key stands for this one.
create or replace function is_refund_key(stored text, key text) returns boolean language sql immutable
return stored = key or starts_with(stored, 'sha:') and stored = erased_refund_key(key, split_part(stored, ':', 2));

-- The reason of a message about a refund, without the words that somebody typed.
create or replace function without_words(payload jsonb) returns jsonb language sql immutable
return case when payload->>'reason' is null or payload->>'reason' in ('refund', 'chargeback') then payload
  else payload || '{"reason": "refund"}' end;

-- Removes from the payments of a customer what they or the integrator said of them in words: reasons and ids of refunds, the kind of sale, and
-- the copies in commissions, messages and what the processor told. The names of the payments themselves stay (`transaction_id`, and the
-- processor's ids): a refund, a dispute or a repeat that comes later is told by them and by nothing else. `eraseCustomer` in
-- lib/tracking/erase-customer.ts is its only caller, and erases the rest.
create or replace function erase_payments(of_program_id bigint, of_customer_key text, of_click_id text, new_click_id text) returns void
language plpgsql as $$
declare
  customer_ids bigint[];
  keys text[];
  sale_ids bigint[];
  commission_ids bigint[];
begin
  select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.customer_key), '{}') || of_customer_key into customer_ids, keys
  from customers c
  where c.program_id = of_program_id
    and (c.customer_key = of_customer_key or c.click_id = of_click_id or c.click_id = new_click_id);
  sale_ids := array(
    select s.id from sales s
    where s.program_id = of_program_id and (s.customer_id = any (customer_ids) or s.customer_key = any (keys))
    order by s.id for no key update
  );
  if cardinality(sale_ids) > 0 or exists (
    select from customers c where c.program_id = of_program_id and c.id = any (customer_ids) and c.click_id <> new_click_id
  ) then
    perform write_program_audit(of_program_id, 'customer.erased', null, null);
  end if;
  update sales s set sale_type = case when s.is_recurring then 'subscription' else 'payment' end, api_payload = null
  where s.program_id = of_program_id and s.id = any (sale_ids);
  update processor_reversals v set reason_text = null
  from refunds r
  where r.program_id = of_program_id and r.sale_id = any (sale_ids) and v.reversal_id = r.processor_reversal_id and v.reason_text is not null;
  update refunds r set reason_text = null, refund_key = case
    when starts_with(r.refund_key, 'id:') and r.processor_reversal_id is null
      then erased_refund_key(r.refund_key, replace(gen_random_uuid()::text, '-', ''))
    else r.refund_key end
  where r.program_id = of_program_id and r.sale_id = any (sale_ids);
  commission_ids := array(
    select c.id from commissions c where c.program_id = of_program_id and c.sale_id = any (sale_ids) order by c.id for no key update
  );
  update commissions c set reason = (
    select r.reason from refunds r
    where r.program_id = c.program_id and r.sale_id = c.sale_id and r.returned_at is null order by r.id desc limit 1
  )
  where c.program_id = of_program_id and c.id = any (commission_ids) and c.reason is not null and c.rejected_at is null;
  update outbox o set payload = without_words(o.payload)
  where o.program_id = of_program_id and (o.payload->>'commission_id')::bigint = any (commission_ids) and o.cause not like 'rejection:%';
  update notifications n set payload = o.payload
  from outbox o
  where o.program_id = of_program_id and (o.payload->>'commission_id')::bigint = any (commission_ids)
    and n.program_id = o.program_id and n.id = o.id and n.payload <> o.payload;
  update processor_events e set fact = jsonb_set(e.fact, '{reversals}', (
    select jsonb_agg(told || '{"reason_text": null}') from jsonb_array_elements(e.fact->'reversals') told
  ))
  from sales s
  where s.program_id = of_program_id and s.id = any (sale_ids) and e.program_id = of_program_id
    and (e.fact->>'payment_intent_id' = s.processor_payment_intent_id or e.fact->>'charge_id' = s.processor_charge_id)
    and case when jsonb_typeof(e.fact->'reversals') = 'array' then jsonb_array_length(e.fact->'reversals') > 0 else false end;
end $$;
