-- An earlier sale that is told later moves the customer's first purchase to its own day, through whichever slot it writes: the
-- sum over a day's slots is what cannot be negative.
alter table daily_totals drop constraint daily_totals_check;
alter table daily_totals add constraint daily_totals_check check (least(clicks, leads) >= 0);
