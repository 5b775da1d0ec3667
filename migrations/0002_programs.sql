-- Programs, their keys, members, partners and links. Money is an integer in the currency's minor unit. Percentages are
-- basis points. The keys of every program table begin with `program_id`, so the schema can be distributed by program.
-- The tables whose keys don't (referral links by code and API keys, which are looked up before the program is known)
-- are small and rarely written.

create domain currency_code as text check (value ~ '^[a-z]{3}$');
create domain language_code as text check (value in ('en', 'de', 'fr', 'es', 'pt'));
create domain amount_cents as bigint check (value between 0 and 9999999999999);
create domain positive_cents as bigint check (value between 1 and 9999999999999);
-- One address, so that no import can add recipients or headers to a mail.
create function is_one_address(address text) returns boolean language sql immutable
return length(address) <= 320 and address ~ '^[^\s,;<>"\\@]+@[^\s,;<>"\\@]+$';
-- The integrator's own names and texts. lib/api/metadata.ts limits each of them.
create domain metadata as jsonb constraint metadata_bounds check (
  jsonb_typeof(value) = 'object' and jsonb_array_length(jsonb_path_query_array(value, '$.keyvalue()')) <= 20
  and not jsonb_path_exists(value, '$.* ? (@.type() != "string")') and length(value::text) <= 100000
);

