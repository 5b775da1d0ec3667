-- Applies an event of the payment processor; `applyEvent` in lib/stripe/apply-event.ts is its only caller. `told` is JSON of a row of
-- processor_events: the account, the event's id, and what was read of it (`fact`, lib/stripe/facts.ts). `answer` is what the processor was asked
-- beside that: `reversals`, all refunds of a charge or what was told in more currencies, and `invoice_id`, which a payment intent paid. `stem` is the beginning of a click id, for a
-- second customer. The whole effect and the row in the log are one transaction, so whatever breaks, sending the event again is right, and
-- sending it twice changes nothing. The outcome is null, with nothing done, where the processor must be asked first: the reason is then
-- `invoice` or `conversion`.
create or replace function apply_event(
  told jsonb, answer jsonb, stem text,
  out outcome text, out reason text, out program_id bigint, out outbox_ids bigint[], out wrote_webhooks boolean
) language plpgsql as $$
declare
  event processor_events := jsonb_populate_record(null::processor_events, told);
begin
  event := case event.fact->>'kind'
    when 'purchase' then apply_purchase(event, answer, stem)
    when 'reversals' then apply_reversals(event, answer)
    when 'charge_refunds' then apply_reversals(event, answer)
    when 'invoice_payment' then apply_invoice_payment(event)
    when 'customer' then apply_customer(event)
    when 'deauthorization' then apply_deauthorization(event)
    when 'ownership' then apply_ownership(event)
    else became(event, 'ignored', event.fact->>'reason')
  end;
  if event.outcome is null then
    reason := event.reason;
    return;
  end if;
  event := tell_ignored_payment(event);
  event := log_event(event);
  outcome := event.outcome;
  reason := event.reason;
  program_id := event.program_id;
  outbox_ids := written_outbox_ids();
  wrote_webhooks := wrote_webhook();
end $$;

-- Writes what became of an event into the log, and returns the row as it is kept. Delivered again, an event that was recorded stays so. What is
-- read of an event is kept as it was read first, unless nothing could be.
create or replace function log_event(event processor_events) returns processor_events language plpgsql as $$
begin
  insert into processor_events as stored (account_id, event_id, event_type, program_id, livemode, outcome, reason, waits_for, awaits, fact,
    resolution, payload, event_created_at)
  values (event.account_id, event.event_id, event.event_type, event.program_id, event.livemode, event.outcome, event.reason,
    event.waits_for, event.awaits, event.fact, event.resolution, event.payload, event.event_created_at)
  on conflict (account_id, event_id) do update set
    deliveries = stored.deliveries + 1,
    last_received_at = now(),
    program_id = coalesce(excluded.program_id, stored.program_id),
    fact = case when stored.fact ? 'unread' then excluded.fact else stored.fact end,
    payload = excluded.payload,
    awaits = excluded.awaits,
    resolution = case when stored.outcome = 'recorded' then stored.resolution else excluded.resolution end,
    outcome = case when stored.outcome = 'recorded' then stored.outcome else excluded.outcome end,
    reason = case when stored.outcome = 'recorded' then stored.reason else excluded.reason end,
    waits_for = case when stored.outcome <> 'recorded' then excluded.waits_for end
  returning * into event;
  return event;
end $$;

-- Tells the advertiser, once for a payment, that a live event about it was ignored though a partner brought its customer. That is so where
-- no schema reads what is told of a known payment, customer or subscription, and where nothing says whose a payment of a known
-- customer or subscription is. Returns the event with the program that it is about.
create or replace function tell_ignored_payment(event processor_events) returns processor_events language plpgsql as $$
declare
  told jsonb := coalesce(event.fact->'unread', case when event.fact->>'told_alone' = 'true' then event.fact end);
  ids text[] := array(select jsonb_array_elements_text(told->'payment_ids'));
  sale sales;
  known customers;
  of_cause text;
