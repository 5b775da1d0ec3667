-- Corrections of stored sales.

-- The payload of a sale call, without the identifiers of the customer.
create or replace function payload_of(sale sales) returns jsonb language sql immutable
return jsonb_build_array((sale).amount_cents, (sale).commission_base_cents, (sale).currency, (sale).sale_type, (sale).is_recurring,
  (sale).subscription_id);

-- The payload of a stored sale from the API. Null if the processor recorded or corrected it.
create or replace function api_payload_of(sale sales) returns jsonb language sql immutable
return case when (sale).amount_source = 'api' then payload_of(sale) end;

-- Applies the figures of a better source to a sale, and returns the sale. Updates its terms, refunds, commission and totals. If the
-- customer's first purchase changes, also updates the customer's other commissions. The caller holds the locks of the customer and the
-- sale.
create or replace function correct_sale(sale sales, given sales) returns sales language plpgsql as $$
declare
  was constant sales := sale;
  is_moved boolean;
begin
  if given.currency <> sale.currency then
    sale := change_currency(sale, given);
    if sale.currency <> given.currency then
      return sale;
    end if;
  end if;
  sale.refunded_cents := fit_refunds(sale, given.amount_cents);
  sale.sale_type := given.sale_type;
  sale.lines := coalesce(given.lines, sale.lines);
  sale := with_terms(sale);
  update sales s set currency = sale.currency, amount_cents = given.amount_cents, commission_base_cents = given.commission_base_cents,
    processor_fee_cents = given.processor_fee_cents,
    amount_source = given.amount_source, payment_status = given.payment_status, sale_date = given.sale_date,
    refunded_cents = sale.refunded_cents, api_payload = coalesce(s.api_payload, api_payload_of(s)),
    sale_type = sale.sale_type, lines = sale.lines, terms_by_line = sale.terms_by_line, commission_rule_id = sale.commission_rule_id,
    commission_bp = sale.commission_bp, commission_months = sale.commission_months,
    commission_fixed_cents = sale.commission_fixed_cents, commission_cap_cents = sale.commission_cap_cents
  where s.program_id = sale.program_id and s.id = sale.id
  returning s.* into sale;
  if sale.customer_id is not null and not sale.is_test then
    perform count_paid_sale(was, -1);
    perform count_paid_sale(sale, 1);
    is_moved := move_first_purchase(sale);
    perform follow_first_code(sale.program_id, sale.customer_id);
    perform correct_customer(sale, true, is_moved);
  end if;
  return grow_refund_of_rest(sale, sale.amount_cents - was.amount_cents);
end $$;

-- Changes the currency of a sale from the API, and of its commission, to the currency of `given` (the processor's sale or a correcting
-- call). Returns the sale. A credited commission doesn't change, because a balance has only one currency. Notifies the advertiser if
-- the processor reports another currency.
create or replace function change_currency(sale sales, given sales) returns sales language plpgsql as $$
declare
  commission commissions;
begin
  if sale.amount_source <> 'api' then
    return sale;
  end if;
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  if given.amount_source <> 'api' and sale.partner_id is not null and not sale.is_test then
    perform write_outbox(sale.program_id, case when commission.credited_at is null then 'sale_currency_corrected' else 'sale_currency_differs' end,
      'advertiser', sale.partner_id, 'currency:' || sale.id, jsonb_build_object('transaction_id', sale.transaction_id,
        'amount_cents', given.amount_cents, 'currency', given.currency))
    where not exists (
      select from outbox o where o.program_id = sale.program_id and o.kind = 'sale_currency_differs' and o.cause = 'currency:' || sale.id
    );
  end if;
  if commission.credited_at is not null then
    return sale;
  end if;
  sale.currency := given.currency;
  if commission.id is not null then
    perform count_commission(commission, -1);
    update commissions c set currency = sale.currency where c.program_id = commission.program_id and c.id = commission.id
    returning c.* into commission;
    perform count_commission(commission, 1);
  end if;
  return sale;
end $$;

-- Corrects the currency of a stored sale from the API when a call for the same customer repeats the sale. The call may also contain another
-- amount. Returns the sale, or null if its commission is credited or the processor reported it. The caller holds the locks of the customer
-- and the sale.
create or replace function correct_currency(sale sales, given sales) returns sales language plpgsql as $$
begin
  if sale.processor_event_id is not null or sale.amount_source <> 'api' or sale.customer_key is distinct from given.customer_key then
    return null;
  end if;
  given.amount_source := 'api';
  given.sale_date := sale.sale_date;
  sale := correct_sale(sale, given);
  update sales s set api_payload = null where s.program_id = sale.program_id and s.id = sale.id and sale.currency = given.currency;
  return case when sale.currency = given.currency then sale end;
end $$;

-- Sets a customer's first purchase to the date of their earliest paid sale. Returns whether the date changed. The caller holds the lock of
-- the customer.
create or replace function move_first_purchase(sale sales) returns boolean language plpgsql as $$
declare
  first_date timestamptz;
  was_date timestamptz;
begin
  select min(s.sale_date) into first_date from sales s
  where s.program_id = sale.program_id and s.customer_id = sale.customer_id and not s.is_test and s.amount_cents > 0;
  select c.first_purchase_date into was_date from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  if first_date is not distinct from was_date then
    return false;
  end if;
  update customers c set updated_at = now(), first_purchase_date = first_date, customer_status = case
      when first_date is not null then 'conversion'
      when c.signup_date is not null then 'lead'
      else 'click'
    end
  where c.program_id = sale.program_id and c.id = sale.customer_id;
  if was_date is not null then
    perform count_customers(sale.program_id, sale.customer_id, was_date, 0, -1);
  end if;
  if first_date is not null then
    perform count_customers(sale.program_id, sale.customer_id, first_date, 0, 1);
  end if;
  return true;
end $$;
