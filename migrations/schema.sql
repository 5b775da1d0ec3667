-- The combined result of all migrations, written by `npm run schema`. It is for reading, not for running.

create domain amount_cents as bigint CHECK (((VALUE >= 0) AND (VALUE <= '9999999999999'::bigint)));

create domain cause_text as text CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 300)));

create domain click_count as bigint CHECK ((VALUE > 0));

create domain code_text as text CHECK ((((length(VALUE) >= 1) AND (length(VALUE) <= 64)) AND (VALUE !~ '[\s\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'::text)));

create domain commission_kind as text CHECK ((VALUE = ANY (ARRAY['sale'::text, 'lead'::text])));

create domain commission_status as text CHECK ((VALUE = ANY (ARRAY['pending'::text, 'approved'::text, 'paid'::text, 'refunded'::text, 'reversed'::text])));

create domain country_code as text CHECK ((VALUE ~ '^[A-Z]{2}$'::text));

create domain currency_code as text CHECK ((VALUE ~ '^[a-z]{3}$'::text));

create domain event_count as bigint CHECK ((VALUE >= 0));

create domain id_text as text CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 255)));

create domain language_code as text CHECK ((VALUE = ANY (ARRAY['en'::text, 'de'::text, 'fr'::text, 'es'::text, 'pt'::text])));

create domain legal_name as text CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 200)));

create domain metadata as jsonb CHECK (((jsonb_typeof(VALUE) = 'object'::text) AND (jsonb_array_length(jsonb_path_query_array(VALUE, '$.keyvalue()'::jsonpath)) <= 20) AND (NOT jsonb_path_exists(VALUE, '$.*?(@.type() != "string")'::jsonpath)) AND (length((VALUE)::text) <= 100000)));

create domain name_text as text CHECK ((((length(VALUE) >= 1) AND (length(VALUE) <= 80)) AND (VALUE !~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'::text)));

create domain notification_audience as text CHECK ((VALUE = ANY (ARRAY['partner'::text, 'advertiser'::text])));

create domain notification_kind as text CHECK ((VALUE = ANY (ARRAY['commission_earned'::text, 'commission_flagged'::text, 'commission_reversed'::text, 'commission_refunded'::text, 'commission_corrected'::text, 'payout_reduced'::text, 'payout_paid'::text, 'payout_refused'::text, 'payout_returned'::text, 'payout_unclaimed'::text, 'payout_held'::text, 'payout_address_needed'::text, 'tax_form_needed'::text, 'statement_ready'::text, 'adjustment_added'::text, 'adjustment_deducted'::text, 'payout_due'::text, 'application_received'::text, 'paid_commission_reversed'::text, 'dispute_reinstated'::text, 'balance_negative'::text, 'refund_not_converted'::text, 'sale_currency_corrected'::text, 'sale_currency_differs'::text, 'payment_ignored'::text, 'self_billing_withdrawn'::text, 'processor_disconnected'::text, 'webhook_disabled'::text, 'postback_disabled'::text, 'host_disabled'::text, 'program_message'::text])));

create domain positive_cents as bigint CHECK (((VALUE >= 1) AND (VALUE <= '9999999999999'::bigint)));

create domain postal_address as text CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 500)));

create domain reason_text as text CHECK ((length(VALUE) <= 1000));

create domain refund_key as text CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 300)));

create domain refund_reason as text CHECK ((VALUE = ANY (ARRAY['refund'::text, 'chargeback'::text])));

create domain reversal_kind as text CHECK ((VALUE = ANY (ARRAY['none'::text, 'partial'::text, 'full'::text])));

create domain review_reason as text CHECK ((VALUE = 'unverified_customer'::text));

create domain vat_number as text CHECK ((VALUE ~ '^[A-Z0-9]{4,20}$'::text));

create domain webhook_type as text CHECK ((VALUE = ANY (ARRAY['lead.created'::text, 'sale.created'::text, 'sale.refunded'::text, 'commission.created'::text, 'commission.approved'::text, 'commission.reversed'::text, 'commission.flagged'::text, 'commission.released'::text, 'partner.applied'::text, 'partner.joined'::text, 'adjustment.created'::text, 'payout.requested'::text, 'payout.reduced'::text, 'payout.paid'::text, 'lead'::text, 'sale'::text, 'commission_approved'::text, 'commission_reversed'::text, 'payout_paid'::text])));

create domain word_text as text CHECK (((length(VALUE) >= 1) AND (length(VALUE) <= 64)));

create sequence affiliate_lead_events_id_seq;

create table accepted_terms (
  program_id bigint not null,
  partner_id bigint not null,
  version integer not null,
  accepted_at timestamp with time zone not null default now(),
  withdrawn_at timestamp with time zone,
  constraint accepted_terms_pkey PRIMARY KEY (program_id, partner_id, version),
  constraint accepted_terms_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint accepted_terms_program_id_version_fkey FOREIGN KEY (program_id, version) REFERENCES program_terms(program_id, version)
);

create table accounts (
  id text not null,
  user_id text not null,
  provider_id text not null,
  account_id text not null,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamp with time zone,
  refresh_token_expires_at timestamp with time zone,
  scope text,
  password text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint accounts_pkey PRIMARY KEY (id),
  constraint accounts_provider_id_account_id_key UNIQUE (provider_id, account_id),
  constraint accounts_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX accounts_user_id_idx ON public.accounts USING btree (user_id);
CREATE TRIGGER accounts_password_audit AFTER UPDATE OF password ON public.accounts FOR EACH ROW WHEN ((old.password IS DISTINCT FROM new.password)) EXECUTE FUNCTION audit_sign_in_change('member.password_changed');

create table adjustments (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint not null,
  currency currency_code not null,
  amount_cents bigint not null,
  note reason_text,
  sale_id bigint,
  external_id text,
  request_id uuid not null,
  import_id bigint,
  paid_at timestamp with time zone,
  payout_id bigint,
  created_at timestamp with time zone not null default now(),
  constraint adjustments_pkey PRIMARY KEY (program_id, id),
  constraint adjustments_external_id_key UNIQUE (program_id, external_id),
  constraint adjustments_program_id_id_partner_id_currency_key UNIQUE (program_id, id, partner_id, currency),
  constraint adjustments_request_key UNIQUE (program_id, request_id),
  constraint adjustments_amount_cents_check CHECK (((amount_cents <> 0) AND (abs(amount_cents) <= '9999999999999'::bigint))),
  constraint adjustments_check CHECK (((num_nulls(paid_at, payout_id) = ANY (ARRAY[0, 2])) AND ((paid_at IS NULL) OR (amount_cents > 0)))),
  constraint adjustments_external_id_check CHECK (((length(external_id) >= 1) AND (length(external_id) <= 255))),
  constraint adjustments_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint adjustments_program_id_payout_id_partner_id_currency_fkey FOREIGN KEY (program_id, payout_id, partner_id, currency) REFERENCES payouts(program_id, id, partner_id, currency),
  constraint adjustments_program_id_sale_id_fkey FOREIGN KEY (program_id, sale_id) REFERENCES sales(program_id, id)
);
CREATE INDEX adjustments_partner_idx ON public.adjustments USING btree (program_id, partner_id, id);
CREATE INDEX adjustments_payout_idx ON public.adjustments USING btree (program_id, payout_id) WHERE (payout_id IS NOT NULL);
CREATE INDEX adjustments_sale_idx ON public.adjustments USING btree (program_id, sale_id) WHERE (sale_id IS NOT NULL);
CREATE TRIGGER adjustments_stay BEFORE DELETE OR UPDATE ON public.adjustments FOR EACH ROW EXECUTE FUNCTION refuse_adjustment_change();

create table affiliate_click_events (
  program_id bigint not null,
  click_timestamp timestamp with time zone not null,
  id bigint not null,
  customer_id bigint,
  link_id bigint,
  visitor bigint,
  created_at timestamp with time zone default now(),
  click_random bigint,
  click_ms bigint,
  landing_part integer,
  page_part integer,
  browser_part integer,
  place_part integer,
  referrer_part integer,
  is_test boolean not null default false,
  click_id text,
  session_id text,
  affiliate_url text,
  page_url text,
  page_title text,
  referrer_url text,
  user_agent text,
  screen_resolution text,
  viewport_size text,
  language text,
  timezone text,
  geo_country text,
  geo_region text,
  geo_city text,
  device_type text,
  device_os text,
  browser_name text,
  additional_data jsonb,
  campaign jsonb,
  constraint affiliate_click_events_pkey PRIMARY KEY (program_id, is_test, click_timestamp, id)
) partition by RANGE (click_timestamp);
CREATE INDEX affiliate_click_events_customer_idx ON ONLY public.affiliate_click_events USING brin (customer_id int8_bloom_ops (n_distinct_per_range='-0.15'), click_timestamp) WITH (pages_per_range='8', autosummarize='on');

create table affiliate_click_events_default partition of affiliate_click_events DEFAULT;

create table affiliate_lead_events (
  program_id bigint not null,
  is_test boolean not null default false,
  lead_timestamp timestamp with time zone not null default now(),
  id bigint not null default nextval('affiliate_lead_events_id_seq'::regclass),
  customer_id bigint,
  customer_key text,
  provisional boolean not null default false,
  test_source text,
  session_id text,
  page_url text,
  additional_data jsonb,
  created_at timestamp with time zone not null default now(),
  constraint affiliate_lead_events_pkey PRIMARY KEY (program_id, is_test, lead_timestamp, id),
  constraint affiliate_lead_events_check CHECK (((NOT provisional) OR (customer_key IS NULL))),
  constraint affiliate_lead_events_check1 CHECK ((is_test OR (customer_id IS NOT NULL))),
  constraint affiliate_lead_events_test_source_check CHECK ((test_source = ANY (ARRAY['key'::text, 'test_link'::text])))
) partition by RANGE (lead_timestamp);
CREATE INDEX affiliate_lead_events_customer_idx ON ONLY public.affiliate_lead_events USING btree (program_id, customer_id) WHERE (customer_id IS NOT NULL);

create table affiliate_lead_events_default partition of affiliate_lead_events DEFAULT;

create table api_keys (
  id bigint not null generated always as identity,
  program_id bigint not null,
  key_hash bytea not null,
  name text not null default 'default'::text,
  hint text not null,
  scopes text[] not null default '{track}'::text[],
  created_by text,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone,
  last_used_at timestamp with time zone,
  revoked_at timestamp with time zone,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_hash_key UNIQUE (key_hash),
  constraint api_keys_hint_check CHECK ((length(hint) = 4)),
  constraint api_keys_key_hash_check CHECK ((length(key_hash) = 32)),
  constraint api_keys_name_check CHECK (((length(name) >= 1) AND (length(name) <= 100))),
  constraint api_keys_scopes CHECK (((scopes <@ '{track,read,manage}'::text[]) AND (cardinality(scopes) > 0))),
  constraint api_keys_created_by_fkey FOREIGN KEY (created_by) REFERENCES users(id) ON DELETE SET NULL,
  constraint api_keys_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX api_keys_creator_idx ON public.api_keys USING btree (created_by);
CREATE INDEX api_keys_program_idx ON public.api_keys USING btree (program_id);
CREATE TRIGGER api_keys_created_audit AFTER INSERT ON public.api_keys FOR EACH ROW EXECUTE FUNCTION audit_api_key();
CREATE TRIGGER api_keys_of_deleted BEFORE INSERT ON public.api_keys FOR EACH ROW EXECUTE FUNCTION revoke_key_of_deleted_program();
CREATE TRIGGER api_keys_revoked_audit AFTER UPDATE OF revoked_at ON public.api_keys FOR EACH ROW WHEN (((old.revoked_at IS NULL) AND (new.revoked_at IS NOT NULL))) EXECUTE FUNCTION audit_api_key();

create table applications (
  program_id bigint not null,
  id bigint not null generated always as identity,
  status text not null default 'unverified'::text,
  source text not null,
  user_id text,
  name name_text not null,
  email text,
  answers jsonb not null default '[]'::jsonb,
  terms_version integer,
  token_hash bytea,
  applied_at timestamp with time zone not null default now(),
  verified_at timestamp with time zone,
  decided_at timestamp with time zone,
  decided_by text,
  decided_by_key bigint,
  note text,
  partner_id bigint,
  constraint applications_pkey PRIMARY KEY (program_id, id),
  constraint applications_token_hash_key UNIQUE (token_hash),
  constraint applications_answers_check CHECK ((jsonb_typeof(answers) = 'array'::text)),
  constraint applications_check CHECK (((email IS NOT NULL) OR (status = 'approved'::text))),
  constraint applications_decided CHECK (((status = ANY (ARRAY['approved'::text, 'rejected'::text])) = (decided_at IS NOT NULL))),
  constraint applications_email_check CHECK (((email = lower(email)) AND is_one_address(email))),
  constraint applications_note_check CHECK (((length(note) >= 1) AND (length(note) <= 1000))),
  constraint applications_partner CHECK (((status = 'approved'::text) = (partner_id IS NOT NULL))),
  constraint applications_source_check CHECK ((source = ANY (ARRAY['page'::text, 'api'::text]))),
  constraint applications_status CHECK ((status = ANY (ARRAY['unverified'::text, 'waiting'::text, 'approved'::text, 'rejected'::text]))),
  constraint applications_verified CHECK (((status = 'unverified'::text) = (verified_at IS NULL))),
  constraint applications_decided_by_fkey FOREIGN KEY (decided_by) REFERENCES users(id) ON DELETE SET NULL,
  constraint applications_decided_by_key_fkey FOREIGN KEY (decided_by_key) REFERENCES api_keys(id) ON DELETE SET NULL,
  constraint applications_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint applications_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint applications_program_id_terms_version_fkey FOREIGN KEY (program_id, terms_version) REFERENCES program_terms(program_id, version),
  constraint applications_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE SET NULL
);
CREATE INDEX applications_decider_idx ON public.applications USING btree (decided_by) WHERE (decided_by IS NOT NULL);
CREATE INDEX applications_email_idx ON public.applications USING btree (email, program_id);
CREATE INDEX applications_key_idx ON public.applications USING btree (decided_by_key) WHERE (decided_by_key IS NOT NULL);
CREATE INDEX applications_mailbox_idx ON public.applications USING btree (program_id, mailbox_of(email));
CREATE INDEX applications_partner_idx ON public.applications USING btree (program_id, partner_id) WHERE (partner_id IS NOT NULL);
CREATE INDEX applications_rejected_idx ON public.applications USING btree (decided_at) WHERE (status = 'rejected'::text);
CREATE INDEX applications_status_idx ON public.applications USING btree (program_id, status, id);
CREATE INDEX applications_unverified_idx ON public.applications USING btree (applied_at) WHERE (status = 'unverified'::text);
CREATE INDEX applications_user_idx ON public.applications USING btree (user_id) WHERE (user_id IS NOT NULL);
CREATE UNIQUE INDEX applications_waiting_key ON public.applications USING btree (program_id, email) WHERE (status = 'waiting'::text);
CREATE TRIGGER applications_audit AFTER UPDATE OF status ON public.applications FOR EACH ROW WHEN (((old.status = 'waiting'::text) AND (new.status = ANY (ARRAY['approved'::text, 'rejected'::text])))) EXECUTE FUNCTION audit_application();

create table archive_parts (
  program_id bigint not null,
  import_id bigint not null,
  part integer not null,
  content bytea not null,
  constraint archive_parts_pkey PRIMARY KEY (program_id, import_id, part),
  constraint archive_parts_content_check CHECK (((octet_length(content) >= 1) AND (octet_length(content) <= ((4 * 1024) * 1024)))),
  constraint archive_parts_program_id_import_id_fkey FOREIGN KEY (program_id, import_id) REFERENCES imports(program_id, id) ON DELETE CASCADE
);

create table archive_rows (
  program_id bigint not null,
  import_id bigint not null,
  id bigint not null,
  kind text not null,
  old_id bigint,
  new_id bigint,
  fields jsonb not null,
  constraint archive_rows_pkey PRIMARY KEY (program_id, import_id, id),
  constraint archive_rows_old_id_key UNIQUE (program_id, import_id, kind, old_id),
  constraint archive_rows_check CHECK ((num_nulls(old_id, new_id) = ANY (ARRAY[0, 2]))),
  constraint archive_rows_kind_check CHECK ((length(kind) <= 60)),
  constraint archive_rows_program_id_import_id_fkey FOREIGN KEY (program_id, import_id) REFERENCES imports(program_id, id) ON DELETE CASCADE
);
CREATE INDEX archive_rows_kind_idx ON public.archive_rows USING btree (program_id, import_id, kind, id);

create table audit_findings (
  program_id bigint not null,
  id bigint not null generated always as identity,
  rule text not null,
  broken integer not null,
  subject text not null,
  found text,
  expected text,
  constraint audit_findings_pkey PRIMARY KEY (program_id, id)
);

create table audit_log (
  id bigint not null generated always as identity,
  workspace_id text not null,
  program_id bigint,
  user_id text,
  api_key_id bigint,
  action text not null,
  subject text,
  subject_user_id text,
  details jsonb not null default '{}'::jsonb,
  created_at timestamp with time zone not null default now(),
  constraint audit_log_pkey PRIMARY KEY (id),
  constraint audit_log_action_check CHECK (((action ~ '^[a-z_]+\.[a-z_]+$'::text) AND (length(action) <= 60))),
  constraint audit_log_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 500)))
);
CREATE INDEX audit_log_created_idx ON public.audit_log USING btree (created_at);
CREATE INDEX audit_log_workspace_idx ON public.audit_log USING btree (workspace_id, id DESC);
CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE ON public.audit_log FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_log_no_truncate BEFORE TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

create table audits (
  is_latest boolean not null default true,
  started_at timestamp with time zone not null,
  duration_ms integer not null,
  rules integer not null,
  constraint audits_pkey PRIMARY KEY (is_latest),
  constraint audits_is_latest_check CHECK (is_latest)
);

create table balance_entries (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  entry_number bigint not null,
  amount_cents bigint not null,
  balance_before_cents bigint not null,
  balance_after_cents bigint not null,
  cause text not null,
  commission_id bigint,
  correction_number integer,
  refund_id bigint,
  payout_id bigint,
  adjustment_id bigint,
  reference text,
  created_at timestamp with time zone not null default now(),
  entry_hash bytea not null,
  previous_entry_number bigint generated always as (NULLIF((entry_number - 1), 0)) stored,
  constraint balance_entries_have_balance TRIGGER DEFERRABLE INITIALLY DEFERRED,
  constraint balance_entries_pkey PRIMARY KEY (program_id, partner_id, currency, entry_number),
  constraint balance_entries_cause_key UNIQUE NULLS NOT DISTINCT (program_id, cause, commission_id, correction_number, refund_id, payout_id, adjustment_id),
  constraint balance_entries_program_id_partner_id_currency_entry_number_key UNIQUE (program_id, partner_id, currency, entry_number, balance_after_cents),
  constraint balance_entries_amount_cents_check CHECK ((amount_cents <> 0)),
  constraint balance_entries_cause_check CHECK ((cause = ANY (ARRAY['commission_credited'::text, 'commission_corrected'::text, 'commission_reversed'::text, 'reversal_returned'::text, 'adjusted'::text, 'opening_balance'::text, 'payout_paid'::text, 'payout_returned'::text]))),
  constraint balance_entries_check CHECK (((entry_number > 1) OR (balance_before_cents = 0))),
  constraint balance_entries_check1 CHECK (((balance_before_cents + amount_cents) = balance_after_cents)),
  constraint balance_entries_check2 CHECK ((
CASE cause
    WHEN 'commission_credited'::text THEN ((amount_cents > 0) AND (commission_id IS NOT NULL) AND (refund_id IS NULL) AND (payout_id IS NULL))
    WHEN 'commission_corrected'::text THEN ((commission_id IS NOT NULL) AND (correction_number IS NOT NULL) AND (refund_id IS NULL) AND (payout_id IS NULL))
    WHEN 'commission_reversed'::text THEN ((amount_cents < 0) AND (commission_id IS NOT NULL) AND (payout_id IS NULL))
    WHEN 'reversal_returned'::text THEN ((amount_cents > 0) AND (commission_id IS NOT NULL) AND (refund_id IS NOT NULL) AND (payout_id IS NULL))
    WHEN 'adjusted'::text THEN (num_nonnulls(commission_id, refund_id, payout_id) = 0)
    WHEN 'opening_balance'::text THEN (num_nonnulls(commission_id, refund_id, payout_id) = 0)
    WHEN 'payout_returned'::text THEN ((amount_cents > 0) AND (payout_id IS NOT NULL) AND (commission_id IS NULL) AND (refund_id IS NULL))
    ELSE ((amount_cents < 0) AND (payout_id IS NOT NULL) AND (commission_id IS NULL) AND (refund_id IS NULL))
END AND ((cause = ANY (ARRAY['adjusted'::text, 'opening_balance'::text])) = (adjustment_id IS NOT NULL)) AND ((cause = ANY (ARRAY['payout_paid'::text, 'payout_returned'::text])) = (reference IS NOT NULL)))),
  constraint balance_entries_entry_hash_check CHECK ((length(entry_hash) = 32)),
  constraint balance_entries_entry_number_check CHECK ((entry_number > 0)),
  constraint balance_entries_program_id_adjustment_id_partner_id_curren_fkey FOREIGN KEY (program_id, adjustment_id, partner_id, currency) REFERENCES adjustments(program_id, id, partner_id, currency),
  constraint balance_entries_program_id_commission_id_partner_id_curren_fkey FOREIGN KEY (program_id, commission_id, partner_id, currency) REFERENCES commissions(program_id, id, partner_id, currency),
  constraint balance_entries_program_id_partner_id_currency_previous_en_fkey FOREIGN KEY (program_id, partner_id, currency, previous_entry_number, balance_before_cents) REFERENCES balance_entries(program_id, partner_id, currency, entry_number, balance_after_cents),
  constraint balance_entries_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint balance_entries_program_id_payout_id_partner_id_currency_fkey FOREIGN KEY (program_id, payout_id, partner_id, currency) REFERENCES payouts(program_id, id, partner_id, currency),
  constraint balance_entries_program_id_refund_id_fkey FOREIGN KEY (program_id, refund_id) REFERENCES refunds(program_id, id)
);
CREATE INDEX balance_entries_adjustment_idx ON public.balance_entries USING btree (program_id, adjustment_id) WHERE (adjustment_id IS NOT NULL);
CREATE INDEX balance_entries_refund_idx ON public.balance_entries USING btree (program_id, refund_id) WHERE (refund_id IS NOT NULL);
CREATE TRIGGER balance_entries_append_only BEFORE DELETE OR UPDATE ON public.balance_entries FOR EACH ROW EXECUTE FUNCTION refuse_ledger_change();
CREATE TRIGGER balance_entries_chain BEFORE INSERT ON public.balance_entries FOR EACH ROW WHEN ((new.entry_hash IS NULL)) EXECUTE FUNCTION chain_entry();
CREATE CONSTRAINT TRIGGER balance_entries_have_balance AFTER INSERT ON public.balance_entries DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION require_balance_of_entry();
CREATE TRIGGER balance_entries_not_in_shadow_mode BEFORE INSERT ON public.balance_entries FOR EACH ROW WHEN (((new.cause = ANY (ARRAY['commission_credited'::text, 'adjusted'::text, 'payout_paid'::text])) OR ((new.cause = 'opening_balance'::text) AND (new.amount_cents > 0)))) EXECUTE FUNCTION refuse_credit_in_shadow_mode();

create table balances (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  balance_cents bigint not null default 0,
  entry_count bigint not null default 0,
  last_entry_number bigint generated always as (NULLIF(entry_count, 0)) stored,
  constraint balances_pkey PRIMARY KEY (program_id, partner_id, currency),
  constraint balances_check CHECK (((entry_count > 0) OR (balance_cents = 0))),
  constraint balances_entry_count_check CHECK ((entry_count >= 0)),
  constraint balances_program_id_partner_id_currency_last_entry_number__fkey FOREIGN KEY (program_id, partner_id, currency, last_entry_number, balance_cents) REFERENCES balance_entries(program_id, partner_id, currency, entry_number, balance_after_cents),
  constraint balances_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);

create table blocks (
  id bigint not null generated always as identity,
  program_id bigint,
  network cidr,
  reason text not null,
  created_at timestamp with time zone not null default now(),
  ends_at timestamp with time zone not null,
  constraint blocks_pkey PRIMARY KEY (id),
  constraint blocks_check CHECK ((ends_at >= created_at)),
  constraint blocks_one_kind CHECK ((num_nonnulls(program_id, network) = 1)),
  constraint blocks_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 300))),
  constraint blocks_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);
CREATE INDEX blocks_network_idx ON public.blocks USING btree (ends_at) WHERE (network IS NOT NULL);
CREATE INDEX blocks_program_idx ON public.blocks USING btree (program_id, ends_at) WHERE (program_id IS NOT NULL);

create table bulk_job_rows (
  program_id bigint not null,
  job_id bigint not null,
  row_id bigint not null,
  before jsonb not null,
  is_undone boolean,
  constraint bulk_job_rows_pkey PRIMARY KEY (program_id, job_id, row_id),
  constraint bulk_job_rows_program_id_job_id_fkey FOREIGN KEY (program_id, job_id) REFERENCES bulk_jobs(program_id, id) ON DELETE CASCADE
);

create table bulk_jobs (
  program_id bigint not null,
  id bigint not null generated always as identity,
  kind text not null,
  settings jsonb not null,
  row_count integer not null,
  position bigint not null,
  started_by text,
  started_at timestamp with time zone not null default now(),
  finished_at timestamp with time zone,
  undone_at timestamp with time zone,
  constraint bulk_jobs_pkey PRIMARY KEY (program_id, id),
  constraint bulk_jobs_kind_check CHECK ((kind = ANY (ARRAY['approve'::text, 'reject'::text, 'deactivate'::text, 'move'::text, 'rate'::text, 'invite'::text, 'message'::text]))),
  constraint bulk_jobs_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint bulk_jobs_started_by_fkey FOREIGN KEY (started_by) REFERENCES users(id) ON DELETE SET NULL
);
CREATE INDEX bulk_jobs_started_idx ON public.bulk_jobs USING btree (started_at);
CREATE INDEX bulk_jobs_starter_idx ON public.bulk_jobs USING btree (started_by) WHERE (started_by IS NOT NULL);

create table click_parts (
  program_id bigint not null,
  id integer not null generated always as identity,
  month date not null,
  hash uuid not null,
  part jsonb not null,
  constraint click_parts_pkey PRIMARY KEY (program_id, id),
  constraint click_parts_program_id_month_hash_key UNIQUE (program_id, month, hash)
);

create table click_sink (
  is_only boolean not null default true,
  taken bigint not null default 0,
  sent bigint not null default 0,
  copied_program_id bigint default 0,
  copied_until timestamp with time zone not null default '-infinity'::timestamp with time zone,
  copied_id bigint not null default 0,
  counted_program_id bigint default 0,
  counted_name grouping_name not null default 'all'::grouping_name,
  counted_metric grouped_metric not null default 'clicks'::grouped_metric,
  counted_day date not null default '-infinity'::date,
  counted_value text not null default ''::text,
  is_complete boolean not null default false,
  up_to timestamp with time zone not null default '1970-01-01 00:00:00+00'::timestamp with time zone,
  dropped_before timestamp with time zone not null default '-infinity'::timestamp with time zone,
  constraint click_sink_pkey PRIMARY KEY (is_only),
  constraint click_sink_is_only_check CHECK (is_only)
);

create table clicks_kept (
  is_only boolean not null default true,
  since timestamp with time zone not null,
  constraint clicks_kept_pkey PRIMARY KEY (is_only),
  constraint clicks_kept_is_only_check CHECK (is_only)
);

create table commission_reviews (
  program_id bigint not null,
  commission_id bigint not null,
  flags jsonb not null,
  flagged_at timestamp with time zone not null default now(),
  decision text,
  note reason_text,
  decided_at timestamp with time zone,
  decided_by text,
  decided_by_key bigint,
  constraint commission_reviews_pkey PRIMARY KEY (program_id, commission_id),
  constraint commission_reviews_check CHECK ((num_nulls(decision, decided_at) = ANY (ARRAY[0, 2]))),
  constraint commission_reviews_decision_check CHECK ((decision = ANY (ARRAY['released'::text, 'rejected'::text]))),
  constraint commission_reviews_decided_by_fkey FOREIGN KEY (decided_by) REFERENCES users(id) ON DELETE SET NULL,
  constraint commission_reviews_decided_by_key_fkey FOREIGN KEY (decided_by_key) REFERENCES api_keys(id),
  constraint commission_reviews_program_id_commission_id_fkey FOREIGN KEY (program_id, commission_id) REFERENCES commissions(program_id, id)
);
CREATE INDEX commission_reviews_user_idx ON public.commission_reviews USING btree (decided_by) WHERE (decided_by IS NOT NULL);

create table commission_rules (
  program_id bigint not null,
  id bigint not null generated always as identity,
  group_id bigint,
  partner_id bigint,
  product_id text,
  sale_type text,
  commission_bp integer not null default 0,
  commission_fixed_cents amount_cents not null default 0,
  lifetime_cap_cents amount_cents,
  commission_duration_months integer,
  lead_commission_cents amount_cents,
  since_version integer not null,
  until_version integer,
  created_at timestamp with time zone not null default now(),
  ended_at timestamp with time zone,
  constraint commission_rules_pkey PRIMARY KEY (program_id, id),
  constraint commission_rules_check CHECK ((until_version > since_version)),
  constraint commission_rules_check1 CHECK (((num_nonnulls(product_id, sale_type) <= 1) AND (num_nonnulls(group_id, partner_id, product_id, sale_type) > 0))),
  constraint commission_rules_check2 CHECK (((lead_commission_cents IS NULL) OR (num_nonnulls(product_id, sale_type) = 0))),
  constraint commission_rules_check3 CHECK ((num_nulls(until_version, ended_at) = ANY (ARRAY[0, 2]))),
  constraint commission_rules_commission_bp_check CHECK (((commission_bp >= 0) AND (commission_bp <= 10000))),
  constraint commission_rules_commission_duration_months_check CHECK (((commission_duration_months >= 1) AND (commission_duration_months <= 1200))),
  constraint commission_rules_holder CHECK ((num_nonnulls(group_id, partner_id) <= 1)),
  constraint commission_rules_product_id_check CHECK (((length(product_id) >= 1) AND (length(product_id) <= 255))),
  constraint commission_rules_sale_type_check CHECK (((length(sale_type) >= 1) AND (length(sale_type) <= 64))),
  constraint commission_rules_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint commission_rules_program_id_group_id_fkey FOREIGN KEY (program_id, group_id) REFERENCES partner_groups(program_id, id),
  constraint commission_rules_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE INDEX commission_rules_holder_idx ON public.commission_rules USING btree (program_id, partner_id, group_id);
CREATE UNIQUE INDEX commission_rules_key ON public.commission_rules USING btree (program_id, group_id, partner_id, product_id, sale_type) NULLS NOT DISTINCT WHERE (ended_at IS NULL);
CREATE TRIGGER commission_rules_audit AFTER INSERT OR UPDATE ON public.commission_rules FOR EACH ROW EXECUTE FUNCTION audit_commission_rule();
CREATE TRIGGER commission_rules_stay BEFORE DELETE OR UPDATE ON public.commission_rules FOR EACH ROW EXECUTE FUNCTION refuse_rule_change();

create table commissions (
  program_id bigint not null,
  id bigint not null generated always as identity,
  kind commission_kind not null,
  partner_id bigint not null,
  moved_at timestamp with time zone,
  customer_id bigint not null,
  sale_id bigint,
  currency currency_code not null,
  amount_cents amount_cents not null,
  correction_count integer not null default 0,
  corrections jsonb,
  reversed_cents amount_cents not null default 0,
  reversal reversal_kind not null default 'none'::text,
  reason reason_text,
  review_reason review_reason,
  hold_until timestamp with time zone not null,
  credited_at timestamp with time zone,
  paid_at timestamp with time zone,
  payout_id bigint,
  rejected_at timestamp with time zone,
  held_at timestamp with time zone,
  flags_checked_at timestamp with time zone,
  lead_rule_id bigint,
  code_id bigint,
  is_shadow boolean not null default false,
  status commission_status not null default 'pending'::text,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint commissions_pkey PRIMARY KEY (program_id, id),
  constraint commissions_program_id_id_partner_id_currency_key UNIQUE (program_id, id, partner_id, currency),
  constraint commissions_sale_key UNIQUE (program_id, sale_id),
  constraint commissions_program_id_customer_id_fkey FOREIGN KEY (program_id, customer_id) REFERENCES customers(program_id, id),
  constraint commissions_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint commissions_program_id_payout_id_partner_id_currency_fkey FOREIGN KEY (program_id, payout_id, partner_id, currency) REFERENCES payouts(program_id, id, partner_id, currency),
  constraint commissions_program_id_sale_id_fkey FOREIGN KEY (program_id, sale_id) REFERENCES sales(program_id, id)
);
CREATE INDEX commissions_created_idx ON public.commissions USING btree (program_id, created_at, id);
CREATE INDEX commissions_customer_idx ON public.commissions USING btree (program_id, customer_id);
CREATE INDEX commissions_due_idx ON public.commissions USING btree (hold_until, program_id, id) WHERE ((credited_at IS NULL) AND (rejected_at IS NULL) AND ((reversal)::text <> 'full'::text) AND (held_at IS NULL) AND (NOT is_shadow));
CREATE INDEX commissions_held_idx ON public.commissions USING btree (program_id, id) WHERE (held_at IS NOT NULL);
CREATE UNIQUE INDEX commissions_lead_key ON public.commissions USING btree (program_id, customer_id) WHERE ((kind)::text = 'lead'::text);
CREATE INDEX commissions_partner_idx ON public.commissions USING btree (program_id, partner_id, id);
CREATE INDEX commissions_payout_idx ON public.commissions USING btree (program_id, payout_id) WHERE (payout_id IS NOT NULL);
CREATE INDEX commissions_review_idx ON public.commissions USING btree (program_id, id) WHERE (review_reason IS NOT NULL);
CREATE INDEX commissions_unchecked_idx ON public.commissions USING btree (program_id, id) WHERE ((flags_checked_at IS NULL) AND (credited_at IS NULL) AND (rejected_at IS NULL) AND ((reversal)::text <> 'full'::text));
CREATE INDEX commissions_unpaid_idx ON public.commissions USING btree (program_id, partner_id, currency, id) WHERE ((credited_at IS NOT NULL) AND (paid_at IS NULL));
CREATE INDEX commissions_updated_idx ON public.commissions USING btree (program_id, updated_at);
CREATE TRIGGER commissions_changed BEFORE UPDATE ON public.commissions FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION note_change();
CREATE TRIGGER commissions_sound BEFORE INSERT OR UPDATE ON public.commissions FOR EACH ROW EXECUTE FUNCTION keep_commission_sound();

create table customer_origins (
  program_id bigint not null,
  customer_id bigint not null,
  origin jsonb not null,
  constraint customer_origins_pkey PRIMARY KEY (program_id, customer_id),
  constraint customer_origins_program_id_customer_id_fkey FOREIGN KEY (program_id, customer_id) REFERENCES customers(program_id, id) ON DELETE CASCADE
);
CREATE STATISTICS public.customer_origins_country ON (origin ->> 'country'::text) FROM customer_origins;

create table customers (
  program_id bigint not null,
  id bigint not null generated always as identity,
  click_id text not null,
  customer_key text,
  email_hash bytea,
  mailbox_hash bytea,
  key_unverified_since timestamp with time zone,
  email_unverified_since timestamp with time zone,
  link_id bigint,
  partner_id bigint not null,
  code_id bigint,
  customer_status text not null default 'click'::text,
  last_click_at timestamp with time zone,
  provisional_lead_at timestamp with time zone,
  provisional_lead_event_id bigint,
  signup_date timestamp with time zone,
  lead_event_id bigint,
  first_purchase_date timestamp with time zone,
  imported_at timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint customers_pkey PRIMARY KEY (program_id, id),
  constraint customers_click_id_key UNIQUE (program_id, click_id)
);
CREATE UNIQUE INDEX customers_customer_key_key ON public.customers USING btree (program_id, customer_key) WHERE (customer_key IS NOT NULL);
CREATE INDEX customers_email_idx ON public.customers USING btree (program_id, email_hash) WHERE (email_hash IS NOT NULL);
CREATE INDEX customers_first_purchase_idx ON public.customers USING btree (program_id, first_purchase_date) WHERE (first_purchase_date IS NOT NULL);
CREATE INDEX customers_partner_idx ON public.customers USING btree (program_id, partner_id, id) WHERE ((customer_status <> 'click'::text) OR (provisional_lead_at IS NOT NULL));
CREATE INDEX customers_signup_idx ON public.customers USING btree (program_id, signup_date) WHERE (signup_date IS NOT NULL);
CREATE INDEX customers_updated_idx ON public.customers USING btree (program_id, updated_at) WHERE ((customer_status <> 'click'::text) OR (provisional_lead_at IS NOT NULL));
CREATE STATISTICS public.customers_link_statistics (dependencies) ON link_id, partner_id FROM customers;
CREATE TRIGGER customers_sound AFTER INSERT OR UPDATE ON public.customers FOR EACH ROW EXECUTE FUNCTION refuse_unsound_customer();

create table customers_expired (
  program_id bigint not null,
  up_to timestamp with time zone not null,
  constraint customers_expired_pkey PRIMARY KEY (program_id),
  constraint customers_expired_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);

create table daily_money (
  program_id bigint not null,
  day date not null,
  currency currency_code not null,
  slot smallint not null,
  sales bigint not null default 0,
  revenue_cents bigint not null default 0,
  commission_cents bigint not null default 0,
  refunded_cents bigint not null default 0,
  sales_by_hour bigint[],
  revenue_cents_by_hour bigint[],
  commission_cents_by_hour bigint[],
  refunded_cents_by_hour bigint[],
  constraint daily_money_pkey PRIMARY KEY (program_id, day, currency, slot)
) with (fillfactor=50);
CREATE INDEX daily_money_unfolded_idx ON public.daily_money USING btree (day) WHERE (slot > 0);

create table daily_totals (
  program_id bigint not null,
  day date not null,
  slot smallint not null,
  clicks event_count not null default 0,
  leads event_count not null default 0,
  conversions bigint not null default 0,
  clicks_by_hour bigint[],
  leads_by_hour bigint[],
  conversions_by_hour bigint[],
  constraint daily_totals_pkey PRIMARY KEY (program_id, day, slot)
) with (fillfactor=50);
CREATE INDEX daily_totals_unfolded_idx ON public.daily_totals USING btree (day) WHERE (slot > 0);

create table document_series (
  program_id bigint not null,
  series text not null,
  last_number bigint not null,
  constraint document_series_pkey PRIMARY KEY (program_id, series),
  constraint document_series_last_number_check CHECK ((last_number > 0)),
  constraint document_series_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);

create table documents (
  program_id bigint not null,
  id bigint not null generated always as identity,
  series text not null,
  number bigint not null,
  kind text not null,
  payout_id bigint not null,
  payment_number integer not null,
  partner_id bigint not null,
  currency currency_code not null,
  amount_cents positive_cents not null,
  paid_on date not null,
  reference text not null,
  terms_version integer not null,
  issuer jsonb not null,
  payee jsonb not null,
  lines jsonb not null,
  is_reverse_charge boolean not null,
  vat_bp integer,
  corrects_id bigint,
  issued_at timestamp with time zone not null default clock_timestamp(),
  voided_at timestamp with time zone,
  void_reason reason_text,
  constraint documents_pkey PRIMARY KEY (program_id, id),
  constraint documents_number_key UNIQUE (program_id, series, number),
  constraint documents_check CHECK (((vat_bp IS NULL) OR (NOT is_reverse_charge))),
  constraint documents_check1 CHECK (((kind = 'credit_note'::text) = (corrects_id IS NOT NULL))),
  constraint documents_check2 CHECK (((num_nulls(voided_at, void_reason) = ANY (ARRAY[0, 2])) AND ((voided_at IS NULL) OR (kind = 'invoice'::text)))),
  constraint documents_kind_check CHECK ((kind = ANY (ARRAY['invoice'::text, 'credit_note'::text]))),
  constraint documents_number_check CHECK ((number > 0)),
  constraint documents_payment_number_check CHECK ((payment_number > 0)),
  constraint documents_program_id_corrects_id_fkey FOREIGN KEY (program_id, corrects_id) REFERENCES documents(program_id, id),
  constraint documents_program_id_payout_id_partner_id_currency_amount__fkey FOREIGN KEY (program_id, payout_id, partner_id, currency, amount_cents) REFERENCES payouts(program_id, id, partner_id, currency, amount_cents),
  constraint documents_program_id_series_fkey FOREIGN KEY (program_id, series) REFERENCES document_series(program_id, series),
  constraint documents_program_id_terms_version_fkey FOREIGN KEY (program_id, terms_version) REFERENCES program_terms(program_id, version)
);
CREATE UNIQUE INDEX documents_corrects_key ON public.documents USING btree (program_id, corrects_id) WHERE (corrects_id IS NOT NULL);
CREATE INDEX documents_partner_idx ON public.documents USING btree (program_id, partner_id, id);
CREATE UNIQUE INDEX documents_payment_key ON public.documents USING btree (program_id, payout_id, payment_number, kind) WHERE (voided_at IS NULL);
CREATE TRIGGER documents_stay BEFORE DELETE OR UPDATE ON public.documents FOR EACH ROW EXECUTE FUNCTION keep_document();

create table erased_payees (
  program_id bigint not null,
  partner_id bigint not null,
  identity bytea not null,
  erased_at timestamp with time zone not null default now(),
  constraint erased_payees_pkey PRIMARY KEY (program_id, partner_id),
  constraint erased_payees_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE INDEX erased_payees_erased_idx ON public.erased_payees USING btree (erased_at);

create table export_rows (
  program_id bigint not null,
  export_id bigint not null,
  kind text not null,
  place bigint not null,
  fields json not null,
  constraint export_rows_pkey PRIMARY KEY (program_id, export_id, kind, place),
  constraint export_rows_program_id_export_id_fkey FOREIGN KEY (program_id, export_id) REFERENCES exports(program_id, id) ON DELETE CASCADE
);

create table exports (
  program_id bigint not null,
  id bigint not null generated always as identity,
  row_counts jsonb not null default '{}'::jsonb,
  created_at timestamp with time zone not null default now(),
  constraint exports_pkey PRIMARY KEY (program_id, id),
  constraint exports_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX exports_created_idx ON public.exports USING btree (created_at);

create table grouped_quarters (
  program_id bigint not null,
  grouping_name grouping_name not null,
  metric grouped_metric not null,
  currency text not null,
  day date not null,
  value text not null,
  quarters smallint[] not null,
  sums bigint[] not null,
  constraint grouped_quarters_pkey PRIMARY KEY (program_id, grouping_name, metric, currency, day, value)
) with (fillfactor=70);

create table grouped_totals (
  program_id bigint not null,
  grouping_name grouping_name not null,
  span total_span not null,
  starts date not null,
  value text not null,
  currency text not null,
  clicks bigint not null,
  bot_clicks bigint not null,
  leads bigint not null,
  conversions bigint not null,
  sales bigint not null,
  revenue_cents bigint not null,
  commission_cents bigint not null,
  refunded_cents bigint not null,
  constraint grouped_totals_pkey PRIMARY KEY (program_id, grouping_name, span, starts, value, currency)
) with (fillfactor=70);
CREATE INDEX grouped_totals_code_idx ON public.grouped_totals USING btree (program_id, value) WHERE ((grouping_name = 'code'::grouping_name) AND (span = 'month'::total_span));
CREATE INDEX grouped_totals_link_idx ON public.grouped_totals USING btree (program_id, value) WHERE ((grouping_name = 'link'::grouping_name) AND (span = 'month'::total_span));
CREATE INDEX grouped_totals_partner_idx ON public.grouped_totals USING btree (program_id, value) WHERE ((grouping_name = 'partner'::grouping_name) AND (span = 'month'::total_span));

create table idempotency_keys (
  program_id bigint not null,
  token text not null,
  request_hash bytea not null,
  answer jsonb,
  created_at timestamp with time zone not null default now(),
  constraint idempotency_keys_pkey PRIMARY KEY (program_id, token),
  constraint idempotency_keys_request_hash_check CHECK ((length(request_hash) = 32)),
  constraint idempotency_keys_token_check CHECK (((length(token) >= 1) AND (length(token) <= 255))),
  constraint idempotency_keys_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);
CREATE INDEX idempotency_keys_created_idx ON public.idempotency_keys USING btree (created_at);

create table import_rows (
  program_id bigint not null,
  import_id bigint not null,
  id bigint not null,
  kind import_kind not null,
  source_id text not null,
  origin text not null,
  fields jsonb not null,
  outcome import_outcome,
  reason text,
  partner_row_id bigint,
  partner_id bigint,
  target_id bigint,
  replaced jsonb,
  is_applied boolean not null default false,
  constraint import_rows_pkey PRIMARY KEY (program_id, import_id, id),
  constraint import_rows_origin_check CHECK ((length(origin) <= 200)),
  constraint import_rows_reason_check CHECK ((length(reason) <= 60)),
  constraint import_rows_source_id_check CHECK (((length(source_id) >= 1) AND (length(source_id) <= 200))),
  constraint import_rows_program_id_import_id_fkey FOREIGN KEY (program_id, import_id) REFERENCES imports(program_id, id) ON DELETE CASCADE
);
CREATE INDEX import_rows_applied_idx ON public.import_rows USING btree (program_id, import_id, kind DESC, id DESC) WHERE is_applied;
CREATE INDEX import_rows_balance_idx ON public.import_rows USING btree (program_id, import_id, COALESCE(partner_row_id, (- partner_id))) WHERE (kind = 'balance'::import_kind);
CREATE INDEX import_rows_code_idx ON public.import_rows USING btree (program_id, import_id, kind, lower((fields ->> 'code'::text)), id) WHERE ((kind = ANY (ARRAY['link'::import_kind, 'code'::import_kind])) AND (outcome <> 'error'::import_outcome));
CREATE INDEX import_rows_email_idx ON public.import_rows USING btree (program_id, import_id, ((fields ->> 'email'::text)), id) WHERE ((kind = 'partner'::import_kind) AND (outcome <> 'error'::import_outcome));
CREATE INDEX import_rows_outcome_idx ON public.import_rows USING btree (program_id, import_id, outcome, id);
CREATE INDEX import_rows_source_idx ON public.import_rows USING btree (program_id, import_id, kind, source_id);
CREATE INDEX import_rows_target_idx ON public.import_rows USING btree (program_id, target_id) WHERE (kind = ANY (ARRAY['partner'::import_kind, 'customer'::import_kind]));
CREATE INDEX import_rows_unplanned_idx ON public.import_rows USING btree (program_id, import_id, kind, id) WHERE (outcome IS NULL);
CREATE INDEX import_rows_usable_idx ON public.import_rows USING btree (program_id, import_id, kind, source_id) WHERE (outcome <> 'error'::import_outcome);
CREATE INDEX import_rows_waiting_idx ON public.import_rows USING btree (program_id, import_id, kind, id) WHERE ((NOT is_applied) AND (outcome = ANY (ARRAY['create'::import_outcome, 'update'::import_outcome])));

create table imported_commissions (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint not null,
  customer_id bigint,
  external_id text not null,
  amount_cents bigint not null,
  currency currency_code not null,
  status text not null,
  sale_cents amount_cents,
  payment_id text,
  earned_at timestamp with time zone not null,
  constraint imported_commissions_pkey PRIMARY KEY (program_id, id),
  constraint imported_commissions_external_id_key UNIQUE (program_id, external_id),
  constraint imported_commissions_amount_cents_check CHECK ((abs(amount_cents) <= '9999999999999'::bigint)),
  constraint imported_commissions_external_id_check CHECK (((length(external_id) >= 1) AND (length(external_id) <= 255))),
  constraint imported_commissions_payment_id_check CHECK ((length(payment_id) <= 255)),
  constraint imported_commissions_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'approved'::text, 'paid'::text, 'rejected'::text]))),
  constraint imported_commissions_program_id_customer_id_fkey FOREIGN KEY (program_id, customer_id) REFERENCES customers(program_id, id),
  constraint imported_commissions_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE INDEX imported_commissions_customer_idx ON public.imported_commissions USING btree (program_id, customer_id) WHERE (customer_id IS NOT NULL);
CREATE INDEX imported_commissions_earned_idx ON public.imported_commissions USING btree (program_id, earned_at);
CREATE INDEX imported_commissions_partner_idx ON public.imported_commissions USING btree (program_id, partner_id, id);

create table imports (
  program_id bigint not null,
  id bigint not null generated always as identity,
  source text not null,
  state text not null default 'reading'::text,
  problem text,
  files jsonb,
  sealed_key bytea,
  position jsonb,
  failures integer not null default 0,
  part_count integer,
  row_count integer not null default 0,
  create_count integer not null default 0,
  update_count integer not null default 0,
  skip_count integer not null default 0,
  error_count integer not null default 0,
  applied_count integer not null default 0,
  archive_bytes bigint not null default 0,
  added_params text[] not null default '{}'::text[],
  created_at timestamp with time zone not null default now(),
  planned_at timestamp with time zone,
  applied_at timestamp with time zone,
  undone_at timestamp with time zone,
  constraint imports_pkey PRIMARY KEY (program_id, id),
  constraint imports_check CHECK (((state = 'reading'::text) OR (num_nonnulls(sealed_key, "position") = 0))),
  constraint imports_part_count_check CHECK (((part_count >= 1) AND (part_count <= 200))),
  constraint imports_problem_check CHECK ((length(problem) <= 1000)),
  constraint imports_source CHECK ((source = ANY (ARRAY['rewardful'::text, 'tolt'::text, 'firstpromoter'::text, 'partnerstack'::text, 'tapfiliate'::text, 'dub'::text, 'csv'::text, 'archive'::text]))),
  constraint imports_state CHECK ((state = ANY (ARRAY['reading'::text, 'planned'::text, 'applying'::text, 'applied'::text, 'undoing'::text, 'undone'::text, 'failed'::text]))),
  constraint imports_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX imports_unfinished_idx ON public.imports USING btree (program_id, id) WHERE (state = ANY (ARRAY['reading'::text, 'applying'::text, 'undoing'::text]));

create table join_pages (
  program_id bigint not null,
  slug text not null,
  is_open boolean not null default false,
  approves_at_once boolean not null default false,
  shows_numbers boolean not null default false,
  headline text,
  intro text,
  shows_terms boolean not null default true,
  shows_calculator boolean not null default true,
  faq jsonb not null default '[]'::jsonb,
  questions jsonb not null default '[]'::jsonb,
  terms_version integer,
  version integer not null default 1,
  constraint join_pages_pkey PRIMARY KEY (program_id),
  constraint join_pages_faq_check CHECK (((jsonb_typeof(faq) = 'array'::text) AND (jsonb_array_length(faq) <= 20))),
  constraint join_pages_headline_check CHECK (((length(headline) >= 1) AND (length(headline) <= 120))),
  constraint join_pages_intro_check CHECK (((length(intro) >= 1) AND (length(intro) <= 5000))),
  constraint join_pages_questions_check CHECK (((jsonb_typeof(questions) = 'array'::text) AND (jsonb_array_length(questions) <= 10))),
  constraint join_pages_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint join_pages_program_id_slug_fkey FOREIGN KEY (program_id, slug) REFERENCES join_slugs(program_id, slug),
  constraint join_pages_program_id_terms_version_fkey FOREIGN KEY (program_id, terms_version) REFERENCES program_terms(program_id, version)
);
CREATE TRIGGER join_pages_audit AFTER UPDATE ON public.join_pages FOR EACH ROW EXECUTE FUNCTION audit_join_page();

create table join_slugs (
  slug text not null,
  program_id bigint not null,
  created_at timestamp with time zone not null default now(),
  constraint join_slugs_pkey PRIMARY KEY (slug),
  constraint join_slugs_program_id_slug_key UNIQUE (program_id, slug),
  constraint join_slugs_slug_check CHECK ((((length(slug) >= 3) AND (length(slug) <= 60)) AND (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'::text))),
  constraint join_slugs_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);

create table link_clicks (
  program_id bigint not null,
  link_id bigint not null,
  clicks event_count not null,
  bot_clicks event_count not null default 0,
  last_clicked_at timestamp with time zone,
  constraint link_clicks_pkey PRIMARY KEY (program_id, link_id)
) with (fillfactor=50);

create table link_months (
  program_id bigint not null,
  link_id bigint not null,
  month date not null,
  clicks click_count not null,
  last_clicked_at timestamp with time zone not null,
  constraint link_months_pkey PRIMARY KEY (program_id, link_id, month)
) with (fillfactor=50);

create table mail_choices (
  user_id text not null,
  topic mail_topic not null,
  frequency mail_frequency not null,
  constraint mail_choices_pkey PRIMARY KEY (user_id, topic),
  constraint mail_choices_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table mail_counts (
  counted text not null,
  day date not null,
  mails integer not null,
  constraint mail_counts_pkey PRIMARY KEY (counted, day),
  constraint mail_counts_counted_check CHECK ((length(counted) <= 500)),
  constraint mail_counts_mails_check CHECK ((mails > 0))
);

create table mails (
  id bigint not null generated always as identity,
  recipient text not null,
  subject text not null,
  body text not null,
  html text,
  created_at timestamp with time zone not null default now(),
  constraint mails_pkey PRIMARY KEY (id)
);
CREATE INDEX mails_recipient_idx ON public.mails USING btree (recipient, id);

create table minimum_payouts (
  program_id bigint not null,
  currency currency_code not null,
  minimum_payout_cents amount_cents not null,
  constraint minimum_payouts_pkey PRIMARY KEY (program_id, currency),
  constraint minimum_payouts_minimum_payout_cents_check CHECK (((minimum_payout_cents)::bigint > 0)),
  constraint minimum_payouts_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);
CREATE TRIGGER minimum_payouts_audit AFTER INSERT OR DELETE OR UPDATE ON public.minimum_payouts FOR EACH ROW EXECUTE FUNCTION audit_minimum_payout();

create table notification_mails (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null,
  topic mail_topic not null,
  frequency mail_frequency not null,
  due_at timestamp with time zone not null,
  mail_id uuid,
  attempts smallint not null default 0,
  constraint notification_mails_pkey PRIMARY KEY (program_id, notification_id, user_id),
  constraint notification_mails_frequency_check CHECK ((frequency <> 'never'::mail_frequency)),
  constraint notification_mails_program_id_notification_id_fkey FOREIGN KEY (program_id, notification_id) REFERENCES notifications(program_id, id),
  constraint notification_mails_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX notification_mails_due_idx ON public.notification_mails USING btree (due_at);
CREATE INDEX notification_mails_mail_idx ON public.notification_mails USING btree (mail_id) WHERE (mail_id IS NOT NULL);
CREATE INDEX notification_mails_user_idx ON public.notification_mails USING btree (user_id);

create table notification_reads (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null,
  read_at timestamp with time zone not null default now(),
  constraint notification_reads_pkey PRIMARY KEY (program_id, notification_id, user_id),
  constraint notification_reads_program_id_notification_id_fkey FOREIGN KEY (program_id, notification_id) REFERENCES notifications(program_id, id),
  constraint notification_reads_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table notifications (
  program_id bigint not null,
  id bigint not null,
  kind text not null,
  audience notification_audience not null,
  partner_id bigint,
  payload jsonb not null,
  created_at timestamp with time zone not null,
  constraint notifications_pkey PRIMARY KEY (program_id, id),
  constraint notifications_program_id_id_fkey FOREIGN KEY (program_id, id) REFERENCES outbox(program_id, id)
);
CREATE INDEX notifications_ignored_idx ON public.notifications USING btree (program_id, created_at, id) WHERE (((audience)::text = 'advertiser'::text) AND (kind = 'payment_ignored'::text));
CREATE INDEX notifications_partner_idx ON public.notifications USING btree (partner_id, created_at DESC) WHERE ((audience)::text = 'partner'::text);
CREATE INDEX notifications_program_idx ON public.notifications USING btree (program_id, created_at DESC) WHERE ((audience)::text = 'advertiser'::text);

create table outbox (
  program_id bigint not null,
  id bigint not null generated always as identity,
  kind notification_kind not null,
  audience notification_audience not null,
  partner_id bigint,
  cause cause_text not null,
  payload jsonb not null,
  created_at timestamp with time zone not null default now(),
  sent_at timestamp with time zone,
  delivered_at timestamp with time zone,
  constraint outbox_pkey PRIMARY KEY (program_id, id),
  constraint outbox_cause_key UNIQUE (program_id, kind, audience, cause),
  constraint outbox_check CHECK ((((audience)::text <> 'partner'::text) OR (partner_id IS NOT NULL))),
  constraint outbox_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint outbox_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE INDEX outbox_undelivered_idx ON public.outbox USING btree (created_at, program_id, id) WHERE (delivered_at IS NULL);

create table own_account_codes (
  program_id bigint not null,
  code text not null,
  requested_by text not null,
  needs_livemode boolean not null,
  expires_at timestamp with time zone not null,
  constraint own_account_codes_pkey PRIMARY KEY (program_id),
  constraint own_account_codes_code_key UNIQUE (code),
  constraint own_account_codes_code_check CHECK ((length(code) = 43)),
  constraint own_account_codes_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE,
  constraint own_account_codes_requested_by_fkey FOREIGN KEY (requested_by) REFERENCES users(id) ON DELETE CASCADE
);

create table partner_codes (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint not null,
  code code_text not null,
  promotion_code_id text,
  account_id text,
  created_at timestamp with time zone not null default now(),
  revoked_at timestamp with time zone,
  disabled_at_processor_at timestamp with time zone,
  constraint partner_codes_pkey PRIMARY KEY (program_id, id),
  constraint partner_codes_check CHECK ((num_nulls(promotion_code_id, account_id) = ANY (ARRAY[0, 2]))),
  constraint partner_codes_check1 CHECK (((disabled_at_processor_at IS NULL) OR (revoked_at IS NOT NULL))),
  constraint partner_codes_promotion_code_id_check CHECK ((promotion_code_id ~ '^promo_[A-Za-z0-9_]{1,250}$'::text)),
  constraint partner_codes_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE UNIQUE INDEX partner_codes_code_key ON public.partner_codes USING btree (program_id, lower(NORMALIZE(code)));
CREATE INDEX partner_codes_partner_idx ON public.partner_codes USING btree (program_id, partner_id);
CREATE UNIQUE INDEX partner_codes_promotion_key ON public.partner_codes USING btree (account_id, promotion_code_id) WHERE (promotion_code_id IS NOT NULL);
CREATE INDEX partner_codes_to_switch_off_idx ON public.partner_codes USING btree (program_id, id) WHERE ((promotion_code_id IS NOT NULL) AND (revoked_at IS NOT NULL) AND (disabled_at_processor_at IS NULL));
CREATE TRIGGER partner_codes_added_audit AFTER INSERT ON public.partner_codes FOR EACH ROW EXECUTE FUNCTION audit_code();
CREATE TRIGGER partner_codes_revoked_audit AFTER UPDATE ON public.partner_codes FOR EACH ROW WHEN (((old.revoked_at IS NULL) <> (new.revoked_at IS NULL))) EXECUTE FUNCTION audit_code();

create table partner_groups (
  program_id bigint not null,
  id bigint not null generated always as identity,
  name name_text not null,
  external_id text,
  created_at timestamp with time zone not null default now(),
  removed_at timestamp with time zone,
  constraint partner_groups_pkey PRIMARY KEY (program_id, id),
  constraint partner_groups_external_id_key UNIQUE (program_id, external_id),
  constraint partner_groups_external_id_check CHECK (((length(external_id) >= 1) AND (length(external_id) <= 255))),
  constraint partner_groups_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE UNIQUE INDEX partner_groups_name_key ON public.partner_groups USING btree (program_id, lower((name)::text)) WHERE (removed_at IS NULL);
CREATE TRIGGER partner_groups_audit AFTER INSERT OR UPDATE ON public.partner_groups FOR EACH ROW EXECUTE FUNCTION audit_partner_group();

create table partner_invitations (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint not null,
  email text not null,
  token_hash bytea not null,
  invited_by text,
  application_id bigint,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  accepted_at timestamp with time zone,
  declined_at timestamp with time zone,
  revoked_at timestamp with time zone,
  constraint partner_invitations_pkey PRIMARY KEY (program_id, id),
  constraint partner_invitations_token_hash_key UNIQUE (token_hash),
  constraint partner_invitations_check CHECK ((num_nonnulls(accepted_at, declined_at, revoked_at) <= 1)),
  constraint partner_invitations_email_lower_case CHECK ((email = lower(email))),
  constraint partner_invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES users(id) ON DELETE SET NULL,
  constraint partner_invitations_program_id_application_id_fkey FOREIGN KEY (program_id, application_id) REFERENCES applications(program_id, id),
  constraint partner_invitations_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id) ON DELETE CASCADE
);
CREATE INDEX partner_invitations_email_idx ON public.partner_invitations USING btree (email, id) WHERE ((accepted_at IS NULL) AND (declined_at IS NULL) AND (revoked_at IS NULL));
CREATE UNIQUE INDEX partner_invitations_open_key ON public.partner_invitations USING btree (program_id, partner_id) WHERE ((accepted_at IS NULL) AND (declined_at IS NULL) AND (revoked_at IS NULL));
CREATE TRIGGER partner_invitations_audit AFTER INSERT OR UPDATE ON public.partner_invitations FOR EACH ROW EXECUTE FUNCTION audit_partner_invitation();

create table partner_keys (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint not null,
  user_id text not null,
  key_hash bytea not null,
  hint text not null,
  created_at timestamp with time zone not null default now(),
  last_used_at timestamp with time zone,
  constraint partner_keys_pkey PRIMARY KEY (program_id, id),
  constraint partner_keys_hash_key UNIQUE (key_hash),
  constraint partner_keys_hint_check CHECK ((length(hint) = 4)),
  constraint partner_keys_key_hash_check CHECK ((length(key_hash) = 32)),
  constraint partner_keys_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id) ON DELETE CASCADE,
  constraint partner_keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX partner_keys_partner_idx ON public.partner_keys USING btree (program_id, partner_id);
CREATE INDEX partner_keys_user_idx ON public.partner_keys USING btree (user_id);

create table partner_profiles (
  user_id text not null,
  name name_text,
  payout_email text,
  language language_code,
  constraint partner_profiles_pkey PRIMARY KEY (user_id),
  constraint partner_profiles_payout_email_check CHECK (is_one_address(payout_email)),
  constraint partner_profiles_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table partners (
  program_id bigint not null,
  id bigint not null generated always as identity,
  user_id text,
  group_id bigint,
  name name_text not null,
  email text,
  payout_email text,
  email_hashes bytea[],
  payout_waits_until timestamp with time zone,
  note text,
  is_active boolean not null default true,
  ended_at timestamp with time zone,
  ended_by text,
  closed_at timestamp with time zone,
  external_id text,
  metadata metadata not null default '{}'::jsonb,
  created_at timestamp with time zone not null default now(),
  constraint partners_pkey PRIMARY KEY (program_id, id),
  constraint partners_external_id_key UNIQUE (program_id, external_id),
  constraint partners_user_key UNIQUE (program_id, user_id),
  constraint partners_check CHECK ((num_nulls(ended_at, ended_by) = ANY (ARRAY[0, 2]))),
  constraint partners_check1 CHECK (((ended_at IS NULL) OR (NOT is_active))),
  constraint partners_check2 CHECK (((closed_at IS NULL) OR (ended_at IS NOT NULL))),
  constraint partners_email_check CHECK (is_one_address(email)),
  constraint partners_ended_by_check CHECK ((ended_by = ANY (ARRAY['program'::text, 'partner'::text]))),
  constraint partners_external_id_check CHECK (((length(external_id) >= 1) AND (length(external_id) <= 255))),
  constraint partners_note_check CHECK (((length(note) >= 1) AND (length(note) <= 2000))),
  constraint partners_payout_email_check CHECK (is_one_address(payout_email)),
  constraint partners_group_id_fkey FOREIGN KEY (program_id, group_id) REFERENCES partner_groups(program_id, id),
  constraint partners_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint partners_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE SET NULL
);
CREATE INDEX partners_created_idx ON public.partners USING btree (program_id, created_at);
CREATE UNIQUE INDEX partners_email_key ON public.partners USING btree (program_id, lower(email));
CREATE INDEX partners_group_idx ON public.partners USING btree (program_id, group_id) WHERE (group_id IS NOT NULL);
CREATE INDEX partners_mailbox_idx ON public.partners USING btree (program_id, mailbox_of(email));
CREATE INDEX partners_unhashed_idx ON public.partners USING btree (program_id, id) WHERE (email_hashes IS NULL);
CREATE INDEX partners_user_idx ON public.partners USING btree (user_id) WHERE (user_id IS NOT NULL);
CREATE TRIGGER partners_accepted_webhooks AFTER UPDATE ON public.partners FOR EACH ROW WHEN (((new.user_id IS NOT NULL) AND (new.ended_at IS NULL) AND ((old.user_id IS NULL) OR (old.ended_at IS NOT NULL)))) EXECUTE FUNCTION send_webhooks_of_partner();
CREATE TRIGGER partners_added_to_group BEFORE INSERT ON public.partners FOR EACH ROW WHEN ((new.group_id IS NOT NULL)) EXECUTE FUNCTION refuse_removed_group();
CREATE TRIGGER partners_audit AFTER INSERT OR UPDATE ON public.partners FOR EACH ROW EXECUTE FUNCTION audit_partner();
CREATE TRIGGER partners_forget_email_hashes BEFORE UPDATE OF email, payout_email, user_id ON public.partners FOR EACH ROW EXECUTE FUNCTION forget_email_hashes();
CREATE TRIGGER partners_joined_webhooks AFTER INSERT ON public.partners FOR EACH ROW WHEN ((new.user_id IS NOT NULL)) EXECUTE FUNCTION send_webhooks_of_partner();
CREATE TRIGGER partners_moved_to_group BEFORE UPDATE OF group_id ON public.partners FOR EACH ROW WHEN (((new.group_id IS NOT NULL) AND (new.group_id IS DISTINCT FROM old.group_id))) EXECUTE FUNCTION refuse_removed_group();
CREATE TRIGGER partners_payout_address BEFORE UPDATE OF payout_email, email ON public.partners FOR EACH ROW WHEN ((COALESCE(old.payout_email, old.email) IS DISTINCT FROM COALESCE(new.payout_email, new.email))) EXECUTE FUNCTION hold_changed_payout_address();
CREATE TRIGGER partners_postbacks AFTER UPDATE OF user_id ON public.partners FOR EACH ROW WHEN (((old.user_id IS NOT NULL) AND (new.user_id IS DISTINCT FROM old.user_id))) EXECUTE FUNCTION end_postbacks();

create table payee_details (
  user_id text not null,
  legal_name legal_name not null,
  address postal_address not null,
  country country_code not null,
  vat_id vat_number,
  constraint payee_details_pkey PRIMARY KEY (user_id),
  constraint payee_details_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table payee_mails (
  program_id bigint not null,
  notification_id bigint not null,
  mail_id uuid not null default gen_random_uuid(),
  due_at timestamp with time zone not null default now(),
  attempts smallint not null default 0,
  constraint payee_mails_pkey PRIMARY KEY (program_id, notification_id),
  constraint payee_mails_program_id_notification_id_fkey FOREIGN KEY (program_id, notification_id) REFERENCES notifications(program_id, id)
);
CREATE INDEX payee_mails_due_idx ON public.payee_mails USING btree (due_at);

create table payout_batches (
  program_id bigint not null,
  id bigint not null generated always as identity,
  payout_run_id bigint not null,
  connection_id text not null,
  currency currency_code not null,
  batch_key uuid not null default gen_random_uuid(),
  provider_batch_id text,
  status text not null default 'sending'::text,
  problem text,
  next_step_at timestamp with time zone not null default now(),
  created_at timestamp with time zone not null default now(),
  constraint payout_batches_pkey PRIMARY KEY (program_id, id),
  constraint payout_batches_status_check CHECK ((status = ANY (ARRAY['sending'::text, 'sent'::text, 'done'::text, 'stopped'::text]))),
  constraint payout_batches_program_id_connection_id_fkey FOREIGN KEY (program_id, connection_id) REFERENCES payout_connections(program_id, id),
  constraint payout_batches_program_id_payout_run_id_fkey FOREIGN KEY (program_id, payout_run_id) REFERENCES payout_runs(program_id, id)
);
CREATE INDEX payout_batches_connection_idx ON public.payout_batches USING btree (program_id, connection_id);
CREATE INDEX payout_batches_next_idx ON public.payout_batches USING btree (next_step_at) WHERE (status = ANY (ARRAY['sending'::text, 'sent'::text]));
CREATE INDEX payout_batches_run_idx ON public.payout_batches USING btree (program_id, payout_run_id);

create table payout_connections (
  id text not null,
  program_id bigint not null,
  provider text not null,
  livemode boolean not null,
  keys bytea,
  created_at timestamp with time zone not null default now(),
  constraint payout_connections_pkey PRIMARY KEY (id),
  constraint payout_connections_program_id_id_key UNIQUE (program_id, id),
  constraint payout_connections_id_check CHECK ((id ~ '^pay_[A-Za-z0-9_-]{43}$'::text)),
  constraint payout_connections_provider_check CHECK ((provider = ANY (ARRAY['paypal'::text, 'wise'::text, 'stripe'::text]))),
  constraint payout_connections_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE UNIQUE INDEX payout_connections_provider_key ON public.payout_connections USING btree (program_id, provider) WHERE (keys IS NOT NULL);
CREATE TRIGGER payout_connections_audit AFTER INSERT OR UPDATE ON public.payout_connections FOR EACH ROW EXECUTE FUNCTION audit_payout_connection();

create table payout_items (
  program_id bigint not null,
  payout_id bigint not null,
  batch_id bigint not null,
  item_key uuid not null default gen_random_uuid(),
  recipient text not null,
  attempted_at timestamp with time zone,
  provider_item_id text,
  outcome text,
  provider_status text,
  provider_reason text,
  claim_until date,
  read_at timestamp with time zone,
  constraint payout_items_pkey PRIMARY KEY (program_id, payout_id),
  constraint payout_items_outcome_check CHECK ((outcome = ANY (ARRAY['sent'::text, 'held'::text, 'unclaimed'::text, 'paid'::text, 'returned'::text, 'failed'::text]))),
  constraint payout_items_program_id_batch_id_fkey FOREIGN KEY (program_id, batch_id) REFERENCES payout_batches(program_id, id),
  constraint payout_items_program_id_payout_id_fkey FOREIGN KEY (program_id, payout_id) REFERENCES payouts(program_id, id)
);
CREATE INDEX payout_items_batch_idx ON public.payout_items USING btree (program_id, batch_id, read_at);

create table payout_lines (
  program_id bigint not null,
  id bigint not null generated always as identity,
  payout_id bigint not null,
  payment_number integer not null,
  partner_id bigint not null,
  currency currency_code not null,
  entry_number bigint not null,
  amount_cents bigint not null,
  is_returned boolean not null default false,
  constraint payout_lines_pkey PRIMARY KEY (program_id, payout_id, id),
  constraint payout_lines_program_id_payout_id_payment_number_entry_numb_key UNIQUE (program_id, payout_id, payment_number, entry_number),
  constraint payout_lines_amount_cents_check CHECK ((amount_cents <> 0)),
  constraint payout_lines_payment_number_check CHECK ((payment_number > 0)),
  constraint payout_lines_program_id_partner_id_currency_entry_number_fkey FOREIGN KEY (program_id, partner_id, currency, entry_number) REFERENCES balance_entries(program_id, partner_id, currency, entry_number),
  constraint payout_lines_program_id_payout_id_partner_id_currency_fkey FOREIGN KEY (program_id, payout_id, partner_id, currency) REFERENCES payouts(program_id, id, partner_id, currency)
);
CREATE INDEX payout_lines_entry_idx ON public.payout_lines USING btree (program_id, partner_id, currency, entry_number);

create table payout_recipients (
  program_id bigint not null,
  partner_id bigint not null,
  recipient_id text not null,
  constraint payout_recipients_pkey PRIMARY KEY (program_id, partner_id),
  constraint payout_recipients_recipient_id_check CHECK ((recipient_id ~ '^acct_[A-Za-z0-9]{1,100}$'::text)),
  constraint payout_recipients_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE TRIGGER payout_recipients_audit AFTER INSERT OR UPDATE ON public.payout_recipients FOR EACH ROW EXECUTE FUNCTION audit_payout_recipient();

create table payout_run_exclusions (
  program_id bigint not null,
  payout_run_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  payable_cents amount_cents not null,
  reason text not null,
  constraint payout_run_exclusions_pkey PRIMARY KEY (program_id, payout_run_id, partner_id, currency),
  constraint payout_run_exclusions_payable_cents_check CHECK (((payable_cents)::bigint > 0)),
  constraint payout_run_exclusions_reason_check CHECK ((reason = ANY (ARRAY['below_minimum'::text, 'no_payout_address'::text, 'payout_address_changed'::text, 'no_tax_form'::text]))),
  constraint payout_run_exclusions_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint payout_run_exclusions_program_id_payout_run_id_fkey FOREIGN KEY (program_id, payout_run_id) REFERENCES payout_runs(program_id, id)
);

create table payout_runs (
  program_id bigint not null,
  id bigint not null generated always as identity,
  request_id uuid not null,
  payments integer not null default 0,
  created_at timestamp with time zone not null default now(),
  reference text,
  paid_on date,
  paid_at timestamp with time zone,
  constraint payout_runs_pkey PRIMARY KEY (program_id, id),
  constraint payout_runs_request_key UNIQUE (program_id, request_id),
  constraint payout_runs_check CHECK ((num_nulls(reference, paid_on, paid_at) = ANY (ARRAY[0, 3]))),
  constraint payout_runs_reference_check CHECK (((length(reference) >= 1) AND (length(reference) <= 200))),
  constraint payout_runs_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE TRIGGER payout_runs_created_audit AFTER INSERT ON public.payout_runs FOR EACH ROW EXECUTE FUNCTION audit_payout_run();
CREATE TRIGGER payout_runs_paid_audit AFTER UPDATE OF paid_at ON public.payout_runs FOR EACH ROW WHEN (((old.paid_at IS NULL) AND (new.paid_at IS NOT NULL))) EXECUTE FUNCTION audit_payout_run();

create table payouts (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint not null,
  currency currency_code not null,
  requested_cents amount_cents not null,
  amount_cents amount_cents not null,
  status text not null default 'requested'::text,
  sent_at timestamp with time zone,
  payment_file_number bigint,
  created_at_entry_number bigint not null default 0,
  payout_run_id bigint,
  payout_address text,
  reason reason_text,
  reference text,
  paid_on date,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  decided_at timestamp with time zone,
  request_id uuid,
  constraint payouts_pkey PRIMARY KEY (program_id, id),
  constraint payouts_program_id_id_partner_id_currency_amount_cents_key UNIQUE (program_id, id, partner_id, currency, amount_cents),
  constraint payouts_program_id_id_partner_id_currency_key UNIQUE (program_id, id, partner_id, currency),
  constraint payouts_check CHECK (((amount_cents)::bigint <= (requested_cents)::bigint)),
  constraint payouts_check1 CHECK ((((amount_cents)::bigint > 0) OR (status = 'canceled'::text))),
  constraint payouts_check2 CHECK (((status = ANY (ARRAY['requested'::text, 'in_run'::text, 'sent'::text, 'unclaimed'::text])) = (decided_at IS NULL))),
  constraint payouts_check3 CHECK (
CASE status
    WHEN 'requested'::text THEN ((sent_at IS NULL) AND (payout_run_id IS NULL))
    WHEN 'in_run'::text THEN ((sent_at IS NULL) AND (payout_run_id IS NOT NULL))
    WHEN 'sent'::text THEN (sent_at IS NOT NULL)
    WHEN 'unclaimed'::text THEN (sent_at IS NOT NULL)
    ELSE true
END),
  constraint payouts_check4 CHECK (((payment_file_number IS NOT NULL) = ((sent_at IS NOT NULL) AND (payout_run_id IS NULL)))),
  constraint payouts_check5 CHECK ((((num_nulls(reference, paid_on) = 0) AND (status = ANY (ARRAY['paid'::text, 'returned'::text, 'failed'::text]))) OR ((num_nulls(reference, paid_on) = 2) AND (status <> 'paid'::text)))),
  constraint payouts_paid_on_open CHECK ((paid_on >= (date_trunc('month'::text, ((created_at AT TIME ZONE 'UTC'::text) - '12:00:00'::interval)))::date)),
  constraint payouts_payment_file_number_check CHECK ((payment_file_number > 0)),
  constraint payouts_payout_address_check CHECK ((length(payout_address) <= 320)),
  constraint payouts_reference_check CHECK (((length(reference) >= 1) AND (length(reference) <= 200))),
  constraint payouts_requested_cents_check CHECK (((requested_cents)::bigint > 0)),
  constraint payouts_status_check CHECK ((status = ANY (ARRAY['requested'::text, 'in_run'::text, 'sent'::text, 'unclaimed'::text, 'paid'::text, 'returned'::text, 'failed'::text, 'refused'::text, 'canceled'::text]))),
  constraint payouts_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id),
  constraint payouts_program_id_payout_run_id_fkey FOREIGN KEY (program_id, payout_run_id) REFERENCES payout_runs(program_id, id)
);
CREATE INDEX payouts_file_idx ON public.payouts USING btree (program_id, payment_file_number) WHERE (payment_file_number IS NOT NULL);
CREATE INDEX payouts_open_idx ON public.payouts USING btree (program_id, partner_id, currency, id) WHERE (decided_at IS NULL);
CREATE INDEX payouts_partner_idx ON public.payouts USING btree (program_id, partner_id, currency, id);
CREATE UNIQUE INDEX payouts_payout_run_key ON public.payouts USING btree (program_id, payout_run_id, partner_id, currency) WHERE (payout_run_id IS NOT NULL);
CREATE UNIQUE INDEX payouts_request_key ON public.payouts USING btree (program_id, request_id);
CREATE INDEX payouts_updated_idx ON public.payouts USING btree (program_id, updated_at);
CREATE TRIGGER payouts_audit AFTER UPDATE OF status ON public.payouts FOR EACH ROW WHEN (((old.status IS DISTINCT FROM new.status) AND ((new.status = ANY (ARRAY['refused'::text, 'returned'::text, 'failed'::text])) OR ((new.status = 'paid'::text) AND (new.payout_run_id IS NULL))))) EXECUTE FUNCTION audit_payout();
CREATE TRIGGER payouts_changed BEFORE UPDATE ON public.payouts FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION note_change();
CREATE TRIGGER payouts_not_in_shadow_mode BEFORE INSERT ON public.payouts FOR EACH ROW EXECUTE FUNCTION refuse_credit_in_shadow_mode();
CREATE TRIGGER payouts_note_balance BEFORE INSERT ON public.payouts FOR EACH ROW EXECUTE FUNCTION note_balance_of_payout();
CREATE TRIGGER payouts_postbacks AFTER UPDATE ON public.payouts FOR EACH ROW WHEN (((new.status = 'paid'::text) AND (old.status <> 'paid'::text))) EXECUTE FUNCTION send_postback_of_payout();
CREATE TRIGGER payouts_stay BEFORE DELETE OR UPDATE ON public.payouts FOR EACH ROW EXECUTE FUNCTION keep_payout();
CREATE TRIGGER payouts_webhooks AFTER INSERT OR UPDATE ON public.payouts FOR EACH ROW EXECUTE FUNCTION send_webhooks_of_payout();

create table processor_backfills (
  program_id bigint not null,
  account_id text not null,
  reads_from timestamp with time zone not null,
  status text not null default 'running'::text,
  kind text not null default 'customers'::text,
  last_id text,
  objects_read bigint not null default 0,
  events_recorded bigint not null default 0,
  problem text,
  started_at timestamp with time zone not null default now(),
  constraint processor_backfills_pkey PRIMARY KEY (program_id),
  constraint processor_backfills_kind_check CHECK ((kind = ANY (ARRAY['customers'::text, 'sessions'::text, 'subscriptions'::text, 'invoices'::text, 'intents'::text, 'refunds'::text, 'disputes'::text]))),
  constraint processor_backfills_status_check CHECK ((status = ANY (ARRAY['running'::text, 'stopped'::text, 'done'::text]))),
  constraint processor_backfills_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);
CREATE INDEX processor_backfills_running_idx ON public.processor_backfills USING btree (program_id) WHERE (status = 'running'::text);

create table processor_connect_states (
  state_hash bytea not null,
  program_id bigint not null,
  session_hash bytea not null,
  expires_at timestamp with time zone not null,
  constraint processor_connect_states_pkey PRIMARY KEY (state_hash),
  constraint processor_connect_states_session_hash_check CHECK ((length(session_hash) = 32)),
  constraint processor_connect_states_state_hash_check CHECK ((length(state_hash) = 32)),
  constraint processor_connect_states_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);
CREATE INDEX processor_connect_states_expires_idx ON public.processor_connect_states USING btree (expires_at);

create table processor_connections (
  account_id text not null,
  program_id bigint not null,
  processor text not null,
  secret bytea,
  livemode boolean not null,
  disconnected_at timestamp with time zone,
  refused_at timestamp with time zone,
  refusal text,
  created_at timestamp with time zone not null default now(),
  constraint processor_connections_pkey PRIMARY KEY (account_id),
  constraint processor_connections_account_id_check CHECK ((account_id ~ '^conn_[A-Za-z0-9_-]{43}$'::text)),
  constraint processor_connections_check CHECK (((refused_at IS NULL) = (refusal IS NULL))),
  constraint processor_connections_processor_check CHECK ((processor ~ '^[a-z]{2,30}$'::text)),
  constraint processor_connections_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX processor_connections_program_idx ON public.processor_connections USING btree (program_id);
CREATE TRIGGER processor_connections_changed_audit AFTER UPDATE OF disconnected_at ON public.processor_connections FOR EACH ROW WHEN ((old.disconnected_at IS DISTINCT FROM new.disconnected_at)) EXECUTE FUNCTION audit_processor_connection();
CREATE TRIGGER processor_connections_created_audit AFTER INSERT ON public.processor_connections FOR EACH ROW EXECUTE FUNCTION audit_processor_connection();

create table processor_customer_metadata (
  account_id text not null,
  livemode boolean not null,
  processor_customer_id text not null,
  program_id bigint,
  click_id text,
  customer_key text,
  reported_at timestamp with time zone not null,
  event_id text not null,
  is_deleted boolean not null,
  constraint processor_customer_metadata_pkey PRIMARY KEY (account_id, livemode, processor_customer_id)
);
CREATE INDEX processor_customer_metadata_ended_idx ON public.processor_customer_metadata USING btree (reported_at) WHERE (is_deleted OR (num_nonnulls(program_id, click_id, customer_key) = 0));

create table processor_customers (
  program_id bigint not null,
  processor_customer_id text not null,
  customer_id bigint not null,
  known_from timestamp with time zone not null default now(),
  created_at timestamp with time zone not null default now(),
  constraint processor_customers_pkey PRIMARY KEY (program_id, processor_customer_id),
  constraint processor_customers_program_id_customer_id_fkey FOREIGN KEY (program_id, customer_id) REFERENCES customers(program_id, id)
);
CREATE INDEX processor_customers_customer_idx ON public.processor_customers USING btree (program_id, customer_id);

create table processor_events (
  account_id text not null,
  event_id text not null,
  event_type text not null,
  program_id bigint,
  livemode boolean not null,
  outcome text not null,
  reason text,
  waits_for text,
  fact jsonb not null,
  resolution jsonb,
  payload bytea,
  awaits text[],
  event_created_at timestamp with time zone not null,
  received_at timestamp with time zone not null default now(),
  deliveries integer not null default 1,
  last_received_at timestamp with time zone not null default now(),
  constraint processor_events_pkey PRIMARY KEY (account_id, event_id),
  constraint processor_events_check CHECK (((waits_for IS NULL) OR (outcome = 'parked'::text))),
  constraint processor_events_deliveries_check CHECK ((deliveries > 0)),
  constraint processor_events_outcome_check CHECK ((outcome = ANY (ARRAY['recorded'::text, 'duplicate'::text, 'ignored'::text, 'parked'::text]))),
  constraint processor_events_waits_for_check CHECK ((waits_for = ANY (ARRAY['connection'::text, 'conversion'::text, 'buyer'::text, 'session'::text]))),
  constraint processor_events_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX processor_events_account_idx ON public.processor_events USING btree (account_id, received_at DESC);
CREATE INDEX processor_events_awaits_idx ON public.processor_events USING gin (awaits) WITH (fastupdate=off) WHERE (awaits IS NOT NULL);
CREATE INDEX processor_events_payload_idx ON public.processor_events USING btree (received_at) WHERE (payload IS NOT NULL);
CREATE INDEX processor_events_payment_idx ON public.processor_events USING btree (((fact #>> '{sale,transaction_id}'::text[]))) WHERE ((fact #>> '{sale,transaction_id}'::text[]) IS NOT NULL);
CREATE INDEX processor_events_program_idx ON public.processor_events USING btree (program_id, received_at DESC);
CREATE INDEX processor_events_received_idx ON public.processor_events USING btree (received_at);
CREATE INDEX processor_events_reversed_idx ON public.processor_events USING btree (COALESCE((fact ->> 'payment_intent_id'::text), (fact ->> 'charge_id'::text), (fact ->> 'invoice_id'::text))) WHERE (COALESCE((fact ->> 'payment_intent_id'::text), (fact ->> 'charge_id'::text), (fact ->> 'invoice_id'::text)) IS NOT NULL);
CREATE INDEX processor_events_test_idx ON public.processor_events USING btree (program_id, received_at DESC) WHERE (NOT livemode);
CREATE INDEX processor_events_test_unnamed_idx ON public.processor_events USING btree (account_id, received_at DESC) WHERE ((program_id IS NULL) AND (NOT livemode));
CREATE INDEX processor_events_unexplained_idx ON public.processor_events USING btree (received_at) WHERE ((outcome = 'ignored'::text) AND livemode AND ((fact ->> 'reported_alone'::text) = 'false'::text));
CREATE INDEX processor_events_waiting_idx ON public.processor_events USING btree (account_id, received_at) WHERE (waits_for IS NOT NULL);

create table processor_payments (
  account_id text not null,
  payment_id text not null,
  transaction_id text not null,
  created_at timestamp with time zone not null default now(),
  constraint processor_payments_pkey PRIMARY KEY (account_id, payment_id)
);
CREATE INDEX processor_payments_created_idx ON public.processor_payments USING brin (created_at);
CREATE INDEX processor_payments_transaction_idx ON public.processor_payments USING btree (account_id, transaction_id);

create table processor_reversals (
  account_id text not null,
  reversal_id text not null,
  livemode boolean not null,
  reason refund_reason not null,
  reason_text reason_text,
  payment_intent_id text,
  charge_id text,
  invoice_id text,
  amount_cents amount_cents not null,
  untaxed_cents amount_cents,
  total_cents amount_cents,
  currency currency_code not null,
  event_id text,
  returned_event_id text,
  returned_at timestamp with time zone,
  returned_by text,
  marked_id text,
  created_at timestamp with time zone not null default now(),
  constraint processor_reversals_pkey PRIMARY KEY (account_id, reversal_id),
  constraint processor_reversals_check CHECK (((event_id IS NOT NULL) OR (returned_event_id IS NOT NULL))),
  constraint processor_reversals_check1 CHECK (((returned_at IS NULL) = (returned_event_id IS NULL)))
);
CREATE INDEX processor_reversals_charge_idx ON public.processor_reversals USING btree (account_id, charge_id);
CREATE INDEX processor_reversals_created_idx ON public.processor_reversals USING btree (created_at);
CREATE INDEX processor_reversals_invoice_idx ON public.processor_reversals USING btree (account_id, invoice_id);
CREATE INDEX processor_reversals_payment_intent_idx ON public.processor_reversals USING btree (account_id, payment_intent_id);

create table processor_sessions (
  program_id bigint not null,
  session_id text not null,
  customer_id bigint,
  asked_total bigint,
  asked_untaxed bigint,
  created_at timestamp with time zone not null default now(),
  constraint processor_sessions_pkey PRIMARY KEY (program_id, session_id),
  constraint processor_sessions_asked_total_check CHECK ((asked_total > 0)),
  constraint processor_sessions_check CHECK (((asked_untaxed >= 0) AND (asked_untaxed <= asked_total))),
  constraint processor_sessions_program_id_customer_id_fkey FOREIGN KEY (program_id, customer_id) REFERENCES customers(program_id, id)
);
CREATE INDEX processor_sessions_created_idx ON public.processor_sessions USING btree (created_at);
CREATE INDEX processor_sessions_customer_idx ON public.processor_sessions USING btree (program_id, customer_id);

create table program_billing (
  program_id bigint not null,
  legal_name legal_name not null,
  address postal_address not null,
  country country_code not null,
  vat_id vat_number,
  series text not null,
  vat_bp integer,
  constraint program_billing_pkey PRIMARY KEY (program_id),
  constraint program_billing_series_check CHECK ((series ~ '^[A-Z0-9]([A-Z0-9-]{0,8}[A-Z0-9])?$'::text)),
  constraint program_billing_vat_bp_check CHECK (((vat_bp >= 1) AND (vat_bp <= 5000))),
  constraint program_billing_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE TRIGGER program_billing_audit AFTER INSERT OR UPDATE ON public.program_billing FOR EACH ROW EXECUTE FUNCTION audit_program_billing();

create table program_brands (
  program_id bigint not null,
  portal_name name_text,
  sender_name name_text,
  color text,
  logo bytea,
  logo_type text,
  logo_hash text generated always as (encode(sha256(logo), 'hex'::text)) stored,
  constraint program_brands_pkey PRIMARY KEY (program_id),
  constraint program_brands_color_check CHECK ((color ~ '^#[0-9a-f]{6}$'::text)),
  constraint program_brands_logo CHECK (((logo IS NULL) = (logo_type IS NULL))),
  constraint program_brands_logo_check CHECK (((octet_length(logo) >= 1) AND (octet_length(logo) <= 524288))),
  constraint program_brands_logo_type_check CHECK ((logo_type = ANY (ARRAY['png'::text, 'jpeg'::text, 'webp'::text]))),
  constraint program_brands_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE TRIGGER program_brands_audit AFTER INSERT OR UPDATE ON public.program_brands FOR EACH ROW EXECUTE FUNCTION audit_brand();

create table program_hosts (
  program_id bigint not null,
  host text not null,
  verified_at timestamp with time zone,
  checked_at timestamp with time zone,
  missing_since timestamp with time zone,
  constraint program_hosts_pkey PRIMARY KEY (program_id),
  constraint program_hosts_check CHECK (((verified_at IS NOT NULL) OR (missing_since IS NULL))),
  constraint program_hosts_host_check CHECK (((length(host) <= 253) AND (host ~ '^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$'::text))),
  constraint program_hosts_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE UNIQUE INDEX program_hosts_verified_key ON public.program_hosts USING btree (host) WHERE (verified_at IS NOT NULL);
CREATE TRIGGER program_hosts_audit AFTER INSERT OR DELETE ON public.program_hosts FOR EACH ROW EXECUTE FUNCTION audit_program_host();
CREATE TRIGGER program_hosts_audit_update AFTER UPDATE ON public.program_hosts FOR EACH ROW WHEN (((old.host IS DISTINCT FROM new.host) OR (old.verified_at IS DISTINCT FROM new.verified_at))) EXECUTE FUNCTION audit_program_host();

create table program_members (
  program_id bigint not null,
  workspace_id text not null,
  user_id text not null,
  role text not null,
  created_at timestamp with time zone not null default now(),
  constraint program_members_pkey PRIMARY KEY (program_id, user_id),
  constraint program_members_role CHECK ((role = ANY (ARRAY['admin'::text, 'member'::text, 'billing'::text]))),
  constraint program_members_program_id_workspace_id_fkey FOREIGN KEY (program_id, workspace_id) REFERENCES programs(id, workspace_id) ON DELETE CASCADE,
  constraint program_members_workspace_id_user_id_fkey FOREIGN KEY (workspace_id, user_id) REFERENCES workspace_members(workspace_id, user_id) ON DELETE CASCADE
);
CREATE INDEX program_members_user_idx ON public.program_members USING btree (workspace_id, user_id);
CREATE TRIGGER program_members_audit AFTER INSERT OR DELETE OR UPDATE ON public.program_members FOR EACH ROW EXECUTE FUNCTION audit_program_member();

create table program_terms (
  program_id bigint not null,
  version integer not null,
  text text not null,
  self_billing boolean not null default false,
  created_at timestamp with time zone not null default now(),
  constraint program_terms_pkey PRIMARY KEY (program_id, version),
  constraint program_terms_text_check CHECK (((length(text) >= 1) AND (length(text) <= 30000))),
  constraint program_terms_version_check CHECK ((version > 0)),
  constraint program_terms_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);

create table programs (
  id bigint not null generated always as identity,
  workspace_id text not null,
  name name_text not null,
  domain text not null,
  domain_verified_at timestamp with time zone,
  domain_proven_at timestamp with time zone,
  currency currency_code not null default 'usd'::text,
  commission_bp integer not null default 2000,
  lead_commission_cents amount_cents not null default 0,
  cookie_window_days integer not null default 30,
  hold_days integer not null default 30,
  commission_duration_months integer,
  lead_auth_policy text not null default 'server_verified'::text,
  attribution_model text not null default 'last_click'::text,
  attribute_known_customers boolean not null default false,
  commission_base text not null default 'net'::text,
  review_rules text[] not null default '{self_referral,one_address,no_page_view,bot}'::text[],
  processor_account_id text,
  processor_former_account_id text,
  processor_connected_at timestamp with time zone,
  processor_livemode boolean not null default true,
  webhook_types text[],
  rules_version integer not null default 0,
  language language_code,
  attribution_priority text not null default 'code'::text,
  proxy_key_number integer not null default 0,
  previous_proxy_key_until timestamp with time zone,
  link_params text[] not null default '{}'::text[],
  embed_origins text[] not null default '{}'::text[],
  embed_hides_money boolean not null default false,
  shadow_since timestamp with time zone,
  shadow_ended_at timestamp with time zone,
  earlier_shadow_times tstzmultirange not null default '{}'::tstzmultirange,
  created_at timestamp with time zone not null default now(),
  moved_in_at timestamp with time zone,
  former_ids bigint[] not null default '{}'::bigint[],
  deleted_at timestamp with time zone,
  constraint programs_pkey PRIMARY KEY (id),
  constraint programs_workspace_key UNIQUE (id, workspace_id),
  constraint programs_attribution_model_check CHECK ((attribution_model = ANY (ARRAY['last_click'::text, 'first_click'::text]))),
  constraint programs_attribution_priority_check CHECK ((attribution_priority = ANY (ARRAY['code'::text, 'click'::text]))),
  constraint programs_check CHECK (((domain_proven_at IS NULL) OR (domain_verified_at IS NOT NULL))),
  constraint programs_check1 CHECK ((processor_former_account_id <> processor_account_id)),
  constraint programs_check2 CHECK ((shadow_ended_at >= shadow_since)),
  constraint programs_commission_base_check CHECK ((commission_base = ANY (ARRAY['net'::text, 'net_of_fees'::text]))),
  constraint programs_commission_bp_check CHECK (((commission_bp >= 0) AND (commission_bp <= 10000))),
  constraint programs_commission_duration_months_check CHECK (((commission_duration_months >= 1) AND (commission_duration_months <= 1200))),
  constraint programs_cookie_window_days_check CHECK (((cookie_window_days >= 1) AND (cookie_window_days <= 730))),
  constraint programs_domain_check CHECK (((length(domain) >= 1) AND (length(domain) <= 253))),
  constraint programs_embed_origins CHECK (((cardinality(embed_origins) <= 20) AND (array_to_string(embed_origins, ' '::text, '?'::text) ~ '^((https://[a-z0-9.-]+|http://(localhost|127\.0\.0\.1))(:\d{1,5})?( (?=h)|$))*$'::text))),
  constraint programs_former_ids_check CHECK ((cardinality(former_ids) <= 20)),
  constraint programs_hold_days_check CHECK (((hold_days >= 0) AND (hold_days <= 365))),
  constraint programs_lead_auth_policy_check CHECK ((lead_auth_policy = ANY (ARRAY['server_verified'::text, 'browser_allowed'::text]))),
  constraint programs_link_params_check CHECK (((cardinality(link_params) <= 10) AND (array_to_string(link_params, ''::text) ~ '^[A-Za-z0-9_-]*$'::text))),
  constraint programs_processor_account_id_check CHECK ((processor_account_id ~ '^(acct_[A-Za-z0-9_]+|platform)$'::text)),
  constraint programs_review_rules CHECK ((review_rules <@ '{self_referral,one_address,no_page_view,bot,paid_ads}'::text[])),
  constraint programs_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id)
);
CREATE UNIQUE INDEX programs_own_account_key ON public.programs USING btree (processor_account_id) WHERE (processor_account_id = 'platform'::text);
CREATE INDEX programs_processor_account_idx ON public.programs USING btree (processor_account_id) WHERE (processor_account_id IS NOT NULL);
CREATE INDEX programs_processor_former_account_idx ON public.programs USING btree (processor_former_account_id) WHERE (processor_former_account_id IS NOT NULL);
CREATE INDEX programs_verified_domain_idx ON public.programs USING btree (split_part(domain, ':'::text, 1)) WHERE (domain_verified_at IS NOT NULL);
CREATE INDEX programs_workspace_idx ON public.programs USING btree (workspace_id);
CREATE TRIGGER programs_audit AFTER INSERT OR UPDATE ON public.programs FOR EACH ROW EXECUTE FUNCTION audit_program();

create table public_test_events (
  program_id bigint not null,
  network bigint not null,
  day date not null,
  events integer not null,
  constraint public_test_events_pkey PRIMARY KEY (program_id, network),
  constraint public_test_events_events_check CHECK (((events >= 1) AND (events <= 1000))),
  constraint public_test_events_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);

create table queued_invitations (
  program_id bigint not null,
  partner_id bigint not null,
  job_id bigint not null,
  invited_by text not null,
  queued_at timestamp with time zone not null default now(),
  attempted_at timestamp with time zone,
  constraint queued_invitations_pkey PRIMARY KEY (program_id, partner_id),
  constraint queued_invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES users(id) ON DELETE CASCADE,
  constraint queued_invitations_program_id_job_id_fkey FOREIGN KEY (program_id, job_id) REFERENCES bulk_jobs(program_id, id) ON DELETE CASCADE,
  constraint queued_invitations_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id) ON DELETE CASCADE
);
CREATE INDEX queued_invitations_queued_idx ON public.queued_invitations USING btree (queued_at);
CREATE INDEX queued_invitations_sender_idx ON public.queued_invitations USING btree (invited_by);

create table referral_links (
  id bigint not null generated always as identity,
  code text not null,
  program_id bigint,
  partner_id bigint,
  page_url text,
  is_active boolean not null default true,
  external_id text,
  metadata metadata not null default '{}'::jsonb,
  created_at timestamp with time zone not null default now(),
  constraint referral_links_pkey PRIMARY KEY (id),
  constraint referral_links_external_id_key UNIQUE (program_id, external_id),
  constraint referral_links_program_id_id_partner_id_key UNIQUE (program_id, id, partner_id),
  constraint referral_links_code_check CHECK (((code ~ '^[A-Za-z0-9._@-]{1,64}$'::text) AND (code !~* '^svc-test-'::text))),
  constraint referral_links_external_id_check CHECK (((length(external_id) >= 1) AND (length(external_id) <= 255))),
  constraint referral_links_page_url_check CHECK (((length(page_url) <= 2048) AND (page_url ~ '^https?://[^\s]+$'::text))),
  constraint referral_links_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint referral_links_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE UNIQUE INDEX referral_links_code_key ON public.referral_links USING btree (lower(code), program_id) NULLS NOT DISTINCT;
CREATE INDEX referral_links_partner_idx ON public.referral_links USING btree (partner_id, program_id, id);
CREATE TRIGGER referral_links_added_audit AFTER INSERT ON public.referral_links FOR EACH ROW WHEN ((acting_key() IS NOT NULL)) EXECUTE FUNCTION audit_link();
CREATE TRIGGER referral_links_changed_audit AFTER UPDATE ON public.referral_links FOR EACH ROW WHEN (((acting_key() IS NOT NULL) AND (old.* IS DISTINCT FROM new.*))) EXECUTE FUNCTION audit_link();

create table refunds (
  program_id bigint not null,
  id bigint not null generated always as identity,
  sale_id bigint not null,
  refund_key refund_key not null,
  processor_reversal_id text,
  requested_cents amount_cents,
  applied_cents amount_cents not null,
  untaxed_cents amount_cents,
  deduction_cents amount_cents not null default 0,
  returned_cents amount_cents not null default 0,
  reason refund_reason not null default 'refund'::text,
  reason_text reason_text,
  returned_at timestamp with time zone,
  request_id uuid,
  continues_refund_id bigint,
  created_at timestamp with time zone not null default now(),
  constraint refunds_pkey PRIMARY KEY (program_id, id),
  constraint refunds_sale_key UNIQUE (program_id, sale_id, refund_key),
  constraint refunds_program_id_continues_refund_id_fkey FOREIGN KEY (program_id, continues_refund_id) REFERENCES refunds(program_id, id),
  constraint refunds_program_id_sale_id_fkey FOREIGN KEY (program_id, sale_id) REFERENCES sales(program_id, id)
);
CREATE INDEX refunds_continues_idx ON public.refunds USING btree (program_id, continues_refund_id) WHERE (continues_refund_id IS NOT NULL);
CREATE INDEX refunds_processor_reversal_idx ON public.refunds USING btree (processor_reversal_id) WHERE (processor_reversal_id IS NOT NULL);
CREATE UNIQUE INDEX refunds_reversal_key ON public.refunds USING btree (program_id, sale_id, processor_reversal_id) WHERE (processor_reversal_id IS NOT NULL);

create table refused_addresses (
  email text not null,
  reason text not null,
  refused_at timestamp with time zone not null default now(),
  constraint refused_addresses_pkey PRIMARY KEY (email),
  constraint refused_addresses_email_check CHECK ((email = lower(email))),
  constraint refused_addresses_reason_check CHECK ((reason = ANY (ARRAY['bounced'::text, 'complained'::text, 'unsubscribed'::text])))
);

create table refused_calls (
  program_id bigint not null,
  call text not null,
  code text not null,
  detail text,
  refused_at timestamp with time zone not null default now(),
  constraint refused_calls_pkey PRIMARY KEY (program_id, call, code),
  constraint refused_calls_call_check CHECK ((call = ANY (ARRAY['click'::text, 'lead'::text, 'sale'::text, 'refund'::text, 'key'::text]))),
  constraint refused_calls_code_check CHECK (((length(code) >= 1) AND (length(code) <= 64))),
  constraint refused_calls_detail_check CHECK ((length(detail) <= 300)),
  constraint refused_calls_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id) ON DELETE CASCADE
);

create table rewritten_months (
  month date not null,
  program_id bigint not null default 0,
  is_test boolean not null default false,
  click_timestamp timestamp with time zone not null default '-infinity'::timestamp with time zone,
  id bigint not null default 0,
  rewritten_at timestamp with time zone,
  changed_at timestamp with time zone,
  constraint rewritten_months_pkey PRIMARY KEY (month)
);

create table sales (
  program_id bigint not null,
  id bigint not null generated always as identity,
  is_test boolean not null default false,
  transaction_id id_text not null,
  customer_id bigint,
  partner_id bigint,
  customer_key id_text,
  sale_date timestamp with time zone not null default now(),
  amount_cents amount_cents not null,
  amount_source amount_source not null default 'api'::amount_source,
  commission_base_cents amount_cents not null,
  processor_fee_cents amount_cents,
  commission_bp integer,
  commission_months integer,
  commission_rule_id bigint,
  commission_fixed_cents bigint,
  commission_cap_cents bigint,
  terms_among terms_choice,
  lines sale_line[],
  terms_by_line line_terms[],
  coupon text,
  code_id bigint,
  resolution jsonb,
  refunded_cents amount_cents not null default 0,
  api_payload jsonb,
  currency currency_code not null,
  sale_type word_text not null default 'payment'::text,
  payment_status word_text not null default 'paid'::text,
  is_recurring boolean not null default false,
  subscription_id id_text,
  processor_event_id text,
  processor_session_id text,
  processor_payment_intent_id text,
  processor_charge_id text,
  processor_invoice_id text,
  processor_customer_id text,
  additional_data jsonb,
  request_id uuid,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint sales_pkey PRIMARY KEY (program_id, id),
  constraint sales_transaction_key UNIQUE (program_id, is_test, transaction_id),
  constraint sales_program_id_customer_id_fkey FOREIGN KEY (program_id, customer_id) REFERENCES customers(program_id, id),
  constraint sales_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX sales_customer_idx ON public.sales USING btree (program_id, customer_id) WHERE (customer_id IS NOT NULL);
CREATE INDEX sales_date_idx ON public.sales USING btree (program_id, is_test, sale_date, id) WHERE (customer_id IS NOT NULL);
CREATE INDEX sales_partner_idx ON public.sales USING btree (program_id, partner_id, sale_date, id) INCLUDE (payment_status) WHERE ((partner_id IS NOT NULL) AND (NOT is_test));
CREATE INDEX sales_subscription_idx ON public.sales USING btree (program_id, subscription_id) WHERE (subscription_id IS NOT NULL);
CREATE INDEX sales_test_idx ON public.sales USING btree (program_id, id) WHERE is_test;
CREATE INDEX sales_updated_idx ON public.sales USING btree (program_id, updated_at);
CREATE TRIGGER sales_changed BEFORE UPDATE ON public.sales FOR EACH ROW WHEN ((old.* IS DISTINCT FROM new.*)) EXECUTE FUNCTION note_change();
CREATE TRIGGER sales_sound AFTER INSERT OR UPDATE ON public.sales FOR EACH ROW EXECUTE FUNCTION refuse_unsound_sale();

create table saved_views (
  program_id bigint not null,
  user_id text not null,
  list text not null,
  name text not null,
  query text not null,
  saved_at timestamp with time zone not null default now(),
  constraint saved_views_pkey PRIMARY KEY (program_id, user_id, list, name),
  constraint saved_views_list_check CHECK (((length(list) >= 1) AND (length(list) <= 60))),
  constraint saved_views_name_check CHECK (((length(name) >= 1) AND (length(name) <= 60))),
  constraint saved_views_query_check CHECK ((length(query) <= 1000)),
  constraint saved_views_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint saved_views_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX saved_views_user_idx ON public.saved_views USING btree (user_id);

create table secret_fingerprints (
  name text not null,
  fingerprint bytea not null,
  noted_at timestamp with time zone not null default now(),
  constraint secret_fingerprints_pkey PRIMARY KEY (name),
  constraint secret_fingerprints_fingerprint_check CHECK ((length(fingerprint) = 32))
);

create table sessions (
  id text not null,
  user_id text not null,
  token text not null,
  expires_at timestamp with time zone not null,
  ip_address text,
  user_agent text,
  by_first_factor boolean not null default false,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_token_key UNIQUE (token),
  constraint sessions_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX sessions_expires_at_idx ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_user_id_idx ON public.sessions USING btree (user_id);
CREATE TRIGGER sessions_audit AFTER INSERT ON public.sessions FOR EACH ROW EXECUTE FUNCTION audit_session();

create table sign_in_attempts (
  key text not null,
  attempts integer not null,
  window_started_at timestamp with time zone not null default now(),
  constraint sign_in_attempts_pkey PRIMARY KEY (key),
  constraint sign_in_attempts_attempts_check CHECK ((attempts > 0))
);
CREATE INDEX sign_in_attempts_window_started_at_idx ON public.sign_in_attempts USING btree (window_started_at);

create table tax_form_limits (
  program_id bigint not null,
  currency currency_code not null,
  above_cents amount_cents not null,
  constraint tax_form_limits_pkey PRIMARY KEY (program_id, currency),
  constraint tax_form_limits_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE TRIGGER tax_form_limits_audit AFTER INSERT OR DELETE OR UPDATE ON public.tax_form_limits FOR EACH ROW EXECUTE FUNCTION audit_tax_form_limit();

create table tax_forms (
  user_id text not null,
  kind text not null,
  fields bytea not null,
  tax_id_hint text,
  signed_on date not null,
  expires_on date generated always as (
CASE
    WHEN (kind <> 'w9'::text) THEN make_date(((EXTRACT(year FROM signed_on))::integer + 3), 12, 31)
    ELSE NULL::date
END) stored,
  constraint tax_forms_pkey PRIMARY KEY (user_id),
  constraint tax_forms_kind_check CHECK ((kind = ANY (ARRAY['w9'::text, 'w8ben'::text, 'w8bene'::text]))),
  constraint tax_forms_tax_id_hint_check CHECK ((length(tax_id_hint) = 4)),
  constraint tax_forms_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table two_factors (
  id text not null,
  user_id text not null,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default true,
  failed_verification_count integer not null default 0,
  locked_until timestamp with time zone,
  constraint two_factors_pkey PRIMARY KEY (id),
  constraint two_factors_user_id_key UNIQUE (user_id),
  constraint two_factors_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);

create table uncounted_clicks (
  program_id bigint not null,
  link_id bigint not null,
  clicked_at timestamp with time zone not null,
  event_id bigint not null,
  is_bot boolean not null default false
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=10000);
CREATE INDEX uncounted_clicks_link_idx ON public.uncounted_clicks USING btree (program_id, link_id);

create table uncounted_figures (
  program_id bigint not null,
  customer_id bigint not null,
  partner_id bigint not null,
  code_id bigint,
  clicked_at timestamp with time zone,
  at timestamp with time zone not null,
  currency currency_code,
  leads bigint not null default 0,
  conversions bigint not null default 0,
  sales bigint not null default 0,
  revenue_cents bigint not null default 0,
  commission_cents bigint not null default 0,
  refunded_cents bigint not null default 0
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=10000);

create table unsent_clicks (
  id bigint not null generated always as identity,
  program_id bigint not null,
  clicked_at timestamp with time zone not null,
  event_id bigint not null,
  is_erased boolean not null default false
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=10000);
CREATE INDEX unsent_clicks_idx ON public.unsent_clicks USING btree (id);
CREATE INDEX unsent_clicks_program_idx ON public.unsent_clicks USING btree (program_id);

create table unsent_counts (
  id bigint not null generated always as identity,
  program_id bigint not null,
  grouping_name grouping_name not null,
  metric grouped_metric not null,
  day date not null,
  value text not null
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=10000);
CREATE INDEX unsent_counts_idx ON public.unsent_counts USING btree (id);

create table used_forms (
  token uuid not null,
  user_id text,
  request_id uuid not null,
  location text,
  used_at timestamp with time zone not null default now(),
  constraint used_forms_pkey PRIMARY KEY (token),
  constraint used_forms_location_check CHECK ((length(location) <= 500)),
  constraint used_forms_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE
);
CREATE INDEX used_forms_used_idx ON public.used_forms USING btree (used_at);
CREATE INDEX used_forms_user_idx ON public.used_forms USING btree (user_id);

create table users (
  id text not null,
  name name_text not null,
  email text not null,
  email_verified boolean not null default false,
  image text,
  two_factor_enabled boolean not null default false,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint users_pkey PRIMARY KEY (id),
  constraint users_email_key UNIQUE (email),
  constraint users_email_lower_case CHECK ((email = lower(email)))
);
CREATE TRIGGER users_email_audit AFTER UPDATE OF email ON public.users FOR EACH ROW WHEN ((old.email <> new.email)) EXECUTE FUNCTION audit_sign_in_change('member.email_changed');
CREATE TRIGGER users_forget_email_hashes AFTER UPDATE OF email ON public.users FOR EACH ROW WHEN ((old.email <> new.email)) EXECUTE FUNCTION forget_email_hashes_of_user();
CREATE TRIGGER users_two_factor_off_audit AFTER UPDATE OF two_factor_enabled ON public.users FOR EACH ROW WHEN ((old.two_factor_enabled AND (new.two_factor_enabled IS NOT TRUE))) EXECUTE FUNCTION audit_sign_in_change('member.two_factor_disabled');
CREATE TRIGGER users_two_factor_on_audit AFTER UPDATE OF two_factor_enabled ON public.users FOR EACH ROW WHEN ((new.two_factor_enabled AND (old.two_factor_enabled IS NOT TRUE))) EXECUTE FUNCTION audit_sign_in_change('member.two_factor_enabled');

create table verifications (
  id text not null,
  identifier text not null,
  value text not null,
  expires_at timestamp with time zone not null,
  created_at timestamp with time zone not null default now(),
  updated_at timestamp with time zone not null default now(),
  constraint verifications_pkey PRIMARY KEY (id)
);
CREATE INDEX verifications_expires_at_idx ON public.verifications USING btree (expires_at);
CREATE INDEX verifications_identifier_idx ON public.verifications USING btree (identifier);

create table webhook_attempts (
  program_id bigint not null,
  endpoint_id bigint not null,
  message_id bigint not null,
  id bigint not null generated always as identity,
  attempted_at timestamp with time zone not null,
  duration_ms integer not null,
  status integer,
  error text,
  answer text,
  constraint webhook_attempts_pkey PRIMARY KEY (program_id, endpoint_id, message_id, id),
  constraint webhook_attempts_answer_check CHECK ((length(answer) <= 4096)),
  constraint webhook_attempts_check CHECK ((num_nulls(status, error) = 1)),
  constraint webhook_attempts_error_check CHECK ((length(error) <= 300)),
  constraint webhook_attempts_program_id_endpoint_id_message_id_fkey FOREIGN KEY (program_id, endpoint_id, message_id) REFERENCES webhook_deliveries(program_id, endpoint_id, message_id) ON DELETE CASCADE
);

create table webhook_deliveries (
  program_id bigint not null,
  endpoint_id bigint not null,
  message_id bigint not null,
  status text not null default 'pending'::text,
  attempt_count integer not null default 0,
  next_attempt_at timestamp with time zone,
  claimed_until timestamp with time zone,
  finished_at timestamp with time zone,
  constraint webhook_deliveries_pkey PRIMARY KEY (program_id, endpoint_id, message_id),
  constraint webhook_deliveries_check CHECK (((status = 'pending'::text) OR (next_attempt_at IS NULL))),
  constraint webhook_deliveries_check1 CHECK (((status = ANY (ARRAY['pending'::text, 'to_fetch'::text])) = (finished_at IS NULL))),
  constraint webhook_deliveries_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'delivered'::text, 'failed'::text, 'to_fetch'::text]))),
  constraint webhook_deliveries_program_id_endpoint_id_fkey FOREIGN KEY (program_id, endpoint_id) REFERENCES webhook_endpoints(program_id, id),
  constraint webhook_deliveries_program_id_message_id_fkey FOREIGN KEY (program_id, message_id) REFERENCES webhook_messages(program_id, id) ON DELETE CASCADE
);
CREATE INDEX webhook_deliveries_due_idx ON public.webhook_deliveries USING btree (program_id, endpoint_id, next_attempt_at) WHERE (next_attempt_at IS NOT NULL);
CREATE INDEX webhook_deliveries_message_idx ON public.webhook_deliveries USING btree (program_id, message_id, endpoint_id);
CREATE INDEX webhook_deliveries_next_idx ON public.webhook_deliveries USING btree (next_attempt_at) WHERE (next_attempt_at IS NOT NULL);
CREATE INDEX webhook_deliveries_open_idx ON public.webhook_deliveries USING btree (program_id, status, message_id, endpoint_id) WHERE (status <> 'delivered'::text);

create table webhook_endpoints (
  program_id bigint not null,
  id bigint not null generated always as identity,
  partner_id bigint,
  url text,
  method text not null default 'POST'::text,
  description text not null default ''::text,
  types webhook_type[] not null,
  secret_number integer not null default 1,
  previous_secret_until timestamp with time zone,
  created_at timestamp with time zone not null default now(),
  failing_since timestamp with time zone,
  failures integer not null default 0,
  failed_at timestamp with time zone,
  rests_until timestamp with time zone,
  slow_until timestamp with time zone not null default (now() + '01:00:00'::interval),
  disabled_at timestamp with time zone,
  disabled_because text,
  deleted_at timestamp with time zone,
  constraint webhook_endpoints_pkey PRIMARY KEY (program_id, id),
  constraint webhook_endpoints_check CHECK ((((partner_id IS NULL) AND (method = 'POST'::text)) OR ((partner_id IS NOT NULL) AND (url IS NOT NULL)))),
  constraint webhook_endpoints_check1 CHECK (((partner_id IS NOT NULL) = ((types)::text[] <@ '{lead,sale,commission_approved,commission_reversed,payout_paid}'::text[]))),
  constraint webhook_endpoints_check2 CHECK ((num_nulls(disabled_at, disabled_because) = ANY (ARRAY[0, 2]))),
  constraint webhook_endpoints_check3 CHECK (((failing_since IS NULL) = (failures = 0))),
  constraint webhook_endpoints_description_check CHECK ((length(description) <= 200)),
  constraint webhook_endpoints_disabled_because_check CHECK ((disabled_because = ANY (ARRAY['owner'::text, 'failures'::text]))),
  constraint webhook_endpoints_method_check CHECK ((method = ANY (ARRAY['POST'::text, 'GET'::text]))),
  constraint webhook_endpoints_types_check CHECK (((cardinality(types) >= 1) AND (cardinality(types) <= 40))),
  constraint webhook_endpoints_url_check CHECK ((length(url) <= 2000)),
  constraint webhook_endpoints_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id),
  constraint webhook_endpoints_program_id_partner_id_fkey FOREIGN KEY (program_id, partner_id) REFERENCES partners(program_id, id)
);
CREATE INDEX webhook_endpoints_partner_idx ON public.webhook_endpoints USING btree (program_id, partner_id) WHERE (partner_id IS NOT NULL);
CREATE TRIGGER webhook_endpoints_audit AFTER INSERT OR UPDATE ON public.webhook_endpoints FOR EACH ROW WHEN ((new.partner_id IS NULL)) EXECUTE FUNCTION audit_webhook_endpoint();
CREATE TRIGGER webhook_endpoints_types AFTER INSERT OR UPDATE OF types, disabled_at, deleted_at ON public.webhook_endpoints FOR EACH ROW EXECUTE FUNCTION note_webhook_types();

create table webhook_messages (
  program_id bigint not null,
  id bigint not null generated always as identity,
  type text not null,
  data jsonb not null,
  created_at timestamp with time zone not null default now(),
  constraint webhook_messages_pkey PRIMARY KEY (program_id, id),
  constraint webhook_messages_program_id_fkey FOREIGN KEY (program_id) REFERENCES programs(id)
);
CREATE INDEX webhook_messages_created_idx ON public.webhook_messages USING btree (created_at);
CREATE INDEX webhook_messages_type_idx ON public.webhook_messages USING btree (program_id, type, id);

create table workspace_invitations (
  id text not null default (gen_random_uuid())::text,
  workspace_id text not null,
  email text not null,
  role text not null,
  token_hash bytea not null,
  invited_by text,
  created_at timestamp with time zone not null default now(),
  expires_at timestamp with time zone not null,
  accepted_at timestamp with time zone,
  revoked_at timestamp with time zone,
  constraint workspace_invitations_pkey PRIMARY KEY (id),
  constraint workspace_invitations_token_hash_key UNIQUE (token_hash),
  constraint workspace_invitations_accepted_or_revoked CHECK (((accepted_at IS NULL) OR (revoked_at IS NULL))),
  constraint workspace_invitations_email_lower_case CHECK ((email = lower(email))),
  constraint workspace_invitations_role CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'billing'::text, 'guest'::text]))),
  constraint workspace_invitations_invited_by_fkey FOREIGN KEY (invited_by) REFERENCES users(id) ON DELETE SET NULL,
  constraint workspace_invitations_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX workspace_invitations_open_key ON public.workspace_invitations USING btree (workspace_id, email) WHERE ((accepted_at IS NULL) AND (revoked_at IS NULL));
CREATE TRIGGER workspace_invitations_audit AFTER INSERT OR UPDATE ON public.workspace_invitations FOR EACH ROW EXECUTE FUNCTION audit_invitation();

create table workspace_members (
  workspace_id text not null,
  user_id text not null,
  role text not null,
  created_at timestamp with time zone not null default now(),
  removed_at timestamp with time zone,
  constraint workspace_members_pkey PRIMARY KEY (workspace_id, user_id),
  constraint workspace_members_role CHECK ((role = ANY (ARRAY['owner'::text, 'admin'::text, 'member'::text, 'billing'::text, 'guest'::text]))),
  constraint workspace_members_user_id_fkey FOREIGN KEY (user_id) REFERENCES users(id) ON DELETE CASCADE,
  constraint workspace_members_workspace_id_fkey FOREIGN KEY (workspace_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX workspace_members_user_id_idx ON public.workspace_members USING btree (user_id) WHERE (removed_at IS NULL);
CREATE TRIGGER workspace_members_audit AFTER INSERT OR UPDATE ON public.workspace_members FOR EACH ROW EXECUTE FUNCTION audit_member();

create table workspaces (
  id text not null default (gen_random_uuid())::text,
  name name_text not null,
  requires_two_factor boolean not null default false,
  created_at timestamp with time zone not null default now(),
  deleted_at timestamp with time zone,
  constraint workspaces_pkey PRIMARY KEY (id)
);
CREATE TRIGGER workspaces_audit AFTER UPDATE OF requires_two_factor ON public.workspaces FOR EACH ROW WHEN ((old.requires_two_factor <> new.requires_two_factor)) EXECUTE FUNCTION audit_workspace();
CREATE TRIGGER workspaces_deleted_audit AFTER UPDATE OF deleted_at ON public.workspaces FOR EACH ROW WHEN (((old.deleted_at IS NULL) AND (new.deleted_at IS NOT NULL))) EXECUTE FUNCTION audit_workspace_deletion();

create view active_members as
 SELECT m.workspace_id,
    m.user_id,
    m.role,
    (w.requires_two_factor AND (NOT u.two_factor_enabled)) AS is_locked
   FROM ((workspace_members m
     JOIN workspaces w ON (((w.id = m.workspace_id) AND (w.deleted_at IS NULL))))
     JOIN users u ON ((u.id = m.user_id)))
  WHERE (m.removed_at IS NULL);

create view click_events as
 SELECT e.program_id,
    e.is_test,
    e.click_timestamp,
    e.id,
    e.customer_id,
    COALESCE(e.click_id, click_id_of(e.program_id, COALESCE(e.click_ms, milliseconds(e.click_timestamp)), e.click_random)) AS click_id,
    e.link_id,
    e.session_id,
    COALESCE(e.affiliate_url, (landing.part ->> 'affiliate_url'::text)) AS affiliate_url,
    COALESCE(e.page_url, (page.part ->> 'page_url'::text)) AS page_url,
    COALESCE(e.page_title, (page.part ->> 'page_title'::text)) AS page_title,
    COALESCE(e.referrer_url, (referrer.part ->> 'referrer_url'::text)) AS referrer_url,
    COALESCE(e.user_agent, (browser.part ->> 'user_agent'::text)) AS user_agent,
    COALESCE(e.screen_resolution, (browser.part ->> 'screen_resolution'::text)) AS screen_resolution,
    e.viewport_size,
    COALESCE(e.language, (browser.part ->> 'language'::text)) AS language,
    COALESCE(e.timezone, (place.part ->> 'timezone'::text)) AS timezone,
    e.geo_country,
    COALESCE(e.geo_region, (place.part ->> 'geo_region'::text)) AS geo_region,
    COALESCE(e.geo_city, (place.part ->> 'geo_city'::text)) AS geo_city,
    e.device_type,
    COALESCE(e.device_os, (browser.part ->> 'device_os'::text)) AS device_os,
    COALESCE(e.browser_name, (browser.part ->> 'browser_name'::text)) AS browser_name,
    e.additional_data,
    COALESCE(e.campaign, (landing.part -> 'campaign'::text)) AS campaign,
    e.visitor,
    COALESCE(e.created_at, e.click_timestamp) AS created_at
   FROM (((((affiliate_click_events e
     LEFT JOIN click_parts landing ON (((landing.program_id = e.program_id) AND (landing.id = e.landing_part))))
     LEFT JOIN click_parts page ON (((page.program_id = e.program_id) AND (page.id = e.page_part))))
     LEFT JOIN click_parts browser ON (((browser.program_id = e.program_id) AND (browser.id = e.browser_part))))
     LEFT JOIN click_parts place ON (((place.program_id = e.program_id) AND (place.id = e.place_part))))
     LEFT JOIN click_parts referrer ON (((referrer.program_id = e.program_id) AND (referrer.id = e.referrer_part))));

create view click_only_customers as
 SELECT program_id,
    id,
    last_click_at
   FROM customers c
  WHERE ((customer_status = 'click'::text) AND (num_nonnulls(customer_key, email_hash, provisional_lead_at) = 0) AND (NOT (EXISTS ( SELECT
           FROM sales s
          WHERE ((s.program_id = c.program_id) AND (s.customer_id = c.id))))) AND (NOT (EXISTS ( SELECT
           FROM processor_customers p
          WHERE ((p.program_id = c.program_id) AND (p.customer_id = c.id))))) AND (NOT (EXISTS ( SELECT
           FROM processor_sessions s
          WHERE ((s.program_id = c.program_id) AND (s.customer_id = c.id))))) AND (NOT (EXISTS ( SELECT
           FROM commissions m
          WHERE ((m.program_id = c.program_id) AND (m.customer_id = c.id))))) AND (NOT (EXISTS ( SELECT
           FROM imported_commissions m
          WHERE ((m.program_id = c.program_id) AND (m.customer_id = c.id))))));

create view link_click_counts as
 SELECT program_id,
    link_id,
    sum(clicks) AS clicks,
    sum(bot_clicks) AS bot_clicks,
    max(last_clicked_at) AS last_clicked_at
   FROM ( SELECT link_clicks.program_id,
            link_clicks.link_id,
            link_clicks.clicks,
            link_clicks.bot_clicks,
            link_clicks.last_clicked_at
           FROM link_clicks
        UNION ALL
         SELECT uncounted_clicks.program_id,
            uncounted_clicks.link_id,
            ((NOT uncounted_clicks.is_bot))::integer AS int4,
            (uncounted_clicks.is_bot)::integer AS is_bot,
                CASE
                    WHEN (NOT uncounted_clicks.is_bot) THEN uncounted_clicks.clicked_at
                    ELSE NULL::timestamp with time zone
                END AS "case"
           FROM uncounted_clicks) clicked
  GROUP BY program_id, link_id;

create view owed_balances as
 SELECT program_id,
    partner_id,
    currency,
    (- balance_cents) AS owed_cents,
    ( SELECT min(e.created_at) AS min
           FROM balance_entries e
          WHERE ((e.program_id = b.program_id) AND (e.partner_id = b.partner_id) AND ((e.currency)::text = (b.currency)::text) AND (e.entry_number > ( SELECT COALESCE(max(p.entry_number), (0)::bigint) AS "coalesce"
                   FROM balance_entries p
                  WHERE ((p.program_id = b.program_id) AND (p.partner_id = b.partner_id) AND ((p.currency)::text = (b.currency)::text) AND (p.balance_after_cents >= 0)))))) AS owed_since
   FROM balances b
  WHERE (balance_cents < 0);

create view payable_balances as
 SELECT b.program_id,
    b.partner_id,
    b.currency,
    b.balance_cents,
    (COALESCE(w.open_cents, (0)::numeric))::bigint AS open_cents,
    (((b.balance_cents)::numeric - COALESCE(w.open_cents, (0)::numeric)))::bigint AS payable_cents
   FROM (balances b
     LEFT JOIN ( SELECT w_1.program_id,
            w_1.partner_id,
            w_1.currency,
            sum((w_1.amount_cents)::bigint) AS open_cents
           FROM payouts w_1
          WHERE (w_1.decided_at IS NULL)
          GROUP BY w_1.program_id, w_1.partner_id, w_1.currency) w ON (((w.program_id = b.program_id) AND (w.partner_id = b.partner_id) AND ((w.currency)::text = (b.currency)::text))));

create view payout_line_entries as
 SELECT l.program_id,
    l.payout_id,
    l.payment_number,
    l.entry_number,
    l.amount_cents,
    l.is_returned,
    e.cause,
    e.commission_id,
    e.adjustment_id,
    e.created_at AS posted_at
   FROM (payout_lines l
     CROSS JOIN LATERAL ( SELECT n.program_id,
            n.partner_id,
            n.currency,
            n.entry_number,
            n.amount_cents,
            n.balance_before_cents,
            n.balance_after_cents,
            n.cause,
            n.commission_id,
            n.correction_number,
            n.refund_id,
            n.payout_id,
            n.adjustment_id,
            n.reference,
            n.created_at,
            n.entry_hash,
            n.previous_entry_number
           FROM balance_entries n
          WHERE ((n.program_id = l.program_id) AND (n.partner_id = l.partner_id) AND ((n.currency)::text = (l.currency)::text) AND (n.entry_number = l.entry_number))
         LIMIT 1) e);

create view payouts_due as
 SELECT p.program_id,
    p.partner_id,
    p.currency,
    p.payable_cents,
    COALESCE((m.minimum_payout_cents)::bigint, (0)::bigint) AS minimum_payout_cents,
    COALESCE(r.payout_email, r.email) AS payout_address,
        CASE
            WHEN (p.payable_cents < COALESCE((m.minimum_payout_cents)::bigint, (0)::bigint)) THEN 'below_minimum'::text
            WHEN (COALESCE(r.payout_email, r.email) IS NULL) THEN 'no_payout_address'::text
            WHEN (r.payout_waits_until > now()) THEN 'payout_address_changed'::text
            WHEN ((l.currency IS NOT NULL) AND is_held_for_tax_form(p.program_id, p.partner_id, (p.currency)::text, p.payable_cents)) THEN 'no_tax_form'::text
            ELSE NULL::text
        END AS exclusion_reason
   FROM ((((( SELECT g_1.id
           FROM programs g_1
          WHERE (NOT in_shadow_mode(g_1.id))) g
     JOIN payable_balances p ON (((p.program_id = g.id) AND (p.payable_cents > 0))))
     JOIN partners r ON (((r.program_id = p.program_id) AND (r.id = p.partner_id))))
     LEFT JOIN minimum_payouts m ON (((m.program_id = p.program_id) AND ((m.currency)::text = (p.currency)::text))))
     LEFT JOIN tax_form_limits l ON (((l.program_id = p.program_id) AND ((l.currency)::text = (p.currency)::text))));

create view program_roles as
 SELECT p.id AS program_id,
    m.workspace_id,
    m.user_id,
    m.is_locked,
    array_remove(ARRAY[m.role, o.role], NULL::text) AS roles
   FROM ((active_members m
     JOIN programs p ON (((p.workspace_id = m.workspace_id) AND (p.deleted_at IS NULL))))
     LEFT JOIN program_members o ON (((o.program_id = p.id) AND (o.user_id = m.user_id))));

create view unpaid_entries as
 SELECT e.program_id,
    e.partner_id,
    e.currency,
    e.entry_number,
    e.commission_id,
    e.adjustment_id,
    (((e.amount_cents)::numeric - COALESCE(l.paid_cents, (0)::numeric)))::bigint AS unpaid_cents
   FROM (balance_entries e
     CROSS JOIN LATERAL ( SELECT sum(l_1.amount_cents) AS paid_cents
           FROM payout_lines l_1
          WHERE ((l_1.program_id = e.program_id) AND (l_1.partner_id = e.partner_id) AND ((l_1.currency)::text = (e.currency)::text) AND (l_1.entry_number = e.entry_number) AND (NOT l_1.is_returned))) l)
  WHERE ((e.payout_id IS NULL) AND ((e.amount_cents)::numeric <> COALESCE(l.paid_cents, (0)::numeric)));

create view unsettled_partners as
 SELECT r.program_id,
    r.id AS partner_id,
    r.user_id,
    u.unsettled
   FROM (partners r
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN (EXISTS ( SELECT
                       FROM payouts w
                      WHERE ((w.program_id = r.program_id) AND (w.partner_id = r.id) AND (w.decided_at IS NULL)))) THEN 'open_payout'::text
                    WHEN (EXISTS ( SELECT
                       FROM balances b
                      WHERE ((b.program_id = r.program_id) AND (b.partner_id = r.id) AND (b.balance_cents > 0)))) THEN 'balance'::text
                    WHEN (EXISTS ( SELECT
                       FROM commissions c
                      WHERE ((c.program_id = r.program_id) AND (c.partner_id = r.id) AND (c.credited_at IS NULL) AND (c.rejected_at IS NULL) AND ((c.reversal)::text <> 'full'::text) AND (NOT c.is_shadow)))) THEN 'pending_commission'::text
                    ELSE NULL::text
                END AS unsettled) u)
  WHERE (u.unsettled IS NOT NULL);

CREATE OR REPLACE FUNCTION public.accounts_of(program programs)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return array_remove(array[program.processor_account_id, program.processor_former_account_id], null)
    || array(select c.account_id from processor_connections c where c.program_id = program.id order by 1);
end $function$
;

CREATE OR REPLACE FUNCTION public.act_as(of_user_id text, form uuid, request uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.act_by_key(of_key_id bigint, of_program_id bigint, of_token text, of_request_hash bytea)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.acting_key()
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$ select nullif(current_setting('svc.api_key', true), '')::bigint $function$
;

CREATE OR REPLACE FUNCTION public.acting_user()
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$ select nullif(current_setting('svc.actor', true), '') $function$
;

CREATE OR REPLACE FUNCTION public.add_block(of_program_id bigint, of_network text, hours integer, because text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  block blocks;
begin
  if of_program_id is not null and not exists (select from programs p where p.id = of_program_id and p.deleted_at is null) then
    return null;
  end if;
  insert into blocks (program_id, network, reason, ends_at)
  values (of_program_id, network(of_network::inet)::cidr, because, now() + make_interval(hours => hours))
  returning * into block;
  perform write_program_audit(of_program_id, 'program.blocked', because, jsonb_build_object('ends_at', block.ends_at));
  return block.id;
end $function$
;

CREATE OR REPLACE FUNCTION public.add_customer_of_code(given sales, click_id_prefix text, new_email_hash bytea, new_mailbox_hash bytea, bought_at timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  customer bigint;
begin
  insert into customers as c (program_id, click_id, customer_key, email_hash, mailbox_hash, partner_id, code_id, created_at)
  select k.program_id, click_id_prefix || k.program_id, given.customer_key, new_email_hash, new_mailbox_hash, k.partner_id, k.id, least(bought_at, now())
  from partner_codes k where k.program_id = given.program_id and k.id = given.code_id
  on conflict (program_id, customer_key) where customer_key is not null do nothing
  returning c.id into customer;
  if customer is null then
    select c.id into customer from customers c where c.program_id = given.program_id and c.customer_key = given.customer_key;
  end if;
  return customer;
end $function$
;

CREATE OR REPLACE FUNCTION public.add_customers(of_program_id bigint, at timestamp with time zone, more_leads bigint, more_conversions bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_day constant date := utc_day(at);
  of_slot constant smallint := counter_slot(at);
begin
  -- The row almost always exists, so the cheaper update runs first.
  update daily_totals t set leads = t.leads + more_leads, conversions = t.conversions + more_conversions
  where t.program_id = of_program_id and t.day = of_day and t.slot = of_slot;
  if found then
    return;
  end if;
  insert into daily_totals as counted (program_id, day, slot, leads, conversions)
  values (of_program_id, of_day, of_slot, more_leads, more_conversions)
  on conflict on constraint daily_totals_pkey do update set
    leads = counted.leads + excluded.leads,
    conversions = counted.conversions + excluded.conversions;
end $function$
;

CREATE OR REPLACE FUNCTION public.add_grouped(figures grouped_figure[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  kept constant grouped_figure[] := limit_values(figures);
begin
  perform add_totals(kept);
  perform add_totals_of_quarters(kept);
  if has_click_sink() then
    insert into unsent_counts (program_id, grouping_name, metric, day, value)
    select distinct f.program_id, f.grouping_name, f.metric, f.day, f.value from unnest(kept) f where f.metric in ('clicks', 'bot_clicks');
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.add_hours(a bigint[], b bigint[])
 RETURNS bigint[]
 LANGUAGE sql
 IMMUTABLE
AS $function$ select array(select coalesce(x, 0) + coalesce(y, 0) from unnest(a, b) as hour (x, y)) $function$
;

CREATE OR REPLACE FUNCTION public.add_quarters(INOUT quarters smallint[], INOUT sums bigint[], more_quarters smallint[], more_sums bigint[])
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  latest constant integer := cardinality(quarters);
begin
  if cardinality(more_quarters) = 1 and more_quarters[1] = quarters[latest] then
    sums[latest] := sums[latest] + more_sums[1];
  elsif cardinality(more_quarters) = 1 and more_quarters[1] > quarters[latest] then
    quarters := quarters || more_quarters;
    sums := sums || (sums[latest] + more_sums[1]);
  else
    select array_agg(a.quarter order by a.quarter), array_agg(a.sum order by a.quarter) into quarters, sums
    from (
      select s.quarter, (sum(sum(s.amount)) over (order by s.quarter))::bigint as sum
      from (
        select u.quarter, u.sum - lag(u.sum, 1, 0::bigint) over (order by u.quarter) as amount
        from unnest(add_quarters.quarters, add_quarters.sums) u (quarter, sum)
        union all
        select u.quarter, u.sum - lag(u.sum, 1, 0::bigint) over (order by u.quarter)
        from unnest(more_quarters, more_sums) u (quarter, sum)
      ) s
      group by s.quarter
    ) a;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.add_second_customer(of_program_id bigint, new_key text, of_click_id text, click_id_prefix text, valid_after timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into customers (program_id, click_id, customer_key, link_id, partner_id, last_click_at, created_at)
  select c.program_id, click_id_prefix || c.program_id, new_key, c.link_id, c.partner_id, c.last_click_at, c.created_at from customers c
  where c.program_id = of_program_id and c.click_id = of_click_id and c.last_click_at > valid_after
    and c.customer_key is not null
    and not exists (select from customers k where k.program_id = of_program_id and k.customer_key = new_key)
  on conflict (program_id, customer_key) where customer_key is not null do nothing;
end $function$
;

CREATE OR REPLACE FUNCTION public.add_totals(figures grouped_figure[])
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into grouped_totals as kept (program_id, grouping_name, span, starts, value, currency, clicks, bot_clicks, leads, conversions, sales,
    revenue_cents, commission_cents, refunded_cents)
  select d.program_id, d.grouping_name, s.span, s.starts, d.value, d.currency, sum(d.clicks), sum(d.bot_clicks), sum(d.leads), sum(d.conversions),
    sum(d.sales), sum(d.revenue_cents), sum(d.commission_cents), sum(d.refunded_cents)
  from (
    select f.program_id, f.grouping_name, f.day, f.value, f.currency,
      coalesce(sum(f.amount) filter (where f.metric = 'clicks'), 0) as clicks,
      coalesce(sum(f.amount) filter (where f.metric = 'bot_clicks'), 0) as bot_clicks,
      coalesce(sum(f.amount) filter (where f.metric = 'leads'), 0) as leads,
      coalesce(sum(f.amount) filter (where f.metric = 'conversions'), 0) as conversions,
      coalesce(sum(f.amount) filter (where f.metric = 'sales'), 0) as sales,
      coalesce(sum(f.amount) filter (where f.metric = 'revenue'), 0) as revenue_cents,
      coalesce(sum(f.amount) filter (where f.metric = 'commission'), 0) as commission_cents,
      coalesce(sum(f.amount) filter (where f.metric = 'refunded'), 0) as refunded_cents
    from unnest(figures) f
    group by 1, 2, 3, 4, 5
  ) d
  cross join lateral (values ('day'::total_span, d.day), ('month', date_trunc('month', d.day::timestamp)::date)) s (span, starts)
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (program_id, grouping_name, span, starts, value, currency) do update set
    clicks = kept.clicks + excluded.clicks, bot_clicks = kept.bot_clicks + excluded.bot_clicks, leads = kept.leads + excluded.leads,
    conversions = kept.conversions + excluded.conversions, sales = kept.sales + excluded.sales,
    revenue_cents = kept.revenue_cents + excluded.revenue_cents, commission_cents = kept.commission_cents + excluded.commission_cents,
    refunded_cents = kept.refunded_cents + excluded.refunded_cents
$function$
;

CREATE OR REPLACE FUNCTION public.add_totals_of_quarters(figures grouped_figure[])
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into grouped_quarters as kept (program_id, grouping_name, metric, currency, day, value, quarters, sums)
  select program_id, grouping_name, metric, currency, day, value, array_agg(quarter order by quarter), array_agg(sum order by quarter)
  from (
    select f.program_id, f.grouping_name, f.metric, f.currency, f.day, f.value, f.quarter, (sum(sum(f.amount)) over (
      partition by f.program_id, f.grouping_name, f.metric, f.currency, f.day, f.value order by f.quarter
    ))::bigint as sum
    from unnest(figures) f
    group by 1, 2, 3, 4, 5, 6, 7
  ) summed
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (program_id, grouping_name, metric, currency, day, value) do update set (quarters, sums) = (
    select a.quarters, a.sums from add_quarters(kept.quarters, kept.sums, excluded.quarters, excluded.sums) a
  )
$function$
;

CREATE OR REPLACE FUNCTION public.addresses_of_partner(partner partners)
 RETURNS text[]
 LANGUAGE sql
 STABLE
RETURN ARRAY(SELECT DISTINCT a.address FROM (VALUES ((addresses_of_partner.partner).email), ((addresses_of_partner.partner).payout_email), ((SELECT u.email FROM users u WHERE (u.id = (addresses_of_partner.partner).user_id)))) a(address) WHERE (a.address IS NOT NULL) ORDER BY a.address)
;

CREATE OR REPLACE FUNCTION public.admit_applicant(application applications, in_group_id bigint, code_digits text, invitation_hash bytea, is_at_once boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  partner partners;
  profile partner_profiles;
begin
  if is_at_once then
    -- The service is the actor here, regardless of who opened the link.
    perform set_config('svc.actor', '', true);
  end if;
  select f.* into profile from partner_profiles f where f.user_id = application.user_id;
  select r.* into partner from partners r
  where r.program_id = application.program_id and (r.user_id = application.user_id or lower(r.email) = application.email)
  order by r.user_id = application.user_id desc nulls last limit 1 for update;
  if partner.id is null then
    insert into partners (program_id, user_id, group_id, name, email, payout_email)
    values (application.program_id, application.user_id, in_group_id, coalesce(profile.name, application.name), application.email, profile.payout_email)
    returning * into partner;
    -- An applicant with an account typed their own name.
    insert into partner_profiles as f (user_id, name) select application.user_id, application.name where application.user_id is not null
    on conflict (user_id) do update set name = excluded.name where f.name is null;
  elsif partner.closed_at is not null or partner.user_id <> application.user_id then
    raise exception 'the partner is another person' using errcode = 'unique_violation', constraint = 'partners_of_another_person';
  elsif application.user_id is not null then
    update partners r set user_id = application.user_id, group_id = coalesce(in_group_id, r.group_id),
      name = coalesce(profile.name, r.name), payout_email = coalesce(profile.payout_email, r.payout_email),
      is_active = r.is_active or r.ended_at is not null, ended_at = null, ended_by = null
    where r.program_id = partner.program_id and r.id = partner.id;
    update referral_links l set is_active = true
    where l.program_id = partner.program_id and l.partner_id = partner.id and partner.ended_at is not null;
    partner.user_id := application.user_id;
    partner.ended_at := null;
  elsif in_group_id is not null then
    update partners r set group_id = in_group_id where r.program_id = partner.program_id and r.id = partner.id;
  end if;
  if not exists (select from referral_links l where l.program_id = partner.program_id and l.partner_id = partner.id) then
    insert into referral_links (code, program_id, partner_id) values (
      coalesce(nullif(left(regexp_replace(lower(normalize(application.name, nfkd)), '[^a-z0-9]+', '', 'g'), 20), ''), 'partner') || code_digits,
      partner.program_id, partner.id);
  end if;
  update applications a set status = 'approved', partner_id = partner.id, decided_at = now(), decided_by_key = acting_key(),
    decided_by = acting_user()
  where a.program_id = application.program_id and a.id = application.id;
  if partner.user_id is not null and partner.ended_at is null then
    return false;
  end if;
  insert into partner_invitations (program_id, partner_id, email, token_hash, application_id, expires_at)
  values (partner.program_id, partner.id, application.email, invitation_hash, application.id, now() + interval '14 days')
  on conflict (program_id, partner_id) where accepted_at is null and declined_at is null and revoked_at is null
  do update set email = excluded.email, token_hash = excluded.token_hash, invited_by = null, application_id = excluded.application_id,
    created_at = now(), expires_at = excluded.expires_at;
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.amount_of_quarters(quarters smallint[], sums bigint[], before smallint, last smallint)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN (CASE last WHEN 95 THEN (sums)[cardinality(sums)] ELSE COALESCE((sums)[width_bucket(last, quarters)], (0)::bigint) END - CASE before WHEN '-1'::integer THEN (0)::bigint ELSE COALESCE((sums)[width_bucket(before, quarters)], (0)::bigint) END)
;

CREATE OR REPLACE FUNCTION public.amounts_of_values(of_program_id bigint, names grouping_name[], wanted text[], metrics grouped_metric[], money text, is_overview boolean, starts timestamp with time zone[], until timestamp with time zone, click_cells jsonb)
 RETURNS TABLE(n integer, name grouping_name, value text, metric grouped_metric, amount bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
#variable_conflict use_column
declare
  stored constant grouped_metric[] := array(select m from unnest(metrics) m where click_cells is null or m not in ('clicks', 'bot_clicks'));
  stored_names constant grouping_name[] := case when cardinality(stored) > 0 then names end;
  -- The rows of these metrics. The index skips all other rows. For the money of three months, it touched 7,900 pages of memory instead of
  -- 67,800.
  only_currency constant text := case
    when metrics <@ '{clicks,bot_clicks,leads,conversions}' then '' when metrics <@ '{revenue,commission,refunded}' then money
  end;
begin
  return query
  with part as materialized (
    select * from interval_parts(amounts_of_values.starts, amounts_of_values.until)
  ),
  cell as (
    select p.n, k.name, t.value, t.metric, p.sign * t.amount as amount
    from unnest(stored_names) k (name) cross join part p
    -- Each grouping and part is a separate index scan.
    cross join lateral (
      select t.value, m.metric, figure_of(t, m.metric, money, is_overview) as amount
      from grouped_totals t cross join unnest(stored) m (metric)
      where t.program_id = of_program_id and t.grouping_name = k.name and t.span = p.span and t.starts = p.starts
        and (wanted is null or t.value = any (wanted)) and (only_currency is null or t.currency = only_currency)
      offset 0
    ) t
    union all
    select p.n, k.name, q.value, q.metric, amount_of_quarters(q.quarters, q.sums, p.before, p.last)
    from unnest(stored_names) k (name) cross join (select distinct p.starts from part p where p.span is null) cut
    cross join lateral (
      select * from grouped_quarters q
      where q.program_id = of_program_id and q.grouping_name = k.name and q.metric = any (stored) and q.day = cut.starts
        and (q.currency = '' or q.currency = money or is_overview and q.metric = 'sales') and (wanted is null or q.value = any (wanted))
      offset 0
    ) q
    join part p on p.starts = cut.starts and p.span is null
    union all
    select width_bucket(u.at, amounts_of_values.starts), u.grouping_name, u.value, u.metric, u.amount
    from uncounted_amounts(of_program_id, amounts_of_values.starts[1], amounts_of_values.until) u
    where is_overview and u.grouping_name = any (names) and u.metric = any (metrics) and (wanted is null or u.value = any (wanted))
      and (u.currency = '' or u.currency = money or u.metric = 'sales')
    union all
    select width_bucket(to_timestamp(k.at), amounts_of_values.starts), k.name, k.value, k.metric, k.amount
    from jsonb_to_recordset(click_cells) k (at bigint, name grouping_name, value text, metric grouped_metric, amount bigint)
    where k.name = any (names) and k.metric = any (metrics) and (wanted is null or k.value = any (wanted))
      and to_timestamp(k.at) >= amounts_of_values.starts[1] and to_timestamp(k.at) < amounts_of_values.until
  )
  select c.n, c.name, c.value, c.metric, total(c.amount) from cell c where c.amount <> 0 group by 1, 2, 3, 4;
end $function$
;

CREATE OR REPLACE FUNCTION public.amounts_with_rest(of_program_id bigint, names grouping_name[], metrics grouped_metric[], money text, is_overview boolean, starts timestamp with time zone[], until timestamp with time zone, click_cells jsonb)
 RETURNS TABLE(n integer, name grouping_name, value text, metric grouped_metric, amount bigint)
 LANGUAGE sql
 STABLE
AS $function$
  with amount as materialized (
    select * from amounts_of_values(of_program_id, names || 'all'::grouping_name, null, metrics, money, is_overview, amounts_with_rest.starts,
      amounts_with_rest.until, click_cells)
  )
  select * from amount
  union all
  select s.n, k.name, null, s.metric, total(case s.name when 'all' then s.amount else -s.amount end)
  from (select a.n, a.name, a.metric, total(a.amount) as amount from amount a group by 1, 2, 3) s
  join unnest(names) k (name) on s.name in ('all', k.name)
  group by 1, 2, 4 having total(case s.name when 'all' then s.amount else -s.amount end) <> 0
$function$
;

CREATE OR REPLACE FUNCTION public.analyze_import_tables()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  grown regclass;
begin
  for grown in
    select c.oid from pg_class c where c.reltuples < 2000 and c.oid in ('import_rows'::regclass, 'partners'::regclass,
      'referral_links'::regclass, 'partner_codes'::regclass, 'customers'::regclass, 'processor_customers'::regclass, 'adjustments'::regclass,
      'balances'::regclass, 'balance_entries'::regclass, 'imported_commissions'::regclass)
  loop
    execute format('analyze (skip_locked) %s', grown);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.api_payload_of(sale sales)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((sale).amount_source = 'api'::amount_source) THEN payload_of(sale) ELSE NULL::jsonb END
;

CREATE OR REPLACE FUNCTION public.application_rests_after_rejection()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
RETURN '30 days'::interval
;

CREATE OR REPLACE FUNCTION public.apply_awaited_payment(event processor_events, buyer_id bigint, click_id_prefix text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := payment_ids_of(event.fact);
  given sales;
  waiting processor_events;
begin
  perform lock_customers_of_payment(event.account_id, ids, buyer_id);
  given := sale_of_payments(event.account_id, false, ids);
  if given.program_id = event.program_id then
    given.customer_id := coalesce(given.customer_id, buyer_id);
    given.resolution := coalesce(event.resolution, given.resolution);
    given.processor_session_id := event.fact->>'session_id';
    -- The API's amounts don't change.
    if given.amount_source in ('charge', 'intent') and event.fact#>>'{requested,total}' is not null then
      given.amount_source := 'session';
      given.commission_base_cents := untaxed_part(given.amount_cents, (event.fact#>>'{requested,untaxed}')::bigint,
        (event.fact#>>'{requested,total}')::bigint);
    end if;
    perform record_sale(given, true);
    perform settle_reversals(sale_of_payments(event.account_id, false, ids));
    return;
  end if;
  for waiting in
    update processor_events e set awaits = null, waits_for = null
    where e.account_id = event.account_id and e.livemode
      and e.awaits && array(select awaited_name(e.account_id, 'payment', id) from unnest(ids_of_payment(event.account_id, ids)) id)
    returning e.*
  loop
    waiting := apply_purchase(with_outcome(waiting, null, null), '{"promotion_code_ids": []}', click_id_prefix);
    update processor_events e set outcome = waiting.outcome, reason = 'session_known', program_id = waiting.program_id,
      resolution = waiting.resolution,
      awaits = waiting.awaits
    where e.account_id = waiting.account_id and e.event_id = waiting.event_id and waiting.outcome <> 'ignored';
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_awaiting_invoices(sale sales, of_account_id text, ids text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  event processor_events;
begin
  for event in
    update processor_events e set awaits = null, waits_for = null, program_id = sale.program_id, outcome = 'recorded',
      reason = 'sale_known'
    where e.account_id = of_account_id and e.livemode <> sale.is_test
      and e.awaits && array(select awaited_name(of_account_id, 'payment', id) from unnest(ids) id)
      -- A sale that only the API reported has no fee.
      and (e.fact->>'kind' <> 'payment_fee' or sale.amount_source <> 'api')
    returning e.*
  loop
    if event.fact->>'kind' = 'refunded_total' then
      perform keep_refund_rise(event, sale);
      continue;
    elsif event.fact->>'kind' = 'payment_fee' then
      perform deduct_fee(sale, (event.fact->>'fee_cents')::bigint);
      continue;
    end if;
    if event.livemode and event.fact#>>'{sale,amount_source}' in ('charge', 'intent') then
      event.fact := with_session(of_account_id, event.fact, ids);
    end if;
    perform record_sale(sale_of_purchase(event, sale, ids, null), true);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_balance_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
declare
  adjustment adjustments;
begin
  insert into adjustments (program_id, partner_id, currency, amount_cents, note, external_id, request_id, import_id)
  values (import.program_id, partner_of_row(applied), applied.fields->>'currency', (applied.fields->>'amount_cents')::bigint,
    applied.fields->>'note', import.source || ':balance:' || applied.source_id, gen_random_uuid(), import.id)
  returning * into adjustment;
  applied.target_id := adjustment.id;
  insert into balances (program_id, partner_id, currency) values (import.program_id, adjustment.partner_id, adjustment.currency)
  on conflict do nothing;
  perform from balances b
  where b.program_id = import.program_id and b.partner_id = adjustment.partner_id and b.currency = adjustment.currency for no key update;
  perform change_balance(import.program_id, adjustment.partner_id, adjustment.currency, adjustment.amount_cents, 'opening_balance',
    'adjustment:' || adjustment.id, jsonb_build_object('adjustment_id', adjustment.id, 'currency', adjustment.currency),
    of_adjustment_id => adjustment.id);
  return applied;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_code_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
declare
  of_partner_id constant bigint := partner_of_row(applied);
begin
  if applied.kind = 'link' then
    insert into referral_links (program_id, partner_id, code, page_url, external_id, is_active)
    select p.program_id, p.id, applied.fields->>'code', applied.fields->>'page_url', imported_id(import, applied.source_id), p.is_active
    from partners p where p.program_id = import.program_id and p.id = of_partner_id returning id into applied.target_id;
  else
    insert into partner_codes (program_id, partner_id, code)
    values (import.program_id, of_partner_id, applied.fields->>'code') returning id into applied.target_id;
  end if;
  return applied;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_commission_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
begin
  if applied.outcome = 'update' then
    update imported_commissions c set amount_cents = (applied.fields->>'amount_cents')::bigint,
      status = coalesce(applied.fields->>'status', 'pending')
    where c.program_id = import.program_id and c.id = applied.target_id
    returning changed_columns(
      jsonb_build_object('amount_cents', old.amount_cents, 'status', old.status),
      jsonb_build_object('amount_cents', new.amount_cents, 'status', new.status)
    ) into applied.replaced;
    return applied;
  end if;
  insert into imported_commissions (program_id, partner_id, customer_id, external_id, amount_cents, currency, status, sale_cents, payment_id,
    earned_at)
  values (import.program_id, partner_of_row(applied), (
      select r.target_id from import_rows r
      where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'customer'
        and r.source_id = applied.fields->>'customer' order by r.target_id is null, r.id limit 1
    ), imported_id(import, applied.source_id), (applied.fields->>'amount_cents')::bigint, applied.fields->>'currency',
    coalesce(applied.fields->>'status', 'pending'), (applied.fields->>'sale_cents')::bigint, applied.fields->>'payment_id',
    coalesce((applied.fields->>'earned_at')::timestamptz, now()))
  returning id into applied.target_id;
  return applied;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_customer(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  fact jsonb := event.fact;
  named text := 'customer ' || (fact->>'processor_customer_id');
  given text[] := array_remove(array['key ' || (fact->>'customer_key'), 'click ' || (fact->>'click_id')], null);
  program programs;
begin
  if not exists (select from programs_of_account(event.account_id)) then
    return with_outcome(event, 'ignored', 'account_not_connected');
  elsif named is null then
    return with_outcome(event, 'ignored', 'customer_erased');
  end if;
  -- Locks the customer first, as purchases do.
  perform lock_ids(event.account_id, array[named]);
  perform lock_ids(event.account_id, given);
  insert into processor_customer_metadata as kept (account_id, livemode, processor_customer_id, program_id, click_id, customer_key, reported_at,
    event_id, is_deleted)
  values (event.account_id, event.livemode, fact->>'processor_customer_id', (fact->>'program_id')::bigint, fact->>'click_id',
    fact->>'customer_key', (fact->>'reported_at')::timestamptz, event.event_id, (fact->>'is_deleted')::boolean)
  on conflict (account_id, livemode, processor_customer_id) do update set program_id = excluded.program_id, click_id = excluded.click_id,
    customer_key = excluded.customer_key, reported_at = excluded.reported_at, event_id = excluded.event_id, is_deleted = excluded.is_deleted
  -- If two events have the same second, the same event always wins, no matter which one arrived first.
  where (kept.reported_at, kept.event_id) <= (excluded.reported_at, excluded.event_id);
  if not found then
    return with_outcome(event, 'duplicate', 'newer_metadata');
  end if;
  program := program_of_purchase(event.account_id, fact);
  event.program_id := program.id;
  if num_nonnulls(fact->>'program_id', fact->>'click_id') = 0 then
    return with_outcome(event, 'recorded', 'no_program_named');
  elsif event.livemode and program.id is not null then
    update processor_events e set awaits = e.awaits || awaited_names(event.account_id, given)
    where e.account_id = event.account_id and e.program_id = program.id and e.livemode and e.awaits @> awaited_names(event.account_id, array[named])
      and not e.awaits @> awaited_names(event.account_id, given);
    perform attribute_awaiting_purchases(event.account_id, program, array[named]);
  end if;
  perform park_awaiting_payments(event.account_id, event.livemode, array[named], '-infinity');
  -- Excluded payments wait only for metadata. The customer's other payments don't attribute them.
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'customer_known'
  where e.account_id = event.account_id and e.outcome = 'ignored'
    and e.awaits @> awaited_names(event.account_id, array['metadata ' || (event.fact->>'processor_customer_id')]);
  return with_outcome(event, 'recorded', 'customer_metadata');
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_customer_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
declare
  purchase constant timestamptz := least((applied.fields->>'first_purchase_date')::timestamptz, now());
  signup constant timestamptz := least(coalesce((applied.fields->>'signup_date')::timestamptz, purchase), now());
begin
  if applied.outcome = 'create' then
    insert into customers (program_id, click_id, customer_key, email_hash, mailbox_hash, link_id, partner_id, customer_status, signup_date,
      lead_event_id, first_purchase_date, imported_at)
    values (import.program_id, imported_click_id(import.program_id), applied.fields->>'customer_key',
      decode(applied.fields->>'email_hash', 'hex'), decode(applied.fields->>'mailbox_hash', 'hex'), (
        select l.id from referral_links l
        where l.program_id = import.program_id and l.partner_id = partner_of_row(applied) and lower(l.code) = lower(applied.fields->>'link')
      ), partner_of_row(applied), case when purchase is null then 'lead' else 'conversion' end, signup,
      nextval('affiliate_lead_events_id_seq'), purchase, now())
    returning id into applied.target_id;
  else
    update customers c set updated_at = now(),
      customer_key = coalesce(c.customer_key, case when not exists (
        select from customers k where k.program_id = c.program_id and k.customer_key = applied.fields->>'customer_key'
      ) then applied.fields->>'customer_key' end),
      email_hash = coalesce(c.email_hash, decode(applied.fields->>'email_hash', 'hex')),
      mailbox_hash = case when c.email_hash is null then decode(applied.fields->>'mailbox_hash', 'hex') else c.mailbox_hash end
    where c.program_id = import.program_id and c.id = applied.target_id
    returning changed_columns(
      jsonb_build_object('customer_key', old.customer_key, 'email_hash', old.email_hash, 'mailbox_hash', old.mailbox_hash),
      jsonb_build_object('customer_key', new.customer_key, 'email_hash', new.email_hash, 'mailbox_hash', new.mailbox_hash)
    ) || jsonb_build_object('updated_at', new.updated_at) into applied.replaced;
  end if;
  -- Allows the same minute as existed_at, because clocks differ and processors round to whole seconds.
  insert into processor_customers (program_id, processor_customer_id, customer_id, known_from)
  select import.program_id, applied.fields->>'processor_customer_id', applied.target_id, now() - interval '1 minute'
  where applied.fields ? 'processor_customer_id'
  on conflict do nothing;
  if found then
    applied.replaced := coalesce(applied.replaced, '{}') || '{"added_processor_customer": true}';
  end if;
  return applied;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_deauthorization(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  disconnected_ids bigint[];
begin
  with disconnected as (
    update programs p set processor_account_id = null, processor_connected_at = null, processor_former_account_id = event.account_id
    where p.processor_account_id = event.account_id and (event.livemode or not p.processor_livemode)
      and (p.processor_connected_at is null or p.processor_connected_at < event.event_created_at + interval '1 second')
    returning p.id
  )
  select min(d.id), array_agg(d.id) into event.program_id, disconnected_ids from disconnected d;
  if event.program_id is null then
    return with_outcome(event, 'ignored', 'already_disconnected');
  end if;
  perform write_outbox(event.program_id, 'processor_disconnected', 'advertiser', null, 'event:' || event.event_id, '{}');
  insert into outbox (program_id, kind, audience, cause, payload)
  select id, 'processor_disconnected', 'advertiser', 'event:' || event.event_id, '{}' from unnest(disconnected_ids) id where id <> event.program_id;
  return with_outcome(event, 'recorded', null);
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_event(received jsonb, answer jsonb, click_id_prefix text, OUT outcome text, OUT reason text, OUT program_id bigint, OUT outbox_ids bigint[], OUT wrote_webhooks boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  event processor_events := jsonb_populate_record(null::processor_events, received);
begin
  event := case event.fact->>'kind'
    when 'purchase' then apply_purchase(event, answer, click_id_prefix)
    when 'reversals' then apply_reversals(event, answer)
    when 'charge_refunds' then apply_reversals(event, answer)
    when 'refunded_total' then apply_refunded_total(event)
    when 'payment_fee' then apply_payment_fee(event)
    when 'invoice_payment' then apply_invoice_payment(event)
    when 'customer' then apply_customer(event)
    when 'deauthorization' then apply_deauthorization(event)
    when 'ownership' then apply_ownership(event)
    else with_outcome(event, 'ignored', event.fact->>'reason')
  end;
  if event.outcome is null then
    reason := event.reason;
    return;
  end if;
  event := notify_ignored_payment(event);
  event := log_event(event);
  outcome := event.outcome;
  reason := event.reason;
  program_id := event.program_id;
  outbox_ids := written_outbox_ids();
  wrote_webhooks := wrote_webhook();
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_group_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
begin
  insert into partner_groups (program_id, name, external_id)
  values (import.program_id, applied.fields->>'name', imported_id(import, applied.source_id)) returning id into applied.target_id;
  if jsonb_array_length(applied.fields->'rules') > 0 then
    perform save_rules(import.program_id, applied.target_id, null, applied.fields->'rules');
  end if;
  return applied;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_import_rows(of_program_id bigint, of_import_id bigint, max_rows integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  import imports;
  applied import_rows;
  next_rows import_rows[];
  planned import_rows;
  outcomes_before import_outcome[] := '{}';
  outcomes import_outcome[] := '{}';
  applied_now integer := 0;
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'applying' for update;
  if not found then
    return 0;
  end if;
  perform set_config('svc.importing', 'on', true);
  perform analyze_import_tables();
  next_rows := array(
    select r from import_rows r
    where r.program_id = of_program_id and r.import_id = of_import_id and not r.is_applied and r.outcome in ('create', 'update')
    order by r.kind, r.id limit max_rows
  );
  perform lock_objects_of_rows(next_rows);
  foreach planned in array next_rows loop
    applied := apply_row(import, planned);
    update import_rows r set outcome = applied.outcome, reason = applied.reason, target_id = applied.target_id,
      partner_row_id = applied.partner_row_id, partner_id = applied.partner_id, replaced = applied.replaced, is_applied = applied.is_applied
    where r.program_id = of_program_id and r.import_id = of_import_id and r.id = applied.id;
    outcomes_before := outcomes_before || planned.outcome;
    outcomes := outcomes || applied.outcome;
    applied_now := applied_now + applied.is_applied::integer;
  end loop;
  perform count_import_rows(of_program_id, of_import_id, outcomes_before, outcomes, 0, applied_now);
  if cardinality(outcomes) = 0 then
    update imports i set state = 'applied', applied_at = now() where i.program_id = of_program_id and i.id = of_import_id;
  end if;
  return cardinality(outcomes);
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_invoice_payment(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := array_remove(payment_ids_of(event.fact) || (event.fact->>'invoice_id'), null);
  sale sales;
begin
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    return case when event.outcome is null then with_outcome(event, 'recorded', null) else event end;
  end if;
  perform settle_reversals(sale);
  event.program_id := sale.program_id;
  return with_outcome(event, 'recorded', null);
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_outcome(payout payouts, outcome text, reason text, reference text, claim_until date)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if outcome = 'paid' and payout.decided_at is null then
    perform post_payout(payout, reference, (now() at time zone 'UTC')::date);
  elsif outcome = 'unclaimed' and payout.status = 'sent' then
    update payouts w set status = 'unclaimed' where w.program_id = payout.program_id and w.id = payout.id;
    perform write_outbox(payout.program_id, 'payout_unclaimed', 'partner', payout.partner_id, 'payout:' || payout.id, jsonb_build_object(
      'payout_id', payout.id, 'amount_cents', payout.amount_cents, 'currency', payout.currency, 'day', claim_until));
  elsif outcome in ('returned', 'failed') then
    perform end_payout(payout, outcome, reason);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_ownership(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  own_code own_account_codes;
begin
  select c.* into own_code from own_account_codes c where c.code = event.fact->>'code' and c.expires_at > now() for update;
  if own_code.program_id is null then
    return with_outcome(event, 'ignored', 'unknown_code');
  end if;
  event.program_id := own_code.program_id;
  if event.account_id <> 'platform' then
    return with_outcome(event, 'ignored', 'code_of_connected_account');
  end if;
  if own_code.needs_livemode and not event.livemode then
    return with_outcome(event, 'ignored', 'code_of_test_mode');
  end if;
  if not exists (
    select from active_members m join programs p on p.workspace_id = m.workspace_id
    where p.id = own_code.program_id and m.user_id = own_code.requested_by and m.role = 'owner'
  ) then
    return with_outcome(event, 'ignored', 'code_of_former_owner');
  end if;
  perform set_config('svc.actor', own_code.requested_by, true);
  if not connect_processor(own_code.program_id, event.account_id, event.livemode) then
    return with_outcome(event, 'ignored', 'account_taken');
  end if;
  delete from own_account_codes c where c.program_id = own_code.program_id;
  return with_outcome(event, 'recorded', null);
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_partner_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
declare
  of_group_id constant bigint := group_of_row(import, applied.fields->>'group');
begin
  if applied.outcome = 'create' then
    insert into partners (program_id, name, email, payout_email, group_id, is_active, external_id)
    values (import.program_id, applied.fields->>'name', applied.fields->>'email', applied.fields->>'payout_email', of_group_id,
      applied.fields->>'status' is distinct from 'inactive', imported_id(import, applied.source_id))
    returning id into applied.target_id;
    return applied;
  end if;
  update partners p set external_id = imported_id(import, applied.source_id), group_id = coalesce(p.group_id, of_group_id),
    payout_email = case when p.user_id is null then coalesce(p.payout_email, applied.fields->>'payout_email') else p.payout_email end
  where p.program_id = import.program_id and p.id = applied.target_id
  returning changed_columns(
    jsonb_build_object('external_id', old.external_id, 'group_id', old.group_id, 'payout_email', old.payout_email),
    jsonb_build_object('external_id', new.external_id, 'group_id', new.group_id, 'payout_email', new.payout_email)
  ) into applied.replaced;
  return applied;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_payment_fee(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := payment_ids_of(event.fact);
  sale sales;
begin
  perform lock_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null or sale.amount_source = 'api' then
    event := park_disconnected(event, ids);
    if event.outcome is null then
      event.awaits := array(select awaited_name(event.account_id, 'payment', id) from unnest(ids) id);
      event := with_outcome(event, 'ignored', 'unknown_sale');
    end if;
    return event;
  end if;
  event.program_id := sale.program_id;
  perform deduct_fee(sale, (event.fact->>'fee_cents')::bigint);
  if sale.processor_fee_cents is null then
    return with_outcome(event, 'ignored', 'fee_included');
  elsif exists (
    select from sales s where s.program_id = sale.program_id and s.id = sale.id and s.processor_fee_cents <> sale.processor_fee_cents
  ) then
    return with_outcome(event, 'recorded', format('sale_corrected %s', sale.transaction_id));
  end if;
  return with_outcome(event, 'duplicate', format('known_payment %s', sale.transaction_id));
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_promotions(INOUT event processor_events, ids text[], click_id_prefix text, INOUT buyer customers)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  started_at timestamptz := (event.fact->>'started_at')::timestamptz;
  given sales;
begin
  given.program_id := event.program_id;
  given.customer_key := event.fact->>'customer_key';
  given.resolution := event.resolution;
  given := with_code(given, promotions_of(event.fact), started_at);
  event.resolution := given.resolution;
  event.fact := jsonb_set(event.fact, '{sale}', event.fact->'sale' || jsonb_build_object('coupon', given.coupon, 'code_id', given.code_id));
  if buyer.id is null and given.code_id is not null and event.livemode
    and (sale_of_payments(event.account_id, false, ids)).customer_id is null then
    given.customer_id := add_customer_of_code(given, click_id_prefix, decode(event.fact->>'email_hash', 'hex'),
      decode(event.fact->>'mailbox_hash', 'hex'), started_at);
    select c.* into buyer from customers c where c.program_id = event.program_id and c.id = given.customer_id for no key update;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_purchase(event processor_events, answer jsonb, click_id_prefix text)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  applied record;
  buyer customers;
  ids text[];
begin
  applied := apply_purchase_alone(event, answer, click_id_prefix);
  event := applied.event;
  buyer := applied.buyer;
  if event.fact->>'subscription_id' is not null and event.fact->>'sale' is null then
    -- The start of a subscription connects the ids of a payment.
    ids := payment_ids_of(event.fact);
    perform lock_customers_of_payment(event.account_id, ids, buyer.id);
    perform settle_reversals(s) from sale_of_payments(event.account_id, not event.livemode, ids) s where s.id is not null;
  end if;
  if not event.livemode or event.program_id is null or event.outcome is null or event.outcome = 'parked' then
    return event;
  end if;
  if event.fact->>'awaits_payment' = 'true' then
    perform apply_awaited_payment(event, buyer.id, click_id_prefix);
  end if;
  if buyer.id is not null then
    perform attribute_awaiting_purchases(event.account_id, p, buyer_names(event.fact) || names_of_customer(buyer))
    from programs p where p.id = event.program_id;
    perform park_awaiting_payments(event.account_id, true, lasting_names(event.fact), (event.fact->>'started_at')::timestamptz);
  end if;
  return event;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_purchase_alone(INOUT event processor_events, answer jsonb, click_id_prefix text, OUT buyer customers)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := array_remove(payment_ids_of(event.fact) || (answer->>'invoice_id'), null);
  is_paid boolean := event.fact->>'sale' is not null;
  is_free boolean := coalesce((event.fact#>>'{sale,amount_cents}')::bigint = 0, false);
  found_program record;
  found_buyer record;
begin
  if lacks_discounts(event, ids, answer) then
    event := with_outcome(event, null, 'discounts');
    return;
  end if;
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  event.fact := complete_purchase(event, ids, answer);
  found_program := find_program(event, ids);
  event.resolution := found_program.resolution;
  if (found_program.program).id is null and (not is_paid or event.fact->>'program_id' is not null) then
    event := leave_without_program(event, ids);
    return;
  elsif (found_program.program).id is null or is_free then
    event := correct_known_purchase(event, ids);
    return;
  elsif lacks_invoice(event, answer) then
    event := with_outcome(event, null, 'invoice');
    return;
  end if;
  event.program_id := (found_program.program).id;
  event := wait_or_leave_out(event, ids, found_program.program,
    (found_program.known).id is not null and not found_program.by_subscription, (found_program.known).imported_at is not null,
    found_program.by_code);
  if event.outcome is not null then
    return;
  end if;
  found_buyer := find_buyer(event, ids, found_program.program, found_program.known, click_id_prefix);
  event := found_buyer.event;
  buyer := found_buyer.buyer;
  if is_paid then
    event := record_purchase(event, ids, buyer);
  else
    event := record_unpaid(event, buyer);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_refunded_total(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := payment_ids_of(event.fact);
  sale sales;
begin
  perform lock_payments(event.account_id, ids_of_payment(event.account_id, ids));
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is null then
      event.awaits := array(select awaited_name(event.account_id, 'payment', id) from unnest(ids) id);
      event := with_outcome(event, 'parked', 'unknown_sale');
    end if;
    return event;
  end if;
  event.program_id := sale.program_id;
  if sale.currency <> event.fact->>'currency' then
    perform notify_unconverted(sale, event.fact || jsonb_build_object('reversals', jsonb_build_array(jsonb_build_object(
      'reversal_id', sale.transaction_id, 'amount_cents', event.fact->'total_cents', 'currency', event.fact->'currency', 'reason', 'refund'))));
    return with_outcome(event, 'ignored', format('other_currency %s %s', event.fact->>'currency', sale.currency));
  end if;
  perform keep_refund_rise(event, sale);
  if not exists (select from processor_reversals v where v.account_id = event.account_id and v.event_id = event.event_id) then
    return with_outcome(event, 'duplicate', 'known_reversal');
  end if;
  perform settle_reversals(sale);
  return with_outcome(event, 'recorded', null);
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_reversals(event processor_events, answer jsonb)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  fact jsonb := event.fact || answer;
  ids text[] := array_remove(array[fact->>'payment_intent_id', fact->>'charge_id', fact->>'invoice_id'], null);
  is_in_its_currency boolean;
  sale sales;
begin
  -- Other connections of the program can report the same chargeback (with_paired_returns).
  perform lock_ids('program ' || c.program_id, ids) from processor_connections c
  where c.account_id = event.account_id and fact#>>'{reversals,0,pairs}' is not null;
  perform lock_payments(event.account_id, ids);
  perform learn_payments(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, null);
  sale := sale_of_payments(event.account_id, not event.livemode, ids);
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    elsif not exists (select from connected_programs(event.account_id)) then
      return with_outcome(event, 'ignored', 'account_not_connected');
    end if;
  end if;
  if sale.id is null and fact->>'payment_intent_id' is not null and fact->>'invoice_id' is null and not answer ? 'invoice_id'
    and not exists (select from processor_payments p where p.account_id = event.account_id and p.payment_id = any (ids)
      and rank_of_id(p.transaction_id) = 3) then
    return with_outcome(event, null, 'invoice');
  end if;
  is_in_its_currency := sale.id is null or jsonb_array_length(fact->'reversals') = 0
    or has_reversal_in(event.account_id, fact->'reversals', sale.currency);
  if not is_in_its_currency and not answer ? 'is_converted' then
    return with_outcome(event, null, 'conversion');
  end if;
  fact := with_paired_returns(event.account_id, fact);
  perform keep_reversals(event, fact, sale.currency);
  perform keep_second_loss(event);
  if sale.id is not null then
    perform settle_reversals(sale);
  end if;
  event.program_id := sale.program_id;

  if jsonb_array_length(fact->'reversals') = 0 then
    return with_outcome(event, 'ignored', coalesce(answer->>'excluded', 'no_refund'));
  elsif not is_in_its_currency then
    perform notify_unconverted(sale, fact);
    return with_outcome(event, 'ignored', format('other_currency %s %s',
      fact#>>'{reversals,0,currency}', sale.currency));
  elsif not exists (
    select from processor_reversals v where v.account_id = event.account_id and event.event_id in (v.event_id, v.returned_event_id)
  ) then
    return with_outcome(event, 'duplicate', coalesce(answer->>'excluded', 'known_reversal'));
  elsif sale.id is null then
    return with_outcome(event, 'parked', 'unknown_sale');
  end if;
  return with_outcome(event, 'recorded', answer->>'excluded');
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_row(import imports, applied import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
begin
  applied := plan_row(import, applied);
  if applied.outcome not in ('create', 'update') then
    return applied;
  end if;
  applied := case applied.kind
    when 'group' then apply_group_row(import, applied)
    when 'partner' then apply_partner_row(import, applied)
    when 'customer' then apply_customer_row(import, applied)
    when 'balance' then apply_balance_row(import, applied)
    when 'commission' then apply_commission_row(import, applied)
    else apply_code_row(import, applied)
  end;
  applied.is_applied := true;
  return applied;
exception when integrity_constraint_violation or data_exception then
  return decided(applied, 'error', 'not_accepted');
end $function$
;

CREATE OR REPLACE FUNCTION public.apply_to_program(of_program_id bigint, of_source text, seen_version integer, seen_terms integer, of_user_id text, of_email text, of_name text, of_answers jsonb, of_token_hash bytea, code_digits text, of_network text, bounds jsonb, OUT outcome text, OUT application_id bigint, OUT again_at timestamp with time zone, OUT wrong_question text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  page join_pages;
begin
  -- These locks serialize the applications of one person, and the counts of their mails.
  perform pg_advisory_xact_lock(hashtextextended('application of ' || mailbox_of(of_email), 0));
  select j.* into page from join_pages j join programs p on p.id = j.program_id and p.deleted_at is null where j.program_id = of_program_id;
  if page.program_id is null or (of_source = 'page' and not page.is_open) then
    outcome := 'closed';
    return;
  elsif (of_source = 'page' and page.version <> seen_version) or (of_source = 'api' and page.terms_version is distinct from seen_terms) then
    outcome := 'changed';
    return;
  elsif of_source = 'api' then
    wrong_question := question_not_answered(page.questions, of_answers);
    if wrong_question is not null then
      outcome := 'answers';
      return;
    end if;
  end if;
  if of_token_hash is not null then
    outcome := count_mail((select p.workspace_id from programs p where p.id = of_program_id), null, of_email, of_source, of_network, bounds);
    if outcome is not null then
      return;
    end if;
  end if;
  select s.outcome, s.again_at into outcome, again_at from standing_of_applicant(of_program_id, of_email, of_user_id) s;
  if outcome is not null then
    return;
  end if;
  insert into applications (program_id, source, user_id, name, email, answers, terms_version, token_hash)
  values (of_program_id, of_source, of_user_id, of_name, of_email, of_answers, page.terms_version, of_token_hash)
  returning id into application_id;
  outcome := 'applied';
  if of_user_id is not null then
    select c.outcome into outcome from confirm_application(of_program_id, application_id, null, code_digits, null) c;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.approve_applications(of_program_id bigint, in_group_id bigint, given jsonb)
 RETURNS TABLE(application_id bigint, is_first boolean, invited boolean)
 LANGUAGE plpgsql
AS $function$
declare
  application applications;
  one record;
begin
  for one in
    select g.* from jsonb_to_recordset(given) g (id bigint, code_digits text, invitation_hash text) order by g.id
  loop
    select a.* into application from applications a where a.program_id = of_program_id and a.id = one.id for update;
    continue when not found;
    application_id := application.id;
    is_first := application.status = 'waiting';
    invited := is_first and admit_applicant(application, in_group_id, one.code_digits, decode(one.invitation_hash, 'hex'), false);
    if is_first then
      perform note_job_row(of_program_id, application.id, '{}');
    end if;
    return next;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.approve_due_commissions(at_most integer, of_program_id bigint DEFAULT NULL::bigint, OUT approved integer, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  program_ids bigint[];
  commission_ids bigint[];
begin
  select array_agg(due.program_id), array_agg(due.id), count(*) = at_most into program_ids, commission_ids, more
  from (
    select c.program_id, c.id from commissions c
    where c.hold_until <= now() and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
      and not c.is_shadow and (c.program_id = of_program_id or of_program_id is null)
      and c.program_id <> all (array(select p.id from programs p where p.shadow_since is not null and in_shadow_mode(p.id)))
      and not awaits_comparison(c)
    order by c.hold_until, c.program_id, c.id limit at_most
  ) due;
  approved := credit_commissions(program_ids, commission_ids, true);
end $function$
;

CREATE OR REPLACE FUNCTION public.archived_choice(row_of archive_rows, among terms_choice)
 RETURNS terms_choice
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((among IS NOT NULL) OR ((among).rules_version IS NOT NULL)) THEN ROW((among).rules_version, archived_id(row_of, 'groups'::text, (among).group_id), (among).commission_bp, (among).commission_months)::terms_choice ELSE NULL::terms_choice END
;

CREATE OR REPLACE FUNCTION public.archived_id(row_of archive_rows, of_kind text, named bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  found_id bigint;
begin
  if named is null then
    return null;
  end if;
  select a.new_id into found_id from archive_rows a
  where a.program_id = row_of.program_id and a.import_id = row_of.import_id and a.kind = of_kind and a.old_id = named;
  if found_id is null then
    perform refuse_archive('row_missing', format('%s %s', row_of.kind, of_kind));
  end if;
  return found_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.archived_lines(row_of archive_rows, lines jsonb)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN (SELECT COALESCE(jsonb_agg((l.line || jsonb_strip_nulls(jsonb_build_object('commission_id', archived_id(archived_lines.row_of, 'commissions'::text, ((l.line ->> 'commission_id'::text))::bigint), 'adjustment_id', archived_id(archived_lines.row_of, 'adjustments'::text, ((l.line ->> 'adjustment_id'::text))::bigint)))) ORDER BY l.place), '[]'::jsonb) AS "coalesce" FROM jsonb_array_elements(archived_lines.lines) WITH ORDINALITY l(line, place))
;

CREATE OR REPLACE FUNCTION public.archived_resolution(row_of archive_rows, resolution jsonb)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (jsonb_typeof((resolution -> 'link_id'::text)) = 'number'::text) THEN (resolution || jsonb_build_object('link_id', archived_id(row_of, 'links'::text, ((resolution ->> 'link_id'::text))::bigint))) ELSE resolution END
;

CREATE OR REPLACE FUNCTION public.archived_slug(row_of archive_rows)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  own text := (select min(s.slug) from join_slugs s where s.program_id = row_of.program_id);
begin
  if own is null then
    own := 'program-' || row_of.program_id || '-' || left(md5(gen_random_uuid()::text), 8);
    insert into join_slugs (slug, program_id) values (own, row_of.program_id);
  end if;
  return own;
end $function$
;

CREATE OR REPLACE FUNCTION public.archived_terms(row_of archive_rows, terms line_terms[])
 RETURNS line_terms[]
 LANGUAGE sql
 STABLE
RETURN (SELECT array_agg(ROW(archived_id(archived_terms.row_of, 'rules'::text, t.rule_id), t.commission_bp, t.commission_months, t.fixed_cents, t.cap_cents, t.weight)::line_terms ORDER BY t.place) AS array_agg FROM unnest(archived_terms.terms) WITH ORDINALITY t(rule_id, commission_bp, commission_months, fixed_cents, cap_cents, weight, place))
;

CREATE OR REPLACE FUNCTION public.ask_for_missing(of_program_id bigint, of_exclusion_reason text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  missing constant text := case of_exclusion_reason when 'no_payout_address' then 'payout_address' when 'no_tax_form' then 'tax_form' end;
  partner_count integer := 0;
  due record;
  of_cause text;
begin
  -- If two people ask at the same time, the partner is asked once.
  perform from programs p where p.id = of_program_id for no key update;
  for due in
    select d.partner_id, min(d.currency) as currency, max(d.payable_cents) as payable_cents from payouts_due d
    join partners r on r.program_id = d.program_id and r.id = d.partner_id and r.user_id is not null
    where d.program_id = of_program_id and d.exclusion_reason = of_exclusion_reason group by d.partner_id order by d.partner_id
  loop
    of_cause := format('%s:%s:%s', missing, due.partner_id, (now() at time zone 'UTC')::date);
    if not exists (
      select from outbox o
      where o.program_id = of_program_id and o.kind = missing || '_needed' and o.audience = 'partner' and o.cause = of_cause
    ) then
      perform write_outbox(of_program_id, missing || '_needed', 'partner', due.partner_id, of_cause,
        jsonb_build_object('amount_cents', due.payable_cents, 'currency', due.currency));
      partner_count := partner_count + 1;
    end if;
  end loop;
  return partner_count;
end $function$
;

CREATE OR REPLACE FUNCTION public.ask_payout(of_program_id bigint, of_partner_id bigint, of_currency text, asked_cents bigint, request uuid, OUT payout_id bigint, OUT payable_cents bigint, OUT minimum_cents bigint, OUT needs_tax_form boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
begin
  payable_cents := locked_payable_cents(of_program_id, of_partner_id, of_currency);
  select w.id into payout_id from payouts w
  where w.program_id = of_program_id and w.request_id = request and w.partner_id = of_partner_id;
  select coalesce(max(m.minimum_payout_cents), 0) into minimum_cents from minimum_payouts m
  where m.program_id = of_program_id and m.currency = of_currency;
  needs_tax_form := is_held_for_tax_form(of_program_id, of_partner_id, of_currency, asked_cents);
  if payout_id is null and not needs_tax_form and asked_cents between greatest(minimum_cents, 1) and payable_cents then
    insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, request_id)
    values (of_program_id, of_partner_id, of_currency, asked_cents, asked_cents, request)
    returning id into payout_id;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.attribute_awaiting_purchase(INOUT waiting processor_events, program programs, OUT buyer customers)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  ids text[];
  sale sales;
  identified record;
begin
  waiting.fact := with_customer_metadata(waiting.account_id, true, waiting.fact);
  ids := payment_ids_of(waiting.fact);
  sale := sale_of_program(program.id, waiting.account_id, false, ids);
  identified := identify_buyer(waiting.account_id, program, waiting.fact, null, steps_of_source(waiting.fact, 'named'));
  waiting.resolution := identified.resolution;
  if (identified.buyer).id is null or waiting.fact->>'sale' is not null and sale.id is null then
    return;
  end if;
  perform keep_buyer(identified.buyer, waiting.fact);
  if waiting.fact->>'awaits_payment' = 'true' then
    perform keep_session(program.id, (identified.buyer).id, waiting.fact);
    perform apply_awaited_payment(waiting, (identified.buyer).id, null);
  elsif waiting.fact->>'sale' is not null and sale.customer_id is null then
    select (r.sale).* into sale
    from record_sale(sale_of_purchase(waiting, sale, ids_of_payment(waiting.account_id, ids), (identified.buyer).id), true) r;
    perform settle_reversals(sale);
  end if;
  update processor_events e set awaits = null, waits_for = null, outcome = 'recorded', reason = 'buyer_known',
    resolution = waiting.resolution
  where e.account_id = waiting.account_id and e.event_id = waiting.event_id and e.awaits is not null;
  if found then
    buyer := identified.buyer;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.attribute_awaiting_purchases(of_account_id text, program programs, names text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  waiting processor_events;
  attributed record;
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
      attributed := attribute_awaiting_purchase(waiting, program);
      continue when (attributed.buyer).id is null;
      waiting := attributed.waiting;
      names_found := names_found || buyer_names(waiting.fact) || names_of_customer(attributed.buyer);
      lasting := lasting || lasting_names(waiting.fact);
      since := least(since, (waiting.fact->>'started_at')::timestamptz);
    end loop;
    exit when names_found = '{}';
    perform park_awaiting_payments(of_account_id, true, array(select distinct name from unnest(lasting) name), since);
    names := array(select distinct name from unnest(names_found) name);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.attribute_known_customers(of_program_id bigint)
 RETURNS text[]
 LANGUAGE plpgsql
AS $function$
declare
  program programs;
begin
  update programs p set attribute_known_customers = true where p.id = of_program_id returning p.* into program;
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'setting_on'
  where e.awaits && names_of_excluded(program) and e.outcome = 'ignored';
  return connected_accounts(program);
end $function$
;

CREATE OR REPLACE FUNCTION public.attribute_to_customer(account_ids text[], of_program_id bigint, of_customer_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_account_id text;
  names text[];
begin
  if account_ids = '{}' then
    return;
  end if;
  select names_of_customer(c) into names from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  foreach of_account_id in array account_ids loop
    if exists (select from processor_events e where e.awaits && awaited_names(of_account_id, names)) then
      perform attribute_awaiting_purchases(of_account_id, p, names) from programs p where p.id = of_program_id;
    end if;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_api_key()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  named text := new.name || ' …' || new.hint;
begin
  perform write_program_audit(new.program_id, case tg_op when 'INSERT' then 'api_key.created' else 'api_key.revoked' end, named, null);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_application()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, 'application.' || new.status, new.id::text,
    case when new.status = 'approved' then jsonb_strip_nulls(jsonb_build_object('partner', new.partner_id,
      'at_once', case when num_nonnulls(new.decided_by, new.decided_by_key) = 0 then true end)) end);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_brand()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  before_change program_brands := case when tg_op = 'UPDATE' then old end;
  changed jsonb;
begin
  select jsonb_object_agg(n.key, jsonb_build_array(o.value, n.value)) into changed
  from jsonb_each(to_jsonb(new) - 'logo') n
  left join jsonb_each(coalesce(to_jsonb(before_change), '{}') - 'logo') o using (key)
  where nullif(n.value, 'null') is distinct from nullif(o.value, 'null') and n.key <> 'program_id';
  if changed is not null then
    perform write_program_audit(new.program_id, 'brand.changed', null, changed);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_code()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, case
      when tg_op = 'INSERT' then 'code.added'
      when new.revoked_at is not null then 'code.revoked'
      else 'code.restored'
    end, new.code, jsonb_build_object('partner', new.partner_id));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_commission_rule()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, case tg_op when 'INSERT' then 'commission_rule.begun' else 'commission_rule.ended' end,
    coalesce('partner ' || new.partner_id, (
      select 'group ' || g.name from partner_groups g where g.program_id = new.program_id and g.id = new.group_id
    ), 'everybody'),
    jsonb_strip_nulls(to_jsonb(new) - array['program_id', 'group_id', 'partner_id', 'since_version', 'until_version', 'created_at', 'ended_at']));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_invitation()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'INSERT' or new.token_hash <> old.token_hash then
    perform write_audit(new.workspace_id, null, 'member.invited', new.id, null, jsonb_build_object('role', new.role));
  elsif new.revoked_at is not null and old.revoked_at is null then
    perform write_audit(new.workspace_id, null, 'member.invitation_revoked', new.id, null, jsonb_build_object('role', new.role));
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_join_page()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  changed jsonb;
begin
  select jsonb_object_agg(n.key, case when n.key in ('intro', 'questions', 'faq') then '"changed"'::jsonb else jsonb_build_array(o.value, n.value) end)
  into changed
  from jsonb_each(to_jsonb(new)) n join jsonb_each(to_jsonb(old)) o using (key)
  where n.value is distinct from o.value and n.key <> 'version';
  if changed is not null then
    perform write_program_audit(new.program_id, 'join_page.changed', new.slug, changed);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_link()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'UPDATE' then
    perform write_program_audit(new.program_id, 'partner.link_changed', new.code, null);
  elsif not exists (
    select from partners r where r.program_id = new.program_id and r.id = new.partner_id and r.created_at = now()
  ) then
    perform write_program_audit(new.program_id, 'partner.link_added', new.code, null);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_log_begins()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$ select now() - interval '24 months' $function$
;

CREATE OR REPLACE FUNCTION public.audit_member()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_minimum_payout()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_partner()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_partner_group()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'INSERT' then
    perform write_program_audit(new.program_id, 'group.created', new.name, null);
  elsif new.name <> old.name then
    perform write_program_audit(new.program_id, 'group.renamed', new.name, jsonb_build_object('name', jsonb_build_array(old.name, new.name)));
  elsif new.removed_at is not null and old.removed_at is null then
    perform write_program_audit(new.program_id, 'group.removed', new.name, null);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_partner_invitation()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'INSERT' or new.token_hash <> old.token_hash then
    perform write_program_audit(new.program_id, 'partner.invited', new.partner_id::text, null);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_payout()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, 'payout.' || new.status, new.id::text, jsonb_strip_nulls(jsonb_build_object(
    'amount_cents', new.amount_cents, 'currency', new.currency, 'reference', new.reference)));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_payout_connection()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, case when new.keys is null then 'payout_provider.disconnected' else 'payout_provider.connected' end,
    new.provider, null);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_payout_recipient()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, 'partner.recipient_changed', new.partner_id::text, jsonb_build_object('recipient', '…' || right(new.recipient_id, 4)));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_payout_run()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, case tg_op when 'INSERT' then 'payout_run.created' else 'payout_run.paid' end, new.id::text,
    jsonb_strip_nulls(jsonb_build_object('reference', new.reference)));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_processor_connection()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(new.program_id, case when new.disconnected_at is null then 'processor.connected' else 'processor.disconnected' end,
    new.processor || ' ' || new.account_id, null);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_program()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_program_billing()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new is not distinct from old then
    return null;
  end if;
  perform write_program_audit(new.program_id, 'program.changed', null, jsonb_build_object('billing_details', jsonb_build_array(
    nullif(concat_ws(', ', old.legal_name, old.country, old.vat_id, old.series, 'VAT rate ' || trim_scale(old.vat_bp / 100.0) || '%'), ''),
    concat_ws(', ', new.legal_name, new.country, new.vat_id, new.series, 'VAT rate ' || trim_scale(new.vat_bp / 100.0) || '%'))));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_program_host()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_program_audit(coalesce(new.program_id, old.program_id), 'join_page.changed', coalesce(new.host, old.host), jsonb_build_object(
    'host', jsonb_build_array(old.host, new.host), 'verified', jsonb_build_array(old.verified_at is not null, new.verified_at is not null)));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_program_member()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' then
    perform write_audit(old.workspace_id, old.program_id, 'program.closed_to_member', null, old.user_id, null);
  elsif tg_op = 'INSERT' or new.role <> old.role then
    perform write_audit(new.workspace_id, new.program_id, 'program.opened_to_member', null, new.user_id,
      jsonb_build_object('role', new.role));
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_session()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.by_first_factor and exists (select from users u where u.id = new.user_id and u.two_factor_enabled) then
    return null;
  end if;
  perform set_config('svc.actor', new.user_id, true);
  perform write_audit(m.workspace_id, null, 'member.signed_in', null, null, null)
  from active_members m where m.user_id = new.user_id;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_sign_in_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  of_user_id text := case tg_table_name when 'users' then to_jsonb(new) ->> 'id' else to_jsonb(new) ->> 'user_id' end;
begin
  perform set_config('svc.actor', of_user_id, true);
  perform write_audit(m.workspace_id, null, tg_argv[0], null, null, null)
  from active_members m where m.user_id = of_user_id;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_tax_form_limit()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if new.above_cents is not distinct from old.above_cents then
    return null;
  end if;
  perform write_program_audit(coalesce(new.program_id, old.program_id), 'program.changed', null, jsonb_build_object(
    'no_tax_form_above_cents ' || coalesce(new.currency, old.currency), jsonb_build_array(old.above_cents, new.above_cents)));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_webhook_endpoint()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_workspace()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_audit(new.id, null, 'workspace.changed', new.name, null,
    jsonb_build_object('requires_two_factor', jsonb_build_array(old.requires_two_factor, new.requires_two_factor)));
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.audit_workspace_deletion()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform write_audit(new.id, null, 'workspace.deleted', new.name, null, null);
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.awaited_name(of_account_id text, kind text, name text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN ((((of_account_id || ' '::text) || kind) || ' '::text) || name)
;

CREATE OR REPLACE FUNCTION public.awaited_names(of_account_id text, names text[])
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT ((awaited_names.of_account_id || ' '::text) || name.name) FROM unnest(awaited_names.names) name(name))
;

CREATE OR REPLACE FUNCTION public.awaits_comparison(commission commissions)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM (partners r CROSS JOIN LATERAL hashes_of_buyer((awaits_comparison.commission).program_id, (awaits_comparison.commission).customer_id, (awaits_comparison.commission).sale_id) b(hashes)) WHERE ((r.program_id = (awaits_comparison.commission).program_id) AND (r.id = (awaits_comparison.commission).partner_id) AND (r.email_hashes IS NULL) AND (b.hashes <> '{}'::bytea[]))))
;

CREATE OR REPLACE FUNCTION public.begin_archive(of_program_id bigint, of_import_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from programs p where p.id = of_program_id for no key update;
  perform from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'applying' and i.source = 'archive' for update;
  if not found then
    raise exception 'the archive is not being applied' using errcode = 'program_limit_exceeded', constraint = 'archive_applied';
  elsif not is_unused(of_program_id) then
    perform refuse_archive('program_used', null);
  end if;
  perform set_config('svc.restoring', 'on', true);
  delete from minimum_payouts m where m.program_id = of_program_id;
  delete from program_billing b where b.program_id = of_program_id;
  delete from tax_form_limits l where l.program_id = of_program_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.begin_export(of_program_id bigint, OUT export_id bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  perform from programs p where p.id = of_program_id and p.deleted_at is null for key share;
  if not found then
    raise exception 'a deleted program' using errcode = 'foreign_key_violation', constraint = 'exports_program_exists';
  end if;
  perform lock_exports(array[of_program_id]);
  if (select count(*) from exports e where e.program_id = of_program_id and e.created_at > now() - interval '1 hour') >= 6 then
    raise exception 'too many exports' using errcode = 'program_limit_exceeded', constraint = 'exports_per_hour';
  end if;
  delete from export_rows r where r.program_id = of_program_id;
  insert into exports (program_id) values (of_program_id) returning id into export_id;
  perform write_program_audit(of_program_id, 'program.exported', export_id::text, null);
end $function$
;

CREATE OR REPLACE FUNCTION public.begin_import(of_program_id bigint, of_import_id bigint, params text[], OUT was text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  import imports;
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id for update;
  was := import.state;
  if was is distinct from 'planned' then
    return;
  end if;
  perform write_program_audit(of_program_id, 'import.applied', of_import_id::text, jsonb_build_object('source', import.source, 'rows', (
    select coalesce(jsonb_object_agg(k.kind, k.rows), '{}') from (
      select r.kind::text, count(*) as rows from import_rows r
      where r.program_id = of_program_id and r.import_id = of_import_id and r.outcome in ('create', 'update') group by r.kind
      union all
      select r.kind, count(*) from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id group by r.kind
    ) k)));
  perform set_config('svc.importing', 'on', true);
  -- If several imports need a parameter, the last undo removes it.
  update imports i set state = 'applying', added_params = array(
    select n from unnest(params) n join programs p on p.id = of_program_id
    where n <> all (p.link_params) or is_param_of_other_import(import, n)
  )
  where i.program_id = of_program_id and i.id = of_import_id returning i.* into import;
  update programs p set link_params = p.link_params || array(
    select n from unnest(import.added_params) n where n <> all (p.link_params)
  )
  where p.id = of_program_id and cardinality(import.added_params) > 0;
end $function$
;

CREATE OR REPLACE FUNCTION public.begin_reading_archive(of_program_id bigint, of_import_id bigint, bytes bigint, most_bytes bigint, OUT why_not text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  of_workspace_id text := (select p.workspace_id from programs p where p.id = of_program_id);
begin
  perform pg_advisory_xact_lock(hashtextextended('archives of ' || of_workspace_id, 0));
  why_not := case when not is_unused(of_program_id) then 'program_used' else (
    select 'too_many_bytes' from imports i join programs p on p.id = i.program_id
    where p.workspace_id = of_workspace_id and (i.created_at > now() - interval '1 day' or i.state in ('reading', 'planned'))
    having sum(i.archive_bytes) + bytes > most_bytes
  ) end;
  if why_not is null then
    update imports i set archive_bytes = bytes where i.program_id = of_program_id and i.id = of_import_id;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.begin_undo(of_program_id bigint, of_import_id bigint, OUT was text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  import imports;
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id for update;
  was := import.state;
  if was is null or was not in ('applying', 'applied') then
    return;
  elsif import.source = 'archive' then
    was := 'archive';
    return;
  elsif exists (
    select from adjustments a where a.program_id = of_program_id and a.import_id = of_import_id and is_paid_out(a)
  ) then
    was := 'paid_out';
    return;
  end if;
  perform write_program_audit(of_program_id, 'import.undone', of_import_id::text, jsonb_build_object('source', import.source) || (
    select coalesce(jsonb_object_agg('opening_balances_cents ' || o.currency, o.cents), '{}') from (
      select a.currency, sum(a.amount_cents) as cents from adjustments a
      where a.program_id = of_program_id and a.import_id = of_import_id group by a.currency
    ) o));
  perform set_config('svc.importing', 'on', true);
  update imports i set state = 'undoing' where i.program_id = of_program_id and i.id = of_import_id;
  update programs p set link_params = array(
    select n from unnest(p.link_params) n where n <> all (import.added_params) or is_param_of_other_import(import, n)
  )
  where p.id = of_program_id and cardinality(import.added_params) > 0;
end $function$
;

CREATE OR REPLACE FUNCTION public.bind_customer(of_program_id bigint, new_key text, of_click_id text, click_id_prefix text, valid_after timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.bulk_job_action(kind text, is_undo boolean)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN (CASE kind WHEN 'approve'::text THEN 'application.approved_in_bulk'::text WHEN 'reject'::text THEN 'application.rejected_in_bulk'::text WHEN 'deactivate'::text THEN 'partner.deactivated_in_bulk'::text WHEN 'move'::text THEN 'partner.moved_in_bulk'::text WHEN 'rate'::text THEN 'partner.rated_in_bulk'::text WHEN 'invite'::text THEN 'partner.invited_in_bulk'::text WHEN 'message'::text THEN 'partner.messaged_in_bulk'::text ELSE NULL::text END || CASE WHEN is_undo THEN '_undone'::text ELSE ''::text END)
;

CREATE OR REPLACE FUNCTION public.bulk_jobs_undone_within()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
RETURN '7 days'::interval
;

CREATE OR REPLACE FUNCTION public.buyer_names(fact jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN (lasting_names(fact) || array_remove(ARRAY[('key '::text || (fact ->> 'customer_key'::text)), ('email '::text || (fact ->> 'email_hash'::text)), ('click '::text || (fact ->> 'click_id'::text))], NULL::text))
;

CREATE OR REPLACE FUNCTION public.campaign_groupings()
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY['utm_source'::text, 'utm_medium'::text, 'utm_campaign'::text, 'utm_term'::text, 'utm_content'::text, 'sub1'::text, 'sub2'::text, 'sub3'::text]
;

CREATE OR REPLACE FUNCTION public.campaign_unwanted(filters jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select coalesce(array_agg(f.key), '{}') from jsonb_each(filters) f where f.key = any (campaign_groupings()) and f.value = 'null'
$function$
;

CREATE OR REPLACE FUNCTION public.campaign_wanted(filters jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(filters) f where f.key = any (campaign_groupings()) and f.value <> 'null'
$function$
;

CREATE OR REPLACE FUNCTION public.can_have_payment(of_account_id text, transaction_id text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (starts_with(of_account_id, 'conn_'::text) OR (transaction_id ~ '^(in|pi|ch|py|cs)_'::text))
;

CREATE OR REPLACE FUNCTION public.cancel_payout(of_program_id bigint, of_partner_id bigint, of_payout_id bigint, OUT status text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  payout payouts := lock_payout(of_program_id, of_payout_id);
begin
  if payout.partner_id = of_partner_id then
    status := payout.status;
  end if;
  if status = 'requested' then
    update payouts w set status = 'canceled', decided_at = now()
    where w.program_id = of_program_id and w.id = of_payout_id;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.carry_correction(commission commissions, change_cents bigint, of_transaction_id text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  by_cause text := format('correction:%s:%s', commission.id, commission.correction_count);
begin
  perform count_commission_change(commission, change_cents);
  perform notify_commission_change(commission, -change_cents, 'corrected', of_transaction_id);
  if commission.credited_at is null then
    return;
  end if;
  perform write_outbox(commission.program_id, 'commission_corrected', 'partner', commission.partner_id, by_cause, jsonb_build_object(
    'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', abs(change_cents), 'currency', commission.currency,
    'deducted', change_cents < 0));
  if change_cents < 0 and commission.paid_at is not null then
    perform notify_advertiser('paid_commission_reversed', commission, change_cents, by_cause, of_transaction_id);
  end if;
  perform change_balance(commission.program_id, commission.partner_id, commission.currency, change_cents, 'commission_corrected', by_cause,
    details_of(commission, of_transaction_id), of_commission_id => commission.id, of_correction_number => commission.correction_count);
end $function$
;

CREATE OR REPLACE FUNCTION public.chain_entry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  previous balance_entries;
begin
  select e.* into previous from balance_entries e
  where e.program_id = new.program_id and e.partner_id = new.partner_id and e.currency = new.currency and e.entry_number = new.entry_number - 1;
  new.created_at := greatest(new.created_at, previous.created_at);
  new.entry_hash := hash_of_entry(previous.entry_hash, facts_of_entry(new));
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.change_balance(of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint, of_cause text, by_cause text, details jsonb, of_commission_id bigint DEFAULT NULL::bigint, of_correction_number integer DEFAULT NULL::integer, of_refund_id bigint DEFAULT NULL::bigint, of_adjustment_id bigint DEFAULT NULL::bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  balance_cents bigint := post_entry(of_program_id, of_partner_id, of_currency, of_cents, of_cause, of_commission_id, of_correction_number,
    of_refund_id, null, of_adjustment_id);
  left_cents bigint;
begin
  if of_cents > 0 then
    return;
  end if;
  select balance_cents - coalesce(sum(w.amount_cents), 0) into left_cents from payouts w
  where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and w.status in ('sent', 'unclaimed');
  perform fit_payouts(of_program_id, of_partner_id, of_currency, left_cents, by_cause, details);
  if left_cents < 0 then
    perform write_outbox(of_program_id, 'balance_negative', 'advertiser', of_partner_id, by_cause,
      details || jsonb_build_object('amount_cents', -left_cents));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.change_currency(sale sales, given sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  commission commissions;
begin
  if sale.amount_source <> 'api' then
    return sale;
  end if;
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  if given.amount_source <> 'api' and sale.partner_id is not null and not sale.is_test then
    perform write_outbox(sale.program_id, case when commission.credited_at is null then 'sale_currency_corrected' else 'sale_currency_differs' end,
      'advertiser', sale.partner_id, 'currency:' || sale.id, jsonb_build_object('transaction_id', sale.transaction_id,
        'amount_cents', given.amount_cents, 'currency', given.currency))
    where not exists (
      select from outbox o where o.program_id = sale.program_id and o.kind = 'sale_currency_differs' and o.cause = 'currency:' || sale.id
    );
  end if;
  if commission.credited_at is not null then
    return sale;
  end if;
  sale.currency := given.currency;
  if commission.id is not null then
    perform count_commission(commission, -1);
    update commissions c set currency = sale.currency where c.program_id = commission.program_id and c.id = commission.id
    returning c.* into commission;
    perform count_commission(commission, 1);
  end if;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.change_group(of_program_id bigint, of_group_id bigint, group_name text, rules jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  update partner_groups g set name = coalesce(group_name, g.name)
  where g.program_id = of_program_id and g.id = of_group_id and g.removed_at is null;
  if not found then
    return false;
  end if;
  if rules is not null then
    perform save_rules(of_program_id, of_group_id, null, rules);
  end if;
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.change_rule(of_program_id bigint, of_group_id bigint, of_partner_id bigint, ended_id bigint, added jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  rules jsonb;
begin
  perform refuse_unknown_holder(of_program_id, of_group_id, of_partner_id);
  -- If two changes happen at once, the later one sees the rules of the earlier one.
  perform from programs p where p.id = of_program_id for no key update;
  rules := rules_with(of_program_id, of_group_id, of_partner_id, ended_id, added);
  if jsonb_array_length(rules) > 50 then
    raise check_violation using message = 'There are more than 50 rules.', constraint = 'commission_rules_most';
  end if;
  return save_rules(of_program_id, of_group_id, of_partner_id, rules);
end $function$
;

CREATE OR REPLACE FUNCTION public.changed_columns(old_row jsonb, new_row jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (SELECT COALESCE(jsonb_object_agg(o.key, jsonb_build_array(o.value, (changed_columns.new_row -> o.key))), '{}'::jsonb) AS "coalesce" FROM jsonb_each(changed_columns.old_row) o(key, value) WHERE (o.value <> (changed_columns.new_row -> o.key)))
;

CREATE OR REPLACE FUNCTION public.check_api_key(hash bytea, scope text, OUT key_refusal text, OUT key_id bigint, OUT program_id bigint, OUT domain text, OUT scopes text[])
 RETURNS record
 LANGUAGE sql
AS $function$
  select use_key(k, scope), k.id, p.id, p.domain, k.scopes from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash
$function$
;

CREATE OR REPLACE FUNCTION public.check_key_of_refused(hash bytea, refused_call text, code text, detail text, OUT key_refusal text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  key api_keys;
begin
  select k.* into key from api_keys k where k.key_hash = hash;
  if found then
    key_refusal := use_key(key, 'track');
    if key_refusal = '' then
      perform note_refusal(key.program_id, refused_call, code, detail);
    end if;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.check_partner_key(hash bytea)
 RETURNS TABLE(program_id bigint, partner_id bigint, currency text)
 LANGUAGE sql
 ROWS 1
AS $function$
  with key as (
    select k.program_id, k.id, k.partner_id, g.currency, k.last_used_at
    from partner_keys k
    join partners p on p.program_id = k.program_id and p.id = k.partner_id and p.user_id = k.user_id and p.ended_at is null
    join programs g on g.id = k.program_id and g.deleted_at is null
    where k.key_hash = hash
  ), used as (
    update partner_keys u set last_used_at = now() from key k
    where u.program_id = k.program_id and u.id = k.id and (k.last_used_at is null or k.last_used_at < now() - interval '1 hour')
  )
  select k.program_id, k.partner_id, k.currency from key k
$function$
;

CREATE OR REPLACE FUNCTION public.claim_api_refunds(sale sales, reported processor_reversals[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  reversal processor_reversals;
begin
  update refunds r set processor_reversal_id = t.reversal_id
  from unnest(reported) t
  where r.program_id = sale.program_id and r.sale_id = sale.id and r.processor_reversal_id is distinct from t.reversal_id
    and is_refund_key(r.refund_key, 'id:' || t.reversal_id);
  for reversal in select * from new_reversals(sale, reported) loop
    update refunds r set processor_reversal_id = reversal.reversal_id
    where r.program_id = sale.program_id and r.id = (
      select a.id from refunds a
      where a.program_id = sale.program_id and a.sale_id = sale.id and a.processor_reversal_id is null and a.continues_refund_id is null
        and a.reason = reversal.reason and reversal.amount_cents = coalesce(a.requested_cents, (
          select sum(p.applied_cents) from refunds p
          where p.program_id = a.program_id and p.sale_id = a.sale_id and a.id in (p.id, p.continues_refund_id)
        ))
      order by a.id limit 1
    );
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.claim_due_webhooks(program_ids bigint[], at_most integer, takes_slow boolean)
 RETURNS TABLE(program_id bigint, endpoint_id bigint, message_id bigint, partner_id bigint, method text, url text, secret_number integer, has_previous_secret boolean, type text, data jsonb, created_at timestamp with time zone, is_slow boolean)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  -- A program can have thousands of endpoints of partners, but few with due deliveries.
  due_ids bigint[];
begin
  -- This prevents two consumers from counting the open requests at the same moment.
  due_ids := array(
    select e.id from webhook_endpoints e
    where e.program_id = any (program_ids) and e.deleted_at is null and e.disabled_at is null and exists (
      select from webhook_deliveries d where d.program_id = e.program_id and d.endpoint_id = e.id and d.next_attempt_at <= now()
    )
    order by e.program_id, e.id for no key update
  );
  return query
  with workspaces as materialized (
    select p.workspace_id, workspace_webhooks_at_once() - workspace_webhooks_under_way(p.workspace_id) as free
    from programs p where p.id = any (program_ids) group by p.workspace_id
  ), waiting as (
    select d.*, w.free, row_number() over (
      partition by w.workspace_id order by d.is_slow and not takes_slow, d.is_of_partner, d.place, d.next_attempt_at
    ) as turn_in_workspace
    from (
      select e.program_id, e.id as endpoint_id, d.*, e.partner_id is not null as is_of_partner, e.slow_until > now() as is_slow
      from webhook_endpoints e cross join lateral startable_webhooks(e) d
      where e.program_id = any (program_ids) and e.id = any (due_ids) and e.deleted_at is null and e.disabled_at is null
        and (e.rests_until is null or e.rests_until <= now())
    ) d
    join programs p on p.id = d.program_id
    join workspaces w on w.workspace_id = p.workspace_id
  ), due as (
    select n.*, case when n.is_free then row_number() over (order by not n.is_free, n.is_slow, n.place, n.next_attempt_at) end as turn
    from (select w.*, w.turn_in_workspace <= w.free and (takes_slow or not w.is_slow) as is_free from waiting w) n
  ), claimed as (
    update webhook_deliveries d set claimed_until = now() + interval '45 s'
    from due n
    where n.turn <= at_most and d.program_id = n.program_id and d.endpoint_id = n.endpoint_id and d.message_id = n.message_id
    returning d.program_id, d.endpoint_id, d.message_id
  )
  select c.program_id, c.endpoint_id, c.message_id, e.partner_id, e.method, e.url, e.secret_number, coalesce(e.previous_secret_until > now(), false), m.type, m.data,
    m.created_at, e.slow_until > now()
  from claimed c
  join webhook_endpoints e on e.program_id = c.program_id and e.id = c.endpoint_id
  join webhook_messages m on m.program_id = c.program_id and m.id = c.message_id
  union all
  select n.program_id, null::bigint, null::bigint, null::bigint, null, null, null::integer, null::boolean, null, null::jsonb, null::timestamptz,
    bool_and(n.is_slow)
  from due n where (n.turn > at_most or n.turn is null) and n.place = 1 group by n.program_id
  order by 3;
end $function$
;

CREATE OR REPLACE FUNCTION public.claim_mails(max_mails integer, most_immediate integer, reading_roles text[])
 RETURNS TABLE(mail_id uuid, user_id text, email text, user_name text, language text, frequency text, topics text[], notifications jsonb)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  claimed uuid[];
begin
  perform pg_advisory_xact_lock(hashtextextended('claim_mails', 0));
  delete from notification_mails m where m.due_at <= now() and (m.attempts >= 10 or not exists (
    select from notifications n, mail_recipients(n.program_id, n.audience, n.partner_id, reading_roles) t
    where n.program_id = m.program_id and n.id = m.notification_id and t.user_id = m.user_id and (m.mail_id is not null or not is_decided(n))
  ));
  perform count_immediate_mails(most_immediate);
  with due as (
    select m.user_id, m.frequency, case when m.frequency = 'at_once' then m.topic end as topic, gen_random_uuid() as id
    from notification_mails m where m.due_at <= now() and m.mail_id is null group by 1, 2, 3
  )
  update notification_mails m set mail_id = due.id from due
  where m.due_at <= now() and m.mail_id is null and m.user_id = due.user_id and m.frequency = due.frequency
    and (due.topic is null or m.topic = due.topic);
  select array_agg(id) into claimed from (
    select m.mail_id as id from notification_mails m where m.due_at <= now() group by 1 order by min(m.due_at) limit max_mails
  ) oldest;
  update notification_mails m set attempts = m.attempts + 1, due_at = now() + least(interval '2 minutes' * 2 ^ m.attempts, interval '12 hours')
  where m.mail_id = any (claimed);
  return query
    -- Members of programs get mail in English.
    select m.mail_id, u.id, u.email, u.name::text,
      case when bool_and(n.audience = 'partner') then coalesce(f.language::text, (array_agg(p.language::text order by n.id))[1]) end,
      m.frequency::text, array_agg(distinct m.topic::text),
      jsonb_agg(jsonb_build_object('program_id', n.program_id, 'program_name', p.name, 'sender', coalesce(b.sender_name, p.name), 'color', b.color, 'audience', n.audience, 'partner_name', r.name,
        'kind', n.kind, 'payload', n.payload) order by p.name, n.program_id, n.created_at, n.id)
    from notification_mails m
    join users u on u.id = m.user_id
    join notifications n on n.program_id = m.program_id and n.id = m.notification_id
    join programs p on p.id = m.program_id
    left join program_brands b on b.program_id = m.program_id
    left join partners r on r.program_id = n.program_id and r.id = n.partner_id
    left join partner_profiles f on f.user_id = m.user_id
    where m.mail_id = any (claimed)
    group by m.mail_id, u.id, u.email, u.name, f.language, m.frequency;
end $function$
;

CREATE OR REPLACE FUNCTION public.claim_payee_mails(max_mails integer, bounds jsonb)
 RETURNS TABLE(mail_id uuid, program_id bigint, notification_id bigint, email text, partner_name text, language text, notification jsonb)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  one record;
  over text;
  claimed integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('claim_payee_mails', 0));
  for one in
    select m.*, p.workspace_id, r.email, r.name::text as partner_name, p.language::text, n.kind, n.payload, p.name as program_name, b.sender_name, b.color,
      m.attempts < 10 and r.user_id is null and r.email is not null and r.closed_at is null and p.deleted_at is null and not is_blocked(p.id)
        and has_verified_owner(p.workspace_id) and not exists (select from refused_addresses a where a.email = lower(r.email)) as may_get
    from payee_mails m
    join notifications n on n.program_id = m.program_id and n.id = m.notification_id
    join programs p on p.id = m.program_id
    join partners r on r.program_id = n.program_id and r.id = n.partner_id
    left join program_brands b on b.program_id = m.program_id
    where m.due_at <= now() order by m.due_at, m.program_id, m.notification_id limit 50 * max_mails
  loop
    exit when claimed = max_mails;
    over := case when one.may_get and one.attempts = 0 then count_payee_mail(one.workspace_id, one.email, bounds) end;
    if not one.may_get or over = 'recipient' then
      delete from payee_mails m where m.program_id = one.program_id and m.notification_id = one.notification_id;
    else
      update payee_mails m set attempts = m.attempts + case when over is null then 1 else 0 end,
        due_at = case when over is null then now() + least(interval '2 minutes' * 2 ^ m.attempts, interval '12 hours') else next_daily_mail() end
      where m.program_id = one.program_id and m.notification_id = one.notification_id;
    end if;
    continue when not one.may_get or over is not null;
    claimed := claimed + 1;
    return query select one.mail_id, one.program_id, one.notification_id, one.email, one.partner_name, one.language,
      jsonb_build_object('program_id', one.program_id, 'program_name', one.program_name, 'sender', coalesce(one.sender_name, one.program_name),
        'color', one.color, 'audience', 'partner', 'partner_name', one.partner_name, 'kind', one.kind, 'payload', one.payload);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.claim_queued_invitations(max_rows integer, per_day integer)
 RETURNS TABLE(of_program_id bigint, of_partner_id bigint, of_job_id bigint, sender_id text)
 LANGUAGE sql
AS $function$
  update queued_invitations i set attempted_at = now()
  where (i.program_id, i.partner_id) in (
    select q.program_id, q.partner_id from queued_invitations q join programs p on p.id = q.program_id
    where (q.attempted_at is null or q.attempted_at < now() - interval '10 minutes') and not exists (
      select from mail_counts m where m.counted in ('workspace ' || p.workspace_id, 'account ' || q.invited_by)
        and m.day = utc_day(now()) and m.mails >= per_day
    )
    order by q.queued_at, q.program_id, q.partner_id limit max_rows for update of q skip locked
  )
  returning i.program_id, i.partner_id, i.job_id, i.invited_by
$function$
;

CREATE OR REPLACE FUNCTION public.clear_test_data(of_program_id bigint, batch_rows integer, is_begun boolean, OUT deleted bigint, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  account_ids text[];
  payment_ids text[];
  sale_ids bigint[];
  until timestamptz;
  sales_deleted bigint;
  clicks_deleted bigint;
  leads_deleted bigint;
  events_deleted bigint;
begin
  select connected_accounts(p) into account_ids from programs p where p.id = of_program_id;
  if not is_begun then
    perform write_program_audit(of_program_id, 'data.test_cleared', null, jsonb_build_object(
      'clicks', (select count(*) from affiliate_click_events e where e.program_id = of_program_id and e.is_test),
      'leads', (select count(*) from affiliate_lead_events e where e.program_id = of_program_id and e.is_test),
      'sales', (select count(*) from sales s where s.program_id = of_program_id and s.is_test)));
  end if;

  -- Locks the payment first and then its sale, as reports about payments do. Otherwise, a report could find a sale that disappears.
  payment_ids := array(select s.transaction_id from sales s where s.program_id = of_program_id and s.is_test order by s.id limit batch_rows);
  perform lock_payments(account_id, array(select id from unnest(payment_ids) id where can_have_payment(account_id, id)))
  from unnest(account_ids) account_id;
  sale_ids := array(
    select s.id from sales s where s.program_id = of_program_id and s.is_test and s.transaction_id = any (payment_ids) order by s.id for update
  );
  delete from refunds r where r.program_id = of_program_id and r.sale_id = any (sale_ids);
  delete from sales s where s.program_id = of_program_id and s.is_test and s.id = any (sale_ids);
  get diagnostics sales_deleted = row_count;

  select e.click_timestamp into until from affiliate_click_events e
  where e.program_id = of_program_id and e.is_test order by e.click_timestamp offset batch_rows - 1 limit 1;
  delete from affiliate_click_events e
  where e.program_id = of_program_id and e.is_test and e.click_timestamp <= coalesce(until, 'infinity');
  get diagnostics clicks_deleted = row_count;

  select e.lead_timestamp into until from affiliate_lead_events e
  where e.program_id = of_program_id and e.is_test order by e.lead_timestamp offset batch_rows - 1 limit 1;
  delete from affiliate_lead_events e
  where e.program_id = of_program_id and e.is_test and e.lead_timestamp <= coalesce(until, 'infinity');
  get diagnostics leads_deleted = row_count;

  with gone as (
    delete from processor_events e where (e.account_id, e.event_id) in (
      select t.account_id, t.event_id from processor_events t where t.program_id = of_program_id and not t.livemode
      union all
      select t.account_id, t.event_id from processor_events t where t.account_id = any (account_ids) and t.program_id is null and not t.livemode
      limit batch_rows
    ) returning e.account_id, e.fact
  ), gone_reversals as (
    delete from processor_reversals v using gone g
    where v.account_id = g.account_id and not v.livemode
      and (v.payment_intent_id = g.fact->>'payment_intent_id' or v.charge_id = g.fact->>'charge_id')
  )
  select count(*) into events_deleted from gone;

  delete from processor_customer_metadata m where m.account_id = any (account_ids) and not m.livemode and (m.program_id = of_program_id
    or m.program_id is null and exists (select from customers c where c.program_id = of_program_id and c.click_id = m.click_id));

  deleted := sales_deleted + clicks_deleted + leads_deleted + events_deleted;
  more := batch_rows <= greatest(sales_deleted, clicks_deleted, leads_deleted, events_deleted);
end $function$
;

CREATE OR REPLACE FUNCTION public.click_id_created_at(click_id text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (click_id ~ '^cust_\d{13}_'::text) THEN to_timestamp(((((substr(click_id, 6, 13))::bigint)::numeric / 1000.0))::double precision) ELSE NULL::timestamp with time zone END
;

CREATE OR REPLACE FUNCTION public.click_id_of(of_program_id bigint, ms bigint, random bigint)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN (((('cust_'::text || ms) || '_'::text) || lpad((((random)::numeric + '9223372036854775808'::numeric))::text, 20, '0'::text)) || of_program_id)
;

CREATE OR REPLACE FUNCTION public.click_month_due(months_kept integer, late interval, OUT oldest text, OUT ends timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  oldest := (
    select min(c.relname::text) from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'affiliate_click_events'::regclass and c.relname <> 'affiliate_click_events_default'
  );
  ends := day_start((to_date(right(oldest, 7), 'YYYY_MM') + interval '1 month')::date);
  if oldest is null or day_start((utc_day(ends) + make_interval(months => months_kept))::date) > now() - late
    or day_start((utc_day(ends) + make_interval(months => months_kept))::date) > now() - late - interval '7 days' and (
      exists (select from programs p where not exists (select from customers_expired x where x.program_id = p.id and x.up_to >= ends + late))
      or exists (select from uncounted_clicks u where u.clicked_at < ends)
    ) then
    oldest := null;
    ends := null;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.click_of_customer(c customers, clicked_at timestamp with time zone)
 RETURNS SETOF click_events
 LANGUAGE sql
 STABLE ROWS 1
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
  select e.* from click_events e
  where e.program_id = (c).program_id and not e.is_test and e.link_id = (c).link_id
    and e.click_timestamp = any (array[clicked_at, timestamptz 'epoch'
      + interval '1 millisecond' * substring((c).click_id from '^cust_([0-9]{13})_')::bigint])
  order by e.customer_id = (c).id desc, e.click_timestamp desc, e.id limit 1
$function$
;

CREATE OR REPLACE FUNCTION public.clicks_by_quarter(of_program_id bigint, from_day date, until_day date, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(begins timestamp with time zone, clicks bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select w.begins, sum(w.clicks)::bigint from (
    select day_start(t.day) + u.quarter * interval '15 minutes' as begins, u.sum - coalesce(t.sums[u.n - 1], 0) as clicks
    from grouped_quarters t cross join lateral unnest(t.quarters, t.sums) with ordinality u (quarter, sum, n)
    where t.program_id = of_program_id and t.grouping_name = 'all' and t.metric = any ('{clicks,bot_clicks}') and t.currency = ''
      and t.day between from_day and until_day
    union all
    select date_bin('15 minutes', u.clicked_at, 'epoch'), 1 from uncounted_clicks u
    where u.program_id = of_program_id and u.clicked_at >= from_time and u.clicked_at < until
  ) w group by w.begins
$function$
;

CREATE OR REPLACE FUNCTION public.clicks_read(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, OUT read_from timestamp with time zone, OUT quarters timestamp with time zone[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  until_day constant date := utc_day(until - interval '1 millisecond');
  from_day constant date := first_day_of_clicks(of_program_id, filters, utc_day(from_time), until_day);
  fits_all constant boolean := not exists (select from jsonb_each_text(filters) f where f.value is not null);
begin
  with placed as (
    select s.*, sum(s.fits) over (order by s.begins desc) as read
    from (
      select w.begins, w.clicks, w.clicks * (fits_all or f.begins is not null)::integer as fits
      from clicks_by_quarter(of_program_id, from_day, until_day, from_time, until) w
      left join fitting_quarters(of_program_id, filters, from_day, until_day, from_time, until) f (begins) on f.begins = w.begins
    ) s
  ),
  kept as (
    select p.* from placed p where p.read <= greatest(max_rows_read(filters), (select min(first.read) from placed first where first.fits > 0))
  )
  select greatest(from_time, case when from_day > utc_day(from_time) or exists (
      select from placed p where p.fits > 0 and p.begins < (select min(k.begins) from kept k)
    ) then coalesce(min(k.begins), day_start(from_day)) end),
    case when sum(k.clicks) > 2 * sum(k.fits) then array_agg(k.begins order by k.begins) filter (where k.fits > 0) end
  into read_from, quarters
  from kept k;
end $function$
;

CREATE OR REPLACE FUNCTION public.close_partners(program_ids bigint[], partner_ids bigint[], by_whom text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update partners r set closed_at = now(), is_active = false, ended_at = coalesce(r.ended_at, now()),
    ended_by = coalesce(r.ended_by, by_whom)
  where r.program_id = any (program_ids) and r.id = any (partner_ids);
  update referral_links l set is_active = false
  where l.program_id = any (program_ids) and l.partner_id = any (partner_ids) and l.is_active;
  update partner_codes k set revoked_at = now()
  where k.program_id = any (program_ids) and k.partner_id = any (partner_ids) and k.revoked_at is null;
  update partner_invitations i set revoked_at = now()
  where i.program_id = any (program_ids) and i.partner_id = any (partner_ids)
    and i.accepted_at is null and i.declined_at is null and i.revoked_at is null;
end $function$
;

CREATE OR REPLACE FUNCTION public.close_review(of_program_id bigint, of_commission_id bigint, of_decision text, because text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update commission_reviews v set decision = of_decision, note = because, decided_at = now(), decided_by = acting_user(),
    decided_by_key = acting_key()
  where v.program_id = of_program_id and v.commission_id = of_commission_id and v.decision is null;
  update commissions c set held_at = null where c.program_id = of_program_id and c.id = of_commission_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.close_workspace(of_workspace_id text, OUT unsettled jsonb, OUT account_ids text[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  program_ids bigint[];
  partner_ids bigint[];
begin
  perform from workspaces w where w.id = of_workspace_id for update;
  program_ids := array(select p.id from programs p where p.workspace_id = of_workspace_id order by p.id for update);
  partner_ids := array(
    select r.id from partners r where r.program_id = any (program_ids) order by r.program_id, r.id for update
  );
  unsettled := first_unsettled(program_ids, null);
  if unsettled <> '[]' then
    return;
  end if;
  account_ids := array(
    select distinct p.processor_account_id from programs p
    where p.id = any (program_ids) and p.processor_account_id is not null and not exists (
      select from programs other where other.processor_account_id = p.processor_account_id and other.id <> all (program_ids)
    )
  );
  perform close_partners(program_ids, partner_ids, 'program');
  update api_keys k set revoked_at = now() where k.program_id = any (program_ids) and k.revoked_at is null;
  update workspace_invitations i set revoked_at = now()
  where i.workspace_id = of_workspace_id and i.accepted_at is null and i.revoked_at is null;
  update webhook_endpoints e set deleted_at = now() where e.program_id = any (program_ids) and e.deleted_at is null;
  update join_pages j set is_open = false where j.program_id = any (program_ids) and j.is_open;
  delete from program_hosts h where h.program_id = any (program_ids);
  delete from applications a where a.program_id = any (program_ids) and a.status <> 'approved';
  delete from processor_connect_states s where s.program_id = any (program_ids);
  delete from own_account_codes c where c.program_id = any (program_ids);
  delete from processor_customer_metadata m where m.account_id = any (account_ids)
    or m.account_id in (select c.account_id from processor_connections c where c.program_id = any (program_ids));
  delete from processor_connections c where c.program_id = any (program_ids);
  update payout_connections c set keys = null where c.program_id = any (program_ids) and c.keys is not null;
  delete from refused_calls r where r.program_id = any (program_ids);
  -- An export locks its program first, so none is running.
  delete from export_rows x where x.program_id = any (program_ids);
  delete from program_members o where o.workspace_id = of_workspace_id;
  update workspace_members m set removed_at = now() where m.workspace_id = of_workspace_id and m.removed_at is null;
  update programs p set deleted_at = now(), processor_account_id = null, processor_former_account_id = null, processor_connected_at = null
  where p.id = any (program_ids);
  update workspaces w set deleted_at = now() where w.id = of_workspace_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.commission_of(base_cents bigint, commission_bp integer, fixed_cents bigint, months integer, sale_date timestamp with time zone, first_purchase_date timestamp with time zone, left_cents bigint)
 RETURNS bigint
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((base_cents = 0) OR is_after_duration(sale_date, first_purchase_date, months)) THEN (0)::bigint ELSE GREATEST(LEAST(((((base_cents * commission_bp) + 5000) / 10000) + COALESCE(fixed_cents, (0)::bigint)), left_cents, '9999999999999'::bigint), (0)::bigint) END
;

CREATE OR REPLACE FUNCTION public.commissions_by_rules(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(of_partner_id bigint, of_currency text, actual_cents bigint, cents bigint)
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  sold record;
  of_customer_id bigint;
  counted_cents bigint;
  earlier_cents bigint;
begin
  for sold in
    with sold as materialized (
      select s.id, s.partner_id, s.customer_id, s.currency, s.sale_type, s.commission_base_cents, s.sale_date,
        -- If there is only one line, its weight doesn't matter.
        case when cardinality(s.lines) = 1 then array[((s.lines[1]).product_ids, 1)::sale_line] else s.lines end as lines
      from sales s
      where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.sale_date >= from_time and s.sale_date < until
    ),
    -- One row for all sales that look the same to every rule. A partner who has left earns nothing.
    terms as materialized (
      select k.*, t.commission_bp, t.commission_fixed_cents, t.commission_months, t.commission_cap_cents, t.terms_by_line
      from (select distinct s.partner_id, s.currency, s.lines, s.sale_type from sold s) k
      join partners r on r.program_id = of_program_id and r.id = k.partner_id and r.closed_at is null
      join programs p on p.id = r.program_id
      cross join lateral with_terms(jsonb_populate_record(null::sales, jsonb_build_object(
        'program_id', p.id, 'partner_id', k.partner_id, 'currency', k.currency, 'lines', k.lines, 'sale_type', k.sale_type,
        'terms_among', jsonb_build_object('rules_version', p.rules_version, 'group_id', r.group_id, 'commission_bp', p.commission_bp,
          'commission_months', p.commission_duration_months)))) t
    )
    select s.*, u.first_purchase_date, coalesce(c.amount_cents, 0) as actual_cents,
      t.commission_bp, t.commission_fixed_cents, t.commission_months, t.commission_cap_cents, t.terms_by_line
    from sold s
    join customers u on u.program_id = of_program_id and u.id = s.customer_id
    left join terms t on t.partner_id = s.partner_id and t.currency = s.currency and t.sale_type = s.sale_type
      and t.lines is not distinct from s.lines
    left join commissions c on c.program_id = of_program_id and c.sale_id = s.id
    order by s.customer_id, s.currency, s.sale_date, s.id
  loop
    if (sold.customer_id, sold.currency) is distinct from (of_customer_id, of_currency) then
      of_customer_id := sold.customer_id;
      of_currency := sold.currency;
      counted_cents := 0;
      earlier_cents := null;
    end if;
    -- The same as left_under_cap, but with the recomputed commissions of the customer's sales in the period.
    if num_nonnulls(sold.commission_cap_cents, sold.terms_by_line) > 0 and earlier_cents is null then
      select coalesce(sum(c.amount_cents), 0) into earlier_cents
      from sales s join commissions c on c.program_id = s.program_id and c.sale_id = s.id
      where s.program_id = of_program_id and s.customer_id = sold.customer_id and not s.is_test and s.currency = sold.currency
        and s.sale_date < from_time;
    end if;
    of_partner_id := sold.partner_id;
    actual_cents := sold.actual_cents;
    cents := case when sold.commission_bp is null then 0
      when sold.terms_by_line is not null then (
        select sum(l.commission_cents) from commissions_of_lines(sold.commission_base_cents, sold.terms_by_line, sold.sale_date,
          sold.first_purchase_date, earlier_cents + counted_cents) l
      )
      else commission_of(sold.commission_base_cents, sold.commission_bp, sold.commission_fixed_cents, sold.commission_months,
        sold.sale_date, sold.first_purchase_date, sold.commission_cap_cents - earlier_cents - counted_cents) end;
    counted_cents := counted_cents + cents;
    return next;
  end loop;
  return query
    select l.partner_id, p.currency::text, l.actual_cents,
      case when r.closed_at is null then l.leads * coalesce(t.lead_commission_cents, p.lead_commission_cents) else 0 end
    from (
      select u.partner_id, count(*) as leads, coalesce(sum(c.amount_cents), 0)::bigint as actual_cents
      from customers u left join commissions c on c.program_id = u.program_id and c.customer_id = u.id and c.kind = 'lead'
      where u.program_id = of_program_id and u.signup_date >= from_time and u.signup_date < until
      group by u.partner_id
    ) l
    join programs p on p.id = of_program_id
    join partners r on r.program_id = p.id and r.id = l.partner_id
    left join lateral lead_terms_of(p.id, p.rules_version, r.id, r.group_id) t on true;
end $function$
;

CREATE OR REPLACE FUNCTION public.commissions_of_lines(base_cents bigint, parts line_terms[], sale_date timestamp with time zone, first_purchase_date timestamp with time zone, earlier_cents bigint)
 RETURNS TABLE(part line_terms, part_cents bigint, commission_cents bigint)
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  all_weight numeric := (select sum(p.weight) from unnest(parts) p);
  weight numeric := 0;
  shared_cents bigint := 0;
begin
  foreach part in array parts loop
    weight := weight + part.weight;
    part_cents := div(base_cents * weight, all_weight)::bigint - shared_cents;
    shared_cents := shared_cents + part_cents;
    commission_cents := commission_of(part_cents, part.commission_bp, part.fixed_cents, part.commission_months, sale_date, first_purchase_date,
      part.cap_cents - earlier_cents);
    earlier_cents := earlier_cents + commission_cents;
    return next;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.compare_commissions(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS SETOF compared_commission
 LANGUAGE sql
 STABLE
AS $function$
  with former as materialized (
    select f.*, row_number() over (order by f.id) as place
    from former_commissions(of_program_id, from_time - interval '3 days', until + interval '3 days') f
  ), computed as materialized (
    select c.*, row_number() over (order by c.key collate "C") as place
    from computed_commissions(of_program_id, from_time - interval '3 days', until + interval '3 days') c
  ), of_payment as (
    select distinct on (f.place) f.place as former_place, c.place as computed_place, c.partner_id = f.partner_id as same_partner
    from computed c cross join unnest(c.payment_ids) given (id) join former f on f.payment_id = given.id collate "C"
    where given.id is not null
    order by f.place, c.partner_id = f.partner_id desc nulls last, abs(extract(epoch from f.at - c.at)), c.place
  ), paid as materialized (
    select distinct on (p.computed_place) p.former_place, p.computed_place from of_payment p
    order by p.computed_place, p.same_partner desc nulls last, p.former_place
  ), unpaid as materialized (
    select f.place, true as is_former, f.at, f.customer_id, f.partner_id, f.currency,
      array[case when f.sale_cents is null then 'earned ' || f.amount_cents else 'sold ' || f.sale_cents end] as amounts
    from former f where not exists (select from paid p where p.former_place = f.place)
    union all
    select c.place, false, c.at, c.customer_id, c.partner_id, c.currency,
      array['earned ' || c.amount_cents, 'sold ' || c.base_cents, case when c.sale_cents <> c.base_cents then 'sold ' || c.sale_cents end]
    from computed c where not exists (select from paid p where p.computed_place = c.place)
  ), waiting as (
    select u.is_former, u.place, u.at, '1 ' || u.customer_id || ' ' || u.currency collate "C" as group_key
    from unpaid u where u.customer_id is not null
    union all
    -- Paired by the amount, if the former service doesn't know the customer (2), or if the program doesn't (3).
    select u.is_former, u.place, u.at, way.number || u.partner_id || ' ' || u.currency || ' ' || amount
    from unpaid u cross join unnest(u.amounts) amount cross join (values ('2 ', true), ('3 ', false)) way (number, lacks_former)
    where amount is not null and (u.customer_id is null or u.is_former <> way.lacks_former)
      and u.partner_id in (select o.partner_id from unpaid o where o.customer_id is null)
  ), pairs as (
    select p.former_place, p.computed_place from paid p
    union all
    select p.former_place, p.computed_place from pair_by_time((
      select array_agg((w.is_former, w.place, w.at, w.group_key)::unpaired_commission order by w.group_key, w.at, w.is_former, w.place)
      from waiting w
    )) p
  )
  select coalesce('former:' || f.id, c.key), coalesce(c.at, f.at), f.external_id, f.partner_id, f.currency, f.payment_id, f.sale_cents,
    f.amount_cents, f.pays_cents, c.commission_id, c.transaction_id, c.partner_id, c.currency, c.state, c.sale_cents, c.base_cents, c.fee_cents,
    c.amount_cents, c.pays_cents,
    (coalesce(f.pays_cents, 0) = coalesce(c.pays_cents, 0)
      and (f.pays_cents is null or c.pays_cents is null or f.pays_cents = 0 or (f.partner_id, f.currency) = (c.partner_id, c.currency))) is not true
  from former f
  left join pairs p on p.former_place = f.place
  full join computed c on c.place = p.computed_place
  where coalesce(c.at, f.at) >= from_time and coalesce(c.at, f.at) < until
$function$
;

CREATE OR REPLACE FUNCTION public.compare_with_former(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone, max_partners integer, before_gap_cents bigint, before_partner_id bigint, before_currency text, max_differences integer, before_us bigint, before_key text, of_partner_id bigint, of_reason text, OUT partners jsonb, OUT differences jsonb, OUT difference_count bigint)
 RETURNS record
 LANGUAGE sql
 STABLE
AS $function$
  with compared as materialized (select * from compare_commissions(of_program_id, from_time, until)), sides as (
    select k.former_partner_id as partner_id, k.former_currency as currency, 1 as former_commissions, k.former_pays_cents as former_cents,
      0 as commissions, 0 as cents, k.differs::integer as differences
    from compared k where k.former_partner_id is not null
    union all
    select k.partner_id, k.currency, 0, 0, 1, k.pays_cents,
      case when (k.former_partner_id, k.former_currency) = (k.partner_id, k.currency) then 0 else k.differs::integer end
    from compared k where k.commission_id is not null and k.state <> 'test'
  ), sums as (
    select s.partner_id, s.currency, sum(s.former_commissions) as former_commissions, sum(s.former_cents)::bigint as former_cents,
      sum(s.commissions) as commissions, sum(s.cents)::bigint as cents, sum(s.differences) as differences,
      abs(sum(s.former_cents) - sum(s.cents))::bigint as gap_cents
    from sides s group by 1, 2
  ), some_partners as (
    select s.* from sums s
    where before_partner_id is null or (s.gap_cents, s.partner_id, s.currency) < (before_gap_cents, before_partner_id, before_currency)
    order by s.gap_cents desc, s.partner_id desc, s.currency desc limit max_partners
  ), chosen as not materialized (
    select d.* from (
      select k.*, difference_reasons(k.former_partner_id, k.former_currency, k.former_sale_cents, k.former_cents, k.former_pays_cents,
        k.partner_id, k.currency, k.state, k.base_cents, k.cents, k.pays_cents) as reasons
      from compared k where k.differs and (of_partner_id is null or of_partner_id in (k.former_partner_id, k.partner_id))
    ) d
    where of_reason is null or of_reason = any (d.reasons)
  ), some_differences as (
    -- Postgres only computes the reasons of the returned rows, unless the caller filters by a reason.
    select c.* from chosen c
    where before_key is null or ((extract(epoch from c.at) * 1000000)::bigint, c.key) < (before_us, before_key)
    order by c.at desc, c.key desc limit max_differences
  )
  select
    (select coalesce(jsonb_agg(to_jsonb(p) - 'gap_cents' order by p.gap_cents desc, p.partner_id desc, p.currency desc), '[]') from (
      select s.*, r.name as partner_name from some_partners s join partners r on r.program_id = of_program_id and r.id = s.partner_id
    ) p),
    (select coalesce(jsonb_agg(to_jsonb(d) - 'differs' order by d.at desc, d.key desc), '[]') from (
      select s.*, (extract(epoch from s.at) * 1000000)::bigint as at_us, o.name as former_partner_name, r.name as partner_name
      from some_differences s
      left join partners o on o.program_id = of_program_id and o.id = s.former_partner_id
      left join partners r on r.program_id = of_program_id and r.id = s.partner_id
    ) d),
    (select count(*) from chosen)
$function$
;

CREATE OR REPLACE FUNCTION public.compared_state(sale sales, commission commissions, first_date timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (sale).is_test THEN 'test'::text WHEN (((sale).id IS NOT NULL) AND ((sale).partner_id IS NULL)) THEN CASE WHEN ((sale).resolution ? 'expired_click'::text) THEN 'click_expired'::text ELSE 'unattributed'::text END WHEN ((((commission).id IS NULL) AND is_after_duration((sale).sale_date, first_date, (sale).commission_months)) OR (((commission).reason)::text = 'after_duration'::text)) THEN 'after_duration'::text WHEN ((commission).id IS NULL) THEN CASE WHEN ((sale).commission_cap_cents IS NOT NULL) THEN 'capped'::text ELSE 'no_commission'::text END WHEN ((commission).rejected_at IS NOT NULL) THEN 'rejected'::text WHEN (((commission).reversed_cents)::bigint > 0) THEN 'refunded'::text WHEN ((commission).held_at IS NOT NULL) THEN 'held'::text ELSE 'earned'::text END
;

CREATE OR REPLACE FUNCTION public.complete_purchase(event processor_events, ids text[], answer jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  fact jsonb := event.fact;
begin
  if answer ? 'promotion_code_ids' and fact ? 'asks_discounts_of' then
    fact := fact - 'asks_discounts_of' || jsonb_build_object('promotion_code_ids', answer->'promotion_code_ids');
  end if;
  if event.livemode and fact#>>'{sale,amount_source}' in ('charge', 'intent') then
    fact := with_session(event.account_id, fact, ids);
  end if;
  -- Includes the names in events that may be applied together with this one.
  perform lock_ids(event.account_id, array(select n from unnest(names_of_payment(event, ids)) n where starts_with(n, 'customer ')));
  if fact->>'sale' is null or fact->>'named_by' = 'customer'
    or (sale_of_payments(event.account_id, not event.livemode, ids)).customer_id is null then
    fact := with_customer_metadata(event.account_id, event.livemode, fact);
  end if;
  return fact;
end $function$
;

CREATE OR REPLACE FUNCTION public.complete_sale(sale sales, given sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  was_attributed boolean := sale.customer_id is not null;
begin
  -- A charge can pay a part of its intent. Both get the session's rank if the session was waiting for them. A processor can report its
  -- fee after the payment.
  if given.amount_source > sale.amount_source
    or given.amount_source = sale.amount_source and sale.amount_source <> 'api'
      and (given.amount_cents, given.processor_fee_cents) > (sale.amount_cents, sale.processor_fee_cents) then
    sale := correct_sale(sale, given);
  end if;
  if not was_attributed then
    given.lines := sale.lines;
    given.sale_type := sale.sale_type;
    given.currency := sale.currency;
    given := with_terms(given);
  end if;
  update sales s set
    customer_id = coalesce(s.customer_id, given.customer_id),
    partner_id = coalesce(s.partner_id, given.partner_id),
    commission_bp = coalesce(s.commission_bp, given.commission_bp),
    commission_months = case when was_attributed then s.commission_months else given.commission_months end,
    commission_rule_id = case when was_attributed then s.commission_rule_id else given.commission_rule_id end,
    commission_fixed_cents = case when was_attributed then s.commission_fixed_cents else given.commission_fixed_cents end,
    commission_cap_cents = case when was_attributed then s.commission_cap_cents else given.commission_cap_cents end,
    terms_among = case when was_attributed then s.terms_among else given.terms_among end,
    terms_by_line = case when was_attributed then s.terms_by_line else given.terms_by_line end,
    coupon = coalesce(s.coupon, given.coupon),
    code_id = case when was_attributed then s.code_id else given.code_id end,
    resolution = case when was_attributed then s.resolution else coalesce(given.resolution, s.resolution) end,
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
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.computed_commissions(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(key text, commission_id bigint, transaction_id text, payment_ids text[], partner_id bigint, customer_id bigint, currency text, at timestamp with time zone, state text, sale_cents bigint, base_cents bigint, fee_cents bigint, amount_cents bigint, pays_cents bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select x.key, x.commission_id, x.transaction_id, x.payment_ids, x.partner_id, x.customer_id, x.currency, x.at, x.state, x.sale_cents,
    x.base_cents, x.fee_cents, coalesce(x.amount_cents, 0)::bigint,
    case when x.state in ('earned', 'refunded') then x.amount_cents - x.reversed_cents else 0 end
  from (
    select 'sale:' || s.id as key, c.id as commission_id, s.transaction_id::text, array[s.transaction_id::text, s.processor_payment_intent_id,
        s.processor_charge_id, s.processor_invoice_id, s.processor_session_id] as payment_ids, s.partner_id, s.customer_id, s.currency::text,
      s.sale_date as at,
      -- Reads the customers only of sales without a commission.
      compared_state(s, c, (select u.first_purchase_date from customers u where u.program_id = s.program_id and u.id = s.customer_id)) as state,
      s.amount_cents::bigint as sale_cents, s.commission_base_cents::bigint as base_cents,
      coalesce(s.processor_fee_cents, 0)::bigint as fee_cents, c.amount_cents, c.reversed_cents
    from sales s
    left join commissions c on c.program_id = s.program_id and c.sale_id = s.id
    where s.program_id = of_program_id and s.sale_date >= from_time and s.sale_date < until
    union all
    select 'lead:' || c.customer_id, c.id, null, '{}', c.partner_id, c.customer_id, c.currency::text, c.created_at, compared_state(null, c, null),
      null, null, null, c.amount_cents, c.reversed_cents
    from commissions c
    where c.program_id = of_program_id and c.kind = 'lead' and c.created_at >= from_time and c.created_at < until
  ) x
$function$
;

CREATE OR REPLACE FUNCTION public.confirm_application(of_program_id bigint, of_application_id bigint, unconfirmed_kept interval, code_digits text, invitation_hash bytea, OUT outcome text, OUT is_first boolean, OUT invited boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  application applications;
  page join_pages;
begin
  is_first := false;
  invited := false;
  perform pg_advisory_xact_lock(hashtextextended('application of ' || mailbox_of(a.email), 0)) from applications a
  where a.program_id = of_program_id and a.id = of_application_id;
  select a.* into application from applications a join programs p on p.id = a.program_id and p.deleted_at is null
  where a.program_id = of_program_id and a.id = of_application_id for update of a;
  if application.status <> 'unverified' then
    outcome := application.status;
    return;
  elsif application.id is null or application.applied_at < now() - unconfirmed_kept then
    return;
  end if;
  select s.outcome into outcome from standing_of_applicant(of_program_id, application.email, application.user_id) s;
  if outcome is not null then
    delete from applications a where a.program_id = of_program_id and a.id = of_application_id;
    return;
  end if;
  is_first := true;
  outcome := 'waiting';
  update applications a set status = 'waiting', verified_at = now() where a.program_id = of_program_id and a.id = of_application_id
  returning a.* into application;
  -- Other applications with this address no longer need to be confirmed.
  delete from applications a where a.program_id = of_program_id and mailbox_of(a.email) = mailbox_of(application.email) and a.status = 'unverified';
  if wants_webhook(of_program_id, 'partner.applied') then
    perform write_webhook(of_program_id, 'partner.applied', jsonb_build_object('application_id', application.id));
  end if;
  select j.* into page from join_pages j where j.program_id = of_program_id;
  if page.approves_at_once and (page.is_open or application.source = 'api')
    and not exists (select from partners r where r.program_id = of_program_id and (r.user_id = application.user_id or mailbox_of(r.email) = mailbox_of(application.email)))
    and not exists (
      select from applications a where a.program_id = of_program_id and a.status = 'rejected'
        and (mailbox_of(a.email) = mailbox_of(application.email) or a.user_id = application.user_id)
    )
  then
    invited := admit_applicant(application, null, code_digits, invitation_hash, true);
    outcome := 'approved';
  else
    perform write_outbox(of_program_id, 'application_received', 'advertiser', null, 'application:' || application.id,
      jsonb_build_object('application_id', application.id));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.confirm_click_batch(batch bigint, click_ids bigint[], count_ids bigint[], up_to timestamp with time zone, is_complete boolean, dropped_before timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_variable
begin
  delete from unsent_clicks u where u.id = any (click_ids);
  delete from unsent_counts u where u.id = any (count_ids);
  update click_sink k set sent = batch, up_to = greatest(k.up_to, up_to), is_complete = k.is_complete or is_complete,
    dropped_before = greatest(k.dropped_before, dropped_before)
  where batch > k.sent;
end $function$
;

CREATE OR REPLACE FUNCTION public.connect_processor(of_program_id bigint, of_account_id text, is_live boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  -- Only a statement that starts after the lock sees other connections of the account.
  perform pg_advisory_xact_lock(hashtextextended(of_account_id, 0));
  update programs p set
    processor_account_id = of_account_id,
    processor_former_account_id = nullif(last_account_of(p), of_account_id),
    processor_connected_at = now(),
    processor_livemode = is_live
  where p.id = of_program_id and not exists (
    select from programs other
    where other.processor_account_id = of_account_id and other.id <> p.id
      and (other.workspace_id <> p.workspace_id or of_account_id = 'platform')
  );
  return found;
end $function$
;

CREATE OR REPLACE FUNCTION public.connected_accounts(program programs)
 RETURNS text[]
 LANGUAGE sql
 STABLE
RETURN (array_remove(ARRAY[(program).processor_account_id], NULL::text) || ARRAY(SELECT c.account_id FROM processor_connections c WHERE ((c.program_id = (connected_accounts.program).id) AND (c.disconnected_at IS NULL)) ORDER BY c.account_id))
;

CREATE OR REPLACE FUNCTION public.connected_programs(of_account_id text)
 RETURNS SETOF programs
 LANGUAGE sql
 STABLE
AS $function$
  select p.* from programs p where p.processor_account_id = of_account_id
  union all
  select p.* from processor_connections c join programs p on p.id = c.program_id
  where c.account_id = of_account_id and c.disconnected_at is null
$function$
;

CREATE OR REPLACE FUNCTION public.copy_click_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  copy constant text := format('rewriting.%I', tg_table_name);
  progress rewritten_months;
begin
  if tg_op <> 'INSERT' then
    execute format('delete from %s where program_id = $1 and is_test = $2 and click_timestamp = $3 and id = $4', copy)
    using old.program_id, old.is_test, old.click_timestamp, old.id;
  end if;
  if tg_op <> 'DELETE' then
    select m.* into progress from rewritten_months m where m.month = to_date(right(tg_table_name, 7), 'YYYY_MM');
    if (new.program_id, new.is_test, new.click_timestamp, new.id)
      <= (progress.program_id, progress.is_test, progress.click_timestamp, progress.id) then
      execute format('insert into %s select ($1).*', copy) using new;
    end if;
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.copy_clicks(of_month date, partition text, after rewritten_months, last rewritten_months)
 RETURNS void
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
declare
  rows constant text := format('select e.* from %I e where (e.program_id, e.is_test, e.click_timestamp, e.id)
    > ($1.program_id, $1.is_test, $1.click_timestamp, $1.id) and (e.program_id, e.is_test, e.click_timestamp, e.id)
    <= ($2.program_id, $2.is_test, $2.click_timestamp, $2.id)', partition);
begin
  execute format('insert into click_parts (program_id, month, hash, part)
    select e.program_id, $3, md5(t.part::text)::uuid, t.part from (%s) e cross join lateral parts_of_click(e) p
    cross join lateral (values (p.landing), (p.page), (p.browser), (p.place), (p.referrer)) t (part)
    where t.part is not null group by 1, 4 having count(distinct e.customer_id) >= 3 order by 1, 3
    on conflict (program_id, month, hash) do nothing', rows) using after, last, of_month;
  execute format('insert into rewriting.%I (program_id, click_timestamp, id, customer_id, link_id, visitor, created_at, click_random, click_ms, landing_part, page_part,
      browser_part, place_part, referrer_part, is_test, click_id, session_id, affiliate_url, page_url, page_title, referrer_url, user_agent,
      screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type, device_os, browser_name,
      additional_data, campaign)
    select e.program_id, e.click_timestamp, e.id, e.customer_id, e.link_id, e.visitor,
      case when e.created_at between e.click_timestamp and e.click_timestamp + interval ''1 second'' then null else e.created_at end,
      coalesce(e.click_random, c.random), coalesce(e.click_ms, nullif(c.ms, milliseconds(e.click_timestamp))),
      coalesce(e.landing_part, landing.id), coalesce(e.page_part, page.id), coalesce(e.browser_part, browser.id), coalesce(e.place_part, place.id), coalesce(e.referrer_part, referrer.id), e.is_test,
      case when c.random is null then e.click_id end, e.session_id, case when landing.id is null then e.affiliate_url end,
      case when page.id is null then e.page_url end, case when page.id is null then e.page_title end,
      case when referrer.id is null then e.referrer_url end, case when browser.id is null then e.user_agent end,
      case when browser.id is null then e.screen_resolution end, e.viewport_size,
      case when browser.id is null then e.language end, case when place.id is null then e.timezone end, e.geo_country,
      case when place.id is null then e.geo_region end, case when place.id is null then e.geo_city end, e.device_type,
      case when browser.id is null then e.device_os end, case when browser.id is null then e.browser_name end, e.additional_data,
      case when landing.id is null then e.campaign end
    from (%s) e
    cross join lateral split_click_id(e.program_id, e.click_id) c
    -- Computes each hash once, and looks up each part by its key.
    cross join lateral (
      select md5(p.landing::text)::uuid as landing, md5(p.page::text)::uuid as page, md5(p.browser::text)::uuid as browser, md5(p.place::text)::uuid as place,
        md5(p.referrer::text)::uuid as referrer from parts_of_click(e) p offset 0
    ) h
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.landing offset 0) landing on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.page offset 0) page on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.browser offset 0) browser on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.place offset 0) place on true
    left join lateral (select k.id from click_parts k where k.program_id = e.program_id and k.month = $3 and k.hash = h.referrer offset 0) referrer on true
    order by e.program_id, e.is_test, e.click_timestamp, e.id', partition, rows) using after, last, of_month;
end $function$
;

CREATE OR REPLACE FUNCTION public.correct_commission(sale sales, first_date timestamp with time zone)
 RETURNS commissions
 LANGUAGE plpgsql
AS $function$
declare
  was commissions;
  commission commissions;
  earned_cents bigint := earned_by(sale, first_date);
  change_cents bigint;
begin
  select c.* into was from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id;
  if was.id is null then
    if earned_cents > 0 then
      commission := create_commission(sale.program_id, 'sale', sale.partner_id, sale.customer_id, sale.currency, earned_cents, sale.id,
        sale.code_id, of_time => sale.created_at, of_date => sale.sale_date);
      perform count_commission_change(commission, earned_cents);
      if wants_webhook(sale.program_id, 'commission.created') then
        perform notify_commission_created(sale.program_id, commission.id);
      end if;
    end if;
    return commission;
  end if;
  commission := corrected(was, sale, earned_cents, first_date);
  if (commission.amount_cents, commission.reversed_cents, commission.reversal) = (was.amount_cents, was.reversed_cents, was.reversal) then
    return null;
  end if;
  change_cents := commission.amount_cents - commission.reversed_cents - (was.amount_cents - was.reversed_cents);
  update commissions c set amount_cents = commission.amount_cents, reversed_cents = commission.reversed_cents,
    reversal = commission.reversal, reason = commission.reason, correction_count = c.correction_count + 1,
    corrections = coalesce(c.corrections, '[]') || jsonb_build_array(jsonb_build_object('at', now(), 'was_cents', was.amount_cents,
      'amount_cents', commission.amount_cents, 'change_cents', change_cents, 'base_cents', sale.commission_base_cents,
      'source', sale.amount_source))
  where c.program_id = was.program_id and c.id = was.id
  returning * into commission;
  if change_cents <> 0 then
    perform carry_correction(commission, change_cents, sale.transaction_id);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.correct_commissions(of_sale sales, itself boolean, others boolean)
 RETURNS commissions[]
 LANGUAGE plpgsql
AS $function$
declare
  sale_ids bigint[];
  first_date timestamptz;
  sale sales;
  created commissions;
  all_created commissions[] := '{}';
begin
  select array_agg(locked.id) into sale_ids from (
    select s.id from sales s
    where s.program_id = of_sale.program_id and s.customer_id = of_sale.customer_id and not s.is_test
      and case when s.id = of_sale.id then itself else others and s.commission_months is not null or s.commission_cap_cents is not null or s.terms_by_line is not null end
    order by s.id for no key update
  ) locked;
  perform lock_commissions(of_sale.program_id, sale_ids);
  select c.first_purchase_date into first_date from customers c where c.program_id = of_sale.program_id and c.id = of_sale.customer_id;
  for sale in select s.* from sales s where s.program_id = of_sale.program_id and s.id = any (sale_ids) order by s.sale_date, s.id loop
    created := correct_commission(sale, first_date);
    if created.id is not null then
      all_created := all_created || created;
    end if;
  end loop;
  return all_created;
end $function$
;

CREATE OR REPLACE FUNCTION public.correct_currency(sale sales, given sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
begin
  if sale.processor_event_id is not null or sale.amount_source <> 'api' or sale.customer_key is distinct from given.customer_key then
    return null;
  end if;
  given.amount_source := 'api';
  given.sale_date := sale.sale_date;
  sale := correct_sale(sale, given);
  update sales s set api_payload = null where s.program_id = sale.program_id and s.id = sale.id and sale.currency = given.currency;
  return case when sale.currency = given.currency then sale end;
end $function$
;

CREATE OR REPLACE FUNCTION public.correct_customer(of_sale sales, itself boolean, others boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform enter_earlier_refunds(s, c)
  from unnest(correct_commissions(of_sale, itself, others)) c
  join sales s on s.program_id = c.program_id and s.id = c.sale_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.correct_known_purchase(event processor_events, ids text[])
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  sale sales := sale_of_payments(event.account_id, not event.livemode, ids);
begin
  if sale.id is null then
    event := park_disconnected(event, ids);
    if event.outcome is not null then
      return event;
    end if;
    event.awaits := array[awaited_name(event.account_id, 'payment', event.fact#>>'{sale,transaction_id}')];
    if event.fact#>>'{sale,amount_cents}' = '0' then
      return with_outcome(event, 'ignored', 'nothing_paid');
    end if;
    event.awaits := event.awaits || awaited_names(event.account_id, lasting_names(event.fact));
    return with_outcome(event, 'ignored', 'no_program_named');
  end if;
  event.program_id := sale.program_id;
  return record_purchase(event, ids, null);
end $function$
;

CREATE OR REPLACE FUNCTION public.correct_sale(sale sales, given sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  was constant sales := sale;
  is_moved boolean;
begin
  if given.currency <> sale.currency then
    sale := change_currency(sale, given);
    if sale.currency <> given.currency then
      return sale;
    end if;
  end if;
  sale.refunded_cents := fit_refunds(sale, given.amount_cents);
  sale.sale_type := given.sale_type;
  sale.lines := coalesce(given.lines, sale.lines);
  sale := with_terms(sale);
  update sales s set currency = sale.currency, amount_cents = given.amount_cents, commission_base_cents = given.commission_base_cents,
    processor_fee_cents = given.processor_fee_cents,
    amount_source = given.amount_source, payment_status = given.payment_status, sale_date = given.sale_date,
    refunded_cents = sale.refunded_cents, api_payload = coalesce(s.api_payload, api_payload_of(s)),
    sale_type = sale.sale_type, lines = sale.lines, terms_by_line = sale.terms_by_line, commission_rule_id = sale.commission_rule_id,
    commission_bp = sale.commission_bp, commission_months = sale.commission_months,
    commission_fixed_cents = sale.commission_fixed_cents, commission_cap_cents = sale.commission_cap_cents
  where s.program_id = sale.program_id and s.id = sale.id
  returning s.* into sale;
  if sale.customer_id is not null and not sale.is_test then
    perform count_paid_sale(was, -1);
    perform count_paid_sale(sale, 1);
    is_moved := move_first_purchase(sale);
    perform follow_first_code(sale.program_id, sale.customer_id);
    perform correct_customer(sale, true, is_moved);
  end if;
  return grow_refund_of_rest(sale, sale.amount_cents - was.amount_cents);
end $function$
;

CREATE OR REPLACE FUNCTION public.corrected(commission commissions, sale sales, earned_cents bigint, first_date timestamp with time zone)
 RETURNS commissions
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  part record := refunded_part(sale, null);
begin
  commission.amount_cents := earned_cents;
  if commission.rejected_at is not null then
    commission.reversed_cents := earned_cents;
    return commission;
  end if;
  commission.reversal := reversal_of(earned_cents, part.refunded, part.whole);
  commission.reversed_cents := reversed_share(earned_cents, part.refunded, part.whole);
  commission.reason := case
    when sale.amount_cents = 0 then 'no_payment_required'
    when earned_cents = 0 and is_after_duration(sale.sale_date, first_date, sale.commission_months) then 'after_duration'
    when earned_cents = 0 then 'nothing_left_to_earn'
    else (
      select coalesce(r.reason_text, r.reason) from refunds r
      where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0
        and r.untaxed_cents is distinct from 0
      order by r.id desc limit 1
    )
  end;
  return commission;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_clicks(max_rows integer, of_program_id bigint DEFAULT NULL::bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  has_sink constant boolean := has_click_sink();
  counted bigint;
  figures grouped_figure[];
begin
  with taken as (
    delete from uncounted_clicks
    where ctid = any (array(
      select ctid from uncounted_clicks where program_id = of_program_id or of_program_id is null limit max_rows for update skip locked
    ))
    returning program_id, link_id, clicked_at, event_id, is_bot
  ),
  unsent as (
    insert into unsent_clicks (program_id, clicked_at, event_id) select program_id, clicked_at, event_id from taken where has_sink
  ),
  links as (
    insert into link_clicks as c (program_id, link_id, clicks, bot_clicks, last_clicked_at)
    select program_id, link_id, count(*) filter (where not is_bot), count(*) filter (where is_bot),
      max(clicked_at) filter (where not is_bot)
    from taken group by program_id, link_id order by program_id, link_id
    on conflict (program_id, link_id) do update set clicks = c.clicks + excluded.clicks, bot_clicks = c.bot_clicks + excluded.bot_clicks,
      last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
  ),
  months as (
    insert into link_months as c (program_id, link_id, month, clicks, last_clicked_at)
    select program_id, link_id, month_of(clicked_at), count(*), max(clicked_at) from taken where not is_bot
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (program_id, link_id, month) do update set clicks = c.clicks + excluded.clicks,
      last_clicked_at = greatest(c.last_clicked_at, excluded.last_clicked_at)
  ),
  hours as (
    insert into daily_totals as c (program_id, day, slot, clicks)
    select program_id, utc_day(clicked_at), 64 * hour_of_day(clicked_at), count(*) from taken where not is_bot
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (program_id, day, slot) do update set clicks = c.clicks + excluded.clicks
  )
  select (select count(*) from taken), (
    select array_agg(row(g.program_id, g.grouping_name, g.metric, '', g.day, g.value, g.quarter, g.clicks)::grouped_figure) from (
      select t.program_id, t.grouping_name, (case when t.is_bot then 'bot_clicks' else 'clicks' end)::grouped_metric as metric,
        utc_day(t.clicked_at) as day, case when t.place > max_values_of_visitor() then '' else t.value end as value,
        quarter_of_day(t.clicked_at) as quarter, count(*) as clicks
      from (
        select t.program_id, t.clicked_at, t.is_bot, v.grouping_name, v.value, case when v.grouping_name > 'device' and e.visitor is not null
          then dense_rank() over (partition by e.visitor, v.grouping_name order by t.program_id, v.value) end as place
        from taken t
        join referral_links l on l.id = t.link_id
        cross join lateral (
          select values_of_click(e) as origin, e.visitor from click_events e
          where e.program_id = t.program_id and not e.is_test and e.click_timestamp = t.clicked_at and e.id = t.event_id
          -- Forces an index lookup for each click.
          offset 0
        ) e
        cross join lateral values_grouped_by(l.partner_id, t.link_id, null, e.origin) v
      ) t
      group by 1, 2, 3, 4, 5, 6
    ) g
  ) into counted, figures;
  if figures is not null then
    perform add_grouped(figures);
  end if;
  return counted;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_commission(commission commissions, times integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform count_commission_change(commission, times * (commission.amount_cents - commission.reversed_cents));
end $function$
;

CREATE OR REPLACE FUNCTION public.count_commission_change(commission commissions, more_cents bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if not commission.is_shadow then
    perform count_money(commission.program_id, commission.customer_id, commission.partner_id, commission.created_at, commission.currency, 0, 0,
      more_cents, of_code_id => commission.code_id);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_customers(of_program_id bigint, of_customer_id bigint, at timestamp with time zone, more_leads bigint, more_conversions bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, leads, conversions)
  select c.program_id, c.id, case when more_conversions <> 0 and c.code_id is not null then (
      select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = c.code_id
    ) else c.partner_id end, case when more_conversions <> 0 then c.code_id end, c.last_click_at, count_customers.at, more_leads, more_conversions
  from customers c
  where c.program_id = of_program_id and c.id = of_customer_id;
  perform add_customers(of_program_id, at, more_leads, more_conversions);
end $function$
;

CREATE OR REPLACE FUNCTION public.count_excluded_payments(of_program_id bigint)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select count(distinct coalesce(i.transaction_id, e.fact#>>'{sale,transaction_id}'))
  from programs p
  join processor_events e on e.awaits && names_of_excluded(p)
  left join processor_payments i on i.account_id = e.account_id and i.payment_id = e.fact#>>'{sale,transaction_id}'
  where p.id = of_program_id
$function$
;

CREATE OR REPLACE FUNCTION public.count_figures(max_rows integer, of_program_id bigint DEFAULT NULL::bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  taken uncounted_figures[];
begin
  with moved as (
    delete from uncounted_figures
    where ctid = any (array(
      select ctid from uncounted_figures where program_id = of_program_id or of_program_id is null limit max_rows for update skip locked
    ))
    returning uncounted_figures
  )
  select array_agg(m.uncounted_figures) into taken from moved m;
  if taken is null then
    return 0;
  end if;
  insert into customer_origins (program_id, customer_id, origin)
  select f.program_id, f.customer_id, origin_of_customer(c, f.clicked_at)
  from (select distinct on (program_id, customer_id) * from unnest(taken) order by program_id, customer_id, at, clicked_at) f
  join customers c on c.program_id = f.program_id and c.id = f.customer_id
  where not exists (select from customer_origins o where o.program_id = f.program_id and o.customer_id = f.customer_id)
  order by f.program_id, f.customer_id
  on conflict (program_id, customer_id) do nothing;
  perform add_grouped((
    select array_agg(row(f.program_id, v.grouping_name, m.metric, m.currency, utc_day(f.at), v.value, quarter_of_day(f.at), m.amount)::grouped_figure)
    from unnest(taken) f
    join customers c on c.program_id = f.program_id and c.id = f.customer_id
    join customer_origins o on o.program_id = f.program_id and o.customer_id = f.customer_id
    cross join lateral values_grouped_by(f.partner_id, referring_link(c, f.partner_id), f.code_id, o.origin) v
    cross join lateral figures_of(f) m
  ));
  return cardinality(taken);
end $function$
;

CREATE OR REPLACE FUNCTION public.count_immediate_mails(most integer)
 RETURNS void
 LANGUAGE sql
AS $function$
  with due as (
    select distinct m.user_id, m.topic, 'notifications to ' || mailbox_of(u.email) as counted
    from notification_mails m join users u on u.id = m.user_id
    where m.due_at <= now() and m.mail_id is null and m.frequency = 'at_once'
  ), placed as (
    select d.*, coalesce(c.mails, 0) + row_number() over (partition by d.counted order by d.user_id, d.topic) as place
    from due d left join mail_counts c on c.counted = d.counted and c.day = utc_day(now())
  ), counting as (
    insert into mail_counts as c (counted, day, mails)
    select p.counted, utc_day(now()), count(*) from placed p where p.place <= most group by p.counted
    on conflict (counted, day) do update set mails = c.mails + excluded.mails
  )
  update notification_mails m set frequency = 'daily', due_at = next_daily_mail()
  from placed p
  where p.place > most and m.user_id = p.user_id and m.topic = p.topic
    and m.due_at <= now() and m.mail_id is null and m.frequency = 'at_once'
$function$
;

CREATE OR REPLACE FUNCTION public.count_import_rows(of_program_id bigint, of_import_id bigint, outcomes_before import_outcome[], outcomes import_outcome[], new_rows integer, newly_applied integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update imports i set row_count = i.row_count + new_rows, applied_count = i.applied_count + newly_applied,
    create_count = i.create_count + rows_with('create', outcomes) - rows_with('create', outcomes_before),
    update_count = i.update_count + rows_with('update', outcomes) - rows_with('update', outcomes_before),
    skip_count = i.skip_count + rows_with('skip', outcomes) - rows_with('skip', outcomes_before),
    error_count = i.error_count + rows_with('error', outcomes) - rows_with('error', outcomes_before)
  where i.program_id = of_program_id and i.id = of_import_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_listed_clicks(of_program_id bigint, of_partner_id bigint, of_link_id bigint, of_country text, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(sum(c.clicks), 0)::bigint from (
    -- Only the first and the last day can be counted in part.
    select case
      when (from_time is null or day_start(t.day) >= from_time) and (until is null or day_start(t.day + 1) <= until) then t.sums[cardinality(t.sums)]
      else (
        select sum(s.clicks_so_far - coalesce(t.sums[s.place - 1], 0))
        from unnest(t.quarters, t.sums) with ordinality s (quarter, clicks_so_far, place)
        cross join lateral (select day_start(t.day) + s.quarter * interval '15 minutes' as at) q
        where (from_time is null or q.at >= from_time) and (until is null or q.at < until)
      ) end as clicks
    from grouped_quarters t
    where t.program_id = of_program_id and t.metric in ('clicks', 'bot_clicks') and t.currency = ''
      and t.grouping_name = case
        when of_link_id is not null then 'link' when of_partner_id is not null then 'partner' when of_country is not null then 'country' else 'all'
      end::grouping_name
      and t.value = coalesce(of_link_id::text, of_partner_id::text, left(of_country, 200), '')
      and t.day >= coalesce(greatest(utc_day(from_time), (select utc_day(k.since) from clicks_kept k)), '-infinity')
      and t.day <= coalesce(utc_day(until), 'infinity')
    union all
    select count(*) from uncounted_clicks u
    join affiliate_click_events e on e.program_id = u.program_id and e.click_timestamp = u.clicked_at and e.id = u.event_id
    cross join links_listed(of_program_id, of_partner_id, of_link_id) l (links)
    where u.program_id = of_program_id and (l.links is null or u.link_id = any (l.links)) and (of_country is null or e.geo_country = of_country)
      and (from_time is null or e.click_timestamp >= from_time) and (until is null or e.click_timestamp < until)
  ) c
$function$
;

CREATE OR REPLACE FUNCTION public.count_mail(of_workspace_id text, of_user_id text, to_recipient text, of_source text, of_network text, bounds jsonb)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  today date := utc_day(now());
  mailbox text := mailbox_of(to_recipient);
  counters jsonb;
  over text;
begin
  perform from workspaces w where w.id = of_workspace_id for no key update;
  perform from users u where u.id = of_user_id for no key update;
  if not has_verified_owner(of_workspace_id) then
    return 'unverified';
  end if;
  select jsonb_agg(jsonb_build_object('counted', c.counted, 'most', c.most, 'bound', c.bound) order by c.counted) into counters from (
    select 'workspace ' || of_workspace_id || ' to ' || mailbox, 'per_recipient', 'recipient'
    union all select 'workspace ' || of_workspace_id, 'per_workspace', 'workspace'
    union all select 'account ' || of_user_id || ' to ' || mailbox, 'per_recipient', 'recipient' where of_user_id is not null
    union all select 'account ' || of_user_id, 'per_workspace', 'workspace' where of_user_id is not null
    union all select 'applications to ' || mailbox, 'applications_per_recipient', 'recipient' where of_source is not null
    union all select of_source || ' of workspace ' || of_workspace_id, 'per_source', 'source' where of_source is not null
    union all select of_network || ' at workspace ' || of_workspace_id, 'per_network', 'network' where of_network is not null
  ) c (counted, most, bound)
  where bounds ? c.most;
  select c.bound into over from jsonb_to_recordset(counters) c (counted text, most text, bound text)
  join mail_counts m on m.counted = c.counted and m.day = today
  where m.mails >= (bounds ->> c.most)::integer
  order by c.bound limit 1;
  if over is not null then
    return over;
  end if;
  insert into mail_counts as m (counted, day, mails)
  select c.counted, today, 1 from jsonb_to_recordset(counters) c (counted text) order by c.counted
  on conflict (counted, day) do update set mails = m.mails + 1;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_money(of_program_id bigint, of_customer_id bigint, of_partner_id bigint, at timestamp with time zone, of_currency text, more_sales bigint, more_revenue_cents bigint, more_commission_cents bigint, more_refunded_cents bigint DEFAULT 0, more_conversions bigint DEFAULT 0, more_leads bigint DEFAULT 0, of_code_id bigint DEFAULT NULL::bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_day constant date := utc_day(at);
  of_slot constant smallint := counter_slot(at);
begin
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, currency, leads, conversions, sales,
    revenue_cents, commission_cents, refunded_cents)
  select c.program_id, c.id, of_partner_id, of_code_id, c.last_click_at, count_money.at, of_currency, more_leads, more_conversions, more_sales,
    more_revenue_cents, more_commission_cents, more_refunded_cents
  from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  update daily_money m set sales = m.sales + more_sales, revenue_cents = m.revenue_cents + more_revenue_cents,
    commission_cents = m.commission_cents + more_commission_cents, refunded_cents = m.refunded_cents + more_refunded_cents
  where m.program_id = of_program_id and m.day = of_day and m.currency = of_currency and m.slot = of_slot;
  if found then
    return;
  end if;
  insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents, refunded_cents)
  values (of_program_id, of_day, of_currency, of_slot, more_sales, more_revenue_cents, more_commission_cents, more_refunded_cents)
  on conflict on constraint daily_money_pkey do update set
    sales = counted.sales + excluded.sales,
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    commission_cents = counted.commission_cents + excluded.commission_cents,
    refunded_cents = counted.refunded_cents + excluded.refunded_cents;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_paid_sale(sale sales, times integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, times, times * sale.amount_cents, 0,
      times * sale.refunded_cents, of_code_id => sale.code_id);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_payee_mail(of_workspace_id text, to_recipient text, bounds jsonb)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  today date := utc_day(now());
  recipient text := 'payouts to ' || mailbox_of(to_recipient);
  workspace text := 'payouts of workspace ' || of_workspace_id;
  over text;
begin
  select case m.counted when recipient then 'recipient' else 'workspace' end into over from mail_counts m
  where m.day = today and (m.counted = recipient and m.mails >= (bounds ->> 'per_recipient')::integer
    or m.counted = workspace and m.mails >= (bounds ->> 'per_workspace')::integer)
  order by m.counted = workspace limit 1;
  if over is null then
    insert into mail_counts as m (counted, day, mails) select c.counted, today, 1 from unnest(array[workspace, recipient]) c (counted) order by 1
    on conflict (counted, day) do update set mails = m.mails + 1;
  end if;
  return over;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_public_test_event(of_program_id bigint, of_network bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  is_first_hundred constant boolean := of_network is not null and count_test_event(of_program_id, of_network, 100);
  is_first_thousand constant boolean := count_test_event(of_program_id, 0, 1000);
begin
  return is_first_hundred or is_first_thousand;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_refunded(sale sales, more_refunded_cents bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if sale.customer_id is not null and not sale.is_test and sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 0, 0, 0, more_refunded_cents,
      of_code_id => sale.code_id);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_rows(of_program_id bigint, from_time timestamp with time zone, to_time timestamp with time zone)
 RETURNS TABLE(currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint)
 LANGUAGE sql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
select null, count(*), 0, 0, 0, 0, 0, 0 from affiliate_click_events e
where e.program_id = of_program_id and not e.is_test and e.click_timestamp >= from_time and e.click_timestamp < to_time
  and e.device_type is distinct from 'bot'
union all
select null, 0, count(*), 0, 0, 0, 0, 0 from customers c
where c.program_id = of_program_id and c.signup_date >= from_time and c.signup_date < to_time
  and (c.imported_at is null or c.signup_date > c.imported_at)
union all
select null, 0, 0, count(*), 0, 0, 0, 0 from customers c
where c.program_id = of_program_id and c.first_purchase_date >= from_time and c.first_purchase_date < to_time
  and (c.imported_at is null or c.first_purchase_date > c.imported_at)
union all
select s.currency, 0, 0, 0, count(*), sum(s.amount_cents), 0, sum(s.refunded_cents) from sales s
where s.program_id = of_program_id and s.sale_date >= from_time and s.sale_date < to_time
  and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
group by s.currency
union all
select c.currency, 0, 0, 0, 0, 0, sum(c.amount_cents - c.reversed_cents), 0 from commissions c
where c.program_id = of_program_id and c.created_at >= from_time and c.created_at < to_time and not c.is_shadow
group by c.currency
$function$
;

CREATE OR REPLACE FUNCTION public.count_sale(sale sales, commission_cents bigint, converts boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  is_paid boolean := sale.payment_status = 'paid';
  is_of_this_hour boolean := date_trunc('hour', sale.sale_date, 'UTC') = date_trunc('hour', now(), 'UTC');
begin
  if converts and not is_paid then
    perform count_customers(sale.program_id, sale.customer_id, sale.sale_date, 0, 1);
  elsif converts then
    perform add_customers(sale.program_id, sale.sale_date, 0, 1);
  end if;
  if is_paid then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 1, sale.amount_cents,
      case when is_of_this_hour then commission_cents else 0 end, sale.refunded_cents, more_conversions => converts::integer,
      of_code_id => sale.code_id);
  end if;
  if commission_cents > 0 and not (is_paid and is_of_this_hour) then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, now(), sale.currency, 0, 0, commission_cents,
      of_code_id => sale.code_id);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_test_event(of_program_id bigint, of_network bigint, most integer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  insert into public_test_events as counted (program_id, network, day, events) values (of_program_id, of_network, utc_day(now()), 1)
  on conflict (program_id, network) do update set
    day = excluded.day,
    events = case when counted.day = excluded.day then counted.events + 1 else 1 end
  where counted.day <> excluded.day or counted.events < most;
  return found;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_workspace_bytes(counter text, of_workspace_id text, bytes integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  megabytes numeric;
begin
  insert into sign_in_attempts as a (key, attempts)
  select counter || ' of workspace ' || of_workspace_id, bytes where of_workspace_id is not null
  on conflict (key) do update set
    attempts = excluded.attempts + case when a.window_started_at > now() - interval '1 day' then a.attempts else 0 end,
    window_started_at = case when a.window_started_at > now() - interval '1 day' then a.window_started_at else now() end
  returning a.attempts / 1024.0 / 1024 into megabytes;
  if megabytes > 2 and megabytes > (case when has_verified_owner(of_workspace_id) then 100 else 2 end) then
    raise exception 'too many bytes' using errcode = 'check_violation', constraint = 'workspace_bytes';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.count_written_bytes(hash bytea, bytes integer)
 RETURNS void
 LANGUAGE sql
AS $function$
  select count_workspace_bytes('bytes', (select p.workspace_id from api_keys k join programs p on p.id = k.program_id where k.key_hash = hash), bytes)
$function$
;

CREATE OR REPLACE FUNCTION public.counted_partner_figures(of_program_id bigint, of_partner_id bigint, of_link_id bigint, from_time timestamp with time zone, until timestamp with time zone, of_currency text)
 RETURNS TABLE(name text, value text, clicks bigint, leads bigint, sales bigint, commission_cents bigint)
 LANGUAGE sql
 STABLE
AS $function$
  with amount as materialized (
    select a.value, a.metric, a.amount
    from amounts_of_values(of_program_id, '{link}', array(
        select k.id::text from referral_links k
        where k.program_id = of_program_id and k.partner_id = of_partner_id and (of_link_id is null or k.id = of_link_id)
      ), '{clicks,leads,sales,commission}', of_currency, true, array[from_time], until, null) a
  )
  select l.name, l.value, total(l.amount) filter (where l.metric = 'clicks'), total(l.amount) filter (where l.metric = 'leads'),
    total(l.amount) filter (where l.metric = 'sales'), total(l.amount) filter (where l.metric = 'commission')
  from (
    select 'link' as name, a.value, a.metric, a.amount from amount a
    union all
    select 'all', null, a.metric, a.amount from amount a
  ) l
  group by 1, 2
$function$
;

CREATE OR REPLACE FUNCTION public.counter_slot(at timestamp with time zone)
 RETURNS smallint
 LANGUAGE sql
 STABLE
AS $function$ select (64 * hour_of_day(at) + 1 + pg_backend_pid() % 63)::smallint $function$
;

CREATE OR REPLACE FUNCTION public.create_adjustment(of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint, of_note text, of_transaction_id text, of_external_id text, request uuid, OUT outcome text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  partner partners;
  of_sale_id bigint;
  adjustment adjustments;
begin
  select r.* into partner from partners r where r.program_id = of_program_id and r.id = of_partner_id for key share;
  if not found or partner.closed_at is not null then
    outcome := case when found then 'closed' else 'no_partner' end;
    return;
  end if;
  if of_transaction_id is not null then
    select s.id into of_sale_id from sales s
    where s.program_id = of_program_id and not s.is_test and s.transaction_id = of_transaction_id;
    if not found then
      outcome := 'no_sale';
      return;
    end if;
  end if;
  insert into adjustments (program_id, partner_id, currency, amount_cents, note, sale_id, external_id, request_id)
  select p.id, of_partner_id, coalesce(of_currency, p.currency), of_cents, of_note, of_sale_id, of_external_id, request
  from programs p where p.id = of_program_id
  on conflict on constraint adjustments_request_key do nothing
  returning * into adjustment;
  if not found then
    outcome := 'known';
    return;
  end if;
  outcome := 'created';
  insert into balances (program_id, partner_id, currency) values (of_program_id, of_partner_id, adjustment.currency) on conflict do nothing;
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = adjustment.currency for no key update;
  perform post_adjustment(adjustment, of_transaction_id);
end $function$
;

CREATE OR REPLACE FUNCTION public.create_code(of_program_id bigint, of_partner_id bigint, new_code text, of_promotion_code_id text, of_account_id text, OUT code_id bigint, OUT refusal text, OUT held_by text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  held record;
begin
  -- Waits for a concurrent end or erasure of the partner.
  perform from partners r where r.program_id = of_program_id and r.id = of_partner_id and r.closed_at is null for key share;
  if not found then
    refusal := 'no_partner';
    return;
  end if;
  insert into partner_codes (program_id, partner_id, code, promotion_code_id, account_id)
  values (of_program_id, of_partner_id, new_code, of_promotion_code_id, case when of_promotion_code_id is not null then of_account_id end)
  on conflict do nothing returning id into code_id;
  if code_id is not null then
    return;
  end if;
  select k.*, r.name into held from partner_codes k join partners r on r.program_id = k.program_id and r.id = k.partner_id
  where k.program_id = of_program_id and lower(normalize(k.code)) = lower(normalize(new_code)) for no key update of k;
  if held.id is null then
    refusal := 'promotion_code_taken';
  elsif held.partner_id <> of_partner_id then
    refusal := case when held.revoked_at is null then 'taken' else 'revoked' end;
    held_by := held.name;
  elsif exists (
    select from partner_codes k where k.account_id = of_account_id and k.promotion_code_id = of_promotion_code_id and (k.program_id, k.id) <> (of_program_id, held.id)
  ) then
    refusal := 'promotion_code_taken';
  else
    code_id := held.id;
    update partner_codes k set revoked_at = null, disabled_at_processor_at = null, promotion_code_id = coalesce(of_promotion_code_id, k.promotion_code_id),
      account_id = case when of_promotion_code_id is null then k.account_id else of_account_id end
    where k.program_id = of_program_id and k.id = held.id;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.create_commission(of_program_id bigint, of_kind text, of_partner_id bigint, of_customer_id bigint, of_currency text, of_cents bigint, of_sale_id bigint DEFAULT NULL::bigint, of_code_id bigint DEFAULT NULL::bigint, of_lead_rule_id bigint DEFAULT NULL::bigint, of_review_reason text DEFAULT NULL::text, of_time timestamp with time zone DEFAULT now(), of_date timestamp with time zone DEFAULT now())
 RETURNS commissions
 LANGUAGE plpgsql
AS $function$
declare
  commission commissions;
begin
  insert into commissions (program_id, kind, partner_id, customer_id, sale_id, code_id, currency, amount_cents, review_reason, lead_rule_id,
    hold_until, is_shadow)
  select p.id, of_kind, of_partner_id, of_customer_id, of_sale_id, of_code_id, of_currency, of_cents, of_review_reason, of_lead_rule_id,
    now() + make_interval(hours => 24 * p.hold_days), was_in_shadow_mode(p, of_time) or was_in_shadow_mode(p, of_date)
  from programs p where p.id = of_program_id
  returning * into commission;
  return commission;
end $function$
;

CREATE OR REPLACE FUNCTION public.create_payout_batches(of_program_id bigint, of_run_id bigint, of_connection_id text, currencies text[], most integer, confirmed_cents bigint, OUT run_id bigint, OUT sum_cents bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  of_provider text;
  part record;
  batch_id bigint;
begin
  select r.id into run_id from payout_runs r where r.program_id = of_program_id and r.id = of_run_id for no key update;
  select c.provider into of_provider from payout_connections c
  where c.program_id = of_program_id and c.id = of_connection_id and c.keys is not null for key share;
  if of_provider is null then
    run_id := null;
  end if;
  perform lock_payout_balances(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = run_id and w.status = 'in_run'
  ));
  select coalesce(sum(p.amount_cents), 0) into sum_cents from payments_for_provider(of_program_id, run_id, of_provider, currencies) p;
  if run_id is null or sum_cents <> confirmed_cents then
    return;
  end if;
  for part in
    select p.currency, array_agg(p.payout_id) as ids, sum(p.amount_cents)::bigint as amount_cents from (
      select p.*, (row_number() over (partition by p.currency order by p.payout_id) - 1) / most as number
      from payments_for_provider(of_program_id, run_id, of_provider, currencies) p
    ) p
    group by p.currency, p.number order by p.currency, p.number
  loop
    insert into payout_batches (program_id, payout_run_id, connection_id, currency)
    values (of_program_id, run_id, of_connection_id, part.currency) returning id into batch_id;
    insert into payout_items (program_id, payout_id, batch_id, recipient)
    select of_program_id, p.payout_id, batch_id, p.recipient from payments_for_provider(of_program_id, run_id, of_provider, currencies) p
    where p.payout_id = any (part.ids) order by p.payout_id;
    update payouts w set status = 'sent', sent_at = now() where w.program_id = of_program_id and w.id = any (part.ids);
    perform write_program_audit(of_program_id, 'payout_run.sent', run_id::text, jsonb_build_object('provider', of_provider,
      'payments', cardinality(part.ids), 'amount_cents', part.amount_cents, 'currency', part.currency));
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.create_payout_run(of_program_id bigint, request uuid)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  run_id bigint;
  locked_partner_ids bigint[];
  locked_currencies text[];
  payout_count integer;
begin
  select array_agg(l.partner_id), array_agg(l.currency) into locked_partner_ids, locked_currencies
  from (
    select b.partner_id, b.currency from balances b where b.program_id = of_program_id and b.balance_cents > 0
    order by b.partner_id, b.currency for no key update
  ) l;
  select r.id into run_id from payout_runs r where r.program_id = of_program_id and r.request_id = request;
  if run_id is null then
    perform ask_for_missing(of_program_id, 'no_tax_form');
  end if;
  if run_id is not null or not exists (
    select from payouts_due d join unnest(locked_partner_ids, locked_currencies) l (partner_id, currency) using (partner_id, currency)
    where d.program_id = of_program_id and d.exclusion_reason is null
  ) then
    return run_id;
  end if;
  insert into payout_runs (program_id, request_id) values (of_program_id, request) returning id into run_id;
  insert into payout_run_exclusions (program_id, payout_run_id, partner_id, currency, payable_cents, reason)
  select d.program_id, run_id, d.partner_id, d.currency, d.payable_cents, d.exclusion_reason from payouts_due d
  where d.program_id = of_program_id and d.exclusion_reason is not null;
  insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, status, payout_run_id, payout_address)
  select d.program_id, d.partner_id, d.currency, d.payable_cents, d.payable_cents, 'in_run', run_id, d.payout_address
  from payouts_due d join unnest(locked_partner_ids, locked_currencies) l (partner_id, currency) using (partner_id, currency)
  where d.program_id = of_program_id and d.exclusion_reason is null
  order by d.partner_id, d.currency;
  get diagnostics payout_count = row_count;
  update payout_runs r set payments = payout_count where r.program_id = of_program_id and r.id = run_id;
  return run_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.credit_commissions(program_ids bigint[], commission_ids bigint[], compares boolean DEFAULT false)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  due commissions[];
  commission commissions;
  left_cents bigint;
begin
  -- A program that enters shadow mode waits for this transaction, or this transaction sees that the program has entered it.
  perform from programs p where p.id = any (program_ids) order by p.id for key share;
  -- Every commission is checked before it is credited.
  perform flag_commissions(program_ids, commission_ids);
  select coalesce(array_agg(locked.c), '{}') into due
  from (
    select c from commissions c
    where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids))
      and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
      and not c.is_shadow and not in_shadow_mode(c.program_id)
    order by c.program_id, c.id
    for no key update of c
  ) locked
  where not (compares and awaits_comparison(locked.c));
  insert into balances (program_id, partner_id, currency)
  select distinct c.program_id, c.partner_id, c.currency from unnest(due) c order by 1, 2, 3
  on conflict do nothing;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (select c.program_id, c.partner_id, c.currency from unnest(due) c)
  order by b.program_id, b.partner_id, b.currency
  for no key update;
  update commissions c set credited_at = now()
  from unnest(due) credited where c.program_id = credited.program_id and c.id = credited.id;
  foreach commission in array due loop
    left_cents := commission.amount_cents - commission.reversed_cents;
    perform post_entry(commission.program_id, commission.partner_id, commission.currency, left_cents, 'commission_credited', commission.id);
    if wants_webhook(commission.program_id, 'commission.approved') then
      perform write_webhook(commission.program_id, 'commission.approved', webhook_commission(commission, (
        select s.transaction_id from sales s where s.program_id = commission.program_id and s.id = commission.sale_id
      )) || jsonb_build_object('approved_cents', left_cents));
    end if;
    if wants_webhook(commission.program_id, 'commission_approved') then
      perform write_commission_postback('commission_approved', commission, left_cents, null);
    end if;
    -- The audit log records approvals by people and keys, not the end of a hold.
    if acting_user() is not null or acting_key() is not null or commission.hold_until > now() then
      perform write_program_audit(commission.program_id, 'commission.approved', commission.id::text, null);
    end if;
  end loop;
  return cardinality(due);
end $function$
;

CREATE OR REPLACE FUNCTION public.credit_document(payout payouts, of_payment_number integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  invoice documents;
  of_number bigint;
begin
  select d.* into invoice from documents d
  where d.program_id = payout.program_id and d.payout_id = payout.id and d.payment_number = of_payment_number and d.kind = 'invoice'
    and d.voided_at is null;
  if not found then
    return;
  end if;
  of_number := next_document_number(invoice.program_id, invoice.series);
  insert into documents (program_id, series, number, kind, payout_id, payment_number, partner_id, currency, amount_cents, paid_on, reference,
    terms_version, issuer, payee, lines, is_reverse_charge, vat_bp, corrects_id)
  select d.program_id, d.series, of_number, 'credit_note', d.payout_id, d.payment_number, d.partner_id, d.currency, d.amount_cents, d.paid_on,
    d.reference, d.terms_version, d.issuer, d.payee, d.lines, d.is_reverse_charge, d.vat_bp, d.id
  from documents d where d.program_id = invoice.program_id and d.id = invoice.id;
end $function$
;

CREATE OR REPLACE FUNCTION public.day_begins(day timestamp without time zone, zone text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
  select case when (b.begins - interval '1 hour') at time zone zone = day then b.begins - interval '1 hour' else b.begins end
  from (select day at time zone zone as begins) b
$function$
;

CREATE OR REPLACE FUNCTION public.day_start(day date)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
AS $function$ select day::timestamp at time zone 'UTC' $function$
;

CREATE OR REPLACE FUNCTION public.days_of_intervals(starts timestamp with time zone[], until timestamp with time zone)
 RETURNS TABLE(n integer, day date, before smallint, last smallint)
 LANGUAGE sql
 IMMUTABLE ROWS 100
AS $function$
  select i.n::integer, d.day, (greatest(extract(epoch from i.starts - d.begins), 0) / 900)::smallint - 1::smallint,
    (least(extract(epoch from i.ends - d.begins), 86400) / 900)::smallint - 1::smallint
  from (
    select n, s.starts, lead(s.starts, 1, days_of_intervals.until) over (order by n) as ends
    from unnest(days_of_intervals.starts) with ordinality s (starts, n)
  ) i
  cross join lateral (
    select utc_day(i.starts) + d as day, day_start(utc_day(i.starts) + d) as begins
    from generate_series(0, utc_day(i.ends - interval '1 second') - utc_day(i.starts)) d
  ) d
$function$
;

CREATE OR REPLACE FUNCTION public.days_read(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, OUT read_from timestamp with time zone, OUT days date[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  listed constant bigint := (select count(*) from jsonb_each_text(filters) f where f.value is not null);
begin
  with whole as (
    select t.starts as day, sum(t.leads + t.conversions + 2 * t.sales) as rows from grouped_totals t
    where t.program_id = of_program_id and t.grouping_name = 'all' and t.span = 'day'
      and t.starts between utc_day(from_time) and utc_day(until - interval '1 millisecond') group by t.starts
    union all
    select utc_day(u.at), 0 from uncounted_figures u where u.program_id = of_program_id and u.at >= from_time and u.at < until
  ),
  placed as (
    select w.day, sum(sum(w.rows)) over (order by w.day desc) as read
    from whole w
    where w.rows = 0 or listed = (
      select count(distinct f.key) from jsonb_each_text(filters) f
      join grouped_totals t on t.program_id = of_program_id and t.grouping_name = f.key::grouping_name and t.span = 'day' and t.starts = w.day
        and t.value = any (array[f.value, ''])
      where f.value is not null and (t.leads <> 0 or t.conversions <> 0 or t.sales <> 0 or t.revenue_cents <> 0 or t.commission_cents <> 0)
    )
    group by w.day
  ),
  kept as (select p.day from placed p where p.read <= greatest(max_rows_read(filters) / 2, (select min(first.read) from placed first)))
  select coalesce(array_agg(k.day), '{}'),
    greatest(from_time, case when exists (select from placed p where p.day < (select min(k.day) from kept k)) then day_start(min(k.day)) end)
  into days, read_from
  from kept k;
end $function$
;

CREATE OR REPLACE FUNCTION public.deactivate_partners(of_program_id bigint, partner_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  active_ids bigint[] := array(
    select r.id from partners r
    where r.program_id = of_program_id and r.id = any (partner_ids) and r.is_active and r.ended_at is null
    order by r.id for no key update
  );
begin
  perform note_job_row(of_program_id, active.id, jsonb_build_object('link_ids', array(
    select l.id from referral_links l where l.program_id = of_program_id and l.partner_id = active.id and l.is_active
  ))) from unnest(active_ids) active(id);
  update partners r set is_active = false where r.program_id = of_program_id and r.id = any (active_ids);
  update referral_links l set is_active = false where l.program_id = of_program_id and l.partner_id = any (active_ids);
  return cardinality(active_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.decide_by_code(given sales, customer customers, first_code_id bigint, INOUT resolution jsonb, OUT code_id bigint, OUT partner_id bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  code partner_codes;
  priority text;
begin
  partner_id := customer.partner_id;
  if given.code_id is null and first_code_id is not null then
    resolution := with_step(resolution, 'code_of_first_purchase', 'found');
  end if;
  select k.* into code from partner_codes k where k.program_id = given.program_id and k.id = coalesce(given.code_id, first_code_id);
  select p.attribution_priority into priority from programs p where p.id = given.program_id;
  if code.id is null or code.partner_id = customer.partner_id then
    code_id := code.id;
  elsif customer.link_id is not null and priority = 'click' then
    resolution := with_step(resolution, 'code_or_click', 'click');
  else
    code_id := code.id;
    partner_id := code.partner_id;
    resolution := with_step(resolution, 'code_or_click', case when customer.link_id is null then 'named_code' else 'code' end);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.decide_reviews(of_program_id bigint, commission_ids bigint[], of_decision text, because text, OUT decided integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  held_ids bigint[];
begin
  held_ids := array(
    select c.id from commissions c
    where c.program_id = of_program_id and c.id = any (commission_ids) and c.held_at is not null and c.reversal <> 'full'
    order by c.id for no key update
  );
  decided := cardinality(held_ids);
  if of_decision = 'rejected' then
    perform reject_commissions(of_program_id, held_ids, because);
  else
    perform close_review(of_program_id, id, 'released', because) from unnest(held_ids) id;
    perform write_program_audit(of_program_id, 'commission.released', id::text, null) from unnest(held_ids) id;
    if wants_webhook(of_program_id, 'commission.released') then
      perform write_webhook(c.program_id, 'commission.released', webhook_commission(c, s.transaction_id)
        || jsonb_build_object('hold_until', webhook_time(c.hold_until)))
      from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
      where c.program_id = of_program_id and c.id = any (held_ids);
    end if;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.decided(planned import_rows, as_outcome import_outcome, because text, found_id bigint DEFAULT NULL::bigint)
 RETURNS import_rows
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  planned.outcome := as_outcome;
  planned.reason := because;
  planned.target_id := found_id;
  return planned;
end $function$
;

CREATE OR REPLACE FUNCTION public.deduct_fee(of_sale sales, fee_cents bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  given sales;
  untaxed bigint;
begin
  select s.* into strict given from sales s where s.program_id = of_sale.program_id and s.id = of_sale.id;
  if given.processor_fee_cents is null then
    return;
  end if;
  untaxed := given.commission_base_cents + given.processor_fee_cents;
  given.processor_fee_cents := least(fee_cents, untaxed);
  given.commission_base_cents := untaxed - given.processor_fee_cents;
  perform record_sale(given, true);
end $function$
;

CREATE OR REPLACE FUNCTION public.delete_application(of_program_id bigint, of_application_id bigint, OUT status_was text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  select a.status into status_was from applications a where a.program_id = of_program_id and a.id = of_application_id for update;
  if status_was in ('unverified', 'rejected') then
    delete from applications a where a.program_id = of_program_id and a.id = of_application_id;
    delete from idempotency_keys k
    where k.program_id = of_program_id and k.answer ? 'applied_at' and (k.answer ->> 'id')::bigint = of_application_id;
    perform write_program_audit(of_program_id, 'application.deleted', of_application_id::text, null);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.delete_expired_customers(max_clicks integer, of_program_id bigint DEFAULT NULL::bigint, OUT deleted bigint, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET enable_seqscan TO 'off'
AS $function$
declare
  clicks_left bigint := max_clicks;
  program record;
  to_time timestamptz;
  ids bigint[];
  clicks_read bigint;
  deleted_now bigint;
begin
  deleted := 0;
  for program in
    select p.id, p.from_time, p.expired from (
      select p.id, coalesce(x.up_to, '-infinity') as from_time,
        date_trunc('day', window_start(now(), p.cookie_window_days), 'UTC') as expired
      from programs p left join customers_expired x on x.program_id = p.id
      where p.id = of_program_id or of_program_id is null
    ) p
    where p.from_time < p.expired
    order by p.id
  loop
    more := clicks_left <= 0;
    exit when more;
    to_time := coalesce((
      select e.click_timestamp from affiliate_click_events e
      where e.program_id = program.id and not e.is_test and e.click_timestamp > program.from_time and e.click_timestamp <= program.expired
      order by e.click_timestamp offset clicks_left - 1 limit 1
    ), program.expired);
    select array_agg(distinct e.customer_id), count(*) into ids, clicks_read from affiliate_click_events e
    where e.program_id = program.id and not e.is_test and e.click_timestamp > program.from_time and e.click_timestamp <= to_time;
    ids := array(
      select v.id from click_only_customers v where v.program_id = program.id and v.id = any (ids) and v.last_click_at <= to_time limit max_clicks
    );
    -- Waits for concurrent clicks, leads and sales of these customers, which then stay.
    perform from customers c where c.program_id = program.id and c.id = any (ids) order by c.id for update;
    delete from customers c where c.program_id = program.id and c.id = any (array(
      select v.id from click_only_customers v where v.program_id = program.id and v.id = any (ids) and v.last_click_at <= to_time
    ));
    get diagnostics deleted_now = row_count;
    deleted := deleted + deleted_now;
    clicks_left := clicks_left - clicks_read;
    more := cardinality(ids) >= max_clicks;
    exit when more;
    insert into customers_expired as x (program_id, up_to) values (program.id, to_time)
    on conflict (program_id) do update set up_to = greatest(x.up_to, excluded.up_to);
    more := to_time < program.expired;
    exit when more;
    delete from affiliate_lead_events e
    where e.program_id = program.id and e.is_test and e.lead_timestamp < (select k.since from clicks_kept k);
  end loop;
  more := coalesce(more, false);
end $function$
;

CREATE OR REPLACE FUNCTION public.delete_old_notifications(max_rows integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  program_ids bigint[];
  ids bigint[];
begin
  select array_agg(o.program_id), array_agg(o.id) into program_ids, ids from (
    select program_id, id from outbox where created_at < notifications_begin() and delivered_at is not null
    order by program_id, id limit max_rows for update
  ) o;
  delete from notification_reads r using unnest(program_ids, ids) old (program_id, id)
  where r.program_id = old.program_id and r.notification_id = old.id;
  delete from notification_mails m using unnest(program_ids, ids) old (program_id, id)
  where m.program_id = old.program_id and m.notification_id = old.id;
  delete from payee_mails m using unnest(program_ids, ids) old (program_id, id)
  where m.program_id = old.program_id and m.notification_id = old.id;
  delete from notifications n using unnest(program_ids, ids) old (program_id, id) where n.program_id = old.program_id and n.id = old.id;
  delete from outbox o using unnest(program_ids, ids) old (program_id, id) where o.program_id = old.program_id and o.id = old.id;
  return coalesce(cardinality(ids), 0);
end $function$
;

CREATE OR REPLACE FUNCTION public.derive_from_archive(of_program_id bigint, of_import_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into affiliate_lead_events (program_id, lead_timestamp, id, customer_id, customer_key, provisional)
  select c.program_id, l.at, l.id, c.id, case when not l.provisional then c.customer_key end, l.provisional from customers c
  cross join lateral (values (c.signup_date, c.lead_event_id, false), (c.provisional_lead_at, c.provisional_lead_event_id, true)) l (at, id, provisional)
  where c.program_id = of_program_id and l.id is not null and (l.provisional or c.imported_at is null or l.at > c.imported_at);
  insert into customer_origins (program_id, customer_id, origin)
  select r.program_id, r.new_id, r.fields->'origin' from archive_rows r
  where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'customers' and jsonb_typeof(r.fields->'origin') = 'object';
  insert into customers_expired as e (program_id, up_to)
  select r.program_id, (r.fields->>'clicks_expired_until')::timestamptz from archive_rows r
  where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'program' and r.fields->>'clicks_expired_until' is not null
  on conflict (program_id) do update set up_to = greatest(e.up_to, excluded.up_to);
  insert into uncounted_clicks (program_id, link_id, clicked_at, event_id, is_bot)
  select e.program_id, e.link_id, e.click_timestamp, e.id, e.device_type is not distinct from 'bot' from affiliate_click_events e
  where e.program_id = of_program_id and not e.is_test and e.link_id is not null;
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, leads, conversions)
  select c.program_id, c.id, coalesce(k.partner_id, c.partner_id), f.code_id, c.last_click_at, f.at, f.leads, f.conversions from customers c
  cross join lateral (values (c.signup_date, 1, 0, null), (c.first_purchase_date, 0, 1, c.code_id)) f (at, leads, conversions, code_id)
  left join partner_codes k on k.program_id = c.program_id and k.id = f.code_id
  where c.program_id = of_program_id and f.at is not null and (c.imported_at is null or f.at > c.imported_at);
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, currency, sales, revenue_cents, commission_cents,
    refunded_cents)
  select of_program_id, m.customer_id, m.partner_id, m.code_id, c.last_click_at, m.at, m.currency, m.sales, m.revenue, m.commission, m.refunded
  from (
    select s.customer_id, s.partner_id, s.code_id, s.sale_date as at, s.currency, 1 as sales, s.amount_cents as revenue, 0 as commission,
      s.refunded_cents as refunded
    from sales s where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
    union all
    select m.customer_id, m.partner_id, m.code_id, m.created_at, m.currency, 0, 0, m.amount_cents - m.reversed_cents, 0
    from commissions m where m.program_id = of_program_id and not m.is_shadow
  ) m
  join customers c on c.program_id = of_program_id and c.id = m.customer_id;
  insert into daily_totals (program_id, day, slot, leads, conversions)
  select f.program_id, utc_day(f.at), 64 * hour_of_day(f.at) + 1, sum(f.leads), sum(f.conversions)
  from uncounted_figures f where f.program_id = of_program_id and f.currency is null group by 1, 2, 3;
  insert into daily_money (program_id, day, currency, slot, sales, revenue_cents, commission_cents, refunded_cents)
  select f.program_id, utc_day(f.at), f.currency, 64 * hour_of_day(f.at) + 1, sum(f.sales), sum(f.revenue_cents), sum(f.commission_cents),
    sum(f.refunded_cents)
  from uncounted_figures f where f.program_id = of_program_id and f.currency is not null group by 1, 2, 3, 4;
end $function$
;

CREATE OR REPLACE FUNCTION public.details_of(commission commissions, of_transaction_id text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('commission_id', (commission).id, 'transaction_id', of_transaction_id, 'currency', (commission).currency, 'reason', (commission).reason)
;

CREATE OR REPLACE FUNCTION public.difference_reasons(former_partner_id bigint, former_currency text, former_sale_cents bigint, former_cents bigint, former_pays_cents bigint, partner_id bigint, currency text, state text, base_cents bigint, cents bigint, pays_cents bigint)
 RETURNS text[]
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  reasons text[];
  is_comparable constant boolean := former_currency = currency and cents > 0 and base_cents > 0 and former_cents <> cents;
begin
  if state is null or former_cents is null then
    return array[case when state is null then 'only_there' else 'only_here' end];
  end if;
  reasons := array_remove(array[
    case when state <> all ('{earned,refunded}') then state end,
    case when former_partner_id <> partner_id then 'other_partner' end,
    case when former_currency <> currency then 'other_currency' end,
    case when state = 'refunded' and former_pays_cents > pays_cents then 'refunded' end,
    case when former_pays_cents = 0 and former_cents > 0 and pays_cents > 0 then 'rejected_there' end,
    case when is_comparable and former_sale_cents <> base_cents then 'other_base' end,
    -- Services can round differently.
    case when is_comparable and abs(former_cents - former_sale_cents::numeric * cents / base_cents) > 1 then 'other_rate' end
  ], null);
  return case when reasons <> '{}' then reasons when abs(former_pays_cents - pays_cents) <= 1 then array['rounding'] else array['other_amount'] end;
end $function$
;

CREATE OR REPLACE FUNCTION public.disable_webhooks(endpoint webhook_endpoints)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update webhook_endpoints e set disabled_at = now(), disabled_because = 'failures'
  where e.program_id = endpoint.program_id and e.id = endpoint.id;
  update webhook_deliveries d set status = 'failed', next_attempt_at = null, claimed_until = null, finished_at = now()
  where d.program_id = endpoint.program_id and d.endpoint_id = endpoint.id and d.status = 'pending';
  perform write_outbox(endpoint.program_id, case when endpoint.partner_id is null then 'webhook_disabled' else 'postback_disabled' end,
    case when endpoint.partner_id is null then 'advertiser' else 'partner' end, endpoint.partner_id,
    format('webhook:%s:%s', endpoint.id, extract(epoch from endpoint.failing_since)),
    jsonb_build_object('endpoint_id', endpoint.id, 'url', endpoint.url));
end $function$
;

CREATE OR REPLACE FUNCTION public.document_lines(payout payouts, of_payment_number integer)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN (SELECT CASE WHEN (count(*) <= 100) THEN jsonb_agg(jsonb_strip_nulls(jsonb_build_object('cause', l.cause, 'commission_id', l.commission_id, 'adjustment_id', l.adjustment_id, 'posted_on', ((l.posted_at AT TIME ZONE 'UTC'::text))::date, 'amount_cents', l.amount_cents)) ORDER BY l.entry_number) ELSE jsonb_build_array(jsonb_build_object('cause', 'entries', 'entries', count(*), 'amount_cents', sum(l.amount_cents))) END AS jsonb_build_array FROM payout_line_entries l WHERE ((l.program_id = (document_lines.payout).program_id) AND (l.payout_id = (document_lines.payout).id) AND (l.payment_number = document_lines.of_payment_number)))
;

CREATE OR REPLACE FUNCTION public.domains_of(host text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT array_to_string((string_to_array(domains_of.host, '.'::text))[n.n:], '.'::text) AS array_to_string FROM generate_subscripts(string_to_array(domains_of.host, '.'::text), 1) n(n))
;

CREATE OR REPLACE FUNCTION public.drop_click_month(months_kept integer)
 RETURNS text
 LANGUAGE plpgsql
 SET lock_timeout TO '1s'
AS $function$
declare
  oldest text;
  ends timestamptz;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  select d.oldest, d.ends into oldest, ends from click_month_due(months_kept, '0') d;
  if oldest is null then
    return null;
  end if;
  with gone as (
    delete from link_months m where m.month > '-infinity' and m.month < utc_day(ends) returning m.*
  )
  insert into link_months as kept (program_id, link_id, month, clicks, last_clicked_at)
  select g.program_id, g.link_id, '-infinity', sum(g.clicks), max(g.last_clicked_at) from gone g group by 1, 2 order by 1, 2
  on conflict (program_id, link_id, month) do update set clicks = kept.clicks + excluded.clicks,
    last_clicked_at = greatest(kept.last_clicked_at, excluded.last_clicked_at);
  insert into clicks_kept (since) values (ends) on conflict (is_only) do update set since = excluded.since;
  delete from click_parts p where p.month < utc_day(ends);
  delete from rewritten_months m where m.month < utc_day(ends);
  execute format('drop table if exists rewriting.%I', oldest);
  execute format('drop table %I', oldest);
  return oldest;
end $function$
;

CREATE OR REPLACE FUNCTION public.earlier_commissions(sale sales)
 RETURNS bigint
 LANGUAGE sql
 STABLE
RETURN COALESCE((SELECT (sum((c.amount_cents)::bigint))::bigint AS sum FROM (sales s JOIN commissions c ON (((c.program_id = s.program_id) AND (c.sale_id = s.id)))) WHERE ((s.program_id = (earlier_commissions.sale).program_id) AND (s.customer_id = (earlier_commissions.sale).customer_id) AND (NOT s.is_test) AND ((s.currency)::text = ((earlier_commissions.sale).currency)::text) AND (ROW(s.sale_date, s.id) < ROW((earlier_commissions.sale).sale_date, (earlier_commissions.sale).id)))), (0)::bigint)
;

CREATE OR REPLACE FUNCTION public.earlier_payments(payout payouts)
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (SELECT NULLIF(count(*), 0) AS "nullif" FROM balance_entries e WHERE ((e.program_id = (earlier_payments.payout).program_id) AND (e.partner_id = (earlier_payments.payout).partner_id) AND ((e.currency)::text = ((earlier_payments.payout).currency)::text) AND (e.payout_id = (earlier_payments.payout).id) AND (e.cause = 'payout_paid'::text)))
;

CREATE OR REPLACE FUNCTION public.earned_by(sale sales, first_purchase_date timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if sale.terms_by_line is null then
    return commission_of(sale.commission_base_cents, sale.commission_bp, sale.commission_fixed_cents, sale.commission_months, sale.sale_date,
      first_purchase_date, left_under_cap(sale));
  end if;
  return (
    select sum(l.commission_cents)
    from commissions_of_lines(sale.commission_base_cents, sale.terms_by_line, sale.sale_date, first_purchase_date, earlier_commissions(sale)) l
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.end_block(of_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  block blocks;
begin
  update blocks b set ends_at = now() where b.id = of_id and b.ends_at > now() returning b.* into block;
  if not found then
    return false;
  end if;
  perform write_program_audit(block.program_id, 'program.unblocked', block.reason, null);
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.end_payout(payout payouts, as_status text, because text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if payout.status is null or payout.status not in ('sent', 'unclaimed', 'paid') then
    return;
  end if;
  if payout.status = 'paid' then
    perform post_returned_payout(payout);
  end if;
  update payouts w set status = as_status, reason = because, decided_at = now()
  where w.program_id = payout.program_id and w.id = payout.id
  returning w.* into payout;
  perform notify_payout('payout_returned', payout);
end $function$
;

CREATE OR REPLACE FUNCTION public.end_postbacks()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update webhook_endpoints e set deleted_at = now()
  where e.program_id = new.program_id and e.partner_id = new.id and e.deleted_at is null;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.enter_earlier_refunds(sale sales, commission commissions)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  refund refunds;
begin
  if commission.id is null or commission.reversal <> 'none' or (refunded_part(sale, null)).refunded = 0 then
    return sale;
  end if;
  sale.refunded_cents := 0;
  for refund in
    select r.* from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0 order by r.id
  loop
    perform move_refunded(sale, commission, refund, refund.applied_cents, coalesce(refund.reason_text, refund.reason));
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.enter_shadow_mode(of_program_id bigint, OUT outcome text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  perform from programs p where p.id = of_program_id for update;
  if not found then
    return;
  end if;
  if in_shadow_mode(of_program_id) then
    outcome := 'known';
  elsif exists (select from payouts w where w.program_id = of_program_id and w.status not in ('refused', 'canceled')) then
    outcome := 'paid_out';
  else
    -- This comes after the lock, so that every earlier credit has an earlier date.
    update programs p set shadow_since = clock_timestamp(), shadow_ended_at = null,
      earlier_shadow_times = p.earlier_shadow_times
        + case when p.shadow_since is null then '{}' else tstzmultirange(tstzrange(p.shadow_since, p.shadow_ended_at)) end
    where p.id = of_program_id;
    perform write_program_audit(of_program_id, 'shadow_mode.entered', null, null);
    outcome := 'entered';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_clicks(of_program_id bigint, customer_ids bigint[], of_click_id text, since timestamp with time zone, until timestamp with time zone, new_click_id text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  has_sink constant boolean := has_click_sink();
  erased bigint;
begin
  with changed as (
    update affiliate_click_events e set click_id = new_click_id, session_id = null, affiliate_url = null, page_url = null, page_title = null,
      referrer_url = null, user_agent = null, screen_resolution = null, viewport_size = null, language = null, timezone = null,
      geo_country = null, geo_region = null, geo_city = null, device_type = case when e.device_type = 'bot' then 'bot' end, device_os = null,
      browser_name = null, additional_data = null, campaign = null, visitor = null, click_random = null, click_ms = null,
      landing_part = null, page_part = null, browser_part = null, place_part = null, referrer_part = null
    where e.program_id = of_program_id and not e.is_test
      and e.click_timestamp between since and coalesce(until, 'infinity')
      and (e.customer_id = any (customer_ids) or customer_ids is null and (e.click_id = of_click_id
        or e.click_id is null and e.click_random = (select c.random from split_click_id(of_program_id, of_click_id) c)))
    returning e.click_timestamp, e.id
  ),
  unsent as (
    insert into unsent_clicks (program_id, clicked_at, event_id, is_erased)
    select of_program_id, c.click_timestamp, c.id, true from changed c where has_sink
  ),
  months as (
    update rewritten_months m set changed_at = now() where m.month in (select month_of(c.click_timestamp) from changed c)
  )
  select count(*) into erased from changed;
  return erased;
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_counters(of_words text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  delete from sign_in_attempts a where a.key in (
    select s.key from sign_in_attempts s where string_to_array(s.key, ' ') && of_words order by s.key for update
  );
  delete from mail_counts m where m.counted in (
    select s.counted from mail_counts s where string_to_array(s.counted, ' ') && of_words order by s.counted, s.day for update
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_events(of_program_id bigint, of_customer_key text, of_click_id text, new_click_id text, OUT leftovers bigint, OUT sales bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  is_new boolean;
  customer_ids bigint[];
  keys text[];
  sale_ids bigint[];
begin
  select l.erased, l.is_new into leftovers, is_new from erase_leftovers(of_program_id, of_customer_key, of_click_id, new_click_id) l;
  select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.customer_key), '{}') || of_customer_key into customer_ids, keys
  from customers c
  where c.program_id = of_program_id
    and (c.customer_key = of_customer_key or c.click_id = of_click_id or c.click_id = new_click_id);
  -- A click moves `last_click_at` to its own time, so these bounds limit the partitions and the part of the key that
  -- are read.
  perform erase_clicks(of_program_id, customer_ids, null, min(c.created_at) - interval '1 day',
    coalesce(max(c.last_click_at), min(c.created_at)) + interval '1 day', new_click_id)
  from customers c where c.program_id = of_program_id and c.id = any (customer_ids)
  having count(*) > 0;
  sale_ids := array(
    select s.id from sales s
    where s.program_id = of_program_id and (s.customer_id = any (customer_ids) or s.customer_key = any (keys))
    order by s.id for no key update
  );
  sales := cardinality(sale_ids);
  if is_new or cardinality(sale_ids) > 0 or exists (
    select from customers c where c.program_id = of_program_id and c.id = any (customer_ids) and c.click_id <> new_click_id
  ) then
    perform write_program_audit(of_program_id, 'customer.erased', null, null);
  end if;
  perform erase_import_rows(of_program_id, customer_ids, keys);
  perform erase_words_of_sales(of_program_id, sale_ids);
  perform erase_words_of_commissions(of_program_id, customer_ids, sale_ids);
  perform erase_words_of_messages(of_program_id, customer_ids, sale_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_import_rows(of_program_id bigint, customer_ids bigint[], keys text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update import_rows r set fields = '{}', source_id = 'erased', replaced = null
  where r.program_id = of_program_id and r.kind = 'customer'
    and (r.target_id = any (customer_ids) or r.fields->>'customer_key' = any (keys));
  update import_rows r set fields = r.fields - 'customer'
  where r.program_id = of_program_id and r.kind = 'commission' and r.fields->>'customer' = any (keys);
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_imported_partners(program_ids bigint[], partner_ids bigint[])
 RETURNS void
 LANGUAGE sql
AS $function$
  update import_rows i set fields = i.fields - array['name', 'email', 'payout_email', 'partner'],
    source_id = case when i.kind in ('partner', 'balance') then 'erased' else i.source_id end,
    replaced = case when i.kind <> 'partner' then i.replaced end
  where i.program_id = any (program_ids) and (i.kind = 'partner' and i.target_id = any (partner_ids) or i.partner_id = any (partner_ids)
    or (i.program_id, i.import_id, i.partner_row_id) in (
      select p.program_id, p.import_id, p.id from import_rows p
      where p.program_id = any (program_ids) and p.kind = 'partner' and p.target_id = any (partner_ids)
    ));
  update adjustments a set external_id = null
  where a.program_id = any (program_ids) and a.partner_id = any (partner_ids) and a.import_id is not null;
$function$
;

CREATE OR REPLACE FUNCTION public.erase_leftovers(of_program_id bigint, of_customer_key text, of_click_id text, new_click_id text, OUT erased bigint, OUT is_new boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  program programs;
  hashes text[];
  buyers text[];
  reported_before bigint;
begin
  select p.* into program from programs p where p.id = of_program_id;
  if not exists (
    select from customers c where c.program_id = of_program_id and (c.click_id = of_click_id or c.click_id = new_click_id)
  ) then
    erased := erase_clicks(of_program_id, null, of_click_id, click_id_created_at(of_click_id) - interval '1 day', null, new_click_id);
  end if;
  select array_agg(distinct e.fact->>'email_hash'), array_agg(distinct e.fact->>'processor_customer_id') into hashes, buyers
  from processor_events e
  where (e.program_id = of_program_id or e.program_id is null and e.account_id = any (accounts_of(program)))
    and (e.fact->>'click_id' = of_click_id or e.fact->>'customer_key' = of_customer_key);
  update processor_events e set payload = null, awaits = null, fact = e.fact || jsonb_build_object('customer_key', null, 'click_id', null,
    'email_hash', null, 'mailbox_hash', null, 'processor_customer_id', null, 'erased_as', new_click_id)
  where (e.program_id = of_program_id or e.program_id is null and e.account_id = any (accounts_of(program)))
    and (e.fact->>'click_id' = of_click_id or e.fact->>'customer_key' = of_customer_key
      or e.fact->>'email_hash' = any (hashes) or e.fact->>'processor_customer_id' = any (buyers));
  get diagnostics reported_before = row_count;
  erased := coalesce(erased, 0) + reported_before;
  is_new := erased > 0;
  if not is_new then
    -- Counts the rows of an earlier attempt whose response was lost.
    erased := (
      select count(*) from processor_events e where e.program_id = of_program_id and e.fact->>'erased_as' = new_click_id
    ) + (
      select count(*) from affiliate_click_events e
      where e.program_id = of_program_id and not e.is_test and e.click_timestamp > click_id_created_at(of_click_id) - interval '1 day'
        and e.click_id = new_click_id
    );
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_texts_about_partners(program_ids bigint[], partner_ids bigint[], account_address text)
 RETURNS void
 LANGUAGE sql
AS $function$
  delete from saved_views v
  using (
    select r.program_id, unnest(array[r.email, r.payout_email, account_address]) as address from partners r
    where r.program_id = any (program_ids) and r.id = any (partner_ids)
  ) a
  where v.program_id = a.program_id
    and strpos(replace(replace(lower(concat(v.name, ' ', v.query)), '%40', '@'), '%2b', '+'), lower(a.address)) > 0;
  update notifications n set payload = n.payload - 'text'
  where n.program_id = any (program_ids) and n.partner_id = any (partner_ids) and n.kind = 'program_message';
  update outbox o set payload = o.payload - 'text'
  where o.program_id = any (program_ids) and o.partner_id = any (partner_ids) and o.kind = 'program_message';
  update webhook_endpoints e set url = '', description = '', deleted_at = coalesce(e.deleted_at, now())
  where e.program_id = any (program_ids) and e.partner_id = any (partner_ids);
$function$
;

CREATE OR REPLACE FUNCTION public.erase_user(of_user_id text, payees jsonb, OUT unsettled jsonb, OUT last_owner_of text[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  address text := (select u.email from users u where u.id = of_user_id);
  -- An address belongs to the person only if it is verified.
  verified_address text := (select u.email from users u where u.id = of_user_id and u.email_verified);
  program_ids bigint[];
  partner_ids bigint[];
begin
  perform from workspaces w where w.id in (select m.workspace_id from active_members m where m.user_id = of_user_id)
  order by w.id for update;
  -- Erasing an endpoint updates its program. All calls lock programs before partners.
  perform from programs p where p.id in (select r.program_id from partners r where r.user_id = of_user_id) order by p.id for no key update;
  perform from users u where u.id = of_user_id for update;
  program_ids := array(select r.program_id from partners r where r.user_id = of_user_id);
  perform lock_exports(program_ids);
  partner_ids := array(select r.id from partners r where r.user_id = of_user_id order by r.program_id, r.id for update);
  unsettled := first_unsettled(null, of_user_id);
  last_owner_of := array(
    select w.name from active_members m join workspaces w on w.id = m.workspace_id
    where m.user_id = of_user_id and m.role = 'owner' and not exists (
      select from active_members other
      where other.workspace_id = m.workspace_id and other.user_id <> of_user_id and other.role = 'owner'
    )
    order by w.name limit 6
  );
  if unsettled <> '[]' or cardinality(last_owner_of) > 0 then
    return;
  end if;
  perform close_partners(program_ids, partner_ids, 'partner');
  perform write_program_audit(r.program_id, 'partner.erased', r.id::text, (
    select jsonb_object_agg('owes ' || b.currency, -b.balance_cents) from balances b
    where b.program_id = r.program_id and b.partner_id = r.id and b.balance_cents < 0
  ))
  from partners r where r.user_id = of_user_id;
  perform keep_payees(of_user_id, payees);
  delete from partner_invitations i
  where i.email = verified_address or i.program_id = any (program_ids) and i.partner_id = any (partner_ids);
  delete from workspace_invitations i where i.email = verified_address;
  -- The acceptance of a program's terms is kept without the person's data.
  delete from applications a where a.status <> 'approved' and (a.user_id = of_user_id or a.email = verified_address);
  update applications a set user_id = null, name = 'Erased partner', email = null, answers = '[]', note = null, token_hash = null
  where a.user_id = of_user_id or a.email = verified_address or a.program_id = any (program_ids) and a.partner_id = any (partner_ids);
  update partner_invitations i set revoked_at = now()
  where i.invited_by = of_user_id and i.accepted_at is null and i.declined_at is null and i.revoked_at is null;
  update workspace_invitations i set revoked_at = now()
  where i.invited_by = of_user_id and i.accepted_at is null and i.revoked_at is null;
  update payouts w set payout_address = null
  where w.program_id = any (program_ids) and w.partner_id = any (partner_ids) and w.payout_address is not null;
  -- Their payments have ended, so no call to a provider needs the recipients.
  with erased as (
    update payout_items i set recipient = 'erased', provider_reason = null
    from payouts w
    where w.program_id = any (program_ids) and w.partner_id = any (partner_ids) and i.program_id = w.program_id and i.payout_id = w.id
    returning i.program_id, i.batch_id
  )
  update payout_batches b set problem = null from erased e where b.program_id = e.program_id and b.id = e.batch_id;
  delete from payout_recipients r where r.program_id = any (program_ids) and r.partner_id = any (partner_ids);
  -- The stored responses to API calls about the person.
  delete from idempotency_keys k
  where k.program_id = any (program_ids) and k.answer ? 'email' and (k.answer ->> 'id')::bigint = any (partner_ids)
    or k.answer ->> 'email' = verified_address;
  perform erase_imported_partners(program_ids, partner_ids);
  perform erase_texts_about_partners(program_ids, partner_ids, address);
  delete from export_rows x where x.program_id = any (program_ids);
  update partners r set user_id = null, name = 'Erased partner', email = null, payout_email = null, note = null, external_id = null,
    metadata = '{}'
  where r.user_id = of_user_id;
  delete from program_members o where o.user_id = of_user_id;
  update workspace_members m set removed_at = now() where m.user_id = of_user_id and m.removed_at is null;
  delete from verifications v where v.value = of_user_id;
  delete from refused_addresses a where a.email = address;
  perform erase_counters(array[of_user_id, verified_address, mailbox_of(verified_address)]);
  delete from users u where u.id = of_user_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_words_of_commissions(of_program_id bigint, customer_ids bigint[], sale_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  commission_ids bigint[];
  adjustment_ids bigint[];
begin
  commission_ids := array(
    select c.id from commissions c where c.program_id = of_program_id and c.sale_id = any (sale_ids) order by c.id for no key update
  );
  update commissions c set reason = (
    select r.reason from refunds r
    where r.program_id = c.program_id and r.sale_id = c.sale_id and r.returned_at is null order by r.id desc limit 1
  )
  where c.program_id = of_program_id and c.id = any (commission_ids) and c.reason is not null and c.rejected_at is null;
  update outbox o set payload = without_words(o.payload)
  where o.program_id = of_program_id and (o.payload->>'commission_id')::bigint = any (commission_ids) and o.cause not like 'rejection:%';
  -- Erases evidence about the customer, and the reviewer's note.
  update commission_reviews v set note = null, flags = (select jsonb_agg(f - 'evidence') from jsonb_array_elements(v.flags) f)
  from commissions c
  where c.program_id = of_program_id and c.customer_id = any (customer_ids) and v.program_id = c.program_id and v.commission_id = c.id;
  -- Notes on adjustments for one of the sales.
  adjustment_ids := array(select a.id from adjustments a where a.program_id = of_program_id and a.sale_id = any (sale_ids));
  update adjustments a set note = null where a.program_id = of_program_id and a.id = any (adjustment_ids) and a.note is not null;
  update outbox o set payload = o.payload - 'reason'
  where o.program_id = of_program_id and (o.payload->>'adjustment_id')::bigint = any (adjustment_ids);
  update notifications n set payload = o.payload
  from outbox o
  where o.program_id = of_program_id and ((o.payload->>'commission_id')::bigint = any (commission_ids)
      or (o.payload->>'adjustment_id')::bigint = any (adjustment_ids))
    and n.program_id = o.program_id and n.id = o.id and n.payload <> o.payload;
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_words_of_messages(of_program_id bigint, customer_ids bigint[], sale_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  message_ids bigint[];
begin
  message_ids := array(
    select m.id from webhook_messages m
    where m.program_id = of_program_id
      and ((m.data->>'customer_id')::bigint = any (customer_ids) or (m.data->>'sale_id')::bigint = any (sale_ids))
  );
  update webhook_messages m set data = m.data - 'subscription_id' - 'coupon' || jsonb_build_object('sale_type', s.sale_type)
  from sales s
  where m.program_id = of_program_id and m.id = any (message_ids) and m.data ? 'sale_type'
    and s.program_id = m.program_id and s.id = (m.data->>'sale_id')::bigint;
  update webhook_messages m set data = m.data - 'campaign'
  where m.program_id = of_program_id and m.id = any (message_ids) and m.data ? 'campaign';
  update webhook_attempts a set answer = null
  where a.program_id = of_program_id and a.message_id = any (message_ids) and a.answer is not null;
  update processor_events e set fact = jsonb_set(e.fact, '{reversals}', (
    select jsonb_agg(reversal || '{"reason_text": null}') from jsonb_array_elements(e.fact->'reversals') reversal
  ))
  from sales s
  where s.program_id = of_program_id and s.id = any (sale_ids) and e.program_id = of_program_id
    and (e.fact->>'payment_intent_id' = s.processor_payment_intent_id or e.fact->>'charge_id' in (s.processor_charge_id, s.transaction_id))
    and case when jsonb_typeof(e.fact->'reversals') = 'array' then jsonb_array_length(e.fact->'reversals') > 0 else false end;
end $function$
;

CREATE OR REPLACE FUNCTION public.erase_words_of_sales(of_program_id bigint, sale_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  -- If a code isn't a partner's code, the buyer typed it.
  update sales s set customer_key = null, subscription_id = null, processor_customer_id = null, additional_data = null,
    sale_type = erased_sale_type(s), api_payload = null,
    coupon = case when s.code_id is not null then s.coupon end
  where s.program_id = of_program_id and s.id = any (sale_ids);
  update processor_reversals v set reason_text = null
  from refunds r
  where r.program_id = of_program_id and r.sale_id = any (sale_ids) and v.reversal_id = r.processor_reversal_id and v.reason_text is not null;
  update refunds r set reason_text = null, refund_key = case
    when starts_with(r.refund_key, 'id:') and r.refund_key is distinct from 'id:' || r.processor_reversal_id
      then erased_refund_key(r.refund_key, replace(gen_random_uuid()::text, '-', ''))
    else r.refund_key end
  where r.program_id = of_program_id and r.sale_id = any (sale_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.erased_refund_key(key text, salt text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN ((('sha:'::text || salt) || ':'::text) || encode(sha256(convert_to((salt || key), 'UTF8'::name)), 'hex'::text))
;

CREATE OR REPLACE FUNCTION public.erased_sale_type(sale sales)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select case when sale.sale_type = any (r.types) then sale.sale_type when w.word = any (r.types) then 'erased' else w.word end
  from (select array(select c.sale_type::text from commission_rules c where c.program_id = (sale).program_id) as types) r
  cross join (select case when (sale).is_recurring then 'subscription' else 'payment' end as word) w
$function$
;

CREATE OR REPLACE FUNCTION public.existed_at(created_at timestamp with time zone, at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (created_at <= (at + '00:01:00'::interval))
;

CREATE OR REPLACE FUNCTION public.expire_applications(max_rows integer, unconfirmed_kept interval, rejected_kept interval)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  deleted bigint;
begin
  delete from applications a where (a.program_id, a.id) in (
    select o.program_id, o.id from applications o
    where (o.status = 'unverified' and o.applied_at < now() - unconfirmed_kept)
      or (o.status = 'rejected' and o.decided_at < now() - rejected_kept)
    limit max_rows for update skip locked
  );
  get diagnostics deleted = row_count;
  return deleted;
end $function$
;

CREATE OR REPLACE FUNCTION public.expire_unsold_payments(kept interval)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  deleted bigint;
begin
  delete from processor_payments p
  where p.created_at between now() - kept - interval '30 days' and now() - kept
    and not exists (
      select from programs_of_account(p.account_id) g
      join sales s on s.program_id = g.id and s.transaction_id = any (ids_of_payment(p.account_id, array[p.payment_id]))
    )
    and exists (select from programs_of_account(p.account_id));
  get diagnostics deleted = row_count;
  return deleted;
end $function$
;

CREATE OR REPLACE FUNCTION public.expire_webhooks(max_rows integer, kept interval, fetched_kept interval)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  deleted bigint;
begin
  delete from webhook_messages m where (m.program_id, m.id) in (
    select o.program_id, o.id from webhook_messages o where o.created_at < now() - kept order by o.created_at limit max_rows
  );
  get diagnostics deleted = row_count;
  update webhook_endpoints e set deleted_at = now()
  where e.url is null and e.deleted_at is null and e.created_at < now() - fetched_kept;
  delete from webhook_endpoints e
  where e.deleted_at is not null and not exists (
    select from webhook_deliveries d where d.program_id = e.program_id and d.endpoint_id = e.id
  );
  return deleted;
end $function$
;

CREATE OR REPLACE FUNCTION public.expired_click(customer customers, at timestamp with time zone)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_build_object('expired_click', jsonb_build_object('clicked_at', (customer).last_click_at, 'came_at', (customer).created_at, 'at', at))
;

CREATE OR REPLACE FUNCTION public.facts_by_value(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, quarters timestamp with time zone[], days date[], of_currency text, metrics grouped_metric[], links_only boolean)
 RETURNS TABLE(name text, value text, metric grouped_metric, amount bigint)
 LANGUAGE sql
 STABLE
AS $function$
  with fact as materialized (
    select f.* from filtered_facts(of_program_id, filters, from_time, until, quarters, days, of_currency, metrics, 'clicks' = any (metrics)) f
    where f.amount <> 0 and (f.link is not null or not links_only)
  ),
  campaign as materialized (
    select v.key as name, v.value, f.metric, total(f.amount) as amount
    from fact f cross join lateral jsonb_each_text(f.campaign) v
    where f.campaign is not null and v.key = any (campaign_groupings())
    group by 1, 2, 3
  )
  select case
      when grouping(f.partner) = 0 then 'partner' when grouping(f.link) = 0 then 'link' when grouping(f.code) = 0 then 'code'
      when grouping(f.country) = 0 then 'country' when grouping(f.device) = 0 then 'device' when grouping(f.referrer) = 0 then 'referrer' else 'page'
    end, coalesce(f.partner, f.link, f.code, f.country, f.device, f.referrer, f.page), f.metric, total(f.amount)
  from fact f
  group by f.metric, grouping sets ((f.partner), (f.link), (f.code), (f.country), (f.device), (f.referrer), (f.page))
  union all
  select c.name, c.value, c.metric, c.amount from campaign c
  union all
  select n.name, null, f.metric, f.amount - coalesce(c.amount, 0)
  from unnest(campaign_groupings()) n (name)
  cross join (select f.metric, total(f.amount) as amount from fact f group by f.metric) f
  left join (select c.name, c.metric, total(c.amount) as amount from campaign c group by 1, 2) c on c.name = n.name and c.metric = f.metric
$function$
;

CREATE OR REPLACE FUNCTION public.facts_of_entry(entry balance_entries)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_build_array((entry).program_id, (entry).partner_id, (entry).currency, (entry).entry_number, (entry).amount_cents, (entry).balance_before_cents, (entry).balance_after_cents, (entry).cause, (entry).commission_id, (entry).correction_number, (entry).refund_id, (entry).payout_id, (entry).adjustment_id, (entry).reference, EXTRACT(epoch FROM (entry).created_at))
;

CREATE OR REPLACE FUNCTION public.figure_of(t grouped_totals, metric grouped_metric, money text, with_all_sales boolean)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN CASE metric WHEN 'clicks'::grouped_metric THEN (t).clicks WHEN 'bot_clicks'::grouped_metric THEN (t).bot_clicks WHEN 'leads'::grouped_metric THEN (t).leads WHEN 'conversions'::grouped_metric THEN (t).conversions WHEN 'sales'::grouped_metric THEN CASE WHEN (with_all_sales OR ((t).currency = money)) THEN (t).sales ELSE (0)::bigint END ELSE CASE WHEN ((t).currency = money) THEN CASE metric WHEN 'revenue'::grouped_metric THEN (t).revenue_cents WHEN 'commission'::grouped_metric THEN (t).commission_cents ELSE (t).refunded_cents END ELSE (0)::bigint END END
;

CREATE OR REPLACE FUNCTION public.figures_of(f uncounted_figures)
 RETURNS TABLE(metric grouped_metric, currency text, amount bigint)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select m.metric, case when m.is_money then (f).currency::text else '' end, m.amount
  from (values
    ('leads'::grouped_metric, (f).leads, false), ('conversions', (f).conversions, false), ('sales', (f).sales, true),
    ('revenue', (f).revenue_cents, true), ('commission', (f).commission_cents, true), ('refunded', (f).refunded_cents, true)
  ) m (metric, amount, is_money)
  where m.amount <> 0
$function$
;

CREATE OR REPLACE FUNCTION public.figures_of_days(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone, days date[], of_currency text, metrics grouped_metric[])
 RETURNS TABLE(at timestamp with time zone, customer_id bigint, partner_id bigint, code_id bigint, metric grouped_metric, amount bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select f.* from (
    select greatest(day_start(d), from_time) as begins, least(day_start(d + 1), until) as ends from unnest(days) d
  ) part
  cross join lateral (
    select c.signup_date, c.id, c.partner_id, null::bigint, 'leads'::grouped_metric, 1::bigint from customers c
    where c.program_id = of_program_id and c.signup_date >= part.begins and c.signup_date < part.ends and 'leads' = any (metrics)
      and (c.imported_at is null or c.signup_date > c.imported_at)
    union all
    select c.first_purchase_date, c.id, coalesce((
        select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = c.code_id
      ), c.partner_id), c.code_id, 'conversions', 1 from customers c
    where c.program_id = of_program_id and c.first_purchase_date >= part.begins and c.first_purchase_date < part.ends and 'conversions' = any (metrics)
      and (c.imported_at is null or c.first_purchase_date > c.imported_at)
    union all
    select s.sale_date, s.customer_id, s.partner_id, s.code_id, m.metric, m.amount
    from sales s
    cross join lateral (values
      ('sales'::grouped_metric, 1), ('revenue', case s.currency when of_currency then s.amount_cents else 0 end),
      ('refunded', case s.currency when of_currency then s.refunded_cents else 0 end)
    ) m (metric, amount)
    where s.program_id = of_program_id and not s.is_test and s.customer_id is not null and s.payment_status = 'paid'
      and s.sale_date >= part.begins and s.sale_date < part.ends and metrics && '{sales,revenue,refunded}' and m.metric = any (metrics)
    union all
    select m.created_at, m.customer_id, m.partner_id, m.code_id, 'commission', m.amount_cents - m.reversed_cents from commissions m
    where m.program_id = of_program_id and m.created_at >= part.begins and m.created_at < part.ends and m.currency = of_currency
      and not m.is_shadow and 'commission' = any (metrics)
  ) f (at, customer_id, partner_id, code_id, metric, amount)
$function$
;

CREATE OR REPLACE FUNCTION public.filtered_clicks(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, quarters timestamp with time zone[], with_pages boolean)
 RETURNS TABLE(at timestamp with time zone, partner text, link text, country text, device text, referrer text, page text, campaign jsonb)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  wanted constant jsonb := campaign_wanted(filters);
  unwanted constant text[] := campaign_unwanted(filters);
begin
  return query
  select e.click_timestamp, k.partner_id::text, e.link_id::text, left(nullif(e.geo_country, ''), 200), e.device_type,
    case when with_pages then host_of_referrer(e.referrer_url) end, case when with_pages then page_of_click(e.page_url, e.affiliate_url) end, e.campaign
  from (
    select from_time as begins, until as ends where quarters is null
    union all
    select greatest(q, from_time), least(q + interval '15 minutes', until) from unnest(quarters) q
  ) part
  cross join lateral (
    select * from click_events e
    where e.program_id = of_program_id and not e.is_test and e.click_timestamp >= part.begins and e.click_timestamp < part.ends
    offset 0
  ) e
  join referral_links k on k.program_id = e.program_id and k.id = e.link_id
  where e.device_type is distinct from 'bot'
    and (not filters ? 'partner' or k.partner_id = (filters->>'partner')::bigint)
    and (not filters ? 'link' or e.link_id = (filters->>'link')::bigint)
    and filters->>'code' is null
    and (not filters ? 'country' or left(nullif(e.geo_country, ''), 200) is not distinct from filters->>'country')
    and (not filters ? 'device' or e.device_type is not distinct from filters->>'device')
    and (wanted = '{}' or e.campaign @> wanted) and not coalesce(e.campaign ?| unwanted, false)
    and (not filters ? 'referrer' or host_of_referrer(e.referrer_url) is not distinct from filters->>'referrer')
    and (not filters ? 'page' or page_of_click(e.page_url, e.affiliate_url) is not distinct from filters->>'page');
end $function$
;

CREATE OR REPLACE FUNCTION public.filtered_facts(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, quarters timestamp with time zone[], days date[], of_currency text, metrics grouped_metric[], with_pages boolean)
 RETURNS TABLE(at timestamp with time zone, partner text, link text, code text, country text, device text, referrer text, page text, campaign jsonb, metric grouped_metric, amount bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select e.at, e.partner, e.link, null, e.country, e.device, e.referrer, e.page, e.campaign, 'clicks', 1
  from filtered_clicks(of_program_id, filters, from_time, until, quarters, with_pages) e where 'clicks' = any (metrics)
  union all
  select * from filtered_figures(of_program_id, filters, from_time, until, days, of_currency, metrics)
$function$
;

CREATE OR REPLACE FUNCTION public.filtered_figures(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, days date[], of_currency text, metrics grouped_metric[])
 RETURNS TABLE(at timestamp with time zone, partner text, link text, code text, country text, device text, referrer text, page text, campaign jsonb, metric grouped_metric, amount bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
  wanted constant jsonb := campaign_wanted(filters);
  unwanted constant text[] := campaign_unwanted(filters);
begin
  return query
  select f.at, f.partner_id::text, referring_link(c, f.partner_id)::text, f.code_id::text, o.origin->>'country', o.origin->>'device',
    o.origin->>'referrer', o.origin->>'page', o.origin, f.metric, f.amount
  from figures_of_days(of_program_id, from_time, until, days, of_currency, metrics) f
  join customers c on c.program_id = of_program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = of_program_id and known.customer_id = f.customer_id
  cross join lateral (select coalesce(known.origin, origin_of_customer(c, c.last_click_at)) as origin) o
  where (not filters ? 'partner' or f.partner_id = (filters->>'partner')::bigint)
    and (not filters ? 'link' or referring_link(c, f.partner_id) is not distinct from (filters->>'link')::bigint)
    and (not filters ? 'code' or f.code_id is not distinct from (filters->>'code')::bigint)
    and (not filters ? 'country' or o.origin->>'country' is not distinct from filters->>'country')
    and (not filters ? 'device' or o.origin->>'device' is not distinct from filters->>'device')
    and (wanted = '{}' or o.origin @> wanted) and not o.origin ?| unwanted
    and (not filters ? 'referrer' or o.origin->>'referrer' is not distinct from filters->>'referrer')
    and (not filters ? 'page' or o.origin->>'page' is not distinct from filters->>'page');
end $function$
;

CREATE OR REPLACE FUNCTION public.find_buyer(INOUT event processor_events, ids text[], program programs, known customers, click_id_prefix text, OUT buyer customers)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  identified record;
  discounted record;
begin
  if event.livemode then
    -- If one of two concurrent purchases identifies the other's buyer, this lock runs them one after the other.
    perform lock_ids(event.account_id, names_of_payment(event, ids));
  end if;
  if known.id is null then
    identified := identify_buyer(event.account_id, program, event.fact, case when event.livemode then click_id_prefix end, event.resolution);
    buyer := identified.buyer;
    event.resolution := identified.resolution;
  else
    perform lock_customers_of_payment(event.account_id, ids, known.id);
    select c.* into buyer from customers c where c.program_id = known.program_id and c.id = known.id for no key update;
  end if;
  if event.fact->>'sale' is not null and cardinality(promotions_of(event.fact)) > 0 then
    discounted := apply_promotions(event, ids, click_id_prefix, buyer);
    event := discounted.event;
    buyer := discounted.buyer;
  end if;
  if event.livemode and buyer.id is not null then
    perform keep_buyer(buyer, event.fact);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.find_code(of_program_id bigint, named text, promotion_ids text[], bought_at timestamp with time zone, OUT code_id bigint, OUT code text, OUT outcome text)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_variable
begin
  select case when k.outcome = 'found' then k.id end, k.code, k.outcome into code_id, code, outcome
  from (
    select k.id, k.code, k.created_at, case
        when not existed_at(k.created_at, bought_at) then 'given_later'
        when k.revoked_at <= bought_at then 'revoked'
        when not r.is_active then 'partner_inactive'
        else 'found'
      end as outcome
    from partner_codes k join partners r on r.program_id = k.program_id and r.id = k.partner_id
    where k.program_id = of_program_id and (lower(normalize(k.code)) = lower(normalize(named)) or k.promotion_code_id = any (promotion_ids))
  ) k
  order by k.outcome = 'found' desc, k.id limit 1;
  outcome := coalesce(outcome, 'unknown');
end $function$
;

CREATE OR REPLACE FUNCTION public.find_customer(of_program_id bigint, of_key text, of_click_id text, click_id_prefix text, valid_after timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.find_imported_customer(of_program_id bigint, fields jsonb)
 RETURNS customers
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  known customers;
begin
  select c.* into known from customers c where c.program_id = of_program_id and c.id = coalesce((
      select p.customer_id from processor_customers p
      where p.program_id = of_program_id and p.processor_customer_id = fields->>'processor_customer_id'
    ), (
      select k.id from customers k where k.program_id = of_program_id and k.customer_key = fields->>'customer_key'
    ), (
      select min(k.id) from customers k
      where k.program_id = of_program_id and k.email_hash = decode(fields->>'email_hash', 'hex') and k.signup_date is not null
        and not fields ?| array['processor_customer_id', 'customer_key']
    ));
  return known;
end $function$
;

CREATE OR REPLACE FUNCTION public.find_program(event processor_events, ids text[], OUT program programs, OUT by_code boolean, OUT known customers, OUT by_subscription boolean, OUT resolution jsonb)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  fact jsonb := event.fact;
  names_no_program boolean := fact->>'program_id' is null;
  may_be_found boolean;
begin
  program := program_of_purchase(event.account_id, fact);
  may_be_found := program.id is null and names_no_program and coalesce((fact#>>'{sale,amount_cents}')::bigint > 0, false);
  if may_be_found then
    program := program_of_promotion(event.account_id, promotions_of(fact));
  end if;
  by_code := may_be_found and program.id is not null;
  resolution := steps_of_source(fact, case
    when by_code then 'by_code'
    when program.id is not null and names_no_program then 'by_click'
    when program.id is not null then 'named'
    when names_no_program then 'none'
    else 'not_connected' end);
  if may_be_found and program.id is null and (sale_of_payments(event.account_id, not event.livemode, ids)).id is null then
    perform lock_ids(event.account_id, names_of_payment(event, ids));
    known := known_buyer(event.account_id, not event.livemode, fact);
    by_subscription := exists (
      select from processor_customers k where k.program_id = known.program_id and k.customer_id = known.id
        and k.processor_customer_id = fact->>'subscription_id'
    );
    resolution := with_step(resolution, 'known_buyer', case
      when num_nonnulls(fact#>>'{sale,subscription_id}', fact->>'processor_customer_id') = 0 then 'not_given'
      when known.id is null then 'unknown'
      else 'found' end);
    -- Waits for a concurrent call that enables the setting, because that call doesn't see this payment.
    select p.* into program from programs p where p.id = known.program_id for share;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.finish_archive(of_program_id bigint, of_import_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform derive_from_archive(of_program_id, of_import_id);
  if exists (
    select from affiliate_lead_events e where e.program_id = of_program_id and e.lead_timestamp < timestamptz '2020-01-01 00:00+00'
  ) then
    perform refuse_archive('lead_too_old', null);
  end if;
  update programs p set moved_in_at = now() where p.id = of_program_id;
  update imports i set state = 'applied', applied_at = now(), applied_count = i.row_count
  where i.program_id = of_program_id and i.id = of_import_id;
  delete from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.finish_reading(of_program_id bigint, of_import_id bigint, derives_balances boolean, of_note text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  derived integer;
begin
  update imports i set position = '{"is_read": true}', sealed_key = null, problem = null
  where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and i.position is distinct from '{"is_read": true}';
  if not found or not derives_balances or exists (
    select from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'balance'
  ) then
    return;
  end if;
  insert into import_rows (program_id, import_id, id, kind, source_id, origin, fields)
  select of_program_id, of_import_id, u.last_id + row_number() over (order by u.partner, u.currency), 'balance',
    left(u.partner || ':' || u.currency, 200), 'unpaid commissions',
    jsonb_build_object('partner', u.partner, 'currency', u.currency, 'amount_cents', u.cents, 'note', of_note)
  from (
    select c.partner, c.currency, sum(c.cents) as cents, (
        select max(r.id) from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id
      ) as last_id
    from (
      select distinct on (r.source_id) r.fields->>'partner' as partner, r.fields->>'currency' as currency,
        (r.fields->>'amount_cents')::bigint as cents
      from import_rows r
      where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = 'commission' and r.outcome is null
        and r.fields->>'status' in ('pending', 'approved')
      order by r.source_id, r.id
    ) c group by c.partner, c.currency having sum(c.cents) <> 0
  ) u;
  get diagnostics derived = row_count;
  perform count_import_rows(of_program_id, of_import_id, '{}', '{}', derived, 0);
end $function$
;

CREATE OR REPLACE FUNCTION public.finish_reading_archive(of_program_id bigint, of_import_id bigint, why_not text, if_used text, remark text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  why_not := coalesce(why_not, case when not is_unused(of_program_id) then if_used end);
  update imports i set problem = coalesce(why_not, remark), planned_at = case when why_not is null then now() end,
    state = case when why_not is null then 'planned' else 'failed' end
  where i.program_id = of_program_id and i.id = of_import_id and i.state in ('reading', 'planned', 'applying');
  delete from archive_parts a where a.program_id = of_program_id and a.import_id = of_import_id;
  if why_not is not null then
    delete from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id;
    return;
  end if;
  update imports i set row_count = k.rows, create_count = k.rows
  from (select count(*) as rows from archive_rows r where r.program_id = of_program_id and r.import_id = of_import_id) k
  where i.program_id = of_program_id and i.id = of_import_id;
  -- Without statistics, every row that refers to another row would cause a scan of the whole table.
  execute 'analyze (skip_locked) archive_rows';
end $function$
;

CREATE OR REPLACE FUNCTION public.finish_rewriting(of_month date, partition text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  execute format('alter table affiliate_click_events detach partition %I', partition);
  execute format('drop table %I', partition);
  execute format('alter table rewriting.%I set schema %I', partition, current_schema());
  execute format('alter table affiliate_click_events attach partition %I for values from (%L) to (%L)', partition, day_start(of_month),
    day_start((of_month + interval '1 month')::date));
  execute format('alter table %I drop constraint within', partition);
  update rewritten_months m set rewritten_at = now() where m.month = of_month;
end $function$
;

CREATE OR REPLACE FUNCTION public.first_day_of_clicks(of_program_id bigint, filters jsonb, from_day date, until_day date)
 RETURNS date
 LANGUAGE sql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
  select coalesce(max(e.day), from_day) from (
    select t.day, sum(t.sums[cardinality(t.sums)] * coalesce((
      select min(coalesce(v.quarters, 0)::numeric / cardinality(t.quarters)) from jsonb_each_text(filters) f
      left join lateral (
        select sum(cardinality(v.quarters)) as quarters from grouped_quarters v
        where v.program_id = of_program_id and v.grouping_name = f.key::grouping_name and v.metric = 'clicks' and v.currency = '' and v.day = t.day
          and v.value = any (array[f.value, ''])
      ) v on true
      where f.value is not null
    ), 1)) over (order by t.day desc) as read
    from grouped_quarters t
    where t.program_id = of_program_id and t.grouping_name = 'all' and t.metric = 'clicks' and t.currency = '' and t.day between from_day and until_day
  ) e where e.read > 2 * max_rows_read(filters)
$function$
;

CREATE OR REPLACE FUNCTION public.first_delivery(of_url text)
 RETURNS TABLE(status text, next_attempt_at timestamp with time zone)
 LANGUAGE sql
 STABLE ROWS 1
AS $function$
  select case when of_url is null then 'to_fetch' else 'pending' end, case when of_url is not null then now() end
$function$
;

CREATE OR REPLACE FUNCTION public.first_unsettled(program_ids bigint[], of_user_id text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(jsonb_agg(jsonb_build_object('partner', f.partner, 'program', f.program, 'state', f.state)), '[]') from (
    select r.name as partner, p.name as program, u.unsettled as state
    from unsettled_partners u
    join partners r on r.program_id = u.program_id and r.id = u.partner_id
    join programs p on p.id = u.program_id
    where u.program_id = any (program_ids) or u.user_id = of_user_id order by u.program_id, u.partner_id limit 6
  ) f
$function$
;

CREATE OR REPLACE FUNCTION public.first_values(of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_metrics grouped_metric[], is_ascending boolean, max_groups integer, money text, from_time timestamp with time zone, until timestamp with time zone, click_cells jsonb)
 RETURNS text[]
 LANGUAGE sql
 STABLE
AS $function$
  select array_agg(v.value order by v.place) from (
    select s.value, row_number() over (
      order by case when is_ascending then 1 else -1 end * coalesce(s.sorted / case when sort_metrics[2] is null then 1 else nullif(s.divisor, 0) end, 0),
        s.value
    ) as place
    from (
      select a.value, total(a.amount) filter (where a.metric = sort_metrics[1])::numeric as sorted,
        total(a.amount) filter (where a.metric = sort_metrics[2]) as divisor
      from amounts_with_rest(of_program_id, array[by_name], metrics, money, false, array[from_time], until, click_cells) a
      where a.name = by_name group by a.value
    ) s
    order by place limit max_groups
  ) v
$function$
;

CREATE OR REPLACE FUNCTION public.first_with_prefix(ids text[], prefix text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ select id from unnest(ids) id where starts_with(id, prefix) order by id limit 1 $function$
;

CREATE OR REPLACE FUNCTION public.fit_payouts(of_program_id bigint, of_partner_id bigint, of_currency text, left_cents bigint, by_cause text, details jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  payout payouts;
  excess_cents bigint;
  cut_cents bigint;
begin
  select sum(w.amount_cents) - greatest(left_cents, 0) into excess_cents from payouts w
  where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and w.status in ('requested', 'in_run');
  if excess_cents is null or excess_cents <= 0 then
    return;
  end if;
  for payout in
    select w.* from payouts w
    where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and w.status in ('requested', 'in_run')
    order by w.id desc
  loop
    exit when excess_cents <= 0;
    cut_cents := least(payout.amount_cents, excess_cents);
    excess_cents := excess_cents - cut_cents;
    update payouts w set amount_cents = w.amount_cents - cut_cents,
      status = case when w.amount_cents = cut_cents then 'canceled' else w.status end,
      decided_at = case when w.amount_cents = cut_cents then now() else w.decided_at end
    where w.program_id = payout.program_id and w.id = payout.id;
    perform write_outbox(of_program_id, 'payout_reduced', 'partner', of_partner_id, by_cause || ':payout:' || payout.id,
      details - 'commission_id' || jsonb_build_object('payout_id', payout.id, 'amount_cents', payout.amount_cents - cut_cents,
        'reduced_by_cents', cut_cents));
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.fit_refunds(sale sales, new_amount_cents bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  excess_cents bigint := sale.refunded_cents - new_amount_cents;
  refund refunds;
begin
  if excess_cents <= 0 then
    return sale.refunded_cents;
  end if;
  for refund in
    select r.* from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0 order by r.id desc
  loop
    exit when excess_cents <= 0;
    update refunds r set applied_cents = greatest(0, refund.applied_cents - excess_cents)
    where r.program_id = refund.program_id and r.id = refund.id;
    excess_cents := excess_cents - refund.applied_cents;
  end loop;
  return new_amount_cents;
end $function$
;

CREATE OR REPLACE FUNCTION public.fit_stopped_payouts(of_program_id bigint, of_partner_id bigint, of_currency text, by_cause text)
 RETURNS void
 LANGUAGE sql
AS $function$
  select fit_payouts(of_program_id, of_partner_id, of_currency, (
    select b.balance_cents - coalesce(sum(w.amount_cents), 0)::bigint from balances b
    left join payouts w on w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency
      and w.status in ('sent', 'unclaimed')
    where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency group by b.balance_cents
  ), by_cause, jsonb_strip_nulls(jsonb_build_object('currency', of_currency, 'adjustment_id', (
    select e.adjustment_id from balance_entries e
    where e.program_id = of_program_id and e.partner_id = of_partner_id and e.currency = of_currency and e.amount_cents < 0
      and e.payout_id is null order by e.entry_number desc limit 1
  ))))
$function$
;

CREATE OR REPLACE FUNCTION public.fitting_quarters(of_program_id bigint, filters jsonb, from_day date, until_day date, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS SETOF timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
  select f.begins from (
    select distinct f.key, day_start(t.day) + q.quarter * interval '15 minutes' as begins
    from jsonb_each_text(filters) f
    cross join generate_series(from_day::timestamp, until_day, '1 day') d (day)
    cross join lateral (
      select t.day, t.quarters from grouped_quarters t
      where t.program_id = of_program_id and t.grouping_name = f.key::grouping_name and t.metric = 'clicks' and t.currency = '' and t.day = d.day::date
        and t.value = any (array[f.value, ''])
      offset 0
    ) t
    cross join lateral unnest(t.quarters) q (quarter)
    where f.value is not null
  ) f group by f.begins having count(*) = (select count(*) from jsonb_each_text(filters) f where f.value is not null)
  union
  select date_bin('15 minutes', u.clicked_at, 'epoch') from uncounted_clicks u
  where u.program_id = of_program_id and u.clicked_at >= from_time and u.clicked_at < until
$function$
;

CREATE OR REPLACE FUNCTION public.flag_commissions(program_ids bigint[], commission_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  open_programs bigint[];
  open_ids bigint[];
  flagged record;
  held integer := 0;
begin
  select array_agg(locked.program_id), array_agg(locked.id) into open_programs, open_ids
  from (
    select c.program_id, c.id from commissions c
    where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids))
      and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
    order by c.program_id, c.id for no key update of c
  ) locked;
  if open_ids is null then return 0; end if;
  for flagged in
    insert into commission_reviews (program_id, commission_id, flags)
    select f.program_id, f.commission_id, jsonb_agg(jsonb_build_object('rule', f.rule, 'evidence', f.evidence) order by f.rule)
    from flags_of(open_programs, open_ids) f
    group by 1, 2 order by 1, 2
    on conflict do nothing
    returning program_id, commission_id, flags
  loop
    held := held + 1;
    update commissions c set held_at = now() where c.program_id = flagged.program_id and c.id = flagged.commission_id;
    perform write_outbox(c.program_id, 'commission_flagged', 'advertiser', c.partner_id, concat_ws(':', 'flagged', c.id, extract(epoch from c.moved_at)), jsonb_build_object(
      'commission_id', c.id, 'transaction_id', s.transaction_id, 'amount_cents', c.amount_cents - c.reversed_cents, 'currency', c.currency))
    from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where c.program_id = flagged.program_id and c.id = flagged.commission_id and not c.is_shadow;
    if wants_webhook(flagged.program_id, 'commission.flagged') then
      perform write_webhook(c.program_id, 'commission.flagged', webhook_commission(c, s.transaction_id)
        || jsonb_build_object('flags', (select string_agg(f->>'rule', ',') from jsonb_array_elements(flagged.flags) f)))
      from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
      where c.program_id = flagged.program_id and c.id = flagged.commission_id;
    end if;
  end loop;
  update commissions c set flags_checked_at = now()
  where (c.program_id, c.id) in (select * from unnest(open_programs, open_ids)) and c.flags_checked_at is null;
  return held;
end $function$
;

CREATE OR REPLACE FUNCTION public.flag_new_commissions(at_most integer, of_program_id bigint DEFAULT NULL::bigint, OUT flagged integer, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  program_ids bigint[];
  commission_ids bigint[];
begin
  select array_agg(n.program_id), array_agg(n.id), count(*) = at_most into program_ids, commission_ids, more
  from (
    select c.program_id, c.id from commissions c
    where c.flags_checked_at is null and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full'
      and (c.program_id = of_program_id or of_program_id is null)
    order by c.program_id, c.id limit at_most
  ) n;
  flagged := flag_commissions(program_ids, commission_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.flags_of(program_ids bigint[], commission_ids bigint[])
 RETURNS TABLE(program_id bigint, commission_id bigint, rule text, evidence jsonb)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET join_collapse_limit TO '1'
AS $function$
#variable_conflict use_column
declare
  reviewed jsonb[] := reviewed_commissions(program_ids, commission_ids);
begin
  if reviewed = '{}' then
    return;
  end if;
  return query
  select c.program_id, c.commission_id, f.rule, f.evidence
  from (
    select 'bot' as rule, b.* from flags_of_bots(reviewed) b
    union all select 'paid_ads', a.* from flags_of_paid_ads(reviewed) a
    union all select 'self_referral', s.* from flags_of_self_referrals(reviewed) s
    union all select 'no_page_view', w.* from flags_of_clicks_without_page(reviewed) w
    union all select 'one_address', o.* from flags_of_one_address(reviewed) o
  ) f
  cross join lateral jsonb_to_record(f.flagged) c (program_id bigint, commission_id bigint, partner_id bigint, customer_id bigint)
  where not exists (
    select from commissions o
    cross join lateral (
      select from commission_reviews v
      where v.program_id = o.program_id and v.commission_id = o.id and v.decision = 'released'
        and v.flags @> jsonb_build_array(jsonb_build_object('rule', f.rule))
      offset 0
    ) v
    where o.program_id = c.program_id and o.customer_id = c.customer_id and o.partner_id = c.partner_id
    offset 0
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.flags_of_bots(reviewed jsonb[])
 RETURNS TABLE(flagged jsonb, evidence jsonb)
 LANGUAGE sql
 STABLE
AS $function$
  select n, jsonb_build_object('user_agent', n->'user_agent', 'clicked_at', n->'clicked_at')
  from unnest(under_rule(reviewed, 'bot')) n where n->>'device_type' = 'bot'
$function$
;

CREATE OR REPLACE FUNCTION public.flags_of_clicks_without_page(reviewed jsonb[])
 RETURNS TABLE(flagged jsonb, evidence jsonb)
 LANGUAGE sql
 STABLE
AS $function$
  with bare as materialized (
    select n, (n->>'program_id')::bigint as program_id from unnest(under_rule(reviewed, 'no_page_view')) n where n->'is_bare' = 'true'
  )
  select b.n, jsonb_build_object('clicked_at', b.n->'clicked_at', 'visitors', t.visitors, 'with_page', t.with_page)
  from (select distinct program_id from bare) p
  cross join lateral (
    select sum(v.clicks) as clicks, count(*) as visitors, count(*) filter (where v.names_page) as with_page
    from generate_series(0, 29) ago
    cross join lateral (
      select count(*) as clicks, bool_or(l.page_url is not null) as names_page
      from (
        select e.id, e.visitor, e.page_url from click_events e
        where e.program_id = p.program_id and not e.is_test
          and e.click_timestamp >= day_start(utc_day(now()) - ago) and e.click_timestamp < day_start(utc_day(now()) - ago + 1)
        order by e.click_timestamp, e.id limit 100
      ) l
      group by coalesce(l.visitor, -l.id)
    ) v
  ) t
  join bare b on b.program_id = p.program_id
  where t.clicks >= 20 and t.with_page * 10 >= t.visitors * 8
$function$
;

CREATE OR REPLACE FUNCTION public.flags_of_one_address(reviewed jsonb[])
 RETURNS TABLE(flagged jsonb, evidence jsonb)
 LANGUAGE sql
 STABLE
AS $function$
  with seen as materialized (
    select n, s.*
    from unnest(under_rule(reviewed, 'one_address')) n
    cross join lateral jsonb_to_record(n) s (program_id bigint, partner_id bigint, visitor bigint, signed_up_at timestamptz)
    where s.visitor is not null
  ),
  spans as (
    select s.program_id, s.partner_id, min(s.signed_up_at) - interval '24 hours' as since, max(s.signed_up_at) + interval '24 hours' as until
    from seen s group by 1, 2
  ),
  -- Read once instead of for each commission.
  signups as materialized (
    select n.program_id, n.partner_id, u.at, e.visitor
    from spans n
    cross join lateral (
      select u.id, coalesce(u.signup_date, u.first_purchase_date) as at, u.last_click_at from customers u
      where u.program_id = n.program_id and u.partner_id = n.partner_id and (u.customer_status <> 'click' or u.provisional_lead_at is not null)
        and coalesce(u.signup_date, u.first_purchase_date) between n.since and n.until
      offset 0
    ) u
    cross join lateral (
      select e.visitor from affiliate_click_events e
      where e.program_id = n.program_id and not e.is_test and e.click_timestamp = u.last_click_at and e.customer_id = u.id limit 1
    ) e
    where e.visitor is not null
  )
  select s.n, jsonb_build_object('signups', count(*), 'first_at', min(g.at), 'last_at', max(g.at))
  from seen s
  join signups g on g.program_id = s.program_id and g.partner_id = s.partner_id and g.visitor = s.visitor
    and g.at between s.signed_up_at - interval '24 hours' and s.signed_up_at + interval '24 hours'
  group by s.n having count(*) >= signups_of_one_address()
$function$
;

CREATE OR REPLACE FUNCTION public.flags_of_paid_ads(reviewed jsonb[])
 RETURNS TABLE(flagged jsonb, evidence jsonb)
 LANGUAGE sql
 STABLE
AS $function$
  select n, jsonb_build_object('parameter', n->'ad', 'clicked_at', n->'clicked_at')
  from unnest(under_rule(reviewed, 'paid_ads')) n where n->>'ad' is not null
$function$
;

CREATE OR REPLACE FUNCTION public.flags_of_self_referrals(reviewed jsonb[])
 RETURNS TABLE(flagged jsonb, evidence jsonb)
 LANGUAGE sql
 STABLE
AS $function$
  select n, '{"matched": "email_hash"}'::jsonb
  from unnest(under_rule(reviewed, 'self_referral')) n
  cross join lateral jsonb_to_record(n) s (program_id bigint, partner_id bigint, customer_id bigint, sale_id bigint)
  cross join lateral (select r.email_hashes from partners r where r.program_id = s.program_id and r.id = s.partner_id offset 0) r
  cross join lateral (select b.hashes from hashes_of_buyer(s.program_id, s.customer_id, s.sale_id) b offset 0) b
  where n->'has_hashes' = 'true' and b.hashes && r.email_hashes
$function$
;

CREATE OR REPLACE FUNCTION public.fold_daily_money(max_rows bigint, of_program_id bigint DEFAULT NULL::bigint)
 RETURNS bigint
 LANGUAGE sql
AS $function$
with waiting as (
  select program_id, day, currency, slot from daily_money
  where slot >= 64 and (day < utc_day(now()) or day = utc_day(now()) and slot < 64 * hour_of_day(now()))
    and (program_id = of_program_id or of_program_id is null)
  order by day limit max_rows for update skip locked
),
folded as (
  delete from daily_money m using waiting w
  where m.program_id = w.program_id and m.day = w.day and m.currency = w.currency and m.slot = w.slot
  returning m.*, m.slot / 64 as hour
),
hourly as (
  select program_id, day, currency, hour, coalesce(sum(sales), 0) as sales, coalesce(sum(revenue_cents), 0) as revenue_cents,
    coalesce(sum(commission_cents), 0) as commission_cents, coalesce(sum(refunded_cents), 0) as refunded_cents
  from (select distinct program_id, day, currency from folded) days
  cross join generate_series(1, 24) hour
  left join folded using (program_id, day, currency, hour)
  group by program_id, day, currency, hour
),
kept as (
  insert into daily_money as counted (program_id, day, currency, slot, sales, sales_by_hour, revenue_cents, revenue_cents_by_hour,
    commission_cents, commission_cents_by_hour, refunded_cents, refunded_cents_by_hour)
  select program_id, day, currency, 0, sum(sales), array_agg(sales order by hour), sum(revenue_cents),
    array_agg(revenue_cents order by hour), sum(commission_cents), array_agg(commission_cents order by hour),
    sum(refunded_cents), array_agg(refunded_cents order by hour)
  from hourly group by program_id, day, currency order by program_id, day, currency
  on conflict (program_id, day, currency, slot) do update set
    sales = counted.sales + excluded.sales,
    sales_by_hour = add_hours(counted.sales_by_hour, excluded.sales_by_hour),
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    revenue_cents_by_hour = add_hours(counted.revenue_cents_by_hour, excluded.revenue_cents_by_hour),
    commission_cents = counted.commission_cents + excluded.commission_cents,
    commission_cents_by_hour = add_hours(counted.commission_cents_by_hour, excluded.commission_cents_by_hour),
    refunded_cents = counted.refunded_cents + excluded.refunded_cents,
    refunded_cents_by_hour = add_hours(counted.refunded_cents_by_hour, excluded.refunded_cents_by_hour)
)
select count(*) from folded
$function$
;

CREATE OR REPLACE FUNCTION public.fold_daily_totals(max_rows bigint, of_program_id bigint DEFAULT NULL::bigint)
 RETURNS bigint
 LANGUAGE sql
AS $function$
with waiting as (
  select program_id, day, slot from daily_totals
  where slot >= 64 and (day < utc_day(now()) or day = utc_day(now()) and slot < 64 * hour_of_day(now()))
    and (program_id = of_program_id or of_program_id is null)
  order by day limit max_rows for update skip locked
),
folded as (
  delete from daily_totals t using waiting w where t.program_id = w.program_id and t.day = w.day and t.slot = w.slot
  returning t.*, t.slot / 64 as hour
),
hourly as (
  select program_id, day, hour, coalesce(sum(clicks), 0) as clicks, coalesce(sum(leads), 0) as leads,
    coalesce(sum(conversions), 0) as conversions
  from (select distinct program_id, day from folded) days
  cross join generate_series(1, 24) hour
  left join folded using (program_id, day, hour)
  group by program_id, day, hour
),
kept as (
  insert into daily_totals as counted (program_id, day, slot, clicks, clicks_by_hour, leads, leads_by_hour, conversions, conversions_by_hour)
  select program_id, day, 0, sum(clicks), array_agg(clicks order by hour), sum(leads), array_agg(leads order by hour),
    sum(conversions), array_agg(conversions order by hour)
  from hourly group by program_id, day order by program_id, day
  on conflict (program_id, day, slot) do update set
    clicks = counted.clicks + excluded.clicks,
    clicks_by_hour = add_hours(counted.clicks_by_hour, excluded.clicks_by_hour),
    leads = counted.leads + excluded.leads,
    leads_by_hour = add_hours(counted.leads_by_hour, excluded.leads_by_hour),
    conversions = counted.conversions + excluded.conversions,
    conversions_by_hour = add_hours(counted.conversions_by_hour, excluded.conversions_by_hour)
)
select count(*) from folded
$function$
;

CREATE OR REPLACE FUNCTION public.follow_first_code(of_program_id bigint, of_customer_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  customer customers;
  first_code_id bigint;
  sale_ids bigint[];
  sale sales;
  moved sales;
begin
  select c.* into customer from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  select case when names_code(s) then s.code_id end into first_code_id from sales s
  where s.program_id = of_program_id and s.customer_id = of_customer_id and not s.is_test and s.amount_cents > 0
  order by s.sale_date, s.transaction_id limit 1;
  -- If a customer has no link, a code referred them.
  if not found or first_code_id is not distinct from customer.code_id or customer.link_id is null and first_code_id is null then
    return;
  end if;
  perform count_customers(of_program_id, of_customer_id, customer.first_purchase_date, 0, -1);
  update customers c set updated_at = now(), code_id = first_code_id, partner_id = case when c.link_id is not null then c.partner_id else (
    select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = first_code_id
  ) end
  where c.program_id = of_program_id and c.id = of_customer_id
  returning c.* into customer;
  perform count_customers(of_program_id, of_customer_id, customer.first_purchase_date, 0, 1);
  sale_ids := array(
    select s.id from sales s
    where s.program_id = of_program_id and s.customer_id = of_customer_id and not s.is_test and not names_code(s) order by s.id for no key update
  );
  perform lock_commissions(of_program_id, sale_ids);
  for sale in select s.* from sales s where s.program_id = of_program_id and s.id = any (sale_ids) order by s.sale_date, s.id loop
    moved := sale;
    moved.code_id := null;
    select d.code_id, d.partner_id, d.resolution into moved.code_id, moved.partner_id, moved.resolution
    from decide_by_code(moved, customer, first_code_id, without_steps(sale.resolution, '{code_of_first_purchase,code_or_click}')) d;
    perform move_sale(sale, moved);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.forget_email_hashes()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if (new.email, new.payout_email, new.user_id) is distinct from (old.email, old.payout_email, old.user_id) then
    new.email_hashes := null;
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.forget_email_hashes_of_user()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update partners r set email_hashes = null where r.user_id = new.id and r.email_hashes is not null;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.former_commissions(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(id bigint, external_id text, partner_id bigint, customer_id bigint, currency text, payment_id text, at timestamp with time zone, sale_cents bigint, amount_cents bigint, pays_cents bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select min(i.id), min(i.external_id), i.partner_id, max(i.customer_id), i.currency::text, max(i.payment_id), min(i.earned_at),
    max(i.sale_cents)::bigint, sum(i.amount_cents)::bigint, coalesce(sum(i.amount_cents) filter (where i.status <> 'rejected'), 0)::bigint
  from imported_commissions i
  where i.program_id = of_program_id and i.earned_at >= from_time and i.earned_at < until
  group by i.partner_id, i.currency, coalesce(i.payment_id, 'commission ' || i.id)
$function$
;

CREATE OR REPLACE FUNCTION public.former_programs(of_account_id text)
 RETURNS SETOF programs
 LANGUAGE sql
 STABLE
AS $function$
  select p.* from programs p where p.processor_former_account_id = of_account_id
  union all
  select p.* from processor_connections c join programs p on p.id = c.program_id
  where c.account_id = of_account_id and c.disconnected_at is not null
$function$
;

CREATE OR REPLACE FUNCTION public.general_rule_of(of_program_id bigint, of_group_id bigint, of_partner_id bigint)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select to_jsonb(r) - array['program_id', 'id', 'group_id', 'partner_id', 'created_at', 'since_version'] from commission_rules r
  where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
    and num_nonnulls(of_group_id, of_partner_id) = 1 and num_nonnulls(r.product_id, r.sale_type) = 0
$function$
;

CREATE OR REPLACE FUNCTION public.give_back_refunds(sale sales, commission commissions, reported processor_reversals[])
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  refund refunds;
  because text;
begin
  for refund in
    select r.* from unnest(reported) t
    join refunds named on named.program_id = sale.program_id and named.sale_id = sale.id and named.processor_reversal_id = t.reversal_id
    join refunds r on r.program_id = named.program_id and r.sale_id = named.sale_id and coalesce(r.continues_refund_id, r.id) = named.id
    where t.returned_at is not null and r.returned_at is null order by r.id
  loop
    update refunds r set returned_at = now() where r.program_id = refund.program_id and r.id = refund.id;
    continue when refund.applied_cents = 0;
    select coalesce(r.reason_text, r.reason) into because from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and sale.refunded_cents > refund.applied_cents
      and r.untaxed_cents is distinct from 0
    order by r.id desc limit 1;
    perform count_refunded(sale, -refund.applied_cents);
    perform move_refunded(sale, commission, refund, -refund.applied_cents, because);
    sale.refunded_cents := sale.refunded_cents - refund.applied_cents;
  end loop;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.give_code(sale sales, given sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  moved sales := sale;
begin
  moved.partner_id := given.partner_id;
  moved.code_id := given.code_id;
  moved.coupon := coalesce(given.coupon, sale.coupon);
  moved.resolution := given.resolution;
  moved := move_sale(sale, moved);
  perform follow_first_code(sale.program_id, sale.customer_id);
  return moved;
end $function$
;

CREATE OR REPLACE FUNCTION public.group_of_row(import imports, named text)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    select g.id from partner_groups g
    where g.program_id = import.program_id and g.removed_at is null and (g.external_id = imported_id(import, named)
      or lower(g.name) = lower(coalesce((
        select r.fields->>'name' from import_rows r
        where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'group' and r.source_id = named order by r.id limit 1
      ), named)))
    order by g.external_id = imported_id(import, named) desc nulls last limit 1
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.grow_refund_of_rest(sale sales, more_cents bigint)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  commission commissions;
  rest refunds;
  refund refunds;
begin
  if more_cents <= 0 then
    return sale;
  end if;
  select r.* into rest from refunds r
  where r.program_id = sale.program_id and r.sale_id = sale.id and r.requested_cents is null and r.continues_refund_id is null
    and r.processor_reversal_id is null and r.returned_at is null
  order by r.id desc limit 1;
  if rest.id is null then
    return sale;
  end if;
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  perform lock_balance(commission);
  refund.refund_key := format('more:%s:%s', rest.id, (
    select count(*) from refunds r where r.program_id = sale.program_id and r.sale_id = sale.id and rest.id in (r.id, r.continues_refund_id)
  ));
  refund.continues_refund_id := rest.id;
  refund.applied_cents := more_cents;
  refund.reason := rest.reason;
  refund.reason_text := rest.reason_text;
  refund := take_refund(sale, commission, refund);
  sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.had_clicked(customer customers, at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN existed_at(LEAST((customer).created_at, (customer).last_click_at), at)
;

CREATE OR REPLACE FUNCTION public.has_click_sink()
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock_shared(hashtext('click_sink'));
  return exists (select from click_sink);
end $function$
;

CREATE OR REPLACE FUNCTION public.has_reversal_in(of_account_id text, reversals jsonb, of_currency text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM jsonb_array_elements(has_reversal_in.reversals) r(value) WHERE (((r.value ->> 'currency'::text) = has_reversal_in.of_currency) OR (EXISTS (SELECT FROM processor_reversals v WHERE ((v.account_id = has_reversal_in.of_account_id) AND (v.reversal_id = (r.value ->> 'reversal_id'::text)) AND ((v.currency)::text = has_reversal_in.of_currency)))))))
;

CREATE OR REPLACE FUNCTION public.has_uncopied_clicks(of_month date, partition text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  found_rows boolean;
begin
  execute format('select exists (select from rewritten_months m join %I e
    on (e.program_id, e.is_test, e.click_timestamp, e.id) > (m.program_id, m.is_test, m.click_timestamp, m.id) where m.month = $1)', partition)
  into found_rows using of_month;
  return found_rows;
end $function$
;

CREATE OR REPLACE FUNCTION public.has_verified_owner(of_workspace_id text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select exists (
    select from active_members m join users u on u.id = m.user_id
    where m.workspace_id = of_workspace_id and m.role = 'owner' and u.email_verified
  )
$function$
;

CREATE OR REPLACE FUNCTION public.hash_of_entry(previous_hash bytea, facts jsonb)
 RETURNS bytea
 LANGUAGE sql
 IMMUTABLE
RETURN sha256((COALESCE(previous_hash, '\x'::bytea) || convert_to((facts)::text, 'UTF8'::name)))
;

CREATE OR REPLACE FUNCTION public.hashes_of_buyer(of_program_id bigint, of_customer_id bigint, of_sale_id bigint)
 RETURNS TABLE(hashes bytea[])
 LANGUAGE sql
 STABLE ROWS 1
AS $function$
  select array_remove(array[u.email_hash, u.mailbox_hash] || of_sales.hashes, null)
  from customers u
  cross join lateral (
    select array_agg(h.hash) as hashes
    from (
      select s.processor_event_id from sales s where s.program_id = u.program_id and s.id = of_sale_id
      union all (
        select s.processor_event_id from sales s
        where of_sale_id is null and s.program_id = u.program_id and s.customer_id = u.id order by s.id limit 20
      )
    ) s
    join programs p on p.id = u.program_id
    join processor_events e on e.account_id = any (accounts_of(p)) and e.event_id = s.processor_event_id
    cross join lateral unnest(array[decode(e.fact->>'email_hash', 'hex'), decode(e.fact->>'mailbox_hash', 'hex')]) h (hash)
  ) of_sales
  where u.program_id = of_program_id and u.id = of_customer_id
$function$
;

CREATE OR REPLACE FUNCTION public.hold_changed_payout_address()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from payouts w where w.program_id = new.program_id and w.partner_id = new.id and w.status in ('requested', 'in_run', 'sent', 'unclaimed', 'paid')) then
    new.payout_waits_until := now() + interval '24 hours';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.host_of_referrer(referrer_url text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN "left"("substring"(lower(referrer_url), '^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#:]+)'::text), 200)
;

CREATE OR REPLACE FUNCTION public.hour_of_bound(bound timestamp with time zone, at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  hour_of_now timestamptz := date_trunc('hour', at, 'UTC');
  tomorrow timestamptz := date_trunc('day', at, 'UTC') + interval '24 hours';
  begins timestamptz := date_trunc('hour', bound, 'UTC');
  ends timestamptz := begins + interval '1 hour';
begin
  if bound >= hour_of_now and bound < tomorrow then
    begins := hour_of_now;
    ends := tomorrow;
  end if;
  return case when least(bound, at) - begins <= greatest(least(ends, at) - bound, interval '0') then begins else ends end;
end $function$
;

CREATE OR REPLACE FUNCTION public.hour_of_day(at timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$ select extract(hour from at at time zone 'UTC')::integer + 1 $function$
;

CREATE OR REPLACE FUNCTION public.identify_buyer(of_account_id text, program programs, fact jsonb, click_id_prefix text, INOUT resolution jsonb, OUT buyer customers)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.ids_of_payment(of_account_id text, ids text[])
 RETURNS text[]
 LANGUAGE sql
 STABLE
AS $function$
  with pointed_to as (
    select id from unnest(ids) id union
    select p.transaction_id from processor_payments p where p.account_id = of_account_id and p.payment_id = any (ids)
  )
  select array(
    select id from pointed_to union
    select p.payment_id from processor_payments p join pointed_to t on t.id = p.transaction_id where p.account_id = of_account_id
    order by 1
  )
$function$
;

CREATE OR REPLACE FUNCTION public.imported_click_id(of_program_id bigint)
 RETURNS text
 LANGUAGE sql
RETURN format('cust_%s_%s%s%s'::text, ((EXTRACT(epoch FROM now()) * (1000)::numeric))::bigint, lpad(((((('x'::text || substr(replace((gen_random_uuid())::text, '-'::text, ''::text), 1, 12)))::bit(48))::bigint % '10000000000'::bigint))::text, 10, '0'::text), lpad(((((('x'::text || substr(replace((gen_random_uuid())::text, '-'::text, ''::text), 1, 12)))::bit(48))::bigint % '10000000000'::bigint))::text, 10, '0'::text), of_program_id)
;

CREATE OR REPLACE FUNCTION public.imported_id(import imports, of_source_id text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN (((import).source || ':'::text) || of_source_id)
;

CREATE OR REPLACE FUNCTION public.in_shadow_mode(of_program_id bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM programs p WHERE ((p.id = in_shadow_mode.of_program_id) AND (p.shadow_since IS NOT NULL) AND (p.shadow_ended_at IS NULL))))
;

CREATE OR REPLACE FUNCTION public.insert_sale(given sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  sale sales;
begin
  insert into sales (program_id, is_test, transaction_id, customer_id, partner_id, customer_key, sale_date, amount_cents,
    amount_source, commission_base_cents, processor_fee_cents, commission_bp, commission_months, commission_rule_id, commission_fixed_cents, commission_cap_cents,
    terms_among, lines, terms_by_line, coupon, code_id, resolution, currency, sale_type, payment_status, is_recurring,
    subscription_id, additional_data, request_id, processor_event_id, processor_session_id, processor_payment_intent_id,
    processor_charge_id, processor_invoice_id, processor_customer_id)
  values (given.program_id, given.is_test, given.transaction_id, given.customer_id, given.partner_id, given.customer_key,
    coalesce(given.sale_date, now()), given.amount_cents, coalesce(given.amount_source, 'api'), given.commission_base_cents, given.processor_fee_cents,
    given.commission_bp, given.commission_months, given.commission_rule_id, given.commission_fixed_cents, given.commission_cap_cents,
    given.terms_among, given.lines, given.terms_by_line, given.coupon, given.code_id, given.resolution, given.currency, given.sale_type,
    given.payment_status, given.is_recurring, given.subscription_id, given.additional_data, given.request_id,
    given.processor_event_id, given.processor_session_id, given.processor_payment_intent_id, given.processor_charge_id,
    given.processor_invoice_id, given.processor_customer_id)
  on conflict on constraint sales_transaction_key do nothing
  returning * into sale;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.interval_parts(interval_starts timestamp with time zone[], until timestamp with time zone)
 RETURNS TABLE(n integer, sign integer, span total_span, starts date, before smallint, last smallint)
 LANGUAGE plpgsql
 STABLE ROWS 100
AS $function$
#variable_conflict use_column
begin
  return query
  with day as materialized (
    select d.*, d.before = -1 and d.last = 95 as is_whole, date_trunc('month', d.day::timestamp)::date as month
    from days_of_intervals(interval_starts, interval_parts.until) d
  ),
  month as materialized (
    select d.n, d.month, (d.month + interval '1 month')::date as next from day d where d.is_whole group by d.n, d.month
    having 2 * count(*) >= least((d.month + interval '1 month')::date, utc_day(now()) + 1) - d.month
  )
  select m.n, 1, 'month'::total_span, m.month, null::smallint, null::smallint from month m
  union all
  select m.n, -1, 'day', m.month + o, null, null
  from month m cross join generate_series(0, m.next - m.month - 1) o
  where not exists (select from day d where d.n = m.n and d.day = m.month + o and d.is_whole)
  union all
  select d.n, 1, case when d.is_whole then 'day'::total_span end, d.day, d.before, d.last from day d
  where not d.is_whole or not exists (select from month m where m.n = d.n and m.month = d.month);
end $function$
;

CREATE OR REPLACE FUNCTION public.intervals_of_days(first_day timestamp without time zone, last_day timestamp without time zone, every text, zone text)
 RETURNS TABLE(at timestamp with time zone, local timestamp without time zone)
 LANGUAGE sql
 STABLE
AS $function$
  select day_begins(first_day, zone), first_day where every is null
  union all
  select day_begins(local, zone), local
  from generate_series(date_trunc(every, first_day), last_day, case when every <> 'hour' then ('1 ' || every)::interval end) local
  union all
  select at, at at time zone zone
  from (select day_begins(first_day, zone) as begins, day_begins(last_day + interval '1 day', zone) as ends) range
  cross join generate_series(range.begins, range.ends - interval '1 second', interval '15 minutes') at
  where every = 'hour' and (extract(minute from at at time zone zone) = 0 or at = range.begins)
$function$
;

CREATE OR REPLACE FUNCTION public.is_after_duration(sale_date timestamp with time zone, first_purchase_date timestamp with time zone, months integer)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE((sale_date > months_after(first_purchase_date, months)), false)
;

CREATE OR REPLACE FUNCTION public.is_blocked(of_program_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (select from blocks b where b.program_id = of_program_id and b.ends_at > now());
end $function$
;

CREATE OR REPLACE FUNCTION public.is_campaign(stored jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((jsonb_typeof(stored) = 'object'::text) AND ((stored - campaign_groupings()) = '{}'::jsonb) AND (NOT jsonb_path_exists(stored, '$.*?(@.type() != "string")'::jsonpath)))
;

CREATE OR REPLACE FUNCTION public.is_decided(n notifications)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN CASE (n).kind WHEN 'application_received'::text THEN (EXISTS (SELECT FROM applications a WHERE ((a.program_id = (is_decided.n).program_id) AND (a.id = (((is_decided.n).payload ->> 'application_id'::text))::bigint) AND (a.status = ANY (ARRAY['approved'::text, 'rejected'::text]))))) WHEN 'commission_flagged'::text THEN (EXISTS (SELECT FROM commission_reviews v WHERE ((v.program_id = (is_decided.n).program_id) AND (v.commission_id = (((is_decided.n).payload ->> 'commission_id'::text))::bigint) AND (v.decision IS NOT NULL)))) ELSE false END
;

CREATE OR REPLACE FUNCTION public.is_held_for_tax_form(of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((EXISTS (SELECT FROM tax_form_limits l WHERE ((l.program_id = is_held_for_tax_form.of_program_id) AND ((l.currency)::text = is_held_for_tax_form.of_currency) AND ((l.above_cents)::numeric < ((is_held_for_tax_form.of_cents)::numeric + (SELECT COALESCE(sum((w.amount_cents)::bigint), (0)::numeric) AS "coalesce" FROM payouts w WHERE ((w.program_id = is_held_for_tax_form.of_program_id) AND (w.partner_id = is_held_for_tax_form.of_partner_id) AND ((w.currency)::text = is_held_for_tax_form.of_currency) AND ((w.decided_at IS NULL) OR ((w.status = 'paid'::text) AND (w.paid_on >= date_trunc('year'::text, (now() AT TIME ZONE 'UTC'::text)))))))))))) AND (NOT (EXISTS (SELECT FROM (partners r JOIN tax_forms f ON ((f.user_id = r.user_id))) WHERE ((r.program_id = is_held_for_tax_form.of_program_id) AND (r.id = is_held_for_tax_form.of_partner_id) AND COALESCE((f.expires_on >= ((now() AT TIME ZONE 'UTC'::text))::date), true))))))
;

CREATE OR REPLACE FUNCTION public.is_in_eu(country text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (country = ANY ('{AT,BE,BG,CY,CZ,DE,DK,EE,ES,FI,FR,GR,HR,HU,IE,IT,LT,LU,LV,MT,NL,PL,PT,RO,SE,SI,SK}'::text[]))
;

CREATE OR REPLACE FUNCTION public.is_in_open_month(moment timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (date_trunc('month'::text, moment, 'UTC'::text) >= date_trunc('month'::text, now(), 'UTC'::text))
;

CREATE OR REPLACE FUNCTION public.is_listed_click(of_link_id bigint, country text, at timestamp with time zone, of_id bigint, links bigint[], of_country text, from_time timestamp with time zone, until timestamp with time zone, edge timestamp with time zone, edge_id bigint, rises boolean)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((links IS NULL) OR (of_link_id = ANY (links))) AND ((of_country IS NULL) OR (country = of_country)) AND ((from_time IS NULL) OR (at >= from_time)) AND ((until IS NULL) OR (at < until)) AND ((edge IS NULL) OR CASE WHEN rises THEN (ROW(at, of_id) > ROW(edge, edge_id)) ELSE (ROW(at, of_id) < ROW(edge, edge_id)) END))
;

CREATE OR REPLACE FUNCTION public.is_one_address(address text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((length(address) <= 320) AND (address ~ '^[^\s,;<>"\\@]+@[^\s,;<>"\\@]+$'::text))
;

CREATE OR REPLACE FUNCTION public.is_over(entry audit_log)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((entry).created_at < CASE WHEN (((entry).action ~ '^(payout|payout_run|commission)\.'::text) OR ((entry).action = ANY (ARRAY['partner.adjusted'::text, 'partner.erased'::text]))) THEN (now() - money_kept()) ELSE audit_log_begins() END)
;

CREATE OR REPLACE FUNCTION public.is_paid_out(adjustment adjustments)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM (balance_entries e JOIN payouts w ON (((w.program_id = e.program_id) AND (w.partner_id = e.partner_id) AND ((w.currency)::text = (e.currency)::text) AND (w.created_at_entry_number >= e.entry_number) AND (w.status = ANY (ARRAY['requested'::text, 'in_run'::text, 'sent'::text, 'unclaimed'::text, 'paid'::text]))))) WHERE ((e.program_id = (is_paid_out.adjustment).program_id) AND (e.adjustment_id = (is_paid_out.adjustment).id))))
;

CREATE OR REPLACE FUNCTION public.is_param_of_other_import(import imports, param text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM imports o WHERE ((o.program_id = (is_param_of_other_import.import).program_id) AND (o.id <> (is_param_of_other_import.import).id) AND (o.state = ANY (ARRAY['applying'::text, 'applied'::text])) AND (o.create_count > 0) AND (is_param_of_other_import.param = ANY (o.added_params)))))
;

CREATE OR REPLACE FUNCTION public.is_processors_own(refund refunds)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((refund).processor_reversal_id IS NOT NULL) AND is_refund_key(((refund).refund_key)::text, ('id:'::text || (refund).processor_reversal_id)))
;

CREATE OR REPLACE FUNCTION public.is_refund_key(stored text, key text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((stored = key) OR (starts_with(stored, 'sha:'::text) AND (stored = erased_refund_key(key, split_part(stored, ':'::text, 2)))))
;

CREATE OR REPLACE FUNCTION public.is_reopenable(run payout_runs)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (COALESCE(((run).paid_at > (now() - '24:00:00'::interval)), false) AND (NOT (EXISTS (SELECT FROM payout_runs r WHERE ((r.program_id = (is_reopenable.run).program_id) AND (r.id > (is_reopenable.run).id))))) AND (NOT (EXISTS (SELECT FROM payout_batches b WHERE ((b.program_id = (is_reopenable.run).program_id) AND (b.payout_run_id = (is_reopenable.run).id) AND (b.status <> 'stopped'::text))))))
;

CREATE OR REPLACE FUNCTION public.is_same_record(kind import_kind, one jsonb, other jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (NOT (EXISTS (SELECT FROM unnest(CASE is_same_record.kind WHEN 'partner'::import_kind THEN ARRAY['email'::text] WHEN 'customer'::import_kind THEN ARRAY['partner'::text, 'processor_customer_id'::text, 'customer_key'::text] WHEN 'balance'::import_kind THEN ARRAY['amount_cents'::text] WHEN 'commission'::import_kind THEN ARRAY['partner'::text, 'amount_cents'::text, 'currency'::text] ELSE NULL::text[] END) field(field) WHERE (lower((is_same_record.one ->> field.field)) <> lower((is_same_record.other ->> field.field))))))
;

CREATE OR REPLACE FUNCTION public.is_unused(of_program_id bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (NOT (EXISTS (SELECT FROM partners r WHERE (r.program_id = is_unused.of_program_id) UNION ALL SELECT FROM partner_groups g WHERE (g.program_id = is_unused.of_program_id) UNION ALL SELECT FROM commission_rules c WHERE (c.program_id = is_unused.of_program_id) UNION ALL SELECT FROM referral_links l WHERE (l.program_id = is_unused.of_program_id) UNION ALL SELECT FROM sales s WHERE ((s.program_id = is_unused.of_program_id) AND (NOT s.is_test)) UNION ALL SELECT FROM program_terms t WHERE (t.program_id = is_unused.of_program_id))))
;

CREATE OR REPLACE FUNCTION public.is_used_since(customer customers, added_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (((customer).updated_at <> ALL (ARRAY[added_at, now()])) OR (EXISTS (SELECT FROM sales s WHERE ((s.program_id = (is_used_since.customer).program_id) AND (s.customer_id = (is_used_since.customer).id) AND (s.created_at > (is_used_since.added_at - '00:01:00'::interval))))))
;

CREATE OR REPLACE FUNCTION public.issue_document(payout payouts, of_payment_number integer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  of_terms integer;
  issuer program_billing;
  payee payee_details;
  of_number bigint;
begin
  select b.* into issuer from program_billing b where b.program_id = payout.program_id;
  if not found then
    return false;
  end if;
  of_terms := self_billing_terms(payout.program_id, payout.partner_id);
  select d.* into payee from partners r join payee_details d on d.user_id = r.user_id
  where r.program_id = payout.program_id and r.id = payout.partner_id;
  if of_terms is null or payee.user_id is null or exists (
    select from documents d
    where d.program_id = payout.program_id and d.payout_id = payout.id and d.payment_number = of_payment_number and d.voided_at is null
  ) then
    return false;
  end if;
  of_number := next_document_number(payout.program_id, issuer.series);
  insert into documents (program_id, series, number, kind, payout_id, payment_number, partner_id, currency, amount_cents, paid_on, reference,
    terms_version, issuer, payee, lines, is_reverse_charge, vat_bp)
  values (payout.program_id, issuer.series, of_number, 'invoice', payout.id, of_payment_number,
    payout.partner_id, payout.currency, payout.amount_cents, payout.paid_on, payout.reference, of_terms,
    to_jsonb(issuer) - '{program_id,series,vat_bp}'::text[], to_jsonb(payee) - 'user_id', document_lines(payout, of_payment_number),
    coalesce(num_nonnulls(issuer.vat_id, payee.vat_id) = 2 and is_in_eu(issuer.country) and is_in_eu(payee.country)
      and issuer.country <> payee.country, false),
    case when issuer.country = payee.country and payee.vat_id is not null then issuer.vat_bp end);
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.issue_missing_documents(of_program_id bigint)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  issued integer := 0;
  payout payouts;
  missing_ids bigint[] := array(
    select w.id from payouts w
    join partners r on r.program_id = w.program_id and r.id = w.partner_id
    join payee_details d on d.user_id = r.user_id
    where w.program_id = of_program_id and w.status = 'paid' and self_billing_terms(w.program_id, w.partner_id) is not null and not exists (
      select from documents d
      where d.program_id = w.program_id and d.payout_id = w.id and d.kind = 'invoice' and d.voided_at is null and not exists (
        select from documents c where c.program_id = d.program_id and c.corrects_id = d.id
      )
    )
    order by w.id limit 500
  );
begin
  perform lock_payout_balances(of_program_id, missing_ids);
  for payout in
    select w.* from payouts w where w.program_id = of_program_id and w.id = any (missing_ids) and w.status = 'paid' order by w.id
  loop
    issued := issued + issue_document(payout, earlier_payments(payout))::integer;
  end loop;
  return issued;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_answer(created_row jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
begin
  update idempotency_keys k set answer = created_row
  where k.program_id = nullif(current_setting('svc.program', true), '')::bigint and k.token = current_setting('svc.token', true);
  return created_row;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_buyer(buyer customers, fact jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_commission_sound()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- A new commission for a sale or a lead. One expression is cheaper than several.
  if new.reversal = 'none' and new.reversed_cents = 0 and new.status = 'pending' and new.amount_cents > 0 and (new.kind = 'sale') = (new.sale_id is not null)
    and num_nonnulls(new.credited_at, new.paid_at, new.payout_id, new.rejected_at) = 0 then
    return new;
  end if;
  new.status := case
    when new.rejected_at is not null or new.reversal = 'full' then 'reversed'
    when new.reversal = 'partial' then 'refunded'
    when new.paid_at is not null then 'paid'
    when new.credited_at is not null then 'approved'
    else 'pending'
  end;
  if (new.kind = 'sale') <> (new.sale_id is not null) then
    raise check_violation using message = 'A sale commission needs a sale, and a lead commission must not have one.';
  end if;
  if new.reversed_cents > new.amount_cents
    or new.amount_cents = 0 and new.reversal <> 'full'
    or new.reversal = 'none' and new.rejected_at is null and new.reversed_cents > 0
    or (new.reversal = 'full' or new.rejected_at is not null) and new.reversed_cents < new.amount_cents then
    raise check_violation using message = 'The reversed amount of a commission must match its reversal.';
  end if;
  if new.held_at is not null and num_nonnulls(new.credited_at, new.rejected_at) > 0 then
    raise check_violation using message = 'A held commission is neither credited nor rejected before a decision.';
  end if;
  if new.is_shadow and new.credited_at is not null then
    raise check_violation using message = 'A commission of shadow mode is never credited.';
  end if;
  if new.paid_at is not null and new.credited_at is null or num_nulls(new.paid_at, new.payout_id) = 1 then
    raise check_violation using message = 'A paid commission was credited, and names the payout that paid it.';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_document()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  changeable text[] := '{voided_at,void_reason}';
begin
  if tg_op = 'UPDATE' and new.payee = '{}' and old.issued_at < now() - money_kept() then
    changeable := changeable || 'payee'::text;
  end if;
  if tg_op = 'DELETE' or to_jsonb(new) - changeable <> to_jsonb(old) - changeable or old.voided_at <> new.voided_at
    or old.voided_at is not null and new.voided_at is null then
    raise exception 'documents stay as they were issued' using errcode = 'restrict_violation';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_email_hashes(of_program_id bigint, of_partner_id bigint, addresses text[], hashes text[])
 RETURNS void
 LANGUAGE sql
AS $function$
  update partners r set email_hashes = array(select decode(h, 'hex') from unnest(hashes) h)
  where r.program_id = of_program_id and r.id = of_partner_id and addresses_of_partner(r) = addresses
$function$
;

CREATE OR REPLACE FUNCTION public.keep_payees(of_user_id text, payees jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into erased_payees (program_id, partner_id, identity)
  select r.program_id, r.id, p.identity::bytea
  from jsonb_to_recordset(payees) p (program_id bigint, partner_id bigint, identity text)
  join partners r on r.program_id = p.program_id and r.id = p.partner_id and r.user_id = of_user_id
  on conflict do nothing;
  if exists (
    select from partners r join balance_entries e on e.program_id = r.program_id and e.partner_id = r.id
    where r.user_id = of_user_id and (e.cause = 'payout_paid' or e.balance_after_cents < 0)
      and not exists (select from erased_payees k where k.program_id = r.program_id and k.partner_id = r.id)
  ) then
    raise exception 'a paid person has no identity' using errcode = 'check_violation', constraint = 'erased_payees_complete';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_payout()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' or (new.program_id, new.id, new.partner_id, new.currency, new.requested_cents, new.created_at, new.created_at_entry_number,
      new.payout_run_id, new.request_id) is distinct from (old.program_id, old.id, old.partner_id, old.currency, old.requested_cents,
      old.created_at, old.created_at_entry_number, old.payout_run_id, old.request_id)
    or old.status not in ('requested', 'in_run') and (new.amount_cents <> old.amount_cents or new.payout_address is distinct from old.payout_address and new.payout_address is not null)
    or new.payment_file_number is distinct from old.payment_file_number and old.payment_file_number is not null
    or new.paid_on is not null and old.paid_on is not null and (new.reference, new.paid_on) <> (old.reference, old.paid_on) then
    raise exception 'payouts stay as they were sent and paid' using errcode = 'restrict_violation';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_refund_rise(event processor_events, sale sales)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := ids_of_payment(event.account_id, array[sale.transaction_id]);
  new_total bigint := (event.fact->>'total_cents')::bigint;
  whole processor_reversals;
  totals bigint[];
begin
  select v.* into whole from processor_reversals v
  where v.account_id = event.account_id and v.charge_id = any (ids) and v.livemode = event.livemode and v.returned_at is null
    and v.total_cents > new_total and v.total_cents - v.amount_cents < new_total;
  if whole.reversal_id is not null then
    update processor_reversals v set returned_at = now(), returned_event_id = event.event_id
    where v.account_id = whole.account_id and v.reversal_id = whole.reversal_id;
    totals := array[whole.total_cents - whole.amount_cents, new_total, whole.total_cents];
  else
    select array[coalesce(max(v.total_cents), 0), new_total] into totals from processor_reversals v
    where v.account_id = event.account_id and v.charge_id = any (ids) and v.livemode = event.livemode;
  end if;
  insert into processor_reversals (account_id, reversal_id, livemode, reason, charge_id, amount_cents, total_cents, currency, event_id)
  -- One connection can receive orders from both test mode and live mode.
  select event.account_id, format('%s:%s-%s%s', sale.transaction_id, totals[n], totals[n + 1], case when not event.livemode then ':test' end),
    event.livemode, 'refund', sale.transaction_id, totals[n + 1] - totals[n], totals[n + 1], event.fact->>'currency', event.event_id
  from generate_series(1, cardinality(totals) - 1) n where totals[n + 1] > totals[n]
  on conflict (account_id, reversal_id) do nothing;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_reversals(event processor_events, fact jsonb, sale_currency text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into processor_reversals as stored (account_id, reversal_id, livemode, reason, reason_text, payment_intent_id, charge_id,
    invoice_id, amount_cents, untaxed_cents, currency, event_id, returned_event_id, returned_at, returned_by, marked_id)
  select distinct on (t.reversal_id) event.account_id, t.reversal_id, event.livemode, t.reason, t.reason_text, fact->>'payment_intent_id', fact->>'charge_id',
    fact->>'invoice_id', t.amount_cents, t.untaxed_cents, t.currency, case when not t.returned then event.event_id end, case when t.returned then event.event_id end,
    case when t.returned then now() end, t.returned_by, t.marked_id
  from rows from (jsonb_to_recordset(fact->'reversals')
    as (reversal_id text, reason text, reason_text text, amount_cents bigint, untaxed_cents bigint, currency text, returned boolean, returned_by text,
      marked_id text)) with ordinality
    as t (reversal_id, reason, reason_text, amount_cents, untaxed_cents, currency, returned, returned_by, marked_id, place)
  order by t.reversal_id, t.currency = sale_currency desc, t.place
  on conflict (account_id, reversal_id) do update set
    amount_cents = case when stored.currency <> sale_currency and excluded.currency = sale_currency then excluded.amount_cents
      else stored.amount_cents end,
    currency = case when excluded.currency = sale_currency then excluded.currency else stored.currency end,
    event_id = coalesce(stored.event_id, excluded.event_id),
    returned_event_id = coalesce(stored.returned_event_id, excluded.returned_event_id),
    returned_at = coalesce(stored.returned_at, excluded.returned_at),
    returned_by = coalesce(stored.returned_by, excluded.returned_by),
    marked_id = coalesce(stored.marked_id, excluded.marked_id);
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_second_loss(event processor_events)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  again_id text := event.fact#>>'{reversals,0,reversal_id}' || ':again';
  moves record;
  is_lost_again boolean;
begin
  if event.event_type not in ('charge.dispute.funds_withdrawn', 'charge.dispute.funds_reinstated') then
    return;
  end if;
  select count(*) filter (where is_return) as returns, count(*) filter (where not is_return) as losses,
    max(event_created_at) filter (where is_return) as returned_at, max(event_created_at) filter (where not is_return) as lost_at,
    max(event_id) filter (where is_return) as return_id into moves
  from (
    select m.event_id, m.event_created_at, m.event_type = 'charge.dispute.funds_reinstated' as is_return from moves_of_dispute(event) m
    union all
    select v.returned_event_id, v.returned_at, true from processor_reversals v
    where v.account_id = event.account_id and v.reversal_id = event.fact#>>'{reversals,0,reversal_id}' and v.returned_event_id <> event.event_id
      and not exists (select from processor_events e where e.account_id = v.account_id and e.event_id = v.returned_event_id)
  ) m;
  is_lost_again := moves.lost_at > moves.returned_at or moves.lost_at = moves.returned_at and moves.losses > moves.returns;
  if is_lost_again then
    insert into processor_reversals (account_id, reversal_id, livemode, reason, payment_intent_id, charge_id, invoice_id, amount_cents, currency,
      event_id)
    select m.account_id, again_id, m.livemode, 'chargeback', m.fact->>'payment_intent_id', m.fact->>'charge_id', m.fact->>'invoice_id',
      (m.fact#>>'{reversals,0,amount_cents}')::bigint, m.fact#>>'{reversals,0,currency}', m.event_id
    from moves_of_dispute(event) m where m.event_type = 'charge.dispute.funds_withdrawn'
    order by m.event_created_at desc, m.event_id = event.event_id desc, m.event_id limit 1
    on conflict (account_id, reversal_id) do nothing;
  elsif moves.returns > 0 then
    update processor_reversals v set returned_event_id = moves.return_id, returned_at = now()
    where v.account_id = event.account_id and v.reversal_id = again_id and v.returned_at is null;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_session(of_program_id bigint, buyer_id bigint, fact jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into processor_sessions as kept (program_id, session_id, customer_id, asked_total, asked_untaxed)
  values (of_program_id, fact->>'session_id', buyer_id, (fact#>>'{requested,total}')::bigint, (fact#>>'{requested,untaxed}')::bigint)
  on conflict (program_id, session_id) do update set customer_id = excluded.customer_id where kept.customer_id is null;
end $function$
;

CREATE OR REPLACE FUNCTION public.keep_test_lead(of_program_id bigint, source text, at timestamp with time zone, lead_id bigint, customer_key text, session_id text, page_url text, additional_data jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
begin
  insert into affiliate_lead_events (program_id, is_test, test_source, lead_timestamp, id, customer_key, session_id, page_url, additional_data)
  values (of_program_id, true, source, at, lead_id, customer_key, session_id, page_url, additional_data)
  on conflict do nothing;
end $function$
;

CREATE OR REPLACE FUNCTION public.known_buyer(of_account_id text, of_test boolean, fact jsonb)
 RETURNS customers
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.known_of_past(of_account_id text, past_objects jsonb)
 RETURNS TABLE(place integer, is_test boolean)
 LANGUAGE sql
 STABLE
AS $function$
  with objects as (
    select (o.place - 1)::integer as place, o.fact from jsonb_array_elements(past_objects) with ordinality o (fact, place)
  ), named as (
    select o.place, i.id from objects o cross join jsonb_array_elements_text(o.fact->'payment_ids') i (id)
  ), pointed_to as (
    select n.place, n.id from named n union
    select n.place, p.transaction_id from named n join processor_payments p on p.account_id = of_account_id and p.payment_id = n.id
  ), of_payment as (
    select t.place, t.id from pointed_to t union
    select t.place, p.payment_id from pointed_to t join processor_payments p on p.account_id = of_account_id and p.transaction_id = t.id
  )
  select i.place, s.is_test from of_payment i cross join (values (false), (true)) mode (is_test)
  cross join connected_programs(of_account_id) p
  join sales s on s.program_id = p.id and s.is_test = mode.is_test and s.transaction_id = i.id
  union
  select o.place, not m.livemode from objects o join processor_customer_metadata m
    on m.account_id = of_account_id and m.processor_customer_id = o.fact->>'processor_customer_id'
    and (m.program_id is not null or m.click_id is not null)
  union
  select o.place, mode.is_test from objects o cross join (values (false), (true)) mode (is_test)
  where (known_buyer(of_account_id, mode.is_test, o.fact)).id is not null
$function$
;

CREATE OR REPLACE FUNCTION public.known_transaction(given sales, account_ids text[])
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  of_account_id text;
begin
  foreach of_account_id in array account_ids loop
    perform lock_payments(of_account_id, array[given.transaction_id]);
    given.transaction_id := coalesce(
      (sale_of_program(given.program_id, of_account_id, given.is_test, array[given.transaction_id])).transaction_id, given.transaction_id);
  end loop;
  return given.transaction_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.knows_promotions(of_account_id text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM partner_codes k WHERE ((k.account_id = knows_promotions.of_account_id) AND (k.promotion_code_id IS NOT NULL))))
;

CREATE OR REPLACE FUNCTION public.label_of_group(of_program_id bigint, name text, value text)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
  select case name
    when 'partner' then (select p.name::text from partners p where p.program_id = of_program_id and p.id = value::bigint)
    when 'link' then (select k.code::text from referral_links k where k.program_id = of_program_id and k.id = value::bigint)
    when 'code' then (select k.code::text from partner_codes k where k.program_id = of_program_id and k.id = value::bigint)
  end
$function$
;

CREATE OR REPLACE FUNCTION public.lacks_discounts(event processor_events, ids text[], answer jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return (event).fact->>'sale' is not null and (event).fact ? 'asks_discounts_of' and not answer ? 'promotion_code_ids'
    and knows_promotions(event.account_id) and not names_code(sale_of_payments(event.account_id, not event.livemode, ids));
end $function$
;

CREATE OR REPLACE FUNCTION public.lacks_invoice(event processor_events, answer jsonb)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((((event).fact ->> 'asks_invoice_of'::text) IS NOT NULL) AND (NOT (answer ? 'invoice_id'::text)) AND (NOT (EXISTS (SELECT FROM processor_payments p WHERE ((p.account_id = (lacks_invoice.event).account_id) AND ((p.payment_id = ((lacks_invoice.event).fact ->> 'asks_invoice_of'::text)) OR ((p.transaction_id = ((lacks_invoice.event).fact ->> 'asks_invoice_of'::text)) AND (rank_of_id(p.payment_id) = 1))))))))
;

CREATE OR REPLACE FUNCTION public.last_account_of(program programs)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE((program).processor_account_id, (program).processor_former_account_id)
;

CREATE OR REPLACE FUNCTION public.last_accounts_of(program programs)
 RETURNS text[]
 LANGUAGE sql
 STABLE
RETURN (ARRAY[last_account_of(program)] || ARRAY(SELECT c.account_id FROM processor_connections c WHERE (c.program_id = (last_accounts_of.program).id)))
;

CREATE OR REPLACE FUNCTION public.lasting_names(fact jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN array_remove(ARRAY[('customer '::text || (fact ->> 'processor_customer_id'::text)), ('subscription '::text || COALESCE((fact ->> 'subscription_id'::text), (fact #>> '{sale,subscription_id}'::text[])))], NULL::text)
;

CREATE OR REPLACE FUNCTION public.lead_terms(customer customers, OUT commission_cents bigint, OUT rule_id bigint, OUT currency text, OUT webhook_types text[], OUT user_id text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.lead_terms_of(of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint)
 RETURNS SETOF commission_rules
 LANGUAGE sql
 STABLE ROWS 1
AS $function$
  select r.* from rules_of(of_program_id, version, of_partner_id, of_group_id) r
  where num_nonnulls(r.partner_id, r.group_id) > 0 and r.lead_commission_cents is not null
  order by r.partner_id limit 1
$function$
;

CREATE OR REPLACE FUNCTION public.learn_payments(of_account_id text, ids text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  known text[] := array(select id from unnest(ids) id where id is not null union
    select p.transaction_id from processor_payments p where p.account_id = of_account_id and p.payment_id = any (ids));
  highest text := (select id from unnest(known) id order by rank_of_id(id) desc, id limit 1);
begin
  known := array(select id from unnest(known) id where rank_of_id(id) < rank_of_id(highest));
  update processor_payments p set transaction_id = highest where p.account_id = of_account_id and p.transaction_id = any (known);
  insert into processor_payments (account_id, payment_id, transaction_id)
  select of_account_id, id, highest from unnest(known) id order by id
  on conflict do nothing;
end $function$
;

CREATE OR REPLACE FUNCTION public.learn_untaxed(sale sales, commission commissions, reported processor_reversals[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update refunds r set untaxed_cents = case r.id when named.id then t.untaxed_cents else 0 end
  from unnest(reported) t
  join refunds named on named.program_id = sale.program_id and named.sale_id = sale.id and named.processor_reversal_id = t.reversal_id
  where t.untaxed_cents is not null and r.program_id = named.program_id and r.sale_id = named.sale_id
    and coalesce(r.continues_refund_id, r.id) = named.id and r.untaxed_cents is null;
  if found and commission.id is not null then
    perform correct_commission(sale, c.first_purchase_date)
    from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.leave_shadow_mode(of_program_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from programs p where p.id = of_program_id for update;
  if in_shadow_mode(of_program_id) then
    update programs p set shadow_ended_at = clock_timestamp() where p.id = of_program_id;
    perform write_program_audit(of_program_id, 'shadow_mode.left', null, jsonb_build_object('commissions', (
      select count(*) from commissions c where c.program_id = of_program_id and c.is_shadow)));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.leave_without_program(event processor_events, ids text[])
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  named_id text := event.fact->>'program_id';
  may_be_named boolean := case when named_id is null then event.fact->>'awaits_payment' = 'true' else event.fact->>'named_by' = 'customer' end;
begin
  event := park_disconnected(event, ids);
  if event.outcome is not null then
    return event;
  end if;
  if may_be_named then
    event.awaits := awaited_names(event.account_id, lasting_names(event.fact));
  end if;
  return with_outcome(event, 'ignored', coalesce('program_not_connected ' || named_id, 'no_program_named'));
end $function$
;

CREATE OR REPLACE FUNCTION public.left_under_cap(sale sales)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return case when sale.commission_cap_cents is not null then sale.commission_cap_cents - earlier_commissions(sale) end;
end $function$
;

CREATE OR REPLACE FUNCTION public.limit_values(figures grouped_figure[])
 RETURNS grouped_figure[]
 LANGUAGE sql
 STABLE
AS $function$
  with summed as materialized (
    select program_id, grouping_name, metric, currency, day, value, quarter, sum(amount)::bigint as amount from unnest(figures)
    where amount <> 0 group by 1, 2, 3, 4, 5, 6, 7
  ),
  new as materialized (
    select s.program_id, s.grouping_name, s.day, s.value, row_number() over (
      partition by s.program_id, s.grouping_name, s.day order by sum(s.amount) desc, s.value
    ) as place
    from summed s
    where s.grouping_name > 'device' and not exists (
      select from grouped_totals t where t.program_id = s.program_id and t.grouping_name = s.grouping_name and t.span = 'day' and t.starts = s.day
        and t.value = s.value
    )
    group by s.program_id, s.grouping_name, s.day, s.value
  ),
  beyond as materialized (
    select n.* from new n
    join (
      select d.*, (
        select count(distinct t.value) from grouped_totals t where t.program_id = d.program_id and t.grouping_name = d.grouping_name
          and t.span = 'day' and t.starts = d.day and t.value <> ''
      ) as existing
      from (select distinct program_id, grouping_name, day from new) d
    ) of_day using (program_id, grouping_name, day)
    where of_day.existing + n.place > max_values_of_day()
  )
  select array_agg(row(s.program_id, s.grouping_name, s.metric, s.currency, s.day, case when b.place is null then s.value else '' end, s.quarter,
    s.amount)::grouped_figure)
  from summed s left join beyond b using (program_id, grouping_name, day, value)
$function$
;

CREATE OR REPLACE FUNCTION public.line_of_click(e click_events, version bigint)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (json_build_object('program_id', (e).program_id, 'at_us', microseconds((e).click_timestamp), 'id', (e).id, 'version', version, 'link_id', (e).link_id, 'is_bot', COALESCE(((e).device_type = 'bot'::text), false), 'origin', values_of_click(e), 'event', (jsonb_strip_nulls((to_jsonb(e) - '{visitor,additional_data}'::text[])))::text))::text
;

CREATE OR REPLACE FUNCTION public.links_listed(of_program_id bigint, of_partner_id bigint, of_link_id bigint)
 RETURNS bigint[]
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((of_link_id IS NOT NULL) OR (of_partner_id IS NOT NULL)) THEN ARRAY(SELECT l.id FROM referral_links l WHERE ((l.program_id = links_listed.of_program_id) AND (l.id = COALESCE(links_listed.of_link_id, l.id)) AND (l.partner_id = COALESCE(links_listed.of_partner_id, l.partner_id)))) ELSE NULL::bigint[] END
;

CREATE OR REPLACE FUNCTION public.list_clicks(of_program_id bigint, of_partner_id bigint, of_link_id bigint, of_country text, from_time timestamp with time zone, until timestamp with time zone, edge timestamp with time zone, edge_id bigint, rises boolean, max_rows integer)
 RETURNS SETOF click_events
 LANGUAGE plpgsql
 STABLE ROWS 50
AS $function$
#variable_conflict use_column
declare
  links constant bigint[] := links_listed(of_program_id, of_partner_id, of_link_id);
  name constant grouping_name := case when of_link_id is not null then 'link' when of_partner_id is not null then 'partner' else 'country' end;
  wanted constant text := coalesce(of_link_id::text, of_partner_id::text, left(of_country, 200));
  -- The quarters of clicks in about the last minute, which the totals don't contain yet.
  uncounted constant timestamptz[] := array(
    select distinct date_bin('15 minutes', u.clicked_at, 'epoch') from uncounted_clicks u
    where u.program_id = of_program_id and (links is null or u.link_id = any (links))
  );
  -- The days with such clicks, in the order of the list.
  days constant date[] := array(
    select d.day from (
      select t.day from grouped_quarters t
      where t.program_id = of_program_id and t.grouping_name = name and t.metric in ('clicks', 'bot_clicks') and t.currency = '' and t.value = wanted
      union
      select utc_day(u) from unnest(uncounted) u
    ) d
    where d.day >= coalesce(greatest(utc_day(from_time), case when rises then utc_day(edge) end, (select utc_day(k.since) from clicks_kept k)), '-infinity')
      and d.day <= coalesce(least(utc_day(until), case when not rises then utc_day(edge) end), 'infinity')
    order by case when rises then d.day end, d.day desc
  );
  place integer := 1;
  day_count integer := 1;
  quarters timestamptz[];
  rows_left integer := max_rows;
  found_rows integer;
begin
  while rows_left > 0 and place <= cardinality(days) loop
    quarters := array(
      select day_start(t.day) + q.quarter * interval '15 minutes'
      from grouped_quarters t cross join lateral unnest(t.quarters) q (quarter)
      where t.program_id = of_program_id and t.grouping_name = name and t.metric in ('clicks', 'bot_clicks') and t.currency = ''
        and t.day = any (days[place:place + day_count - 1]) and t.value = wanted
      union
      select u from unnest(uncounted) u where utc_day(u) = any (days[place:place + day_count - 1])
    );
    -- Joins the texts of a click only to the returned rows.
    return query
      select e.* from (
        select k.click_timestamp, k.id from unnest(quarters) q (begins)
        cross join lateral (
          select k.link_id, k.geo_country, k.click_timestamp, k.id from affiliate_click_events k
          where k.program_id = of_program_id and not k.is_test
            and k.click_timestamp >= q.begins and k.click_timestamp < q.begins + interval '15 minutes'
          offset 0
        ) k
        where is_listed_click(k.link_id, k.geo_country, k.click_timestamp, k.id, links, of_country, from_time, until, edge, edge_id, rises)
        order by case when rises then k.click_timestamp end, case when rises then k.id end, k.click_timestamp desc, k.id desc
        limit rows_left
      ) k
      cross join lateral (
        select e.* from click_events e where e.program_id = of_program_id and e.click_timestamp = k.click_timestamp and e.id = k.id offset 0
      ) e
      order by case when rises then e.click_timestamp end, case when rises then e.id end, e.click_timestamp desc, e.id desc;
    get diagnostics found_rows = row_count;
    rows_left := rows_left - found_rows;
    place := place + day_count;
    day_count := least(2 * day_count, ceil(day_count::numeric * rows_left / greatest(found_rows, 1)));
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.list_clicks_of_customers(of_program_id bigint, customer_ids bigint[], of_partner_id bigint, of_link_id bigint, of_country text, from_time timestamp with time zone, until timestamp with time zone, edge timestamp with time zone, edge_id bigint, rises boolean, max_rows integer)
 RETURNS SETOF click_events
 LANGUAGE plpgsql
 STABLE ROWS 50
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_seqscan TO 'off'
 SET enable_indexscan TO 'off'
AS $function$
declare
  links constant bigint[] := links_listed(of_program_id, of_partner_id, of_link_id);
  -- Reads only the months in between. As in an erasure, the first month allows for wrong browser clocks.
  first timestamptz;
  last timestamptz;
begin
  select greatest(min(least(c.created_at, click_id_created_at(c.click_id))) - interval '1 day', from_time, case when rises then edge end),
    least(max(c.last_click_at), until, case when not rises then edge end) into first, last
  from customers c where c.program_id = of_program_id and c.id = any (customer_ids);
  return query
    select e.* from click_events e
    where e.program_id = of_program_id and not e.is_test and e.customer_id = any (customer_ids) and e.click_timestamp between first and last
      and is_listed_click(e.link_id, e.geo_country, e.click_timestamp, e.id, links, of_country, from_time, until, edge, edge_id, rises)
    order by case when rises then e.click_timestamp end, case when rises then e.id end, e.click_timestamp desc, e.id desc
    limit max_rows;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_balance(commission commissions)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if commission.credited_at is not null then
    perform from balances b
    where b.program_id = commission.program_id and b.partner_id = commission.partner_id and b.currency = commission.currency
    for no key update;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_commissions(of_program_id bigint, sale_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from commissions c where c.program_id = of_program_id and c.sale_id = any (sale_ids) order by c.id for no key update;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select c.program_id, c.partner_id, c.currency from commissions c
    where c.program_id = of_program_id and c.sale_id = any (sale_ids) and c.credited_at is not null
  )
  order by b.partner_id, b.currency for no key update;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_customers_of_payment(of_account_id text, ids text[], buyer_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  all_ids text[] := ids_of_payment(of_account_id, ids);
  customer_ids bigint[];
begin
  select array_agg(distinct s.customer_id) into customer_ids from programs_of_account(of_account_id) p join sales s on s.program_id = p.id
  where s.transaction_id = any (all_ids) and s.customer_id is not null;
  perform from customers c join programs_of_account(of_account_id) p on p.id = c.program_id
  where c.id = any (customer_ids || buyer_id) order by c.program_id, c.id for no key update of c;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_exports(program_ids bigint[])
 RETURNS void
 LANGUAGE sql
AS $function$
  select pg_advisory_xact_lock(hashtextextended('export', x.id))
  from (select distinct i.id from unnest(program_ids) i (id) order by i.id) x
$function$
;

CREATE OR REPLACE FUNCTION public.lock_given_names(account_ids text[], of_customer_key text, of_click_id text, of_email_hash bytea)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_account_id text;
begin
  foreach of_account_id in array account_ids loop
    perform lock_ids(of_account_id, array['key ' || of_customer_key, 'click ' || of_click_id, 'email ' || encode(of_email_hash, 'hex')]);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_ids(of_account_id text, ids text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(key) from (
    select min(lock_place(id)) as place, hashtextextended(of_account_id || ' ' || id, 0) as key
    from unnest(ids) id where id is not null group by 2 order by 1, 2
  ) keys;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_objects_of_rows(changed import_rows[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from customers c
  where (c.program_id, c.id) in (select r.program_id, r.target_id from unnest(changed) r where r.kind = 'customer')
  order by c.id for update;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select r.program_id, partner_of_row(r), r.fields->>'currency' from unnest(changed) r where r.kind = 'balance'
  )
  order by b.program_id, b.partner_id, b.currency for no key update;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_payments(of_account_id text, ids text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  wanted text[] := ids_of_payment(of_account_id, ids);
begin
  loop
    begin
      perform lock_ids(of_account_id, wanted);
      exit when wanted @> ids_of_payment(of_account_id, ids);
      raise sqlstate 'SVCLK';
    exception when sqlstate 'SVCLK' then
      wanted := ids_of_payment(of_account_id, ids);
    end;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_payout(of_program_id bigint, of_payout_id bigint)
 RETURNS payouts
 LANGUAGE plpgsql
AS $function$
declare
  payout payouts;
begin
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) = (
    select w.program_id, w.partner_id, w.currency from payouts w where w.program_id = of_program_id and w.id = of_payout_id
  )
  for no key update;
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  return payout;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_payout_balances(of_program_id bigint, payout_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform from balances b
  where exists (
    select from payouts w where w.program_id = of_program_id and w.id = any (payout_ids)
      and w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency
  )
  order by b.program_id, b.partner_id, b.currency for no key update;
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_payout_payments(of_program_id bigint, payout_ids bigint[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  -- With `offset`, Postgres looks up each partner's commissions, even if its statistics don't include a program's many new ones yet.
  perform from commissions c
  where c.program_id = of_program_id and c.id = any (array(
    select u.id from payouts w
    cross join lateral (
      select n.id from commissions n
      where n.program_id = w.program_id and n.partner_id = w.partner_id and n.currency = w.currency and n.credited_at is not null
        and n.paid_at is null
      offset 0
    ) u
    where w.program_id = of_program_id and w.id = any (payout_ids) and w.decided_at is null
    union all
    select l.commission_id from payout_line_entries l
    where l.program_id = of_program_id and l.payout_id = any (payout_ids) and not l.is_returned
  ))
  order by c.id for no key update;
  perform lock_payout_balances(of_program_id, payout_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.lock_place(id text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN starts_with(id, 'customer '::text) THEN 4 WHEN (POSITION((' '::text) IN (id)) > 0) THEN 5 ELSE rank_of_id(id) END
;

CREATE OR REPLACE FUNCTION public.locked_payable_cents(of_program_id bigint, of_partner_id bigint, of_currency text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
begin
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency for no key update;
  if not found then
    return 0;
  end if;
  return (
    select p.payable_cents from payable_balances p
    where p.program_id = of_program_id and p.partner_id = of_partner_id and p.currency = of_currency
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.log_event(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
begin
  insert into processor_events as stored (account_id, event_id, event_type, program_id, livemode, outcome, reason, waits_for, awaits, fact,
    resolution, payload, event_created_at)
  values (event.account_id, event.event_id, event.event_type,
    coalesce(event.program_id, (select c.program_id from processor_connections c where c.account_id = event.account_id)), event.livemode, event.outcome, event.reason,
    event.waits_for, event.awaits, event.fact, event.resolution, event.payload, event.event_created_at)
  on conflict (account_id, event_id) do update set
    deliveries = stored.deliveries + 1,
    last_received_at = now(),
    program_id = coalesce(excluded.program_id, stored.program_id),
    fact = case when stored.fact ? 'unread' then excluded.fact else stored.fact end,
    payload = excluded.payload,
    -- A recorded sale still waits for its buyer if its event is repeated while the account is disconnected.
    awaits = case when stored.outcome = 'recorded' and excluded.outcome in ('parked', 'ignored') then stored.awaits else excluded.awaits end,
    resolution = case when stored.outcome = 'recorded' then stored.resolution else excluded.resolution end,
    outcome = case when stored.outcome = 'recorded' then stored.outcome else excluded.outcome end,
    reason = case when stored.outcome = 'recorded' then stored.reason else excluded.reason end,
    waits_for = case when stored.outcome <> 'recorded' then excluded.waits_for end
  returning * into event;
  return event;
end $function$
;

CREATE OR REPLACE FUNCTION public.mail_choices_of(of_user_id text)
 RETURNS TABLE(topic text, frequency text)
 LANGUAGE sql
 STABLE
AS $function$
  select t::text, mail_frequency_of(of_user_id, t)::text from unnest(enum_range(null::mail_topic)) t
$function$
;

CREATE OR REPLACE FUNCTION public.mail_frequency_of(of_user_id text, of_topic mail_topic)
 RETURNS mail_frequency
 LANGUAGE sql
 STABLE
RETURN COALESCE((SELECT c.frequency FROM mail_choices c WHERE ((c.user_id = mail_frequency_of.of_user_id) AND (c.topic = mail_frequency_of.of_topic))), CASE WHEN (of_topic = ANY (ARRAY['earned'::mail_topic, 'reversed'::mail_topic, 'review'::mail_topic])) THEN 'daily'::mail_frequency WHEN (of_topic = 'statement'::mail_topic) THEN 'never'::mail_frequency ELSE 'at_once'::mail_frequency END)
;

CREATE OR REPLACE FUNCTION public.mail_recipients(of_program_id bigint, of_audience text, of_partner_id bigint, reading_roles text[])
 RETURNS TABLE(user_id text, email text, user_name text)
 LANGUAGE sql
 STABLE
AS $function$
  select u.id, u.email, u.name::text
  from programs p
  cross join lateral (
    select r.user_id from partners r
    where of_audience = 'partner' and r.program_id = p.id and r.id = of_partner_id and r.closed_at is null
    union all
    select m.user_id from program_roles m
    where of_audience = 'advertiser' and m.program_id = p.id and not m.is_locked and m.roles && reading_roles
  ) recipient
  join users u on u.id = recipient.user_id
  where p.id = of_program_id and p.deleted_at is null and u.email_verified
    and not exists (select from refused_addresses a where a.email = u.email)
$function$
;

CREATE OR REPLACE FUNCTION public.mail_topic_of(kind text)
 RETURNS mail_topic
 LANGUAGE sql
 IMMUTABLE
RETURN (CASE kind WHEN 'commission_earned'::text THEN 'earned'::text WHEN 'adjustment_added'::text THEN 'earned'::text WHEN 'adjustment_deducted'::text THEN 'reversed'::text WHEN 'commission_reversed'::text THEN 'reversed'::text WHEN 'commission_refunded'::text THEN 'reversed'::text WHEN 'commission_corrected'::text THEN 'reversed'::text WHEN 'payout_reduced'::text THEN 'reversed'::text WHEN 'payout_paid'::text THEN 'paid'::text WHEN 'payout_refused'::text THEN 'paid'::text WHEN 'payout_returned'::text THEN 'paid'::text WHEN 'payout_unclaimed'::text THEN 'paid'::text WHEN 'payout_held'::text THEN 'paid'::text WHEN 'payout_address_needed'::text THEN 'paid'::text WHEN 'tax_form_needed'::text THEN 'paid'::text WHEN 'statement_ready'::text THEN 'statement'::text WHEN 'program_message'::text THEN 'message'::text WHEN 'payout_due'::text THEN 'payout_due'::text WHEN 'application_received'::text THEN 'application'::text WHEN 'processor_disconnected'::text THEN 'trouble'::text WHEN 'webhook_disabled'::text THEN 'trouble'::text WHEN 'host_disabled'::text THEN 'trouble'::text WHEN 'postback_disabled'::text THEN 'postback'::text ELSE 'review'::text END)::mail_topic
;

CREATE OR REPLACE FUNCTION public.mailbox_of(email text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  select case when domain in ('gmail.com', 'googlemail.com') then replace(local, '.', '') || '@gmail.com' else local || '@' || domain end
  from (select regexp_replace(split_part(lower(email), '@', 1), '(.)[+].*$', '\1') local, split_part(lower(email), '@', 2) domain) parts
$function$
;

CREATE OR REPLACE FUNCTION public.make_event_partitions(months_ahead integer)
 RETURNS SETOF text
 LANGUAGE plpgsql
AS $function$
declare
  parent text;
  months date[];
  month date;
  partition text;
  key text;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  foreach parent in array array['affiliate_click_events', 'affiliate_lead_events'] loop
    key := case parent when 'affiliate_click_events' then 'click_timestamp' else 'lead_timestamp' end;
    execute format(
      'select array(select (month_of(now()) + make_interval(months => n))::date from generate_series(0, $1) n union (
        select distinct month_of(%I) as month from %I where %I >= ''2020-01-01'' order by month limit 12
      ) order by 1)', key, parent || '_default', key) into months using months_ahead;
    foreach month in array months loop
      partition := parent || '_' || to_char(month, 'YYYY_MM');
      continue when to_regclass(partition) is not null;
      execute format('create table %I (like %I including defaults including constraints)', partition, parent);
      execute format('lock table %I in access exclusive mode', parent || '_default');
      execute format(
        'with moved as (delete from %1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into %5$I select * from moved',
        parent || '_default', key, month::text || ' 00:00+00', (month + interval '1 month')::date::text || ' 00:00+00', partition);
      execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, partition,
        month::text || ' 00:00+00', (month + interval '1 month')::date::text || ' 00:00+00');
      return next partition;
    end loop;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.make_group(of_program_id bigint, group_name text, rules jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  created_id bigint;
begin
  insert into partner_groups (program_id, name) values (of_program_id, group_name) returning id into created_id;
  perform save_rules(of_program_id, created_id, null, rules);
  return created_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.mark_paid(payout payouts)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  paid record;
begin
  select array_agg(distinct l.commission_id) as commission_ids, array_agg(distinct l.adjustment_id) as adjustment_ids into paid
  from payout_line_entries l
  where l.program_id = payout.program_id and l.payout_id = payout.id and not l.is_returned and l.amount_cents > 0;
  -- Each statement adds up the unpaid parts once, because a payment can contain thousands of commissions.
  with unpaid as materialized (
    select u.commission_id, sum(u.unpaid_cents) as cents from unpaid_entries u
    where u.program_id = payout.program_id and u.partner_id = payout.partner_id and u.currency = payout.currency
    group by u.commission_id
  )
  update commissions c set paid_at = now(), payout_id = payout.id
  where c.program_id = payout.program_id and c.id = any (paid.commission_ids) and c.paid_at is null and c.amount_cents > c.reversed_cents
    and not exists (select from unpaid u where u.commission_id = c.id and u.cents > 0);
  with unpaid as materialized (
    select u.adjustment_id from unpaid_entries u
    where u.program_id = payout.program_id and u.partner_id = payout.partner_id and u.currency = payout.currency
      and u.adjustment_id is not null
  )
  update adjustments a set paid_at = now(), payout_id = payout.id
  where a.program_id = payout.program_id and a.id = any (paid.adjustment_ids) and a.paid_at is null and a.amount_cents > 0
    and not exists (select from unpaid u where u.adjustment_id = a.id);
end $function$
;

CREATE OR REPLACE FUNCTION public.max_rows_read(filters jsonb)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN (15000 / (SELECT LEAST(count(*), (2)::bigint) AS "least" FROM jsonb_object_keys(max_rows_read.filters) jsonb_object_keys(jsonb_object_keys)))
;

CREATE OR REPLACE FUNCTION public.max_values_of_day()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN 200
;

CREATE OR REPLACE FUNCTION public.max_values_of_visitor()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN 10
;

CREATE OR REPLACE FUNCTION public.may_bind_customer(given sales)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ((NOT (given).is_test) AND (NOT (EXISTS (SELECT FROM sales s WHERE ((s.program_id = (may_bind_customer.given).program_id) AND (NOT s.is_test) AND ((s.transaction_id)::text = ((may_bind_customer.given).transaction_id)::text) AND ((s.customer_id IS NOT NULL) OR ((s.customer_key)::text <> ((may_bind_customer.given).customer_key)::text)))))))
;

CREATE OR REPLACE FUNCTION public.may_plan(of_program_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  return pg_try_advisory_xact_lock(hashtextextended('plans of ' || (select p.workspace_id from programs p where p.id = of_program_id), 0))
    and (pg_try_advisory_xact_lock(hashtextextended('plans', 1)) or pg_try_advisory_xact_lock(hashtextextended('plans', 2)));
end $function$
;

CREATE OR REPLACE FUNCTION public.merge_sales(sale sales, ids text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  other sales;
  worthless sales;
  reported_refunds refunds[];
begin
  for other in
    select s.* from sales s
    where s.program_id = sale.program_id and s.is_test = sale.is_test and s.transaction_id = any (ids) and s.id <> sale.id
      and s.amount_cents > 0 and (s.currency = sale.currency or s.amount_source = 'api')
    order by s.id
  loop
    perform from sales s where s.program_id = sale.program_id and s.id in (sale.id, other.id) order by s.id for no key update;
    perform lock_commissions(sale.program_id, array[sale.id, other.id]);
    select s.* into strict other from sales s where s.program_id = other.program_id and s.id = other.id;
    other.api_payload := coalesce(other.api_payload, api_payload_of(other));
    -- Each refund with its later parts.
    reported_refunds := array(
      select jsonb_populate_record(r, jsonb_build_object('applied_cents', (
        select sum(p.applied_cents) from refunds p
        where p.program_id = r.program_id and p.sale_id = r.sale_id and r.id in (p.id, p.continues_refund_id)
      )))
      from refunds r where r.program_id = other.program_id and r.sale_id = other.id and r.continues_refund_id is null order by r.id
    );
    worthless := other;
    worthless.amount_cents := 0;
    worthless.commission_base_cents := 0;
    worthless.payment_status := 'no_payment_required';
    perform correct_sale(other, worthless);
    other.transaction_id := sale.transaction_id;
    other.customer_id := coalesce((select s.customer_id from sales s where s.program_id = sale.program_id and s.id = sale.id), other.customer_id);
    perform record_sale(other, true);
    perform move_refunds(sale.program_id, sale.id, reported_refunds);
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.merged_clicks(of_program_id bigint, clicks jsonb)
 RETURNS SETOF click_events
 LANGUAGE sql
 STABLE ROWS 100
AS $function$
  with unsent as materialized (
    select e.* from (
      select u.clicked_at, u.event_id from uncounted_clicks u where u.program_id = of_program_id
      union
      select u.clicked_at, u.event_id from unsent_clicks u where u.program_id = of_program_id
    ) u
    cross join lateral (
      select e.* from click_events e
      where e.program_id = of_program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id offset 0
    ) e
  )
  select * from unsent
  union all
  select k.* from jsonb_populate_recordset(null::click_events, clicks) k
  where not exists (select from unsent u where u.click_timestamp = k.click_timestamp and u.id = k.id)
$function$
;

CREATE OR REPLACE FUNCTION public.message_partners(of_program_id bigint, partner_ids bigint[], of_text text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  current_job bigint := current_setting('svc.job')::bigint;
  recipient_ids bigint[] := array(
    select r.id from partners r
    where r.program_id = of_program_id and r.id = any (partner_ids) and r.user_id is not null and r.ended_at is null
      and not exists (select from bulk_job_rows j where j.program_id = r.program_id and j.job_id = current_job and j.row_id = r.id)
    order by r.id for no key update
  );
begin
  perform note_job_row(of_program_id, id, '{}'),
    write_outbox(of_program_id, 'program_message', 'partner', id, concat_ws(':', 'message', current_job, id), jsonb_build_object('text', of_text))
  from unnest(recipient_ids) id;
  return cardinality(recipient_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.microseconds(at timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN ((EXTRACT(epoch FROM at) * (1000000)::numeric))::bigint
;

CREATE OR REPLACE FUNCTION public.milliseconds(at timestamp with time zone)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN (floor((EXTRACT(epoch FROM at) * (1000)::numeric)))::bigint
;

CREATE OR REPLACE FUNCTION public.money_kept()
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
RETURN '10 years'::interval
;

CREATE OR REPLACE FUNCTION public.month_of(at timestamp with time zone)
 RETURNS date
 LANGUAGE sql
 IMMUTABLE
AS $function$ select date_trunc('month', at at time zone 'UTC')::date $function$
;

CREATE OR REPLACE FUNCTION public.month_to_rewrite()
 RETURNS date
 LANGUAGE sql
 STABLE
RETURN (SELECT min(m.month) AS min FROM (SELECT to_date("right"((c.relname)::text, 7), 'YYYY_MM'::text) AS month FROM (pg_inherits i JOIN pg_class c ON ((c.oid = i.inhrelid))) WHERE ((i.inhparent = ('affiliate_click_events'::regclass)::oid) AND (c.relname <> 'affiliate_click_events_default'::name))) m WHERE ((day_start(((m.month + '1 mon'::interval))::date) < (now() - '3 days'::interval)) AND (NOT (EXISTS (SELECT FROM rewritten_months r WHERE ((r.month = m.month) AND (r.rewritten_at IS NOT NULL))))) AND (NOT (EXISTS (SELECT FROM uncounted_clicks u WHERE (u.clicked_at < day_start(((m.month + '1 mon'::interval))::date)))))))
;

CREATE OR REPLACE FUNCTION public.months_after(at timestamp with time zone, months integer)
 RETURNS timestamp with time zone
 LANGUAGE sql
 IMMUTABLE
RETURN (((at AT TIME ZONE 'UTC'::text) + make_interval(months => months)) AT TIME ZONE 'UTC'::text)
;

CREATE OR REPLACE FUNCTION public.move_first_purchase(sale sales)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  first_date timestamptz;
  was_date timestamptz;
begin
  select min(s.sale_date) into first_date from sales s
  where s.program_id = sale.program_id and s.customer_id = sale.customer_id and not s.is_test and s.amount_cents > 0;
  select c.first_purchase_date into was_date from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  if first_date is not distinct from was_date then
    return false;
  end if;
  update customers c set updated_at = now(), first_purchase_date = first_date, customer_status = case
      when first_date is not null then 'conversion'
      when c.signup_date is not null then 'lead'
      else 'click'
    end
  where c.program_id = sale.program_id and c.id = sale.customer_id;
  if was_date is not null then
    perform count_customers(sale.program_id, sale.customer_id, was_date, 0, -1);
  end if;
  if first_date is not null then
    perform count_customers(sale.program_id, sale.customer_id, first_date, 0, 1);
  end if;
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.move_partners(of_program_id bigint, partner_ids bigint[], to_group_id bigint)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  known integer;
begin
  perform from partners r where r.program_id = of_program_id and r.id = any (partner_ids) order by r.id for no key update;
  get diagnostics known = row_count;
  if to_group_id is not null then
    perform refuse_unknown_holder(of_program_id, to_group_id, null);
  end if;
  perform note_job_row(r.program_id, r.id, jsonb_build_object('group_id', r.group_id)) from partners r
  where r.program_id = of_program_id and r.id = any (partner_ids) and r.group_id is distinct from to_group_id;
  update partners r set group_id = to_group_id
  where r.program_id = of_program_id and r.id = any (partner_ids) and r.group_id is distinct from to_group_id;
  return known;
end $function$
;

CREATE OR REPLACE FUNCTION public.move_refunded(sale sales, of_commission commissions, refund refunds, by_cents bigint, because text)
 RETURNS refunds
 LANGUAGE plpgsql
AS $function$
declare
  commission commissions;
  part record;
  was_reversal text;
  delta_cents bigint;
begin
  sale.refunded_cents := sale.refunded_cents + by_cents;
  update sales s set refunded_cents = sale.refunded_cents where s.program_id = sale.program_id and s.id = sale.id;
  perform notify_refund(sale, refund, by_cents);
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.id = of_commission.id and c.rejected_at is null;
  if commission.id is null then
    return refund;
  end if;
  part := refunded_part(sale, case when by_cents > 0 then refund.id end);
  delta_cents := reversed_share(commission.amount_cents, part.refunded, part.whole) - commission.reversed_cents;
  was_reversal := commission.reversal;
  commission.reversal := reversal_of(commission.amount_cents, part.refunded, part.whole);
  update refunds r set deduction_cents = case when by_cents > 0 then delta_cents else r.deduction_cents end,
    returned_cents = case when by_cents < 0 then -delta_cents else r.returned_cents end
  where r.program_id = refund.program_id and r.id = refund.id
  returning r.* into refund;
  -- A refund of tax alone does not concern the partner.
  if refund.untaxed_cents = 0 and delta_cents = 0 and commission.reversal = was_reversal then
    return refund;
  end if;
  commission.reason := because;
  perform reverse_commission(commission, delta_cents, refund.id,
    case when by_cents > 0 then 'refund:' else 'return:' end || refund.id, refund.reason, sale.transaction_id,
    case when by_cents > 0 then 'reversal' when refund.reason = 'chargeback' then 'dispute_reinstated' end);
  return refund;
end $function$
;

CREATE OR REPLACE FUNCTION public.move_refunds(of_program_id bigint, of_sale_id bigint, reported_refunds refunds[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  sale sales;
  commission commissions;
  refund refunds;
begin
  select s.* into strict sale from sales s where s.program_id = of_program_id and s.id = of_sale_id for no key update;
  select c.* into commission from commissions c where c.program_id = of_program_id and c.sale_id = of_sale_id for no key update;
  perform lock_balance(commission);
  sale := enter_earlier_refunds(sale, commission);
  foreach refund in array reported_refunds loop
    -- If only the processor reported a refund, the report is applied to this sale again.
    continue when is_processors_own(refund) or exists (
      select from refunds r where r.program_id = sale.program_id and r.sale_id = sale.id and r.refund_key = refund.refund_key
    );
    update refunds r set refund_key = refund.refund_key
    where r.program_id = sale.program_id and r.id = (
      select p.id from refunds p
      where p.program_id = sale.program_id and p.sale_id = sale.id and (p.processor_reversal_id = refund.processor_reversal_id
        or refund.processor_reversal_id is null and is_processors_own(p) and p.requested_cents = refund.requested_cents and p.reason = refund.reason)
      order by p.id limit 1
    );
    continue when found;
    refund.applied_cents := case
      when refund.returned_at is not null then 0
      -- A refund of the whole remaining amount also covers the rest of this sale, unless the processor reported it.
      when refund.requested_cents is null and refund.processor_reversal_id is null then sale.amount_cents
      else coalesce(refund.requested_cents, refund.applied_cents) end;
    -- The request stays with the sale in its response.
    refund.request_id := null;
    refund := take_refund(sale, commission, refund);
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.move_sale(sale sales, moved sales)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  commission commissions;
  program programs;
begin
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  if commission.credited_at is not null or commission.rejected_at is not null then
    return sale;
  end if;
  if moved.partner_id <> sale.partner_id then
    select p.* into program from programs p where p.id = moved.program_id;
    moved := with_current_terms(moved, program);
  end if;
  update sales s set partner_id = moved.partner_id, coupon = moved.coupon, code_id = moved.code_id, resolution = moved.resolution,
    commission_bp = moved.commission_bp, commission_months = moved.commission_months, commission_rule_id = moved.commission_rule_id,
    commission_fixed_cents = moved.commission_fixed_cents, commission_cap_cents = moved.commission_cap_cents, terms_among = moved.terms_among,
    terms_by_line = moved.terms_by_line
  where s.program_id = moved.program_id and s.id = moved.id;
  perform count_paid_sale(sale, -1);
  perform count_paid_sale(moved, 1);
  if commission.id is not null then
    perform count_commission(commission, -1);
    if moved.partner_id <> commission.partner_id then
      delete from commission_reviews v where v.program_id = commission.program_id and v.commission_id = commission.id;
      commission.moved_at := now();
      commission.held_at := null;
    end if;
    update commissions c set partner_id = moved.partner_id, code_id = moved.code_id, flags_checked_at = null, moved_at = commission.moved_at,
      held_at = commission.held_at
    where c.program_id = commission.program_id and c.id = commission.id
    returning c.* into commission;
    perform count_commission(commission, 1);
  end if;
  perform correct_customer(moved, true, false);
  return moved;
end $function$
;

CREATE OR REPLACE FUNCTION public.moves_of_dispute(event processor_events)
 RETURNS SETOF processor_events
 LANGUAGE sql
 STABLE
AS $function$
  select (event).*
  union all
  select e.* from processor_events e
  where coalesce(e.fact->>'payment_intent_id', e.fact->>'charge_id', e.fact->>'invoice_id')
      = coalesce((event).fact->>'payment_intent_id', (event).fact->>'charge_id', (event).fact->>'invoice_id')
    and e.account_id = (event).account_id and e.event_id <> (event).event_id and not starts_with(e.event_id, 'backfill_')
    and e.event_type in ('charge.dispute.funds_withdrawn', 'charge.dispute.funds_reinstated')
    and e.fact#>>'{reversals,0,reversal_id}' = (event).fact#>>'{reversals,0,reversal_id}'
$function$
;

CREATE OR REPLACE FUNCTION public.names_code(sale sales)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((sale).resolution @> '{"steps": [["coupon", "found"]]}'::jsonb), false)
;

CREATE OR REPLACE FUNCTION public.names_of_customer(buyer customers)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN array_remove(ARRAY[('key '::text || (buyer).customer_key), ('click '::text || (buyer).click_id), CASE WHEN ((buyer).signup_date IS NOT NULL) THEN ('email '::text || encode((buyer).email_hash, 'hex'::text)) ELSE NULL::text END], NULL::text)
;

CREATE OR REPLACE FUNCTION public.names_of_excluded(program programs)
 RETURNS text[]
 LANGUAGE sql
 STABLE
RETURN ARRAY(SELECT awaited_name(a.a, 'setting'::text, ((names_of_excluded.program).id)::text) AS awaited_name FROM unnest(connected_accounts(names_of_excluded.program)) a(a))
;

CREATE OR REPLACE FUNCTION public.names_of_payment(event processor_events, ids text[])
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return buyer_names(event.fact) || array(
    select unnest(buyer_names(e.fact)) from processor_events e
    where e.account_id = event.account_id and e.livemode = event.livemode
      and e.awaits && array(select awaited_name(event.account_id, 'payment', id) from unnest(ids_of_payment(event.account_id, ids)) id)
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.names_program(fact jsonb, program programs)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((fact ->> 'program_id'::text) IS NOT NULL) THEN (((fact ->> 'program_id'::text))::bigint = ANY (((program).former_ids || (program).id))) ELSE (EXISTS (SELECT FROM customers c WHERE ((c.program_id = (names_program.program).id) AND (c.click_id = (names_program.fact ->> 'click_id'::text))))) END
;

CREATE OR REPLACE FUNCTION public.new_reversals(sale sales, reported processor_reversals[])
 RETURNS SETOF processor_reversals
 LANGUAGE sql
 STABLE
AS $function$
  select t.* from unnest(reported) t
  where not exists (select from refunds r where r.program_id = (sale).program_id and r.sale_id = (sale).id and r.processor_reversal_id = t.reversal_id)
  order by t.created_at, t.reversal_id
$function$
;

CREATE OR REPLACE FUNCTION public.next_daily_mail()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (date_trunc('day'::text, (now() - '07:00:00'::interval), 'UTC'::text) + '31:00:00'::interval)
;

CREATE OR REPLACE FUNCTION public.next_document_number(of_program_id bigint, of_series text)
 RETURNS bigint
 LANGUAGE sql
AS $function$
  insert into document_series as s (program_id, series, last_number) values (of_program_id, of_series, 1)
  on conflict (program_id, series) do update set last_number = s.last_number + 1
  returning s.last_number
$function$
;

CREATE OR REPLACE FUNCTION public.next_webhook_at(of_program_id bigint)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (SELECT min(GREATEST(d.next_attempt_at, e.rests_until)) AS min FROM (webhook_endpoints e CROSS JOIN LATERAL (SELECT min(d_1.next_attempt_at) AS next_attempt_at FROM webhook_deliveries d_1 WHERE ((d_1.program_id = e.program_id) AND (d_1.endpoint_id = e.id) AND (d_1.next_attempt_at IS NOT NULL) AND ((d_1.claimed_until IS NULL) OR (d_1.claimed_until <= now())))) d) WHERE ((e.program_id = next_webhook_at.of_program_id) AND (e.deleted_at IS NULL) AND (e.disabled_at IS NULL) AND (d.next_attempt_at IS NOT NULL)))
;

CREATE OR REPLACE FUNCTION public.note_balance_of_payout()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- A restored payout keeps its number.
  if current_setting('svc.restoring', true) = 'on' then
    return new;
  end if;
  select coalesce(max(b.entry_count), 0) into new.created_at_entry_number from balances b
  where b.program_id = new.program_id and b.partner_id = new.partner_id and b.currency = new.currency;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.note_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  new.updated_at := now();
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.note_job_row(of_program_id bigint, of_row_id bigint, before_change jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if current_setting('svc.job', true) <> '' then
    insert into bulk_job_rows (program_id, job_id, row_id, before)
    values (of_program_id, current_setting('svc.job')::bigint, of_row_id, before_change)
    on conflict on constraint bulk_job_rows_pkey do nothing;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.note_purchase(sale sales, customer customers)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  was_date constant timestamptz := customer.first_purchase_date;
begin
  if sale.amount_cents > 0 and (was_date is null or was_date > sale.sale_date) then
    update customers c set updated_at = now(), customer_status = 'conversion', first_purchase_date = sale.sale_date,
      code_id = case when was_date is not null then c.code_id else coalesce(sale.code_id, case when c.link_id is null then c.code_id end) end
    where c.program_id = sale.program_id and c.id = sale.customer_id;
    if was_date is not null then
      perform count_customers(sale.program_id, sale.customer_id, sale.sale_date, 0, 1);
      perform count_customers(sale.program_id, sale.customer_id, was_date, 0, -1);
      perform correct_customer(sale, false, true);
    end if;
  elsif was_date is not null and exists (
    select from programs p join sales s on s.program_id = p.id
    where p.id = sale.program_id and p.rules_version > 0 and s.customer_id = sale.customer_id and not s.is_test
      and (s.commission_cap_cents is not null or s.terms_by_line is not null) and (s.sale_date, s.id) > (sale.sale_date, sale.id)
  ) then
    perform correct_customer(sale, false, false);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.note_refusal(of_program_id bigint, refused_call text, of_code text, of_detail text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select from refused_calls r where r.program_id = of_program_id and r.call = refused_call and r.code = of_code
      and r.refused_at > now() - interval '5 seconds'
  ) or not pg_try_advisory_xact_lock(hashtextextended('refused ' || refused_call || ' ' || of_code, of_program_id)) then
    return;
  end if;
  insert into refused_calls as r (program_id, call, code, detail)
  select p.id, refused_call, of_code, of_detail from programs p where p.id = of_program_id and p.deleted_at is null
  on conflict (program_id, call, code) do update set detail = excluded.detail, refused_at = excluded.refused_at;
end $function$
;

CREATE OR REPLACE FUNCTION public.note_webhook_types()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  update programs p set webhook_types = wanted.types
  from (
    select array_agg(distinct t.type::text order by t.type::text) as types
    from webhook_endpoints e cross join unnest(e.types) t (type)
    where e.program_id = new.program_id and e.disabled_at is null and e.deleted_at is null
  ) wanted
  where p.id = new.program_id and p.webhook_types is distinct from wanted.types;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.notifications_begin()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$ select now() - interval '13 months' $function$
;

CREATE OR REPLACE FUNCTION public.notify_advertiser(of_kind text, commission commissions, by_cents bigint, by_cause text, of_transaction_id text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_outbox(commission.program_id, of_kind, 'advertiser', commission.partner_id, by_cause, jsonb_build_object(
    'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', abs(by_cents),
    'currency', commission.currency, 'reason', commission.reason));
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_commission_change(commission commissions, by_cents bigint, because text, of_transaction_id text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if by_cents <> 0 and wants_webhook(commission.program_id, 'commission.reversed') then
    perform write_webhook(c.program_id, 'commission.reversed', webhook_commission(c, of_transaction_id)
      || jsonb_build_object('reversed_by_cents', by_cents, 'is_full', c.reversal = 'full', 'reason', because))
    from commissions c where c.program_id = commission.program_id and c.id = commission.id;
  end if;
  if by_cents <> 0 and wants_webhook(commission.program_id, 'commission_reversed') then
    perform write_commission_postback('commission_reversed', commission, -by_cents, because);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_commission_created(of_program_id bigint, of_commission_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_webhook(c.program_id, 'commission.created', webhook_commission(c, s.transaction_id) || jsonb_build_object('hold_until', webhook_time(c.hold_until)))
  from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
  where c.program_id = of_program_id and c.id = of_commission_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_earned(of_program_id bigint, of_user_id text, of_commission_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from mail_choices c where c.user_id = of_user_id and c.topic = 'earned' and c.frequency = 'at_once') then
    perform write_outbox(c.program_id, 'commission_earned', 'partner', c.partner_id, 'commission:' || c.id, jsonb_build_object(
        'commission_id', c.id, 'transaction_id', s.transaction_id, 'amount_cents', c.amount_cents, 'currency', c.currency))
    from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
    where c.program_id = of_program_id and c.id = of_commission_id and not c.is_shadow;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_held_payout(of_program_id bigint, of_payout_id bigint, of_status text, because text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  held_cause text := 'payout:' || of_payout_id || ':' || lower(of_status);
  payout payouts;
begin
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  if payout.status = 'sent' and not exists (
    select from outbox o where o.program_id = of_program_id and o.kind = 'payout_held' and o.audience = 'partner' and o.cause = held_cause
  ) then
    perform write_outbox(of_program_id, 'payout_held', 'partner', payout.partner_id, held_cause, jsonb_build_object(
      'payout_id', payout.id, 'amount_cents', payout.amount_cents, 'currency', payout.currency, 'reason', because));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_ignored_payment(event processor_events)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  payment jsonb := coalesce(event.fact->'unread', case when event.fact->>'reported_alone' = 'true' then event.fact end);
  ids text[] := payment_ids_of(payment);
  sale sales;
  known customers;
  of_cause text;
begin
  if event.outcome <> 'ignored' or not event.livemode or payment is null
    or event.fact->>'kind' = 'purchase' and coalesce(payment#>>'{sale,amount_cents}', '0') = '0' then
    return event;
  end if;
  sale := sale_of_payments(event.account_id, false, ids);
  -- A recorded payment stays recorded, even if a later event contains less about it.
  if sale.id is not null and event.fact->>'kind' = 'purchase' then
    return event;
  end if;
  if sale.partner_id is null then
    known := known_buyer(event.account_id, false, payment);
  else
    select c.* into known from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  end if;
  if known.id is null then
    return event;
  end if;
  event.program_id := coalesce(event.program_id, known.program_id);
  -- The intent, the charge and the invoice can all report the same payment.
  ids := ids_of_payment(event.account_id, ids);
  of_cause := 'event:' || coalesce(event.fact#>>'{sale,transaction_id}', event.event_id);
  if not exists (
    select from outbox o where o.program_id = known.program_id and o.kind = 'payment_ignored' and o.audience = 'advertiser'
      and (o.cause = of_cause or event.fact->>'kind' = 'purchase' and o.cause = any (array(select 'event:' || id from unnest(ids) id)))
  ) then
    perform write_outbox(known.program_id, 'payment_ignored', 'advertiser', known.partner_id, of_cause, jsonb_build_object(
      'transaction_id', coalesce(sale.transaction_id, event.fact#>>'{sale,transaction_id}'),
      'amount_cents', coalesce((event.fact#>>'{sale,amount_cents}')::bigint, 0),
      'currency', coalesce(event.fact#>>'{sale,currency}', (select p.currency from programs p where p.id = known.program_id)),
      'reason', event.reason));
  end if;
  return event;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_payout(of_kind text, payout payouts)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_outbox(payout.program_id, of_kind, 'partner', payout.partner_id,
    'payout:' || payout.id || coalesce(':' || nullif(earlier_payments(payout), 1), ''), jsonb_build_object(
    'payout_id', payout.id, 'amount_cents', payout.amount_cents, 'currency', payout.currency,
    'reason', payout.reason, 'reference', payout.reference));
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_refund(sale sales, refund refunds, by_cents bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if by_cents <> 0 and sale.customer_id is not null and not sale.is_test and wants_webhook(sale.program_id, 'sale.refunded') then
    perform write_webhook(sale.program_id, 'sale.refunded', webhook_sale(sale) || jsonb_build_object(
      'refunded_by_cents', by_cents, 'refunded_cents', sale.refunded_cents, 'reason', refund.reason));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_reversal(commission commissions, by_cents bigint, by_cause text, of_transaction_id text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_outbox(commission.program_id,
    case commission.reversal when 'full' then 'commission_reversed' else 'commission_refunded' end, 'partner', commission.partner_id,
    by_cause, jsonb_build_object(
      'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', by_cents,
      'currency', commission.currency, 'reason', commission.reason, 'deducted', commission.credited_at is not null));
  if commission.paid_at is not null then
    perform notify_advertiser('paid_commission_reversed', commission, by_cents, by_cause, of_transaction_id);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_sale(sale sales, commission_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  wanted text[];
  of_user_id text;
begin
  select p.webhook_types, r.user_id into wanted, of_user_id from programs p join partners r on r.program_id = p.id
  where p.id = sale.program_id and r.id = sale.partner_id;
  if commission_id is not null and of_user_id is not null then
    perform notify_earned(sale.program_id, of_user_id, commission_id);
  end if;
  if 'sale.created' = any (wanted) then
    perform write_webhook(sale.program_id, 'sale.created', webhook_sale(sale));
  end if;
  if commission_id is not null and 'commission.created' = any (wanted) then
    perform notify_commission_created(sale.program_id, commission_id);
  end if;
  if 'sale' = any (wanted) then
    perform write_postback(sale.program_id, sale.partner_id, 'sale', sale.customer_id, sale.id, coalesce(c.amount_cents - c.reversed_cents, 0),
      coalesce(c.currency, sale.currency), coalesce(c.status, 'none'), null)
    from partners r left join commissions c on c.program_id = r.program_id and c.id = commission_id
    where r.program_id = sale.program_id and r.id = sale.partner_id and not coalesce(c.is_shadow, in_shadow_mode(sale.program_id));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.notify_unconverted(sale sales, fact jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_cause text := 'reversal:' || (fact#>>'{reversals,0,reversal_id}');
begin
  if sale.partner_id is not null and not exists (
    select from outbox o where o.program_id = sale.program_id and o.kind = 'refund_not_converted' and o.audience = 'advertiser'
      and o.cause = of_cause
  ) then
    perform write_outbox(sale.program_id, 'refund_not_converted', 'advertiser', sale.partner_id, of_cause, jsonb_build_object(
      'transaction_id', sale.transaction_id, 'amount_cents', (fact#>>'{reversals,0,amount_cents}')::bigint,
      'currency', fact#>>'{reversals,0,currency}', 'reason', fact#>>'{reversals,0,reason}'));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.null_if_empty(part jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN NULLIF(jsonb_strip_nulls(part), '{}'::jsonb)
;

CREATE OR REPLACE FUNCTION public.open_payout_cents(payout payouts)
 RETURNS bigint
 LANGUAGE sql
 STABLE
RETURN (SELECT (COALESCE(sum((w.amount_cents)::bigint), (0)::numeric))::bigint AS "coalesce" FROM payouts w WHERE ((w.program_id = (open_payout_cents.payout).program_id) AND (w.partner_id = (open_payout_cents.payout).partner_id) AND ((w.currency)::text = ((open_payout_cents.payout).currency)::text) AND (w.decided_at IS NULL)))
;

CREATE OR REPLACE FUNCTION public.origin_of_customer(c customers, clicked_at timestamp with time zone)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN COALESCE((SELECT values_of_click(e.*) AS values_of_click FROM click_of_customer(origin_of_customer.c, origin_of_customer.clicked_at) e(program_id, is_test, click_timestamp, id, customer_id, click_id, link_id, session_id, affiliate_url, page_url, page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type, device_os, browser_name, additional_data, campaign, visitor, created_at)), '{}'::jsonb)
;

CREATE OR REPLACE FUNCTION public.page_of_click(page_url text, affiliate_url text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN "left"(NULLIF("substring"(COALESCE(NULLIF(page_url, ''::text), affiliate_url), '^[^?#]+'::text), ''::text), 200)
;

CREATE OR REPLACE FUNCTION public.pair_by_time(waiting unpaired_commission[])
 RETURNS TABLE(former_place bigint, computed_place bigint)
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  given unpaired_commission;
  earlier unpaired_commission[];
  depth integer := 0;
  former_taken boolean[];
  computed_taken boolean[];
begin
  foreach given in array coalesce(waiting, '{}') loop
    continue when case when given.is_former then former_taken[given.place] else computed_taken[given.place] end;
    if depth > 0 and (earlier[depth].group_key <> given.group_key or earlier[depth].at < given.at - interval '2 days') then
      depth := 0;
    end if;
    if depth > 0 and earlier[depth].is_former <> given.is_former then
      former_place := case when given.is_former then given.place else earlier[depth].place end;
      computed_place := case when given.is_former then earlier[depth].place else given.place end;
      former_taken[former_place] := true;
      computed_taken[computed_place] := true;
      depth := depth - 1;
      return next;
    else
      depth := depth + 1;
      earlier[depth] := given;
    end if;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.park_awaiting_payments(of_account_id text, of_livemode boolean, names text[], since timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update processor_events e set outcome = 'parked', waits_for = 'buyer', reason = 'customer_known'
  where e.account_id = of_account_id and e.livemode = of_livemode and e.outcome = 'ignored'
    and (e.program_id is null or starts_with(e.account_id, 'conn_'))
    and e.awaits && awaited_names(of_account_id, names) and (e.fact->>'started_at')::timestamptz >= since;
end $function$
;

CREATE OR REPLACE FUNCTION public.park_disconnected(event processor_events, ids text[])
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  has_other boolean;
begin
  if not exists (select from former_programs(event.account_id)) then
    return event;
  end if;
  if event.fact->>'kind' = 'purchase' then
    -- A connection belongs to one program, so its renewals don't need a program id.
    select p.id into event.program_id from former_programs(event.account_id) p
    where names_program(event.fact, p) or event.fact->>'program_id' is null and starts_with(event.account_id, 'conn_') limit 1;
  else
    select s.program_id into event.program_id from former_programs(event.account_id) p join sales s on s.program_id = p.id
    where s.is_test = not event.livemode
      and s.transaction_id = any (ids_of_payment(event.account_id, ids))
    order by s.program_id limit 1;
  end if;
  has_other := exists (select from connected_programs(event.account_id));
  if event.program_id is null and (has_other or event.fact->>'kind' not in ('reversals', 'charge_refunds', 'refunded_total', 'payment_fee')) then
    return event;
  end if;
  event.waits_for := 'connection';
  return with_outcome(event, 'parked', 'account_disconnected');
end $function$
;

CREATE OR REPLACE FUNCTION public.park_unexplained_payments(of_account_id text, at_most integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  with due as (
    select e.account_id, e.event_id, (known_buyer(e.account_id, false, e.fact)).id is not null as is_known from processor_events e
    where e.outcome = 'ignored' and e.livemode and e.fact->>'reported_alone' = 'false' and e.received_at < now() - interval '1 day'
      and e.account_id = coalesce(of_account_id, e.account_id)
    order by e.received_at limit at_most for no key update of e skip locked
  )
  update processor_events e set
    fact = e.fact || '{"reported_alone": true}',
    outcome = case when d.is_known then 'parked' else e.outcome end,
    waits_for = case when d.is_known then 'buyer' end,
    reason = case when d.is_known then 'unexplained' else e.reason end
  from due d where e.account_id = d.account_id and e.event_id = d.event_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.partner_of_row(planned import_rows)
 RETURNS bigint
 LANGUAGE sql
 STABLE
RETURN COALESCE((planned).partner_id, (SELECT r.target_id FROM import_rows r WHERE ((r.program_id = (partner_of_row.planned).program_id) AND (r.import_id = (partner_of_row.planned).import_id) AND (r.id = (partner_of_row.planned).partner_row_id))))
;

CREATE OR REPLACE FUNCTION public.partners_to_hash(at_most integer, of_program_id bigint, commission_ids bigint[])
 RETURNS TABLE(program_id bigint, partner_id bigint, addresses text[])
 LANGUAGE sql
 STABLE
AS $function$
  select r.program_id, r.id, addresses_of_partner(r) from partners r
  where r.email_hashes is null and r.program_id = coalesce(of_program_id, r.program_id) and (
    commission_ids is null
    or r.id in (select c.partner_id from commissions c where c.program_id = of_program_id and c.id = any (commission_ids))
  )
  order by r.program_id, r.id limit at_most
$function$
;

CREATE OR REPLACE FUNCTION public.parts_of_click(e affiliate_click_events, OUT landing jsonb, OUT page jsonb, OUT browser jsonb, OUT place jsonb, OUT referrer jsonb)
 RETURNS record
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select null_if_empty(jsonb_build_object('affiliate_url', e.affiliate_url, 'campaign', e.campaign)),
    null_if_empty(jsonb_build_object('page_url', e.page_url, 'page_title', e.page_title)),
    null_if_empty(jsonb_build_object('user_agent', e.user_agent, 'screen_resolution', e.screen_resolution,
      'language', e.language, 'device_os', e.device_os, 'browser_name', e.browser_name)),
    null_if_empty(jsonb_build_object('timezone', e.timezone, 'geo_region', e.geo_region, 'geo_city', e.geo_city)),
    null_if_empty(jsonb_build_object('referrer_url', e.referrer_url))
$function$
;

CREATE OR REPLACE FUNCTION public.pay_by_hand(of_program_id bigint, of_partner_id bigint, of_currency text, transferred_cents bigint, of_reference text, of_paid_on date, request uuid, OUT payout_id bigint, OUT payable_cents bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  payout payouts;
begin
  perform from commissions c
  where c.program_id = of_program_id and c.partner_id = of_partner_id and c.currency = of_currency and c.credited_at is not null
    and c.paid_at is null
  order by c.id for no key update;
  payable_cents := locked_payable_cents(of_program_id, of_partner_id, of_currency);
  select w.id into payout_id from payouts w
  where w.program_id = of_program_id and w.request_id = request and w.partner_id = of_partner_id;
  if payout_id is null and payable_cents > 0 and payable_cents = transferred_cents then
    insert into payouts (program_id, partner_id, currency, requested_cents, amount_cents, request_id)
    values (of_program_id, of_partner_id, of_currency, payable_cents, payable_cents, request)
    returning * into payout;
    payout_id := payout.id;
    perform post_payout(payout, of_reference, of_paid_on);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.pay_payout(of_program_id bigint, of_payout_id bigint, transferred_cents bigint, of_reference text, of_paid_on date, OUT status text, OUT amount_cents bigint, OUT currency text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  payout payouts;
begin
  perform lock_payout_payments(of_program_id, array[of_payout_id]);
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  status := payout.status;
  amount_cents := payout.amount_cents;
  currency := payout.currency;
  if payout.decided_at is null and amount_cents = transferred_cents then
    perform refuse_at_provider(of_program_id, array[of_payout_id]);
    perform post_payout(payout, of_reference, of_paid_on);
    -- The trigger on payouts skips the payments of a run, because the run has its own entry.
    if payout.payout_run_id is not null then
      perform write_program_audit(of_program_id, 'payout.paid', payout.id::text, jsonb_build_object(
        'amount_cents', payout.amount_cents, 'currency', payout.currency, 'reference', of_reference));
    end if;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.pay_payout_run(of_program_id bigint, of_run_id bigint, transferred_cents bigint, of_reference text, of_paid_on date, OUT run_id bigint, OUT was_paid boolean, OUT open_cents bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  run payout_runs;
  payout payouts;
begin
  select r.* into run from payout_runs r where r.program_id = of_program_id and r.id = of_run_id for no key update;
  run_id := run.id;
  was_paid := run.paid_at is not null;
  perform lock_payout_payments(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = of_run_id
  ));
  select coalesce(sum(w.amount_cents), 0) into open_cents from payouts w
  where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.decided_at is null;
  if run_id is null or was_paid or open_cents <> coalesce(transferred_cents, open_cents) then
    return;
  end if;
  perform refuse_at_provider(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.decided_at is null
  ));
  for payout in
    select w.* from payouts w
    where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.decided_at is null order by w.id
  loop
    perform post_payout(payout, of_reference, of_paid_on);
  end loop;
  update payout_runs r set reference = of_reference, paid_on = of_paid_on, paid_at = now()
  where r.program_id = of_program_id and r.id = of_run_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.payload_of(sale sales)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_array((sale).amount_cents, (sale).commission_base_cents, (sale).currency, (sale).sale_type, (sale).is_recurring, (sale).subscription_id)
;

CREATE OR REPLACE FUNCTION public.payment_ids_of(fact jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT jsonb_array_elements_text((fact -> 'payment_ids'::text)) AS jsonb_array_elements_text)
;

CREATE OR REPLACE FUNCTION public.payments_for_provider(of_program_id bigint, of_run_id bigint, of_provider text, currencies text[])
 RETURNS TABLE(payout_id bigint, currency text, amount_cents bigint, recipient text)
 LANGUAGE sql
 STABLE
AS $function$
  select w.id, w.currency, w.amount_cents, r.recipient
  from payouts w
  left join payout_recipients p on p.program_id = w.program_id and p.partner_id = w.partner_id
  cross join lateral (select case of_provider when 'stripe' then p.recipient_id else w.payout_address end as recipient) r
  where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.status = 'in_run' and w.currency = any (currencies)
    and r.recipient is not null
$function$
;

CREATE OR REPLACE FUNCTION public.plan_balance_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
declare
  is_first_plan constant boolean := planned.outcome is null;
  of_currency constant text := planned.fields->>'currency';
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  elsif in_shadow_mode(import.program_id) then
    return decided(planned, 'skip', 'shadow_mode');
  elsif exists (
    select from adjustments a
    where a.program_id = import.program_id and a.partner_id = partner_of_row(planned) and a.currency = of_currency
      and split_part(a.external_id, ':', 2) = 'balance'
  ) then
    -- This also includes other sources, because a second import of the same program must not double its debts.
    return decided(planned, 'skip', 'has_opening_balance');
  end if;
  if is_first_plan then
    update import_rows r set fields = r.fields
      || jsonb_build_object('amount_cents', (r.fields->>'amount_cents')::bigint + (planned.fields->>'amount_cents')::bigint)
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'balance' and r.outcome not in ('skip', 'error')
      and coalesce(r.partner_row_id, -r.partner_id) = coalesce(planned.partner_row_id, -planned.partner_id)
      and r.fields->>'currency' = of_currency;
    if found then
      return decided(planned, 'skip', 'added_to_another_row');
    end if;
  end if;
  return case when planned.fields->>'amount_cents' = '0' and not is_first_plan then decided(planned, 'skip', 'nothing_owed')
    else decided(planned, 'create', 'new') end;
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_code_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  of_code constant text := planned.fields->>'code';
  known record;
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  end if;
  if planned.kind = 'link' then
    select l.id, l.partner_id into known from referral_links l
    where l.program_id = import.program_id and lower(l.code) = lower(of_code);
  else
    select k.id, k.partner_id into known from partner_codes k
    where k.program_id = import.program_id and lower(normalize(k.code)) = lower(normalize(of_code));
  end if;
  if found then
    return case when known.partner_id = partner_of_row(planned) then decided(planned, 'skip', 'already_there', known.id)
      else decided(planned, 'error', 'code_taken', known.id) end;
  end if;
  select r.partner_row_id, r.partner_id into known from import_rows r
  where r.program_id = import.program_id and r.import_id = import.id and r.kind = planned.kind and lower(r.fields->>'code') = lower(of_code)
    and r.id < planned.id and r.outcome not in ('skip', 'error') order by r.id limit 1;
  if found then
    return case when (known.partner_row_id, known.partner_id) is not distinct from (planned.partner_row_id, planned.partner_id)
      then decided(planned, 'skip', 'repeated') else decided(planned, 'error', 'code_taken') end;
  end if;
  return decided(planned, 'create', 'new');
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_commission_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  known imported_commissions;
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  end if;
  select c.* into known from imported_commissions c
  where c.program_id = import.program_id and c.external_id = imported_id(import, planned.source_id);
  return case
    when not found then decided(planned, 'create', 'history_only')
    when (known.amount_cents::text, known.status) is distinct from (planned.fields->>'amount_cents', coalesce(planned.fields->>'status', 'pending'))
      then decided(planned, 'update', 'history_changed', known.id)
    else decided(planned, 'skip', 'already_imported', known.id)
  end;
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_customer_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  known customers;
begin
  planned := with_partner_of_row(import, planned);
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    return decided(planned, 'error', 'partner_not_found');
  end if;
  known := find_imported_customer(import.program_id, planned.fields);
  if known.id is null then
    return decided(planned, 'create', case when planned.fields ? 'first_purchase_date' then 'new' else 'no_first_purchase_date' end);
  elsif known.partner_id is distinct from partner_of_row(planned) then
    return decided(planned, 'skip', 'other_partner', known.id);
  elsif (not planned.fields ? 'customer_key' or known.customer_key is not null)
    and (not planned.fields ? 'email_hash' or known.email_hash is not null)
    and (not planned.fields ? 'processor_customer_id' or exists (
      select from processor_customers p
      where p.program_id = import.program_id and p.processor_customer_id = planned.fields->>'processor_customer_id')) then
    return decided(planned, 'skip', case when known.imported_at is null then 'already_there' else 'already_imported' end, known.id);
  end if;
  return decided(planned, 'update', 'adds_names', known.id);
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_group_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  known partner_groups;
begin
  select g.* into known from partner_groups g
  where g.program_id = import.program_id and (g.external_id = imported_id(import, planned.source_id)
    or lower(g.name) = lower(planned.fields->>'name') and g.removed_at is null)
  order by g.external_id = imported_id(import, planned.source_id) desc nulls last limit 1;
  if known.id is null then
    return decided(planned, 'create', coalesce(planned.fields->>'note', 'new'));
  end if;
  return decided(planned, 'skip', case when known.external_id = imported_id(import, planned.source_id) then 'already_imported'
    else 'same_name' end, known.id);
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_import_rows(of_program_id bigint, of_import_id bigint, max_rows integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  import imports;
  planned import_rows;
  outcomes import_outcome[] := '{}';
begin
  select i.* into import from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and i.position = '{"is_read": true}' for update;
  if not found then
    return 0;
  elsif not may_plan(of_program_id) then
    return null;
  end if;
  perform analyze_import_tables();
  for planned in
    select r.* from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id and r.outcome is null
    order by r.kind, r.id limit max_rows
  loop
    planned := plan_row(import, planned);
    update import_rows r set outcome = planned.outcome, reason = planned.reason, target_id = planned.target_id,
      partner_row_id = planned.partner_row_id, partner_id = planned.partner_id
    where r.program_id = of_program_id and r.import_id = of_import_id and r.id = planned.id;
    outcomes := outcomes || planned.outcome;
  end loop;
  perform count_import_rows(of_program_id, of_import_id, '{}', outcomes, 0, 0);
  if cardinality(outcomes) = 0 then
    update imports i set state = 'planned', planned_at = now(), sealed_key = null, position = null
    where i.program_id = of_program_id and i.id = of_import_id;
  end if;
  return cardinality(outcomes);
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_partner_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  of_email constant text := planned.fields->>'email';
  known partners;
begin
  select p.* into known from partners p
  where p.program_id = import.program_id and p.external_id = imported_id(import, planned.source_id);
  if found then
    return decided(planned, 'skip', 'already_imported', known.id);
  end if;
  select r.id into planned.partner_row_id from import_rows r
  where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'partner' and r.fields->>'email' = of_email
    and r.id < planned.id and r.outcome <> 'error' order by r.id limit 1;
  if found then
    return decided(planned, 'skip', 'same_email_as_another_row');
  end if;
  select p.* into known from partners p where p.program_id = import.program_id and lower(p.email) = of_email;
  if known.id is null then
    return decided(planned, 'create', coalesce(planned.fields->>'note', 'new'));
  end if;
  return decided(planned, case when known.external_id is null then 'update'::import_outcome else 'skip' end, 'same_email', known.id);
end $function$
;

CREATE OR REPLACE FUNCTION public.plan_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
AS $function$
declare
  earlier jsonb;
begin
  if planned.kind not in ('link', 'code') then
    select r.fields into earlier from import_rows r where r.program_id = import.program_id and r.import_id = import.id
      and r.kind = planned.kind and r.source_id = planned.source_id and r.id < planned.id and r.outcome <> 'error' order by r.id limit 1;
  end if;
  if earlier is not null and is_same_record(planned.kind, earlier, planned.fields) then
    return decided(planned, 'skip', 'repeated');
  elsif earlier is not null then
    return decided(planned, 'error', 'same_id');
  end if;
  return case planned.kind
    when 'group' then plan_group_row(import, planned)
    when 'partner' then plan_partner_row(import, planned)
    when 'customer' then plan_customer_row(import, planned)
    when 'balance' then plan_balance_row(import, planned)
    when 'commission' then plan_commission_row(import, planned)
    else plan_code_row(import, planned)
  end;
end $function$
;

CREATE OR REPLACE FUNCTION public.post_adjustment(adjustment adjustments, of_transaction_id text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  by_cause text := 'adjustment:' || adjustment.id;
  details jsonb := jsonb_build_object('adjustment_id', adjustment.id, 'transaction_id', of_transaction_id, 'currency', adjustment.currency,
    'reason', adjustment.note);
begin
  perform write_outbox(adjustment.program_id, case when adjustment.amount_cents < 0 then 'adjustment_deducted' else 'adjustment_added' end,
    'partner', adjustment.partner_id, by_cause, details || jsonb_build_object('amount_cents', abs(adjustment.amount_cents)));
  perform change_balance(adjustment.program_id, adjustment.partner_id, adjustment.currency, adjustment.amount_cents, 'adjusted', by_cause,
    details, of_adjustment_id => adjustment.id);
  if wants_webhook(adjustment.program_id, 'adjustment.created') then
    perform write_webhook(adjustment.program_id, 'adjustment.created', webhook_adjustment(adjustment, of_transaction_id));
  end if;
  -- The audit log doesn't keep the note, because the note is erased with the sale's customer and the log stays.
  perform write_program_audit(adjustment.program_id, 'partner.adjusted', adjustment.partner_id::text, jsonb_strip_nulls(jsonb_build_object(
    'adjustment', adjustment.id, 'amount_cents', adjustment.amount_cents, 'currency', adjustment.currency,
    'transaction_id', of_transaction_id)));
end $function$
;

CREATE OR REPLACE FUNCTION public.post_entry(of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint, of_cause text, of_commission_id bigint DEFAULT NULL::bigint, of_correction_number integer DEFAULT NULL::integer, of_refund_id bigint DEFAULT NULL::bigint, of_payout_id bigint DEFAULT NULL::bigint, of_adjustment_id bigint DEFAULT NULL::bigint, of_reference text DEFAULT NULL::text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  balance balances;
begin
  select b.* into strict balance from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency;
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id, correction_number, refund_id, payout_id, adjustment_id, reference)
  values (of_program_id, of_partner_id, of_currency, balance.entry_count + 1, of_cents, balance.balance_cents,
    balance.balance_cents + of_cents, of_cause, of_commission_id, of_correction_number, of_refund_id, of_payout_id, of_adjustment_id,
    of_reference);
  update balances b set balance_cents = b.balance_cents + of_cents, entry_count = b.entry_count + 1
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency;
  return balance.balance_cents + of_cents;
end $function$
;

CREATE OR REPLACE FUNCTION public.post_payout(payout payouts, of_reference text, of_paid_on date)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update payouts w set status = 'paid', decided_at = now(), reference = of_reference, paid_on = of_paid_on
  where w.program_id = payout.program_id and w.id = payout.id
  returning w.* into payout;
  perform post_entry(payout.program_id, payout.partner_id, payout.currency, -payout.amount_cents, 'payout_paid',
    of_correction_number => earlier_payments(payout), of_payout_id => payout.id, of_reference => payout.reference);
  perform write_payout_lines(payout, coalesce(earlier_payments(payout), 1));
  perform issue_document(payout, coalesce(earlier_payments(payout), 1));
  perform notify_payout('payout_paid', payout);
end $function$
;

CREATE OR REPLACE FUNCTION public.post_returned_payout(payout payouts)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform return_payout_lines(payout);
  perform credit_document(payout, earlier_payments(payout));
  perform post_entry(payout.program_id, payout.partner_id, payout.currency, payout.amount_cents, 'payout_returned',
    of_correction_number => nullif(earlier_payments(payout), 1), of_payout_id => payout.id, of_reference => payout.reference);
end $function$
;

CREATE OR REPLACE FUNCTION public.preview_rule(of_program_id bigint, of_group_id bigint, of_partner_id bigint, ended_id bigint, added jsonb, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(partner_id bigint, partner_name text, currency text, actual_cents bigint, now_cents bigint, then_cents bigint)
 LANGUAGE sql
AS $function$
  select * from preview_rules(of_program_id, of_group_id, of_partner_id,
    rules_with(of_program_id, of_group_id, of_partner_id, ended_id, added), from_time, until)
$function$
;

CREATE OR REPLACE FUNCTION public.preview_rules(of_program_id bigint, of_group_id bigint, of_partner_id bigint, rules jsonb, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(partner_id bigint, partner_name text, currency text, actual_cents bigint, now_cents bigint, then_cents bigint)
 LANGUAGE plpgsql
AS $function$
declare
  was jsonb;
  would jsonb;
begin
  perform refuse_unknown_holder(of_program_id, of_group_id, of_partner_id);
  select jsonb_agg(jsonb_build_array(x.of_partner_id, x.of_currency, x.actual_cents, x.cents)) into was from (
    select c.of_partner_id, c.of_currency, sum(c.actual_cents) as actual_cents, sum(c.cents) as cents
    from commissions_by_rules(of_program_id, from_time, until) c group by c.of_partner_id, c.of_currency
  ) x;
  begin
    perform save_rules(of_program_id, of_group_id, of_partner_id, rules);
    select jsonb_agg(jsonb_build_array(x.of_partner_id, x.of_currency, x.cents)) into would from (
      select c.of_partner_id, c.of_currency, sum(c.cents) as cents
      from commissions_by_rules(of_program_id, from_time, until) c group by c.of_partner_id, c.of_currency
    ) x;
    raise sqlstate 'SVCPV';
  exception when sqlstate 'SVCPV' then
    -- A variable keeps its value when the block is rolled back.
  end;
  return query
    with changes as (
      select (w->>0)::bigint as id, w->>1 as of_currency, (w->>2)::bigint as actual, (w->>3)::bigint as now_is, (v->>2)::bigint as then_is
      from jsonb_array_elements(was) w join jsonb_array_elements(would) v on v->0 = w->0 and v->1 = w->1
    ),
    summed as (
      select c.id, c.of_currency, sum(c.actual)::bigint as actual, sum(c.now_is)::bigint as now_is, sum(c.then_is)::bigint as then_is
      from changes c group by grouping sets ((c.of_currency), (c.id, c.of_currency))
    )
    select s.id, r.name::text, s.of_currency, s.actual, s.now_is, s.then_is
    from summed s left join partners r on r.program_id = of_program_id and r.id = s.id
    where s.id is null or s.then_is <> s.now_is
    order by s.id is not null, abs(s.then_is - s.now_is) desc, s.of_currency, s.id
    limit 100;
end $function$
;

CREATE OR REPLACE FUNCTION public.program_began(of_program_id bigint, created_at timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN LEAST(created_at, (SELECT day_start(min(t.starts)) AS day_start FROM grouped_totals t WHERE ((t.program_id = program_began.of_program_id) AND (t.grouping_name = 'all'::grouping_name) AND (t.span = 'day'::total_span))))
;

CREATE OR REPLACE FUNCTION public.program_numbers(of_program_id bigint, OUT days_to_payout integer, OUT reversed_bp integer)
 RETURNS record
 LANGUAGE sql
 STABLE
AS $function$
  with month as (select date_trunc('month', now(), 'UTC') as began)
  select p.days, r.bp
  from (
    select case when count(*) >= 30 and count(distinct c.partner_id) >= 5 then
      greatest(1, round(percentile_cont(0.5) within group (order by extract(epoch from c.paid_at - c.created_at)) / 86400))::integer end as days
    from (
      select c.partner_id, c.paid_at, c.created_at from commissions c, month m
      where c.program_id = of_program_id and c.payout_id is not null and c.paid_at < m.began and c.sale_id is not null
      order by c.payout_id desc limit 1000
    ) c
  ) p, (
    select case when count(*) >= 30 and count(distinct c.partner_id) >= 5 then
      100 * round(100.0 * count(*) filter (where c.is_reversed) / count(*))::integer end as bp
    from (
      select c.partner_id, exists (
        select from refunds f where f.program_id = of_program_id and f.sale_id = c.sale_id and f.deduction_cents > 0 and f.created_at < m.began
          and (f.returned_at is null or f.returned_at >= m.began)
      ) as is_reversed
      from commissions c join programs g on g.id = c.program_id cross join month m
      where c.program_id = of_program_id and c.sale_id is not null and not c.is_shadow
        and c.created_at < least(m.began, now() - make_interval(days => g.hold_days))
      order by c.created_at desc limit 1000
    ) c
  ) r
$function$
;

CREATE OR REPLACE FUNCTION public.program_of_click(aff text, host text, OUT program_id bigint, OUT is_ambiguous boolean)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
  ids bigint[];
begin
  ids := array(
    select l.program_id from referral_links l join programs p on p.id = l.program_id
    where lower(l.code) = lower(aff) and p.deleted_at is null limit 2
  );
  if cardinality(ids) > 1 then
    ids := array(
      select p.id from programs p join referral_links l on l.program_id = p.id and lower(l.code) = lower(aff)
      where split_part(p.domain, ':', 1) = any (domains_of(host)) and p.domain_verified_at is not null and p.deleted_at is null
      order by p.domain_proven_at is null, length(split_part(p.domain, ':', 1)) desc fetch first row with ties
    );
    is_ambiguous := cardinality(ids) <> 1;
  end if;
  if is_ambiguous is not true then
    program_id := ids[1];
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.program_of_promotion(of_account_id text, promotion_ids text[])
 RETURNS programs
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  program programs;
begin
  if cardinality(promotion_ids) > 0 then
    select p.* into program from partner_codes k join programs p on p.id = k.program_id and p.processor_account_id = k.account_id
    where k.account_id = of_account_id and k.promotion_code_id = any (promotion_ids) order by k.program_id, k.id limit 1;
  end if;
  return program;
end $function$
;

CREATE OR REPLACE FUNCTION public.program_of_purchase(of_account_id text, fact jsonb)
 RETURNS programs
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  program programs;
begin
  select p.* into program from connected_programs(of_account_id) p where names_program(fact, p)
  order by p.id::text = fact->>'program_id' desc limit 1;
  return program;
end $function$
;

CREATE OR REPLACE FUNCTION public.programs_of_account(of_account_id text)
 RETURNS SETOF programs
 LANGUAGE sql
 STABLE
AS $function$
  select p.* from connected_programs(of_account_id) p union all select p.* from former_programs(of_account_id) p
$function$
;

CREATE OR REPLACE FUNCTION public.promotions_of(fact jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT jsonb_array_elements_text((fact -> 'promotion_code_ids'::text)) AS jsonb_array_elements_text)
;

CREATE OR REPLACE FUNCTION public.proxy_key_numbers(of_program_id bigint)
 RETURNS integer[]
 LANGUAGE sql
 STABLE
AS $function$
  select array[p.proxy_key_number] || case when p.previous_proxy_key_until > now() then array[p.proxy_key_number - 1] end
  from programs p where p.id = of_program_id and p.deleted_at is null
$function$
;

CREATE OR REPLACE FUNCTION public.quarter_of_day(at timestamp with time zone)
 RETURNS smallint
 LANGUAGE sql
 IMMUTABLE
AS $function$ select (floor(extract(epoch from at) / 900)::bigint % 96)::smallint $function$
;

CREATE OR REPLACE FUNCTION public.question_not_answered(questions jsonb, answers jsonb)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select coalesce(
    (
      select g ->> 'question' from jsonb_array_elements(answers) g where not exists (
        select from jsonb_array_elements(questions) q
        where q ->> 'label' = g ->> 'question' and length(g ->> 'answer') <= case q ->> 'type' when 'short' then 300 else 3000 end
      ) limit 1
    ),
    (
      select q ->> 'label' from jsonb_array_elements(questions) q where (q ->> 'required')::boolean and not exists (
        select from jsonb_array_elements(answers) g where g ->> 'question' = q ->> 'label'
      ) limit 1
    )
  )
$function$
;

CREATE OR REPLACE FUNCTION public.queue_earlier_clicks(max_rows integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  s click_sink;
  last record;
begin
  select k.* into s from click_sink k;
  with next as (
    select e.program_id, e.click_timestamp, e.id from affiliate_click_events e
    where (e.program_id, e.is_test, e.click_timestamp, e.id) > (s.copied_program_id, false, s.copied_until, s.copied_id) and not e.is_test
    order by e.program_id, e.is_test, e.click_timestamp, e.id limit max_rows
  ),
  queued as (
    insert into unsent_clicks (program_id, clicked_at, event_id) select n.program_id, n.click_timestamp, n.id from next n
  )
  select n.* into last from next n order by n.program_id desc, n.click_timestamp desc, n.id desc limit 1;
  update click_sink set copied_program_id = last.program_id, copied_until = coalesce(last.click_timestamp, copied_until),
    copied_id = coalesce(last.id, copied_id);
end $function$
;

CREATE OR REPLACE FUNCTION public.queue_earlier_counts(max_rows integer)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
declare
  s click_sink;
  last record;
begin
  select k.* into s from click_sink k;
  with next as (
    select q.program_id, q.grouping_name, q.metric, q.day, q.value from grouped_quarters q
    where (q.program_id, q.grouping_name, q.metric, q.currency, q.day, q.value)
        > (s.counted_program_id, s.counted_name, s.counted_metric, '', s.counted_day, s.counted_value)
      and q.metric in ('clicks', 'bot_clicks') and q.currency = ''
    order by q.program_id, q.grouping_name, q.metric, q.currency, q.day, q.value limit max_rows
  ),
  queued as (
    insert into unsent_counts (program_id, grouping_name, metric, day, value) select n.* from next n
  )
  select n.*, count(*) over () as row_count into last from next n
  order by n.program_id desc, n.grouping_name desc, n.metric desc, n.day desc, n.value desc limit 1;
  update click_sink set counted_program_id = case when last.row_count = max_rows then last.program_id end,
    counted_name = coalesce(last.grouping_name, counted_name),
    counted_metric = coalesce(last.metric, counted_metric), counted_day = coalesce(last.day, counted_day),
    counted_value = coalesce(last.value, counted_value);
end $function$
;

CREATE OR REPLACE FUNCTION public.queue_invitations(of_program_id bigint, partner_ids bigint[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  queued bigint[];
begin
  with row as (
    insert into queued_invitations (program_id, partner_id, job_id, invited_by)
    select r.program_id, r.id, current_setting('svc.job')::bigint, acting_user() from partners r
    where r.program_id = of_program_id and r.id = any (partner_ids) and r.email is not null and r.user_id is null and r.ended_at is null
    order by r.id
    on conflict on constraint queued_invitations_pkey do nothing
    returning partner_id
  )
  select coalesce(array_agg(partner_id), '{}') into queued from row;
  perform note_job_row(of_program_id, id, '{}') from unnest(queued) id;
  return cardinality(queued);
end $function$
;

CREATE OR REPLACE FUNCTION public.rank_of_id(id text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN CASE substr(id, 1, 3) WHEN 'in_'::text THEN 3 WHEN 'pi_'::text THEN 2 WHEN 'cs_'::text THEN 1 WHEN 'sub'::text THEN '-1'::integer WHEN 'inv'::text THEN '-2'::integer ELSE 0 END
;

CREATE OR REPLACE FUNCTION public.rank_of_outcome(outcome text)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN CASE outcome WHEN 'unclaimed'::text THEN 1 WHEN 'paid'::text THEN 2 WHEN 'returned'::text THEN 3 WHEN 'failed'::text THEN 3 ELSE 0 END
;

CREATE OR REPLACE FUNCTION public.rate_partners(of_program_id bigint, partner_ids bigint[], to_bp integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  partner record;
  own jsonb;
  changed integer := 0;
begin
  for partner in
    select r.id, r.group_id, p.commission_duration_months from partners r join programs p on p.id = r.program_id
    where r.program_id = of_program_id and r.id = any (partner_ids) order by r.id for no key update of r
  loop
    own := general_rule_of(of_program_id, null, partner.id);
    if change_rule(of_program_id, null, partner.id, null, coalesce(own, general_rule_of(of_program_id, partner.group_id, null),
      jsonb_build_object('commission_duration_months', partner.commission_duration_months)) || jsonb_build_object('commission_bp', to_bp)) then
      perform note_job_row(of_program_id, partner.id, jsonb_build_object('rule', own));
      changed := changed + 1;
    end if;
  end loop;
  return changed;
end $function$
;

CREATE OR REPLACE FUNCTION public.read_breakdowns(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, asked_metric text, of_currency text, max_values integer, click_cells jsonb)
 RETURNS TABLE(of_metric text, breakdown text, value text, label text, "values" bigint, amount bigint, clicks bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
#variable_conflict use_column
declare
  names constant grouping_name[] := '{partner,link,code,country,device,referrer,page}' || campaign_groupings()::grouping_name[];
  chosen constant text := coalesce(asked_metric, (
    select 'revenue' from daily_money m
    where m.program_id = of_program_id and m.currency = of_currency and m.day between utc_day(from_time) and utc_day(until - interval '1 millisecond')
    having sum(m.revenue_cents) > 0
  ), 'clicks');
  metrics constant grouped_metric[] := case chosen when 'conversion' then '{conversions,clicks}' else array[chosen::grouped_metric] end;
  -- With two filters, the chart reads the same rows.
  is_crossed constant boolean := (select count(*) > 1 from jsonb_object_keys(filters));
  part record;
begin
  part := rows_read(of_program_id, filters, from_time, until, filters <> '{}' and ('clicks' = any (metrics) or is_crossed),
    filters <> '{}' and (chosen <> 'clicks' or is_crossed));
  return query
  with amount as (
    select a.name, a.value, a.metric, a.amount
    from amounts_with_rest(of_program_id, names, metrics, of_currency, true, array[from_time], until, click_cells) a
    where filters = '{}' and a.name <> 'all'
    union all
    select f.name::grouping_name, f.value, f.metric, f.amount
    from facts_by_value(of_program_id, filters, part.read_from, until, part.quarters, part.days, of_currency, metrics, false) f
    where filters <> '{}'
  ),
  listed as materialized (
    select a.name, a.value, total(a.amount) filter (where a.metric = metrics[1]) as amount,
      total(a.amount) filter (where a.metric = 'clicks') as clicks
    from amount a where a.amount <> 0 group by 1, 2
  ),
  counted as (select l.name, count(*) as "values" from listed l group by 1)
  select chosen, 'label', f.key, l.label, 0::bigint, 0::bigint, 0::bigint
  from jsonb_each_text(filters) f cross join lateral label_of_group(of_program_id, f.key, f.value) l (label)
  where l.label is not null
  union all
  select chosen, 'read_from', to_char(part.read_from at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), null, 0, 0, 0
  union all
  -- Keeping the first values of each breakdown is faster than sorting all values, of which there can be thousands.
  (select chosen, k.name::text, r.value, label_of_group(of_program_id, k.name::text, r.value), k."values", r.amount, r.clicks
  from counted k cross join lateral (
    select l.* from listed l where l.name = k.name order by l.amount desc, l.clicks desc, l.value limit max_values
  ) r
  order by r.name, r.amount desc, r.clicks desc, r.value);
end $function$
;

CREATE OR REPLACE FUNCTION public.read_groups(of_program_id bigint, by_name grouping_name, metrics grouped_metric[], sort_metrics grouped_metric[], is_ascending boolean, max_groups integer, of_currency text, first_day text, last_day text, every text, zone text, click_cells jsonb)
 RETURNS TABLE(place integer, value text, label text, starts timestamp with time zone, starts_local text, clicks bigint, bot_clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
#variable_conflict use_column
declare
  from_time constant timestamptz := day_begins(first_day::timestamp, zone);
  until constant timestamptz := day_begins(last_day::timestamp + interval '1 day', zone);
  money constant text := coalesce(of_currency, (select p.currency from programs p where p.id = of_program_id));
  names constant grouping_name[] := case by_name when 'all' then '{all}' else array[by_name, 'all'] end;
  grouped constant text[] := case when by_name = 'all' then '{}' else coalesce(
    first_values(of_program_id, by_name, metrics, sort_metrics, is_ascending, max_groups, money, from_time, until, click_cells), '{}') end;
  -- The row for events without a value requires all values.
  wanted constant text[] := case when array_position(grouped, null) is null then array_append(grouped, '') end;
  interval_starts timestamptz[];
  interval_locals timestamp[];
  read_starts timestamptz[];
begin
  select array_agg(i.at order by i.at), array_agg(i.local order by i.at) into interval_starts, interval_locals
  from intervals_of_days(first_day::timestamp, last_day::timestamp, every, zone) i;
  read_starts := greatest(interval_starts[1], from_time) || interval_starts[2:];
  return query
  with amount as (
    select a.* from amounts_of_values(of_program_id, names, wanted, metrics, money, false, read_starts, until, click_cells) a
    where wanted is not null
    union all
    select a.* from amounts_with_rest(of_program_id, array[by_name], metrics, money, false, read_starts, until, click_cells) a
    where wanted is null
    union all
    select n, 'all', '', 'clicks', 0 from generate_subscripts(interval_starts, 1) n
  ),
  figure as (
    select case a.name when 'all' then 0 else array_position(grouped, a.value) end as place, a.n,
      total(a.amount) filter (where a.metric = 'clicks') as clicks,
      total(a.amount) filter (where a.metric = 'bot_clicks') as bot_clicks,
      total(a.amount) filter (where a.metric = 'leads') as leads,
      total(a.amount) filter (where a.metric = 'conversions') as conversions,
      total(a.amount) filter (where a.metric = 'sales') as sales,
      total(a.amount) filter (where a.metric = 'revenue') as revenue_cents,
      total(a.amount) filter (where a.metric = 'commission') as commission_cents,
      total(a.amount) filter (where a.metric = 'refunded') as refunded_cents
    from amount a group by 1, 2
  )
  select f.place, g.value, g.label, interval_starts[f.n], to_char(interval_locals[f.n], 'YYYY-MM-DD"T"HH24:MI:SS'), f.clicks, f.bot_clicks, f.leads,
    f.conversions, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from figure f
  left join (
    select g.place, g.value, label_of_group(of_program_id, by_name::text, g.value) as label from unnest(grouped) with ordinality g (value, place)
  ) g on g.place = f.place
  where f.place is not null
  order by f.place, f.n;
end $function$
;

CREATE OR REPLACE FUNCTION public.read_partner_campaigns(of_program_id bigint, of_partner_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, of_currency text, max_values integer)
 RETURNS TABLE(breakdown text, value text, label text, "values" bigint, clicks bigint, leads bigint, sales bigint, commission_cents bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
#variable_conflict use_column
declare
  of_theirs constant jsonb := filters || jsonb_build_object('partner', of_partner_id::text);
  part constant record := rows_read(of_program_id, of_theirs, from_time, until, true, true);
  is_counted constant boolean := filters - 'link' = '{}';
begin
  return query
  with amount as materialized (
    select f.* from facts_by_value(of_program_id, of_theirs, part.read_from, until, part.quarters, part.days, of_currency,
      '{clicks,leads,sales,commission}', true) f
    where f.name = any ('{partner,link}' || campaign_groupings()) and f.amount <> 0
  ),
  listed as (
    select case a.name when 'partner' then 'all' else a.name end as name, a.value,
      total(a.amount) filter (where a.metric = 'clicks') as clicks, total(a.amount) filter (where a.metric = 'leads') as leads,
      total(a.amount) filter (where a.metric = 'sales') as sales, total(a.amount) filter (where a.metric = 'commission') as commission_cents
    from amount a where not is_counted or a.name not in ('partner', 'link') group by 1, 2
    union all
    select c.* from counted_partner_figures(of_program_id, of_partner_id, (filters->>'link')::bigint, from_time, until, of_currency) c
    where is_counted
  ),
  ranked as (
    select l.*, row_number() over (partition by l.name order by l.commission_cents desc, l.clicks desc, l.value) as place,
      count(*) over (partition by l.name) as "values"
    from listed l
    -- Skips parameters that don't appear in any click.
    where l.name = 'all' or exists (select from listed named where named.name = l.name and named.value is not null)
  )
  select 'read_from', to_char(part.read_from at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), null::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
    0::bigint
  union all
  select 'label', k.id::text, k.code, 0, 0, 0, 0, 0 from referral_links k
  where k.program_id = of_program_id and k.id = (filters->>'link')::bigint and k.partner_id = of_partner_id
  union all
  (select r.name, r.value, label_of_group(of_program_id, r.name, r.value), r."values", r.clicks, r.leads, r.sales, r.commission_cents
  from ranked r where r.place <= max_values order by r.name, r.place);
end $function$
;

CREATE OR REPLACE FUNCTION public.read_performance(of_program_id bigint, previous_from timestamp with time zone, current_from timestamp with time zone, until timestamp with time zone, at timestamp with time zone)
 RETURNS TABLE(day text, currency text, clicks bigint, leads bigint, conversions bigint, partners bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
  created timestamptz;
  previous_hour timestamptz;
  current_hour timestamptz;
  end_hour timestamptz;
begin
  if current_from is null then
    select program_began(p.id, p.created_at) into created from programs p where p.id = of_program_id;
    current_from := date_trunc('day', created, 'UTC');
    previous_from := current_from;
    until := greatest(created, at) + interval '1 millisecond';
  end if;
  previous_hour := hour_of_bound(previous_from, at);
  current_hour := hour_of_bound(current_from, at);
  end_hour := hour_of_bound(until, at);

  return query
  -- Counts the rows between a bound and its hour once for both ranges. Rows after the bound belong to the range that
  -- begins there, whose totals begin later. The range that ends there has them in its totals, so they are subtracted.
  -- For rows before the bound, it is the other way around.
  with counted as materialized (
    select least(bound.time, bound.hour) as from_time, side.sign * bound.current as current, side.sign * bound.previous as previous, part.*
    from (values (previous_from, previous_hour, 0, 1), (current_from, current_hour, 1, -1), (until, end_hour, -1, 0))
      bound (time, hour, current, previous)
    cross join lateral (select case when bound.hour > bound.time then 1 else -1 end as sign) side
    cross join lateral count_rows(of_program_id, least(bound.time, bound.hour), greatest(bound.time, bound.hour)) part
    where bound.time <> bound.hour
  )
  select f.day::text, f.currency, f.clicks, f.leads, f.conversions, f.partners, f.sales, f.revenue_cents, f.commission_cents, f.refunded_cents
  from (
    select case when range.is_current then t.day end as day, t.currency, total(t.clicks) as clicks, total(t.leads) as leads,
      total(t.conversions) as conversions, 0::bigint as partners, total(t.sales) as sales, total(t.revenue_cents) as revenue_cents,
      total(t.commission_cents) as commission_cents, total(t.refunded_cents) as refunded_cents
    from (values (true, current_hour, end_hour), (false, previous_hour, current_hour)) range (is_current, from_hour, to_hour)
    cross join lateral sum_range(of_program_id, range.from_hour, range.to_hour) t
    group by 1, 2
    union all
    select case when part.is_current then utc_day(c.from_time) end, c.currency, part.sign * c.clicks, part.sign * c.leads, part.sign * c.conversions,
      0, part.sign * c.sales, part.sign * c.revenue_cents, part.sign * c.commission_cents, part.sign * c.refunded_cents
    from counted c cross join lateral (values (true, c.current), (false, c.previous)) part (is_current, sign)
    where part.sign <> 0
    union all
    select case when c.clicked_at >= current_hour then utc_day(c.clicked_at) end, null, count(*), 0, 0, 0, 0, 0, 0, 0
    from uncounted_clicks c
    where c.program_id = of_program_id and not c.is_bot and c.clicked_at >= previous_hour and c.clicked_at < end_hour
    group by 1
    union all
    select case when p.created_at >= current_from then utc_day(p.created_at) end, null, 0, 0, 0, count(*), 0, 0, 0, 0
    from partners p
    where p.program_id = of_program_id and p.created_at >= previous_from and p.created_at < until
    group by 1
  ) f
  order by f.day, f.currency;
end $function$
;

CREATE OR REPLACE FUNCTION public.read_series(of_program_id bigint, filters jsonb, starts timestamp with time zone[], until timestamp with time zone, days_before integer, of_currency text, moment timestamp with time zone, click_cells jsonb)
 RETURNS TABLE(n integer, is_before boolean, metric text, amount bigint, read_from timestamp with time zone)
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
  metrics constant grouped_metric[] := '{clicks,leads,conversions,sales,revenue,commission,refunded}';
  current_starts constant timestamptz[] := read_series.starts;
  shift constant interval := make_interval(hours => 24 * days_before);
  previous_starts constant timestamptz[] := array(select s - shift from unnest(current_starts) s order by s);
  previous_until constant timestamptz := least(current_starts[1], date_bin('15 minutes', moment - shift, 'epoch') + interval '15 minutes');
  current_rows record;
  previous_rows record;
  is_compared boolean := days_before > 0;
begin
  if (select count(*) < 2 from jsonb_object_keys(filters)) then
    return query
    select s.n, false, s.metric::text, s.amount, null::timestamptz
    from series_of_totals(of_program_id, filters, current_starts, read_series.until, of_currency, click_cells) s
    union all
    select s.n, true, s.metric::text, s.amount, null
    from series_of_totals(of_program_id, filters, array(select s from unnest(previous_starts) s where s < previous_until order by s), previous_until,
      of_currency, click_cells) s
    where is_compared;
    return;
  end if;
  current_rows := rows_read(of_program_id, filters, current_starts[1], read_series.until, true, true);
  previous_rows := rows_read(of_program_id, filters, previous_starts[1], current_starts[1], true, true);
  is_compared := is_compared and current_rows.read_from = current_starts[1] and previous_rows.read_from = previous_starts[1];
  return query
  select null::integer, null::boolean, null::text, null::bigint, case when is_compared then previous_starts[1] else current_rows.read_from end
  union all
  select width_bucket(f.at, current_starts), false, f.metric::text, total(f.amount), null
  from filtered_facts(of_program_id, filters, current_rows.read_from, read_series.until, current_rows.quarters, current_rows.days, of_currency, metrics,
    false) f
  group by 1, 3
  union all
  select width_bucket(f.at, previous_starts), true, f.metric::text, total(f.amount), null
  from filtered_facts(of_program_id, filters, previous_starts[1], least(current_starts[1], moment - shift), previous_rows.quarters, previous_rows.days,
    of_currency, metrics, false) f
  where is_compared
  group by 1, 3;
end $function$
;

CREATE OR REPLACE FUNCTION public.record_call(given sales, account_ids text[], corrects_currency boolean, OUT sale sales, OUT inserted boolean, OUT is_corrected boolean, OUT commission_id bigint, OUT commission_cents bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.record_host_checks(found_programs bigint[], missing_programs bigint[])
 RETURNS SETOF bigint
 LANGUAGE plpgsql
AS $function$
declare
  checked program_hosts;
begin
  for checked in
    select h.* from program_hosts h
    where h.program_id = any (found_programs || missing_programs) and h.verified_at is not null
    order by h.program_id for update
  loop
    if checked.program_id = any (found_programs) then
      update program_hosts h set checked_at = now(), missing_since = null where h.program_id = checked.program_id;
    elsif checked.missing_since <= now() - interval '60 hours' then
      update program_hosts h set checked_at = now(), missing_since = null, verified_at = null where h.program_id = checked.program_id;
      perform write_outbox(checked.program_id, 'host_disabled', 'advertiser', null, concat_ws(':', 'host', checked.host, checked.missing_since),
        jsonb_build_object('host', checked.host));
      return next checked.program_id;
    else
      update program_hosts h set checked_at = now(), missing_since = coalesce(h.missing_since, now()) where h.program_id = checked.program_id;
    end if;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.record_provisional_lead(of_program_id bigint, of_click_id text, new_lead_id bigint, session_id text, page_url text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.record_purchase(event processor_events, ids text[], buyer customers)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  known sales := sale_of_payments(event.account_id, not event.livemode, ids);
  given sales;
  sale sales;
begin
  if known.program_id <> event.program_id then
    known := null;
  end if;
  ids := ids_of_payment(event.account_id, ids);
  perform lock_customers_of_payment(event.account_id, ids, buyer.id);
  given := sale_of_purchase(event, known, ids, buyer.id);
  select (r.sale).* into sale from record_sale(given, true) r;
  perform settle_reversals(sale);
  select s.* into sale from sales s where s.program_id = sale.program_id and s.id = sale.id;
  if sale.customer_id is null and event.livemode then
    event.awaits := awaited_names(event.account_id, buyer_names(event.fact));
  end if;
  if sale.processor_event_id = event.event_id then
    return with_outcome(event, 'recorded', case when sale.customer_id is null then 'no_partner' end);
  elsif (sale.amount_cents, sale.commission_base_cents, sale.currency) <> (known.amount_cents, known.commission_base_cents, known.currency) then
    return with_outcome(event, 'recorded', format('sale_corrected %s', sale.transaction_id));
  end if;
  return with_outcome(event, 'duplicate', format('known_payment %s', sale.transaction_id));
end $function$
;

CREATE OR REPLACE FUNCTION public.record_sale(given sales, completes boolean, OUT sale sales, OUT inserted boolean, OUT commission_id bigint, OUT commission_cents bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  customer customers;
  was_attributed boolean := false;
  commission commissions;
begin
  -- A concurrent click on another link moves the customer either before this point or not at all, because a buyer's partner is fixed.
  select c.* into customer from customers c where c.program_id = given.program_id and c.id = given.customer_id for no key update;
  given := with_partner(given, customer);
  -- Repeats if the sale with this transaction id was a test sale that was just cleared.
  loop
    sale := insert_sale(given);
    inserted := sale.id is not null;
    exit when inserted;
    select s.* into sale from sales s
    where s.program_id = given.program_id and s.is_test = given.is_test and s.transaction_id = given.transaction_id
    for no key update;
    exit when found;
  end loop;
  if not inserted then
    was_attributed := sale.customer_id is not null;
    select c.id, c.amount_cents into commission_id, commission_cents from commissions c
    where c.program_id = sale.program_id and c.sale_id = sale.id;
    -- The API and the processor can both report a payment, but only one of them may report the code.
    if customer.id = sale.customer_id and not sale.is_test and names_code(given) and not names_code(sale)
      and (completes or sale.processor_event_id is not null) then
      sale := give_code(sale, given);
    end if;
    if not completes and (was_attributed or customer.id is null or sale.customer_key <> given.customer_key) then
      return;
    end if;
    sale := complete_sale(sale, given);
  end if;
  if was_attributed or sale.customer_id is null or sale.is_test then
    return;
  end if;
  commission_cents := earned_by(sale, customer.first_purchase_date);
  if commission_cents > 0 then
    commission := create_commission(sale.program_id, 'sale', sale.partner_id, sale.customer_id, sale.currency, commission_cents, sale.id,
      sale.code_id, of_review_reason => review_reason_of(customer, given.customer_key), of_time => sale.created_at,
      of_date => sale.sale_date);
    commission_id := commission.id;
  end if;
  perform note_purchase(sale, customer);
  perform count_sale(sale, case when commission.is_shadow then 0 else commission_cents end,
    customer.first_purchase_date is null and sale.amount_cents > 0);
  perform notify_sale(sale, commission_id);
  if sale.sale_date <= customer.first_purchase_date then
    perform follow_first_code(sale.program_id, sale.customer_id);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.record_settled_lead(customer customers, session_id text, page_url text, additional_data jsonb, review review_reason)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.record_unpaid(event processor_events, buyer customers)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  awaits_payment boolean := event.fact->>'awaits_payment' = 'true';
begin
  if event.livemode and awaits_payment then
    perform keep_session(event.program_id, buyer.id, event.fact);
  end if;
  if event.livemode and buyer.id is null and (awaits_payment or event.fact->>'subscription_id' is not null) then
    event.awaits := awaited_names(event.account_id, buyer_names(event.fact));
  end if;
  return case
    when buyer.id is null then with_outcome(event, 'ignored', 'unpaid_and_unattributed')
    when awaits_payment then with_outcome(event, 'recorded', 'payment_under_way')
    when event.fact->>'settles_lead' = 'true' then with_outcome(event, 'recorded', 'lead_settled')
    else with_outcome(event, 'recorded', 'customer_known_unpaid')
  end;
end $function$
;

CREATE OR REPLACE FUNCTION public.record_webhook_attempts(attempts jsonb, failing_days integer)
 RETURNS TABLE(program_id bigint, next_at timestamp with time zone, outbox_ids bigint[])
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  attempt record;
  endpoint webhook_endpoints;
begin
  perform from webhook_endpoints e
  where (e.program_id, e.id) in (
    select a.program_id, a.endpoint_id from jsonb_to_recordset(attempts) a (program_id bigint, endpoint_id bigint)
  )
  order by e.program_id, e.id for no key update;
  update webhook_endpoints e set slow_until = now() + interval '1 day'
  where e.slow_until < now() + interval '23 h' and (e.program_id, e.id) in (
    select a.program_id, a.endpoint_id from jsonb_to_recordset(attempts) a (program_id bigint, endpoint_id bigint, duration_ms integer)
    where a.duration_ms >= 1000
  );
  for attempt in
    select a.* from jsonb_to_recordset(attempts) a (program_id bigint, endpoint_id bigint, message_id bigint, attempted_at timestamptz,
      duration_ms integer, status integer, error text, answer text, is_taken boolean)
    order by a.program_id, a.endpoint_id, a.message_id
  loop
    insert into webhook_attempts (program_id, endpoint_id, message_id, attempted_at, duration_ms, status, error, answer)
    select d.program_id, d.endpoint_id, d.message_id, attempt.attempted_at, attempt.duration_ms, attempt.status, attempt.error, attempt.answer
    from webhook_deliveries d
    where d.program_id = attempt.program_id and d.endpoint_id = attempt.endpoint_id and d.message_id = attempt.message_id;
    -- A delivery keeps its newest 20 attempts, so that sending it again and again doesn't fill the disk.
    delete from webhook_attempts t
    where t.program_id = attempt.program_id and t.endpoint_id = attempt.endpoint_id and t.message_id = attempt.message_id and t.id <= (
      select o.id from webhook_attempts o
      where o.program_id = attempt.program_id and o.endpoint_id = attempt.endpoint_id and o.message_id = attempt.message_id
      order by o.id desc offset 20 limit 1
    );
    update webhook_deliveries d set
      attempt_count = d.attempt_count + 1,
      status = case when attempt.is_taken then 'delivered' when webhook_delay(d.attempt_count + 1) is null then 'failed' else 'pending' end,
      next_attempt_at = case when not attempt.is_taken then now() + webhook_delay(d.attempt_count + 1) end,
      finished_at = case when attempt.is_taken or webhook_delay(d.attempt_count + 1) is null then now() end,
      claimed_until = null
    where d.program_id = attempt.program_id and d.endpoint_id = attempt.endpoint_id and d.message_id = attempt.message_id
      and d.status = 'pending';
    if attempt.is_taken then
      update webhook_endpoints e set failing_since = null, failures = 0, rests_until = null
      where e.program_id = attempt.program_id and e.id = attempt.endpoint_id and e.failing_since is not null;
    else
      -- If several attempts were open when one failed, they count as one failure, because a restarting server refuses several at once.
      update webhook_endpoints e set failing_since = coalesce(e.failing_since, attempt.attempted_at), failures = f.failures, failed_at = now(),
        rests_until = now() + webhook_rest(f.failures)
      from (
        select o.failures + case when o.failures > 0 and attempt.attempted_at < o.failed_at then 0 else 1 end as failures
        from webhook_endpoints o where o.program_id = attempt.program_id and o.id = attempt.endpoint_id
      ) f
      where e.program_id = attempt.program_id and e.id = attempt.endpoint_id
      returning e.* into endpoint;
      if endpoint.failing_since <= now() - make_interval(days => failing_days) and endpoint.disabled_at is null then
        perform disable_webhooks(endpoint);
      end if;
    end if;
  end loop;
  return query
  select p.program_id, next_webhook_at(p.program_id), array(
    select o.id from outbox o where o.program_id = p.program_id and o.id = any (written_outbox_ids())
  )
  from (select distinct a.program_id from jsonb_to_recordset(attempts) a (program_id bigint)) p;
end $function$
;

CREATE OR REPLACE FUNCTION public.recorded_click(aff text, at timestamp with time zone, event_id bigint)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    select json_build_object('click_id', c.click_id, 'partner_code', l.code, 'cookie_window_days', p.cookie_window_days)
    from referral_links l
    join programs p on p.id = l.program_id
    join affiliate_click_events e on e.program_id = l.program_id and not e.is_test and e.click_timestamp = at and e.id = event_id
      and e.link_id = l.id
    join customers c on c.program_id = e.program_id and c.id = e.customer_id
    where lower(l.code) = lower(aff)
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.referring_link(c customers, of_partner_id bigint)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((c).partner_id = of_partner_id) THEN (c).link_id ELSE NULL::bigint END
;

CREATE OR REPLACE FUNCTION public.refill_capped_refunds(sale sales, commission commissions)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  capped record;
  refund refunds;
begin
  for capped in
    select root.id, root.requested_cents, root.untaxed_cents, root.reason, root.reason_text, count(*) as parts,
      root.requested_cents - sum(part.applied_cents) as missing_cents
    from refunds root
    join refunds part on part.program_id = root.program_id and part.sale_id = root.sale_id
      and coalesce(part.continues_refund_id, part.id) = root.id and part.returned_at is null
    where root.program_id = sale.program_id and root.sale_id = sale.id
    group by root.program_id, root.id having root.requested_cents > sum(part.applied_cents) order by root.id
  loop
    exit when sale.refunded_cents = sale.amount_cents;
    refund := null;
    refund.refund_key := format('more:%s:%s', capped.id, capped.parts);
    refund.continues_refund_id := capped.id;
    refund.requested_cents := capped.requested_cents;
    refund.applied_cents := capped.missing_cents;
    refund.untaxed_cents := case when capped.untaxed_cents is not null then 0 end;
    refund.reason := capped.reason;
    refund.reason_text := capped.reason_text;
    refund := take_refund(sale, commission, refund);
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.refund_sale(sale sales, key text, wanted_cents bigint, because text, because_text text, request uuid, OUT commission_id bigint, OUT currency text, OUT outcome text, OUT deduction_cents bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  commission commissions;
  refund refunds;
  refunded bigint;
begin
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  perform lock_balance(commission);
  select r.* into refund from refunds r
  where r.program_id = sale.program_id and r.sale_id = sale.id and (is_refund_key(r.refund_key, key) or r.request_id = request
    or 'id:' || r.processor_reversal_id = key
    or is_processors_own(r) and r.requested_cents = wanted_cents and r.reason = because)
  order by is_refund_key(r.refund_key, key) desc, 'id:' || r.processor_reversal_id is not distinct from key desc, r.id limit 1;
  if is_processors_own(refund) and not is_refund_key(refund.refund_key, key) then
    update refunds r set refund_key = key where r.program_id = refund.program_id and r.id = refund.id;
  elsif refund.id is null and sale.refunded_cents < sale.amount_cents then
    refund.refund_key := key;
    refund.requested_cents := wanted_cents;
    refund.applied_cents := coalesce(wanted_cents, sale.amount_cents);
    refund.reason := because;
    refund.reason_text := because_text;
    refund.request_id := request;
    refund := take_refund(sale, commission, refund);
    refunded := sale.refunded_cents + refund.applied_cents;
  elsif refund.request_id = request then
    -- The first response was lost. Return it again, even if more was refunded since then.
    select sum(r.applied_cents) into refunded from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.id <= refund.id and r.returned_at is null;
  end if;
  commission_id := commission.id;
  currency := commission.currency;
  deduction_cents := refund.deduction_cents;
  outcome := case
    when commission.id is null then 'no_commission'
    when refund.id is null then 'already_reversed'
    when refund.request_id is distinct from request then 'refund_already_applied'
    when commission.rejected_at is not null and refund.deduction_cents = 0 then 'already_reversed'
    when refunded = sale.amount_cents then 'reversed'
    else 'refunded'
  end;
end $function$
;

CREATE OR REPLACE FUNCTION public.refunded_part(sale sales, last_id bigint, OUT refunded numeric, OUT whole numeric)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  untaxed numeric := greatest(sale.commission_base_cents + coalesce(sale.processor_fee_cents, 0), 1);
begin
  whole := sale.amount_cents * untaxed;
  refunded := case sale.refunded_cents when sale.amount_cents then whole when 0 then 0 else (
    select least(whole, sum(case when sale.amount_source <> 'api' and r.untaxed_cents is not null then r.untaxed_cents * sale.amount_cents::numeric
      else r.applied_cents * untaxed end))
    from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.id <= coalesce(last_id, r.id)
  ) end;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_adjustment_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' and current_setting('svc.undoing_import', true) = 'on' and old.import_id is not null then
    return old;
  end if;
  if tg_op = 'DELETE' or (new.program_id, new.id, new.partner_id, new.currency, new.amount_cents, new.created_at)
      <> (old.program_id, old.id, old.partner_id, old.currency, old.amount_cents, old.created_at)
    or old.payout_id is not null and new.payout_id is distinct from old.payout_id and new.payout_id is not null
    or new.note is distinct from old.note and new.note is not null then
    raise exception 'adjustments never change' using errcode = 'restrict_violation';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_archive(reason text, details text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  raise exception '%', reason using errcode = 'data_exception', constraint = 'archive_refused', detail = coalesce(details, '');
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_at_provider(of_program_id bigint, payout_ids bigint[], as_failed boolean DEFAULT false)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select from payout_items i
    join payout_batches b on b.program_id = i.program_id and b.id = i.batch_id
    join payout_connections c on c.id = b.connection_id and c.keys is not null
    where i.program_id = of_program_id and i.payout_id = any (payout_ids) and coalesce(i.outcome, 'sent') in ('sent', 'held', 'unclaimed')
      and not (as_failed and i.provider_status is not distinct from 'BLOCKED')
  ) then
    raise exception 'the payment is at its provider' using errcode = 'restrict_violation', constraint = 'payouts_not_at_provider';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_audit_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' then
    if is_over(old) then
      return old;
    end if;
  end if;
  raise exception 'audit_log is append-only' using errcode = 'restrict_violation';
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_credit_in_shadow_mode()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if current_setting('svc.restoring', true) = 'on' then
    return new;
  end if;
  perform from programs p where p.id = new.program_id for key share;
  if in_shadow_mode(new.program_id) then
    raise exception 'the program is in shadow mode' using errcode = 'restrict_violation', constraint = 'programs_not_in_shadow_mode';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_ledger_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'DELETE' and current_setting('svc.undoing_import', true) = 'on' and old.cause = 'opening_balance'
    and is_in_open_month(old.created_at) and not exists (
    select from balance_entries e where e.program_id = old.program_id and e.partner_id = old.partner_id and e.currency = old.currency
      and e.entry_number > old.entry_number
  ) then
    return old;
  end if;
  raise exception 'balance entries are append-only' using errcode = 'restrict_violation';
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_payout(of_program_id bigint, of_payout_id bigint, because text, OUT status text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  payout payouts := lock_payout(of_program_id, of_payout_id);
begin
  status := payout.status;
  if status in ('requested', 'in_run') then
    update payouts w set status = 'refused', reason = because, decided_at = now()
    where w.program_id = of_program_id and w.id = of_payout_id
    returning w.* into payout;
    perform notify_payout('payout_refused', payout);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_removed_group()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from partner_groups g where g.program_id = new.program_id and g.id = new.group_id and g.removed_at is null for share;
  if not found then
    raise foreign_key_violation using message = 'The program has no such group.', constraint = 'partners_group_id_fkey';
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_rule_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if tg_op = 'UPDATE' then
    if old.ended_at is null and new.ended_at is not null
      and to_jsonb(new) - array['ended_at', 'until_version'] = to_jsonb(old) - array['ended_at', 'until_version'] then
      return new;
    end if;
  elsif current_setting('svc.undoing_import', true) = 'on' then
    return old;
  end if;
  raise restrict_violation using message = 'A commission rule can end, but not change.';
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_unknown_holder(of_program_id bigint, of_group_id bigint, of_partner_id bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if of_group_id is not null then
    perform from partner_groups g where g.program_id = of_program_id and g.id = of_group_id and g.removed_at is null for share;
  elsif of_partner_id is not null then
    perform from partners r where r.program_id = of_program_id and r.id = of_partner_id for key share;
  else
    return;
  end if;
  if not found then
    raise foreign_key_violation using message = 'The program has no such partner or group.', constraint = 'commission_rules_holder_known';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_unsound_customer()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.refuse_unsound_sale()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  -- One expression is cheaper than several.
  if greatest(new.commission_base_cents, new.refunded_cents) <= new.amount_cents
    and num_nulls(new.customer_id, new.partner_id, new.commission_bp) % 3 = 0
    and (new.payment_status <> 'no_payment_required') = (new.amount_cents > 0) then
    return null;
  end if;
  if greatest(new.commission_base_cents, new.refunded_cents) > new.amount_cents then
    raise check_violation using message = 'The commission base and the refunded amount are parts of a sale''s amount.';
  end if;
  if (new.payment_status <> 'no_payment_required') <> (new.amount_cents > 0) then
    raise check_violation using message = 'A sale has an amount, unless no payment was required.';
  end if;
  raise check_violation using message = 'A sale has a customer, a partner and the terms of the program, or none of them.';
end $function$
;

CREATE OR REPLACE FUNCTION public.reject_application(of_program_id bigint, of_application_id bigint, because text, OUT outcome text, OUT is_first boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
begin
  update applications a set status = 'rejected', decided_at = now(), decided_by = acting_user(), decided_by_key = acting_key(), note = because
  where a.program_id = of_program_id and a.id = of_application_id and a.status = 'waiting';
  is_first := found;
  if is_first then
    perform note_job_row(of_program_id, of_application_id, '{}');
  end if;
  outcome := (select a.status from applications a where a.program_id = of_program_id and a.id = of_application_id);
end $function$
;

CREATE OR REPLACE FUNCTION public.reject_commission(of_program_id bigint, of_commission_id bigint, because text, OUT outcome text, OUT deduction_cents bigint, OUT currency text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  commission commissions;
  of_transaction_id text;
begin
  select c.* into commission from commissions c where c.program_id = of_program_id and c.id = of_commission_id for no key update;
  perform lock_balance(commission);
  currency := commission.currency;
  deduction_cents := 0;
  outcome := case
    when commission.rejected_at is null and commission.reversal = 'full' then 'reversed'
    when commission.id is not null then 'rejected'
  end;
  if outcome = 'rejected' and commission.rejected_at is null then
    select s.transaction_id into of_transaction_id from sales s where s.program_id = of_program_id and s.id = commission.sale_id;
    deduction_cents := commission.amount_cents - commission.reversed_cents;
    if commission.held_at is not null then
      perform close_review(of_program_id, of_commission_id, 'rejected', because);
    end if;
    commission.reversal := 'full';
    commission.reason := because;
    commission.rejected_at := now();
    perform write_program_audit(of_program_id, 'commission.rejected', of_commission_id::text, null);
    perform reverse_commission(commission, deduction_cents, null, 'rejection:' || commission.id, 'rejected', of_transaction_id, 'reversal');
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.reject_commissions(of_program_id bigint, commission_ids bigint[], because text, OUT rejected integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  chosen commissions[];
  commission commissions;
begin
  select coalesce(array_agg(locked.c), '{}') into chosen
  from (
    select c from commissions c where c.program_id = of_program_id and c.id = any (commission_ids)
      and c.rejected_at is null and c.reversal <> 'full'
    order by c.id for no key update of c
  ) locked;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select c.program_id, c.partner_id, c.currency from unnest(chosen) c where c.credited_at is not null
  )
  order by b.partner_id, b.currency for no key update;
  foreach commission in array chosen loop
    perform reject_commission(of_program_id, commission.id, because);
  end loop;
  rejected := cardinality(chosen);
end $function$
;

CREATE OR REPLACE FUNCTION public.remove_group(of_program_id bigint, of_group_id bigint)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  members integer;
begin
  -- Locks partners before groups, like `move_partners`.
  perform from partners r where r.program_id = of_program_id and r.group_id = of_group_id order by r.id for no key update;
  update partner_groups g set removed_at = now() where g.program_id = of_program_id and g.id = of_group_id and g.removed_at is null;
  if not found then
    return null;
  end if;
  update partners r set group_id = null where r.program_id = of_program_id and r.group_id = of_group_id;
  get diagnostics members = row_count;
  perform save_rules(of_program_id, of_group_id, null, '[]');
  return members;
end $function$
;

CREATE OR REPLACE FUNCTION public.reopen_payout_run(of_program_id bigint, of_run_id bigint, OUT run_id bigint, OUT is_open boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  run payout_runs;
  payout payouts;
begin
  select r.* into run from payout_runs r where r.program_id = of_program_id and r.id = of_run_id for no key update;
  run_id := run.id;
  is_open := run.paid_at is null or is_reopenable(run);
  if run.paid_at is null or not is_open then
    return;
  end if;
  perform lock_payout_payments(of_program_id, array(
    select w.id from payouts w where w.program_id = of_program_id and w.payout_run_id = of_run_id
  ));
  for payout in
    select w.* from payouts w
    where w.program_id = of_program_id and w.payout_run_id = of_run_id and w.status = 'paid' and w.decided_at = run.paid_at order by w.id
  loop
    if payout.payout_address is null then
      perform end_payout(payout, 'returned', 'The run was reopened after the partner''s account was erased.');
      continue;
    end if;
    perform post_returned_payout(payout);
    update payouts w set status = 'sent', sent_at = coalesce(w.sent_at, now()), decided_at = null, reference = null, paid_on = null
    where w.program_id = of_program_id and w.id = payout.id;
  end loop;
  update payout_runs r set reference = null, paid_on = null, paid_at = null
  where r.program_id = of_program_id and r.id = of_run_id;
  perform write_program_audit(of_program_id, 'payout_run.reopened', of_run_id::text, jsonb_build_object('reference', run.reference));
end $function$
;

CREATE OR REPLACE FUNCTION public.replay_webhooks(of_program_id bigint, of_partner_id bigint, of_endpoint_id bigint, of_message_id bigint, since timestamp with time zone, until timestamp with time zone, failed_only boolean)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  replayed integer;
  address text;
begin
  update webhook_endpoints e set rests_until = null
  where e.program_id = of_program_id and e.partner_id is not distinct from of_partner_id and e.id = of_endpoint_id
    and e.deleted_at is null and e.disabled_at is null and e.url is not null
  returning e.url into address;
  if not found then
    return null;
  end if;
  update webhook_deliveries d set status = 'pending', attempt_count = 0, next_attempt_at = now(), claimed_until = null, finished_at = null
  where d.program_id = of_program_id and d.endpoint_id = of_endpoint_id and d.message_id in (
    select o.message_id from webhook_deliveries o
    join webhook_messages m on m.program_id = o.program_id and m.id = o.message_id
    where o.program_id = of_program_id and o.endpoint_id = of_endpoint_id and o.status <> 'pending'
      and (of_message_id is null or m.id = of_message_id)
      and (since is null or m.created_at >= since) and (until is null or m.created_at < until)
      and (not failed_only or o.status = 'failed')
    order by m.id limit 10000
  );
  get diagnostics replayed = row_count;
  if of_partner_id is null then
    perform write_program_audit(of_program_id, 'webhook.sent_again', address, jsonb_build_object('deliveries', replayed));
  end if;
  return replayed;
end $function$
;

CREATE OR REPLACE FUNCTION public.report_payout_items(of_program_id bigint, of_batch_id bigint, reports jsonb)
 RETURNS bigint[]
 LANGUAGE plpgsql
AS $function$
declare
  report record;
  payout payouts;
begin
  perform lock_payout_payments(of_program_id, array(
    select i.payout_id from payout_items i join jsonb_array_elements(reports) r on (r->>'payout_id')::bigint = i.payout_id
    where i.program_id = of_program_id and i.batch_id = of_batch_id
  ));
  for report in
    select r.* from jsonb_to_recordset(reports) r (payout_id bigint, outcome text, status text, reason text, reference text, claim_until date)
    join payout_items i on i.program_id = of_program_id and i.batch_id = of_batch_id and i.payout_id = r.payout_id
    where rank_of_outcome(r.outcome) >= rank_of_outcome(i.outcome) order by r.payout_id
  loop
    if report.outcome = 'held' then
      perform notify_held_payout(of_program_id, report.payout_id, report.status, report.reason);
    end if;
    update payout_items i set outcome = report.outcome, provider_status = report.status, provider_reason = report.reason,
      claim_until = coalesce(report.claim_until, i.claim_until), read_at = now()
    where i.program_id = of_program_id and i.payout_id = report.payout_id;
    select w.* into payout from payouts w where w.program_id = of_program_id and w.id = report.payout_id;
    perform apply_outcome(payout, report.outcome, report.reason, report.reference, report.claim_until);
  end loop;
  update payout_items i set read_at = now() from jsonb_array_elements(reports) r
  where i.program_id = of_program_id and i.batch_id = of_batch_id and i.payout_id = (r->>'payout_id')::bigint;
  update payout_runs r set reference = b.provider, paid_on = (now() at time zone 'UTC')::date, paid_at = now()
  from (
    select b.payout_run_id, case c.provider when 'paypal' then 'PayPal' when 'wise' then 'Wise' else 'Stripe' end as provider
    from payout_batches b join payout_connections c on c.id = b.connection_id where b.program_id = of_program_id and b.id = of_batch_id
  ) b
  where r.program_id = of_program_id and r.id = b.payout_run_id and r.paid_at is null and not exists (
    select from payouts w where w.program_id = r.program_id and w.payout_run_id = r.id and w.decided_at is null
  );
  return array(
    select w.id from payout_items i join payouts w on w.program_id = i.program_id and w.id = i.payout_id
    where i.program_id = of_program_id and i.batch_id = of_batch_id and i.outcome = 'paid' and w.paid_on is null order by 1
  );
end $function$
;

CREATE OR REPLACE FUNCTION public.require_balance_of_entry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if not exists (
    select from balances b
    where b.program_id = new.program_id and b.partner_id = new.partner_id and b.currency = new.currency
      and b.entry_count >= new.entry_number
  ) then
    raise exception 'a balance entry without its balance' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.resolve_buyer(program programs, fact jsonb, valid_after timestamp with time zone, INOUT resolution jsonb, OUT buyer_id bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.restored(replaced jsonb, column_name text, current_value text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (((replaced -> column_name) ->> 1) = current_value) THEN ((replaced -> column_name) ->> 0) ELSE current_value END
;

CREATE OR REPLACE FUNCTION public.return_payout(of_program_id bigint, of_payout_id bigint, as_status text, because text, OUT status text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  payout payouts;
begin
  perform lock_payout_payments(of_program_id, array[of_payout_id]);
  select w.* into payout from payouts w where w.program_id = of_program_id and w.id = of_payout_id;
  status := payout.status;
  if payout.status <> as_status then
    perform refuse_at_provider(of_program_id, array[of_payout_id], as_failed => true);
  end if;
  perform end_payout(payout, as_status, because);
end $function$
;

CREATE OR REPLACE FUNCTION public.return_payout_lines(payout payouts)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  returned record;
begin
  select array_agg(distinct l.commission_id) as commission_ids, array_agg(distinct l.adjustment_id) as adjustment_ids into returned
  from payout_line_entries l
  where l.program_id = payout.program_id and l.payout_id = payout.id and not l.is_returned and l.amount_cents > 0;
  update payout_lines l set is_returned = true where l.program_id = payout.program_id and l.payout_id = payout.id and not l.is_returned;
  update commissions c set paid_at = null, payout_id = null
  where c.program_id = payout.program_id and c.id = any (returned.commission_ids) and c.paid_at is not null;
  update adjustments a set paid_at = null, payout_id = null
  where a.program_id = payout.program_id and a.id = any (returned.adjustment_ids) and a.paid_at is not null;
end $function$
;

CREATE OR REPLACE FUNCTION public.reversal_of(commission_cents bigint, refunded numeric, whole numeric)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((commission_cents = 0) OR (refunded = whole)) THEN 'full'::text WHEN (refunded > (0)::numeric) THEN 'partial'::text ELSE 'none'::text END
;

CREATE OR REPLACE FUNCTION public.reverse_commission(commission commissions, by_cents bigint, by_refund_id bigint, by_cause text, because text, of_transaction_id text, notification text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update commissions c set reversed_cents = c.reversed_cents + by_cents, reversal = commission.reversal,
    reason = commission.reason, rejected_at = commission.rejected_at
  where c.program_id = commission.program_id and c.id = commission.id;
  if commission.is_shadow then
    notification := null;
  end if;
  if notification = 'reversal' then
    perform notify_reversal(commission, by_cents, by_cause, of_transaction_id);
  elsif notification is not null then
    perform notify_advertiser(notification, commission, by_cents, by_cause, of_transaction_id);
  end if;
  if by_cents = 0 then
    return;
  end if;
  perform count_commission_change(commission, -by_cents);
  if commission.credited_at is not null then
    perform change_balance(commission.program_id, commission.partner_id, commission.currency, -by_cents,
      case when by_cents > 0 then 'commission_reversed' else 'reversal_returned' end, by_cause, details_of(commission, of_transaction_id),
      of_commission_id => commission.id, of_refund_id => by_refund_id);
  end if;
  perform notify_commission_change(commission, by_cents, because, of_transaction_id);
end $function$
;

CREATE OR REPLACE FUNCTION public.reversed_share(commission_cents bigint, refunded numeric, whole numeric)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN (div(((commission_cents)::numeric * refunded), GREATEST(whole, (1)::numeric)))::bigint
;

CREATE OR REPLACE FUNCTION public.review_reason_of(customer customers, named_key text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (((customer).first_purchase_date IS NULL) AND (((customer).key_unverified_since IS NOT NULL) OR (((customer).email_unverified_since IS NOT NULL) AND ((customer).customer_key IS DISTINCT FROM named_key)))) THEN 'unverified_customer'::text ELSE NULL::text END
;

CREATE OR REPLACE FUNCTION public.reviewed_commissions(program_ids bigint[], commission_ids bigint[])
 RETURNS jsonb[]
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(array_agg(to_jsonb(seen)), '{}') from (
    select c.program_id, c.id as commission_id, c.partner_id, c.customer_id, c.sale_id, p.review_rules, r.email_hashes <> '{}' as has_hashes,
      u.signed_up_at, e.click_timestamp as clicked_at, e.device_type, left(e.user_agent, 200) as user_agent, e.visitor,
      substring(e.affiliate_url from '[?&](gclid|gbraid|wbraid|msclkid)=') as ad,
      e.id is not null and num_nonnulls(e.page_url, e.screen_resolution, e.viewport_size, e.session_id) = 0 as is_bare
    from unnest(program_ids, commission_ids) n (program_id, id)
    cross join lateral (select c.* from commissions c where c.program_id = n.program_id and c.id = n.id offset 0) c
    cross join lateral (select p.review_rules from programs p where p.id = c.program_id and p.review_rules <> '{}' offset 0) p
    cross join lateral (
      select coalesce(u.signup_date, u.first_purchase_date) as signed_up_at, u.last_click_at from customers u
      where u.program_id = c.program_id and u.id = c.customer_id offset 0
    ) u
    cross join lateral (select r.email_hashes from partners r where r.program_id = c.program_id and r.id = c.partner_id offset 0) r
    left join lateral (
      select time_or_null(s.resolution->>'clicked_at') as clicked_at from sales s where s.program_id = c.program_id and s.id = c.sale_id offset 0
    ) s on true
    left join lateral (
      select e.* from click_events e
      where e.program_id = c.program_id and not e.is_test
        and e.click_timestamp = coalesce(s.clicked_at, u.last_click_at) and e.customer_id = c.customer_id
      limit 1
    ) e on true
  ) seen
$function$
;

CREATE OR REPLACE FUNCTION public.revoke_code(of_program_id bigint, of_code_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  update partner_codes k set revoked_at = coalesce(k.revoked_at, now()) where k.program_id = of_program_id and k.id = of_code_id;
  return found;
end $function$
;

CREATE OR REPLACE FUNCTION public.revoke_key_of_deleted_program()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  perform from programs p where p.id = new.program_id and p.deleted_at is null for key share;
  if not found then
    new.revoked_at := now();
  end if;
  return new;
end $function$
;

CREATE OR REPLACE FUNCTION public.rewrite_clicks(max_clicks integer, OUT rewritten integer, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET lock_timeout TO '1s'
AS $function$
declare
  of_month date;
  partition text;
  after rewritten_months;
  last rewritten_months;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  of_month := month_to_rewrite();
  more := of_month is not null;
  rewritten := 0;
  if not more then
    return;
  end if;
  partition := 'affiliate_click_events_' || to_char(of_month, 'YYYY_MM');
  perform start_rewriting(of_month, partition);
  if not has_uncopied_clicks(of_month, partition) then
    -- An erasure locks the parent table before the partition, so this function does too.
    lock table affiliate_click_events in access exclusive mode;
    if not has_uncopied_clicks(of_month, partition) then
      perform finish_rewriting(of_month, partition);
      more := month_to_rewrite() is not null;
    end if;
    return;
  end if;
  execute format('lock table %I in share mode', partition);
  select m.* into after from rewritten_months m where m.month = of_month;
  execute format('select n, $1.month, k.program_id, k.is_test, k.click_timestamp, k.id from (
      select e.*, row_number() over (order by e.program_id, e.is_test, e.click_timestamp, e.id) as n from (
        select e.program_id, e.is_test, e.click_timestamp, e.id from %I e
        where (e.program_id, e.is_test, e.click_timestamp, e.id) > ($1.program_id, $1.is_test, $1.click_timestamp, $1.id)
        order by e.program_id, e.is_test, e.click_timestamp, e.id limit $2
      ) e
    ) k order by n desc limit 1', partition)
  into rewritten, last.month, last.program_id, last.is_test, last.click_timestamp, last.id using after, max_clicks;
  rewritten := coalesce(rewritten, 0);
  if rewritten > 0 then
    perform copy_clicks(of_month, partition, after, last);
    update rewritten_months m set program_id = last.program_id, is_test = last.is_test, click_timestamp = last.click_timestamp, id = last.id
    where m.month = of_month;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.rows_read(of_program_id bigint, filters jsonb, from_time timestamp with time zone, until timestamp with time zone, with_clicks boolean, with_others boolean, OUT read_from timestamp with time zone, OUT quarters timestamp with time zone[], OUT days date[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  read_from := from_time;
  if with_clicks then
    select c.read_from, c.quarters into read_from, quarters from clicks_read(of_program_id, filters, from_time, until) c;
  end if;
  if with_others then
    select d.read_from, d.days into read_from, days from days_read(of_program_id, filters, read_from, until) d;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.rows_with(outcome import_outcome, outcomes import_outcome[])
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN cardinality(array_positions(outcomes, outcome))
;

CREATE OR REPLACE FUNCTION public.rules_of(of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint)
 RETURNS SETOF commission_rules
 LANGUAGE sql
 STABLE ROWS 3
AS $function$
  select r.* from (
    select o.* from commission_rules o where o.program_id = of_program_id and o.partner_id = of_partner_id
    union all
    select g.* from commission_rules g where g.program_id = of_program_id and g.partner_id is null and g.group_id = of_group_id
    union all
    select e.* from commission_rules e where e.program_id = of_program_id and e.partner_id is null and e.group_id is null
  ) r
  where r.since_version <= version and (r.until_version is null or r.until_version > version)
$function$
;

CREATE OR REPLACE FUNCTION public.rules_with(of_program_id bigint, of_group_id bigint, of_partner_id bigint, ended_id bigint, added jsonb)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(jsonb_agg(to_jsonb(r) - array['id', 'created_at'] order by r.id), '[]') || coalesce(added, '[]')
  from commission_rules r
  where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
    and r.id is distinct from ended_id
    and (added is null or (r.product_id, r.sale_type) is distinct from (added->>'product_id', added->>'sale_type'))
$function$
;

CREATE OR REPLACE FUNCTION public.sale_of_payments(of_account_id text, of_test boolean, ids text[])
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  -- Computed once instead of for each sale.
  all_ids text[] := ids_of_payment(of_account_id, ids);
  sale sales;
begin
  select s.* into sale from connected_programs(of_account_id) p join sales s on s.program_id = p.id
  where s.is_test = of_test and s.transaction_id = any (all_ids)
  -- A merged sale has an amount of 0 and comes last.
  order by s.amount_cents = 0, s.processor_event_id is null, s.program_id, s.id limit 1;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.sale_of_processor_id(of_program_id bigint, processor_id text)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  account_id text;
  sale sales;
begin
  for account_id in
    select a.id from programs p cross join unnest(accounts_of(p)) a (id)
    where p.id = of_program_id and can_have_payment(a.id, processor_id)
  loop
    perform lock_payments(account_id, array[processor_id]);
    sale := sale_of_program(of_program_id, account_id, false, array[processor_id]);
    if sale.id is null then
      sale := sale_of_program(of_program_id, account_id, true, array[processor_id]);
    end if;
    select s.* into sale from sales s where s.program_id = of_program_id and s.id = sale.id for no key update;
    exit when sale.id is not null;
  end loop;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.sale_of_program(of_program_id bigint, of_account_id text, of_test boolean, ids text[])
 RETURNS sales
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  all_ids text[] := ids_of_payment(of_account_id, ids);
  sale sales;
begin
  select s.* into sale from sales s
  where s.program_id = of_program_id and s.is_test = of_test and s.transaction_id = any (all_ids)
  order by s.amount_cents = 0, s.processor_event_id is null, s.id limit 1;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.sale_of_purchase(event processor_events, known sales, ids text[], of_customer_id bigint)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  given sales := jsonb_populate_record(null::sales, event.fact->'sale');
begin
  given.processor_invoice_id := coalesce(given.processor_invoice_id, first_with_prefix(ids, 'in_'));
  given.transaction_id := coalesce(known.transaction_id, given.processor_invoice_id, given.transaction_id);
  given.program_id := event.program_id;
  given.is_test := not event.livemode;
  given.customer_id := coalesce(known.customer_id, of_customer_id);
  given.customer_key := event.fact->>'customer_key';
  given.resolution := event.resolution;
  if (select p.commission_base from programs p where p.id = event.program_id) = 'net_of_fees' then
    if given.processor_fee_cents > given.commission_base_cents then
      given.processor_fee_cents := given.commission_base_cents;
    end if;
    given.commission_base_cents := given.commission_base_cents - coalesce(given.processor_fee_cents, 0);
  else
    given.processor_fee_cents := null;
  end if;
  given.payment_status := case when given.amount_cents > 0 then 'paid' else 'no_payment_required' end;
  given.processor_event_id := event.event_id;
  given.processor_session_id := event.fact->>'session_id';
  given.processor_customer_id := event.fact->>'processor_customer_id';
  return given;
end $function$
;

CREATE OR REPLACE FUNCTION public.save_join_page(of_program_id bigint, changes jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  page join_pages;
  before_change join_pages;
  new_slug text := changes ->> 'slug';
  terms program_terms;
  new_terms text;
  bills_itself boolean;
begin
  perform from programs p where p.id = of_program_id for no key update;
  select j.* into page from join_pages j where j.program_id = of_program_id;
  if page.slug is null and new_slug is null then
    select coalesce(nullif(trim('-' from left(regexp_replace(lower(p.name), '[^a-z0-9]+', '-', 'g'), 40)), ''), 'program') || '-' || p.id
    into new_slug from programs p where p.id = of_program_id;
  end if;
  if not exists (select from join_slugs s where s.program_id = of_program_id and s.slug = coalesce(new_slug, page.slug)) then
    if (select count(*) from join_slugs s where s.program_id = of_program_id) >= 5 then
      raise exception 'too many addresses' using errcode = 'check_violation', constraint = 'join_slugs_few';
    end if;
    insert into join_slugs (slug, program_id) values (new_slug, of_program_id);
  end if;
  insert into join_pages (program_id, slug) values (of_program_id, coalesce(new_slug, page.slug)) on conflict (program_id) do nothing;
  select j.* into before_change from join_pages j where j.program_id = of_program_id;
  page := before_change;
  page.slug := coalesce(new_slug, page.slug);
  page.is_open := coalesce((changes ->> 'is_open')::boolean, page.is_open);
  if page.is_open and not before_change.is_open
    and not has_verified_owner((select p.workspace_id from programs p where p.id = of_program_id)) then
    raise exception 'nobody confirmed an address' using errcode = 'check_violation', constraint = 'join_pages_verified';
  end if;
  page.approves_at_once := coalesce((changes ->> 'approves_at_once')::boolean, page.approves_at_once);
  page.shows_numbers := coalesce((changes ->> 'shows_numbers')::boolean, page.shows_numbers);
  page.intro := case when changes ? 'intro' then nullif(changes ->> 'intro', '') else page.intro end;
  page.headline := case when changes ? 'headline' then changes ->> 'headline' else page.headline end;
  page.shows_terms := coalesce((changes ->> 'shows_terms')::boolean, page.shows_terms);
  page.shows_calculator := coalesce((changes ->> 'shows_calculator')::boolean, page.shows_calculator);
  page.faq := coalesce(changes -> 'faq', page.faq);
  page.questions := coalesce(changes -> 'questions', page.questions);
  select t.* into terms from program_terms t where t.program_id = of_program_id and t.version = page.terms_version;
  new_terms := case when changes ? 'terms' then nullif(changes ->> 'terms', '') else terms.text end;
  bills_itself := coalesce((changes ->> 'self_billing')::boolean, terms.self_billing, false);
  if new_terms is null and (changes ->> 'self_billing')::boolean then
    raise exception 'nobody can accept missing terms' using errcode = 'check_violation', constraint = 'join_pages_self_billing';
  end if;
  if (new_terms, bills_itself) is distinct from (terms.text, coalesce(terms.self_billing, false)) then
    page.terms_version := null;
    if new_terms is not null then
      -- Versions are kept forever.
      if (
        select count(*) from program_terms t where t.program_id = of_program_id and t.created_at > now() - interval '1 day'
      ) >= 20 then
        raise exception 'too many versions' using errcode = 'check_violation', constraint = 'program_terms_few';
      end if;
      insert into program_terms (program_id, version, text, self_billing)
      select of_program_id, coalesce(max(t.version), 0) + 1, new_terms, bills_itself from program_terms t where t.program_id = of_program_id
      returning version into page.terms_version;
    end if;
  end if;
  if (page.questions, page.terms_version) is distinct from (before_change.questions, before_change.terms_version) then
    page.version := page.version + 1;
  end if;
  update join_pages j set slug = page.slug, is_open = page.is_open, approves_at_once = page.approves_at_once,
    shows_numbers = page.shows_numbers, shows_terms = page.shows_terms, shows_calculator = page.shows_calculator, headline = page.headline,
    intro = page.intro, faq = page.faq, questions = page.questions, terms_version = page.terms_version, version = page.version
  where j.program_id = of_program_id and j is distinct from page;
end $function$
;

CREATE OR REPLACE FUNCTION public.save_mail_choices(of_user_id text, topics text[], frequencies text[])
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into mail_choices (user_id, topic, frequency)
  select u.id, g.topic::mail_topic, g.frequency::mail_frequency from users u, unnest(topics, frequencies) g (topic, frequency) where u.id = of_user_id
  on conflict on constraint mail_choices_pkey do update set frequency = excluded.frequency;
  delete from notification_mails m
  where m.user_id = of_user_id and m.topic in (select c.topic from mail_choices c where c.user_id = of_user_id and c.frequency = 'never')
$function$
;

CREATE OR REPLACE FUNCTION public.save_rules(of_program_id bigint, of_group_id bigint, of_partner_id bigint, rules jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  version integer;
  wanted commission_rules[];
  kept bigint[];
begin
  -- Serializes changes to rules.
  select p.rules_version + 1 into version from programs p where p.id = of_program_id for no key update;
  wanted := array(
    select jsonb_populate_record(null::commission_rules, '{"commission_bp": 0, "commission_fixed_cents": 0}' || jsonb_strip_nulls(given)
      || jsonb_build_object('program_id', of_program_id, 'group_id', of_group_id, 'partner_id', of_partner_id))
    from jsonb_array_elements(rules) given
  );
  kept := array(
    select r.id from commission_rules r join unnest(wanted) w on
      (r.product_id, r.sale_type, r.commission_bp, r.commission_fixed_cents, r.lifetime_cap_cents, r.commission_duration_months,
        r.lead_commission_cents)
      is not distinct from
      (w.product_id, w.sale_type, w.commission_bp, w.commission_fixed_cents, w.lifetime_cap_cents, w.commission_duration_months,
        w.lead_commission_cents)
    where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
  );
  if cardinality(kept) = cardinality(wanted) and not exists (
    select from commission_rules r
    where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
      and r.id <> all (kept)
  ) then
    return false;
  end if;
  update programs p set rules_version = version where p.id = of_program_id;
  update commission_rules r set ended_at = now(), until_version = version
  where r.program_id = of_program_id and r.ended_at is null and (r.group_id, r.partner_id) is not distinct from (of_group_id, of_partner_id)
    and r.id <> all (kept);
  insert into commission_rules (program_id, group_id, partner_id, product_id, sale_type, commission_bp, commission_fixed_cents,
    lifetime_cap_cents, commission_duration_months, lead_commission_cents, since_version)
  select of_program_id, of_group_id, of_partner_id, w.product_id, w.sale_type, w.commission_bp, w.commission_fixed_cents,
    w.lifetime_cap_cents, w.commission_duration_months, w.lead_commission_cents, version
  from unnest(wanted) with ordinality w
  where not exists (
    select from commission_rules r where r.program_id = of_program_id and r.id = any (kept)
      and (r.product_id, r.sale_type) is not distinct from (w.product_id, w.sale_type)
  )
  order by w.ordinality;
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.self_billing_terms(of_program_id bigint, of_partner_id bigint)
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (SELECT max(t.version) AS max FROM (program_terms t LEFT JOIN accepted_terms a ON (((a.program_id = t.program_id) AND (a.partner_id = self_billing_terms.of_partner_id) AND (a.version = t.version)))) WHERE ((t.program_id = self_billing_terms.of_program_id) AND t.self_billing AND (a.withdrawn_at IS NULL) AND ((a.version IS NOT NULL) OR (EXISTS (SELECT FROM applications a_1 WHERE ((a_1.program_id = t.program_id) AND (a_1.partner_id = self_billing_terms.of_partner_id) AND (a_1.terms_version = t.version) AND (a_1.status = 'approved'::text)))))))
;

CREATE OR REPLACE FUNCTION public.send_payouts(of_program_id bigint, payout_ids bigint[], amounts bigint[], addresses text[], of_file_number bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  new_number bigint;
begin
  -- Two new files at the same time get different numbers.
  perform pg_advisory_xact_lock(hashtextextended('payment files of ' || of_program_id, 0));
  perform lock_payout_balances(of_program_id, payout_ids);
  if exists (
    select from unnest(payout_ids, amounts, addresses) f (id, amount_cents, address)
    left join payouts w on w.program_id = of_program_id and w.id = f.id and w.status in ('requested', 'in_run', 'sent', 'paid')
    left join partners p on p.program_id = w.program_id and p.id = w.partner_id
    left join payout_items i on i.program_id = w.program_id and i.payout_id = w.id
    where i.payout_id is not null or w.payment_file_number is distinct from of_file_number
      or (w.amount_cents, coalesce(w.payout_address, p.payout_email, p.email)) is distinct from (f.amount_cents, f.address)
  ) then
    return false;
  end if;
  select coalesce(max(w.payment_file_number), 0) + 1 into new_number from payouts w where w.program_id = of_program_id;
  update payouts w set status = 'sent', sent_at = now(), payout_address = f.address,
    payment_file_number = case w.status when 'requested' then new_number end
  from unnest(payout_ids, addresses) f (id, address)
  where w.program_id = of_program_id and w.id = f.id and w.status in ('requested', 'in_run');
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.send_postback_of_payout()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if wants_webhook(new.program_id, 'payout_paid') then
    perform write_postback(new.program_id, new.partner_id, 'payout_paid', null, null, new.amount_cents, new.currency, 'paid', null);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.send_webhooks_of_partner()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if wants_webhook(new.program_id, 'partner.joined') then
    perform write_webhook(new.program_id, 'partner.joined', jsonb_build_object('partner_id', new.id));
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.send_webhooks_of_payout()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  type constant text := case
    when tg_op = 'INSERT' then 'payout.requested'
    when new.status = 'paid' and old.status <> 'paid' then 'payout.paid'
    when new.amount_cents < old.amount_cents then 'payout.reduced'
  end;
begin
  if wants_webhook(new.program_id, type) then
    perform write_webhook(new.program_id, type, webhook_payout(new)
      || case when type = 'payout.reduced' then jsonb_build_object('reduced_by_cents', old.amount_cents - new.amount_cents) else '{}' end);
  end if;
  return null;
end $function$
;

CREATE OR REPLACE FUNCTION public.series_of_totals(of_program_id bigint, filters jsonb, starts timestamp with time zone[], until timestamp with time zone, of_currency text, click_cells jsonb)
 RETURNS TABLE(n integer, metric grouped_metric, amount bigint)
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
  metrics constant grouped_metric[] := '{clicks,leads,conversions,sales,revenue,commission,refunded}';
  name constant grouping_name := coalesce((select jsonb_object_keys(filters)), 'all');
  wanted constant text := case name when 'all' then '' else filters->>name::text end;
begin
  if wanted is null then
    return query select a.n, a.metric, a.amount
    from amounts_with_rest(of_program_id, array[name], metrics, of_currency, true, series_of_totals.starts, series_of_totals.until, click_cells) a
    where a.value is null;
  else
    return query select a.n, a.metric, a.amount
    from amounts_of_values(of_program_id, array[name], array[wanted], metrics, of_currency, true, series_of_totals.starts, series_of_totals.until,
      click_cells) a;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.settle_browser_lead(of_program_id bigint, of_customer_key text, of_click_id text, new_lead_id bigint, new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb, OUT customer customers, OUT is_first boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.settle_lead(of_program_id bigint, of_customer_key text, of_click_id text, click_id_prefix text, valid_after timestamp with time zone, new_lead_id bigint, new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb, OUT customer_id bigint, OUT lead_id bigint, OUT click_id text, OUT customer_status text)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.settle_refunds(of_program_id bigint, of_sale_id bigint, reported processor_reversals[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  sale sales;
  commission commissions;
begin
  select s.* into strict sale from sales s where s.program_id = of_program_id and s.id = of_sale_id for no key update;
  select c.* into commission from commissions c where c.program_id = of_program_id and c.sale_id = of_sale_id for no key update;
  perform lock_balance(commission);
  sale := enter_earlier_refunds(sale, commission);
  if reported is not null then
    perform claim_api_refunds(sale, reported);
    perform learn_untaxed(sale, commission, reported);
    sale := give_back_refunds(sale, commission, reported);
  end if;
  sale := refill_capped_refunds(sale, commission);
  if reported is not null then
    sale := take_reported_refunds(sale, commission, reported);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.settle_reversals(sale sales)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform settle_reversals_of(account_id, sale)
  from programs p cross join unnest(accounts_of(p)) account_id where p.id = sale.program_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.settle_reversals_of(of_account_id text, sale sales)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  ids text[] := ids_of_payment(of_account_id, array[sale.transaction_id]);
  reversals processor_reversals[];
begin
  update sales s set processor_payment_intent_id = coalesce(s.processor_payment_intent_id, first_with_prefix(ids, 'pi_')),
    processor_charge_id = coalesce(s.processor_charge_id, first_with_prefix(ids, 'ch_'))
  where s.program_id = sale.program_id and s.id = sale.id
    and (s.processor_payment_intent_id is null or s.processor_charge_id is null);
  perform merge_sales(sale, ids);
  perform apply_awaiting_invoices(sale, of_account_id, ids);

  select array_agg(v) into reversals from processor_reversals v
  where v.account_id = of_account_id and (v.payment_intent_id = any (ids) or v.charge_id = any (ids) or v.invoice_id = any (ids))
    and v.currency = sale.currency and v.livemode <> sale.is_test;
  perform settle_refunds(sale.program_id, sale.id, reversals);
  if reversals is not null then
    update processor_events e set outcome = 'recorded', reason = 'sale_known', waits_for = null
    from unnest(reversals) t
    where e.account_id = t.account_id and e.event_id in (t.event_id, t.returned_event_id) and e.outcome = 'parked';
  end if;
  update processor_events e set waits_for = 'conversion'
  from processor_reversals v
  where v.account_id = of_account_id and (v.payment_intent_id = any (ids) or v.charge_id = any (ids) or v.invoice_id = any (ids))
    and v.currency <> sale.currency and v.livemode <> sale.is_test
    and e.account_id = v.account_id and e.event_id in (v.event_id, v.returned_event_id) and e.outcome = 'parked';
end $function$
;

CREATE OR REPLACE FUNCTION public.signed_up_as_test(of_program_id bigint, of_customer_key text, has_code boolean)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM affiliate_lead_events e WHERE ((e.program_id = signed_up_as_test.of_program_id) AND e.is_test AND (e.lead_timestamp > (now() - '1 day'::interval)) AND (e.customer_key = signed_up_as_test.of_customer_key) AND ((e.test_source = 'key'::text) OR ((e.test_source = 'test_link'::text) AND (NOT signed_up_as_test.has_code))))))
;

CREATE OR REPLACE FUNCTION public.signups_of_one_address()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN 5
;

CREATE OR REPLACE FUNCTION public.split_click_id(of_program_id bigint, click_id text, OUT ms bigint, OUT random bigint)
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  if click_id ~ '^cust_[1-9]\d{12}_\d{20}[1-9]\d*$' and substr(click_id, 40) = of_program_id::text
    and substr(click_id, 20, 20)::numeric < 18446744073709551616 then
    ms := substr(click_id, 6, 13)::bigint;
    random := substr(click_id, 20, 20)::numeric - 9223372036854775808;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.standing_of_applicant(of_program_id bigint, of_email text, of_user_id text, OUT outcome text, OUT again_at timestamp with time zone)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select from partners r where r.program_id = of_program_id and r.ended_at is null
      and (r.user_id = of_user_id or (r.user_id is not null and mailbox_of(r.email) = mailbox_of(of_email)))
  ) then
    outcome := 'partner';
    return;
  end if;
  if exists (
    select from applications a where a.program_id = of_program_id and a.status = 'waiting' and (mailbox_of(a.email) = mailbox_of(of_email) or a.user_id = of_user_id)
  ) then
    outcome := 'waiting';
    return;
  end if;
  select a.decided_at + application_rests_after_rejection() into again_at from applications a
  where a.program_id = of_program_id and a.status = 'rejected' and (mailbox_of(a.email) = mailbox_of(of_email) or a.user_id = of_user_id)
    and a.decided_at > now() - application_rests_after_rejection()
  order by a.decided_at desc limit 1;
  if found then
    outcome := 'rejected';
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.start_bulk_job(of_program_id bigint, of_kind text, of_settings jsonb, matching integer, from_position bigint, most_messages integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  job_id bigint;
begin
  if of_kind = 'message' then
    perform pg_advisory_xact_lock(hashtextextended('messages of ' || of_program_id, 0));
    if (
      select count(*) >= most_messages from bulk_jobs j
      where j.program_id = of_program_id and j.kind = 'message' and j.started_at > now() - interval '1 day'
    ) then
      return null;
    end if;
  end if;
  insert into bulk_jobs (program_id, kind, settings, row_count, position, started_by)
  values (of_program_id, of_kind, of_settings, matching, from_position, acting_user())
  returning id into job_id;
  perform write_program_audit(of_program_id, bulk_job_action(of_kind, false), matching || case matching when 1 then ' row' else ' rows' end,
    jsonb_build_object('job', job_id) || of_settings - array['q', 'note']);
  return job_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.start_click_sink()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(hashtext('click_sink'));
  insert into click_sink default values
  on conflict (is_only) do update set copied_program_id = default, copied_until = default, copied_id = default,
    counted_program_id = default, counted_name = default, counted_metric = default, counted_day = default, counted_value = default,
    is_complete = default, up_to = default, dropped_before = default, sent = click_sink.taken;
end $function$
;

CREATE OR REPLACE FUNCTION public.start_rewriting(of_month date, partition text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if to_regclass(format('rewriting.%I', partition)) is null then
    execute format('create table rewriting.%1$I (like %1$I including defaults including constraints including indexes)', partition);
    -- With this, Postgres attaches the copy without reading it.
    execute format('alter table rewriting.%I add constraint within check (click_timestamp >= %L and click_timestamp < %L)', partition,
      day_start(of_month), day_start((of_month + interval '1 month')::date));
    execute format('create or replace trigger copy_click_change after insert or update or delete on %I
      for each row execute function copy_click_change()', partition);
    delete from rewritten_months m where m.month = of_month;
    insert into rewritten_months (month) values (of_month);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.startable_webhooks(endpoint webhook_endpoints)
 RETURNS TABLE(message_id bigint, next_attempt_at timestamp with time zone, place bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select d.message_id, d.next_attempt_at, u.under_way + row_number() over (order by d.next_attempt_at, d.message_id)
  from (
    select count(*) as under_way, min(d.claimed_until) - interval '45 s' as since from webhook_deliveries d
    where d.program_id = endpoint.program_id and d.endpoint_id = endpoint.id and d.next_attempt_at is not null and d.claimed_until > now()
  ) u
  cross join lateral (
    select d.message_id, d.next_attempt_at from webhook_deliveries d
    where d.program_id = endpoint.program_id and d.endpoint_id = endpoint.id and d.next_attempt_at <= now()
      and (d.claimed_until is null or d.claimed_until <= now())
    order by d.next_attempt_at, d.message_id
    limit case when u.since < now() - interval '1 s' then 0
      else greatest(case when endpoint.failing_since is null then webhooks_at_once() else 1 end - u.under_way, 0) end
  ) d
$function$
;

CREATE OR REPLACE FUNCTION public.steps_of_click(of_program_id bigint, is_key_known boolean, of_click_id text, found_id bigint)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION public.steps_of_source(fact jsonb, program_found text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('steps', jsonb_build_array(jsonb_build_array('metadata', CASE WHEN ((fact ->> 'named_by'::text) = 'customer'::text) THEN 'nothing'::text WHEN (COALESCE((fact ->> 'program_id'::text), (fact ->> 'click_id'::text), (fact ->> 'customer_key'::text)) IS NULL) THEN 'nothing'::text ELSE 'found'::text END), jsonb_build_array('customer_metadata', CASE WHEN ((fact ->> 'named_by'::text) = 'customer'::text) THEN 'found'::text WHEN (COALESCE((fact ->> 'click_id'::text), (fact ->> 'customer_key'::text)) IS NOT NULL) THEN 'not_tried'::text WHEN ((fact ->> 'processor_customer_id'::text) IS NULL) THEN 'not_given'::text ELSE 'nothing'::text END), jsonb_build_array('program', program_found)))
;

CREATE OR REPLACE FUNCTION public.stop_payout_batch(of_program_id bigint, of_batch_id bigint)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  stopped_ids bigint[];
  run_id bigint;
  balance record;
begin
  select b.payout_run_id into run_id from payout_batches b where b.program_id = of_program_id and b.id = of_batch_id for no key update;
  perform lock_payout_balances(of_program_id, array(
    select i.payout_id from payout_items i where i.program_id = of_program_id and i.batch_id = of_batch_id and i.attempted_at is null
  ));
  with stopped as (
    delete from payout_items i where i.program_id = of_program_id and i.batch_id = of_batch_id and i.attempted_at is null
      and i.outcome is null
    returning i.payout_id
  )
  select coalesce(array_agg(s.payout_id), '{}') into stopped_ids from stopped s;
  update payouts w set status = 'in_run', sent_at = null
  where w.program_id = of_program_id and w.id = any (stopped_ids) and w.status = 'sent';
  for balance in
    select distinct p.* from payable_balances p join payouts w
      on w.program_id = p.program_id and w.partner_id = p.partner_id and w.currency = p.currency
    where w.program_id = of_program_id and w.id = any (stopped_ids) and p.payable_cents < 0 order by p.partner_id
  loop
    perform fit_stopped_payouts(of_program_id, balance.partner_id, balance.currency, 'payout_batch:' || of_batch_id);
  end loop;
  update payout_batches b set status = 'stopped'
  where b.program_id = of_program_id and b.id = of_batch_id and not exists (
    select from payout_items i where i.program_id = b.program_id and i.batch_id = b.id
  );
  if cardinality(stopped_ids) > 0 then
    perform write_program_audit(of_program_id, 'payout_run.stopped', run_id::text, jsonb_build_object('payments', cardinality(stopped_ids)));
  end if;
  return cardinality(stopped_ids);
end $function$
;

CREATE OR REPLACE FUNCTION public.store_former_commissions(of_program_id bigint, rows jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  given record;
  of_partner_id bigint;
begin
  for given in
    select g.* from jsonb_to_recordset(rows) g (id text, partner text, partner_id bigint, customer_key text, amount_cents bigint,
      currency text, status text, sale_cents bigint, payment_id text, earned_at timestamptz)
  loop
    select r.id into of_partner_id from (
      select p.id from partners p where p.program_id = of_program_id and (p.id = given.partner_id or p.external_id = given.partner
        or lower(p.email) = lower(given.partner))
      union all
      select l.partner_id from referral_links l where l.program_id = of_program_id and lower(l.code) = lower(given.partner)
    ) r limit 1;
    if of_partner_id is null then
      raise foreign_key_violation using message = coalesce(given.partner, given.partner_id::text), constraint = 'former_commissions_partner';
    end if;
    insert into imported_commissions (program_id, partner_id, customer_id, external_id, amount_cents, currency, status, sale_cents, payment_id,
      earned_at)
    values (of_program_id, of_partner_id, (
        select c.id from customers c where c.program_id = of_program_id and c.customer_key = given.customer_key
      ), 'api:' || given.id, given.amount_cents, given.currency, given.status, given.sale_cents, given.payment_id, given.earned_at)
    on conflict on constraint imported_commissions_external_id_key do update set partner_id = excluded.partner_id,
      customer_id = excluded.customer_id, amount_cents = excluded.amount_cents, currency = excluded.currency, status = excluded.status,
      sale_cents = excluded.sale_cents, payment_id = excluded.payment_id, earned_at = excluded.earned_at;
  end loop;
end $function$
;

CREATE OR REPLACE FUNCTION public.store_import_page(of_program_id bigint, of_import_id bigint, rows jsonb, was jsonb, reached jsonb, OUT is_repeated boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  update imports i set position = reached, problem = null
  where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and i.position = was;
  is_repeated := found and reached ? 'cursor' and rows <> '[]' and not exists (
    select from jsonb_to_recordset(rows) n(kind import_kind, source_id text)
    where not exists (
      select from import_rows r
      where r.program_id = of_program_id and r.import_id = of_import_id and r.kind = n.kind and r.source_id = n.source_id
    )
  );
  if found and not is_repeated then
    perform store_import_rows(of_program_id, of_import_id, rows);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.store_import_rows(of_program_id bigint, of_import_id bigint, rows jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  stored import_outcome[];
begin
  with kept as (
    insert into import_rows (program_id, import_id, id, kind, source_id, origin, fields, outcome, reason)
    select i.program_id, i.id, r.id, r.kind, r.source_id, r.origin, r.fields, case when r.problem is not null then 'error'::import_outcome end,
      r.problem
    from imports i
    cross join jsonb_to_recordset(rows) r (id bigint, kind import_kind, source_id text, origin text, fields jsonb, problem text)
    where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading'
    on conflict do nothing returning outcome
  )
  select array_agg(k.outcome) into stored from kept k;
  perform count_import_rows(of_program_id, of_import_id, '{}', coalesce(stored, '{}'), coalesce(cardinality(stored), 0), 0);
end $function$
;

CREATE OR REPLACE FUNCTION public.store_waiting_part(of_program_id bigint, of_import_id bigint, of_part integer, content_base64 text, most_bytes bigint, OUT outcome text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
declare
  of_workspace_id text := (select p.workspace_id from programs p where p.id = of_program_id);
begin
  perform pg_advisory_xact_lock(hashtextextended('archives of ' || of_workspace_id, 0));
  perform from imports i
  where i.program_id = of_program_id and i.id = of_import_id and i.state = 'reading' and of_part between 1 and i.part_count for update;
  if not found then
    return;
  end if;
  delete from archive_parts a where a.program_id = of_program_id and a.import_id <> of_import_id;
  if most_bytes < length(content_base64) / 4 * 3 + (
    select coalesce(sum(octet_length(a.content)), 0) from archive_parts a join programs p on p.id = a.program_id
    where p.workspace_id = of_workspace_id and (a.program_id, a.import_id, a.part) <> (of_program_id, of_import_id, of_part)
  ) then
    outcome := 'full';
    return;
  end if;
  insert into archive_parts (program_id, import_id, part, content) values (of_program_id, of_import_id, of_part, decode(content_base64, 'base64'))
  on conflict (program_id, import_id, part) do update set content = excluded.content;
  update imports i set part_count = null
  where i.program_id = of_program_id and i.id = of_import_id
    and i.part_count = (select count(*) from archive_parts a where a.program_id = of_program_id and a.import_id = of_import_id);
  outcome := case when found then 'complete' else 'stored' end;
end $function$
;

CREATE OR REPLACE FUNCTION public.sum_days(of_program_id bigint, from_day date, to_day date)
 RETURNS TABLE(day date, currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint)
 LANGUAGE sql
 STABLE
AS $function$
select t.day, null::text, t.clicks, t.leads, t.conversions, 0::bigint, 0::bigint, 0::bigint, 0::bigint
from daily_totals t where t.program_id = of_program_id and t.day >= from_day and t.day < to_day
union all
select t.day, t.currency::text, 0, 0, 0, t.sales, t.revenue_cents, t.commission_cents, t.refunded_cents
from daily_money t where t.program_id = of_program_id and t.day >= from_day and t.day < to_day
$function$
;

CREATE OR REPLACE FUNCTION public.sum_hours(of_program_id bigint, of_day date, first integer, last integer)
 RETURNS TABLE(currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint)
 LANGUAGE sql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
select null, sum(hour.clicks), sum(hour.leads), sum(hour.conversions), 0, 0, 0, 0
from daily_totals t
cross join unnest(
  case t.slot when 0 then t.clicks_by_hour[first:last] else array[t.clicks] end,
  case t.slot when 0 then t.leads_by_hour[first:last] else array[t.leads] end,
  case t.slot when 0 then t.conversions_by_hour[first:last] else array[t.conversions] end
) hour (clicks, leads, conversions)
where t.program_id = of_program_id and t.day = of_day and (t.slot = 0 or t.slot between 64 * first and 64 * last + 63)
union all
select t.currency, 0, 0, 0, sum(hour.sales), sum(hour.revenue_cents), sum(hour.commission_cents), sum(hour.refunded_cents)
from daily_money t
cross join unnest(
  case t.slot when 0 then t.sales_by_hour[first:last] else array[t.sales] end,
  case t.slot when 0 then t.revenue_cents_by_hour[first:last] else array[t.revenue_cents] end,
  case t.slot when 0 then t.commission_cents_by_hour[first:last] else array[t.commission_cents] end,
  case t.slot when 0 then t.refunded_cents_by_hour[first:last] else array[t.refunded_cents] end
) hour (sales, revenue_cents, commission_cents, refunded_cents)
where t.program_id = of_program_id and t.day = of_day and (t.slot = 0 or t.slot between 64 * first and 64 * last + 63)
group by t.currency
$function$
;

CREATE OR REPLACE FUNCTION public.sum_range(of_program_id bigint, from_hour timestamp with time zone, to_hour timestamp with time zone)
 RETURNS TABLE(day date, currency text, clicks bigint, leads bigint, conversions bigint, sales bigint, revenue_cents bigint, commission_cents bigint, refunded_cents bigint)
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
  first_day constant date := utc_day(from_hour + interval '23 hours');
  end_day constant date := utc_day(to_hour);
begin
  return query
  select d.day, d.currency, total(d.clicks), total(d.leads), total(d.conversions), total(d.sales), total(d.revenue_cents),
    total(d.commission_cents), total(d.refunded_cents)
  from sum_days(of_program_id, first_day, end_day) d group by 1, 2
  union all
  select utc_day(cut.from_hour), h.*
  from (values (from_hour, least(day_start(first_day), to_hour)), (day_start(greatest(end_day, first_day)), to_hour)) cut (from_hour, to_hour)
  cross join lateral sum_hours(of_program_id, utc_day(cut.from_hour), hour_of_day(cut.from_hour), hour_of_day(cut.to_hour - interval '1 hour')) h
  where cut.from_hour < cut.to_hour;
end $function$
;

CREATE OR REPLACE FUNCTION public.take_click_batch(max_rows integer, OUT batch bigint, OUT clicks text, OUT counts text, OUT erased text, OUT drop_before timestamp with time zone, OUT click_ids bigint[], OUT count_ids bigint[], OUT up_to timestamp with time zone, OUT is_complete boolean, OUT more boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  s click_sink;
begin
  update click_sink k set taken = k.taken + 1 returning k.* into s;
  if s.copied_program_id is not null and (select count(*) from (select from unsent_clicks limit max_rows) u) < max_rows / 2 then
    perform queue_earlier_clicks(max_rows / 2);
  end if;
  if s.counted_program_id is not null and (select count(*) from (select from unsent_counts limit max_rows) u) < max_rows then
    perform queue_earlier_counts(max_rows);
  end if;
  select k.* into s from click_sink k;
  batch := s.taken;
  click_ids := array(select u.id from unsent_clicks u order by u.id limit max_rows);
  count_ids := array(select u.id from unsent_counts u order by u.id limit max_rows);
  clicks := (
    select string_agg(line_of_click(e, batch), E'\n' order by u.program_id, u.clicked_at, u.event_id)
    from (select distinct q.program_id, q.clicked_at, q.event_id from unsent_clicks q where q.id = any (click_ids)) u
    cross join lateral (
      select e.* from click_events e
      where e.program_id = u.program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id offset 0
    ) e
  );
  counts := (
    select string_agg(json_build_object('program_id', q.program_id, 'name', q.grouping_name, 'metric', q.metric, 'day', q.day, 'value', q.value,
      'quarters', q.quarters, 'sums', q.sums, 'version', batch)::text, E'\n' order by q.program_id, q.grouping_name, q.metric, q.day, q.value)
    from (select distinct c.program_id, c.grouping_name, c.metric, c.day, c.value from unsent_counts c where c.id = any (count_ids)) u
    join grouped_quarters q using (program_id, grouping_name, metric, day, value) where q.currency = ''
  );
  erased := (
    select json_agg(distinct jsonb_build_array(u.program_id, microseconds(u.clicked_at), u.event_id))::text from unsent_clicks u
    where u.id = any (click_ids) and u.is_erased
  );
  drop_before := (select k.since from clicks_kept k where k.since > s.dropped_before);
  more := s.copied_program_id is not null or s.counted_program_id is not null
    or cardinality(click_ids) = max_rows or cardinality(count_ids) = max_rows;
  is_complete := s.is_complete or not more;
  -- A count writes clicks and totals at once, and its statement lasts ten seconds at most.
  up_to := case when cardinality(count_ids) = max_rows then s.up_to else least(
    now() - interval '10 seconds', (select min(u.clicked_at) from uncounted_clicks u),
    (select min(u.clicked_at) from unsent_clicks u where not u.is_erased and not exists (select from unnest(click_ids) t (id) where t.id = u.id))
  ) end;
end $function$
;

CREATE OR REPLACE FUNCTION public.take_refund(sale sales, commission commissions, refund refunds)
 RETURNS refunds
 LANGUAGE plpgsql
AS $function$
begin
  refund.applied_cents := least(refund.applied_cents, sale.amount_cents - sale.refunded_cents);
  insert into refunds (program_id, sale_id, refund_key, processor_reversal_id, continues_refund_id, requested_cents, applied_cents,
    untaxed_cents, reason, reason_text, returned_at, request_id)
  values (sale.program_id, sale.id, refund.refund_key, refund.processor_reversal_id, refund.continues_refund_id,
    refund.requested_cents, refund.applied_cents, refund.untaxed_cents, refund.reason, refund.reason_text, refund.returned_at,
    refund.request_id)
  returning * into refund;
  if refund.applied_cents > 0 then
    perform count_refunded(sale, refund.applied_cents);
    refund := move_refunded(sale, commission, refund, refund.applied_cents, coalesce(refund.reason_text, refund.reason));
  end if;
  return refund;
end $function$
;

CREATE OR REPLACE FUNCTION public.take_reported_refunds(sale sales, commission commissions, reported processor_reversals[])
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  reversal processor_reversals;
  refund refunds;
begin
  for reversal in select * from new_reversals(sale, reported) loop
    refund := null;
    refund.refund_key := 'id:' || reversal.reversal_id;
    refund.processor_reversal_id := reversal.reversal_id;
    refund.requested_cents := reversal.amount_cents;
    refund.untaxed_cents := reversal.untaxed_cents;
    refund.applied_cents := case when reversal.returned_at is null then reversal.amount_cents else 0 end;
    refund.reason := reversal.reason;
    refund.reason_text := reversal.reason_text;
    refund.returned_at := case when reversal.returned_at is not null then now() end;
    refund := take_refund(sale, commission, refund);
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.take_unverified_key(of_program_id bigint, of_key text, for_click_id text, valid_after timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.terms_of(of_program_id bigint, version integer, of_partner_id bigint, of_group_id bigint, product_ids text[], sale_type text, in_own_currency boolean)
 RETURNS SETOF commission_rules
 LANGUAGE sql
 STABLE ROWS 1
AS $function$
  select r.* from rules_of(of_program_id, version, of_partner_id, of_group_id) r
  where (r.product_id is null or r.product_id = any (terms_of.product_ids))
    and (r.sale_type is null or r.sale_type = terms_of.sale_type)
    and (in_own_currency or r.commission_bp > 0 or r.commission_fixed_cents = 0)
  order by r.partner_id, r.group_id, array_position(terms_of.product_ids, r.product_id), r.sale_type
  limit 1
$function$
;

CREATE OR REPLACE FUNCTION public.terms_of_lines(sale sales)
 RETURNS line_terms[]
 LANGUAGE sql
 STABLE
AS $function$
  select array_agg((x.rule_id, x.bp, x.months, x.fixed_cents, x.cap_cents, x.weight)::line_terms order by x.weight desc, x.rule_id)
  from (
    select r.id as rule_id, case when r.id is null then (sale.terms_among).commission_bp else r.commission_bp end as bp,
      case when r.id is null then (sale.terms_among).commission_months else r.commission_duration_months end as months,
      case when p.currency = sale.currency then nullif(r.commission_fixed_cents, 0) end as fixed_cents,
      case when p.currency = sale.currency then r.lifetime_cap_cents end as cap_cents, sum(l.weight)::bigint as weight
    from programs p
    cross join unnest(coalesce(sale.lines, array[(null, 1)::sale_line])) l
    left join lateral terms_of(p.id, (sale.terms_among).rules_version, sale.partner_id, (sale.terms_among).group_id, l.product_ids,
      sale.sale_type, p.currency = sale.currency) r on true
    where p.id = sale.program_id
    group by 1, 2, 3, 4, 5
  ) x
$function$
;

CREATE OR REPLACE FUNCTION public.test_webhook(of_program_id bigint, of_partner_id bigint, of_endpoint_id bigint)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  endpoint webhook_endpoints;
  written bigint;
begin
  update webhook_endpoints e set rests_until = null
  where e.program_id = of_program_id and e.partner_id is not distinct from of_partner_id and e.id = of_endpoint_id
    and e.deleted_at is null and e.disabled_at is null
  returning e.* into endpoint;
  if not found then
    return null;
  end if;
  insert into webhook_messages (program_id, type, data)
  values (of_program_id, 'webhook.test', jsonb_build_object('endpoint_id', of_endpoint_id)) returning id into written;
  insert into webhook_deliveries (program_id, endpoint_id, message_id, status, next_attempt_at)
  select of_program_id, of_endpoint_id, written, d.status, d.next_attempt_at from first_delivery(endpoint.url) d;
  if of_partner_id is null then
    perform write_program_audit(of_program_id, 'webhook.tested', coalesce(endpoint.url, 'svc listen'), null);
  end if;
  return written;
end $function$
;

CREATE OR REPLACE FUNCTION public.time_or_null(stored text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN CASE WHEN pg_input_is_valid(stored, 'timestamptz'::text) THEN (stored)::timestamp with time zone ELSE NULL::timestamp with time zone END
;

create aggregate total(bigint) (sfunc = int8pl, stype = bigint, initcond = '0');

CREATE OR REPLACE FUNCTION public.track_browser_lead(of_program_id bigint, of_customer_key text, of_click_id text, new_lead_id bigint, new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb, OUT provisional boolean, OUT lead_id bigint, OUT click_id text, OUT customer_status text, OUT wrote_webhooks boolean, OUT outbox_ids bigint[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.track_browser_test_lead(of_program_id bigint, network bigint, by_test_link boolean, at timestamp with time zone, lead_id bigint, customer_key text, session_id text, page_url text, additional_data jsonb, OUT is_known boolean, OUT is_kept boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
begin
  is_known := exists (select from programs p where p.id = of_program_id and p.deleted_at is null);
  is_kept := is_known and count_public_test_event(of_program_id, network);
  if is_kept then
    perform keep_test_lead(of_program_id, case when by_test_link then 'test_link' end, at, lead_id, customer_key, session_id, page_url, additional_data);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.track_click(aff text, named_program_id bigint, host text, existing_click_id text, click_id_prefix text, at timestamp with time zone, event_id bigint, session_id text, affiliate_url text, page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text, viewport_size text, language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text, browser_name text, additional_data jsonb, campaign jsonb, visitor bigint)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  of_program_id bigint := named_program_id;
  is_ambiguous boolean;
  link record;
  customer bigint;
  customer_click_id text;
  refusal text;
begin
  if of_program_id is null then
    select f.program_id, f.is_ambiguous into of_program_id, is_ambiguous from program_of_click(aff, host) f;
  end if;
  select l.id, l.code, l.program_id, l.partner_id, l.is_active, p.cookie_window_days, p.attribution_model,
    p.deleted_at is not null as is_deleted, p.domain_verified_at is null as is_unverified into link
  from referral_links l join programs p on p.id = l.program_id
  where l.program_id = of_program_id and lower(l.code) = lower(aff);
  if link.is_active is not true or link.partner_id is null or is_blocked(link.program_id) then
    refusal := case
      when is_ambiguous then 'ambiguous_partner_code'
      when link.is_deleted then 'unknown_partner_code'
      when link.id is not null and link.partner_id is not null then 'link_disabled'
      when link.id is not null or named_program_id is null
        and exists (select from referral_links l where lower(l.code) = lower(aff) and l.program_id is null) then 'invalid_link'
      else 'unknown_partner_code'
    end;
    perform note_refusal(coalesce(named_program_id, link.program_id), 'click', refusal, aff);
    return json_build_object('refused', refusal);
  end if;
  if link.is_unverified and named_program_id is not null then
    perform verify_domain(named_program_id, host);
  end if;

  if existing_click_id is not null then
    -- A lead fixes the partner. Before that, the customer moves to the newest link, unless the program keeps the first link.
    update customers c set
      last_click_at = greatest(c.last_click_at, at),
      link_id = case when c.customer_status = 'click' and link.attribution_model = 'last_click'
        then link.id else c.link_id end,
      partner_id = case when c.customer_status = 'click' and link.attribution_model = 'last_click'
        then link.partner_id else c.partner_id end
    where c.program_id = link.program_id and c.click_id = existing_click_id
    returning c.id, c.click_id into customer, customer_click_id;
  end if;
  if customer is null then
    customer_click_id := click_id_prefix || link.program_id;
    insert into customers as c (program_id, click_id, link_id, partner_id, last_click_at)
    values (link.program_id, customer_click_id, link.id, link.partner_id, at)
    returning c.id into customer;
  end if;

  insert into affiliate_click_events (program_id, is_test, click_timestamp, id, customer_id, click_id, link_id, session_id,
    affiliate_url, page_url, page_title, referrer_url, user_agent, screen_resolution, viewport_size, language, timezone,
    geo_country, geo_region, geo_city, device_type, device_os, browser_name, additional_data, campaign, visitor)
  values (link.program_id, false, at, event_id, customer, customer_click_id, link.id, session_id, affiliate_url, page_url, page_title,
    referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city,
    device_type, device_os, browser_name, additional_data, campaign, visitor);

  insert into uncounted_clicks (program_id, link_id, clicked_at, event_id, is_bot)
  values (link.program_id, link.id, at, event_id, coalesce(device_type = 'bot', false));
  return json_build_object('click_id', customer_click_id, 'partner_code', link.code, 'cookie_window_days', link.cookie_window_days);
end $function$
;

CREATE OR REPLACE FUNCTION public.track_lead(hash bytea, claimed_program_id bigint, of_customer_key text, of_click_id text, click_id_prefix text, new_lead_id bigint, new_email_hash bytea, new_mailbox_hash bytea, session_id text, page_url text, additional_data jsonb, OUT key_refusal text, OUT program_matches boolean, OUT program_id bigint, OUT lead_id bigint, OUT click_id text, OUT customer_status text, OUT wrote_webhooks boolean, OUT outbox_ids bigint[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.track_refund(hash bytea, of_transaction_id text, key text, wanted_cents bigint, because text, because_text text, request uuid, OUT key_refusal text, OUT program_id bigint, OUT sale_id bigint, OUT commission_id bigint, OUT currency text, OUT outcome text, OUT deduction_cents bigint, OUT outbox_ids bigint[], OUT wrote_webhooks boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
  sale sales;
begin
  select k.program_id, use_key(k, 'track') into program_id, key_refusal from api_keys k where k.key_hash = hash;
  if key_refusal is distinct from '' then
    return;
  end if;
  -- If a live and a test sale have this id, the live sale wins.
  select s.* into sale from sales s
  where s.program_id = track_refund.program_id and not s.is_test and s.transaction_id = of_transaction_id for no key update;
  if sale.id is null then
    select s.* into sale from sales s
    where s.program_id = track_refund.program_id and s.is_test and s.transaction_id = of_transaction_id for no key update;
  end if;
  if sale.id is null or sale.amount_cents = 0 then
    sale := sale_of_processor_id(track_refund.program_id, of_transaction_id);
  end if;
  if sale.id is null then
    return;
  end if;
  sale_id := sale.id;
  select r.* into commission_id, currency, outcome, deduction_cents
  from refund_sale(sale, key, wanted_cents, because, because_text, request) r;
  outbox_ids := written_outbox_ids();
  wrote_webhooks := wrote_webhook();
end $function$
;

CREATE OR REPLACE FUNCTION public.track_sale(hash bytea, claimed_program_id bigint, request uuid, transaction_id text, customer_key text, of_click_id text, coupon text, click_id_prefix text, is_test boolean, amount_cents bigint, tax_cents bigint, currency text, sale_type text, is_recurring boolean, subscription_id text, additional_data jsonb, corrects_currency boolean, OUT key_refusal text, OUT program_matches boolean, OUT sale_id bigint, OUT is_recorded boolean, OUT same_payload boolean, OUT customer_id bigint, OUT commission_id bigint, OUT commission_cents bigint, OUT program_currency text, OUT is_tested boolean, OUT program_id bigint, OUT wrote_webhooks boolean, OUT is_attributed boolean, OUT outbox_ids bigint[])
 RETURNS record
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.track_test_click(given_program_id bigint, network bigint, aff text, host text, at timestamp with time zone, event_id bigint, session_id text, affiliate_url text, page_url text, page_title text, referrer_url text, user_agent text, screen_resolution text, viewport_size text, language text, timezone text, geo_country text, geo_region text, geo_city text, device_type text, device_os text, browser_name text, additional_data jsonb, campaign jsonb, OUT of_program_id bigint, OUT is_ambiguous boolean, OUT is_kept boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
begin
  if given_program_id is null then
    select f.program_id, f.is_ambiguous into given_program_id, is_ambiguous from program_of_click(aff, host) f;
  end if;
  select p.id into of_program_id from programs p where p.id = given_program_id and p.deleted_at is null;
  is_kept := of_program_id is not null and count_public_test_event(of_program_id, network);
  if is_kept then
    insert into affiliate_click_events (program_id, is_test, click_timestamp, id, session_id, affiliate_url, page_url, page_title,
      referrer_url, user_agent, screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type,
      device_os, browser_name, additional_data, campaign)
    values (of_program_id, true, at, event_id, session_id, affiliate_url, page_url, page_title, referrer_url, user_agent,
      screen_resolution, viewport_size, language, timezone, geo_country, geo_region, geo_city, device_type, device_os, browser_name,
      additional_data, campaign)
    on conflict do nothing;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.track_test_lead(hash bytea, claimed_program_id bigint, at timestamp with time zone, lead_id bigint, customer_key text, session_id text, page_url text, additional_data jsonb, OUT key_refusal text, OUT program_matches boolean)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  key record;
begin
  select k.program_id, use_key(k, 'track') as refusal into key from api_keys k where k.key_hash = hash;
  key_refusal := key.refusal;
  program_matches := key.program_id = coalesce(claimed_program_id, key.program_id);
  if key_refusal is not distinct from '' and program_matches then
    perform keep_test_lead(key.program_id, 'key', at, lead_id, customer_key, session_id, page_url, additional_data);
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.try_step(program programs, fact jsonb, step text, valid_after timestamp with time zone, OUT is_given boolean, OUT found_id bigint, OUT is_valid boolean, OUT clicked_before boolean)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.uncounted_amounts(of_program_id bigint, from_time timestamp with time zone, until timestamp with time zone)
 RETURNS TABLE(at timestamp with time zone, grouping_name grouping_name, value text, metric grouped_metric, currency text, amount bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select u.clicked_at, v.grouping_name, v.value, 'clicks'::grouped_metric, '', 1::bigint
  from uncounted_clicks u
  join referral_links l on l.program_id = u.program_id and l.id = u.link_id
  cross join lateral (
    select values_of_click(e) as origin from click_events e
    where e.program_id = u.program_id and not e.is_test and e.click_timestamp = u.clicked_at and e.id = u.event_id
    offset 0
  ) e
  cross join lateral values_grouped_by(l.partner_id, u.link_id, null, e.origin) v
  where u.program_id = of_program_id and not u.is_bot and u.clicked_at >= from_time and u.clicked_at < until
  union all
  select f.at, v.grouping_name, v.value, m.metric, m.currency, m.amount
  from uncounted_figures f
  join customers c on c.program_id = f.program_id and c.id = f.customer_id
  left join customer_origins known on known.program_id = f.program_id and known.customer_id = f.customer_id
  cross join lateral values_grouped_by(f.partner_id, referring_link(c, f.partner_id), f.code_id,
    coalesce(known.origin, origin_of_customer(c, f.clicked_at))) v
  cross join lateral figures_of(f) m
  where f.program_id = of_program_id and f.at >= from_time and f.at < until
$function$
;

CREATE OR REPLACE FUNCTION public.under_rule(reviewed jsonb[], rule text)
 RETURNS jsonb[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT n.n FROM unnest(under_rule.reviewed) n(n) WHERE ((n.n -> 'review_rules'::text) ? under_rule.rule))
;

CREATE OR REPLACE FUNCTION public.undo_approval(of_program_id bigint, of_application_id bigint)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  partner partners;
begin
  select r.* into partner from applications a join partners r on r.program_id = a.program_id and r.id = a.partner_id
  where a.program_id = of_program_id and a.id = of_application_id and a.status = 'approved' and r.created_at = a.decided_at
  for update;
  -- `customers` has an index by partner for leads and buyers only. The counters know the clicks of all other customers.
  if partner.id is null or exists (
      select from customers c
      where c.program_id = of_program_id and c.partner_id = partner.id and (c.customer_status <> 'click' or c.provisional_lead_at is not null)
    ) or exists (
      select from referral_links l left join link_clicks k on k.program_id = l.program_id and k.link_id = l.id
      left join uncounted_clicks u on u.program_id = l.program_id and u.link_id = l.id
      where l.program_id = of_program_id and l.partner_id = partner.id and coalesce(k.link_id, u.link_id) is not null
    )
  then
    return false;
  end if;
  update applications a set status = 'waiting', partner_id = null, decided_at = null, decided_by = null, decided_by_key = null
  where a.program_id = of_program_id and a.id = of_application_id;
  delete from referral_links l where l.program_id = of_program_id and l.partner_id = partner.id;
  delete from partners r where r.program_id = of_program_id and r.id = partner.id;
  return true;
exception
  -- The partner has an amount, a code, a message or a custom rule, or the person has applied again.
  when foreign_key_violation or unique_violation then
    return false;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_balance_row(undone import_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  adjustment adjustments;
  balance balances;
  entry balance_entries;
begin
  select a.* into adjustment from adjustments a where a.program_id = undone.program_id and a.id = undone.target_id;
  select b.* into balance from balances b
  where b.program_id = adjustment.program_id and b.partner_id = adjustment.partner_id and b.currency = adjustment.currency
  for no key update;
  if is_paid_out(adjustment) then
    return false;
  end if;
  select e.* into entry from balance_entries e where e.program_id = adjustment.program_id and e.adjustment_id = adjustment.id;
  if entry.entry_number = balance.entry_count and is_in_open_month(entry.created_at) then
    update balances b set entry_count = b.entry_count - 1, balance_cents = entry.balance_before_cents
    where b.program_id = balance.program_id and b.partner_id = balance.partner_id and b.currency = balance.currency;
    delete from balance_entries e where e.program_id = entry.program_id and e.partner_id = entry.partner_id
      and e.currency = entry.currency and e.entry_number = entry.entry_number;
    delete from balances b where b.program_id = balance.program_id and b.partner_id = balance.partner_id
      and b.currency = balance.currency and b.entry_count = 0;
    delete from adjustments a where a.program_id = adjustment.program_id and a.id = adjustment.id;
    return true;
  end if;
  update adjustments a set external_id = null where a.program_id = adjustment.program_id and a.id = adjustment.id;
  insert into adjustments (program_id, partner_id, currency, amount_cents, note, request_id, import_id)
  values (adjustment.program_id, adjustment.partner_id, adjustment.currency, -adjustment.amount_cents, adjustment.note, gen_random_uuid(),
    adjustment.import_id)
  returning * into adjustment;
  perform change_balance(adjustment.program_id, adjustment.partner_id, adjustment.currency, adjustment.amount_cents, 'opening_balance',
    'adjustment:' || adjustment.id, jsonb_build_object('adjustment_id', adjustment.id, 'currency', adjustment.currency),
    of_adjustment_id => adjustment.id);
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_bulk_job(of_program_id bigint, of_job_id bigint, max_rows integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  job bulk_jobs;
  changed bulk_job_rows;
  tried integer := 0;
begin
  select j.* into job from bulk_jobs j
  where j.program_id = of_program_id and j.id = of_job_id and j.started_at > now() - bulk_jobs_undone_within() for update;
  if job.id is null then
    return null;
  end if;
  if job.undone_at is null then
    update bulk_jobs j set undone_at = now(), finished_at = coalesce(j.finished_at, now()) where j.program_id = of_program_id and j.id = of_job_id;
    perform write_program_audit(of_program_id, bulk_job_action(job.kind, true), null, jsonb_build_object('job', of_job_id));
  end if;
  perform set_config('svc.job', of_job_id::text, true);
  for changed in
    select r.* from bulk_job_rows r where r.program_id = of_program_id and r.job_id = of_job_id and r.is_undone is null
    order by r.row_id limit max_rows
  loop
    update bulk_job_rows r set is_undone = undo_job_row(job, changed)
    where r.program_id = of_program_id and r.job_id = of_job_id and r.row_id = changed.row_id;
    tried := tried + 1;
  end loop;
  return tried;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_code_row(undone import_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if undone.kind = 'code' then
    delete from partner_codes k where k.program_id = undone.program_id and k.id = undone.target_id
      and not exists (
        select from sales s where s.program_id = k.program_id and s.partner_id = k.partner_id and not s.is_test and s.code_id = k.id
      );
    return found;
  end if;
  delete from referral_links l where l.program_id = undone.program_id and l.id = undone.target_id
    and not exists (
      select from customers c where c.program_id = l.program_id and c.partner_id = l.partner_id and c.link_id = l.id
        and c.customer_status <> 'click'
    )
    and not exists (select from link_clicks k where k.program_id = l.program_id and k.link_id = l.id)
    and not exists (select from uncounted_clicks k where k.program_id = l.program_id and k.link_id = l.id);
  return found;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_customer_row(undone import_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if undone.outcome = 'create' and exists (
    select from customers c where c.program_id = undone.program_id and c.id = undone.target_id and (c.last_click_at is not null
      or exists (select from sales s where s.program_id = c.program_id and s.customer_id = c.id)
      or exists (select from commissions m where m.program_id = c.program_id and m.customer_id = c.id))
  ) or undone.outcome = 'update' and exists (
    select from customers c where c.program_id = undone.program_id and c.id = undone.target_id
      and is_used_since(c, (undone.replaced->>'updated_at')::timestamptz)
  ) then
    return false;
  end if;
  if undone.replaced ? 'added_processor_customer' then
    delete from processor_customers p where p.program_id = undone.program_id and p.customer_id = undone.target_id
      and p.processor_customer_id = undone.fields->>'processor_customer_id';
  end if;
  if undone.outcome = 'create' then
    delete from customers c where c.program_id = undone.program_id and c.id = undone.target_id;
  else
    update customers c set updated_at = now(), customer_key = restored(undone.replaced, 'customer_key', c.customer_key),
      email_hash = restored(undone.replaced, 'email_hash', c.email_hash::text)::bytea,
      mailbox_hash = restored(undone.replaced, 'mailbox_hash', c.mailbox_hash::text)::bytea
    where c.program_id = undone.program_id and c.id = undone.target_id;
  end if;
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_group_row(undone import_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from partners p where p.program_id = undone.program_id and p.group_id = undone.target_id)
    or exists (
      select from commission_rules r join sales s on s.program_id = r.program_id and s.commission_rule_id = r.id
      where r.program_id = undone.program_id and r.group_id = undone.target_id
    ) or exists (
      select from commission_rules r join commissions c on c.program_id = r.program_id and c.lead_rule_id = r.id
      where r.program_id = undone.program_id and r.group_id = undone.target_id
    ) then
    return false;
  end if;
  delete from commission_rules r where r.program_id = undone.program_id and r.group_id = undone.target_id;
  delete from partner_groups g where g.program_id = undone.program_id and g.id = undone.target_id;
  return true;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_import_rows(of_program_id bigint, of_import_id bigint, max_rows integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  next_rows import_rows[];
  undone import_rows;
  undone_now integer := 0;
  is_undone boolean;
begin
  perform from imports i where i.program_id = of_program_id and i.id = of_import_id and i.state = 'undoing' for update;
  if not found then
    return 0;
  end if;
  perform set_config('svc.importing', 'on', true), set_config('svc.undoing_import', 'on', true);
  next_rows := array(
    select r from import_rows r where r.program_id = of_program_id and r.import_id = of_import_id and r.is_applied
    order by r.kind desc, r.id desc limit max_rows
  );
  perform lock_objects_of_rows(next_rows);
  foreach undone in array next_rows loop
    is_undone := undo_row(undone);
    update import_rows r set is_applied = false, reason = case when is_undone then r.reason else 'in_use' end,
      target_id = case when not is_undone or r.outcome = 'update' then r.target_id end
    where r.program_id = of_program_id and r.import_id = of_import_id and r.id = undone.id;
    undone_now := undone_now + 1;
  end loop;
  perform count_import_rows(of_program_id, of_import_id, '{}', '{}', 0, -undone_now);
  if undone_now = 0 then
    update imports i set state = 'undone', undone_at = now() where i.program_id = of_program_id and i.id = of_import_id;
  end if;
  return undone_now;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_job_row(job bulk_jobs, changed bulk_job_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  own jsonb;
begin
  case job.kind
    when 'approve' then
      return undo_approval(job.program_id, changed.row_id);
    when 'reject' then
      update applications a set status = 'waiting', decided_at = null, decided_by = null, decided_by_key = null, note = null
      where a.program_id = job.program_id and a.id = changed.row_id and a.status = 'rejected';
    when 'deactivate' then
      update partners r set is_active = true
      where r.program_id = job.program_id and r.id = changed.row_id and not r.is_active and r.ended_at is null;
      if found then
        -- Links that were disabled before the job stay disabled.
        update referral_links l set is_active = true
        where l.program_id = job.program_id and l.partner_id = changed.row_id and changed.before->'link_ids' @> to_jsonb(l.id);
        return true;
      end if;
    when 'move' then
      update partners r set group_id = (changed.before->>'group_id')::bigint
      where r.program_id = job.program_id and r.id = changed.row_id and r.group_id is not distinct from nullif(job.settings->>'to', '')::bigint;
    when 'rate' then
      own := general_rule_of(job.program_id, null, changed.row_id);
      if (own->>'commission_bp')::integer is distinct from (job.settings->>'rate_bp')::integer then
        return false;
      end if;
      return change_rule(job.program_id, null, changed.row_id, (
        select r.id from commission_rules r where r.program_id = job.program_id and r.partner_id = changed.row_id and r.ended_at is null
          and num_nonnulls(r.product_id, r.sale_type) = 0
      ), nullif(changed.before->'rule', 'null'));
    when 'invite' then
      delete from queued_invitations q where q.program_id = job.program_id and q.partner_id = changed.row_id and q.job_id = job.id;
  end case;
  return found;
exception
  -- The previous group was removed, or the person has applied again.
  when foreign_key_violation or unique_violation then
    return false;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_partner_row(undone import_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  is_undone boolean;
begin
  if undone.outcome = 'update' then
    update partners p set external_id = restored(undone.replaced, 'external_id', p.external_id),
      group_id = restored(undone.replaced, 'group_id', p.group_id::text)::bigint,
      payout_email = case when p.user_id is null then restored(undone.replaced, 'payout_email', p.payout_email) else p.payout_email end
    where p.program_id = undone.program_id and p.id = undone.target_id
    returning p.user_id is null or p.payout_email <> undone.replaced->'payout_email'->>1 into is_undone;
    return coalesce(is_undone, true);
  end if;
  delete from partners p where p.program_id = undone.program_id and p.id = undone.target_id and p.user_id is null
    and not exists (
      select from customers c where c.program_id = p.program_id and c.partner_id = p.id and c.customer_status <> 'click'
    )
    and not exists (select from sales s where s.program_id = p.program_id and s.partner_id = p.id and not s.is_test);
  return found;
end $function$
;

CREATE OR REPLACE FUNCTION public.undo_row(undone import_rows)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  if undone.kind = 'commission' and undone.outcome = 'update' then
    update imported_commissions c set amount_cents = restored(undone.replaced, 'amount_cents', c.amount_cents::text)::bigint,
      status = restored(undone.replaced, 'status', c.status)
    where c.program_id = undone.program_id and c.id = undone.target_id;
    return true;
  elsif undone.kind = 'commission' then
    delete from imported_commissions c where c.program_id = undone.program_id and c.id = undone.target_id;
    return true;
  end if;
  return case undone.kind
    when 'group' then undo_group_row(undone)
    when 'partner' then undo_partner_row(undone)
    when 'customer' then undo_customer_row(undone)
    when 'balance' then undo_balance_row(undone)
    else undo_code_row(undone)
  end;
exception when foreign_key_violation or restrict_violation or check_violation then
  return false;
end $function$
;

CREATE OR REPLACE FUNCTION public.untaxed_part(paid_cents bigint, untaxed bigint, total bigint)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN (div(((((2)::numeric * (paid_cents)::numeric) * (untaxed)::numeric) + (total)::numeric), ((2)::numeric * (total)::numeric)))::bigint
;

CREATE OR REPLACE FUNCTION public.use_key(key api_keys, scope text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
begin
  if key.revoked_at is not null then
    perform note_refusal(key.program_id, 'key', 'api_key_retired', key.hint);
    return 'revoked';
  elsif key.expires_at <= now() then
    perform note_refusal(key.program_id, 'key', 'api_key_expired', key.hint);
    return 'expired';
  elsif is_blocked(key.program_id) then
    return 'blocked';
  elsif scope <> all (key.scopes) then
    perform note_refusal(key.program_id, 'key', 'insufficient_scope', key.hint || ' ' || scope);
    return 'scope';
  elsif key.last_used_at is null or key.last_used_at < now() - interval '1 hour' then
    update api_keys k set last_used_at = now()
    where k.id = (select u.id from api_keys u where u.id = key.id for no key update skip locked);
  end if;
  return '';
end $function$
;

CREATE OR REPLACE FUNCTION public.utc_day(at timestamp with time zone)
 RETURNS date
 LANGUAGE sql
 IMMUTABLE
AS $function$ select (at at time zone 'UTC')::date $function$
;

CREATE OR REPLACE FUNCTION public.values_grouped_by(of_partner_id bigint, of_link_id bigint, of_code_id bigint, origin jsonb)
 RETURNS TABLE(grouping_name grouping_name, value text)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select 'all'::grouping_name, ''
  union all select 'partner', of_partner_id::text where of_partner_id is not null
  union all select 'link', of_link_id::text where of_link_id is not null
  union all select 'code', of_code_id::text where of_code_id is not null
  union all select g, left(origin->>g::text, 200) from unnest(enum_range('country'::grouping_name, null)) g where origin->>g::text <> ''
$function$
;

CREATE OR REPLACE FUNCTION public.values_of_click(click click_events)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (jsonb_strip_nulls(jsonb_build_object('country', "left"(NULLIF((click).geo_country, ''::text), 200), 'device', (click).device_type, 'browser', "left"(NULLIF((click).browser_name, ''::text), 200), 'referrer', host_of_referrer((click).referrer_url), 'page', page_of_click((click).page_url, (click).affiliate_url))) || CASE WHEN is_campaign((click).campaign) THEN (click).campaign ELSE '{}'::jsonb END)
;

CREATE OR REPLACE FUNCTION public.verify_domain(of_program_id bigint, host text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_domain text;
  of_workspace_id text;
begin
  select split_part(p.domain, ':', 1), p.workspace_id into of_domain, of_workspace_id from programs p
  where p.id = of_program_id and p.domain_verified_at is null and split_part(p.domain, ':', 1) = any (domains_of(host))
  for no key update skip locked;
  if found and of_domain like '%.%' and not exists (
    select from programs o
    where split_part(o.domain, ':', 1) in (of_domain, 'www.' || of_domain, regexp_replace(of_domain, '^www\.', ''))
      and o.domain_verified_at is not null and o.deleted_at is null and o.workspace_id <> of_workspace_id
  ) then
    update programs p set domain_verified_at = now() where p.id = of_program_id;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.void_document(of_program_id bigint, of_document_id bigint, because text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
declare
  document documents;
begin
  select d.* into document from documents d where d.program_id = of_program_id and d.id = of_document_id and d.kind = 'invoice';
  perform lock_payout(of_program_id, document.payout_id);
  update documents d set voided_at = now(), void_reason = because
  where d.program_id = of_program_id and d.id = document.id and d.voided_at is null and not exists (
    select from documents c where c.program_id = d.program_id and c.corrects_id = d.id
  );
  if found then
    perform write_program_audit(of_program_id, 'payout.document_voided', document.payout_id::text, jsonb_build_object(
      'document', document.series || '-' || document.number, 'reason', because));
  end if;
  return (select d.voided_at is not null from documents d where d.program_id = of_program_id and d.id = document.id);
end $function$
;

CREATE OR REPLACE FUNCTION public.wait_or_leave_out(event processor_events, ids text[], program programs, is_known boolean, is_imported boolean, by_code boolean)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
declare
  fact jsonb := event.fact;
  payment_id text := fact#>>'{sale,transaction_id}';
begin
  -- Renewals of imported customers don't need metadata.
  if is_known and not program.attribute_known_customers and not is_imported then
    event.resolution := with_step(event.resolution, 'setting', 'off');
    if event.livemode then
      -- The start of the subscription or the customer's metadata can arrive later and identify the buyer.
      event.awaits := awaited_names(event.account_id, array_remove(array['payment ' || payment_id, 'setting ' || program.id,
        'subscription ' || (fact->>'subscription_id'), 'metadata ' || (fact->>'processor_customer_id')], null));
    end if;
    return with_outcome(event, 'ignored', 'known_customers_excluded');
  end if;
  if (is_known or by_code or fact->>'named_by' = 'customer'
      -- A code outranks a click, and an intent doesn't contain codes.
      or fact#>>'{sale,amount_source}' in ('intent', 'charge') and program.attribution_priority = 'code' and knows_promotions(event.account_id))
    and fact->>'reported_alone' = 'false'
    and event.event_created_at > now() - interval '1 hour' and (sale_of_payments(event.account_id, not event.livemode, ids)).id is null then
    event.waits_for := 'session';
    event.awaits := array[awaited_name(event.account_id, 'payment', payment_id)];
    return with_outcome(event, 'parked', 'may_be_explained');
  end if;
  return event;
end $function$
;

CREATE OR REPLACE FUNCTION public.wants_webhook(of_program_id bigint, of_type text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (EXISTS (SELECT FROM programs p WHERE ((p.id = wants_webhook.of_program_id) AND (wants_webhook.of_type = ANY (p.webhook_types)))))
;

CREATE OR REPLACE FUNCTION public.was_in_shadow_mode(p programs, at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (COALESCE(((at >= (p).shadow_since) AND (at < COALESCE((p).shadow_ended_at, 'infinity'::timestamp with time zone))), false) OR (at <@ (p).earlier_shadow_times))
;

CREATE OR REPLACE FUNCTION public.webhook_adjustment(adjustment adjustments, of_transaction_id text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('adjustment_id', (adjustment).id, 'partner_id', (adjustment).partner_id, 'sale_id', (adjustment).sale_id, 'transaction_id', of_transaction_id, 'amount_cents', (adjustment).amount_cents, 'currency', (adjustment).currency, 'external_id', (adjustment).external_id)
;

CREATE OR REPLACE FUNCTION public.webhook_commission(commission commissions, of_transaction_id text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('commission_id', (commission).id, 'kind', (commission).kind, 'partner_id', (commission).partner_id, 'customer_id', (commission).customer_id, 'sale_id', (commission).sale_id, 'transaction_id', of_transaction_id, 'amount_cents', (commission).amount_cents, 'reversed_cents', (commission).reversed_cents, 'currency', (commission).currency, 'is_shadow', (commission).is_shadow)
;

CREATE OR REPLACE FUNCTION public.webhook_delay(attempt_count integer)
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
RETURN (ARRAY['00:00:05'::interval, '00:05:00'::interval, '00:30:00'::interval, '02:00:00'::interval, '05:00:00'::interval, '10:00:00'::interval, '14:00:00'::interval, '20:00:00'::interval, '24:00:00'::interval])[attempt_count]
;

CREATE OR REPLACE FUNCTION public.webhook_payout(payout payouts)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('payout_id', (payout).id, 'partner_id', (payout).partner_id, 'payout_run_id', (payout).payout_run_id, 'amount_cents', (payout).amount_cents, 'currency', (payout).currency, 'status', (payout).status, 'reference', (payout).reference, 'paid_on', (payout).paid_on)
;

CREATE OR REPLACE FUNCTION public.webhook_rest(failures integer)
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (failures < 3) THEN '00:00:05'::interval ELSE '00:01:00'::interval END
;

CREATE OR REPLACE FUNCTION public.webhook_sale(sale sales)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('sale_id', (sale).id, 'transaction_id', (sale).transaction_id, 'partner_id', (sale).partner_id, 'customer_id', (sale).customer_id, 'amount_cents', (sale).amount_cents, 'currency', (sale).currency, 'sale_type', (sale).sale_type, 'is_recurring', (sale).is_recurring, 'subscription_id', (sale).subscription_id, 'coupon', (sale).coupon, 'code_id', (sale).code_id)
;

CREATE OR REPLACE FUNCTION public.webhook_time(at timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN to_char((at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text)
;

CREATE OR REPLACE FUNCTION public.webhooks_at_once()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN 4
;

CREATE OR REPLACE FUNCTION public.window_start(at timestamp with time zone, cookie_window_days integer)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (at - make_interval(hours => (24 * cookie_window_days)))
;

CREATE OR REPLACE FUNCTION public.with_buyer(given sales, account_ids text[], of_click_id text, click_id_prefix text)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.with_clicked_customer(given sales, account_ids text[], of_click_id text, click_id_prefix text)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.with_code(given sales, promotion_ids text[], bought_at timestamp with time zone)
 RETURNS sales
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  named record;
begin
  named := find_code(given.program_id, given.coupon, promotion_ids, bought_at);
  given.code_id := named.code_id;
  given.coupon := coalesce(given.coupon, named.code);
  given.resolution := with_step(coalesce(given.resolution, '{"steps": [["customer_key", "found"]]}'), 'coupon', named.outcome);
  return given;
end $function$
;

CREATE OR REPLACE FUNCTION public.with_current_terms(given sales, program programs)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  partner partners;
begin
  select r.* into partner from partners r where r.program_id = given.program_id and r.id = given.partner_id for key share;
  given := without_terms(given);
  given.commission_bp := program.commission_bp;
  given.commission_months := program.commission_duration_months;
  -- A partner who erased their account earns nothing more.
  if partner.closed_at is not null then
    given.commission_bp := 0;
    given.resolution := given.resolution || '{"partner_left": true}';
  elsif program.rules_version > 0 then
    given.terms_among := (program.rules_version, partner.group_id, given.commission_bp, given.commission_months);
    given := with_terms(given);
  end if;
  return given;
end $function$
;

CREATE OR REPLACE FUNCTION public.with_customer_metadata(of_account_id text, of_livemode boolean, fact jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$
;

CREATE OR REPLACE FUNCTION public.with_outcome(event processor_events, outcome text, reason text)
 RETURNS processor_events
 LANGUAGE plpgsql
AS $function$
begin
  event.outcome := outcome;
  event.reason := reason;
  return event;
end $function$
;

CREATE OR REPLACE FUNCTION public.with_paired_returns(of_account_id text, fact jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  move jsonb := fact#>'{reversals,0}';
  own_id text := move->>'reversal_id';
  is_mark boolean := move->>'pairs' = 'chargeback';
  account_ids text[] := array(
    select o.account_id from processor_connections c join processor_connections o on o.program_id = c.program_id where c.account_id = of_account_id
  );
  paired jsonb;
begin
  if is_mark and not exists (
    select from processor_reversals v where v.account_id = any (account_ids) and v.reversal_id = own_id
  ) then
    update processor_reversals v set reversal_id = own_id
    where v.account_id = any (account_ids) and v.reversal_id = (
      select w.reversal_id from processor_reversals w
      where w.account_id = any (account_ids) and w.charge_id = fact->>'charge_id' and w.reversal_id = w.returned_by
        and w.amount_cents = (move->>'amount_cents')::bigint and w.currency = move->>'currency'
      order by w.created_at, w.reversal_id limit 1
    );
  end if;
  if is_mark is null or move->>'returned' = 'false' then
    return fact;
  end if;
  paired := move || jsonb_build_object(case when is_mark then 'marked_id' else 'returned_by' end, own_id, 'reversal_id', coalesce((
    select v.reversal_id from processor_reversals v cross join lateral (select case when is_mark then v.marked_id else v.returned_by end) room (taken_by)
    where v.account_id = any (account_ids) and v.charge_id = fact->>'charge_id' and v.reason = 'chargeback'
      and v.reversal_id is distinct from v.returned_by
      and v.amount_cents = (move->>'amount_cents')::bigint and v.currency = move->>'currency'
    group by v.reversal_id having coalesce(max(room.taken_by), own_id) = own_id
    order by max(room.taken_by) is null, max(v.returned_at) is null, v.reversal_id <> own_id, min(v.created_at), v.reversal_id limit 1
  ), own_id));
  -- A mark that is stored at another chargeback still reports its own chargeback.
  return jsonb_set(fact, '{reversals}', jsonb_build_array(paired)
    || case when is_mark and paired->>'reversal_id' <> own_id then jsonb_build_array(move || '{"returned": false}') else '[]' end);
end $function$
;

CREATE OR REPLACE FUNCTION public.with_partner(given sales, customer customers)
 RETURNS sales
 LANGUAGE plpgsql
AS $function$
declare
  program programs;
begin
  given.customer_id := customer.id;
  given.partner_id := customer.partner_id;
  if customer.id is null then
    given.code_id := null;
    return without_terms(given);
  end if;
  select p.* into program from programs p where p.id = given.program_id;
  -- A sale without steps got its customer through the customer key alone, as most sales from the API do.
  given.resolution := jsonb_build_object('at', now(), 'link_id', customer.link_id, 'clicked_at', customer.last_click_at,
    'came_at', customer.created_at, 'window_days', program.cookie_window_days, 'model', program.attribution_model,
    'hold_days', program.hold_days) || coalesce(given.resolution, '{"steps": [["customer_key", "found"]]}');
  -- A first purchase can't follow an earlier purchase with a code.
  if customer.link_id is not null and coalesce(given.sale_date < customer.first_purchase_date, customer.first_purchase_date is null) then
    customer.code_id := null;
  end if;
  if coalesce(given.code_id, customer.code_id) is not null then
    select d.code_id, d.partner_id, d.resolution into given.code_id, given.partner_id, given.resolution
    from decide_by_code(given, customer, customer.code_id, given.resolution) d;
  end if;
  return with_current_terms(given, program);
end $function$
;

CREATE OR REPLACE FUNCTION public.with_partner_of_row(import imports, planned import_rows)
 RETURNS import_rows
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  named constant text := planned.fields->>'partner';
begin
  select coalesce(r.partner_row_id, r.id), r.partner_id into planned.partner_row_id, planned.partner_id from (
    select r.id, r.partner_row_id, r.partner_id, 1 as place from import_rows r
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'partner' and r.source_id = named and r.outcome <> 'error'
    union all
    select r.id, r.partner_row_id, r.partner_id, 2 from import_rows r
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'partner' and r.fields->>'email' = lower(named)
      and r.outcome <> 'error'
    union all
    select r.partner_row_id, null, r.partner_id, 3 from import_rows r
    where r.program_id = import.program_id and r.import_id = import.id and r.kind = 'link' and lower(r.fields->>'code') = lower(named)
      and r.outcome <> 'error'
  ) r order by r.place, r.id limit 1;
  if num_nonnulls(planned.partner_row_id, planned.partner_id) = 0 then
    select r.id into planned.partner_id from (
      select p.id, 1 as place from partners p where p.program_id = import.program_id and p.external_id = imported_id(import, named)
      union all
      select p.id, 2 from partners p where p.program_id = import.program_id and lower(p.email) = lower(named)
      union all
      select l.partner_id, 3 from referral_links l where l.program_id = import.program_id and lower(l.code) = lower(named)
    ) r order by r.place limit 1;
  end if;
  return planned;
end $function$
;

CREATE OR REPLACE FUNCTION public.with_session(of_account_id text, fact jsonb, ids text[])
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  session processor_sessions;
begin
  select s.* into session from connected_programs(of_account_id) p join processor_sessions s on s.program_id = p.id
  where s.session_id = any (ids_of_payment(of_account_id, ids)) limit 1;
  if session.session_id is null then
    return fact;
  end if;
  fact := fact || jsonb_build_object('program_id', session.program_id, 'session_id', session.session_id, 'asks_invoice_of', null);
  if session.asked_total is null then
    return fact;
  end if;
  return jsonb_set(fact, '{sale}', fact->'sale' || jsonb_build_object('amount_source', 'session', 'commission_base_cents',
    untaxed_part((fact#>>'{sale,amount_cents}')::bigint, session.asked_untaxed, session.asked_total)));
end $function$
;

CREATE OR REPLACE FUNCTION public.with_step(resolution jsonb, step text, found text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (COALESCE(resolution, '{}'::jsonb) || jsonb_build_object('steps', (COALESCE((resolution -> 'steps'::text), '[]'::jsonb) || jsonb_build_array(jsonb_build_array(step, found)))))
;

CREATE OR REPLACE FUNCTION public.with_terms(sale sales)
 RETURNS sales
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  parts line_terms[];
begin
  if (sale.terms_among).rules_version is null then
    return sale;
  end if;
  parts := terms_of_lines(sale);
  sale.commission_rule_id := (parts[1]).rule_id;
  sale.commission_bp := (parts[1]).commission_bp;
  sale.commission_months := (parts[1]).commission_months;
  sale.commission_fixed_cents := (parts[1]).fixed_cents;
  sale.commission_cap_cents := (parts[1]).cap_cents;
  sale.terms_by_line := case when cardinality(parts) > 1 then parts end;
  return sale;
end $function$
;

CREATE OR REPLACE FUNCTION public.withdraw_self_billing(of_program_id bigint, of_user_id text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  of_partner_id bigint;
  agreed integer;
  last integer;
begin
  select r.id into of_partner_id from partners r where r.program_id = of_program_id and r.user_id = of_user_id for no key update;
  loop
    agreed := self_billing_terms(of_program_id, of_partner_id);
    exit when agreed is null;
    insert into accepted_terms (program_id, partner_id, version, withdrawn_at) values (of_program_id, of_partner_id, agreed, now())
    on conflict (program_id, partner_id, version) do update set withdrawn_at = now();
    last := coalesce(last, agreed);
  end loop;
  if last is not null then
    perform write_outbox(of_program_id, 'self_billing_withdrawn', 'advertiser', of_partner_id, format('terms:%s:%s:%s', of_partner_id, last,
      extract(epoch from now())), '{}');
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.without_steps(resolution jsonb, steps text[])
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (resolution || jsonb_build_object('steps', (SELECT COALESCE(jsonb_agg(s.step ORDER BY s.place), '[]'::jsonb) AS "coalesce" FROM jsonb_array_elements((without_steps.resolution -> 'steps'::text)) WITH ORDINALITY s(step, place) WHERE ((s.step ->> 0) <> ALL (without_steps.steps)))))
;

CREATE OR REPLACE FUNCTION public.without_terms(given sales)
 RETURNS sales
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  given.commission_bp := null;
  given.commission_months := null;
  given.commission_rule_id := null;
  given.commission_fixed_cents := null;
  given.commission_cap_cents := null;
  given.terms_among := null;
  given.terms_by_line := null;
  return given;
end $function$
;

CREATE OR REPLACE FUNCTION public.without_words(payload jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (((payload ->> 'reason'::text) IS NULL) OR ((payload ->> 'reason'::text) = ANY (ARRAY['refund'::text, 'chargeback'::text]))) THEN payload ELSE (payload || '{"reason": "refund"}'::jsonb) END
;

CREATE OR REPLACE FUNCTION public.workspace_webhooks_at_once()
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN 24
;

CREATE OR REPLACE FUNCTION public.workspace_webhooks_under_way(of_workspace_id text)
 RETURNS bigint
 LANGUAGE sql
 STABLE
RETURN (SELECT count(*) AS count FROM ((programs p JOIN webhook_endpoints e ON (((e.program_id = p.id) AND (e.deleted_at IS NULL) AND (e.disabled_at IS NULL)))) CROSS JOIN LATERAL (SELECT d_1.claimed_until FROM webhook_deliveries d_1 WHERE ((d_1.program_id = e.program_id) AND (d_1.endpoint_id = e.id) AND (d_1.next_attempt_at <= now())) ORDER BY d_1.next_attempt_at LIMIT (2 * webhooks_at_once())) d) WHERE ((p.workspace_id = workspace_webhooks_under_way.of_workspace_id) AND (d.claimed_until > now())))
;

CREATE OR REPLACE FUNCTION public.write_audit(of_workspace_id text, of_program_id bigint, of_action text, of_subject text, of_subject_user_id text, of_details jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if current_setting('svc.restoring', true) = 'on' or current_setting('svc.importing', true) = 'on' or current_setting('svc.job', true) <> '' then
    return;
  end if;
  insert into audit_log (workspace_id, program_id, user_id, api_key_id, action, subject, subject_user_id, details)
  values (of_workspace_id, of_program_id, acting_user(), acting_key(), of_action, left(nullif(of_subject, ''), 500), of_subject_user_id,
    coalesce(of_details, '{}'));
end $function$
;

CREATE OR REPLACE FUNCTION public.write_commission_postback(of_event text, commission commissions, of_cents bigint, because text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_postback(c.program_id, c.partner_id, of_event, c.customer_id, c.sale_id, of_cents, c.currency, c.status, because)
  from commissions c where c.program_id = commission.program_id and c.id = commission.id and not c.is_shadow;
end $function$
;

CREATE OR REPLACE FUNCTION public.write_daily_notifications(moment timestamp with time zone, of_program_id bigint DEFAULT NULL::bigint)
 RETURNS TABLE(program_id bigint, outbox_id bigint)
 LANGUAGE sql
AS $function$
  with yesterday as (
    select utc_day(moment) - 1 as day, date_trunc('day', moment, 'UTC') - interval '24 hours' as began, date_trunc('day', moment, 'UTC') as ended
  )
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  select r.program_id, 'commission_earned', 'partner', r.id, concat_ws(':', 'day', r.id, y.day, e.currency),
    jsonb_build_object('day', y.day, 'commissions', e.commissions, 'amount_cents', e.amount_cents, 'currency', e.currency)
  from yesterday y cross join programs p
  cross join lateral (
    select c.partner_id, c.currency, count(*) as commissions, sum(c.amount_cents) as amount_cents
    from (
      select c.id from commissions c where c.program_id = p.id and c.created_at >= y.began and c.created_at < y.ended
        and not exists (select from commission_reviews v where v.program_id = c.program_id and v.commission_id = c.id)
      union all
      select v.commission_id from commission_reviews v join commissions c on c.program_id = v.program_id and c.id = v.commission_id
      where v.program_id = p.id and v.decision = 'released' and v.decided_at >= y.began and v.decided_at < y.ended and not exists (
        select from outbox o where o.program_id = c.program_id and o.kind = 'commission_earned' and o.audience = 'partner'
          and o.cause = concat_ws(':', 'day', c.partner_id, utc_day(c.created_at), c.currency) and o.created_at < v.flagged_at
      )
    ) earned
    join commissions c on c.program_id = p.id and c.id = earned.id
    where c.reversal <> 'full' and c.rejected_at is null and not c.is_shadow
    group by 1, 2
  ) e
  join partners r on r.program_id = p.id and r.id = e.partner_id
  where p.deleted_at is null and r.closed_at is null and r.user_id is not null and mail_frequency_of(r.user_id, 'earned') = 'daily'
    and (p.id = of_program_id or of_program_id is null)
  union all
  select d.program_id, 'payout_due', 'advertiser', null, 'payout_due:' || to_char(moment at time zone 'UTC', 'IYYY-IW'),
    jsonb_build_object('partners', count(distinct d.partner_id))
  from payouts_due d join programs p on p.id = d.program_id
  where d.exclusion_reason is null and p.deleted_at is null and (d.program_id = of_program_id or of_program_id is null) group by d.program_id
  union all
  select r.program_id, 'statement_ready', 'partner', r.id, concat_ws(':', 'statement', r.id, m.month), jsonb_build_object('month', m.month)
  from (
    select to_char(a.began, 'YYYY-MM') as month, a.began at time zone 'UTC' as began, (a.began + interval '1 month') at time zone 'UTC' as ended
    from (select date_trunc('month', moment at time zone 'UTC') - interval '1 month' as began) a
  ) m
  cross join mail_choices c
  join partners r on r.user_id = c.user_id and r.closed_at is null
  join programs p on p.id = r.program_id and p.deleted_at is null
  where c.topic = 'statement' and c.frequency <> 'never' and (r.program_id = of_program_id or of_program_id is null) and exists (
    select from balance_entries e
    where e.program_id = r.program_id and e.partner_id = r.id and e.created_at >= m.began and e.created_at < m.ended
  )
  on conflict on constraint outbox_cause_key do nothing
  returning program_id, id
$function$
;

CREATE OR REPLACE FUNCTION public.write_message(of_program_id bigint, of_partner_id bigint, of_type text, of_data jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  written bigint;
begin
  if current_setting('svc.restoring', true) = 'on' then
    return;
  end if;
  insert into webhook_messages (program_id, type, data) values (of_program_id, of_type, jsonb_strip_nulls(of_data)) returning id into written;
  insert into webhook_deliveries (program_id, endpoint_id, message_id, status, next_attempt_at)
  select e.program_id, e.id, written, d.status, d.next_attempt_at from webhook_endpoints e cross join lateral first_delivery(e.url) d
  where e.program_id = of_program_id and e.partner_id is not distinct from of_partner_id and of_type = any (e.types)
    and e.disabled_at is null and e.deleted_at is null;
  if found then
    perform set_config('svc.webhooks', 'on', true);
  else
    -- The last endpoint with this type has been disabled in the meantime.
    delete from webhook_messages m where m.program_id = of_program_id and m.id = written;
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.write_notifications(program_ids bigint[], outbox_ids bigint[], reading_roles text[])
 RETURNS TABLE(program_id bigint, outbox_id bigint)
 LANGUAGE sql
AS $function$
  with row as (
    select o.* from outbox o
    join (select distinct m.program_id, m.id from unnest(program_ids, outbox_ids) m (program_id, id)) named using (program_id, id)
    order by o.program_id, o.id
  ), notification as (
    insert into notifications (program_id, id, kind, audience, partner_id, payload, created_at)
    select r.program_id, r.id, r.kind, r.audience, r.partner_id, r.payload, r.created_at from row r
    on conflict on constraint notifications_pkey do nothing
    returning *
  ), mail as (
    insert into notification_mails (program_id, notification_id, user_id, topic, frequency, due_at)
    select n.program_id, n.id, t.user_id, mail_topic_of(n.kind), f.frequency,
      case f.frequency when 'daily' then next_daily_mail() else now() end
    from notification n
    cross join lateral mail_recipients(n.program_id, n.audience, n.partner_id, reading_roles) t
    cross join lateral mail_frequency_of(t.user_id, mail_topic_of(n.kind)) f (frequency)
    where f.frequency <> 'never'
  ), payee_mail as (
    -- Partners without an account get mail about their payouts.
    insert into payee_mails (program_id, notification_id)
    select n.program_id, n.id from notification n join partners r on r.program_id = n.program_id and r.id = n.partner_id
    where n.kind in ('payout_paid', 'payout_returned', 'payout_unclaimed') and r.user_id is null and r.email is not null
  ), delivered as (
    update outbox o set delivered_at = now() from row r
    where o.program_id = r.program_id and o.id = r.id and o.delivered_at is null
  )
  select r.program_id, r.id from row r
$function$
;

CREATE OR REPLACE FUNCTION public.write_outbox(of_program_id bigint, of_kind text, of_audience text, of_partner_id bigint, of_cause text, of_payload jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  written bigint;
begin
  insert into outbox (program_id, kind, audience, partner_id, cause, payload)
  values (of_program_id, of_kind, of_audience, of_partner_id, of_cause, of_payload)
  returning id into written;
  perform set_config('svc.outbox_ids', concat_ws(',', nullif(current_setting('svc.outbox_ids', true), ''), written), true);
end $function$
;

CREATE OR REPLACE FUNCTION public.write_payout_lines(payout payouts, of_payment_number integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  written_cents bigint;
begin
  with unpaid as materialized (
    select u.entry_number, abs(u.unpaid_cents) as cents, u.unpaid_cents > 0 as is_credit,
      sum(abs(u.unpaid_cents)) over (partition by u.unpaid_cents > 0 order by u.entry_number) - abs(u.unpaid_cents) as older_cents
    from unpaid_entries u
    where u.program_id = payout.program_id and u.partner_id = payout.partner_id and u.currency = payout.currency
  ),
  deducted as materialized (
    select least(
      coalesce(sum(u.cents) filter (where not u.is_credit), 0),
      greatest(coalesce(sum(u.cents) filter (where u.is_credit), 0) - payout.amount_cents - open_payout_cents(payout), 0)
    ) as cents
    from unpaid u
  ),
  written as (
    insert into payout_lines (program_id, payout_id, payment_number, partner_id, currency, entry_number, amount_cents)
    select payout.program_id, payout.id, of_payment_number, payout.partner_id, payout.currency, u.entry_number,
      case when u.is_credit then 1 else -1 end * least(u.cents, t.cents - u.older_cents)
    from unpaid u
    cross join deducted d
    cross join lateral (select case when u.is_credit then payout.amount_cents + d.cents else d.cents end as cents) t
    where u.older_cents < t.cents
    returning amount_cents
  )
  select sum(w.amount_cents) into written_cents from written w;
  if written_cents is distinct from payout.amount_cents then
    raise exception 'payout % of % has lines of %', payout.id, payout.amount_cents, written_cents using errcode = 'check_violation';
  end if;
  perform mark_paid(payout);
end $function$
;

CREATE OR REPLACE FUNCTION public.write_postback(of_program_id bigint, of_partner_id bigint, of_event text, of_customer_id bigint, of_sale_id bigint, of_cents bigint, of_currency text, of_status text, because text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if exists (
    select from webhook_endpoints e
    where e.program_id = of_program_id and e.partner_id = of_partner_id and of_event = any (e.types) and e.disabled_at is null and e.deleted_at is null
  ) then
    perform write_message(of_program_id, of_partner_id, of_event, coalesce((
      select jsonb_build_object('link_code', l.code, 'campaign', (select e.campaign from click_of_customer(c, c.last_click_at) e))
      from customers c
      join referral_links l on l.program_id = c.program_id and l.id = c.link_id and l.partner_id = of_partner_id
      where c.program_id = of_program_id and c.id = of_customer_id
    ), '{}') || jsonb_build_object('partner_id', of_partner_id, 'customer_id', of_customer_id, 'sale_id', of_sale_id,
      'commission_cents', of_cents, 'currency', of_currency, 'status', of_status, 'reason', because));
  end if;
end $function$
;

CREATE OR REPLACE FUNCTION public.write_program_audit(of_program_id bigint, of_action text, of_subject text, of_details jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_audit(p.workspace_id, p.id, of_action, of_subject, null, of_details) from programs p where p.id = of_program_id;
end $function$
;

CREATE OR REPLACE FUNCTION public.write_webhook(of_program_id bigint, of_type text, of_data jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform write_message(of_program_id, null, of_type, of_data);
end $function$
;

CREATE OR REPLACE FUNCTION public.written_messages(OUT outbox_ids bigint[], OUT wrote_webhooks boolean)
 RETURNS record
 LANGUAGE sql
 STABLE
AS $function$ select written_outbox_ids(), wrote_webhook() $function$
;

CREATE OR REPLACE FUNCTION public.written_outbox_ids()
 RETURNS bigint[]
 LANGUAGE sql
 STABLE
AS $function$ select string_to_array(nullif(current_setting('svc.outbox_ids', true), ''), ',')::bigint[] $function$
;

CREATE OR REPLACE FUNCTION public.wrote_webhook()
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN COALESCE((current_setting('svc.webhooks'::text, true) = 'on'::text), false)
;
