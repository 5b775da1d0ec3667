-- The rules of a customer's row. They are in a trigger because Postgres compiles the CHECKs of a table again in every statement that writes
-- it. The trigger runs after the write. With a BEFORE UPDATE trigger, `returning old` returns a row that another call has changed in the
-- meantime. A lead that waited for another one would then count twice.
create or replace function refuse_unsound_customer() returns trigger language plpgsql as $$
begin
  -- The rule for a row with only a click. It is a single expression, because each expression adds about ten microseconds to a click.
  if new.customer_status = 'click' and num_nonnulls(new.customer_key, new.email_hash, new.provisional_lead_at,
    new.provisional_lead_event_id, new.signup_date, new.lead_event_id, new.first_purchase_date, new.key_unverified_since,
    new.email_unverified_since) = 0 then
    return null;
  end if;
  -- The rule for the row of a lead or a buyer.
  if coalesce(new.customer_key <> '' and coalesce(length(new.email_hash), 32) = 32
    and num_nulls(new.signup_date, new.lead_event_id) <> 1
    and num_nulls(new.provisional_lead_at, new.provisional_lead_event_id) <> 1
    and (new.key_unverified_since is null or new.customer_key is not null)
    and (new.email_unverified_since is null or new.email_hash is not null)
    and new.customer_status = (case
      when new.first_purchase_date is not null then 'conversion'
      when new.signup_date is not null then 'lead'
      else 'click'
    end), false) then
    return null;
  end if;
  if new.customer_key = '' or length(new.email_hash) <> 32 then
    raise check_violation using message = 'A customer key is not empty, and an e-mail hash is 32 bytes.';
  end if;
  if new.key_unverified_since is not null and new.customer_key is null
    or new.email_unverified_since is not null and new.email_hash is null then
    raise check_violation using message = 'A customer without a key or an e-mail hash has nothing unverified.';
  end if;
  if num_nulls(new.signup_date, new.lead_event_id) = 1
    or num_nulls(new.provisional_lead_at, new.provisional_lead_event_id) = 1 then
    raise check_violation using message = 'A lead has a date and an event, or neither.';
  end if;
  if new.customer_status <> (case
    when new.first_purchase_date is not null then 'conversion'
    when new.signup_date is not null then 'lead'
    else 'click'
  end) then
    raise check_violation using message = 'The status of a customer follows from its dates.';
  end if;
  return null;
end $$;
create or replace trigger customers_sound after insert or update on customers for each row execute function refuse_unsound_customer();

-- Creates a second customer for an unknown key if the click's customer has another key, because two people can share a computer. The
-- second customer has the click's link and partner, and its own click id. Does nothing if the latest click is not after `valid_after`.
create or replace function add_second_customer(
  of_program_id bigint, new_key text, of_click_id text, click_id_prefix text, valid_after timestamptz
) returns void language plpgsql as $$
begin
  insert into customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at, created_at)
  select c.program_id, click_id_prefix || c.program_id, new_key, c.link_id, c.partner_id, c.last_click_at, c.created_at from customers c
  where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after
    and c.customer_key is not null
    and not exists (select from customers k where k.program_id = of_program_id and k.customer_key = new_key)
  on conflict (program_id, customer_key) where customer_key is not null do nothing;
end $$;

-- Removes an unverified key (one that only a browser sent) from its customer if the call contains another customer's valid click. A
-- server outranks a browser.
create or replace function take_unverified_key(of_program_id bigint, of_key text, for_click_id text, valid_after timestamptz)
returns void language plpgsql as $$
begin
  if for_click_id is null or not exists (
    select from customers k where k.program_id = of_program_id and k.customer_key = of_key and k.key_unverified_since is not null
  ) then
    return;
  end if;
  -- Locks both customers in the order of their ids, so that two calls that take keys from each other don't deadlock.
  perform from customers c where c.program_id = of_program_id and (c.customer_key = of_key or c.click_id = for_click_id)
  order by c.id for no key update;
  update customers k set updated_at = now(), customer_key = null, key_unverified_since = null
  where k.program_id = of_program_id and k.customer_key = of_key and k.key_unverified_since is not null and k.click_id <> for_click_id
    and exists (
      select from customers c where c.program_id = of_program_id and c.click_id = for_click_id and c.last_click_at > valid_after
    );
end $$;

-- Finds the customer for a key. That is the customer who has the key, unless the key is unverified and the click belongs to another
-- customer. Otherwise it is the customer of a click after `valid_after`, or a second customer with the key if that customer has
-- another key. Returns null without such a click.
create or replace function find_customer(of_program_id bigint, of_key text, of_click_id text, click_id_prefix text, valid_after timestamptz)
returns bigint language plpgsql as $$
declare
  found_id bigint;
  unverified_since timestamptz;
  key_of_click text;
begin
  loop
    select c.id, c.key_unverified_since into found_id, unverified_since from customers c
    where c.program_id = of_program_id and c.customer_key = of_key;
    if unverified_since is not null and of_click_id is not null then
      perform take_unverified_key(of_program_id, of_key, of_click_id, valid_after);
      select c.id into found_id from customers c where c.program_id = of_program_id and c.customer_key = of_key;
    end if;
    if found_id is not null or of_click_id is null then
      return found_id;
    end if;
    select c.id, c.customer_key into found_id, key_of_click from customers c
    where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after;
    if key_of_click is null then
      return found_id;
    end if;
    -- If another call has given the key to a customer in the meantime, the next round finds that customer.
    perform add_second_customer(of_program_id, of_key, of_click_id, click_id_prefix, valid_after);
  end loop;
end $$;

-- Gives an unknown key to the customer of a click, or to a second customer. Returns the customer who has the key.
create or replace function bind_customer(of_program_id bigint, new_key text, of_click_id text, click_id_prefix text, valid_after timestamptz)
returns bigint language plpgsql as $$
declare
  customer bigint;
begin
  loop
    customer := find_customer(of_program_id, new_key, of_click_id, click_id_prefix, valid_after);
    update customers c set
      -- A known key isn't updated, so that a sale doesn't need new index entries.
      updated_at = case when c.customer_key = new_key then c.updated_at else now() end,
      customer_key = new_key,
      key_unverified_since = case when c.click_id = of_click_id then null else c.key_unverified_since end
    where c.program_id = of_program_id and c.id = customer and coalesce(c.customer_key, new_key) = new_key;
    if found or customer is null then
      return customer;
    end if;
  end loop;
end $$;
