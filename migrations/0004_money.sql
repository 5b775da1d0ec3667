-- Sales, refunds, commissions, payouts and the ledger of balances. As with customers, domains and triggers hold the rules of a sale and a
-- commission (functions/5_sales/sales.sql, functions/3_commissions/commissions.sql). 19 CHECKs took a fifth of a sale's instructions.

create domain id_text as text check (length(value) between 1 and 255);
create domain word_text as text check (length(value) between 1 and 64);
create domain reason_text as text check (length(value) <= 1000);
create domain commission_kind as text check (value in ('sale', 'lead'));
create domain commission_status as text check (value in ('pending', 'approved', 'paid', 'refunded', 'reversed'));
create domain reversal_kind as text check (value in ('none', 'partial', 'full'));
create domain refund_key as text check (length(value) between 1 and 300);
create domain refund_reason as text check (value in ('refund', 'chargeback'));
create domain review_reason as text check (value in ('unverified_customer'));
-- Sources of a sale's amount. A later source in this list overrides an earlier one, no matter which one arrives first.
create type amount_source as enum ('api', 'charge', 'intent', 'session', 'invoice');

-- A line of an invoice: its price, then its product, and its share of the sale after discounts and without included tax.
create type sale_line as (product_ids text[], weight bigint);

-- The terms that several lines of a sale share.
create type line_terms as (
  rule_id bigint, commission_bp integer, commission_months integer, fixed_cents bigint, cap_cents bigint, weight bigint
);

-- The candidates for the terms of a sale when it was attributed: the version of the program's rules, the partner's group, and the program's
-- own terms.
create type terms_choice as (rules_version integer, group_id bigint, commission_bp integer, commission_months integer);

