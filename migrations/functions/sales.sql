-- Records a sale, its commission, the customer's conversion and the day's totals; `recordSale` in lib/money/sales.ts says how. `given` is the
-- sale as it is to be stored: its program, customer (null: not attributed) and date (null: now) included, its id and partner not.
-- Answers the sale that stands under the transaction id; where it stood there before (not `inserted`), nothing is written. But two events
-- of the processor can tell of one payment: where it `completes`, the later one adds what was not known, and the sale
-- counts when it is first attributed.
create or replace function record_sale(
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

-- A sale of the API; `recordSale` in lib/money/sales.ts is its only caller. `given` has no program and no customer yet; `stem` is the
-- beginning of a click id, for a second customer.
create or replace function track_sale(
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
