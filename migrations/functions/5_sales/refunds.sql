-- Refunds of a sale. Refunds from the API and from the processor go through the same steps under the same locks: sale, commission, balance.
-- Each applied or restored refund is one step. A step changes the sale's refunded total, and changes the commission in proportion. Each
-- step has its own entry and notification.

-- Adds to the refunded revenue on the day of the sale, if the sale counts as revenue.
create or replace function count_refunded(sale sales, more_refunded_cents bigint) returns void language plpgsql as $$
begin
  if sale.customer_id is not null and not sale.is_test and sale.payment_status = 'paid' then
    perform count_money(sale.program_id, sale.customer_id, sale.partner_id, sale.sale_date, sale.currency, 0, 0, 0, more_refunded_cents,
      of_code_id => sale.code_id);
  end if;
end $$;

-- Applies one step: changes the refunded total of a sale by `by_cents` because of `refund`, and the commission in proportion. A rejected
-- commission doesn't change. Returns the refund with its deduction. The caller has stored the refund.
create or replace function move_refunded(sale sales, of_commission commissions, refund refunds, by_cents bigint, because text) returns refunds
language plpgsql as $$
declare
  commission commissions;
  part record;
  was_reversal text;
  delta_cents bigint;
begin
  sale.refunded_cents := sale.refunded_cents + by_cents;
  update sales s set refunded_cents = sale.refunded_cents where s.program_id = sale.program_id and s.id = sale.id;
  perform notify_refund(sale, refund, by_cents);
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.id = of_commission.id and c.rejected_at is null;
  if commission.id is null then
    return refund;
  end if;
  part := refunded_part(sale, case when by_cents > 0 then refund.id end);
  delta_cents := reversed_share(commission.amount_cents, part.refunded, part.whole) - commission.reversed_cents;
  was_reversal := commission.reversal;
  commission.reversal := reversal_of(commission.amount_cents, part.refunded, part.whole);
  update refunds r set deduction_cents = case when by_cents > 0 then delta_cents else r.deduction_cents end,
    returned_cents = case when by_cents < 0 then -delta_cents else r.returned_cents end
  where r.program_id = refund.program_id and r.id = refund.id
  returning r.* into refund;
  -- A refund of tax alone does not concern the partner.
  if refund.untaxed_cents = 0 and delta_cents = 0 and commission.reversal = was_reversal then
    return refund;
  end if;
  commission.reason := because;
  perform reverse_commission(commission, delta_cents, refund.id,
    case when by_cents > 0 then 'refund:' else 'return:' end || refund.id, refund.reason, sale.transaction_id,
    case when by_cents > 0 then 'reversal' when refund.reason = 'chargeback' then 'dispute_reinstated' end);
  return refund;
end $$;

-- Returns whether only the processor reported a refund: its key is the processor's id.
create or replace function is_processors_own(refund refunds) returns boolean language sql immutable
return (refund).processor_reversal_id is not null and is_refund_key((refund).refund_key, 'id:' || (refund).processor_reversal_id);

-- Applies a refund to a sale: stores it and changes the sale's refunded total. `refund` is the row to store, with the requested amount in
-- `applied_cents`, which is capped at the rest of the sale. Returns the stored row.
create or replace function take_refund(sale sales, commission commissions, refund refunds) returns refunds language plpgsql as $$
begin
  refund.applied_cents := least(refund.applied_cents, sale.amount_cents - sale.refunded_cents);
  insert into refunds (program_id, sale_id, refund_key, processor_reversal_id, continues_refund_id, requested_cents, applied_cents,
    untaxed_cents, reason, reason_text, returned_at, request_id)
  values (sale.program_id, sale.id, refund.refund_key, refund.processor_reversal_id, refund.continues_refund_id,
    refund.requested_cents, refund.applied_cents, refund.untaxed_cents, refund.reason, refund.reason_text, refund.returned_at,
    refund.request_id)
  returning * into refund;
  if refund.applied_cents > 0 then
    perform count_refunded(sale, refund.applied_cents);
    refund := move_refunded(sale, commission, refund, refund.applied_cents, coalesce(refund.reason_text, refund.reason));
  end if;
  return refund;
end $$;

-- Refunds a sale for an API call. The caller has locked the sale. `key` is the refund's key, and a null `wanted_cents` means the whole
-- remaining amount. The key identifies a refund. If the response was lost, the request identifies it too. The call also matches the
-- processor's refund with the same id. Otherwise it matches a refund of the same amount that no other call matches. `outcome` is
-- `refunded` or `reversed` if this request applied the refund, now or before. It can also be `refund_already_applied`, `no_commission`, or
-- `already_reversed` if nothing was left of the sale or its commission.
create or replace function refund_sale(
  sale sales, key text, wanted_cents bigint, because text, because_text text, request uuid,
  out commission_id bigint, out currency text, out outcome text, out deduction_cents bigint
) language plpgsql as $$
#variable_conflict use_column
declare
  commission commissions;
  refund refunds;
  refunded bigint;
