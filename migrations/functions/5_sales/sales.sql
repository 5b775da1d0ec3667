-- The rules of a sale's row, in a trigger because Postgres compiles the CHECKs of a table anew in every statement that writes it.
create or replace function refuse_unsound_sale() returns trigger language plpgsql as $$
begin
  -- One expression is cheaper than several.
  if greatest(new.commission_base_cents, new.refunded_cents) <= new.amount_cents
    and num_nulls(new.customer_id, new.partner_id, new.commission_bp) % 3 = 0
    and (new.payment_status <> 'no_payment_required') = (new.amount_cents > 0) then
    return null;
  end if;
  if greatest(new.commission_base_cents, new.refunded_cents) > new.amount_cents then
    raise check_violation using message = 'The base of the commission and what is refunded are parts of the amount of a sale.';
  end if;
  if (new.payment_status <> 'no_payment_required') <> (new.amount_cents > 0) then
    raise check_violation using message = 'A sale has an amount, unless no payment was required.';
  end if;
  raise check_violation using message = 'A sale has a customer, a partner and the terms of the program, or none of them.';
end $$;
create or replace trigger sales_sound after insert or update on sales for each row execute function refuse_unsound_sale();

-- Counts that so much more of a sale was refunded, where its amount is counted as revenue: on the same day, in the same currency.
create or replace function count_refunded(sale sales, more_refunded_cents bigint) returns void language plpgsql as $$
begin
  if sale.customer_id is not null and not sale.is_test and sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 0, 0, 0, more_refunded_cents,
      of_code_id => sale.code_id);
  end if;
end $$;

-- The commission of a sale on this base. The percentage is rounded half up in integers, because floating point is not exact here (27.50 at 1.4 %
-- would give 38 cents for 39); the fixed amount is added where anything was paid without tax. What is sold more than `months` after the customer's
-- first purchase earns nothing; null is for ever. `left_cents` is what it may bring at most (left_under_cap), null for no bound but an amount's own.
create or replace function commission_of(
  base_cents bigint, commission_bp integer, fixed_cents bigint, months integer, sale_date timestamptz, first_purchase_date timestamptz,
  left_cents bigint
) returns bigint language sql stable
return case when base_cents = 0 or sale_date > first_purchase_date + make_interval(months => months) then 0
  else greatest(least((base_cents * commission_bp + 5000) / 10000 + coalesce(fixed_cents, 0), left_cents, 9999999999999), 0) end;

