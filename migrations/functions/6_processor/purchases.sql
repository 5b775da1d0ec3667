-- Returns whether the service must ask Stripe which promotion codes discounted a purchase. If the sale already contains a code, it doesn't
-- have to. A sale that already has a customer can still lack the code, because another event of the payment may have created it.
create or replace function lacks_discounts(event processor_events, ids text[], answer jsonb) returns boolean language plpgsql as $$
begin
  return (event).fact->>'sale' is not null and (event).fact ? 'asks_discounts_of' and not answer ? 'promotion_code_ids'
    and knows_promotions(event.account_id) and not names_code(sale_of_payments(event.account_id, not event.livemode, ids));
end $$;

-- Returns whether the service must ask Stripe which invoice an intent paid. If the intent is known to belong to an invoice or a
-- checkout, it doesn't have to.
create or replace function lacks_invoice(event processor_events, answer jsonb) returns boolean language sql stable
return (event).fact->>'asks_invoice_of' is not null and not answer ? 'invoice_id' and not exists (
  select from processor_payments p where p.account_id = (event).account_id and (p.payment_id = (event).fact->>'asks_invoice_of'
    or p.transaction_id = (event).fact->>'asks_invoice_of' and rank_of_id(p.payment_id) = 1)
);

-- Returns the names of a purchase's buyer, and the names in events that wait for this purchase.
create or replace function names_of_payment(event processor_events, ids text[]) returns text[] language plpgsql stable as $$
begin
  return buyer_names(event.fact) || array(
    select unnest(buyer_names(e.fact)) from processor_events e
    where e.account_id = event.account_id and e.livemode = event.livemode
      and e.awaits && array(select awaited_name(event.account_id, 'payment', id) from unnest(ids_of_payment(event.account_id, ids)) id)
  );
end $$;

-- Adds Stripe's answers, the session's facts and the customer's metadata to a purchase.
create or replace function complete_purchase(event processor_events, ids text[], answer jsonb) returns jsonb language plpgsql as $$
declare
  fact jsonb := event.fact;
begin
  if answer ? 'promotion_code_ids' and fact ? 'asks_discounts_of' then
    fact := fact - 'asks_discounts_of' || jsonb_build_object('promotion_code_ids', answer->'promotion_code_ids');
  end if;
  if event.livemode and fact#>>'{sale,amount_source}' in ('charge', 'intent') then
    fact := with_session(event.account_id, fact, ids);
  end if;
  -- Includes the names in events that may be applied together with this one.
  perform lock_ids(event.account_id, array(select n from unnest(names_of_payment(event, ids)) n where starts_with(n, 'customer ')));
  if fact->>'sale' is null or fact->>'named_by' = 'customer'
    or (sale_of_payments(event.account_id, not event.livemode, ids)).customer_id is null then
    fact := with_customer_metadata(event.account_id, event.livemode, fact);
  end if;
  return fact;
end $$;

-- Finds the program of a purchase by its metadata or its click, or else by a promotion code (`by_code`), or else by a buyer whom earlier
-- payments identify (`known`). `by_subscription` means that these payments belong to the same subscription, at a processor that may omit
-- the metadata in renewals.
create or replace function find_program(
  event processor_events, ids text[], out program programs, out by_code boolean, out known customers, out by_subscription boolean, out resolution jsonb
) language plpgsql as $$
declare
  fact jsonb := event.fact;
  names_no_program boolean := fact->>'program_id' is null;
  may_be_found boolean;
