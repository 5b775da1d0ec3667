-- Records a sale from the API for `recordSale` in lib/money/sales.ts. A null `currency` means the program's. If the call
-- `corrects_currency`, it may repeat a sale in another currency. `click_id_prefix` begins the click id of a new customer.
create or replace function track_sale(
  hash bytea, claimed_program_id bigint, request uuid, transaction_id text, customer_key text, of_click_id text, coupon text, click_id_prefix text, is_test boolean,
  amount_cents bigint, tax_cents bigint, currency text, sale_type text, is_recurring boolean, subscription_id text, additional_data jsonb,
  corrects_currency boolean,
  out key_refusal text, out program_matches boolean, out sale_id bigint, out is_recorded boolean, out same_payload boolean,
  out customer_id bigint, out commission_id bigint, out commission_cents bigint, out program_currency text, out is_tested boolean,
  out program_id bigint, out wrote_webhooks boolean, out is_attributed boolean, out outbox_ids bigint[]
) language plpgsql as $$
#variable_conflict use_variable
declare
  given sales;
  account_ids text[];
  payment_account_ids text[] := '{}';
  is_bound boolean := false;
  recorded record;
  stored sales;
begin
  select k.program_id, use_key(k, 'track'), k.program_id = coalesce(claimed_program_id, k.program_id), p.currency, accounts_of(p)
  into program_id, key_refusal, program_matches, program_currency, account_ids
  from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash;
  if key_refusal is distinct from '' or not program_matches then
    return;
  end if;
  given.program_id := program_id;
  given.request_id := request;
  given.transaction_id := transaction_id;
  given.customer_key := customer_key;
  given.coupon := coupon;
  given.is_test := is_test;
  given.amount_cents := amount_cents;
  given.commission_base_cents := amount_cents - tax_cents;
  given.currency := coalesce(currency, program_currency);
  given.sale_type := sale_type;
  given.payment_status := 'paid';
  given.is_recurring := is_recurring;
  given.subscription_id := subscription_id;
  given.additional_data := additional_data;
  -- A valid click overrides a customer whose key came only from a browser.
  select c.id into given.customer_id from customers c
  where c.program_id = track_sale.program_id and c.customer_key = track_sale.customer_key
    and (c.key_unverified_since is null or of_click_id is null);
  given.is_test := is_test or given.customer_id is null and of_click_id is null
    and signed_up_as_test(program_id, customer_key, coupon is not null);
  if account_ids <> '{}' then
    payment_account_ids := array(select id from unnest(account_ids) id where can_have_payment(id, track_sale.transaction_id));
  end if;
  if payment_account_ids <> '{}' then
    given.transaction_id := known_transaction(given, payment_account_ids);
  end if;
  if given.customer_id is null or coupon is not null then
    is_bound := given.customer_id is null;
    given := with_buyer(given, account_ids, of_click_id, click_id_prefix);
    is_bound := is_bound and given.customer_id is not null and not given.is_test;
  end if;
  recorded := record_call(given, payment_account_ids, corrects_currency);
  stored := recorded.sale;
  -- Applies refunds that arrived before the sale, or before its customer.
  if payment_account_ids <> '{}' then
    perform settle_reversals(stored);
  elsif not recorded.inserted and stored.refunded_cents > 0 then
    perform settle_refunds(stored.program_id, stored.id, null);
  end if;
  if is_bound then
    perform attribute_to_customer(account_ids, program_id, given.customer_id);
  end if;
  is_recorded := recorded.inserted or recorded.is_corrected or stored.request_id is not distinct from request;
  if not is_recorded then
    -- The processor's corrections don't make two calls different.
    same_payload := stored.customer_key is not distinct from customer_key and coalesce(stored.api_payload, payload_of(stored)) = payload_of(given);
  end if;
  is_tested := given.is_test;
  -- A test doesn't create a customer, but a real sale with this code would.
  is_attributed := stored.customer_id is not null or is_tested and given.code_id is not null;
  sale_id := stored.id;
  customer_id := stored.customer_id;
  commission_id := recorded.commission_id;
  commission_cents := recorded.commission_cents;
  wrote_webhooks := wrote_webhook();
  outbox_ids := written_outbox_ids();
end $$;

