-- Leads, sales and refunds as functions. Neon's proxy has each statement planned in each call, which took the database three to
-- ten times as long as running them; a function's statements are planned once a connection.

-- Moves the totals of the hour of `at` and of its day.
create function count_customers(of_program_id bigint, at timestamptz, more_leads bigint, more_conversions bigint) returns void
language plpgsql as $$
begin
  insert into daily_totals as counted (program_id, day, slot, leads, conversions)
  values (of_program_id, utc_day(at), counter_slot(at), more_leads, more_conversions)
  on conflict on constraint daily_totals_pkey do update set
    leads = counted.leads + excluded.leads,
    conversions = counted.conversions + excluded.conversions;
end $$;

create function count_money(
  of_program_id bigint, at timestamptz, of_currency text, more_sales bigint, more_revenue_cents bigint, more_commission_cents bigint
) returns void language plpgsql as $$
begin
  insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents)
  values (of_program_id, utc_day(at), of_currency, counter_slot(at), more_sales, more_revenue_cents, more_commission_cents)
  on conflict on constraint daily_money_pkey do update set
    sales = counted.sales + excluded.sales,
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    commission_cents = counted.commission_cents + excluded.commission_cents;
end $$;

-- Changes by how much a commission is reversed, in everything that depends on it; `reverseCommissions` in lib/money/commissions.ts
-- says what is given. Returns the ids of the outbox rows it wrote.
create function reverse_commission(
  of_program_id bigint, of_commission_id bigint, by_refund_id bigint, by_cause text, delta_cents bigint, new_reversal text,
  new_rejected_at timestamptz, because text, of_transaction_id text, notice text
) returns bigint[] language plpgsql as $$
#variable_conflict use_column
declare
  commission commissions;
  balance balances;
  withdrawal withdrawals;
  open_cents bigint;
  cut_cents bigint;
  told bigint;
  outbox_ids bigint[] := '{}';
begin
  update commissions c set reversed_cents = c.reversed_cents + delta_cents, reversal = new_reversal, reason = because,
    rejected_at = coalesce(c.rejected_at, new_rejected_at)
  where c.program_id = of_program_id and c.id = of_commission_id
  returning c.* into strict commission;

  if delta_cents <> 0 then
    perform count_money(of_program_id, commission.created_at, commission.currency, 0, 0, -delta_cents);
  end if;

  if notice = 'reversal' then
    insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values (of_program_id, case new_reversal when 'full' then 'commission_reversed' else 'commission_refunded' end, 'partner',
      commission.partner_id, by_cause, jsonb_build_object(
        'commission_id', of_commission_id, 'transaction_id', of_transaction_id, 'amount_cents', delta_cents,
        'currency', commission.currency, 'reason', because, 'deducted', commission.credited_at is not null))
    returning id into told;
    outbox_ids := outbox_ids || told;
  end if;
  if notice = 'dispute_reinstated' or notice = 'reversal' and commission.paid_at is not null then
    insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values (of_program_id, case notice when 'reversal' then 'paid_commission_reversed' else notice end, 'advertiser',
      commission.partner_id, by_cause, jsonb_build_object(
        'commission_id', of_commission_id, 'transaction_id', of_transaction_id, 'amount_cents', abs(delta_cents),
        'currency', commission.currency, 'reason', because))
    returning id into told;
    outbox_ids := outbox_ids || told;
  end if;
  if commission.credited_at is null or delta_cents = 0 then
    return outbox_ids;
  end if;

  select b.* into strict balance from balances b
  where b.program_id = of_program_id and b.partner_id = commission.partner_id and b.currency = commission.currency;
  balance.balance_cents := balance.balance_cents - delta_cents;
  balance.entry_count := balance.entry_count + 1;
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id, refund_id)
  values (of_program_id, commission.partner_id, commission.currency, balance.entry_count, -delta_cents,
    balance.balance_cents + delta_cents, balance.balance_cents,
    case when delta_cents > 0 then 'commission_reversed' else 'reversal_returned' end, of_commission_id, by_refund_id);
  update balances b set balance_cents = balance.balance_cents, entry_count = balance.entry_count
  where b.program_id = of_program_id and b.partner_id = commission.partner_id and b.currency = commission.currency;

  -- Open withdrawals that the balance no longer covers are reduced to fit, the newest first. They change under their balance's
  -- lock only, so they need none of their own.
  select sum(w.amount_cents) - greatest(balance.balance_cents, 0) into open_cents from withdrawals w
  where w.program_id = of_program_id and w.partner_id = commission.partner_id and w.currency = commission.currency
    and w.status = 'requested';
  if open_cents is null or open_cents <= 0 then
    return outbox_ids;
  end if;
  for withdrawal in
    select w.* from withdrawals w
    where w.program_id = of_program_id and w.partner_id = commission.partner_id and w.currency = commission.currency
      and w.status = 'requested'
    order by w.id desc
  loop
    exit when open_cents <= 0;
    cut_cents := least(withdrawal.amount_cents, open_cents);
    open_cents := open_cents - cut_cents;
    update withdrawals w set amount_cents = w.amount_cents - cut_cents,
      status = case when w.amount_cents = cut_cents then 'cancelled' else w.status end,
      decided_at = case when w.amount_cents = cut_cents then now() else w.decided_at end
    where w.program_id = of_program_id and w.id = withdrawal.id;
    insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values (of_program_id, 'withdrawal_reduced', 'partner', commission.partner_id, by_cause || ':withdrawal:' || withdrawal.id,
      jsonb_build_object(
        'withdrawal_id', withdrawal.id, 'amount_cents', withdrawal.amount_cents - cut_cents, 'reduced_by_cents', cut_cents,
        'currency', commission.currency, 'transaction_id', of_transaction_id, 'reason', because))
    returning id into told;
    outbox_ids := outbox_ids || told;
  end loop;
  return outbox_ids;