-- Records a sale, its commission, the customer's conversion and the day's totals; `recordSale` in lib/money/sales.ts says how. `given` is the
-- sale as it is to be stored: its program, customer (null: not attributed) and date (null: now) included, its id and partner not.
-- Answers the sale that stands under the transaction id; where it stood there before (not `inserted`), nothing is written. But two events
-- of the processor can tell of one payment: where it `completes`, the later one adds what was not known and corrects what was told by a
-- lesser source, and the sale counts when it is first attributed.
create or replace function record_sale(
  given sales, completes boolean,
  out sale sales, out inserted boolean, out commission_id bigint, out commission_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  -- Of the customer and of the program. Each in a variable of its own, since a record of them costs a sale a hundredth.
  known_id bigint;
  first_at timestamptz;
  latest_click_at timestamptz;
  first_code_id bigint;
  is_unverified boolean;
  program_hold_days integer;
  program_webhooks text[];
  version integer;
  program_currency text;
  rule_holders bigint[];
  rules bigint[];
  place integer;
  how_found jsonb;
  -- Of the partner.
  left_at timestamptz;
  in_group_id bigint;
  person_id text;
  was_attributed boolean;
  is_first_purchase boolean;
  is_counted_now boolean;
  is_counted_apart boolean;
  counted boolean;
begin
  -- A click that moves the customer to another link comes before this or, as a buyer's partner is fixed, does not move it.
  select c.id, c.partner_id, c.first_purchase_date, c.last_click_at, c.key_unverified_since is not null
      or c.email_unverified_since is not null and c.customer_key is distinct from given.customer_key,
    p.commission_bp, p.commission_duration_months, p.hold_days, p.webhook_types, p.rules_version, p.currency, p.plain_rule_holders,
    p.plain_rules, c.code_id,
    -- What comes without steps was found by the customer key alone, as most sales of the API are.
    jsonb_build_object('at', now(), 'link_id', c.link_id, 'clicked_at', c.last_click_at, 'came_at', c.created_at,
      'window_days', p.cookie_window_days, 'model', p.attribution_model, 'hold_days', p.hold_days)
      || coalesce(given.resolution, '{"steps": [["customer_key", "found"]]}')
  into known_id, given.partner_id, first_at, latest_click_at, is_unverified, given.commission_bp, given.commission_months, program_hold_days,
    program_webhooks, version, program_currency, rule_holders, rules, first_code_id, how_found
  from customers c join programs p on p.id = c.program_id
  where c.program_id = given.program_id and c.id = given.customer_id for no key update of c;
  if known_id is not null then
    if coalesce(given.code_id, first_code_id) is not null then
      select d.code_id, d.partner_id, d.resolution into given.code_id, given.partner_id, how_found
      from decide_by_code(given, known_id, how_found) d;
      if first_at is null then
        first_code_id := coalesce(first_code_id, given.code_id);
      end if;
    end if;
    -- By its whole key, so that a sale does not read a program's other partners. A partner who erased their account earns nothing more.
    select r.closed_at, r.group_id, r.user_id into left_at, in_group_id, person_id from partners r
    where r.program_id = given.program_id and r.id = given.partner_id for key share;
    if left_at is not null then
      given.commission_bp := 0;
      how_found := how_found || '{"partner_left": true}';
    elsif version > 0 then
      given.terms_among := (version, in_group_id, given.commission_bp, given.commission_months);
      -- As with_terms, to which giving a whole sale costs a twentieth of one. Mostly nothing is looked up: see prepare_rules.
      if rule_holders is not null and given.product_ids is null then
        place := coalesce(array_position(rule_holders, given.partner_id * 2 + 1), array_position(rule_holders, in_group_id * 2));
      else
        select 1, array[array[r.id, r.commission_bp, r.commission_duration_months, nullif(r.commission_fixed_cents, 0), r.lifetime_cap_cents]]
        into place, rules
        from terms_of(given.program_id, version, given.partner_id, in_group_id, given.product_ids, given.sale_type) r;
      end if;
      if place is not null then
        given.commission_rule_id := rules[place][1];
        given.commission_bp := rules[place][2]::integer;
        given.commission_months := rules[place][3]::integer;
        if program_currency = given.currency then
          given.commission_fixed_cents := rules[place][4];
          given.commission_cap_cents := rules[place][5];
        end if;
      end if;
    end if;
  end if;
  -- Once more where the one that stood in the way was a test sale that somebody cleared at this moment.
  loop
    insert into sales (program_id, is_test, transaction_id, customer_id, partner_id, customer_key, sale_date, amount_cents,
      amount_source, commission_base_cents, commission_bp, commission_months, commission_rule_id, commission_fixed_cents, commission_cap_cents,
      terms_among, product_ids, coupon, code_id, resolution, currency, sale_type, payment_status, is_recurring,
      subscription_id, additional_data, request_id, processor_event_id, processor_session_id, processor_payment_intent_id,
      processor_charge_id, processor_invoice_id, processor_customer_id)
    values (given.program_id, given.is_test, given.transaction_id, known_id, given.partner_id, given.customer_key,
      coalesce(given.sale_date, now()), given.amount_cents, coalesce(given.amount_source, 'api'), given.commission_base_cents,
      given.commission_bp, given.commission_months, given.commission_rule_id, given.commission_fixed_cents, given.commission_cap_cents,
      given.terms_among, given.product_ids, given.coupon, case when known_id is not null then given.code_id end,
      coalesce(how_found, given.resolution), given.currency, given.sale_type, given.payment_status,
      given.is_recurring, given.subscription_id, given.additional_data, given.request_id,
      given.processor_event_id, given.processor_session_id, given.processor_payment_intent_id, given.processor_charge_id,
      given.processor_invoice_id, given.processor_customer_id)
    on conflict on constraint sales_transaction_key do nothing
    returning * into sale;
    inserted := found;
    exit when found;
    select s.* into sale from sales s
    where s.program_id = given.program_id and s.is_test = given.is_test and s.transaction_id = given.transaction_id
    for no key update;
    exit when found;
  end loop;
  if not inserted then
    was_attributed := sale.customer_id is not null;
    select c.id, c.amount_cents into commission_id, commission_cents from commissions c
    where c.program_id = sale.program_id and c.sale_id = sale.id;
    -- A sale that has a customer keeps them; one that has none is given the one whom a later call of its key names.
    if not completes and (was_attributed or known_id is null or sale.customer_key <> given.customer_key) then
      return;
    end if;
    if given.amount_source > sale.amount_source then
      sale := correct_sale(sale, given);
    end if;
    if not was_attributed and (given.terms_among).rules_version is not null then
      given.product_ids := sale.product_ids;
      given.sale_type := sale.sale_type;
      given.currency := sale.currency;
      given := with_terms(given);
    end if;
    update sales s set
      customer_id = coalesce(s.customer_id, known_id),
      partner_id = coalesce(s.partner_id, given.partner_id),
      commission_bp = coalesce(s.commission_bp, given.commission_bp),
      commission_months = case when was_attributed then s.commission_months else given.commission_months end,
      commission_rule_id = case when was_attributed then s.commission_rule_id else given.commission_rule_id end,
      commission_fixed_cents = case when was_attributed then s.commission_fixed_cents else given.commission_fixed_cents end,
      commission_cap_cents = case when was_attributed then s.commission_cap_cents else given.commission_cap_cents end,
      terms_among = case when was_attributed then s.terms_among else given.terms_among end,
      coupon = coalesce(s.coupon, given.coupon),
      code_id = case when was_attributed then s.code_id else given.code_id end,
      resolution = case when was_attributed then s.resolution else coalesce(how_found, given.resolution, s.resolution) end,
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
  end if;
  if was_attributed is true or sale.customer_id is null or sale.is_test then
    return;
  end if;

  commission_cents := commission_of(sale.commission_base_cents, sale.commission_bp, sale.commission_fixed_cents, sale.commission_months,
    sale.sale_date, first_at, case when sale.commission_cap_cents is not null then left_under_cap(sale) end);
  if commission_cents > 0 then
    insert into commissions (program_id, kind, partner_id, customer_id, sale_id, code_id, currency, amount_cents, review_reason, hold_until)
    values (sale.program_id, 'sale', sale.partner_id, sale.customer_id, sale.id, sale.code_id, sale.currency, commission_cents,
      case when is_unverified and first_at is null then 'unverified_customer' end,
      now() + make_interval(days => program_hold_days))
    returning id into commission_id;
  end if;

  is_first_purchase := (first_at is null or first_at > sale.sale_date) and sale.amount_cents > 0;
  if is_first_purchase then
    update customers c set customer_status = 'conversion', first_purchase_date = sale.sale_date, code_id = first_code_id
    where c.program_id = sale.program_id and c.id = sale.customer_id;
    is_counted_apart := sale.payment_status <> 'paid' or first_code_id is distinct from sale.code_id;
    if not is_counted_apart then
      counted := add_customers(sale.program_id, sale.sale_date, 0, 1);
    else
      counted := count_customers(sale.program_id, sale.customer_id, sale.sale_date, 0, 1);
    end if;
  end if;
  if first_at is not null then
    if is_first_purchase then
      counted := count_customers(sale.program_id, sale.customer_id, first_at, 0, -1);
      perform correct_commissions(sale, false, true);
    end if;
    -- One told late leaves less for those that came after it under a cap.
    if version > 0 then
      if exists (
        select from sales s
        where s.program_id = sale.program_id and s.customer_id = sale.customer_id and not s.is_test and s.commission_cap_cents is not null
          and (s.sale_date, s.id) > (sale.sale_date, sale.id)
      ) then
        perform correct_commissions(sale, false, false);
      end if;
    end if;
  end if;
  -- A sale counts on its own day, its commission on the day it was made: mostly the same hour, and then one row.
  is_counted_now := date_trunc('hour', sale.sale_date, 'UTC') = date_trunc('hour', now(), 'UTC');
  if sale.payment_status = 'paid' then
    counted := count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 1, sale.amount_cents,
      case when is_counted_now then commission_cents else 0 end, sale.refunded_cents,
      (is_first_purchase and not is_counted_apart)::integer, of_code_id => sale.code_id, latest_click_at => latest_click_at);
  end if;
  if commission_cents > 0 and not (is_counted_now and sale.payment_status = 'paid') then
    counted := count_money(sale.program_id, sale.customer_id, sale.partner_id, now(), sale.currency, 0, 0, commission_cents,
      of_code_id => sale.code_id, latest_click_at => latest_click_at);
  end if;
  if commission_id is not null and person_id is not null then
    counted := tell_earned(sale.program_id, person_id, commission_id);
  end if;
  if program_webhooks is not null then
    if 'sale.created' = any (program_webhooks) then
      perform write_webhook(sale.program_id, 'sale.created', webhook_sale(sale));
    end if;
    if commission_id is not null and 'commission.created' = any (program_webhooks) then
      perform tell_commission(sale.program_id, commission_id);
    end if;
  end if;
