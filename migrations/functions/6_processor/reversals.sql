-- Refunds and disputes of one payment. They are kept as they were told, and applied to the sale of the payment where it is known. Where it is
-- not, the processor is asked which invoice the payment paid, and then they are parked for the sale that may come.
create or replace function apply_reversals(event processor_events, answer jsonb) returns processor_events language plpgsql as $$
declare
  fact jsonb := event.fact || answer;
  ids text[] := array_remove(array[fact->>'payment_intent_id', fact->>'charge_id', fact->>'invoice_id'], null);
  is_in_its_currency boolean;
  sale sales;
begin
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    elsif not exists (select from programs p where p.processor_account_id = event.account_id) then
      return became(event, 'ignored', 'account_not_connected');
    end if;
  end if;
  if sale.id is null and fact->>'payment_intent_id' is not null and fact->>'invoice_id' is null and not answer ? 'invoice_id'
    and not exists (select from processor_payments p where p.account_id = event.account_id and p.payment_id = any (ids)
      and rank_of_id(p.transaction_id) = 3) then
    return became(event, null, 'invoice');
  end if;
  is_in_its_currency := sale.id is null or jsonb_array_length(fact->'reversals') = 0 or exists (
    select from jsonb_array_elements(fact->'reversals') r
    where r->>'currency' = sale.currency or exists (
      select from processor_reversals v
      where v.account_id = event.account_id and v.reversal_id = r->>'reversal_id' and v.currency = sale.currency
    )
  );
  if not is_in_its_currency and not answer ? 'is_converted' then
    return became(event, null, 'conversion');
  end if;
  perform keep_reversals(event, fact, sale.currency);
  if sale.id is not null then
    perform settle_reversals(sale);
  end if;
  event.program_id := sale.program_id;

  if jsonb_array_length(fact->'reversals') = 0 then
    return became(event, 'ignored', 'no_refund');
  elsif not is_in_its_currency then
    perform tell_unconverted(sale, fact);
    return became(event, 'ignored', format('other_currency %s %s',
      fact#>>'{reversals,0,currency}', sale.currency));
  elsif not exists (
    select from processor_reversals v where v.account_id = event.account_id and event.event_id in (v.event_id, v.returned_event_id)
  ) then
    return became(event, 'duplicate', 'known_reversal');
  elsif sale.id is null then
    return became(event, 'parked', 'unknown_sale');
  end if;
  return became(event, 'recorded', null);
end $$;

-- Keeps refunds and disputes as they were told: of one that is told in several currencies the amount in that of its sale. What was told before
-- stays; that one was returned is added.
create or replace function keep_reversals(event processor_events, fact jsonb, sale_currency text) returns void language plpgsql as $$
begin
  insert into processor_reversals as stored (account_id, reversal_id, livemode, reason, reason_text, payment_intent_id, charge_id,
    invoice_id, amount_cents, currency, event_id, returned_event_id, returned_at)
  select distinct on (t.reversal_id) event.account_id, t.reversal_id, event.livemode, t.reason, t.reason_text, fact->>'payment_intent_id', fact->>'charge_id',
    fact->>'invoice_id', t.amount_cents, t.currency, case when not t.returned then event.event_id end, case when t.returned then event.event_id end,
    case when t.returned then now() end
  from rows from (jsonb_to_recordset(fact->'reversals')
    as (reversal_id text, reason text, reason_text text, amount_cents bigint, currency text, returned boolean)) with ordinality
    as t (reversal_id, reason, reason_text, amount_cents, currency, returned, place)
  order by t.reversal_id, t.currency = sale_currency desc, t.place
  on conflict (account_id, reversal_id) do update set
    amount_cents = case when stored.currency <> sale_currency and excluded.currency = sale_currency then excluded.amount_cents
      else stored.amount_cents end,
    currency = case when excluded.currency = sale_currency then excluded.currency else stored.currency end,
    event_id = coalesce(stored.event_id, excluded.event_id),
    returned_event_id = coalesce(stored.returned_event_id, excluded.returned_event_id),
    returned_at = coalesce(stored.returned_at, excluded.returned_at);
end $$;

-- Carries what is kept of a sale's payment into the sale: its ids, an invoice that decides over it, its refunds and disputes. Events that were parked for it are recorded then.
-- What is in another currency than the sale waits until the processor is asked what it converted.
create or replace function settle_reversals(sale sales) returns void language plpgsql as $$
declare
  of_account_id text;
  ids text[];
  told processor_reversals[];
begin
  select p.processor_account_id into of_account_id from programs p where p.id = sale.program_id;
  ids := ids_of_payment(of_account_id, array[sale.transaction_id]);
  update sales s set processor_payment_intent_id = coalesce(s.processor_payment_intent_id, first_with_prefix(ids, 'pi_')),
    processor_charge_id = coalesce(s.processor_charge_id, first_with_prefix(ids, 'ch_'))
  where s.program_id = sale.program_id and s.id = sale.id
    and (s.processor_payment_intent_id is null or s.processor_charge_id is null);
  perform unite_sales(sale, ids);
  perform apply_awaiting_invoices(sale, of_account_id, ids);

  select array_agg(v) into told from processor_reversals v
  where v.account_id = of_account_id and (v.payment_intent_id = any (ids) or v.charge_id = any (ids) or v.invoice_id = any (ids))
    and v.currency = sale.currency and v.livemode <> sale.is_test;
  perform settle_refunds(sale.program_id, sale.id, told);
  if told is not null then
    update processor_events e set outcome = 'recorded', reason = 'sale_known', waits_for = null
    from unnest(told) t
    where e.account_id = t.account_id and e.event_id in (t.event_id, t.returned_event_id) and e.outcome = 'parked';
  end if;
  update processor_events e set waits_for = 'conversion'
  from processor_reversals v
  where v.account_id = of_account_id and (v.payment_intent_id = any (ids) or v.charge_id = any (ids) or v.invoice_id = any (ids))
    and v.currency <> sale.currency and v.livemode <> sale.is_test
    and e.account_id = v.account_id and e.event_id in (v.event_id, v.returned_event_id) and e.outcome = 'parked';
end $$;

create or replace function first_with_prefix(ids text[], prefix text) returns text language sql immutable
as $$ select id from unnest(ids) id where starts_with(id, prefix) order by id limit 1 $$;

-- Tells the advertiser that a refund or dispute is in another currency than its sale, so that somebody reverses the commission by hand.
create or replace function tell_unconverted(sale sales, fact jsonb) returns void language plpgsql as $$
declare
  of_cause text := 'reversal:' || (fact#>>'{reversals,0,reversal_id}');
begin
  -- Told once, however often its events come.
  if sale.partner_id is not null and not exists (
    select from outbox o where o.program_id = sale.program_id and o.kind = 'refund_not_converted' and o.audience = 'advertiser'
      and o.cause = of_cause
  ) then
    perform write_outbox(sale.program_id, 'refund_not_converted', 'advertiser', sale.partner_id, of_cause, jsonb_build_object(
      'transaction_id', sale.transaction_id, 'amount_cents', (fact#>>'{reversals,0,amount_cents}')::bigint,
      'currency', fact#>>'{reversals,0,currency}', 'reason', fact#>>'{reversals,0,reason}'));
  end if;
end $$;
