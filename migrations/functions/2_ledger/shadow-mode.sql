-- Refuses credits, adjustments and payouts in shadow mode. Reversals of earlier credits remain possible. A program that enters
-- shadow mode waits for credits that began before. A restored backup contains its earlier credits.
create or replace function refuse_credit_in_shadow_mode() returns trigger language plpgsql as $$
begin
  if current_setting('svc.restoring', true) = 'on' then
    return new;
  end if;
  perform from programs p where p.id = new.program_id for key share;
  if in_shadow_mode(new.program_id) then
    raise exception 'the program is in shadow mode' using errcode = 'restrict_violation', constraint = 'programs_not_in_shadow_mode';
  end if;
  return new;
end $$;
create or replace trigger balance_entries_not_in_shadow_mode before insert on balance_entries
  for each row when (new.cause in ('commission_credited', 'adjusted', 'payout_paid') or new.cause = 'opening_balance' and new.amount_cents > 0)
  execute function refuse_credit_in_shadow_mode();
create or replace trigger payouts_not_in_shadow_mode before insert on payouts
  for each row execute function refuse_credit_in_shadow_mode();

-- Enters shadow mode. `outcome` is `entered`, `known` if the program was in shadow mode already, `paid_out` if it has a payout, or null if there
-- is no such program. `enterShadowMode` in lib/programs/shadow-mode.ts is its only caller.
create or replace function enter_shadow_mode(of_program_id bigint, out outcome text) language plpgsql as $$
begin
  perform from programs p where p.id = of_program_id for update;
  if not found then
    return;
  end if;
  if in_shadow_mode(of_program_id) then
    outcome := 'known';
  elsif exists (select from payouts w where w.program_id = of_program_id and w.status not in ('refused', 'canceled')) then
    outcome := 'paid_out';
  else
    -- This comes after the lock, so that every earlier credit has an earlier date.
    update programs p set shadow_since = clock_timestamp(), shadow_ended_at = null,
      earlier_shadow_times = p.earlier_shadow_times
        + case when p.shadow_since is null then '{}' else tstzmultirange(tstzrange(p.shadow_since, p.shadow_ended_at)) end
    where p.id = of_program_id;
    perform write_program_audit(of_program_id, 'shadow_mode.entered', null, null);
    outcome := 'entered';
  end if;
end $$;

-- Leaves shadow mode. The program credits the commissions of later sales. Shadow-mode commissions stay uncredited, because the former
-- service pays them. Does nothing outside shadow mode. `leaveShadowMode` in lib/programs/shadow-mode.ts is its only caller.
create or replace function leave_shadow_mode(of_program_id bigint) returns void language plpgsql as $$
begin
  perform from programs p where p.id = of_program_id for update;
  if in_shadow_mode(of_program_id) then
    update programs p set shadow_ended_at = clock_timestamp() where p.id = of_program_id;
    perform write_program_audit(of_program_id, 'shadow_mode.left', null, jsonb_build_object('commissions', (
      select count(*) from commissions c where c.program_id = of_program_id and c.is_shadow)));
  end if;
end $$;