end $$;

-- What a sale call says of a sale, but for whose it is.
create or replace function payload_of(sale sales) returns jsonb language sql immutable
return jsonb_build_array((sale).amount_cents, (sale).commission_base_cents, (sale).currency, (sale).sale_type, (sale).is_recurring,
  (sale).subscription_id);

-- The same of a sale that stands as the API told it; null of one that the processor told or corrected.
create or replace function api_payload_of(sale sales) returns jsonb language sql immutable
return case when (sale).amount_source = 'api' then payload_of(sale) end;

-- The transaction id of the sale that a call means by one of the processor's ids: of the sale that is known to be of the same payment, else
-- the id itself. Until this transaction ends, no event about the payment is applied.
create or replace function known_transaction(given sales, of_account_id text) returns text language plpgsql as $$
declare
  known sales;
begin
  perform lock_payments(of_account_id, array[given.transaction_id]);
  known := sale_of_payments(of_account_id, given.is_test, array[given.transaction_id]);
  return case when known.program_id = given.program_id then known.transaction_id else given.transaction_id end;
end $$;

-- Takes a better source's word for what was sold and what it brought, and returns the sale. Its terms, its refunds, its commission and the totals follow; where it
-- was, or is no more, its customer's first purchase, their other commissions do too. The caller has locked the customer and the sale. What
-- is in another currency corrects nothing: a balance has one.
create or replace function correct_sale(sale sales, given sales) returns sales language plpgsql as $$
declare
  was constant sales := sale;
  counted boolean;
