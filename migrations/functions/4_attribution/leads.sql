-- Returns the commission for a customer's lead and the rule that sets it. The lock delays an erasure of the account and a deletion of the
-- workspace until the commission is stored.
create or replace function lead_terms(
  customer customers, out commission_cents bigint, out rule_id bigint, out currency text, out webhook_types text[],
  out user_id text
) language plpgsql as $$
#variable_conflict use_column
declare
  version integer;
  partner partners;
  rule commission_rules;
begin
  select r.* into strict partner from partners r
  where r.program_id = customer.program_id and r.id = customer.partner_id for key share;
  select p.lead_commission_cents, p.rules_version, p.currency, p.webhook_types, partner.user_id
  into strict commission_cents, version, currency, webhook_types, user_id
  from programs p where p.id = customer.program_id;
  if partner.closed_at is not null then
    commission_cents := 0;
  elsif version > 0 then
    select r.* into rule from lead_terms_of(customer.program_id, version, partner.id, partner.group_id) r;
    if found then
      commission_cents := rule.lead_commission_cents;
      rule_id := rule.id;
    end if;
  end if;
end $$;

-- Records the effects of a settled lead: the lead event, the commission if the program pays for leads, the totals and the webhooks.
-- `customer` is the row after the settlement. `review` is the reason why a person should review the commission.
create or replace function record_settled_lead(
  customer customers, session_id text, page_url text, additional_data jsonb, review review_reason
) returns void
language plpgsql as $$
declare
  terms record;
  commission commissions;
begin
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, session_id, page_url, additional_data)
  values (customer.program_id, customer.signup_date, customer.lead_event_id, customer.id, customer.customer_key,
    record_settled_lead.session_id, record_settled_lead.page_url, record_settled_lead.additional_data);
  terms := lead_terms(customer);
  if terms.commission_cents > 0 then
    perform add_customers(customer.program_id, now(), 1, 0);
    commission := create_commission(customer.program_id, 'lead', customer.partner_id, customer.id, terms.currency, terms.commission_cents,
      of_lead_rule_id => terms.rule_id, of_review_reason => review);
    perform count_money(customer.program_id, customer.id, customer.partner_id, now(), terms.currency, 0, 0,
      case when commission.is_shadow then 0 else terms.commission_cents end, more_leads => 1);
    if terms.user_id is not null then
      perform notify_earned(customer.program_id, terms.user_id, commission.id);
    end if;
  else
    perform count_customers(customer.program_id, customer.id, now(), 1, 0);
  end if;
  if 'lead.created' = any (terms.webhook_types) then
    perform write_webhook(customer.program_id, 'lead.created', jsonb_build_object(
      'lead_id', customer.lead_event_id, 'partner_id', customer.partner_id, 'customer_id', customer.id));
  end if;
  if 'lead' = any (terms.webhook_types) and not coalesce(commission.is_shadow, in_shadow_mode(customer.program_id)) then
    perform write_postback(customer.program_id, customer.partner_id, 'lead', customer.id, null, terms.commission_cents, terms.currency,
      case when commission.id is null then 'none' else 'pending' end, null);
  end if;
  if commission.id is not null and 'commission.created' = any (terms.webhook_types) then
    perform notify_commission_created(customer.program_id, commission.id);
  end if;
end $$;

-- Settles the lead of the customer with this key, or of a valid click's customer, who then gets the key. Returns nulls if there is no such
-- customer. If the lead is already settled, nothing changes and the lead keeps its id. A repeated call compares that id to find out whether
-- it settled the lead itself. The update is unconditional, so that a call that waited for another one sees its effect. If the other call
-- gave the customer a different key, this call looks for the customer again. A call with the customer's own click id verifies the key and
-- the e-mail address. Without it, the key and the address stay unverified if only a browser sent them.
create or replace function settle_lead(
  of_program_id bigint, of_customer_key text, of_click_id text, click_id_prefix text, valid_after timestamptz, new_lead_id bigint,
  new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb,
  out customer_id bigint, out lead_id bigint, out click_id text, out customer_status text
) language plpgsql as $$
#variable_conflict use_column
declare
  customer bigint;
  settled record;
begin
  loop
    customer := find_customer(of_program_id, of_customer_key, of_click_id, click_id_prefix, valid_after);
    if customer is null then
      return;
    end if;
    update customers c set updated_at = now(),
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

-- Settles a browser's lead for the click's own customer. The customer keeps the key and the e-mail address as unverified, unless another
-- customer has them already. Returns the customer, and whether this call settled the lead.
create or replace function settle_browser_lead(
  of_program_id bigint, of_customer_key text, of_click_id text, new_lead_id bigint, new_email_hash bytea, new_mailbox_hash bytea,
  session_id text, page_url text, additional_data jsonb, out customer customers, out is_first boolean
) language plpgsql as $$
declare
  is_key_free boolean := not exists (
    select from customers k where k.program_id = of_program_id and k.customer_key = of_customer_key
  );
  is_email_free boolean := not exists (
    select from customers k where k.program_id = of_program_id and k.email_hash = new_email_hash
  );
begin
  update customers c set updated_at = now(),
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
  returning c.* into customer;
  is_first := found;
  if is_first then
    perform record_settled_lead(customer, session_id, page_url, additional_data, 'unverified_customer');
  else
    select c.* into customer from customers c where c.program_id = of_program_id and c.click_id = of_click_id;
  end if;
end $$;

-- Records a browser's lead once. The program's server can verify it later. Returns the id of that event, or else of the settled lead.
create or replace function record_provisional_lead(
  of_program_id bigint, of_click_id text, new_lead_id bigint, session_id text, page_url text
) returns bigint language plpgsql as $$
declare
  noted record;
begin
  update customers c set updated_at = now(),
    provisional_lead_at = case when c.signup_date is null then coalesce(c.provisional_lead_at, now()) else c.provisional_lead_at end,
    provisional_lead_event_id = case when c.signup_date is null
      then coalesce(c.provisional_lead_event_id, new_lead_id) else c.provisional_lead_event_id end
  where c.program_id = of_program_id and c.click_id = of_click_id
  returning c.*, old.provisional_lead_at is null and new.provisional_lead_at is not null as is_first into noted;
  if noted.is_first then
    insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, provisional, session_id, page_url)
    values (of_program_id, noted.provisional_lead_at, noted.provisional_lead_event_id, noted.id, true, record_provisional_lead.session_id,
      record_provisional_lead.page_url);
  end if;
  return coalesce(noted.provisional_lead_event_id, noted.lead_event_id);
end $$;

-- Stores a test lead once: an event with is_test, without a customer. No figure counts it.
create or replace function keep_test_lead(
  of_program_id bigint, source text, at timestamptz, lead_id bigint, customer_key text, session_id text, page_url text, additional_data jsonb
) returns void language plpgsql as $$
#variable_conflict use_column
begin
  insert into affiliate_lead_events (program_id, is_test, test_source, lead_timestamp, id, customer_key, session_id, page_url, additional_data)
  values (of_program_id, true, source, at, lead_id, customer_key, session_id, page_url, additional_data)
  on conflict do nothing;
end $$;
