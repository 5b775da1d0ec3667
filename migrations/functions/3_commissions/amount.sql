-- The arithmetic of commissions. Nothing here reads a table.

-- Adds calendar months in UTC, whatever the session's time zone. Null months have no end.
create or replace function months_after(at timestamptz, months integer) returns timestamptz language sql immutable
return (at at time zone 'UTC' + make_interval(months => months)) at time zone 'UTC';

-- Computes the commission on `base_cents` of a sale. The percentage rounds half up in integers, because floating point gives 38 cents for
-- 27.50 at 1.4% and not 39. The fixed amount counts if the base is above zero. A sale more than `months` after the customer's first
-- purchase earns nothing; null means no limit. `left_cents` is the most that the sale may earn (left_under_cap), or null.
create or replace function commission_of(
  base_cents bigint, commission_bp integer, fixed_cents bigint, months integer, sale_date timestamptz, first_purchase_date timestamptz,
  left_cents bigint
) returns bigint language sql stable
return case when base_cents = 0 or sale_date > months_after(first_purchase_date, months) then 0
  else greatest(least((base_cents * commission_bp + 5000) / 10000 + coalesce(fixed_cents, 0), left_cents, 9999999999999), 0) end;

-- Computes the reversed part of a commission if `refunded_cents` of its sale are refunded. It rounds down, and each refund takes the
-- difference, so refunds of the whole sale reverse exactly the commission, in however many steps.
create or replace function reversed_share(commission_cents bigint, refunded_cents bigint, sale_cents bigint) returns bigint
language sql immutable
return div(commission_cents::numeric * refunded_cents, greatest(sale_cents, 1))::bigint;

-- How far a commission is reversed by the refunds of its sale: fully if nothing is left.
create or replace function reversal_of(commission_cents bigint, refunded_cents bigint, sale_cents bigint) returns text
language sql immutable
return case when commission_cents = 0 or refunded_cents = sale_cents then 'full' when refunded_cents > 0 then 'partial' else 'none' end;