create table programs (
  id bigint generated always as identity primary key,
  workspace_id text not null references workspaces (id),
  name name_text not null,
  domain text not null check (length(domain) between 1 and 253),
  -- When the program's tag was first seen on the domain (track_click). Null if it has not been seen yet.
  domain_verified_at timestamptz,
  -- When a TXT record proved the ownership of the domain. Anybody can pretend that the tag is on a domain, so the record takes precedence.
  domain_proven_at timestamptz check (domain_proven_at is null or domain_verified_at is not null),
  currency currency_code not null default 'usd',
  commission_bp integer not null default 2000 check (commission_bp between 0 and 10000),
  -- Paid once per settled lead, in the program's currency.
  lead_commission_cents amount_cents not null default 0,
  -- Browsers keep a cookie for up to 400 days. Click events are kept at least as long as the longest window.
  cookie_window_days integer not null default 30 check (cookie_window_days between 1 and 730),
  hold_days integer not null default 30 check (hold_days between 0 and 365),
  -- Sales more than this many months after a customer's first purchase earn nothing. Null means no limit.
  commission_duration_months integer check (commission_duration_months between 1 and 1200),
  lead_auth_policy text not null default 'server_verified' check (lead_auth_policy in ('server_verified', 'browser_allowed')),
  attribution_model text not null default 'last_click' check (attribution_model in ('last_click', 'first_click')),
  -- Whether a payment without attribution is attributed to the customer of earlier payments with the same
  -- processor customer or subscription.
  attribute_known_customers boolean not null default false,
  -- The commission base of a processor's sale: the amount without tax, optionally also without the processor's fee.
  commission_base text not null default 'net' check (commission_base in ('net', 'net_of_fees')),
  -- The enabled reasons to hold a commission for review (functions/3_commissions/flags.sql). `paid_ads` means that the
  -- program forbids paid ads.
  review_rules text[] not null default '{self_referral,one_address,no_page_view,bot}'
    constraint programs_review_rules check (review_rules <@ '{self_referral,one_address,no_page_view,bot,paid_ads}'),
  -- The connected account at Stripe. Several programs can share one. `platform` is the account of the deployment's own key, whose events
  -- contain no account id.
  processor_account_id text check (processor_account_id ~ '^(acct_[A-Za-z0-9_]+|platform)$'),
  -- The previous account. Its later events wait until the account is connected again.
  processor_former_account_id text check (processor_former_account_id <> processor_account_id),
  -- A late message about the end of an earlier connection must not end the current connection.
  processor_connected_at timestamptz,
  processor_livemode boolean not null default true,
  -- The types that the program's webhook endpoints subscribe to, or null if it has none (functions/1_base/webhooks.sql). The
  -- column is in this table because writes that send webhooks read this row anyway.
  webhook_types text[],
  -- The number of changes to the program's commission rules. A sale reads this row anyway, and chooses among the rules of this version.
  rules_version integer not null default 0,
  -- The language of the pages and mails for partners, unless they chose one. Null means the browser's language.
  language language_code,
  -- Decides between the code and the click, if a sale has one partner's code and another partner's link referred the customer.
  attribution_priority text not null default 'code' check (attribution_priority in ('code', 'click')),
  -- The number of the key with which proxies on the program's own domain sign. The previous key is valid until
  -- `previous_proxy_key_until`.
  proxy_key_number integer not null default 0,
  previous_proxy_key_until timestamptz,
  -- Further parameters besides `aff` that carry a partner's code in old links, for the tracker tag.
  link_params text[] not null default '{}' check (cardinality(link_params) <= 10 and array_to_string(link_params, '') ~ '^[A-Za-z0-9_-]*$'),
  -- The origins of the pages that may show the embedded portal. A header contains them, so each one must be a plain origin.
  embed_origins text[] not null default '{}' constraint programs_embed_origins check (
    cardinality(embed_origins) <= 20 and array_to_string(embed_origins, ' ', '?')
      ~ '^((https://[a-z0-9.-]+|http://(localhost|127\.0\.0\.1))(:\d{1,5})?( (?=h)|$))*$'
  ),
  -- Whether the embedded portal hides all amounts, for programs that reward partners with credit.
  embed_hides_money boolean not null default false,
  -- The latest period in shadow mode. Without an end, the program is in shadow mode now: it computes commissions and credits nothing
  -- (functions/2_ledger/shadow-mode.sql).
  shadow_since timestamptz,
  shadow_ended_at timestamptz check (shadow_ended_at >= shadow_since),
  -- The earlier periods in shadow mode.
  earlier_shadow_times tstzmultirange not null default '{}',
  created_at timestamptz not null default now(),
  -- When an archive of another program filled this one. The earlier notifications and audit log entries stayed in the other program.
  moved_in_at timestamptz,
  -- The ids of that program, and of the programs whose archives had filled that program.
  former_ids bigint[] not null default '{}' check (cardinality(former_ids) <= 20),
  -- When the program's workspace was deleted.
  deleted_at timestamptz,
  constraint programs_workspace_key unique (id, workspace_id)
);
create index programs_workspace_idx on programs (workspace_id);
create index programs_verified_domain_idx on programs (split_part(domain, ':', 1)) where domain_verified_at is not null;
create index programs_processor_account_idx on programs (processor_account_id) where processor_account_id is not null;
-- Payments of the deployment's own account contain no account id, so only one program can use the account.
create unique index programs_own_account_key on programs (processor_account_id) where processor_account_id = 'platform';
create index programs_processor_former_account_idx on programs (processor_former_account_id) where processor_former_account_id is not null;

-- The smallest amount in a currency that is paid out. Without a row, any amount is paid out.
create table minimum_payouts (
  program_id bigint not null references programs (id) on delete cascade,
  currency currency_code not null,
  minimum_payout_cents amount_cents not null check (minimum_payout_cents > 0),
  primary key (program_id, currency)
);

-- Gives a single workspace member access to a program. `role` applies to this program, in addition to the workspace
-- role.
create table program_members (
  program_id bigint not null,
  workspace_id text not null,
  user_id text not null,
  role text not null constraint program_members_role check (role in ('admin', 'member', 'billing')),
  created_at timestamptz not null default now(),
  primary key (program_id, user_id),
  foreign key (program_id, workspace_id) references programs (id, workspace_id) on delete cascade,
  foreign key (workspace_id, user_id) references workspace_members (workspace_id, user_id) on delete cascade
);
create index program_members_user_idx on program_members (workspace_id, user_id);

