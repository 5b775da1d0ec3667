-- Sets the status of a commission and refuses an inconsistent row. It is a trigger because Postgres compiles a table's CHECKs and generated
-- columns again in every statement that writes the table.
create or replace function keep_commission_sound() returns trigger language plpgsql as $$
begin
  -- A new commission for a sale or a lead. One expression is cheaper than several.
  if new.reversal = 'none' and new.reversed_cents = 0 and new.status = 'pending' and new.amount_cents > 0 and (new.kind = 'sale') = (new.sale_id is not null)
    and num_nonnulls(new.credited_at, new.paid_at, new.payout_id, new.rejected_at) = 0 then
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
    raise check_violation using message = 'A sale commission needs a sale, and a lead commission must not have one.';
  end if;
  if new.reversed_cents > new.amount_cents
    or new.amount_cents = 0 and new.reversal <> 'full'
    or new.reversal = 'none' and new.rejected_at is null and new.reversed_cents > 0
    or (new.reversal = 'full' or new.rejected_at is not null) and new.reversed_cents < new.amount_cents then
    raise check_violation using message = 'The reversed amount of a commission must match its reversal.';
  end if;
  if new.held_at is not null and num_nonnulls(new.credited_at, new.rejected_at) > 0 then
    raise check_violation using message = 'A held commission is neither credited nor rejected before a decision.';
  end if;
  if new.is_shadow and new.credited_at is not null then
    raise check_violation using message = 'A commission of shadow mode is never credited.';
  end if;
  if new.paid_at is not null and new.credited_at is null or num_nulls(new.paid_at, new.payout_id) = 1 then
    raise check_violation using message = 'A paid commission was credited, and names the payout that paid it.';
  end if;
  return new;
end $$;
create or replace trigger commissions_sound before insert or update on commissions
  for each row execute function keep_commission_sound();

-- Adds a change in a commission's remaining amount to the totals of its day. No total includes shadow mode.
create or replace function count_commission_change(commission commissions, more_cents bigint) returns void language plpgsql as $$
begin
  if not commission.is_shadow then
    perform count_money(commission.program_id, commission.customer_id, commission.partner_id, commission.created_at, commission.currency, 0, 0,
      more_cents, of_code_id => commission.code_id);
  end if;
end $$;

-- Creates a commission. Its hold begins now. It belongs to shadow mode if the program was in shadow mode when the sale was paid (`of_date`) or
-- recorded (`of_time`), because the former service pays for both.
create or replace function create_commission(
  of_program_id bigint, of_kind text, of_partner_id bigint, of_customer_id bigint, of_currency text, of_cents bigint,
  of_sale_id bigint default null, of_code_id bigint default null, of_lead_rule_id bigint default null, of_review_reason text default null,
  of_time timestamptz default now(), of_date timestamptz default now()
) returns commissions language plpgsql as $$
declare
  commission commissions;
begin
  insert into commissions (program_id, kind, partner_id, customer_id, sale_id, code_id, currency, amount_cents, review_reason, lead_rule_id,
    hold_until, is_shadow)
  select p.id, of_kind, of_partner_id, of_customer_id, of_sale_id, of_code_id, of_currency, of_cents, of_review_reason, of_lead_rule_id,
    now() + make_interval(hours => 24 * p.hold_days), was_in_shadow_mode(p, of_time) or was_in_shadow_mode(p, of_date)
  from programs p where p.id = of_program_id
  returning * into commission;
  return commission;
end $$;