begin
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  perform lock_balance(commission);
  select r.* into refund from refunds r
  where r.program_id = sale.program_id and r.sale_id = sale.id and (is_refund_key(r.refund_key, key) or r.request_id = request
    or 'id:' || r.processor_reversal_id = key
    or is_processors_own(r) and r.requested_cents = wanted_cents and r.reason = because)
  order by is_refund_key(r.refund_key, key) desc, 'id:' || r.processor_reversal_id is not distinct from key desc, r.id limit 1;
  if is_processors_own(refund) and not is_refund_key(refund.refund_key, key) then
    update refunds r set refund_key = key where r.program_id = refund.program_id and r.id = refund.id;
  elsif refund.id is null and sale.refunded_cents < sale.amount_cents then
    refund.refund_key := key;
    refund.requested_cents := wanted_cents;
    refund.applied_cents := coalesce(wanted_cents, sale.amount_cents);
    refund.reason := because;
    refund.reason_text := because_text;
    refund.request_id := request;
    refund := take_refund(sale, commission, refund);
    refunded := sale.refunded_cents + refund.applied_cents;
  elsif refund.request_id = request then
    -- The first response was lost. Return it again, even if more was refunded since then.
    select sum(r.applied_cents) into refunded from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.id <= refund.id and r.returned_at is null;
  end if;
  commission_id := commission.id;
  currency := commission.currency;
  deduction_cents := refund.deduction_cents;
  outcome := case
    when commission.id is null then 'no_commission'
    when refund.id is null then 'already_reversed'
    when refund.request_id is distinct from request then 'refund_already_applied'
    when commission.rejected_at is not null and refund.deduction_cents = 0 then 'already_reversed'
    when refunded = sale.amount_cents then 'reversed'
    else 'refunded'
  end;
end $$;

-- Undoes the part of a sale's refunds that exceeds its new amount, newest first, and returns the remaining refunded total. The caller has
-- locked the sale, and corrects its commission.
create or replace function fit_refunds(sale sales, new_amount_cents bigint) returns bigint language plpgsql as $$
declare
  excess_cents bigint := sale.refunded_cents - new_amount_cents;
  refund refunds;
begin
  if excess_cents <= 0 then
    return sale.refunded_cents;
  end if;
  for refund in
    select r.* from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0 order by r.id desc
  loop
    exit when excess_cents <= 0;
    update refunds r set applied_cents = greatest(0, refund.applied_cents - excess_cents)
    where r.program_id = refund.program_id and r.id = refund.id;
    excess_cents := excess_cents - refund.applied_cents;
  end loop;
  return new_amount_cents;
end $$;

-- If a sale's amount grows by `more_cents`, a refund of the whole remaining amount grows with it, unless the processor reported its amount.
-- Returns the sale. The caller has locked it.
create or replace function grow_refund_of_rest(sale sales, more_cents bigint) returns sales language plpgsql as $$
declare
  commission commissions;
  rest refunds;
  refund refunds;
begin
  if more_cents <= 0 then
    return sale;
  end if;
  select r.* into rest from refunds r
  where r.program_id = sale.program_id and r.sale_id = sale.id and r.requested_cents is null and r.continues_refund_id is null
    and r.processor_reversal_id is null and r.returned_at is null
  order by r.id desc limit 1;
  if rest.id is null then
    return sale;
  end if;
  select c.* into commission from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id for no key update;
  perform lock_balance(commission);
  refund.refund_key := format('more:%s:%s', rest.id, (
    select count(*) from refunds r where r.program_id = sale.program_id and r.sale_id = sale.id and rest.id in (r.id, r.continues_refund_id)
  ));
  refund.continues_refund_id := rest.id;
  refund.applied_cents := more_cents;
  refund.reason := rest.reason;
  refund.reason_text := rest.reason_text;
  refund := take_refund(sale, commission, refund);
  sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  return sale;
end $$;

-- Applies all refunds and disputes that the processor has reported so far (`reported`) to their sale. Skips those that are already applied,
-- so callers can call this after any change.
--
-- If refunds and disputes exceed the payment, the excess is capped. It is applied later if a restored refund leaves room for it. So the
-- outcome does not depend on the order of the reports.
create or replace function settle_refunds(of_program_id bigint, of_sale_id bigint, reported processor_reversals[]) returns void
language plpgsql as $$
declare
  sale sales;
  commission commissions;
