-- The rules of a customer's row. They stand in a trigger because Postgres compiles the CHECKs of a table anew in every statement that
-- writes it. After the write, because behind a BEFORE UPDATE trigger `returning old` gives a row that another call has changed meanwhile, and a lead
-- that was waited for would be recorded twice.
create or replace function refuse_unsound_customer() returns trigger language plpgsql as $$
begin
  -- As a click makes it; one expression, because each costs a click some ten microseconds.
  if new.customer_status = 'click' and num_nonnulls(new.customer_key, new.email_hash, new.provisional_lead_at,
    new.provisional_lead_event_id, new.signup_date, new.lead_event_id, new.first_purchase_date) = 0 then
    return null;
  end if;
  if new.customer_key = '' or length(new.email_hash) <> 32 then
    raise check_violation using message = 'A customer key is not empty, and an e-mail hash is 32 bytes.';
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

-- Makes a second customer, with the link and partner of a click and a click id of its own, for a key that is not known, where the
-- click's customer carries another: two people on one computer. Does nothing where the last click was not after `valid_after`.
create or replace function add_second_customer(
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
create or replace function bind_customer(of_program_id bigint, new_key text, of_click_id text, stem text, valid_after timestamptz)
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
