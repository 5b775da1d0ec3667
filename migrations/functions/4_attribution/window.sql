-- The attribution window: how long a click leads to its partner.

-- The moment after which a click counts for what happens at `at`.
create or replace function window_start(at timestamptz, cookie_window_days integer) returns timestamptz language sql stable
return at - make_interval(days => cookie_window_days);

-- Whether something existed at `at`. The minute allows for clocks that differ and for the processor's whole seconds.
create or replace function existed_at(created_at timestamptz, at timestamptz) returns boolean language sql immutable
return created_at <= at + interval '1 minute';

-- Whether a customer had clicked when a buyer set out to buy.
create or replace function had_clicked(customer customers, at timestamptz) returns boolean language sql immutable
return existed_at(least((customer).created_at, (customer).last_click_at), at);