begin
  select s.* into strict sale from sales s where s.program_id = of_program_id and s.id = of_sale_id for no key update;
  select c.* into commission from commissions c where c.program_id = of_program_id and c.sale_id = of_sale_id for no key update;
  perform lock_balance(commission);
  sale := enter_earlier_refunds(sale, commission);
  if reported is not null then
    perform claim_api_refunds(sale, reported);
    perform learn_untaxed(sale, commission, reported);
    sale := give_back_refunds(sale, commission, reported);
  end if;
  sale := refill_capped_refunds(sale, commission);
  if reported is not null then
    sale := take_reported_refunds(sale, commission, reported);
  end if;
end $$;

-- Applies a sale's earlier refunds to its new commission, one by one. record_sale has already counted them with the sale's amount.
create or replace function enter_earlier_refunds(sale sales, commission commissions) returns sales language plpgsql as $$
declare
  refund refunds;
begin
  if commission.id is null or commission.reversal <> 'none' or (refunded_part(sale, null)).refunded = 0 then
    return sale;
  end if;
  sale.refunded_cents := 0;
  for refund in
    select r.* from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0 order by r.id
  loop
    perform move_refunded(sale, commission, refund, refund.applied_cents, coalesce(refund.reason_text, refund.reason));
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
  return sale;
end $$;

-- Selects only reversals that the sale doesn't have yet, in the order of their reports.
create or replace function new_reversals(sale sales, reported processor_reversals[]) returns setof processor_reversals language sql stable as $$
  select t.* from unnest(reported) t
  where not exists (select from refunds r where r.program_id = (sale).program_id and r.sale_id = (sale).id and r.processor_reversal_id = t.reversal_id)
  order by t.created_at, t.reversal_id
$$;

-- Finds the API's refunds that the processor reports now: first refunds with the processor's id, then refunds of the same amount with any
-- id, one for each. From then on, both share a row, and later changes of the processor's refund count for both.
create or replace function claim_api_refunds(sale sales, reported processor_reversals[]) returns void language plpgsql as $$
declare
  reversal processor_reversals;
begin
  update refunds r set processor_reversal_id = t.reversal_id
  from unnest(reported) t
  where r.program_id = sale.program_id and r.sale_id = sale.id and r.processor_reversal_id is distinct from t.reversal_id
    and is_refund_key(r.refund_key, 'id:' || t.reversal_id);
  for reversal in select * from new_reversals(sale, reported) loop
    update refunds r set processor_reversal_id = reversal.reversal_id
    where r.program_id = sale.program_id and r.id = (
      select a.id from refunds a
      where a.program_id = sale.program_id and a.sale_id = sale.id and a.processor_reversal_id is null and a.continues_refund_id is null
        and a.reason = reversal.reason and reversal.amount_cents = coalesce(a.requested_cents, (
          select sum(p.applied_cents) from refunds p
          where p.program_id = a.program_id and p.sale_id = a.sale_id and a.id in (p.id, p.continues_refund_id)
        ))
      order by a.id limit 1
    );
  end loop;
end $$;

-- Adds the amounts without tax to refunds that the API reported first, and corrects the commission by the difference.
create or replace function learn_untaxed(sale sales, commission commissions, reported processor_reversals[]) returns void language plpgsql as $$
begin
  update refunds r set untaxed_cents = case r.id when named.id then t.untaxed_cents else 0 end
  from unnest(reported) t
  join refunds named on named.program_id = sale.program_id and named.sale_id = sale.id and named.processor_reversal_id = t.reversal_id
  where t.untaxed_cents is not null and r.program_id = named.program_id and r.sale_id = named.sale_id
    and coalesce(r.continues_refund_id, r.id) = named.id and r.untaxed_cents is null;
  if found and commission.id is not null then
    perform correct_commission(sale, c.first_purchase_date)
    from customers c where c.program_id = sale.program_id and c.id = sale.customer_id;
  end if;
end $$;

-- Moves the refunds of another sale of the same payment to this sale, except those that it already has.
create or replace function move_refunds(of_program_id bigint, of_sale_id bigint, reported_refunds refunds[]) returns void language plpgsql as $$
declare
  sale sales;
  commission commissions;
  refund refunds;
