-- The rules of a sale's row. They are in a trigger because Postgres compiles a table's CHECKs again in every statement that writes the table.
create or replace function refuse_unsound_sale() returns trigger language plpgsql as $$
begin
  -- One expression is cheaper than several.
  if greatest(new.commission_base_cents, new.refunded_cents) <= new.amount_cents
    and num_nulls(new.customer_id, new.partner_id, new.commission_bp) % 3 = 0
    and (new.payment_status <> 'no_payment_required') = (new.amount_cents > 0) then
    return null;
  end if;
  if greatest(new.commission_base_cents, new.refunded_cents) > new.amount_cents then
    raise check_violation using message = 'The commission base and the refunded amount are parts of a sale''s amount.';
  end if;
  if (new.payment_status <> 'no_payment_required') <> (new.amount_cents > 0) then
    raise check_violation using message = 'A sale has an amount, unless no payment was required.';
  end if;
  raise check_violation using message = 'A sale has a customer, a partner and the terms of the program, or none of them.';
end $$;
create or replace trigger sales_sound after insert or update on sales for each row execute function refuse_unsound_sale();

-- Records a sale with its commission, the customer's first purchase and the totals, for `recordSale` in lib/money/sales.ts. `given` is the
-- sale to store, without id and partner. Without a customer it is unattributed, and without a date it gets the current time. Returns the
-- sale with this transaction id.
--
-- An existing sale (not `inserted`) stays unchanged. If it has no customer, it gets the customer of a later call with its key. Two events
-- of the processor can be about one payment. If a later event `completes` the sale, it adds missing fields and corrects figures of a lesser
-- source.
create or replace function record_sale(
  given sales, completes boolean,
  out sale sales, out inserted boolean, out commission_id bigint, out commission_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  customer customers;
  was_attributed boolean := false;
  commission commissions;
begin
  -- A concurrent click on another link moves the customer either before this point or not at all, because a buyer's partner is fixed.
  select c.* into customer from customers c where c.program_id = given.program_id and c.id = given.customer_id for no key update;
  given := with_partner(given, customer);
  -- Repeats if the sale with this transaction id was a test sale that was just cleared.
  loop
    sale := insert_sale(given);
    inserted := sale.id is not null;
    exit when inserted;
    select s.* into sale from sales s
    where s.program_id = given.program_id and s.is_test = given.is_test and s.transaction_id = given.transaction_id
    for no key update;
    exit when found;
  end loop;
  if not inserted then
    was_attributed := sale.customer_id is not null;
    select c.id, c.amount_cents into commission_id, commission_cents from commissions c
    where c.program_id = sale.program_id and c.sale_id = sale.id;
    -- The API and the processor can both report a payment, but only one of them may report the code.
    if customer.id = sale.customer_id and not sale.is_test and names_code(given) and not names_code(sale)
      and (completes or sale.processor_event_id is not null) then
      sale := give_code(sale, given);
    end if;
    if not completes and (was_attributed or customer.id is null or sale.customer_key <> given.customer_key) then
      return;
    end if;
    sale := complete_sale(sale, given);
  end if;
  if was_attributed or sale.customer_id is null or sale.is_test then
    return;
  end if;
  commission_cents := earned_by(sale, customer.first_purchase_date);
  if commission_cents > 0 then
    commission := create_commission(sale.program_id, 'sale', sale.partner_id, sale.customer_id, sale.currency, commission_cents, sale.id,
      sale.code_id, of_review_reason => review_reason_of(customer, given.customer_key), of_time => sale.created_at,
      of_date => sale.sale_date);
    commission_id := commission.id;
  end if;
  perform note_purchase(sale, customer);
  perform count_sale(sale, case when commission.is_shadow then 0 else commission_cents end,
    customer.first_purchase_date is null and sale.amount_cents > 0);
  perform notify_sale(sale, commission_id);
  if sale.sale_date <= customer.first_purchase_date then
    perform follow_first_code(sale.program_id, sale.customer_id);
  end if;
end $$;

-- Stores a new sale and returns it. All fields are null if the transaction id is taken.
create or replace function insert_sale(given sales) returns sales language plpgsql as $$
declare
  sale sales;
begin
  insert into sales (program_id, is_test, transaction_id, customer_id, partner_id, customer_key, sale_date, amount_cents,
    amount_source, commission_base_cents, processor_fee_cents, commission_bp, commission_months, commission_rule_id, commission_fixed_cents, commission_cap_cents,
    terms_among, lines, terms_by_line, coupon, code_id, resolution, currency, sale_type, payment_status, is_recurring,
    subscription_id, additional_data, request_id, processor_event_id, processor_session_id, processor_payment_intent_id,
    processor_charge_id, processor_invoice_id, processor_customer_id)
  values (given.program_id, given.is_test, given.transaction_id, given.customer_id, given.partner_id, given.customer_key,
    coalesce(given.sale_date, now()), given.amount_cents, coalesce(given.amount_source, 'api'), given.commission_base_cents, given.processor_fee_cents,
    given.commission_bp, given.commission_months, given.commission_rule_id, given.commission_fixed_cents, given.commission_cap_cents,
    given.terms_among, given.lines, given.terms_by_line, given.coupon, given.code_id, given.resolution, given.currency, given.sale_type,
    given.payment_status, given.is_recurring, given.subscription_id, given.additional_data, given.request_id,
    given.processor_event_id, given.processor_session_id, given.processor_payment_intent_id, given.processor_charge_id,
    given.processor_invoice_id, given.processor_customer_id)
  on conflict on constraint sales_transaction_key do nothing
  returning * into sale;
  return sale;
end $$;

-- Adds missing fields to a stored sale, and corrects figures from a source with lower precedence. The sale keeps its customer, or gets the given one if it has none.
create or replace function complete_sale(sale sales, given sales) returns sales language plpgsql as $$
declare
  was_attributed boolean := sale.customer_id is not null;
begin
  -- A charge can pay a part of its intent. Both get the session's rank if the session was waiting for them. A processor can report its
  -- fee after the payment.
  if given.amount_source > sale.amount_source
    or given.amount_source = sale.amount_source and sale.amount_source <> 'api'
      and (given.amount_cents, given.processor_fee_cents) > (sale.amount_cents, sale.processor_fee_cents) then
    sale := correct_sale(sale, given);
  end if;
  if not was_attributed then
    given.lines := sale.lines;
    given.sale_type := sale.sale_type;
    given.currency := sale.currency;
    given := with_terms(given);
  end if;
  update sales s set
    customer_id = coalesce(s.customer_id, given.customer_id),
    partner_id = coalesce(s.partner_id, given.partner_id),
    commission_bp = coalesce(s.commission_bp, given.commission_bp),
    commission_months = case when was_attributed then s.commission_months else given.commission_months end,
    commission_rule_id = case when was_attributed then s.commission_rule_id else given.commission_rule_id end,
    commission_fixed_cents = case when was_attributed then s.commission_fixed_cents else given.commission_fixed_cents end,
    commission_cap_cents = case when was_attributed then s.commission_cap_cents else given.commission_cap_cents end,
    terms_among = case when was_attributed then s.terms_among else given.terms_among end,
    terms_by_line = case when was_attributed then s.terms_by_line else given.terms_by_line end,
    coupon = coalesce(s.coupon, given.coupon),
    code_id = case when was_attributed then s.code_id else given.code_id end,
    resolution = case when was_attributed then s.resolution else coalesce(given.resolution, s.resolution) end,
    customer_key = coalesce(s.customer_key, given.customer_key),
    api_payload = coalesce(s.api_payload, given.api_payload, api_payload_of(s)),
    subscription_id = coalesce(s.subscription_id, given.subscription_id),
    processor_session_id = coalesce(s.processor_session_id, given.processor_session_id),
    processor_payment_intent_id = coalesce(s.processor_payment_intent_id, given.processor_payment_intent_id),
    processor_charge_id = coalesce(s.processor_charge_id, given.processor_charge_id),
    processor_invoice_id = coalesce(s.processor_invoice_id, given.processor_invoice_id),
    processor_customer_id = coalesce(s.processor_customer_id, given.processor_customer_id)
  where s.program_id = sale.program_id and s.id = sale.id
  returning s.* into sale;
  return sale;
end $$;

-- The reason why a person should review a customer's first commission before it is paid: only a browser identified the customer.
-- `named_key` is the customer key of the sale.
create or replace function review_reason_of(customer customers, named_key text) returns text language sql immutable
return case when (customer).first_purchase_date is null and ((customer).key_unverified_since is not null
  or (customer).email_unverified_since is not null and (customer).customer_key is distinct from named_key) then 'unverified_customer' end;

-- Moves a customer's first purchase to an earlier sale. Corrects the commissions that depend on it: commissions whose months count from
-- the first purchase, and commissions of later sales under a cap. `customer` is the row before the sale. The caller counts the conversion if
-- the customer had none.
create or replace function note_purchase(sale sales, customer customers) returns void language plpgsql as $$
declare
  was_date constant timestamptz := customer.first_purchase_date;
begin
  if sale.amount_cents > 0 and (was_date is null or was_date > sale.sale_date) then
    update customers c set updated_at = now(), customer_status = 'conversion', first_purchase_date = sale.sale_date,
      code_id = case when was_date is not null then c.code_id else coalesce(sale.code_id, case when c.link_id is null then c.code_id end) end
    where c.program_id = sale.program_id and c.id = sale.customer_id;
    if was_date is not null then
      perform count_customers(sale.program_id, sale.customer_id, sale.sale_date, 0, 1);
      perform count_customers(sale.program_id, sale.customer_id, was_date, 0, -1);
      perform correct_customer(sale, false, true);
    end if;
  elsif was_date is not null and exists (
    select from programs p join sales s on s.program_id = p.id
    where p.id = sale.program_id and p.rules_version > 0 and s.customer_id = sale.customer_id and not s.is_test
      and (s.commission_cap_cents is not null or s.terms_by_line is not null) and (s.sale_date, s.id) > (sale.sale_date, sale.id)
  ) then
    perform correct_customer(sale, false, false);
  end if;
end $$;

-- Counts a sale on its own day, and its commission on the current day. If both are in the same hour, as usual, one row counts both, and the
-- customer's conversion if `converts`.
create or replace function count_sale(sale sales, commission_cents bigint, converts boolean) returns void language plpgsql as $$
declare
  is_paid boolean := sale.payment_status = 'paid';
  is_of_this_hour boolean := date_trunc('hour', sale.sale_date, 'UTC') = date_trunc('hour', now(), 'UTC');
begin
  if converts and not is_paid then
    perform count_customers(sale.program_id, sale.customer_id, sale.sale_date, 0, 1);
  elsif converts then
    perform add_customers(sale.program_id, sale.sale_date, 0, 1);
  end if;
  if is_paid then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 1, sale.amount_cents,
      case when is_of_this_hour then commission_cents else 0 end, sale.refunded_cents, more_conversions => converts::integer,
      of_code_id => sale.code_id);
  end if;
  if commission_cents > 0 and not (is_paid and is_of_this_hour) then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, now(), sale.currency, 0, 0, commission_cents,
      of_code_id => sale.code_id);
  end if;
