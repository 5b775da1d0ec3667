-- Tables for joining a program: its public page, its terms, and the applications.

-- The current and former addresses of a program's page, /join/<slug>. A former address redirects to the current one and still belongs to
-- the program, so that an old link never leads to somebody else.
create table join_slugs (
  slug text primary key check (length(slug) between 3 and 60 and slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  program_id bigint not null references programs (id),
  created_at timestamptz not null default now(),
  unique (program_id, slug)
);

-- The text that partners accept. A text never changes. A new text is a new version.
create table program_terms (
  program_id bigint not null references programs (id),
  version integer not null check (version > 0),
  text text not null check (length(text) between 1 and 30000),
  -- Whether the terms contain the agreement that the program issues the partner's invoices.
  self_billing boolean not null default false,
  created_at timestamptz not null default now(),
  primary key (program_id, version)
);

create table join_pages (
  program_id bigint primary key references programs (id),
  slug text not null,
  is_open boolean not null default false,
  approves_at_once boolean not null default false,
  -- Whether the page shows `program_numbers` (functions/programs/joining.sql).
  shows_numbers boolean not null default false,
  -- Replaces "Become a partner of …".
  headline text check (length(headline) between 1 and 120),
  -- Plain text.
  intro text check (length(intro) between 1 and 5000),
  -- Whether the page shows the commission for everybody, the attribution window, the hold period and the smallest payout.
  shows_terms boolean not null default true,
  shows_calculator boolean not null default true,
  -- A list of {question, answer}.
  faq jsonb not null default '[]' check (jsonb_typeof(faq) = 'array' and jsonb_array_length(faq) <= 20),
  -- A list of {label, type: short or long, required}.
  questions jsonb not null default '[]' check (jsonb_typeof(questions) = 'array' and jsonb_array_length(questions) <= 10),
  -- Null if there are no terms.
  terms_version integer,
  -- Counts changes of questions and terms, so that nobody answers questions or accepts terms that they haven't seen.
  version integer not null default 1,
  foreign key (program_id, slug) references join_slugs (program_id, slug),
  foreign key (program_id, terms_version) references program_terms (program_id, version)
);

-- The host of a program's own domain that shows its join page, such as partners.example.com. Several programs can enter a host. It belongs
-- to the program that verified it.
create table program_hosts (
  program_id bigint primary key references programs (id),
  host text not null check (length(host) <= 253 and host ~ '^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$'),
  -- Null until its DNS record is found, and again after the record was missing for days.
  verified_at timestamptz,
  -- The last daily check, and the first of the latest checks that didn't find the record.
  checked_at timestamptz,
  missing_since timestamptz,
  check (verified_at is not null or missing_since is null)
);
create unique index program_hosts_verified_key on program_hosts (host) where verified_at is not null;

-- A person's application to a program. It waits for the program's decision once the person has confirmed their address.
create table applications (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  status text not null default 'unverified' constraint applications_status check (status in ('unverified', 'waiting', 'approved', 'rejected')),
  -- The sender: a person on the page, or the program's own form with its API key.
  source text not null check (source in ('page', 'api')),
  -- The account that the applicant was signed in with, if its address was verified.
  user_id text references users (id) on delete set null,
  name name_text not null,
  -- Null once the partner has erased their account.
  email text check (email = lower(email) and is_one_address(email)),
  -- A list of {question, answer} with the question's wording at that time.
  answers jsonb not null default '[]' check (jsonb_typeof(answers) = 'array'),
  -- The accepted terms, or null if there were none.
  terms_version integer,
  -- SHA-256 of the token in the mailed link. Null if no mail was sent.
  token_hash bytea constraint applications_token_hash_key unique,
  applied_at timestamptz not null default now(),
  verified_at timestamptz,
  decided_at timestamptz,
  -- The member or key that decided. Both are null if the program approves at once.
  decided_by text references users (id) on delete set null,
  decided_by_key bigint references api_keys (id) on delete set null,
  -- The program's private note on the decision.
  note text check (length(note) between 1 and 1000),
  partner_id bigint,
  primary key (program_id, id),
  foreign key (program_id, terms_version) references program_terms (program_id, version),
  foreign key (program_id, partner_id) references partners (program_id, id),
  constraint applications_verified check ((status = 'unverified') = (verified_at is null)),
  constraint applications_decided check ((status in ('approved', 'rejected')) = (decided_at is not null)),
  constraint applications_partner check ((status = 'approved') = (partner_id is not null)),
  check (email is not null or status = 'approved')
);
-- A person can have one waiting application per program.
create unique index applications_waiting_key on applications (program_id, email) where status = 'waiting';
create index applications_status_idx on applications (program_id, status, id);
create index applications_email_idx on applications (email, program_id);
create index applications_mailbox_idx on applications (program_id, mailbox_of(email));
create index applications_user_idx on applications (user_id) where user_id is not null;
create index applications_partner_idx on applications (program_id, partner_id) where partner_id is not null;
create index applications_unverified_idx on applications (applied_at) where status = 'unverified';
create index applications_rejected_idx on applications (decided_at) where status = 'rejected';
create index applications_decider_idx on applications (decided_by) where decided_by is not null;
create index applications_key_idx on applications (decided_by_key) where decided_by_key is not null;

alter table partner_invitations add foreign key (program_id, application_id) references applications (program_id, id);

-- Mails on a day (UTC) by counter: a workspace, an account, a recipient, a network, or a pair of them. count_mail limits them.
create table mail_counts (
  counted text not null check (length(counted) <= 500),
  day date not null,
  mails integer not null check (mails > 0),
  primary key (counted, day)
);