begin
  if given.currency <> sale.currency then
    return sale;
  end if;
  sale.refunded_cents := fit_refunds(sale, given.amount_cents);
  update sales s set amount_cents = given.amount_cents, commission_base_cents = given.commission_base_cents,
    amount_source = given.amount_source, payment_status = given.payment_status, sale_date = given.sale_date,
    refunded_cents = sale.refunded_cents, api_payload = coalesce(s.api_payload, api_payload_of(s)), sale_type = given.sale_type,
    product_ids = coalesce(given.product_ids, s.product_ids)
  where s.program_id = sale.program_id and s.id = sale.id
  returning s.* into sale;
  if (sale.terms_among).rules_version is not null then
    sale := with_terms(sale);
    update sales s set commission_rule_id = sale.commission_rule_id, commission_bp = sale.commission_bp,
      commission_months = sale.commission_months, commission_fixed_cents = sale.commission_fixed_cents,
      commission_cap_cents = sale.commission_cap_cents
    where s.program_id = sale.program_id and s.id = sale.id;
  end if;
  if sale.customer_id is null or sale.is_test then
    return grow_refund_of_rest(sale, sale.amount_cents - was.amount_cents);
  end if;
  if was.payment_status = 'paid' then
    counted := count_money(sale.program_id, sale.customer_id, sale.partner_id, was.sale_date, sale.currency, -1, -was.amount_cents, 0,
      -was.refunded_cents, of_code_id => sale.code_id);
  end if;
  if sale.payment_status = 'paid' then
    counted := count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 1, sale.amount_cents, 0,
      sale.refunded_cents, of_code_id => sale.code_id);
  end if;
  perform correct_commissions(sale, true, move_first_purchase(sale));
  return grow_refund_of_rest(sale, sale.amount_cents - was.amount_cents);
