-- Totals of days and hours, kept by the writes. What a call counts in is a row of one hour: its slot is 64 times the hour's number, 1 to
-- 24, and one of 0 to 63 (counter_slot in functions/counters.sql), so that a call writes one short row that few others wait for. Once an
-- hour is over, a scheduled function folds its slots into slot 0, the day's only row that has figures by hour: 24 each.

-- An earlier sale that is told later moves the customer's first purchase to its own day, through whichever slot it writes: the
-- sum of conversions over a day's slots is what cannot be negative, a single slot can.
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

-- A refund takes its commission from the hour the commission was made in, and a correction of a sale takes its revenue from the sale's, as
-- above. A refund counts in the hour of its sale, so that of any range's revenue this much was refunded; one that is put back is taken off
-- there.
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

-- The slots that wait to be folded, found without reading the folded ones. An update of a counter touches neither column, so
-- it stays a heap-only update.
create index daily_totals_unfolded_idx on daily_totals (day) where slot > 0;
create index daily_money_unfolded_idx on daily_money (day) where slot > 0;
