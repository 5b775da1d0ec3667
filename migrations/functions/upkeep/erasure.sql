-- The reason in a notification about a refund, without any text that a person wrote.
create or replace function without_words(payload jsonb) returns jsonb language sql immutable
return case when payload->>'reason' is null or payload->>'reason' in ('refund', 'chargeback') then payload
  else payload || '{"reason": "refund"}' end;

-- The time at which a click id was created. None of its clicks is older than that.
create or replace function click_id_created_at(click_id text) returns timestamptz language sql immutable
return case when click_id ~ '^cust_\d{13}_' then to_timestamp(substr(click_id, 6, 13)::bigint / 1000.0) end;

-- Removes the visitor's details from clicks of a period, by customer or by click id. Totals don't change, because
-- the link, the time and the bot flag are kept. Returns the number of clicks.
create or replace function erase_clicks(
  of_program_id bigint, customer_ids bigint[], of_click_id text, since timestamptz, until timestamptz, new_click_id text
) returns bigint language plpgsql as $$
declare
  has_sink constant boolean := has_click_sink();
  erased bigint;
begin
  with changed as (
    update affiliate_click_events e set click_id = new_click_id, session_id = null, affiliate_url = null, page_url = null, page_title = null,
      referrer_url = null, user_agent = null, screen_resolution = null, viewport_size = null, language = null, timezone = null,
      geo_country = null, geo_region = null, geo_city = null, device_type = case when e.device_type = 'bot' then 'bot' end, device_os = null,
      browser_name = null, additional_data = null, campaign = null, visitor = null, click_random = null, click_ms = null,
      landing_part = null, page_part = null, browser_part = null, place_part = null, referrer_part = null
    where e.program_id = of_program_id and not e.is_test
      and e.click_timestamp between since and coalesce(until, 'infinity')
      and (e.customer_id = any (customer_ids) or customer_ids is null and (e.click_id = of_click_id
        or e.click_id is null and e.click_random = (select c.random from split_click_id(of_program_id, of_click_id) c)))
    returning e.click_timestamp, e.id
  ),
  unsent as (
    insert into unsent_clicks (program_id, clicked_at, event_id, is_erased)
    select of_program_id, c.click_timestamp, c.id, true from changed c where has_sink
  ),
  months as (
    update rewritten_months m set changed_at = now() where m.month in (select month_of(c.click_timestamp) from changed c)
  )
  select count(*) into erased from changed;
  return erased;
end $$;

-- Erases data about a person who isn't a customer: the clicks of a visitor whose row expired, and the processor's
-- reports of an unattributed purchase and of the same buyer. Returns the number of rows, including those of a failed
-- earlier attempt. `is_new` says whether this call changed any row. Clicks have no index by click id, so this reads
-- the clicks since the id was created.
create or replace function erase_leftovers(
  of_program_id bigint, of_customer_key text, of_click_id text, new_click_id text, out erased bigint, out is_new boolean
) language plpgsql as $$
declare
  program programs;
  hashes text[];
  buyers text[];
  reported_before bigint;
begin
  select p.* into program from programs p where p.id = of_program_id;
  if not exists (
    select from customers c where c.program_id = of_program_id and (c.click_id = of_click_id or c.click_id = new_click_id)
  ) then
    erased := erase_clicks(of_program_id, null, of_click_id, click_id_created_at(of_click_id) - interval '1 day', null, new_click_id);
  end if;
  select array_agg(distinct e.fact->>'email_hash'), array_agg(distinct e.fact->>'processor_customer_id') into hashes, buyers
  from processor_events e
  where (e.program_id = of_program_id or e.program_id is null and e.account_id = any (accounts_of(program)))
    and (e.fact->>'click_id' = of_click_id or e.fact->>'customer_key' = of_customer_key);
  update processor_events e set payload = null, awaits = null, fact = e.fact || jsonb_build_object('customer_key', null, 'click_id', null,
    'email_hash', null, 'mailbox_hash', null, 'processor_customer_id', null, 'erased_as', new_click_id)
  where (e.program_id = of_program_id or e.program_id is null and e.account_id = any (accounts_of(program)))
    and (e.fact->>'click_id' = of_click_id or e.fact->>'customer_key' = of_customer_key
      or e.fact->>'email_hash' = any (hashes) or e.fact->>'processor_customer_id' = any (buyers));
  get diagnostics reported_before = row_count;
  erased := coalesce(erased, 0) + reported_before;
  is_new := erased > 0;
  if not is_new then
    -- Counts the rows of an earlier attempt whose response was lost.
    erased := (
      select count(*) from processor_events e where e.program_id = of_program_id and e.fact->>'erased_as' = new_click_id
    ) + (
      select count(*) from affiliate_click_events e
      where e.program_id = of_program_id and not e.is_test and e.click_timestamp > click_id_created_at(of_click_id) - interval '1 day'
        and e.click_id = new_click_id
    );
  end if;
