-- How a program appears to its partners. A program without a row uses its own name and the service's colors.
create table program_brands (
  program_id bigint primary key references programs (id),
  -- The name above the partners' pages. Null means the program's name.
  portal_name name_text,
  -- The sender of mails to partners. Null means the program's name.
  sender_name name_text,
  color text check (color ~ '^#[0-9a-f]{6}$'),
  -- An image without metadata (lib/programs/logo-image.ts).
  logo bytea check (octet_length(logo) between 1 and 524288),
  logo_type text check (logo_type in ('png', 'jpeg', 'webp')),
  -- Part of the image's address, so browsers may keep the image forever.
  logo_hash text generated always as (encode(sha256(logo), 'hex')) stored,
  constraint program_brands_logo check ((logo is null) = (logo_type is null))
);

-- Mails about payouts to partners without an account. A row is deleted after its mail has been sent, or after ten failed attempts.
create table payee_mails (
  program_id bigint not null,
  notification_id bigint not null,
  -- The mail API recognizes a repeated mail by this key.
  mail_id uuid not null default gen_random_uuid(),
  due_at timestamptz not null default now(),
  attempts smallint not null default 0,
  primary key (program_id, notification_id),
  foreign key (program_id, notification_id) references notifications (program_id, id)
);
create index payee_mails_due_idx on payee_mails (due_at);
