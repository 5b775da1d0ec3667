-- Sets the status of a commission and refuses a row that is not sound: in a trigger, because Postgres compiles the CHECKs and generated
-- columns of a table anew in every statement that writes it.
create or replace function keep_commission_sound() returns trigger language plpgsql as $$
begin
  -- As a sale or a lead makes it; one expression is cheaper than several.
  if new.reversal = 'none' and new.reversed_cents = 0 and new.status = 'pending' and new.amount_cents > 0 and (new.kind = 'sale') = (new.sale_id is not null)
    and num_nonnulls(new.credited_at, new.paid_at, new.withdrawal_id, new.rejected_at) = 0 then
    return new;
  end if;
  new.status := case
    when new.rejected_at is not null or new.reversal = 'full' then 'reversed'
    when new.reversal = 'partial' then 'refunded'
    when new.paid_at is not null then 'paid'
    when new.credited_at is not null then 'approved'
    else 'pending'
  end;
  if (new.kind = 'sale') <> (new.sale_id is not null) then
    raise check_violation using message = 'A commission of a sale names the sale, and one of a lead names none.';
  end if;
  if new.reversed_cents > new.amount_cents
    or new.amount_cents = 0 and new.reversal <> 'full'
    or new.reversal = 'none' and new.rejected_at is null and new.reversed_cents > 0
    or (new.reversal = 'full' or new.rejected_at is not null) and new.reversed_cents < new.amount_cents then
    raise check_violation using message = 'A commission is reversed by as much as its reversal says.';
  end if;
  if new.held_at is not null and num_nonnulls(new.credited_at, new.rejected_at) > 0 then
    raise check_violation using message = 'A held commission is neither credited nor rejected before somebody decides.';
  end if;
  if new.paid_at is not null and new.credited_at is null or num_nulls(new.paid_at, new.withdrawal_id) = 1 then
    raise check_violation using message = 'A paid commission was credited, and names the withdrawal that paid it.';
  end if;
  return new;
end $$;
create or replace trigger commissions_sound before insert or update on commissions
  for each row execute function keep_commission_sound();

-- The part of a commission that is reversed where so much of its sale was refunded. It is rounded down, and a step of a refund takes the
-- difference, so that refunds of the whole sale reverse exactly the commission, however they were split.
create or replace function reversed_share(commission_cents bigint, refunded_cents bigint, sale_cents bigint) returns bigint
language sql immutable
return div(commission_cents::numeric * refunded_cents, greatest(sale_cents, 1))::bigint;

-- How far a commission is reversed where it would be `commission_cents` and so much of its sale was refunded: fully where nothing is left.
create or replace function reversal_of(commission_cents bigint, refunded_cents bigint, sale_cents bigint) returns text
language sql immutable
return case when commission_cents = 0 or refunded_cents = sale_cents then 'full' when refunded_cents > 0 then 'partial' else 'none' end;

-- Tells the partner that a commission was reversed, and the advertiser where it had been paid out.
create or replace function tell_reversal(commission commissions, by_cents bigint, by_cause text, of_transaction_id text)
returns void language plpgsql as $$
begin
  perform write_outbox(commission.program_id,
    case commission.reversal when 'full' then 'commission_reversed' else 'commission_refunded' end, 'partner', commission.partner_id,
    by_cause, jsonb_build_object(
      'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', by_cents,
      'currency', commission.currency, 'reason', commission.reason, 'deducted', commission.credited_at is not null));
  if commission.paid_at is not null then
    perform tell_advertiser('paid_commission_reversed', commission, by_cents, by_cause, of_transaction_id);
  end if;
end $$;

create or replace function tell_advertiser(
  of_kind text, commission commissions, by_cents bigint, by_cause text, of_transaction_id text
) returns void language plpgsql as $$
begin
  perform write_outbox(commission.program_id, of_kind, 'advertiser', commission.partner_id, by_cause, jsonb_build_object(
    'commission_id', commission.id, 'transaction_id', of_transaction_id, 'amount_cents', abs(by_cents),
    'currency', commission.currency, 'reason', commission.reason));
end $$;

-- Changes by how much a commission is reversed, in everything that depends on it: the commission, the day's totals, who is told, the
-- balance where it was credited, and open withdrawals that the balance no longer covers. `commission` is as it is to be (reversal, reason,
-- rejected_at), but for the amount: `by_cents` more are reversed, or less where it is negative. `by_cause` is unique for what happened.
-- `notice` is `reversal`, `dispute_reinstated`, or null where nobody is told. The caller holds the locks.
create or replace function reverse_commission(
  commission commissions, by_cents bigint, by_refund_id bigint, by_cause text, of_transaction_id text, notice text
) returns void language plpgsql as $$
declare
  entry balance_entries;
  balance_cents bigint;