end $$;

-- Brings a customer's first purchase to the date of the earliest sale that brought something, and says whether that moved it. The caller has locked
-- the customer.
create or replace function move_first_purchase(sale sales) returns boolean language plpgsql as $$
declare
  first_date timestamptz;
  was_date timestamptz;
  counted boolean;
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
    counted := count_customers(sale.program_id, sale.customer_id, was_date, 0, -1);
  end if;
  if first_date is not null then
    counted := count_customers(sale.program_id, sale.customer_id, first_date, 0, 1);
  end if;
  return true;
end $$;

-- The resolution of a sale call whose key alone did not decide: whether that was known before (it was then left by a browser), and what its
-- click id found.
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

-- A sale of the API; `recordSale` in lib/money/sales.ts is its only caller and says what is given and answered. `stem` is the beginning of a
-- click id, for a second customer.
create or replace function track_sale(
  hash bytea, claimed_program_id bigint, request uuid, transaction_id text, customer_key text, of_click_id text, coupon text, stem text, is_test boolean,
  amount_cents bigint, tax_cents bigint, currency text, sale_type text, is_recurring boolean, subscription_id text, additional_data jsonb,
  out key_refusal text, out program_matches boolean, out sale_id bigint, out is_recorded boolean, out same_payload boolean,
  out customer_id bigint, out commission_id bigint, out commission_cents bigint, out program_currency text, out is_tested boolean,
  out program_id bigint, out wrote_webhooks boolean, out is_attributed boolean, out outbox_ids bigint[]
) language plpgsql as $$
#variable_conflict use_variable
declare
  given sales;
  account_id text;
  is_of_payment boolean;
  recorded record;
  stored sales;
  valid_after timestamptz;
  is_bound boolean;
  is_key_known boolean;