-- A sale is the sale event and the sale record in one row. It is not partitioned, because its transaction id must stay unique forever, and
-- a partitioned table would enforce that only within a month.
create table sales (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  is_test boolean not null default false,
  transaction_id id_text not null,
  -- Null if the sale is unattributed.
  customer_id bigint,
  partner_id bigint,
  customer_key id_text,
  sale_date timestamptz not null default now(),
  -- Only 0 if nothing was paid for the sale's invoice. In that case, payment_status is `no_payment_required`, and no figure counts the
  -- sale.
  amount_cents amount_cents not null,
  amount_source amount_source not null default 'api',
  -- The commission base: the amount, without tax for processor sales.
  commission_base_cents amount_cents not null,
  -- The processor's fee, if the base excludes it.
  processor_fee_cents amount_cents,
  -- The terms when the sale was attributed, from a rule or else from the program. They decide its commission now and at every correction.
  commission_bp integer,
  commission_months integer,
  -- There is no foreign key, because its check would slow down each sale. Rules are never deleted, and the audit finds missing ones.
  commission_rule_id bigint,
  -- Null if there is no fixed amount, or if the sale is not in the program's currency.
  commission_fixed_cents bigint,
  -- The maximum that this customer's sales up to this one may earn together.
  commission_cap_cents bigint,
  -- Null if the program had no rules. If a better source reports other products, the terms are chosen again from these candidates.
  terms_among terms_choice,
  -- The lines, if any of them has a product. Otherwise null.
  lines sale_line[],
  -- The terms of the lines, largest part first. In that case, the terms above are those of the largest part. Null if all lines have the
  -- same terms.
  terms_by_line line_terms[],
  -- The given code, whether or not it exists, and the code that decided the sale's partner or belongs to that partner. There is no
  -- foreign key, as with rules.
  coupon text,
  code_id bigint,
  -- The original search for the sale's customer: the steps in order, each with its outcome. Also the click, link, window and hold at that
  -- moment (with_step and with_partner). It contains nothing that identifies a person.
  resolution jsonb,
  refunded_cents amount_cents not null default 0,
  -- The API's original payload, if the processor has corrected the sale since (payload_of in functions/5_sales/corrections.sql). It
  -- is used to recognize a repeated call. Otherwise null.
  api_payload jsonb,
  currency currency_code not null,
  sale_type word_text not null default 'payment',
  payment_status word_text not null default 'paid',
  is_recurring boolean not null default false,
  subscription_id id_text,
  processor_event_id text,
  processor_session_id text,
  processor_payment_intent_id text,
  processor_charge_id text,
  processor_invoice_id text,
  processor_customer_id text,
  additional_data jsonb,
  -- The request that recorded the sale. If the response was lost, the repeated request finds its own sale by this id.
  request_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint sales_transaction_key unique (program_id, is_test, transaction_id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);
create index sales_date_idx on sales (program_id, is_test, sale_date, id) where customer_id is not null;
-- For lists by `updated_since`, as in the other tables.
create index sales_updated_idx on sales (program_id, updated_at);
create index sales_customer_idx on sales (program_id, customer_id) where customer_id is not null;
-- For lists of partners: a partner's sales, and the number of paid ones.
create index sales_partner_idx on sales (program_id, partner_id, sale_date, id) include (payment_status)
  where partner_id is not null and not is_test;
create index sales_subscription_idx on sales (program_id, subscription_id) where subscription_id is not null;
-- The status of a program reads its last test sale. Live sales are found by the primary key, newest first. Without this index, a search for
-- the few test sales would scan all sales.
create index sales_test_idx on sales (program_id, id) where is_test;

-- One row for each refund or chargeback. `refund_key` is `id:<refund id>`, `amount:<cents>` if the caller gave no id, or `rest:<request
-- id>`. `applied_cents` is the refunded amount after capping, and `deduction_cents` is the commission that the refund originally reversed.
-- A refund that was undone (it failed, or the dispute was won) has `returned_at`. A refund from the processor has the processor's id
-- there. If an API refund and a processor's refund are the same, they share a row. In that case `refund_key` is the API's key, no matter
-- which one arrived first.
create table refunds (
  program_id bigint not null,
  id bigint generated always as identity,
  sale_id bigint not null,
  refund_key refund_key not null,
  processor_reversal_id text,
  requested_cents amount_cents,
  applied_cents amount_cents not null,
  -- The amount without tax, if the processor reports it. Later parts of a capped refund have 0, because the first row contains the whole
  -- amount.
  untaxed_cents amount_cents,
  deduction_cents amount_cents not null default 0,
  -- The part of the commission that was returned when the refund was undone.
  returned_cents amount_cents not null default 0,
  reason refund_reason not null default 'refund',
  reason_text reason_text,
  returned_at timestamptz,
  request_id uuid,
  -- If a dispute doesn't leave room for a refund in its sale, the refund can take that room when the dispute is undone. That later part is
  -- a separate row that points to the first. The applied amount of a row changes only if the sale itself becomes smaller.
  continues_refund_id bigint,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint refunds_sale_key unique (program_id, sale_id, refund_key),
  foreign key (program_id, sale_id) references sales (program_id, id),
  foreign key (program_id, continues_refund_id) references refunds (program_id, id)
);
create index refunds_processor_reversal_idx on refunds (processor_reversal_id) where processor_reversal_id is not null;
create unique index refunds_reversal_key on refunds (program_id, sale_id, processor_reversal_id) where processor_reversal_id is not null;
-- For the foreign keys, when a refund is deleted with its test sale.
create index refunds_continues_idx on refunds (program_id, continues_refund_id) where continues_refund_id is not null;

-- A payout run of a program: one payout for each due partner. It is paid as a whole, with one reference.
create table payout_runs (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  -- The request that created it. Repeating the request doesn't create a second run.
  request_id uuid not null,
  -- The number of its payouts. All of them are created together with the run.
  payments integer not null default 0,
  created_at timestamptz not null default now(),
  reference text check (length(reference) between 1 and 200),
  paid_on date,
  paid_at timestamptz,
  primary key (program_id, id),
  constraint payout_runs_request_key unique (program_id, request_id),
  check (num_nulls(reference, paid_on, paid_at) in (0, 3))
);

-- Partners with a payable amount who are excluded from a run, with the reason.
create table payout_run_exclusions (
  program_id bigint not null,
  payout_run_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  payable_cents amount_cents not null check (payable_cents > 0),
  reason text not null check (reason in ('below_minimum', 'no_payout_address', 'payout_address_changed', 'no_tax_form')),
  primary key (program_id, payout_run_id, partner_id, currency),
  foreign key (program_id, payout_run_id) references payout_runs (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id)
);

create table payouts (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  currency currency_code not null,
  requested_cents amount_cents not null check (requested_cents > 0),
  -- The current amount. Until the payout is sent, it is reduced if a reversal leaves too little, and canceled if nothing is left.
  amount_cents amount_cents not null,
  -- The open states are `requested` by the partner, `in_run` before a file or a provider has it, `sent`, and `unclaimed`. The provider
  -- holds an unclaimed payment until the partner claims it. The other states are final.
  status text not null default 'requested' check (
    status in ('requested', 'in_run', 'sent', 'unclaimed', 'paid', 'returned', 'failed', 'refused', 'canceled')
  ),
  -- When a payment file first contained the payout. From then on, its amount and address never change.
  sent_at timestamptz,
  -- The number of that file within the program, if the partner requested the payout. No other file contains it.
  payment_file_number bigint check (payment_file_number > 0),
  -- The number of the balance's last entry when the payout was created. A trigger sets it, and the audit derives the payable amount from it.
  created_at_entry_number bigint not null default 0,
  -- Null if the partner requested it.
  payout_run_id bigint,
  -- The address to pay: the partner's address when the run was created, or when a payment file first contained the payout. Null before that.
  payout_address text check (length(payout_address) <= 320),
  reason reason_text,
  -- The transfer's reference, and the day on which the money left.
  reference text check (length(reference) between 1 and 200),
  paid_on date,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  decided_at timestamptz,
  -- The request that created it. Repeating the request doesn't create a second payout.
  request_id uuid,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, payout_run_id) references payout_runs (program_id, id),
  unique (program_id, id, partner_id, currency),
  -- For the foreign key of documents.
  unique (program_id, id, partner_id, currency, amount_cents),
  -- Closed months do not change. The extra half day allows for places west of UTC.
  constraint payouts_paid_on_open check (paid_on >= date_trunc('month', created_at at time zone 'UTC' - interval '12 hours')::date),
  check (amount_cents <= requested_cents),
  check (amount_cents > 0 or status = 'canceled'),
  check ((status in ('requested', 'in_run', 'sent', 'unclaimed')) = (decided_at is null)),
  check (case status
    when 'requested' then sent_at is null and payout_run_id is null
    when 'in_run' then sent_at is null and payout_run_id is not null
    when 'sent' then sent_at is not null
    when 'unclaimed' then sent_at is not null
    else true
  end),
  check ((payment_file_number is not null) = (sent_at is not null and payout_run_id is null)),
  check (num_nulls(reference, paid_on) = 0 and status in ('paid', 'returned', 'failed')
    or num_nulls(reference, paid_on) = 2 and status <> 'paid')
);
create unique index payouts_payout_run_key on payouts (program_id, payout_run_id, partner_id, currency)
  where payout_run_id is not null;
