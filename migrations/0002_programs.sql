-- Programs, their keys and their people, partners and their links. Money is an integer in the currency's minor unit; percentages are basis points.
-- Every table of a program carries program_id in front of its keys, so the schema can be distributed by it; the tables
-- without it (referral links by code and API keys, looked up before the program is known) are small and read-mostly.

create domain currency_code as text check (value ~ '^[a-z]{3}$');
create domain amount_cents as bigint check (value between 0 and 9999999999999);
create domain positive_cents as bigint check (value between 1 and 9999999999999);
-- Texts of the integrator's own, by names of their own. lib/api/metadata.ts bounds each of them.
create domain metadata as jsonb constraint metadata_bounds check (
  jsonb_typeof(value) = 'object' and jsonb_array_length(jsonb_path_query_array(value, '$.keyvalue()')) <= 20
  and not jsonb_path_exists(value, '$.* ? (@.type() != "string")') and length(value::text) <= 100000
);

create table programs (
  id bigint generated always as identity primary key,
  workspace_id text not null references workspaces (id),
  name name_text not null,
  domain text not null check (length(domain) between 1 and 253),
  currency currency_code not null default 'usd',
  commission_bp integer not null default 2000 check (commission_bp between 0 and 10000),
  -- Paid once for each settled lead, in the program's currency.
  lead_commission_cents amount_cents not null default 0,
  -- Browsers keep a cookie for 400 days at most; click events are kept at least as long as the longest window.
  cookie_window_days integer not null default 30 check (cookie_window_days between 1 and 730),
  hold_days integer not null default 30 check (hold_days between 0 and 365),
  -- Sales later than this many months after a customer's first purchase earn nothing; null is for ever.
  commission_duration_months integer check (commission_duration_months between 1 and 1200),
  lead_auth_policy text not null default 'server_verified' check (lead_auth_policy in ('server_verified', 'browser_allowed')),
  attribution_model text not null default 'last_click' check (attribution_model in ('last_click', 'first_click')),
  -- Whether a payment that says nothing of its buyer is theirs whom earlier attributed payments of the same customer or subscription name.
  attribute_known_customers boolean not null default false,
  -- What commissions are held for until a person decides (functions/3_commissions/flags.sql). `paid_ads` on means that the program forbids them.
  review_rules text[] not null default '{self_referral,one_address,no_page_view,bot}'
    constraint programs_review_rules check (review_rules <@ '{self_referral,one_address,no_page_view,bot,paid_ads}'),
  -- The connected account at the payment processor. Several programs may share one.
  -- `platform` for the account whose key the deployment has; its events name none.
  processor_account_id text check (processor_account_id ~ '^(acct_[A-Za-z0-9_]+|platform)$'),
  -- The one it was connected to before: what that account still tells waits here until it is connected again.
  processor_former_account_id text check (processor_former_account_id <> processor_account_id),
  -- So that a late message that an earlier connection ended does not end this one.
  processor_connected_at timestamptz,
  processor_livemode boolean not null default true,
  -- What its webhook endpoints want to be told, all together; null where it has none (functions/webhooks.sql). It stands here because the
  -- writes that tell read this row anyway.
  webhook_types text[],
  -- How often its commission rules changed, 0 where it never had one: the sale, which reads this row anyway, chooses among those of this version.
  rules_version integer not null default 0,
  -- Which decides over a sale that names a code of one partner and is of a customer whom another's link brought.
  attribution_priority text not null default 'code' check (attribution_priority in ('code', 'click')),
  created_at timestamptz not null default now(),
  -- With its workspace.
  deleted_at timestamptz,
  constraint programs_workspace_key unique (id, workspace_id)
);
create index programs_workspace_idx on programs (workspace_id);
create index programs_processor_account_idx on programs (processor_account_id) where processor_account_id is not null;
-- Payments of the deployment's own account name no account, so one program alone has them.
create unique index programs_own_account_key on programs (processor_account_id) where processor_account_id = 'platform';
create index programs_processor_former_account_idx on programs (processor_former_account_id) where processor_former_account_id is not null;

