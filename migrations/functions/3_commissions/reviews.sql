-- Decisions by people about commissions: releases from review, and rejections.

-- Closes the review of a commission with a decision, its author and its note. The caller has locked the commission.
create or replace function close_review(of_program_id bigint, of_commission_id bigint, of_decision text, because text) returns void
language plpgsql as $$
begin
  update commission_reviews v set decision = of_decision, note = because, decided_at = now(), decided_by = acting_user(),
    decided_by_key = acting_key()
  where v.program_id = of_program_id and v.commission_id = of_commission_id and v.decision is null;
  update commissions c set held_at = null where c.program_id = of_program_id and c.id = of_commission_id;
end $$;

-- Rejects a commission permanently, and reverses the rest of it. `rejectCommission` in lib/money/commissions.ts is its only caller. The
-- outcome is null if the program has no such commission, and `reversed` if refunds left nothing to reject. It is `rejected` if this call or
-- an earlier one rejected the commission.
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
    perform reverse_commission(commission, deduction_cents, null, 'rejection:' || commission.id, 'rejected', of_transaction_id, 'reversal');
  end if;
end $$;

-- Rejects several commissions. Locks all commissions and then all balances, each in the order of their keys. Skips rejected and fully
-- reversed commissions, and other programs' commissions. Returns the number of rejected commissions.
create or replace function reject_commissions(
  of_program_id bigint, commission_ids bigint[], because text, out rejected integer
) language plpgsql as $$
#variable_conflict use_column
declare
  chosen commissions[];
  commission commissions;
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
    perform reject_commission(of_program_id, commission.id, because);
  end loop;
  rejected := cardinality(chosen);
end $$;

-- Decides on held commissions: releases them, so that their hold period continues as usual, or rejects them. Commissions that are no
-- longer held stay unchanged, so if two people decide at once, the first wins. Returns the number of decisions.
create or replace function decide_reviews(
  of_program_id bigint, commission_ids bigint[], of_decision text, because text, out decided integer
) language plpgsql as $$
#variable_conflict use_column
declare
  held_ids bigint[];
begin
  held_ids := array(
    select c.id from commissions c
    where c.program_id = of_program_id and c.id = any (commission_ids) and c.held_at is not null and c.reversal <> 'full'
    order by c.id for no key update
  );
  decided := cardinality(held_ids);
  if of_decision = 'rejected' then
    perform reject_commissions(of_program_id, held_ids, because);
  else
    perform close_review(of_program_id, id, 'released', because) from unnest(held_ids) id;
    perform write_program_audit(of_program_id, 'commission.released', id::text, null) from unnest(held_ids) id;
    if wants_webhook(of_program_id, 'commission.released') then
      perform write_webhook(c.program_id, 'commission.released', webhook_commission(c, s.transaction_id)
        || jsonb_build_object('hold_until', webhook_time(c.hold_until)))
      from commissions c left join sales s on s.program_id = c.program_id and s.id = c.sale_id
      where c.program_id = of_program_id and c.id = any (held_ids);
    end if;
  end if;
end $$;
