-- Payouts through a provider: PayPal Payouts, Wise batch transfers, or Stripe Outbound Payments.

-- A program's account at a provider.
create table payout_connections (
  -- The unguessable id in the address of its webhook.
  id text primary key check (id ~ '^pay_[A-Za-z0-9_-]{43}$'),
  program_id bigint not null references programs (id),
  provider text not null check (provider in ('paypal', 'wise', 'stripe')),
  livemode boolean not null,
  -- Its keys as JSON, encrypted (lib/processors/seal.ts). Null after it was disconnected.
  keys bytea,
  created_at timestamptz not null default now(),
  unique (program_id, id)
);
create unique index payout_connections_provider_key on payout_connections (program_id, provider) where keys is not null;

-- A partner's recipient at Stripe. Stripe collects the bank account and the identity.
create table payout_recipients (
  program_id bigint not null,
  partner_id bigint not null,
  recipient_id text not null check (recipient_id ~ '^acct_[A-Za-z0-9]{1,100}$'),
  primary key (program_id, partner_id),
  foreign key (program_id, partner_id) references partners (program_id, id)
);

-- A part of a payout run that a provider pays, in one currency.
create table payout_batches (
  program_id bigint not null,
  id bigint generated always as identity,
  payout_run_id bigint not null,
  connection_id text not null,
  currency currency_code not null,
  -- Chosen and stored before the first call. The provider executes a batch or payment only once for each key.
  batch_key uuid not null default gen_random_uuid(),
  -- Null until the provider has responded.
  provider_batch_id text,
  -- `sending` until the provider has all payments, then `sent` until no further reports about them are expected. `stopped` if a
  -- person moved all payments back to the run before a call contained them.
  status text not null default 'sending' check (status in ('sending', 'sent', 'done', 'stopped')),
  -- Why the last call failed; null if it worked.
  problem text,
  -- When the service continues the batch. A worker that continues it moves this time forward, so that no other worker does the same at
  -- once.
  next_step_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  foreign key (program_id, payout_run_id) references payout_runs (program_id, id),
  foreign key (program_id, connection_id) references payout_connections (program_id, id)
);
create index payout_batches_run_idx on payout_batches (program_id, payout_run_id);
create index payout_batches_connection_idx on payout_batches (program_id, connection_id);
create index payout_batches_next_idx on payout_batches (next_step_at) where status in ('sending', 'sent');

create table payout_items (
  program_id bigint not null,
  payout_id bigint not null,
  batch_id bigint not null,
  -- The key of this payment at the provider, stored before the first call.
  item_key uuid not null default gen_random_uuid(),
  -- The payout address, or the recipient at Stripe.
  recipient text not null,
  -- When a call that can move the money was first sent. Null again if the provider refused that call.
  attempted_at timestamptz,
  provider_item_id text,
  -- The state in our terms, then the provider's own word for the state and the reason. Null until the provider has reported a state.
  outcome text check (outcome in ('sent', 'held', 'unclaimed', 'paid', 'returned', 'failed')),
  provider_status text,
  provider_reason text,
  -- The day before which the partner can claim it.
  claim_until date,
  read_at timestamptz,
  primary key (program_id, payout_id),
  foreign key (program_id, payout_id) references payouts (program_id, id),
  foreign key (program_id, batch_id) references payout_batches (program_id, id)
);
create index payout_items_batch_idx on payout_items (program_id, batch_id, read_at);
