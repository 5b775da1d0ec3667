-- Programs, partners, tracking events, money. Money is an integer in the currency's minor unit; percentages are basis points.
-- Every table of a program carries program_id in front of its keys, so the schema can be distributed by it; the tables
-- without it (referral links by code and API keys, looked up before the program is known, and partners) are small and
-- read-mostly.

create domain currency_code as text check (value ~ '^[a-z]{3}$');
create domain amount_cents as bigint check (value between 0 and 99999999999);

create table programs (
  id bigint generated always as identity primary key,
  workspace_id text not null references workspaces (id),
  name text not null check (length(name) between 1 and 200),
  domain text not null check (length(domain) between 1 and 253),
  currency currency_code not null default 'usd',
  commission_bp integer not null default 2000 check (commission_bp between 0 and 10000),
  -- Paid once for each settled lead, in the program's currency.
  lead_commission_cents amount_cents not null default 0,
  cookie_window_days integer not null default 30 check (cookie_window_days between 1 and 3650),
  hold_days integer not null default 30 check (hold_days between 0 and 365),
  -- Sales later than this many months after a customer's first purchase earn nothing; null is for ever.
  commission_duration_months integer check (commission_duration_months between 1 and 1200),
  lead_auth_policy text not null default 'server_verified' check (lead_auth_policy in ('server_verified', 'browser_allowed')),
  attribution_model text not null default 'last_click' check (attribution_model in ('last_click', 'first_click')),
  -- The connected account at the payment processor. Several programs may share one.
  processor_account_id text check (processor_account_id ~ '^acct_[A-Za-z0-9_]+$'),
  created_at timestamptz not null default now()
);
create index programs_workspace_idx on programs (workspace_id);
create index programs_processor_account_idx on programs (processor_account_id) where processor_account_id is not null;

create table api_keys (
  id bigint generated always as identity primary key,
  program_id bigint not null references programs (id),
  -- SHA-256 of the key. The key itself is shown once and kept nowhere.
  key_hash bytea not null constraint api_keys_hash_key unique check (length(key_hash) = 32),
  name text not null default 'default' check (length(name) between 1 and 100),
  -- The last four characters, so that people can tell their keys apart.
  hint text not null check (length(hint) = 4),
  created_at timestamptz not null default now(),
  retired_at timestamptz
);
create index api_keys_program_idx on api_keys (program_id);

create table partners (
  id bigint generated always as identity primary key,
  -- The partner's sign-in, once there is one.
  user_id text unique references users (id) on delete set null,
  name text not null check (length(name) between 1 and 200),
  email text check (length(email) <= 320),
  payout_email text check (length(payout_email) <= 320),
  created_at timestamptz not null default now()
);
create unique index partners_email_key on partners (lower(email));

create table partner_programs (
  program_id bigint not null references programs (id),
  partner_id bigint not null references partners (id),
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  primary key (program_id, partner_id)
);
create index partner_programs_created_idx on partner_programs (program_id, created_at);
create index partner_programs_partner_idx on partner_programs (partner_id);

-- A link without partner or program is a configuration mistake that a click answers with `invalid_link`; imported links
-- may arrive so. A complete link is held to the partner's membership of the program.
create table referral_links (
  id bigint generated always as identity primary key,
  code text not null check (code ~ '^[A-Za-z0-9._@-]{1,64}$'),
  program_id bigint references programs (id),
  partner_id bigint references partners (id),
  -- The page that the copied link opens; null is the program's domain.
  page_url text check (length(page_url) <= 2048),
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  foreign key (program_id, partner_id) references partner_programs (program_id, partner_id),
  unique (program_id, id, partner_id)
);
-- Codes are matched without regard to case over the whole service.
create unique index referral_links_code_key on referral_links (lower(code));
create index referral_links_partner_idx on referral_links (partner_id, program_id);

-- Clicks are counted over several rows per link, chosen by the backend's process id, so that a link which takes all the
-- traffic has no row that its clicks wait for. Readers sum. A partner's clicks in a program are those of its links.
create table link_clicks (
  program_id bigint not null,
  link_id bigint not null,
  slot smallint not null check (slot between 0 and 63),
  clicks bigint not null check (clicks > 0),
  last_clicked_at timestamptz not null,
  primary key (program_id, link_id, slot)
) with (fillfactor = 50);

