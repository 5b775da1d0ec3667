-- What the settlement of a lead brings: the lead event, pay per lead and the day's totals. `customer` is the row as it was settled now; `review`
-- is why a person should look at what it pays, or null.
create or replace function record_settled_lead(
  customer customers, session_id text, page_url text, additional_data jsonb, review review_reason
) returns void
language plpgsql as $$
declare
  program record;
  rule record;
  commission_id bigint;
  counted boolean;
begin
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, session_id, page_url, additional_data)
  values (customer.program_id, customer.signup_date, customer.lead_event_id, customer.id, customer.customer_key,
    record_settled_lead.session_id, record_settled_lead.page_url, record_settled_lead.additional_data);
  -- The lock lets neither an account be erased nor a workspace be deleted between this and the commission.
  select case when r.closed_at is null then p.lead_commission_cents else 0 end as lead_commission_cents, p.currency, p.hold_days, p.webhook_types,
    case when r.closed_at is null then p.rules_version else 0 end as rules_version, r.group_id, r.user_id, null::bigint as rule_id
  into strict program from programs p join partners r on r.program_id = p.id and r.id = customer.partner_id
  where p.id = customer.program_id for key share of r;
  if program.rules_version > 0 then
    select r.lead_commission_cents, r.id into rule
    from lead_terms_of(customer.program_id, program.rules_version, customer.partner_id, program.group_id) r;
    if found then
      program.lead_commission_cents := rule.lead_commission_cents;
      program.rule_id := rule.id;
    end if;
  end if;
  if program.lead_commission_cents > 0 then
    counted := add_customers(customer.program_id, now(), 1, 0);
    insert into commissions (program_id, kind, partner_id, customer_id, currency, amount_cents, review_reason, lead_rule_id, hold_until)
    values (customer.program_id, 'lead', customer.partner_id, customer.id, program.currency, program.lead_commission_cents, review, program.rule_id,
      now() + make_interval(days => program.hold_days))
    returning id into commission_id;
    counted := count_money(customer.program_id, customer.id, customer.partner_id, now(), program.currency, 0, 0,
      program.lead_commission_cents, 0, 0, 1);
    if program.user_id is not null then
      counted := tell_earned(customer.program_id, program.user_id, commission_id);
    end if;
  else
    counted := count_customers(customer.program_id, customer.id, now(), 1, 0);
  end if;
  if 'lead.created' = any (program.webhook_types) then
    perform write_webhook(customer.program_id, 'lead.created', jsonb_build_object(
      'lead_id', customer.lead_event_id, 'partner_id', customer.partner_id, 'customer_id', customer.id));
  end if;
  if commission_id is not null and 'commission.created' = any (program.webhook_types) then
    perform tell_commission(customer.program_id, commission_id);
  end if;
end $$;

-- Settles the lead of the customer with this key, or of a valid click, to whose customer the key is bound with it; answers nulls where there
-- is neither. A lead that is settled already changes nothing and keeps its own id, which tells the call that settled it from all others,
-- even where the answer to its first try was lost. The update is unconditional so that a call which waited for another sees what that
-- one did; where that one bound another key, the customer is looked for again. What a browser left is verified by a call with the customer's
-- own click id; without it, an unverified key is still nobody's word, and so is the e-mail address that comes with it.
create or replace function settle_lead(
  of_program_id bigint, of_customer_key text, of_click_id text, stem text, valid_after timestamptz, new_lead_id bigint,
  new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb,
  out customer_id bigint, out lead_id bigint, out click_id text, out customer_status text
) language plpgsql as $$
#variable_conflict use_column
declare
  customer bigint;
  settled record;
