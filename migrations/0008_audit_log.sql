-- Who did what in a workspace. Entries are only ever added (triggers in functions/audit-log.sql, which also write most of them) and go when
-- their term is over. There are no foreign keys, because an entry outlives what it names; names are looked up when it is read.
create table audit_log (
  id bigint generated always as identity primary key,
  workspace_id text not null,
  -- Null for what concerns the whole workspace.
  program_id bigint,
  -- Who did it; null is the service itself.
  user_id text,
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
