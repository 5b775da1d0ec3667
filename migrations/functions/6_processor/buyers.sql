-- Whom earlier attributed payments of the account name as the buyer of one that says nothing of its own: of the same subscription or else
-- the same customer. All null where none does.
create or replace function known_buyer(of_account_id text, of_test boolean, told jsonb) returns customers language plpgsql stable as $$
declare
  bought_at timestamptz := coalesce((told->>'started_at')::timestamptz, 'infinity');
  buyer customers;
begin
  select c.* into buyer from (
    select s.program_id, s.customer_id, 1 as place from programs p
    join sales s on s.program_id = p.id and s.subscription_id = coalesce(told->>'subscription_id', told#>>'{sale,subscription_id}')
    where p.processor_account_id = of_account_id and s.customer_id is not null and s.is_test = of_test and s.sale_date <= bought_at
    union all
    select k.program_id, k.customer_id, 2 from programs p
    join processor_customers k on k.program_id = p.id and k.processor_customer_id = told->>'processor_customer_id'
    where p.processor_account_id = of_account_id and not of_test and k.known_from <= bought_at
  ) f join customers c on c.program_id = f.program_id and c.id = f.customer_id
  order by f.place, f.program_id, f.customer_id limit 1;
  return buyer;
end $$;

-- Which of what was read from an account's past (in `told`, counted from 0) is of a sale or of a buyer that a program of the account knows.
create or replace function known_of_past(of_account_id text, told jsonb) returns table (place integer, is_test boolean)
language sql stable as $$
  with objects as (
    select (o.place - 1)::integer as place, o.said from jsonb_array_elements(told) with ordinality o (said, place)
  ), named as (
    select o.place, i.id from objects o cross join jsonb_array_elements_text(o.said->'payment_ids') i (id)
  ), pointed_to as (
    select n.place, n.id from named n union
    select n.place, p.transaction_id from named n join processor_payments p on p.account_id = of_account_id and p.payment_id = n.id
  ), of_payment as (
    select t.place, t.id from pointed_to t union
    select t.place, p.payment_id from pointed_to t join processor_payments p on p.account_id = of_account_id and p.transaction_id = t.id
  )
  select i.place, s.is_test from of_payment i cross join (values (false), (true)) mode (is_test)
  join programs p on p.processor_account_id = of_account_id
  join sales s on s.program_id = p.id and s.is_test = mode.is_test and s.transaction_id = i.id
  union
  select o.place, not m.livemode from objects o join processor_customer_metadata m
    on m.account_id = of_account_id and m.processor_customer_id = o.said->>'processor_customer_id'
    and (m.program_id is not null or m.click_id is not null)
  union
  select o.place, mode.is_test from objects o cross join (values (false), (true)) mode (is_test)
  where (known_buyer(of_account_id, mode.is_test, o.said)).id is not null
$$;

-- A payment of a known customer that says nothing of its own, in a program that does not attribute such: it waits in the log for the setting.
create or replace function leave_out(event processor_events) returns processor_events language plpgsql as $$
begin
  if event.livemode then
    event.awaits := array[awaited_name(event.account_id, 'payment', event.fact#>>'{sale,transaction_id}'),
      awaited_name(event.account_id, 'setting', event.program_id::text)];
  end if;
  return became(event, 'ignored', 'known_customers_left_out');
end $$;

-- Turns the setting on, and has what was left out for it applied again. Returns the account whose events these are.
create or replace function attribute_known_customers(of_program_id bigint) returns text language plpgsql as $$
declare
  program programs;
begin
  update programs p set attribute_known_customers = true where p.id = of_program_id returning p.* into program;
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'setting_on'
  where e.awaits @> array[awaited_name(program.processor_account_id, 'setting', program.id::text)] and e.outcome = 'ignored';
  return program.processor_account_id;
end $$;

-- Payments that say nothing of their own, and came before what says who their customer is, are applied again by a scheduled function, each with
-- its own locks. They await one of these names. A payment from before `since`, by its own date, was nobody's.
create or replace function park_awaiting_payments(of_account_id text, of_livemode boolean, names text[], since timestamptz) returns void
language plpgsql as $$
begin
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'customer_known'
  where e.account_id = of_account_id and e.livemode = of_livemode and e.outcome = 'ignored' and e.program_id is null
    and e.awaits && awaited_names(of_account_id, names) and (e.fact->>'started_at')::timestamptz >= since;
end $$;

-- What the metadata of a customer at the processor says of them, as it was told last. It attributes their payments that say nothing themselves:
-- those that come, and those that came before it.
create or replace function apply_customer(event processor_events) returns processor_events language plpgsql as $$
declare
  fact jsonb := event.fact;
  named text := 'customer ' || (fact->>'processor_customer_id');
  given text[] := array_remove(array['key ' || (fact->>'customer_key'), 'click ' || (fact->>'click_id')], null);
  program programs;
begin
  if not exists (select from programs p where event.account_id in (p.processor_account_id, p.processor_former_account_id)) then
    return became(event, 'ignored', 'account_not_connected');
  elsif named is null then
    return became(event, 'ignored', 'customer_erased');
  end if;
  -- As purchases do, their customer first.
  perform lock_ids(event.account_id, array[named]);
  perform lock_ids(event.account_id, given);
  insert into processor_customer_metadata as kept (account_id, livemode, processor_customer_id, program_id, click_id, customer_key, told_at,
    event_id, is_deleted)
  values (event.account_id, event.livemode, fact->>'processor_customer_id', (fact->>'program_id')::bigint, fact->>'click_id',
    fact->>'customer_key', (fact->>'told_at')::timestamptz, event.event_id, (fact->>'is_deleted')::boolean)
  on conflict (account_id, livemode, processor_customer_id) do update set program_id = excluded.program_id, click_id = excluded.click_id,
    customer_key = excluded.customer_key, told_at = excluded.told_at, event_id = excluded.event_id, is_deleted = excluded.is_deleted
  -- Of one second, the same is kept whichever comes first.
  where (kept.told_at, kept.event_id) <= (excluded.told_at, excluded.event_id);
  if not found then
    return became(event, 'duplicate', 'newer_metadata');
  end if;
  program := program_of_purchase(event.account_id, fact);
  event.program_id := program.id;
  if num_nonnulls(fact->>'program_id', fact->>'click_id') = 0 then
    return became(event, 'recorded', 'no_program_named');
  elsif event.livemode and program.id is not null then
    update processor_events e set awaits = e.awaits || awaited_names(event.account_id, given)
    where e.account_id = event.account_id and e.program_id = program.id and e.livemode and e.awaits @> awaited_names(event.account_id, array[named])
      and not e.awaits @> awaited_names(event.account_id, given);
    perform attribute_awaiting_purchases(event.account_id, program, array[named]);
  end if;
  perform park_awaiting_payments(event.account_id, event.livemode, array[named], '-infinity');
  return became(event, 'recorded', 'customer_metadata');
end $$;

-- A purchase that says nothing of its buyer, with what the metadata of its customer says of them: applied again, what it says by now.
create or replace function as_its_customer_says(of_account_id text, of_livemode boolean, fact jsonb) returns jsonb language plpgsql stable as $$
declare
  said processor_customer_metadata;
begin
  if fact->>'named_by' = 'customer' then
    fact := fact || jsonb_build_object('program_id', fact->'own_program_id', 'click_id', null, 'customer_key', null, 'named_by', null);
  end if;
  if fact->>'click_id' is not null or fact->>'customer_key' is not null then
    return fact;
  end if;
  select m.* into said from processor_customer_metadata m
  where m.account_id = of_account_id and m.livemode = of_livemode and m.processor_customer_id = fact->>'processor_customer_id';
  if num_nonnulls(said.program_id, said.click_id, said.customer_key) = 0 or (fact->>'program_id')::bigint <> said.program_id then
    return fact;
  end if;
  return fact || jsonb_build_object('program_id', coalesce(said.program_id, (fact->>'program_id')::bigint), 'click_id', said.click_id,
    'customer_key', said.customer_key, 'named_by', 'customer', 'own_program_id', fact->'program_id');
end $$;

-- The first steps of a purchase's resolution: whether it says of its own whose it is or its customer's metadata does, and how that led to its
-- program.
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

-- The names of a buyer that stay the same in all payments of theirs.
create or replace function lasting_names(fact jsonb) returns text[] language sql immutable
return array_remove(array['customer ' || (fact->>'processor_customer_id'), 'subscription ' || (fact#>>'{sale,subscription_id}')], null);

-- Everything by which a purchase's buyer may be known from another one.
create or replace function buyer_names(fact jsonb) returns text[] language sql immutable
return lasting_names(fact) || array_remove(array['key ' || (fact->>'customer_key'), 'email ' || (fact->>'email_hash'),
  'click ' || (fact->>'click_id')], null);

-- The same of a customer: every name by which a purchase may be theirs.
create or replace function names_of_customer(buyer customers) returns text[] language sql immutable
return array_remove(array['key ' || (buyer).customer_key, 'click ' || (buyer).click_id,
  case when (buyer).signup_date is not null then 'email ' || encode((buyer).email_hash, 'hex') end], null);

-- The names that a lead or a sale gives its customer, held until this transaction ends, so that a purchase which awaits one of them does not
-- come in between. Called before the customer is looked for; does nothing where no account is connected.
create or replace function lock_given_names(of_account_id text, of_customer_key text, of_click_id text, of_email_hash bytea) returns void
language plpgsql as $$
begin
  if of_account_id is not null then
    perform lock_ids(of_account_id, array['key ' || of_customer_key, 'click ' || of_click_id, 'email ' || encode(of_email_hash, 'hex')]);
  end if;
end $$;

-- Attributes the purchases that came before a lead or a sale call said who their buyer is.
create or replace function attribute_to_customer(of_account_id text, of_program_id bigint, of_customer_id bigint) returns void
language plpgsql as $$
declare
  names text[];
begin
  if of_account_id is null then
    return;
  end if;
  select names_of_customer(c) into names from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  if exists (select from processor_events e where e.awaits && awaited_names(of_account_id, names)) then
    perform attribute_awaiting_purchases(of_account_id, p, names) from programs p where p.id = of_program_id;
  end if;
end $$;

-- Attributes purchases that came before what now says who their buyer is, as if they came now. They await one of these names. One of them may
-- name the buyer of others, so all names of a round are looked up in the next, until one finds nobody's buyer any more.
create or replace function attribute_awaiting_purchases(of_account_id text, program programs, names text[]) returns void
language plpgsql as $$
declare
  waiting processor_events;
  ids text[];
  sale sales;
  its_buyer customers;
  identified record;
  names_found text[];
  lasting text[];
  since timestamptz;
begin
  loop
    names_found := '{}';
    lasting := '{}';
    since := 'infinity';
    for waiting in
      select e.* from processor_events e
      where e.account_id = of_account_id and e.program_id = program.id and e.awaits && awaited_names(of_account_id, names)
      order by (e.fact#>>'{sale,sale_date}')::timestamptz, e.event_id
    loop
      waiting.fact := as_its_customer_says(of_account_id, true, waiting.fact);
      ids := array(select jsonb_array_elements_text(waiting.fact->'payment_ids'));
      sale := sale_of_payments(of_account_id, false, ids);
      identified := identify_buyer(program, waiting.fact, null, steps_of_source(waiting.fact, 'named'));
      its_buyer := identified.buyer;
      waiting.resolution := identified.resolution;
      continue when its_buyer.id is null or waiting.fact->>'awaits_payment' = 'false' and sale.program_id is distinct from program.id;
      perform keep_buyer(its_buyer, waiting.fact);
      if waiting.fact->>'awaits_payment' = 'true' then
        perform keep_session(program.id, its_buyer.id, waiting.fact);
        perform apply_payment_of_session(waiting, ids, its_buyer.id, null);
      elsif sale.customer_id is null then
        select (r.sale).* into sale
        from record_sale(purchased_sale(waiting, sale, ids_of_payment(of_account_id, ids), its_buyer.id), true) r;
        perform settle_reversals(sale);
      end if;
      update processor_events e set awaits = null, outcome = 'recorded', reason = 'buyer_known',
        resolution = waiting.resolution
      where e.account_id = waiting.account_id and e.event_id = waiting.event_id and e.awaits is not null;
      if found then
        names_found := names_found || buyer_names(waiting.fact) || names_of_customer(its_buyer);
        lasting := lasting || lasting_names(waiting.fact);
        since := least(since, (waiting.fact->>'started_at')::timestamptz);
      end if;
    end loop;
    exit when names_found = '{}';
    perform park_awaiting_payments(of_account_id, true, array(select distinct name from unnest(lasting) name), since);
    names := array(select distinct name from unnest(names_found) name);
  end loop;
end $$;

-- What a purchase in the log awaits that is nobody's yet.
create or replace function awaited_names(of_account_id text, names text[]) returns text[] language sql immutable
return array(select of_account_id || ' ' || name from unnest(names) name);

-- What an event in the log awaits: something of this kind and name of the account.
create or replace function awaited_name(of_account_id text, kind text, name text) returns text language sql immutable
return of_account_id || ' ' || kind || ' ' || name;

-- How many payments of a program are left out for its setting.
create or replace function count_left_out(of_program_id bigint) returns bigint language sql stable as $$
  select count(distinct coalesce(i.transaction_id, e.fact#>>'{sale,transaction_id}'))
  from programs p
  join processor_events e on e.awaits @> array[awaited_name(p.processor_account_id, 'setting', p.id::text)]
  left join processor_payments i on i.account_id = e.account_id and i.payment_id = e.fact#>>'{sale,transaction_id}'
  where p.id = of_program_id
$$;

-- The program that the metadata names or, where it names none, that the click came to: a payment link carries nothing but a click id.
create or replace function program_of_purchase(of_account_id text, fact jsonb) returns programs language plpgsql stable as $$
declare
  program programs;
begin
  select p.* into program from programs p where p.processor_account_id = of_account_id and case
    when fact->>'program_id' is not null then p.id = (fact->>'program_id')::bigint
    else exists (select from customers c where c.program_id = p.id and c.click_id = fact->>'click_id')
  end limit 1;
  return program;
end $$;

-- Whose a purchase is. The partner is that of, in this order, the click id; the lead with this e-mail address; the processor's customer as
-- an earlier attributed purchase showed them; the customer key; after these, an e-mail address or key that only a browser said. Whose an unpaid
-- session is was settled when it was completed and comes before all. `resolution` gets each step that was tried, with what it found.
--
-- By anything but its own click id a purchase is no customer's who had not yet clicked when its buyer set out to buy: it is then nobody's, whether it
-- is told before the click's customer is known by that name or long after.
--
-- A click counts if it was valid when the buyer set out to buy; one whose customer became a lead or a buyer names that customer for ever, which is
-- how renewals are attributed after the cookie's window.
create or replace function resolve_buyer(
  program programs, fact jsonb, valid_after timestamptz, inout resolution jsonb, out buyer_id bigint
) language plpgsql stable as $$
declare
  key text := fact->>'customer_key';
  hash bytea := decode(fact->>'email_hash', 'hex');
  started_at timestamptz := (fact->>'started_at')::timestamptz;
  step text;
  is_given boolean;
  tried record;
begin
  foreach step in array array['session', 'click_id', 'email', 'processor_customer', 'customer_key', 'unverified_email',
    'unverified_customer_key'] loop
    -- In each, `counts` says whether its customer had clicked when the buyer set out.
    case step
      when 'session' then
        is_given := fact->>'session_id' is not null;
        select s.customer_id as id, true as valid, true as counts into tried from processor_sessions s
        where s.program_id = program.id and s.session_id = fact->>'session_id';
      when 'click_id' then
        is_given := fact->>'click_id' is not null;
        select c.id, c.last_click_at > valid_after
            or c.customer_status <> 'click' and (c.customer_key is null or key is null or c.customer_key = key) as valid,
          fact->>'named_by' is null or had_clicked(c, started_at) as counts into tried
        from customers c where c.program_id = program.id and c.click_id = fact->>'click_id';
      when 'processor_customer' then
        is_given := fact->>'processor_customer_id' is not null;
        select p.customer_id as id, true as valid, had_clicked(c, started_at) as counts into tried
        from processor_customers p join customers c on c.program_id = p.program_id and c.id = p.customer_id
        where p.program_id = program.id and p.processor_customer_id = fact->>'processor_customer_id';
      when 'customer_key', 'unverified_customer_key' then
        is_given := key is not null;
        select c.id, step <> 'customer_key' or c.key_unverified_since is null as valid, had_clicked(c, started_at) as counts into tried
        from customers c where c.program_id = program.id and c.customer_key = key;
      else
        is_given := hash is not null;
        select c.id, step <> 'email' or c.email_unverified_since is null as valid, had_clicked(c, started_at) as counts into tried
        from customers c where c.program_id = program.id and c.email_hash = hash and c.signup_date is not null
        order by (step <> 'email' or c.email_unverified_since is null) and had_clicked(c, started_at) is true desc, c.signup_date, c.id limit 1;
    end case;
    if tried.id is not null and tried.valid and tried.counts then
      buyer_id := tried.id;
    end if;
    resolution := with_step(resolution, step, case
      when buyer_id is not null then 'found'
      when not is_given then 'not_given'
      when tried.id is null then 'unknown'
      when tried.valid then 'clicked_later'
      when step = 'click_id' then 'expired'
      else 'unverified'
    end);
    if step = 'click_id' and buyer_id is null and tried.id is not null and not tried.valid then
      resolution := resolution || (
        select expired_click(c, started_at) from customers c where c.program_id = program.id and c.id = tried.id
      );
    end if;
    exit when buyer_id is not null;
  end loop;
end $$;

-- Who bought, by resolve_buyer, locked, so that a click on another link moves them before the sale is recorded or, as a buyer's partner is
-- fixed, not at all. All null where nobody knows. Two people can come through one click: where its customer carries another key, the
-- buyer is the customer of this key with the same partner, made now with `stem` where there is none (null: of test mode, makes nobody).
create or replace function identify_buyer(program programs, fact jsonb, stem text, inout resolution jsonb, out buyer customers)
language plpgsql as $$
declare
  key text := fact->>'customer_key';
  valid_after timestamptz := window_start((fact->>'started_at')::timestamptz, program.cookie_window_days);
  resolved record;
begin
  if stem is not null and key is not null then
    perform take_unverified_key(program.id, key, fact->>'click_id', valid_after);
    perform add_second_customer(program.id, key, fact->>'click_id', stem, valid_after);
  end if;
  resolved := resolve_buyer(program, fact, valid_after, resolution);
  resolution := resolved.resolution || jsonb_build_object('at', fact->>'started_at', 'window_days', program.cookie_window_days);
  select b.* into buyer from customers b where b.program_id = program.id and b.id = resolved.buyer_id;
  perform lock_customers_of_payment(program.processor_account_id, array(select jsonb_array_elements_text(fact->'payment_ids')), buyer.id);
  select c.* into buyer from customers c where c.program_id = program.id and c.id = coalesce(
    (select k.id from customers k where k.program_id = program.id and k.customer_key = key and k.partner_id = buyer.partner_id),
    buyer.id
  ) for no key update of c;
  if buyer.id <> resolved.buyer_id then
    resolution := with_step(resolution, 'same_partner', 'found');
  end if;
end $$;

-- Keeps of a session whose payment comes later whose it is, where that is known, and what it asks for.
create or replace function keep_session(of_program_id bigint, buyer_id bigint, fact jsonb) returns void language plpgsql as $$
begin
  insert into processor_sessions as kept (program_id, session_id, customer_id, asked_total, asked_untaxed)
  values (of_program_id, fact->>'session_id', buyer_id, (fact#>>'{asked,total}')::bigint, (fact#>>'{asked,untaxed}')::bigint)
  on conflict (program_id, session_id) do update set customer_id = excluded.customer_id where kept.customer_id is null;
end $$;

-- Writes down who the buyer is: the processor's customer; the customer key, where the customer has none and nobody else has it.
-- What is learnt of one whom only a browser named is unverified like them, unless the click id was theirs. A checkout also settles their provisional lead, which counts it and pays for it.
create or replace function keep_buyer(buyer customers, fact jsonb) returns void language plpgsql as $$
declare
  key text := fact->>'customer_key';
  is_own_click boolean := coalesce(buyer.click_id = fact->>'click_id', false);
  unverified_since timestamptz := case when is_own_click or buyer.customer_key = key and buyer.key_unverified_since is null then null
    else coalesce(buyer.key_unverified_since, buyer.email_unverified_since) end;
  settles boolean := fact->>'settles_lead' = 'true' and buyer.provisional_lead_at is not null and buyer.signup_date is null;
begin
  if fact->>'processor_customer_id' is not null then
    insert into processor_customers as stored (program_id, processor_customer_id, customer_id, known_from)
    values (buyer.program_id, fact->>'processor_customer_id', buyer.id, (fact->>'started_at')::timestamptz)
    on conflict (program_id, processor_customer_id) do update set known_from = excluded.known_from
    where stored.customer_id = excluded.customer_id and stored.known_from > excluded.known_from;
  end if;
  if buyer.customer_key is null and key is not null then
    update customers c set customer_key = key, key_unverified_since = unverified_since
    where c.program_id = buyer.program_id and c.id = buyer.id and not exists (
      select from customers k where k.program_id = buyer.program_id and k.customer_key = key
    );
  elsif is_own_click and buyer.customer_key = key and buyer.key_unverified_since is not null then
    update customers c set key_unverified_since = null where c.program_id = buyer.program_id and c.id = buyer.id;
  end if;
  if settles then
    update customers c set
      signup_date = now(),
      lead_event_id = nextval('affiliate_lead_events_id_seq'),
      customer_status = case when c.customer_status = 'click' then 'lead' else c.customer_status end,
      email_hash = coalesce(decode(fact->>'email_hash', 'hex'), c.email_hash),
      email_unverified_since = case when fact->>'email_hash' is null then c.email_unverified_since else unverified_since end
    where c.program_id = buyer.program_id and c.id = buyer.id
    returning c.* into buyer;
    perform record_settled_lead(buyer, null, null, null, null);
  end if;
end $$;