begin
  select s.* into strict sale from sales s where s.program_id = of_program_id and s.id = of_sale_id for no key update;
  select c.* into commission from commissions c where c.program_id = of_program_id and c.sale_id = of_sale_id for no key update;
  perform lock_balance(commission);
  sale := enter_earlier_refunds(sale, commission);
  foreach refund in array reported_refunds loop
    -- If only the processor reported a refund, the report is applied to this sale again.
    continue when is_processors_own(refund) or exists (
      select from refunds r where r.program_id = sale.program_id and r.sale_id = sale.id and r.refund_key = refund.refund_key
    );
    update refunds r set refund_key = refund.refund_key
    where r.program_id = sale.program_id and r.id = (
      select p.id from refunds p
      where p.program_id = sale.program_id and p.sale_id = sale.id and (p.processor_reversal_id = refund.processor_reversal_id
        or refund.processor_reversal_id is null and is_processors_own(p) and p.requested_cents = refund.requested_cents and p.reason = refund.reason)
      order by p.id limit 1
    );
    continue when found;
    refund.applied_cents := case
      when refund.returned_at is not null then 0
      -- A refund of the whole remaining amount also covers the rest of this sale, unless the processor reported it.
      when refund.requested_cents is null and refund.processor_reversal_id is null then sale.amount_cents
      else coalesce(refund.requested_cents, refund.applied_cents) end;
    -- The request stays with the sale in its response.
    refund.request_id := null;
    refund := take_refund(sale, commission, refund);
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
end $$;

-- Undoes failed refunds and won disputes. If one was capped, also undoes its later part. After that, the commission has the reason of
-- the latest remaining refund.
create or replace function give_back_refunds(sale sales, commission commissions, reported processor_reversals[]) returns sales
language plpgsql as $$
declare
  refund refunds;
  because text;
begin
  for refund in
    select r.* from unnest(reported) t
    join refunds named on named.program_id = sale.program_id and named.sale_id = sale.id and named.processor_reversal_id = t.reversal_id
    join refunds r on r.program_id = named.program_id and r.sale_id = named.sale_id and coalesce(r.continues_refund_id, r.id) = named.id
    where t.returned_at is not null and r.returned_at is null order by r.id
  loop
    update refunds r set returned_at = now() where r.program_id = refund.program_id and r.id = refund.id;
    continue when refund.applied_cents = 0;
    select coalesce(r.reason_text, r.reason) into because from refunds r
    where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and sale.refunded_cents > refund.applied_cents
      and r.untaxed_cents is distinct from 0
    order by r.id desc limit 1;
    perform count_refunded(sale, -refund.applied_cents);
    perform move_refunded(sale, commission, refund, -refund.applied_cents, because);
    sale.refunded_cents := sale.refunded_cents - refund.applied_cents;
  end loop;
  return sale;
end $$;

-- Applies more of the capped refunds if room is available. The later part of a refund is a separate row, because rows never change
-- their applied amount.
create or replace function refill_capped_refunds(sale sales, commission commissions) returns sales language plpgsql as $$
declare
  capped record;
  refund refunds;
begin
  for capped in
    select root.id, root.requested_cents, root.untaxed_cents, root.reason, root.reason_text, count(*) as parts,
      root.requested_cents - sum(part.applied_cents) as missing_cents
    from refunds root
    join refunds part on part.program_id = root.program_id and part.sale_id = root.sale_id
      and coalesce(part.continues_refund_id, part.id) = root.id and part.returned_at is null
    where root.program_id = sale.program_id and root.sale_id = sale.id
    group by root.program_id, root.id having root.requested_cents > sum(part.applied_cents) order by root.id
  loop
    exit when sale.refunded_cents = sale.amount_cents;
    refund := null;
    refund.refund_key := format('more:%s:%s', capped.id, capped.parts);
    refund.continues_refund_id := capped.id;
    refund.requested_cents := capped.requested_cents;
    refund.applied_cents := capped.missing_cents;
    refund.untaxed_cents := case when capped.untaxed_cents is not null then 0 end;
    refund.reason := capped.reason;
    refund.reason_text := capped.reason_text;
    refund := take_refund(sale, commission, refund);
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
  return sale;
end $$;

-- Applies newly reported refunds, in the order of their reports. If a refund was restored before its report arrives, this stores it without
-- an amount, so that it is never applied later.
create or replace function take_reported_refunds(sale sales, commission commissions, reported processor_reversals[]) returns sales
language plpgsql as $$
declare
  reversal processor_reversals;
  refund refunds;
begin
  for reversal in select * from new_reversals(sale, reported) loop
    refund := null;
    refund.refund_key := 'id:' || reversal.reversal_id;
    refund.processor_reversal_id := reversal.reversal_id;
    refund.requested_cents := reversal.amount_cents;
    refund.untaxed_cents := reversal.untaxed_cents;
    refund.applied_cents := case when reversal.returned_at is null then reversal.amount_cents else 0 end;
    refund.reason := reversal.reason;
    refund.reason_text := reversal.reason_text;
    refund.returned_at := case when reversal.returned_at is not null then now() end;
    refund := take_refund(sale, commission, refund);
    sale.refunded_cents := sale.refunded_cents + refund.applied_cents;
  end loop;
  return sale;
end $$;
