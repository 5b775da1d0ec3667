-- Every change of a withdrawal happens under the lock of its partner's balance, reductions by reversals (fit_withdrawals) included. What is
-- read under a lock is read in a statement after the one that took it.

create or replace function note_balance_of_withdrawal() returns trigger language plpgsql as $$
begin
  select coalesce(max(b.entry_count), 0) into new.made_at_entry_number from balances b
  where b.program_id = new.program_id and b.partner_id = new.partner_id and b.currency = new.currency;
  return new;
end $$;
create or replace trigger withdrawals_note_balance before insert on withdrawals
  for each row execute function note_balance_of_withdrawal();

-- Locks a balance and answers what of it may be paid. Nothing is where there was no balance to lock: one that is credited at this moment can be
-- taken back before whoever asks here has committed.
create or replace function locked_payable_cents(of_program_id bigint, of_partner_id bigint, of_currency text) returns bigint
language plpgsql as $$
begin
  perform from balances b
  where b.program_id = of_program_id and b.partner_id = of_partner_id and b.currency = of_currency for no key update;
  if not found then
    return 0;
  end if;
  return (
    select p.payable_cents from payable_balances p
    where p.program_id = of_program_id and p.partner_id = of_partner_id and p.currency = of_currency
  );
end $$;

-- A partner asks for a withdrawal, up to what is payable; `askWithdrawal` in lib/money/withdrawals.ts is its only caller. A request sent
-- twice finds its first withdrawal. Without a withdrawal in the answer, what is payable or the program's minimum did not allow it.
create or replace function ask_withdrawal(
  of_program_id bigint, of_partner_id bigint, of_currency text, asked_cents bigint, request uuid,
  out withdrawal_id bigint, out payable_cents bigint, out minimum_cents bigint
) language plpgsql as $$
#variable_conflict use_column
begin
  payable_cents := locked_payable_cents(of_program_id, of_partner_id, of_currency);
  select w.id into withdrawal_id from withdrawals w
  where w.program_id = of_program_id and w.request_id = request and w.partner_id = of_partner_id;
  select coalesce(max(m.minimum_payout_cents), 0) into minimum_cents from minimum_payouts m
  where m.program_id = of_program_id and m.currency = of_currency;
  if withdrawal_id is null and asked_cents between greatest(minimum_cents, 1) and payable_cents then
    insert into withdrawals (program_id, partner_id, currency, requested_cents, amount_cents, request_id)
    values (of_program_id, of_partner_id, of_currency, asked_cents, asked_cents, request)
    returning id into withdrawal_id;
  end if;
end $$;

-- Locks the balance that a withdrawal is of, and then answers the withdrawal as it stands under that lock.
create or replace function lock_withdrawal(of_program_id bigint, of_withdrawal_id bigint) returns withdrawals
language plpgsql as $$
declare
  withdrawal withdrawals;
begin
  perform from balances b
  where (b.program_id, b.partner_id, b.currency) = (
    select w.program_id, w.partner_id, w.currency from withdrawals w where w.program_id = of_program_id and w.id = of_withdrawal_id
  )
  for no key update;
  select w.* into withdrawal from withdrawals w where w.program_id = of_program_id and w.id = of_withdrawal_id;
  return withdrawal;
end $$;

create or replace function tell_withdrawal(of_kind text, withdrawal withdrawals) returns void language plpgsql as $$
begin
  perform write_outbox(withdrawal.program_id, of_kind, 'partner', withdrawal.partner_id, 'withdrawal:' || withdrawal.id, jsonb_build_object(
    'withdrawal_id', withdrawal.id, 'amount_cents', withdrawal.amount_cents, 'currency', withdrawal.currency,
    'reason', withdrawal.reason, 'reference', withdrawal.reference));
end $$;

-- A partner takes an open withdrawal back. `status` is what it was before; null where the partner has no such withdrawal.
create or replace function cancel_withdrawal(of_program_id bigint, of_partner_id bigint, of_withdrawal_id bigint, out status text)
language plpgsql as $$
#variable_conflict use_column
declare
  withdrawal withdrawals := lock_withdrawal(of_program_id, of_withdrawal_id);
begin
  if withdrawal.partner_id = of_partner_id then
    status := withdrawal.status;
  end if;
  if status = 'requested' then
    update withdrawals w set status = 'cancelled', decided_at = now()
    where w.program_id = of_program_id and w.id = of_withdrawal_id;
  end if;
end $$;

-- The advertiser refuses an open withdrawal. `status` is what it was before; null where the program has none.
create or replace function refuse_withdrawal(
  of_program_id bigint, of_withdrawal_id bigint, because text, out status text
) language plpgsql as $$
#variable_conflict use_column
declare
  withdrawal withdrawals := lock_withdrawal(of_program_id, of_withdrawal_id);
