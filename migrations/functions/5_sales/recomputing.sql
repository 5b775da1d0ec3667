-- The consequences of a changed sale for the figures and for its customer's commissions.

-- Counts the revenue of a sale on its day (`times` 1), or removes it from the count (-1).
create or replace function count_paid_sale(sale sales, times integer) returns void language plpgsql as $$
begin
  if sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, times, times * sale.amount_cents, 0,
      times * sale.refunded_cents, of_code_id => sale.code_id);
  end if;
end $$;

-- Counts the rest of a commission on its day (`times` 1), or removes it from the count (-1).
create or replace function count_commission(commission commissions, times integer) returns void language plpgsql as $$
begin
  perform count_commission_change(commission, times * (commission.amount_cents - commission.reversed_cents));
end $$;

-- Corrects the commissions of a sale's customer (correct_commissions). Applies earlier refunds to each newly created commission.
create or replace function correct_customer(of_sale sales, itself boolean, others boolean) returns void language plpgsql as $$
begin
  perform enter_earlier_refunds(s, c)
  from unnest(correct_commissions(of_sale, itself, others)) c
  join sales s on s.program_id = c.program_id and s.id = c.sale_id;
end $$;
