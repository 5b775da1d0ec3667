-- Applies all known facts of a payment to its sale.

-- Returns the part of a payment without tax, rounded half up.
create or replace function untaxed_part(paid_cents bigint, untaxed bigint, total bigint) returns bigint language sql immutable
return div(2 * paid_cents::numeric * untaxed + total, 2 * total::numeric)::bigint;

-- Adds the session's facts, which are the buyer and the share of the tax, to an intent or a charge if the session was waiting for the
-- payment.
create or replace function with_session(of_account_id text, fact jsonb, ids text[]) returns jsonb language plpgsql stable as $$
declare
  session processor_sessions;
begin
  select s.* into session from connected_programs(of_account_id) p join processor_sessions s on s.program_id = p.id
  where s.session_id = any (ids_of_payment(of_account_id, ids)) limit 1;
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

-- Returns the sale for a purchase. Its customer is the customer of the payment's `known` sale, if there is one, or else `of_customer_id`.
create or replace function sale_of_purchase(event processor_events, known sales, ids text[], of_customer_id bigint) returns sales
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
  if (select p.commission_base from programs p where p.id = event.program_id) = 'net_of_fees' then
    if given.processor_fee_cents > given.commission_base_cents then
      given.processor_fee_cents := given.commission_base_cents;
    end if;
    given.commission_base_cents := given.commission_base_cents - coalesce(given.processor_fee_cents, 0);
  else
    given.processor_fee_cents := null;
  end if;
  given.payment_status := case when given.amount_cents > 0 then 'paid' else 'no_payment_required' end;
  given.processor_event_id := event.event_id;
  given.processor_session_id := event.fact->>'session_id';
  given.processor_customer_id := event.fact->>'processor_customer_id';
  return given;
end $$;

-- Merges the sales of one payment that were recorded under different ids before the ids were known to belong together. `sale` gets the
-- figures of the better source, a customer if it has none, and the refunds that the API reported. The other sales keep their rows with an
-- amount of 0. The caller holds the payment's ids.
create or replace function merge_sales(sale sales, ids text[]) returns void language plpgsql as $$
declare
  other sales;
  worthless sales;
  reported_refunds refunds[];
begin
  for other in
    select s.* from sales s
    where s.program_id = sale.program_id and s.is_test = sale.is_test and s.transaction_id = any (ids) and s.id <> sale.id
      and s.amount_cents > 0 and (s.currency = sale.currency or s.amount_source = 'api')
    order by s.id
  loop
    perform from sales s where s.program_id = sale.program_id and s.id in (sale.id, other.id) order by s.id for no key update;
    perform lock_commissions(sale.program_id, array[sale.id, other.id]);
    select s.* into strict other from sales s where s.program_id = other.program_id and s.id = other.id;
    other.api_payload := coalesce(other.api_payload, api_payload_of(other));
    -- Each refund with its later parts.
    reported_refunds := array(
      select jsonb_populate_record(r, jsonb_build_object('applied_cents', (
        select sum(p.applied_cents) from refunds p
        where p.program_id = r.program_id and p.sale_id = r.sale_id and r.id in (p.id, p.continues_refund_id)
      )))
      from refunds r where r.program_id = other.program_id and r.sale_id = other.id and r.continues_refund_id is null order by r.id
    );
    worthless := other;
    worthless.amount_cents := 0;
    worthless.commission_base_cents := 0;
    worthless.payment_status := 'no_payment_required';
    perform correct_sale(other, worthless);
    other.transaction_id := sale.transaction_id;
    other.customer_id := coalesce((select s.customer_id from sales s where s.program_id = sale.program_id and s.id = sale.id), other.customer_id);
    perform record_sale(other, true);
    perform move_refunds(sale.program_id, sale.id, reported_refunds);
  end loop;
end $$;