create index payouts_partner_idx on payouts (program_id, partner_id, currency, id);
create index payouts_file_idx on payouts (program_id, payment_file_number) where payment_file_number is not null;
create index payouts_updated_idx on payouts (program_id, updated_at);
create index payouts_open_idx on payouts (program_id, partner_id, currency, id) where decided_at is null;
create unique index payouts_request_key on payouts (program_id, request_id);

-- credited_at, paid_at, rejected_at and the reversal are the facts, and the status follows from them. A trigger sets the status. A
-- generated column took a twentieth of a sale's instructions, because Postgres parses and plans its expression again in each statement.
create table commissions (
  program_id bigint not null,
  id bigint generated always as identity,
  kind commission_kind not null,
  partner_id bigint not null,
  -- The last time when another partner got it, because a code of the customer became known later.
  moved_at timestamptz,
  customer_id bigint not null,
  sale_id bigint,
  currency currency_code not null,
  -- Only 0 if a correction left no commission. In that case, it is fully reversed.
  amount_cents amount_cents not null,
  -- The number of corrections of the amount.
  correction_count integer not null default 0,
  -- The facts of each correction in order: time, the amount before and after, the change of the remaining amount, and the sale's base and
  -- its source. Null if there was none.
  corrections jsonb,
  reversed_cents amount_cents not null default 0,
  reversal reversal_kind not null default 'none',
  reason reason_text,
  -- The reason why a person should review the commission before it is paid. Set on a customer's first commission if only a browser
  -- identified the customer.
  review_reason review_reason,
  hold_until timestamptz not null,
  credited_at timestamptz,
  paid_at timestamptz,
  -- The payout that paid its last part (functions/2_ledger/payout-lines.sql).
  payout_id bigint,
  rejected_at timestamptz,
  -- The time when it was held for review (functions/3_commissions/flags.sql), and the time of its first check.
  held_at timestamptz,
  flags_checked_at timestamptz,
  -- The rule that set a lead's commission. Null if the program's own amount applied. For a sale, the sale's row has the rule.
  lead_rule_id bigint,
  -- The code of the commission's sale.
  code_id bigint,
  -- Whether it was computed in shadow mode. The former service pays such commissions, so they are never credited, partners don't see them,
  -- and no figure counts them.
  is_shadow boolean not null default false,
  status commission_status not null default 'pending',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint commissions_sale_key unique (program_id, sale_id),
  foreign key (program_id, customer_id) references customers (program_id, id),
  foreign key (program_id, sale_id) references sales (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, payout_id, partner_id, currency) references payouts (program_id, id, partner_id, currency),
  unique (program_id, id, partner_id, currency)
);
-- For the foreign key, when a customer is deleted.
create index commissions_customer_idx on commissions (program_id, customer_id);
create unique index commissions_lead_key on commissions (program_id, customer_id) where kind = 'lead';
create index commissions_created_idx on commissions (program_id, created_at, id);
create index commissions_updated_idx on commissions (program_id, updated_at);
create index commissions_partner_idx on commissions (program_id, partner_id, id);
create index commissions_due_idx on commissions (hold_until, program_id, id)
  where credited_at is null and rejected_at is null and reversal <> 'full' and held_at is null and not is_shadow;
