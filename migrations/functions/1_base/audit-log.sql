-- The audit log. Triggers and functions write each entry in the transaction of the action itself. `actingAs` (lib/database.ts) or
-- `actingByKey` sets the actor.

create or replace function acting_user() returns text language sql stable as $$ select nullif(current_setting('svc.actor', true), '') $$;

-- Begins a transaction for a user: sets the actor and uses up the form's token, so that the action and the used token commit together.
-- Refuses a form that another request has sent. Waits for a request that is sending it at this moment.
create or replace function act_as(of_user_id text, form uuid, request uuid) returns void language plpgsql as $$
begin
  perform set_config('svc.actor', coalesce(of_user_id, ''), true);
  if form is null then
    return;
  end if;
  insert into used_forms (token, user_id, request_id) values (form, of_user_id, request)
  on conflict (token) do update set request_id = excluded.request_id
  where used_forms.request_id = excluded.request_id;
  if not found then
    raise exception 'the form was sent before' using errcode = 'unique_violation', constraint = 'used_forms_pkey';
  end if;
end $$;

create or replace function acting_key() returns bigint language sql stable as $$ select nullif(current_setting('svc.api_key', true), '')::bigint $$;

-- Begins a transaction for an API key: sets the key as the actor and claims the idempotency token of the request, so that a repeated
-- request creates nothing. Refuses a claimed token, with the first response as the detail. Waits for a request that is claiming it at this
-- moment.
create or replace function act_by_key(of_key_id bigint, of_program_id bigint, of_token text, of_request_hash bytea) returns void
language plpgsql as $$
declare
  taken idempotency_keys;
begin
  perform set_config('svc.api_key', of_key_id::text, true);
  if of_token is null then
    return;
  end if;
  perform set_config('svc.program', of_program_id::text, true), set_config('svc.token', of_token, true);
  insert into idempotency_keys as k (program_id, token, request_hash) values (of_program_id, of_token, of_request_hash)
  on conflict (program_id, token) do update set request_hash = excluded.request_hash, created_at = now() where k.answer is null;
  if found then
    return;
  end if;
  select k.* into taken from idempotency_keys k where k.program_id = of_program_id and k.token = of_token;
  raise exception 'the request was sent before' using errcode = 'unique_violation', detail = taken.answer::text,
    constraint = case when taken.request_hash = of_request_hash then 'idempotency_keys_pkey' else 'idempotency_mismatch' end;
end $$;

-- Stores the response to a request for its repeats, and returns it.
create or replace function keep_answer(created_row jsonb) returns jsonb language plpgsql as $$
begin
  update idempotency_keys k set answer = created_row
  where k.program_id = nullif(current_setting('svc.program', true), '')::bigint and k.token = current_setting('svc.token', true);
  return created_row;
end $$;

-- The start of the audit log's retention period. lib/access/audit-log.ts deletes older entries, and the trigger below refuses every
-- other deletion.
create or replace function audit_log_begins() returns timestamptz language sql stable as $$ select now() - interval '24 months' $$;

-- How long payments and their log are kept, as accounting requires.
create or replace function money_kept() returns interval language sql immutable return interval '10 years';

-- Returns whether the retention period of an entry is over. Entries about money have a longer period.
create or replace function is_over(entry audit_log) returns boolean language sql stable
return entry.created_at < case
  when entry.action ~ '^(payout|payout_run|commission)\.' or entry.action in ('partner.adjusted', 'partner.erased') then now() - money_kept()
  else audit_log_begins() end;

create or replace function refuse_audit_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if is_over(old) then
      return old;
    end if;
  end if;
  raise exception 'audit_log is append-only' using errcode = 'restrict_violation';
end $$;
create or replace trigger audit_log_append_only before update or delete on audit_log
  for each row execute function refuse_audit_change();
create or replace trigger audit_log_no_truncate before truncate on audit_log
  for each statement execute function refuse_audit_change();

-- Adds an entry. Does nothing while a backup is restored, because the backup contains its own entries. Also does nothing for the rows of an
-- import or of a bulk job, which have a single entry.
create or replace function write_audit(
  of_workspace_id text, of_program_id bigint, of_action text, of_subject text, of_subject_user_id text, of_details jsonb
) returns void language plpgsql as $$
begin
  if current_setting('svc.restoring', true) = 'on' or current_setting('svc.importing', true) = 'on' or current_setting('svc.job', true) <> '' then
    return;
  end if;
  insert into audit_log (workspace_id, program_id, user_id, api_key_id, action, subject, subject_user_id, details)
  values (of_workspace_id, of_program_id, acting_user(), acting_key(), of_action, left(nullif(of_subject, ''), 500), of_subject_user_id,
    coalesce(of_details, '{}'));