-- Converts the total of a payment's refunds so far into refunds. Each increase from one total to the next is one refund. A total that
-- arrives after a higher one splits that increase into two refunds. So the order does not change the refunds, and each equals a refund
-- from the API.
create or replace function keep_refund_rise(event processor_events, sale sales) returns void language plpgsql as $$
declare
  ids text[] := ids_of_payment(event.account_id, array[sale.transaction_id]);
  new_total bigint := (event.fact->>'total_cents')::bigint;
  whole processor_reversals;
  totals bigint[];
begin
  select v.* into whole from processor_reversals v
  where v.account_id = event.account_id and v.charge_id = any (ids) and v.livemode = event.livemode and v.returned_at is null
    and v.total_cents > new_total and v.total_cents - v.amount_cents < new_total;
  if whole.reversal_id is not null then
    update processor_reversals v set returned_at = now(), returned_event_id = event.event_id
    where v.account_id = whole.account_id and v.reversal_id = whole.reversal_id;
    totals := array[whole.total_cents - whole.amount_cents, new_total, whole.total_cents];
  else
    select array[coalesce(max(v.total_cents), 0), new_total] into totals from processor_reversals v
    where v.account_id = event.account_id and v.charge_id = any (ids) and v.livemode = event.livemode;
  end if;
  insert into processor_reversals (account_id, reversal_id, livemode, reason, charge_id, amount_cents, total_cents, currency, event_id)
  -- One connection can receive orders from both test mode and live mode.
  select event.account_id, format('%s:%s-%s%s', sale.transaction_id, totals[n], totals[n + 1], case when not event.livemode then ':test' end),
    event.livemode, 'refund', sale.transaction_id, totals[n + 1] - totals[n], totals[n + 1], event.fact->>'currency', event.event_id
  from generate_series(1, cardinality(totals) - 1) n where totals[n + 1] > totals[n]
  on conflict (account_id, reversal_id) do nothing;
end $$;

-- Deducts the processor's fee from the commission base of a sale. Changes nothing if the base includes fees, or if the fee is known.
create or replace function deduct_fee(of_sale sales, fee_cents bigint) returns void language plpgsql as $$
declare
  given sales;
  untaxed bigint;
begin
  select s.* into strict given from sales s where s.program_id = of_sale.program_id and s.id = of_sale.id;
  if given.processor_fee_cents is null then
    return;
  end if;
  untaxed := given.commission_base_cents + given.processor_fee_cents;
  given.processor_fee_cents := least(fee_cents, untaxed);
  given.commission_base_cents := untaxed - given.processor_fee_cents;
  perform record_sale(given, true);
end $$;

-- Corrects a sale with earlier invoices for its payment that don't create a sale themselves, and with the refund totals and fees that
-- waited for it.
create or replace function apply_awaiting_invoices(sale sales, of_account_id text, ids text[]) returns void language plpgsql as $$
declare
  event processor_events;
begin
  for event in
    update processor_events e set awaits = null, waits_for = null, program_id = sale.program_id, outcome = 'recorded',
      reason = 'sale_known'
    where e.account_id = of_account_id and e.livemode <> sale.is_test
      and e.awaits && array(select awaited_name(of_account_id, 'payment', id) from unnest(ids) id)
      -- A sale that only the API reported has no fee.
      and (e.fact->>'kind' <> 'payment_fee' or sale.amount_source <> 'api')
    returning e.*
  loop
    if event.fact->>'kind' = 'refunded_total' then
      perform keep_refund_rise(event, sale);
      continue;
    elsif event.fact->>'kind' = 'payment_fee' then
      perform deduct_fee(sale, (event.fact->>'fee_cents')::bigint);
      continue;
    end if;
    if event.livemode and event.fact#>>'{sale,amount_source}' in ('charge', 'intent') then
      event.fact := with_session(of_account_id, event.fact, ids);
    end if;
    perform record_sale(sale_of_purchase(event, sale, ids, null), true);
  end loop;
end $$;