create index commissions_review_idx on commissions (program_id, id) where review_reason is not null;
create index commissions_unchecked_idx on commissions (program_id, id)
  where flags_checked_at is null and credited_at is null and rejected_at is null and reversal <> 'full';
create index commissions_held_idx on commissions (program_id, id) where held_at is not null;
create index commissions_payout_idx on commissions (program_id, payout_id) where payout_id is not null;
-- Credited commissions that are not paid yet.
create index commissions_unpaid_idx on commissions (program_id, partner_id, currency, id)
  where credited_at is not null and paid_at is null;

-- The flags that caused a commission to be held: `[{rule, evidence}]`, and a person's decision with its note.
create table commission_reviews (
  program_id bigint not null,
  commission_id bigint not null,
  flags jsonb not null,
  flagged_at timestamptz not null default now(),
  decision text check (decision in ('released', 'rejected')),
  note reason_text,
  decided_at timestamptz,
  decided_by text references users (id) on delete set null,
  decided_by_key bigint references api_keys (id),
  primary key (program_id, commission_id),
  foreign key (program_id, commission_id) references commissions (program_id, id),
  check (num_nulls(decision, decided_at) in (0, 2))
);
create index commission_reviews_user_idx on commission_reviews (decided_by) where decided_by is not null;

-- Manual additions to a partner's balance, or deductions if negative. They change the balance immediately, and never change later.
create table adjustments (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  currency currency_code not null,
  amount_cents bigint not null check (amount_cents <> 0 and abs(amount_cents) <= 9999999999999),
  -- The reason, which the partner sees. Null after the customer of the sale was erased.
  note reason_text,
  -- The sale that the adjustment belongs to, if any.
  sale_id bigint,
  -- The integrator's own id. The service recognizes repeats by this id, no matter how late they are.
  external_id text check (length(external_id) between 1 and 255),
  -- The request that created it. Repeating the request doesn't create a second adjustment.
  request_id uuid not null,
  -- The import that created the adjustment as an opening balance, which is the former service's debt. Nobody is notified about it.
  import_id bigint,
  paid_at timestamptz,
  -- The payout that paid its last part, as for a commission.
  payout_id bigint,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint adjustments_external_id_key unique (program_id, external_id),
  constraint adjustments_request_key unique (program_id, request_id),
  unique (program_id, id, partner_id, currency),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, sale_id) references sales (program_id, id),
  foreign key (program_id, payout_id, partner_id, currency) references payouts (program_id, id, partner_id, currency),
  check (num_nulls(paid_at, payout_id) in (0, 2) and (paid_at is null or amount_cents > 0))
);
create index adjustments_partner_idx on adjustments (program_id, partner_id, id);
create index adjustments_sale_idx on adjustments (program_id, sale_id) where sale_id is not null;
create index adjustments_payout_idx on adjustments (program_id, payout_id) where payout_id is not null;