create table customers (
  program_id bigint not null,
  id bigint generated always as identity,
  -- `cust_<unix milliseconds>_<20 random digits><program id>`: unique in the whole service because the program is part of it.
  click_id text not null check (click_id ~ '^cust_[0-9]{13}_[0-9]{21,40}$'),
  customer_key text check (length(customer_key) between 1 and 255),
  -- HMAC-SHA-256 of the normalised e-mail address. The address itself is kept nowhere.
  email_hash bytea check (length(email_hash) = 32),
  processor_customer_id text,
  link_id bigint not null,
  partner_id bigint not null,
  customer_status text not null default 'click' check (customer_status in ('click', 'lead', 'conversion')),
  last_click_at timestamptz not null,
  -- The first provisional lead; a settled one sets signup_date and lead_event_id.
  provisional_lead_at timestamptz,
  provisional_lead_event_id bigint,
  signup_date timestamptz,
  lead_event_id bigint,
  first_purchase_date timestamptz,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint customers_click_id_key unique (program_id, click_id),
  constraint customers_customer_key_key unique (program_id, customer_key),
  foreign key (program_id, link_id, partner_id) references referral_links (program_id, id, partner_id),
  check ((signup_date is null) = (lead_event_id is null)),
  check ((provisional_lead_at is null) = (provisional_lead_event_id is null)),
  check (customer_status <> 'lead' or signup_date is not null),
  check ((customer_status = 'conversion') = (first_purchase_date is not null))
);
create index customers_signup_idx on customers (program_id, signup_date) where signup_date is not null;
create index customers_first_purchase_idx on customers (program_id, first_purchase_date) where first_purchase_date is not null;
create index customers_email_idx on customers (program_id, email_hash) where email_hash is not null;
create index customers_processor_idx on customers (program_id, processor_customer_id) where processor_customer_id is not null;

-- Event tables: one partition a month, made ahead by a scheduled function; the default partition takes what no month has,
-- so no write fails for lack of one. The primary key is also the order in which they are read. Ids and times of clicks come
-- from the function, so that a click sent to the database twice is recorded once.
create table affiliate_click_events (
  program_id bigint not null,
  is_test boolean not null default false,
  click_timestamp timestamptz not null,
  id bigint not null check (id > 0),
  customer_id bigint,
  link_id bigint,
  session_id text,
  affiliate_url text,
  page_url text,
  page_title text,
  referrer_url text,
  user_agent text,
  screen_resolution text,
  viewport_size text,
  language text,
  timezone text,
  geo_country text,
  geo_region text,
  geo_city text,
  device_type text,
  device_os text,
  browser_name text,
  additional_data jsonb,
  created_at timestamptz not null default now(),
  primary key (program_id, is_test, click_timestamp, id),
  check (is_test or (customer_id is not null and link_id is not null))
) partition by range (click_timestamp);
create table affiliate_click_events_default partition of affiliate_click_events default;

create sequence affiliate_lead_events_id_seq;
create table affiliate_lead_events (
  program_id bigint not null,
  is_test boolean not null default false,
  lead_timestamp timestamptz not null default now(),
  id bigint not null default nextval('affiliate_lead_events_id_seq'),
  customer_id bigint,
  -- Null on a provisional lead, which does not save the integrator's user id.
  customer_key text,
  provisional boolean not null default false,
  session_id text,
  page_url text,
  additional_data jsonb,
  created_at timestamptz not null default now(),
  primary key (program_id, is_test, lead_timestamp, id),
  check (not provisional or customer_key is null),
  check (is_test or customer_id is not null)
) partition by range (lead_timestamp);
create table affiliate_lead_events_default partition of affiliate_lead_events default;

-- A sale is the sale event and the sale record in one row. It is not partitioned: its transaction id must stay unique for
-- ever, and a unique key of a partitioned table would hold within one month only.
create table sales (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  is_test boolean not null default false,
  transaction_id text not null check (length(transaction_id) between 1 and 255),
  -- Null: not attributed.
  customer_id bigint,
  partner_id bigint,
  customer_key text check (length(customer_key) between 1 and 255),
  sale_date timestamptz not null default now(),
  amount_cents amount_cents not null check (amount_cents > 0),
  -- What the commission is computed of: the amount, for processor sales without tax.
  commission_base_cents amount_cents not null check (commission_base_cents <= amount_cents),
  refunded_cents amount_cents not null default 0 check (refunded_cents <= amount_cents),
  currency currency_code not null,
  sale_type text not null default 'payment' check (length(sale_type) between 1 and 64),
  payment_status text not null default 'paid' check (length(payment_status) between 1 and 64),
  is_recurring boolean not null default false,
  subscription_id text check (length(subscription_id) between 1 and 255),
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
  foreign key (program_id, customer_id) references customers (program_id, id),
  check ((customer_id is null) = (partner_id is null))
);
create index sales_date_idx on sales (program_id, is_test, sale_date, id) where customer_id is not null;
create index sales_customer_idx on sales (program_id, customer_id) where customer_id is not null;
create index sales_payment_intent_idx on sales (program_id, processor_payment_intent_id) where processor_payment_intent_id is not null;
create index sales_charge_idx on sales (program_id, processor_charge_id) where processor_charge_id is not null;
create index sales_invoice_idx on sales (program_id, processor_invoice_id) where processor_invoice_id is not null;

