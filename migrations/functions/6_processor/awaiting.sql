-- Purchases whose buyer is still unknown. They wait in the log under the names (ids, keys and hashes) that can identify the buyer.

-- Applies the payment of a session if the payment arrived before the session. Its sale gets the session's buyer, or the payment's parked
-- event becomes a sale.
create or replace function apply_awaited_payment(event processor_events, buyer_id bigint, click_id_prefix text) returns void
language plpgsql as $$
declare
  ids text[] := payment_ids_of(event.fact);
  given sales;
  waiting processor_events;
begin
  perform lock_customers_of_payment(event.account_id, ids, buyer_id);
  given := sale_of_payments(event.account_id, false, ids);
  if given.program_id = event.program_id then
    given.customer_id := coalesce(given.customer_id, buyer_id);
    given.resolution := coalesce(event.resolution, given.resolution);
    given.processor_session_id := event.fact->>'session_id';
    -- The API's amounts don't change.
    if given.amount_source in ('charge', 'intent') and event.fact#>>'{requested,total}' is not null then
      given.amount_source := 'session';
      given.commission_base_cents := untaxed_part(given.amount_cents, (event.fact#>>'{requested,untaxed}')::bigint,
        (event.fact#>>'{requested,total}')::bigint);
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
    waiting := apply_purchase(with_outcome(waiting, null, null), '{"promotion_code_ids": []}', click_id_prefix);
    update processor_events e set outcome = waiting.outcome, reason = 'session_known', program_id = waiting.program_id,
      resolution = waiting.resolution,
      awaits = waiting.awaits
    where e.account_id = waiting.account_id and e.event_id = waiting.event_id and waiting.outcome <> 'ignored';
  end loop;
end $$;

-- Attributes one unattributed purchase as if it had just arrived. Returns its buyer. All fields are null if the buyer is still
-- unknown, or if the purchase is already attributed.
create or replace function attribute_awaiting_purchase(inout waiting processor_events, program programs, out buyer customers)
language plpgsql as $$
declare
  ids text[];
  sale sales;
  identified record;
begin
  waiting.fact := with_customer_metadata(waiting.account_id, true, waiting.fact);
  ids := payment_ids_of(waiting.fact);
  sale := sale_of_program(program.id, waiting.account_id, false, ids);
  identified := identify_buyer(waiting.account_id, program, waiting.fact, null, steps_of_source(waiting.fact, 'named'));
  waiting.resolution := identified.resolution;
  if (identified.buyer).id is null or waiting.fact->>'sale' is not null and sale.id is null then
    return;
  end if;
  perform keep_buyer(identified.buyer, waiting.fact);
  if waiting.fact->>'awaits_payment' = 'true' then
    perform keep_session(program.id, (identified.buyer).id, waiting.fact);
    perform apply_awaited_payment(waiting, (identified.buyer).id, null);
  elsif waiting.fact->>'sale' is not null and sale.customer_id is null then
    select (r.sale).* into sale
    from record_sale(sale_of_purchase(waiting, sale, ids_of_payment(waiting.account_id, ids), (identified.buyer).id), true) r;
    perform settle_reversals(sale);
  end if;
  update processor_events e set awaits = null, waits_for = null, outcome = 'recorded', reason = 'buyer_known',
    resolution = waiting.resolution
  where e.account_id = waiting.account_id and e.event_id = waiting.event_id and e.awaits is not null;
  if found then
    buyer := identified.buyer;
  end if;
end $$;

-- Attributes the purchases that wait for one of these names. A purchase may identify the buyer of other purchases, so each round looks up
-- the names that the previous round found.
create or replace function attribute_awaiting_purchases(of_account_id text, program programs, names text[]) returns void
language plpgsql as $$
declare
  waiting processor_events;
  attributed record;
  names_found text[];
  lasting text[];
  since timestamptz;
begin
  loop
    names_found := '{}';
    lasting := '{}';
    since := 'infinity';
    for waiting in
      select e.* from processor_events e
      where e.account_id = of_account_id and e.program_id = program.id and e.awaits && awaited_names(of_account_id, names)
      order by (e.fact#>>'{sale,sale_date}')::timestamptz, e.event_id
    loop
      attributed := attribute_awaiting_purchase(waiting, program);
      continue when (attributed.buyer).id is null;
      waiting := attributed.waiting;
      names_found := names_found || buyer_names(waiting.fact) || names_of_customer(attributed.buyer);
      lasting := lasting || lasting_names(waiting.fact);
      since := least(since, (waiting.fact->>'started_at')::timestamptz);
    end loop;
    exit when names_found = '{}';
    perform park_awaiting_payments(of_account_id, true, array(select distinct name from unnest(lasting) name), since);
    names := array(select distinct name from unnest(names_found) name);
  end loop;
end $$;

-- Applies a purchase, and then everything that waited for it: the payment of its session, and purchases whose buyer it identifies.
create or replace function apply_purchase(event processor_events, answer jsonb, click_id_prefix text) returns processor_events language plpgsql as $$
declare
  applied record;
  buyer customers;
  ids text[];
begin
  applied := apply_purchase_alone(event, answer, click_id_prefix);
  event := applied.event;
  buyer := applied.buyer;
  if event.fact->>'subscription_id' is not null and event.fact->>'sale' is null then
    -- The start of a subscription connects the ids of a payment.
    ids := payment_ids_of(event.fact);
    perform lock_customers_of_payment(event.account_id, ids, buyer.id);
    perform settle_reversals(s) from sale_of_payments(event.account_id, not event.livemode, ids) s where s.id is not null;
  end if;
  if not event.livemode or event.program_id is null or event.outcome is null or event.outcome = 'parked' then
    return event;
  end if;
  if event.fact->>'awaits_payment' = 'true' then
    perform apply_awaited_payment(event, buyer.id, click_id_prefix);
  end if;
  if buyer.id is not null then
    perform attribute_awaiting_purchases(event.account_id, p, buyer_names(event.fact) || names_of_customer(buyer))
    from programs p where p.id = event.program_id;
    perform park_awaiting_payments(event.account_id, true, lasting_names(event.fact), (event.fact->>'started_at')::timestamptz);
  end if;
  return event;
end $$;

-- Locks the names that a lead or a sale gives its customer until the transaction ends. So no purchase that waits for one of them can
-- arrive in between. Call this before the search for the customer. Does nothing if no account is connected.
create or replace function lock_given_names(account_ids text[], of_customer_key text, of_click_id text, of_email_hash bytea) returns void
language plpgsql as $$
declare
  of_account_id text;
begin
  foreach of_account_id in array account_ids loop
    perform lock_ids(of_account_id, array['key ' || of_customer_key, 'click ' || of_click_id, 'email ' || encode(of_email_hash, 'hex')]);
  end loop;
end $$;

-- Attributes purchases that arrived before a lead or a sale call identified their buyers.
create or replace function attribute_to_customer(account_ids text[], of_program_id bigint, of_customer_id bigint) returns void
language plpgsql as $$
declare
  of_account_id text;
  names text[];
begin
  if account_ids = '{}' then
    return;
  end if;
  select names_of_customer(c) into names from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  foreach of_account_id in array account_ids loop
    if exists (select from processor_events e where e.awaits && awaited_names(of_account_id, names)) then
      perform attribute_awaiting_purchases(of_account_id, p, names) from programs p where p.id = of_program_id;
    end if;
  end loop;
end $$;