end $$;

-- Applies a refund; `refundSale` in lib/money/refunds.ts is its only caller and says what is given and answered. Each lock is a
-- statement of its own, and what is read under it comes later: a statement that waits goes on reading its old snapshot, and sums read
-- there over-refund.
create function refund_sale(
  hash bytea, of_transaction_id text, key text, wanted_cents bigint, because text, because_text text, request uuid,
  out key_retired boolean, out sale_id bigint, out refund_id bigint, out applied boolean, out known_key boolean,
  out deduction_cents bigint, out currency text, out commission_id bigint, out commission_was_reversed boolean,
  out fully_refunded boolean, out outbox json
) language plpgsql as $$
#variable_conflict use_column
declare
  of_program_id bigint;
  sale sales;
  commission commissions;
  known refunds;
  refunded bigint;
begin
  select k.program_id, k.retired_at is not null into of_program_id, key_retired from api_keys k where k.key_hash = hash;
  if key_retired is distinct from false then
    return;
  end if;
  select s.* into sale from sales s where s.program_id = of_program_id and s.transaction_id = of_transaction_id
  order by s.is_test limit 1 for no key update;
  if sale.id is null then
    return;
  end if;
  sale_id := sale.id;
  select c.* into commission from commissions c where c.program_id = of_program_id and c.sale_id = sale.id for no key update;
  commission_id := commission.id;
  currency := commission.currency;
  commission_was_reversed := commission.status = 'reversed';
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = commission.partner_id and b.currency = commission.currency for no key update;

  select r.* into known from refunds r
  where r.program_id = of_program_id and r.sale_id = sale.id and (r.refund_key = key or r.request_id = request) limit 1;
  known_key := known.id is not null;
  if known_key then
    -- A refund whose answer was lost is answered as it was applied, whatever was refunded since.
    refund_id := known.id;
    applied := known.request_id is not distinct from request;
    deduction_cents := known.deduction_cents;
    select sum(r.applied_cents) into refunded from refunds r
    where r.program_id = of_program_id and r.sale_id = sale.id and r.id <= known.id and r.returned_at is null;
    fully_refunded := coalesce(refunded, sale.refunded_cents) = sale.amount_cents;
    return;
  end if;
  applied := sale.refunded_cents < sale.amount_cents;
  fully_refunded := sale.refunded_cents = sale.amount_cents;
  if not applied then
    return;
  end if;

  refunded := least(sale.refunded_cents + coalesce(wanted_cents, sale.amount_cents), sale.amount_cents);
  fully_refunded := refunded = sale.amount_cents;
  deduction_cents := case when commission.status <> 'reversed'
    then div(commission.amount_cents::numeric * refunded, sale.amount_cents)::bigint - commission.reversed_cents else 0 end;
  insert into refunds (program_id, sale_id, refund_key, requested_cents, applied_cents, deduction_cents, reason, reason_text, request_id)
  values (of_program_id, sale.id, key, wanted_cents, refunded - sale.refunded_cents, deduction_cents, because, because_text, request)
  returning id into refund_id;
  update sales s set refunded_cents = refunded where s.program_id = of_program_id and s.id = sale.id;
  if commission.status <> 'reversed' then
    select json_agg(json_build_object('program_id', of_program_id, 'outbox_id', told.id)) into outbox
    from unnest(reverse_commission(of_program_id, commission.id, refund_id, 'refund:' || refund_id, deduction_cents,
      case when fully_refunded then 'full' else 'partial' end, null, coalesce(because_text, because), of_transaction_id, 'reversal'
    )) told (id);
  end if;
