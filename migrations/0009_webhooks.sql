-- Outgoing webhooks in the Standard Webhooks format. The transaction of an event writes its message, if the program has an endpoint for its
-- type. The queue only wakes the consumer, and these tables contain the state of every delivery.

create domain webhook_type as text check (value in (
  'lead.created', 'sale.created', 'sale.refunded', 'commission.created', 'commission.approved', 'commission.reversed', 'commission.flagged', 'commission.released', 'partner.applied',
  'partner.joined', 'adjustment.created', 'payout.requested', 'payout.reduced', 'payout.paid',
  -- The events of postbacks.
  'lead', 'sale', 'commission_approved', 'commission_reversed', 'payout_paid'
));

-- The secret is derived from WEBHOOK_SECRET and `secret_number` (lib/notifications/webhook-secrets.ts).
create table webhook_endpoints (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  -- The partner who receives postbacks here. Null if the endpoint belongs to the program.
  partner_id bigint,
  -- Null if `svc listen` fetches the messages. A GET address is a template with placeholders (lib/notifications/postbacks.ts).
  url text check (length(url) <= 2000),
  method text not null default 'POST' check (method in ('POST', 'GET')),
  description text not null default '' check (length(description) <= 200),
  types webhook_type[] not null check (cardinality(types) between 1 and 40),
  secret_number integer not null default 1,
  -- Until this time, the previous secret also signs.
  previous_secret_until timestamptz,
  created_at timestamptz not null default now(),
  -- The first failure since the last success, the number of failures since then, and the end of the pause.
  failing_since timestamptz,
  failures integer not null default 0,
  -- When the last failure was recorded.
  failed_at timestamptz,
  rests_until timestamptz,
  -- Until a day after its last response that took a second, and in its first hour, the endpoint only gets half of the consumer's connections.
  -- So slow endpoints of many workspaces don't delay the others.
  slow_until timestamptz not null default now() + interval '1 hour',
  disabled_at timestamptz,
  disabled_because text check (disabled_because in ('owner', 'failures')),
  -- Deliveries of a deleted endpoint stay until the end of their retention period.
  deleted_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partners (program_id, id),
  check (partner_id is null and method = 'POST' or partner_id is not null and url is not null),
  check ((partner_id is not null) = (types::text[] <@ '{lead,sale,commission_approved,commission_reversed,payout_paid}')),
  check (num_nulls(disabled_at, disabled_because) in (0, 2)),
  check ((failing_since is null) = (failures = 0))
);
create index webhook_endpoints_partner_idx on webhook_endpoints (program_id, partner_id) where partner_id is not null;

-- Messages. All endpoints of a program or of a partner share them. Of two messages about one sale, commission or payout, the one with the larger id is
-- later, because each is written under that row's lock.
create table webhook_messages (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  -- A `webhook_type`, or `webhook.test`.
  type text not null,
  data jsonb not null,
  created_at timestamptz not null default now(),
  primary key (program_id, id)
);
create index webhook_messages_created_idx on webhook_messages (created_at);
create index webhook_messages_type_idx on webhook_messages (program_id, type, id);

create table webhook_deliveries (
  program_id bigint not null,
  endpoint_id bigint not null,
  message_id bigint not null,
  -- A delivery to an endpoint without an address stays `to_fetch`, because the service doesn't know whether `svc
  -- listen` received it.
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed', 'to_fetch')),
  -- Attempts since the message was written or sent again.
  attempt_count integer not null default 0,
  -- Null if no attempt is planned.
  next_attempt_at timestamptz,
  -- Until this time, a consumer is sending it.
  claimed_until timestamptz,
  finished_at timestamptz,
  primary key (program_id, endpoint_id, message_id),
  foreign key (program_id, endpoint_id) references webhook_endpoints (program_id, id),
  foreign key (program_id, message_id) references webhook_messages (program_id, id) on delete cascade,
  check (status = 'pending' or next_attempt_at is null),
  check ((status in ('pending', 'to_fetch')) = (finished_at is null))
);
create index webhook_deliveries_message_idx on webhook_deliveries (program_id, message_id, endpoint_id);
-- People look for failed and waiting deliveries first.
create index webhook_deliveries_open_idx on webhook_deliveries (program_id, status, message_id, endpoint_id) where status <> 'delivered';
create index webhook_deliveries_due_idx on webhook_deliveries (program_id, endpoint_id, next_attempt_at) where next_attempt_at is not null;
create index webhook_deliveries_next_idx on webhook_deliveries (next_attempt_at) where next_attempt_at is not null;

-- Delivery attempts, with up to 4 KB of the response. The request follows from the message.
create table webhook_attempts (
  program_id bigint not null,
  endpoint_id bigint not null,
  message_id bigint not null,
  id bigint generated always as identity,
  attempted_at timestamptz not null,
  duration_ms integer not null,
  -- The HTTP status, or the reason why there was none.
  status integer,
  error text check (length(error) <= 300),
  answer text check (length(answer) <= 4096),
  primary key (program_id, endpoint_id, message_id, id),
  foreign key (program_id, endpoint_id, message_id) references webhook_deliveries (program_id, endpoint_id, message_id) on delete cascade,
  check (num_nulls(status, error) = 1)
);