end $$;

-- Notifies the partner of a new commission, and webhook endpoints of the sale and the commission.
create or replace function notify_sale(sale sales, commission_id bigint) returns void language plpgsql as $$
declare
  wanted text[];
  of_user_id text;
begin
  select p.webhook_types, r.user_id into wanted, of_user_id from programs p join partners r on r.program_id = p.id
  where p.id = sale.program_id and r.id = sale.partner_id;
  if commission_id is not null and of_user_id is not null then
    perform notify_earned(sale.program_id, of_user_id, commission_id);
  end if;
  if 'sale.created' = any (wanted) then
    perform write_webhook(sale.program_id, 'sale.created', webhook_sale(sale));
  end if;
  if commission_id is not null and 'commission.created' = any (wanted) then
    perform notify_commission_created(sale.program_id, commission_id);
  end if;
  if 'sale' = any (wanted) then
    perform write_postback(sale.program_id, sale.partner_id, 'sale', sale.customer_id, sale.id, coalesce(c.amount_cents - c.reversed_cents, 0),
      coalesce(c.currency, sale.currency), coalesce(c.status, 'none'), null)
    from partners r left join commissions c on c.program_id = r.program_id and c.id = commission_id
    where r.program_id = sale.program_id and r.id = sale.partner_id and not coalesce(c.is_shadow, in_shadow_mode(sale.program_id));
  end if;
end $$;
