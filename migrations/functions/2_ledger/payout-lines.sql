-- Decides which entries a payment pays, and therefore which commissions and manual additions are paid.

-- The parts of entries that no payment has paid. Their sum is the balance. Postgres looks up the lines of each entry by their whole key,
-- even if its statistics don't include a partner's many new entries yet.
create or replace view unpaid_entries as
select e.program_id, e.partner_id, e.currency, e.entry_number, e.commission_id, e.adjustment_id,
  (e.amount_cents - coalesce(l.paid_cents, 0))::bigint as unpaid_cents
from balance_entries e
cross join lateral (
  select sum(l.amount_cents) as paid_cents from payout_lines l
  where l.program_id = e.program_id and l.partner_id = e.partner_id and l.currency = e.currency and l.entry_number = e.entry_number
    and not l.is_returned
) l
where e.payout_id is null and e.amount_cents <> coalesce(l.paid_cents, 0);

-- Writes the lines of a payment, which are the oldest credits and the oldest deductions. A deduction waits if the remaining credits
-- would be too small for this payment and the partner's other open payouts with fixed amounts.
create or replace function write_payout_lines(payout payouts, of_payment_number integer) returns void language plpgsql as $$
declare
  written_cents bigint;
begin
  with unpaid as materialized (
    select u.entry_number, abs(u.unpaid_cents) as cents, u.unpaid_cents > 0 as is_credit,
      sum(abs(u.unpaid_cents)) over (partition by u.unpaid_cents > 0 order by u.entry_number) - abs(u.unpaid_cents) as older_cents
    from unpaid_entries u
    where u.program_id = payout.program_id and u.partner_id = payout.partner_id and u.currency = payout.currency
  ),
  deducted as materialized (
    select least(
      coalesce(sum(u.cents) filter (where not u.is_credit), 0),
      greatest(coalesce(sum(u.cents) filter (where u.is_credit), 0) - payout.amount_cents - open_payout_cents(payout), 0)
    ) as cents
    from unpaid u
  ),
  written as (
    insert into payout_lines (program_id, payout_id, payment_number, partner_id, currency, entry_number, amount_cents)
    select payout.program_id, payout.id, of_payment_number, payout.partner_id, payout.currency, u.entry_number,
      case when u.is_credit then 1 else -1 end * least(u.cents, t.cents - u.older_cents)
    from unpaid u
    cross join deducted d
    cross join lateral (select case when u.is_credit then payout.amount_cents + d.cents else d.cents end as cents) t
    where u.older_cents < t.cents
    returning amount_cents
  )
  select sum(w.amount_cents) into written_cents from written w;
  if written_cents is distinct from payout.amount_cents then
    raise exception 'payout % of % has lines of %', payout.id, payout.amount_cents, written_cents using errcode = 'check_violation';
  end if;
  perform mark_paid(payout);
end $$;

-- The sum of the partner's open payouts.
create or replace function open_payout_cents(payout payouts) returns bigint language sql stable
return (
  select coalesce(sum(w.amount_cents), 0)::bigint from payouts w
  where w.program_id = (payout).program_id and w.partner_id = (payout).partner_id and w.currency = (payout).currency and w.decided_at is null
);

-- Marks the commissions and manual additions whose last part this payment paid. A commission stays marked, even if a refund reverses
-- it later.
create or replace function mark_paid(payout payouts) returns void language plpgsql as $$
declare
  paid record;
begin
  select array_agg(distinct l.commission_id) as commission_ids, array_agg(distinct l.adjustment_id) as adjustment_ids into paid
  from payout_line_entries l
  where l.program_id = payout.program_id and l.payout_id = payout.id and not l.is_returned and l.amount_cents > 0;
  -- Each statement adds up the unpaid parts once, because a payment can contain thousands of commissions.
  with unpaid as materialized (
    select u.commission_id, sum(u.unpaid_cents) as cents from unpaid_entries u
    where u.program_id = payout.program_id and u.partner_id = payout.partner_id and u.currency = payout.currency
    group by u.commission_id
  )
  update commissions c set paid_at = now(), payout_id = payout.id
  where c.program_id = payout.program_id and c.id = any (paid.commission_ids) and c.paid_at is null and c.amount_cents > c.reversed_cents
    and not exists (select from unpaid u where u.commission_id = c.id and u.cents > 0);
  with unpaid as materialized (
    select u.adjustment_id from unpaid_entries u
    where u.program_id = payout.program_id and u.partner_id = payout.partner_id and u.currency = payout.currency
      and u.adjustment_id is not null
  )
  update adjustments a set paid_at = now(), payout_id = payout.id
  where a.program_id = payout.program_id and a.id = any (paid.adjustment_ids) and a.paid_at is null and a.amount_cents > 0
    and not exists (select from unpaid u where u.adjustment_id = a.id);
end $$;

-- Releases the lines of a payment that came back. Their commissions and adjustments are no longer paid.
create or replace function return_payout_lines(payout payouts) returns void language plpgsql as $$
declare
  returned record;
begin
  select array_agg(distinct l.commission_id) as commission_ids, array_agg(distinct l.adjustment_id) as adjustment_ids into returned
  from payout_line_entries l
  where l.program_id = payout.program_id and l.payout_id = payout.id and not l.is_returned and l.amount_cents > 0;
  update payout_lines l set is_returned = true where l.program_id = payout.program_id and l.payout_id = payout.id and not l.is_returned;
  update commissions c set paid_at = null, payout_id = null
  where c.program_id = payout.program_id and c.id = any (returned.commission_ids) and c.paid_at is not null;
  update adjustments a set paid_at = null, payout_id = null
  where a.program_id = payout.program_id and a.id = any (returned.adjustment_ids) and a.paid_at is not null;
end $$;
