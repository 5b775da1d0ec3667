-- A checkout, a payment or an invoice: who bought, and what was paid for it where it was paid. An event of test mode makes a test sale, which
-- binds nobody.
create or replace function apply_purchase(event processor_events, answer jsonb, stem text) returns processor_events language plpgsql as $$
declare
  fact jsonb := event.fact;
  ids text[] := array_remove(array(select jsonb_array_elements_text(fact->'payment_ids')) || (answer->>'invoice_id'), null);
  is_told boolean := fact->>'sale' is not null;
  brought_nothing boolean := coalesce((fact#>>'{sale,amount_cents}')::bigint = 0, false);
  program programs;
  known customers;
  buyer customers;
  identified record;
  promotion_ids text[];
  came_by_code boolean := false;
  given sales;
begin
  -- What was paid says by what it was discounted, unless it has its partner already.
  if is_told and fact ? 'asks_discounts_of' and not answer ? 'promotion_code_ids' and knows_promotions(event.account_id)
    and (sale_of_payments(event.account_id, not event.livemode, ids)).customer_id is null then
    return became(event, null, 'discounts');
  elsif answer ? 'promotion_code_ids' and fact ? 'asks_discounts_of' then
    fact := fact - 'asks_discounts_of' || jsonb_build_object('promotion_code_ids', answer->'promotion_code_ids');
    event.fact := fact;
  end if;
  promotion_ids := array(select jsonb_array_elements_text(fact->'promotion_code_ids'));
  -- All that are known, since events that waited for this one may be applied with it.
  perform lock_payments(event.account_id, ids_of_payment(event.account_id, ids));
  perform learn_payments(event.account_id, ids);
  if event.livemode and fact#>>'{sale,amount_source}' in ('charge', 'intent') then
    fact := as_its_session_said(event.account_id, fact, ids);
    event.fact := fact;
  end if;
  if not is_told or fact->>'named_by' = 'customer' or (sale_of_payments(event.account_id, not event.livemode, ids)).customer_id is null then
    perform lock_ids(event.account_id, array['customer ' || (fact->>'processor_customer_id')]);
    fact := as_its_customer_says(event.account_id, event.livemode, fact);
    event.fact := fact;
  end if;
  program := program_of_purchase(event.account_id, fact);
  if program.id is null and fact->>'program_id' is null and is_told and not brought_nothing then
    program := program_of_promotion(event.account_id, promotion_ids);
    came_by_code := program.id is not null;
  end if;
  event.resolution := steps_of_source(fact, case
    when came_by_code then 'by_code'
    when program.id is not null and fact->>'program_id' is null then 'by_click'
    when program.id is not null then 'named'
    when fact->>'program_id' is not null then 'not_connected'
    else 'none' end);
  if program.id is null and fact->>'program_id' is null and is_told and not brought_nothing
    and (sale_of_payments(event.account_id, not event.livemode, ids)).id is null then
    perform lock_ids(event.account_id, buyer_names(fact));
    known := known_buyer(event.account_id, not event.livemode, fact);
    event.resolution := with_step(steps_of_source(fact, 'none'), 'known_buyer', case
      when num_nonnulls(fact#>>'{sale,subscription_id}', fact->>'processor_customer_id') = 0 then 'not_given'
      when known.id is null then 'unknown'
      else 'found' end);
    -- Waits for who is just turning the setting on, so that none is left out that they do not see.
    select p.* into program from programs p where p.id = known.program_id for share;
  end if;
  if program.id is null and fact->>'program_id' is not null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    elsif fact->>'named_by' = 'customer' then
      event.awaits := awaited_names(event.account_id, lasting_names(fact));
    end if;
    return became(event, 'ignored', format('program_not_connected %s', fact->>'program_id'));
  elsif is_told and (program.id is null or brought_nothing) then
    return correct_known_purchase(event, ids);
  elsif program.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    elsif fact->>'awaits_payment' = 'true' then
      event.awaits := awaited_names(event.account_id, lasting_names(fact));
    end if;
    return became(event, 'ignored', 'no_program_named');
  end if;
  -- An intent no longer says which invoice it paid. One that is known to be of an invoice or of a checkout needs no question.
  if fact->>'asks_invoice_of' is not null and not answer ? 'invoice_id' and not exists (
    select from processor_payments p where p.account_id = event.account_id and (p.payment_id = fact->>'asks_invoice_of'
      or p.transaction_id = fact->>'asks_invoice_of' and rank_of_id(p.payment_id) = 1)
  ) then
    return became(event, null, 'invoice');
  end if;
  event.program_id := program.id;
  if known.id is not null and not program.attribute_known_customers then
    event.resolution := with_step(event.resolution, 'setting', 'off');
    return leave_out(event);
  elsif (known.id is not null or came_by_code or fact->>'named_by' = 'customer'
      -- A code decides over a click, and an intent does not say that one was used.
      or fact#>>'{sale,amount_source}' in ('intent', 'charge') and program.attribution_priority = 'code' and knows_promotions(event.account_id))
    and fact->>'told_alone' = 'false'
    and event.event_created_at > now() - interval '1 hour' and (sale_of_payments(event.account_id, not event.livemode, ids)).id is null then
    event.waits_for := 'session';
    event.awaits := array[awaited_name(event.account_id, 'payment', fact#>>'{sale,transaction_id}')];
    return became(event, 'parked', 'may_be_explained');
  end if;
  if event.livemode then
    -- Two purchases at once, of which one says who the other's buyer is, come one after the other.
    perform lock_ids(event.account_id, buyer_names(fact));
  end if;
  if known.id is null then
    identified := identify_buyer(program, fact, case when event.livemode then stem end, event.resolution);
    buyer := identified.buyer;
    event.resolution := identified.resolution;
  else
    select c.* into buyer from customers c where c.program_id = known.program_id and c.id = known.id for no key update;
  end if;
  if is_told and cardinality(promotion_ids) > 0 then
    given.program_id := program.id;
    given.customer_key := fact->>'customer_key';
    given.resolution := event.resolution;
    given := with_code(given, promotion_ids, (fact->>'started_at')::timestamptz);
    event.resolution := given.resolution;
    fact := jsonb_set(fact, '{sale}', fact->'sale' || jsonb_build_object('coupon', given.coupon, 'code_id', given.code_id));
    event.fact := fact;
    if buyer.id is null and given.code_id is not null and event.livemode
      and (sale_of_payments(event.account_id, false, ids)).customer_id is null then
      given.customer_id := add_customer_of_code(given, stem, decode(fact->>'email_hash', 'hex'), (fact->>'started_at')::timestamptz);
      select c.* into buyer from customers c where c.program_id = program.id and c.id = given.customer_id for no key update;
    end if;
  end if;
  if event.livemode and buyer.id is not null then
    perform keep_buyer(buyer, fact);
  end if;

  event := case
    when is_told then record_purchase(event, ids, buyer)
    when buyer.id is null then became(event, 'ignored', 'unpaid_and_unattributed')
    when fact->>'awaits_payment' = 'true' then became(event, 'recorded', 'payment_under_way')
    when fact->>'settles_lead' = 'true' then became(event, 'recorded', 'lead_settled')
    else became(event, 'recorded', 'customer_known_unpaid')
  end;
  if event.livemode and fact->>'awaits_payment' = 'true' then
    perform keep_session(program.id, buyer.id, fact);
    if buyer.id is null then
      event.awaits := awaited_names(event.account_id, buyer_names(fact));
    end if;
    perform apply_payment_of_session(event, ids, buyer.id, stem);
  end if;
  if event.livemode and buyer.id is not null then
    perform attribute_awaiting_purchases(event.account_id, program, buyer_names(fact) || names_of_customer(buyer));
    perform park_awaiting_payments(event.account_id, true, lasting_names(fact), (fact->>'started_at')::timestamptz);
  end if;
  return event;
end $$;

-- What an intent or a charge says of a payment whose session awaited it: whose it is and which part of it is tax are as the session said.
create or replace function as_its_session_said(of_account_id text, fact jsonb, ids text[]) returns jsonb language plpgsql stable as $$
declare
  session processor_sessions;
begin
  select s.* into session from programs p join processor_sessions s on s.program_id = p.id
  where p.processor_account_id = of_account_id and s.session_id = any (ids_of_payment(of_account_id, ids)) limit 1;
  if session.session_id is null then
    return fact;
  end if;
  fact := fact || jsonb_build_object('program_id', session.program_id, 'session_id', session.session_id, 'asks_invoice_of', null);
  if session.asked_total is null then
    return fact;
  end if;
  return jsonb_set(fact, '{sale}', fact->'sale' || jsonb_build_object('amount_source', 'session', 'commission_base_cents',
    untaxed_part((fact#>>'{sale,amount_cents}')::bigint, session.asked_untaxed, session.asked_total)));
end $$;

-- Which part of what was paid is no tax, rounded half up.
create or replace function untaxed_part(paid_cents bigint, untaxed bigint, total bigint) returns bigint language sql immutable
return div(2 * paid_cents::numeric * untaxed + total, 2 * total::numeric)::bigint;

-- A session that awaits its payment, told after that: what is known of the payment becomes the sale of its buyer.
create or replace function apply_payment_of_session(event processor_events, ids text[], buyer_id bigint, stem text) returns void
language plpgsql as $$
declare
  given sales := sale_of_payments(event.account_id, false, ids);
  waiting processor_events;
begin
  if given.program_id = event.program_id then
    given.customer_id := coalesce(given.customer_id, buyer_id);
    given.resolution := coalesce(event.resolution, given.resolution);
    given.processor_session_id := event.fact->>'session_id';
    -- What the API said of the amount is no word of the processor's, and stays the API's.
    if given.amount_source in ('charge', 'intent') and event.fact#>>'{asked,total}' is not null then
      given.amount_source := 'session';
      given.commission_base_cents := untaxed_part(given.amount_cents, (event.fact#>>'{asked,untaxed}')::bigint,
        (event.fact#>>'{asked,total}')::bigint);
    end if;
    perform record_sale(given, true);
    perform settle_reversals(sale_of_payments(event.account_id, false, ids));
    return;
  end if;
  for waiting in
    update processor_events e set awaits = null, waits_for = null
    where e.account_id = event.account_id and e.livemode
      and e.awaits && array(select awaited_name(e.account_id, 'payment', id) from unnest(ids_of_payment(event.account_id, ids)) id)
    returning e.*
  loop
    waiting := apply_purchase(waiting, '{"promotion_code_ids": []}', stem);
    update processor_events e set outcome = waiting.outcome, reason = 'session_known', program_id = waiting.program_id,
      resolution = waiting.resolution,
      awaits = waiting.awaits
    where e.account_id = waiting.account_id and e.event_id = waiting.event_id and waiting.outcome <> 'ignored';
  end loop;
end $$;

-- An invoice that names no program, or that brought nothing, makes no sale. But it decides over the sale that its session makes, whichever
-- comes first: until then it waits in the log.
create or replace function correct_known_purchase(event processor_events, ids text[]) returns processor_events language plpgsql as $$
declare
  sale sales := sale_of_payments(event.account_id, not event.livemode, ids);
begin
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    end if;
    event.awaits := array[awaited_name(event.account_id, 'payment', event.fact#>>'{sale,transaction_id}')];
    if event.fact#>>'{sale,amount_cents}' = '0' then
      return became(event, 'ignored', 'nothing_paid');
    end if;
    event.awaits := event.awaits || awaited_names(event.account_id, lasting_names(event.fact));
    return became(event, 'ignored', 'no_program_named');
  end if;
  event.program_id := sale.program_id;
  return record_purchase(event, ids, null);
end $$;

-- What was paid is a sale, once, however many events tell of it. What came before it and is of the same payment is applied: refunds, disputes,
-- and an invoice that decides over it.
create or replace function record_purchase(event processor_events, ids text[], buyer customers) returns processor_events
language plpgsql as $$
declare
  known sales := sale_of_payments(event.account_id, not event.livemode, ids);
  given sales;
  sale sales;
begin
  if known.program_id <> event.program_id then
    known := null;
  end if;
  ids := ids_of_payment(event.account_id, ids);
  given := purchased_sale(event, known, ids, buyer.id);
  select (r.sale).* into sale from record_sale(given, true) r;
  perform settle_reversals(sale);
  select s.* into sale from sales s where s.program_id = sale.program_id and s.id = sale.id;
  if sale.customer_id is null and event.livemode then
    event.awaits := awaited_names(event.account_id, buyer_names(event.fact));
  end if;
  if sale.processor_event_id = event.event_id then
    return became(event, 'recorded', case when sale.customer_id is null then 'no_partner' end);
  elsif (sale.amount_cents, sale.commission_base_cents) <> (known.amount_cents, known.commission_base_cents) then
    return became(event, 'recorded', format('sale_corrected %s', sale.transaction_id));
  end if;
  return became(event, 'duplicate', format('known_payment %s', sale.transaction_id));
end $$;

-- Has the invoices of a payment decide over its sale that came before it and make no sale themselves.
create or replace function apply_awaiting_invoices(sale sales, of_account_id text, ids text[]) returns void language plpgsql as $$
declare
  event processor_events;
begin
  for event in
    update processor_events e set awaits = null, waits_for = null, program_id = sale.program_id, outcome = 'recorded',
      reason = 'sale_known'
    where e.account_id = of_account_id and e.livemode <> sale.is_test
      and e.awaits && array(select awaited_name(of_account_id, 'payment', id) from unnest(ids) id)
    returning e.*
  loop
    if event.livemode and event.fact#>>'{sale,amount_source}' in ('charge', 'intent') then
      event.fact := as_its_session_said(of_account_id, event.fact, ids);
    end if;
    perform record_sale(purchased_sale(event, sale, ids, null), true);
  end loop;
end $$;

-- The sale that an event tells of: of the customer of the sale that is `known` of this payment, where there is one, else of `of_customer_id`.
create or replace function purchased_sale(event processor_events, known sales, ids text[], of_customer_id bigint) returns sales
language plpgsql as $$
declare
  given sales := jsonb_populate_record(null::sales, event.fact->'sale');
begin
  given.processor_invoice_id := coalesce(given.processor_invoice_id, first_with_prefix(ids, 'in_'));
  given.transaction_id := coalesce(known.transaction_id, given.processor_invoice_id, given.transaction_id);
  given.program_id := event.program_id;
  given.is_test := not event.livemode;
  given.customer_id := coalesce(known.customer_id, of_customer_id);
  given.customer_key := event.fact->>'customer_key';
  given.resolution := event.resolution;
  given.payment_status := case when given.amount_cents > 0 then 'paid' else 'no_payment_required' end;
  given.processor_event_id := event.event_id;
  given.processor_session_id := event.fact->>'session_id';
  given.processor_customer_id := event.fact->>'processor_customer_id';
  return given;
end $$;