begin
  update commissions c set reversed_cents = c.reversed_cents + by_cents, reversal = commission.reversal,
    reason = commission.reason, rejected_at = commission.rejected_at
  where c.program_id = commission.program_id and c.id = commission.id;
  if by_cents <> 0 then
    perform count_money(commission.program_id, commission.customer_id, commission.partner_id, commission.created_at, commission.currency, 0, 0,
      -by_cents, of_code_id => commission.code_id);
  end if;
  if notice = 'reversal' then
    perform tell_reversal(commission, by_cents, by_cause, of_transaction_id);
  elsif notice is not null then
    perform tell_advertiser(notice, commission, by_cents, by_cause, of_transaction_id);
  end if;
  if commission.credited_at is not null and by_cents <> 0 then
    entry.program_id := commission.program_id;
    entry.partner_id := commission.partner_id;
    entry.currency := commission.currency;
    entry.amount_cents := -by_cents;
    entry.cause := case when by_cents > 0 then 'commission_reversed' else 'reversal_returned' end;
    entry.commission_id := commission.id;
    entry.refund_id := by_refund_id;
    balance_cents := post_entry(entry);
    perform fit_withdrawals(commission, balance_cents, by_cause, of_transaction_id);
    if by_cents > 0 and balance_cents < 0 then
      perform tell_advertiser('balance_negative', commission, balance_cents, by_cause, of_transaction_id);
    end if;
  end if;
end $$;

-- Computes commissions anew after a sale was told or corrected: of that sale where it is `itself`, of the `others` of its customer that
-- count months from their first purchase, and of those under a cap, in the order in which they were sold. The caller has locked the customer, and the sale where it is older than this transaction. All
-- sales are locked, then all commissions, then all balances, each in the order of their keys.
create or replace function correct_commissions(of_sale sales, itself boolean, others boolean) returns void language plpgsql as $$
declare
  sale_ids bigint[];
  first_date timestamptz;
  sale sales;
begin
  select array_agg(locked.id) into sale_ids from (
    select s.id from sales s
    where s.program_id = of_sale.program_id and s.customer_id = of_sale.customer_id and not s.is_test
      and case when s.id = of_sale.id then itself else others and s.commission_months is not null or s.commission_cap_cents is not null end
    order by s.id for no key update
  ) locked;
  perform from commissions c where c.program_id = of_sale.program_id and c.sale_id = any (sale_ids) order by c.id for no key update;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select c.program_id, c.partner_id, c.currency from commissions c
    where c.program_id = of_sale.program_id and c.sale_id = any (sale_ids) and c.credited_at is not null
  )
  order by b.partner_id, b.currency for no key update;
  select c.first_purchase_date into first_date from customers c where c.program_id = of_sale.program_id and c.id = of_sale.customer_id;
  for sale in select s.* from sales s where s.program_id = of_sale.program_id and s.id = any (sale_ids) order by s.sale_date, s.id loop
    perform correct_commission(sale, first_date);
  end loop;
end $$;

-- Brings the commission of a sale to what the sale now says, in everything that depends on it: the commission, the day's totals, the balance
-- where it was credited, and open withdrawals that the balance no longer covers. One that was too late and is not any more is made, with
-- the refunds that were before it. The caller holds the locks.
create or replace function correct_commission(sale sales, first_date timestamptz) returns void language plpgsql as $$
declare
  was commissions;
  commission commissions;
  entry balance_entries;
  change_cents bigint;
  balance_cents bigint;
  by_cause text;
