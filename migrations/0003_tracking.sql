-- Customers and the events by which they came: what every click and lead writes. Postgres reads and compiles each CHECK of a table
-- anew in every statement that writes it, so the rules of a column stand in domains and those of a row in a trigger
-- (functions/customers.sql), which are prepared once a connection.

-- No foreign key leads to referral_links: its check locked the link's row in every click, a third of the database's time for one.
-- track_click and add_second_customer take link and partner from a link's row or from another customer, links are never
-- deleted, and the audit looks for others.
create table customers (
  program_id bigint not null,
  id bigint generated always as identity,
  -- `cust_<unix milliseconds>_<20 random digits><program id>`: unique in the whole service because the program is part of it.
  click_id text not null,
  customer_key text,
  -- HMAC-SHA-256 of the normalised e-mail address. The address itself is kept nowhere.
  email_hash bytea,
  -- The same of the mailbox that the address reaches, where that is written otherwise. It is compared with the partner's, and finds nobody.
  mailbox_hash bytea,
  -- When a browser left the key, or the e-mail address, here; null where a server said it, which outranks a browser.
  key_unverified_since timestamptz,
  email_unverified_since timestamptz,
  -- Null where a code brought them.
  link_id bigint,
  partner_id bigint not null,
  -- The code that decided over their first purchase: later ones that name none go by it too. No foreign key, as above.
  code_id bigint,
  -- Follows from the dates below: click, lead or conversion.
  customer_status text not null default 'click',
  -- Null where they never clicked.
  last_click_at timestamptz,
  -- The first provisional lead; a settled one sets signup_date and lead_event_id.
  provisional_lead_at timestamptz,
  provisional_lead_event_id bigint,
  signup_date timestamptz,
  lead_event_id bigint,
  first_purchase_date timestamptz,
  created_at timestamptz not null default now(),
  primary key (program_id, id),
  constraint customers_click_id_key unique (program_id, click_id)
);
-- Most customers have no key yet: they need no entry here.
create unique index customers_customer_key_key on customers (program_id, customer_key) where customer_key is not null;
create index customers_signup_idx on customers (program_id, signup_date) where signup_date is not null;
create index customers_first_purchase_idx on customers (program_id, first_purchase_date) where first_purchase_date is not null;
-- The leads and buyers of a partner.
create index customers_partner_idx on customers (program_id, partner_id, id)
  where customer_status <> 'click' or provisional_lead_at is not null;
-- That a link has one partner, so that those with many customers are not taken for ones with few.
create statistics customers_link_statistics (dependencies) on link_id, partner_id from customers;
create index customers_email_idx on customers (program_id, email_hash) where email_hash is not null;

-- Event tables: one partition a month, made ahead by make_event_partitions; the default partition takes what no month has,
-- so no write fails for lack of one. The primary key is also the order in which they are read. Ids and times of clicks come
-- from the function, so that a click sent to the database twice is recorded once; they are above 0. track_click gives each real event
-- its customer and link, and the audit looks for others. Months of clicks go when their term is over, those of leads stay.
create table affiliate_click_events (
  program_id bigint not null,
  is_test boolean not null default false,
  click_timestamp timestamptz not null,
  id bigint not null,
  customer_id bigint,
  -- The customer's, which is listed once they are gone.
  click_id text,
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
  -- What the link named of `utm_*` and `sub1` to `sub3`; null where it named none.
  campaign jsonb,
  -- The visitor's address as a keyed hash that is another each month, by which many signups from one are seen; the address is kept nowhere.
  visitor bigint,
  created_at timestamptz not null default now(),
  primary key (program_id, is_test, click_timestamp, id)
) partition by range (click_timestamp);
create table affiliate_click_events_default partition of affiliate_click_events default;
-- In which pages a customer's clicks may be, half a byte for each click. Postgres adds pages as they have filled, so that most clicks write nothing to it. Not more
-- pages than 8: a click into pages that are added already rewrites their filter, which above half a kilobyte is compressed anew each time.
create index affiliate_click_events_customer_idx on affiliate_click_events
  using brin (customer_id int8_bloom_ops (n_distinct_per_range = -0.15), click_timestamp) with (pages_per_range = 8, autosummarize = on);

-- How many test events a program took on its latest day with one from somebody without its key; count_public_test_event bounds it.
create table public_test_events (
  program_id bigint primary key references programs (id) on delete cascade,
  day date not null,
  events integer not null check (events between 1 and 1000)
);

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
create index affiliate_lead_events_customer_idx on affiliate_lead_events (program_id, customer_id) where customer_id is not null;
create table affiliate_lead_events_default partition of affiliate_lead_events default;

create domain click_count as bigint check (value > 0);
create domain event_count as bigint check (value >= 0);

-- A link's clicks; a partner's clicks in a program are those of its links. A click leaves a short row in uncounted_clicks where it
-- would raise this counter and its program's of the hour: an insert costs a sixth of the two updates, and nobody waits for it. Every
-- minute a scheduled function moves the rows into the counters (countClicks in lib/tracking/clicks.ts); who reads these adds what is
-- still there, in the same statement.
create table link_clicks (
  program_id bigint not null,
  link_id bigint not null,
  clicks event_count not null,
  -- Those whose user agent says it is a bot: they count here and in nothing else.
  bot_clicks event_count not null default 0,
  -- Null where only bots clicked.
  last_clicked_at timestamptz,
  primary key (program_id, link_id)
) with (fillfactor = 50);

-- The same by the month (UTC) of the click, so that a month's events can be dropped unread; `-infinity` is the sum of the months that were.
create table link_months (
  program_id bigint not null,
  link_id bigint not null,
  month date not null,
  clicks click_count not null,
  last_clicked_at timestamptz not null,
  primary key (program_id, link_id, month)
) with (fillfactor = 50);

-- From when on click events are there. No row: no month was dropped yet.
create table clicks_kept (
  is_only boolean primary key default true check (is_only),
  since timestamptz not null
);

-- Up to when a program's click events were looked through for customers whose window is over (functions/retention.sql).
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

create view link_click_counts as
select program_id, link_id, sum(clicks) as clicks, sum(bot_clicks) as bot_clicks, max(last_clicked_at) as last_clicked_at
from (
  select program_id, link_id, clicks, bot_clicks, last_clicked_at from link_clicks
  union all
  select program_id, link_id, (not is_bot)::integer, is_bot::integer, case when not is_bot then clicked_at end from uncounted_clicks
) clicked
group by program_id, link_id;
