-- Corrections of stored sales.

-- The payload of a sale call, without the names of the customer.
create or replace function payload_of(sale sales) returns jsonb language sql immutable
return jsonb_build_array((sale).amount_cents, (sale).commission_base_cents, (sale).currency, (sale).sale_type, (sale).is_recurring,
  (sale).subscription_id);

-- The payload of a stored sale from the API; null if the processor recorded or corrected it.
create or replace function api_payload_of(sale sales) returns jsonb language sql immutable
return case when (sale).amount_source = 'api' then payload_of(sale) end;

-- Applies the figures of a better source to a sale, and returns the sale. Its terms, refunds, commission and totals follow. If that changes
-- the customer's first purchase, their other commissions follow too. A source with another currency corrects nothing: a balance has one
-- currency. The caller holds the locks of the customer and the sale.
create or replace function correct_sale(sale sales, given sales) returns sales language plpgsql as $$
declare
  was constant sales := sale;
begin
  if given.currency <> sale.currency then
    return sale;
  end if;
  sale.refunded_cents := fit_refunds(sale, given.amount_cents);
  sale.sale_type := given.sale_type;
  sale.product_ids := coalesce(given.product_ids, sale.product_ids);
  sale := with_terms(sale);
  update sales s set amount_cents = given.amount_cents, commission_base_cents = given.commission_base_cents,
    processor_fee_cents = given.processor_fee_cents,
    amount_source = given.amount_source, payment_status = given.payment_status, sale_date = given.sale_date,
    refunded_cents = sale.refunded_cents, api_payload = coalesce(s.api_payload, api_payload_of(s)),
    sale_type = sale.sale_type, product_ids = sale.product_ids, commission_rule_id = sale.commission_rule_id,
    commission_bp = sale.commission_bp, commission_months = sale.commission_months,
    commission_fixed_cents = sale.commission_fixed_cents, commission_cap_cents = sale.commission_cap_cents
  where s.program_id = sale.program_id and s.id = sale.id
  returning s.* into sale;
  if sale.customer_id is not null and not sale.is_test then
    perform count_paid_sale(was, -1);
    perform count_paid_sale(sale, 1);
    perform correct_customer(sale, true, move_first_purchase(sale));
  end if;
  return grow_refund_of_rest(sale, sale.amount_cents - was.amount_cents);
end $$;

-- Counts the revenue of a sale on its day (`times` 1), or removes it from the count (-1).
create or replace function count_paid_sale(sale sales, times integer) returns void language plpgsql as $$
begin
  if sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, times, times * sale.amount_cents, 0,
      times * sale.refunded_cents, of_code_id => sale.code_id);
  end if;
end $$;

-- Corrects commissions of a sale's customer (correct_commissions), and enters the earlier refunds of each commission that this creates.
create or replace function correct_customer(of_sale sales, itself boolean, others boolean) returns void language plpgsql as $$
begin
  perform enter_earlier_refunds(s, c)
  from unnest(correct_commissions(of_sale, itself, others)) c
  join sales s on s.program_id = c.program_id and s.id = c.sale_id;
end $$;

-- Moves a customer's first purchase to the date of their earliest paid sale, and returns whether that changed it. The caller holds the lock
-- of the customer.
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
  update customers c set first_purchase_date = first_date, customer_status = case
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