create table api_keys (
  id bigint generated always as identity primary key,
  program_id bigint not null references programs (id),
  -- SHA-256 of the key. The key itself is shown once and never stored.
  key_hash bytea not null constraint api_keys_hash_key unique check (length(key_hash) = 32),
  name text not null default 'default' check (length(name) between 1 and 100),
  -- The last four characters, so that people can distinguish their keys.
  hint text not null check (length(hint) = 4),
  -- `track` allows leads, sales and refunds. `read` allows reading the program's data, and `manage` changing it. Every key may
  -- read the status.
  scopes text[] not null default '{track}'
    constraint api_keys_scopes check (scopes <@ '{track,read,manage}' and cardinality(scopes) > 0),
  created_by text references users (id) on delete set null,
  created_at timestamptz not null default now(),
  -- Null means never.
  expires_at timestamptz,
  -- Rounded to the hour (`use_key` in functions/1_base/api-keys.sql).
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_keys_creator_idx on api_keys (created_by);
create index api_keys_program_idx on api_keys (program_id);

-- The latest refused call for each error code, to show integration problems. A program has only a few rows. See `note_refusal`.
create table refused_calls (
  program_id bigint not null references programs (id) on delete cascade,
  -- `key` if the API key itself was refused.
  call text not null check (call in ('click', 'lead', 'sale', 'refund', 'key')),
  code text not null check (length(code) between 1 and 64),
  -- The refused part of the call: a partner's code, or fields and the rules that they break. It never contains personal data.
  detail text check (length(detail) <= 300),
  refused_at timestamptz not null default now(),
  primary key (program_id, call, code)
);

-- Partners with the same commission rules. A removed group has no partners, but stays for the commissions computed under its rules
-- (functions/3_commissions/partner-groups.sql).
create table partner_groups (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  name name_text not null,
  -- `<service>:<id>` if an import created it.
  external_id text check (length(external_id) between 1 and 255),
  created_at timestamptz not null default now(),
  removed_at timestamptz,
  primary key (program_id, id),
  constraint partner_groups_external_id_key unique (program_id, external_id)
);
create unique index partner_groups_name_key on partner_groups (program_id, lower(name)) where removed_at is null;

-- Returns the mailbox of an address without a plus tag, and at Gmail without dots, because people can spell an address in many ways.
-- Indexes contain its results, so the function never changes.
create function mailbox_of(email text) returns text language sql immutable parallel safe as $$
  select case when domain in ('gmail.com', 'googlemail.com') then replace(local, '.', '') || '@gmail.com' else local || '@' || domain end
  from (select regexp_replace(split_part(lower(email), '@', 1), '(.)[+].*$', '\1') local, split_part(lower(email), '@', 2) domain) parts
$$;

-- A partner of one program: the details that the program entered, and the user who accepted the invitation. A person can be a partner of
-- many programs, which don't know about each other.
create table partners (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  user_id text references users (id) on delete set null,
  group_id bigint,
  -- The program enters the name. Once the person sets their own name, that name replaces it (`partner_profiles`).
  name name_text not null,
  email text check (is_one_address(email)),
  payout_email text check (is_one_address(payout_email)),
  -- Hashes of the addresses that identify this partner as a customer, in the same format as in `customers`. Null until computed.
  email_hashes bytea[],
  -- Set if the address changed after a payout to the previous one. Until that time, no payout run and no payment file uses the new address.
  payout_waits_until timestamptz,
  -- The program's private note. Neither the partner nor the API can read it.
  note text check (length(note) between 1 and 2000),
  is_active boolean not null default true,
  -- When the program or the partner ended the partnership. Earlier earnings remain payable.
  ended_at timestamptz,
  ended_by text check (ended_by in ('program', 'partner')),
  -- When the person erased their account or the program's workspace was deleted. After that, sales earn nothing, and the partnership can't
  -- resume.
  closed_at timestamptz,
  -- The integrator's own id of the partner.
  external_id text check (length(external_id) between 1 and 255),
  metadata metadata not null default '{}',
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint partners_external_id_key unique (program_id, external_id),
  constraint partners_user_key unique (program_id, user_id),
  constraint partners_group_id_fkey foreign key (program_id, group_id) references partner_groups (program_id, id),
  check (num_nulls(ended_at, ended_by) in (0, 2)),
  check (ended_at is null or not is_active),
  check (closed_at is null or ended_at is not null)
);
create unique index partners_email_key on partners (program_id, lower(email));
create index partners_user_idx on partners (user_id) where user_id is not null;
create index partners_created_idx on partners (program_id, created_at);
create index partners_unhashed_idx on partners (program_id, id) where email_hashes is null;
create index partners_mailbox_idx on partners (program_id, mailbox_of(email));
create index partners_group_idx on partners (program_id, group_id) where group_id is not null;

-- Terms that replace the program's own, for a group, for one partner, or for all sales of one product. A rule contains all terms of a sale.
-- A rule never changes. Instead, it ends and another one begins (`save_rules` in functions/3_commissions/commission-rules.sql), so that its
-- commissions can be computed again.
create table commission_rules (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  group_id bigint,
  partner_id bigint,
  -- The processor's id of a product or a price.
  product_id text check (length(product_id) between 1 and 255),
  sale_type text check (length(sale_type) between 1 and 64),
  commission_bp integer not null default 0 check (commission_bp between 0 and 10000),
  -- The fixed amount per sale and the cap per customer, in the program's currency. A sale in another currency earns the
  -- percentage without a cap.
  commission_fixed_cents amount_cents not null default 0,
  lifetime_cap_cents amount_cents,
  -- Null means no limit.
  commission_duration_months integer check (commission_duration_months between 1 and 1200),
  -- If null, the next rule or the program decides for leads.
  lead_commission_cents amount_cents,
  -- The first `programs.rules_version` with the rule, and the first version without it.
  since_version integer not null,
  until_version integer check (until_version > since_version),
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, group_id) references partner_groups (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  constraint commission_rules_holder check (num_nonnulls(group_id, partner_id) <= 1),
  -- Terms for everybody and every product are the program's own terms.
  check (num_nonnulls(product_id, sale_type) <= 1 and num_nonnulls(group_id, partner_id, product_id, sale_type) > 0),
  check (lead_commission_cents is null or num_nonnulls(product_id, sale_type) = 0),
  check (num_nulls(until_version, ended_at) in (0, 2))
);
create unique index commission_rules_key on commission_rules (program_id, group_id, partner_id, product_id, sale_type) nulls not distinct
  where ended_at is null;
-- A sale reads only the rules of its partner, of their group and of everybody, even if many others exist.
create index commission_rules_holder_idx on commission_rules (program_id, partner_id, group_id);

-- A person's own details for the programs that they joined. If a column is null, each program's own entry applies.
create table partner_profiles (
  user_id text primary key references users (id) on delete cascade,
  name name_text,
  payout_email text check (is_one_address(payout_email)),
  -- The language of the pages and mails for partners.
  language language_code
);

-- Read-only API keys of partners for their own data. A key is valid while the person who created it is still the partner (`check_partner_key`
-- in functions/1_base/api-keys.sql). A revoked key is deleted.
create table partner_keys (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  user_id text not null references users (id) on delete cascade,
  -- SHA-256 of the key. The key itself is shown once and never stored.
  key_hash bytea not null constraint partner_keys_hash_key unique check (length(key_hash) = 32),
  -- The last four characters, so that people can distinguish their keys.
  hint text not null check (length(hint) = 4),
  created_at timestamptz not null default now(),
  -- Rounded to the hour.
  last_used_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id) on delete cascade
);
create index partner_keys_partner_idx on partner_keys (program_id, partner_id);
create index partner_keys_user_idx on partner_keys (user_id);

