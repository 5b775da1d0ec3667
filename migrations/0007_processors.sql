-- Further tables for the payment processor's webhooks: the ids of each payment, refunds and disputes, and the log of webhook events.

-- Connections to processors other than Stripe. Each belongs to one program and has its own webhook address. Stripe's account is in
-- `programs`, because several programs can share one.
create table processor_connections (
  -- The unguessable id in the webhook's address. It is also the account of the connection's events in the tables below.
  account_id text primary key check (account_id ~ '^conn_[A-Za-z0-9_-]{43}$'),
  program_id bigint not null references programs (id),
  -- The processor's name in lib/processors/processors.ts.
  processor text not null check (processor ~ '^[a-z]{2,30}$'),
  -- The key that signs its webhooks, encrypted (lib/processors/seal.ts). Null until somebody pastes it.
  secret bytea,
  -- Whether it is connected to the processor's live mode or to its sandbox.
  livemode boolean not null,
  -- Later events wait until it is connected again.
  disconnected_at timestamptz,
  -- The time and the reason of its last refused delivery.
  refused_at timestamptz,
  refusal text,
  created_at timestamptz not null default now(),
  check ((refused_at is null) = (refusal is null))
);
create index processor_connections_program_idx on processor_connections (program_id);

-- A customer can have several ids at the processor. If a processor may omit a subscription's metadata in renewals, this column can
-- also contain the subscription's id.
create table processor_customers (
  program_id bigint not null,
  processor_customer_id text not null,
  customer_id bigint not null,
  -- When the buyer started the earliest attributed purchase that identifies them. Earlier purchases stay unattributed.
  known_from timestamptz not null default now(),
  created_at timestamptz not null default now(),
  primary key (program_id, processor_customer_id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);
create index processor_customers_customer_idx on processor_customers (program_id, customer_id);

-- The metadata of an account's customers. It attributes their payments without metadata. The report with the latest time wins, even if it
-- isn't the last to arrive. Rows stay after their metadata is removed, so that older reports don't restore it.
create table processor_customer_metadata (
  account_id text not null,
  livemode boolean not null,
  processor_customer_id text not null,
  -- The integrator's text. The program may not exist.
  program_id bigint,
  click_id text,
  customer_key text,
  reported_at timestamptz not null,
  event_id text not null,
  -- True if the processor has deleted the customer. Events about earlier payments still arrive for days after that.
  is_deleted boolean not null,
  primary key (account_id, livemode, processor_customer_id)
);
create index processor_customer_metadata_ended_idx on processor_customer_metadata (reported_at)
  where is_deleted or num_nonnulls(program_id, click_id, customer_key) = 0;

-- The buyer of an unpaid checkout session. The row is kept until the payment arrives, which can take days.
create table processor_sessions (
  program_id bigint not null,
  session_id text not null,
  -- Null while the buyer is unattributed.
  customer_id bigint,
  -- The requested amount and its part without tax, in the processor's unit. A partial capture contains the same share of tax.
  asked_total bigint check (asked_total > 0),
  asked_untaxed bigint check (asked_untaxed between 0 and asked_total),
  created_at timestamptz not null default now(),
  primary key (program_id, session_id),
  foreign key (program_id, customer_id) references customers (program_id, id)
);
create index processor_sessions_customer_idx on processor_sessions (program_id, customer_id);
create index processor_sessions_created_idx on processor_sessions (created_at);

-- The ids of each payment. Each id points to the id with the highest rank: the invoice, or else the intent, else the session.
create table processor_payments (
  account_id text not null,
  payment_id text not null,
  transaction_id text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, payment_id)
);
create index processor_payments_created_idx on processor_payments using brin (created_at);
create index processor_payments_transaction_idx on processor_payments (account_id, transaction_id);

-- Refunds and disputes as the processor reported them, even if their sale is still unknown. returned_at is set if the refund failed or the
-- dispute was won. The return can be reported first. The column is never reset.
create table processor_reversals (
  account_id text not null,
  reversal_id text not null,
  livemode boolean not null,
  reason refund_reason not null,
  reason_text reason_text,
  payment_intent_id text,
  charge_id text,
  invoice_id text,
  amount_cents amount_cents not null,
  -- The amount without tax. Null if the processor refunds tax only in proportion.
  untaxed_cents amount_cents,
  -- The payment's refunds up to this one, if the processor reports only their total.
  total_cents amount_cents,
  currency currency_code not null,
  -- The events that reported the refund and its return.
  event_id text,
  returned_event_id text,
  returned_at timestamptz,
  -- The processor's own id of the return, if it has one.
  returned_by text,
  -- The chargeback that the processor marked as returned: this one, or another one of the same amount.
  marked_id text,
  created_at timestamptz not null default now(),
  primary key (account_id, reversal_id),
  check (event_id is not null or returned_event_id is not null),
  check ((returned_at is null) = (returned_event_id is null))
);
create index processor_reversals_payment_intent_idx on processor_reversals (account_id, payment_intent_id);
create index processor_reversals_charge_idx on processor_reversals (account_id, charge_id);
create index processor_reversals_invoice_idx on processor_reversals (account_id, invoice_id);
create index processor_reversals_created_idx on processor_reversals (created_at);