-- What a partner must have available in a currency before it is paid out; where there is no row, anything.
create table minimum_payouts (
  program_id bigint not null references programs (id) on delete cascade,
  currency currency_code not null,
  minimum_payout_cents amount_cents not null check (minimum_payout_cents > 0),
  primary key (program_id, currency)
);

-- A program opened to a single member of its workspace: `role` is held on this program beside the role in the workspace.
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
  -- SHA-256 of the key. The key itself is shown once and kept nowhere.
  key_hash bytea not null constraint api_keys_hash_key unique check (length(key_hash) = 32),
  name text not null default 'default' check (length(name) between 1 and 100),
  -- The last four characters, so that people can tell their keys apart.
  hint text not null check (length(hint) = 4),
  -- What it may be used for: `track` is leads, sales and refunds, `read` what the program has, `manage` changing it. Each has the status.
  scopes text[] not null default '{track}'
    constraint api_keys_scopes check (scopes <@ '{track,read,manage}' and cardinality(scopes) > 0),
  created_by text references users (id) on delete set null,
  created_at timestamptz not null default now(),
  -- Null: never.
  expires_at timestamptz,
  -- To the hour (use_key in functions/api-keys.sql).
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index api_keys_creator_idx on api_keys (created_by);
create index api_keys_program_idx on api_keys (program_id);

-- Calls that were refused, the latest of each code: what stands in an integration's way. A few rows a program; see note_refusal.
create table refused_calls (
  program_id bigint not null references programs (id) on delete cascade,
  -- `key` for what goes for every call of an API key.
  call text not null check (call in ('click', 'lead', 'sale', 'refund', 'key')),
  code text not null check (length(code) between 1 and 64),
  -- What of the call was refused: a partner's code, or fields and the rules they break. Never whom it is about.
  detail text check (length(detail) <= 300),
  refused_at timestamptz not null default now(),
  primary key (program_id, call, code)
);

-- Partners who are paid by the same rules. One that is removed stays for what was computed by its rules, and has no partners
-- (functions/partner-groups.sql).
create table partner_groups (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  name name_text not null,
  created_at timestamptz not null default now(),
  removed_at timestamptz,
  primary key (program_id, id)
);
create unique index partner_groups_name_key on partner_groups (program_id, lower(name)) where removed_at is null;

