-- A program opened to a single member of its workspace: `role` is held on this program beside the role in the workspace.
alter table programs add constraint programs_workspace_key unique (id, workspace_id);

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

-- The link by which somebody takes over the partner account an advertiser made for them. token_hash is the SHA-256 of the
-- token in the link.
create table partner_invitations (
  partner_id bigint not null references partners (id) on delete cascade,
  token_hash bytea primary key,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz
);
create index partner_invitations_partner_idx on partner_invitations (partner_id);