begin
  loop
    customer := find_customer(of_program_id, of_customer_key, of_click_id, stem, valid_after);
    if customer is null then
      return;
    end if;
    update customers c set
      customer_key = of_customer_key,
      key_unverified_since = case when c.click_id = of_click_id then null else c.key_unverified_since end,
      signup_date = coalesce(c.signup_date, now()),
      lead_event_id = coalesce(c.lead_event_id, new_lead_id),
      customer_status = case when c.customer_status = 'click' then 'lead' else c.customer_status end,
      email_hash = case when c.signup_date is null or c.email_unverified_since is not null and c.click_id = of_click_id
        then coalesce(new_email_hash, c.email_hash) else c.email_hash end,
      mailbox_hash = case when new_email_hash is not null and (c.signup_date is null or c.email_unverified_since is not null and c.click_id = of_click_id)
        then new_mailbox_hash else c.mailbox_hash end,
      email_unverified_since = case
        when new_email_hash is null then c.email_unverified_since
        when c.click_id = of_click_id then null
        when c.signup_date is null then c.key_unverified_since
        else c.email_unverified_since
      end
    where c.program_id = of_program_id and c.id = customer and coalesce(c.customer_key, of_customer_key) = of_customer_key
    returning new as customer, new.lead_event_id, new.click_id, new.customer_status, old.signup_date is null as is_first into settled;
    exit when found;
  end loop;
  customer_id := customer;
  lead_id := settled.lead_event_id;
  click_id := settled.click_id;
  customer_status := settled.customer_status;
  if settled.is_first then
    perform record_settled_lead(settled.customer, session_id, page_url, additional_data, null);
  end if;
end $$;

-- A lead of the integrator's server; `recordServerLead` in lib/tracking/leads.ts is its only caller.
create or replace function track_lead(
  hash bytea, claimed_program_id bigint, of_customer_key text, of_click_id text, stem text, new_lead_id bigint,
  new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb,
  out key_refusal text, out program_matches boolean, out program_id bigint, out lead_id bigint, out click_id text, out customer_status text,
  out wrote_webhooks boolean, out outbox_ids bigint[]
) language plpgsql as $$
#variable_conflict use_column
declare
  key record;
  settled record;
begin
  select k.program_id, use_key(k, 'track') as refusal, now() - make_interval(days => p.cookie_window_days) as valid_after,
    p.processor_account_id as account_id into key
  from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash;
  key_refusal := key.refusal;
  program_matches := key.program_id = coalesce(claimed_program_id, key.program_id);
  if key_refusal is distinct from '' or not program_matches then
    return;
  end if;
  perform lock_given_names(key.account_id, of_customer_key, of_click_id, new_email_hash);
  settled := settle_lead(key.program_id, of_customer_key, of_click_id, stem, key.valid_after, new_lead_id, new_email_hash,
    new_mailbox_hash, session_id, page_url, additional_data);
  perform attribute_to_customer(key.account_id, key.program_id, settled.customer_id);
  if settled.lead_id is null then
    perform note_refusal(key.program_id, 'lead', 'no_attribution', case when of_click_id is null then 'none' else 'expired' end);
  end if;
  program_id := key.program_id;
  wrote_webhooks := wrote_webhook();
  outbox_ids := written_outbox_ids();
  lead_id := settled.lead_id;
  click_id := settled.click_id;
  customer_status := settled.customer_status;
end $$;

-- A lead of the visitor's browser, for a click of this program; `recordBrowserLead` in lib/tracking/leads.ts is its only caller. Answers no
-- lead where the click is not a valid one. It acts on the click's own customer and answers the same whoever else is known: where the
-- program allows browsers, that customer is settled, and keeps as unverified the key and the e-mail address that nobody has yet.
create or replace function track_browser_lead(
  of_program_id bigint, of_customer_key text, of_click_id text, new_lead_id bigint, new_email_hash bytea,
  new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb,
  out provisional boolean, out lead_id bigint, out click_id text, out customer_status text, out wrote_webhooks boolean,
  out outbox_ids bigint[]
) language plpgsql as $$
#variable_conflict use_column
declare
  valid_after timestamptz;
  account_id text;
  is_key_free boolean;
  is_email_free boolean;
  settled customers;
  noted record;
