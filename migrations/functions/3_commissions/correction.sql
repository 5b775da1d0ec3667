-- Corrections of commissions, after a sale was recorded or corrected.

-- Recomputes a customer's commissions in the order of their sales. `itself` includes the commission of this sale. Commissions under a cap
-- are always included. `others` adds commissions whose months count from the customer's first purchase. Returns the commissions that it
-- created. The caller applies their refunds, and holds the locks of the customer and of a sale that is older than this transaction. Locks
-- all sales, then all commissions, then all balances, each in the order of their keys.
create or replace function correct_commissions(of_sale sales, itself boolean, others boolean) returns commissions[] language plpgsql as $$
declare
  sale_ids bigint[];
  first_date timestamptz;
  sale sales;
  created commissions;
  all_created commissions[] := '{}';
begin
  select array_agg(locked.id) into sale_ids from (
    select s.id from sales s
    where s.program_id = of_sale.program_id and s.customer_id = of_sale.customer_id and not s.is_test
      and case when s.id = of_sale.id then itself else others and s.commission_months is not null or s.commission_cap_cents is not null or s.terms_by_line is not null end
    order by s.id for no key update
  ) locked;
  perform lock_commissions(of_sale.program_id, sale_ids);
  select c.first_purchase_date into first_date from customers c where c.program_id = of_sale.program_id and c.id = of_sale.customer_id;
  for sale in select s.* from sales s where s.program_id = of_sale.program_id and s.id = any (sale_ids) order by s.sale_date, s.id loop
    created := correct_commission(sale, first_date);
    if created.id is not null then
      all_created := all_created || created;
    end if;
  end loop;
  return all_created;
end $$;

-- Locks the commissions of these sales, and then their balances, each in the order of their keys.
create or replace function lock_commissions(of_program_id bigint, sale_ids bigint[]) returns void language plpgsql as $$
begin
  perform from commissions c where c.program_id = of_program_id and c.sale_id = any (sale_ids) order by c.id for no key update;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select c.program_id, c.partner_id, c.currency from commissions c
    where c.program_id = of_program_id and c.sale_id = any (sale_ids) and c.credited_at is not null
  )
  order by b.partner_id, b.currency for no key update;
end $$;

-- Recomputes the commission of a sale. Returns the commission if this call created it, because the sale was previously too late to
-- earn one. The caller holds the locks.
create or replace function correct_commission(sale sales, first_date timestamptz) returns commissions language plpgsql as $$
declare
  was commissions;
  commission commissions;
  earned_cents bigint := earned_by(sale, first_date);
  change_cents bigint;
begin
  select c.* into was from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id;
  if was.id is null then
    if earned_cents > 0 then
      commission := create_commission(sale.program_id, 'sale', sale.partner_id, sale.customer_id, sale.currency, earned_cents, sale.id,
        sale.code_id, of_time => sale.created_at, of_date => sale.sale_date);
      perform count_commission_change(commission, earned_cents);
      if wants_webhook(sale.program_id, 'commission.created') then
        perform notify_commission_created(sale.program_id, commission.id);
      end if;
    end if;
    return commission;
  end if;
  commission := corrected(was, sale, earned_cents, first_date);
  if (commission.amount_cents, commission.reversed_cents, commission.reversal) = (was.amount_cents, was.reversed_cents, was.reversal) then
    return null;
  end if;
  change_cents := commission.amount_cents - commission.reversed_cents - (was.amount_cents - was.reversed_cents);
  update commissions c set amount_cents = commission.amount_cents, reversed_cents = commission.reversed_cents,
    reversal = commission.reversal, reason = commission.reason, correction_count = c.correction_count + 1,
    corrections = coalesce(c.corrections, '[]') || jsonb_build_array(jsonb_build_object('at', now(), 'was_cents', was.amount_cents,
      'amount_cents', commission.amount_cents, 'change_cents', change_cents, 'base_cents', sale.commission_base_cents,
      'source', sale.amount_source))
  where c.program_id = was.program_id and c.id = was.id
  returning * into commission;
  if change_cents <> 0 then
    perform carry_correction(commission, change_cents, sale.transaction_id);
  end if;
  return null;
end $$;

-- Returns the commission with its corrected amounts. A rejected commission stays fully reversed.
create or replace function corrected(commission commissions, sale sales, earned_cents bigint, first_date timestamptz) returns commissions
language plpgsql stable as $$
declare
  part record := refunded_part(sale, null);
begin
  commission.amount_cents := earned_cents;
  if commission.rejected_at is not null then
    commission.reversed_cents := earned_cents;
    return commission;
  end if;
  commission.reversal := reversal_of(earned_cents, part.refunded, part.whole);
  commission.reversed_cents := reversed_share(earned_cents, part.refunded, part.whole);
  commission.reason := case
    when sale.amount_cents = 0 then 'no_payment_required'
    when earned_cents = 0 and is_after_duration(sale.sale_date, first_date, sale.commission_months) then 'after_duration'
    when earned_cents = 0 then 'nothing_left_to_earn'
    else (
      select coalesce(r.reason_text, r.reason) from refunds r
      where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0
        and r.untaxed_cents is distinct from 0
      order by r.id desc limit 1
    )
  end;
  return commission;
end $$;

-- Adds a correction to the day's totals and sends webhooks. If the commission is credited, also changes the balance and notifies the
-- partner.
create or replace function carry_correction(commission commissions, change_cents bigint, of_transaction_id text) returns void
language plpgsql as $$
declare
  by_cause text := format('correction:%s:%s', commission.id, commission.correction_count);
begin
  perform count_commission_change(commission, change_cents);
  perform notify_commission_change(commission, -change_cents, 'corrected', of_transaction_id);
  if commission.credited_at is null then
    return;
  end if;
  perform write_outbox(commission.program_id, 'commission_corrected', 'partner', commission.partner_id, by_cause, jsonb_build_object(
    'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', abs(change_cents), 'currency', commission.currency,
    'deducted', change_cents < 0));
  if change_cents < 0 and commission.paid_at is not null then
    perform notify_advertiser('paid_commission_reversed', commission, change_cents, by_cause, of_transaction_id);
  end if;
  perform change_balance(commission.program_id, commission.partner_id, commission.currency, change_cents, 'commission_corrected', by_cause,
    details_of(commission, of_transaction_id), of_commission_id => commission.id, of_correction_number => commission.correction_count);
end $$;
