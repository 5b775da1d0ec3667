-- Daily and hourly totals. The tracking calls themselves write them. Each call increments a row for one hour. The row's slot is 64 times
-- the hour's number (1 to 24) plus 0 to 63 (`counter_slot` in functions/1_base/counters.sql), so a call writes one short row and rarely
-- waits. After the hour ends, a scheduled function merges its slots into slot 0, the only row of the day with 24 hourly figures.

-- A late report of an earlier sale moves the customer's first purchase to that sale's day, in any slot. So a single slot can be negative,
-- but not the sum of a day's slots.
create table daily_totals (
  program_id bigint not null,
  day date not null,
  slot smallint not null,
  clicks event_count not null default 0,
  leads event_count not null default 0,
  conversions bigint not null default 0,
  clicks_by_hour bigint[],
  leads_by_hour bigint[],
  conversions_by_hour bigint[],
  primary key (program_id, day, slot)
) with (fillfactor = 50);

-- A refund subtracts its commission in the hour of the commission, and a correction subtracts its revenue in the hour
-- of the sale. A refund counts in the hour of its sale, so that it never exceeds the revenue of any range. A returned
-- refund is subtracted there.
create table daily_money (
  program_id bigint not null,
  day date not null,
  currency currency_code not null,
  slot smallint not null,
  sales bigint not null default 0,
  revenue_cents bigint not null default 0,
  commission_cents bigint not null default 0,
  refunded_cents bigint not null default 0,
  sales_by_hour bigint[],
  revenue_cents_by_hour bigint[],
  commission_cents_by_hour bigint[],
  refunded_cents_by_hour bigint[],
  primary key (program_id, day, currency, slot)
) with (fillfactor = 50);

-- Finds the slots to fold without reading the folded ones. Counter updates change neither column, so they stay heap-only.
create index daily_totals_unfolded_idx on daily_totals (day) where slot > 0;
create index daily_money_unfolded_idx on daily_money (day) where slot > 0;

-- Totals by the values of clicks: link, country, device, referring site, campaign. Calls never write them. A scheduled count does
-- (functions/reads/counting.sql), from `uncounted_clicks` and `uncounted_figures`. `all` stands for the whole program. A click without a
-- value of a grouping counts only for `all`. So readers subtract to find the events without a value.
create type grouping_name as enum (
  'all', 'partner', 'link', 'code', 'country', 'device', 'browser', 'referrer', 'page',
  'utm_source', 'utm_medium', 'utm_campaign', 'utm_term', 'utm_content', 'sub1', 'sub2', 'sub3'
);
create type grouped_metric as enum ('clicks', 'bot_clicks', 'leads', 'conversions', 'sales', 'revenue', 'commission', 'refunded');

create type total_span as enum ('day', 'month');

-- One value in a day or a month (UTC). With a month's row, reads of long ranges skip the rows of its days. Clicks, leads and conversions
-- are in the row without a currency. Sales and money are in a row for each currency, so that a read of money skips the clicks in the index.
-- In each grouping after `device`, the first 200 values of a day have their own rows, and one address adds at most ten in each count. A row
-- with an empty value contains all other values. A correction can result in a negative figure.
create table grouped_totals (
  program_id bigint not null,
  grouping_name grouping_name not null,
  span total_span not null,
  -- The first day.
  starts date not null,
  value text not null,
  currency text not null,
  clicks bigint not null,
  bot_clicks bigint not null,
  leads bigint not null,
  conversions bigint not null,
  sales bigint not null,
  revenue_cents bigint not null,
  commission_cents bigint not null,
  refunded_cents bigint not null,
  primary key (program_id, grouping_name, span, starts, value, currency)
) with (fillfactor = 70);

-- The months of one partner, link or code, for the figures in lists.
create index grouped_totals_partner_idx on grouped_totals (program_id, value) where grouping_name = 'partner' and span = 'month';
create index grouped_totals_link_idx on grouped_totals (program_id, value) where grouping_name = 'link' and span = 'month';
create index grouped_totals_code_idx on grouped_totals (program_id, value) where grouping_name = 'code' and span = 'month';

-- The days of each metric by quarter-hours, for ranges that begin or end within a day. A quarter is the smallest step between time zones.
-- `quarters` are the numbers (0 to 95, ascending) of quarters with changes, and `sums` are the running totals at their ends.
create table grouped_quarters (
  program_id bigint not null,
  grouping_name grouping_name not null,
  metric grouped_metric not null,
  -- Empty if the metric is a count.
  currency text not null,
  day date not null,
  value text not null,
  quarters smallint[] not null,
  sums bigint[] not null,
  primary key (program_id, grouping_name, metric, currency, day, value)
) with (fillfactor = 70);

-- A change to the totals.
create type grouped_figure as (
  program_id bigint, grouping_name grouping_name, metric grouped_metric, currency text, day date, value text, quarter smallint, amount bigint
);

-- Changes by leads, sales, refunds and corrections that the grouped totals don't contain yet. `clicked_at` is the
-- customer's latest click at that moment.
create table uncounted_figures (
  program_id bigint not null,
  customer_id bigint not null,
  partner_id bigint not null,
  -- Null without a code and for clicks.
  code_id bigint,
  clicked_at timestamptz,
  at timestamptz not null,
  -- Null without money.
  currency currency_code,
  leads bigint not null default 0,
  conversions bigint not null default 0,
  sales bigint not null default 0,
  revenue_cents bigint not null default 0,
  commission_cents bigint not null default 0,
  refunded_cents bigint not null default 0
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- The click values of each counted customer, by grouping. They are written with the first counted lead or sale, so that later ones
-- count for the same values even after the click is deleted.
create table customer_origins (
  program_id bigint not null,
  customer_id bigint not null,
  origin jsonb not null,
  primary key (program_id, customer_id),
  foreign key (program_id, customer_id) references customers (program_id, id) on delete cascade
);
-- Lets the planner estimate how many leads and sales have a country, so that it reads a list of them by time.
create statistics customer_origins_country on (origin->>'country') from customer_origins;