end $$;

-- Returns the type of an erased sale. A type that appears in a rule belongs to the program, and the commission depends on it. Any other
-- type may describe the customer. A type without any rule replaces it, so that the commission stays correct.
create or replace function erased_sale_type(sale sales) returns text language sql stable as $$
  select case when sale.sale_type = any (r.types) then sale.sale_type when w.word = any (r.types) then 'erased' else w.word end
  from (select array(select c.sale_type::text from commission_rules c where c.program_id = (sale).program_id) as types) r
  cross join (select case when (sale).is_recurring then 'subscription' else 'payment' end as word) w
$$;

-- Erases the customer's ids, and texts from the customer or the integrator, in sales and their refunds. The ids of payments stay.
create or replace function erase_words_of_sales(of_program_id bigint, sale_ids bigint[]) returns void language plpgsql as $$
begin
  -- If a code isn't a partner's code, the buyer typed it.
  update sales s set customer_key = null, subscription_id = null, processor_customer_id = null, additional_data = null,
    sale_type = erased_sale_type(s), api_payload = null,
    coupon = case when s.code_id is not null then s.coupon end
  where s.program_id = of_program_id and s.id = any (sale_ids);
  update processor_reversals v set reason_text = null
  from refunds r
  where r.program_id = of_program_id and r.sale_id = any (sale_ids) and v.reversal_id = r.processor_reversal_id and v.reason_text is not null;
  update refunds r set reason_text = null, refund_key = case
    when starts_with(r.refund_key, 'id:') and r.refund_key is distinct from 'id:' || r.processor_reversal_id
      then erased_refund_key(r.refund_key, replace(gen_random_uuid()::text, '-', ''))
    else r.refund_key end
  where r.program_id = of_program_id and r.sale_id = any (sale_ids);
end $$;

-- Erases those texts in commissions, their reviews, adjustments, and notifications about them.
create or replace function erase_words_of_commissions(of_program_id bigint, customer_ids bigint[], sale_ids bigint[]) returns void
language plpgsql as $$
declare
  commission_ids bigint[];
  adjustment_ids bigint[];
begin
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
  -- Erases evidence about the customer, and the reviewer's note.
  update commission_reviews v set note = null, flags = (select jsonb_agg(f - 'evidence') from jsonb_array_elements(v.flags) f)
  from commissions c
  where c.program_id = of_program_id and c.customer_id = any (customer_ids) and v.program_id = c.program_id and v.commission_id = c.id;
  -- Notes on adjustments for one of the sales.
  adjustment_ids := array(select a.id from adjustments a where a.program_id = of_program_id and a.sale_id = any (sale_ids));
  update adjustments a set note = null where a.program_id = of_program_id and a.id = any (adjustment_ids) and a.note is not null;
  update outbox o set payload = o.payload - 'reason'
  where o.program_id = of_program_id and (o.payload->>'adjustment_id')::bigint = any (adjustment_ids);
  update notifications n set payload = o.payload
  from outbox o
  where o.program_id = of_program_id and ((o.payload->>'commission_id')::bigint = any (commission_ids)
      or (o.payload->>'adjustment_id')::bigint = any (adjustment_ids))
    and n.program_id = o.program_id and n.id = o.id and n.payload <> o.payload;
end $$;

-- Erases those texts in webhook messages, in the responses from the program's servers, which may repeat anything, and in processor events.
create or replace function erase_words_of_messages(of_program_id bigint, customer_ids bigint[], sale_ids bigint[]) returns void
language plpgsql as $$
declare
  message_ids bigint[];