-- One row for each refund or chargeback. `refund_key` is `id:<refund id>`, `amount:<cents>` where the caller gave none, or
-- `rest:<request id>`. `applied_cents` is what it moved after capping, `deduction_cents` the commission it reversed; a
-- refund put back (failed, or a dispute won) has `returned_at`.
create table refunds (
  program_id bigint not null,
  id bigint generated always as identity,
  sale_id bigint not null,
  refund_key text not null check (length(refund_key) between 1 and 300),
  requested_cents amount_cents,
  applied_cents amount_cents not null,
  deduction_cents amount_cents not null default 0,
  reason text not null default 'refund' check (reason in ('refund', 'chargeback')),
  reason_text text check (length(reason_text) <= 1000),
  returned_at timestamptz,
  request_id uuid,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint refunds_sale_key unique (program_id, sale_id, refund_key),
  foreign key (program_id, sale_id) references sales (program_id, id)
);

-- credited_at, paid_at, rejected_at and the reversal are the facts; the status follows from them.
create table commissions (
  program_id bigint not null,
  id bigint generated always as identity,
  kind text not null check (kind in ('sale', 'lead')),
  partner_id bigint not null,
  customer_id bigint not null,
  sale_id bigint,
  currency currency_code not null,
  amount_cents amount_cents not null check (amount_cents > 0),
  reversed_cents amount_cents not null default 0 check (reversed_cents <= amount_cents),
  reversal text not null default 'none' check (reversal in ('none', 'partial', 'full')),
  reason text check (length(reason) <= 1000),
  hold_until timestamptz not null,
  credited_at timestamptz,
  paid_at timestamptz,
  rejected_at timestamptz,
  status text not null generated always as (
    case
      when rejected_at is not null or reversal = 'full' then 'reversed'
      when reversal = 'partial' then 'refunded'
      when paid_at is not null then 'paid'
      when credited_at is not null then 'approved'
      else 'pending'
    end
  ) stored,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint commissions_sale_key unique (program_id, sale_id),
  foreign key (program_id, customer_id) references customers (program_id, id),
  foreign key (program_id, sale_id) references sales (program_id, id),
  foreign key (program_id, partner_id) references partner_programs (program_id, partner_id),
  unique (program_id, id, partner_id, currency),
  check ((kind = 'sale') = (sale_id is not null)),
  check (reversal <> 'none' or rejected_at is not null or reversed_cents = 0),
  check ((reversal <> 'full' and rejected_at is null) or reversed_cents = amount_cents),
  check (paid_at is null or credited_at is not null)
);
create unique index commissions_lead_key on commissions (program_id, customer_id) where kind = 'lead';
create index commissions_created_idx on commissions (program_id, created_at, id);
create index commissions_partner_idx on commissions (program_id, partner_id, id);
create index commissions_due_idx on commissions (hold_until, program_id, id)
  where credited_at is null and rejected_at is null and reversal <> 'full';

create table withdrawals (
  program_id bigint not null,
  id bigint generated always as identity,
  partner_id bigint not null,
  currency currency_code not null,
  requested_cents amount_cents not null check (requested_cents > 0),
  -- What it stands at; a reversal that leaves too little reduces it, to zero at the least.
  amount_cents amount_cents not null,
  status text not null default 'requested' check (status in ('requested', 'paid', 'refused', 'cancelled')),
  reason text check (length(reason) <= 1000),
  created_at timestamptz not null default now(),
  decided_at timestamptz,
  primary key (program_id, id),
  foreign key (program_id, partner_id) references partner_programs (program_id, partner_id),
  unique (program_id, id, partner_id, currency),
  check (amount_cents <= requested_cents),
  check ((amount_cents = 0) = (status = 'cancelled')),
  check ((status = 'requested') = (decided_at is null))
);
create index withdrawals_partner_idx on withdrawals (program_id, partner_id, currency, id);
create index withdrawals_open_idx on withdrawals (program_id, partner_id, currency, id) where status = 'requested';