begin
  -- What was given is put together here, because each assignment costs about as much as a column of this. A customer whose key only a browser
  -- said gives way to a valid click.
  select use_key(k, 'track'), k.program_id = coalesce(claimed_program_id, k.program_id), (
      select c.id from customers c where c.program_id = k.program_id and c.customer_key = track_sale.customer_key
        and (c.key_unverified_since is null or of_click_id is null)
    ), k.program_id, request, transaction_id, customer_key, is_test, amount_cents, amount_cents - tax_cents, currency, sale_type,
    'paid',
    is_recurring, subscription_id, additional_data, p.currency, p.processor_account_id,
    p.processor_account_id is not null and transaction_id ~ '^(in|pi|ch|py|cs)_', k.program_id, is_test, true
  into key_refusal, program_matches, given.customer_id, given.program_id, given.request_id, given.transaction_id,
    given.customer_key, given.is_test, given.amount_cents, given.commission_base_cents, given.currency, given.sale_type,
    given.payment_status, given.is_recurring, given.subscription_id, given.additional_data, program_currency, account_id,
    is_of_payment, program_id, is_tested, is_attributed
  from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash;
  if key_refusal is distinct from '' or not program_matches then
    return;
  end if;
  -- One condition for a sale of a known customer that names no code, since each costs it two thousandths.
  if given.customer_id is null or coupon is not null or is_of_payment then
    -- Nobody's customer who signed up as a test, as by a test link, buys as one too, for a day.
    if given.customer_id is null and of_click_id is null and not is_test then
      given.is_test := exists (
        select from affiliate_lead_events e where e.program_id = given.program_id and e.is_test
          and e.lead_timestamp > now() - interval '1 day' and e.customer_key = track_sale.customer_key
      );
      is_tested := given.is_test;
    end if;
    if is_of_payment then
      given.transaction_id := known_transaction(given, account_id);
    end if;
    if given.customer_id is null and of_click_id is null then
      given.resolution := '{"steps": [["customer_key", "unknown"], ["click_id", "not_given"]]}';
    elsif given.customer_id is null then
      is_key_known := exists (select from customers c where c.program_id = given.program_id and c.customer_key = track_sale.customer_key);
      select window_start(now(), p.cookie_window_days) into valid_after from programs p where p.id = given.program_id;
      if is_test then
        select c.id into given.customer_id from customers c
        where c.program_id = given.program_id and (c.click_id = of_click_id and c.last_click_at > valid_after
          or c.customer_key = track_sale.customer_key)
        order by c.click_id = of_click_id desc limit 1;
      -- A sale that is refused as a duplicate binds no key to the click, unless this gives it its customer, and neither does a test sale.
      elsif not exists (
        select from sales s where s.program_id = given.program_id and not s.is_test and s.transaction_id = given.transaction_id
          and (s.customer_id is not null or s.customer_key <> track_sale.customer_key)
      ) then
        perform lock_given_names(account_id, customer_key, of_click_id, null);
        given.customer_id := bind_customer(given.program_id, customer_key, of_click_id, stem, valid_after);
        is_bound := given.customer_id is not null;
      end if;
      given.resolution := steps_of_click(given.program_id, is_key_known, of_click_id, given.customer_id);
      -- Looked for here, because a click that was found would pay for it above.
      if (given.customer_id is null or is_key_known) and given.resolution @> '{"steps": [["click_id", "expired"]]}' then
        select given.resolution || expired_click(c, now()) into given.resolution from customers c
        where c.program_id = given.program_id and c.click_id = of_click_id;
      end if;
    end if;
    if coupon is not null then
      given.coupon := coupon;
      given := with_code(given, null, now());
      -- As above.
      if given.customer_id is null and given.code_id is not null and not given.is_test and not exists (
        select from sales s where s.program_id = given.program_id and not s.is_test and s.transaction_id = given.transaction_id
          and (s.customer_id is not null or s.customer_key <> track_sale.customer_key)
      ) then
        perform lock_given_names(account_id, customer_key, of_click_id, null);
        given.customer_id := add_customer_of_code(given, stem, null, now());
        is_bound := true;
      end if;
    end if;
  end if;
  recorded := record_sale(given, false);
  stored := recorded.sale;
  is_recorded := recorded.inserted;
  if not is_recorded or is_of_payment or is_bound then
    -- What was refunded before the sale was known here, or had its customer.
    if is_of_payment then
      perform settle_reversals(stored);
    elsif not recorded.inserted and stored.refunded_cents > 0 then
      perform settle_refunds(stored.program_id, stored.id, null);
    end if;
    if is_bound then
      perform attribute_to_customer(account_id, given.program_id, given.customer_id);
    end if;
    is_recorded := recorded.inserted or stored.request_id is not distinct from request;
    if not is_recorded then
      -- With what the API told, where it told the sale: what the processor corrected since is no difference between two calls.
      same_payload := stored.customer_key is not distinct from given.customer_key
        and coalesce(stored.api_payload, payload_of(stored)) = payload_of(given);
    end if;
  end if;
  sale_id := stored.id;
  customer_id := stored.customer_id;
  if customer_id is null then
    -- A test makes no customer, whom a code would bring.
    is_attributed := is_tested and given.code_id is not null;
  end if;
  commission_id := recorded.commission_id;
  commission_cents := recorded.commission_cents;
  if told_something() then
    wrote_webhooks := wrote_webhook();
    outbox_ids := written_outbox_ids();
  end if;
end $$;