begin
  status := withdrawal.status;
  if status = 'requested' then
    update withdrawals w set status = 'refused', reason = because, decided_at = now()
    where w.program_id = of_program_id and w.id = of_withdrawal_id
    returning w.* into withdrawal;
    perform tell_withdrawal('withdrawal_refused', withdrawal);
  end if;
end $$;

-- What a balance holds after a payment is taken to be the newest of what was credited and not paid before, commissions and what was added by
-- hand; everything older is paid by this withdrawal. So a commission is marked where what was credited after it, not paid and with what
-- refunds left of it, holds at least what the balance still has. One that only a part of was paid waits for the next payment, and once
-- marked it stays marked, also where a refund reverses it later.
create or replace function mark_paid_commissions(withdrawal withdrawals, balance_cents bigint) returns void language plpgsql as $$
begin
  with credit as (
    select c.id as commission_id, null::bigint as adjustment_id, e.entry_number, c.amount_cents - c.reversed_cents as left_cents
    from commissions c
    join balance_entries e on e.program_id = c.program_id and e.cause = 'commission_credited' and e.commission_id = c.id
    where c.program_id = withdrawal.program_id and c.partner_id = withdrawal.partner_id and c.currency = withdrawal.currency
      and c.credited_at is not null and c.paid_at is null and c.amount_cents > c.reversed_cents
    union all
    select null, a.id, e.entry_number, a.amount_cents
    from adjustments a
    join balance_entries e on e.program_id = a.program_id and e.adjustment_id = a.id
    where a.program_id = withdrawal.program_id and a.partner_id = withdrawal.partner_id and a.currency = withdrawal.currency
      and a.paid_at is null and a.amount_cents > 0
  ),
  paid as (
    select * from (
      select *, coalesce(sum(left_cents) over (
        order by entry_number desc rows between unbounded preceding and 1 preceding), 0) as newer_cents
      from credit
    ) unpaid
    where newer_cents >= balance_cents
  ),
  by_hand as (
    update adjustments a set paid_at = now(), withdrawal_id = withdrawal.id
    from paid where a.program_id = withdrawal.program_id and a.id = paid.adjustment_id
  )
  update commissions c set paid_at = now(), withdrawal_id = withdrawal.id
  from paid where c.program_id = withdrawal.program_id and c.id = paid.commission_id;
end $$;

-- Posts the payment of a withdrawal that is open under the lock of its balance.
create or replace function post_withdrawal(withdrawal withdrawals, of_reference text, of_paid_on date) returns void
language plpgsql as $$
begin
  update withdrawals w set status = 'paid', decided_at = now(), reference = of_reference, paid_on = of_paid_on
  where w.program_id = withdrawal.program_id and w.id = withdrawal.id
  returning w.* into withdrawal;
  perform mark_paid_commissions(withdrawal, post_entry(withdrawal.program_id, withdrawal.partner_id, withdrawal.currency,
    -withdrawal.amount_cents, 'withdrawal_paid', of_withdrawal_id => withdrawal.id));
  perform tell_withdrawal('withdrawal_paid', withdrawal);
end $$;

-- Locks what the payment of these withdrawals touches, in the order of every lock here: commissions by id, then balances. A
-- commission that is credited between the two is not locked; that it is also marked and refunded at this moment is one deadlock in a
-- great many payments, which Postgres breaks and the caller repeats.
create or replace function lock_withdrawal_payments(of_program_id bigint, withdrawal_ids bigint[]) returns void language plpgsql as $$
begin
  perform from commissions c
  where c.program_id = of_program_id and c.credited_at is not null and c.paid_at is null
    and exists (
      select from withdrawals w where w.program_id = of_program_id and w.id = any (withdrawal_ids) and w.status = 'requested'
        and w.partner_id = c.partner_id and w.currency = c.currency
    )
  order by c.id for no key update;
  perform from balances b
  where exists (
    select from withdrawals w where w.program_id = of_program_id and w.id = any (withdrawal_ids)
      and w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency
  )
  order by b.program_id, b.partner_id, b.currency for no key update;
end $$;

-- Marks an open withdrawal as paid; `payWithdrawal` in lib/money/withdrawals.ts says how. `status` and `amount_cents` are what they were
-- before: it was paid where the status was `requested` and the amount the transferred one.
create or replace function pay_withdrawal(
  of_program_id bigint, of_withdrawal_id bigint, transferred_cents bigint, of_reference text, of_paid_on date,
  out status text, out amount_cents bigint, out currency text
) language plpgsql as $$
#variable_conflict use_column
declare
  withdrawal withdrawals;
begin
  perform lock_withdrawal_payments(of_program_id, array[of_withdrawal_id]);
  select w.* into withdrawal from withdrawals w where w.program_id = of_program_id and w.id = of_withdrawal_id;
  status := withdrawal.status;
  amount_cents := withdrawal.amount_cents;
  currency := withdrawal.currency;
  if status = 'requested' and amount_cents = transferred_cents then
    perform post_withdrawal(withdrawal, of_reference, of_paid_on);
  end if;
end $$;