begin
  select c.* into was from commissions c where c.program_id = sale.program_id and c.sale_id = sale.id;
  commission := was;
  commission.amount_cents := commission_of(sale.commission_base_cents, sale.commission_bp, sale.commission_fixed_cents, sale.commission_months,
    sale.sale_date, first_date, left_under_cap(sale));
  if was.id is null then
    if commission.amount_cents > 0 then
      insert into commissions (program_id, kind, partner_id, customer_id, sale_id, code_id, currency, amount_cents, hold_until)
      select p.id, 'sale', sale.partner_id, sale.customer_id, sale.id, sale.code_id, sale.currency, commission.amount_cents,
        now() + make_interval(days => p.hold_days)
      from programs p where p.id = sale.program_id
      returning * into commission;
      perform count_money(sale.program_id, sale.customer_id, sale.partner_id, commission.created_at, sale.currency, 0, 0,
        commission.amount_cents, of_code_id => sale.code_id);
      if wants_webhook(sale.program_id, 'commission.created') then
        perform tell_commission(sale.program_id, commission.id);
      end if;
      perform enter_earlier_refunds(sale, commission);
    end if;
    return;
  end if;
  if was.rejected_at is null then
    commission.reversal := reversal_of(commission.amount_cents, sale.refunded_cents, sale.amount_cents);
    commission.reversed_cents := reversed_share(commission.amount_cents, sale.refunded_cents, sale.amount_cents);
    commission.reason := case
      when sale.amount_cents = 0 then 'No payment was required.'
      when commission.amount_cents = 0 and sale.sale_date > first_date + make_interval(months => sale.commission_months)
        then 'It is later than the program pays for.'
      when commission.amount_cents = 0 then 'Nothing is left to earn by it.'
      else (
        select coalesce(r.reason_text, r.reason) from refunds r
        where r.program_id = sale.program_id and r.sale_id = sale.id and r.returned_at is null and r.applied_cents > 0
        order by r.id desc limit 1
      )
    end;
  else
    commission.reversed_cents := commission.amount_cents;
  end if;
  if (commission.amount_cents, commission.reversed_cents, commission.reversal)
    = (was.amount_cents, was.reversed_cents, was.reversal) then
    return;
  end if;
  update commissions c set amount_cents = commission.amount_cents, reversed_cents = commission.reversed_cents,
    reversal = commission.reversal, reason = commission.reason, correction_count = c.correction_count + 1,
    corrections = coalesce(c.corrections, '[]') || jsonb_build_array(jsonb_build_object('at', now(), 'was_cents', was.amount_cents,
      'amount_cents', commission.amount_cents, 'change_cents',
      commission.amount_cents - commission.reversed_cents - (was.amount_cents - was.reversed_cents),
      'base_cents', sale.commission_base_cents, 'source', sale.amount_source))
  where c.program_id = was.program_id and c.id = was.id
  returning * into commission;
  change_cents := commission.amount_cents - commission.reversed_cents - (was.amount_cents - was.reversed_cents);
  if change_cents = 0 then
    return;
  end if;
  perform count_money(was.program_id, was.customer_id, was.partner_id, was.created_at, was.currency, 0, 0, change_cents, of_code_id => was.code_id);
  perform tell_commission_change(commission, -change_cents, 'corrected', sale.transaction_id);
  if was.credited_at is null then
    return;
  end if;
  by_cause := format('correction:%s:%s', was.id, commission.correction_count);
  entry.program_id := was.program_id;
  entry.partner_id := was.partner_id;
  entry.currency := was.currency;
  entry.amount_cents := change_cents;
  entry.cause := 'commission_corrected';
  entry.commission_id := was.id;
  entry.correction_number := commission.correction_count;
  balance_cents := post_entry(entry);
  perform write_outbox(was.program_id, 'commission_corrected', 'partner', was.partner_id, by_cause, jsonb_build_object(
    'commission_id', was.id, 'transaction_id', sale.transaction_id, 'amount_cents', abs(change_cents), 'currency', was.currency,
    'deducted', change_cents < 0));
  perform fit_withdrawals(commission, balance_cents, by_cause, sale.transaction_id);
  if change_cents < 0 and was.paid_at is not null then
    perform tell_advertiser('paid_commission_reversed', commission, change_cents, by_cause, sale.transaction_id);
  end if;
  if change_cents < 0 and balance_cents < 0 then
    perform tell_advertiser('balance_negative', commission, balance_cents, by_cause, sale.transaction_id);
  end if;
end $$;

-- Rejects a commission for good: what is left of it is reversed. `rejectCommission` in lib/money/commissions.ts is its only caller. The outcome is
-- null where the program has no such commission; `rejected`, now or before; or `reversed` where refunds left nothing to reject.
create or replace function reject_commission(
  of_program_id bigint, of_commission_id bigint, because text,
  out outcome text, out deduction_cents bigint, out currency text
) language plpgsql as $$
#variable_conflict use_column
declare
  commission commissions;
  of_transaction_id text;
begin
  select c.* into commission from commissions c where c.program_id = of_program_id and c.id = of_commission_id for no key update;
  perform lock_balance(commission);
  currency := commission.currency;
  deduction_cents := 0;
  outcome := case
    when commission.rejected_at is null and commission.reversal = 'full' then 'reversed'
    when commission.id is not null then 'rejected'
  end;
  if outcome = 'rejected' and commission.rejected_at is null then
    select s.transaction_id into of_transaction_id from sales s where s.program_id = of_program_id and s.id = commission.sale_id;
    deduction_cents := commission.amount_cents - commission.reversed_cents;
    if commission.held_at is not null then
      perform close_review(of_program_id, of_commission_id, 'rejected', because);
    end if;
    commission.reversal := 'full';
    commission.reason := because;
    commission.rejected_at := now();
    perform write_program_audit(of_program_id, 'commission.rejected', of_commission_id::text, null);
    perform reverse_commission(commission, deduction_cents, null, 'rejection:' || commission.id, of_transaction_id, 'reversal');
    perform tell_commission_change(commission, deduction_cents, 'rejected', of_transaction_id);
  end if;
