-- The partner of a sale and the partner's terms.

-- Returns a sale with its partner, found through the customer or a code, and with the current terms. Locks the partner.
create or replace function with_partner(given sales, customer customers) returns sales language plpgsql as $$
declare
  program programs;
begin
  given.customer_id := customer.id;
  given.partner_id := customer.partner_id;
  if customer.id is null then
    given.code_id := null;
    return without_terms(given);
  end if;
  select p.* into program from programs p where p.id = given.program_id;
  -- A sale without steps got its customer through the customer key alone, as most sales from the API do.
  given.resolution := jsonb_build_object('at', now(), 'link_id', customer.link_id, 'clicked_at', customer.last_click_at,
    'came_at', customer.created_at, 'window_days', program.cookie_window_days, 'model', program.attribution_model,
    'hold_days', program.hold_days) || coalesce(given.resolution, '{"steps": [["customer_key", "found"]]}');
  -- A first purchase can't follow an earlier purchase with a code.
  if customer.link_id is not null and coalesce(given.sale_date < customer.first_purchase_date, customer.first_purchase_date is null) then
    customer.code_id := null;
  end if;
  if coalesce(given.code_id, customer.code_id) is not null then
    select d.code_id, d.partner_id, d.resolution into given.code_id, given.partner_id, given.resolution
    from decide_by_code(given, customer, customer.code_id, given.resolution) d;
  end if;
  return with_current_terms(given, program);
end $$;

create or replace function without_terms(given sales) returns sales language plpgsql immutable as $$
begin
  given.commission_bp := null;
  given.commission_months := null;
  given.commission_rule_id := null;
  given.commission_fixed_cents := null;
  given.commission_cap_cents := null;
  given.terms_among := null;
  given.terms_by_line := null;
  return given;
end $$;

-- Returns a sale with its partner's current terms. Locks the partner.
create or replace function with_current_terms(given sales, program programs) returns sales language plpgsql as $$
declare
  partner partners;
begin
  select r.* into partner from partners r where r.program_id = given.program_id and r.id = given.partner_id for key share;
  given := without_terms(given);
  given.commission_bp := program.commission_bp;
  given.commission_months := program.commission_duration_months;
  -- A partner who erased their account earns nothing more.
  if partner.closed_at is not null then
    given.commission_bp := 0;
    given.resolution := given.resolution || '{"partner_left": true}';
  elsif program.rules_version > 0 then
    given.terms_among := (program.rules_version, partner.group_id, given.commission_bp, given.commission_months);
    given := with_terms(given);
  end if;
  return given;
end $$;
