-- Partners' codes. Finds the code of a sale and the partner who gets the sale.

-- Finds the code that counts for a purchase at `bought_at`: the code with this text, or else the first valid promotion code from
-- Stripe. `outcome` is the result of this step in a resolution.
create or replace function find_code(
  of_program_id bigint, named text, promotion_ids text[], bought_at timestamptz, out code_id bigint, out code text, out outcome text
) language plpgsql stable as $$
#variable_conflict use_variable
begin
  select case when k.outcome = 'found' then k.id end, k.code, k.outcome into code_id, code, outcome
  from (
    select k.id, k.code, k.created_at, case
        when not existed_at(k.created_at, bought_at) then 'given_later'
        when k.revoked_at <= bought_at then 'revoked'
        when not r.is_active then 'partner_inactive'
        else 'found'
      end as outcome
    from partner_codes k join partners r on r.program_id = k.program_id and r.id = k.partner_id
    where k.program_id = of_program_id and (lower(normalize(k.code)) = lower(normalize(named)) or k.promotion_code_id = any (promotion_ids))
  ) k
  order by k.outcome = 'found' desc, k.id limit 1;
  outcome := coalesce(outcome, 'unknown');
end $$;

-- Returns the program of an account that has one of these promotion codes.
create or replace function program_of_promotion(of_account_id text, promotion_ids text[]) returns programs language plpgsql stable as $$
declare
  program programs;
begin
  if cardinality(promotion_ids) > 0 then
    select p.* into program from partner_codes k join programs p on p.id = k.program_id and p.processor_account_id = k.account_id
    where k.account_id = of_account_id and k.promotion_code_id = any (promotion_ids) order by k.program_id, k.id limit 1;
  end if;
  return program;
end $$;

-- Returns whether a program of the account has one of Stripe's promotion codes. If none has, Stripe doesn't need to be asked about a
-- discount.
create or replace function knows_promotions(of_account_id text) returns boolean language sql stable
return exists (select from partner_codes k where k.account_id = of_account_id and k.promotion_code_id is not null);

-- Sets the code of a sale to the code that counts, or null, and adds the code's step to the sale's resolution.
create or replace function with_code(given sales, promotion_ids text[], bought_at timestamptz) returns sales language plpgsql stable as $$
declare
  named record;
begin
  named := find_code(given.program_id, given.coupon, promotion_ids, bought_at);
  given.code_id := named.code_id;
  given.coupon := coalesce(given.coupon, named.code);
  given.resolution := with_step(coalesce(given.resolution, '{"steps": [["customer_key", "found"]]}'), 'coupon', named.outcome);
  return given;
end $$;

-- Creates the customer of a purchase that only a code attributes, with a new click id. If another call has created a customer with this key
-- in the meantime, returns that customer.
create or replace function add_customer_of_code(
  given sales, click_id_prefix text, new_email_hash bytea, new_mailbox_hash bytea, bought_at timestamptz
) returns bigint language plpgsql as $$
declare
  customer bigint;
begin
  insert into customers as c (program_id, click_id, customer_key, email_hash, mailbox_hash, partner_id, code_id, created_at)
  select k.program_id, click_id_prefix || k.program_id, given.customer_key, new_email_hash, new_mailbox_hash, k.partner_id, k.id, least(bought_at, now())
  from partner_codes k where k.program_id = given.program_id and k.id = given.code_id
  on conflict (program_id, customer_key) where customer_key is not null do nothing
  returning c.id into customer;
  if customer is null then
    select c.id into customer from customers c where c.program_id = given.program_id and c.customer_key = given.customer_key;
  end if;
  return customer;
end $$;

-- Returns whether a sale contains a code that counts, according to the steps of its resolution.
create or replace function names_code(sale sales) returns boolean language sql immutable
return coalesce((sale).resolution @> '{"steps": [["coupon", "found"]]}', false);

-- Decides which partner gets a sale with a code, or a sale to a customer whose first purchase used `first_code_id`. If a link of another
-- partner referred the customer, the program's setting decides. `code_id` is null if the sale's partner owns no such code. The caller has
-- locked the customer.
create or replace function decide_by_code(
  given sales, customer customers, first_code_id bigint, inout resolution jsonb, out code_id bigint, out partner_id bigint
) language plpgsql stable as $$
declare
  code partner_codes;
  priority text;
begin
  partner_id := customer.partner_id;
  if given.code_id is null and first_code_id is not null then
    resolution := with_step(resolution, 'code_of_first_purchase', 'found');
  end if;
  select k.* into code from partner_codes k where k.program_id = given.program_id and k.id = coalesce(given.code_id, first_code_id);
  select p.attribution_priority into priority from programs p where p.id = given.program_id;
  if code.id is null or code.partner_id = customer.partner_id then
    code_id := code.id;
  elsif customer.link_id is not null and priority = 'click' then
    resolution := with_step(resolution, 'code_or_click', 'click');
  else
    code_id := code.id;
    partner_id := code.partner_id;
    resolution := with_step(resolution, 'code_or_click', case when customer.link_id is null then 'named_code' else 'code' end);
  end if;
end $$;

-- Creates a code for a partner, or reactivates their own revoked code. If neither is possible, `refusal` says why and `held_by` is the
-- partner who has the code.
create or replace function create_code(
  of_program_id bigint, of_partner_id bigint, new_code text, of_promotion_code_id text, of_account_id text,
  out code_id bigint, out refusal text, out held_by text
) language plpgsql as $$
#variable_conflict use_column
declare
  held record;
begin
  -- Waits for a concurrent end or erasure of the partner.
  perform from partners r where r.program_id = of_program_id and r.id = of_partner_id and r.closed_at is null for key share;
  if not found then
    refusal := 'no_partner';
    return;
  end if;
  insert into partner_codes (program_id, partner_id, code, promotion_code_id, account_id)
  values (of_program_id, of_partner_id, new_code, of_promotion_code_id, case when of_promotion_code_id is not null then of_account_id end)
  on conflict do nothing returning id into code_id;
  if code_id is not null then
    return;
  end if;
  select k.*, r.name into held from partner_codes k join partners r on r.program_id = k.program_id and r.id = k.partner_id
  where k.program_id = of_program_id and lower(normalize(k.code)) = lower(normalize(new_code)) for no key update of k;
  if held.id is null then
    refusal := 'promotion_code_taken';
  elsif held.partner_id <> of_partner_id then
    refusal := case when held.revoked_at is null then 'taken' else 'revoked' end;
    held_by := held.name;
  elsif exists (
    select from partner_codes k where k.account_id = of_account_id and k.promotion_code_id = of_promotion_code_id and (k.program_id, k.id) <> (of_program_id, held.id)
  ) then
    refusal := 'promotion_code_taken';
  else
    code_id := held.id;
    update partner_codes k set revoked_at = null, disabled_at_processor_at = null, promotion_code_id = coalesce(of_promotion_code_id, k.promotion_code_id),
      account_id = case when of_promotion_code_id is null then k.account_id else of_account_id end
    where k.program_id = of_program_id and k.id = held.id;
  end if;
end $$;

-- Revokes a code. A second call keeps the first date. Returns false if the program has no such code.
create or replace function revoke_code(of_program_id bigint, of_code_id bigint) returns boolean language plpgsql as $$
begin
  update partner_codes k set revoked_at = coalesce(k.revoked_at, now()) where k.program_id = of_program_id and k.id = of_code_id;
  return found;
end $$;