end $$;

-- Records a sale, its commission, the customer's conversion and the day's totals; `recordSale` in lib/money/sales.ts says how. `given` is the
-- sale as it is to be stored: its program, customer (null: not attributed) and date (null: now) included, its id and partner not.
-- Answers the sale that stands under the transaction id; where it stood there before (not `inserted`), nothing is written. But two events
-- of the processor can tell of one payment: where it `completes`, the later one adds what was not known, and the sale
-- counts when it is first attributed.
create function record_sale(
  given sales, completes boolean,
  out sale sales, out inserted boolean, out commission_id bigint, out commission_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  program programs;
  customer customers;
  was_attributed boolean := false;
  is_counted_now boolean;
begin
  -- A click that moves the customer to another link comes before this or, as a buyer's partner is fixed, does not move it.
  select c.* into customer from customers c where c.program_id = given.program_id and c.id = given.customer_id for no key update;
  insert into sales (program_id, is_test, transaction_id, customer_id, partner_id, customer_key, sale_date, amount_cents,
    commission_base_cents, currency, sale_type, payment_status, is_recurring, subscription_id, additional_data, request_id,
    processor_event_id, processor_session_id, processor_payment_intent_id, processor_charge_id, processor_invoice_id,
    processor_customer_id)
  values (given.program_id, given.is_test, given.transaction_id, customer.id, customer.partner_id, given.customer_key,
    coalesce(given.sale_date, now()), given.amount_cents, given.commission_base_cents, given.currency, given.sale_type,
    given.payment_status, given.is_recurring, given.subscription_id, given.additional_data, given.request_id,
    given.processor_event_id, given.processor_session_id, given.processor_payment_intent_id, given.processor_charge_id,
    given.processor_invoice_id, given.processor_customer_id)
  on conflict on constraint sales_transaction_key do nothing
  returning * into sale;
  inserted := sale.id is not null;
  if not inserted then
    select s.* into strict sale from sales s
    where s.program_id = given.program_id and s.is_test = given.is_test and s.transaction_id = given.transaction_id
    for no key update;
    was_attributed := sale.customer_id is not null;
    select c.id, c.amount_cents into commission_id, commission_cents from commissions c
    where c.program_id = sale.program_id and c.sale_id = sale.id;
    if not completes then
      return;
    end if;
    update sales s set
      customer_id = coalesce(s.customer_id, customer.id),
      partner_id = coalesce(s.partner_id, customer.partner_id),
      customer_key = coalesce(s.customer_key, given.customer_key),
      subscription_id = coalesce(s.subscription_id, given.subscription_id),
      processor_session_id = coalesce(s.processor_session_id, given.processor_session_id),
      processor_payment_intent_id = coalesce(s.processor_payment_intent_id, given.processor_payment_intent_id),
      processor_charge_id = coalesce(s.processor_charge_id, given.processor_charge_id),
      processor_invoice_id = coalesce(s.processor_invoice_id, given.processor_invoice_id),
      processor_customer_id = coalesce(s.processor_customer_id, given.processor_customer_id)
    where s.program_id = sale.program_id and s.id = sale.id
    returning s.* into sale;
  end if;
  if was_attributed or sale.customer_id is null or sale.is_test then
    return;
  end if;

  select p.* into strict program from programs p where p.id = sale.program_id;
  -- Rounded half up in integers, because floating point is not exact here (27.50 at 1.4 % would give 38 cents for 39).
  commission_cents := (sale.commission_base_cents * program.commission_bp + 5000) / 10000;
  if program.commission_duration_months is not null and customer.first_purchase_date is not null
    and sale.sale_date > customer.first_purchase_date + make_interval(months => program.commission_duration_months) then
    commission_cents := 0;
  end if;
  if commission_cents > 0 then
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, currency, amount_cents, hold_until)
    values (sale.program_id, 'sale', sale.partner_id, sale.customer_id, sale.id, sale.currency, commission_cents,
      now() + make_interval(days => program.hold_days))
    returning id into commission_id;
  end if;

  if customer.first_purchase_date is null or customer.first_purchase_date > sale.sale_date then
    update customers c set customer_status = 'conversion', first_purchase_date = sale.sale_date
    where c.program_id = sale.program_id and c.id = sale.customer_id;
    perform count_customers(sale.program_id, sale.sale_date, 0, 1);
    if customer.first_purchase_date is not null then
      perform count_customers(sale.program_id, customer.first_purchase_date, 0, -1);
    end if;
  end if;
  -- A sale counts on its own day, its commission on the day it was made: mostly the same hour, and then one row.
  is_counted_now := date_trunc('hour', sale.sale_date, 'UTC') = date_trunc('hour', now(), 'UTC');
  if sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.sale_date, sale.currency, 1, sale.amount_cents,
      case when is_counted_now then commission_cents else 0 end);
  end if;
  if commission_cents > 0 and not (is_counted_now and sale.payment_status = 'paid') then
    perform count_money(sale.program_id, now(), sale.currency, 0, 0, commission_cents);
  end if;