end $$;

-- Adds an entry about a program.
create or replace function write_program_audit(of_program_id bigint, of_action text, of_subject text, of_details jsonb) returns void
language plpgsql as $$
begin
  perform write_audit(p.workspace_id, p.id, of_action, of_subject, null, of_details) from programs p where p.id = of_program_id;
end $$;

-- Records a sign-in in each workspace that the person is an active member of. A session that still needs a two-factor
-- code isn't a sign-in.
create or replace function audit_session() returns trigger language plpgsql as $$
begin
  if new.by_first_factor and exists (select from users u where u.id = new.user_id and u.two_factor_enabled) then
    return null;
  end if;
  perform set_config('svc.actor', new.user_id, true);
  perform write_audit(m.workspace_id, null, 'member.signed_in', null, null, null)
  from active_members m where m.user_id = new.user_id;
  return null;
end $$;
create or replace trigger sessions_audit after insert on sessions for each row execute function audit_session();

-- Records a change of a person's sign-in methods in the same workspaces. The sign-in library makes the change, so the
-- row's owner is the actor.
create or replace function audit_sign_in_change() returns trigger language plpgsql as $$
declare
  of_user_id text := case tg_table_name when 'users' then to_jsonb(new) ->> 'id' else to_jsonb(new) ->> 'user_id' end;
begin
  perform set_config('svc.actor', of_user_id, true);
  perform write_audit(m.workspace_id, null, tg_argv[0], null, null, null)
  from active_members m where m.user_id = of_user_id;
  return null;
end $$;
create or replace trigger users_email_audit after update of email on users
  for each row when (old.email <> new.email) execute function audit_sign_in_change('member.email_changed');
create or replace trigger users_two_factor_on_audit after update of two_factor_enabled on users
  for each row when (new.two_factor_enabled and old.two_factor_enabled is not true)
  execute function audit_sign_in_change('member.two_factor_enabled');
create or replace trigger users_two_factor_off_audit after update of two_factor_enabled on users
  for each row when (old.two_factor_enabled and new.two_factor_enabled is not true)
  execute function audit_sign_in_change('member.two_factor_disabled');
create or replace trigger accounts_password_audit after update of password on accounts
  for each row when (old.password is distinct from new.password) execute function audit_sign_in_change('member.password_changed');

create or replace function audit_member() returns trigger language plpgsql as $$
begin
  if new.removed_at is null and (tg_op = 'INSERT' or old.removed_at is not null) then
    perform write_audit(new.workspace_id, null, 'member.joined', null, new.user_id, jsonb_build_object('role', new.role));
  elsif new.removed_at is not null and old.removed_at is null then
    perform write_audit(new.workspace_id, null, 'member.removed', null, new.user_id, jsonb_build_object('role', old.role));
  elsif new.role <> old.role then
    perform write_audit(new.workspace_id, null, 'member.role_changed', null, new.user_id,
      jsonb_build_object('role', jsonb_build_array(old.role, new.role)));
  end if;
  return null;
end $$;
create or replace trigger workspace_members_audit after insert or update on workspace_members
  for each row execute function audit_member();

-- The entry contains the invitation's id instead of its address, because addresses can be erased and entries can't.
create or replace function audit_invitation() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or new.token_hash <> old.token_hash then
    perform write_audit(new.workspace_id, null, 'member.invited', new.id, null, jsonb_build_object('role', new.role));
  elsif new.revoked_at is not null and old.revoked_at is null then
    perform write_audit(new.workspace_id, null, 'member.invitation_revoked', new.id, null, jsonb_build_object('role', new.role));
  end if;
  return null;
end $$;
create or replace trigger workspace_invitations_audit after insert or update on workspace_invitations
  for each row execute function audit_invitation();

create or replace function audit_workspace() returns trigger language plpgsql as $$
begin
  perform write_audit(new.id, null, 'workspace.changed', new.name, null,
    jsonb_build_object('requires_two_factor', jsonb_build_array(old.requires_two_factor, new.requires_two_factor)));
  return null;
end $$;
create or replace trigger workspaces_audit after update of requires_two_factor on workspaces
  for each row when (old.requires_two_factor <> new.requires_two_factor) execute function audit_workspace();

