-- Customers and their click and lead events: the tables that every click and lead writes. Postgres compiles each CHECK of a table again
-- in every statement that writes the table. So domains contain the rules of a column, and a trigger contains the rules of a row
-- (functions/4_attribution/customers.sql). Postgres prepares both once per connection.

-- There is no foreign key to referral_links, because its check locked the link's row in every click. That took a third of the click's
-- database time. track_click and add_second_customer copy the link and the partner from a link or from another customer. Links are never
-- deleted, and the audit looks for customers without one.
create table customers (
  program_id bigint not null,
  id bigint generated always as identity,
  -- `cust_<unix milliseconds>_<20 random digits><program id>`. It is unique in the whole service because the program is part of it.
  click_id text not null,
  customer_key text,
  -- HMAC-SHA-256 of the normalized e-mail address. The address itself is never stored.
  email_hash bytea,
  -- The same hash of the mailbox, if the address spells it differently. It is only compared with the partner, and never used to find a
  -- customer.
  mailbox_hash bytea,
  -- When a browser sent the key or the e-mail address. Null if a server sent it, because a server outranks a browser.
  key_unverified_since timestamptz,
  email_unverified_since timestamptz,
  -- Null if a code referred them, or if they were imported without a link.
  link_id bigint,
  partner_id bigint not null,
  -- The code that decided their first purchase. It also decides later purchases without a code. There is no foreign key, for the same
  -- reason.
  code_id bigint,
  -- Click, lead or conversion, depending on the dates below.
  customer_status text not null default 'click',
  -- Null if they never clicked.
  last_click_at timestamptz,
  -- The first provisional lead. A settled lead sets signup_date and lead_event_id.
  provisional_lead_at timestamptz,
  provisional_lead_event_id bigint,
  signup_date timestamptz,
  lead_event_id bigint,
  first_purchase_date timestamptz,
  -- When an import created the customer. A lead and a first purchase before that belong to the former service, and no figure counts them.
  imported_at timestamptz,
  created_at timestamptz not null default now(),
  -- A further click does not count as a change, so it doesn't need a new index entry (functions/1_base/changes.sql).
  updated_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint customers_click_id_key unique (program_id, click_id)
);
-- Most customers have no key yet, so they aren't in this index.
create unique index customers_customer_key_key on customers (program_id, customer_key) where customer_key is not null;
create index customers_signup_idx on customers (program_id, signup_date) where signup_date is not null;
create index customers_first_purchase_idx on customers (program_id, first_purchase_date) where first_purchase_date is not null;
-- Finds the leads and buyers of a partner.
create index customers_partner_idx on customers (program_id, partner_id, id)
  where customer_status <> 'click' or provisional_lead_at is not null;
-- Finds the leads and buyers that changed since a given time.
create index customers_updated_idx on customers (program_id, updated_at)
  where customer_status <> 'click' or provisional_lead_at is not null;
-- Lets the planner estimate partners with many customers correctly, because a link has only one partner.
create statistics customers_link_statistics (dependencies) on link_id, partner_id from customers;
create index customers_email_idx on customers (program_id, email_hash) where email_hash is not null;

-- Event tables: one partition per month, created ahead by make_event_partitions. The default partition takes all other rows, so no write
-- fails because a partition is missing. Readers use the order of the primary key. The Worker generates ids and times of clicks, so that a
-- repeated statement records a click only once. Ids are above 0. track_click gives each real event its customer and link, and the audit
-- looks for others. Months of clicks are dropped after their retention period, but leads stay. Readers use the view `click_events`,
-- because the rows of past months are shorter: texts that several visitors share are in `click_parts` (functions/upkeep/rewriting.sql).
-- Columns of a fixed size come first, so that no row needs padding.
create table affiliate_click_events (
  program_id bigint not null,
  click_timestamp timestamptz not null,
  id bigint not null,
  customer_id bigint,
  link_id bigint,
  -- A keyed hash of the visitor's address that changes each month. It shows many signups from one address. The address itself is never
  -- stored.
  visitor bigint,
  -- Null in past months if it is less than a second after the click.
  created_at timestamptz default now(),
  -- The random part of the click id in past months, minus 2^63, and its milliseconds if they differ from the click's.
  click_random bigint,
  click_ms bigint,
  -- Texts of past months in `click_parts`.
  landing_part integer,
  page_part integer,
  browser_part integer,
  place_part integer,
  referrer_part integer,
  is_test boolean not null default false,
  -- The customer's click id. Lists show it after the customer is deleted.
  click_id text,
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
  -- The link's `utm_*` and `sub1` to `sub3` parameters. Null if it has none.
  campaign jsonb,
  primary key (program_id, is_test, click_timestamp, id)
) partition by range (click_timestamp);
create table affiliate_click_events_default partition of affiliate_click_events default;
-- Shows which pages contain a customer's clicks, with half a byte per click. Postgres indexes pages after they are full, so most clicks
-- don't write to this index. A click into a summarized range rewrites its filter, and Postgres compresses filters above half a kilobyte
-- each time. So a range has only 8 pages.
create index affiliate_click_events_customer_idx on affiliate_click_events
  using brin (customer_id int8_bloom_ops (n_distinct_per_range = -0.15), click_timestamp) with (pages_per_range = 8, autosummarize = on);

