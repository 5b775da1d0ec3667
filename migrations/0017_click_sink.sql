-- The changes that ClickHouse doesn't have yet, for lib/tracking/click-sink.ts. Without ClickHouse, `click_sink` has no row, and nothing
-- writes these tables.

create table click_sink (
  is_only boolean primary key default true check (is_only),
  -- The number of the latest batch that was read, and of the latest one that arrived. A batch's number is the version of its rows.
  taken bigint not null default 0,
  sent bigint not null default 0,
  -- The position of the copy of earlier clicks, by program, time and id. Null after all of them are in `unsent_clicks`.
  copied_program_id bigint default 0,
  copied_until timestamptz not null default '-infinity',
  copied_id bigint not null default 0,
  -- The position of the copy of earlier totals, in the order of their key. Null after all of them are in `unsent_counts`.
  counted_program_id bigint default 0,
  counted_name grouping_name not null default 'all',
  counted_metric grouped_metric not null default 'clicks',
  counted_day date not null default '-infinity',
  counted_value text not null default '',
  -- Whether ClickHouse has everything up to the latest batch. Reads use Postgres until then.
  is_complete boolean not null default false,
  -- ClickHouse has all clicks before this time.
  up_to timestamptz not null default 'epoch',
  -- ClickHouse has deleted the clicks before this time.
  dropped_before timestamptz not null default '-infinity'
);

-- New and erased clicks. A batch reads their current rows, so a click may be listed twice.
create table unsent_clicks (
  id bigint generated always as identity,
  program_id bigint not null,
  clicked_at timestamptz not null,
  event_id bigint not null,
  is_erased boolean not null default false
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index unsent_clicks_idx on unsent_clicks (id);
create index unsent_clicks_program_idx on unsent_clicks (program_id);

-- Changed rows of `grouped_quarters` with clicks.
create table unsent_counts (
  id bigint generated always as identity,
  program_id bigint not null,
  grouping_name grouping_name not null,
  metric grouped_metric not null,
  day date not null,
  value text not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
create index unsent_counts_idx on unsent_counts (id);