begin
  program := program_of_purchase(event.account_id, fact);
  may_be_found := program.id is null and names_no_program and coalesce((fact#>>'{sale,amount_cents}')::bigint > 0, false);
  if may_be_found then
    program := program_of_promotion(event.account_id, promotions_of(fact));
  end if;
  by_code := may_be_found and program.id is not null;
  resolution := steps_of_source(fact, case
    when by_code then 'by_code'
    when program.id is not null and names_no_program then 'by_click'
    when program.id is not null then 'named'
    when names_no_program then 'none'
    else 'not_connected' end);
  if may_be_found and program.id is null and (sale_of_payments(event.account_id, not event.livemode, ids)).id is null then
    perform lock_ids(event.account_id, names_of_payment(event, ids));
    known := known_buyer(event.account_id, not event.livemode, fact);
    by_subscription := exists (
      select from processor_customers k where k.program_id = known.program_id and k.customer_id = known.id
        and k.processor_customer_id = fact->>'subscription_id'
    );
    resolution := with_step(resolution, 'known_buyer', case
      when num_nonnulls(fact#>>'{sale,subscription_id}', fact->>'processor_customer_id') = 0 then 'not_given'
      when known.id is null then 'unknown'
      else 'found' end);
    -- Waits for a concurrent call that enables the setting, because that call doesn't see this payment.
    select p.* into program from programs p where p.id = known.program_id for share;
  end if;
end $$;

-- Returns the promotion codes that discounted a purchase.
create or replace function promotions_of(fact jsonb) returns text[] language sql immutable
return array(select jsonb_array_elements_text(fact->'promotion_code_ids'));

-- Logs a purchase that belongs to no connected program. The event waits until its program is connected, or for its customer's metadata.
create or replace function leave_without_program(event processor_events, ids text[]) returns processor_events language plpgsql as $$
declare
  named_id text := event.fact->>'program_id';
  may_be_named boolean := case when named_id is null then event.fact->>'awaits_payment' = 'true' else event.fact->>'named_by' = 'customer' end;
begin
  event := park_disconnected(event, ids);
  if event.outcome is not null then
    return event;
  end if;
  if may_be_named then
    event.awaits := awaited_names(event.account_id, lasting_names(event.fact));
  end if;
  return with_outcome(event, 'ignored', coalesce('program_not_connected ' || named_id, 'no_program_named'));
end $$;

-- Excludes a payment if its program does not attribute known customers' payments. In that case, the payment waits in the log for that
-- setting. Parks a payment for an hour if a session may contain more about it. Returns the event without an outcome if it can be applied
-- now.
create or replace function wait_or_leave_out(
  event processor_events, ids text[], program programs, is_known boolean, is_imported boolean, by_code boolean
) returns processor_events language plpgsql as $$
declare
  fact jsonb := event.fact;
  payment_id text := fact#>>'{sale,transaction_id}';
begin
  -- Renewals of imported customers don't need metadata.
  if is_known and not program.attribute_known_customers and not is_imported then
    event.resolution := with_step(event.resolution, 'setting', 'off');
    if event.livemode then
      -- The start of the subscription or the customer's metadata can arrive later and identify the buyer.
      event.awaits := awaited_names(event.account_id, array_remove(array['payment ' || payment_id, 'setting ' || program.id,
        'subscription ' || (fact->>'subscription_id'), 'metadata ' || (fact->>'processor_customer_id')], null));
    end if;
    return with_outcome(event, 'ignored', 'known_customers_excluded');
  end if;
  if (is_known or by_code or fact->>'named_by' = 'customer'
      -- A code outranks a click, and an intent doesn't contain codes.
      or fact#>>'{sale,amount_source}' in ('intent', 'charge') and program.attribution_priority = 'code' and knows_promotions(event.account_id))
    and fact->>'reported_alone' = 'false'
    and event.event_created_at > now() - interval '1 hour' and (sale_of_payments(event.account_id, not event.livemode, ids)).id is null then
    event.waits_for := 'session';
    event.awaits := array[awaited_name(event.account_id, 'payment', payment_id)];
    return with_outcome(event, 'parked', 'may_be_explained');
  end if;
  return event;
end $$;

-- Chooses the code that discounted a payment, and creates the customer if only the code attributes the payment.
create or replace function apply_promotions(inout event processor_events, ids text[], click_id_prefix text, inout buyer customers) language plpgsql as $$
declare
  started_at timestamptz := (event.fact->>'started_at')::timestamptz;
  given sales;
begin
  given.program_id := event.program_id;
  given.customer_key := event.fact->>'customer_key';
  given.resolution := event.resolution;
  given := with_code(given, promotions_of(event.fact), started_at);
  event.resolution := given.resolution;
  event.fact := jsonb_set(event.fact, '{sale}', event.fact->'sale' || jsonb_build_object('coupon', given.coupon, 'code_id', given.code_id));
  if buyer.id is null and given.code_id is not null and event.livemode
    and (sale_of_payments(event.account_id, false, ids)).customer_id is null then
    given.customer_id := add_customer_of_code(given, click_id_prefix, decode(event.fact->>'email_hash', 'hex'),
      decode(event.fact->>'mailbox_hash', 'hex'), started_at);
    select c.* into buyer from customers c where c.program_id = event.program_id and c.id = given.customer_id for no key update;
  end if;
end $$;

-- Finds the buyer of a purchase of this program, and stores their names. Test mode stores nothing.
create or replace function find_buyer(
  inout event processor_events, ids text[], program programs, known customers, click_id_prefix text, out buyer customers
) language plpgsql as $$
declare
  identified record;
  discounted record;
begin
  if event.livemode then
    -- If one of two concurrent purchases identifies the other's buyer, this lock runs them one after the other.
    perform lock_ids(event.account_id, names_of_payment(event, ids));
  end if;
  if known.id is null then
    identified := identify_buyer(event.account_id, program, event.fact, case when event.livemode then click_id_prefix end, event.resolution);
    buyer := identified.buyer;
    event.resolution := identified.resolution;
  else
    perform lock_customers_of_payment(event.account_id, ids, known.id);
    select c.* into buyer from customers c where c.program_id = known.program_id and c.id = known.id for no key update;
  end if;
  if event.fact->>'sale' is not null and cardinality(promotions_of(event.fact)) > 0 then
    discounted := apply_promotions(event, ids, click_id_prefix, buyer);
    event := discounted.event;
    buyer := discounted.buyer;
  end if;
  if event.livemode and buyer.id is not null then
    perform keep_buyer(buyer, event.fact);
  end if;
end $$;

-- Logs an unpaid purchase. Stores a live session for its later payment. A live session, or the start of a subscription, waits for its
-- buyer if the buyer is unknown, because later payments need the buyer.
create or replace function record_unpaid(event processor_events, buyer customers) returns processor_events language plpgsql as $$
declare
  awaits_payment boolean := event.fact->>'awaits_payment' = 'true';
begin
  if event.livemode and awaits_payment then
    perform keep_session(event.program_id, buyer.id, event.fact);
  end if;
  if event.livemode and buyer.id is null and (awaits_payment or event.fact->>'subscription_id' is not null) then
    event.awaits := awaited_names(event.account_id, buyer_names(event.fact));
  end if;
  return case
    when buyer.id is null then with_outcome(event, 'ignored', 'unpaid_and_unattributed')
    when awaits_payment then with_outcome(event, 'recorded', 'payment_under_way')
    when event.fact->>'settles_lead' = 'true' then with_outcome(event, 'recorded', 'lead_settled')
    else with_outcome(event, 'recorded', 'customer_known_unpaid')
  end;
end $$;

-- Applies a checkout, a payment or an invoice alone: the buyer, and the sale if it was paid. Returns the buyer. A test-mode event creates
-- a test sale, which doesn't bind a customer.
create or replace function apply_purchase_alone(inout event processor_events, answer jsonb, click_id_prefix text, out buyer customers)
language plpgsql as $$
declare
  ids text[] := array_remove(payment_ids_of(event.fact) || (answer->>'invoice_id'), null);
  is_paid boolean := event.fact->>'sale' is not null;
  is_free boolean := coalesce((event.fact#>>'{sale,amount_cents}')::bigint = 0, false);
  found_program record;
  found_buyer record;
begin
  if lacks_discounts(event, ids, answer) then
    event := with_outcome(event, null, 'discounts');
    return;
  end if;
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  event.fact := complete_purchase(event, ids, answer);
  found_program := find_program(event, ids);
  event.resolution := found_program.resolution;
  if (found_program.program).id is null and (not is_paid or event.fact->>'program_id' is not null) then
    event := leave_without_program(event, ids);
    return;
  elsif (found_program.program).id is null or is_free then
    event := correct_known_purchase(event, ids);
    return;
  elsif lacks_invoice(event, answer) then
    event := with_outcome(event, null, 'invoice');
    return;
  end if;
  event.program_id := (found_program.program).id;
  event := wait_or_leave_out(event, ids, found_program.program,
    (found_program.known).id is not null and not found_program.by_subscription, (found_program.known).imported_at is not null,
    found_program.by_code);
  if event.outcome is not null then
    return;
  end if;
  found_buyer := find_buyer(event, ids, found_program.program, found_program.known, click_id_prefix);
  event := found_buyer.event;
  buyer := found_buyer.buyer;
  if is_paid then
    event := record_purchase(event, ids, buyer);
  else
    event := record_unpaid(event, buyer);
  end if;
end $$;

-- Corrects a payment's sale with an invoice that doesn't create a sale itself, because it contains no program or an amount of zero. If the
-- invoice comes before the session that creates the sale, it waits in the log.
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
      return with_outcome(event, 'ignored', 'nothing_paid');
    end if;
    event.awaits := event.awaits || awaited_names(event.account_id, lasting_names(event.fact));
    return with_outcome(event, 'ignored', 'no_program_named');
  end if;
  event.program_id := sale.program_id;
  return record_purchase(event, ids, null);
end $$;

-- Records a payment as one sale, even if several events report it. Applies earlier events of the same payment: refunds, disputes, and an invoice
-- that corrects it.
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
  perform lock_customers_of_payment(event.account_id, ids, buyer.id);
  given := sale_of_purchase(event, known, ids, buyer.id);
  select (r.sale).* into sale from record_sale(given, true) r;
  perform settle_reversals(sale);
  select s.* into sale from sales s where s.program_id = sale.program_id and s.id = sale.id;
  if sale.customer_id is null and event.livemode then
    event.awaits := awaited_names(event.account_id, buyer_names(event.fact));
  end if;
  if sale.processor_event_id = event.event_id then
    return with_outcome(event, 'recorded', case when sale.customer_id is null then 'no_partner' end);
  elsif (sale.amount_cents, sale.commission_base_cents, sale.currency) <> (known.amount_cents, known.commission_base_cents, known.currency) then
    return with_outcome(event, 'recorded', format('sale_corrected %s', sale.transaction_id));
  end if;
  return with_outcome(event, 'duplicate', format('known_payment %s', sale.transaction_id));
end $$;