-- Texts that at least three visitors share in a past month of clicks: an address with its campaign, a page, a browser, a place, or a
-- referrer. A month's
-- parts are deleted with its clicks.
create table click_parts (
  program_id bigint not null,
  id integer generated always as identity,
  month date not null,
  hash uuid not null,
  part jsonb not null,
  primary key (program_id, id),
  unique (program_id, month, hash)
);

-- Past months of clicks whose rows are being rewritten or were rewritten, with the key of the last copied row. Copies are in the schema
-- `rewriting` until they are complete, so that no backup contains them.
create schema rewriting;
create table rewritten_months (
  month date primary key,
  program_id bigint not null default 0,
  is_test boolean not null default false,
  click_timestamp timestamptz not null default '-infinity',
  id bigint not null default 0,
  rewritten_at timestamptz,
  -- The latest erasure of one of the month's clicks. After that, the archive writes the month again (lib/commands/archive.ts).
  changed_at timestamptz
);

-- The number of keyless test events on the latest day with such events, for a program (network 0) and for each network there.
-- count_public_test_event limits both.
create table public_test_events (
  program_id bigint not null references programs (id) on delete cascade,
  -- A keyed hash of the visitors' network.
  network bigint not null,
  day date not null,
  events integer not null check (events between 1 and 1000),
  primary key (program_id, network)
);

create sequence affiliate_lead_events_id_seq;
create table affiliate_lead_events (
  program_id bigint not null,
  is_test boolean not null default false,
  lead_timestamp timestamptz not null default now(),
  id bigint not null default nextval('affiliate_lead_events_id_seq'),
  customer_id bigint,
  -- Null for provisional leads, which don't store the integrator's user id.
  customer_key text,
  provisional boolean not null default false,
  -- The reason why a test lead turns its customer's sales into tests: `key` if a server sent it, `test_link` if its click used the test link.
  test_source text check (test_source in ('key', 'test_link')),
  session_id text,
  page_url text,
  additional_data jsonb,
  created_at timestamptz not null default now(),
  primary key (program_id, is_test, lead_timestamp, id),
  check (not provisional or customer_key is null),
  check (is_test or customer_id is not null)
) partition by range (lead_timestamp);
create index affiliate_lead_events_customer_idx on affiliate_lead_events (program_id, customer_id) where customer_id is not null;
create table affiliate_lead_events_default partition of affiliate_lead_events default;

create domain click_count as bigint check (value > 0);
create domain event_count as bigint check (value >= 0);

-- A link's clicks. A partner's clicks in a program are the sum over their links. A click adds a short row to uncounted_clicks instead of
-- increasing two counters: the insert costs a sixth of the two updates, and nobody waits for a lock. Every minute a scheduled function
-- moves the rows into the counters (countClicks in lib/tracking/clicks.ts). Readers add the remaining rows in the same statement.
create table link_clicks (
  program_id bigint not null,
  link_id bigint not null,
  clicks event_count not null,
  -- Clicks by bots, which are recognized by their user agent. No other figure counts these clicks.
  bot_clicks event_count not null default 0,
  -- Null if only bots clicked.
  last_clicked_at timestamptz,
  primary key (program_id, link_id)
) with (fillfactor = 50);

-- The same counts by the month (UTC) of the click, so that a month's events can be dropped without reading them. `-infinity` holds the sum
-- of the dropped months.
create table link_months (
  program_id bigint not null,
  link_id bigint not null,
  month date not null,
  clicks click_count not null,
  last_clicked_at timestamptz not null,
  primary key (program_id, link_id, month)
) with (fillfactor = 50);

-- The start of the stored click events. It has no row if no month has been dropped yet.
create table clicks_kept (
  is_only boolean primary key default true check (is_only),
  since timestamptz not null
);

-- The time up to which the program's click events have been searched for customers whose window has ended (functions/upkeep/retention.sql).
create table customers_expired (
  program_id bigint primary key references programs (id) on delete cascade,
  up_to timestamptz not null
);

create table uncounted_clicks (
  program_id bigint not null,
  link_id bigint not null,
  clicked_at timestamptz not null,
  event_id bigint not null,
  is_bot boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index uncounted_clicks_link_idx on uncounted_clicks (program_id, link_id);
