-- Imports from another affiliate service: their rows, the plan for each row, and the imported past. Then archives of whole programs.

create type import_kind as enum ('group', 'partner', 'link', 'code', 'customer', 'balance', 'commission');
create type import_outcome as enum ('create', 'update', 'skip', 'error');

create table imports (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  source text not null
    constraint imports_source check (source in ('rewardful', 'tolt', 'firstpromoter', 'partnerstack', 'tapfiliate', 'dub', 'csv', 'archive')),
  state text not null default 'reading'
    constraint imports_state check (state in ('reading', 'planned', 'applying', 'applied', 'undoing', 'undone', 'failed')),
  -- The reason for the failure and its remedy.
  problem text check (length(problem) <= 1000),
  -- The import's files, with the heading for each field, so that a person can correct them.
  files jsonb,
  -- The service's API key, encrypted, and the next page to read, until everything is read.
  sealed_key bytea,
  position jsonb,
  -- The number of runs of the schedule that failed to plan it.
  failures integer not null default 0,
  -- The number of parts of its archive, until it has received all of them.
  part_count integer check (part_count between 1 and 200),
  -- The number of rows by outcome, and of applied rows. Each batch adds its own numbers, because counting the rows of a large import takes
  -- a second.
  row_count integer not null default 0,
  create_count integer not null default 0,
  update_count integer not null default 0,
  skip_count integer not null default 0,
  error_count integer not null default 0,
  applied_count integer not null default 0,
  -- The size of an archive's rows, which counts toward the daily limit.
  archive_bytes bigint not null default 0,
  -- The link parameters that the import added to the program, for the undo.
  added_params text[] not null default '{}',
  created_at timestamptz not null default now(),
  planned_at timestamptz,
  applied_at timestamptz,
  undone_at timestamptz,
  primary key (program_id, id),
  check (state = 'reading' or num_nonnulls(sealed_key, position) = 0)
);
create index imports_unfinished_idx on imports (program_id, id) where state in ('reading', 'applying', 'undoing');

-- The contents of the source, one record per row, in a format that all sources share (lib/moving/rows.ts). The plan decides each
-- row's outcome and its reason. lib/moving/reasons.ts has the reasons.
create table import_rows (
  program_id bigint not null,
  import_id bigint not null,
  -- Ids follow the order in which the rows were read.
  id bigint not null,
  kind import_kind not null,
  -- The id in the source, or another identifier from there.
  source_id text not null check (length(source_id) between 1 and 200),
  -- The file and the line, or the API's resource.
  origin text not null check (length(origin) <= 200),
  -- Addresses of customers are hashed before they are stored here.
  fields jsonb not null,
  outcome import_outcome,
  reason text check (length(reason) <= 60),
  -- The row of its partner, or the existing partner if no row creates one.
  partner_row_id bigint,
  partner_id bigint,
  -- The row of the program that it creates, changes or finds.
  target_id bigint,
  -- For the undo: the changed columns, each with its old and its new value, and when the import updated a customer.
  replaced jsonb,
  is_applied boolean not null default false,
  primary key (program_id, import_id, id),
  foreign key (program_id, import_id) references imports (program_id, id) on delete cascade
);
create index import_rows_source_idx on import_rows (program_id, import_id, kind, source_id);
create index import_rows_outcome_idx on import_rows (program_id, import_id, outcome, id);
create index import_rows_unplanned_idx on import_rows (program_id, import_id, kind, id) where outcome is null;
create index import_rows_waiting_idx on import_rows (program_id, import_id, kind, id)
  where not is_applied and outcome in ('create', 'update');
create index import_rows_applied_idx on import_rows (program_id, import_id, kind desc, id desc) where is_applied;
-- A file can have the same id, address or code in every row, so lookups must find the first usable row without reading the others.
create index import_rows_usable_idx on import_rows (program_id, import_id, kind, source_id) where outcome <> 'error';
create index import_rows_email_idx on import_rows (program_id, import_id, (fields->>'email'), id) where kind = 'partner' and outcome <> 'error';
create index import_rows_code_idx on import_rows (program_id, import_id, kind, lower(fields->>'code'), id)
  where kind in ('link', 'code') and outcome <> 'error';
