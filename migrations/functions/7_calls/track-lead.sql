-- Records a lead from the integrator's server for `recordServerLead` in lib/tracking/leads.ts.
create or replace function track_lead(
  hash bytea, claimed_program_id bigint, of_customer_key text, of_click_id text, click_id_prefix text, new_lead_id bigint,
  new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb,
  out key_refusal text, out program_matches boolean, out program_id bigint, out lead_id bigint, out click_id text, out customer_status text,
  out wrote_webhooks boolean, out outbox_ids bigint[]
) language plpgsql as $$
#variable_conflict use_column
declare
  key record;
  settled record;
begin
  select k.program_id, use_key(k, 'track') as refusal, window_start(now(), p.cookie_window_days) as valid_after,
    accounts_of(p) as account_ids into key
  from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash;
  key_refusal := key.refusal;
  program_matches := key.program_id = coalesce(claimed_program_id, key.program_id);
  if key_refusal is distinct from '' or not program_matches then
    return;
  end if;
  perform lock_given_names(key.account_ids, of_customer_key, of_click_id, new_email_hash);
  settled := settle_lead(key.program_id, of_customer_key, of_click_id, click_id_prefix, key.valid_after, new_lead_id, new_email_hash,
    new_mailbox_hash, session_id, page_url, additional_data);
  perform attribute_to_customer(key.account_ids, key.program_id, settled.customer_id);
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

-- Records a lead from the visitor's browser for `recordBrowserLead` in lib/tracking/leads.ts. Returns no lead if the program has no valid
-- click with this id. It only acts on the click's own customer, and its result reveals nothing about other customers. The lead is
-- provisional unless the program allows browsers to settle leads.
create or replace function track_browser_lead(
  of_program_id bigint, of_customer_key text, of_click_id text, new_lead_id bigint, new_email_hash bytea,
  new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb,
  out provisional boolean, out lead_id bigint, out click_id text, out customer_status text, out wrote_webhooks boolean,
  out outbox_ids bigint[]
) language plpgsql as $$
#variable_conflict use_column
declare
  program programs;
  settled record;
begin
  select p.* into program from programs p where p.id = of_program_id and p.deleted_at is null and not is_blocked(p.id);
  if not exists (
    select from customers c where c.program_id = program.id and c.click_id = of_click_id
      and c.last_click_at > window_start(now(), program.cookie_window_days)
  ) then
    return;
  end if;
  click_id := of_click_id;
  provisional := program.lead_auth_policy <> 'browser_allowed';
  if provisional then
    lead_id := record_provisional_lead(program.id, of_click_id, new_lead_id, session_id, page_url);
    -- The response doesn't reveal that the server settled the lead.
    customer_status := 'click';
    return;
  end if;
  perform lock_given_names(accounts_of(program), of_customer_key, of_click_id, new_email_hash);
  settled := settle_browser_lead(program.id, of_customer_key, of_click_id, new_lead_id, new_email_hash, new_mailbox_hash, session_id,
    page_url, additional_data);
  if settled.is_first then
    perform attribute_to_customer(accounts_of(program), program.id, (settled.customer).id);
    wrote_webhooks := wrote_webhook();
    outbox_ids := written_outbox_ids();
  end if;
  lead_id := (settled.customer).lead_event_id;
  customer_status := 'lead';
end $$;

-- Records a test lead from the integrator's server.
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
    perform keep_test_lead(key.program_id, 'key', at, lead_id, customer_key, session_id, page_url, additional_data);
  end if;
end $$;

-- Records a test lead for the program whose id the browser sends. Returns whether the program exists and whether the event is kept.
create or replace function track_browser_test_lead(
  of_program_id bigint, network bigint, by_test_link boolean, at timestamptz, lead_id bigint, customer_key text, session_id text, page_url text,
  additional_data jsonb, out is_known boolean, out is_kept boolean
) language plpgsql as $$
begin
  is_known := exists (select from programs p where p.id = of_program_id and p.deleted_at is null);
  is_kept := is_known and count_public_test_event(of_program_id, network);
  if is_kept then
    perform keep_test_lead(of_program_id, case when by_test_link then 'test_link' end, at, lead_id, customer_key, session_id, page_url, additional_data);
  end if;
end $$;