begin
  select p.lead_auth_policy <> 'browser_allowed', now() - make_interval(days => p.cookie_window_days), p.processor_account_id
  into provisional, valid_after, account_id
  from programs p where p.id = of_program_id and p.deleted_at is null;
  if not exists (
    select from customers c where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after
  ) then
    return;
  end if;
  if not provisional then
    perform lock_given_names(account_id, of_customer_key, of_click_id, new_email_hash);
    is_key_free := not exists (select from customers k where k.program_id = of_program_id and k.customer_key = of_customer_key);
    is_email_free := not exists (select from customers k where k.program_id = of_program_id and k.email_hash = new_email_hash);
    update customers c set
      signup_date = now(),
      lead_event_id = new_lead_id,
      customer_status = case when c.customer_status = 'click' then 'lead' else c.customer_status end,
      customer_key = case when is_key_free then coalesce(c.customer_key, of_customer_key) else c.customer_key end,
      key_unverified_since = case when is_key_free and c.customer_key is null then now() else c.key_unverified_since end,
      email_hash = case when is_email_free then coalesce(c.email_hash, new_email_hash) else c.email_hash end,
      mailbox_hash = case when is_email_free and c.email_hash is null then new_mailbox_hash else c.mailbox_hash end,
      email_unverified_since = case when is_email_free and c.email_hash is null and new_email_hash is not null
        then now() else c.email_unverified_since end
    where c.program_id = of_program_id and c.click_id = of_click_id and c.signup_date is null
    returning c.* into settled;
    if found then
      perform record_settled_lead(settled, session_id, page_url, additional_data, 'unverified_customer');
      perform attribute_to_customer(account_id, of_program_id, settled.id);
      wrote_webhooks := wrote_webhook();
      outbox_ids := written_outbox_ids();
    else
      select c.* into settled from customers c where c.program_id = of_program_id and c.click_id = of_click_id;
    end if;
    lead_id := settled.lead_event_id;
    click_id := of_click_id;
    customer_status := 'lead';
    return;
  end if;
  update customers c set
    provisional_lead_at = case when c.signup_date is null then coalesce(c.provisional_lead_at, now()) else c.provisional_lead_at end,
    provisional_lead_event_id = case when c.signup_date is null
      then coalesce(c.provisional_lead_event_id, new_lead_id) else c.provisional_lead_event_id end
  where c.program_id = of_program_id and c.click_id = of_click_id
  returning c.*, old.provisional_lead_at is null and new.provisional_lead_at is not null as is_first into noted;
  if noted.is_first then
    insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, provisional, session_id, page_url)
    values (of_program_id, noted.provisional_lead_at, noted.provisional_lead_event_id, noted.id, true, session_id, page_url);
  end if;
  lead_id := coalesce(noted.provisional_lead_event_id, noted.lead_event_id);
  click_id := noted.click_id;
  -- The browser does not learn that the server settled it.
  customer_status := 'click';
end $$;

-- Records a test lead of the integrator's server: an event with is_test, no customer and no count, once.
create or replace function track_test_lead(
  hash bytea, claimed_program_id bigint, at timestamptz, lead_id bigint, customer_key text, session_id text, page_url text,
  additional_data jsonb,
  out key_refusal text, out program_matches boolean
) language plpgsql as $$
declare
  key record;
begin
  select k.program_id, use_key(k, 'track') as refusal into key from api_keys k where k.key_hash = hash;
  key_refusal := key.refusal;
  program_matches := key.program_id = coalesce(claimed_program_id, key.program_id);
  if key_refusal is not distinct from '' and program_matches then
    perform keep_test_lead(key.program_id, at, lead_id, customer_key, session_id, page_url, additional_data);
  end if;
end $$;

-- The same of a program that the browser names. Answers whether there is one, and whether the event is kept.
create or replace function track_browser_test_lead(
  of_program_id bigint, at timestamptz, lead_id bigint, customer_key text, session_id text, page_url text, additional_data jsonb,
  out is_known boolean, out is_kept boolean
) language plpgsql as $$
begin
  is_known := exists (select from programs p where p.id = of_program_id and p.deleted_at is null);
  is_kept := is_known and count_public_test_event(of_program_id);
  if is_kept then
    perform keep_test_lead(of_program_id, at, lead_id, customer_key, session_id, page_url, additional_data);
  end if;
end $$;

create or replace function keep_test_lead(
  of_program_id bigint, at timestamptz, lead_id bigint, customer_key text, session_id text, page_url text, additional_data jsonb
) returns void language plpgsql as $$
#variable_conflict use_column
begin
  insert into affiliate_lead_events (program_id, is_test, lead_timestamp, id, customer_key, session_id, page_url, additional_data)
  values (of_program_id, true, at, lead_id, customer_key, session_id, page_url, additional_data)
  on conflict do nothing;
end $$;
