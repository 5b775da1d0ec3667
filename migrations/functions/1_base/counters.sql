create or replace function utc_day(at timestamptz) returns date language sql immutable as $$ select (at at time zone 'UTC')::date $$;

-- The moment at which a UTC day begins.
create or replace function day_start(day date) returns timestamptz language sql immutable as $$ select day::timestamp at time zone 'UTC' $$;

-- Reads a time from stored JSON. Returns null for any other text, which the row of an imported archive can contain.
create or replace function time_or_null(stored text) returns timestamptz language sql stable
return case when pg_input_is_valid(stored, 'timestamptz') then stored::timestamptz end;

-- The first day of the UTC month.
create or replace function month_of(at timestamptz) returns date language sql immutable
as $$ select date_trunc('month', at at time zone 'UTC')::date $$;

-- The number of the UTC hour, 1 to 24. It is the index into the hourly figures.
create or replace function hour_of_day(at timestamptz) returns integer language sql immutable
as $$ select extract(hour from at at time zone 'UTC')::integer + 1 $$;

-- The slot in which this backend counts an event from the time `at`. Backends that connect one after the other get
-- different slots. The first of an hour's 64 slots counts clicks, because `count_clicks` locks many rows at once and
-- could deadlock with a call that holds two. The other slots count leads and conversions.
create or replace function counter_slot(at timestamptz) returns smallint language sql stable
as $$ select (64 * hour_of_day(at) + 1 + pg_backend_pid() % 63)::smallint $$;

create or replace function add_hours(a bigint[], b bigint[]) returns bigint[] language sql immutable
as $$ select array(select coalesce(x, 0) + coalesce(y, 0) from unnest(a, b) as hour (x, y)) $$;

-- Adds leads and conversions to the totals of the hour and day of `at`.
create or replace function add_customers(of_program_id bigint, at timestamptz, more_leads bigint, more_conversions bigint) returns void
language plpgsql as $$
declare
  of_day constant date := utc_day(at);
  of_slot constant smallint := counter_slot(at);
begin
  -- The row almost always exists, so the cheaper update runs first.
  update daily_totals t set leads = t.leads + more_leads, conversions = t.conversions + more_conversions
  where t.program_id = of_program_id and t.day = of_day and t.slot = of_slot;
  if found then
    return;
  end if;
  insert into daily_totals as counted (program_id, day, slot, leads, conversions)
  values (of_program_id, of_day, of_slot, more_leads, more_conversions)
  on conflict on constraint daily_totals_pkey do update set
    leads = counted.leads + excluded.leads,
    conversions = counted.conversions + excluded.conversions;
end $$;

-- Adds leads and conversions to the totals of the hour and day of `at`, and a row for the totals by the values of the customer's click. A
-- conversion belongs to the partner whose code decided the sale.
create or replace function count_customers(
  of_program_id bigint, of_customer_id bigint, at timestamptz, more_leads bigint, more_conversions bigint
) returns void language plpgsql as $$
begin
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, leads, conversions)
  select c.program_id, c.id, case when more_conversions <> 0 and c.code_id is not null then (
      select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = c.code_id
    ) else c.partner_id end, case when more_conversions <> 0 then c.code_id end, c.last_click_at, count_customers.at, more_leads, more_conversions
  from customers c
  where c.program_id = of_program_id and c.id = of_customer_id;
  perform add_customers(of_program_id, at, more_leads, more_conversions);
end $$;

-- Adds money to the totals of its hour and day, and a row for the totals by the values of the click. The row also
-- contains the conversion or lead of the same moment, which the caller adds to the hour.
create or replace function count_money(
  of_program_id bigint, of_customer_id bigint, of_partner_id bigint, at timestamptz, of_currency text, more_sales bigint,
  more_revenue_cents bigint, more_commission_cents bigint, more_refunded_cents bigint default 0, more_conversions bigint default 0,
  more_leads bigint default 0, of_code_id bigint default null
) returns void language plpgsql as $$
declare
  of_day constant date := utc_day(at);
  of_slot constant smallint := counter_slot(at);
begin
  insert into uncounted_figures (program_id, customer_id, partner_id, code_id, clicked_at, at, currency, leads, conversions, sales,
    revenue_cents, commission_cents, refunded_cents)
  select c.program_id, c.id, of_partner_id, of_code_id, c.last_click_at, count_money.at, of_currency, more_leads, more_conversions, more_sales,
    more_revenue_cents, more_commission_cents, more_refunded_cents
  from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  update daily_money m set sales = m.sales + more_sales, revenue_cents = m.revenue_cents + more_revenue_cents,
    commission_cents = m.commission_cents + more_commission_cents, refunded_cents = m.refunded_cents + more_refunded_cents
  where m.program_id = of_program_id and m.day = of_day and m.currency = of_currency and m.slot = of_slot;
  if found then
    return;
  end if;
  insert into daily_money as counted (program_id, day, currency, slot, sales, revenue_cents, commission_cents, refunded_cents)
  values (of_program_id, of_day, of_currency, of_slot, more_sales, more_revenue_cents, more_commission_cents, more_refunded_cents)
  on conflict on constraint daily_money_pkey do update set
    sales = counted.sales + excluded.sales,
    revenue_cents = counted.revenue_cents + excluded.revenue_cents,
    commission_cents = counted.commission_cents + excluded.commission_cents,
    refunded_cents = counted.refunded_cents + excluded.refunded_cents;
end $$;

-- Counts a test event of a network for a program. Returns whether the network may send more events today.
create or replace function count_test_event(of_program_id bigint, of_network bigint, most integer) returns boolean language plpgsql as $$
begin
  insert into public_test_events as counted (program_id, network, day, events) values (of_program_id, of_network, utc_day(now()), 1)
  on conflict (program_id, network) do update set
    day = excluded.day,
    events = case when counted.day = excluded.day then counted.events + 1 else 1 end
  where counted.day <> excluded.day or counted.events < most;
  return found;
end $$;

-- Counts a test event that came without the program's key. Returns whether it may be stored: a program stores a thousand
-- a day, and always the first hundred of each network. So strangers can't keep the program's people from testing.
create or replace function count_public_test_event(of_program_id bigint, of_network bigint) returns boolean language plpgsql as $$
declare
  is_first_hundred constant boolean := of_network is not null and count_test_event(of_program_id, of_network, 100);
  is_first_thousand constant boolean := count_test_event(of_program_id, 0, 1000);
begin
  return is_first_hundred or is_first_thousand;
end $$;
