-- Domains in place of CHECKs, for the reason that 0004_money.sql gives.
create domain notification_kind as text check (value in (
  'commission_earned', 'commission_flagged', 'commission_reversed', 'commission_refunded', 'commission_corrected', 'payout_reduced', 'payout_paid',
  'payout_refused', 'adjustment_added', 'adjustment_deducted', 'payout_due', 'application_received',
  'paid_commission_reversed', 'dispute_reinstated', 'balance_negative', 'refund_not_converted',
  'payment_ignored', 'processor_disconnected', 'webhook_disabled'
));
create domain notification_audience as text check (value in ('partner', 'advertiser'));
create domain cause_text as text check (length(value) between 1 and 200);

-- What is to be told, written in the transaction that made it true. The consumer copies a row to `notifications` and sets
-- delivered_at; the relay sends again whatever stays undelivered.
create table outbox (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  kind notification_kind not null,
  audience notification_audience not null,
  -- Null where no partner has to do with it.
  partner_id bigint,
  -- What happened, once per kind and audience: the refund, rejection or reinstatement, and the thing it changed.
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
  -- The outbox row's id: a message delivered twice finds its notification here.
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
-- Counted by the overview.
create index notifications_ignored_idx on notifications (program_id, created_at, id) where audience = 'advertiser' and kind = 'payment_ignored';

create table notification_reads (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null references users (id) on delete cascade,
  read_at timestamptz not null default now(),
  primary key (program_id, notification_id, user_id),
  foreign key (program_id, notification_id) references notifications (program_id, id)
);

-- What people are mailed about, beside the notifications they find here: functions/notification-mails.sql says which kind is of which topic.
create type mail_topic as enum ('earned', 'reversed', 'paid', 'application', 'payout_due', 'review', 'trouble');
create type mail_frequency as enum ('at_once', 'daily', 'never');

-- What a person chose; where there is no row, the topic's usual frequency.
create table mail_choices (
  user_id text not null references users (id) on delete cascade,
  topic mail_topic not null,
  frequency mail_frequency not null,
  primary key (user_id, topic)
);

-- Addresses that notifications are not mailed to any more, because mail to them came back or was called spam. Their person can have them tried again.
create table refused_addresses (
  email text primary key check (email = lower(email)),
  reason text not null check (reason in ('bounced', 'complained')),
  refused_at timestamptz not null default now()
);

-- Notifications that are to be mailed. A row goes once its mail was sent, or when nobody took it for two days.
create table notification_mails (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null references users (id) on delete cascade,
  topic mail_topic not null,
  frequency mail_frequency not null check (frequency <> 'never'),
  due_at timestamptz not null,
  -- Those of one mail share it; it is the key by which the mail API knows a mail that is sent again.
  mail_id uuid,
  attempts smallint not null default 0,
  primary key (program_id, notification_id, user_id),
  foreign key (program_id, notification_id) references notifications (program_id, id)
);
create index notification_mails_due_idx on notification_mails (due_at);
create index notification_mails_mail_idx on notification_mails (mail_id) where mail_id is not null;
create index notification_mails_user_idx on notification_mails (user_id);

-- Mail of the local stack, which has no mail API; kept for a week. Elsewhere nothing that a mail holds is stored.
create table mails (
  id bigint generated always as identity primary key,
  recipient text not null,
  subject text not null,
  body text not null,
  html text,
  created_at timestamptz not null default now()
);
create index mails_recipient_idx on mails (recipient, id);