-- Applies the stored facts of a payment to its sale, from each account of the program.
create or replace function settle_reversals(sale sales) returns void language plpgsql as $$
begin
  perform settle_reversals_of(account_id, sale)
  from programs p cross join unnest(accounts_of(p)) account_id where p.id = sale.program_id;
end $$;

-- Applies all facts that an account reported about a payment to its sale: the ids, the other sales, a correcting invoice, refunds and
-- disputes. Their parked events become recorded. Reversals in another currency wait for the processor's conversion.
create or replace function settle_reversals_of(of_account_id text, sale sales) returns void language plpgsql as $$
declare
  ids text[] := ids_of_payment(of_account_id, array[sale.transaction_id]);
  reversals processor_reversals[];
begin
  update sales s set processor_payment_intent_id = coalesce(s.processor_payment_intent_id, first_with_prefix(ids, 'pi_')),
    processor_charge_id = coalesce(s.processor_charge_id, first_with_prefix(ids, 'ch_'))
  where s.program_id = sale.program_id and s.id = sale.id
    and (s.processor_payment_intent_id is null or s.processor_charge_id is null);
  perform merge_sales(sale, ids);
  perform apply_awaiting_invoices(sale, of_account_id, ids);

  select array_agg(v) into reversals from processor_reversals v
  where v.account_id = of_account_id and (v.payment_intent_id = any (ids) or v.charge_id = any (ids) or v.invoice_id = any (ids))
    and v.currency = sale.currency and v.livemode <> sale.is_test;
  perform settle_refunds(sale.program_id, sale.id, reversals);
  if reversals is not null then
    update processor_events e set outcome = 'recorded', reason = 'sale_known', waits_for = null
    from unnest(reversals) t
    where e.account_id = t.account_id and e.event_id in (t.event_id, t.returned_event_id) and e.outcome = 'parked';
  end if;
  update processor_events e set waits_for = 'conversion'
  from processor_reversals v
  where v.account_id = of_account_id and (v.payment_intent_id = any (ids) or v.charge_id = any (ids) or v.invoice_id = any (ids))
    and v.currency <> sale.currency and v.livemode <> sale.is_test
    and e.account_id = v.account_id and e.event_id in (v.event_id, v.returned_event_id) and e.outcome = 'parked';
end $$;

-- Stores the ids of one payment: its intent, its charge and its invoice. The invoice's sale gets the parked events of the payment.
create or replace function apply_invoice_payment(event processor_events) returns processor_events language plpgsql as $$
declare
  ids text[] := array_remove(payment_ids_of(event.fact) || (event.fact->>'invoice_id'), null);
  sale sales;
begin
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    return case when event.outcome is null then with_outcome(event, 'recorded', null) else event end;
  end if;
  perform settle_reversals(sale);
  event.program_id := sale.program_id;
  return with_outcome(event, 'recorded', null);
end $$;

-- Applies the fee of a payment to its sale. The fee waits until the processor has reported the sale.
create or replace function apply_payment_fee(event processor_events) returns processor_events language plpgsql as $$
declare
  ids text[] := payment_ids_of(event.fact);
  sale sales;
begin
  perform lock_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null or sale.amount_source = 'api' then
    event := park_disconnected(event, ids);
    if event.outcome is null then
      event.awaits := array(select awaited_name(event.account_id, 'payment', id) from unnest(ids) id);
      event := with_outcome(event, 'ignored', 'unknown_sale');
    end if;
    return event;
  end if;
  event.program_id := sale.program_id;
  perform deduct_fee(sale, (event.fact->>'fee_cents')::bigint);
  if sale.processor_fee_cents is null then
    return with_outcome(event, 'ignored', 'fee_included');
  elsif exists (
    select from sales s where s.program_id = sale.program_id and s.id = sale.id and s.processor_fee_cents <> sale.processor_fee_cents
  ) then
    return with_outcome(event, 'recorded', format('sale_corrected %s', sale.transaction_id));
  end if;
  return with_outcome(event, 'duplicate', format('known_payment %s', sale.transaction_id));
end $$;
