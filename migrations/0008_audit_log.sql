-- Who did what in a workspace. Entries are only ever added (triggers in functions/audit-log.sql, which also write most of them) and go when
-- their term is over. There are no foreign keys, because an entry outlives what it names; names are looked up when it is read.
create table audit_log (
  id bigint generated always as identity primary key,
  workspace_id text not null,
  -- Null for what concerns the whole workspace.
  program_id bigint,
  -- Who did it, a person or a program's API key; null is the service itself.
  user_id text,
  api_key_id bigint,
  -- A thing and what was done to it: `member.removed`.
  action text not null check (action ~ '^[a-z_]+\.[a-z_]+$' and length(action) <= 60),
  -- What or whom it was done to: a name, number or address; where it was a person with an account, their user id.
  subject text check (length(subject) between 1 and 500),
  subject_user_id text,
  details jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index audit_log_workspace_idx on audit_log (workspace_id, id desc);
create index audit_log_created_idx on audit_log (created_at);

-- Forms that were sent, by the one-time token that each rendering of a form carries: a form that is sent twice counts once.
create table used_forms (
  token uuid primary key,
  -- Null where nobody was signed in.
  user_id text references users (id) on delete cascade,
  -- Of several requests with a form the one that counts.
  request_id uuid not null,
  -- Where its answer led, once it is there.
  location text,
  used_at timestamptz not null default now()
);
create index used_forms_used_idx on used_forms (used_at);
create index used_forms_user_idx on used_forms (user_id);

-- What was made by API key, so that a request that is sent again makes nothing twice: its Idempotency-Key, or an id of the request itself, with what
-- it asked for and what it was answered (act_by_key in functions/audit-log.sql).
create table idempotency_keys (
  program_id bigint not null references programs (id) on delete cascade,
  token text not null check (length(token) between 1 and 255),
  -- SHA-256 of method, path and body.
  request_hash bytea not null check (length(request_hash) = 32),
  -- The row that was made, as JSON. Null where nothing was: then the key is free.
  answer jsonb,
  created_at timestamptz not null default now(),
  primary key (program_id, token)
);
create index idempotency_keys_created_idx on idempotency_keys (created_at);
