-- Applies a refund; `refundSale` in lib/money/refunds.ts is its only caller and says what is given and answered. Each lock is a
-- statement of its own, and what is read under it comes later: a statement that waits goes on reading its old snapshot, and sums read
-- there over-refund.
create or replace function refund_sale(
  hash bytea, of_transaction_id text, key text, wanted_cents bigint, because text, because_text text, request uuid,
  out key_retired boolean, out sale_id bigint, out refund_id bigint, out applied boolean, out known_key boolean,
  out deduction_cents bigint, out currency text, out commission_id bigint, out commission_was_reversed boolean,
  out fully_refunded boolean, out outbox json
) language plpgsql as $$
#variable_conflict use_column
declare
  of_program_id bigint;
  sale sales;
  commission commissions;
  known refunds;
  refunded bigint;
begin
  select k.program_id, k.retired_at is not null into of_program_id, key_retired from api_keys k where k.key_hash = hash;
  if key_retired is distinct from false then
    return;
  end if;
  select s.* into sale from sales s where s.program_id = of_program_id and s.transaction_id = of_transaction_id
  order by s.is_test limit 1 for no key update;
  if sale.id is null then
    return;
  end if;
  sale_id := sale.id;
  select c.* into commission from commissions c where c.program_id = of_program_id and c.sale_id = sale.id for no key update;
  commission_id := commission.id;
  currency := commission.currency;
  commission_was_reversed := commission.status = 'reversed';
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = commission.partner_id and b.currency = commission.currency for no key update;

  select r.* into known from refunds r
  where r.program_id = of_program_id and r.sale_id = sale.id and (r.refund_key = key or r.request_id = request) limit 1;
  known_key := known.id is not null;
  if known_key then
    -- A refund whose answer was lost is answered as it was applied, whatever was refunded since.
    refund_id := known.id;
    applied := known.request_id is not distinct from request;
    deduction_cents := known.deduction_cents;
    select sum(r.applied_cents) into refunded from refunds r
    where r.program_id = of_program_id and r.sale_id = sale.id and r.id <= known.id and r.returned_at is null;
    fully_refunded := coalesce(refunded, sale.refunded_cents) = sale.amount_cents;
    return;
  end if;
  applied := sale.refunded_cents < sale.amount_cents;
  fully_refunded := sale.refunded_cents = sale.amount_cents;
  if not applied then
    return;
  end if;

  refunded := least(sale.refunded_cents + coalesce(wanted_cents, sale.amount_cents), sale.amount_cents);
  fully_refunded := refunded = sale.amount_cents;
  deduction_cents := case when commission.status <> 'reversed'
    then div(commission.amount_cents::numeric * refunded, sale.amount_cents)::bigint - commission.reversed_cents else 0 end;
  insert into refunds (program_id, sale_id, refund_key, requested_cents, applied_cents, deduction_cents, reason, reason_text, request_id)
  values (of_program_id, sale.id, key, wanted_cents, refunded - sale.refunded_cents, deduction_cents, because, because_text, request)
  returning id into refund_id;
  update sales s set refunded_cents = refunded where s.program_id = of_program_id and s.id = sale.id;
  if commission.status <> 'reversed' then
    select json_agg(json_build_object('program_id', of_program_id, 'outbox_id', told.id)) into outbox
    from unnest(reverse_commission(of_program_id, commission.id, refund_id, 'refund:' || refund_id, deduction_cents,
      case when fully_refunded then 'full' else 'partial' end, null, coalesce(because_text, because), of_transaction_id, 'reversal'
    )) told (id);
  end if;
end $$;
