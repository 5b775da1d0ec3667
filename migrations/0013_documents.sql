-- Self-billing documents about payments, the billing details of both parties, and tax forms.

create domain country_code as text check (value ~ '^[A-Z]{2}$');
-- Without spaces and punctuation. lib/money/document-parties.ts checks the format of each country.
create domain vat_number as text check (value ~ '^[A-Z0-9]{4,20}$');
create domain legal_name as text check (length(value) between 1 and 200);
-- Lines separated by line feeds.
create domain postal_address as text check (length(value) between 1 and 500);

-- The program's details on its documents. Without a row, the program issues none.
create table program_billing (
  program_id bigint primary key references programs (id),
  legal_name legal_name not null,
  address postal_address not null,
  country country_code not null,
  vat_id vat_number,
  -- The series of the next documents. The number follows the series: `SB-1`.
  series text not null check (series ~ '^[A-Z0-9]([A-Z0-9-]{0,8}[A-Z0-9])?$'),
  -- The VAT rate of documents for partners in its own country who have a VAT number, in basis points. Null if they don't show VAT.
  vat_bp integer check (vat_bp between 1 and 5000)
);

-- The partner's details on documents, entered by the person with the account.
create table payee_details (
  user_id text primary key references users (id) on delete cascade,
  legal_name legal_name not null,
  address postal_address not null,
  country country_code not null,
  vat_id vat_number
);

-- The US tax form of a partner.
create table tax_forms (
  user_id text primary key references users (id) on delete cascade,
  kind text not null check (kind in ('w9', 'w8ben', 'w8bene')),
  -- Its fields as JSON, encrypted (lib/processors/seal.ts).
  fields bytea not null,
  -- The last four characters of the taxpayer number. Null if the form has none.
  tax_id_hint text check (length(tax_id_hint) = 4),
  signed_on date not null,
  -- A W-8 is valid until the end of the third year after its signature. Null means that the form does not expire.
  expires_on date generated always as (
    case when kind <> 'w9' then make_date(extract(year from signed_on)::integer + 3, 12, 31) end
  ) stored
);

-- Without a valid tax form, payouts are held if they would bring a partner's payouts in the calendar year above this amount.
create table tax_form_limits (
  program_id bigint not null references programs (id),
  currency currency_code not null,
  above_cents amount_cents not null,
  primary key (program_id, currency)
);

-- Versions of the terms that existing partners accepted. Applicants accept a version with their application.
create table accepted_terms (
  program_id bigint not null,
  partner_id bigint not null,
  version integer not null,
  accepted_at timestamptz not null default now(),
  -- When the partner withdrew their agreement, also to a version that they accepted with their application. Null while the agreement
  -- applies.
  withdrawn_at timestamptz,
  primary key (program_id, partner_id, version),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, version) references program_terms (program_id, version)
);

-- The last number of each series. Its row stays locked until the transaction of the document ends, so that no number is ever missing.
create table document_series (
  program_id bigint not null references programs (id),
  series text not null,
  last_number bigint not null check (last_number > 0),
  primary key (program_id, series)
);

-- An invoice for each payment, issued by the program in the partner's name, and a credit note if the payment comes back. A document
-- stores all facts that it shows, so it never changes. A void document keeps its number.
create table documents (
  program_id bigint not null,
  id bigint generated always as identity,
  series text not null,
  number bigint not null check (number > 0),
  kind text not null check (kind in ('invoice', 'credit_note')),
  payout_id bigint not null,
  -- As in payout_lines: 1 for the first payment of the payout.
  payment_number integer not null check (payment_number > 0),
  partner_id bigint not null,
  currency currency_code not null,
  amount_cents positive_cents not null,
  paid_on date not null,
  reference text not null,
  -- The accepted terms that contain the agreement to self-billing.
  terms_version integer not null,
  -- {legal_name, address, country, vat_id}
  issuer jsonb not null,
  payee jsonb not null,
  -- [{cause, commission_id, adjustment_id, posted_on, amount_cents}], or one line for all entries of a large payment.
  lines jsonb not null,
  is_reverse_charge boolean not null,
  -- The rate of the VAT that the amount contains. Null if the document doesn't show VAT.
  vat_bp integer check (vat_bp is null or not is_reverse_charge),
  -- The invoice that a credit note corrects.
  corrects_id bigint,
  -- The clock's time instead of the transaction's start, because a transaction can wait for its number. So later numbers have later times.
  issued_at timestamptz not null default clock_timestamp(),
  voided_at timestamptz,
  void_reason reason_text,
  primary key (program_id, id),
  constraint documents_number_key unique (program_id, series, number),
  foreign key (program_id, series) references document_series (program_id, series),
  -- A document is about the whole amount of its payout.
  foreign key (program_id, payout_id, partner_id, currency, amount_cents)
    references payouts (program_id, id, partner_id, currency, amount_cents),
  foreign key (program_id, terms_version) references program_terms (program_id, version),
  foreign key (program_id, corrects_id) references documents (program_id, id),
  check ((kind = 'credit_note') = (corrects_id is not null)),
  check (num_nulls(voided_at, void_reason) in (0, 2) and (voided_at is null or kind = 'invoice'))
);
create unique index documents_payment_key on documents (program_id, payout_id, payment_number, kind) where voided_at is null;
create unique index documents_corrects_key on documents (program_id, corrects_id) where corrects_id is not null;
create index documents_partner_idx on documents (program_id, partner_id, id);
