-- Commissions are credited when their hold ends, or when a person approves them.

-- Credits commissions, minus their refunds, to the partners' balances, and returns their number. Skips credited, held, rejected and fully
-- reversed commissions, and everything in shadow mode. If `compares` is true, it also skips commissions whose buyer can't be compared with
-- the partner yet. Locks all commissions and then all balances, each in the order of their keys, so that two calls can't deadlock.
create or replace function credit_commissions(
  program_ids bigint[], commission_ids bigint[], compares boolean default false
) returns integer language plpgsql as $$
declare
  due commissions[];
  commission commissions;
  left_cents bigint;
begin
  -- A program that enters shadow mode waits for this transaction, or this transaction sees that the program has entered it.
  perform from programs p where p.id = any (program_ids) order by p.id for key share;
  -- Every commission is checked before it is credited.
  perform flag_commissions(program_ids, commission_ids);
  select coalesce(array_agg(locked.c), '{}') into due
  from (
    select c from commissions c
    where (c.program_id, c.id) in (select * from unnest(program_ids, commission_ids))
      and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
      and not c.is_shadow and not in_shadow_mode(c.program_id)
    order by c.program_id, c.id
    for no key update of c
  ) locked
  where not (compares and awaits_comparison(locked.c));
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
    left_cents := commission.amount_cents - commission.reversed_cents;
    perform post_entry(commission.program_id, commission.partner_id, commission.currency, left_cents, 'commission_credited', commission.id);
    if wants_webhook(commission.program_id, 'commission.approved') then
      perform write_webhook(commission.program_id, 'commission.approved', webhook_commission(commission, (
        select s.transaction_id from sales s where s.program_id = commission.program_id and s.id = commission.sale_id
      )) || jsonb_build_object('approved_cents', left_cents));
    end if;
    if wants_webhook(commission.program_id, 'commission_approved') then
      perform write_commission_postback('commission_approved', commission, left_cents, null);
    end if;
    -- The audit log records approvals by people and keys, not the end of a hold.
    if acting_user() is not null or acting_key() is not null or commission.hold_until > now() then
      perform write_program_audit(commission.program_id, 'commission.approved', commission.id::text, null);
    end if;
  end loop;
  return cardinality(due);
end $$;

-- Credits up to `at_most` commissions of one program or of all programs whose hold has ended, longest waiting first. `more` is separate from
-- the count, because a run that waited for another one finds those commissions already credited. A program in shadow mode can have any number
-- of waiting commissions, so the programs are read once.
create or replace function approve_due_commissions(
  at_most integer, of_program_id bigint default null, out approved integer, out more boolean
) language plpgsql as $$
declare
  program_ids bigint[];
  commission_ids bigint[];
begin
  select array_agg(due.program_id), array_agg(due.id), count(*) = at_most into program_ids, commission_ids, more
  from (
    select c.program_id, c.id from commissions c
    where c.hold_until <= now() and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and c.held_at is null
      and not c.is_shadow and (c.program_id = of_program_id or of_program_id is null)
      and c.program_id <> all (array(select p.id from programs p where p.shadow_since is not null and in_shadow_mode(p.id)))
      and not awaits_comparison(c)
    order by c.hold_until, c.program_id, c.id limit at_most
  ) due;
  approved := credit_commissions(program_ids, commission_ids, true);
end $$;