-- The ledger of a partner's balance: numbered entries, each beginning where the one before it ended. The foreign key to the
-- entry before makes the last `balance_after_cents` the sum of all amounts; the balance row points at the last entry.
create table balance_entries (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  entry_number bigint not null check (entry_number > 0),
  amount_cents bigint not null check (amount_cents <> 0),
  balance_before_cents bigint not null,
  balance_after_cents bigint not null,
  cause text not null check (cause in ('commission_credited', 'commission_reversed', 'reversal_returned', 'withdrawal_paid')),
  commission_id bigint,
  refund_id bigint,
  withdrawal_id bigint,
  created_at timestamptz not null default now(),
  previous_entry_number bigint generated always as (nullif(entry_number - 1, 0)) stored,
  primary key (program_id, partner_id, currency, entry_number),
  unique (program_id, partner_id, currency, entry_number, balance_after_cents),
  constraint balance_entries_cause_key unique nulls not distinct (program_id, cause, commission_id, refund_id, withdrawal_id),
  foreign key (program_id, partner_id, currency, previous_entry_number, balance_before_cents)
    references balance_entries (program_id, partner_id, currency, entry_number, balance_after_cents),
  foreign key (program_id, partner_id) references partner_programs (program_id, partner_id),
  foreign key (program_id, commission_id, partner_id, currency) references commissions (program_id, id, partner_id, currency),
  foreign key (program_id, withdrawal_id, partner_id, currency) references withdrawals (program_id, id, partner_id, currency),
  foreign key (program_id, refund_id) references refunds (program_id, id),
  check (entry_number > 1 or balance_before_cents = 0),
  check (balance_before_cents + amount_cents = balance_after_cents),
  check (
    case cause
      when 'commission_credited' then amount_cents > 0 and commission_id is not null and refund_id is null and withdrawal_id is null
      when 'commission_reversed' then amount_cents < 0 and commission_id is not null and withdrawal_id is null
      when 'reversal_returned' then amount_cents > 0 and commission_id is not null and refund_id is not null and withdrawal_id is null
      else amount_cents < 0 and withdrawal_id is not null and commission_id is null and refund_id is null
    end
  )
);

create table balances (
  program_id bigint not null,
  partner_id bigint not null,
  currency currency_code not null,
  balance_cents bigint not null default 0,
  entry_count bigint not null default 0 check (entry_count >= 0),
  last_entry_number bigint generated always as (nullif(entry_count, 0)) stored,
  primary key (program_id, partner_id, currency),
  foreign key (program_id, partner_id) references partner_programs (program_id, partner_id),
  foreign key (program_id, partner_id, currency, last_entry_number, balance_cents)
    references balance_entries (program_id, partner_id, currency, entry_number, balance_after_cents),
  check (entry_count > 0 or balance_cents = 0)
);

create function refuse_ledger_change() returns trigger language plpgsql as $$
begin
  raise exception 'balance entries are append-only' using errcode = 'restrict_violation';
end $$;
create trigger balance_entries_append_only before update or delete on balance_entries
  for each row execute function refuse_ledger_change();

-- At commit an entry must be counted by its balance row: whoever writes one must move the other.
create function require_balance_of_entry() returns trigger language plpgsql as $$
begin
  if not exists (
    select from balances b
    where b.program_id = new.program_id and b.partner_id = new.partner_id and b.currency = new.currency
      and b.entry_count >= new.entry_number
  ) then
    raise exception 'a balance entry without its balance' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $$;
create constraint trigger balance_entries_have_balance after insert on balance_entries
  deferrable initially deferred for each row execute function require_balance_of_entry();

-- What is to be told, written in the transaction that made it true. The consumer copies a row to `notifications` and sets
-- delivered_at; the relay sends again whatever stays undelivered.
create table outbox (
  program_id bigint not null references programs (id),
  id bigint generated always as identity,
  kind text not null check (kind in (
    'commission_reversed', 'commission_refunded', 'withdrawal_reduced', 'paid_commission_reversed', 'dispute_reinstated'
  )),
  audience text not null check (audience in ('partner', 'advertiser')),
  partner_id bigint not null,
  -- What happened, once per kind and audience: the refund, rejection or reinstatement, and the thing it changed.
  cause text not null check (length(cause) between 1 and 200),
  payload jsonb not null,
  created_at timestamptz not null default now(),
  sent_at timestamptz,
  delivered_at timestamptz,
  primary key (program_id, id),
  constraint outbox_cause_key unique (program_id, kind, audience, cause),
  foreign key (program_id, partner_id) references partner_programs (program_id, partner_id)
);
create index outbox_undelivered_idx on outbox (created_at, program_id, id) where delivered_at is null;

