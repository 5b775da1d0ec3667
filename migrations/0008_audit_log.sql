-- The actions of a workspace's members and keys. Entries can only be added (triggers in functions/1_base/audit-log.sql write most of them),
-- and are deleted at the end of their retention period. There are no foreign keys, because entries outlive the rows that they refer to. The
-- readers of the log look up the names.
create table audit_log (
  id bigint generated always as identity primary key,
  workspace_id text not null,
  -- Null for the whole workspace.
  program_id bigint,
  -- The actor: a user or an API key. Both are null for the service itself.
  user_id text,
  api_key_id bigint,
  -- An object and an action: `member.removed`.
  action text not null check (action ~ '^[a-z_]+\.[a-z_]+$' and length(action) <= 60),
  -- The object's name, number or id. For a person with an account, their user id is in `subject_user_id`.
  subject text check (length(subject) between 1 and 500),
  subject_user_id text,
  details jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index audit_log_workspace_idx on audit_log (workspace_id, id desc);
create index audit_log_created_idx on audit_log (created_at);

-- Sent forms, by the one-time token of each rendering, so that a repeated form counts once.
create table used_forms (
  token uuid primary key,
  -- Null if nobody was signed in.
  user_id text references users (id) on delete cascade,
  -- The request that won among concurrent requests with the same form.
  request_id uuid not null,
  -- The redirect in the response, once it is known.
  location text check (length(location) <= 500),
  used_at timestamptz not null default now()
);
create index used_forms_used_idx on used_forms (used_at);
create index used_forms_user_idx on used_forms (user_id);

-- Responses to API requests that create something, so that a repeated request doesn't create it twice. The token is
-- the Idempotency-Key or an id in the request (`act_by_key` in functions/1_base/audit-log.sql).
create table idempotency_keys (
  program_id bigint not null references programs (id) on delete cascade,
  token text not null check (length(token) between 1 and 255),
  -- SHA-256 of method, path and body.
  request_hash bytea not null check (length(request_hash) = 32),
  -- The created row as JSON. If nothing was created, this is null and the token is free.
  answer jsonb,
  created_at timestamptz not null default now(),
  primary key (program_id, token)
);
create index idempotency_keys_created_idx on idempotency_keys (created_at);

-- The latest audit of the whole database (lib/audit/). A newer one replaces it.
create table audits (
  is_latest boolean primary key default true check (is_latest),
  started_at timestamptz not null,
  duration_ms integer not null,
  -- The number of checked rules.
  rules integer not null
);

-- The rows that broke a rule in the latest audit: the first twenty for each rule and program, and the total number.
create table audit_findings (
  program_id bigint not null,
  id bigint generated always as identity,
  rule text not null,
  broken integer not null,
  subject text not null,
  found text,
  expected text,
  primary key (program_id, id)
);
