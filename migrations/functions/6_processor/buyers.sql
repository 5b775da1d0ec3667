-- Returns the buyer of a payment without metadata. Earlier attributed payments identify the buyer: payments of the same subscription, or
-- else of the same customer at the processor. All fields are null if there is none.
create or replace function known_buyer(of_account_id text, of_test boolean, fact jsonb) returns customers language plpgsql stable as $$
declare
  bought_at timestamptz := coalesce((fact->>'started_at')::timestamptz, 'infinity');
  buyer customers;
begin
  select c.* into buyer from (
    select s.program_id, s.customer_id, 1 as place from connected_programs(of_account_id) p
    join sales s on s.program_id = p.id and s.subscription_id = coalesce(fact->>'subscription_id', fact#>>'{sale,subscription_id}')
    where s.customer_id is not null and s.is_test = of_test and s.sale_date <= bought_at
    union all
    select k.program_id, k.customer_id, case k.processor_customer_id when fact->>'subscription_id' then 1 else 2 end
    from connected_programs(of_account_id) p
    join processor_customers k on k.program_id = p.id
      and k.processor_customer_id in (fact->>'subscription_id', fact->>'processor_customer_id')
    where not of_test and k.known_from <= bought_at
  ) f join customers c on c.program_id = f.program_id and c.id = f.customer_id
  order by f.place, f.program_id, f.customer_id limit 1;
  return buyer;
end $$;

-- Adds the current metadata of the processor's customer to a purchase that does not identify its buyer.
create or replace function with_customer_metadata(of_account_id text, of_livemode boolean, fact jsonb) returns jsonb language plpgsql stable as $$
declare
  metadata processor_customer_metadata;
begin
  if fact->>'named_by' = 'customer' then
    fact := fact || jsonb_build_object('program_id', fact->'own_program_id', 'click_id', null, 'customer_key', null, 'named_by', null);
  end if;
  if fact->>'click_id' is not null or fact->>'customer_key' is not null then
    return fact;
  end if;
  select m.* into metadata from processor_customer_metadata m
  where m.account_id = of_account_id and m.livemode = of_livemode and m.processor_customer_id = fact->>'processor_customer_id';
  if num_nonnulls(metadata.program_id, metadata.click_id, metadata.customer_key) = 0 or (fact->>'program_id')::bigint <> metadata.program_id then
    return fact;
  end if;
  return fact || jsonb_build_object('program_id', coalesce(metadata.program_id, (fact->>'program_id')::bigint), 'click_id', metadata.click_id,
    'customer_key', metadata.customer_key, 'named_by', 'customer', 'own_program_id', fact->'program_id');
end $$;

-- Returns the first steps of a purchase's resolution: whether the purchase or its customer's metadata identifies the buyer, and how the
-- program was found.
create or replace function steps_of_source(fact jsonb, program_found text) returns jsonb language sql immutable
return jsonb_build_object('steps', jsonb_build_array(
  jsonb_build_array('metadata', case
    when fact->>'named_by' = 'customer' then 'nothing'
    when coalesce(fact->>'program_id', fact->>'click_id', fact->>'customer_key') is null then 'nothing'
    else 'found' end),
  jsonb_build_array('customer_metadata', case
    when fact->>'named_by' = 'customer' then 'found'
    when coalesce(fact->>'click_id', fact->>'customer_key') is not null then 'not_tried'
    when fact->>'processor_customer_id' is null then 'not_given'
    else 'nothing' end),
  jsonb_build_array('program', program_found)));

-- Returns the names of a buyer that all their payments share.
create or replace function lasting_names(fact jsonb) returns text[] language sql immutable
return array_remove(array['customer ' || (fact->>'processor_customer_id'),
  'subscription ' || coalesce(fact->>'subscription_id', fact#>>'{sale,subscription_id}')], null);

-- Returns all names of a purchase's buyer.
create or replace function buyer_names(fact jsonb) returns text[] language sql immutable
return lasting_names(fact) || array_remove(array['key ' || (fact->>'customer_key'), 'email ' || (fact->>'email_hash'),
  'click ' || (fact->>'click_id')], null);

-- Returns all ids that can identify the customer of a purchase.
create or replace function names_of_customer(buyer customers) returns text[] language sql immutable
return array_remove(array['key ' || (buyer).customer_key, 'click ' || (buyer).click_id,
  case when (buyer).signup_date is not null then 'email ' || encode((buyer).email_hash, 'hex') end], null);

-- Runs one step of the search for a buyer. Returns whether the purchase contains the kind of name that the step looks for, the customer
-- who has that name, and whether the name is valid. `clicked_before` says whether the customer had clicked before the buyer started the
-- purchase.
create or replace function try_step(
  program programs, fact jsonb, step text, valid_after timestamptz,
  out is_given boolean, out found_id bigint, out is_valid boolean, out clicked_before boolean
) language plpgsql stable as $$
declare
  key text := fact->>'customer_key';
  hash bytea := decode(fact->>'email_hash', 'hex');
  started_at timestamptz := (fact->>'started_at')::timestamptz;
begin
  case step
    when 'session' then
      is_given := fact->>'session_id' is not null;
      select s.customer_id, true, true into found_id, is_valid, clicked_before from processor_sessions s
      where s.program_id = program.id and s.session_id = fact->>'session_id';
    when 'click_id' then
      is_given := fact->>'click_id' is not null;
      select c.id, c.last_click_at > valid_after
          or c.customer_status <> 'click' and (c.customer_key is null or key is null or c.customer_key = key),
        fact->>'named_by' is null or had_clicked(c, started_at) into found_id, is_valid, clicked_before
      from customers c where c.program_id = program.id and c.click_id = fact->>'click_id';
    when 'processor_customer' then
      is_given := fact->>'processor_customer_id' is not null;
      select p.customer_id, true, had_clicked(c, started_at) into found_id, is_valid, clicked_before
      from processor_customers p join customers c on c.program_id = p.program_id and c.id = p.customer_id
      where p.program_id = program.id and p.processor_customer_id = fact->>'processor_customer_id';
    when 'customer_key', 'unverified_customer_key' then
      is_given := key is not null;
      select c.id, step <> 'customer_key' or c.key_unverified_since is null, had_clicked(c, started_at)
      into found_id, is_valid, clicked_before
      from customers c where c.program_id = program.id and c.customer_key = key;
    when 'email', 'unverified_email' then
      is_given := hash is not null;
      select c.id, step <> 'email' or c.email_unverified_since is null, had_clicked(c, started_at)
      into found_id, is_valid, clicked_before
      from customers c where c.program_id = program.id and c.email_hash = hash and c.signup_date is not null
      order by (step <> 'email' or c.email_unverified_since is null) and had_clicked(c, started_at) is true desc, c.signup_date, c.id limit 1;
  end case;
end $$;

-- Finds the buyer of a purchase. The steps are: the customer of the session, the click id, the e-mail address of a lead, the processor's
-- customer of an earlier attributed purchase, and the customer key. An e-mail address or key that only a browser sent comes last.
-- `resolution` gets each step with its result.
--
-- Unless it contains their click id, a purchase isn't attributed to a customer who hadn't clicked yet when the buyer started the purchase.
-- This holds whether the purchase arrives before that customer gets this name or long after.
--
-- A click counts if it was valid when the buyer started the purchase. If the click's customer became a lead or a buyer, the click
-- identifies that customer forever, so that renewals after the window are attributed too.
create or replace function resolve_buyer(
  program programs, fact jsonb, valid_after timestamptz, inout resolution jsonb, out buyer_id bigint
) language plpgsql stable as $$
declare
  step text;
  tried record;
begin
  foreach step in array array['session', 'click_id', 'email', 'processor_customer', 'customer_key', 'unverified_email',
    'unverified_customer_key'] loop
    tried := try_step(program, fact, step, valid_after);
    if tried.found_id is not null and tried.is_valid and tried.clicked_before then
      buyer_id := tried.found_id;
    end if;
    resolution := with_step(resolution, step, case
      when buyer_id is not null then 'found'
      when not tried.is_given then 'not_given'
      when tried.found_id is null then 'unknown'
      when tried.is_valid then 'clicked_later'
      when step = 'click_id' then 'expired'
      else 'unverified'
    end);
    if step = 'click_id' and buyer_id is null and tried.found_id is not null and not tried.is_valid then
      resolution := resolution || (
        select expired_click(c, (fact->>'started_at')::timestamptz) from customers c
        where c.program_id = program.id and c.id = tried.found_id
      );
    end if;
    exit when buyer_id is not null;
  end loop;
end $$;

-- Finds the buyer with resolve_buyer and locks them, so that a click on another link moves them either before the sale or not at all. All
-- fields are null if the buyer is unknown. Two people can come through one click. If the click's customer has another key, the buyer is
-- the customer with this key and the same partner. If there is none, the function creates one with `click_id_prefix`. In test mode, there
-- is no prefix, and no customer is created.
create or replace function identify_buyer(
  of_account_id text, program programs, fact jsonb, click_id_prefix text, inout resolution jsonb, out buyer customers
) language plpgsql as $$
declare
  key text := fact->>'customer_key';
  valid_after timestamptz := window_start((fact->>'started_at')::timestamptz, program.cookie_window_days);
  resolved record;
begin
  if click_id_prefix is not null and key is not null then
    perform take_unverified_key(program.id, key, fact->>'click_id', valid_after);
    perform add_second_customer(program.id, key, fact->>'click_id', click_id_prefix, valid_after);
  end if;
  resolved := resolve_buyer(program, fact, valid_after, resolution);
  resolution := resolved.resolution || jsonb_build_object('at', fact->>'started_at', 'window_days', program.cookie_window_days);
  select b.* into buyer from customers b where b.program_id = program.id and b.id = resolved.buyer_id;
  perform lock_customers_of_payment(of_account_id, payment_ids_of(fact), buyer.id);
  select c.* into buyer from customers c where c.program_id = program.id and c.id = coalesce(
    (select k.id from customers k where k.program_id = program.id and k.customer_key = key and k.partner_id = buyer.partner_id),
    buyer.id
  ) for no key update of c;
  if buyer.id <> resolved.buyer_id then
    resolution := with_step(resolution, 'same_partner', 'found');
  end if;
end $$;

-- Stores the known buyer of a session whose payment comes later, and the amounts that the session requests.
create or replace function keep_session(of_program_id bigint, buyer_id bigint, fact jsonb) returns void language plpgsql as $$
begin
  insert into processor_sessions as kept (program_id, session_id, customer_id, asked_total, asked_untaxed)
  values (of_program_id, fact->>'session_id', buyer_id, (fact#>>'{requested,total}')::bigint, (fact#>>'{requested,untaxed}')::bigint)
  on conflict (program_id, session_id) do update set customer_id = excluded.customer_id where kept.customer_id is null;
end $$;

-- Stores the buyer's names: the processor's customer, and the customer key if the buyer has none and no other customer has it. If only a
-- browser identified the buyer, these names are unverified too, unless the click id is the buyer's own. A checkout also settles a
-- provisional lead, so the lead counts and is paid.
create or replace function keep_buyer(buyer customers, fact jsonb) returns void language plpgsql as $$
declare
  key text := fact->>'customer_key';
  is_own_click boolean := coalesce(buyer.click_id = fact->>'click_id', false);
  unverified_since timestamptz := case when is_own_click or buyer.customer_key = key and buyer.key_unverified_since is null then null
    else coalesce(buyer.key_unverified_since, buyer.email_unverified_since) end;
  settles boolean := fact->>'settles_lead' = 'true' and buyer.provisional_lead_at is not null and buyer.signup_date is null;
begin
  if num_nonnulls(fact->>'processor_customer_id', fact->>'subscription_id') > 0 then
    insert into processor_customers as stored (program_id, processor_customer_id, customer_id, known_from)
    select buyer.program_id, name, buyer.id, (fact->>'started_at')::timestamptz
    from unnest(array[fact->>'processor_customer_id', fact->>'subscription_id']) name where name is not null order by name
    on conflict (program_id, processor_customer_id) do update set known_from = excluded.known_from
    where stored.customer_id = excluded.customer_id and stored.known_from > excluded.known_from;
  end if;
  if buyer.customer_key is null and key is not null then
    update customers c set updated_at = now(), customer_key = key, key_unverified_since = unverified_since
    where c.program_id = buyer.program_id and c.id = buyer.id and not exists (
      select from customers k where k.program_id = buyer.program_id and k.customer_key = key
    );
  elsif is_own_click and buyer.customer_key = key and buyer.key_unverified_since is not null then
    update customers c set updated_at = now(), key_unverified_since = null where c.program_id = buyer.program_id and c.id = buyer.id;
  end if;
  if settles then
    update customers c set updated_at = now(),
      signup_date = now(),
      lead_event_id = nextval('affiliate_lead_events_id_seq'),
      customer_status = case when c.customer_status = 'click' then 'lead' else c.customer_status end,
      email_hash = coalesce(decode(fact->>'email_hash', 'hex'), c.email_hash),
      mailbox_hash = case when fact->>'email_hash' is null then c.mailbox_hash else decode(fact->>'mailbox_hash', 'hex') end,
      email_unverified_since = case when fact->>'email_hash' is null then c.email_unverified_since else unverified_since end
    where c.program_id = buyer.program_id and c.id = buyer.id
    returning c.* into buyer;
    perform record_settled_lead(buyer, null, null, null, null);
  end if;
end $$;