create table notifications (
  program_id bigint not null,
  -- The outbox row's id: a message delivered twice finds its notification here.
  id bigint not null,
  kind text not null,
  audience text not null check (audience in ('partner', 'advertiser')),
  partner_id bigint not null,
  payload jsonb not null,
  created_at timestamptz not null,
  primary key (program_id, id),
  foreign key (program_id, id) references outbox (program_id, id)
);
create index notifications_partner_idx on notifications (partner_id, created_at desc) where audience = 'partner';
create index notifications_program_idx on notifications (program_id, created_at desc) where audience = 'advertiser';

create table notification_reads (
  program_id bigint not null,
  notification_id bigint not null,
  user_id text not null references users (id) on delete cascade,
  read_at timestamptz not null default now(),
  primary key (program_id, notification_id, user_id),
  foreign key (program_id, notification_id) references notifications (program_id, id)
);

-- Webhook events of the payment processor and what became of each.
create table processor_events (
  account_id text not null,
  event_id text not null,
  event_type text not null,
  program_id bigint references programs (id),
  livemode boolean not null,
  outcome text not null check (outcome in ('recorded', 'duplicate', 'ignored', 'parked')),
  reason text,
  received_at timestamptz not null default now(),
  primary key (account_id, event_id)
);
create index processor_events_program_idx on processor_events (program_id, received_at desc);

-- Totals of whole days, kept by the writes. Like link_clicks they are spread over slots; a scheduled function folds the
-- slots of past days into one.
create table daily_totals (
  program_id bigint not null,
  day date not null,
  slot smallint not null check (slot between 0 and 63),
  clicks bigint not null default 0 check (clicks >= 0),
  leads bigint not null default 0 check (leads >= 0),
  conversions bigint not null default 0 check (conversions >= 0),
  primary key (program_id, day, slot)
) with (fillfactor = 50);

-- A refund takes its commission from the day the commission was made, through whichever slot it writes: the sum over a
-- day's slots is what cannot be negative, a single slot can.
create table daily_money (
  program_id bigint not null,
  day date not null,
  currency currency_code not null,
  slot smallint not null check (slot between 0 and 63),
  sales bigint not null default 0 check (sales >= 0),
  revenue_cents bigint not null default 0 check (revenue_cents >= 0),
  commission_cents bigint not null default 0,
  primary key (program_id, day, currency, slot)
) with (fillfactor = 50);

-- The slot a backend counts in. Connections are opened one after the other, so neighbours get different slots.
create function counter_slot() returns smallint language sql volatile as $$ select (pg_backend_pid() & 63)::smallint $$;

create function utc_day(at timestamptz) returns date language sql immutable as $$ select (at at time zone 'UTC')::date $$;

-- Makes the partitions of this month and of the months ahead, and returns their names. Rows that the default partition took
-- for such a month move to it.
create function make_event_partitions(months_ahead integer) returns setof text language plpgsql as $$
declare
  parent text;
  month date;
  partition text;
  key text;
begin
  perform pg_advisory_xact_lock(hashtext('make_event_partitions'));
  foreach parent in array array['affiliate_click_events', 'affiliate_lead_events'] loop
    key := case parent when 'affiliate_click_events' then 'click_timestamp' else 'lead_timestamp' end;
    for month in
      select m::date from generate_series(
        date_trunc('month', now() at time zone 'UTC'),
        date_trunc('month', now() at time zone 'UTC') + make_interval(months => months_ahead),
        interval '1 month'
      ) m
    loop
      partition := parent || '_' || to_char(month, 'YYYY_MM');
      continue when to_regclass(partition) is not null;
      execute format('create table %I (like %I including defaults including constraints)', partition, parent);
      execute format('lock table %I in access exclusive mode', parent || '_default');
      execute format(
        'with moved as (delete from %1$I where %2$I >= %3$L and %2$I < %4$L returning *) insert into %5$I select * from moved',
        parent || '_default', key, month::text || ' 00:00+00', (month + interval '1 month')::date::text || ' 00:00+00', partition);
      execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, partition,
        month::text || ' 00:00+00', (month + interval '1 month')::date::text || ' 00:00+00');
      return next partition;
    end loop;
  end loop;
end $$;

select make_event_partitions(3);