-- A partner of one program: what the program typed, and once they accepted an invitation, who signs in as them. One person can be a
-- partner of many programs, which know nothing of each other.
create table partners (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  user_id text references users (id) on delete set null,
  group_id bigint,
  -- What the program typed, until the person says it themselves: then it follows their partner_profiles.
  name name_text not null,
  email text check (length(email) <= 320),
  payout_email text check (length(payout_email) <= 320),
  -- Hashes of the addresses by which a customer would be this partner, as customers have them; null until they are made.
  email_hashes bytea[],
  -- Set where the address changed after money went to the one before: until then neither a run nor a file of payments uses the new one.
  payout_waits_until timestamptz,
  -- What the program keeps to itself of them: neither they nor the interface read it.
  note text check (length(note) between 1 and 2000),
  is_active boolean not null default true,
  -- When the program or the person ended it. What was earned before stays theirs, and payable.
  ended_at timestamptz,
  ended_by text check (ended_by in ('program', 'partner')),
  -- When the person erased their account or the program's workspace was deleted: what comes later earns nothing, and the partnership does not
  -- begin again.
  closed_at timestamptz,
  -- The integrator's own id of them.
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
create index partners_group_idx on partners (program_id, group_id) where group_id is not null;

-- What a program pays instead of its own terms: to a group, to one partner, or to everybody for one product. A rule says all the terms of a sale. It
-- never changes, it ends and another begins (save_rules in functions/commission-rules.sql), so that what was computed by it can be computed again.
create table commission_rules (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  group_id bigint,
  partner_id bigint,
  -- The processor's id of a product or of a price.
  product_id text check (length(product_id) between 1 and 255),
  sale_type text check (length(sale_type) between 1 and 64),
  commission_bp integer not null default 0 check (commission_bp between 0 and 10000),
  -- For each sale, and for all sales of one customer together, in the program's currency: a sale in another one earns the percentage without bound.
  commission_fixed_cents amount_cents not null default 0,
  lifetime_cap_cents amount_cents,
  -- Null is for ever.
  commission_duration_months integer check (commission_duration_months between 1 and 1200),
  -- Null: what holds for leads otherwise.
  lead_commission_cents amount_cents,
  -- Of programs.rules_version: the first that it holds in, and the first that it does not.
  since_version integer not null,
  until_version integer check (until_version > since_version),
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, group_id) references partner_groups (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  constraint commission_rules_holder check (num_nonnulls(group_id, partner_id) <= 1),
  -- What holds for everybody and every product are the program's own terms.
  check (num_nonnulls(product_id, sale_type) <= 1 and num_nonnulls(group_id, partner_id, product_id, sale_type) > 0),
  check (lead_commission_cents is null or num_nonnulls(product_id, sale_type) = 0),
  check (num_nulls(until_version, ended_at) in (0, 2))
);
create unique index commission_rules_key on commission_rules (program_id, group_id, partner_id, product_id, sale_type) nulls not distinct
  where ended_at is null;
-- A sale reads those of its partner, their group and everybody, of however many there are and were.
create index commission_rules_holder_idx on commission_rules (program_id, partner_id, group_id);

-- What a person says of themselves to the programs they accepted; null is what each program typed.
create table partner_profiles (
  user_id text primary key references users (id) on delete cascade,
  name name_text,
  payout_email text check (length(payout_email) <= 320)
);

-- Asks somebody by mail to take over the partner that a program made of them. token_hash is the SHA-256 of the token in the link. Inviting
-- again overwrites the one that is open.
create table partner_invitations (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  email text not null constraint partner_invitations_email_lower_case check (email = lower(email)),
  token_hash bytea not null constraint partner_invitations_token_hash_key unique,
  invited_by text references users (id) on delete set null,
  -- Whose approval brought it, where they applied themselves: then it holds without a sender.
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

-- How many invitations a workspace, and an account over all its workspaces, mailed to a recipient on a day (UTC); the row without a recipient
-- counts all of the day. count_invitation_mail bounds both.
create table invitation_mails (
  -- The id of the workspace or of the user.
  sender_id text not null,
  day date not null,
  recipient text not null,
  mails integer not null check (mails between 1 and 100),
  primary key (sender_id, day, recipient),
  check (recipient = '' or mails <= 3)
);

-- A link without partner or program is a configuration mistake that a click answers with `invalid_link`; imported links
-- may arrive so. A complete link is held to a partner of its own program.
create table referral_links (
  id bigint generated always as identity primary key,
  -- Those that begin with svc-test- are the codes of test links, which need no row.
  code text not null check (code ~ '^[A-Za-z0-9._@-]{1,64}$' and code !~* '^svc-test-'),
  program_id bigint references programs (id),
  partner_id bigint,
  -- The page that the copied link opens; null is the program's domain.
  page_url text check (length(page_url) <= 2048),
  is_active boolean not null default true,
  -- The integrator's own id of it.
  external_id text check (length(external_id) between 1 and 255),
  metadata metadata not null default '{}',
  created_at timestamptz not null default now(),
  constraint referral_links_external_id_key unique (program_id, external_id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  unique (program_id, id, partner_id)
);
-- Codes are matched without regard to case over the whole service.
create unique index referral_links_code_key on referral_links (lower(code));
create index referral_links_partner_idx on referral_links (partner_id, program_id, id);

-- Up to 64 characters without spaces, as names are otherwise.
create domain code_text as text check (
  length(value) between 1 and 64 and value !~ '[\s\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'
);

-- Codes that buyers name: the sale is then the partner's whose code it is, with or without a click (functions/codes.sql). A code stays its partner's
-- for ever, so that what is told late of it, and the books, mean one person; revoked, it attributes nothing that is bought later.
create table partner_codes (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  code code_text not null,
  -- Stripe's promotion code that it is, and of which account.
  promotion_code_id text check (promotion_code_id ~ '^promo_[A-Za-z0-9_]{1,250}$'),
  account_id text,
  created_at timestamptz not null default now(),
  revoked_at timestamptz,
  -- Since when nothing is to be asked of Stripe about it: it is switched off there, or Stripe refused.
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