end $$;

-- Makes a second customer, with the link and partner of a click and a click id of its own, for a key that is not known, where the
-- click's customer carries another: two people on one computer. Does nothing where the last click was not after `valid_after`.
create function add_second_customer(
  of_program_id bigint, new_key text, of_click_id text, stem text, valid_after timestamptz
) returns void language plpgsql as $$
begin
  insert into customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at)
  select c.program_id, stem || c.program_id, new_key, c.link_id, c.partner_id, c.last_click_at from customers c
  where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after
    and c.customer_key is not null
    and not exists (select from customers k where k.program_id = of_program_id and k.customer_key = new_key)
  on conflict (program_id, customer_key) where customer_key is not null do nothing;
end $$;

-- Gives a key that is not known to the customer of a click: to the one who clicked where they have none, else to a second one.
create function bind_customer(of_program_id bigint, new_key text, of_click_id text, stem text, valid_after timestamptz)
returns void language plpgsql as $$
begin
  if exists (select from customers k where k.program_id = of_program_id and k.customer_key = new_key) then
    return;
  end if;
  update customers c set customer_key = new_key
  where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after and c.customer_key is null;
  if not found then
    perform add_second_customer(of_program_id, new_key, of_click_id, stem, valid_after);
  end if;
end $$;

-- A sale of the API; `recordSale` in lib/money/sales.ts is its only caller. `given` has no program and no customer yet; `stem` is the
-- beginning of a click id, for a second customer.
create function track_sale(
  hash bytea, claimed_program_id bigint, given sales, of_click_id text, stem text,
  out key_retired boolean, out program_matches boolean,
  out sale sales, out inserted boolean, out commission_id bigint, out commission_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  valid_after timestamptz;
  recorded record;
begin
  select k.program_id, k.retired_at is not null, k.program_id = coalesce(claimed_program_id, k.program_id),
    now() - make_interval(days => p.cookie_window_days)
  into given.program_id, key_retired, program_matches, valid_after
  from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash;
  if key_retired is distinct from false or not program_matches then
    return;
  end if;
  -- A sale that is refused as a duplicate binds no key to the click, and neither does a test sale.
  if of_click_id is not null and not given.is_test and not exists (
    select from sales s where s.program_id = given.program_id and not s.is_test and s.transaction_id = given.transaction_id
  ) then
    perform bind_customer(given.program_id, given.customer_key, of_click_id, stem, valid_after);
  end if;
  select c.id into given.customer_id from customers c
  where c.program_id = given.program_id and c.customer_key = given.customer_key;
  if given.customer_id is null and given.is_test and of_click_id is not null then
    select c.id into given.customer_id from customers c
    where c.program_id = given.program_id and c.click_id = of_click_id and c.last_click_at > valid_after;
  end if;
  select r.* into recorded from record_sale(given, false) r;
  sale := recorded.sale;
  inserted := recorded.inserted;
  commission_id := recorded.commission_id;
  commission_cents := recorded.commission_cents;
end $$;

-- What the settlement of a lead brings: the lead event, pay per lead and the day's totals. `customer` is the row as it was settled now.
create function record_settled_lead(customer customers, session_id text, page_url text, additional_data jsonb) returns void
language plpgsql as $$
declare
  program programs;
begin
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, session_id, page_url, additional_data)
  values (customer.program_id, customer.signup_date, customer.lead_event_id, customer.id, customer.customer_key,
    record_settled_lead.session_id, record_settled_lead.page_url, record_settled_lead.additional_data);
  select p.* into strict program from programs p where p.id = customer.program_id;
  perform count_customers(customer.program_id, now(), 1, 0);
  if program.lead_commission_cents > 0 then
    insert into commissions (program_id, kind, partner_id, customer_id, currency, amount_cents, hold_until)
    values (customer.program_id, 'lead', customer.partner_id, customer.id, program.currency, program.lead_commission_cents,
      now() + make_interval(days => program.hold_days));
    perform count_money(customer.program_id, now(), program.currency, 0, 0, program.lead_commission_cents);
  end if;
