-- The slots that wait to be folded, found without reading the folded ones. An update of a counter touches neither column, so
-- it stays a heap-only update.
create index daily_totals_unfolded_idx on daily_totals (day) where slot > 0;
create index daily_money_unfolded_idx on daily_money (day) where slot > 0;