create or replace function audit_workspace_deletion() returns trigger language plpgsql as $$
begin
  perform write_audit(new.id, null, 'workspace.deleted', new.name, null, null);
  return null;
end $$;
create or replace trigger workspaces_deleted_audit after update of deleted_at on workspaces
  for each row when (old.deleted_at is null and new.deleted_at is not null) execute function audit_workspace_deletion();

create or replace function audit_program_member() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    perform write_audit(old.workspace_id, old.program_id, 'program.closed_to_member', null, old.user_id, null);
  elsif tg_op = 'INSERT' or new.role <> old.role then
    perform write_audit(new.workspace_id, new.program_id, 'program.opened_to_member', null, new.user_id,
      jsonb_build_object('role', new.role));
  end if;
  return null;
end $$;
create or replace trigger program_members_audit after insert or update or delete on program_members
  for each row execute function audit_program_member();

create or replace function audit_api_key() returns trigger language plpgsql as $$
declare
  named text := new.name || ' …' || new.hint;
begin
  perform write_program_audit(new.program_id, case tg_op when 'INSERT' then 'api_key.created' else 'api_key.revoked' end, named, null);
  return null;
end $$;
create or replace trigger api_keys_created_audit after insert on api_keys for each row execute function audit_api_key();
create or replace trigger api_keys_revoked_audit after update of revoked_at on api_keys
  for each row when (old.revoked_at is null and new.revoked_at is not null) execute function audit_api_key();

-- The details never contain a connection's secrets.
create or replace function audit_processor_connection() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, case when new.disconnected_at is null then 'processor.connected' else 'processor.disconnected' end,
    new.processor || ' ' || new.account_id, null);
  return null;
end $$;
create or replace trigger processor_connections_created_audit after insert on processor_connections
  for each row execute function audit_processor_connection();
create or replace trigger processor_connections_changed_audit after update of disconnected_at on processor_connections
  for each row when (old.disconnected_at is distinct from new.disconnected_at) execute function audit_processor_connection();

-- The same applies to a payment provider's keys.
create or replace function audit_payout_connection() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, case when new.keys is null then 'payout_provider.disconnected' else 'payout_provider.connected' end,
    new.provider, null);
  return null;
end $$;
create or replace trigger payout_connections_audit after insert or update on payout_connections
  for each row execute function audit_payout_connection();

-- Entries can't be erased, so they contain only the end of a recipient's id.
create or replace function audit_payout_recipient() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, 'partner.recipient_changed', new.partner_id::text, jsonb_build_object('recipient', '…' || right(new.recipient_id, 4)));
  return null;
end $$;
create or replace trigger payout_recipients_audit after insert or update on payout_recipients
  for each row execute function audit_payout_recipient();

-- The details contain the old and new values, because a program's columns are settings and not secrets.
create or replace function audit_program() returns trigger language plpgsql as $$
declare
  changed jsonb;
begin
  if tg_op = 'INSERT' then
    perform write_program_audit(new.id, 'program.created', new.name, null);
    if new.shadow_since is not null then
      perform write_program_audit(new.id, 'shadow_mode.entered', null, null);
    end if;
    return null;
  end if;
  if new.processor_account_id is distinct from old.processor_account_id then
    perform write_program_audit(new.id,
      case when new.processor_account_id is null then 'processor.disconnected' else 'processor.connected' end,
      coalesce(new.processor_account_id, old.processor_account_id), null);
  end if;
  select jsonb_object_agg(n.key, jsonb_build_array(o.value, n.value)) into changed
  from jsonb_each(to_jsonb(new)) n join jsonb_each(to_jsonb(old)) o using (key)
  where n.value is distinct from o.value and n.key not like 'processor\_%' and n.key not in ('webhook_types', 'rules_version',
    'domain_verified_at', 'domain_proven_at', 'shadow_since', 'shadow_ended_at', 'earlier_shadow_times');
  if changed is not null then
    perform write_program_audit(new.id, 'program.changed', null, changed);
  end if;
  return null;
end $$;
create or replace trigger programs_audit after insert or update on programs for each row execute function audit_program();

create or replace function audit_minimum_payout() returns trigger language plpgsql as $$
declare
  of_program_id bigint := coalesce(new.program_id, old.program_id);