-- The ledger of a partner's balance: numbered entries, each beginning with the balance after the previous one. Because of the foreign
-- key to the previous entry, the last `balance_after_cents` is the sum of all amounts. The balance row points at the last entry.
-- Triggers (functions/2_ledger/balances.sql) prevent changes to entries, and entries without their balance.
create table balance_entries (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  entry_number bigint not null check (entry_number > 0),
  amount_cents bigint not null check (amount_cents <> 0),
  balance_before_cents bigint not null,
  balance_after_cents bigint not null,
  cause text not null check (cause in (
    'commission_credited', 'commission_corrected', 'commission_reversed', 'reversal_returned', 'adjusted', 'opening_balance', 'payout_paid',
    'payout_returned'
  )),
  commission_id bigint,
  -- The number of the commission's correction, or of the payout's earlier payments that were returned.
  correction_number integer,
  refund_id bigint,
  payout_id bigint,
  adjustment_id bigint,
  -- The payment's reference at this time. A statement keeps this reference if the payment is undone and recorded with another one.
  reference text,
  -- Not before the previous entry's time.
  created_at timestamptz not null default now(),
  -- SHA-256 of the previous entry's hash and of this entry, set by a trigger. It shows whether somebody has rewritten earlier entries.
  entry_hash bytea not null check (length(entry_hash) = 32),
  previous_entry_number bigint generated always as (nullif(entry_number - 1, 0)) stored,
  primary key (program_id, partner_id, currency, entry_number),
  unique (program_id, partner_id, currency, entry_number, balance_after_cents),
  constraint balance_entries_cause_key unique nulls not distinct (program_id, cause, commission_id, correction_number, refund_id,
    payout_id, adjustment_id),
  foreign key (program_id, partner_id, currency, previous_entry_number, balance_before_cents)
    references balance_entries (program_id, partner_id, currency, entry_number, balance_after_cents),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, commission_id, partner_id, currency) references commissions (program_id, id, partner_id, currency),
  foreign key (program_id, payout_id, partner_id, currency) references payouts (program_id, id, partner_id, currency),
  foreign key (program_id, refund_id) references refunds (program_id, id),
  foreign key (program_id, adjustment_id, partner_id, currency) references adjustments (program_id, id, partner_id, currency),
  check (entry_number > 1 or balance_before_cents = 0),
  check (balance_before_cents + amount_cents = balance_after_cents),
  check (
    case cause
      when 'commission_credited' then amount_cents > 0 and commission_id is not null and refund_id is null and payout_id is null
      when 'commission_corrected' then commission_id is not null and correction_number is not null and refund_id is null
        and payout_id is null
      when 'commission_reversed' then amount_cents < 0 and commission_id is not null and payout_id is null
      when 'reversal_returned' then amount_cents > 0 and commission_id is not null and refund_id is not null and payout_id is null
      when 'adjusted' then num_nonnulls(commission_id, refund_id, payout_id) = 0
      when 'opening_balance' then num_nonnulls(commission_id, refund_id, payout_id) = 0
      when 'payout_returned' then amount_cents > 0 and payout_id is not null and commission_id is null and refund_id is null
      else amount_cents < 0 and payout_id is not null and commission_id is null and refund_id is null
    end and (cause in ('adjusted', 'opening_balance')) = (adjustment_id is not null)
      and (cause in ('payout_paid', 'payout_returned')) = (reference is not null)
  )
);
create index balance_entries_refund_idx on balance_entries (program_id, refund_id) where refund_id is not null;
create index balance_entries_adjustment_idx on balance_entries (program_id, adjustment_id) where adjustment_id is not null;

-- The entries that a payment covers. The sum of a payment's lines is exactly its payout's amount. A line can cover only a part of a large
-- commission. A payout that came back and is paid again has the lines of each payment.
create table payout_lines (
  program_id bigint not null,
  id bigint generated always as identity,
  payout_id bigint not null,
  -- 1 for the first payment of the payout.
  payment_number integer not null check (payment_number > 0),
  partner_id bigint not null,
  currency currency_code not null,
  entry_number bigint not null,
  amount_cents bigint not null check (amount_cents <> 0),
  -- True if the payment came back. After that, the entry waits for another payment.
  is_returned boolean not null default false,
  primary key (program_id, payout_id, id),
  unique (program_id, payout_id, payment_number, entry_number),
  foreign key (program_id, payout_id, partner_id, currency) references payouts (program_id, id, partner_id, currency),
  foreign key (program_id, partner_id, currency, entry_number) references balance_entries (program_id, partner_id, currency, entry_number)
);
create index payout_lines_entry_idx on payout_lines (program_id, partner_id, currency, entry_number);

create table balances (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  balance_cents bigint not null default 0,
  entry_count bigint not null default 0 check (entry_count >= 0),
  last_entry_number bigint generated always as (nullif(entry_count, 0)) stored,
  primary key (program_id, partner_id, currency),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, partner_id, currency, last_entry_number, balance_cents)
    references balance_entries (program_id, partner_id, currency, entry_number, balance_after_cents),
  check (entry_count > 0 or balance_cents = 0)
);

-- The encrypted names and addresses of erased partners with payments or debts (lib/money/payees.ts). They are kept as long as the books.
create table erased_payees (
  program_id bigint not null,
  partner_id bigint not null,
  identity bytea not null,
  erased_at timestamptz not null default now(),
  primary key (program_id, partner_id),
  foreign key (program_id, partner_id) references partners (program_id, id)
);
create index erased_payees_erased_idx on erased_payees (erased_at);
