-- Sales, refunds, commissions, payouts and the ledger of balances. As with customers, the rules of a sale and of a commission stand in
-- domains and triggers (functions/5_sales/sales.sql, functions/3_commissions/commissions.sql): their 19 CHECKs were a fifth of a sale's instructions.

create domain id_text as text check (length(value) between 1 and 255);
create domain word_text as text check (length(value) between 1 and 64);
create domain reason_text as text check (length(value) <= 1000);
create domain commission_kind as text check (value in ('sale', 'lead'));
create domain commission_status as text check (value in ('pending', 'approved', 'paid', 'refunded', 'reversed'));
create domain reversal_kind as text check (value in ('none', 'partial', 'full'));
create domain refund_key as text check (length(value) between 1 and 300);
create domain refund_reason as text check (value in ('refund', 'chargeback'));
create domain review_reason as text check (value in ('unverified_customer'));
-- Who said what a sale brought. A later one of these decides over an earlier one, whichever was told first.
create type amount_source as enum ('api', 'charge', 'intent', 'session', 'invoice');

-- Among what the terms of a sale were chosen when it was attributed: the version of the program's rules, the partner's group, and what the program's
-- own terms were.
create type terms_choice as (rules_version integer, group_id bigint, commission_bp integer, commission_months integer);

-- A sale is the sale event and the sale record in one row. It is not partitioned: its transaction id must stay unique for
-- ever, and a unique key of a partitioned table would hold within one month only.
create table sales (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  is_test boolean not null default false,
  transaction_id id_text not null,
  -- Null: not attributed.
  customer_id bigint,
  partner_id bigint,
  customer_key id_text,
  sale_date timestamptz not null default now(),
  -- 0 only where the invoice of a sale brought nothing; its payment_status is then `no_payment_required`, and it counts in no figure.
  amount_cents amount_cents not null,
  amount_source amount_source not null default 'api',
  -- What the commission is computed of: the amount, for processor sales without tax.
  commission_base_cents amount_cents not null,
  -- The terms when the sale was attributed, by which its commission is computed, now and whenever it is corrected: of a rule, else the program's.
  commission_bp integer,
  commission_months integer,
  -- No foreign key, whose check each sale would pay for: rules are never deleted, and the audit looks for others.
  commission_rule_id bigint,
  -- Null where there is none, or the sale is in another currency than the program's.
  commission_fixed_cents bigint,
  -- What all sales of the customer up to this one may bring.
  commission_cap_cents bigint,
  -- Null where the program had no rules. By this the terms are chosen again where a better source says what was sold.
  terms_among terms_choice,
  -- The processor's ids of what was sold, each price before its product, what was paid most for first. Null where nobody named it.
  product_ids text[],
  -- What was named as its code, whether or not there is one; and the code that it has its partner by, or that is this partner's. No foreign key, as with
  -- rules.
  coupon text,
  code_id bigint,
  -- How it got its customer, or got none, as it was decided then: the steps in their order with what each found, and the click, the link, the
  -- window and the hold that counted at that moment (with_step and with_partner). Nothing in it names a person.
  resolution jsonb,
  refunded_cents amount_cents not null default 0,
  -- What the API told of a sale that the processor told otherwise since (payload_of in functions/5_sales/corrections.sql), so that a repeat of the call is
  -- known as one. Null where it stands as it was told.
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
  -- The request that recorded it: a request sent again after its answer was lost finds its own sale by this.
  request_id uuid,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint sales_transaction_key unique (program_id, is_test, transaction_id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);
create index sales_date_idx on sales (program_id, is_test, sale_date, id) where customer_id is not null;
create index sales_customer_idx on sales (program_id, customer_id) where customer_id is not null;
-- A partner's sales, and how many of them are paid, in lists of partners.
create index sales_partner_idx on sales (program_id, partner_id, sale_date, id) include (payment_status)
  where partner_id is not null and not is_test;
create index sales_subscription_idx on sales (program_id, subscription_id) where subscription_id is not null;
-- The status of a program asks for its last test sale. Live sales are found by the primary key, newest first; the few test sales
-- among them would be looked for through all of them.
create index sales_test_idx on sales (program_id, id) where is_test;

-- One row for each refund or chargeback. `refund_key` is `id:<refund id>`, `amount:<cents>` where the caller gave none, or
-- `rest:<request id>`. `applied_cents` is what it moves after capping, `deduction_cents` the commission it reversed when it was taken; a
-- refund put back (failed, or a dispute won) has `returned_at`. One that the processor told has the id it has there, and so has one
-- that the API told without an id, where the processor's is the same: `refund_key` is then the API's, whichever came first.
create table refunds (
  program_id bigint not null,
  id bigint generated always as identity,
  sale_id bigint not null,
  refund_key refund_key not null,
  processor_reversal_id text,
  requested_cents amount_cents,
  applied_cents amount_cents not null,
  deduction_cents amount_cents not null default 0,
  -- How much of the commission came back when it was put back.
  returned_cents amount_cents not null default 0,
  reason refund_reason not null default 'refund',
  reason_text reason_text,
  returned_at timestamptz,
  request_id uuid,
  -- The part of a refund that found no room in its sale when it was told (a dispute had taken it) and found it later, when that was
  -- returned, is a row of its own which points to the first. Rows change what they apply only where the sale itself becomes smaller.
  continues_refund_id bigint,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint refunds_sale_key unique (program_id, sale_id, refund_key),
  foreign key (program_id, sale_id) references sales (program_id, id),
  foreign key (program_id, continues_refund_id) references refunds (program_id, id)
);
create unique index refunds_reversal_key on refunds (program_id, sale_id, processor_reversal_id) where processor_reversal_id is not null;
-- These two are asked of each refund that is deleted with its test sale.
create index refunds_continues_idx on refunds (program_id, continues_refund_id) where continues_refund_id is not null;

-- How a program pays: one payout for each partner who is due, together. It is paid as a whole, with what the bank or PayPal calls it.
create table payout_runs (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  -- The request that made it: one sent twice makes one run.
  request_id uuid not null,
  -- How many payouts it has, which all are made with it.
  payments integer not null default 0,
  created_at timestamptz not null default now(),
  reference text check (length(reference) between 1 and 200),
  paid_on date,
  paid_at timestamptz,
  primary key (program_id, id),
  constraint payout_runs_request_key unique (program_id, request_id),
  check (num_nulls(reference, paid_on, paid_at) in (0, 3))
);

-- Who had something available when a run was made and is not in it, and why.
create table payout_run_exclusions (
  program_id bigint not null,
  payout_run_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  payable_cents amount_cents not null check (payable_cents > 0),
  reason text not null check (reason in ('below_minimum', 'no_payout_address', 'payout_address_changed')),
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
  -- What it stands at; a reversal that leaves too little reduces it, and cancels it at zero. The partner can cancel it as well.
  amount_cents amount_cents not null,
  status text not null default 'requested' check (status in ('requested', 'paid', 'refused', 'cancelled')),
  -- The entry that its balance ended with when it was made, set by a trigger: the audit finds there what was payable.
  created_at_entry_number bigint not null default 0,
  -- Null where the partner asked for it.
  payout_run_id bigint,
  -- Where a run pays it to: what was the partner's address when the run was made. Null: wherever the address is when it is paid.
  payout_address text check (length(payout_address) <= 320),
  reason reason_text,
  -- What the transfer is called where the money left, and the day it left on.
  reference text check (length(reference) between 1 and 200),
  paid_on date,
  created_at timestamptz not null default now(),
  decided_at timestamptz,
  -- The request that asked for it: one sent twice asks once.
  request_id uuid,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  foreign key (program_id, payout_run_id) references payout_runs (program_id, id),
  unique (program_id, id, partner_id, currency),
  check (amount_cents <= requested_cents),
  check (amount_cents > 0 or status = 'cancelled'),
  check ((status = 'requested') = (decided_at is null)),
  check (status = 'paid' and num_nulls(reference, paid_on) = 0 or status <> 'paid' and num_nulls(reference, paid_on) = 2)
);
create unique index payouts_payout_run_key on payouts (program_id, payout_run_id, partner_id, currency)
  where payout_run_id is not null;
create index payouts_partner_idx on payouts (program_id, partner_id, currency, id);
create index payouts_open_idx on payouts (program_id, partner_id, currency, id) where status = 'requested';
create unique index payouts_request_key on payouts (program_id, request_id);

-- credited_at, paid_at, rejected_at and the reversal are the facts; the status follows from them. The trigger sets it: as a generated
-- column it cost a sale a twentieth of its instructions, because Postgres reads and plans the expression anew in each statement.
create table commissions (
  program_id bigint not null,
  id bigint generated always as identity,
  kind commission_kind not null,
  partner_id bigint not null,
  customer_id bigint not null,
  sale_id bigint,
  currency currency_code not null,
  -- 0 only where a correction left nothing to pay for; it is then reversed in full.
  amount_cents amount_cents not null,
  -- How often the amount was corrected.
  correction_count integer not null default 0,
  -- What each correction found, in their order: when, the amount before and after, by how much what is left of it changed, and the sale's
  -- base and who told it. Null where there was none.
  corrections jsonb,
  reversed_cents amount_cents not null default 0,
  reversal reversal_kind not null default 'none',
  reason reason_text,
  -- Why a person should look at it before it is paid: a customer's first, where a browser alone said who they are.
  review_reason review_reason,
  hold_until timestamptz not null,
  credited_at timestamptz,
  paid_at timestamptz,
  -- The paid payout it was paid with. The rule stands at mark_paid_commissions in functions/payouts.sql.
  payout_id bigint,
  rejected_at timestamptz,
  -- While it is held for a person to decide (functions/3_commissions/flags.sql), and when it was first looked at for that.
  held_at timestamptz,
  flags_checked_at timestamptz,
  -- The rule that a lead's is of, where it was not the program's own. A sale keeps its own.
  lead_rule_id bigint,
  -- Its sale's.
  code_id bigint,
  status commission_status not null default 'pending',
  created_at timestamptz not null default now(),
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
create index commissions_partner_idx on commissions (program_id, partner_id, id);
create index commissions_due_idx on commissions (hold_until, program_id, id)
  where credited_at is null and rejected_at is null and reversal <> 'full' and held_at is null;
create index commissions_review_idx on commissions (program_id, id) where review_reason is not null;
create index commissions_unchecked_idx on commissions (program_id, id)
  where flags_checked_at is null and credited_at is null and rejected_at is null and reversal <> 'full';
create index commissions_held_idx on commissions (program_id, id) where held_at is not null;
create index commissions_payout_idx on commissions (program_id, payout_id) where payout_id is not null;
-- What stands in a balance and was not paid yet.
create index commissions_unpaid_idx on commissions (program_id, partner_id, currency, id)
  where credited_at is not null and paid_at is null;

-- What was found of a commission, for which it is or was held: `[{rule, evidence}]`; and what a person decided, and why.
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

-- What the program gave a partner, or below zero took from them, by hand. It is in the balance at once, and stays as it was written.
create table adjustments (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  currency currency_code not null,
  amount_cents bigint not null check (amount_cents <> 0 and abs(amount_cents) <= 9999999999999),
  -- Why. The partner reads it; null once the customer whose sale it names was erased.
  note reason_text,
  -- The sale that it is about, where it is about one.
  sale_id bigint,
  -- The integrator's own id of it, by which one told twice is known for ever.
  external_id text check (length(external_id) between 1 and 255),
  -- The request that made it: one sent twice makes one.
  request_id uuid not null,
  paid_at timestamptz,
  -- The paid payout it was paid with, as a commission is (mark_paid_commissions in functions/payouts.sql).
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

-- The ledger of a partner's balance: numbered entries, each beginning where the one before it ended. The foreign key to the
-- entry before makes the last `balance_after_cents` the sum of all amounts; the balance row points at the last entry.
-- Triggers (functions/balances.sql) keep entries as they are and each with its balance.
create table balance_entries (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  entry_number bigint not null check (entry_number > 0),
  amount_cents bigint not null check (amount_cents <> 0),
  balance_before_cents bigint not null,
  balance_after_cents bigint not null,
  cause text not null check (cause in (
    'commission_credited', 'commission_corrected', 'commission_reversed', 'reversal_returned', 'adjusted', 'payout_paid'
  )),
  commission_id bigint,
  -- The how-manieth correction of the commission it is.
  correction_number integer,
  refund_id bigint,
  payout_id bigint,
  adjustment_id bigint,
  created_at timestamptz not null default now(),
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
      else amount_cents < 0 and payout_id is not null and commission_id is null and refund_id is null
    end and (cause = 'adjusted') = (adjustment_id is not null)
  )
);
create index balance_entries_refund_idx on balance_entries (program_id, refund_id) where refund_id is not null;
create index balance_entries_adjustment_idx on balance_entries (program_id, adjustment_id) where adjustment_id is not null;

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

-- The one number that may be paid out: the balance without what open payouts hold.
create view payable_balances as
select b.program_id, b.partner_id, b.currency, b.balance_cents, coalesce(w.open_cents, 0)::bigint as open_cents,
  (b.balance_cents - coalesce(w.open_cents, 0))::bigint as payable_cents
from balances b
left join (
  select w.program_id, w.partner_id, w.currency, sum(w.amount_cents) as open_cents from payouts w
  where w.status = 'requested' group by w.program_id, w.partner_id, w.currency
) w on w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency;

-- What a payout run made now would pay, and whom it would leave out.
create view payouts_due as
select p.program_id, p.partner_id, p.currency, p.payable_cents, coalesce(m.minimum_payout_cents, 0)::bigint as minimum_payout_cents,
  coalesce(r.payout_email, r.email) as payout_address,
  case
    when p.payable_cents < coalesce(m.minimum_payout_cents, 0) then 'below_minimum'
    when coalesce(r.payout_email, r.email) is null then 'no_payout_address'
    when r.payout_waits_until > now() then 'payout_address_changed'
  end as exclusion_reason
from payable_balances p
join partners r on r.program_id = p.program_id and r.id = p.partner_id
left join minimum_payouts m on m.program_id = p.program_id and m.currency = p.currency
where p.payable_cents > 0;

-- Partners with whom money is not settled, and what it is, the nearest to being paid first. Neither their account nor their program's workspace can go
-- before.
create view unsettled_partners as
select r.program_id, r.id as partner_id, r.user_id, u.unsettled
from partners r
cross join lateral (
  select case
    when exists (
      select from payouts w where w.program_id = r.program_id and w.partner_id = r.id and w.status = 'requested'
    ) then 'an open payout'
    when exists (
      select from balances b where b.program_id = r.program_id and b.partner_id = r.id and b.balance_cents > 0
    ) then 'a balance'
    when exists (
      select from commissions c where c.program_id = r.program_id and c.partner_id = r.id
        and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full'
    ) then 'a pending commission'
  end as unsettled
) u
where u.unsettled is not null;