create index import_rows_balance_idx on import_rows (program_id, import_id, (coalesce(partner_row_id, -partner_id))) where kind = 'balance';
create index import_rows_target_idx on import_rows (program_id, target_id) where kind in ('partner', 'customer');

-- Commissions of the former service. They are read-only, and no balance or figure includes them.
create table imported_commissions (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  customer_id bigint,
  external_id text not null check (length(external_id) between 1 and 255),
  amount_cents bigint not null check (abs(amount_cents) <= 9999999999999),
  currency currency_code not null,
  status text not null check (status in ('pending', 'approved', 'paid', 'rejected')),
  sale_cents amount_cents,
  -- The payment's id at the processor.
  payment_id text check (length(payment_id) <= 255),
  earned_at timestamptz not null,
  primary key (program_id, id),
  constraint imported_commissions_external_id_key unique (program_id, external_id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);
create index imported_commissions_partner_idx on imported_commissions (program_id, partner_id, id);
-- For the comparison with the program's own commissions.
create index imported_commissions_earned_idx on imported_commissions (program_id, earned_at);
create index imported_commissions_customer_idx on imported_commissions (program_id, customer_id) where customer_id is not null;

-- The rows of an archive of another program (lib/moving/archive-kinds.ts), until the import applies them all at once.
create table archive_rows (
  program_id bigint not null,
  import_id bigint not null,
  -- Ids follow the order in the archive.
  id bigint not null,
  -- The archive's file.
  kind text not null check (length(kind) <= 60),
  -- The id in the archive and the new id, if rows of this kind have one.
  old_id bigint,
  new_id bigint,
  fields jsonb not null,
  primary key (program_id, import_id, id),
  constraint archive_rows_old_id_key unique (program_id, import_id, kind, old_id),
  check (num_nulls(old_id, new_id) in (0, 2)),
  foreign key (program_id, import_id) references imports (program_id, id) on delete cascade
);
create index archive_rows_kind_idx on archive_rows (program_id, import_id, kind, id);

-- The parts of a large archive, until the import has read all of them.
create table archive_parts (
  program_id bigint not null,
  import_id bigint not null,
  part integer not null,
  content bytea not null check (octet_length(content) between 1 and 4 * 1024 * 1024),
  primary key (program_id, import_id, part),
  foreign key (program_id, import_id) references imports (program_id, id) on delete cascade
);

-- Exports of a program.
create table exports (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  -- The number of rows of each kind.
  row_counts jsonb not null default '{}',
  created_at timestamptz not null default now(),
  primary key (program_id, id)
);
create index exports_created_idx on exports (created_at);

-- A snapshot of a program's rows, kept for a day. The archive is written from this copy, because a download can take longer than a
-- transaction is allowed to, and the rows of an archive must be consistent.
create table export_rows (
  program_id bigint not null,
  export_id bigint not null,
  kind text not null,
  place bigint not null,
  fields json not null,
  primary key (program_id, export_id, kind, place),
  foreign key (program_id, export_id) references exports (program_id, id) on delete cascade
);

-- A commission of the former service beside the program's own commission for the same sale (functions/moving/comparison.sql).
create type compared_commission as (
  key text, at timestamptz, former_external_id text, former_partner_id bigint, former_currency text, former_payment_id text,
  former_sale_cents bigint, former_cents bigint, former_pays_cents bigint, commission_id bigint, transaction_id text, partner_id bigint,
  currency text, state text, sale_cents bigint, base_cents bigint, fee_cents bigint, cents bigint, pays_cents bigint, differs boolean
);

-- A commission on one of the two sides that isn't paired through a payment yet, with its position on that side. Counterparts have the
-- same group.
create type unpaired_commission as (is_former boolean, place bigint, at timestamptz, group_key text);