end $$;

-- Settles the lead of the customer with this key. A lead that is settled already changes nothing and keeps its own id, which
-- tells the call that settled it from all others, even where the answer to its first try was lost. The update is
-- unconditional so that a call which waited for another sees what that one did.
create function settle_lead(
  of_program_id bigint, of_customer_key text, new_lead_id bigint, new_email_hash bytea, session_id text, page_url text,
  additional_data jsonb,
  out lead_id bigint, out click_id text, out customer_status text
) language plpgsql as $$
#variable_conflict use_column
declare
  settled record;
begin
  update customers c set
    signup_date = coalesce(c.signup_date, now()),
    lead_event_id = coalesce(c.lead_event_id, new_lead_id),
    customer_status = case when c.customer_status = 'click' then 'lead' else c.customer_status end,
    email_hash = case when c.signup_date is null then coalesce(new_email_hash, c.email_hash) else c.email_hash end
  where c.program_id = of_program_id and c.customer_key = of_customer_key
  returning new as customer, new.lead_event_id, new.click_id, new.customer_status, old.signup_date is null as is_first into settled;
  lead_id := settled.lead_event_id;
  click_id := settled.click_id;
  customer_status := settled.customer_status;
  if settled.is_first then
    perform record_settled_lead(settled.customer, session_id, page_url, additional_data);
  end if;
end $$;

-- A lead of the integrator's server; `recordServerLead` in lib/tracking/leads.ts is its only caller.
create function track_lead(
  hash bytea, claimed_program_id bigint, of_customer_key text, of_click_id text, stem text, new_lead_id bigint,
  new_email_hash bytea, session_id text, page_url text, additional_data jsonb,
  out key_retired boolean, out program_matches boolean, out lead_id bigint, out click_id text, out customer_status text
) language plpgsql as $$
#variable_conflict use_column
declare
  of_program_id bigint;
  valid_after timestamptz;
begin
  select k.program_id, k.retired_at is not null, k.program_id = coalesce(claimed_program_id, k.program_id),
    now() - make_interval(days => p.cookie_window_days)
  into of_program_id, key_retired, program_matches, valid_after
  from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash;
  if key_retired is distinct from false or not program_matches then
    return;
  end if;
  if of_click_id is not null then
    perform bind_customer(of_program_id, of_customer_key, of_click_id, stem, valid_after);
  end if;
  select s.* into lead_id, click_id, customer_status
  from settle_lead(of_program_id, of_customer_key, new_lead_id, new_email_hash, session_id, page_url, additional_data) s;
end $$;

-- A lead of the visitor's browser, for a click of this program; `recordBrowserLead` in lib/tracking/leads.ts is its only caller. Answers no
-- lead where the click is not a valid one.
create function track_browser_lead(
  of_program_id bigint, of_customer_key text, of_click_id text, stem text, new_lead_id bigint, new_email_hash bytea,
  session_id text, page_url text, additional_data jsonb,
  out provisional boolean, out lead_id bigint, out click_id text, out customer_status text
) language plpgsql as $$
#variable_conflict use_column
declare
  valid_after timestamptz;
  noted record;
begin
  select p.lead_auth_policy <> 'browser_allowed', now() - make_interval(days => p.cookie_window_days) into provisional, valid_after
  from programs p where p.id = of_program_id;
  if not exists (
    select from customers c where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after
  ) then
    return;
  end if;
  if not provisional then
    perform bind_customer(of_program_id, of_customer_key, of_click_id, stem, valid_after);
    select s.* into lead_id, click_id, customer_status
    from settle_lead(of_program_id, of_customer_key, new_lead_id, new_email_hash, session_id, page_url, additional_data) s;
    return;
  end if;
  update customers c set
    provisional_lead_at = case when c.signup_date is null then coalesce(c.provisional_lead_at, now()) else c.provisional_lead_at end,
    provisional_lead_event_id = case when c.signup_date is null
      then coalesce(c.provisional_lead_event_id, new_lead_id) else c.provisional_lead_event_id end
  where c.program_id = of_program_id and c.click_id = of_click_id
  returning c.*, old.provisional_lead_at is null and new.provisional_lead_at is not null as is_first into noted;
  if noted.is_first then
    insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, provisional, session_id, page_url)
    values (of_program_id, noted.provisional_lead_at, noted.provisional_lead_event_id, noted.id, true, session_id, page_url);
  end if;
  lead_id := coalesce(noted.provisional_lead_event_id, noted.lead_event_id);
  click_id := noted.click_id;
  -- The browser does not learn that the server settled it.
  customer_status := 'click';
end $$;
