-- Applies an event from the payment processor. `applyEvent` in lib/processors/apply-event.ts is its only caller. `received` is a row of
-- processor_events as JSON: the account, the event's id and its fact (lib/processors/facts.ts). `answer` holds the processor's answers to
-- questions: `reversals`, all refunds of a charge or the same reversals in more currencies; `invoice_id`, the invoice of a payment intent;
-- and `promotion_code_ids`. `click_id_prefix` begins the click id of a second customer. One transaction writes the whole effect and the row
-- in the log. So senders can repeat the event after any failure, and a repeat changes nothing. If the processor must answer a question
-- first, nothing changes, the outcome is null, and the reason is the question: `invoice`, `discounts` or `conversion`.
create or replace function apply_event(
  received jsonb, answer jsonb, click_id_prefix text,
  out outcome text, out reason text, out program_id bigint, out outbox_ids bigint[], out wrote_webhooks boolean
) language plpgsql as $$
declare
  event processor_events := jsonb_populate_record(null::processor_events, received);
begin
  event := case event.fact->>'kind'
    when 'purchase' then apply_purchase(event, answer, click_id_prefix)
    when 'reversals' then apply_reversals(event, answer)
    when 'charge_refunds' then apply_reversals(event, answer)
    when 'refunded_total' then apply_refunded_total(event)
    when 'payment_fee' then apply_payment_fee(event)
    when 'invoice_payment' then apply_invoice_payment(event)
    when 'customer' then apply_customer(event)
    when 'deauthorization' then apply_deauthorization(event)
    when 'ownership' then apply_ownership(event)
    else with_outcome(event, 'ignored', event.fact->>'reason')
  end;
  if event.outcome is null then
    reason := event.reason;
    return;
  end if;
  event := notify_ignored_payment(event);
  event := log_event(event);
  outcome := event.outcome;
  reason := event.reason;
  program_id := event.program_id;
  outbox_ids := written_outbox_ids();
  wrote_webhooks := wrote_webhook();
end $$;

-- Notifies the advertiser once for each payment that the service ignored although a partner referred its customer. Either no schema reads
-- the event of a known payment, customer or subscription, or nothing attributes a payment of a known customer or subscription. Returns the
-- event with its program.
create or replace function notify_ignored_payment(event processor_events) returns processor_events language plpgsql as $$
declare
  payment jsonb := coalesce(event.fact->'unread', case when event.fact->>'reported_alone' = 'true' then event.fact end);
  ids text[] := payment_ids_of(payment);
  sale sales;
  known customers;
  of_cause text;
begin
  if event.outcome <> 'ignored' or not event.livemode or payment is null
    or event.fact->>'kind' = 'purchase' and coalesce(payment#>>'{sale,amount_cents}', '0') = '0' then
    return event;
  end if;
  sale := sale_of_payments(event.account_id, false, ids);
  -- A recorded payment stays recorded, even if a later event contains less about it.
  if sale.id is not null and event.fact->>'kind' = 'purchase' then
    return event;
  end if;
  if sale.partner_id is null then
    known := known_buyer(event.account_id, false, payment);
  else
    select c.* into known from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  end if;
  if known.id is null then
    return event;
  end if;
  event.program_id := coalesce(event.program_id, known.program_id);
  -- The intent, the charge and the invoice can all report the same payment.
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

-- For a day, another event may identify the buyer of an intent, a charge or a first invoice. After that, a scheduled function applies the
-- payments of known customers again as unexplained, so that the advertiser is notified.
create or replace function park_unexplained_payments(of_account_id text, at_most integer) returns void language plpgsql as $$
begin
  with due as (
    select e.account_id, e.event_id, (known_buyer(e.account_id, false, e.fact)).id is not null as is_known from processor_events e
    where e.outcome = 'ignored' and e.livemode and e.fact->>'reported_alone' = 'false' and e.received_at < now() - interval '1 day'
      and e.account_id = coalesce(of_account_id, e.account_id)
    order by e.received_at limit at_most for no key update of e skip locked
  )
  update processor_events e set
    fact = e.fact || '{"reported_alone": true}',
    outcome = case when d.is_known then 'parked' else e.outcome end,
    waits_for = case when d.is_known then 'buyer' end,
    reason = case when d.is_known then 'unexplained' else e.reason end
  from due d where e.account_id = d.account_id and e.event_id = d.event_id;
end $$;