-- Asks a person by mail to take over the partner that a program created for them. `token_hash` is the SHA-256 of the
-- token in the link. A new invitation overwrites the open one.
create table partner_invitations (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  email text not null constraint partner_invitations_email_lower_case check (email = lower(email)),
  token_hash bytea not null constraint partner_invitations_token_hash_key unique,
  invited_by text references users (id) on delete set null,
  -- The application that was approved, if the partner applied. Such an invitation stays valid even if its sender leaves.
  application_id bigint,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  declined_at timestamptz,
  revoked_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id) on delete cascade,
  check (num_nonnulls(accepted_at, declined_at, revoked_at) <= 1)
);
create unique index partner_invitations_open_key on partner_invitations (program_id, partner_id)
  where accepted_at is null and declined_at is null and revoked_at is null;
create index partner_invitations_email_idx on partner_invitations (email, id)
  where accepted_at is null and declined_at is null and revoked_at is null;

-- A link without a partner or a program is a configuration mistake, and its clicks are refused with `invalid_link`. Imported links can
-- be incomplete. The partner of a complete link belongs to the same program.
create table referral_links (
  id bigint generated always as identity primary key,
  -- Codes that begin with svc-test- belong to test links, which have no rows.
  code text not null check (code ~ '^[A-Za-z0-9._@-]{1,64}$' and code !~* '^svc-test-'),
  program_id bigint references programs (id),
  partner_id bigint,
  -- The page that the copied link opens. Null means the program's domain.
  page_url text check (length(page_url) <= 2048 and page_url ~ '^https?://[^\s]+$'),
  is_active boolean not null default true,
  -- The integrator's own id of the link.
  external_id text check (length(external_id) between 1 and 255),
  metadata metadata not null default '{}',
  created_at timestamptz not null default now(),
  constraint referral_links_external_id_key unique (program_id, external_id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  unique (program_id, id, partner_id)
);
-- Codes are unique in their program, ignoring case.
create unique index referral_links_code_key on referral_links (lower(code), program_id) nulls not distinct;
create index referral_links_partner_idx on referral_links (partner_id, program_id, id);

-- Up to 64 characters without spaces. Otherwise, the rules for names apply.
create domain code_text as text check (
  length(value) between 1 and 64 and value !~ '[\s\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'
);

-- Codes that buyers enter. The sale belongs to the code's partner, with or without a click (functions/4_attribution/codes.sql). A code
-- belongs to one partner forever, so that late reports and the books stay unambiguous. A revoked code attributes no later purchases.
create table partner_codes (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  code code_text not null,
  -- The Stripe promotion code of this code, and its account.
  promotion_code_id text check (promotion_code_id ~ '^promo_[A-Za-z0-9_]{1,250}$'),
  account_id text,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  -- When the service stopped asking Stripe about the code, because Stripe disabled it or refused to.
  disabled_at_processor_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  check (num_nulls(promotion_code_id, account_id) in (0, 2)),
  check (disabled_at_processor_at is null or revoked_at is not null)
);
create unique index partner_codes_code_key on partner_codes (program_id, lower(normalize(code)));
create unique index partner_codes_promotion_key on partner_codes (account_id, promotion_code_id) where promotion_code_id is not null;
create index partner_codes_partner_idx on partner_codes (program_id, partner_id);
create index partner_codes_to_switch_off_idx on partner_codes (program_id, id)
  where promotion_code_id is not null and revoked_at is not null and disabled_at_processor_at is null;

-- Programs and networks that the operator blocks for some hours (`npm run block`). Ended blocks stay as a record for two years.
create table blocks (
  id bigint generated always as identity primary key,
  program_id bigint references programs (id) on delete cascade,
  network cidr,
  reason text not null check (length(reason) between 1 and 300),
  created_at timestamptz not null default now(),
  ends_at timestamptz not null check (ends_at >= created_at),
  constraint blocks_one_kind check (num_nonnulls(program_id, network) = 1)
);
create index blocks_program_idx on blocks (program_id, ends_at) where program_id is not null;
create index blocks_network_idx on blocks (ends_at) where network is not null;