end $$;

-- The same of several: all commissions are locked and then all balances, each in the order of their keys. Those that are rejected or reversed in
-- full already stay as they are, and so do those that the program has not; answers how many it rejected.
create or replace function reject_commissions(
  of_program_id bigint, commission_ids bigint[], because text, out rejected integer
) language plpgsql as $$
#variable_conflict use_column
declare
  chosen commissions[];
  commission commissions;
  done record;
begin
  select coalesce(array_agg(locked.c), '{}') into chosen
  from (
    select c from commissions c where c.program_id = of_program_id and c.id = any (commission_ids)
      and c.rejected_at is null and c.reversal <> 'full'
    order by c.id for no key update of c
  ) locked;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (
    select c.program_id, c.partner_id, c.currency from unnest(chosen) c where c.credited_at is not null
  )
  order by b.partner_id, b.currency for no key update;
  foreach commission in array chosen loop
    done := reject_commission(of_program_id, commission.id, because);
  end loop;
  rejected := cardinality(chosen);
end $$;

-- Credits commissions to their partners' balances, each with what refunds left of it, and answers how many. Those that are credited, held, rejected or
-- fully reversed stay as they are. All commissions are locked and then all balances, each in the order of their keys, so that two calls
-- cannot wait for each other in a circle.
create or replace function approve_commissions(program_ids bigint[], commission_ids bigint[], out approved integer)
language plpgsql as $$
declare
  due commissions[];
  commission commissions;
  entry balance_entries;
begin
  -- Nothing is credited that nobody looked at.
  perform flag_commissions(program_ids, commission_ids);
  select coalesce(array_agg(locked.c), '{}') into due
  from (
    select c from commissions c
    where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids))
      and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
    order by c.program_id, c.id
    for no key update of c
  ) locked;
  insert into balances (program_id, partner_id, currency)
  select distinct c.program_id, c.partner_id, c.currency from unnest(due) c order by 1, 2, 3
  on conflict do nothing;
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) in (select c.program_id, c.partner_id, c.currency from unnest(due) c)
  order by b.program_id, b.partner_id, b.currency
  for no key update;
  update commissions c set credited_at = now()
  from unnest(due) credited where c.program_id = credited.program_id and c.id = credited.id;
  foreach commission in array due loop
    entry.program_id := commission.program_id;
    entry.partner_id := commission.partner_id;
    entry.currency := commission.currency;
    entry.amount_cents := commission.amount_cents - commission.reversed_cents;
    entry.cause := 'commission_credited';
    entry.commission_id := commission.id;
    perform post_entry(entry);
    if wants_webhook(commission.program_id, 'commission.approved') then
      perform write_webhook(commission.program_id, 'commission.approved', webhook_commission(commission, (
        select s.transaction_id from sales s where s.program_id = commission.program_id and s.id = commission.sale_id
      )) || jsonb_build_object('approved_cents', entry.amount_cents));
    end if;
    -- A hold that ends is nobody's act.
    if acting_user() is not null or acting_key() is not null then
      perform write_program_audit(commission.program_id, 'commission.approved', commission.id::text, null);
    end if;
  end loop;
  approved := cardinality(due);
end $$;

-- Credits commissions whose hold has ended, the longest waiting `at_most` of them. Whether more may wait is answered beside how many it
-- credited: a run that waited for another one finds those of the other credited.
create or replace function approve_due_commissions(at_most integer, out approved integer, out more boolean) language plpgsql as $$
declare
  program_ids bigint[];
  commission_ids bigint[];
begin
  select array_agg(due.program_id), array_agg(due.id), count(*) = at_most into program_ids, commission_ids, more
  from (
    select c.program_id, c.id from commissions c
    where c.hold_until <= now() and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
      -- Until the partner's addresses are hashed, whether the customer is the partner is not known.
      and not exists (
        select from partners r cross join lateral hashes_of_buyer(c.program_id, c.customer_id, c.sale_id) b
        where r.program_id = c.program_id and r.id = c.partner_id and r.email_hashes is null and b.hashes <> '{}'
      )
    order by c.hold_until, c.program_id, c.id limit at_most
  ) due;
  approved := approve_commissions(program_ids, commission_ids);
end $$;