begin
  if new.minimum_payout_cents is not distinct from old.minimum_payout_cents then
    return null;
  end if;
  perform write_program_audit(of_program_id, 'program.changed', null, jsonb_build_object(
    'minimum_payout_cents ' || coalesce(new.currency, old.currency),
    jsonb_build_array(coalesce(old.minimum_payout_cents, 0), coalesce(new.minimum_payout_cents, 0))));
  return null;
end $$;
create or replace trigger minimum_payouts_audit after insert or update or delete on minimum_payouts
  for each row execute function audit_minimum_payout();

create or replace function audit_program_billing() returns trigger language plpgsql as $$
begin
  if new is not distinct from old then
    return null;
  end if;
  perform write_program_audit(new.program_id, 'program.changed', null, jsonb_build_object('billing_details', jsonb_build_array(
    nullif(concat_ws(', ', old.legal_name, old.country, old.vat_id, old.series, 'VAT rate ' || trim_scale(old.vat_bp / 100.0) || '%'), ''),
    concat_ws(', ', new.legal_name, new.country, new.vat_id, new.series, 'VAT rate ' || trim_scale(new.vat_bp / 100.0) || '%'))));
  return null;
end $$;
create or replace trigger program_billing_audit after insert or update on program_billing
  for each row execute function audit_program_billing();

create or replace function audit_tax_form_limit() returns trigger language plpgsql as $$
begin
  if new.above_cents is not distinct from old.above_cents then
    return null;
  end if;
  perform write_program_audit(coalesce(new.program_id, old.program_id), 'program.changed', null, jsonb_build_object(
    'no_tax_form_above_cents ' || coalesce(new.currency, old.currency), jsonb_build_array(old.above_cents, new.above_cents)));
  return null;
end $$;
create or replace trigger tax_form_limits_audit after insert or update or delete on tax_form_limits
  for each row execute function audit_tax_form_limit();

create or replace function audit_partner() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform write_program_audit(new.program_id, 'partner.added', new.id::text, null);
  elsif new.ended_at is not null and old.ended_at is null then
    perform write_program_audit(new.program_id, case new.ended_by when 'program' then 'partner.ended' else 'partner.left' end,
      new.id::text, null);
  elsif new.user_id is not null and new.ended_at is null and (old.user_id is null or old.ended_at is not null) then
    perform write_program_audit(new.program_id, 'partner.joined', new.id::text, null);
  elsif new.is_active <> old.is_active then
    perform write_program_audit(new.program_id, case when new.is_active then 'partner.activated' else 'partner.deactivated' end,
      new.id::text, null);
  elsif (acting_key() is not null or acting_user() <> coalesce(new.user_id, ''))
    and (new.name, new.email, new.payout_email, new.external_id, new.metadata)
      is distinct from (old.name, old.email, old.payout_email, old.external_id, old.metadata)
  then
    -- If partners change their own details, there is no entry.
    perform write_program_audit(new.program_id, 'partner.changed', new.id::text, null);
  end if;
  -- The entry doesn't contain the note's text, because the note is erased with the partner and the log isn't. Erasures
  -- have their own entries.
  if tg_op = 'UPDATE' and new.note is distinct from old.note and (old.user_id is null or new.user_id is not null) then
    perform write_program_audit(new.program_id, 'partner.note_changed', new.id::text, null);
  end if;
  if new.group_id is distinct from (case tg_op when 'UPDATE' then old.group_id end) then
    perform write_program_audit(new.program_id, 'partner.group_changed', new.id::text, jsonb_build_object('group', (
      select jsonb_build_array(
        (select g.name from partner_groups g where tg_op = 'UPDATE' and g.program_id = new.program_id and g.id = old.group_id),
        (select g.name from partner_groups g where g.program_id = new.program_id and g.id = new.group_id)))));
  end if;
  return null;
end $$;
create or replace trigger partners_audit after insert or update on partners for each row execute function audit_partner();

-- Records the links that an API key adds or changes. Members can only do this with a key. A partner's first link
-- belongs to the partner's entry.
create or replace function audit_link() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    perform write_program_audit(new.program_id, 'partner.link_changed', new.code, null);
  elsif not exists (
    select from partners r where r.program_id = new.program_id and r.id = new.partner_id and r.created_at = now()
  ) then
    perform write_program_audit(new.program_id, 'partner.link_added', new.code, null);
  end if;
  return null;
end $$;
create or replace trigger referral_links_added_audit after insert on referral_links
  for each row when (acting_key() is not null) execute function audit_link();
create or replace trigger referral_links_changed_audit after update on referral_links
  for each row when (acting_key() is not null and old.* is distinct from new.*) execute function audit_link();