-- Records a sale, or corrects the currency of the stored one. `account_ids` are the accounts that may know the transaction id as a payment.
create or replace function record_call(
  given sales, account_ids text[], corrects_currency boolean,
  out sale sales, out inserted boolean, out is_corrected boolean, out commission_id bigint, out commission_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  recorded record;
  corrected sales;
begin
  if account_ids <> '{}' then
    perform lock_customers_of_payment(of_account_id, array[given.transaction_id], given.customer_id) from unnest(account_ids) of_account_id;
  end if;
  recorded := record_sale(given, false);
  sale := recorded.sale;
  inserted := recorded.inserted;
  commission_id := recorded.commission_id;
  commission_cents := recorded.commission_cents;
  is_corrected := false;
  if corrects_currency and not inserted and sale.currency <> given.currency then
    corrected := correct_currency(sale, given);
    if corrected.id is not null then
      sale := corrected;
      is_corrected := true;
      select c.id, c.amount_cents into commission_id, commission_cents from commissions c
      where c.program_id = corrected.program_id and c.sale_id = corrected.id;
    end if;
  end if;
end $$;

-- Returns whether a test lead of the last day makes an unattributed sale with this key a test. Keyless leads count only if they used the
-- test link and the sale contains no code. Anybody can send them, and a code earns a commission.
create or replace function signed_up_as_test(of_program_id bigint, of_customer_key text, has_code boolean) returns boolean language sql stable
return exists (
  select from affiliate_lead_events e
  where e.program_id = of_program_id and e.is_test and e.lead_timestamp > now() - interval '1 day' and e.customer_key = of_customer_key
    and (e.test_source = 'key' or e.test_source = 'test_link' and not has_code)
);

-- If a call uses one of the processor's ids, returns the transaction id of the payment's sale if it is known, or else the id itself. No
-- event about the payment is applied until this transaction ends.
create or replace function known_transaction(given sales, account_ids text[]) returns text language plpgsql as $$
declare
  of_account_id text;
begin
  foreach of_account_id in array account_ids loop
    perform lock_payments(of_account_id, array[given.transaction_id]);
    given.transaction_id := coalesce(
      (sale_of_program(given.program_id, of_account_id, given.is_test, array[given.transaction_id])).transaction_id, given.transaction_id);
  end loop;
  return given.transaction_id;
end $$;

-- If the customer key doesn't decide, finds the customer through the click and the code. Returns the sale with the customer, the code and
-- the steps.
create or replace function with_buyer(given sales, account_ids text[], of_click_id text, click_id_prefix text) returns sales language plpgsql as $$
begin
  if given.customer_id is null and of_click_id is null then
    given.resolution := '{"steps": [["customer_key", "unknown"], ["click_id", "not_given"]]}';
  elsif given.customer_id is null then
    given := with_clicked_customer(given, account_ids, of_click_id, click_id_prefix);
  end if;
  if given.coupon is null then
    return given;
  end if;
  given := with_code(given, null, now());
  if given.customer_id is null and given.code_id is not null and may_bind_customer(given) then
    perform lock_given_names(account_ids, given.customer_key, of_click_id, null);
    given.customer_id := add_customer_of_code(given, click_id_prefix, null, null, now());
  end if;
  return given;
end $$;

-- Gives the key to the customer of the sale's click. Returns the sale with this customer and the steps.
create or replace function with_clicked_customer(given sales, account_ids text[], of_click_id text, click_id_prefix text) returns sales language plpgsql as $$
declare
  is_key_known boolean := exists (select from customers c where c.program_id = given.program_id and c.customer_key = given.customer_key);
  valid_after timestamptz := (select window_start(now(), p.cookie_window_days) from programs p where p.id = given.program_id);
begin
  if given.is_test then
    select c.id into given.customer_id from customers c
    where c.program_id = given.program_id and (c.click_id = of_click_id and c.last_click_at > valid_after
      or c.customer_key = given.customer_key)
    order by c.click_id = of_click_id desc limit 1;
  elsif may_bind_customer(given) then
    perform lock_given_names(account_ids, given.customer_key, of_click_id, null);
    given.customer_id := bind_customer(given.program_id, given.customer_key, of_click_id, click_id_prefix, valid_after);
  end if;
  given.resolution := steps_of_click(given.program_id, is_key_known, of_click_id, given.customer_id);
  -- Only an expired click needs this query, so it does not slow down valid clicks.
  if (given.customer_id is null or is_key_known) and given.resolution @> '{"steps": [["click_id", "expired"]]}' then
    select given.resolution || expired_click(c, now()) into given.resolution from customers c
    where c.program_id = given.program_id and c.click_id = of_click_id;
  end if;
  return given;
end $$;

-- Whether a sale may give its customer key to a customer. Test sales and duplicates may not, except for a duplicate that gives the stored
-- sale its customer.
create or replace function may_bind_customer(given sales) returns boolean language sql stable
return not given.is_test and not exists (
  select from sales s where s.program_id = given.program_id and not s.is_test and s.transaction_id = given.transaction_id
    and (s.customer_id is not null or s.customer_key <> given.customer_key)
);

-- Returns the resolution of a sale call if the key didn't decide: whether a browser had reported the key before, and the outcome of the
-- click id.
create or replace function steps_of_click(of_program_id bigint, is_key_known boolean, of_click_id text, found_id bigint) returns jsonb
language sql stable as $$
  select case when outcome in ('found', 'second_customer') or not is_key_known or found.id is null then tried
    else with_step(tried, 'unverified_customer_key', 'found') end
    || jsonb_build_object('window_days', (select p.cookie_window_days from programs p where p.id = of_program_id))
  from (
    select f.id, f.click_id, f.key_unverified_since from (select) one left join customers f on f.program_id = of_program_id and f.id = found_id
  ) found
  cross join lateral (
    select case
      when found.click_id = of_click_id then 'found'
      when found.id is not null and not (is_key_known and found.key_unverified_since is not null) then 'second_customer'
      when exists (select from customers c where c.program_id = of_program_id and c.click_id = of_click_id) then 'expired'
      else 'unknown'
    end as outcome
  ) clicked
  cross join lateral (
    select with_step(with_step(null, 'customer_key', case when is_key_known then 'unverified' else 'unknown' end), 'click_id', outcome) as tried
  ) steps
$$;
