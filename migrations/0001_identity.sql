-- Users and workspaces. `users`, `sessions`, `accounts`, `two_factors` and `verifications` are better-auth's tables
-- under our names (lib/access/sign-in.ts has the mapping). The other tables are ours.

-- `isName` in lib/names.ts has the same rule for input.
create domain name_text as text check (
  length(value) between 1 and 80 and value !~ '[\u0001-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]'
);

create table users (
  id text primary key,
  name name_text not null,
  email text not null,
  email_verified boolean not null default false,
  image text,
  two_factor_enabled boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint users_email_key unique (email),
  constraint users_email_lower_case check (email = lower(email))
);

-- A token is only valid with a signature by AUTH_SECRET, so nobody can sign in with a copy of this table.
create table sessions (
  id text primary key,
  user_id text not null references users (id) on delete cascade,
  token text not null,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text,
  -- Created by a password or a provider. If the account has two-factor codes, the session ends at once, and entering a code creates the
  -- lasting session.
  by_first_factor boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint sessions_token_key unique (token)
);
create index sessions_user_id_idx on sessions (user_id);
create index sessions_expires_at_idx on sessions (expires_at);

-- One row per sign-in method: `provider_id` is 'credential' (with a password hash) or an OAuth provider.
create table accounts (
  id text primary key,
  user_id text not null references users (id) on delete cascade,
  provider_id text not null,
  account_id text not null,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  password text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint accounts_provider_id_account_id_key unique (provider_id, account_id)
);
create index accounts_user_id_idx on accounts (user_id);

-- A person's two-factor secret and recovery codes, encrypted with AUTH_SECRET. `verified` is true once the person has entered a correct
-- code.
create table two_factors (
  id text primary key,
  user_id text not null references users (id) on delete cascade,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default true,
  failed_verification_count integer not null default 0,
  locked_until timestamptz,
  constraint two_factors_user_id_key unique (user_id)
);

-- Short-lived secrets: password resets, email confirmations, OAuth states.
create table verifications (
  id text primary key,
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index verifications_identifier_idx on verifications (identifier);
create index verifications_expires_at_idx on verifications (expires_at);

-- Attempts to sign in, sign up or reset a password, counted in a fixed window by address, by account, and by both.
create table sign_in_attempts (
  key text primary key,
  attempts integer not null check (attempts > 0),
  window_started_at timestamptz not null default now()
);
create index sign_in_attempts_window_started_at_idx on sign_in_attempts (window_started_at);

create table workspaces (
  id text primary key default gen_random_uuid()::text,
  name name_text not null,
  -- Members without two-factor codes can't see the workspace.
  requires_two_factor boolean not null default false,
  created_at timestamptz not null default now(),
  -- A deleted workspace can't be opened. Its paid amounts stay in the books.
  deleted_at timestamptz
);

-- Fingerprints of the secrets that a single-server service uses with this database (lib/commands/secrets.ts). An HMAC
-- doesn't reveal its secret. Stored data depends on these secrets.
create table secret_fingerprints (
  name text primary key,
  fingerprint bytea not null check (length(fingerprint) = 32),
  noted_at timestamptz not null default now()
);

-- The row of a removed member is kept, so that their past actions still have a name. Queries for a permission
-- use the view `active_members`. lib/access/roles.ts has the permissions of each role.
create table workspace_members (
  workspace_id text not null references workspaces (id) on delete cascade,
  user_id text not null references users (id) on delete cascade,
  role text not null constraint workspace_members_role check (role in ('owner', 'admin', 'member', 'billing', 'guest')),
  created_at timestamptz not null default now(),
  removed_at timestamptz,
  primary key (workspace_id, user_id)
);
create index workspace_members_user_id_idx on workspace_members (user_id) where removed_at is null;

-- `token_hash` is the SHA-256 of the token in the invitation's link.
create table workspace_invitations (
  id text primary key default gen_random_uuid()::text,
  workspace_id text not null references workspaces (id) on delete cascade,
  email text not null constraint workspace_invitations_email_lower_case check (email = lower(email)),
  role text not null
    constraint workspace_invitations_role check (role in ('owner', 'admin', 'member', 'billing', 'guest')),
  token_hash bytea not null,
  invited_by text references users (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  revoked_at timestamptz,
  constraint workspace_invitations_token_hash_key unique (token_hash),
  constraint workspace_invitations_accepted_or_revoked check (accepted_at is null or revoked_at is null)
);
create unique index workspace_invitations_open_key on workspace_invitations (workspace_id, email)
  where accepted_at is null and revoked_at is null;
