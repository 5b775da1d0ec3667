-- The arithmetic of commissions. Nothing here reads a table.

-- Adds calendar months in UTC, regardless of the session's time zone. Null months have no end.
create or replace function months_after(at timestamptz, months integer) returns timestamptz language sql immutable
return (at at time zone 'UTC' + make_interval(months => months)) at time zone 'UTC';

-- Returns whether a sale is more than `months` after the customer's first purchase. Null months have no end.
create or replace function is_after_duration(sale_date timestamptz, first_purchase_date timestamptz, months integer) returns boolean
language sql immutable
return coalesce(sale_date > months_after(first_purchase_date, months), false);

-- Computes the commission on `base_cents` of a sale. The percentage rounds half up in integers, because floating point results in 38
-- cents for 27.50 at 1.4% instead of 39. The fixed amount applies if the base is above zero. A sale after the duration earns
-- nothing. `left_cents` is the maximum that the sale may earn (left_under_cap), or null.
create or replace function commission_of(
  base_cents bigint, commission_bp integer, fixed_cents bigint, months integer, sale_date timestamptz, first_purchase_date timestamptz,
  left_cents bigint
) returns bigint language sql stable
return case when base_cents = 0 or is_after_duration(sale_date, first_purchase_date, months) then 0
  else greatest(least((base_cents * commission_bp + 5000) / 10000 + coalesce(fixed_cents, 0), left_cents, 9999999999999), 0) end;

-- Computes the commissions of the parts of a sale with separate terms. The shares of the base are rounded down so that they add up to it,
-- and the last part gets the rest. `earlier_cents` are the customer's earlier commissions, which count toward each cap.
create or replace function commissions_of_lines(
  base_cents bigint, parts line_terms[], sale_date timestamptz, first_purchase_date timestamptz, earlier_cents bigint
) returns table (part line_terms, part_cents bigint, commission_cents bigint) language plpgsql stable as $$
declare
  all_weight numeric := (select sum(p.weight) from unnest(parts) p);
  weight numeric := 0;
  shared_cents bigint := 0;
begin
  foreach part in array parts loop
    weight := weight + part.weight;
    part_cents := div(base_cents * weight, all_weight)::bigint - shared_cents;
    shared_cents := shared_cents + part_cents;
    commission_cents := commission_of(part_cents, part.commission_bp, part.fixed_cents, part.commission_months, sale_date, first_purchase_date,
      part.cap_cents - earlier_cents);
    earlier_cents := earlier_cents + commission_cents;
    return next;
  end loop;
end $$;

-- Computes the reversed part of a commission if the part `refunded / whole` of its sale is refunded (refunded_part). The result is
-- rounded down, and each refund reverses the difference. So refunds of the whole sale reverse exactly the commission, in any number of
-- steps.
create or replace function reversed_share(commission_cents bigint, refunded numeric, whole numeric) returns bigint language sql immutable
return div(commission_cents * refunded, greatest(whole, 1))::bigint;

-- The part of a commission that the refunds of its sale reverse: all of it if nothing is left of the sale.
create or replace function reversal_of(commission_cents bigint, refunded numeric, whole numeric) returns text language sql immutable
return case when commission_cents = 0 or refunded = whole then 'full' when refunded > 0 then 'partial' else 'none' end;
