-- Returns whether this report or an earlier one contains one of these reversals in this currency.
create or replace function has_reversal_in(of_account_id text, reversals jsonb, of_currency text) returns boolean language sql stable
return exists (
  select from jsonb_array_elements(reversals) r
  where r->>'currency' = of_currency or exists (
    select from processor_reversals v
    where v.account_id = of_account_id and v.reversal_id = r->>'reversal_id' and v.currency = of_currency
  )
);

-- Stores refunds and disputes of one payment and applies them to the payment's sale. If no sale is known, the service asks the
-- processor which invoice the payment paid, and then they wait for the sale.
create or replace function apply_reversals(event processor_events, answer jsonb) returns processor_events language plpgsql as $$
declare
  fact jsonb := event.fact || answer;
  ids text[] := array_remove(array[fact->>'payment_intent_id', fact->>'charge_id', fact->>'invoice_id'], null);
  is_in_its_currency boolean;
  sale sales;
begin
  -- Other connections of the program can report the same chargeback (with_paired_returns).
  perform lock_ids('program ' || c.program_id, ids) from processor_connections c
  where c.account_id = event.account_id and fact#>>'{reversals,0,pairs}' is not null;
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    elsif not exists (select from connected_programs(event.account_id)) then
      return with_outcome(event, 'ignored', 'account_not_connected');
    end if;
  end if;
  if sale.id is null and fact->>'payment_intent_id' is not null and fact->>'invoice_id' is null and not answer ? 'invoice_id'
    and not exists (select from processor_payments p where p.account_id = event.account_id and p.payment_id = any (ids)
      and rank_of_id(p.transaction_id) = 3) then
    return with_outcome(event, null, 'invoice');
  end if;
  is_in_its_currency := sale.id is null or jsonb_array_length(fact->'reversals') = 0
    or has_reversal_in(event.account_id, fact->'reversals', sale.currency);
  if not is_in_its_currency and not answer ? 'is_converted' then
    return with_outcome(event, null, 'conversion');
  end if;
  fact := with_paired_returns(event.account_id, fact);
  perform keep_reversals(event, fact, sale.currency);
  perform keep_second_loss(event);
  if sale.id is not null then
    perform settle_reversals(sale);
  end if;
  event.program_id := sale.program_id;

  if jsonb_array_length(fact->'reversals') = 0 then
    return with_outcome(event, 'ignored', coalesce(answer->>'excluded', 'no_refund'));
  elsif not is_in_its_currency then
    perform notify_unconverted(sale, fact);
    return with_outcome(event, 'ignored', format('other_currency %s %s',
      fact#>>'{reversals,0,currency}', sale.currency));
  elsif not exists (
    select from processor_reversals v where v.account_id = event.account_id and event.event_id in (v.event_id, v.returned_event_id)
  ) then
    return with_outcome(event, 'duplicate', coalesce(answer->>'excluded', 'known_reversal'));
  elsif sale.id is null then
    return with_outcome(event, 'parked', 'unknown_sale');
  end if;
  return with_outcome(event, 'recorded', answer->>'excluded');
end $$;

-- Pairs chargebacks with their returns (`pairs`). The processor can report a return twice: as a separate report without a reference to the
-- chargeback, and as a mark on the chargeback. So chargebacks of the same amount are interchangeable. Each chargeback has room for one
-- report (`returned_by`) and one mark (`marked_id`). A report goes to a chargeback that already has a mark, if possible, and a mark to one
-- that has a report. So any order returns the same number of chargebacks. A report without a chargeback waits under its own id until a
-- chargeback takes its row. Several connections of a program can report one account, so they share their pairs.
create or replace function with_paired_returns(of_account_id text, fact jsonb) returns jsonb language plpgsql as $$
declare
  move jsonb := fact#>'{reversals,0}';
  own_id text := move->>'reversal_id';
  is_mark boolean := move->>'pairs' = 'chargeback';
  account_ids text[] := array(
    select o.account_id from processor_connections c join processor_connections o on o.program_id = c.program_id where c.account_id = of_account_id
  );
  paired jsonb;
begin
  if is_mark and not exists (
    select from processor_reversals v where v.account_id = any (account_ids) and v.reversal_id = own_id
  ) then
    update processor_reversals v set reversal_id = own_id
    where v.account_id = any (account_ids) and v.reversal_id = (
      select w.reversal_id from processor_reversals w
      where w.account_id = any (account_ids) and w.charge_id = fact->>'charge_id' and w.reversal_id = w.returned_by
        and w.amount_cents = (move->>'amount_cents')::bigint and w.currency = move->>'currency'
      order by w.created_at, w.reversal_id limit 1
    );
  end if;
  if is_mark is null or move->>'returned' = 'false' then
    return fact;
  end if;
  paired := move || jsonb_build_object(case when is_mark then 'marked_id' else 'returned_by' end, own_id, 'reversal_id', coalesce((
    select v.reversal_id from processor_reversals v cross join lateral (select case when is_mark then v.marked_id else v.returned_by end) room (taken_by)
    where v.account_id = any (account_ids) and v.charge_id = fact->>'charge_id' and v.reason = 'chargeback'
      and v.reversal_id is distinct from v.returned_by
      and v.amount_cents = (move->>'amount_cents')::bigint and v.currency = move->>'currency'
    group by v.reversal_id having coalesce(max(room.taken_by), own_id) = own_id
    order by max(room.taken_by) is null, max(v.returned_at) is null, v.reversal_id <> own_id, min(v.created_at), v.reversal_id limit 1
  ), own_id));
  -- A mark that is stored at another chargeback still reports its own chargeback.
  return jsonb_set(fact, '{reversals}', jsonb_build_array(paired)
    || case when is_mark and paired->>'reversal_id' <> own_id then jsonb_build_array(move || '{"returned": false}') else '[]' end);
end $$;

-- Applies the total of a payment's refunds so far. If there is no sale yet, the total waits for it.
create or replace function apply_refunded_total(event processor_events) returns processor_events language plpgsql as $$
declare
  ids text[] := payment_ids_of(event.fact);
  sale sales;
begin
  perform lock_payments(event.account_id, ids_of_payment(event.account_id, ids));
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is null then
      event.awaits := array(select awaited_name(event.account_id, 'payment', id) from unnest(ids) id);
      event := with_outcome(event, 'parked', 'unknown_sale');
    end if;
    return event;
  end if;
  event.program_id := sale.program_id;
  if sale.currency <> event.fact->>'currency' then
    perform notify_unconverted(sale, event.fact || jsonb_build_object('reversals', jsonb_build_array(jsonb_build_object(
      'reversal_id', sale.transaction_id, 'amount_cents', event.fact->'total_cents', 'currency', event.fact->'currency', 'reason', 'refund'))));
    return with_outcome(event, 'ignored', format('other_currency %s %s', event.fact->>'currency', sale.currency));
  end if;
  perform keep_refund_rise(event, sale);
  if not exists (select from processor_reversals v where v.account_id = event.account_id and v.event_id = event.event_id) then
    return with_outcome(event, 'duplicate', 'known_reversal');
  end if;
  perform settle_reversals(sale);
  return with_outcome(event, 'recorded', null);
end $$;

-- Stores refunds and disputes as the processor reported them. If a report contains several currencies, it stores the amount in the
-- sale's currency. The first report isn't changed, but a return is added to it.
create or replace function keep_reversals(event processor_events, fact jsonb, sale_currency text) returns void language plpgsql as $$
begin
  insert into processor_reversals as stored (account_id, reversal_id, livemode, reason, reason_text, payment_intent_id, charge_id,
    invoice_id, amount_cents, untaxed_cents, currency, event_id, returned_event_id, returned_at, returned_by, marked_id)
  select distinct on (t.reversal_id) event.account_id, t.reversal_id, event.livemode, t.reason, t.reason_text, fact->>'payment_intent_id', fact->>'charge_id',
    fact->>'invoice_id', t.amount_cents, t.untaxed_cents, t.currency, case when not t.returned then event.event_id end, case when t.returned then event.event_id end,
    case when t.returned then now() end, t.returned_by, t.marked_id
  from rows from (jsonb_to_recordset(fact->'reversals')
    as (reversal_id text, reason text, reason_text text, amount_cents bigint, untaxed_cents bigint, currency text, returned boolean, returned_by text,
      marked_id text)) with ordinality
    as t (reversal_id, reason, reason_text, amount_cents, untaxed_cents, currency, returned, returned_by, marked_id, place)
  order by t.reversal_id, t.currency = sale_currency desc, t.place
  on conflict (account_id, reversal_id) do update set
    amount_cents = case when stored.currency <> sale_currency and excluded.currency = sale_currency then excluded.amount_cents
      else stored.amount_cents end,
    currency = case when excluded.currency = sale_currency then excluded.currency else stored.currency end,
    event_id = coalesce(stored.event_id, excluded.event_id),
    returned_event_id = coalesce(stored.returned_event_id, excluded.returned_event_id),
    returned_at = coalesce(stored.returned_at, excluded.returned_at),
    returned_by = coalesce(stored.returned_by, excluded.returned_by),
    marked_id = coalesce(stored.marked_id, excluded.marked_id);
end $$;

-- Returns all events of an event's dispute that moved money, including this event.
create or replace function moves_of_dispute(event processor_events) returns setof processor_events language sql stable as $$
  select (event).*
  union all
  select e.* from processor_events e
  where coalesce(e.fact->>'payment_intent_id', e.fact->>'charge_id', e.fact->>'invoice_id')
      = coalesce((event).fact->>'payment_intent_id', (event).fact->>'charge_id', (event).fact->>'invoice_id')
    and e.account_id = (event).account_id and e.event_id <> (event).event_id and not starts_with(e.event_id, 'backfill_')
    and e.event_type in ('charge.dispute.funds_withdrawn', 'charge.dispute.funds_reinstated')
    and e.fact#>>'{reversals,0,reversal_id}' = (event).fact#>>'{reversals,0,reversal_id}'
$$;

-- Stores a second loss of a dispute that was won before, if its events have no balance transactions. The latest event decides. If
-- several events have the latest second, the dispute is lost if more of them are losses than returns. So the order of deliveries does
-- not change the result. If retention deleted the event of the first return, the stored reversal has its time.
create or replace function keep_second_loss(event processor_events) returns void language plpgsql as $$
declare
  again_id text := event.fact#>>'{reversals,0,reversal_id}' || ':again';
  moves record;
  is_lost_again boolean;
begin
  if event.event_type not in ('charge.dispute.funds_withdrawn', 'charge.dispute.funds_reinstated') then
    return;
  end if;
  select count(*) filter (where is_return) as returns, count(*) filter (where not is_return) as losses,
    max(event_created_at) filter (where is_return) as returned_at, max(event_created_at) filter (where not is_return) as lost_at,
    max(event_id) filter (where is_return) as return_id into moves
  from (
    select m.event_id, m.event_created_at, m.event_type = 'charge.dispute.funds_reinstated' as is_return from moves_of_dispute(event) m
    union all
    select v.returned_event_id, v.returned_at, true from processor_reversals v
    where v.account_id = event.account_id and v.reversal_id = event.fact#>>'{reversals,0,reversal_id}' and v.returned_event_id <> event.event_id
      and not exists (select from processor_events e where e.account_id = v.account_id and e.event_id = v.returned_event_id)
  ) m;
  is_lost_again := moves.lost_at > moves.returned_at or moves.lost_at = moves.returned_at and moves.losses > moves.returns;
  if is_lost_again then
    insert into processor_reversals (account_id, reversal_id, livemode, reason, payment_intent_id, charge_id, invoice_id, amount_cents, currency,
      event_id)
    select m.account_id, again_id, m.livemode, 'chargeback', m.fact->>'payment_intent_id', m.fact->>'charge_id', m.fact->>'invoice_id',
      (m.fact#>>'{reversals,0,amount_cents}')::bigint, m.fact#>>'{reversals,0,currency}', m.event_id
    from moves_of_dispute(event) m where m.event_type = 'charge.dispute.funds_withdrawn'
    order by m.event_created_at desc, m.event_id = event.event_id desc, m.event_id limit 1
    on conflict (account_id, reversal_id) do nothing;
  elsif moves.returns > 0 then
    update processor_reversals v set returned_event_id = moves.return_id, returned_at = now()
    where v.account_id = event.account_id and v.reversal_id = again_id and v.returned_at is null;
  end if;
end $$;

-- If the currency of a refund or dispute isn't the sale's, notifies the advertiser once, so that a person can reverse the commission.
create or replace function notify_unconverted(sale sales, fact jsonb) returns void language plpgsql as $$
declare
  of_cause text := 'reversal:' || (fact#>>'{reversals,0,reversal_id}');
begin
  if sale.partner_id is not null and not exists (
    select from outbox o where o.program_id = sale.program_id and o.kind = 'refund_not_converted' and o.audience = 'advertiser'
      and o.cause = of_cause
  ) then
    perform write_outbox(sale.program_id, 'refund_not_converted', 'advertiser', sale.partner_id, of_cause, jsonb_build_object(
      'transaction_id', sale.transaction_id, 'amount_cents', (fact#>>'{reversals,0,amount_cents}')::bigint,
      'currency', fact#>>'{reversals,0,currency}', 'reason', fact#>>'{reversals,0,reason}'));
  end if;
end $$;