create or replace function audit_partner_invitation() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or new.token_hash <> old.token_hash then
    perform write_program_audit(new.program_id, 'partner.invited', new.partner_id::text, null);
  end if;
  return null;
end $$;
create or replace trigger partner_invitations_audit after insert or update on partner_invitations
  for each row execute function audit_partner_invitation();

create or replace function audit_payout_run() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, case tg_op when 'INSERT' then 'payout_run.created' else 'payout_run.paid' end, new.id::text,
    jsonb_strip_nulls(jsonb_build_object('reference', new.reference)));
  return null;
end $$;
create or replace trigger payout_runs_created_audit after insert on payout_runs for each row execute function audit_payout_run();
create or replace trigger payout_runs_paid_audit after update of paid_at on payout_runs
  for each row when (old.paid_at is null and new.paid_at is not null) execute function audit_payout_run();

-- The run's entry covers its payouts. If a reversal or the partner cancels a payout, that isn't an action by the workspace.
create or replace function audit_payout() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, 'payout.' || new.status, new.id::text, jsonb_strip_nulls(jsonb_build_object(
    'amount_cents', new.amount_cents, 'currency', new.currency, 'reference', new.reference)));
  return null;
end $$;
create or replace trigger payouts_audit after update of status on payouts
  for each row when (old.status is distinct from new.status
    and (new.status in ('refused', 'returned', 'failed') or new.status = 'paid' and new.payout_run_id is null))
  execute function audit_payout();

create or replace function audit_webhook_endpoint() returns trigger language plpgsql as $$
declare
  act text := case
    when tg_op = 'INSERT' then 'created'
    when new.deleted_at is not null and old.deleted_at is null then 'deleted'
    when new.disabled_at is not null and old.disabled_at is null then 'disabled'
    when new.disabled_at is null and old.disabled_at is not null then 'enabled'
    when new.secret_number <> old.secret_number then 'secret_rotated'
    when (new.url, new.types, new.description) is distinct from (old.url, old.types, old.description) then 'changed'
  end;
begin
  if act is not null then
    perform write_program_audit(new.program_id, 'webhook.' || act, coalesce(new.url, 'svc listen'),
      case when act in ('created', 'changed') then jsonb_build_object('types', to_jsonb(new.types)) end);
  end if;
  return null;
end $$;
create or replace trigger webhook_endpoints_audit after insert or update on webhook_endpoints
  for each row when (new.partner_id is null) execute function audit_webhook_endpoint();

create or replace function audit_partner_group() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform write_program_audit(new.program_id, 'group.created', new.name, null);
  elsif new.name <> old.name then
    perform write_program_audit(new.program_id, 'group.renamed', new.name, jsonb_build_object('name', jsonb_build_array(old.name, new.name)));
  elsif new.removed_at is not null and old.removed_at is null then
    perform write_program_audit(new.program_id, 'group.removed', new.name, null);
  end if;
  return null;
end $$;
create or replace trigger partner_groups_audit after insert or update on partner_groups for each row execute function audit_partner_group();

-- Records the start or the end of a commission rule, with the rule's terms. The subject is the partner or group that it applies to.
create or replace function audit_commission_rule() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, case tg_op when 'INSERT' then 'commission_rule.begun' else 'commission_rule.ended' end,
    coalesce('partner ' || new.partner_id, (
      select 'group ' || g.name from partner_groups g where g.program_id = new.program_id and g.id = new.group_id
    ), 'everybody'),
    jsonb_strip_nulls(to_jsonb(new) - array['program_id', 'group_id', 'partner_id', 'since_version', 'until_version', 'created_at', 'ended_at']));
  return null;
end $$;
create or replace trigger commission_rules_audit after insert or update on commission_rules
  for each row execute function audit_commission_rule();

create or replace function audit_code() returns trigger language plpgsql as $$
begin
  perform write_program_audit(new.program_id, case
      when tg_op = 'INSERT' then 'code.added'
      when new.revoked_at is not null then 'code.revoked'
      else 'code.restored'
    end, new.code, jsonb_build_object('partner', new.partner_id));
  return null;
end $$;
create or replace trigger partner_codes_added_audit after insert on partner_codes for each row execute function audit_code();
create or replace trigger partner_codes_revoked_audit after update on partner_codes
  for each row when ((old.revoked_at is null) <> (new.revoked_at is null)) execute function audit_code();