begin
  if event.outcome <> 'ignored' or not event.livemode or told is null or told#>>'{sale,amount_cents}' = '0' then
    return event;
  end if;
  sale := sale_of_payments(event.account_id, false, ids);
  -- A payment that is recorded is not lost by an event that says less of it.
  if sale.id is not null and event.fact->>'kind' = 'purchase' then
    return event;
  end if;
  if sale.partner_id is null then
    known := known_buyer(event.account_id, false, told);
  else
    select c.* into known from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  end if;
  if known.id is null then
    return event;
  end if;
  event.program_id := coalesce(event.program_id, known.program_id);
  -- Intent, charge and invoice can tell of one payment.
  ids := ids_of_payment(event.account_id, ids);
  of_cause := 'event:' || coalesce(event.fact#>>'{sale,transaction_id}', event.event_id);
  if not exists (
    select from outbox o where o.program_id = known.program_id and o.kind = 'payment_ignored' and o.audience = 'advertiser'
      and (o.cause = of_cause or event.fact->>'kind' = 'purchase' and o.cause = any (array(select 'event:' || id from unnest(ids) id)))
  ) then
    perform write_outbox(known.program_id, 'payment_ignored', 'advertiser', known.partner_id, of_cause, jsonb_build_object(
      'transaction_id', coalesce(sale.transaction_id, event.fact#>>'{sale,transaction_id}'),
      'amount_cents', coalesce((event.fact#>>'{sale,amount_cents}')::bigint, 0),
      'currency', coalesce(event.fact#>>'{sale,currency}', (select p.currency from programs p where p.id = known.program_id)),
      'reason', event.reason));
  end if;
  return event;
end $$;

-- An intent, a charge or a first invoice says nothing of its own, and for a day something else may say whose the payment is. Nothing did: those
-- of known customers are applied again by a scheduled function as what no other event tells of, so that somebody is told.
create or replace function park_unexplained_payments(of_account_id text, at_most integer) returns void language plpgsql as $$
begin
  with due as (
    select e.account_id, e.event_id, (known_buyer(e.account_id, false, e.fact)).id is not null as is_known from processor_events e
    where e.outcome = 'ignored' and e.livemode and e.fact->>'told_alone' = 'false' and e.received_at < now() - interval '1 day'
      and e.account_id = coalesce(of_account_id, e.account_id)
    order by e.received_at limit at_most for no key update of e skip locked
  )
  update processor_events e set
    fact = e.fact || '{"told_alone": true}',
    outcome = case when d.is_known then 'parked' else e.outcome end,
    waits_for = case when d.is_known then 'buyer' end,
    reason = case when d.is_known then 'unexplained' else e.reason end
  from due d where e.account_id = d.account_id and e.event_id = d.event_id;
end $$;

-- An event with what became of it.
create or replace function became(event processor_events, outcome text, reason text) returns processor_events language plpgsql as $$
begin
  event.outcome := outcome;
  event.reason := reason;
  return event;
end $$;

-- Parks an event of a program that is disconnected from the event's account until it is connected again: of the one that a purchase's metadata
-- or click names, else of the one with the payment's sale. While the account has no other program, refunds and disputes of unknown sales
-- wait too, since their sale may be waiting. Returns the event without an outcome where it has nothing to wait for.
create or replace function park_disconnected(event processor_events, ids text[]) returns processor_events language plpgsql as $$
declare
  has_other boolean;
begin
  if not exists (select from programs p where p.processor_former_account_id = event.account_id) then
    return event;
  end if;
  if event.fact->>'kind' = 'purchase' then
    select p.id into event.program_id from programs p where p.processor_former_account_id = event.account_id and case
      when event.fact->>'program_id' is not null then p.id = (event.fact->>'program_id')::bigint
      else exists (select from customers c where c.program_id = p.id and c.click_id = event.fact->>'click_id')
    end limit 1;
  else
    select s.program_id into event.program_id from programs p join sales s on s.program_id = p.id
    where p.processor_former_account_id = event.account_id and s.is_test = not event.livemode
      and s.transaction_id = any (ids_of_payment(event.account_id, ids))
    order by s.program_id limit 1;
  end if;
  has_other := exists (select from programs p where p.processor_account_id = event.account_id);
  if event.program_id is null and (has_other or event.fact->>'kind' not in ('reversals', 'charge_refunds')) then
    return event;
  end if;
  event.waits_for := 'connection';
  return became(event, 'parked', 'account_disconnected');
end $$;
