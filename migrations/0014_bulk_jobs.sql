-- Actions on many partners or applications at once.

-- An action on all rows of a list that match its filters. It has one entry in the audit log.
create table bulk_jobs (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  kind text not null check (kind in ('approve', 'reject', 'deactivate', 'move', 'rate', 'invite', 'message')),
  -- The filters of the list and the fields of the form. Texts (`q` and `note`) are deleted a day after the start.
  settings jsonb not null,
  -- The number of rows that matched at the start.
  row_count integer not null,
  -- Rows with this id and higher ids are done. Rows that arrive later have higher ids.
  position bigint not null,
  started_by text references users (id) on delete set null,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  -- When the undo started.
  undone_at timestamptz,
  primary key (program_id, id)
);
create index bulk_jobs_starter_idx on bulk_jobs (started_by) where started_by is not null;
create index bulk_jobs_started_idx on bulk_jobs (started_at);

-- The rows that a job changed, with the values that an undo restores.
create table bulk_job_rows (
  program_id bigint not null,
  job_id bigint not null,
  -- An application if the job approves or rejects, and otherwise a partner.
  row_id bigint not null,
  before jsonb not null,
  -- False if the undo had to keep the change. Null before the undo.
  is_undone boolean,
  primary key (program_id, job_id, row_id),
  foreign key (program_id, job_id) references bulk_jobs (program_id, id) on delete cascade
);

-- Invitations of bulk jobs that wait until the workspace may send mail again. The send-mails function sends them in order.
create table queued_invitations (
  program_id bigint not null,
  partner_id bigint not null,
  job_id bigint not null,
  invited_by text not null references users (id) on delete cascade,
  queued_at timestamptz not null default now(),
  -- The latest attempt to send it.
  attempted_at timestamptz,
  primary key (program_id, partner_id),
  foreign key (program_id, partner_id) references partners (program_id, id) on delete cascade,
  foreign key (program_id, job_id) references bulk_jobs (program_id, id) on delete cascade
);
create index queued_invitations_sender_idx on queued_invitations (invited_by);
create index queued_invitations_queued_idx on queued_invitations (queued_at);