-- Webhook events from the payment processor and their outcomes. The log stores each event's fact, with the keyed hash in place of an e-mail
-- address, so that it can be replayed.
create table processor_events (
  account_id text not null,
  event_id text not null,
  event_type text not null,
  program_id bigint references programs (id),
  livemode boolean not null,
  outcome text not null check (outcome in ('recorded', 'duplicate', 'ignored', 'parked')),
  reason text,
  -- The reason why a scheduled function applies a parked event again. Its account is connected, its sale is in another currency, its buyer
  -- is now known, or no session identified the buyer within an hour. Null if the event is applied together with its sale.
  waits_for text check (waits_for in ('connection', 'conversion', 'buyer', 'session')),
  fact jsonb not null,
  -- The steps of the search for a purchase's buyer, each with its result, as in `sales`.
  resolution jsonb,
  -- The whole payload of a live event that no schema reads, for 30 days. It is encrypted because it holds customers' data
  -- (lib/processors/seal.ts).
  payload bytea,
  -- Names of facts that can still give this event an effect (awaited_name in functions/6_processor/event-log.sql).
  awaits text[],
  event_created_at timestamptz not null,
  received_at timestamptz not null default now(),
  deliveries integer not null default 1 check (deliveries > 0),
  last_received_at timestamptz not null default now(),
  primary key (account_id, event_id),
  check (waits_for is null or outcome = 'parked')
);
create index processor_events_program_idx on processor_events (program_id, received_at desc);
create index processor_events_account_idx on processor_events (account_id, received_at desc);
-- Test mode has few events, and readers list and clear them separately.
create index processor_events_test_idx on processor_events (program_id, received_at desc) where not livemode;
create index processor_events_test_unnamed_idx on processor_events (account_id, received_at desc) where program_id is null and not livemode;
create index processor_events_waiting_idx on processor_events (account_id, received_at) where waits_for is not null;
create index processor_events_payment_idx on processor_events ((fact#>>'{sale,transaction_id}'))
  where fact#>>'{sale,transaction_id}' is not null;
-- Finds refunds, disputes and payments of invoices.
create index processor_events_reversed_idx on processor_events ((coalesce(fact->>'payment_intent_id', fact->>'charge_id', fact->>'invoice_id')))
  where coalesce(fact->>'payment_intent_id', fact->>'charge_id', fact->>'invoice_id') is not null;
create index processor_events_received_idx on processor_events (received_at);
create index processor_events_payload_idx on processor_events (received_at) where payload is not null;
create index processor_events_awaits_idx on processor_events using gin (awaits) with (fastupdate = off) where awaits is not null;
create index processor_events_unexplained_idx on processor_events (received_at)
  where outcome = 'ignored' and livemode and fact->>'reported_alone' = 'false';

-- States of connections that are in progress at the processor. Each works once, in the session that requested it.
create table processor_connect_states (
  state_hash bytea primary key check (length(state_hash) = 32),
  program_id bigint not null references programs (id) on delete cascade,
  session_hash bytea not null check (length(session_hash) = 32),
  expires_at timestamptz not null
);
create index processor_connect_states_expires_idx on processor_connect_states (expires_at);

-- Codes with which an owner proves that they control the deployment's own account. Only the account's owner can write a code into its
-- metadata.
create table own_account_codes (
  program_id bigint primary key references programs (id) on delete cascade,
  code text not null constraint own_account_codes_code_key unique check (length(code) = 43),
  requested_by text not null references users (id) on delete cascade,
  -- If the deployment has a live key, a test mode event is not enough proof.
  needs_livemode boolean not null,
  expires_at timestamptz not null
);

-- The progress of a program's backfill. `kind` is the current list, which is read newest first, and `last_id` its last applied object. Only
-- a program's newest backfill is stored.
create table processor_backfills (
  program_id bigint primary key references programs (id) on delete cascade,
  account_id text not null,
  reads_from timestamptz not null,
  status text not null default 'running' check (status in ('running', 'stopped', 'done')),
  kind text not null default 'customers'
    check (kind in ('customers', 'sessions', 'subscriptions', 'invoices', 'intents', 'refunds', 'disputes')),
  last_id text,
  objects_read bigint not null default 0,
  events_recorded bigint not null default 0,
  -- The reason why the last step failed. Null if it worked.
  problem text,
  started_at timestamptz not null default now()
);
create index processor_backfills_running_idx on processor_backfills (program_id) where status = 'running';