begin
  message_ids := array(
    select m.id from webhook_messages m
    where m.program_id = of_program_id
      and ((m.data->>'customer_id')::bigint = any (customer_ids) or (m.data->>'sale_id')::bigint = any (sale_ids))
  );
  update webhook_messages m set data = m.data - 'subscription_id' - 'coupon' || jsonb_build_object('sale_type', s.sale_type)
  from sales s
  where m.program_id = of_program_id and m.id = any (message_ids) and m.data ? 'sale_type'
    and s.program_id = m.program_id and s.id = (m.data->>'sale_id')::bigint;
  update webhook_messages m set data = m.data - 'campaign'
  where m.program_id = of_program_id and m.id = any (message_ids) and m.data ? 'campaign';
  update webhook_attempts a set answer = null
  where a.program_id = of_program_id and a.message_id = any (message_ids) and a.answer is not null;
  update processor_events e set fact = jsonb_set(e.fact, '{reversals}', (
    select jsonb_agg(reversal || '{"reason_text": null}') from jsonb_array_elements(e.fact->'reversals') reversal
  ))
  from sales s
  where s.program_id = of_program_id and s.id = any (sale_ids) and e.program_id = of_program_id
    and (e.fact->>'payment_intent_id' = s.processor_payment_intent_id or e.fact->>'charge_id' in (s.processor_charge_id, s.transaction_id))
    and case when jsonb_typeof(e.fact->'reversals') = 'array' then jsonb_array_length(e.fact->'reversals') > 0 else false end;
end $$;

-- Erases the texts in imports about customers. The former service still has them.
create or replace function erase_import_rows(of_program_id bigint, customer_ids bigint[], keys text[]) returns void language plpgsql as $$
begin
  update import_rows r set fields = '{}', source_id = 'erased', replaced = null
  where r.program_id = of_program_id and r.kind = 'customer'
    and (r.target_id = any (customer_ids) or r.fields->>'customer_key' = any (keys));
  update import_rows r set fields = r.fields - 'customer'
  where r.program_id = of_program_id and r.kind = 'commission' and r.fields->>'customer' = any (keys);
end $$;

-- Erases texts from the customer or the integrator about the customer's payments: reasons and ids of refunds, types of sales, and their
-- copies in commissions, notifications, webhooks and processor events. Also erases the visitor's details from their clicks. The ids of
-- payments stay (`transaction_id` and the processor's ids), because a later refund, dispute or repeat contains nothing else. Returns the
-- number of sales, and of rows besides customers and sales. A sale that commits meanwhile keeps its key and its texts, so that another
-- erasure finds it. Only `eraseCustomer` in lib/tracking/erase-customer.ts calls it, and erases the rest.
create or replace function erase_events(
  of_program_id bigint, of_customer_key text, of_click_id text, new_click_id text, out leftovers bigint, out sales bigint
) language plpgsql as $$
declare
  is_new boolean;
  customer_ids bigint[];
  keys text[];
  sale_ids bigint[];
begin
  select l.erased, l.is_new into leftovers, is_new from erase_leftovers(of_program_id, of_customer_key, of_click_id, new_click_id) l;
  select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.customer_key), '{}') || of_customer_key into customer_ids, keys
  from customers c
  where c.program_id = of_program_id
    and (c.customer_key = of_customer_key or c.click_id = of_click_id or c.click_id = new_click_id);
  -- A click moves `last_click_at` to its own time, so these bounds limit the partitions and the part of the key that
  -- are read.
  perform erase_clicks(of_program_id, customer_ids, null, min(c.created_at) - interval '1 day',
    coalesce(max(c.last_click_at), min(c.created_at)) + interval '1 day', new_click_id)
  from customers c where c.program_id = of_program_id and c.id = any (customer_ids)
  having count(*) > 0;
  sale_ids := array(
    select s.id from sales s
    where s.program_id = of_program_id and (s.customer_id = any (customer_ids) or s.customer_key = any (keys))
    order by s.id for no key update
  );
  sales := cardinality(sale_ids);
  if is_new or cardinality(sale_ids) > 0 or exists (
    select from customers c where c.program_id = of_program_id and c.id = any (customer_ids) and c.click_id <> new_click_id
  ) then
    perform write_program_audit(of_program_id, 'customer.erased', null, null);
  end if;
  perform erase_import_rows(of_program_id, customer_ids, keys);
  perform erase_words_of_sales(of_program_id, sale_ids);
  perform erase_words_of_commissions(of_program_id, customer_ids, sale_ids);
  perform erase_words_of_messages(of_program_id, customer_ids, sale_ids);
end $$;
