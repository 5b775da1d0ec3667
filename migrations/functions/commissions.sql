-- Changes by how much a commission is reversed, in everything that depends on it; `reverseCommissions` in lib/money/commissions.ts
-- says what is given. Returns the ids of the outbox rows it wrote.
create or replace function reverse_commission(
  of_program_id bigint, of_commission_id bigint, by_refund_id bigint, by_cause text, delta_cents bigint, new_reversal text,
  new_rejected_at timestamptz, because text, of_transaction_id text, notice text
) returns bigint[] language plpgsql as $$
#variable_conflict use_column
declare
  commission commissions;
  balance balances;
  withdrawal withdrawals;
  open_cents bigint;
  cut_cents bigint;
  told bigint;
  outbox_ids bigint[] := '{}';
begin
  update commissions c set reversed_cents = c.reversed_cents + delta_cents, reversal = new_reversal, reason = because,
    rejected_at = coalesce(c.rejected_at, new_rejected_at)
  where c.program_id = of_program_id and c.id = of_commission_id
  returning c.* into strict commission;

  if delta_cents <> 0 then
    perform count_money(of_program_id, commission.created_at, commission.currency, 0, 0, -delta_cents);
  end if;

  if notice = 'reversal' then
    insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values (of_program_id, case new_reversal when 'full' then 'commission_reversed' else 'commission_refunded' end, 'partner',
      commission.partner_id, by_cause, jsonb_build_object(
        'commission_id', of_commission_id, 'transaction_id', of_transaction_id, 'amount_cents', delta_cents,
        'currency', commission.currency, 'reason', because, 'deducted', commission.credited_at is not null))
    returning id into told;
    outbox_ids := outbox_ids || told;
  end if;
  if notice = 'dispute_reinstated' or notice = 'reversal' and commission.paid_at is not null then
    insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values (of_program_id, case notice when 'reversal' then 'paid_commission_reversed' else notice end, 'advertiser',
      commission.partner_id, by_cause, jsonb_build_object(
        'commission_id', of_commission_id, 'transaction_id', of_transaction_id, 'amount_cents', abs(delta_cents),
        'currency', commission.currency, 'reason', because))
    returning id into told;
    outbox_ids := outbox_ids || told;
  end if;
  if commission.credited_at is null or delta_cents = 0 then
    return outbox_ids;
  end if;

  select b.* into strict balance from balances b
  where b.program_id = of_program_id and b.partner_id = commission.partner_id and b.currency = commission.currency;
  balance.balance_cents := balance.balance_cents - delta_cents;
  balance.entry_count := balance.entry_count + 1;
  insert into balance_entries (program_id, partner_id, currency, entry_number, amount_cents, balance_before_cents,
    balance_after_cents, cause, commission_id, refund_id)
  values (of_program_id, commission.partner_id, commission.currency, balance.entry_count, -delta_cents,
    balance.balance_cents + delta_cents, balance.balance_cents,
    case when delta_cents > 0 then 'commission_reversed' else 'reversal_returned' end, of_commission_id, by_refund_id);
  update balances b set balance_cents = balance.balance_cents, entry_count = balance.entry_count
  where b.program_id = of_program_id and b.partner_id = commission.partner_id and b.currency = commission.currency;

  -- Open withdrawals that the balance no longer covers are reduced to fit, the newest first. They change under their balance's
  -- lock only, so they need none of their own.
  select sum(w.amount_cents) - greatest(balance.balance_cents, 0) into open_cents from withdrawals w
  where w.program_id = of_program_id and w.partner_id = commission.partner_id and w.currency = commission.currency
    and w.status = 'requested';
  if open_cents is null or open_cents <= 0 then
    return outbox_ids;
  end if;
  for withdrawal in
    select w.* from withdrawals w
    where w.program_id = of_program_id and w.partner_id = commission.partner_id and w.currency = commission.currency
      and w.status = 'requested'
    order by w.id desc
  loop
    exit when open_cents <= 0;
    cut_cents := least(withdrawal.amount_cents, open_cents);
    open_cents := open_cents - cut_cents;
    update withdrawals w set amount_cents = w.amount_cents - cut_cents,
      status = case when w.amount_cents = cut_cents then 'cancelled' else w.status end,
      decided_at = case when w.amount_cents = cut_cents then now() else w.decided_at end
    where w.program_id = of_program_id and w.id = withdrawal.id;
    insert into outbox (program_id, kind, audience, partner_id, cause, payload)
    values (of_program_id, 'withdrawal_reduced', 'partner', commission.partner_id, by_cause || ':withdrawal:' || withdrawal.id,
      jsonb_build_object(
        'withdrawal_id', withdrawal.id, 'amount_cents', withdrawal.amount_cents - cut_cents, 'reduced_by_cents', cut_cents,
        'currency', commission.currency, 'transaction_id', of_transaction_id, 'reason', because))
    returning id into told;
    outbox_ids := outbox_ids || told;
  end loop;
  return outbox_ids;
end $$;
