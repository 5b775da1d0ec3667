-- The rules are domains instead of CHECKs, for the reason in 0004_money.sql.
create domain notification_kind as text check (value in (
  'commission_earned', 'commission_flagged', 'commission_reversed', 'commission_refunded', 'commission_corrected', 'payout_reduced', 'payout_paid',
  'payout_refused', 'payout_returned', 'payout_unclaimed', 'payout_held', 'payout_address_needed', 'tax_form_needed', 'statement_ready', 'adjustment_added', 'adjustment_deducted', 'payout_due', 'application_received',
  'paid_commission_reversed', 'dispute_reinstated', 'balance_negative', 'refund_not_converted',
  'sale_currency_corrected', 'sale_currency_differs', 'payment_ignored', 'self_billing_withdrawn', 'processor_disconnected', 'webhook_disabled', 'postback_disabled',
  'host_disabled', 'program_message'
));
create domain notification_audience as text check (value in ('partner', 'advertiser'));
create domain cause_text as text check (length(value) between 1 and 300);

-- Messages to send, written in the transaction of their event. The consumer copies a row to `notifications` and sets
-- `delivered_at`. The relay sends undelivered rows again.
create table outbox (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  kind notification_kind not null,
  audience notification_audience not null,
  -- Null if no partner is involved.
  partner_id bigint,
  -- The event behind the message, such as a refund, rejection or reinstatement, and the changed row. It is unique per kind and audience.
  cause cause_text not null,
  payload jsonb not null,
  created_at timestamptz not null default now(),
  sent_at timestamptz,
  delivered_at timestamptz,
  primary key (program_id, id),
  constraint outbox_cause_key unique (program_id, kind, audience, cause),
  check (audience <> 'partner' or partner_id is not null),
  foreign key (program_id, partner_id) references partners (program_id, id)
);
create index outbox_undelivered_idx on outbox (created_at, program_id, id) where delivered_at is null;

create table notifications (
  program_id bigint not null,
  -- The outbox row's id, so that a repeated message finds its notification.
  id bigint not null,
  kind text not null,
  audience notification_audience not null,
  partner_id bigint,
  payload jsonb not null,
  created_at timestamptz not null,
  primary key (program_id, id),
  foreign key (program_id, id) references outbox (program_id, id)
);
create index notifications_partner_idx on notifications (partner_id, created_at desc) where audience = 'partner';
create index notifications_program_idx on notifications (program_id, created_at desc) where audience = 'advertiser';
-- For the counts in the overview.
create index notifications_ignored_idx on notifications (program_id, created_at, id) where audience = 'advertiser' and kind = 'payment_ignored';

create table notification_reads (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null references users (id) on delete cascade,
  read_at timestamptz not null default now(),
  primary key (program_id, notification_id, user_id),
  foreign key (program_id, notification_id) references notifications (program_id, id)
);

-- The topics of mails. functions/1_base/notifications.sql assigns a topic to each notification kind.
create type mail_topic as enum ('earned', 'reversed', 'paid', 'statement', 'message', 'application', 'payout_due', 'review', 'trouble', 'postback');
create type mail_frequency as enum ('at_once', 'daily', 'never');

-- A person's choices. Topics without a row have their usual frequency.
create table mail_choices (
  user_id text not null references users (id) on delete cascade,
  topic mail_topic not null,
  frequency mail_frequency not null,
  primary key (user_id, topic)
);

-- Addresses that get no more mail, because a mail bounced or was marked as spam, or because a person without an account stopped the mails.
-- Owners with an account can enable them again.
create table refused_addresses (
  email text primary key check (email = lower(email)),
  reason text not null check (reason in ('bounced', 'complained', 'unsubscribed')),
  refused_at timestamptz not null default now()
);

-- Notifications to mail. A row is deleted after its mail was sent, or after two days.
create table notification_mails (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null references users (id) on delete cascade,
  topic mail_topic not null,
  frequency mail_frequency not null check (frequency <> 'never'),
  due_at timestamptz not null,
  -- Shared by the notifications of one mail. The mail API recognizes a repeated mail by this key.
  mail_id uuid,
  attempts smallint not null default 0,
  primary key (program_id, notification_id, user_id),
  foreign key (program_id, notification_id) references notifications (program_id, id)
);
create index notification_mails_due_idx on notification_mails (due_at);
create index notification_mails_mail_idx on notification_mails (mail_id) where mail_id is not null;
create index notification_mails_user_idx on notification_mails (user_id);

-- Mails of the local stack, which has no mail API. They are kept for a week. Other deployments don't store mails.
create table mails (
  id bigint generated always as identity primary key,
  recipient text not null,
  subject text not null,
  body text not null,
  html text,
  created_at timestamptz not null default now()
);
create index mails_recipient_idx on mails (recipient, id);
