-- What the payment processor's webhooks need beyond the sale: which payment belongs to which sale, refunds and disputes
-- whatever order they are told in, and the log of deliveries.

-- When the account was connected, so that a late message that an earlier connection ended does not end this one; and whether
-- it was connected in live mode.
alter table programs
  add column processor_connected_at timestamptz,
  add column processor_livemode boolean not null default true;

-- A customer can have several ids at the processor, so they have a table; a sale is found by its transaction id.
alter table customers drop column processor_customer_id;
drop index sales_payment_intent_idx, sales_charge_idx, sales_invoice_idx;
create table processor_customers (
  program_id bigint not null,
  processor_customer_id text not null,
  customer_id bigint not null,
  created_at timestamptz not null default now(),
  primary key (program_id, processor_customer_id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);

-- Whose an unpaid checkout session is, until its payment arrives days later.
create table processor_sessions (
  program_id bigint not null,
  session_id text not null,
  customer_id bigint not null,
  created_at timestamptz not null default now(),
  primary key (program_id, session_id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);
create index processor_sessions_created_idx on processor_sessions (created_at);

-- The transaction id of the sale that a payment intent or charge paid: for an invoice the invoice's id.
create table processor_payments (
  account_id text not null,
  payment_id text not null,
  transaction_id text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, payment_id)
);
create index processor_payments_transaction_idx on processor_payments (account_id, transaction_id);

-- Refunds and disputes as the processor told them, whether or not their sale is known yet. returned_at is set where the
-- refund failed or the dispute was won, told before or after the refund itself; it is never unset.
create table processor_reversals (
  account_id text not null,
  reversal_id text not null,
  livemode boolean not null,
  reason text not null check (reason in ('refund', 'chargeback')),
  reason_text text check (length(reason_text) <= 1000),
  payment_intent_id text,
  charge_id text,
  amount_cents amount_cents not null,
  currency currency_code not null,
  -- The events that told of it and of its return.
  event_id text,
  returned_event_id text,
  returned_at timestamptz,
  created_at timestamptz not null default now(),
  primary key (account_id, reversal_id),
  check (event_id is not null or returned_event_id is not null),
  check ((returned_at is null) = (returned_event_id is null))
);
create index processor_reversals_payment_intent_idx on processor_reversals (account_id, payment_intent_id);
create index processor_reversals_charge_idx on processor_reversals (account_id, charge_id);
create index processor_reversals_created_idx on processor_reversals (created_at);

-- The part of a refund that found no room in its sale when it was told (a dispute had taken it) and found it later, when that was
-- returned, is a row of its own which points to the first. Rows never change what they applied.
alter table refunds
  add column continues_refund_id bigint,
  add foreign key (program_id, continues_refund_id) references refunds (program_id, id);

-- The log keeps what was read of an event, with the keyed hash in place of an e-mail address, so that it can be replayed.
alter table processor_events
  add column event_created_at timestamptz,
  add column fact jsonb,
  add column deliveries integer not null default 1 check (deliveries > 0),
  add column last_received_at timestamptz not null default now();
create index processor_events_account_idx on processor_events (account_id, received_at desc);
create index processor_events_received_idx on processor_events (received_at);

-- The states that stand for a connection being made at the processor: single use, tied to the session that asked.
create table processor_connect_states (
  state_hash bytea primary key check (length(state_hash) = 32),
  program_id bigint not null references programs (id) on delete cascade,
  session_hash bytea not null check (length(session_hash) = 32),
  expires_at timestamptz not null
);
create index processor_connect_states_expires_idx on processor_connect_states (expires_at);
