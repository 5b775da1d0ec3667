-- The code of a customer's first purchase decides the partner of their later sales without a code. Sales can arrive in any order.

-- Gives a customer the code of their earliest paid sale, and gives the resulting partner to their other sales without a code. The caller holds
-- the lock of the customer.
create or replace function follow_first_code(of_program_id bigint, of_customer_id bigint) returns void language plpgsql as $$
declare
  customer customers;
  first_code_id bigint;
  sale_ids bigint[];
  sale sales;
  moved sales;
begin
  select c.* into customer from customers c where c.program_id = of_program_id and c.id = of_customer_id;
  select case when names_code(s) then s.code_id end into first_code_id from sales s
  where s.program_id = of_program_id and s.customer_id = of_customer_id and not s.is_test and s.amount_cents > 0
  order by s.sale_date, s.transaction_id limit 1;
  -- If a customer has no link, a code referred them.
  if not found or first_code_id is not distinct from customer.code_id or customer.link_id is null and first_code_id is null then
    return;
  end if;
  perform count_customers(of_program_id, of_customer_id, customer.first_purchase_date, 0, -1);
  update customers c set updated_at = now(), code_id = first_code_id, partner_id = case when c.link_id is not null then c.partner_id else (
    select k.partner_id from partner_codes k where k.program_id = c.program_id and k.id = first_code_id
  ) end
  where c.program_id = of_program_id and c.id = of_customer_id
  returning c.* into customer;
  perform count_customers(of_program_id, of_customer_id, customer.first_purchase_date, 0, 1);
  sale_ids := array(
    select s.id from sales s
    where s.program_id = of_program_id and s.customer_id = of_customer_id and not s.is_test and not names_code(s) order by s.id for no key update
  );
  perform lock_commissions(of_program_id, sale_ids);
  for sale in select s.* from sales s where s.program_id = of_program_id and s.id = any (sale_ids) order by s.sale_date, s.id loop
    moved := sale;
    moved.code_id := null;
    select d.code_id, d.partner_id, d.resolution into moved.code_id, moved.partner_id, moved.resolution
    from decide_by_code(moved, customer, first_code_id, without_steps(sale.resolution, '{code_of_first_purchase,code_or_click}')) d;
    perform move_sale(sale, moved);
  end loop;
end $$;

-- Moves a sale to the partner and the code of `moved`, with the partner's terms and the commission, and returns the sale. The sale keeps
-- its partner if its commission is credited or rejected. A review of the previous partner ends, because its findings and its decision are about
-- that partner. The caller holds the locks of the customer and the sale.
create or replace function move_sale(sale sales, moved sales) returns sales language plpgsql as $$
declare
  commission commissions;
  program programs;
begin
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  if commission.credited_at is not null or commission.rejected_at is not null then
    return sale;
  end if;
  if moved.partner_id <> sale.partner_id then
    select p.* into program from programs p where p.id = moved.program_id;
    moved := with_current_terms(moved, program);
  end if;
  update sales s set partner_id = moved.partner_id, coupon = moved.coupon, code_id = moved.code_id, resolution = moved.resolution,
    commission_bp = moved.commission_bp, commission_months = moved.commission_months, commission_rule_id = moved.commission_rule_id,
    commission_fixed_cents = moved.commission_fixed_cents, commission_cap_cents = moved.commission_cap_cents, terms_among = moved.terms_among,
    terms_by_line = moved.terms_by_line
  where s.program_id = moved.program_id and s.id = moved.id;
  perform count_paid_sale(sale, -1);
  perform count_paid_sale(moved, 1);
  if commission.id is not null then
    perform count_commission(commission, -1);
    if moved.partner_id <> commission.partner_id then
      delete from commission_reviews v where v.program_id = commission.program_id and v.commission_id = commission.id;
      commission.moved_at := now();
      commission.held_at := null;
    end if;
    update commissions c set partner_id = moved.partner_id, code_id = moved.code_id, flags_checked_at = null, moved_at = commission.moved_at,
      held_at = commission.held_at
    where c.program_id = commission.program_id and c.id = commission.id
    returning c.* into commission;
    perform count_commission(commission, 1);
  end if;
  perform correct_customer(moved, true, false);
  return moved;
end $$;

-- Adds the code from a later report of the same payment to a stored sale, and returns the sale. The caller holds the locks of the customer
-- and the sale.
create or replace function give_code(sale sales, given sales) returns sales language plpgsql as $$
declare
  moved sales := sale;
begin
  moved.partner_id := given.partner_id;
  moved.code_id := given.code_id;
  moved.coupon := coalesce(given.coupon, sale.coupon);
  moved.resolution := given.resolution;
  moved := move_sale(sale, moved);
  perform follow_first_code(sale.program_id, sale.customer_id);
  return moved;
end $$;
