-- The attribution window: how long a click attributes sales to its partner.

-- Returns the time after which a click counts for an event at `at`. Each day counts as 24 hours, because days in the session's time zone
-- may be longer or shorter.
create or replace function window_start(at timestamptz, cookie_window_days integer) returns timestamptz language sql stable
return at - make_interval(hours => 24 * cookie_window_days);

-- Returns whether something existed at `at`. The extra minute allows for clock differences, and for processors that round to whole seconds.
create or replace function existed_at(created_at timestamptz, at timestamptz) returns boolean language sql immutable
return created_at <= at + interval '1 minute';

-- Returns whether a customer had clicked before a buyer started the purchase.
create or replace function had_clicked(customer customers, at timestamptz) returns boolean language sql immutable
return existed_at(least((customer).created_at, (customer).last_click_at), at);
