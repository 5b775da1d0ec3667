-- The only amount that may be paid out: the balance minus the open payouts.
create or replace view payable_balances as
select b.program_id, b.partner_id, b.currency, b.balance_cents, coalesce(w.open_cents, 0)::bigint as open_cents,
  (b.balance_cents - coalesce(w.open_cents, 0))::bigint as payable_cents
from balances b
left join (
  select w.program_id, w.partner_id, w.currency, sum(w.amount_cents) as open_cents from payouts w
  where w.decided_at is null group by w.program_id, w.partner_id, w.currency
) w on w.program_id = b.program_id and w.partner_id = b.partner_id and w.currency = b.currency;

-- Returns whether a payout of this amount waits for a valid tax form of the partner, because the payouts of this calendar year (UTC)
-- would exceed the program's limit.
create or replace function is_held_for_tax_form(of_program_id bigint, of_partner_id bigint, of_currency text, of_cents bigint) returns boolean
language sql stable
return exists (
  select from tax_form_limits l
  where l.program_id = of_program_id and l.currency = of_currency and l.above_cents < of_cents + (
    select coalesce(sum(w.amount_cents), 0) from payouts w
    where w.program_id = of_program_id and w.partner_id = of_partner_id and w.currency = of_currency and (
      w.decided_at is null or w.status = 'paid' and w.paid_on >= date_trunc('year', now() at time zone 'UTC'))
  )
) and not exists (
  select from partners r join tax_forms f on f.user_id = r.user_id
  where r.program_id = of_program_id and r.id = of_partner_id and coalesce(f.expires_on >= (now() at time zone 'UTC')::date, true)
);

-- The payouts and exclusions of a run if it were created now.
create or replace view payouts_due as
select p.program_id, p.partner_id, p.currency, p.payable_cents, coalesce(m.minimum_payout_cents, 0)::bigint as minimum_payout_cents,
  coalesce(r.payout_email, r.email) as payout_address,
  case
    when p.payable_cents < coalesce(m.minimum_payout_cents, 0) then 'below_minimum'
    when coalesce(r.payout_email, r.email) is null then 'no_payout_address'
    when r.payout_waits_until > now() then 'payout_address_changed'
    when l.currency is not null and is_held_for_tax_form(p.program_id, p.partner_id, p.currency, p.payable_cents) then 'no_tax_form'
  end as exclusion_reason
-- Calls in_shadow_mode() once for each program instead of once for each balance. For 4,000 balances, that took a tenth of a second.
from (select g.id from programs g where not in_shadow_mode(g.id)) g
join payable_balances p on p.program_id = g.id and p.payable_cents > 0
join partners r on r.program_id = p.program_id and r.id = p.partner_id
left join minimum_payouts m on m.program_id = p.program_id and m.currency = p.currency
left join tax_form_limits l on l.program_id = p.program_id and l.currency = p.currency;

-- Asks partners with due money and an account for the details that their payout still lacks: a payout address or a tax form. A partner is
-- asked once a day. Returns how many partners it asked.
create or replace function ask_for_missing(of_program_id bigint, of_exclusion_reason text) returns integer language plpgsql as $$
declare
  missing constant text := case of_exclusion_reason when 'no_payout_address' then 'payout_address' when 'no_tax_form' then 'tax_form' end;
  partner_count integer := 0;
  due record;
  of_cause text;
begin
  -- If two people ask at the same time, the partner is asked once.
  perform from programs p where p.id = of_program_id for no key update;
  for due in
    select d.partner_id, min(d.currency) as currency, max(d.payable_cents) as payable_cents from payouts_due d
    join partners r on r.program_id = d.program_id and r.id = d.partner_id and r.user_id is not null
    where d.program_id = of_program_id and d.exclusion_reason = of_exclusion_reason group by d.partner_id order by d.partner_id
  loop
    of_cause := format('%s:%s:%s', missing, due.partner_id, (now() at time zone 'UTC')::date);
    if not exists (
      select from outbox o
      where o.program_id = of_program_id and o.kind = missing || '_needed' and o.audience = 'partner' and o.cause = of_cause
    ) then
      perform write_outbox(of_program_id, missing || '_needed', 'partner', due.partner_id, of_cause,
        jsonb_build_object('amount_cents', due.payable_cents, 'currency', due.currency));
      partner_count := partner_count + 1;
    end if;
  end loop;
  return partner_count;
end $$;

-- Partners with unsettled money, with the state that is closest to payment. Until it is settled, neither their account nor
-- the program's workspace can be deleted.
create or replace view unsettled_partners as
select r.program_id, r.id as partner_id, r.user_id, u.unsettled
from partners r
cross join lateral (
  select case
    when exists (
      select from payouts w where w.program_id = r.program_id and w.partner_id = r.id and w.decided_at is null
    ) then 'open_payout'
    when exists (
      select from balances b where b.program_id = r.program_id and b.partner_id = r.id and b.balance_cents > 0
    ) then 'balance'
    when exists (
      select from commissions c where c.program_id = r.program_id and c.partner_id = r.id
        and c.credited_at is null and c.rejected_at is null and c.reversal <> 'full' and not c.is_shadow
    ) then 'pending_commission'
  end as unsettled
) u
where u.unsettled is not null;

-- Negative balances, which are the debts of partners, with the time when they became negative. An erased partner's debt stays.
create or replace view owed_balances as
select b.program_id, b.partner_id, b.currency, -b.balance_cents as owed_cents, (
    select min(e.created_at) from balance_entries e
    where e.program_id = b.program_id and e.partner_id = b.partner_id and e.currency = b.currency and e.entry_number > (
      select coalesce(max(p.entry_number), 0) from balance_entries p
      where p.program_id = b.program_id and p.partner_id = b.partner_id and p.currency = b.currency and p.balance_after_cents >= 0
    )
  ) as owed_since
from balances b where b.balance_cents < 0;
